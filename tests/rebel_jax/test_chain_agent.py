"""Agents whose searches grow trees: at the table, in matches, in OpenSpiel."""

import functools
import re
from types import SimpleNamespace

import numpy as np
import pyspiel
import pytest

import games
import solvers
from rebel_jax import match as match_command
from rebel_jax.agents.agent import ChainSearcher, make_searcher, prepare
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError, GrowingSearch, PerfectSearch
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.networks.value import NetworkStates
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_state_network
from tests import tiny
from tests.rebel_jax.test_play import at_the_table
from tests.trees import children_of

ROOM = 8
BOARDS = {
  "tic_tac_toe": (),
  "connect_four": (("width", 4), ("height", 3), ("in_a_row", 3)),
  "go": (("size", 3), ("komi", 0.5)),
}


@functools.cache
def untrained(name):
  preset, kind = "pog_kuhn", GrowingSearch
  if name in BOARDS:
    preset, kind = "pog_tic_tac_toe", PerfectSearch
  search = kind(simulations=6, eval_iterations=12)
  return tiny.untrained(name, BOARDS.get(name, ()), preset=preset, search=search)


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
  """Returns the agent's policy at all decisions, `[N, H]`, each reached by its own searches."""
  tree, game = games.build_public_tree(searcher(name).game), searcher(name).game
  agent, policy = searcher(name).agent(seed=seed), np.ones((tree.num_nodes, tree.num_infostates))
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
  policy = played(name, 3)
  np.testing.assert_allclose(policy, resolved(name, 3), atol=1e-6)
  assert np.abs(policy - resolved(name, 4)).max() > 1e-2
  assert np.abs(policy - resolved(name, 3, "single")).max() > 1e-2


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


def own_search(policy, values):
  return SimpleNamespace(policy=policy, values=values, left=None)


@pytest.fixture
def first_legal(monkeypatch):
  """Lets agents take the first legal action, since searches take long to compile."""

  def search(shared, agents):
    legal = shared.game.legal_actions(np.stack([agent._here.state for agent in agents]))
    policies = np.where(legal, np.linspace(0.9, 0.1, legal.shape[1]), 0.0)
    return [own_search(policy[:, None], np.array([[0.25], [-0.25]])) for policy in policies]

  monkeypatch.setattr(ChainSearcher, "_search", search)


@pytest.mark.slow
def test_an_agent_makes_the_moves_that_are_measured():
  """In positions of random games; control: another seed."""
  policy, shared = untrained("tic_tac_toe"), searcher("tic_tac_toe")
  rng, states, played = np.random.default_rng(0), [], []
  for number in range(12):
    agent = shared.agent(seed=3)
    agent.start(number % 2, 0)
    for _ in range(number % 2 + 2 * int(rng.integers(3))):
      taken = agent._here.state == 0
      agent._search = own_search(np.ones((9, 1)), np.zeros((2, 1)))  # its own moves are given
      agent.observe(int(rng.choice(np.flatnonzero(taken))))
    choices = agent.choices()
    assert sorted(choices.values()) == [0.0] * (len(choices) - 1) + [1.0]
    assert agent.act() == max(choices, key=choices.__getitem__)
    states.append(agent._here.state)
    played.append(agent.act().action)
  rows, evaluator = np.stack(states), ChainEvaluator(policy.config)

  def measured(seed):
    seeds = np.full(len(rows), seed, np.uint32)
    return evaluator.likeliest_moves(policy.params, rows, seeds).tolist()

  assert measured(3) == played
  assert measured(4) != played


PICTURES = {
  "tic_tac_toe": ([4, 0, 2], "b2 a3 c3", "3 O . X\n  2 . X .\n  1 . . .\n    a b c"),
  "connect_four": ([1, 1, 3], "2 2 4", " . . . .\n   . O . .\n   . X . X\n   1 2 3 4"),
  "go": ([1, 0, 3, 9], "b3 a3 a2 pass", "3 . X .\n  2 X . .\n  1 . . .\n    a b c"),
}


@pytest.mark.parametrize("name", BOARDS)
def test_boards_are_pictures(name):
  history, named, picture = PICTURES[name]
  game = games.make(name, **dict(BOARDS[name]))
  assert " ".join(game.action_name(action) for action in history) == named
  assert game.situation(history) == picture
  assert game.situation(history[:-2]) != picture
  assert "X begins" in game.text or "X is black and begins" in game.text


def test_bots_of_open_spiel(first_legal):
  def random_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  shared = searcher("go")
  result = bots.play_bots(shared, random_bot, num_games=20)
  assert result.num_games == 20
  assert -1.0 <= result.mean <= 1.0
  translation = bots.Translation(shared.game)
  state = translation.open_spiel_game.new_initial_state()
  bot = bots.AgentBot(shared, translation, 0)
  while not state.is_terminal():  # it takes the first of the legal moves, and so do we
    ours = state.current_player() == 0
    assert not ours or dict(bot.get_policy(state))[min(state.legal_actions())] == 1.0
    state.apply_action(bot.step(state) if ours else min(state.legal_actions()))


def test_matches(first_legal, monkeypatch):
  monkeypatch.setattr(checkpoint, "load", untrained)
  found = match_command.measure(match_command.Options("tic_tac_toe", "uniform", hands=16))
  assert (found["unit"], found["aivat"]) == ("a game", None)
  assert found["game"] == "games.TicTacToe()"
  assert found["by_seat"][0] > found["by_seat"][1]  # who begins wins more of such games
  with pytest.raises(ConfigError, match="both must play the same game"):
    match_command.measure(match_command.Options("tic_tac_toe", "go", hands=4))
