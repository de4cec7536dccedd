"""Agents of games of perfect information: at the table, in matches, as bots of OpenSpiel."""

import functools
from types import SimpleNamespace

import jax
import numpy as np
import pyspiel
import pytest

import games
from rebel_jax import match as match_command
from rebel_jax.agents.agent import make_searcher
from rebel_jax.agents.chain_agent import ChainAgent, ChainSearcher
from rebel_jax.agents.dealer import Move
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import PerfectSearch
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_targets
from rebel_jax.training.targets.target import init_params
from tests.rebel_jax.test_play import at_the_table

ROOM = 4
GAMES = {
  "tic_tac_toe": (),
  "connect_four": (("width", 4), ("height", 3), ("in_a_row", 3)),
  "go": (("size", 3), ("komi", 0.5)),
}


def untrained(name) -> Policy:
  config = Config().replace(
    preset="pog_tic_tac_toe",
    game=name,
    game_params=GAMES[name],
    search=PerfectSearch(simulations=6, eval_iterations=12),
    hidden_layers=1,
    width=16,
  )
  targets = make_targets(config, config.make_game())
  return Policy(config, init_params(targets, jax.random.key(0)), {"checkpoint": name})


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

  def search(shared, agents):
    legal = shared.game.legal_actions(np.stack([agent._here.state for agent in agents]))
    policies = np.where(legal, np.linspace(0.9, 0.1, legal.shape[1]), 0.0)
    return [own_search(policy[:, None], np.array([[0.25], [-0.25]])) for policy in policies]

  monkeypatch.setattr(ChainSearcher, "_search", search)


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
  """Go's last picture has a stone that was taken."""
  history, named, picture = PICTURES[name]
  game = games.make(name, **dict(GAMES[name]))
  assert " ".join(game.action_name(action) for action in history) == named
  assert game.situation(history) == picture
  assert game.situation(history[:-2]) != picture
  assert "X begins" in game.explain() or "X is black and begins" in game.explain()


def test_a_person_plays(first_legal, monkeypatch):
  monkeypatch.setattr(checkpoint, "load", lambda name: untrained("tic_tac_toe"))
  text, code = at_the_table(
    "RUN",
    "--seat",
    0,
    "--games",
    1,
    answers=["help", "d4", "b2", "c1", "b1", "why", "quit"],
  )
  assert code == 0
  assert "You hold" not in text
  assert "held" not in text
  assert "'d4' is not a move here" in text
  assert "[b3 c3 a2 c2 a1 b1 c1, help, quit]" in text  # after b2 and the agent's a3
  assert "3 O O .\n  2 . X .\n  1 . . X" in text
  # It has a line of its own by c3; the picture says so.
  assert text.index("3 O O O") < text.index("You lose (-1).")


def test_what_the_agent_thought(first_legal):
  agent = searcher("go").agent(seed=0)
  assert isinstance(agent, ChainAgent)
  agent.start(1, 0)
  agent.observe(9)
  assert agent.value == -0.25
  assert agent.act() == Move(0, 0)
  with pytest.raises(ValueError, match=r"action=12 is not legal here"):
    agent.observe(12)


@pytest.mark.parametrize("name", GAMES)
def test_bots_of_open_spiel(name, first_legal):
  """Against one who moves at random, seen from OpenSpiel, which counts who won."""

  def random_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  shared = searcher(name)
  result = bots.play_bots(shared, random_bot, num_games=20)
  assert result.num_games == 20
  assert -1.0 <= result.mean <= 1.0
  translation = bots.translate(shared.game)
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


def test_mistakes_are_named():
  with pytest.raises(ValueError, match="'scotland_yard' has no counterpart in OpenSpiel; known: c"):
    bots.translate(games.make("scotland_yard", remembers=False))
