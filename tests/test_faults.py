"""Faults, injected: what is on disk afterwards is good, and what is said is one sentence."""

import dataclasses
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import rebel_jax
from rebel_jax import checkpoint, checkpoint_writer, checksums, cli, self_play
from rebel_jax.config import ConfigError
from rebel_jax.failures import RunError
from rebel_jax.metrics import MetricsLog
from rebel_jax.run import Result, train
from rebel_jax.self_play import make_examples
from rebel_jax.training import Trainer
from tests.test_checkpoint import assert_same_run
from tests.tiny import TINY, as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[1]


# From the second checkpoint on, no file can grow beyond some bytes, as if the disk were full.
FULL_DISK = """
import resource, sys
from rebel_jax import cli
from rebel_jax.checkpoint_writer import CheckpointWriter
from rebel_jax.run import train
from tests.tiny import tiny

train(tiny(sys.argv[1]), stop=lambda step: step >= 2)
save = CheckpointWriter.save

def full(self, *arguments):
  resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
  save(self, *arguments)

CheckpointWriter.save = full
flags = ["--resume", "--output-dir", sys.argv[1], "--evaluate-every", "0"]
sys.exit(cli.main([*flags, "--checkpoint-every", "0.001"]))
"""


@pytest.mark.parametrize(
  ("room", "what"),
  # With so little room several of Orbax's writes fail at a time, and the log of metrics may be
  # the first to notice.
  [
    (4_096, r"checkpoint=.*/00000004' cannot be written: .*stopped; "),
    pytest.param(600, ".*cannot be written", marks=pytest.mark.slow),
  ],
)
def test_a_disk_that_is_full_when_a_checkpoint_is_saved(tmp_path, room, what):
  """One sentence, the checkpoint from before, and a run that goes on once there is room."""
  result = subprocess.run(
    [sys.executable, "-c", FULL_DISK, tmp_path, str(room)],
    cwd=ROOT, capture_output=True, text=True,
    env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"},
  )  # fmt: skip
  assert result.returncode == 1
  assert re.fullmatch(f"error: {what}.*\n", result.stderr)
  assert [p.name for p in checkpoint.checkpoints_of(tmp_path)] == ["00000002"]
  train(tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())
  assert all(p.name.isdigit() for p in (tmp_path / "checkpoints").iterdir())


def test_a_disk_that_is_full_when_a_row_is_written(tmp_path, monkeypatch, capsys):
  """Half a row stays behind, and the resumed run writes it anew."""
  write = MetricsLog.write

  def full(self, row):
    if row["step"] < 6:
      return write(self, row)
    self._file.write(b'{"step": 6, "so')
    self._file.flush()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  flags = [*as_flags(), "--output-dir", str(tmp_path)]
  with monkeypatch.context() as patch:
    patch.setattr(MetricsLog, "write", full)
    assert cli.main(flags) == 1
  err = capsys.readouterr().err
  assert err.count("\n") == 1
  assert "cannot be written (No space left on device), so training stopped" in err
  assert checkpoint.checkpoints_of(tmp_path)[-1].name == "00000004"
  train(tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
  (tmp_path / "run").mkdir()
  (tmp_path / "run" / ".lock").mkdir()
  with pytest.raises(ConfigError, match=r"^output_dir=.* must be a folder that can be written: "):
    train(tiny(tmp_path / "run"))


KILLED = """
import os, signal, sys
import orbax.checkpoint as ocp
from rebel_jax.run import train
from tests.tiny import tiny

moment, save = sys.argv[2], ocp.AsyncCheckpointer.save

def die():
  os.kill(os.getpid(), signal.SIGKILL)

def dying_save(self, path, **arguments):
  if path.name != "00000008":
    return save(self, path, **arguments)
  if moment == "before":
    die()
  save(self, path, **arguments)
  if moment == "while":
    die()

ocp.AsyncCheckpointer.save = dying_save
if moment == "renaming":
  os.rename = lambda *_, **__: die()
train(tiny(sys.argv[1]))
"""


@pytest.mark.parametrize(
  "moment", ["while", *(pytest.param(x, marks=pytest.mark.slow) for x in ("before", "renaming"))]
)
def test_killed_while_it_saves(tmp_path, moment):
  killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, moment], cwd=ROOT, check=False)
  assert killed.returncode == -signal.SIGKILL
  if moment == "renaming":
    assert not checkpoint.checkpoints_of(tmp_path)
    train(tiny(tmp_path))
  else:
    train(tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())
  assert all(p.name.isdigit() for p in (tmp_path / "checkpoints").iterdir())


