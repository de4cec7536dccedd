"""Games in tables: the same trees, the same names, and rules that JAX can run."""

import dataclasses

import jax
import numpy as np
import pytest

import games
from games.poker import MergedSuits
from games.testing import check_game, check_rules
from tests.random_game import RandomGame

MADE = {
  "kuhn": lambda: games.make("kuhn_poker"),
  "leduc": lambda: games.make("leduc_poker"),
  "liars_dice": lambda: games.make("liars_dice", num_dice=1, num_faces=3),
  "rock_paper_scissors": lambda: games.make("rock_paper_scissors"),
  "small_holdem": lambda: games.make("small_holdem", ranks="QKA", suits="sh", stack=300),
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
  ("table", "place"), [("_actor", 1), ("_child", 7), ("_payoff_index", -1), ("_probability", 0)]
)
def test_control_a_wrong_table_shows(table, place):
  game = MADE["leduc"]()
  tabulated = games.tabulate(game)
  getattr(tabulated, table)[place] -= 1
  with pytest.raises(AssertionError):
    assert_same_trees(game, tabulated)


@pytest.mark.parametrize("name", ["leduc", "random_game"])
def test_tables_are_a_game(name):
  check_game(games.tabulate(MADE[name]()))


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


def test_too_many_public_states_are_refused():
  kuhn = games.make("kuhn_poker")
  assert len(games.tabulate(kuhn, max_states=9).states) == 9
  with pytest.raises(ValueError, match="max_states=8: .* has more public states") as error:
    games.tabulate(kuhn, max_states=8)
  assert "\n" not in str(error.value)
