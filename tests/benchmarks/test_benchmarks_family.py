"""The script behind docs/results/family.md, at tiny settings."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks import timing
from benchmarks.studies import curves, depth_limited, family, family_parts
from solvers import validation
from tests.rebel_jax.test_targets import table_2


@pytest.fixture(scope="module")
def kuhn():
  with jax.enable_x64(True):
    return games.build_public_tree(games.make("kuhn_poker"))


def random_policy(tree):
  return family_parts.noisy(tree, family_parts.even(tree), 1.0, seed=1)


@pytest.mark.parametrize(
  "algorithm",
  [
    solvers.linear_optimistic_fictitious_play(),
    solvers.warm_started(solvers.linear_cfr()),
  ],
)
def test_a_point_of_a_curve_is_what_solve_returns(algorithm, kuhn, x64):
  start = random_policy(kuhn)
  found = curves.curve(kuhn, algorithm, [2, 10, 24], initial_policy=start)
  for place, count in ((1, 10), (2, 24)):
    solution = solvers.solve(kuhn, algorithm=algorithm, num_iterations=count, initial_policy=start)
    expected = float(solvers.exploitability(kuhn, solution.average_policy))
    assert found[place] == pytest.approx(expected, rel=1e-9)
  other = curves.curve(kuhn, algorithm, [2, 12, 26], initial_policy=start)
  assert (np.abs(other[1:] / found[1:] - 1) > 1e-3).all()  # control: two iterations are seen


def test_iterations_that_no_curve_can_have_are_refused(kuhn):
  for iterations in ([], [3], [8, 4], [0]):
    with pytest.raises(ValueError, match="must be even and rise"):
      curves.curve(kuhn, solvers.linear_cfr(), iterations)
  with pytest.raises(ValueError, match="in turn"):
    curves.curve(kuhn, solvers.linear_cfr(alternating=False), [2])


def test_checkpoints_are_even_and_end_where_they_should():
  assert curves.checkpoints(64) == [4, 6, 8, 12, 16, 24, 32, 48, 64]
  assert curves.checkpoints(50, first=2)[-1] == 50
  assert all(i % 2 == 0 for i in curves.checkpoints(1024, first=2))


def test_jitter_is_in_the_last_bit(kuhn):
  first, *others = curves.jittered_priors(kuhn, 4)
  np.testing.assert_array_equal(first, kuhn.prior)
  for prior in others:
    assert 0 < np.abs(prior / kuhn.prior - 1).max() < 3e-16


def test_the_table_s_row_comes_from_the_script(x64):
  algorithms = {"vanilla CFR": solvers.vanilla_cfr()}
  (row,) = family_parts.whole_games("tabular", algorithms, ["liars_dice_1x4f"], 1024, 2)
  assert row["iterations"][-1] == 1024
  assert row["exploitability"][-1] == table_2("1x4f", solvers.vanilla_cfr())
  assert row["low"][-1] <= row["exploitability"][-1] <= row["high"][-1]


def test_noise_leaves_a_policy_that_is_as_bad_as_there_is_noise(kuhn, x64):
  best = timing.average_policy(kuhn, solvers.discounted_cfr(), 512)
  scores = []
  for share in (0.0, 0.1, 0.5):
    mixed = family_parts.noisy(kuhn, best, share, seed=0)
    validation.check_policy("policy", kuhn, mixed)
    scores.append(float(solvers.exploitability(kuhn, mixed)))
  assert scores == sorted(scores)
  assert scores[0] < 0.001 < 0.02 < scores[1]


def test_with_the_whole_game_as_the_top_depth_limited_solving_is_solving(kuhn, x64):
  game, algorithm = games.make("kuhn_poker"), solvers.linear_cfr()
  points = depth_limited.measure(
    game,
    depth=5,
    algorithm=algorithm,
    checkpoints=(2, 10, 24),
    num_iterations_to_complete=4,
  )
  found = list(points)
  expected = curves.curve(kuhn, algorithm, [2, 10, 24])
  assert [point.iterations for point in found] == [2, 10, 24]
  for score in ("exploitability", "exploitability_of_top"):
    np.testing.assert_allclose([getattr(point, score) for point in found], expected, rtol=1e-6)


def test_a_completion_is_as_good_as_what_is_kept_allows(x64):
  """An even player of modified rock-paper-scissors loses 1/3 to the best answer, on either side."""
  tree = games.build_public_tree(games.make("rock_paper_scissors"))
  policy = jnp.asarray(family_parts.even(tree))
  for first, second, expected in ((1, 1, 1 / 3), (1, 0, 1 / 6), (0, 1, 1 / 6), (0, 0, 0.0)):
    kept = np.array([True, first, second, second, second], bool)
    completed = depth_limited.complete(tree, policy, kept, 2048)
    assert float(solvers.exploitability(tree, completed)) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("held", [0, 1])
def test_who_is_not_held_is_completed_against_a_free_opponent(held, kuhn, x64):
  """However badly the other is held to play, its part is an equilibrium's: Kuhn is worth -1/18."""
  kept = np.asarray(kuhn.kind)[np.maximum(kuhn.parent, 0)] == held
  completed = depth_limited.complete(kuhn, random_policy(kuhn), kept, 2048)
  worth = solvers.best_response_values(kuhn, completed)
  assert float(worth[held]) == pytest.approx((-1 / 18, 1 / 18)[held], abs=1e-3)
  assert float(worth[1 - held]) > 0.2  # control: what is held loses


