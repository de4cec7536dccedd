"""Metrics as TensorBoard event files, and what a run says of itself."""

import struct

import pytest

from rebel_jax import train as cli
from rebel_jax.runs import chunk, metrics
from rebel_jax.runs.run import train
from rebel_jax.training.loop import Report
from rebel_jax.training.targets.target import LearnerStats
from tests.tiny import as_flags, rows, tiny, trained


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
  expected = {row["step"]: row for row in rows(tmp_path)}
  assert said.keys() == expected.keys() == {2, 4, 6, 8}
  for step, row in expected.items():
    numbers = {name: value for name, value in row.items() if name != "step" and value is not None}
    assert said[step].keys() >= numbers.keys()
    for name, value in numbers.items():
      assert said[step][name] == pytest.approx(value, rel=1e-6), name
  assert rows(tmp_path) == rows(trained())


def test_without_tensorboardx_nothing_is_written(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(metrics.importlib.util, "find_spec", lambda name: None)
  assert cli.main([*as_flags(), "--tensorboard"]) == 2
  err = capsys.readouterr().err
  assert err.startswith("error: tensorboard=True needs the package tensorboardX, which is not")
  assert err.count("\n") == 1
  assert list(tmp_path.iterdir()) == []


def test_age_of_the_buffer():
  assert chunk.buffer_age(0, 0, 0) == 0
  assert chunk.buffer_age(100, 100, 10) == 5.0
  assert chunk.buffer_age(100, 1_000, 100) == 5.0  # the newest hundred of a thousand


def test_losses_count_only_steps_that_learned():
  learned = {"value": LearnerStats(0.5, 2.0), "policy": LearnerStats(1.5, 0.25)}
  report = Report(learned, held_out={"value": 0.125}, solves=4, rows=8)
  said = chunk.losses(report, 8, 4)
  values = {"loss": 1.0, "gradient_norm": 4.0}
  policies = {"policy_loss": 3.0, "policy_gradient_norm": 0.5}
  assert said == values | policies | {"value_error": 0.125}
  assert chunk.losses(report, 8, 0) == said | dict.fromkeys([*values, *policies])
