"""Faults, injected: what is on disk afterwards is good, and what is said is one sentence."""

import errno
import functools
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
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.manager import CheckpointManager, SaveError
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.measurement import Measurement
from rebel_jax.runs import run as run_module
from rebel_jax.runs.metrics import MetricsLog
from rebel_jax.runs.run import Result, train
from rebel_jax.runs.stopping import CLOSED_PIPE, Interrupted, RunError
from rebel_jax.training import self_play
from rebel_jax.training.loop import Trainer
from solvers.search.batch import search_batch
from tests.rebel_jax.test_checkpoint import assert_same_run
from tests.tiny import as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[2]


# When the next checkpoint is saved, no file can grow beyond some bytes, as if the disk were full.
FULL_DISK = """
import resource, sys
from rebel_jax import train as cli
from rebel_jax.checkpoints.manager import CheckpointManager

save = CheckpointManager.save

def full(self, *arguments):
  resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
  save(self, *arguments)

CheckpointManager.save = full
flags = ["--resume", "--output-dir", sys.argv[1], "--evaluate-every", "0"]
sys.exit(cli.main([*flags, "--checkpoint-every", "0.001"]))
"""


@pytest.mark.parametrize(
  ("room", "what"),
  # With so little room several of Orbax's writes fail at a time, and the log of metrics may be
  # the first to notice.
  [
    (4_096, r"checkpoint=.*/0000000[34]' cannot be written: .*stopped; "),
    pytest.param(600, ".*cannot be written", marks=pytest.mark.slow),
  ],
)
def test_a_disk_that_is_full_when_a_checkpoint_is_saved(tmp_path, room, what):
  """One sentence, the checkpoint from before, and a run that goes on once there is room."""
  train(*tiny(tmp_path), stop=lambda step: step >= 2)
  result = subprocess.run(
    [sys.executable, "-c", FULL_DISK, tmp_path, str(room)],
    cwd=ROOT, capture_output=True, text=True,
    env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"},
  )  # fmt: skip
  assert result.returncode == 1
  assert re.fullmatch(f"error: {what}.*\n", result.stderr)
  assert [p.name for p in checkpoint.checkpoints_of(tmp_path)] == ["00000002"]
  train(*tiny(tmp_path, resume=True))
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
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
  (tmp_path / "run").mkdir()
  (tmp_path / "run" / ".lock").mkdir()
  with pytest.raises(ConfigError, match=r"^output_dir=.* must be a folder that can be written: "):
    train(*tiny(tmp_path / "run"))


KILLED = """
import os, signal, sys
import orbax.checkpoint as ocp
from rebel_jax.runs.run import train
from tests.tiny import tiny

moment, save = sys.argv[2], ocp.AsyncCheckpointer.save
first = moment == "renaming"

def die():
  os.kill(os.getpid(), signal.SIGKILL)

def dying_save(self, path, **arguments):
  if path.name != "00000004":
    return save(self, path, **arguments)
  if moment == "before":
    die()
  save(self, path, **arguments)
  if moment == "while":
    die()

ocp.AsyncCheckpointer.save = dying_save
if first:
  os.rename = lambda *_, **__: die()
train(*tiny(sys.argv[1], resume=not first, evaluate_every=0), stop=lambda step: step >= 4)
"""


@pytest.mark.parametrize(
  "moment", ["while", *(pytest.param(x, marks=pytest.mark.slow) for x in ("before", "renaming"))]
)
def test_killed_while_it_saves(tmp_path, moment):
  if moment != "renaming":
    train(*tiny(tmp_path), stop=lambda step: step >= 2)
  killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, moment], cwd=ROOT, check=False)
  assert killed.returncode == -signal.SIGKILL
  if moment == "renaming":
    assert not checkpoint.checkpoints_of(tmp_path)
    train(*tiny(tmp_path))
  else:
    assert [p.name for p in checkpoint.checkpoints_of(tmp_path)] == ["00000002"]
    train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())
  assert all(p.name.isdigit() for p in (tmp_path / "checkpoints").iterdir())


