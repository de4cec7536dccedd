"""The benchmarks of agents print what their pages quote."""

import json

import pytest

from benchmarks import match, precision


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


@pytest.mark.slow
def test_precisions(capsys):
  precision.main(precision.Options(playthroughs=2, iterations=16, seeds=1))
  rows = lines(capsys)
  errors = [row["value_error"] for row in rows]
  assert [row["precision"] for row in rows] == ["float32", "tensorfloat32", "bfloat16"]
  assert 0 == errors[0] < errors[1] < errors[2]
