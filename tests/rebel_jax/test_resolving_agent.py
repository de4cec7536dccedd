"""The agent of a network whose searches grow trees: at the table, in matches, in OpenSpiel."""

import functools
import re

import numpy as np
import pytest

import games
import solvers
from rebel_jax.agents.agent import ChainSearcher, make_searcher, prepare
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import GrowingSearch
from rebel_jax.networks.value import NetworkStates
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_state_network
from tests import tiny
from tests.rebel_jax.test_play import at_the_table
from tests.trees import children_of, mover, possible_of

ROOM = 8


SEARCH = GrowingSearch(simulations=6, eval_iterations=12)
untrained = functools.cache(functools.partial(tiny.untrained, preset="pog_kuhn", search=SEARCH))


@functools.cache
def searcher(name="kuhn_poker") -> ChainSearcher:
  """Returns what all tests of a game share, so that it compiles once."""
  found = make_searcher(untrained(name), num_games=ROOM)
  assert isinstance(found, ChainSearcher)
  return found


@functools.cache
def resolved(name, seed, chain="own") -> np.ndarray:
  """Returns what `resolved_policies` says the agent plays, `[N, H]`."""
  policy, tree = untrained(name), games.build_public_tree(searcher(name).game)
  game = policy.config.make_game()
  (found,) = solvers.resolved_policies(
    game,
    tree,
    search=searcher(name).settings,
    seeds=(seed,),
    network=NetworkStates(make_state_network(policy.config, game)),
    params=policy.params,
    chain=chain,
    batch_size=ROOM,
  )
  return found


def played(name, seed) -> np.ndarray:
  """Returns the agent's policy at all decisions, `[N, H]`, each reached by its own searches.

  It is NaN where nobody moves, and for hands that nobody can hold.
  """
  tree, game = games.build_public_tree(searcher(name).game), searcher(name).game
  agent, policy = (
    searcher(name).agent(seed=seed),
    np.full((tree.num_nodes, tree.num_infostates), np.nan),
  )
  dealt, children = np.argmax(np.asarray(game.prior()) > 0, axis=1), children_of(tree)
  for node in np.flatnonzero(np.asarray(tree.kind) < games.CHANCE):
    player = int(tree.kind[node])
    agent.start(player, int(dealt[player]))
    for action in tree.history(int(node)):
      agent.observe(action)
    for infostate in range(tree.num_infostates):
      agent.infostate = infostate
      for move, chance in agent.choices().items():
        policy[children[node, move.action], move.infostate] = chance
  return policy


@pytest.mark.parametrize(
  "name", ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow)]
)
def test_an_agent_plays_the_policy_that_is_measured(name):
  policy, tree = played(name, 3), games.build_public_tree(searcher(name).game)
  movers, made = mover(tree), ~np.isnan(policy)
  moves = np.flatnonzero(movers < games.CHANCE)
  held = possible_of(tree)[np.asarray(tree.parent)[moves], movers[moves]]
  np.testing.assert_array_equal(made[moves], held)
  np.testing.assert_allclose(policy[made], resolved(name, 3)[made], atol=1e-6)
  assert np.abs(policy - resolved(name, 4))[made].max() > 1e-2
  assert np.abs(policy - resolved(name, 3, "single"))[made].max() > 1e-2


def test_agents_side_by_side_search_in_as_few_calls_as_there_is_room_for(monkeypatch):
  agents = [searcher().agent(seed=i) for i in range(12)]
  for i, agent in enumerate(agents):
    agent.start(0 if i < 10 else 1, i % 3)
  assert [agent.pending for agent in agents] == [True] * 10 + [False] * 2  # those who move
  calls, original = [], ChainSearcher._search
  monkeypatch.setattr(ChainSearcher, "_search", lambda *a: calls.append(1) or original(*a))
  prepare(agents)
  assert len(calls) == 2
  assert not any(agent.pending for agent in agents)
  together = [agent.choices() for agent in agents[:10]]
  assert len(calls) == 2
  for i, choices in enumerate(together):  # whoever else is searched for
    alone = searcher().agent(seed=i)
    alone.start(0, i % 3)
    assert alone.choices() == pytest.approx(choices, abs=1e-6)
  assert together[0] != together[1]


def test_a_bot_names_the_policy_that_is_measured():
  translation, tree = bots.Translation(searcher().game), games.build_public_tree(searcher().game)
  bot = bots.AgentBot(searcher(), translation, 0, seed=3)
  nodes = [n for n in range(tree.num_nodes) if tree.history(n) in ((), (0, 1))]
  children = [np.flatnonzero(np.asarray(tree.parent) == node) for node in nodes]
  found = []
  for card in range(3):
    state = translation.open_spiel_game.new_initial_state()
    for action in (card, (card + 1) % 3):
      state.apply_action(action)
    bot.restart_at(state)
    found.append([[chance for _, chance in bot.get_policy(state)]])
    for action in (0, 1):
      state.apply_action(action)
    found[-1].append([chance for _, chance in bot.get_policy(state)])
  measured = [resolved("kuhn_poker", seed)[children].transpose(2, 0, 1) for seed in (3, 4)]
  np.testing.assert_allclose(found, measured[0], atol=1e-5)
  assert np.abs(found - measured[1]).max() > 1e-3


@pytest.fixture
def at_hand(monkeypatch):
  """Lets commands load the untrained network, and search with the one compiled program."""
  monkeypatch.setattr(checkpoint, "load", lambda name: untrained("kuhn_poker"))

  def make(policy, **settings):
    return make_searcher(policy, **settings | {"num_games": ROOM})

  monkeypatch.setattr("rebel_jax.agents.agent.make_searcher", make)
  return "untrained"


def test_a_session_in_the_terminal(at_hand):
  settings = ("--seed", 1, "--games", 2, "--simulations", 9)
  text, code = at_the_table(
    at_hand, *settings, answers=["bet", "bet", "why", "", *["bet", "why", "bet", "why"] * 3]
  )
  assert code == 0
  assert re.search(r"after bet: it expects [-+]\d\.\d\d; its policy: .*\d%", text)
  assert "you hold" not in text  # which its searches do not ask
  assert text.count("The agent held") == 2
