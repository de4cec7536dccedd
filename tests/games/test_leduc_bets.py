"""Leduc with other bets: the usual game unchanged, sizes and lists by hand, bad lists refused."""

import numpy as np
import pytest

import games
from games.rules.leduc_poker import LeducPoker

LEDUC_5 = ((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))


@pytest.mark.parametrize(("bets", "number"), [(((2,), (4,)), 288), (LEDUC_5, 34_224)])
def test_numbers_of_infosets_are_those_of_the_thesis(bets, number):
  """Section 2.4.1 counts cards of a rank as one, private and public."""
  tree = games.build_public_tree(LeducPoker(bets=bets))
  decides, second = tree.kind <= games.PLAYER_1, tree.state[:, 0] == 1
  assert 3 * (decides & ~second).sum() + 3 * (decides & second).sum() / 2 == number


def stakes_after(game, history):
  """Returns what player 0 wins and loses at the end of a history, a number for each outcome."""
  state = game.state_after(history)[None]
  table = game.payoffs()[game.payoff_index(state)[0]] * game.payoff_scale(state)[0]
  return np.unique(table)


def test_chips_by_hand():
  game = LeducPoker(bets=((1.5, 2), (0.25,)))
  first, second, deal = 2, 3, 4
  assert game.num_actions == 10
  assert game.num_player_actions == 4
  # 1 + 1.5 from player 0, who folds to a raise by 2.
  np.testing.assert_allclose(stakes_after(game, (first, second, 0)), -2.5)
  np.testing.assert_allclose(stakes_after(game, (second, first, 0)), -3.0)
  line = (first, second, 1, deal, 1, 2, 2)
  assert game.legal_actions(game.state_after(line)[None])[0].tolist() == [True, True, *[False] * 8]
  np.testing.assert_allclose(stakes_after(game, (*line, 1)), [-5.0, 0.0, 5.0], atol=1e-6)
  np.testing.assert_allclose(stakes_after(game, (*line, 0)), 4.75)
  assert [game.describe((), second), game.describe((1, 1, deal), first)] == [
    "raise 2",
    "raise 0.25",
  ]
  assert [game.describe((), 1), LeducPoker().describe((), 2)] == ["call", "raise"]


@pytest.mark.parametrize(
  ("bets", "said"),
  [
    (((2,),), "two lists of sizes"),
    (((2,), (-1.5,)), "bets hold -1.5;"),
    (((2,), ("4",)), "bets hold '4';"),
    (((2,), (4, 4.0)), "a size twice"),
    (((2.5,), (2000,)), "too large"),
  ],
)
def test_bad_lists_are_refused(bets, said):
  with pytest.raises(ValueError, match=said) as error:
    LeducPoker(bets=bets)
  assert "\n" not in str(error.value)
