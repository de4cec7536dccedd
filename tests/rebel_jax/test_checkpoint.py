"""Runs and commands that end or fail: signals, faults, terminals, folders, checkpoints."""

import contextlib
import dataclasses
import errno
import functools
import io
import json
import os
import pwd
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import rebel_jax
from rebel_jax import acpc, acpc_dealer, devices, evaluate, flags, match, play, spot
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint, files
from rebel_jax.checkpoints.checkpoint import CheckpointManager
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.measurement import Measurement
from rebel_jax.runs import folders
from rebel_jax.runs import run as run_module
from rebel_jax.runs.display import CLOSED_PIPE, Display, Interrupted, RunError, Signals
from rebel_jax.runs.metrics import MetricsLog, Pace
from rebel_jax.runs.run import _Run, train
from rebel_jax.training.loop import Trainer
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import Decay
from tests.sentences import sentence_of
from tests.tiny import TINY, as_flags, python, restored, rows, tiny, trained

ROOT = Path(__file__).parents[2]


def newest(folder, **changes):
  return restored(checkpoint.checkpoints_of(folder)[-1], tiny(folder, **changes)[0])


def assert_same_run(folder, other, **changes):
  found, expected = newest(folder, **changes), newest(other, **changes)
  jax.tree.map(np.testing.assert_array_equal, found, expected)
  assert rows(folder) == rows(other)


def test_a_run_leaves_what_it_says():
  folder = trained()
  assert [row["step"] for row in rows(folder)] == [2, 4, 6, 8]
  assert [row["step"] for row in rows(folder) if "exploitability" in row] == [4, 8]
  first, *_, last = rows(folder)
  assert [(x["buffer_examples"], x["buffer_age"]) for x in (first, last)] == [(16, 1.0), (64, 4.0)]
  assert 0 < last["value_error"] < 10
  assert 0 < last["gradient_norm"] < 100
  lines = (folder / "metrics.jsonl").read_text().splitlines()
  before, *others = map(json.loads, lines)
  assert all(line["device_memory_bytes"] > 2**20 for line in others)
  # What there was before training is measured as it is meanwhile.
  measured = next(line for line in others if "exploitability" in line)
  same = ("playthroughs", "iterations")
  assert [before[name] for name in same] == [measured[name] for name in same]
  assert before["step"] == 0
  assert before["exploitability"] > 0
  about = json.loads((folder / "config.json").read_text())
  assert about["num_devices"] == about["environment"]["devices"] == len(jax.devices())
  assert about["environment"]["versions"]["jax"] == jax.__version__
  assert [command["step"] for command in about["commands"]] == [0]
  assert about["commands"][0]["config"]["seed"] == about["config"]["seed"] == 0
  state = newest(folder)
  assert (state.step, state.solves, state.replay["value"].added.sum()) == (8, 32, 64)


def stopped(folder, patch):
  assert train(*tiny(folder), stop=lambda step: step >= 2).row["step"] == 2
  assert len(rows(folder)) == 1


def signalled(folder, patch):
  before = signal.getsignal(signal.SIGTERM)
  result = train(*tiny(folder), stop=lambda step: step == 4 and os.kill(os.getpid(), 15))
  assert (result.signal, result.row["step"]) == (signal.SIGTERM, 4)
  assert signal.getsignal(signal.SIGTERM) is before


def signalled_in_an_evaluation(step):
  """The evaluation is made up for, with the same result; nothing is written twice."""

  def cut(folder, patch):
    def interrupted(self, params, *, seed, **arguments):
      if seed == step:
        os.kill(os.getpid(), signal.SIGINT)
      return measure(self, params, seed=seed, **arguments)

    measure = Evaluator.exploitability
    patch.setattr(Evaluator, "exploitability", interrupted)
    assert train(*tiny(folder)).signal == signal.SIGINT
    assert rows(folder)[-1]["step"] == step
    assert "exploitability" not in rows(folder)[-1]

  cut.__name__ = f"signalled_in_the_evaluation_at_{step}"
  return cut


def killed_while_a_row_is_written(folder, patch):
  train(*tiny(folder), stop=lambda step: step >= 4)
  with open(folder / "metrics.jsonl", "a") as file:
    file.write('{"step": 6, "loss": 0.1}\n{"step": 8, "lo')


