"""The grounds of chains of searches, and policies of agents that search at every decision."""
# A ground is a written-out tree with small parts of it, or rules. A search near the end takes less
# time where its tree is its own part of the game alone. The policy of one seed is computed exactly:
# a search depends on the public history and the searches above it, so that all can be made
# beforehand, from the root down (Player of Games, section 4.1).

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game, PublicTree, Tabulated, build_public_tree, stack_trees, tabulate
from games.arrays import Positive, checked
from games.public_tree import Array, largest_payoff
from games.tabulate import NodeInfo, by_edge, children_of
from solvers import tuning, validation
from solvers.growing.continual.chain import (
  ChainSearch,
  Found,
  Ground,
  How,
  Left,
  PublicState,
  beginning,
  decision_key,
  longest_wait,
  next_starts,
  search_each,
)
from solvers.growing.gt_cfr import Asked, Grown, grow
from solvers.growing.insertion.tree import ByRules, most_nodes
from solvers.growing.marked import OnTree
from solvers.growing.states import GTCFR, StateFunction
from solvers.leaf_values import normalise_beliefs
from solvers.metrics.histories import Histories, public_histories, subtree_sizes
from solvers.resolving import Placer
from solvers.xla import Programs, work_on_trees

# A part has at most this share of the nodes of the whole.
_SHARE = 1 / 16


class Parts(NamedTuple):
  """`G` parts of a game, each below one node, stacked to a common shape."""

  trees: PublicTree  # every array has a leading axis `[G]`
  nodes: NodeInfo  # every array has a leading axis `[G]`
  places: Array  # `[G, n]` where their nodes are in the whole tree; its size for padding
  part: Array  # `[N]` the part that a node of the whole tree is in; -1 for none
  local: Array  # `[N]` its place there


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeGround(Ground):
  """A `Ground` of a written-out tree, whose nodes are the places of all searches.

  Attributes:
    tree: the whole tree.
    rules: by its tables.
    scale: the largest payoff.
    parts: None where none is small enough.
  """

  tree: PublicTree
  rules: Tabulated
  scale: Any
  parts: Parts | None

  @property
  def child(self) -> jax.Array:
    return jnp.asarray(self.rules.tables.info.child)

  @property
  def num_subgames(self) -> int:
    """Number of inner nodes, each of which a search may start from."""
    return sum(level.num_inner for level in self.tree.structure.levels)

  def nothing(self) -> Left:
    return _nothing(self.rules, self.tree.num_nodes, None, self.tree.dtype)

  def kinds(self, roots: jax.Array) -> list[tuple[Any, jax.Array]]:
    if self.parts is None:
      return super().kinds(roots)
    small = jnp.asarray(self.parts.part)[roots[:, 0]] >= 0
    in_part = functools.partial(self.search, in_part=True)
    return [(self.search, ~small), (in_part, small)]

  def search(
    self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any,
    in_part: bool = False,
  ) -> Found:  # fmt: skip
    """Makes one search, in the whole tree or in the part below its root."""
    current = row.here.state[0].astype(jnp.int32)
    tree, nodes, at = self.tree, self.rules.tables.info, (row.root.state[0], current)
    if in_part:
      parts = jax.tree.map(jnp.asarray, self.parts)
      tree, nodes, places = jax.tree.map(
        lambda x: x[parts.part[at[0]]], (parts.trees, parts.nodes, parts.places)
      )
      at = parts.local[at[0]], parts.local[current]
    start = OnTree(tree, nodes, self.scale, *at, row.beliefs, row.promises)
    grown = grow(start, key, params, rounds, how.search, network=how.network)
    here = grown.asked.here
    if in_part:

      def put(x: jax.Array) -> jax.Array:
        empty = jnp.zeros((2, self.tree.num_nodes, *x.shape[2:]), x.dtype)
        return empty.at[:, places].set(x, mode="drop")

      spread = {name: put(getattr(grown, name)) for name in ("values", "reach", "known")}
      grown, here = grown._replace(**spread), places[here].astype(jnp.int32)
    possible = jnp.ones((2, self.tree.num_infostates), bool)
    if self.tree.possible is not None:
      possible = jnp.asarray(self.tree.possible)[here]
    asked = grown.asked._replace(here=PublicState(here[None], possible))
    return _found(row, grown, current, None, asked)


