"""Checkpoints: runs that were cut short end exactly as runs that were not."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import rebel_jax
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs import folders
from rebel_jax.runs.display import Display
from rebel_jax.runs.run import _Run, train
from rebel_jax.runs.stopping import RunError
from rebel_jax.training.loop import Trainer
from rebel_jax.training.setup import make_setup
from tests.tiny import TINY, as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[2]
KEPT = {"params", "state", "about", "metrics"}


def restored(folder, **changes):
  """Returns all arrays of a folder's newest checkpoint."""
  setup = make_setup(tiny(folder, **changes)[0])
  like = setup.trainer.init(setup.table, 0, setup.mesh)
  state = checkpoint.restore(checkpoint.checkpoints_of(folder)[-1], like, setup.mesh)
  state = state._replace(keys=jax.random.key_data(state.keys))
  return jax.tree.map(np.asarray, state)


def assert_same_run(folder, other, **changes):
  found, expected = restored(folder, **changes), restored(other, **changes)
  jax.tree.map(np.testing.assert_array_equal, found, expected)
  assert rows(folder) == rows(other)


def test_a_run_leaves_what_it_says():
  folder = trained()
  assert [row["step"] for row in rows(folder)] == [2, 4, 6, 8]
  evaluated = [row["step"] for row in rows(folder) if "exploitability" in row]
  assert evaluated == [4, 8]
  about = json.loads((folder / "config.json").read_text())
  assert about["config"]["seed"] == 0
  assert about["environment"]["versions"]["jax"] == jax.__version__
  newest = checkpoint.checkpoints_of(folder)[-1]
  assert {p.name for p in newest.iterdir()} >= KEPT
  state = restored(folder)
  assert (state.step, state.solves, state.replay["value"].added.sum()) == (8, 32, 64)


