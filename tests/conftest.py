"""Fixtures that every test file may use."""

import os
from pathlib import Path

import jax
import pytest

# Most of the tests' time is compilation, and XLA's older emitters take half as long. Only in this
# process: programs that tests start compile as users' do.
_FLAGS = os.environ.get("XLA_FLAGS")
os.environ["XLA_FLAGS"] = f"{_FLAGS or ''} --xla_cpu_use_fusion_emitters=false".lstrip()

# Linux lets a process map memory some 65,000 times. XLA maps a few pieces for every program that it
# compiles, and crashes where it gets no more; a thousand tests would come close.
_MAPS = Path("/proc/self/maps")
_MOST_MAPS = 12_000

# Commands that tests call in this process would else make devices of the cores. XLA reads its flags
# here.
jax.devices()
if _FLAGS is None:
  del os.environ["XLA_FLAGS"]
else:
  os.environ["XLA_FLAGS"] = _FLAGS


@pytest.fixture
def x64():
  """Runs the test in float64: trees that are built inside it hold doubles."""
  with jax.enable_x64(True):
    yield


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
  """Drops compiled programs between test files once there are very many."""
  yield
  if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
    jax.clear_caches()