def _nothing(rules: Game, number: int, child: jax.Array | None, dtype: Any) -> Left:
  """Returns the empty result of a search in a `number` of places."""
  rows = jnp.zeros((2, number, rules.num_infostates), dtype)
  none, known = jnp.full((), -1, jnp.int32), jnp.zeros((2, number), bool)
  return Left(none, beginning(rules), child, rows, rows, known)


def _found(
  row: ChainSearch, grown: Grown, place: jax.Array, child: jax.Array | None, asked: Asked
) -> Found:
  """Returns the result of a search for the decision at a place of its store."""
  left = Left(place, row.here, child, grown.values, grown.reach, grown.known)
  values = grown.values[:, place]
  return Found(grown.policy, values, grown.root_values, grown.root_mass, left, asked)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RulesGround(Ground):
  """A `Ground` of rules by which searches make their trees.

  Attributes:
    rules: the game; static.
    capacity: nodes that a tree has room for; static.
  """

  rules: Game = dataclasses.field(metadata={"static": True})
  capacity: int = dataclasses.field(metadata={"static": True})

  num_subgames = None  # public states are not counted

  @classmethod
  def of(cls, rules: Game, search: GTCFR) -> "RulesGround":
    """Returns a ground of a capacity that no search exceeds."""
    return cls(rules, most_nodes(rules, search, longest_wait(rules)))

  def nothing(self) -> Left:
    child = jnp.full((self.capacity, self.rules.num_actions), -1, jnp.int32)
    return _nothing(self.rules, self.capacity, child, float)

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    root, path, beliefs, promises, _ = row
    start = ByRules(*root, path, beliefs, promises, self.rules, self.capacity)
    grown = grow(start, key, params, rounds, how.search, network=how.network)
    tree, asked = grown.tree, grown.asked
    here = PublicState(tree.state[asked.here], tree.possible[asked.here])
    believed = normalise_beliefs(jnp.where(here.possible, asked.beliefs, 0.0), here.possible)
    asked = asked._replace(here=here, beliefs=believed)
    return _found(row, grown, grown.current.astype(jnp.int32), tree.child, asked)


@checked
def tree_ground(game: Game, tree: PublicTree, *, share: float = _SHARE) -> TreeGround:
  """Returns the ground of a game's whole tree.

  Args:
    game, tree: the game and its whole tree.
    share: of the nodes, that a part may have at most; 0 for no parts.
  """
  rules, roots = tabulate(game, tree), _part_roots(tree, share)
  tree = jax.tree.map(np.asarray, tree)
  if not roots:
    return TreeGround(tree, rules, largest_payoff(tree), None)
  built = [build_public_tree(game, root=tree.history(root)).astype(tree.dtype) for root in roots]
  trees, placer = stack_trees(built), Placer(tree)
  places = np.full((len(roots), trees.num_nodes), tree.num_nodes)
  part, local = np.full(tree.num_nodes, -1), np.zeros(tree.num_nodes, int)
  child = []
  for g, root in enumerate(roots):
    own = jax.tree.map(lambda x, g=g: x[g], trees)
    found = placer.places(own, root)
    real = np.flatnonzero(found >= 0)
    places[g, real] = found[real]
    part[found[real]], local[found[real]] = g, real
    child.append(children_of(own, game.num_actions))
  rows, info = np.minimum(places, tree.num_nodes - 1), rules.tables.info
  there = (places < tree.num_nodes)[..., None, None]
  nodes = NodeInfo(
    np.moveaxis(np.asarray(info.features)[:, rows], 0, 1),
    np.asarray(info.pair_index)[rows],
    np.stack(child),
    np.where(there, np.asarray(info.by_action)[rows], -1),
    np.asarray(info.leads_to)[rows],
  )
  return TreeGround(tree, rules, largest_payoff(tree), Parts(trees, nodes, places, part, local))


