"""Local best response: never above an exact best response, and equal to enumeration."""

import functools
import itertools

import numpy as np
import pytest

import games
import solvers
from games.poker.holdem import CALL, FIRST_BET, FOLD
from games.tabulate import children_of
from solvers import contrib, metrics
from solvers.contrib.local_best_response import (
  Equity,
  local_best_response_policy,
  move_values,
  opponent_ranges,
)
from tests.hand_pairs import pairs_on
from tests.sentences import refused
from tests.trees import as_policy, mover, random_policy

pytestmark = pytest.mark.usefixtures("x64")

ALL = contrib.LBRRules(("FCPA",))
BLINDS = {"blinds": (50, 100), "stack": 600, "first_to_act": (0, 1)}
RIVER = {"board": "9hTdQsKhKd", "ranks": "9TJQKA", "suits": "shd", "pot": 101, "stack": 450,
         "big_blind": 20, "bets": "100%,a"}  # fmt: skip


@functools.cache
def small(ranks="QKA"):
  """Returns two rounds of hold'em from the blinds, and its tree in float64."""
  game = games.make("small_holdem", ranks=ranks, suits="sh", **BLINDS)
  return game, games.build_public_tree(game)


@functools.cache
def river():
  game = games.make("river_endgame_holdem", **RIVER)
  return game, games.build_public_tree(game)


def prefers(tree, *actions):
  """Returns the policy that takes the first of `actions` that is legal."""
  rank = {action: 10.0**-i for i, action in enumerate(actions)}
  weights = np.array([rank.get(int(a), 0.0) for a in np.asarray(tree.action)])
  best = np.zeros(tree.num_nodes)
  np.maximum.at(best, np.maximum(np.asarray(tree.parent), 0), weights)
  taken = (weights == best[np.maximum(np.asarray(tree.parent), 0)]) & (weights > 0)
  return as_policy(tree, np.tile(taken[:, None], (1, tree.num_infostates)).astype(float))


@pytest.mark.parametrize("rules", [ALL, contrib.LBRRules(("FC",))])
def test_it_wins_no_more_than_a_best_response(rules):
  game, tree = small()
  rng = np.random.default_rng(0)
  gaps = []
  for _ in range(6):
    policy = random_policy(tree, rng, 0.3)
    found = contrib.local_best_response_value(game, tree, policy, rules)
    gaps.append(np.asarray(solvers.best_response_values(tree, policy)) - found.values)
    for player, response in enumerate(found.responses):
      others = mover(tree) != player
      np.testing.assert_array_equal(np.asarray(response.policy)[others], policy[others])
  assert np.min(gaps) > -1e-9
  assert np.min(gaps) < 40  # chips, of stacks of 600: it is a bound worth having


def test_who_always_folds_loses_the_blinds():
  game, tree = small()
  policy = prefers(tree, FOLD, CALL, *range(tree.num_nodes))
  found = contrib.local_best_response_value(game, tree, policy, ALL)
  np.testing.assert_allclose(found.values, [100, 50], rtol=1e-12)
  assert found.mean == pytest.approx(750)
  played = contrib.local_best_response(game, contrib.TreeStrategy(tree, policy), ALL, num_hands=20)
  assert played.mean == pytest.approx(750)
  assert played.half_width == 0
  assert played.by_seat == (1000, 500)

  def interrupt(done, total):
    if done == 7:
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt) as caught:
    contrib.local_best_response(
      game, contrib.TreeStrategy(tree, policy), ALL, num_hands=20, progress=interrupt
    )
  (kept,) = caught.value.args
  assert (kept.num_hands, kept.by_seat) == (6, (1000, 500))
  # Control: without bets nobody has to fold.
  calm = contrib.local_best_response_value(game, tree, policy, contrib.LBRRules(("C",)))
  assert abs(calm.mean - 750) > 10


def shares(game, board, weights):
  """Returns what each hand wins from `weights` `[H]` on one board, ties as half, and their mass."""
  mass, won = (table @ weights for table in pairs_on(game.deck, game.hole_cards, board))
  return (won + mass) / 2, mass


def test_against_who_always_calls_it_is_enumeration():
  game, tree = river()
  policy = prefers(tree, CALL)
  won, mass = shares(game, game.board, np.ones(game.num_infostates))
  share = won / mass
  raises = [int(x) for x in game.amounts(game.initial_state()[None])[0] if x >= 0]
  paid = game.rules.paid[0]
  assert (raises, paid, game.rules.dead) == ([151, 450], 50, 1)
  # A check; the pot; all-in. Nobody can fold.
  expected = [share * 101, share * (101 + 101) - (1 - share) * 101,
              share * (101 + 400) - (1 - share) * 400]  # fmt: skip
  actions = ALL.moves(game, game.initial_state())
  assert len(actions) == 3
  equity = Equity(game, max_runouts=10, seed=0)
  one = np.ones(game.num_infostates)
  found = move_values(game, game.initial_state(), one, one, lambda action: 0 * one, equity, actions)
  np.testing.assert_allclose(found, expected, atol=1e-9)
  # The policy on the tree wins the best of these, less what lies in the pot.
  response = contrib.local_best_response_value(game, tree, policy, ALL).responses
  for player in (0, 1):
    best = np.max(expected, axis=0) - paid - game.rules.dead / 2
    np.testing.assert_allclose(np.asarray(response[player].values), best, atol=1e-9)


