"""Agents whose subgames are made where play leads, against the same searches in tables."""

import functools

import numpy as np
import pytest

import solvers
from games import CHANCE
from rebel_jax.agents.agent import Searcher
from rebel_jax.agents.belief_agent import SearchPace, StreetSearcher
from rebel_jax.agents.match import AgentStrategy
from tests.tiny import untrained

ITERATIONS = 16


@functools.cache
def policy():
  """A network that has learned nothing, of two rounds of hold'em."""
  params = (("ranks", "TJQK"), ("suits", "sh"), ("stack", 300))
  return untrained("small_holdem", params, depth="stage")


@functools.cache
def averages():
  """Returns a searcher that plays averages."""
  return StreetSearcher(policy(), iterations=ITERATIONS, average=True, algorithm="linear_cfr")


def walk(searcher, seed):
  """Plays a hand by chance alone; returns the policies at its decisions, and beliefs."""
  game, rng = searcher.game, np.random.default_rng(seed)
  agent, state, found = searcher.agent(seed=0), searcher.game.initial_state(), []
  agent.start(0, int(np.argmax(game.prior()[0] > 0)))
  held = (0, game.num_infostates - 1)  # of the lowest cards and of the highest
  while (actor := int(game.actor(state[None])[0])) <= CHANCE:
    if actor < CHANCE:
      search, node = agent.node()
      children = np.flatnonzero(search.tree.parent == node)
      rows = {int(search.tree.action[c]): search.policy[c] for c in children}
      found.append((rows, agent.beliefs))
      action = int(rng.choice(sorted(rows)))
    else:
      action = game.sample_chance(state, held, rng)
    agent.observe(action)
    state = game.next_states(state[None], np.array([action]))[0]
  return found


def test_searches_are_those_of_tables():
  ours = StreetSearcher(policy(), iterations=2, algorithm="linear_cfr")
  theirs = Searcher(policy(), iterations=2, algorithm="linear_cfr")  # the stop can only be 0
  decisions = 0
  for seed in range(3):
    pairs = list(zip(walk(ours, seed), walk(theirs, seed), strict=True))
    for (rows, beliefs), (others, known) in pairs:
      assert rows.keys() == others.keys()
      for action, row in rows.items():
        live = known[0] > 0
        np.testing.assert_allclose(row[live], others[action][live], atol=1e-6)
      np.testing.assert_allclose(beliefs, known, atol=1e-6)
    decisions += len(pairs)
  assert decisions > 5


def test_local_best_response_plays_an_agent():
  agent = averages().agent(seed=0)
  strategy = AgentStrategy(agent, averages().agent(seed=1))
  strategy.start()
  rows = strategy.rows()
  np.testing.assert_allclose(rows.sum(axis=0), 1.0, atol=1e-5)
  found = solvers.contrib.local_best_response(agent.searcher.game, strategy, num_hands=8, seed=1)
  assert np.isfinite(found.mean)
  assert found.num_hands == 8


def test_a_time_limits_iterations():
  searcher = StreetSearcher(policy(), iterations=2**16, seconds=0.05)
  limits = [searcher.limit(number) for number in range(len(searcher._paces))]
  assert min(limits) < 2**16
  assert all(limit >= 2 and limit % 2 == 0 for limit in limits)
  assert searcher._starts  # the first search of a hand is made already
  searcher._paces[0] = SearchPace(seconds=10.0, fixed=0.0, each=0.5)
  assert searcher.limit(0) == 18


def test_a_slower_search_counts_at_once_and_faster_ones_little_by_little():
  pace = SearchPace(seconds=2.0, fixed=0.3, each=0.01)
  assert pace.iterations(1_000) == 150  # nine tenths of the time, less what no iteration takes
  assert pace.iterations(64) == 64
  slower = pace.after(2.3, 100)
  assert slower.each == pytest.approx(0.02)
  assert slower.iterations(1_000) == 74
  assert slower.after(1.3, 100).each == pytest.approx(0.019)
  assert SearchPace(0.1, 0.3, 0.01).iterations(1_000) == 2  # there is no shorter search
