"""Bets that a tree lacks: translated, or answered by solving what follows them."""

import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import nested
from games.poker import CALL, FIRST_BET, BetSizes
from solvers import Maxmargin, Resolve
from solvers.contrib.off_tree import translate
from tests.sentences import sentence_of

RIVER = {"board": "9hTdQsKhKd", "ranks": "9TJQKA", "suits": "shd", "pot": 100, "big_blind": 2}


@pytest.fixture(scope="module")
def spot():
  import jax

  with jax.enable_x64(True):
    yield nested.make_spot(
      sizes=(0.5, 0.75, 1.0), missing=0.75, num_iterations=2000, stack=1000, **RIVER
    )


@pytest.mark.parametrize("searcher", [0, 1])
def test_translation_loses_three_times_what_solving_loses(spot, searcher, x64):
  """Thesis, Table 5.4, in small; promises that mean nothing lose fifty times as much."""

  def loss(method):
    return nested.loss(spot, searcher, nested.answer_all(spot, searcher, method, 2000))

  solved = loss("resolve"), loss("maxmargin")
  assert loss("translation") > 3 * max(solved)
  assert loss("constant") > 50 * max(solved)


def test_translation_where_a_card_is_burned_in_one_tree_only():
  """A raise that the coarse tree takes for a call leaves the other player to act last."""
  deck = {"board": "9hTsQsKh", "ranks": "9TJQKA", "suits": "sh", "pot": 100, "big_blind": 2}

  def game(raises):
    bets = BetSizes((((0.5,),),), all_in=False, max_raises=raises)
    return games.make("turn_endgame_holdem", bets=bets, stack=1000, **deck)

  def rivers(game, tree, *moves):
    """Returns the first decisions of the river by the number of the card, and burns before it."""
    parent, action = np.asarray(tree.parent), np.asarray(tree.action)
    node, burned = 0, 0
    for move in moves:
      node = np.flatnonzero((parent == node) & (action == move)).item()
    if (action[parent == node] == game.burn).any():
      node, burned = np.flatnonzero(parent == node).item(), 1
    dealt = np.flatnonzero(parent == node)
    return {int(action[n] - game.first_deal): int(n) for n in dealt}, burned

  coarse, fine = game(1), game(2)
  tree, whole = games.build_public_tree(coarse), games.build_public_tree(fine)
  policy = np.random.default_rng(0).uniform(size=(tree.num_nodes, tree.num_infostates))
  found = translate(coarse, tree, policy, fine, whole, player=0)
  here, burned = rivers(coarse, tree, FIRST_BET, CALL)
  there, burned_there = rivers(fine, whole, FIRST_BET, FIRST_BET, CALL)
  assert burned != burned_there
  assert here.keys() == there.keys()
  others = [*here.values()][1:] + [*here.values()][:1]  # of another card: the control
  for (number, node), other in zip(here.items(), others):
    rows = found[np.asarray(whole.parent) == there[number]]
    for card in (node, other):
      expected = policy[np.asarray(tree.parent) == card]
      assert np.allclose(rows, expected / expected.sum(axis=0)) == (card == node)


def test_bets_that_cannot_be_answered_are_refused(spot):
  for chips, gadget, said in (
    (87, None, "gadget=None needs whole_decision=True"),
    (87, Resolve(0), "searcher=1, but gadget is for player 0"),
    (100, Maxmargin(1), "bet=100 is in the abstraction already"),
  ):
    given = spot.coarse, spot.tree, spot.policy, (), chips
    assert said in sentence_of(solvers.answer_bet, *given, gadget=gadget)


def test_translation_of_a_tree_to_itself_is_the_policy(spot, x64):
  for player in (0, 1):
    found = translate(spot.coarse, spot.tree, spot.policy, spot.coarse, spot.tree, player=player)
    mover = np.asarray(spot.tree.kind)[np.maximum(np.asarray(spot.tree.parent), 0)]
    reach = np.ones_like(found)
    for node in range(1, len(found)):
      above = spot.tree.parent[node]
      reach[node] = reach[above] * (spot.policy[node] if mover[node] == player else 1.0)
    own = (mover == player) & (np.asarray(spot.tree.parent) >= 0)
    seen = own[:, None] & (reach[np.maximum(spot.tree.parent, 0)] > 1e-9)
    np.testing.assert_allclose(found[seen], spot.policy[seen], atol=1e-9)
