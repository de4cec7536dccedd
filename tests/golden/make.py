"""Adds the figures of cases that have none: `python -m tests.golden.make [PREFIX ...]`.

Those that are stored are of commit bc05050 under JAX 0.10.2, and stay as they are.
"""

import sys
import time

from tests import conftest  # noqa: F401  # compiles as the tests do
from tests.golden import values
from tests.golden.cases import CASES


def main(prefixes: list[str]) -> None:
  stored = values.load()
  for name, case in CASES.items():
    if name in stored or (prefixes and not name.startswith(tuple(prefixes))):
      continue
    start = time.perf_counter()
    stored[name] = case.compute()
    print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
    values.save(stored)


if __name__ == "__main__":
  main(sys.argv[1:])
