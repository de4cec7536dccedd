"""AIVAT of hold'em without a tree: unbiased over all deals and paths, and controls that are not.

Expectations are the exact sums of `test_aivat`, in float64; whole trees serve as referee alone.
"""

import itertools

import numpy as np
import pytest

import games
import solvers
from games.poker.hands import strengths_on
from solvers.metrics.equity import strengths_where
from tests.solvers import test_aivat
from tests.solvers.test_aivat import case, moments
from tests.trees import random_policy

pytestmark = pytest.mark.usefixtures("x64")
slow = pytest.mark.slow

SMALL = {"ranks": "QKA", "suits": "sh", "deals": (1, 1)}
LARGE = {"ranks": "JQKA", "suits": "sh", "deals": (2, 1)}
BLINDS = {"name": "small_holdem", "blinds": (50, 100), "stack": 250, "first_to_act": (0, 1)}
# All boards listed; a first deal of too many; no deal but the last listed.
RUNOUTS = {"all": 2_000, "order": 5, "last": 1}


@pytest.fixture(autouse=True)
def known_cases(monkeypatch):
  make = games.make
  games_of = {"two_deals": SMALL, "flop": LARGE}
  for name in games_of:
    monkeypatch.setitem(test_aivat.GAMES, name, {})
  monkeypatch.setattr(
    test_aivat.games,
    "make",
    lambda name, **kw: make(**(BLINDS | games_of[name])) if name in games_of else make(name, **kw),
  )


def estimator(name, runouts, **changes):
  values = solvers.PotShares(case(name)[0], max_runouts=runouts)
  return test_aivat.estimator(name, values, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seat"), [("order", 1), ("all", 0), ("last", 0)])
def test_it_is_unbiased_over_all_deals_and_paths(kind, seat):
  bias, variance = moments("two_deals", (seat,), estimator("two_deals", RUNOUTS[kind]))
  assert abs(bias) < 1e-10
  _, _, _, ways = case("two_deals")
  mean = sum(p * x for p, x in ways.values())
  assert variance < {"all": 0.7, "order": 0.97, "last": 1.0}[kind] * sum(
    p * (x - mean) ** 2 for p, x in ways.values()
  )


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNOUTS)
def test_it_is_unbiased_where_two_cards_are_dealt_at_once(kind):
  bias, _ = moments("flop", (0,), estimator("flop", RUNOUTS[kind]))
  assert abs(bias) < 1e-10


@slow  # in the default tier of trees' own test
def test_control_another_policy_than_the_one_played():
  _, tree, _, _ = case("two_deals")
  other = random_policy(tree, np.random.default_rng(5))
  found = estimator("two_deals", RUNOUTS["all"], policy=other)
  assert abs(moments("two_deals", (0,), found)[0]) > 1e-3


@slow
def test_control_chance_that_forgets_the_cards_that_are_held():
  def change(record, node, told):
    moves = []
    for move in record.moves:
      # Chance's moves are those that a hand can block.
      of_chance = (move.weights[move.taken] == 0).any()
      values = move.values
      weights = np.full_like(move.weights, 1 / len(move.weights)) if of_chance else move.weights
      moves.append(move._replace(weights=weights, values=values))
    return record._replace(moves=tuple(moves))

  found = estimator("two_deals", RUNOUTS["order"], change=change)
  assert abs(moments("two_deals", (0,), found)[0]) > 1e-3


def test_values_of_hands_are_those_of_all_boards():
  """Shares at the start against a count over all boards, one pair of hands after another."""
  game = games.make(**(BLINDS | LARGE))
  shares = solvers.PotShares(game).prepare()
  hands = game.hole_cards
  for held, own in itertools.islice(itertools.product(range(0, 28, 5), range(1, 28, 4)), 40):
    if set(hands[held]) & set(hands[own]):
      continue
    rest = sorted(set(range(8)) - set(hands[held]) - set(hands[own]))
    won = [
      np.sign(np.subtract(*strengths_on(game.deck, hands[[own, held]], np.array(board))))
      for board in itertools.combinations(rest, 3)
    ]
    assert shares[own, held] == pytest.approx(np.mean(won))


def test_the_mean_of_places_is_over_all_first_deals():
  game = games.make(**(BLINDS | LARGE))
  hands, found, total = game.hole_cards, solvers.PotShares(game, max_runouts=1).prepare(), 0.0
  held, own = 0, 13  # no card in common
  assert not set(hands[held]) & set(hands[own])
  deals = list(itertools.combinations(sorted(set(range(8)) - {*hands[held], *hands[own]}), 2))
  for deal in deals:
    strengths = strengths_on(game.deck, hands, np.array(deal))
    live = strengths[strengths >= 0]
    places = [
      ((live < strengths[h]).mean() + (live <= strengths[h]).mean()) / 2 for h in (own, held)
    ]
    total += 1.25 * (places[0] - places[1]) / len(deals)
  assert found[own, held] == pytest.approx(total)


def test_strengths_of_the_whole_deck_are_compiled():
  game = games.make("no_limit_holdem")
  dealt = np.array([[0, 17, 33], [1, 2, 3]])
  np.testing.assert_array_equal(
    strengths_where(game, dealt), game.dealing.strengths_on(game.hole_cards, dealt)
  )
