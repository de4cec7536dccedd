"""The studies of the family and of gadgets, at tiny settings."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks import timing
from benchmarks.studies import curves, family, family_parts, gadgets


@pytest.fixture(scope="module")
def kuhn():
  with jax.enable_x64(True):
    return games.build_public_tree(games.make("kuhn_poker"))


def random_policy(tree):
  return family_parts.noisy(tree, family_parts.even(tree), 1.0, seed=1)


@pytest.mark.slow
def test_a_point_of_a_curve_is_what_solve_returns(kuhn, x64):
  start, algorithm = random_policy(kuhn), solvers.warm_started(solvers.linear_cfr())
  found = curves.curve(kuhn, algorithm, [2, 10, 24], initial_policy=start)
  for place, count in ((1, 10), (2, 24)):
    solution = solvers.solve(kuhn, algorithm=algorithm, num_iterations=count, initial_policy=start)
    expected = float(solvers.exploitability(kuhn, solution.average_policy))
    assert found[place] == pytest.approx(expected, rel=1e-9)
  other = curves.curve(kuhn, algorithm, [2, 12, 26], initial_policy=start)
  assert (np.abs(other[1:] / found[1:] - 1) > 1e-3).all()  # control: two iterations are seen


@pytest.mark.slow
def test_a_completion_is_as_good_as_what_is_kept_allows(x64):
  """An even player of modified rock-paper-scissors loses 1/3 to the best answer, on either side."""
  tree = games.build_public_tree(games.make("rock_paper_scissors"))
  policy = jnp.asarray(family_parts.even(tree))
  for first, second, expected in ((1, 1, 1 / 3), (1, 0, 1 / 6), (0, 1, 1 / 6), (0, 0, 0.0)):
    kept = np.array([True, first, second, second, second], bool)
    completed = family_parts.complete(tree, policy, kept, 2048)
    assert float(solvers.exploitability(tree, completed)) == pytest.approx(expected, abs=2e-3)


@pytest.mark.slow
def test_who_is_not_held_is_completed_against_a_free_opponent(kuhn, x64):
  """However badly the other is held to play, its part is an equilibrium's: Kuhn is worth -1/18."""
  held = 0
  kept = np.asarray(kuhn.kind)[np.maximum(kuhn.parent, 0)] == held
  completed = family_parts.complete(kuhn, random_policy(kuhn), kept, 2048)
  worth = solvers.best_response_values(kuhn, completed)
  assert float(worth[held]) == pytest.approx((-1 / 18, 1 / 18)[held], abs=1e-3)
  assert float(worth[1 - held]) > 0.2  # control: what is held loses


def test_a_table_holds_the_points_that_were_asked_for(capsys, tmp_path):
  row = {"part": "discounts", "game": "kuhn", "x": "iterations", "iterations": [8, 16]}
  row |= {"exploitability": [0.5, 0.25], "low": [0.5, 0.2], "high": [0.5, 0.25]}
  rows = [row | {"algorithm": "a"}, row | {"algorithm": "b", "game": "leduc"}]
  lines = tmp_path / "rows.jsonl"
  lines.write_text("\n".join(json.dumps(row) for row in rows))
  family.main("discounts", rows=lines, table=(16, 8, 32))
  printed = capsys.readouterr().out.splitlines()
  assert printed == [
    "| algorithm | kuhn, 16 | kuhn, 8 | leduc, 16 | leduc, 8 |",
    "| --- | --- | --- | --- | --- |",
    "| a | 0.25 (0.2 – 0.25) | 0.5 |  |  |",
    "| b |  |  | 0.25 (0.2 – 0.25) | 0.5 |",
  ]


@pytest.mark.slow
def test_estimates_end_where_a_best_response_begins(x64):
  searcher = 0
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  policy = timing.average_policy(tree, solvers.vanilla_cfr(), 20)
  nodes = np.flatnonzero(np.asarray(tree.kind) == games.CHANCE)
  known = solvers.blueprint_values(game, tree, policy, searcher=searcher)
  found = gadgets.estimated(game, tree, policy, searcher, nodes)
  assert (found.value <= known.value + 1e-9).all()
  assert found.spread[nodes].max() > 0.1
  np.testing.assert_allclose(found.value + found.spread, known.value, atol=1e-9)
  # Against a best response, nothing is beyond.
  best = solvers.best_response(tree, policy, 1 - searcher).policy
  against = solvers.resolving.graft(
    tree, policy, [(np.arange(len(best)), best)], player=1 - searcher
  )
  assert gadgets.estimated(game, tree, against, searcher, nodes).spread.max() < 1e-9


@pytest.mark.slow
def test_each_player_is_refined_against_the_others_blueprint(x64):
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  policy = timing.average_policy(tree, solvers.vanilla_cfr(), 20)
  new = gadgets.refine_both(game, tree, policy, "maxmargin", 256)
  before, after = (solvers.best_response_values(tree, x) for x in (policy, new))
  assert (after < before - 0.05).all()  # each player's part got better by itself
