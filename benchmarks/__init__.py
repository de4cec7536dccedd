"""Measurements that a user runs: `python -m benchmarks.NAME`; `machine` runs most of them."""
