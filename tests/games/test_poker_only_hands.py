"""Games of the hands of given ranges against the whole game: equal policies and values."""

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker import BetSizes
from games.testing import check_game
from tests.sentences import sentence_of

ONE_BET = BetSizes((((1.0,), ()),), all_in=False)
SPOTS = {
  "river": lambda: games.make("river_endgame_holdem", board="3s7hTdKs2c", bets=ONE_BET),
  "turn": lambda: games.make(
    "turn_endgame_holdem", board="9sJhKdAs", ranks="9TJQKA", suits="shd", stack=6_000, bets=ONE_BET
  ),
}


def ranges_of(game, number, seed=0):
  """Returns beliefs in which the players hold `number` random hands each, some of them the same."""
  rng, rows = np.random.default_rng(seed), np.zeros((2, game.num_infostates))
  for row, count in zip(rows, number):
    row[rng.choice(len(row), count, replace=False)] = rng.dirichlet(np.ones(count))
  return rows


@pytest.fixture(scope="module", params=SPOTS)
def spot(request):
  game = SPOTS[request.param]()
  return game, ranges_of(game, (90, 120) if request.param == "river" else (20, 30))


# Both answer a uniform opponent: against one that always folds, the best hand's moves are worth the
# same, and rounding decides.
SETTINGS = {"algorithm": solvers.linear_cfr(alternating=False), "num_iterations": 4}


def differences(spot, ranges):
  """Returns how far the policies and values of held hands are from the whole game's."""
  game, beliefs = spot
  small = game.only(ranges)
  whole_tree, tree = map(games.build_public_tree, (game, small))
  whole = solvers.solve(whole_tree, beliefs=beliefs, **SETTINGS)
  compact = jax.tree.map(np.asarray, solvers.solve(tree, **SETTINGS))
  held = (ranges > 0)[:, small.kept]
  mover = np.asarray(whole_tree.kind)[np.maximum(whole_tree.parent, 0)]
  own = held[np.minimum(mover, 1)] & (mover < 2)[:, None]
  apart = np.abs(compact.average_policy - np.asarray(whole.average_policy)[:, small.kept])[own]
  values = np.abs(compact.root_values - np.asarray(whole.root_values)[:, small.kept])[held]
  return apart.max(), values.max() / 1_000


def test_held_hands_play_as_in_the_whole_game(spot, x64):
  policies, values = differences(spot, spot[1])
  assert policies < 1e-9
  assert values < 1e-9


def test_a_hand_left_out_is_found(spot, x64):
  ranges = spot[1].copy()
  ranges[0, ranges[0].argmax()] = 0
  ranges /= ranges.sum(axis=1, keepdims=True)
  policies, values = differences(spot, ranges)
  assert policies > 0.01
  assert values > 0.001


@pytest.mark.slow
def test_the_rules():
  game = SPOTS["turn"]()
  check_game(game.only(ranges_of(game, (12, 17))))


def test_what_is_wrong_is_named(spot):
  game, beliefs = spot
  small = game.only(beliefs)
  one = np.zeros((2, game.num_infostates))
  one[:, 0] = 1
  missing = game.infostate_name(0, int(np.flatnonzero(beliefs.max(axis=0) == 0)[0]))
  cases = [
    (lambda: small.only(small.prior()), "distributions over all hands"),
    (lambda: game.only(one), "no compatible pair of hands"),
    (lambda: small.infostate(missing), "in neither range"),
  ]  # fmt: skip
  for make, message in cases:
    assert message in sentence_of(make)
