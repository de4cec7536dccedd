"""Faults, injected: what is on disk stays good and other people's, and one sentence is said."""

import errno
import functools
import json
import os
import shutil
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import rebel_jax
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import CheckpointManager
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.measurement import Measurement
from rebel_jax.runs.display import CLOSED_PIPE, Interrupted, RunError
from rebel_jax.runs.run import Result, train
from rebel_jax.training.loop import Trainer
from rebel_jax.training.setup import make_setup
from tests.rebel_jax.test_checkpoint import assert_same_run
from tests.tiny import as_flags, rows, tiny, trained


def contents(folder) -> dict:
  """Returns every file of a folder with what it holds, but for the lock."""
  return {
    path.relative_to(folder): path.read_bytes()
    for path in Path(folder).rglob("*")
    if path.is_file() and path.name != ".lock"
  }


@pytest.fixture
def copy(tmp_path):
  """A copy of a finished run, to damage."""
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


def without_arrays(newest):
  for item in ("params", "state"):
    shutil.rmtree(newest / item)


def about(change):
  """Returns a change of what a checkpoint says about itself."""

  def edit(newest):
    path = newest / "about" / "metadata"
    path.write_text(change(path.read_text()))

  return edit


def forged(**fields):
  """Returns a change of what a checkpoint says about itself that its checksum is made for."""

  def change(text):
    said = json.loads(text) | fields
    del said["about_checksum"]
    return json.dumps(said | {"about_checksum": checkpoint.sum_of_json(said)})

  return change


def metrics(change):
  def edit(newest):
    path = newest.parents[1] / "metrics.jsonl"
    path.write_bytes(change(path.read_bytes()))

  return edit


IN_JSON = json.dumps  # however it is written
METRICS = r"^metrics=.*' does not begin with the \d+ bytes that were"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Orbax's
@pytest.mark.parametrize(
  ("damage", "sentence"),
  [
    (without_arrays, "cannot be read"),
    (lambda newest: shutil.rmtree(newest / "about"), "."),
    (about(lambda text: IN_JSON(json.loads(text) | {"step": 6})), "about itself was changed"),
    (about(lambda text: IN_JSON(json.loads(text) | {"format": 2})), "has format 2; this version r"),
    (about(lambda text: text.replace('"lanes": 4', '"lanes": -1')), "."),
    (about(lambda _: "[" * 100_000), "."),
    (about(forged(checksums=None)), "its checksums is None"),
    (about(forged(step="8")), "its step is '8'"),
    (about(forged(chunk={})), "^.*says nothing of its chunk"),
    (about(forged(commands=[5])), "^.*says nothing of its chunk"),
    (lambda newest: (newest.parents[1] / "metrics.jsonl").unlink(), METRICS),
    (metrics(lambda data: data[:-9]), METRICS),
    (metrics(lambda data: data.replace(b'"loss": 0.', b'"loss": 9.', 1)), METRICS),
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


@pytest.mark.parametrize(
  ("ends", "code"),
  [
    (0, 0),
    (signal.SIGINT, 130),
    (signal.SIGTERM, 143),
    (CLOSED_PIPE, 141),
    (Interrupted(signal.SIGTERM), 143),
    (ConfigError("width=0 must be at least 1"), 2),
    (RunError("the loss is nan"), 1),
    (KeyboardInterrupt(), 130),
  ],
  ids=str,
)
def test_exit_codes(ends, code, tmp_path, monkeypatch, capsys):
  def end(*_, **__):
    if isinstance(ends, BaseException):
      raise ends
    return Result(tmp_path, {}, ends)

  monkeypatch.setattr("rebel_jax.runs.run.train", end)
  monkeypatch.setattr(cli.devices, "enable_cache", lambda: None)
  assert cli.main(as_flags()) == code
  said = isinstance(ends, BaseException) or ends == CLOSED_PIPE
  assert capsys.readouterr().err.count("\n") == said


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
  if kind == "fifo":
    os.mkfifo(path)
  else:
    path.symlink_to(tmp_path / "elsewhere")
  with pytest.raises(ConfigError, match="is no plain file"):
    rebel_jax.load(copy)
  refuses(copy, "is no plain file", resume=True, examples=128)
  assert (tmp_path / "elsewhere").read_text() == "precious"


def test_folders_below_files_and_missing_links(tmp_path):
  (tmp_path / "config.json").touch()
  (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
  for name in ("nowhere", "nowhere/run", "config.json/run"):
    with pytest.raises(ConfigError, match="is a file, or a link to none"):
      train(*tiny(tmp_path / name))