def ended_by_a_full_disk(folder, patch):
  """Half a row stays behind."""
  write = MetricsLog.write

  def full(self, row):
    if row["step"] < 6:
      return write(self, row)
    self._file.write(b'{"step": 6, "so')
    self._file.flush()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  patch.setattr(MetricsLog, "write", full)
  assert cli.main([*as_flags(), "--output-dir", str(folder)]) == 1
  assert checkpoint.checkpoints_of(folder)[-1].name == "00000004"


def ended_by_another_command(folder, patch):
  """Before the folder was free: a command goes on from what that one left, here the end."""
  train(*tiny(folder), stop=lambda step: step >= 4)
  lock, ours = folders.lock, []

  def late(path):
    patch.setattr(folders, "lock", lock)
    train(*tiny(folder, resume=True))
    patch.setattr(Trainer, "run", lambda *_: ours.append(True))
    return lock(path)

  patch.setattr(folders, "lock", late)
  assert train(*tiny(folder, resume=True)).row["step"] == 8
  assert not ours


def spoilt(field):
  """Returns a cut by a number that is not finite, after step 4."""

  def cut(folder, patch):
    run = Trainer.run

    def diverge(self, table, state, num_steps, mesh):
      state, report = run(self, table, state, num_steps, mesh)
      nan = lambda x: x * float("nan")  # noqa: E731
      if int(state.step) <= 4:
        return state, report
      if field == "parameters":  # where no loss says so: the last step of a call spoils them
        return state._replace(params=jax.tree.map(nan, state.params)), report
      if field == "value error":
        return state, report._replace(held_out={"value": nan(report.held_out["value"])})
      value = report.learned["value"]
      value = value._replace(**{field: nan(getattr(value, field))})
      return state, report._replace(learned={"value": value})

    patch.setattr(Trainer, "run", diverge)
    with pytest.raises(RunError, match=rf"{field}.* (is|are) .* at step [56], in the steps from 5"):
      train(*tiny(folder))
    assert checkpoint.checkpoints_of(folder)[-1].name == "00000004"

  cut.__name__ = f"spoilt_{field}"
  return cut


@pytest.mark.parametrize(
  "cut",
  [
    stopped, signalled, *map(signalled_in_an_evaluation, (4, 8)),
    killed_while_a_row_is_written, ended_by_a_full_disk, ended_by_another_command,
    *map(spoilt, ("loss", "value error", "parameters")),
  ],
  ids=lambda cut: cut.__name__,
)  # fmt: skip
def test_cut_short_and_resumed_is_as_never_cut(tmp_path, monkeypatch, capfd, cut):
  with monkeypatch.context() as patch:
    cut(tmp_path, patch)
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())
  train(*tiny(tmp_path, resume=True), display=Display())
  said = " ".join(capfd.readouterr().out.split())
  assert "nothing left to do: all 8 steps that examples=64 amounts to are done" in said
  assert_same_run(tmp_path, trained())