def _part_roots(tree: PublicTree, share: float) -> list[int]:
  """Returns the roots of the largest subtrees that are small enough, those of ends left out."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  small = subtree_sizes(parent) <= share * tree.num_nodes
  first = small & ~small[np.maximum(parent, 0)]
  return np.flatnonzero(first & (kind <= CHANCE) & (parent >= 0)).tolist()


# Capacities of searches below which at most so many histories lie. Most searches are near the end
# of the game, and results do not depend on the capacity.
_ROOM = (48, 384)
Progress = Callable[[int, int], None]
Chain = Literal["own", "single"]


@validation.checked
def resolved_policies(
  game: Game,
  tree: PublicTree,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  chain: Chain = "own",
  batch_size: Positive | None = None,
  progress: Progress | None = None,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision, for each seed: `[S, N, H]`.

  Args:
    game, tree: the game and its whole tree.
    search: settings of every search; see `ContinualResolve` for `mix`.
    seeds: one agent each.
    network, params: as for `gt_cfr`.
    chain: which search the next starts from: `"own"`, the same player's last, or `"single"`, the
      last of either, which is not sound: values under the other's gadget are nobody's promises.
    batch_size: searches side by side; None for what suits the device.
    progress: called with the searches done, and the number of all.

  Raises:
    ValueError: `chain` or `batch_size` is not allowed, or `tree` is of another game or cut off.
  """
  ground = tree_ground(game, tree)
  histories = public_histories(ground.rules, max_histories=tree.num_nodes)
  found = history_policies(
    histories, search=search, seeds=seeds, network=network, params=params, ground=ground,
    chain=chain, batch_size=batch_size, progress=progress,
  )  # fmt: skip
  mine = np.flatnonzero(histories.kind < CHANCE)
  nodes = histories.state[mine, 0]
  return np.stack([by_edge(ground.rules, nodes, policy[mine]) for policy in found])


