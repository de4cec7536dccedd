"""Folders that runs share with other people's files: nothing is written over, nothing deleted."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.runs import folders
from rebel_jax.runs.run import train
from rebel_jax.training.loop import Trainer
from solvers.validation import is_concrete
from tests.tiny import rows, tiny, trained


def contents(folder) -> dict:
  """Returns every file of a folder with what it holds, but for the lock."""
  return {
    path.relative_to(folder): path.read_bytes()
    for path in Path(folder).rglob("*")
    if path.is_file() and path.name != ".lock"
  }


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("config.json", '{"lr": 0.1}'),
    ("config.json", "not JSON"),
    ("metrics.jsonl", '{"epoch": 1}\n'),
    ("exploitability.png", "a picture"),
    ("tensorboard/events.out", "events"),
    ("checkpoints/lightning_v1/last.ckpt", "weights"),
    ("checkpoints", "a file"),
  ],
)
def test_what_another_program_wrote_is_not_written_over(tmp_path, name, text):
  (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
  (tmp_path / name).write_text(text)
  before = contents(tmp_path)
  with pytest.raises(ConfigError, match=r"^output_dir=.* holds '.*', which a run would write over"):
    train(*tiny(tmp_path))
  assert contents(tmp_path) == before


def test_what_a_run_does_not_write_is_in_nobodys_way(tmp_path):
  (tmp_path / "notes.txt").write_text("mine")
  train(*tiny(tmp_path), stop=lambda step: step >= 2)
  assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_whose_checkpoints_are_gone_is_not_written_over(tmp_path):
  shutil.copytree(trained(), tmp_path / "run")
  shutil.rmtree(tmp_path / "run" / "checkpoints")
  before = contents(tmp_path)
  with pytest.raises(ConfigError, match="holds 'metrics.jsonl', which a run would"):
    train(*tiny(tmp_path / "run"))
  assert contents(tmp_path) == before


def test_a_run_that_was_killed_before_its_first_checkpoint_may_be_started_again(
  tmp_path, monkeypatch
):
  """It has no rows yet: they come after the first checkpoint."""

  def killed(*_):
    raise SystemError

  monkeypatch.setattr("rebel_jax.runs.run.CheckpointManager.wait", killed)
  with pytest.raises(SystemError):
    train(*tiny(tmp_path))
  monkeypatch.undo()
  assert {"config.json", "metrics.jsonl", ".lock"} <= {p.name for p in tmp_path.iterdir()}
  shutil.rmtree(tmp_path / "checkpoints")
  (tmp_path / "checkpoints" / "00000002.orbax-checkpoint-tmp").mkdir(parents=True)
  train(*tiny(tmp_path), stop=lambda step: step >= 2)
  assert [row["step"] for row in rows(tmp_path)] == [2]
  assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["00000002"]


@pytest.mark.parametrize(
  "name", [".lock", "metrics.jsonl", "config.json", "checkpoints", "exploitability.png"]
)
@pytest.mark.parametrize("resume", [True, False])
def test_links_to_elsewhere_are_not_followed(tmp_path, name, resume):
  run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
  if resume:
    shutil.copytree(trained(), run)
    if (run / name).exists():
      shutil.move(run / name, elsewhere)
    else:
      elsewhere.write_text("precious")
  else:
    run.mkdir()
    elsewhere.write_text("precious")
  (run / name).symlink_to(elsewhere)
  before = contents(tmp_path)
  with pytest.raises(
    ConfigError, match=rf"^output_dir=.* holds '{name}', which a run would write over"
  ):
    train(*tiny(run, resume=resume, examples=128))
  assert contents(tmp_path) == before


def test_the_lock_is_opened_as_it_is(tmp_path):
  (tmp_path / ".lock").write_text("not ours")
  with folders.lock(tmp_path):
    pass
  assert (tmp_path / ".lock").read_text() == "not ours"


def test_checkpoints_that_may_not_be_read(monkeypatch):
  """The user's rights decide, which root has all of."""
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name) / "checkpoints"
    folder.mkdir(mode=0)
    os.chmod(name, 0o755)
    for user in {os.geteuid(), 65_534} if os.geteuid() == 0 else {os.geteuid()}:
      before = os.geteuid()
      os.seteuid(user)
      try:
        if user == 0:
          assert checkpoint.checkpoints_of(name) == []
          continue
        with pytest.raises(ConfigError, match=r"^checkpoints=.* cannot be read: Permission denied"):
          train(*tiny(name, resume=True))
        with pytest.raises(ConfigError, match=r"^checkpoints=.* cannot be read: Permission denied"):
          train(*tiny(name))
      finally:
        os.seteuid(before)


def test_what_orbax_keeps_checkpoints_by_may_be_damaged(tmp_path):
  shutil.copytree(trained(), tmp_path / "run")
  oldest = checkpoint.checkpoints_of(tmp_path / "run")[0]
  (oldest / "metrics" / "metrics").write_text("{")
  before = contents(tmp_path)
  with pytest.raises(ConfigError, match=r"^checkpoints=.*/run/checkpoints' cannot be read: "):
    train(*tiny(tmp_path / "run", resume=True, examples=128))
  assert contents(tmp_path) == before


def test_a_resumed_run_is_restored_without_being_made_anew(tmp_path, monkeypatch):
  """Its first state would be computed for nothing, and take memory beside the one restored."""
  shutil.copytree(trained(), tmp_path / "run")
  made, init = [], Trainer.init

  def watched(*arguments):
    made.append(init(*arguments))
    return made[-1]

  monkeypatch.setattr(Trainer, "init", watched)
  train(*tiny(tmp_path / "run", resume=True))
  assert not any(is_concrete(state) for state in made)
  train(*tiny(tmp_path / "other"), stop=lambda step: True)
  assert is_concrete(made[-1])


def test_the_record_says_how_a_folder_came_about(tmp_path):
  train(*tiny(tmp_path), stop=lambda step: step >= 2)
  train(*tiny(tmp_path, resume=True, evaluate_every=0))
  about = json.loads((tmp_path / "config.json").read_text())
  assert [command["step"] for command in about["commands"]] == [0, 2]
  assert about["config"]["schedule"]["evaluate_every"] == 0
  assert not list(tmp_path.glob("*.new"))
