"""Promises of the study of gadgets: an estimate is what the blueprint gets, a spread the rest."""

import numpy as np
import pytest

import games
import solvers
from benchmarks import timing
from benchmarks.studies import gadgets


@pytest.mark.parametrize("searcher", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_estimates_end_where_a_best_response_begins(searcher, x64):
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
  against = solvers.graft(tree, policy, [(np.arange(len(best)), best)], player=1 - searcher)
  assert gadgets.estimated(game, tree, against, searcher, nodes).spread.max() < 1e-9


def test_each_player_is_refined_against_the_others_blueprint(x64):
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  policy = timing.average_policy(tree, solvers.vanilla_cfr(), 20)
  new = gadgets.refine_both(game, tree, policy, "maxmargin", 256)
  before, after = (solvers.best_response_values(tree, x) for x in (policy, new))
  assert (after < before - 0.05).all()  # each player's part got better by itself