@validation.checked
def history_policies(
  histories: Histories,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  ground: TreeGround | None = None,
  chain: Chain = "own",
  batch_size: Positive | None = None,
  progress: Progress | None = None,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision: `[seeds, N, M, H]`.

  Moves are as `moves_of` numbers them; zero where no player moves.

  Args:
    histories: of the game; with a ground, of its rules.
    ground: of all searches; None for rules by which they make their trees.
    search, seeds, network, params, chain, batch_size, progress: as for `resolved_policies`.

  Raises:
    ValueError: `chain` or `batch_size` is not allowed.
  """
  grounds: list[Any] = [jax.device_put(ground)]
  if ground is None:
    most = min(RulesGround.of(histories.game, search).capacity, len(histories.kind))
    rooms = [*(x for x in _ROOM if 2 * x < most), most]
    grounds = [RulesGround(histories.game, x) for x in rooms]

  def ground_of(ahead: int) -> Any:
    """Returns the ground of searches whose roots have `ahead` histories below."""
    return next((x for x in grounds[:-1] if x.capacity >= ahead), grounds[-1])

  batch_size = batch_size or tuning.pieces().chains
  keys = jax.vmap(jax.random.key)(validation.check_places("seeds", seeds, validation.MAX_COUNT))
  sizes, how = subtree_sizes(histories.parent), How(search.of_any_length(), network)
  decisions = np.flatnonzero(histories.kind < CHANCE)
  below = collections.defaultdict[int | None, list[int]](list)
  for node in decisions.tolist():
    below[_last_decision(histories, node, chain)].append(node)
  ground = ground_of(1)
  nothing = jax.tree.map(lambda x: jnp.asarray(x)[None], ground.nothing())
  begun = _starts(ground, histories, nothing, [(0, node, None) for node in below[None]])
  waiting = {(node, i): begun[0, node] for node in below[None] for i in range(len(seeds))}
  policies = np.zeros((len(seeds), *histories.moves.shape), nothing.reach.dtype)
  search_some = _search_some[work_on_trees()]
  done, total = 0, len(decisions) * len(seeds)
  for depth in range(int(histories.depth[-1]) + 1):
    ready = [job for job in waiting if histories.depth[job[0]] == depth]
    roots = [histories.path(x[0])[-1 - int((waiting[x].path >= 0).sum())] for x in ready]
    chosen = [ground_of(int(sizes[root])) for root in roots]
    for ground in {id(x): x for x in chosen}.values():
      jobs = [job for job, own in zip(ready, chosen) if own is ground]
      for start in range(0, len(jobs), batch_size):
        some = jobs[start : start + batch_size]
        filled = some + [some[-1]] * (batch_size - len(some))
        about = jax.tree.map(lambda *x: np.stack(x), *(waiting[job] for job in filled))
        own_keys = _keys(keys[np.array([i for _, i in filled])], about.here.state)
        active = np.arange(batch_size) < len(some)
        found = search_some(
          ground, about, own_keys, active, how=how, rounds=search.rounds, params=params
        )
        policy = np.asarray(found.policy)
        jobs_below = [(r, n, s) for r, (s, _) in enumerate(some) for n in below[s]]
        starts = _starts(ground, histories, found.left, jobs_below)
        for row, (node, i) in enumerate(some):
          policies[i, node] = policy[row]
          del waiting[node, i]
          waiting |= {(n, i): starts[row, n] for n in below[node]}
        done += len(some)
        if progress is not None:
          progress(done, total)
  return policies


def _starts(
  ground: Any, histories: Histories, left: Left, jobs: Sequence[tuple[int, int, int | None]]
) -> dict[tuple[int, int], ChainSearch]:
  """Returns searches by row of `left` `[B, ...]` and decision; jobs also say the last decision."""
  found: dict[tuple[int, int], ChainSearch] = {}
  longest, size = longest_wait(histories.game), 2 * tuning.pieces().chains
  for start in range(0, len(jobs), size):
    some = jobs[start : start + size]
    filled = [*some, *[some[-1]] * (size - len(some) if len(jobs) > size else 0)]
    since = np.full((len(filled), longest), -1, np.int32)
    for row, (_, node, above) in enumerate(filled):
      path = histories.path(node)
      actions = histories.action[path[1 + path.index(above or 0) :]]
      since[row, : len(actions)] = actions[:longest]
    rows, nodes = np.array([job[:2] for job in filled]).T
    here = PublicState(histories.state[nodes], histories.possible[nodes])
    starts = jax.tree.map(
      np.asarray, _next_starts(ground, left, rows, here, since, histories.kind[nodes])
    )
    for i, (row, node, _) in enumerate(some):
      found[row, node] = jax.tree.map(lambda x, i=i: x[i], starts)
  return found


def search_decisions(
  ground: Any, left: Left | None, here: PublicState, since: Any, searcher: Any, keys: Any,
  active: Any, *, how: How, rounds: int | jax.Array, params: Any = None,
) -> Found:  # fmt: skip
  """Makes agents' searches for `B` decisions; see `next_starts`, `decision_key`, `search_each`."""
  about = _next_starts(ground, left, np.arange(len(active)), here, since, searcher)
  keys = _keys(keys, here.state)
  search_some = _search_some[work_on_trees()]
  return search_some(ground, about, keys, active, how=how, rounds=rounds, params=params)


@jax.jit
def _next_starts(
  ground: Any, left: Left | None, rows: Any, here: Any, since: Any, searcher: Any
) -> ChainSearch:
  return next_starts(ground, jax.tree.map(lambda x: x[rows], left), here, since, searcher)


_search_some = Programs(search_each, static_argnames="how")
_keys = jax.jit(jax.vmap(decision_key))


def _last_decision(histories: Histories, node: int, chain: Chain) -> int | None:
  """Returns the decision before `node` from whose search the next starts, if there is one."""
  kinds, own = histories.kind, (histories.kind[node],) if chain == "own" else (0, 1)
  return next((x for x in histories.path(node)[-2::-1] if kinds[x] in own), None)
