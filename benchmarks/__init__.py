"""Measurements that a user runs: `python -m benchmarks.NAME`; `machine` runs most of them."""

import rebel_jax  # noqa: F401 - first, so that Ctrl-C ends a command while it is loaded
