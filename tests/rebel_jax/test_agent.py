"""Agents play the policy that is measured, in any seat, in matches and in OpenSpiel."""

import functools
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

import games
import solvers
from games.poker.holdem import CALL, FIRST_BET
from rebel_jax import match as match_command
from rebel_jax.agents import belief_agent, range_grids
from rebel_jax.agents.agent import Agent, ChainSearcher, Searcher, make_searcher, prepare
from rebel_jax.agents.belief_agent import follow
from rebel_jax.agents.dealer import Dealer
from rebel_jax.agents.match import PlayedGame, PolicyPlayer, play_match, summarise
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError, GrowingSearch, PerfectSearch
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.networks.value import NetworkLeafValues, NetworkStates
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_network, make_state_network
from solvers.growing import search_decisions
from solvers.search import find_subgames, make_searching_agent
from solvers.search.playthroughs import searching_policy
from tests import tiny
from tests.harness import slow
from tests.rebel_jax.test_growing_play import TINY as TINY_CHAINS
from tests.rebel_jax.test_play import at_the_table
from tests.sentences import sentence_of
from tests.tiny import TINY, policy_of
from tests.trees import children_of, mover, possible_of, uniform_policy

GAMES = {
  "kuhn_poker": {"depth": 1},
  "rock_paper_scissors": {"depth": 1},  # hidden moves
  "leduc_poker": {"depth": 2},  # public chance between the searches
}
SLOW_LAST = slow(GAMES, "rock_paper_scissors", "leduc_poker")
ITERATIONS = 16


@functools.cache
def untrained(name):
  """Returns a network that has learned nothing, so that its agent is far from an equilibrium."""
  return policy_of(TINY.replace(game=name, game_params=(), **GAMES[name]))


@functools.cache
def searching(name):
  """Returns the game's tree and the average policy of many playthroughs of the same agent."""
  policy = untrained(name)
  game = policy.config.make_game()
  agent = make_searching_agent(
    game,
    find_subgames(game, depth=policy.config.search.depth),
    algorithm=solvers.linear_cfr(),
    leaf_values=NetworkLeafValues(make_network(policy.config, game)),
  )
  settings = {"num_playthroughs": 512, "num_iterations": ITERATIONS, "key": jax.random.key(7)}
  return agent.tree, searching_policy(agent, params=policy.params, **settings)


@functools.cache
def searcher(name) -> Searcher:
  how = dict(iterations=ITERATIONS, algorithm="linear_cfr", num_games=64, seed=3)
  return Searcher(untrained(name), **how)


def exact(tree, ours, theirs) -> float:
  """Returns what policy `ours` wins a game against `theirs`, both seats equally often."""
  marginals = np.asarray(solvers.root_marginals(tree, jnp.asarray(tree.prior)))
  total = 0.0
  for seat in (0, 1):
    mixed = np.where((mover(tree) == seat)[:, None], ours, theirs)
    values = solvers.expected_values(tree, jnp.asarray(mixed, tree.dtype))
    total += float((marginals * np.asarray(values)).sum(axis=1)[seat]) / 2
  return total


@pytest.mark.parametrize("name", SLOW_LAST)
def test_an_agent_plays_the_searching_policy(name):
  tree, policy = searching(name)
  game = untrained(name).config.make_game()
  best = [solvers.best_response(tree, policy, player=p)[1] for p in (0, 1)]
  opponent = np.where((mover(tree) == 0)[:, None], best[0], best[1])
  result = play_match(
    game,
    lambda seed: Agent(searcher(name), seed=seed),
    lambda seed: PolicyPlayer(tree, opponent, seed=seed),
    num_games=600,
  )
  assert abs(result.mean - exact(tree, policy, opponent)) < 2.2 * result.half_width
  # Control: an equilibrium loses less to the same opponent, by more than that.
  better = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=256).average_policy
  assert exact(tree, np.asarray(better), opponent) > result.mean + 2.2 * result.half_width


def random_bot(game, seat, seed):
  return pyspiel.make_uniform_random_bot(seat, seed)


def test_an_open_spiel_bot_plays_the_searching_policy():
  tree, policy = searching("kuhn_poker")
  result = bots.play_bots(searcher("kuhn_poker"), random_bot, num_games=400)
  assert abs(result.mean - exact(tree, policy, uniform_policy(tree))) < 2.2 * result.half_width


