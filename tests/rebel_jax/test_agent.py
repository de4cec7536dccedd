"""Agents at the table play the searching agent's policy, in any seat; grids show their ranges."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

import games
import solvers
from games.poker.holdem import CALL, FIRST_BET
from rebel_jax.agents import range_grids
from rebel_jax.agents.agent import Agent, Searcher, prepare
from rebel_jax.agents.belief_agent import follow
from rebel_jax.agents.dealer import Dealer
from rebel_jax.agents.match import PlayedGame, PolicyPlayer, play_match, summarise
from rebel_jax.config import ConfigError
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.open_spiel import bots
from rebel_jax.training.setup import make_network
from solvers.search import find_subgames, make_searching_agent
from solvers.search.playthroughs import searching_policy
from tests.sentences import sentence_of
from tests.tiny import TINY, policy_of
from tests.trees import mover, uniform_policy

GAMES = {
  "kuhn_poker": {"depth": 1},
  "rock_paper_scissors": {"depth": 1},  # hidden moves
  "leduc_poker": {"depth": 2},  # public chance between the searches
}
SLOW_LAST = ["kuhn_poker"] + [
  pytest.param(name, marks=pytest.mark.slow) for name in ("rock_paper_scissors", "leduc_poker")
]
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
  return Searcher(
    untrained(name), iterations=ITERATIONS, algorithm="linear_cfr", num_games=64, seed=3
  )


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


def test_an_open_spiel_bot_plays_the_searching_policy():
  name = "kuhn_poker"
  tree, policy = searching(name)

  def random_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  result = bots.play_bots(searcher(name), random_bot, num_games=400)
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


def test_an_agent_of_a_network_of_nan_is_refused():
  """It would play uniformly, and nothing would look amiss."""
  policy = untrained("kuhn_poker")
  broken = policy._replace(params=jax.tree.map(lambda x: x * np.nan, policy.params))
  with pytest.raises(ConfigError, match="holds parameters that are not finite numbers"):
    Searcher(broken, iterations=ITERATIONS)


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