@pytest.mark.parametrize("steps", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_stopped_and_resumed_is_as_never_stopped(tmp_path, steps):
  first = train(*tiny(tmp_path), stop=lambda step: step >= steps)
  assert first.row["step"] == steps
  assert len(rows(tmp_path)) == steps // 2
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_longer_searches_late_in_a_run(tmp_path, capsys):
  """They begin at their step, resumed or not, and nothing before it knows of them."""
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
def test_muon_is_resumed_too(tmp_path):
  """Its state has parts without arrays, which Adam's has not."""
  changes = dict(optimizer="muon", learning_rate=0.02, belief_roots=2)
  train(*tiny(tmp_path / "whole", **changes))
  train(*tiny(tmp_path / "stopped", **changes), stop=lambda step: step >= 4)
  with pytest.raises(AssertionError):
    assert_same_run(tmp_path / "stopped", tmp_path / "whole", **changes)
  train(*tiny(tmp_path / "stopped", resume=True, **changes))
  assert_same_run(tmp_path / "stopped", tmp_path / "whole", **changes)
  assert rows(tmp_path / "whole")[-1]["gradient_steps"] > 0


def test_another_seed_is_another_run(tmp_path):
  train(*tiny(tmp_path, seed=1))
  with pytest.raises(AssertionError):
    assert_same_run(tmp_path, trained())


def test_a_signal_saves_and_leaves(tmp_path):
  def stop(step):
    if step == 4:
      os.kill(os.getpid(), signal.SIGTERM)
    return False

  before = signal.getsignal(signal.SIGTERM)
  result = train(*tiny(tmp_path), stop=stop)
  assert result.signal == signal.SIGTERM
  assert signal.getsignal(signal.SIGTERM) is before
  assert result.row["step"] == 4
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


@pytest.mark.parametrize("step", [4, 8])
def test_a_signal_during_an_evaluation(tmp_path, monkeypatch, step):
  """The evaluation is made up for, with the same result; nothing is written twice."""
  measure = Evaluator.exploitability

  def interrupted(self, params, *, seed, **arguments):
    if seed == step:
      os.kill(os.getpid(), signal.SIGINT)
    return measure(self, params, seed=seed, **arguments)

  with monkeypatch.context() as patch:
    patch.setattr(Evaluator, "exploitability", interrupted)
    result = train(*tiny(tmp_path))
  assert result.signal == signal.SIGINT
  assert rows(tmp_path)[-1]["step"] == step
  assert "exploitability" not in rows(tmp_path)[-1]
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_metrics_beyond_the_checkpoint_are_dropped(tmp_path):
  """As after a kill between two checkpoints, or in the middle of a line."""
  train(*tiny(tmp_path), stop=lambda step: step >= 4)
  with open(tmp_path / "metrics.jsonl", "a") as file:
    file.write('{"step": 6, "loss": 0.1}\n{"step": 8, "lo')
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_a_finished_run_has_nothing_left_to_do_unless_asked_for_more(tmp_path):
  shutil.copytree(trained(), tmp_path / "run")
  result = train(*tiny(tmp_path / "run", resume=True))
  assert result.row["step"] == 8
  assert_same_run(tmp_path / "run", trained())


def test_time_that_runs_out_between_chunks_still_ends_in_an_evaluation(tmp_path, monkeypatch):
  """Whether the run is over is asked once after steps were taken, however the clock moves."""
  asked = []

  def over(self):
    asked.append(self.step)
    return self.step >= 4

  monkeypatch.setattr(_Run, "_over", over)
  train(*tiny(tmp_path, evaluate_every=0))
  assert [row["step"] for row in rows(tmp_path)] == [2, 4]
  assert asked == sorted(set(asked))
  assert asked[-1] == 4
  assert rows(tmp_path)[-1]["playthroughs"] == TINY.search.final_playthroughs


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path):
  """Also while it saves, which it does after every chunk: nothing is lost and nothing doubled."""
  folder, reference = tmp_path / "killed", tmp_path / "whole"
  long = as_flags(examples=16_000, evaluate_every=8_000, checkpoint_every=1e-6)
  command = [sys.executable, ROOT / "train.py", "--output-dir"]
  environment = os.environ | {"PYTHONPATH": str(ROOT)}
  subprocess.run([*command, reference, *long], check=True, capture_output=True, env=environment)
  rng = random.Random(0)
  kills = 0
  for _ in range(100):
    resume = [folder, "--resume"] if checkpoint.checkpoints_of(folder) else [folder, *long]
    newest = checkpoint.checkpoints_of(folder)[-1:]
    with subprocess.Popen(
      [*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
      while checkpoint.checkpoints_of(folder)[-1:] == newest and process.poll() is None:
        time.sleep(0.01)
      with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.uniform(0.0, 1.5))
      process.kill()
      assert process.wait() in (0, -signal.SIGKILL), process.stderr.read()
    if process.returncode == 0:
      break
    kills += 1
  assert kills >= 5
  assert_same_run(folder, reference)
  assert all(p.name.isdigit() for p in (folder / "checkpoints").iterdir())


def test_newest_and_best_are_kept(tmp_path, monkeypatch):
  scores = {4: 0.5, 8: 0.1, 12: 0.3, 16: 0.2, 20: 0.4, 24: 0.6}
  monkeypatch.setattr(Evaluator, "exploitability", lambda self, *_, seed, **__: scores[seed])

  def kept() -> list[int]:
    return [int(path.name) for path in checkpoint.checkpoints_of(tmp_path)]

  train(*tiny(tmp_path, examples=160, evaluate_every=32))
  assert kept() == [8, 12, 16, 20]
  # Also of a run that is resumed, which knows the figures of before from its checkpoints alone.
  train(*tiny(tmp_path, examples=192, evaluate_every=32, resume=True))
  assert kept() == [8, 16, 20, 24]


@pytest.mark.parametrize("field", ["loss", "value_error", "gradient_norm"])
def test_a_number_that_is_not_finite_stops_the_run(tmp_path, monkeypatch, field):
  run = Trainer.run

  def diverge(self, table, state, num_steps, mesh):
    state, report = run(self, table, state, num_steps, mesh)
    if int(state.step) > 4:
      if field == "value_error":
        broken = report.held_out["value"] * float("nan")
        return state, report._replace(held_out={"value": broken})
      value = report.learned["value"]
      value = value._replace(**{field: getattr(value, field) * float("nan")})
      return state, report._replace(learned={"value": value})
    return state, report

  with monkeypatch.context() as patch:
    patch.setattr(Trainer, "run", diverge)
    what = field.replace("_", " ")
    with pytest.raises(RunError, match=f"the {what} is nan at step [56], in the steps from 5 on"):
      train(*tiny(tmp_path))
  assert checkpoint.checkpoints_of(tmp_path)[-1].name == "00000004"
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())


