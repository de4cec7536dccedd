"""Games of perfect information: rules and exact values against OpenSpiel, and searches' play."""

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


def board_of(spiel, name):
  """Returns OpenSpiel's board in our numbering, `[n]`, by what it prints."""
  rows = [line for line in str(spiel).splitlines() if line.strip()]
  if name == "go":
    # Rows are printed from the last to the first, each after its number.
    rows = [line.split()[1] for line in rows if line.strip()[0].isdigit()][::-1]
  elif name == "connect_four":
    rows = rows[::-1]
  marks = {".": 0, "+": 0, "x": 1, "X": 1, "o": 2, "O": 2}
  return np.array([marks[mark] for row in rows for mark in row])


def against_open_spiel(game, reference, number, *, seed=0, points=None):
  """Plays `number` random games on both at once; returns how many moves were compared."""
  rng = np.random.default_rng(seed)
  states = np.repeat(game.initial_state()[None], number, axis=0)
  spiels = [reference.new_initial_state() for _ in range(number)]
  boards = [{tuple(board_of(spiel, game.name))} for spiel in spiels]
  alive, compared = np.ones(number, bool), 0
  for _ in range(game.max_moves + 1):
    actor, legal, payoff = (
      rule(states) for rule in (game.actor, game.legal_actions, game.payoff_scale)
    )
    actions = np.zeros(number, int)
    for i in np.flatnonzero(alive):
      spiel = spiels[i]
      compared += 1
      board = states[i][: points or None]
      np.testing.assert_array_equal(board_of(spiel, game.name), board[: points or len(board)])
      if spiel.is_terminal():
        assert actor[i] == games.TERMINAL
        assert payoff[i] == spiel.returns()[0]
        alive[i] = False
        continue
      assert actor[i] == spiel.current_player()
      theirs, ours = set(spiel.legal_actions()), set(np.flatnonzero(legal[i]).tolist())
      assert ours <= theirs
      for action in theirs - ours:
        # It ends a game that comes back to a board; here the move is not allowed.
        child = spiel.child(action)
        assert tuple(board_of(child, game.name)) in boards[i]
      actions[i] = rng.choice(sorted(ours))
      spiel.apply_action(int(actions[i]))
      board = tuple(board_of(spiel, game.name))
      if game.name == "go" and actions[i] < points and board in boards[i]:
        alive[i] = False  # older than the boards that are kept: it ends only theirs
      boards[i].add(board)
    if not alive.any():
      return compared
    states = game.next_states(states, actions)
  raise AssertionError("a game did not end")


GAMES = {
  "tic_tac_toe": (games.TicTacToe(), "tic_tac_toe", 9),
  "connect_four": (games.ConnectFour(), "connect_four", 42),
  "connect_four_5x4": (
    games.ConnectFour(width=5, height=4), "connect_four(columns=5,rows=4,x_in_row=4)", 20,
  ),
  "go_5x5": (games.Go(size=5, komi=0.5), "go(board_size=5,komi=0.5)", 25),
  "go_7x7": (games.Go(size=7, komi=7.5), "go(board_size=7,komi=7.5)", 49),
}  # fmt: skip


@pytest.mark.parametrize("number", [100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GAMES)
def test_rules_are_those_of_open_spiel(name, number):
  game, text, points = GAMES[name]
  number = number if points < 40 else number // 10
  compared = against_open_spiel(game, pyspiel.load_game(text), number, points=points)
  assert compared > 5 * number


def test_control_other_rules_are_seen():
  class OnlyKo(games.Go):
    def legal(self, state):
      _, free = self._placed(state[: self.num_points], state[-3] + 1)
      return jnp.append(free, True)

  class NoDiagonal(games.TicTacToe):
    def outcome(self, state):
      rows = state.reshape(3, 3)
      line = lambda x: ((rows == x).all(axis=0) | (rows == x).all(axis=1)).any()  # noqa: E731
      return line(1).astype(int) - line(2).astype(int)

  for game, text, points in (
    (games.Go(size=5, komi=20.5), GAMES["go_5x5"][1], 25),
    (OnlyKo(size=5, komi=0.5), GAMES["go_5x5"][1], 25),
    (NoDiagonal(), "tic_tac_toe", 9),
    (games.ConnectFour(in_a_row=5), "connect_four", 42),
  ):
    with pytest.raises(AssertionError):
      against_open_spiel(game, pyspiel.load_game(text), 60, points=points)


# Exact values of small games, and searches that play against them.

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
  """Leaves are worth nothing; control: to a network that likes what is bad they are not."""

  def contrary(params, query):
    worth = -params * query.features[:, :9].sum(axis=1, keepdims=True)
    logits = -8.0 * params * jnp.eye(9)[4] + jnp.zeros((len(worth), 9))
    return StateAnswer(jnp.stack([worth, -worth], axis=1), logits[:, :, None])

  how = dict(search=MANY, seat=0, number=16, network=contrary)
  good, bad = (play_exactly(GAME, exact_values().value_of, params=x, **how) for x in (0.0, 1.0))
  assert good.won + good.drawn + good.lost == 16
  assert good.won == 0
  assert good.lost <= 2
  assert bad.lost > good.lost
  assert bad.mistakes > good.mistakes