def test_longer_searches_late_in_a_run(tmp_path, capsys):
  longer, trained_folder = {"late_iterations": 32}, trained()
  capsys.readouterr()
  train(*tiny(tmp_path / "late", **longer), display=Display())
  assert "from here on searches take 32 iterations" in "".join(capsys.readouterr())
  plain, late = rows(trained_folder), rows(tmp_path / "late")
  losses = lambda rows: [row["loss"] for row in rows]  # noqa: E731
  assert losses(late)[:3] == losses(plain)[:3]  # six of eight steps, in chunks of two
  assert losses(late)[3:] != losses(plain)[3:]

  train(*tiny(tmp_path / "stopped", **longer), stop=lambda step: step >= 6)
  train(*tiny(tmp_path / "stopped", resume=True, **longer))
  assert losses(rows(tmp_path / "stopped")) == losses(late)


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
  folder, reference = tmp_path / "killed", tmp_path / "whole"
  long = as_flags(examples=16_000, evaluate_every=2_000, checkpoint_every=1e-6)
  command = [sys.executable, ROOT / "train.py", "--output-dir"]
  environment = os.environ | {"PYTHONPATH": str(ROOT)}
  subprocess.run([*command, reference, *long], check=True, capture_output=True, env=environment)
  rng = random.Random(0)
  kills = 0
  for _ in range(100):
    resume = [folder, "--resume"] if checkpoint.checkpoints_of(folder) else [folder, *long]
    last = checkpoint.checkpoints_of(folder)[-1:]
    with subprocess.Popen(
      [*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
      while checkpoint.checkpoints_of(folder)[-1:] == last and process.poll() is None:
        time.sleep(0.01)
      with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.uniform(0.0, 0.5))
      process.kill()
      assert process.wait() in (0, -signal.SIGKILL), process.stderr.read()
    if process.returncode == 0:
      break
    kills += 1
  assert kills >= 5
  assert_same_run(folder, reference)
  assert all(p.name.isdigit() for p in (folder / "checkpoints").iterdir())


def test_newest_and_best_are_kept(tmp_path, monkeypatch):
  scores = {0: 0.9, 4: 0.5, 8: 0.1, 12: 0.3, 16: 0.2, 20: 0.4, 24: 0.6}
  monkeypatch.setattr(Evaluator, "exploitability", lambda self, *_, seed, **__: scores[seed])

  def kept() -> list[int]:
    return [int(path.name) for path in checkpoint.checkpoints_of(tmp_path)]

  train(*tiny(tmp_path, examples=160, evaluate_every=32))
  assert kept() == [8, 12, 16, 20]
  # Also of a run that is resumed, which knows the figures of before from its checkpoints alone.
  train(*tiny(tmp_path, examples=192, evaluate_every=32, resume=True))
  assert kept() == [8, 16, 20, 24]


def test_folders_that_are_taken(tmp_path):
  (tmp_path / "file").write_text("")
  (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
  for folder, resume, said in (
    (trained(), False, "holds another run's checkpoint"),
    (tmp_path / "none", True, "holds no checkpoint to resume from"),
    (tmp_path / "file", False, "must be a folder"),
    *((tmp_path / x, False, "is a file, or a link to") for x in ("nowhere", "nowhere/a", "file/a")),
  ):
    assert said in sentence_of(train, *tiny(folder, resume=resume))
  assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "nowhere"]
  with folders.lock(tmp_path):
    assert "is in use by another run" in sentence_of(train, *tiny(tmp_path))


@pytest.mark.parametrize(
  "changes", [{"game": "leduc_poker"}, {"width": 16}, {"algorithm": "cfr_plus"}, {"lanes": 8}]
)
def test_checkpoints_of_another_run_are_refused(changes):
  (field,) = changes
  with pytest.raises(ConfigError, match=rf"^{field}=.* cannot resume the run in .* allowed is "):
    train(*tiny(trained(), resume=True, **changes))


def test_event_files_hold_the_rows(tmp_path):
  event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
  train(*tiny(tmp_path, tensorboard=True), stop=lambda step: step >= 4)
  train(*tiny(tmp_path, tensorboard=True, resume=True))
  said: dict = {}
  for path in sorted((tmp_path / "tensorboard").iterdir()):
    data = path.read_bytes()
    while data:  # records of length, sum, data and sum
      (length,) = struct.unpack("<Q", data[:8])
      event = event_pb2.Event.FromString(data[12 : 12 + length])
      for value in event.summary.value:
        said.setdefault(event.step, {})[value.tag] = value.simple_value
      data = data[16 + length :]
  assert said.pop(0)["exploitability"] > 0
  expected = {row["step"]: row for row in rows(tmp_path)}
  assert said.keys() == expected.keys() == {2, 4, 6, 8}
  for step, row in expected.items():
    numbers = {name: value for name, value in row.items() if name != "step" and value is not None}
    assert said[step].keys() >= numbers.keys()
    for name, value in numbers.items():
      assert said[step][name] == pytest.approx(value, rel=1e-6), name
  assert rows(tmp_path) == rows(trained())


def contents(folder) -> dict:
  """Returns every file of a folder with what it holds, but for the lock."""
  return {
    path.relative_to(folder): path.read_bytes()
    for path in Path(folder).rglob("*")
    if path.is_file() and path.name != ".lock"
  }


@pytest.fixture
def copy(tmp_path):
  shutil.copytree(trained(), tmp_path / "copy")
  return tmp_path / "copy"


def refuses(folder, sentence, **changes):
  """Checks that a run is refused in one line and that its folder stays as it is."""
  before = contents(folder)
  with pytest.raises(ConfigError, match=sentence) as caught:
    train(*tiny(folder, **changes))
  assert "\n" not in str(caught.value)
  assert contents(folder) == before


def test_what_a_kill_leaves_is_removed_and_nothing_else(tmp_path, monkeypatch):
  others = [
    "backup_best", "lightning_v1", "123", "00000001", "mine.orbax-checkpoint-tmp", "4.orbax-tmp",
  ]  # fmt: skip
  ours = ["00000004.orbax-checkpoint-tmp", "00000006.orbax-checkpoint-tmp-17", ".pruned"]
  folder = tmp_path / "checkpoints"
  monkeypatch.setattr(checkpoint, "CheckpointManager", functools.partial(CheckpointManager, keep=1))

  def go_on() -> set[str]:
    train(*tiny(tmp_path), stop=lambda step: step >= 2)
    for name in (*others, *ours):
      (folder / name).mkdir(parents=True)
      (folder / name / "file").write_text("precious")
    train(*tiny(tmp_path, resume=True, checkpoint_every=1e-6))
    return {path.name for path in folder.iterdir()}

  left = go_on()
  kept = {path.name for path in checkpoint.checkpoints_of(tmp_path)}
  assert left == {*others, *kept}
  assert {"00000001", "00000008"} <= kept
  assert len(kept) <= 3  # the newest, the best, and the one that is not ours
  for name in others:
    assert (folder / name / "file").read_text() == "precious"

  # Told to, Orbax deletes every folder that has a number for a name.
  shutil.rmtree(tmp_path)
  best = functools.partial(ocp.checkpoint_managers.BestN, keep_checkpoints_without_metrics=False)
  monkeypatch.setattr(ocp.checkpoint_managers, "BestN", best)
  assert "00000001" not in go_on()


def test_saves_that_fail_and_saves_of_the_same_step(copy, monkeypatch):
  newest = checkpoint.checkpoints_of(copy)[-1]
  setup = make_setup(tiny(copy)[0])
  state = checkpoint.restore(newest, setup.trainer.init(setup.table, 5, setup.mesh), setup.mesh)
  about = checkpoint.read_about(newest)
  manager = CheckpointManager(copy, keep=1)

  def fail(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  with monkeypatch.context() as patch:
    patch.setattr(ocp.args.Composite, "__init__", fail)
    with pytest.raises(RunError, match="No space left on device"):
      manager.save(state._replace(step=jnp.int32(9)), about)
  assert checkpoint.checkpoints_of(copy)[-1] == newest
  assert [p.name for p in newest.parent.iterdir() if not p.name.isdigit()] == []

  manager.save(state, about | {"seen": "twice", "num_devices": 7, "exploitability": 1e-6})
  assert checkpoint.read_about(newest) == about | {"seen": "twice", "exploitability": 1e-6}
  jax.tree.map(np.testing.assert_array_equal, rebel_jax.load(newest).params, state.params)
  for step in (9, 10):  # what was said anew is the best
    manager.save(state._replace(step=jnp.int32(step)), about | {"step": step})
  manager.close()
  assert [p.name for p in checkpoint.checkpoints_of(copy)] == ["00000008", "00000010"]


def test_checksums_tell_every_bit():
  tree = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int32)}
  good = checkpoint.sum_of_arrays(tree)
  assert checkpoint.sum_of_arrays(jax.tree.map(jnp.asarray, tree)) == good
  seen = {good}
  for name, array in tree.items():
    for bit in range(8 * array.nbytes):
      changed = array.copy()
      changed.view(np.uint8).reshape(-1)[bit // 8] ^= 1 << (bit % 8)
      seen.add(checkpoint.sum_of_arrays(tree | {name: changed}))
  assert len(seen) == 1 + 8 * (6 + 2) * 4
  assert checkpoint.sum_of_arrays({"b": tree["a"], "a": tree["b"]}) != good


@pytest.mark.parametrize("item", ["params", "state"])
def test_numbers_that_were_edited_are_noticed(copy, item):
  """Written by Orbax itself, so nothing but the sum can tell."""
  newest = checkpoint.checkpoints_of(copy)[-1]
  with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
    arrays = checkpointer.restore((newest / item).absolute())
    leaves, tree = jax.tree.flatten(arrays)
    index = next(i for i, x in enumerate(leaves) if np.ndim(x) > 1)
    leaves[index] = jnp.asarray(leaves[index]).at[0, 0].add(1)
    edited = jax.tree.unflatten(tree, leaves)
    checkpointer.save((newest / item).absolute(), args=ocp.args.StandardSave(edited), force=True)
  sentence = rf"^checkpoint=.*00000008'.*its {item} are not .*without that folder, \d+ is the"
  refuses(copy, sentence, resume=True, examples=128)
  # As the sentence says: the checkpoint before is good.
  shutil.rmtree(newest)
  train(*tiny(copy, resume=True))
  assert_same_run(copy, trained())


def edited(name, change):
  """Returns damage: a changed text of a checkpoint."""
  return lambda newest: (newest / name).write_text(change((newest / name).read_text()))


def about(change):
  return edited("about/metadata", change)


def forged(**fields):
  """Returns a change of what a checkpoint says about itself that its checksum is made for."""

  def change(text):
    said = json.loads(text) | fields
    del said["about_checksum"]
    return json.dumps(said | {"about_checksum": checkpoint.sum_of_json(said)})

  return about(change)


ROWS = "../../metrics.jsonl"
IN_JSON = json.dumps  # however it is written
METRICS = r"^metrics=.*' does not begin with the \d+ bytes that were"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Orbax's
@pytest.mark.parametrize(
  ("damage", "sentence"),
  [
    (lambda x: [shutil.rmtree(x / item) for item in ("params", "state")], "cannot be read"),
    (lambda newest: shutil.rmtree(newest / "about"), "."),
    (about(lambda text: IN_JSON(json.loads(text) | {"step": 6})), "about itself was changed"),
    (about(lambda text: IN_JSON(json.loads(text) | {"format": 2})), "has format 2; this version r"),
    (about(lambda text: text.replace('"lanes": 4', '"lanes": -1')), "."),
    (about(lambda _: "[" * 100_000), "."),
    (forged(checksums=None), "its checksums is None"),
    (forged(step="8"), "its step is '8'"),
    (forged(chunk={}), "^.*says nothing of its chunk"),
    (forged(commands=[5]), "^.*says nothing of its chunk"),
    (lambda newest: (newest / ROWS).unlink(), METRICS),
    (edited(ROWS, lambda text: text[:-9]), METRICS),
    (edited(ROWS, lambda text: text.replace('"loss": 0.', '"loss": 9.', 1)), METRICS),
  ],
)
def test_damage_gets_a_sentence(copy, damage, sentence):
  damage(checkpoint.checkpoints_of(copy)[-1])
  if not sentence.startswith("^"):
    sentence = rf"^checkpoint=.*copy/checkpoints/00000008'.*{sentence}"
    with pytest.raises(ConfigError, match=sentence):
      rebel_jax.load(copy)
  refuses(copy, sentence, resume=True, examples=128)


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("config.json", '{"lr": 0.1}'),
    ("config.json", '{"commands": ["build", "test"], "lr": 0.1}'),
    ("metrics.jsonl", '{"epoch": 1}\n'),
    ("checkpoints/lightning_v1/last.ckpt", "weights"),
  ],
)
def test_what_another_program_wrote_is_not_written_over(tmp_path, name, text):
  (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
  (tmp_path / name).write_text(text)
  refuses(tmp_path, r"^output_dir=.* holds '.*', which a run would write over")


@pytest.mark.parametrize(("factor", "what"), [(np.nan, "parameters"), (1e38, "values")])
def test_a_network_that_is_not_finite_is_not_measured(factor, what):
  """Its agent would play uniformly, which scores well in games like Kuhn poker."""
  policy = rebel_jax.load(trained())
  measure = functools.partial(
    Evaluator(policy.config).exploitability, playthroughs=1, iterations=8, unsafe=True
  )
  assert measure(policy.params) > 0
  spoilt = jax.tree.map(lambda x: (x + 1) * factor, policy.params)
  with pytest.raises(ConfigError, match=rf"^the network's {what} are not finite"):
    measure(spoilt)


def test_exploitability_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
  monkeypatch.setattr(
    Evaluator, "measure", lambda *_, **__: Measurement({"exploitability": float("nan")})
  )
  with pytest.raises(RunError, match=r"^the exploitability is nan at step 0, so training"):
    train(*tiny(tmp_path))
  assert rows(tmp_path) == []


@pytest.mark.parametrize(
  ("error", "expected"),
  [
    (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 byte"), "must fit"),
    (MemoryError(), "must fit"),
    (jax.errors.JaxRuntimeError("INTERNAL: something else"), "something else"),
  ],
  ids=["device", "host", "another"],
)
def test_memory_that_does_not_suffice(copy, monkeypatch, error, expected):
  def full(*_, **__):
    raise error

  monkeypatch.setattr(ocp.StandardCheckpointer, "restore", full)
  monkeypatch.setattr(Trainer, "run", full)
  kinds = (ConfigError, RunError) if expected == "must fit" else jax.errors.JaxRuntimeError
  for run in (tiny(copy, resume=True, examples=128), tiny(copy / "new"))[expected[0] != "m" :]:
    with pytest.raises(kinds, match=expected):
      train(*run)


@pytest.mark.parametrize("kind", ["fifo", "link"])
@pytest.mark.parametrize(
  "name",
  [".lock", "config.json", "metrics.jsonl", "metrics.csv", "checkpoints", "exploitability.png"],
)
@pytest.mark.parametrize("resume", [False, True])
def test_runs_hold_plain_files_and_folders_alone(copy, tmp_path, name, resume, kind):
  folder, elsewhere = copy if resume else tmp_path / "run", tmp_path / "elsewhere"
  folder.mkdir(exist_ok=True)
  elsewhere.write_text("precious")
  if (folder / name).exists():
    elsewhere.unlink()
    (folder / name).rename(elsewhere)
  os.mkfifo(folder / name) if kind == "fifo" else (folder / name).symlink_to(elsewhere)
  before = contents(tmp_path)
  none = resume and name == "checkpoints" and kind == "fifo"
  said = "holds no checkpoint" if none else f"holds '{name}'"
  refuses(folder, rf"^output_dir=.* {said}", resume=resume)
  assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["fifo", "link"])
@pytest.mark.parametrize("where", ["about/metadata", "about/metadata.new", "params/more", "more"])
def test_checkpoints_hold_plain_files_alone(copy, tmp_path, kind, where):
  path = checkpoint.checkpoints_of(copy)[-1] / where
  path.unlink(missing_ok=True)
  (tmp_path / "elsewhere").write_text("precious")
  os.mkfifo(path) if kind == "fifo" else path.symlink_to(tmp_path / "elsewhere")
  with pytest.raises(ConfigError, match="is no plain file"):
    rebel_jax.load(copy)
  refuses(copy, "is no plain file", resume=True, examples=128)
  assert (tmp_path / "elsewhere").read_text() == "precious"


ARRAYS = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "n": np.array(7)}
SHAPES = {"a": ((3, 4), "f"), "n": ((), "iu")}
NAME, WHAT, KEY = "keep='x'", "numbers", "of"


