"""Bets that a tree lacks, answered by searching the round again with the bet in it."""

import functools
import re

import numpy as np
import pytest

from games.poker import CALL, FIRST_BET, betting
from games.poker.streets import size_columns_at
from rebel_jax import play
from rebel_jax.agents.belief_agent import StreetSearcher
from rebel_jax.checkpoints import checkpoint
from rebel_jax.tables.chips import RaiseTo
from rebel_jax.tables.players import TreePlayer
from solvers.search import posteriors
from tests.own_games import own_tree
from tests.tiny import untrained

# Two rounds from blinds of 50 and 100, the pot or all-in; the big blind acts first in the second.
GAME = dict(ranks="TJQK", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=1_000)
ITERATIONS = 8


@functools.cache
def policy():
  """A network that has learned nothing."""
  return untrained("small_holdem", tuple((GAME | dict(bets=(1.0,))).items()), depth="stage")


@functools.cache
def searcher():
  return StreetSearcher(policy(), iterations=ITERATIONS)


def seat(number, *, seed=0):
  agent = searcher().agent(seed=seed)
  player = TreePlayer(searcher().with_sizes, agent, off_tree="add")
  player.start(number, player.game.deck.parse("KsQh"))
  return player


@pytest.mark.parametrize("chips", [210, 880])
def test_the_bet_is_in_the_tree_that_is_searched(chips):
  player = seat(1)
  player.observe(RaiseTo(chips))
  state, agent = player._state, player.player
  assert state[betting.PAID_0] == chips
  search, node = agent.node()
  assert search.tree.state[node][betting.PAID_0] == chips
  np.testing.assert_array_equal(search.tree.state[node], state)
  # The tree is the builder's of a game that has this size at this decision and nowhere else.
  game, root = player.game, np.asarray(agent._root)
  changed = root != searcher().first_root
  assert changed.sum() == 1
  assert changed[list(size_columns_at(game, root).values())].sum() == 1
  referee = own_tree(game, root)
  paths = {referee.history(n) for n in range(referee.num_nodes)}
  live = [n for n in range(search.tree.num_nodes) if n == 0 or search.tree.parent[n] >= 0]
  burnt = {path for path in paths if path[-1:] == (game.burn,)}
  assert {search.tree.history(n) for n in live} == paths - burnt
  assert player.act() is not None


def test_own_moves_keep_the_probabilities_they_were_made_with():
  player = seat(0)
  agent = player.player
  search, _ = agent.node()
  bet = next(n for n in range(search.tree.num_nodes) if search.tree.history(n) == (FIRST_BET,))
  played = search.policy[bet].copy()
  agent.observe(FIRST_BET)
  player._state = player.game.next_states(player._state[None], np.array([FIRST_BET]))[0]
  player.table.apply(RaiseTo(300))
  player.observe(RaiseTo(777))  # the other raises
  found, node = agent.node()
  assert found is not search
  assert found.tree.state[node][betting.PAID_1] == 777
  expected = agent._root_beliefs[0] * played
  np.testing.assert_allclose(agent.beliefs[0], expected / expected.sum(), rtol=1e-4, atol=1e-6)
  # Control: by the new search they would be others.
  root = agent._root_beliefs.astype(np.float32)
  by_search = np.asarray(posteriors(found.tree, found.policy, root))[node]
  assert np.abs(by_search[0] - agent.beliefs[0]).max() > 1e-4
  # They hold where play goes on.
  before = agent.beliefs[0]
  agent.observe(CALL)
  below = np.flatnonzero((found.tree.parent == node) & (found.tree.action == CALL))
  expected = before * found.policy[below[0]]

  np.testing.assert_allclose(agent._root_beliefs[0], expected / expected.sum(), atol=1e-5)


def test_a_person_bets_any_size_in_the_terminal(monkeypatch):
  monkeypatch.setattr(checkpoint, "load", lambda name: policy())
  monkeypatch.setattr("rebel_jax.agents.agent.make_searcher", lambda *_, **__: searcher())
  waiting, printed = iter(["333", "why", *["call", "check"] * 5, "why", "", "300", "fold"]), []

  def ask(prompt):
    return next(waiting, "quit")

  argv = ["mine", "--iterations", "8", "--seed", "1", "--seat", "0", "--games", "2"]
  assert play.main(argv, ask=ask, say=printed.append) == 0
  text = "\n".join(printed)
  assert "The blinds: you put in 50, the agent 100." in text
  assert re.search(r"after bet to 333|after raise to 333", text)
  assert re.search(r"you hold \w+.*%; its policy: .*%", text)
  assert "'333'" not in text
  assert "in the abstraction" not in text
  assert "added" not in text