def run(capsys, *arguments, **settings):
  family.main(family.Options(*arguments, **settings))
  return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
  ("part", "settings", "num_rows"),
  [
    (
      "discounts",
      {"games": ("kuhn",), "iterations": 16, "runs": 2, "algorithms": ("vanilla CFR",)},
      1,
    ),
    pytest.param(
      "warm_start",
      {"games": ("kuhn",), "iterations": 16, "runs": 2},
      5,
      marks=pytest.mark.slow,
    ),
    pytest.param(
      "safe_search",
      {"iterations": 32, "playthroughs": 16, "runs": 2},
      2,
      marks=pytest.mark.slow,
    ),
  ],
)
def test_a_part_prints_its_curves_and_draws_them(part, settings, num_rows, capsys, tmp_path):
  rows = run(capsys, part, figure=tmp_path / "a.png", **settings)
  assert len(rows) == num_rows
  for row in rows:
    assert (row["benchmark"], row["part"]) == ("family", part)
    curve = [row[key] for key in ("low", "exploitability", "high")]
    assert np.shape(curve) == (3, len(row[row["x"]]))
    assert np.isfinite(curve).all()
    assert (np.diff(curve, axis=0) >= 0).all()
  lines = tmp_path / "rows.jsonl"
  lines.write_text("\n".join(json.dumps(row) for row in rows))
  assert run(capsys, part, rows=lines, figure=tmp_path / "b.png") == []
  assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_table_holds_the_points_that_were_asked_for(capsys, tmp_path):
  row = {"part": "discounts", "game": "kuhn", "x": "iterations", "iterations": [8, 16]}
  row |= {"exploitability": [0.5, 0.25], "low": [0.5, 0.2], "high": [0.5, 0.25]}
  rows = [row | {"algorithm": "a"}, row | {"algorithm": "b", "game": "leduc"}]
  lines = tmp_path / "rows.jsonl"
  lines.write_text("\n".join(json.dumps(row) for row in rows))
  family.main(family.Options("discounts", rows=lines, table=(16, 8, 32)))
  printed = capsys.readouterr().out.splitlines()
  assert printed == [
    "| algorithm | kuhn, 16 | kuhn, 8 | leduc, 16 | leduc, 8 |",
    "| --- | --- | --- | --- | --- |",
    "| a | 0.25 (0.2 – 0.25) | 0.5 |  |  |",
    "| b |  |  | 0.25 (0.2 – 0.25) | 0.5 |",
  ]


def test_unknown_games_are_named():
  options = family.Options("discounts", games=("chess",))
  with pytest.raises(SystemExit, match="games='chess' is unknown; known: kuhn, leduc"):
    family.main(options)


def test_algorithms_are_chosen_by_label():
  assert list(family.choose(family_parts.TABULAR, [])) == list(family_parts.TABULAR)
  assert family.choose(family_parts.TABULAR, ["FP"]) == {"FP": solvers.fictitious_play()}
  with pytest.raises(SystemExit, match="algorithms='CFR' is unknown; known: FP, linear FP"):
    family.choose(family_parts.TABULAR, ["FP", "CFR"])
