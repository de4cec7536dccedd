"""Agents of games of perfect information: at the table, in matches, as bots of OpenSpiel."""

import functools
from types import SimpleNamespace

import numpy as np
import pyspiel
import pytest

import games
from rebel_jax import match as match_command
from rebel_jax.agents.agent import ChainSearcher, make_searcher
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError, PerfectSearch
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.open_spiel import bots
from tests import tiny

ROOM = 4
GAMES = {
  "tic_tac_toe": (),
  "connect_four": (("width", 4), ("height", 3), ("in_a_row", 3)),
  "go": (("size", 3), ("komi", 0.5)),
}


def untrained(name):
  search = PerfectSearch(simulations=6, eval_iterations=12)
  return tiny.untrained(name, GAMES[name], preset="pog_tic_tac_toe", search=search)


@functools.cache
def searcher(name) -> ChainSearcher:
  found = make_searcher(untrained(name), num_games=ROOM)
  assert isinstance(found, ChainSearcher)
  return found


def own_search(policy, values):
  return SimpleNamespace(policy=policy, values=values, left=None)


@pytest.fixture
def first_legal(monkeypatch):
  """Lets agents take the first legal action, since searches take long to compile."""

  def search_for(shared, agents):
    legal = shared.game.legal_actions(np.stack([agent._here.state for agent in agents]))
    policies = np.where(legal, np.linspace(0.9, 0.1, legal.shape[1]), 0.0)
    for agent, policy in zip(agents, policies):
      agent._search = own_search(policy[:, None], np.array([[0.25], [-0.25]]))

  monkeypatch.setattr(ChainSearcher, "search_for", search_for)


@pytest.mark.slow
def test_an_agent_makes_the_moves_that_are_measured():
  """In positions of random games; control: another seed."""
  policy, shared = untrained("tic_tac_toe"), searcher("tic_tac_toe")
  rng, states, played = np.random.default_rng(0), [], []
  for number in range(3 * ROOM):
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


@pytest.mark.parametrize("name", GAMES)
def test_boards_are_pictures(name):
  history, named, picture = PICTURES[name]
  game = games.make(name, **dict(GAMES[name]))
  assert " ".join(game.action_name(action) for action in history) == named
  assert game.situation(history) == picture
  assert game.situation(history[:-2]) != picture
  assert "X begins" in game.text or "X is black and begins" in game.text


@pytest.mark.parametrize("name", ["connect_four", "go"])
def test_bots_of_open_spiel(name, first_legal):
  def random_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  shared = searcher(name)
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
