"""A masked problem whose root is any node of the tree, known only while the program runs."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from games.node_info import NodeInfo
from games.public_tree import Array, PublicTree
from solvers.sweeps.hole_cards import HoleCardPairs
from solvers.sweeps.levels import Levels, chance_reach, join_levels, split_levels
from solvers.sweeps.masked import MaskedProblem, make_masked_problem
from solvers.sweeps.problem import Sweep


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RootedProblem(MaskedProblem):
  """The problem below one node of a tree; nodes elsewhere are not there.

  Attributes:
    at_root: for each level `[n, 1]`, whether a node is the root.
    beliefs: `[P, H]` at the root.
  """

  at_root: Levels
  beliefs: jax.Array

  def root_beliefs(self, player: int) -> jax.Array:
    return self.beliefs[player]

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    start = jnp.ones(self.num_infostates, policy[0].dtype) if root is None else root
    reach: list[jax.Array] = []
    assert self.exists is not None
    for i, here in enumerate(self.at_root):
      below = self.reach_below(i, policy[i], reach[-1], player) if i else jnp.zeros_like(policy[0])
      # Means of a node are over the updates since it joined: nobody reaches it before.
      reach.append(jnp.where(here, start, below * self.exists[i]))
    return tuple(reach)

  def values_up(
    self,
    policy: Levels | None,
    opponent_reach: Levels,
    leaf_values: jax.Array | None,
    player: int,
  ) -> Sweep:
    sweep = super().values_up(policy, opponent_reach, leaf_values, player)
    rows = [jnp.where(here, x, 0.0).sum(axis=0) for here, x in zip(self.at_root, sweep.nodes)]
    return sweep._replace(root=sum(rows, jnp.zeros_like(rows[0])))

  def until_update(self, current: jax.Array) -> "RootedProblem":
    """Returns the problem for the last update of a round, from which walks start at `current`."""
    del current
    return self


def rooted_problem(
  tree: PublicTree, info: NodeInfo, root: jax.Array, beliefs: Array, present: Array
) -> RootedProblem:
  """Returns the problem of the nodes that `present` `[N]` marks, below `root`.

  Args:
    tree: whole or depth-limited.
    info: from `node_info`.
    root: a node; may be traced.
    beliefs: `[P, H]` there, in its infostates.
    present: of nodes below `root`, it included; the parent of every other one must be present.
  """
  beliefs = jnp.asarray(beliefs, tree.dtype)
  problem = make_masked_problem(tree, beliefs, info, present)
  tree = problem.tree
  root = jnp.asarray(root, jnp.int32)
  nodes = jnp.arange(tree.num_nodes, dtype=jnp.int32)
  at_root = split_levels(tree, nodes[:, None] == root)
  chance = join_levels(chance_reach(tree, beliefs.dtype))
  pairs: Any = problem.pairs
  before = chance[root, 0]
  if isinstance(pairs, HoleCardPairs):
    stakes = tuple(x / before for x in pairs.stakes)
    pairs = pairs._replace(beliefs=beliefs, stakes=stakes)
  nature = tuple(_nature(problem, at_root, chance / before, beliefs, p) for p in (0, 1))
  fields = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem)}
  found = RootedProblem(**{**fields, "pairs": pairs}, at_root=at_root, beliefs=beliefs)
  is_root = jnp.asarray(found.rows, jnp.int32) == root
  is_root = is_root.astype(beliefs.dtype)[:, None]
  mass = [
    (found.compatible_mass(is_root * beliefs[1 - p][None], p) * is_root).sum(axis=0) for p in (0, 1)
  ]
  pairs = pairs._replace(nature=nature, root_mass=jnp.stack(mass))
  return dataclasses.replace(found, pairs=pairs)


def _nature(problem: MaskedProblem, at_root: Levels, chance, beliefs, player: int) -> Levels:
  """Returns the root belief times public chance since, and whether it is possible, by level."""
  chance = problem.split(chance)
  belief = jnp.zeros((1, problem.num_infostates), beliefs.dtype)
  nature: list[jax.Array] = []
  for i, here in enumerate(at_root):
    belief = problem.from_parents(i, player, belief) if i else belief
    belief = jnp.where(here, beliefs[player][None], belief)
    possible = problem.pairs.possible_rows(i, player)
    nature.append(belief * chance[i] * (1.0 if possible is None else possible))
    belief = belief[: problem.tree.structure.levels[i].num_inner]
  return tuple(nature)
