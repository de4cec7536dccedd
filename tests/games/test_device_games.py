"""Rules on JAX's arrays: against OpenSpiel, against the games of their tables, and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

import games
from games.on_device.game import check_device_game


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
  ask = jax.jit(
    jax.vmap(lambda s: (game.actor(s), game.legal_actions(s), jnp.asarray(game.payoff(s))))
  )
  move = jax.jit(jax.vmap(game.next_state))
  states = jnp.asarray(np.repeat(game.initial_state()[None], number, axis=0))
  spiels = [reference.new_initial_state() for _ in range(number)]
  boards = [{tuple(board_of(spiel, game.name))} for spiel in spiels]
  alive, compared = np.ones(number, bool), 0
  for _ in range(game.max_moves + 1):
    actor, legal, payoff = (np.asarray(x) for x in ask(states))
    actions = np.zeros(number, int)
    for i in np.flatnonzero(alive):
      spiel = spiels[i]
      compared += 1
      board = np.asarray(states[i])[: points or None] if points else np.asarray(states)[i]
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
    states = move(states, jnp.asarray(actions))
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


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize(
  "number", [100, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_rules_are_those_of_open_spiel(name, number):
  game, text, points = GAMES[name]
  number = number if points < 40 else number // 10
  compared = against_open_spiel(game, pyspiel.load_game(text), number, points=points)
  assert compared > 5 * number


def test_control_other_rules_are_seen():
  """A komi that is another, a line that does not count, moves that repeat a board."""

  class OnlyKo(games.Go):
    def legal_actions(self, state):
      _, free = self._placed(state[: self.num_points], state[-3] + 1)
      return jnp.append(free, True)

  class NoDiagonal(games.TicTacToe):
    def payoff(self, state):
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


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_tables_are_the_game(name):
  """Every node's mover, moves, features and values, and control: another game's are not."""
  game = games.make(name)
  table = games.table_game(game)
  check_device_game(table)
  tree = games.build_public_tree(game)
  nodes = jnp.arange(tree.num_nodes)[:, None]
  np.testing.assert_array_equal(jax.vmap(table.actor)(nodes), tree.kind)
  inner = np.flatnonzero(tree.kind != games.TERMINAL)
  legal = np.asarray(jax.vmap(table.legal_actions)(nodes))
  np.testing.assert_array_equal(legal[inner], game.legal_actions(tree.state[inner]))
  moves = nodes[tree.parent[1:]], jnp.asarray(tree.action[1:])
  np.testing.assert_array_equal(jax.vmap(table.next_state)(*moves)[:, 0], nodes[1:, 0])
  if tree.possible is not None:
    after = jax.vmap(table.possible_after)(*moves, jnp.asarray(tree.possible)[tree.parent[1:]])
    np.testing.assert_array_equal(after, tree.possible[1:])
  for player in (0, 1):
    seen = jax.vmap(lambda s, p=player: table.features(s, p))(nodes)
    expected = game.features(tree.state[inner], player)
    np.testing.assert_allclose(np.asarray(seen)[inner], expected, rtol=1e-6)
    rng = np.random.default_rng(player)
    reach = rng.random((len(tree.terminal_nodes), tree.num_infostates))
    ends = nodes[tree.terminal_nodes]
    worth = jax.vmap(lambda s, r, p=player: table.terminal_values(s, r, p))(ends, reach)
    tables = tree.payoffs[tree.payoff_index] * tree.payoff_scale[:, None, None]
    tables = tables if player == 0 else -tables.swapaxes(1, 2)
    expected = np.einsum("tij,tj->ti", tables, reach)
    np.testing.assert_allclose(worth, expected, atol=1e-5)
    assert np.abs(np.asarray(worth) - np.einsum("tij,tj->ti", tables, reach[:, ::-1])).max() > 1e-2
  if table.deals:
    dealt = np.asarray(jax.vmap(table.chance)(nodes))[tree.parent[1:], tree.action[1:]]
    by_chance = tree.kind[tree.parent[1:]] == games.CHANCE
    np.testing.assert_allclose(dealt[by_chance], tree.chance_probability[1:][by_chance])


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: games.ConnectFour(width=3, height=3), "in_a_row=4 must fit"),
    (lambda: games.Go(komi=float("nan")), "komi=nan"),
  ],
)
def test_sizes_are_checked(make, message):
  with pytest.raises(ValueError, match=message):
    make()
