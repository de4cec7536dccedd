"""Trees are counted before they are built."""

import re
import time

import numpy as np
import pytest

import games
from tests.random_game import RandomGame
from tests.sentences import sentence_of

HUGE = {"2**31": 2**31, "1e19": 10**19, "1e400": 10**400, "-1": -1}


class Endless(games.KuhnPoker):
  """Kuhn poker in which nobody may stop; `branches` moves lead on."""

  def __init__(self, branches):
    self.num_actions = branches

  def actor(self, states):
    return states[:, 0] * 0

  def legal_actions(self, states):
    return np.ones((len(states), self.num_actions), bool)

  def next_states(self, states, actions):
    return (states * 7 + actions[:, None]) % 10_007


def nodes_of(game, **options):
  """Returns how many nodes the count says that a tree has."""
  sentence = sentence_of(games.build_public_tree, game, max_bytes=1, **options)
  return int(re.search(r"tree of (\d+) nodes", sentence)[1])


@pytest.mark.parametrize("depth", [None, 1, 3, "stage"])
@pytest.mark.parametrize(
  "make",
  [
    lambda: games.make("leduc_poker"),
    lambda: games.make("liars_dice", num_dice=2, num_faces=2),
    lambda: games.make("small_holdem", ranks="QKA", suits="sh", stack=300),
    lambda: games.make("rock_paper_scissors"),
    lambda: RandomGame(5),
  ],
)
def test_the_count_is_that_of_the_tree(make, depth):
  tree = games.build_public_tree(make(), depth=depth)
  assert nodes_of(make(), depth=depth) == tree.num_nodes


def test_a_tree_that_is_too_large_is_told_at_once():
  game = games.make("liars_dice", num_dice=3, num_faces=6)
  assert nodes_of(game) == 2**37 - 1  # as many as sets of bids, and a call after each but the first
  start = time.monotonic()
  sentence = sentence_of(games.build_public_tree, game)
  assert "public tree of 137438953471 nodes" in sentence
  assert "max_bytes=4294967296 must be raised" in sentence
  assert time.monotonic() - start < 1
  assert games.build_public_tree(game, depth=2).num_nodes == 703


def test_the_limit_can_be_raised():
  game = games.make("kuhn_poker")
  with pytest.raises(ValueError, match="tree of 9 nodes"):
    games.build_public_tree(game, max_bytes=500)
  assert games.build_public_tree(game, max_bytes=5000).num_nodes == 9
  assert sentence_of(games.build_public_tree, game, max_bytes="4 GiB").startswith("max_bytes=")


def test_a_game_without_end_is_refused():
  for branches, said in ((1, "has not ended after 10000 public actions"), (300, "more than")):
    assert said in sentence_of(games.build_public_tree, Endless(branches))
    assert games.build_public_tree(Endless(branches), depth=1).num_nodes == 1 + branches


@pytest.mark.parametrize("value", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize(
  ("name", "parameter"),
  [
    ("liars_dice", "num_dice"),
    ("coin_toss", "num_subgames"),
    ("river_endgame_holdem", "stack"),
    ("river_endgame_holdem", "big_blind"),
    ("small_holdem", "deals"),
    ("small_holdem", "blinds"),
  ],
)
def test_absurd_numbers(name, parameter, value):
  """Each is refused in a sentence or is a game like others."""
  start = time.monotonic()
  try:
    games.build_public_tree(games.make(name, **{parameter: value}))
  except ValueError as error:
    assert "\n" not in str(error)
  else:
    assert parameter in ("stack", "big_blind")
  assert time.monotonic() - start < 5
