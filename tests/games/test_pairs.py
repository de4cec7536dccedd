"""Pairs of infostates: hole cards against tables of the same game."""

import collections
import dataclasses

import numpy as np
import pytest

import games
from games.pairs import DensePairs, HoleCards
from tests.harness import random_beliefs
from tests.sentences import sentence_of


@pytest.fixture(scope="module")
def made():
  """Returns the pairs of a game of hole cards, and the same written out."""
  game = games.make("small_holdem", ranks="JQKA", suits="sh", stack=300)
  return game.pairs(), DensePairs(game.pair_weights(), game.payoffs())


def assert_alike(cards, tables):
  """Checks that every operation of two kinds of pairs gives the same."""
  rng = np.random.default_rng(0)
  h = len(cards.hands)
  weights = tables.weight_table(0)
  np.testing.assert_array_equal(cards.weight_table(0), weights)
  for index in range(len(tables.payoffs)):
    table = tables.payoff_table(index)
    np.testing.assert_array_equal(cards.payoff_table(index), table * weights)
    for pair in np.argwhere(weights)[::7].tolist():
      assert cards.payoff(index, tuple(pair)) == tables.payoff(index, tuple(pair))
  for number in (1, 2, h // 2):
    possible = np.zeros((2, h), bool)
    for row in possible:
      row[rng.choice(h, number, replace=False)] = True
    np.testing.assert_array_equal(cards.matched(possible, 0), tables.matched(possible, 0))
  for _ in range(3):
    beliefs = random_beliefs(rng, np.ones((2, h)), h // 2)
    assert cards.joint_mass(beliefs, 0) == pytest.approx(tables.joint_mass(beliefs, 0), abs=1e-12)


def test_hole_cards_are_their_tables(made):
  cards, tables = made
  assert isinstance(cards, HoleCards)
  assert_alike(cards, tables)
  same = np.zeros((2, len(cards.hands)))
  same[:, 3] = 1
  assert cards.joint_mass(same, 0) == 0  # both cannot hold it


def test_control_other_pairs_are_not_alike(made):
  cards, tables = made
  best = cards.strengths == cards.strengths.max()
  with pytest.raises(AssertionError):
    assert_alike(dataclasses.replace(cards, strengths=np.where(best, 0, cards.strengths)), tables)
  with pytest.raises(AssertionError):
    assert_alike(cards, dataclasses.replace(tables, weights=np.ones_like(tables.weights)))


@pytest.mark.parametrize("kind", [0, 1], ids=["cards", "tables"])
def test_deals_come_as_often_as_the_prior_says(made, kind):
  beliefs = random_beliefs(np.random.default_rng(5), np.ones((2, len(made[0].hands))), 14)
  joint = beliefs[0][:, None] * beliefs[1] * made[1].weight_table(0)
  joint /= joint.sum()
  number, rng = 4000, np.random.default_rng(1)
  drawn = collections.Counter(made[kind].deal(beliefs, 0, rng) for _ in range(number))
  found = np.zeros_like(joint)
  for pair, count in drawn.items():
    found[pair] = count / number
  assert found[joint == 0].sum() == 0
  error = 5 * np.sqrt(joint / number) + 5 / number
  assert (np.abs(found - joint) <= error).all()
  independent = np.outer(beliefs[0], beliefs[1])
  assert (np.abs(found - independent) > error).any()  # control: cards do block


def test_hands_in_another_order_are_refused(made):
  said = sentence_of(dataclasses.replace, made[0], hands=made[0].hands[::-1])
  assert "hands() must be pairs of cards, each once" in said
