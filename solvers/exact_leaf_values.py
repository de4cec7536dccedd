"""Exact leaf values: the subgame below every leaf is solved at each query."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import PADDING, Game, PublicTree, stack_trees, take
from games.build import build_from_state
from games.tabulate import check_tree_of
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.named import discounted_cfr
from solvers.leaf_values import LeafQuery
from solvers.metrics.policies import policy_values
from solvers.solve import solve
from solvers.sweeps.problem import make_problem


class LeafGroup(NamedTuple):
  """Leaves whose subgames have one shape, and are thus solved together."""

  leaves: np.ndarray  # `[G]` places among the tree's leaves
  trees: PublicTree  # the subgame of all of them if `which` is None, else `U` stacked subgames
  which: np.ndarray | None  # `[G]` each leaf's place among the stacked subgames, or None


@dataclasses.dataclass(frozen=True)
class SolveBelow:
  """Leaf function that solves the subgames below leaves; equal settings are traced once."""

  # Its params are the `LeafGroup`s of a tree, or a stack's subgames and each leaf's index of them.
  algorithm: Algorithm
  num_iterations: int
  stacked: bool = False

  solves_trees: ClassVar[bool] = True  # for how `solve` compiles it

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    """Returns the traverser's expected values at the leaves, `[L, H]`."""
    if self.stacked:
      trees, which = params
      params = (LeafGroup(np.arange(len(which)), trees, which),)
    beliefs = query.beliefs if query.value_beliefs is None else query.value_beliefs
    policies = self.subgame_policies(params, query.beliefs)

    def value(tree, policy, beliefs):
      problem = make_problem(tree, beliefs)
      return policy_values(problem, problem.split(policy))[query.traverser]

    values = jnp.zeros_like(beliefs[:, 0])
    for (leaves, trees, which), policy in zip(params, policies):
      found = _each(value, trees, which, policy, beliefs[leaves])
      values = values.at[leaves].set(found, unique_indices=True)
    return values

  def subgame_policies(self, params: Any, beliefs: jax.Array) -> list[jax.Array]:
    """Returns for each `LeafGroup` the average policies of its subgames, `[G, n, H]`."""

    def solve_one(tree, beliefs):
      return solve(
        tree, algorithm=self.algorithm, num_iterations=self.num_iterations, beliefs=beliefs
      ).average_policy

    return [_each(solve_one, trees, which, beliefs[leaves]) for leaves, trees, which in params]


def _each(function: Any, trees: PublicTree, which: Any, *rows: jax.Array) -> jax.Array:
  """Applies a function of a subgame to that of each leaf of a group, and to the leaf's rows."""
  own = which is not None  # else all leaves have one subgame
  trees = take(trees, which) if own else trees
  return jax.vmap(function, (0 if own else None, *[0] * len(rows)))(trees, *rows)


def _unique(subgames: list[PublicTree]) -> tuple[list[PublicTree], np.ndarray]:
  """Returns the distinct subgames, and each subgame's index among them."""
  unique = {id(x): x for x in subgames}
  place = dict(zip(unique, range(len(unique))))
  return list(unique.values()), np.array([place[id(x)] for x in subgames])


