"""Re-solving: every subgame at a cut anew, answers to bets off the tree, and locks."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import Game, PublicTree, build_public_tree, stack_trees
from games.arrays import Finite, integers
from games.build import build_from_state
from games.poker.holdem import Holdem
from games.public_tree import CHANCE, TERMINAL, Array, check_is_tree
from games.tabulate import NodeInfo, check_same_game, check_tree_of, children_of, node_info
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.gadgets import Gadget
from solvers.algorithms.named import cfr_plus, with_gadget
from solvers.metrics.policies import check_whole
from solvers.search.batch import node_beliefs, posteriors
from solvers.solve import solve, solve_batch
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import (
  Alternatives,
  Lock,
  Problem,
  TreeProblem,
  choose,
  make_problem,
  per_unit_of_mass,
)
from solvers.xla import Programs

__all__ = ["BlueprintValues", "Placer", "Widened", "graft"]


class Places(np.ndarray):
  """Places of a part's nodes among those of a whole tree, `[n]`, with the mark of its game."""

  origin: Any = None


class Placer:
  """Places of the nodes of subgame trees among those of the whole game's tree.

  Nodes are the same if the same actions lead to them, or, `by_state`, the same public states: games
  that differ in what their actions are numbered, as hold'em with one bet more, share those.
  """

  @validation.checked
  def __init__(self, whole: PublicTree, *, by_state: bool = False):
    check_is_tree(whole, "whole", one=True)
    self._whole, self._by_state = whole, by_state
    self._child = {move: node for node, move in enumerate(self._moves(whole))}

  def _moves(self, tree: PublicTree) -> list[tuple[int, Any]]:
    """Returns each node's parent and what tells it from its siblings."""
    names = np.asarray(tree.action).tolist()
    if self._by_state:
      names = [row.tobytes() for row in np.asarray(tree.state)]
    return list(zip(np.asarray(tree.parent).tolist(), names))

  @validation.checked
  def follow(self, history: Sequence[int]) -> int:
    """Returns the node of the whole tree that actions from its root lead to.

    Raises:
      ValueError: an action leads to no node of the tree.
    """
    node = 0
    for action in history:
      if (node, action) not in self._child:
        raise ValueError(
          f"history={validation.short(history)} leaves the tree: node {node} lacks {action}"
        )
      node = self._child[node, action]
    return node

  def places(self, part: PublicTree, root: int = 0) -> np.ndarray:
    """Returns the nodes of the whole tree at those of `part`, whose root is node `root`: `[n]`.

    -1 for padding.

    Raises:
      ValueError: a move of `part` is not there in the whole tree, or `part` is of another game.
    """
    check_is_tree(part, "part")
    # Games that share states may differ in their parameters.
    check_same_game("part", part.origin, self._whole, first=int(self._by_state))
    (root,) = validation.check_places("root", [root], self._whole.num_nodes)
    places = np.full(part.num_nodes, -1).view(Places)
    places.origin = self._whole.origin
    places[0] = root
    for node, (parent, name) in enumerate(self._moves(part)):
      if parent < 0:  # the root, or padding
        continue
      place = self._child.get((int(places[parent]), name))
      if place is None:
        raise ValueError(
          f"action {part.action[node]} after node {places[parent]} is not in the whole tree: the "
          "part is of another game, or cut otherwise"
        )
      places[node] = place
    return places


@validation.checked
def graft(
  whole: PublicTree,
  policy: Array,
  parts: Sequence[tuple[np.ndarray, Array]],
  *,
  player: validation.Player | None = None,
) -> np.ndarray:
  """Returns `policy` `[N, H]` with the policies of parts of the tree in place of its own.

  Args:
    whole, policy: the tree, and what stays elsewhere.
    parts: for each the places of its nodes, from `Placer`, and its policy `[n, H]`.
    player: whose moves to replace; None for both players'.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: an array has the wrong shape, or places are of another tree.
  """
  validation.check_shape("policy", policy, (whole.num_nodes, whole.num_infostates), "(N, H)")
  kind, parent = np.asarray(whole.kind), np.asarray(whole.parent)
  mover = np.where(parent >= 0, kind[np.maximum(parent, 0)], CHANCE)
  replaced = mover < CHANCE if player is None else mover == player
  result = np.array(policy)
  for places, rows in parts:
    check_same_game("parts", getattr(places, "origin", None), whole)
    places = integers("parts", places, -1, whole.num_nodes - 1, ndim=1)
    validation.check_shape("parts", rows, (len(places), whole.num_infostates), "(n, H)")
    own = np.flatnonzero((places >= 0) & replaced[np.maximum(places, 0)])
    own = own[own > 0]  # the root's row is the move to it, which belongs to what is above
    result[places[own]] = np.asarray(rows)[own]
  return result


