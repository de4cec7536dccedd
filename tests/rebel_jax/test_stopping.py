"""What ends a run from outside, at any moment: one sentence, the right exit code, a checkpoint."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import pytest

from rebel_jax import train as cli
from rebel_jax.config.config import Config
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs import run as run_module
from rebel_jax.runs.display import CLOSED_PIPE, Interrupted, RunError, Signals
from rebel_jax.runs.metrics import Pace
from rebel_jax.runs.run import _Run, train
from rebel_jax.training.loop import Trainer
from rebel_jax.training.targets import Decay
from tests.rebel_jax.test_checkpoint import assert_same_run
from tests.tiny import TINY, as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[2]


@pytest.fixture
def whole():
  """A run of one row."""
  return trained("whole", TINY.replace(report_every=1_000))


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


def test_calls_are_about_a_second_long(tmp_path, monkeypatch):
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


def test_a_signal_in_the_middle_of_a_chunk(tmp_path, whole, monkeypatch):
  def interrupt(step):
    if step == 3:
      os.kill(os.getpid(), signal.SIGHUP)

  with monkeypatch.context() as patch:
    call_sizes(patch, 1, interrupt)
    result = train(*tiny(tmp_path, report_every=1_000))
  assert (result.signal, result.row["step"]) == (signal.SIGHUP, 3)
  assert [row["step"] for row in rows(tmp_path)] == [3]  # until the resumed run writes it anew
  train(*tiny(tmp_path, report_every=1_000, resume=True))
  assert_same_run(tmp_path, whole, report_every=1_000)


def test_a_second_signal_does_what_it_did_before():
  with Signals() as signals:
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.received == signal.SIGINT
    for _ in range(2):  # as a terminal that closes may do
      os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_while_it_compiles(tmp_path, monkeypatch, capsys):
  init = Trainer.init

  def interrupted(self, *arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return init(self, *arguments)

  monkeypatch.setattr(Trainer, "init", interrupted)
  with pytest.raises(Interrupted) as caught:
    train(*tiny(tmp_path / "run"))
  assert caught.value.signal == signal.SIGTERM
  assert cli.main([*as_flags(), "--output-dir", str(tmp_path / "run")]) == 128 + signal.SIGTERM
  assert capsys.readouterr().err == "interrupted before a checkpoint could be saved\n"
  assert list(tmp_path.iterdir()) == []


def test_standard_output_that_is_closed(tmp_path, monkeypatch, capsys):
  (reader, writer), said = os.pipe(), []

  def head():
    with os.fdopen(reader) as lines:
      said.extend(lines.readline() for _ in range(2))

  threading.Thread(target=head, daemon=True).start()
  monkeypatch.setattr(sys, "argv", ["train.py"])
  monkeypatch.setattr(sys, "stdout", os.fdopen(writer, "w"))
  assert cli.main([*as_flags(), "--output-dir", str(tmp_path / "run")]) == 128 + CLOSED_PIPE
  assert [line.split()[1] for line in said] == ["preparing", "on"]
  err = capsys.readouterr().err
  assert err.startswith("standard output was closed, so training stopped; go on with: python train")
  assert err.count("\n") == 1
  train(*tiny(tmp_path / "run", resume=True))
  assert_same_run(tmp_path / "run", trained())


@pytest.mark.parametrize("ends", [Interrupted, RunError("the exploitability is nan"), None])
def test_all_processes_leave_an_evaluation_alike(ends, monkeypatch):
  row = {"exploitability": 0.1}

  def measure(self, final):
    if ends is not None:
      raise ends
    return row

  def evaluate():
    """Returns what one process's evaluation comes to."""
    run = object.__new__(_Run)
    run.examples, run.signals = 8, Signals()
    try:
      return run._evaluate(final=True)
    except (Interrupted, RunError) as error:
      return type(error)

  decisions = []
  monkeypatch.setattr(_Run, "_measure", measure)
  monkeypatch.setattr(run_module.devices, "agree", lambda asked: decisions.append(asked) or asked)
  first = evaluate()
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(run_module.devices, "agree", lambda asked: decisions.pop(0))
  second = evaluate()
  assert decisions == []
  expected = ends if ends in (Interrupted, None) else RunError
  assert (first, second) == ((row, {}) if expected is None else (expected, expected))


class Clock:
  """Time that passes with the steps of training alone, ten seconds each."""

  def __init__(self, monkeypatch):
    self.now = 0.0
    self.trainers = set()
    run = Trainer.run

    def timed(trainer, table, state, num_steps, mesh):
      self.now += 10.0 * num_steps
      self.trainers.add(trainer)
      is_decay = lambda x: isinstance(x, Decay)  # noqa: E731
      states = jax.tree.leaves(state.optimizer_state, is_leaf=is_decay)
      self.decay_steps = next(int(x.steps) for x in states if is_decay(x))
      return run(trainer, table, state, num_steps, mesh)

    monkeypatch.setattr(Trainer, "run", timed)
    monkeypatch.setattr(run_module, "time", self)

  def monotonic(self):
    return self.now


