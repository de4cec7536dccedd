"""Re-solves every subgame at a cut of a game, and puts the solutions into the blueprint."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import Game, PublicTree, stack_trees
from games.build import build_from_state
from games.kinds import CHANCE
from games.origin import check_same_game, check_tree_of
from games.public_tree import Array
from solvers import validation
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.gadgets import Gadget
from solvers.algorithms.named import cfr_plus, with_gadget
from solvers.metrics.expected_values import check_whole
from solvers.resolving.blueprint_values import BlueprintValues, blueprint_values
from solvers.resolving.graft import Placer, graft
from solvers.search.batch import node_beliefs
from solvers.solve import solve_batch
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import Programs

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


def refine(
  game: Game,
  tree: PublicTree,
  policy: Array,
  *,
  searcher: int,
  beliefs: Array | None = None,
  cut: int | str | Sequence[int] = "stage",
  gadget: Gadget | None = None,
  gifts: float = 0.0,
  known: BlueprintValues | None = None,
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> np.ndarray:
  """Improves the searcher's part of a blueprint by solving every subgame at a cut anew.

  Every subgame is solved by itself, those of like shape side by side, so what comes out is what
  play would be that searches where it gets to (thesis, section 5.1). With a gadget the searcher's
  worst case gets no worse, up to the accuracy of the solver; what the opponent gains by its best
  response is what to measure it by, `best_response_values(tree, refined)[1 - searcher]`.

  Args:
    game: the rules.
    tree: whole, of that game.
    policy: `[N, H]` the blueprint.
    searcher: whose policy is improved, 0 or 1.
    beliefs: `[P, H]` at the root; None for the tree's own prior.
    cut: where subgames start: public actions below the root, `"stage"` for the end of the root's
      stage, or nodes of `tree`, none below another.
    gadget: such as `Maxmargin(searcher)`. None for unsafe search, which trusts both players'
      posterior beliefs under the blueprint.
    gifts: see `BlueprintValues.alternatives`; 1 makes Resolve and Maxmargin their Reach forms.
    known: what the opponent is promised, if other than `blueprint_values` says: estimates of what
      it would have in equilibrium (thesis, section 5.1.4), or a spread.
    algorithm: of the CFR family; None for CFR+.
    num_iterations: of each solve, one player's update is one.

  Returns:
    `[N, H]` the searcher's new policy and the opponent's old one.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: as `blueprint_values` and `solve_batch`, or there are no subgames at that cut, or
      `gadget` is another player's.
  """
  check_tree_of(game, tree)
  beliefs = check_whole(tree, policy, beliefs)
  validation.check_player(searcher, "searcher")
  if gadget is not None:
    validation.check_gadget(gadget, searcher)
  if known is not None and not isinstance(known, BlueprintValues):
    raise TypeError(f"known={type(known).__name__} must be what solvers.blueprint_values returns")
  if known is not None and known.searcher != searcher:
    raise ValueError(f"searcher={searcher}, but known is for player {known.searcher}")
  if known is not None:
    check_same_game("known", known.origin, tree)
    for name, shape in (("value", np.shape(policy)), ("gift", np.shape(policy))):
      validation.check_shape(f"known.{name}", getattr(known, name), shape, "(N, H)")
  gifts = validation.check_number("gifts", gifts, allow_infinite=False)
  placer = Placer(tree)
  nodes = _cut_nodes(game, tree, cut, placer)
  below = [subtree(game, tree, int(node)) for node in nodes]
  settings: Any = {"known": known, "gifts": gifts, "searcher": searcher}
  algorithm, below_beliefs, alternatives = entered(
    game, tree, policy, beliefs, nodes, algorithm, gadget, **settings
  )
  parts = []
  for group in like_shapes(below):
    stacked = stack_trees([below[i] for i in group])
    solved = solve_batch(
      stacked,
      algorithm=algorithm,
      num_iterations=num_iterations,
      beliefs=below_beliefs[group],
      alternatives=jax.tree.map(lambda x, group=group: x[group], alternatives),
    )
    for i, node in enumerate(nodes[group]):
      part = jax.tree.map(lambda x, i=i: np.asarray(x)[i], stacked)
      parts.append((placer.places(part, int(node)), solved.average_policy[i]))
  return graft(tree, policy, parts, player=searcher)


def entered(
  game: Game,
  tree: PublicTree,
  policy: Array,
  beliefs: Array,
  nodes: Any,
  algorithm: Algorithm | None,
  gadget: Gadget | None,
  *,
  searcher: int,
  known: BlueprintValues | None = None,
  gifts: float = 0.0,
) -> tuple[Algorithm, Any, Any]:
  """Returns the algorithm, beliefs and alternatives of solves from `nodes`; see `refine`."""
  algorithm = cfr_plus() if algorithm is None else algorithm
  if gadget is None:
    return algorithm, posteriors(tree, policy, beliefs)[nodes], None
  if known is None:
    known = blueprint_values(game, tree, policy, searcher=searcher, beliefs=beliefs)
  promised = known.alternatives(nodes, gifts=gifts)
  return with_gadget(algorithm, gadget), known.beliefs[nodes], promised


def _cut_nodes(game: Game, tree: PublicTree, cut, placer: Placer) -> np.ndarray:
  """Returns the nodes that subgames start at."""
  if isinstance(cut, int | str):
    if cut != "stage":
      validation.check_integer("cut", cut)
    top = subtree(game, tree, 0, depth=cut)
    nodes = placer.places(top)[np.asarray(top.leaf_nodes)]
  else:
    nodes = validation.check_places("cut", cut, tree.num_nodes)
  if not len(nodes):
    raise ValueError(f"cut={validation.short(cut)} leaves no subgames: the game ends before")
  if (np.asarray(tree.kind)[nodes] > CHANCE).any():
    raise ValueError(
      f"cut={validation.short(cut)} holds nodes where the game is over; subgames start at moves"
    )
  parent, above = np.asarray(tree.parent), np.zeros(tree.num_nodes, bool)
  above[nodes] = True
  for node in nodes:
    while (node := parent[node]) >= 0:
      if above[node]:
        raise ValueError(
          f"cut={validation.short(cut)} holds a node below node {node}, another of them"
        )
  return nodes


def subtree(
  game: Game, tree: PublicTree, node: int, *, depth: int | str | None = None
) -> PublicTree:
  """Builds the tree below a node of `tree`, of its dtype; see `games.build_public_tree`."""
  possible = None if tree.possible is None else np.asarray(tree.possible)[node]
  state = np.asarray(tree.state)[node]
  return build_from_state(game, state, possible=possible, depth=depth).astype(tree.dtype)


@Programs
def posteriors(tree: PublicTree, policy: Array, beliefs: Array | None = None) -> jax.Array:
  """Returns both players' beliefs at every node under a policy, `[N, P, H]`."""
  problem = make_problem(tree, tree.prior if beliefs is None else beliefs)
  return node_beliefs(problem, problem.split(jnp.asarray(policy, tree.dtype)))
