"""Range grids: which cell a hand is in, what a range does, and the picture."""

import numpy as np
import pytest

import games
from games.poker.holdem import CALL, FIRST_BET
from rebel_jax.agents import range_grids
from rebel_jax.agents.agent import Searcher
from rebel_jax.agents.belief_agent import follow
from tests.sentences import sentence_of
from tests.tiny import untrained


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
  searcher = Searcher(untrained(name, depth=1), iterations=16)
  game = searcher.game
  decisions = follow(searcher, line)
  movers = [int(game.actor(game.state_after(line[:n])[None])[0]) for n in range(len(line) + 1)]
  assert [d.mover for d in decisions] == [m for m in movers if m < 2]
  for decision in decisions:
    np.testing.assert_allclose(decision.beliefs.sum(axis=-1), 1, atol=1e-5)
    held = decision.beliefs[decision.mover] > 0
    assert held.any()
    np.testing.assert_allclose(decision.policy.sum(axis=0)[held], 1, atol=1e-5)
  range_grids.draw(decisions, tmp_path / "hand.png", title="a line")
  assert (tmp_path / "hand.png").stat().st_size > 10_000