def test_beliefs_follow_what_is_seen():
  agent = Agent(searcher("kuhn_poker"), seed=0)
  agent.start(1, 2)
  np.testing.assert_allclose(agent.beliefs, 1 / 3, atol=1e-6)
  before = agent._found()
  agent.observe(1)  # player 0 bets; depth 1, so the next search starts here
  assert agent.pending
  reached = before.policy[np.flatnonzero(before.tree.action == 1)[0]]
  np.testing.assert_allclose(agent.beliefs[0], reached / reached.sum(), atol=1e-5)
  np.testing.assert_allclose(agent.beliefs[1], 1 / 3, atol=1e-5)
  assert sum(agent.choices().values()) == pytest.approx(1)


def test_agents_side_by_side_search_in_one_call(monkeypatch):
  agents = [Agent(searcher("kuhn_poker"), seed=i) for i in range(5)]
  for i, agent in enumerate(agents):
    agent.start(i % 2, i % 3)
  calls = []
  original = Searcher._search_some
  monkeypatch.setattr(Searcher, "_search_some", lambda *a: calls.append(1) or original(*a))
  prepare(agents)
  assert len(calls) == 1
  assert not any(agent.pending for agent in agents)


@pytest.mark.parametrize("algorithm", ["discounted_cfr", "scheduled_discounted_cfr"])
def test_an_agent_plays_an_iterate_of_a_whole_search(algorithm, monkeypatch):
  monkeypatch.setattr(belief_agent, "sample_stop", lambda key, shape, *rest: np.full(shape, 3))
  searches, beliefs = [], np.full((1, 2, 6), 1 / 6)
  for iterations in (None, ITERATIONS):
    how = dict(iterations=ITERATIONS, algorithm=algorithm, seed=3)
    search = Searcher(untrained("leduc_poker"), **how)._search_some
    searches += search(0, np.zeros(1, int), beliefs, iterations)
  np.testing.assert_allclose(searches[0].policy, searches[1].policy, atol=1e-6)


def test_a_game_that_nobody_wins_is_worth_zero_and_not_less_than_zero():
  dealer = Dealer(games.TicTacToe())
  dealer.state = np.array([1, 2, 1, 1, 2, 2, 2, 1, 1])
  result = summarise([(seat, PlayedGame(seat, dealer, [], None).payoff) for seat in (0, 1) * 2])
  assert str(result).startswith("+0.0000 ± 0.0000 a game over 4 games (seat 0: +0.0000, seat 1: +")


def test_mistakes_are_named():
  agent = Agent(searcher("kuhn_poker"))
  agent.start(1, 0)
  assert "player=1 is not to move here, player 0 is" in sentence_of(agent.act)
  assert "action=9 is not legal here" in sentence_of(agent.observe, 9)
  for number, error, sentence in (
    (1.5, TypeError, "num_games=1.5 must be an integer"),
    (2**40, ValueError, "num_games=1099511627776 must be .* at least 1, at most 2147483647"),
  ):
    with pytest.raises(error, match=sentence):
      Searcher(untrained("kuhn_poker"), iterations=ITERATIONS, num_games=number)
  # A network of NaN would play uniformly, and nothing would look amiss.
  policy = untrained("kuhn_poker")
  broken = policy._replace(params=jax.tree.map(lambda x: x * np.nan, policy.params))
  with pytest.raises(ConfigError, match="holds parameters that are not finite numbers"):
    Searcher(broken, iterations=ITERATIONS)


@pytest.fixture(scope="module")
def case():
  game = games.make("river_endgame_holdem", board="9sTsJsQsQh", ranks="89TJQ", suits="sh")
  tree = games.build_public_tree(game)
  rng = np.random.default_rng(0)
  policy = np.ones((tree.num_nodes, tree.num_infostates))
  for node in np.flatnonzero(tree.kind <= games.PLAYER_1):
    children = np.flatnonzero(tree.parent == node)
    policy[children] = rng.dirichlet(np.ones(len(children)), tree.num_infostates).T
  return game, tree, policy


