"""Agents whose searches make their trees: what they play, at the table and in matches."""

import functools
import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import games
from games.arrays import one
from rebel_jax import match as match_command
from rebel_jax import play
from rebel_jax.agents.agent import make_searcher
from rebel_jax.agents.chain_agent import ChainSearcher
from rebel_jax.agents.dealer import Dealer, Move
from rebel_jax.agents.match import PolicyPlayer, UniformPlayer, play_games, play_match
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import GrowingSearch
from rebel_jax.networks.policy import NetworkStates
from rebel_jax.training.setup import make_state_network, make_targets
from rebel_jax.training.targets.target import init_params
from solvers.growing.continual.policies import history_policies
from solvers.growing.continual.start import decision_key
from solvers.metrics.histories import public_histories
from tests.rebel_jax.test_play import at_the_table

ROOM = 4
GLASSES = "scotland_yard", (("rounds", 2),)


@pytest.fixture(autouse=True)
def kuhn_by_rules(monkeypatch):
  """Poker whose trees searches make."""
  monkeypatch.setattr(games.KuhnPoker, "written", False)


def untrained(name, params=(), **settings) -> Policy:
  config = Config().replace(
    preset="pog_kuhn",
    game=name,
    game_params=params,
    search=GrowingSearch(simulations=6, eval_iterations=12),
    hidden_layers=1,
    width=16,
    **settings,
  )
  targets = make_targets(config, config.make_game())
  return Policy(config, init_params(targets, jax.random.key(0)), {"checkpoint": name})


@functools.cache
def searcher(name, params=()) -> ChainSearcher:
  """Returns what tests of a game share."""
  found = make_searcher(untrained(name, params), num_games=ROOM)
  assert isinstance(found, ChainSearcher)
  return found


@pytest.fixture
def without_search(monkeypatch):
  """Lets agents play uniformly, since searches take long to compile; returns who searched."""
  calls = []

  def search(shared, agents):
    calls.append([agent.player for agent in agents])
    count, wide = shared.game.num_moves, shared.game.num_infostates
    found = SimpleNamespace(
      policy=np.ones((count, wide)) / count, values=np.full((2, wide), 0.25), left=shared.nothing
    )
    return [found for _ in agents]

  monkeypatch.setattr(ChainSearcher, "_search", search)
  return calls


def all_choices(agent, histories, promises=1.0) -> np.ndarray:
  """Returns the agent's policy at all decisions, `[N, M, H]`, each come to in a game of its own.

  What its searches promise the other player is taken times `promises`.
  """
  game, policy = agent.searcher.game, np.zeros(histories.moves.shape)
  dealt = np.argmax(game.prior() > 0, axis=1)
  for node in np.flatnonzero(histories.kind < games.CHANCE).tolist():
    player = int(histories.kind[node])
    agent.start(player, int(dealt[player]))
    for action in histories.since(node, None):
      agent.observe(action)
      if int(agent._left.current) >= 0 and len(agent._since) == 1:
        agent._left = agent._left._replace(values=agent._left.values * promises)
    for infostate in np.flatnonzero(histories.possible[node, player]).tolist():
      agent.infostate = infostate
      chances = agent.choices()
      leads_to, action = (x[:, infostate] for x in one(game.moves_of, *agent._here))
      for number in np.flatnonzero(action >= 0):
        move = Move(int(action[number]), int(leads_to[number]))
        policy[node, number, infostate] = chances[move]
  return policy


