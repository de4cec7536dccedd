"""Exact values of small games, and searches that play against them."""

import functools

import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

import games
import solvers
from benchmarks.growing.exact_play import play_exactly
from benchmarks.growing.look_ahead import look_ahead
from solvers.growing.states import StateAnswer
from solvers.metrics.histories import minimax

GAME = games.TicTacToe()
MANY = solvers.GTCFR(simulations=100, children=1)


@functools.cache
def exact_values():
  return minimax(GAME)


def worth(state, values):
  """Returns what OpenSpiel's rules say that a state is worth; notes it by the board."""
  board = tuple(".xo".index(mark) for mark in str(state) if mark in ".xo")
  if board not in values:
    best = min if state.current_player() == 1 else max
    below = [worth(state.child(action), values) for action in state.legal_actions()]
    values[board] = best(below) if below else state.returns()[0]
  return values[board]


def test_values_are_those_of_open_spiels_rules():
  exact, plain = exact_values(), {}
  worth(pyspiel.load_game("tic_tac_toe").new_initial_state(), plain)
  assert len(exact.states) == len(plain) == 5478
  boards = np.array(list(plain))
  np.testing.assert_array_equal(exact.value_of(boards), list(plain.values()))
  assert np.isnan(exact.value_of(np.full((1, 9), 1))).all()

  class Poorer(games.TicTacToe):
    def outcome(self, state):
      return jnp.minimum(super().outcome(state), 0)

  assert (minimax(Poorer()).value_of(boards) != list(plain.values())).any()


def test_small_boards_of_connect_four():
  """Three in a row on 4x4 is won by who begins; four in a row on 4x4 is a draw."""
  assert minimax(games.ConnectFour(4, 4, 3)).values[0] == 1
  assert minimax(games.ConnectFour(4, 3, 4)).values[0] == 0


def test_who_looks_to_the_end_knows_the_values():
  exact = exact_values()
  late = exact.states[(exact.states > 0).sum(axis=1) == 6]
  values = [look_ahead(GAME, depth)(late) for depth in (3, 2, 0)]
  np.testing.assert_array_equal(np.sign(values[0]), exact.value_of(late))
  assert (np.sign(values[1]) != exact.value_of(late)).any()
  assert 0 < np.abs(values[2]).sum() < np.abs(values[1]).sum()  # ends alone
  won = np.array([1, 1, 0, 2, 2, 0, 0, 0, 0])
  np.testing.assert_allclose(look_ahead(GAME, 3)(won), 0.99)
  with pytest.raises(ValueError, match="not of perfect information"):
    look_ahead(games.make("kuhn_poker"), 2)


def test_searches_that_move_first_lose_seldom():
  """Control: a network that likes what is bad, asked about the leaves of a tiny tree."""
  exact = exact_values()
  good = play_exactly(GAME, exact.value_of, search=MANY, seat=0, number=16)
  assert good.won + good.drawn + good.lost == 16
  assert good.won == 0
  assert good.lost <= 2

  def contrary(params, query):
    worth = -query.features[:, :9].sum(axis=1, keepdims=True)
    logits = -8.0 * jnp.eye(9)[4] + jnp.zeros((len(worth), 9))
    return StateAnswer(jnp.stack([worth, -worth], axis=1), logits[:, :, None])

  few = solvers.GTCFR(simulations=1, children=1)
  bad = play_exactly(GAME, exact.value_of, search=few, seat=0, number=16, network=contrary)
  assert bad.lost > good.lost
  assert bad.mistakes > good.mistakes
