"""Theorem 3 with exact leaf values: safe search gets better with iterations, unsafe does not.

The policy that a searching agent plays in expectation is measured by averaging playthroughs. With
every leaf worth what the rest of the game is, solved at the beliefs in question, nothing but the
choice of the policy to play and pass down separates the two.
"""

import jax
import numpy as np
import pytest

import games
import solvers
from solvers.leaf_values import LeafQuery
from solvers.search.find import find_subgames
from solvers.search.oracle import search_leaf_values
from solvers.search.playthroughs import searching_policy
from solvers.search.searching_agent import make_searching_agent
from solvers.search.tables import stack_subgames


class Search:
  """An agent with exact leaf values, and how exploitable it is found to be."""

  def __init__(self, name, depth, iterations_below, **parameters):
    self.game = games.make(name, **parameters)
    subgames = find_subgames(self.game, depth=depth)
    leaf_values, self.params = search_leaf_values(
      self.game, subgames, num_iterations=iterations_below
    )
    self.agent = make_searching_agent(
      self.game, subgames, algorithm=solvers.linear_cfr(), leaf_values=leaf_values
    )

  def play(self, playthroughs, iterations, *, unsafe=False, seed=0):
    policy = searching_policy(
      self.agent,
      params=self.params,
      num_playthroughs=playthroughs,
      num_iterations=iterations,
      key=jax.random.key(seed),
      unsafe=unsafe,
    )
    return policy, float(solvers.exploitability(self.agent.tree, policy))

  def exploitability(self, *args, **options):
    return self.play(*args, **options)[1]


def assert_safe_search_is_safe(search, *, playthroughs, iterations, factor):
  """Asserts that exploitability falls with both, and that unsafe search stays `factor` above.

  Args:
    search: the agent.
    playthroughs: three numbers, rising.
    iterations: two even numbers, rising.
    factor: by which unsafe search is more exploitable after the same iterations.
  """
  by_playthroughs = [search.exploitability(n, iterations[1]) for n in playthroughs]
  assert by_playthroughs[2] < by_playthroughs[1] / 1.2 < by_playthroughs[0] / 2
  best = by_playthroughs[2]
  assert best < search.exploitability(playthroughs[2], iterations[0]) / 1.5
  assert search.exploitability(1, iterations[1], unsafe=True) > factor * best


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "depth", "playthroughs", "iterations", "factor"),
  [
    ("kuhn_poker", 2, (1, 16, 256), (16, 128), 5),
    ("kuhn_poker", 1, (1, 16, 256), (16, 128), 3),
    # Safe 0.242, unsafe 0.485: twice as much, give or take what the playthroughs scatter.
    ("leduc_poker", 5, (1, 16, 512), (16, 64), 1.6),
  ],
)
def test_searches_below_one_another(name, depth, playthroughs, iterations, factor):
  """Three searches below one another, and public cards."""
  search = Search(name, depth, 64)
  assert_safe_search_is_safe(
    search, playthroughs=playthroughs, iterations=iterations, factor=factor
  )


# The oracle itself.


@pytest.mark.parametrize("player", [1])
def test_each_row_is_worth_what_its_subgame_is(player, x64):
  """Rows of several subgames in one query, against each solved from the path that leads there."""
  game = games.make("kuhn_poker")
  subgames = find_subgames(game, depth=1)
  function, params = search_leaf_values(game, subgames, num_iterations=8)

  @jax.jit
  def values_of(features, beliefs):
    return function(params, LeafQuery(features, player, beliefs))

  table = stack_subgames(subgames)
  entries, leaves = np.nonzero(np.asarray(table.successor) >= 0)
  features = np.asarray(table.trees.leaf_features)[entries, player, leaves]
  beliefs = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(entries), 2))
  values = values_of(features, beliefs)
  roots = {0: ()}
  for entry, leaf, row, given in zip(entries, leaves, values, beliefs):
    tree = subgames.trees[entry]
    place = np.flatnonzero(np.asarray(subgames.successors[entry]) == table.successor[entry, leaf])
    root = roots[entry] + tree.history(int(tree.leaf_nodes[place[0]]))
    roots[int(table.successor[entry, leaf])] = root
    below = games.build_public_tree(game, root=root)
    solved = solvers.solve(
      below, algorithm=solvers.discounted_cfr(), num_iterations=8, beliefs=given
    )
    expected = solvers.expected_values(below, solved.average_policy, beliefs=given)
    np.testing.assert_allclose(row, expected[player], rtol=0, atol=1e-10)
  # The control: rows that took one another's place would be noticed.
  other = values_of(features[::-1], beliefs)
  assert np.abs(other - values).max() > 1e-2
