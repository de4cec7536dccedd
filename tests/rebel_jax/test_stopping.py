"""What ends a run from outside, at any moment: one sentence, the right exit code, a checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rebel_jax import train as cli
from rebel_jax.runs.display import Display
from rebel_jax.runs.run import _Run, train
from rebel_jax.runs.stopping import CLOSED_PIPE, Interrupted, Signals
from rebel_jax.training.loop import MOST_STEPS, Trainer
from tests.rebel_jax.test_checkpoint import assert_same_run
from tests.tiny import TINY, as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """A run of one row."""
  folder = tmp_path_factory.mktemp("whole")
  train(*tiny(folder, report_every=1_000))
  return folder


def test_a_run_ends_where_it_is_to_end_however_seldom_it_reports(whole):
  assert [row["step"] for row in rows(whole)] == [8]
  assert rows(whole)[0]["examples"] == 64
  # All of it is in the one row: the mean over what the rows of the usual run say.
  usual = [row["value_error"] for row in rows(trained())]
  assert rows(whole)[0]["value_error"] == pytest.approx(sum(usual) / len(usual), rel=1e-12)
  assert rows(whole)[0]["gradient_steps"] == rows(trained())[-1]["gradient_steps"]


def call_sizes(monkeypatch, most=None, before=lambda step: None):
  """Returns the list of the steps that calls of the compiled loop take, each at most `most`."""
  taken, run = [], Trainer.run

  def counted(self, table, state, num_steps, mesh):
    before(int(state.step))
    taken.append(num_steps)
    return run(self, table, state, num_steps, mesh)

  monkeypatch.setattr(Trainer, "run", counted)
  if most is not None:
    monkeypatch.setattr("rebel_jax.runs.run.MOST_STEPS", most)
  return taken


@pytest.mark.parametrize("most", [1, 3])
def test_rows_do_not_depend_on_where_calls_end(tmp_path, whole, monkeypatch, most):
  taken = call_sizes(monkeypatch, most)
  train(*tiny(tmp_path, report_every=1_000))
  assert max(taken) <= most
  assert sum(taken) == 8
  assert_same_run(tmp_path, whole, report_every=1_000)


def test_calls_are_about_a_second_long(tmp_path, monkeypatch):
  """Here steps seem to take a quarter of a second each, and later four seconds."""
  clock, slow = [0.0], [0.25]
  taken = call_sizes(monkeypatch)
  timed = Trainer.run

  def run(self, table, state, num_steps, mesh):
    clock[0] += slow[0] * num_steps
    slow[0] = 4.0 if int(state.step) > 40 else slow[0]
    return timed(self, table, state, num_steps, mesh)

  monkeypatch.setattr(Trainer, "run", run)
  monkeypatch.setattr("rebel_jax.runs.run.time", type("Clock", (), {"monotonic": lambda: clock[0]}))
  train(*tiny(tmp_path, examples=8 * 60, report_every=10_000, evaluate_every=0))
  assert taken[:3] == [1, 2, 4]
  assert set(taken[3:10]) == {4}
  assert taken[-5:] == [1] * 5


def test_more_steps_than_a_call_takes_are_refused():
  with pytest.raises(ValueError, match=r"^num_steps=257 must be at most 256"):
    Trainer.run(None, None, None, MOST_STEPS + 1, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_chunk(tmp_path, whole, monkeypatch, number):
  """It is looked at within a call or two, and the row is resumed in the middle."""

  def interrupt(step):
    if step == 3:
      os.kill(os.getpid(), number)

  with monkeypatch.context() as patch:
    call_sizes(patch, 1, interrupt)
    result = train(*tiny(tmp_path, report_every=1_000))
  assert (result.signal, result.row["step"]) == (number, 4)
  assert [row["step"] for row in rows(tmp_path)] == [4]  # until the resumed run writes it anew
  train(*tiny(tmp_path, report_every=1_000, resume=True))
  assert_same_run(tmp_path, whole, report_every=1_000)


def test_time_that_runs_out_in_the_middle_of_a_chunk(tmp_path, monkeypatch):
  """The row is cut there and the run ends well; resumed, it goes on to its whole length."""
  call_sizes(monkeypatch, 1)
  monkeypatch.setattr(_Run, "_over", lambda self: self.step >= 5)
  assert train(*tiny(tmp_path, report_every=1_000)).row["step"] == 5
  assert rows(tmp_path)[-1]["playthroughs"] == TINY.search.final_playthroughs
  monkeypatch.undo()
  train(*tiny(tmp_path, report_every=1_000, resume=True))
  assert [row["step"] for row in rows(tmp_path)] == [5, 8]


def test_a_second_signal_does_what_it_did_before():
  with Signals() as signals:
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.received == signal.SIGINT
    for _ in range(2):  # as a terminal that closes may do
      os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_are_ignored_stay_so():
  """As under nohup."""
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  try:
    with Signals() as signals:
      os.kill(os.getpid(), signal.SIGHUP)
    assert signals.received == 0
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
  finally:
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_compiles(tmp_path, monkeypatch, capsys, number):
  """Nothing is there to save, so nothing is written."""
  init = Trainer.init

  def interrupted(self, *arguments):
    os.kill(os.getpid(), number)
    return init(self, *arguments)

  monkeypatch.setattr(Trainer, "init", interrupted)
  with pytest.raises(Interrupted) as caught:
    train(*tiny(tmp_path / "run"))
  assert caught.value.signal == number
  assert cli.main([*as_flags(), "--output-dir", str(tmp_path / "run")]) == 128 + number
  assert capsys.readouterr().err == "interrupted before a checkpoint could be saved\n"
  assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 3.0, 6.0, 9.0])
def test_ctrl_c_at_any_moment_of_the_command(tmp_path, seconds):
  """While it imports the system ends it; from then on there is a sentence. No traceback, ever."""
  environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
  command = [sys.executable, ROOT / "train.py", *as_flags(), "--output-dir", tmp_path / "run"]
  with subprocess.Popen(
    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
  assert process.returncode in (-signal.SIGINT, 130)
  assert "Traceback" not in err
  if process.returncode == 130:
    assert "saved at step" in out or err == "interrupted before a checkpoint could be saved\n"


def test_standard_output_that_is_closed(tmp_path):
  """As by `train.py | head -1`."""
  with subprocess.Popen(
    [sys.executable, ROOT / "train.py", *as_flags(), "--output-dir", tmp_path / "run"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
  ) as process:  # fmt: skip
    assert "kuhn_poker on" in process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
  assert process.returncode == 128 + CLOSED_PIPE
  assert err.startswith("standard output was closed, so training stopped; go on with: python train")
  assert err.count("\n") == 1
  train(*tiny(tmp_path / "run", resume=True))
  assert_same_run(tmp_path / "run", trained())


def test_a_terminal_that_is_gone(monkeypatch):
  """Writing to it fails in another way than to a pipe."""
  display = Display()

  def gone(*_, **__):
    raise OSError(5, "Input/output error")

  monkeypatch.setattr(display.console, "print", gone)
  display.say("nobody reads this")
  assert display.closed
  assert display.console.quiet


# Address space for what has been loaded so far and some more.
LITTLE_MEMORY = """
import resource, sys
from rebel_jax import train as cli
from rebel_jax.training.loop import Trainer
import rebel_jax.runs.run