@pytest.mark.parametrize(
  ("found", "counts"),
  [
    (["00000002", "00000004"], "old"),
    (["00000002", "00000004", "00000004.new"], "new"),
    (["00000002", "00000004.old", "00000004.new"], "new"),  # killed between two renames
    (["00000002", "00000004.old", "00000004"], "old"),
    (["00000002", "00000004", "00000006.orbax-checkpoint-tmp"], "old"),
    (["00000002", "00000004", "00000004.new.orbax-checkpoint-tmp"], "old"),
  ],
)
def test_what_a_kill_leaves_is_tidied(tmp_path, found, counts):
  """The newest that is complete counts, before and after."""
  folder = tmp_path / "checkpoints"
  for name in found:
    (folder / name).mkdir(parents=True)
    said = "new" if name.endswith(".new") else "old"
    (folder / name / "says").write_text(said)
  for _ in range(2):
    paths = checkpoint.checkpoints_of(tmp_path)
    assert [int(p.name.removesuffix(".new")) for p in paths] == [2, 4]
    assert (paths[-1] / "says").read_text() == counts
    checkpoint_writer.tidy(tmp_path)
  assert sorted(p.name for p in folder.iterdir()) == ["00000002", "00000004"]


def test_the_same_step_saved_again_replaces_the_first_only_when_complete(tmp_path, monkeypatch):
  """As after a signal during an evaluation that the resumed run makes up for."""
  shutil.copytree(trained(), tmp_path / "run")
  newest = checkpoint.checkpoints_of(tmp_path / "run")[-1]
  setup = rebel_jax.setup.make_setup(tiny(tmp_path / "run"))
  state = setup.trainer.init(setup.table, 5, setup.mesh)._replace(step=jnp.int32(8))
  before = (newest / "about" / "metadata").read_text()
  about = checkpoint.read_about(newest) | {"seen": "twice"}
  writer = checkpoint_writer.CheckpointWriter(tmp_path / "run", keep=3)
  with monkeypatch.context() as patch:

    def fail(*_, **__):
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(ocp.args.Composite, "__init__", fail)
    with pytest.raises(checkpoint_writer.SaveError, match="No space left on device"):
      writer.save(state, about)
  assert (newest / "about" / "metadata").read_text() == before
  writer.save(state, about)
  writer.wait()
  assert checkpoint.read_about(newest)["seen"] == "twice"
  assert all(p.name.isdigit() for p in newest.parent.iterdir())


def test_a_checkpoint_is_of_the_moment_it_was_asked_for(tmp_path):
  """Training goes on in the same memory while it is written."""
  config = tiny(tmp_path, buffer_size=2**18, min_examples=1)
  setup = rebel_jax.setup.make_setup(config)
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  state, _ = setup.trainer.run(setup.table, state, 2, setup.mesh)
  then = jax.tree.map(np.array, checkpoint.plain(state) | {"params": state.params})
  writer = checkpoint_writer.CheckpointWriter(tmp_path, keep=3)
  writer.save(state, {"config": config.to_dict(), "num_devices": 1})
  for _ in range(3):
    state, _ = setup.trainer.run(setup.table, state, 2, setup.mesh)
  jax.block_until_ready(state)
  writer.wait()
  (path,) = checkpoint.checkpoints_of(tmp_path)
  saved = checkpoint.restore(path, state, setup.mesh)
  jax.tree.map(
    np.testing.assert_array_equal, checkpoint.plain(saved) | {"params": saved.params}, then
  )


def test_checksums_tell_every_bit():
  tree = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int32)}
  good = checksums.of_arrays(tree)
  assert checksums.of_arrays(jax.tree.map(jnp.asarray, tree)) == good
  seen = {good}
  for name, array in tree.items():
    for bit in range(8 * array.nbytes):
      changed = array.copy()
      changed.view(np.uint8).reshape(-1)[bit // 8] ^= 1 << (bit % 8)
      seen.add(checksums.of_arrays(tree | {name: changed}))
  assert len(seen) == 1 + 8 * (6 + 2) * 4
  # Two changes that a plain weighted sum would not see.
  assert checksums.of_arrays(tree | {"a": -tree["a"]}) not in seen
  assert checksums.of_arrays({"b": tree["a"], "a": tree["b"]}) != good


@pytest.fixture
def copy(tmp_path):
  """A copy of a finished run, to damage."""
  shutil.copytree(trained(), tmp_path / "copy")
  return tmp_path / "copy"


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
  with pytest.raises(ConfigError, match=sentence):
    train(tiny(copy, resume=True, examples=128))
  if item == "params":
    with pytest.raises(ConfigError, match=sentence):
      rebel_jax.load(copy)
  # As the sentence says: the checkpoint before is good.
  shutil.rmtree(newest)
  train(tiny(copy, resume=True))
  assert_same_run(copy, trained())


def test_what_a_checkpoint_says_about_itself_cannot_be_edited(copy):
  path = checkpoint.checkpoints_of(copy)[-1] / "about" / "metadata"
  about = json.loads(path.read_text())
  path.write_text(json.dumps(about, indent=1))  # how it is written does not matter
  assert checkpoint.read_about(path.parents[1])["step"] == 8
  path.write_text(json.dumps(about | {"step": 6}))
  with pytest.raises(ConfigError, match="what it says about itself was changed"):
    train(tiny(copy, resume=True, examples=128))


@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    (lambda path: path.unlink(), r"^metrics=.*metrics.jsonl' has 0 bytes, fewer than the \d+ that"),
    (lambda path: path.write_bytes(path.read_bytes()[:-9]), r" bytes, fewer than the \d+ that"),
    (
      lambda path: path.write_bytes(path.read_bytes().replace(b'{"step": 4', b'"step": 4{', 1)),
      r"^metrics=.*metrics.jsonl' was changed, line 2 is no row; put the file back",
    ),
  ],
  ids=["gone", "cut", "edited"],
)
def test_metrics_that_were_damaged(copy, change, sentence):
  change(copy / "metrics.jsonl")
  left = sorted((p.name, p.stat().st_size) for p in copy.iterdir())
  with pytest.raises(ConfigError, match=sentence):
    train(tiny(copy, resume=True, examples=128))
  now = sorted((p.name, p.stat().st_size) for p in copy.iterdir())
  assert [x for x in now if x[0] != "metrics.jsonl"] == [x for x in left if x[0] != "metrics.jsonl"]


