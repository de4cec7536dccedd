"""The agent of a network whose searches grow trees: at the table, in matches, in OpenSpiel."""

import functools
import re

import jax
import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import evaluate_bots

import games
import solvers
from benchmarks import match
from rebel_jax import flags, play
from rebel_jax.agents.agent import Agent, Searcher, make_agent, make_searcher, prepare
from rebel_jax.agents.chain_agent import ChainAgent, ChainSearcher
from rebel_jax.agents.match import PolicyPlayer, play_match
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import REBEL, GrowingSearch
from rebel_jax.networks.policy import NetworkStates
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_state_network, make_targets
from rebel_jax.training.targets.target import init_params
from tests.rebel_jax.test_agent import exact, uniform
from tests.rebel_jax.test_play import at_the_table

ROOM = 8


@functools.cache
def untrained(name) -> Policy:
  config = Config().replace(
    preset="pog_kuhn",
    game=name,
    game_params=(),
    search=GrowingSearch(simulations=6, eval_iterations=12),
    hidden_layers=1,
    width=16,
  )
  targets = make_targets(config, config.make_game())
  return Policy(config, init_params(targets, jax.random.key(0)), {"checkpoint": name})


@functools.cache
def searcher(name="kuhn_poker") -> ChainSearcher:
  """Returns what all tests of a game share, so that it compiles once."""
  found = make_searcher(untrained(name), num_games=ROOM)
  assert isinstance(found, ChainSearcher)
  return found


@functools.cache
def resolved(name, seed, chain="own") -> np.ndarray:
  """Returns what `resolved_policies` says the agent plays, `[N, H]`."""
  policy, tree = untrained(name), searcher(name).play.rules.tree
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
  tree, game = searcher(name).play.rules.tree, searcher(name).game
  agent, policy = searcher(name).agent(seed=seed), np.ones((tree.num_nodes, tree.num_infostates))
  dealt = np.argmax(np.asarray(game.prior()) > 0, axis=1)
  for node in np.flatnonzero(np.asarray(tree.kind) < games.CHANCE):
    player = int(tree.kind[node])
    agent.start(player, int(dealt[player]))
    for action in tree.history(int(node)):
      agent.observe(action)
    for infostate in range(tree.num_infostates):
      agent.infostate = infostate
      for move, chance in agent.choices().items():
        children = np.flatnonzero(np.asarray(tree.parent) == node)
        child = children[np.asarray(tree.action)[children] == move.action]
        policy[child, move.infostate] = chance
  return policy


@pytest.mark.parametrize(
  "name", ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow)]
)
def test_an_agent_plays_the_policy_that_is_measured(name):
  """At every decision, by its own chain of searches; another seed or chain is another policy."""
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


def test_a_game_begins_without_what_the_last_one_left():
  agent = searcher().agent(seed=1)
  agent.start(0, 2)
  first = agent.choices()
  for action in (0, 1):  # it passes and the other bets
    agent.observe(action)
  second = agent.choices()
  agent.start(0, 2)
  assert agent.choices() == first
  # Without its first search, its second is another.
  agent._left, agent._search = agent.searcher.nothing, None
  for action in (0, 1):
    agent.observe(action)
  agent._left, agent._search = agent.searcher.nothing, None
  assert max(abs(agent.choices()[move] - second[move]) for move in second) > 1e-3


def test_an_agent_wins_what_its_policies_are_worth():
  """Agents of many seeds, against what wins most from uniform play; that would lose more."""
  tree = searcher().play.rules.tree
  best = [solvers.best_response(tree, uniform(tree), player=p)[1] for p in (0, 1)]
  mover = np.asarray(tree.kind)[np.maximum(np.asarray(tree.parent), 0)]
  opponent = np.where((mover == 0)[:, None], best[0], best[1])
  result = play_match(
    searcher().game,
    lambda seed: searcher().agent(seed=seed),
    lambda seed: PolicyPlayer(tree, opponent, seed=seed),
    num_games=400,
  )
  worth = [exact(tree, resolved("kuhn_poker", seed), opponent) for seed in range(6)]
  assert abs(result.mean - np.mean(worth)) < 2.2 * result.half_width
  assert result.mean - exact(tree, uniform(tree), opponent) > 2.2 * result.half_width