def test_grid_counts_every_hand_once(case):
  game, tree, policy = case
  children = {tree.history(n): n for n in range(tree.num_nodes)}
  node = children[(FIRST_BET, FIRST_BET)]  # player 0 was raised
  grid = range_grids.range_grid(game, tree, policy, node)
  row, column = range_grids.cells(game.deck, game.hole_cards)
  reach, called = np.zeros((5, 5)), np.zeros((5, 5))
  for h in range(tree.num_infostates):
    weight = tree.prior[0, h] * policy[children[(FIRST_BET,)], h]
    reach[row[h], column[h]] += weight
    called[row[h], column[h]] += weight * policy[children[(FIRST_BET, FIRST_BET, CALL)], h]
  np.testing.assert_allclose(grid.reach, reach / reach.sum(), atol=1e-12)
  move = grid.moves.index("call")
  np.testing.assert_allclose(grid.frequency[move] * reach, called, atol=1e-12)
  assert grid.summary[move] == pytest.approx(called.sum() / reach.sum())
  np.testing.assert_allclose(grid.frequency.sum(axis=0)[reach > 0], 1)
  assert len(grid.text().splitlines()) == len(grid.moves)
  assert grid.summary.sum() == pytest.approx(1)
  assert grid.moves[:2] == ("fold", "call")
  assert grid.moves[-1] == "raise to 20000 (all-in)"
  # Bets are in order of size, whatever the order of their numbers.
  sizes = [int(move.split()[2]) for move in grid.moves[2:]]
  assert sizes == sorted(sizes)


def test_nodes_without_a_range_are_refused(case):
  game, tree, policy = case
  for node in (-1, tree.num_nodes - 1, 10_000):
    said = sentence_of(range_grids.range_grid, game, tree, policy, node)
    assert f"node={node} must be one where a player moves" in said
  never = policy.copy()
  bet = int(np.flatnonzero((tree.parent == 0) & (tree.action == FIRST_BET))[0])
  call = int(np.flatnonzero((tree.parent == 0) & (tree.action == CALL))[0])
  never[call], never[bet] = never[call] + never[bet], 0
  raised = int(np.flatnonzero((tree.parent == bet) & (tree.action == FIRST_BET))[0])
  said = sentence_of(range_grids.range_grid, game, tree, never, raised)
  assert "is never reached by player 0" in said


LINES = [("kuhn_poker", (1, 0)), ("rock_paper_scissors", ())]  # which has a hidden move


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_line_of_play(name, line, tmp_path):
  game = searcher(name).game
  decisions = follow(searcher(name), line)
  movers = [int(game.actor(game.state_after(line[:n])[None])[0]) for n in range(len(line) + 1)]
  assert [d.mover for d in decisions] == [m for m in movers if m < 2]
  for decision in decisions:
    np.testing.assert_allclose(decision.beliefs.sum(axis=-1), 1, atol=1e-5)
    held = decision.beliefs[decision.mover] > 0
    assert held.any()
    np.testing.assert_allclose(decision.policy.sum(axis=0)[held], 1, atol=1e-5)
  range_grids.draw(decisions, tmp_path / "hand.png", title="a line")
  assert (tmp_path / "hand.png").stat().st_size > 10_000


ROOM = 8
BOARDS = {
  "tic_tac_toe": (),
  "connect_four": (("width", 4), ("height", 3), ("in_a_row", 3)),
  "go": (("size", 3), ("komi", 0.5)),
}


@functools.cache
def grown(name):
  if name == "kuhn_poker":  # so that another file's searches are compiled already
    policy = policy_of(TINY_CHAINS)
    return policy._replace(params=jax.device_put(policy.params, jax.devices()[0]))
  preset, kind = "pog_kuhn", GrowingSearch
  if name in BOARDS:
    preset, kind = "pog_tic_tac_toe", PerfectSearch
  search = kind(simulations=6, eval_iterations=12)
  return tiny.untrained(name, BOARDS.get(name, ()), preset=preset, search=search)


@functools.cache
def chain_searcher(name="kuhn_poker") -> ChainSearcher:
  """Returns what all tests of a game share, so that it compiles once."""
  found = make_searcher(grown(name), num_games=ROOM)
  assert isinstance(found, ChainSearcher)
  return found