@validation.checked
def lock(
  tree: PublicTree,
  history: Sequence[int],
  frequencies: Mapping[int, float | tuple[float, float]],
  *,
  infostates: Sequence[int] | None = None,
  also: Lock | None = None,
) -> Lock:
  """Holds the player who moves after `history` to frequencies of its moves.

  An upper bound is refused where several other moves could take the rest: a regret rule matches
  policies of one form alone, a least part plus a free distribution over moves.

  Args:
    tree: one tree, without hidden moves.
    history: public actions from the tree's root.
    frequencies: of moves, by action: exactly, or at least and at most. Moves that are not named
      share the rest as the player likes.
    infostates: which hands this holds for; None for all.
    also: an earlier lock, of other decisions.

  Returns:
    The argument `locked` of `solve`, `best_response` and `exploitability`.

  Raises:
    ValueError: no player moves there, a move is not legal there, frequencies cannot sum to one, or
      a move has an upper bound while several others share the rest.
  """
  validation.check_unstacked(tree)
  node = Placer(tree).follow(history)
  if int(tree.kind[node]) >= CHANCE or tree.infostate_parent is not None:
    raise ValueError(f"history={history} leads to where no player makes a public move")
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  least, free, is_open = frequency_bounds(np.asarray(tree.action)[children].tolist(), frequencies)
  hands = np.arange(tree.num_infostates) if infostates is None else infostates
  hands = validation.check_places("infostates", hands, tree.num_infostates)
  shape = (tree.num_nodes, tree.num_infostates)
  found = Lock(np.zeros(shape), np.ones(shape), np.ones(shape)) if also is None else also
  rows = [np.array(np.ones(shape) if x is None else x) for x in found]
  for whole, row in zip(rows, (least, free, is_open)):
    whole[np.ix_(children, hands)] = row[:, None]
  return Lock(*rows)


def frequency_bounds(actions: list[int], frequencies: Mapping[int, float | tuple[float, float]]):
  """Returns each move's least frequency, the free rest, and which moves may take it."""
  least, most = np.zeros(len(actions)), np.ones(len(actions))
  for action, wanted in frequencies.items():
    if action not in actions:
      raise ValueError(f"frequencies name action {action}; those that exist there are {actions}")
    place = actions.index(action)
    least[place], most[place] = np.broadcast_to(wanted, 2)
  if not ((least >= 0) & (least <= most) & (most <= 1)).all():
    raise ValueError(f"frequencies={dict(frequencies)} must be from 0 to 1, the least first")
  is_open = most > least
  if is_open.sum() == 2:  # the most of one is the least of the other
    others = 1 - least[~is_open].sum() - np.where(is_open, most[is_open].sum() - most, 0)
    least = np.where(is_open, np.maximum(least, others), least)
  free = 1 - float(least.sum())
  if free < -1e-9 or (free > 1e-9 and not is_open.any()):
    raise ValueError(f"frequencies={dict(frequencies)} cannot be kept together: they must sum to 1")
  free = max(free, 0.0)
  if (is_open & (most < least + free - 1e-9)).any():
    raise ValueError(
      f"frequencies={dict(frequencies)} bound a move from above that several others share the rest "
      "with; say how often each of those is made at least"
    )
  return least, np.full(len(actions), free), is_open.astype(float)


_NOTHING = -1e30  # a value below any other; infinity times zero would not be a number


class BlueprintValues(NamedTuple):
  """The opponent's values against a blueprint at every node; see `blueprint_values`.

  Attributes:
    value: `[N, H]` the opponent's best-response value, per unit of the searcher's compatible mass.
      Zero without any, and where the game is over.
    gift: `[N, H]` the sum of its gifts on the path there, in the same unit (thesis, 5.1.3).
    beliefs: `[N, P, H]` to re-solve from: the searcher's posterior, the opponent's by chance alone.
    searcher: whose blueprint it is, 0 or 1.
    spread: `[N, H]` standard deviation of `value`; None if it is exact.
    origin: `[3]` mark of the tree's game; None if that is not known.
  """

  value: Array
  gift: Array
  beliefs: Array
  searcher: int
  spread: Array | None = None
  origin: Array | None = None

  @validation.checked
  def alternatives(self, nodes: int | np.ndarray, *, gifts: Finite = 0.0) -> Alternatives:
    """Returns the opponent's alternative payoffs at `nodes`: `[H]`, or `[B, H]` for several.

    `gifts` scales the gifts that are added (Reach; thesis, equation 5.2): 0 for none. Safety is
    guaranteed up to 1 and not beyond (section 5.1.11).

    Raises:
      TypeError: `nodes` is of another kind.
      ValueError: a node is not there, or `gifts` is not a finite number.
    """
    rows = validation.check_places("nodes", np.atleast_1d(nodes), len(self.value))
    rows = rows if np.ndim(nodes) else rows[0]
    spread = None if self.spread is None else self.spread[rows]
    value = self.value[rows] + gifts * self.gift[rows]
    return Alternatives(value, spread, player=1 - self.searcher)


