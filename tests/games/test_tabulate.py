"""Games in tables: the same trees, the same names, and rules that JAX can run."""

import dataclasses

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker import MergedSuits
from games.testing import check_game, check_rules
from tests.random_game import RandomGame

MADE = {
  "kuhn": lambda: games.make("kuhn_poker"),
  "leduc": lambda: games.make("leduc_poker"),
  "liars_dice": lambda: games.make("liars_dice", num_dice=1, num_faces=3),
  "rock_paper_scissors": lambda: games.make("rock_paper_scissors"),
  "small_holdem": lambda: games.make("small_holdem", ranks="QKA", suits="sh", stack=300),
  "two cards at once": lambda: games.make(
    "small_holdem", ranks="KA", suits="shdc", deals=(2,), stack=200
  ),
  "turn_endgame_holdem": lambda: games.make("turn_endgame_holdem"),
  "merged_suits": lambda: MergedSuits(games.make("turn_endgame_holdem")),
  "random_game": lambda: RandomGame(5),
}


def assert_same_trees(game, tabulated, **options):
  expected = games.build_public_tree(game, **options)
  tree = games.build_public_tree(tabulated, **options)
  np.testing.assert_array_equal(tabulated.states[tree.state[:, 0]], expected.state)
  tree = dataclasses.replace(tree, state=expected.state, origin=expected.origin)
  assert jax.tree.structure(tree) == jax.tree.structure(expected)
  jax.tree.map(np.testing.assert_array_equal, tree, expected)


@pytest.mark.parametrize("name", MADE)
def test_trees_are_those_of_the_game(name):
  game = MADE[name]()
  tabulated = games.tabulate(game)
  assert_same_trees(game, tabulated)
  assert_same_trees(game, tabulated, depth="stage")
  whole = games.build_public_tree(game)
  root = whole.history(int(np.flatnonzero(whole.kind < games.TERMINAL)[1]))
  assert_same_trees(game, tabulated, root=root, depth=2)


@pytest.mark.parametrize(
  ("table", "place"),
  [("actor", 1), ("child", (0, 2)), ("payoff_index", -1), ("probability", 0)],
)
def test_control_a_wrong_table_shows(table, place):
  game = MADE["leduc"]()
  tabulated = games.tabulate(game)
  tables = tabulated.tables.info if table == "child" else tabulated.tables
  rows = getattr(tables, table)
  rows[place if table != "probability" else rows.argmax()] -= 1
  with pytest.raises(AssertionError):
    assert_same_trees(game, tabulated)


@pytest.mark.parametrize("name", ["leduc", "random_game", "two cards at once"])
def test_tables_are_a_game(name):
  check_game(games.tabulate(MADE[name]()))


@pytest.mark.parametrize("name", ["kuhn", "leduc", "liars_dice", "rock_paper_scissors"])
def test_nodes_of_a_tree_are_states(name):
  """Every node's moves, infostates and values; control: another's reach."""
  game = MADE[name]()
  tree = games.build_public_tree(game)
  table = games.tabulate(game, tree)
  nodes, rng = np.arange(tree.num_nodes)[:, None], np.random.default_rng(0)
  np.testing.assert_array_equal(table.actor(nodes), tree.kind)
  moves = nodes[tree.parent[1:]], np.asarray(tree.action[1:])
  np.testing.assert_array_equal(table.next_states(*moves), nodes[1:])
  everything = np.ones((tree.num_nodes, 2, tree.num_infostates), bool)
  possible = everything if tree.possible is None else np.asarray(tree.possible)
  np.testing.assert_array_equal(
    table.possible_after(*moves, possible[tree.parent[1:]]), possible[1:]
  )
  reach = rng.random((len(tree.terminal_nodes), tree.num_infostates))
  for player in (0, 1):
    worth = table.terminal_values(nodes[tree.terminal_nodes], reach, player)
    rows = tree.payoffs[tree.payoff_index] * tree.payoff_scale[:, None, None]
    rows = rows if player == 0 else -rows.swapaxes(1, 2)
    np.testing.assert_allclose(worth, np.einsum("tij,tj->ti", rows, reach), atol=1e-5)
    assert np.abs(worth - np.einsum("tij,tj->ti", rows, reach[:, ::-1])).max() > 1e-2


def test_trees_that_are_no_whole_are_refused():
  kuhn = MADE["kuhn"]()
  with pytest.raises(ValueError, match="cut off"):
    games.tabulate(kuhn, games.build_public_tree(kuhn, depth=1))
  with pytest.raises(ValueError, match="change by others' moves"):
    solvers.gt_cfr(
      games.tabulate(RandomGame(0)), search=solvers.GTCFR(simulations=1), key=jax.random.key(0)
    )


def test_people_read_the_same():
  game = MADE["turn_endgame_holdem"]()
  tabulated = games.tabulate(game)
  assert tabulated.name == game.name
  assert tabulated.num_player_actions == game.num_player_actions
  assert tabulated.action_name(2) == "bet 1"
  assert tabulated.describe((), 2) == "bet to 2000"
  assert tabulated.situation((2,)) == game.situation((2,))
  assert tabulated.infostate_name(0, 5) == game.infostate_name(0, 5)
  assert repr(tabulated) == f"games.tabulate({game!r})"
  np.testing.assert_array_equal(tabulated.hands(), game.hands())


class OnlyNumpy(games.LeducPoker):
  """Rules that assign to rows that a mask chooses, which no tracer allows."""

  def next_states(self, states, actions):
    new = np.array(super().next_states(states, actions))
    new[actions == games.rules.leduc_poker.FOLD, 0] = 0
    return new


def test_rules_for_numpy_run_in_tables_only():
  with pytest.raises(AssertionError, match=r"next_states\(\) fails under jax.jit"):
    check_rules(OnlyNumpy())
  check_game(games.tabulate(OnlyNumpy()))


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "many"])
def test_a_limit_that_is_no_number_is_refused(number):
  with pytest.raises(ValueError, match=r"max_states=.* must be a positive integer"):
    games.tabulate(games.make("kuhn_poker"), max_states=number)


def test_too_many_public_states_are_refused():
  kuhn = games.make("kuhn_poker")
  assert len(games.tabulate(kuhn, max_states=9).states) == 9
  with pytest.raises(ValueError, match="max_states=8: .* has more public states") as error:
    games.tabulate(kuhn, max_states=8)
  assert "\n" not in str(error.value)