class ExactLeafValues:
  """Leaf values for `solve` from solving the rest of the game; see `exact_leaf_values`."""

  def __init__(self, game: Game, algorithm: Algorithm, num_iterations: int):
    self.game = game
    self._function = SolveBelow(algorithm, num_iterations)
    self._cache: dict[Any, PublicTree] = {}

  def bind(self, tree: PublicTree) -> tuple[SolveBelow, Any]:
    """Returns a function of `(params, query)` and its params for the leaves of `tree`."""
    if not validation.is_concrete(tree):
      raise ValueError(
        "tree is traced, and the subgames below its leaves are built of concrete arrays; close "
        "over the tree, and let beliefs be traced"
      )
    validation.check_unstacked(tree)
    check_tree_of(self.game, tree)
    subgames = self._subgames(tree.state, tree.possible, tree.leaf_nodes, tree.dtype)
    # Arrays that only some games need are None in others, which must agree as well.
    kinds: dict[Any, list[int]] = {}
    for i, subgame in enumerate(subgames):
      kinds.setdefault(jax.tree.structure(subgame), []).append(i)
    groups = []
    for leaves in kinds.values():
      unique, which = _unique([subgames[i] for i in leaves])
      below = (stack_trees(unique), which) if len(unique) > 1 else (unique[0], None)
      groups.append(LeafGroup(np.array(leaves), *below))
    return self._function, tuple(groups)

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    """Raises a `TypeError`: a query alone does not say which subgames follow; see `bind`."""
    raise TypeError("exact leaf values are those of a tree: exact_leaf_values(...).bind(tree)")

  def bind_stacked(self, trees: PublicTree) -> tuple[SolveBelow, PublicTree, np.ndarray]:
    """Returns a function, what all trees of a stack share of its params, and what each has."""
    # Params for tree b are the pair of the shared part and row b of the rest, `[B, L]`.
    if not validation.is_concrete(trees):
      raise ValueError(
        "trees are traced, and the subgames below their leaves are found in concrete arrays; "
        "stacked trees must be concrete for exact_leaf_values"
      )
    check_tree_of(self.game, trees)
    real = np.asarray(trees.leaf_actor) != PADDING
    subgames: list[PublicTree] = []
    for b, leaves in enumerate(np.asarray(trees.leaf_nodes)):
      possible = None if trees.possible is None else trees.possible[b]
      subgames += self._subgames(trees.state[b], possible, leaves[real[b]], trees.dtype)
    unique, which = _unique(subgames)
    rows = np.zeros(real.shape, np.int32)  # padding may ask about any subgame
    rows[real] = which
    return dataclasses.replace(self._function, stacked=True), stack_trees(unique), rows

  def _subgames(self, state, possible, leaves, dtype) -> list[PublicTree]:
    """Returns the subgame below each of `leaves`; equal ones are the same object."""
    subgames = []
    for leaf in np.asarray(leaves):
      root = np.asarray(state)[leaf]
      allowed = None if possible is None else np.asarray(possible)[leaf]
      key = (root.tobytes(), None if allowed is None else allowed.tobytes(), np.dtype(dtype))
      if key not in self._cache:
        subgame = build_from_state(self.game, root, possible=allowed)
        self._cache[key] = subgame.astype(dtype)
      subgames.append(self._cache[key])
    return subgames


@validation.checked
def exact_leaf_values(
  game: Game,
  *,
  algorithm: Algorithm | None = None,
  num_iterations: int = 256,
) -> ExactLeafValues:
  """Makes the oracle for depth-limited solving: leaf values from solving the rest of the game.

  Whenever `solve` asks, the subgame below each leaf is solved at the beliefs of the query, and the
  traverser's values under the average policy of that solve are returned. For sound CFR-AVG (ReBeL,
  appendix I) subgames are solved at the beliefs of the average policies and valued at the current
  ones. Leaves of equal public states share a subtree.

  Args:
    game: the rules of the tree. Equal public states have the same future.
    algorithm: solves the subgames; None for `discounted_cfr()`, which is ahead of CFR+ on Leduc
      poker and one die of four faces (docs/results/family.md).
    num_iterations: of that solver, for each query; one player's update is one iteration.

  Returns:
    An object to pass to `solve` as `leaf_values`; `params` are then not used.

  Raises:
    ValueError: `num_iterations` is not a positive integer, or odd for simultaneous updates.
  """
  solver: Algorithm = discounted_cfr() if algorithm is None else algorithm
  validation.check_algorithm(solver)
  num_iterations = validation.check_num_iterations(num_iterations, solver.alternating)
  return ExactLeafValues(game, solver, num_iterations)
