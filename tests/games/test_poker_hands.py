"""Cards and hand strengths, against an independent evaluator."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games.poker import Deck, evaluate
from games.poker import cards as hands
from tests.sentences import refused

phevaluator = pytest.importorskip("phevaluator")

DECK = Deck()
# phevaluator numbers suits c d h s; ours are s h d c.
_THEIRS = np.array([4 * rank + 3 - suit for rank in range(13) for suit in range(4)])


def their_ranks(cards):
  """Returns phevaluator's ranks, higher is better: `[n, k]` to `[n]`."""
  return np.array([-phevaluator.evaluate_cards(*row) for row in _THEIRS[cards].tolist()])


def assert_same_order(ours, theirs):
  """Checks that two scores of the same hands order and tie them equally."""
  _, a = np.unique(ours, return_inverse=True)
  _, b = np.unique(theirs, return_inverse=True)
  wrong = np.flatnonzero(a != b)
  assert wrong.size == 0, f"{wrong.size} hands differ, first {wrong[:5]}"


def random_hands(rng, number, size):
  return rng.permuted(np.tile(np.arange(52, dtype=np.int32), (number, 1)), axis=1)[:, :size]


def one_of_each_class():
  """Returns a hand of every one of the 7,462 classes of five-card hands."""
  flushes = [[4 * rank for rank in ranks] for ranks in itertools.combinations(range(13), 5)]
  others = [
    # Equal ranks in suits in order; of five different ones the highest is of another suit.
    [
      4 * rank + (ranks[:i].count(rank) or int(len(set(ranks[:i])) == 4))
      for i, rank in enumerate(ranks)
    ]
    for ranks in itertools.combinations_with_replacement(range(13), 5)
    if len(set(ranks)) > 1
  ]
  return np.array(flushes + others, np.int32)


def test_one_hand_of_every_class_and_a_sample():
  rng, rows = np.random.default_rng(0), one_of_each_class()
  ours = evaluate(DECK, rows)
  assert len(np.unique(ours)) == len(rows) == 7462
  rows = np.concatenate([rows, random_hands(rng, 20_000, 5)])
  assert_same_order(evaluate(DECK, rows), their_ranks(rows))


def test_random_seven_card_hands():
  rows = random_hands(np.random.default_rng(1), 50_000, 7)
  assert_same_order(evaluate(DECK, rows), their_ranks(rows))


@pytest.mark.slow
def test_every_five_card_hand():
  rows = np.array(list(itertools.combinations(range(52), 5)), np.int32)
  assert len(rows) == 2_598_960
  assert_same_order(evaluate(DECK, rows), their_ranks(rows))


@pytest.mark.parametrize("size", [5, 6, 7])
def test_jax_evaluates_as_numpy_does(size):
  rows = random_hands(np.random.default_rng(size), 4_000, size)
  ours = jax.jit(lambda x: evaluate(DECK, x))(jnp.asarray(rows))
  np.testing.assert_array_equal(np.asarray(ours), evaluate(DECK, rows))


def test_an_evaluator_without_the_wheel_is_found_out(monkeypatch):
  broken = hands._OF_RANKS.copy()
  wheel = (1 << 12) | 0b1111
  broken[wheel] = broken[wheel & ~1 | 1 << 5]  # as without the straight
  monkeypatch.setattr(hands, "_OF_RANKS", broken)
  rows = np.array([DECK.parse("As2h3d4c5s"), DECK.parse("AsKhQdJc9s"), DECK.parse("2s2h3d4c5s")])
  ours = evaluate(DECK, rows)
  with pytest.raises(AssertionError, match="hands differ"):
    assert_same_order(ours, their_ranks(rows))


def test_small_decks_rank_as_the_whole_deck_does():
  small = Deck(ranks="89TJQKA", suits="sd")
  rows = np.array(list(itertools.combinations(range(small.num_cards), 5)), np.int32)
  whole = np.array([DECK.parse(small.names(row)) for row in rows], np.int32)
  np.testing.assert_array_equal(evaluate(small, rows), evaluate(DECK, whole))


test_bad_cards_get_one_sentence = refused(
  (lambda: Deck(ranks="AK"), "ranks='AK' must be 2 or more different letters"),
  (lambda: Deck(suits="sx"), "suits='sx' must be 1 or more different letters of 'shdc'"),
  (lambda: DECK.parse("AsAs"), "names 'As' twice"),
  (lambda: DECK.parse("1s"), "names '1s', which is not in the deck"),
  (lambda: evaluate(DECK, np.arange(8)), "cards=8 a hand must be from 1 to 7"),
  (lambda: evaluate(DECK, np.array([[99, 1]])), r"cards=.*99.* must hold integers from 0 to 51"),
  (lambda: evaluate(DECK, [[-1, 1]]), r"cards=\[\[-1, 1\]\] must hold integers from 0 to 51"),
  (lambda: evaluate(DECK, np.array([[3, 4, 3]])), "hold a card twice"),
  (lambda: hands.strengths([[9000, 0, 0, 0]]), "suit_masks=.*must hold integers from 0 to 8191"),
  (lambda: DECK.name(-1), "card=-1 must be an integer, at least 0, at most 51"),
  (lambda: DECK.hole_cards([52]), "card=52 must be an integer"),
  (lambda: DECK.hole_cards("AhKx"), "dead='AhKx' names 'Kx'"),
)


def test_dead_cards_may_be_named():
  np.testing.assert_array_equal(DECK.hole_cards("AhKd"), DECK.hole_cards(DECK.parse("AhKd")))
  assert len(DECK.hole_cards("AhKd")) == 50 * 49 // 2
