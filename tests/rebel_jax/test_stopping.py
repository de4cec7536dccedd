"""What ends a run or a command from outside, and what is around it: signals, terminals, folders."""

import dataclasses
import io
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import pytest

from rebel_jax import acpc, acpc_dealer, devices, evaluate, flags, match, play, spot
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
from tests.tiny import TINY, as_flags, python, rows, tiny, trained

ROOT = Path(__file__).parents[2]


@pytest.fixture
def whole():
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
  ("limit", "every", "steps", "planned"),
  # Of 300 s the 120 after step 18 are spent carefully; in 30 s there is nothing left to plan.
  [(600.0, 0, 40, 40), (300.0, 0, 28, 28), (30.0, 0, 3, 40), (700.0, 80, 30, 30)],
)
def test_a_run_whose_time_does_not_suffice_is_made_shorter(
  tmp_path, monkeypatch, limit, every, steps, planned
):
  """Its learning rate falls to zero by its end, where being cut off would leave it high."""
  clock, measure = Clock(monkeypatch), Evaluator.measure

  def timed(*arguments, **keywords):  # evaluations on the way take time, too
    clock.now += 100.0 if every else 0.0
    return measure(*arguments, **keywords)

  monkeypatch.setattr(Evaluator, "measure", timed)
  config, options = tiny(tmp_path, examples=320, max_seconds=limit, evaluate_every=every)
  result = train(config, options, started=0.0)
  assert result.row["step"] == steps
  assert clock.decay_steps == planned * config.learn_steps
  assert len(clock.trainers) == 1  # nothing is compiled anew
  if planned < 40 and not every:  # it goes on to its whole length if asked to
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
  process = command("-c", STUCK, what, str(int(number)), folder=ROOT)
  said = process.communicate(timeout=30)
  assert (process.returncode, *said) == (128 + number, out, err)


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


def command(*words, folder, **options):
  return subprocess.Popen(
    [sys.executable, *words],
    cwd=folder,
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    **options,
  )


@pytest.mark.parametrize(("name", "kind"), [("games", "file"), ("solvers", "package")])
def test_a_package_of_the_same_name_is_named(name, kind, tmp_path):
  hides = tmp_path / f"{name}.py" if kind == "file" else tmp_path / name / "__init__.py"
  hides.parent.mkdir(exist_ok=True)
  hides.write_text("")
  process = command("-m", "rebel_jax.evaluate", "liars_dice_1x4f", folder=tmp_path)
  out, err = process.communicate(timeout=60)
  sentence = f"{str(hides)!r} hides the package {name!r} of rebel-jax; rename it"
  assert (process.returncode, out, err) == (2, "", f"error: {sentence} or start elsewhere\n")


def test_a_terminal_of_few_characters(monkeypatch):
  stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
  monkeypatch.setattr(sys, "stdout", stream)
  assert flags.command(lambda: print("a folder é")) == 0
  play._say("You hold K♠ and ⚃")
  stream.flush()
  assert stream.buffer.getvalue() == b"a folder \\xe9\nYou hold Ks and 4\n"


def test_a_disk_that_is_full(monkeypatch, capsys):
  with open("/dev/full", "w") as full:
    monkeypatch.setattr(sys, "stdout", full)
    assert flags.command(lambda: print("no room for this")) == 1
  assert capsys.readouterr().err.endswith("No space left on device\n")


COMMANDS = (acpc, acpc_dealer, evaluate, match, play, spot, cli)


@pytest.mark.parametrize("module", COMMANDS)
def test_help_on_terminals_of_any_width(module, monkeypatch, capsys):
  """tyro never ends on a terminal of one column."""
  for columns, most in (("80", 80), ("1", 40), ("wide", 80)):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
      module.main(["--help"])
    usage, *lines = capsys.readouterr().out.splitlines()
    assert usage.startswith("usage: ")
    assert max(map(len, lines)) <= most


def test_flags_are_read_before_networks_are_loaded():
  """Flax and Optax take a quarter of the time of `--help`; control: an agent needs them."""
  program = "import sys\nfor name in sys.argv[1:]: __import__(f'rebel_jax.{name}')\n"
  program += "print(*{'flax', 'optax'} & {*sys.modules})\n"
  program += "import rebel_jax; assert {*rebel_jax.__all__} <= {*dir(rebel_jax)}"
  light = [x.__name__.removeprefix("rebel_jax.") for x in COMMANDS if x is not acpc_dealer]
  assert python(program, *light).split() == []
  assert sorted(python(program, "agents.agent").split()) == ["flax", "optax"]


def test_help_that_nobody_reads(monkeypatch, capsys):
  reader, writer = os.pipe()
  os.close(reader)
  monkeypatch.setattr(sys, "stdout", os.fdopen(writer, "w"))
  assert cli.main(["--help"]) == 141
  assert capsys.readouterr().err == "standard output was closed\n"


def test_a_user_without_a_home(monkeypatch):
  def unknown(_):
    raise KeyError

  monkeypatch.setattr(pwd, "getpwuid", unknown)
  for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
    monkeypatch.delenv(name, raising=False)
  before = jax.config.jax_compilation_cache_dir
  devices.enable_cache()
  assert jax.config.jax_compilation_cache_dir == before


def test_ctrl_c_while_a_device_computes(tmp_path):
  """Python used to crash where it ended before a search did."""
  words = ["-m", "rebel_jax.evaluate", "liars_dice_1x4f", "--iterations=64"]
  process = command(*words, folder=tmp_path)
  for line in process.stderr:
    if "searches" in line:
      break
  time.sleep(0.3)
  process.send_signal(signal.SIGINT)
  out, err = process.communicate(timeout=60)
  assert process.returncode == 130
  assert out == ""
  assert err.endswith("\ninterrupted\n")