def read(path):
  return files.read_arrays(path, NAME, WHAT, files.read_about(path, NAME, WHAT, KEY), SHAPES)


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "folder"])
@pytest.mark.parametrize("mode", ["rb", "ab", "r+b"])
def test_only_plain_files_are_opened(kind, mode, tmp_path):
  path, other = tmp_path / "file", tmp_path / "other"
  other.write_bytes(b"precious")
  make = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to(other),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": os.mkdir,
  }
  make[kind](path)
  with pytest.raises(OSError, match="file|symbolic|directory|device"):
    files.open_file(path.resolve() if kind == "device" else path, mode).close()
  with pytest.raises(OSError, match="no plain file"), files.replacing(path):
    pass
  assert other.read_bytes() == b"precious"
  assert {x.name for x in tmp_path.iterdir()} == {"file", "other"}


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
  path, others = tmp_path / "kept", tmp_path / "kept.partial"
  others.write_text("somebody's")
  files.save_arrays(path, ARRAYS, {"of": 1})
  path.chmod(0o600)
  before = path.read_bytes()

  def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  with monkeypatch.context() as patch:
    patch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
      files.save_arrays(path, ARRAYS, {"of": 2})
  files.check_replaceable(path, NAME, WHAT, KEY)
  with pytest.raises(ConfigError, match="is there and cannot be read as numbers"):
    files.check_replaceable(others, NAME, WHAT, KEY)
  assert path.read_bytes() == before
  files.save_arrays(path, ARRAYS, {"of": 3})
  assert files.read_about(path, NAME, WHAT, KEY)["of"] == 3
  assert path.stat().st_mode & 0o777 == 0o600
  assert sorted(x.name for x in tmp_path.iterdir()) == ["kept", "kept.partial"]
  assert others.read_text() == "somebody's"


