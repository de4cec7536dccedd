"""Hand strengths, and ranges as strings: against phevaluator and pokerkit, and round trips."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games.poker import Deck, evaluate, format_range, parse_range
from games.poker import cards as hands
from tests.sentences import refused

phevaluator = pytest.importorskip("phevaluator")
pokerkit = pytest.importorskip("pokerkit")

DECK = Deck()
SMALL = Deck("TJQKA", "shd")
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


# Ranges.


def by_pokerkit(*texts):
  """Returns the pairs that pokerkit, an independent program, reads in some texts."""
  hands = set().union(*(pokerkit.parse_range(text) for text in texts))
  return {frozenset(f"{card.rank.value}{card.suit.value}" for card in hand) for hand in hands}


def by_us(text, deck=DECK):
  held = np.flatnonzero(parse_range(text, deck) == 1)
  return {frozenset(deck.name(c) for c in deck.hole_cards()[h]) for h in held}


RANGES = [
  "QQ+", "AA", "22+", "JJ-88", "88-JJ", "AKs", "AKo", "AK", "KA", "KTo+", "A2s+", "T9s-65s",
  "T9o-76o", "AhKd", "KdAh", "97s-53s", "QQ+,AKs,KTo+,AhKd", "J9+",
]  # fmt: skip


@pytest.mark.parametrize("text", RANGES)
def test_ranges_agree_with_pokerkit(text):
  assert by_us(text) == by_pokerkit(text)


@pytest.mark.parametrize(
  ("text", "hands"),
  [
    ("98s+", ("98s", "T9s", "JTs", "QJs", "KQs", "AKs")),
    ("QJo+", ("QJo", "KQo", "AKo")),
    ("AK+", ("AKs", "AKo")),
  ],
)
def test_a_plus_after_neighbours_is_a_ladder(text, hands):
  """As most programs read it; pokerkit takes it for the hand alone."""
  assert by_us(text) == by_pokerkit(*hands)


def test_a_hand_named_again_has_the_later_weight_and_a_warning_says_so():
  with pytest.warns(UserWarning, match="oop holds 'AhKd:0.5', and before it another weight"):
    twice = parse_range("AKo, QQ, AhKd:0.5", field="oop")
  assert [(twice == x).sum() for x in (1, 0.5)] == [11 + 6, 1]
  with warnings.catch_warnings():
    warnings.simplefilter("error")  # of one weight it makes no difference
    parse_range("AKo,AhKd,AK")


@pytest.mark.parametrize(
  ("text", "count"),
  [
    ("random", 1326), ("RANDOM", 1326), ("A2s-A5s", 4 * 4), ("K9-K7", 3 * 16),
    ("qq+ aks", 3 * 6 + 4), ("QQ+;TT", 4 * 6), ("A♥K♦", 1), ("AhKd,AhKd,KdAh", 1), ("1010", 6),
  ],
)  # fmt: skip
def test_counts_of_hands(text, count):
  weights = parse_range(text)
  assert weights.shape == (1326,)
  assert weights.sum() == (weights > 0).sum() == count


@pytest.mark.parametrize(
  ("text", "written"),
  [
    ("KK,AA,QQ,AKs,A2s,A3s,A4s,A5s,TT", "QQ+,TT,AKs,A5s-A2s"),
    ("A2s+,ATo+", "A2s+,ATo+"),
    ("KTo+,K9s+", "KT+,K9s"),
    ("AK,AQs,KQ,AJ,AJ:0.5", "AK,AQs,KQ,AJ:0.5"),
    ("random:0.5", "random:0.5"),
    ("AKo,AhKd:0", "AdKc,AhKc,AsKc,AcKd,AsKd,AcKh,AdKh,AsKh,AcKs,AdKs,AhKs"),
    ("22+,AA:0.123456789012", "KK-22,AA:0.123456789012"),
  ],
)
def test_ranges_are_written_short(text, written):
  assert format_range(parse_range(text)) == written


GRID = st.sampled_from([0.0, 1.0, 0.5, 0.1, 1 / 3])


@st.composite
def ranges(draw, deck=SMALL):
  """Draws ranges of whole cells, single hands and weights."""
  weights = np.zeros(len(deck.hole_cards()))
  for _ in range(draw(st.integers(0, 12))):
    row, column = (draw(st.integers(0, len(deck.ranks) - 1)) for _ in range(2))
    suits = len(deck.suits)
    ranks = deck.hole_cards() // suits
    cell = (ranks.min(axis=1) == min(row, column)) & (ranks.max(axis=1) == max(row, column))
    alike = deck.hole_cards() % suits
    if draw(st.booleans()):
      cell &= (alike[:, 0] == alike[:, 1]) == draw(st.booleans())
    weights[cell] = draw(GRID)
  for _ in range(draw(st.integers(0, 4))):
    weight = draw(GRID | st.floats(0, 1))
    weights[draw(st.integers(0, len(weights) - 1))] = weight
  return weights


@settings(deadline=None, max_examples=200)
@given(ranges())
def test_what_is_written_is_read_as_the_same(weights):
  text = format_range(weights, SMALL)
  if not text:
    assert not weights.any()
    return
  np.testing.assert_array_equal(parse_range(text, SMALL), weights)


test_bad_ranges_get_one_sentence = refused(
  (lambda: parse_range("QQ+,XYs"), "range holds 'XYs', which is not understood"),
  (lambda: parse_range("A5s-A2o"), "'A5s-A2o', which is not understood"),
  (lambda: parse_range("AA-KQs"), "not understood"),
  (lambda: parse_range("AA:50"), "holds 'AA:50'; a weight must be a number from 0 to 1"),
  (lambda: parse_range("AA:٠.٥"), "holds 'AA:٠.٥'; a weight must be a number from 0 to 1"),
  (lambda: parse_range(" , "), "names no hand; write hands"),
  (lambda: parse_range(None, field="oop"), "oop=None must be a string"),
  (lambda: parse_range("AcKc", SMALL), "which is not in the deck"),
  (lambda: parse_range("AhAh"), "names 'Ah' twice"),
  (lambda: parse_range("AKo", Deck("QKA", "s")), "names no hand of the deck of ranks 'QKA'"),
  (lambda: format_range(np.full(1326, 2.0)), "weights hold 2.0; each must be a number from 0"),
)
