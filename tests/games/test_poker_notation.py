"""Ranges and bet sizes as strings: against pokerkit, counts by hand, and round trips."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games.poker import Deck, format_range, parse_range
from tests.sentences import refused

pokerkit = pytest.importorskip("pokerkit")

WHOLE = Deck()
SMALL = Deck("TJQKA", "shd")


def by_pokerkit(*texts):
  """Returns the pairs that pokerkit, an independent program, reads in some texts."""
  hands = set().union(*(pokerkit.parse_range(text) for text in texts))
  return {frozenset(f"{card.rank.value}{card.suit.value}" for card in hand) for hand in hands}


def by_us(text, deck=WHOLE):
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