def test_flipped_bits_are_refused_or_change_nothing(tmp_path):
  path, rng = tmp_path / "kept", np.random.default_rng(0)
  files.save_arrays(path, ARRAYS, {"of": "this", "more": [1, 2.5, None]})
  good, refused = path.read_bytes(), 0
  for place in rng.integers(8 * len(good), size=200):
    flipped = bytearray(good)
    flipped[place // 8] ^= 1 << (place % 8)
    path.write_bytes(flipped)
    try:
      found = read(path)
    except ConfigError as error:
      refused += 1
      assert str(error).startswith(NAME)
    else:
      assert all((found[name] == ARRAYS[name]).all() for name in ARRAYS)
  assert refused > 50


def repacked(path, change):
  """Writes the file again with some members changed, in numpy's own way."""
  with np.load(path) as archive:
    members = {name: archive[name] for name in archive.files}
  members |= change(members)
  np.savez_compressed(path.open("wb"), **{k: v for k, v in members.items() if v is not None})


@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    (lambda _: {"a": -ARRAYS["a"]}, "was altered, and its checksum"),
    (lambda x: {"about": np.array(str(x["about"]).replace('"of": 1', '"of": 2'))}, "was altered"),
    (lambda _: {"a": np.full((3, 4), np.nan, np.float32)}, "not finite"),
    (lambda _: {"a": np.zeros((4, 3), np.float32)}, "other arrays"),
    (lambda _: {"a": np.zeros((3, 4), int)}, "other arrays"),
    (lambda _: {"a": None}, "other arrays"),
    (lambda _: {"b": np.zeros(3)}, "other arrays"),
    (lambda _: {"a": np.zeros(10**7)}, "cannot be read as numbers"),
    (lambda _: {"about": np.array("[1]")}, "cannot be read as numbers"),
    (lambda _: {"about": np.array("[" * 10**6)}, "cannot be read as numbers"),
  ],
)
def test_altered_files_are_refused(change, sentence, tmp_path):
  files.save_arrays(tmp_path / "kept", ARRAYS, {"of": 1})
  repacked(tmp_path / "kept", change)
  with pytest.raises(ConfigError, match=sentence):
    read(tmp_path / "kept")


