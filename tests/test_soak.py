"""The soak benchmark: its slopes, and that its comparison of runs notices what it should."""

import json

import pytest

from benchmarks import soak
from rebel_jax import metrics
from tests.tiny import trained


def measured(growth: float, slowdown: float) -> list[dict]:
  """Returns rows of an hour that grow and slow down by so much of their first value."""
  rows = []
  for minute in range(60):
    hours = minute / 60
    rows.append(
      {
        "seconds": 60.0 * minute,
        "resident_bytes": int(1e9 * (1 + growth * hours)),
        "examples_per_second": 100.0 * (1 - slowdown * hours),
      }
    )
  rows[0]["resident_bytes"] = 1  # what is left out
  return rows


def test_slopes():
  options = soak.Options(seconds=3600.0, warm_up=60.0)
  flat, leaky = (soak.slopes(options, measured(*x)) for x in ((0.0, 0.0), (0.2, 0.1)))
  assert flat["measurements"] == 59
  assert flat["resident_bytes_growth_per_hour"] == 0
  assert abs(flat["rate_change_per_hour"]) < 1e-9
  assert leaky["resident_bytes_growth_per_hour"] == pytest.approx(2e8, rel=0.01)
  assert leaky["rate_change_per_hour"] == pytest.approx(-0.1 / 0.95, rel=0.01)
  with pytest.raises(SystemExit, match="interval=60.0 leaves 2 measurements"):
    soak.slopes(options, measured(0.0, 0.0)[:3])


def test_the_step_that_a_run_ends_with():
  """Lanes that wait make fewer examples than asked for, so steps say when training is over."""
  folder = trained()
  assert soak.last_step(folder) == metrics.read_metrics(folder)[-1]["step"] == 8


def test_gaps_and_repeats_are_noticed(tmp_path):
  rows = [{"step": step, "loss": 0.5, "seconds": 1.0 * step} for step in (2, 4, 6)]

  def run(name: str, rows: list[dict]):
    (tmp_path / name).mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name / "metrics.jsonl").write_text(text)
    return soak.comparable(tmp_path / name)

  whole = run("whole", rows)
  assert run("later", [row | {"seconds": 99.0} for row in rows]) == whole
  assert run("gap", rows[:1] + rows[2:]) != whole
  assert run("repeat", [*rows[:2], *rows[1:]]) != whole
  assert run("other", [*rows[:2], rows[2] | {"loss": 0.25}]) != whole