def limit():
  now = 1024 * int(open("/proc/self/status").read().split("VmSize:")[1].split()[0])
  resource.setrlimit(resource.RLIMIT_AS, (now + 2**30,) * 2)

method = getattr(Trainer, sys.argv[1])
def limited(*arguments):
  limit()
  return method(*arguments)
setattr(Trainer, sys.argv[1], limited)
sys.exit(cli.main(sys.argv[2:]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for its size")
@pytest.mark.parametrize(
  ("method", "changes", "code", "sentence"),
  [
    (
      "init", {"buffer_size": 2**31 - 1}, 2,
      "lanes=4 with width=32 and buffer_size=2147483647 must fit",
    ),
    pytest.param(
      "init", {"width": 2**16}, 2, "lanes=4 with width=65536 and buffer_size=256 must fit",
      marks=pytest.mark.slow,
    ),
    pytest.param(
      "run", {"lanes": 2**21, "buffer_size": 2**22, "uses_per_example": 1e-6}, 1,
      "lanes=2097152 with width=32 and buffer_size=4194304 must fit", marks=pytest.mark.slow,
    ),
  ],
  ids=["buffer", "width", "lanes"],
)  # fmt: skip
def test_memory_that_really_does_not_suffice(tmp_path, method, changes, code, sentence):
  """Arrays are made in the background: whoever asks for a number of theirs waits for ever."""
  flags = [*as_flags(**changes), "--output-dir", str(tmp_path / "run"), "--num-devices", "1"]
  result = subprocess.run(
    [sys.executable, "-c", LITTLE_MEMORY, method, *flags],
    cwd=ROOT, capture_output=True, text=True, timeout=300,
  )  # fmt: skip
  assert result.stderr.startswith(f"error: {sentence}")
  assert result.stderr.count("\n") == 1
  assert result.returncode == code
  assert (tmp_path / "run").exists() == (code == 1)