def test_sizes_are_counted_before_anything_is_loaded(tmp_path, monkeypatch):
  files.save_arrays(tmp_path / "kept", ARRAYS, {"of": 1})
  repacked(tmp_path / "kept", lambda _: {"a": np.zeros(10**7)})
  about = files.read_about(tmp_path / "kept", NAME, WHAT, KEY)
  monkeypatch.setattr(zipfile.ZipFile, "open", None)
  with pytest.raises(ConfigError, match="'a' is larger than it says"):
    files.read_arrays(tmp_path / "kept", NAME, WHAT, about, SHAPES)


def test_pictures_replace_pictures_of_their_kind(tmp_path):
  pytest.importorskip("matplotlib")
  (tmp_path / "notes.png").write_text("precious")
  refused = {
    tmp_path / "notes.png": "no picture of the kind 'png'",
    tmp_path / "grid.xyz": "not supported",
    tmp_path / "missing" / "grid.png": "No such file",
  }
  for path, sentence in refused.items():
    with pytest.raises(ConfigError, match=sentence):
      files.check_picture(path)
  for _ in range(2):
    files.check_picture(tmp_path / "grid.svg")
    assert not (tmp_path / "grid.svg").exists()
  assert (tmp_path / "notes.png").read_text() == "precious"


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


def test_a_signal_in_the_middle_of_a_chunk(tmp_path, monkeypatch):
  def interrupt(step):
    if step == 3:
      os.kill(os.getpid(), signal.SIGHUP)

  with monkeypatch.context() as patch:
    call_sizes(patch, 1, interrupt)
    result = train(*tiny(tmp_path, report_every=1_000))
  assert (result.signal, result.row["step"]) == (signal.SIGHUP, 3)
  assert [row["step"] for row in rows(tmp_path)] == [3]  # until the resumed run writes it anew
  train(*tiny(tmp_path, report_every=1_000, resume=True))
  whole = trained("whole", TINY.replace(report_every=1_000))
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
