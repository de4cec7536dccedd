"""What tests ask of trees."""

import numpy as np

import games
from solvers.validation import sum_choices


def children_of(tree):
  """Returns the node that each action leads to, by (node, action)."""
  moves = zip(np.asarray(tree.parent).tolist(), np.asarray(tree.action).tolist())
  return {move: node for node, move in enumerate(moves)}


def possible_of(tree):
  """Returns which infostates players can have, also where the tree does not say: `[N, P, H]`."""
  everything = np.ones((tree.num_nodes, 2, tree.num_infostates), bool)
  return everything if tree.possible is None else np.asarray(tree.possible)


def mover(tree):
  """Returns who moved to each node: `[N]`."""
  parent = np.asarray(tree.parent)
  return np.where(parent >= 0, np.asarray(tree.kind)[np.maximum(parent, 0)], games.TERMINAL)


def as_policy(tree, weights):
  """Returns the policy that plays in proportion to `weights` `[N, H]`."""
  sums = sum_choices(tree, weights)[np.maximum(np.asarray(tree.parent), 0)]
  if tree.infostate_parent is not None:  # a move is one of the infostate that its own comes from
    own = np.asarray(tree.infostate_parent)[np.arange(len(sums)), np.minimum(mover(tree), 1)]
    sums = np.take_along_axis(sums, own, axis=1)
  return np.where((mover(tree) < games.CHANCE)[:, None], weights / np.where(sums > 0, sums, 1), 1.0)


def random_policy(tree, rng, zeros=0.0):
  """Returns a random policy, in which about `zeros` of the moves are hardly played."""
  weights = rng.exponential(size=(tree.num_nodes, tree.num_infostates))
  if zeros:
    weights = weights * (rng.random(weights.shape) < 1 - zeros) + 1e-12
  return as_policy(tree, weights)


def uniform_policy(tree):
  """Returns the policy `[N, H]` that makes every move equally often."""
  return as_policy(tree, np.ones((tree.num_nodes, tree.num_infostates)))
