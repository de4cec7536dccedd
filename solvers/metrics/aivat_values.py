"""Value functions for AIVAT: guesses of what a pair of infostates is worth at a node.

No guess biases an estimate, so long as it does not depend on how the hand went; the nearer it is to
the truth, the less luck is left.
"""

from collections.abc import Callable

import numpy as np

from games.game import CHANCE, TERMINAL, Game
from games.origin import check_tree_of
from games.public_tree import Array, PublicTree
from solvers import validation

# From a node to `[H, H]` (player 0's infostate, player 1's): what player 0 wins on average. It does
# not matter where two infostates exclude each other.
ValueFunction = Callable[[int], Array]


def check_unchanging(game: Game, tree: PublicTree) -> None:
  """Checks that `tree` is the whole tree of `game`, and that infostates never change in it.

  Raises:
    TypeError: one of them is something else.
    ValueError: it is not.
  """
  check_tree_of(game, tree)
  validation.check_unstacked(tree)
  if (
    tree.depth_limited
    or np.asarray(tree.parent).size < 2
    or tree.state[0].tolist() != (game.initial_state().tolist())
  ):
    raise ValueError("tree must be the whole tree of the game, from its start to its ends")
  if tree.infostate_parent is not None:
    raise ValueError("tree has hidden moves; AIVAT is for games whose infostates never change")


def zero_values(tree: PublicTree) -> ValueFunction:
  """Returns the value function that knows nothing: zero everywhere."""
  validation.check_unstacked(tree)
  nothing = np.zeros((tree.num_infostates,) * 2)
  return lambda node: nothing


def half_the_difference(values: Array) -> ValueFunction:
  """Returns half the difference of both players' infostate values, as a value function.

  It is what values of infostates, as searches and networks have them, say of a pair.

  Args:
    values: `[N, P, H]` what each player expects at each node, such as `node_values` returns.

  Raises:
    ValueError: `values` has another shape.
  """
  found = np.asarray(values)
  if found.ndim != 3 or found.shape[1] != 2 or found.dtype.kind not in "fiu":
    raise ValueError(f"values of shape {found.shape} must be numbers of shape (N, 2, H)")
  return lambda node: (found[node, 0][:, None] - found[node, 1]) / 2.0


def node_values(game: Game, tree: PublicTree, policy: Array) -> np.ndarray:
  """Computes what each player expects at every node if both play `policy`, given its infostate.

  Args:
    game: the rules; infostates must not change.
    tree: the whole tree, small enough for a table of pairs at each node.
    policy: `[N, H]`, as `solve` returns it.

  Returns:
    `[N, P, H]` payoffs, the other's infostate weighed by the tree's prior and its own moves; zero
    where that leaves none.

  Raises:
    ValueError: the tree is not whole or of another game, infostates change, or `policy` is none.
  """
  table = _pair_values(game, tree, policy)
  rows, parent, kind = np.asarray(policy, float), np.asarray(tree.parent), np.asarray(tree.kind)
  weights = game.pairs().weight_table(int(game.pair_index(np.asarray(tree.state)[:1])[0]))
  reach = np.zeros((tree.num_nodes, 2, tree.num_infostates))
  result = np.zeros_like(reach)
  reach[0] = game.prior()
  for node in range(tree.num_nodes):
    if node:
      above = parent[node]
      reach[node] = reach[above]
      if kind[above] < CHANCE:
        reach[node, kind[above]] *= rows[node]
      elif tree.possible is not None:
        reach[node] *= np.asarray(tree.possible[node])
    for player, towards in enumerate((weights, weights.T)):
      mass = towards @ reach[node, 1 - player]
      worth = table[node] if player == 0 else -table[node].T
      total = (towards * worth) @ reach[node, 1 - player]
      result[node, player] = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), 0.0)
  return result


def _pair_values(game: Game, tree: PublicTree, policy: Array) -> np.ndarray:
  """Returns player 0's expectation for every pair at every node: `[N, H, H]`."""
  check_unchanging(game, tree)
  validation.check_policy("policy", tree, policy)
  rows, parent, kind = np.asarray(policy, float), np.asarray(tree.parent), np.asarray(tree.kind)
  pairs, ends, h = game.pairs(), np.flatnonzero(kind == TERMINAL), tree.num_infostates
  states = np.asarray(tree.state)[ends]
  tables, scales = game.payoff_index(states), game.payoff_scale(states)
  result = np.zeros((tree.num_nodes, h, h))
  for node, table, scale in zip(ends.tolist(), tables.tolist(), np.asarray(scales, float)):
    result[node] = pairs.payoff_table(table) * scale
  for node in range(tree.num_nodes - 1, 0, -1):  # children after parents
    above = parent[node]
    if kind[above] == CHANCE:
      weight = chance_of_pairs(tree, node)
    else:
      weight = rows[node][:, None] if kind[above] == 0 else rows[node]
    result[above] += weight * result[node]
  return result


def chance_of_pairs(tree: PublicTree, node: int) -> np.ndarray:
  """Returns the probability of the chance outcome that leads to `node`, given a pair: `[H, H]`."""
  possible = np.ones((2, tree.num_infostates), bool)
  if tree.possible is not None:
    possible = np.asarray(tree.possible[node])
  probability = 1.0
  if tree.chance_probability is not None:
    probability = float(np.asarray(tree.chance_probability)[node])
  return probability * (possible[0][:, None] & possible[1])