def test_two_bots_at_open_spiels_own_table():
  translation = bots.Translation(searcher().game)
  players = [bots.AgentBot(searcher(), translation, seat, seed=seat) for seat in (0, 1)]
  rng, won = np.random.default_rng(0), []
  for _ in range(8):
    state = translation.open_spiel_game.new_initial_state()
    won.append(evaluate_bots.evaluate_bots(state, players, rng))
    assert state.is_terminal()
  assert np.sum(won, axis=1) == pytest.approx(0)
  assert np.ptp(won) > 0


def test_a_bot_names_the_policy_that_is_measured():
  """At both decisions of a game that it begins with a pass, holding each of the cards."""
  translation, tree = bots.Translation(searcher().game), searcher().play.rules.tree
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


def test_a_match_of_bots():
  def random_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  assert bots.play_bots(searcher(), random_bot, num_games=8).num_games == 8


@pytest.fixture
def at_hand(monkeypatch):
  """Lets commands load the untrained network, and search with the one compiled program."""
  monkeypatch.setattr(checkpoint, "load", lambda name: untrained("kuhn_poker"))

  def make(policy, **settings):
    return make_searcher(policy, **settings | {"num_games": ROOM})

  monkeypatch.setattr(play, "make_searcher", make)
  monkeypatch.setattr(match, "make_searcher", make)
  monkeypatch.setattr("rebel_jax.load", checkpoint.load)
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


def test_the_benchmark_of_matches(at_hand, capsys):
  match.main(match.Options(checkpoint=at_hand, opponents=("uniform",), games=8))
  assert '"simulations": 6, "per_update": 1.0, "games": 8' in capsys.readouterr().out


GROWING_FLAGS = [
  (["--iterations", "8"], "iterations=8 is not for", "simulations, per_update"),
  (["--algorithm", "linear_cfr"], "algorithm='linear_cfr' is not for", "simulations, per_update"),
  (
    ["--simulations", "6", "--per-update", "4"],
    "simulations=6 must be a multiple of",
    "per_update",
  ),
  (["--simulations", "0"], "simulations=0", ""),
  (["--mix", "0"], "--mix", ""),
]


@pytest.mark.parametrize(("arguments", "message", "hint"), GROWING_FLAGS)
def test_flags_that_do_not_apply_to_searches_that_grow(at_hand, arguments, message, hint, capsys):
  refused(at_hand, arguments, message, hint, capsys)


@pytest.mark.parametrize("name", ["liars_dice_1x4f", "river_endgame_holdem"])
@pytest.mark.parametrize("flag", ["simulations", "per_update"])
def test_flags_that_apply_to_searches_that_grow_alone(name, flag, capsys):
  arguments = [f"--{flag.replace('_', '-')}", "4"]
  refused(name, arguments, f"{flag}=4", "allowed are: iterations, algorithm", capsys)


def refused(name, arguments, message, hint, capsys):
  assert at_the_table(name, *arguments, answers=[]) == ("", 2)
  err = capsys.readouterr().err
  assert message in err
  assert hint in err
  assert err.count("\n") == 1


def test_flags_of_the_benchmark_that_do_not_apply(at_hand, capsys):
  wrong = match.Options(checkpoint=at_hand, iterations=8)
  assert flags.command(lambda: match.main(wrong), is_process=False) == 2
  assert "=8 is not for 'untrained', which has growing searches" in capsys.readouterr().err


def test_agents_of_the_wrong_kind():
  policy = untrained("kuhn_poker")
  with pytest.raises(ConfigError, match="grow trees, and are not ReBeL's"):
    Searcher(policy)
  rebel = policy._replace(config=policy.config.replace(search=REBEL))
  with pytest.raises(ConfigError, match="are ReBeL's, and do not grow trees"):
    ChainSearcher(rebel)
  assert isinstance(make_agent(policy), ChainAgent)
  assert not isinstance(make_agent(policy), Agent)


def test_mistakes_are_named():
  agent = searcher().agent()
  with pytest.raises(ValueError, match=r"player=2"):
    agent.start(2, 0)
  with pytest.raises(ValueError, match=r"infostate=7"):
    agent.start(0, 7)
  agent.start(1, 0)
  for ask in (agent.act, agent.choices, lambda: agent.value):
    with pytest.raises(ValueError, match=r"player=1 is not to move here, player 0 is"):
      ask()
  with pytest.raises(ValueError, match=r"action=9 is not legal here"):
    agent.observe(9)
  with pytest.raises(ValueError, match=r"num_games=0"):
    ChainSearcher(untrained("kuhn_poker"), num_games=0)
  with pytest.raises(ConfigError, match=r"simulations=7 must be a multiple"):
    ChainSearcher(untrained("kuhn_poker"), simulations=7, per_update=2)