@pytest.mark.slow
def test_an_agent_plays_the_policy_that_is_measured(x64):
  """At every decision, number for number; controls: another seed, a chain of wrong promises."""
  policy = untrained("kuhn_poker")
  shared = make_searcher(policy, num_games=1)
  histories = public_histories(games.make("kuhn_poker"))
  measured = history_policies(
    histories,
    search=shared.settings,
    seeds=(3, 4),
    network=NetworkStates(make_state_network(policy.config, games.make("kuhn_poker"))),
    params=policy.params,
    batch_size=ROOM,
  )
  played = all_choices(shared.agent(seed=3), histories)
  assert played.dtype == measured.dtype == float
  np.testing.assert_allclose(played, measured[0], atol=1e-12)
  assert np.abs(played - measured[1]).max() > 1e-2
  wrong = all_choices(shared.agent(seed=3), histories, promises=-1.0)
  first = [n for n in range(len(wrong)) if len(histories.since(n, None)) < 2]
  np.testing.assert_allclose(wrong[first], measured[0, first], atol=1e-12)
  assert np.abs(wrong - measured[0]).max() > 1e-2


def test_keys_of_decisions_differ():
  """By state and seed, from those that a search makes of its own."""
  states = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
  found = jax.jit(decision_key)

  def key_of(seed, state):
    return found(jax.random.key(seed), np.array(state, np.int32))

  keys = [jax.random.key_data(key_of(s, x)) for s in (0, 1) for x in states]
  split = jax.random.key_data(jax.random.split(key_of(0, [0, 0, 0]), 8))
  assert len({tuple(np.asarray(x).tolist()) for x in [*keys, *split]}) == len(keys) + 8


def test_one_play_of_a_table_is_one_play_of_its_game():
  """Leduc poker in tables, move by move; deals are as often what they should be."""
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  table, rng = games.tabulate(game, tree), np.random.default_rng(0)
  dealt = np.zeros((2, game.num_infostates, game.num_infostates))
  for number in range(300):
    dealers = Dealer(table), Dealer(game)
    for count, dealer in zip(dealt, dealers):
      dealer.deal(rng)
      count[tuple(dealer.infostates)] += 1 / 300
    if number >= 6:
      continue
    dealers[0].infostates = list(dealers[1].infostates)
    while not dealers[1].is_over():
      assert dealers[0].actor == dealers[1].actor
      assert dealers[0].legal_actions() == dealers[1].legal_actions()
      if dealers[1].actor == games.CHANCE:
        move = Move(dealers[number % 2].sample_chance(rng), -1)
      else:
        assert dealers[0].legal_moves() == dealers[1].legal_moves()
        moves = dealers[1].legal_moves()
        move = moves[rng.integers(len(moves))]
      names = {x.game.describe(x.history, move.action) for x in dealers}
      assert len(names) == 1
      for dealer in dealers:
        dealer.apply(move, rng)
    assert dealers[0].payoff() == pytest.approx(dealers[1].payoff(), rel=1e-6)
  assert np.abs(dealt[0] - dealt[1]).max() < 0.09
  assert not np.diag(dealt[0]).any()  # the same card twice
  assert dealt[0].max() < 0.09
  with pytest.raises(ValueError, match="action=99 is not legal"):
    Dealer(table).apply(Move(99, 0), rng)


def test_a_station_is_the_end_of_a_path():
  """Games of Mr. X by stations, each followed by paths: chance, moves and payoffs are the same."""
  paths = games.make("scotland_yard")
  rng, won = np.random.default_rng(1), []
  for _ in range(6):
    dealer, other = Dealer(paths.forgetful()), Dealer(paths)
    for dealt in (dealer, other):
      dealt.deal(rng)
    while not dealer.is_over():
      if dealer.actor == games.CHANCE:
        outcome = dealer.sample_chance(rng)
        assert other.sample_chance(rng) == outcome  # it tells where Mr. X is
        move = match = Move(outcome, -1)
      else:
        moves = dealer.legal_moves()
        move = moves[rng.integers(len(moves))]
        moved = dealer.state[0] + 1

        def ends(held, moved=moved):
          return int(paths._walks[0][held, moved])

        by_mister_x = dealer.actor == 0
        options = other.legal_moves()
        reached = {(x.action, ends(x.infostate) if by_mister_x else 0): x for x in options}
        assert set(reached) == set(moves)
        match = reached[move]
      dealer.apply(move, rng)
      other.apply(match, rng)
    won.append(dealer.payoff())
    assert won[-1] == other.payoff()
  assert set(won) == {-1.0, 1.0}