def test_the_range_is_what_the_bets_say():
  game, tree = river()
  policy = random_policy(tree, np.random.default_rng(2), 0.3)
  children = children_of(tree)
  node = children[0][FIRST_BET]  # player 0 bets the pot
  state = np.asarray(tree.state)[node]
  bet = policy[node]
  won, mass = shares(game, game.board, bet)
  pot, to_call = 101 + 101, 101
  share = won / mass
  raise_to = ALL.moves(game, state)[-1]
  fold = policy[children[children[node][raise_to]][FOLD]]
  kept, stays = shares(game, game.board, bet * (1 - fold))
  chips = 450 - 50
  gone = 1 - stays / mass
  called = kept / stays
  expected = [
    0 * share,
    share * pot - (1 - share) * to_call,
    gone * pot + (1 - gone) * (called * (pot + chips - to_call) - (1 - called) * chips),
  ]
  actions = [FOLD, CALL, raise_to]
  equity = Equity(game, max_runouts=10, seed=0)
  updated, free = opponent_ranges(tree, policy, np.asarray(tree.prior), 1)

  def values(reach):
    return move_values(game, state, reach[node], free[node], lambda action: fold, equity, actions)

  np.testing.assert_allclose(values(updated), expected, atol=1e-8)
  assert np.abs(values(free) - expected).max() > 1
  # Its policy is worse for it.
  own = np.asarray(solvers.root_marginals(tree, tree.prior))[1]
  won = []
  for ranges in ((updated, free), (free, free)):
    rows = local_best_response_policy(game, tree, policy, ranges, 1, ALL, equity)
    won.append(float(own @ np.asarray(solvers.expected_values(tree, rows))[1]))
  assert won[0] > won[1] + 0.1


def test_equity_before_the_last_card():
  ranks = "JQKA"
  game = games.make("small_holdem", ranks=ranks, suits="shd", deals=(3, 1, 1), **BLINDS)
  rng = np.random.default_rng(3)
  flop = [0, 5, 9]
  reach = rng.exponential(size=game.num_infostates)
  reach *= ~np.isin(game.hole_cards, flop).any(axis=1)
  won = mass = np.zeros(game.num_infostates)
  for rest in itertools.combinations(sorted(set(range(12)) - set(flop)), 2):
    more, weight = shares(game, (*flop, *rest), reach)
    won, mass = won + more, mass + weight
  dealt = np.array([*flop, -1, -1])
  share, together = Equity(game, max_runouts=100, seed=0)(dealt, reach)
  live = mass > 0
  np.testing.assert_allclose(share[live], (won[live] / mass[live]), atol=1e-12)
  np.testing.assert_allclose(mass[live] / together[live], 10, rtol=1e-9)  # five cards left, two
  # Boards that are drawn come near; the same seed draws the same.
  few = [Equity(game, max_runouts=20, seed=seed)(dealt, reach)[0][live] for seed in (0, 0, 1)]
  np.testing.assert_array_equal(few[0], few[1])
  assert 0 < np.abs(few[0] - share[live]).mean() < 0.1
  assert (few[0] != few[2]).any()


@pytest.mark.slow
def test_hands_that_are_played_win_what_the_policy_is_worth():
  game, tree = small("JQKA")
  policy = random_policy(tree, np.random.default_rng(4), 0.3)
  exact = contrib.local_best_response_value(game, tree, policy, ALL)
  played = contrib.local_best_response(
    game, contrib.TreeStrategy(tree, policy), ALL, num_hands=1400, seed=1
  )
  assert played.num_hands == 1400
  assert abs(played.mean - exact.mean) < 1.3 * played.half_width
  assert abs(played.aivat - exact.mean) < 1.3 * played.aivat_half_width
  assert played.aivat_half_width < 0.8 * played.half_width
  np.testing.assert_allclose(np.mean(played.by_seat), played.mean)
  # Control: LBR that never bets wins less, by more than that.
  calm = contrib.local_best_response_value(game, tree, policy, contrib.LBRRules(("FC",)))
  assert played.mean - calm.mean > 1.3 * played.half_width


def test_the_metrics_door_still_leads_to_it():
  assert metrics.local_best_response is contrib.local_best_response
  with pytest.raises(AttributeError, match="no attribute 'local_best_responses'"):
    metrics.local_best_responses  # noqa: B018


def played():
  tree = small()[1]
  return tree, random_policy(tree, np.random.default_rng(0), 0.3)


test_what_is_refused = refused(
  (lambda: contrib.local_best_response_value(games.make("leduc_poker"), *played()), "be a Holdem"),
  (lambda: contrib.local_best_response(small()[0], contrib.TreeStrategy(*played()), num_hands=5),
   "num_hands=5 must be even"),
  (lambda: contrib.LBRRules(("CX",)), "rounds="),
  (lambda: contrib.local_best_response_value(small("JQKA")[0], *played()), "tree"),
)  # fmt: skip
