"""Groups of trees whose shapes are alike, so that stacking them makes little padding."""

from collections.abc import Sequence

import numpy as np

from games import PublicTree

_FEW = 1 << 20  # nodes times infostates: padding below this costs less than one more program
_PADDED = 2  # at most so many places for each node that there is


def like_shapes(trees: Sequence[PublicTree], *, few: int = _FEW) -> list[np.ndarray]:
  """Returns the places of trees that are stacked together, an array a group.

  A stacked tree has the nodes of all trees of its group, told apart by the actions that lead to
  them. Each group has at most twice as many places as its trees have nodes, or `few` places times
  infostates. The largest trees come first, and each joins the first group that it fits in.
  """
  names: dict[tuple[int, int], int] = {}
  nodes = []
  for tree in trees:
    own = [-1] * tree.num_nodes
    moves = zip(np.asarray(tree.parent).tolist(), np.asarray(tree.action).tolist())
    for node, (parent, action) in enumerate(moves):
      above = own[parent] if parent >= 0 else -1
      own[node] = names.setdefault((above, action), len(names))
    nodes.append(set(own))
  groups: list[tuple[list[int], set[int], int]] = []
  for place in sorted(range(len(trees)), key=lambda i: -len(nodes[i])):
    for i, (members, union, total) in enumerate(groups):
      joined, sizes = union | nodes[place], total + len(nodes[place])
      places = (len(members) + 1) * len(joined)
      if places <= _PADDED * sizes or places * trees[place].num_infostates <= few:
        groups[i] = ([*members, place], joined, sizes)
        break
    else:
      groups.append(([place], nodes[place], len(nodes[place])))
  return [np.sort(members) for members, _, _ in groups]
