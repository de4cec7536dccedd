"""The benchmarks of solvers run, say what they promise to say, and measure what they claim to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import games
import solvers
from benchmarks import batch_solve, first_use, scaling, tabular, timing
from rebel_jax import flags

ENVIRONMENT = {"benchmark", "device", "devices", "versions"}
QUICK = {"repeats": 1, "seconds": 0.0}


def printed(capsys, main, options) -> list[dict]:
  main(options)
  rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert rows
  for row in rows:
    assert row.keys() >= ENVIRONMENT
    assert row["versions"]["jax"] == jax.__version__
  return rows


def test_tabular(capsys):
  options = tabular.Options(
    games=("kuhn",), iterations=8, batch=3, pieces=(1, 2), open_spiel=False, **QUICK
  )
  whole, *pieces = printed(capsys, tabular.main, options)
  assert (whole["nodes"], whole["infostates"], whole["batch"]) == (9, 3, 3)
  assert whole["microseconds_per_update"] > 0
  assert whole["microseconds_per_update_batched"] > 0
  assert whole["compile_seconds"] > 0
  assert "open_spiel_microseconds_per_iteration" not in whole
  assert [(row["batch"], row["batch_size"]) for row in pieces] == [(2, 1), (2, 2)]


def test_tabular_beside_open_spiel(capsys):
  pytest.importorskip("pyspiel")
  options = tabular.Options(games=("kuhn",), iterations=8, batch=0, **QUICK)
  (row,) = printed(capsys, tabular.main, options)
  assert row["open_spiel_microseconds_per_iteration"] > 0


@pytest.mark.parametrize("field", ["games", "algorithm"])
def test_unknown_names_end_the_command_with_a_sentence(field):
  known = {"games": timing.GAMES, "algorithm": solvers.registered_algorithms()}[field]
  wrong = ("chess",) if field == "games" else "chess"
  with pytest.raises(SystemExit, match=f"{field}='chess' is unknown; known: {next(iter(known))}"):
    tabular.main(tabular.Options(**{"games": ("kuhn",), field: wrong}, **QUICK))


def test_batch_solve(capsys, tmp_path):
  figure = tmp_path / "throughput.png"
  options = batch_solve.Options(
    game="kuhn", root_depth=1, sizes=(1, 3), iterations=8, figure=figure, **QUICK
  )
  rows = printed(capsys, batch_solve.main, options)
  assert [(row["batch"], row["roots"]) for row in rows] == [(1, 2), (3, 2)]
  for row in rows:
    ratio = row["updates_per_second"] / row["solves_per_second"]
    np.testing.assert_allclose(ratio, row["iterations"], rtol=1e-2)
  assert figure.stat().st_size > 1000


def test_subgames_of_a_batch_differ():
  trees, roots = batch_solve.make_subgames(games.make("leduc_poker"), 2, 7)
  beliefs = timing.random_beliefs(trees, 7)
  assert roots < 7
  assert len({tuple(state) for state in trees.state[:, 0]}) == roots
  assert len(np.unique(beliefs, axis=0)) == 7
  np.testing.assert_allclose(beliefs.sum(axis=-1), 1, rtol=1e-5)


def test_beliefs_leave_out_what_the_rules_make_impossible():
  tree = games.build_public_tree(games.make("leduc_poker"), root=(1, 1, 3))
  possible = np.asarray(tree.possible)[0]
  beliefs = timing.random_beliefs(tree, 4)
  assert not possible.all()
  assert (beliefs[:, possible] > 0).all()
  assert (beliefs[:, ~possible] == 0).all()


def test_scaling(capsys):
  options = scaling.Options(
    axes=("batch", "tree", "updates"),
    game="kuhn",
    iterations=8,
    batches=(1, 2),
    trees=("kuhn",),
    updates=(8, 16),
    **QUICK,
  )
  rows = printed(capsys, scaling.main, options)
  assert [row["axis"] for row in rows] == ["batch", "batch", "tree", "updates", "updates"]
  assert [row["batch"] for row in rows] == [1, 2, 1, 1, 1]
  assert [row["iterations"] for row in rows] == [8, 8, 8, 8, 16]
  assert all(row["milliseconds"] > 0 for row in rows)
  with pytest.raises(SystemExit, match="axes='time' is unknown; known: batch, tree"):
    scaling.main(scaling.Options(axes=("time",), game="kuhn"))


def test_scaling_over_devices_does_the_same_work(capsys):
  options = scaling.Options(
    axes=("devices",), game="kuhn", iterations=8, device_counts=(1, 2), device_batch=4, **QUICK
  )
  one, two = printed(capsys, scaling.main, options)
  assert (one["devices"], two["devices"]) == (1, 2)
  np.testing.assert_allclose(one["checksum"], two["checksum"], rtol=1e-3)
  with pytest.raises(SystemExit, match="device_batch=4 must be a multiple of 3"):
    list(scaling.measure(scaling.Options(device_counts=(3,), device_batch=4), "devices"))


def test_calls_are_timed_after_one_that_compiles_and_waited_for():
  class Result:
    waited = 0

    def block_until_ready(self):
      Result.waited += 1
      return self

  timed = timing.time_calls(Result, repeats=3)
  assert Result.waited == 5  # one compiles, one warms up
  assert 0 < timed.fastest <= timed.median
  assert timing.Timing(first=5.0, median=2.0, fastest=1.0).compile_seconds == 3.0


@pytest.mark.parametrize(("value", "expected"), [(123456.0, 123500.0), (0.00123456, 0.001235)])
def test_significant_digits(value, expected):
  assert timing.significant(value) == expected
  assert timing.significant(0.0) == 0.0


def test_a_first_use(capsys, monkeypatch):
  """And, as control, one that fails: a sentence and an exit code."""
  options = first_use.Options(cases=("own",))
  monkeypatch.setitem(first_use.CASES, "own", "pass")
  (row,) = printed(capsys, first_use.main, options)
  assert (row["case"], row["programs"]) == ("own", 0)
  monkeypatch.setitem(first_use.CASES, "own", "pass pass")
  assert flags.command(lambda: first_use.main(options), is_process=False) == 2
  assert f"error: own in {first_use._ROOT} failed:" in capsys.readouterr().err


def test_the_command_line():
  root = Path(__file__).parents[2]
  command = [sys.executable, "-m", "benchmarks.tabular", "--games", "kuhn", "--iterations", "4"]
  command += ["--batch", "0", "--repeats", "1", "--seconds", "0", "--no-open-spiel"]
  child = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True)
  assert child.returncode == 0, child.stderr
  assert json.loads(child.stdout)["game"] == "kuhn"
