"""The benchmarks of agents print what their pages quote."""

import json

import pytest

from benchmarks import match, table2
from rebel_jax import evaluate
from rebel_jax.checkpoints import checkpoint
from tests.tiny import trained


def lines(capsys):
  return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_matches(capsys):
  match.main(match.Options(games=40, iterations=8))
  rows = lines(capsys)
  assert [row["opponent"] for row in rows] == list(match.OPPONENTS)
  assert all(row["games"] == 40 for row in rows)
  assert rows[0]["mean"] > 0.1  # uniform play loses to almost anyone
  with pytest.raises(SystemExit, match="opponents='nobody' is unknown"):
    match.main(match.Options(opponents=("nobody",)))


def test_table2_is_the_mean_of_the_last_checkpoints(capsys, tmp_path):
  run = trained()
  options = table2.Options((str(run),), 3, 16, checkpoints=2, keep=tmp_path)
  table2.main(options)
  (row,) = lines(capsys)
  paths = checkpoint.checkpoints_of(run)[-2:]
  asked = [evaluate.Options(str(path), playthroughs=3, iterations=16) for path in paths]
  alone = [evaluate.measure(options)["exploitability"] for options in asked]
  assert alone[0] != alone[1]
  assert row["exploitability"] == pytest.approx(alone, rel=1e-3)
  assert row["mean"] == pytest.approx(sum(alone) / 2, rel=1e-3)
  assert row["paper"] is None  # Kuhn poker is not in it
  assert len(list(tmp_path.iterdir())) == 2
  with pytest.raises(SystemExit, match="checkpoints=9 must be from 1 to the"):
    table2.main(table2.Options((str(run),), checkpoints=9))