def test_what_a_kill_leaves_is_removed_and_nothing_else(tmp_path, monkeypatch):
  """Neither when a run goes on nor when it prunes its checkpoints."""
  others = [
    "backup_best", "lightning_v1", "123", "00000001", "mine.orbax-checkpoint-tmp", "4.orbax-tmp",
  ]  # fmt: skip
  ours = ["00000004.orbax-checkpoint-tmp", "00000006.orbax-checkpoint-tmp-17", ".pruned"]
  folder = tmp_path / "checkpoints"
  monkeypatch.setattr(run_module, "CheckpointManager", functools.partial(CheckpointManager, keep=1))

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


def test_a_folder_in_the_way_of_a_checkpoint_stays(tmp_path):
  train(*tiny(tmp_path), stop=lambda step: step >= 2)
  run = tiny(tmp_path, resume=True)

  def occupy(step):
    (tmp_path / "checkpoints" / "00000008" / "file").mkdir(parents=True, exist_ok=True)
    return False

  sentence = r"^checkpoint=.*00000008' cannot be written: what has its name was not .*stopped"
  with pytest.raises(RunError, match=sentence):
    train(*run, stop=occupy)
  assert (tmp_path / "checkpoints" / "00000008" / "file").is_dir()


def test_the_same_step_saved_again_says_it_anew_of_the_same_arrays(tmp_path):
  """As after a signal during an evaluation that the resumed run makes up for."""
  shutil.copytree(trained(), tmp_path / "run")
  newest = checkpoint.checkpoints_of(tmp_path / "run")[-1]
  setup = rebel_jax.training.setup.make_setup(tiny(tmp_path / "run")[0])
  like = setup.trainer.init(setup.table, 5, setup.mesh)
  state = checkpoint.restore(newest, like, setup.mesh)
  about = checkpoint.read_about(newest)
  manager = CheckpointManager(tmp_path / "run", keep=1)
  manager.save(state, about | {"seen": "twice", "num_devices": 7, "exploitability": 1e-6})
  manager.close()
  assert checkpoint.read_about(newest) == about | {"seen": "twice", "exploitability": 1e-6}
  jax.tree.map(np.testing.assert_array_equal, rebel_jax.load(newest).params, state.params)
  # It is the best from now on.
  manager = CheckpointManager(tmp_path / "run", keep=1)
  for step in (9, 10):
    manager.save(state._replace(step=jnp.int32(step)), about | {"step": step})
  manager.close()
  kept = [p.name for p in checkpoint.checkpoints_of(tmp_path / "run")]
  assert kept == ["00000008", "00000010"]


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
  shutil.copytree(trained(), tmp_path / "run")
  newest = checkpoint.checkpoints_of(tmp_path / "run")[-1]
  setup = rebel_jax.training.setup.make_setup(tiny(tmp_path / "run")[0])
  state = setup.trainer.init(setup.table, 5, setup.mesh)._replace(step=jnp.int32(9))
  manager = CheckpointManager(tmp_path / "run", keep=3)

  def fail(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  with monkeypatch.context() as patch:
    patch.setattr(ocp.args.Composite, "__init__", fail)
    with pytest.raises(SaveError, match="No space left on device"):
      manager.save(state, checkpoint.read_about(newest))
  assert checkpoint.checkpoints_of(tmp_path / "run")[-1] == newest
  manager.save(state, checkpoint.read_about(newest) | {"step": 9})
  manager.close()
  assert [p.name for p in newest.parent.iterdir() if not p.name.isdigit()] == []
  assert checkpoint.checkpoints_of(tmp_path / "run")[-1].name == "00000009"


def test_a_checkpoint_is_of_the_moment_it_was_asked_for(tmp_path):
  """Training goes on in the same memory while it is written."""
  config, _ = tiny(tmp_path, buffer_size=2**18)
  setup = rebel_jax.training.setup.make_setup(config)
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  state, _ = setup.trainer.run(setup.table, state, 2, setup.mesh)
  then = jax.tree.map(np.array, checkpoint.plain(state) | {"params": state.params})
  manager = CheckpointManager(tmp_path, keep=3)
  manager.save(state, {"config": config.to_dict(), "num_devices": 1})
  for _ in range(3):
    state, _ = setup.trainer.run(setup.table, state, 2, setup.mesh)
  jax.block_until_ready(state)
  manager.close()
  (path,) = checkpoint.checkpoints_of(tmp_path)
  saved = checkpoint.restore(path, state, setup.mesh)
  jax.tree.map(
    np.testing.assert_array_equal, checkpoint.plain(saved) | {"params": saved.params}, then
  )


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
  # Two changes that a plain weighted sum would not see.
  assert checkpoint.sum_of_arrays(tree | {"a": -tree["a"]}) not in seen
  assert checkpoint.sum_of_arrays({"b": tree["a"], "a": tree["b"]}) != good


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
    train(*tiny(copy, resume=True, examples=128))
  if item == "params":
    with pytest.raises(ConfigError, match=sentence):
      rebel_jax.load(copy)
  # As the sentence says: the checkpoint before is good.
  shutil.rmtree(newest)
  train(*tiny(copy, resume=True))
  assert_same_run(copy, trained())


@pytest.mark.slow
def test_bits_that_flip_on_the_disk_are_noticed(copy):
  """Orbax notices where it cannot decode what it reads, and otherwise returns other numbers."""
  newest = checkpoint.checkpoints_of(copy)[-1]
  setup = rebel_jax.training.setup.make_setup(tiny(copy)[0])
  like = setup.trainer.init(setup.table, 0, setup.mesh)
  good = jax.tree.leaves(checkpoint.plain(checkpoint.restore(newest, like, setup.mesh)))
  largest = max((newest / "state").rglob("d/*"), key=lambda path: path.stat().st_size)
  data, silent = largest.read_bytes(), 0
  # Which bits Orbax notices depends on how well the numbers happened to compress.
  for place in range(len(data) // 16, len(data), len(data) // 64):
    flipped = bytearray(data)
    flipped[place] ^= 4
    largest.write_bytes(flipped)
    try:
      with ocp.StandardCheckpointer() as checkpointer:
        found = checkpointer.restore(newest / "state", checkpoint.plain(like))
      alike = all(np.array_equal(x, y) for x, y in zip(good, jax.tree.leaves(found)))
    except Exception:
      alike = False
    else:
      silent += not alike
    if not alike:
      with pytest.raises(ConfigError, match=r"^checkpoint=.*00000008' cannot be read"):
        checkpoint.restore(newest, like, setup.mesh)
    if silent:
      return
  pytest.fail("Orbax noticed every flip: the project's own sums are not needed")


def test_what_a_checkpoint_says_about_itself_cannot_be_edited(copy):
  path = checkpoint.checkpoints_of(copy)[-1] / "about" / "metadata"
  about = json.loads(path.read_text())
  path.write_text(json.dumps(about, indent=1))  # how it is written does not matter
  assert checkpoint.read_about(path.parents[1])["step"] == 8
  path.write_text(json.dumps(about | {"step": 6}))
  with pytest.raises(ConfigError, match="what it says about itself was changed"):
    train(*tiny(copy, resume=True, examples=128))


@pytest.mark.parametrize(
  "change",
  [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(path.read_bytes()[:-9]),
    lambda path: path.write_bytes(path.read_bytes().replace(b'"loss": 0.', b'"loss": 9.', 1)),
  ],
  ids=["gone", "cut", "edited"],
)
def test_metrics_that_were_damaged(copy, change):
  path = copy / "metrics.jsonl"
  change(path)
  left = path.read_bytes() if path.exists() else None
  with pytest.raises(
    ConfigError, match=r"^metrics=.*' does not begin with the \d+ bytes that were"
  ):
    train(*tiny(copy, resume=True, examples=128))
  assert (path.read_bytes() if path.exists() else None) == left


def test_values_that_are_not_finite_stop_the_run(tmp_path, monkeypatch):
  """Of the search itself, before anything is learned from them."""

  def broken(*arguments, **settings):
    found = search_batch(*arguments, **settings)
    return found._replace(root_values=found.root_values * jnp.nan)

  monkeypatch.setattr(self_play, "search_batch", broken)
  # Settings of no other test, so that it is compiled anew.
  run = tiny(tmp_path, learning_rate=1.25e-3, batch_size=16)
  with pytest.raises(RunError, match=r"^the value error is nan at step 1, in the steps from 1 on"):
    train(*run)
  assert not checkpoint.checkpoints_of(tmp_path)


def test_learning_that_diverges_stops_the_run(tmp_path):
  with pytest.raises(RunError, match=r"^the loss is (nan|inf) and the .* is (nan|inf).* at step"):
    train(*tiny(tmp_path, learning_rate=1e30, examples=400))
  for path in checkpoint.checkpoints_of(tmp_path):
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(rebel_jax.load(path).params))


def test_parameters_that_are_not_finite_stop_the_run(tmp_path, monkeypatch):
  """Also where no loss says so: the last gradient step of a call may have spoilt them."""
  run = Trainer.run

  def spoil(self, table, state, num_steps, mesh):
    state, report = run(self, table, state, num_steps, mesh)
    spoilt = jax.tree.map(lambda x: x * jnp.nan, state.params)
    return (state._replace(params=spoilt) if int(state.step) > 4 else state), report

  monkeypatch.setattr(Trainer, "run", spoil)
  with pytest.raises(RunError, match=r"^the networks' parameters are not finite at step [56], in"):
    train(*tiny(tmp_path, checkpoint_every=1e-6))
  assert checkpoint.checkpoints_of(tmp_path)[-1].name == "00000004"
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(rebel_jax.load(tmp_path).params))


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


