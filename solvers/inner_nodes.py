"""What a solved subgame says about the public states between its root and its leaves.

The average policy of a search is also a policy for the rest of the subgame from each decision on,
at the public belief state (PBS) that it leads to there. Both players' values of it are to that PBS
what the root's values are to the root's (ReBeL, section 3 and algorithm 2), and cost one sweep.

They are worth as much as the policy below is. It was shaped by the iterations that went there:
where the average policy hardly goes, or does not with an infostate, it is hardly better than
uniform.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game
from games.public_tree import PADDING, Array, PublicTree, TreeStructure
from solvers import hole_cards, traversal
from solvers.batch_search import SearchResult, node_reach
from solvers.evaluate_policy import per_unit_of_mass
from solvers.leaf_values import normalise_beliefs
from solvers.setting import chance_reach, pair_mass
from solvers.subgames import InnerStates, SubgameTable
from solvers.traversal import Levels, Setting


class InnerValues(NamedTuple):
  """Both players' values of the `I` inner nodes of one subgame, its root left out.

  Attributes:
    beliefs: `[I, P, H]` the PBS at each under the policy.
    values: `[I, P, H]` each player's expected value for each of its infostates, the other's drawn
      from the beliefs, as `solve` has them for the root.
    reach: `[I]` probability that play by the policy passes through; zero where there is no node.
    own_reach: `[I, P, H]` probability that the player's own moves lead there with an infostate.
    possible: `[I, P, H]` whether the rules, and the other's beliefs, allow the infostate.
  """

  beliefs: jax.Array
  values: jax.Array
  reach: jax.Array
  own_reach: jax.Array
  possible: jax.Array


def inner_nodes(structure: TreeStructure) -> np.ndarray:
  """Returns the places of the nodes that have children, without the root's: `[I]`, static."""
  places = [
    start + np.arange(level.num_inner) for start, level in zip(structure.offsets, structure.levels)
  ]
  return np.concatenate([*places[1:], np.zeros(0)]).astype(int)


def add_inner_states(game: Game, table: SubgameTable) -> SubgameTable:
  """Returns `table` with `inner`, what examples of its inner nodes need beside its trees."""
  nodes = inner_nodes(table.trees.structure)
  kind = np.asarray(table.trees.kind)[:, nodes]
  state = np.asarray(table.trees.state)[:, nodes]
  exists = kind != PADDING
  width = np.asarray(table.trees.root_features).shape[-1]
  features = np.zeros((*kind.shape, 2, width), table.trees.dtype)
  pair_index = np.zeros(kind.shape, np.int32)
  if exists.any():
    for player in (0, 1):
      features[exists, player] = game.features(state[exists], player)
    pair_index[exists] = game.pair_index(state[exists])
  return dataclasses.replace(table, inner=InnerStates(features, pair_index))


def inner_values(
  tree: PublicTree,
  setting: Setting,
  policy: Levels,
  answers: tuple[jax.Array, jax.Array] | None,
  pair_index: Array,
) -> InnerValues:
  """Returns both players' values of `policy` at the inner nodes of one tree.

  Args:
    tree, setting: see `traversal`; `setting` holds the beliefs at the root.
    policy: for each level `[n, H]`, the average policy of a search.
    answers: both players' expected leaf values, each `[L, H]`, at the beliefs that `policy` leads
      to; None if there are no leaves.
    pair_index: `[I]` which of the tree's pair weights holds at each inner node.

  Returns:
    The values; see `InnerValues`.
  """
  nodes = inner_nodes(tree.structure)
  kind = jnp.asarray(tree.kind)[nodes]
  own = traversal.both_reach(tree, setting, policy)
  reach = node_reach(setting, own)[nodes]  # [I, P, H]
  mass = _compatible_mass(tree, reach, pair_index)
  values = []
  for player in (0, 1):
    at_leaves = None
    if answers is not None:
      at_leaves = traversal.weigh_leaf_values(
        tree, setting, answers[player], own[1 - player], player
      )
    sweep = traversal.values_up(tree, setting, policy, own[1 - player], at_leaves, player)
    values.append(traversal.join_levels(sweep.nodes)[nodes])
  possible = None if tree.possible is None else jnp.asarray(tree.possible)[nodes]
  # Both players' reach holds the probability of chance; it counts once.
  chance = traversal.join_levels(chance_reach(tree, reach.dtype))[nodes, 0]
  tiny = jnp.finfo(reach.dtype).tiny
  joint = (reach[:, 0] * mass[:, 0]).sum(axis=-1) / jnp.maximum(chance, tiny)
  total = (setting.nature[0][0] * setting.root_mass[0]).sum()
  allowed = mass > tiny
  if possible is not None:
    allowed &= possible
  return InnerValues(
    beliefs=normalise_beliefs(reach, possible),
    values=per_unit_of_mass(jnp.stack(values, axis=1), jnp.where(allowed, mass, 0.0)),
    reach=jnp.where((total > 1e-6) & (kind <= CHANCE), joint / jnp.maximum(total, 1e-6), 0.0),
    own_reach=jnp.stack([traversal.join_levels(x)[nodes] for x in own], axis=1),
    possible=allowed,
  )


def batch_inner_values(
  table: SubgameTable, roots: jax.Array, beliefs: jax.Array, result: SearchResult
) -> InnerValues:
  """Returns the average policies' values at the inner nodes of `B` searched subgames.

  Args:
    table: with `inner`.
    roots, beliefs: `[B]` and `[B, P, H]`, as `search_batch` was given them.
    result: what it returned, `average_answers` among it.

  Returns:
    `inner_values`, each array with a leading axis `[B]`.
  """
  assert table.inner is not None
  trees, pair_index = jax.tree.map(
    lambda x: jnp.asarray(x)[roots], (table.trees, table.inner.pair_index)
  )

  def one(tree, beliefs, policy, answers, pair_index):
    setting = traversal.prepare(tree, beliefs)
    return inner_values(tree, setting, policy, answers, pair_index)

  answers = result.average_answers
  return jax.vmap(one)(trees, beliefs, result.average_policy, answers, pair_index)


def _compatible_mass(tree: PublicTree, reach: jax.Array, pair_index: Array) -> jax.Array:
  """Returns the mass of the other's reach that is compatible with each infostate: `[I, P, H]`."""
  if tree.hands is not None:
    return hole_cards.compatible_mass(reach[:, ::-1])
  return pair_mass(jnp.asarray(tree.pair_weights)[pair_index], reach)