def test_values_that_are_not_finite_stop_the_run(tmp_path, monkeypatch):
  """Of the search itself, before anything is learned from them."""

  def broken(table, roots, beliefs, values):
    return make_examples(table, roots, beliefs, values * jnp.nan)

  monkeypatch.setattr(self_play, "make_examples", broken)
  # Settings of no other test, so that it is compiled anew.
  config = tiny(tmp_path, learning_rate=1.25e-3, min_examples=64)
  with pytest.raises(
    RunError, match=r"^the value error is nan at step 2, in the chunk from step 1"
  ):
    train(config)
  assert not checkpoint.checkpoints_of(tmp_path)


def test_learning_that_diverges_stops_the_run(tmp_path):
  with pytest.raises(RunError, match=r"^the loss is (nan|inf) and the .* is (nan|inf).* at step"):
    train(tiny(tmp_path, learning_rate=1e30, examples=400))
  for path in checkpoint.checkpoints_of(tmp_path):
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(rebel_jax.load(path).params))


def test_exploitability_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
  monkeypatch.setattr(
    "rebel_jax.evaluation.Evaluator.exploitability", lambda *_, **__: float("nan")
  )
  with pytest.raises(RunError, match=r"^the exploitability is nan, .* at step 4, so training"):
    train(tiny(tmp_path))
  assert [row["step"] for row in rows(tmp_path)] == [2]


def test_memory_that_does_not_suffice(tmp_path, monkeypatch):
  def full(*_, **__):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 byte")

  monkeypatch.setattr(Trainer, "init", full)
  with pytest.raises(ConfigError, match=r"^buffer_size=256 examples with width=32 must fit"):
    train(tiny(tmp_path / "run"))
  assert not (tmp_path / "run").exists()
  monkeypatch.undo()

  monkeypatch.setattr(Trainer, "run", full)
  with pytest.raises(
    RunError, match=r"^lanes=\d+ with width=32 and buffer_size=256 must fit in the"
  ):
    train(tiny(tmp_path / "run"))

  def other(*_, **__):
    raise jax.errors.JaxRuntimeError("INTERNAL: something else")

  monkeypatch.setattr(Trainer, "run", other)
  with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
    train(tiny(tmp_path / "other"))


def test_versions_from_before_are_refused(copy):
  """Sums or not: the format says whether a checkpoint can be read."""
  path = checkpoint.checkpoints_of(copy)[-1] / "about" / "metadata"
  about = json.loads(path.read_text()) | {"format": 1}
  del about["about_checksum"]
  path.write_text(json.dumps(about))
  with pytest.raises(ConfigError, match=r"has format 1; this version reads 2$"):
    train(dataclasses.replace(TINY, output_dir=str(copy), resume=True))


@pytest.mark.parametrize(
  ("ends", "code"),
  [
    (0, 0),
    (signal.SIGINT, 130),
    (signal.SIGTERM, 143),
    (ConfigError("width=0 must be at least 1"), 2),
    (RunError("the loss is nan"), 1),
    (KeyboardInterrupt(), 130),
  ],
  ids=str,
)
def test_exit_codes(ends, code, tmp_path, monkeypatch, capsys):
  """As docs/runs.md lists them; what went wrong is one line on standard error."""

  def end(config, **_):
    if isinstance(ends, BaseException):
      raise ends
    return Result(tmp_path, {}, ends)

  monkeypatch.setattr("rebel_jax.run.train", end)
  monkeypatch.setattr(cli.compile_cache, "enable", lambda: None)
  assert cli.main(as_flags()) == code
  assert capsys.readouterr().err.count("\n") == isinstance(ends, BaseException)