@validation.checked
def blueprint_values(
  game: Game,
  tree: PublicTree,
  policy: Array,
  *,
  searcher: validation.Player,
  beliefs: Array | None = None,
) -> BlueprintValues:
  """Computes the opponent's values against the searcher's part of `policy`, for safe re-solving.

  Args:
    game, tree: the rules, and their whole tree.
    policy: `[N, H]` the blueprint; only the searcher's rows are used.
    searcher: whose subgames are to be solved anew, 0 or 1; static.
    beliefs: `[P, H]` at the root; None for the tree's own prior.

  Returns:
    Counterfactual best-response values, gifts and beliefs at every node.

  Raises:
    ValueError: the tree is depth-limited, or an argument has the wrong shape or is not allowed.
  """
  beliefs = check_whole(tree, policy, beliefs)
  policy = jnp.asarray(policy, tree.dtype)
  info = node_info(game, tree)
  value, gift, root_beliefs = _blueprint_values(tree, info, policy, beliefs, searcher=searcher)
  return BlueprintValues(value, gift, root_beliefs, searcher, origin=tree.origin)


@functools.partial(Programs, static_argnames="searcher")
def _blueprint_values(tree, info, policy, beliefs, *, searcher: int):
  problem = make_problem(tree, beliefs)
  opponent = 1 - searcher
  levels = problem.split(policy)
  reach = problem.own_reach(levels, searcher)
  sweep = problem.values_up(None, reach, None, opponent)
  masses = problem.split(_masses(problem, info, reach, searcher))
  values = tuple(per_unit_of_mass(x, y) for x, y in zip(sweep.nodes, masses))
  gifts = _gifts(problem, sweep.nodes, masses, opponent)
  tried = problem.where_moved(levels, lambda i, _: jnp.ones_like(levels[i]), [opponent])
  return join_levels(values), join_levels(gifts), node_beliefs(problem, tried)


def _masses(problem: TreeProblem, info: NodeInfo, own: Levels, searcher: int) -> jax.Array:
  """Returns the searcher's mass that the other meets at each node, `[N, H]`; zero at ends."""
  tree = problem.tree
  inner = np.unique(tree.structure.parents[1:])
  reach = problem.node_reach((own, own))[inner, searcher]
  found = problem.pairs.pairs.mass(jnp.asarray(info.pair_index)[inner], reach, 1 - searcher)
  return jnp.zeros((tree.num_nodes, tree.num_infostates), reach.dtype).at[inner].set(found)


def _gifts(problem: Problem, values: Levels, masses: Levels, opponent: int) -> Levels:
  """Sums the opponent's gifts along the way to every node (thesis, equation 5.2), `[n, H]` each."""
  # A gift at a choice is the best of the moves that end the game, whose value no other re-solve can
  # change (thesis, section 5.1.3), and of the move that was made, less the latter.
  gifts = [jnp.zeros_like(values[0])]
  kinds = problem.split(jnp.asarray(problem.tree.kind))
  for i in range(1, len(values)):
    gift = problem.from_parents(i, opponent, gifts[-1])
    moved = problem.moves_at(i, opponent)
    if moved is not False:
      ended = jnp.where((kinds[i] == TERMINAL)[:, None], values[i], _NOTHING)
      best = problem.largest_of_siblings(i, opponent, ended)
      mass = problem.from_parents(i, opponent, masses[i - 1])
      given = per_unit_of_mass(jnp.maximum(best - values[i], 0.0), mass)
      gift = choose(moved, gift + given, gift)
    gifts.append(gift)
  return tuple(gifts)


_FEW = 1 << 20  # nodes times infostates: padding below this costs less than one more program
_PADDED = 2  # at most so many places for each node that there is


def like_shapes(trees: Sequence[PublicTree]) -> list[np.ndarray]:
  """Returns the places of trees that are stacked together, an array a group."""
  # A stacked tree has the nodes of all trees of its group, told apart by the actions that lead to
  # them. The largest trees come first, and each joins the first group that it fits in.
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
      if places <= _PADDED * sizes or places * trees[place].num_infostates <= _FEW:
        groups[i] = ([*members, place], joined, sizes)
        break
    else:
      groups.append(([place], nodes[place], len(nodes[place])))
  return [np.sort(members) for members, _, _ in groups]


