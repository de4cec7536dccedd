"""Spots with a rake: against enumeration of all pairs of hands, boards and lines."""

import itertools

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker import Betting, betting
from games.poker.lines import Follower, make_lines
from tests.hand_pairs import pairs_on, small_spot

RAKE, CAP = 0.1, 3  # the cap is 15 chips of the pot of 20, less than that of 60


def make(board, rake=RAKE):
  return small_spot(board, ("AA,KQs,JTs", "TT,AJs:0.5,KK"), rake=rake, rake_cap=CAP)


def won(game, state, player):
  """Returns what `player` wins with each hand from each of the other's: `[H, H]`."""
  paid = state[[betting.PAID_0, betting.PAID_1]].min()
  pot = 2 * paid - min(RAKE * 2 * paid, CAP)
  board, folded = game.on_board(state[None])[0], game.rules.at(state).folded
  meet, wins = pairs_on(game.deck, game.hole_cards, board[board >= 0])
  share = (wins + 1) / 2 if folded is None else float(folded != player)
  return (pot * share - paid) * meet


class Enumerated:
  """Values by enumeration of every deal and line under a policy."""

  def __init__(self, game, lines, columns, policy):
    self.game, self.policy = game, policy
    self.follower = Follower(lines, columns)

  def row(self, place, child, player):
    columns = self.follower.columns(place, player)
    row = np.asarray(self.policy[child.level])[child.row]
    return np.where(columns < 0, 0, row[np.maximum(columns, 0)])

  def values(self, history, place, reach, player, best):
    """Returns a player's counterfactual values of hands, the other's `reach` given."""
    game = self.game
    state = game.state_after(history)
    actor = int(game.actor(state[None])[0])
    if actor == games.TERMINAL:
      return won(game, state, player) @ reach
    moves = np.flatnonzero(game.legal_actions(state[None])[0]).tolist()
    found = []
    for move in moves:
      child, below = self.follower.step(place, move), reach
      if actor == 1 - player:
        below = reach * self.row(place, child, actor)
      if actor == games.CHANCE and move >= game.first_deal:
        card = move - game.first_deal
        live = ~(game.hole_cards == card).any(axis=1)
        shown = (game.on_board(state[None])[0] >= 0).sum()
        below = reach * live / (game.deck.num_cards - shown - 4)
        found.append(self.values((*history, move), child, below, player, best) * live)
        continue
      found.append(self.values((*history, move), child, below, player, best))
    if actor != player:
      return np.sum(found, axis=0)
    if best:
      return np.max(found, axis=0)
    rows = [self.row(place, self.follower.step(place, move), player) for move in moves]
    return np.sum([x * y for x, y in zip(rows, found)], axis=0)

  def gap(self):
    """Returns the mean of what both players would gain by best responses."""
    beliefs, total = self.game.prior(), 0.0
    meet, _ = pairs_on(self.game.deck, self.game.hole_cards, self.game.board)
    pairs = beliefs[0] @ meet @ beliefs[1]
    for p, best in itertools.product((0, 1), (True, False)):
      values = self.values((), self.follower.start(), beliefs[1 - p], p, best)
      total += (1 if best else -1) * (beliefs[p] @ values) / pairs
    return total / 2


@pytest.mark.parametrize("board", ["TsJhQsKhAd", pytest.param("TsJhQsKh", marks=pytest.mark.slow)])
def test_a_raked_spot_is_as_exploitable_as_by_enumeration(board):
  game = make(board)
  with jax.enable_x64(True):
    lines, columns = make_lines(game)
    settings = {"algorithm": solvers.linear_cfr(), "target": 0, "num_iterations": 10}
    solved = solvers.solve(lines, **settings)
    exact = Enumerated(game, lines, columns, solved.average_policy).gap()
    assert solved.exploitability == pytest.approx(exact, abs=1e-9)
    lines, _ = make_lines(make(board, rake=0.0))
    without = solvers.solve(lines, **settings)
    assert abs(without.exploitability - exact) > 1e-3


def test_trees_refuse_a_rake():
  with pytest.raises(ValueError, match="rake=0.1 makes a game that is not of zero sum"):
    games.build_public_tree(make("TsJhQsKh"))
  with pytest.raises(ValueError, match="rake=0.7 must be a number from 0 to 0.5"):
    Betting(rake=0.7)