def test_a_person_looks_for_mister_x(without_search, monkeypatch):
  monkeypatch.setattr(checkpoint, "load", lambda name: untrained(*GLASSES))
  tries = ["what", "help", *[f"to-{station}" for station in range(1, 12)] * 20]
  text, code = at_the_table("RUN", "--seed", 2, "--games", 1, "--seat", 1, answers=tries)
  assert code == 0
  assert "You hold nothing hidden." in text
  assert "Mr. X loses if a detective steps on its station" in text
  assert "round 1 of 2, detective 1 to move\n  Mr. X at one of 4, 5, 7, 8: 4 taxi left" in text
  assert re.search(r"Your move \[to-2 to-3, help, quit\]", text)
  # Its moves are announced as what the detectives see, and told afterwards.
  assert text.count("The agent: hidden") == 2
  assert not re.search(r"The agent: to \d", text)
  assert re.search(r"The agent held station \d+\.", text)
  table_talk = text[: text.index("The agent held")]
  assert "station 4" not in table_talk
  assert re.search(r"You (win|lose) \([-+]1\)", text)


def test_a_person_hides(without_search, monkeypatch):
  monkeypatch.setattr(checkpoint, "load", lambda name: untrained(*GLASSES))
  tries = [f"to-{station}" for station in range(1, 12)] * 20
  waiting = ["to-8", *tries, "why"]
  text, code = at_the_table("RUN", "--seed", 2, "--games", 1, "--seat", 0, answers=waiting)
  assert code == 0
  assert "You hold station 6." in text
  assert "You hold station 8 now." in text
  assert "[to-4 to-5 to-7 to-8, help, quit]" in text
  assert re.search(r"The agent: to \d+ \(detective 1\)", text)
  assert "The agent held nothing hidden." in text


def test_what_the_agent_thought(without_search):
  agent = searcher(*GLASSES).agent(seed=0)
  table = play.Terminal(agent, lambda prompt: "to-2", print, np.random.default_rng(0))
  agent.start(0, 5)
  table.dealer.deal(table.rng)
  table.note()
  thought = "it expects +0.25; its policy: to-4 25%, to-5 25%, to-7 25%, to-8 25%"
  assert thought in table.record[-1]


def test_matches(without_search, monkeypatch, capsys):
  """Against uniform play and itself, hands at once in few calls; the same deals score the same."""
  shared = searcher(*GLASSES)
  names = {"a": untrained(*GLASSES), "b": untrained("scotland_yard", (("rounds", 3),))}
  monkeypatch.setattr(checkpoint, "load", names.__getitem__)
  result = match_command.measure(match_command.Options("a", "uniform", hands=8))
  assert (result["unit"], result["aivat"]) == ("a game", None)
  assert result["game"].startswith("games.make('scotland_yard', map_name=Map(")
  assert all(len(set(players)) == 1 for players in without_search)
  without_search.clear()
  match_command.measure(match_command.Options("a", "a", hands=4))
  assert max(len(players) for players in without_search) > 1
  with pytest.raises(ConfigError, match="both must play the same game"):
    match_command.measure(match_command.Options("a", "b", hands=4))
  tree = games.build_public_tree(games.make("kuhn_poker"))
  with pytest.raises(ValueError, match="tree is not of"):
    play_match(
      shared.game,
      lambda seed: shared.agent(seed=seed),
      lambda seed: PolicyPlayer(tree, np.ones((tree.num_nodes, 3)), seed=seed),
      num_games=4,
    )
  payoffs = [
    [
      x.payoff
      for x in play_games(
        shared.game,
        lambda seed: shared.agent(seed=seed),
        lambda seed: UniformPlayer(shared.game, seed=seed),
        num_games=8,
        seed=seed,
      )
    ]
    for seed in (1, 1, 2)
  ]
  assert payoffs[0] == payoffs[1] != payoffs[2]
  assert set(payoffs[0]) <= {-1.0, 1.0}
