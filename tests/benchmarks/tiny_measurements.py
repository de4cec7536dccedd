"""Measurements that take no time, crash, or wait: what `benchmarks.machine` must cope with."""

import os
import signal
import time
from functools import partial
from pathlib import Path

from benchmarks.measurements import Measurement

FOLDER = "TINY_MEASUREMENTS"  # environment variable: where measurements say that they ran


def ran(name: str) -> int:
  """Notes that a measurement runs; returns how often it did."""
  path = Path(os.environ[FOLDER]) / name
  with path.open("a") as file:
    file.write(f"{os.getpid()}\n")
  return len(path.read_text().splitlines())


def quick(rate: float) -> dict:
  ran(f"quick {rate:g}")
  return {"benchmark": "tiny", "rate": rate}


def crash() -> dict:
  ran("crash")
  print("out of memory", flush=True)
  os.kill(os.getpid(), signal.SIGKILL)
  raise AssertionError


def fail() -> dict:
  ran("fail")
  raise ValueError("nothing to measure\nand more")


def wait_once() -> dict:
  """Waits for a minute the first time."""
  if ran("wait") == 1:
    time.sleep(60)
  return {"benchmark": "tiny", "rate": 3.0}


def make(name, run, value, seconds=1.0, **others) -> Measurement:
  return Measurement(name, run, {"rate": "things/s"}, value, seconds, seconds, **others)


MEASUREMENTS = (
  make("slow way", partial(quick, 2.0), value=1),
  make("crashes", crash, value=6),
  make("fast way", partial(quick, 4.0), value=4, rival="slow way"),
  make("fails", fail, value=5),
  make("elsewhere", partial(quick, 9.0), value=9, device="no such device"),
  make("waits", wait_once, value=2),
  make("too long", partial(quick, 8.0), value=0.5, seconds=1e6),
)