@pytest.mark.parametrize(
  ("limit", "steps", "planned"),
  # Of 300 s the 120 after step 18 are spent carefully; in 30 s there is nothing left to plan.
  [(600.0, 40, 40), (300.0, 28, 28), (30.0, 3, 40)],
)
def test_a_run_whose_time_does_not_suffice_is_made_shorter(
  tmp_path, monkeypatch, limit, steps, planned
):
  """Its learning rate falls to zero by its end, where being cut off would leave it high."""
  clock = Clock(monkeypatch)
  config, options = tiny(tmp_path, examples=320, max_seconds=limit, evaluate_every=0)
  result = train(config, options, started=0.0)
  assert result.row["step"] == steps
  assert clock.decay_steps == planned * config.learn_steps
  assert len(clock.trainers) == 1  # nothing is compiled anew
  if planned < 40:  # it goes on to its whole length if asked to
    resumed = train(config.replace(max_seconds=None), dataclasses.replace(options, resume=True))
    assert resumed.row["step"] == 40
    assert clock.decay_steps == 40 * config.learn_steps


# 100 steps.
PLAIN = Config().replace(examples=12_800, lanes=64, iterations=64)


def test_evaluations_take_time_too():
  config = PLAIN.replace(report_every=5, evaluate_every=128 * 25)
  pace = Pace(config)
  pace.add(0, 30, 30.0, compiled=False)
  assert pace.left(30) == pytest.approx(70)  # how long they take is not known yet
  pace.evaluation = 20.0
  # After steps 50 and 75; the one at the end is apart.
  assert [pace.left(step) for step in (30, 50, 75, 99, 100)] == pytest.approx([110, 70, 25, 1, 0])
  # All of it; 40 steps and an evaluation; up to where the first one would be.
  for seconds, steps in ((111, 100), (109, 99), (60, 70), (39, 50), (20.5, 50)):
    limit = (seconds + 1e-6) / (0.9 * 0.4)
    pace.config = pace._whole = config.replace(max_seconds=limit)
    pace.shorten(30, 0.6 * limit)
    assert pace.config.num_steps == steps


STUCK = """
import ctypes, os, sys, threading
from rebel_jax import flags
from rebel_jax.runs import display

lock = ctypes.create_string_buffer(64)
display.PATIENCE = 0.2


def compiles():
  libc = ctypes.CDLL(None)  # a call that no signal ends, without the interpreter's lock
  libc.pthread_mutex_init(lock, None)
  libc.pthread_mutex_lock(lock)
  threading.Timer(0.3, lambda: os.kill(os.getpid(), int(sys.argv[2]))).start()
  exec(compile("libc.pthread_mutex_lock(lock)", "jax/_src/compiler.py", "exec"), dict(
    libc=libc, lock=lock))


def trains(whole):
  display.watch()
  with display.Signals() as signals, signals.raising(lambda: print("left", flush=True), whole):
    compiles()


{"command": lambda: flags.command(compiles), "train": lambda: trains(lambda: True)}[sys.argv[1]]()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a lock of the C library")
@pytest.mark.parametrize(
  ("what", "number", "out", "err"),
  [
    ("command", signal.SIGINT, "", "\ninterrupted\n"),
    ("train", signal.SIGTERM, "left\n", ""),
  ],
)
def test_a_signal_while_xla_compiles(what, number, out, err):
  """The main thread sees none, so another one ends the process."""
  done = subprocess.run(
    [sys.executable, "-c", STUCK, what, str(int(number))],
    cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    timeout=30, check=False,
  )  # fmt: skip
  assert (done.returncode, done.stdout, done.stderr) == (128 + number, out, err)


def test_a_signal_in_a_block_that_can_be_left():
  left = []
  with Signals() as signals, pytest.raises(Interrupted), signals.raising(lambda: left.append(1)):
    os.kill(os.getpid(), signal.SIGTERM)
  with Signals() as signals:
    os.kill(os.getpid(), signal.SIGTERM)  # before the block
    with pytest.raises(Interrupted), signals.raising():
      left.append(2)
  with Signals() as signals, signals.raising(when=lambda: False):
    os.kill(os.getpid(), signal.SIGTERM)
  assert (signals.received, left) == (signal.SIGTERM, [])


def test_evaluations_are_planned_with(tmp_path, monkeypatch):
  clock = Clock(monkeypatch)
  measure = Evaluator.measure

  def timed(*arguments, **keywords):
    clock.now += 100.0
    return measure(*arguments, **keywords)

  monkeypatch.setattr(Evaluator, "measure", timed)
  config, options = tiny(tmp_path, examples=320, max_seconds=700.0, evaluate_every=80)
  assert train(config, options, started=0.0).row["step"] == 30
  assert clock.decay_steps == 30 * config.learn_steps