@functools.cache
def resolved(name, seed, chain="own") -> np.ndarray:
  """Returns what `resolved_policies` says the agent plays, `[N, H]`."""
  policy, tree = grown(name), games.build_public_tree(chain_searcher(name).game)
  game = policy.config.make_game()
  (found,) = solvers.resolved_policies(
    game,
    tree,
    search=chain_searcher(name).settings,
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
  game, agent = chain_searcher(name).game, chain_searcher(name).agent(seed=seed)
  tree = games.build_public_tree(game)
  policy = np.full((tree.num_nodes, tree.num_infostates), np.nan)
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


@pytest.mark.parametrize("name", slow(["kuhn_poker", "leduc_poker"], "leduc_poker"))
def test_an_agent_plays_the_policy_that_is_measured(name):
  policy, tree = played(name, 3), games.build_public_tree(chain_searcher(name).game)
  movers, made = mover(tree), ~np.isnan(policy)
  moves = np.flatnonzero(movers < games.CHANCE)
  held = possible_of(tree)[np.asarray(tree.parent)[moves], movers[moves]]
  np.testing.assert_array_equal(made[moves], held)
  np.testing.assert_allclose(policy[made], resolved(name, 3)[made], atol=1e-6)
  assert np.abs(policy - resolved(name, 4))[made].max() > 1e-2
  assert np.abs(policy - resolved(name, 3, "single"))[made].max() > 1e-2


def test_agents_side_by_side_search_in_as_few_calls_as_there_is_room_for(monkeypatch):
  agents = [chain_searcher().agent(seed=i) for i in range(12)]
  for i, agent in enumerate(agents):
    agent.start(0 if i < 10 else 1, i % 3)
  assert [agent.pending for agent in agents] == [True] * 10 + [False] * 2  # those who move
  calls, name = [], "rebel_jax.agents.agent.search_decisions"
  monkeypatch.setattr(name, lambda *x, **y: calls.append(1) or search_decisions(*x, **y))
  prepare(agents)
  assert len(calls) == 2
  assert not any(agent.pending for agent in agents)
  together = [agent.choices() for agent in agents[:10]]
  assert len(calls) == 2
  for i, choices in enumerate(together):  # whoever else is searched for
    alone = chain_searcher().agent(seed=i)
    alone.start(0, i % 3)
    assert alone.choices() == pytest.approx(choices, abs=1e-6)
  assert together[0] != together[1]


def test_a_bot_names_the_policy_that_is_measured():
  game = chain_searcher().game
  translation, tree = bots.Translation(game), games.build_public_tree(game)
  bot = bots.AgentBot(chain_searcher(), translation, 0, seed=3)
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


def test_a_session_in_the_terminal(monkeypatch):
  """Of the untrained network, with the one compiled program."""
  monkeypatch.setattr(checkpoint, "load", lambda name: grown("kuhn_poker"))
  roomy = lambda policy, **how: make_searcher(policy, **how | {"num_games": ROOM})  # noqa: E731
  monkeypatch.setattr("rebel_jax.agents.agent.make_searcher", roomy)
  settings = ("--seed", 1, "--games", 2, "--simulations", 9)
  text, code = at_the_table(
    "untrained", *settings, answers=["bet", "bet", "why", "", *["bet", "why", "bet", "why"] * 3]
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

  def search_for(shared, agents):
    legal = shared.game.legal_actions(np.stack([agent._here.state for agent in agents]))
    policies = np.where(legal, np.linspace(0.9, 0.1, legal.shape[1]), 0.0)
    for agent, policy in zip(agents, policies):
      agent._search = own_search(policy[:, None], np.array([[0.25], [-0.25]]))

  monkeypatch.setattr(ChainSearcher, "search_for", search_for)


@pytest.mark.slow
def test_an_agent_makes_the_moves_that_are_measured():
  """In positions of random games; control: another seed."""
  policy, shared = grown("tic_tac_toe"), chain_searcher("tic_tac_toe")
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
  shared = chain_searcher("go")
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
  monkeypatch.setattr(checkpoint, "load", grown)
  found = match_command.measure(match_command.Options("tic_tac_toe", "uniform", hands=16))
  assert (found["unit"], found["aivat"]) == ("a game", None)
  assert found["game"] == "games.TicTacToe()"
  assert found["by_seat"][0] > found["by_seat"][1]  # who begins wins more of such games
  with pytest.raises(ConfigError, match="both must play the same game"):
    match_command.measure(match_command.Options("tic_tac_toe", "go", hands=4))