def test_a_network_that_is_not_finite_is_not_loaded(tmp_path):
  policy = rebel_jax.load(trained())
  spoilt = jax.tree.map(lambda x: jnp.where(x == x.max(), jnp.inf, x), policy.params)
  checkpoint.export(policy._replace(params=spoilt), tmp_path)
  with pytest.raises(ConfigError, match=r"^checkpoint=.* holds parameters that are not finite"):
    checkpoint.load_pretrained("spoilt", tmp_path)


def test_exploitability_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
  monkeypatch.setattr(
    Evaluator, "measure", lambda *_, **__: Measurement({"exploitability": float("nan")})
  )
  with pytest.raises(RunError, match=r"^the exploitability is nan at step 4, so training"):
    train(*tiny(tmp_path))
  assert [row["step"] for row in rows(tmp_path)] == [2]


def test_memory_that_does_not_suffice_to_read_a_checkpoint(copy, monkeypatch):
  """It is not damaged. On a device, and on the host."""
  device = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 byte")
  for error in (device, MemoryError()):

    def full(*_, error=error, **__):
      raise error

    monkeypatch.setattr(ocp.StandardCheckpointer, "restore", full)
    with pytest.raises(
      ConfigError, match=r"^lanes=4 with width=32 and buffer_size=256 must fit in"
    ):
      train(*tiny(copy, resume=True, examples=128))


