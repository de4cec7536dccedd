"""Solved poker: against OpenSpiel's universal_poker, and equilibria known in closed form."""

import numpy as np
import pytest

import games
import solvers
from games.poker import CALL, FIRST_BET, FOLD, BetSizes, in_units

pyspiel = pytest.importorskip("pyspiel")
from open_spiel.python import policy as spiel_policy  # noqa: E402
from open_spiel.python.algorithms import exploitability as spiel_exploitability  # noqa: E402


def universal_poker(stack):
  return pyspiel.load_game(
    "universal_poker(betting=nolimit,numPlayers=2,numRounds=2,blind=100 100,firstPlayer=1 1,"
    "numSuits=2,numRanks=3,numHoleCards=2,numBoardCards=0 1,"
    f"stack={stack} {stack},bettingAbstraction=fcpa)"
  )


def taste(action, cards):
  """How much a player likes a move, by its hand: any policy will do that is the same in both."""
  return 1.0 + (7 * sum(cards) + 3 * action + max(cards) * action) % 5


class TastePolicy(spiel_policy.Policy):
  def __init__(self, game):
    super().__init__(game, [0, 1])

  def action_probabilities(self, state, player_id=None):
    player = state.current_player()
    cards = state.history()[2 * player : 2 * player + 2]
    likes = {action: taste(action, cards) for action in state.legal_actions()}
    return {action: like / sum(likes.values()) for action, like in likes.items()}


def taste_on_tree(game, tree):
  policy = np.ones((tree.num_nodes, tree.num_infostates))
  hands = game.hole_cards.tolist()
  for node in np.flatnonzero(tree.kind <= games.PLAYER_1):
    children = np.flatnonzero(tree.parent == node)
    rows = np.array([[taste(int(tree.action[c]), hand) for hand in hands] for c in children])
    policy[children] = rows / rows.sum(axis=0)
  return policy


def test_exploitability_of_any_policy_is_open_spiels():
  game = games.make("small_holdem", ranks="234", suits="sh", stack=500, bets=(1.0,))
  tree = games.build_public_tree(game)
  ours = float(solvers.exploitability(tree, taste_on_tree(game, tree)))
  theirs = universal_poker(500)
  value = spiel_exploitability.exploitability(theirs, TastePolicy(theirs))
  assert value > 10
  np.testing.assert_allclose(ours, value, rtol=1e-5)
  # The same policy in a game of another stack is another number: the comparison can fail.
  other = universal_poker(450)
  assert abs(spiel_exploitability.exploitability(other, TastePolicy(other)) - value) > 0.1


def polar_case(fraction):
  """Nuts or nothing against one hand that beats nothing only; none of the cards overlap."""
  bets = BetSizes((((fraction,), ()),), all_in=False, max_raises=1)
  board = dict(board="AsKhQd9c9s", ranks="9TJQKA", pot=1_000)
  game = games.make("river_endgame_holdem", bets=bets, **board)
  strength = game.strengths()[0]
  hands = [set(hand) for hand in game.hole_cards.tolist()]
  order = np.argsort(strength, kind="stable")
  catcher = int(order[len(order) // 2])
  others = [h for h in order if not hands[h] & hands[catcher]]
  beliefs = np.zeros((2, game.num_infostates))
  air, nuts = others[:3], others[-3:]
  assert strength[air].max() < strength[catcher] < strength[nuts].min()
  beliefs[0, air] = beliefs[0, nuts] = 1 / 6
  beliefs[1, catcher] = 1
  return game, beliefs, air, nuts, catcher


@pytest.mark.parametrize("fraction", [0.5, 2.0])
def test_polar_range_against_bluff_catcher(fraction):
  """Bluffs are bet / (pot + 2 bet) of the bets; pot / (pot + bet) of the bets are called."""
  game, beliefs, air, nuts, catcher = polar_case(fraction)
  tree = games.build_public_tree(game)
  solution = solvers.solve(
    tree, algorithm=solvers.linear_cfr(), num_iterations=4_000, beliefs=beliefs
  )
  policy = np.asarray(solution.average_policy)
  history = {tree.history(node): node for node in range(tree.num_nodes)}
  bet, call = history[(FIRST_BET,)], history[(FIRST_BET, CALL)]
  bluffs, value_bets = policy[bet, air].sum(), policy[bet, nuts].sum()
  assert value_bets > 2.99
  assert bluffs / (bluffs + value_bets) == pytest.approx(fraction / (1 + 2 * fraction), abs=0.01)
  assert policy[call, catcher] == pytest.approx(1 / (1 + fraction), abs=0.01)
  # The polar player wins the pot as often as it bets, half of which it put in itself.
  bets = (bluffs + value_bets) / 6
  expected = bets * 500 - (1 - bets) * 500
  assert (beliefs[0] * np.asarray(solution.root_values[0])).sum() == pytest.approx(expected, abs=5)
  units = in_units(game, solvers.exploitability(tree, policy, beliefs=beliefs))
  assert 0 <= units.pot < 0.002
  # Folding always is exploited: by a bet of every hand that cannot win the pot otherwise.
  folding = policy.copy()
  folding[history[(FIRST_BET, FOLD)]], folding[call] = 1.0, 0.0
  worse = in_units(game, solvers.exploitability(tree, folding, beliefs=beliefs))
  assert worse.pot > 0.05
