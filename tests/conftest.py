"""Fixtures that every test file may use, and the seconds of each file at the end of a run."""

import collections
import contextlib
import gc
import os
import signal
import sys
from pathlib import Path
from unittest import mock

import jax
import pytest

# Most of the tests' time is compilation, which these more than halve. Programs that tests start
# inherit them and so compute the same bit for bit. `XLA_FLAGS= pytest` compiles as users do. XLA
# ends a process at a flag that it does not know: releases that were not tried get none.
_FLAGS = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
# A GPU computes the same bit for bit only so, as a run that goes on has to.
_FLAGS += ["--xla_gpu_deterministic_ops=true", "--xla_gpu_enable_triton_gemm=false"]
if jax.__version_info__ < (0, 11):
  _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
if jax.__version_info__ < (0, 13):
  os.environ.setdefault("XLA_FLAGS", " ".join(_FLAGS))

# Several processes share a GPU, where there is one: each takes what it needs.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from rebel_jax import devices  # noqa: E402  # adds a flag to those above
from solvers import tuning  # noqa: E402

# Devices that would round a network's products keep to the figures of those that do not.
jax.config.update("jax_default_matmul_precision", "float32")

# Tracing makes so many objects that looking for cycles among all of them takes an eighth of the
# time.
gc.set_threshold(200_000)

# Where the tests were run before, most of what is left need not be compiled again.
devices.enable_cache()

# Linux lets a process map memory some 65,000 times. XLA maps a few pieces for every program that it
# compiles, and crashes where it gets no more; a thousand tests would come close.
_MAPS = Path("/proc/self/maps")
_MOST_MAPS = 12_000

# Signals that tests send to themselves are ignored in what a shell starts in the background, or
# `nohup`.
for _name in ("SIGINT", "SIGTERM", "SIGHUP"):
  _number = getattr(signal, _name, None)
  if _number is not None and signal.getsignal(_number) == signal.SIG_IGN:
    signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

# Commands that tests call in this process would else make devices of the cores. XLA reads its flags
# here.
jax.devices()


def pytest_xdist_auto_num_workers():
  """Returns one worker where tests run on an accelerator, whose memory they would share."""
  return None if tuning.on_cpu() else 1


@pytest.fixture(autouse=True, scope="session")
def runs_of_the_session(tmp_path_factory):
  """Gives all workers of a session one folder of trained runs."""
  base = tmp_path_factory.getbasetemp()
  base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
  os.environ["REBEL_JAX_TEST_RUNS"] = str(base / "runs")


def pytest_terminal_summary(terminalreporter):
  """Prints the seconds of each file, most first: the tests' time is compilation, file by file."""
  seconds = collections.Counter()
  for reports in terminalreporter.stats.values():
    for report in reports:
      if isinstance(report, pytest.TestReport):
        seconds[report.nodeid.partition("::")[0]] += report.duration
  terminalreporter.section(f"{seconds.total():.0f} seconds")
  for name, spent in seconds.most_common():
    if spent >= 1:
      terminalreporter.line(f"{spent:6.1f} s  {name}")


@pytest.fixture
def x64():
  """Runs the test in float64: trees that are built inside it hold doubles."""
  with jax.enable_x64(True):
    yield


@pytest.fixture
def strictly():
  """Arrays of JAX promote neither types nor ranks."""
  with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
    yield


@pytest.fixture
def cpu():
  """Runs the test on a CPU, also where devices are others: it is about what a CPU is given."""
  with jax.default_device(None if tuning.on_cpu() else jax.devices("cpu")[0]):
    yield


@pytest.fixture
def accelerator(monkeypatch):
  """Has a CPU trace what an accelerator would be given."""
  monkeypatch.setattr(tuning, "platform", lambda: "gpu")
  jax.clear_caches()
  yield
  jax.clear_caches()


@pytest.fixture
def own_registry(monkeypatch):
  """Keeps parts of its own that a page or a module adds from other tests."""
  import games.game
  from rebel_jax.config import allowed
  from rebel_jax.training import targets

  monkeypatch.setattr(targets, "TARGETS", targets.TARGETS)
  with contextlib.ExitStack() as stack:
    for known in (games.game._REGISTRY, *allowed._KINDS.values()):
      stack.enter_context(mock.patch.dict(known))
    yield


@pytest.fixture
def figures():
  """Lets the runs of a test draw their figure."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
  """Keeps runs from drawing, which takes as long as all else that a tiny run does."""
  if "figures" not in request.fixturenames and "rebel_jax.runs.run" in sys.modules:
    monkeypatch.setattr("rebel_jax.runs.run.plot_exploitability", lambda *_, **__: None)


@pytest.fixture(autouse=True)
def no_old_objects_in_collections():
  """Has a run's own `gc.collect()` pass over all that is older than the test, or it takes 1 s."""
  gc.freeze()


def pytest_runtest_teardown(item, nextitem):
  """Drops compiled programs once there are very many, between files and after slow tests."""
  ends = nextitem is None or nextitem.path != item.path or item.get_closest_marker("slow")
  if ends and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
    jax.clear_caches()
    gc.unfreeze()
    gc.collect()