def test_other_errors_of_a_device_are_not_taken_for_those_of_memory(tmp_path, monkeypatch):
  def other(*_, **__):
    raise jax.errors.JaxRuntimeError("INTERNAL: something else")

  monkeypatch.setattr(Trainer, "run", other)
  with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
    train(*tiny(tmp_path / "other"))


def test_versions_from_before_are_refused(copy):
  """Sums or not: the format says whether a checkpoint can be read."""
  path = checkpoint.checkpoints_of(copy)[-1] / "about" / "metadata"
  about = json.loads(path.read_text()) | {"format": 2}
  del about["about_checksum"]
  path.write_text(json.dumps(about))
  with pytest.raises(ConfigError, match=rf"has format 2; this version reads {checkpoint.FORMAT}$"):
    train(*tiny(copy, resume=True))


@pytest.mark.parametrize(
  ("ends", "code"),
  [
    (0, 0),
    (signal.SIGINT, 130),
    (signal.SIGTERM, 143),
    (signal.SIGHUP, 129),
    (CLOSED_PIPE, 141),
    (Interrupted(signal.SIGTERM), 143),
    (ConfigError("width=0 must be at least 1"), 2),
    (RunError("the loss is nan"), 1),
    (KeyboardInterrupt(), 130),
  ],
  ids=str,
)
def test_exit_codes(ends, code, tmp_path, monkeypatch, capsys):
  """As docs/runs.md lists them; what went wrong is one line on standard error."""

  def end(*_, **__):
    if isinstance(ends, BaseException):
      raise ends
    return Result(tmp_path, {}, ends)

  monkeypatch.setattr("rebel_jax.runs.run.train", end)
  monkeypatch.setattr(cli.compile_cache, "enable", lambda: None)
  assert cli.main(as_flags()) == code
  said = isinstance(ends, BaseException) or ends == CLOSED_PIPE
  assert capsys.readouterr().err.count("\n") == said