@validation.checked
def refine(
  game: Game,
  tree: PublicTree,
  policy: Array,
  *,
  searcher: validation.Player,
  beliefs: Array | None = None,
  cut: int | str | Sequence[int] = "stage",
  gadget: Gadget | None = None,
  gifts: Finite = 0.0,
  known: BlueprintValues | None = None,
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> np.ndarray:
  """Improves the searcher's part of a blueprint by solving every subgame at a cut anew.

  Every subgame is solved by itself, so the result is the policy of an agent that re-solves the one
  that it reaches (thesis, section 5.1). With a gadget the searcher's worst case gets no worse, up
  to the accuracy of the solver: `best_response_values(tree, refined)[1 - searcher]` measures it.

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
    known: the opponent's alternatives, if others than those of `blueprint_values`: estimates of its
      equilibrium values (thesis, section 5.1.4), or a spread.
    algorithm: of the CFR family; None for CFR+.
    num_iterations: of each solve, one player's update is one.

  Returns:
    `[N, H]` the searcher's new policy and the opponent's old one.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: as `blueprint_values` and `solve_batch`, or there are no subgames at that cut,
      `gadget` is another player's, or None with `known` or `gifts`.
  """
  check_tree_of(game, tree)
  beliefs = check_whole(tree, policy, beliefs)
  if gadget is not None:
    validation.check_gadget(gadget, searcher)
  elif known is not None or gifts:
    raise ValueError("gadget=None takes no known and no gifts: unsafe search promises nothing")
  if known is not None:
    if known.searcher != searcher:
      raise ValueError(f"searcher={searcher}, but known is for player {known.searcher}")
    check_same_game("known", known.origin, tree)
    for name in ("value", "gift"):
      validation.check_shape(f"known.{name}", getattr(known, name), np.shape(policy), "(N, H)")
  placer = Placer(tree)
  nodes = _cut_nodes(game, tree, cut, placer)
  below = [subtree(game, tree, int(node)) for node in nodes]
  algorithm, below_beliefs, alternatives = entered(
    game, tree, policy, beliefs, nodes, algorithm, gadget,
    searcher=searcher, known=known, gifts=gifts,
  )  # fmt: skip
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


class Widened(NamedTuple):
  """A game with one more bet, its whole tree, and a policy `[N, H]` with a response to that bet."""

  game: Holdem
  tree: PublicTree
  policy: np.ndarray


@validation.checked
def answer_bet(
  game: Holdem,
  tree: PublicTree,
  policy: Array,
  history: Sequence[int],
  chips: int,
  *,
  gadget: Gadget | None = None,
  beliefs: Array | None = None,
  whole_decision: bool = False,
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> Widened:
  """Adds a bet to a game and solves what comes after it (thesis, section 5.1.7).

  The result is a blueprint of the wider game, so further bets are answered in the same way. The
  inexpensive method solves the subgame after the bet; the bettor is promised its best-response
  value at that decision without the bet, an estimate that is good where the tree has enough other
  bets. The expensive method, `whole_decision`, solves from the decision on, the bet added.

  Args:
    game: the rules.
    tree: whole, from the start of that game.
    policy: `[N, H]` the blueprint.
    history: public actions to where the bet is made; who bets there is the opponent.
    chips: what the bet brings the bettor's chips in the pot to.
    gadget: whose searcher is the other player. None for unsafe search, by the expensive method
      alone: the blueprint never makes the bet.
    beliefs: `[P, H]` at the start, the players' ranges; None for the game's own prior.
    whole_decision: see above.
    algorithm: of the CFR family; None for CFR+.
    num_iterations: one player's update is one.

  Returns:
    The wider game, its tree and both players' policy on it; the blueprint never makes the new bet.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: as `Holdem.with_bet`; `tree` is of another game; the gadget is the bettor's; there
      is none and `whole_decision` is false.
  """
  check_tree_of(game, tree)
  beliefs = check_whole(tree, policy, beliefs)
  wider = game.with_bet(history, chips)
  searcher = 1 - int(game.actor(game.state_after(history)[None])[0])  # who does not bet
  if gadget is not None:
    validation.check_gadget(gadget, searcher)
  if gadget is None and not whole_decision:
    raise ValueError("gadget=None needs whole_decision=True: the blueprint never makes this bet")
  whole = build_public_tree(wider).astype(tree.dtype)
  node = Placer(tree).follow(history)
  places = Placer(whole, by_state=True).places(tree)
  # The bet's own row stays zero: the blueprint does not make it.
  widened = np.zeros((whole.num_nodes, whole.num_infostates), tree.dtype)
  widened[places] = policy
  root = int(places[node])
  if not whole_decision:
    root = int(children_of(whole)[root, game.burn])
  below = subtree(wider, whole, root)
  algorithm, beliefs_there, alternatives = entered(
    game, tree, policy, beliefs, node, algorithm, gadget, searcher=searcher
  )
  solved = solve(
    below,
    algorithm=algorithm,
    num_iterations=num_iterations,
    beliefs=beliefs_there,
    alternatives=alternatives,
  )
  part = (Placer(whole).places(below, root), solved.average_policy)
  return Widened(wider, whole, graft(whole, widened, [part]))
