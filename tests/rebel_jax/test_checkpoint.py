"""Checkpoints: a run cut short ends exactly as one that was not; other runs' are refused."""

import contextlib
import errno
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import rebel_jax
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs import folders
from rebel_jax.runs.display import Display, RunError
from rebel_jax.runs.metrics import MetricsLog
from rebel_jax.runs.run import train
from rebel_jax.training.loop import Trainer
from tests.sentences import sentence_of
from tests.tiny import as_flags, restored, rows, tiny, trained

ROOT = Path(__file__).parents[2]


def newest(folder, **changes):
  """Returns all arrays of a folder's newest checkpoint."""
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


def signalled_in_an_evaluation(folder, patch, step=4):
  """The evaluation is made up for, with the same result; nothing is written twice."""
  measure = Evaluator.exploitability

  def interrupted(self, params, *, seed, **arguments):
    if seed == step:
      os.kill(os.getpid(), signal.SIGINT)
    return measure(self, params, seed=seed, **arguments)

  patch.setattr(Evaluator, "exploitability", interrupted)
  assert train(*tiny(folder)).signal == signal.SIGINT
  assert rows(folder)[-1]["step"] == step
  assert "exploitability" not in rows(folder)[-1]


def signalled_in_the_last_evaluation(folder, patch):
  signalled_in_an_evaluation(folder, patch, 8)


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
    stopped, signalled, signalled_in_an_evaluation, signalled_in_the_last_evaluation,
    killed_while_a_row_is_written, ended_by_a_full_disk, ended_by_another_command,
    *map(spoilt, ("loss", "value error", "parameters")),
  ],
  ids=lambda cut: cut.__name__,
)  # fmt: skip
def test_cut_short_and_resumed_is_as_never_cut(tmp_path, monkeypatch, cut):
  with monkeypatch.context() as patch:
    cut(tmp_path, patch)
  train(*tiny(tmp_path, resume=True))
  assert_same_run(tmp_path, trained())
  train(*tiny(tmp_path, resume=True))  # nothing is left to do
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
  long = as_flags(examples=16_000, evaluate_every=8_000, checkpoint_every=1e-6)
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
  for folder, resume, said in (
    (trained(), False, "holds another run's checkpoint"),
    (tmp_path / "none", True, "holds no checkpoint to resume from"),
    (tmp_path / "file", False, "must be a folder"),
  ):
    assert said in sentence_of(train, *tiny(folder, resume=resume))
  assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]
  with folders.lock(tmp_path):
    assert "is in use by another run" in sentence_of(train, *tiny(tmp_path))


@pytest.mark.parametrize(
  "changes", [{"game": "leduc_poker"}, {"width": 16}, {"algorithm": "cfr_plus"}, {"lanes": 8}]
)
def test_checkpoints_of_another_run_are_refused(changes):
  (field,) = changes
  with pytest.raises(ConfigError, match=rf"^{field}=.* cannot resume the run in .* allowed is "):
    train(*tiny(trained(), resume=True, **changes))


def test_pretrained_networks(tmp_path, monkeypatch):
  monkeypatch.setattr(checkpoint, "_PRETRAINED", tmp_path)
  policy = rebel_jax.load(trained())
  checkpoint.export(policy, tmp_path / "small", {"exploitability": 0.25})
  assert rebel_jax.pretrained() == ("small",)
  again = rebel_jax.load_pretrained("small")
  assert again.config == policy.config
  assert again.about["exploitability"] == 0.25
  jax.tree.map(np.testing.assert_array_equal, again.params, policy.params)
  assert "those are: small" in sentence_of(rebel_jax.load, "smal")


def events(folder) -> list:
  """Returns the events of all files in order: records of length, sum, data and sum."""
  event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
  found = []
  for path in sorted((folder / "tensorboard").iterdir()):
    data = path.read_bytes()
    while data:
      (length,) = struct.unpack("<Q", data[:8])
      found.append(event_pb2.Event.FromString(data[12 : 12 + length]))
      data = data[16 + length :]
  return found


def test_event_files_hold_the_rows(tmp_path):
  pytest.importorskip("tensorboardX")
  train(*tiny(tmp_path, tensorboard=True), stop=lambda step: step >= 4)
  train(*tiny(tmp_path, tensorboard=True, resume=True))
  said: dict = {}
  for event in events(tmp_path):
    for value in event.summary.value:
      said.setdefault(event.step, {})[value.tag] = value.simple_value
  assert said.pop(0)["exploitability"] > 0
  expected = {row["step"]: row for row in rows(tmp_path)}
  assert said.keys() == expected.keys() == {2, 4, 6, 8}
  for step, row in expected.items():
    numbers = {name: value for name, value in row.items() if name != "step" and value is not None}
    assert said[step].keys() >= numbers.keys()
    for name, value in numbers.items():
      assert said[step][name] == pytest.approx(value, rel=1e-6), name
  assert rows(tmp_path) == rows(trained())
