"""What tests ask of trees."""

import numpy as np


def children_of(tree):
  """Returns the node that each action leads to, by (node, action)."""
  moves = zip(np.asarray(tree.parent).tolist(), np.asarray(tree.action).tolist())
  return {move: node for node, move in enumerate(moves)}