def test_folders_that_are_taken(tmp_path):
  with pytest.raises(ConfigError, match=r"^output_dir=.* holds another run's checkpoint"):
    train(*tiny(trained()))
  with pytest.raises(ConfigError, match=r"^output_dir=.* holds no checkpoint to resume from"):
    train(*tiny(tmp_path / "none", resume=True))
  (tmp_path / "file").write_text("")
  with pytest.raises(ConfigError, match=r"^output_dir=.* must be a folder"):
    train(*tiny(tmp_path / "file"))
  assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
  with (
    folders.lock(tmp_path),
    pytest.raises(ConfigError, match=r"^output_dir=.* is in use by another run"),
  ):
    train(*tiny(tmp_path))


@pytest.mark.parametrize(
  "changes",
  [
    {"game": "rock_paper_scissors"},
    {"width": 16},
    {"algorithm": "cfr_plus"},
    {"seed": 3},
    {"lanes": 8},
    {"buffer_size": 512},
  ],
  ids=str,
)
def test_checkpoints_of_another_run_are_refused(changes):
  (field,) = changes
  with pytest.raises(ConfigError, match=rf"^{field}=.* cannot resume the run in .* allowed is "):
    train(*tiny(trained(), resume=True, **changes))


@pytest.fixture
def copy(tmp_path):
  """A copy of a finished run, to damage."""
  shutil.copytree(trained(), tmp_path / "copy")
  return tmp_path / "copy"


def damage(folder, how):
  newest = checkpoint.checkpoints_of(folder)[-1]
  about = newest / "about" / "metadata"
  if how == "no arrays":
    for item in ("params", "state"):
      shutil.rmtree(newest / item)
  elif how == "cut arrays":
    for path in (newest / "params").rglob("*"):
      if path.is_file() and path.stat().st_size > 100:
        path.write_bytes(path.read_bytes()[:50])
  elif how == "cut about":
    about.write_text(about.read_text()[:40])
  elif how == "no about":
    shutil.rmtree(newest / "about")
  else:
    fields = json.loads(about.read_text())
    if how == "format":
      fields["format"] = 99
    elif how == "config":
      fields["config"]["self_play"]["lanes"] = -1
    elif how == "network":
      fields["config"]["network"]["width"] = 16
    about.write_text(json.dumps(fields))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Orbax's
@pytest.mark.parametrize(
  "how", ["no arrays", "cut arrays", "no about", "cut about", "format", "config", "network"]
)
def test_damaged_checkpoints_get_a_sentence(copy, how):
  damage(copy, how)
  before = {p: p.stat().st_mtime_ns for p in copy.rglob("*") if p.is_file()}
  changes = {"width": 16} if how == "network" else {}
  with pytest.raises(ConfigError, match=r"^checkpoint=.*copy/checkpoints/00000008'") as caught:
    train(*tiny(copy, resume=True, examples=128, **changes))
  assert "\n" not in str(caught.value)
  with pytest.raises(ConfigError, match=r"^checkpoint=.*copy/checkpoints/00000008'"):
    rebel_jax.load(copy)
  after = {p: p.stat().st_mtime_ns for p in copy.rglob("*") if p.is_file() and p.name != ".lock"}
  assert after == {p: t for p, t in before.items() if p.name != ".lock"}


def test_load_from_a_folder_and_from_a_checkpoint():
  newest = checkpoint.checkpoints_of(trained())[-1]
  first, second = rebel_jax.load(trained()), rebel_jax.load(str(newest))
  assert first.config == TINY
  assert first.about["step"] == 8
  jax.tree.map(np.testing.assert_array_equal, first.params, second.params)
  jax.tree.map(np.testing.assert_array_equal, first.params, restored(trained()).params)
  with pytest.raises(ConfigError, match=r"^checkpoint='nothing' is neither a folder nor"):
    rebel_jax.load("nothing")


def test_pretrained_networks(tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoint, "_PRETRAINED", tmp_path)
  policy = rebel_jax.load(trained())
  checkpoint.export(policy, tmp_path / "small", {"exploitability": 0.25})
  assert rebel_jax.pretrained() == ("small",)
  again = rebel_jax.load_pretrained("small")
  assert again.config == policy.config
  assert again.about["exploitability"] == 0.25
  jax.tree.map(np.testing.assert_array_equal, again.params, policy.params)
  with pytest.raises(ConfigError, match=r"'smal' is neither .* those are: small"):
    rebel_jax.load("smal")
  wider = policy._replace(config=policy.config.replace(width=16))
  checkpoint.export(wider, tmp_path / "wrong")
  with pytest.raises(ConfigError, match="wrong' does not hold the network"):
    rebel_jax.load_pretrained("wrong")
