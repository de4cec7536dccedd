"""Continual re-solving: every decision searched anew, from what the last search left (section B.1).

The policy of an agent that plays so is found exactly for each seed: its searches depend on what it
saw alone, so that all of them can be made beforehand, those further down the tree after those
above.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game, PublicTree
from games.public_tree import Array
from solvers import validation
from solvers.growing.checks import check_leaf_function, check_prior, check_seeds
from solvers.growing.gt_cfr import GTCFR, Grown, check_search, grow
from solvers.leaf_values import LeafValues
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.masked import NodeInfo, node_info

_CHAINS = ("own", "single")


class Start(NamedTuple):
  """What a search starts from, `[B]` of each.

  Attributes:
    root, current: where it starts, and the decision that it is for.
    beliefs: `[P, H]` at the root.
    promised: `[H]` expected payoffs to the opponent there.
    believed: `[H]` the opponent's range there.
  """

  root: Array
  current: Array
  beliefs: Array
  promised: Array
  believed: Array


def next_start(tree: PublicTree, before: Grown, root: int, current: int, searcher: int) -> Start:
  """Returns what a search for `current` starts from after one at `root` above it.

  It starts at the last state on the way that the tree of that search holds. The searcher's range
  and the opponent's values there are what it found; the opponent's own row of the beliefs is
  uniform, since the gadget weighs its infostates.

  Args:
    tree: the game's.
    before: the search at `root`, as numpy arrays.
    root, current: nodes, the second below the first.
    searcher: who moves at `current`.
  """
  node = current
  while node != root and not before.present[node]:
    node = int(tree.parent[node])
  possible = np.ones((2, tree.num_infostates), bool)
  if tree.possible is not None:
    possible = np.asarray(tree.possible[node])
  uniform = possible / possible.sum(axis=1, keepdims=True)
  ranges = np.array(before.reach)[:, node]
  totals = ranges.sum(axis=1, keepdims=True)
  ranges = np.where(totals > 0, ranges / np.where(totals > 0, totals, 1.0), uniform)
  opponent = 1 - searcher
  beliefs = ranges.copy()
  beliefs[opponent] = uniform[opponent]
  promised = np.asarray(before.values)[opponent, node]
  return Start(np.array(node), np.array(current), beliefs, promised, ranges[opponent])


def resolved_policies(
  game: Game,
  tree: PublicTree,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  leaf_values: LeafValues | None = None,
  params: Any = None,
  prior: Array | None = None,
  chain: str = "own",
  batch_size: int = 32,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision, for each seed: `[S, N, H]`.

  Args:
    game, tree: the game and its whole tree.
    search: settings of every search; `mix` says how far the opponent's range is trusted.
    seeds: one agent each.
    leaf_values, params, prior: as for `gt_cfr`.
    chain: which search the next starts from: `"own"`, the same player's last, or `"single"`, the
      last of either player. Values found under a gadget of the other player's are promises of
      nobody, so a single chain is not sound; it is here to show that.
    batch_size: searches made side by side.

  Raises:
    ValueError: `chain` or `batch_size` is not allowed, or `tree` is of another game or cut off.
  """
  if chain not in _CHAINS:
    raise ValueError(f"chain={chain!r} must be one of: {', '.join(_CHAINS)}")
  check_search(search)
  check_leaf_function(leaf_values)
  batch_size = validation.check_integer("batch_size", batch_size)
  info = node_info(game, tree)
  seeds, prior = check_seeds(seeds), check_prior(tree, prior)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves; a policy of the whole game needs all"
    )
  game_tree = jax.tree.map(jnp.asarray, tree)
  how = search.of_any_length()
  kind, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  policies = np.ones((len(seeds), tree.num_nodes, tree.num_infostates), tree.dtype)
  found: dict[tuple[int, int], tuple[int, Grown]] = {}  # by node and seed: its root, the search
  level = np.repeat(np.arange(tree.structure.depth + 1), np.diff(tree.structure.offsets))
  for depth in range(tree.structure.depth):
    waiting: dict[int | None, list[tuple[int, int, Start]]] = {}
    for node in np.flatnonzero((level == depth) & (kind < CHANCE)).tolist():
      above = _last_search(parent, kind, node, chain)
      for place in range(len(seeds)):
        if above is None:
          start = _first_start(tree, node)
          waiting.setdefault(None, []).append((node, place, start))
        else:
          root, before = found[above, place]
          start = next_start(tree, before, root, node, int(kind[node]))
          waiting.setdefault(int(kind[node]), []).append((node, place, start))
    for searcher, jobs in waiting.items():
      for first in range(0, len(jobs), batch_size):
        some = jobs[first : first + batch_size]
        filled = some + [some[-1]] * (batch_size - len(some))
        starts = Start(*(np.stack(x) for x in zip(*(start for _, _, start in filled))))
        keys = [jax.random.fold_in(jax.random.key(seeds[place]), n) for n, place, _ in filled]
        rows = starts, jnp.stack(keys)
        grown = _searches(
          game_tree, info, rows, search.rounds, params, prior, how, leaf_values, searcher
        )
        grown = jax.tree.map(np.asarray, grown)
        for i, (node, place, start) in enumerate(some):
          own = jax.tree.map(lambda x, i=i: x[i], grown)
          found[node, place] = int(start.root), own
          moves = np.flatnonzero(parent == node)
          policies[place, moves] = own.average_policy[moves]
  return policies


def _last_search(parent: np.ndarray, kind: np.ndarray, node: int, chain: str) -> int | None:
  """Returns the decision above `node` that the search there starts from, if there is one."""
  above = int(parent[node])
  while above >= 0:
    if kind[above] == kind[node] or (chain == "single" and kind[above] < CHANCE):
      return above
    above = int(parent[above])
  return None


def _first_start(tree: PublicTree, node: int) -> Start:
  nothing = np.zeros(tree.num_infostates, tree.dtype)
  return Start(np.array(0), np.array(node), np.asarray(tree.prior), nothing, nothing)


@functools.partial(jax.jit, static_argnames=("search", "leaf_values", "searcher"))
def _searches(
  tree: PublicTree, info: NodeInfo, rows, rounds, params, prior, search, leaf_values, searcher
) -> Grown:
  """Searches from `Start`s `[B]` with keys `[B]`."""

  def one(row: tuple[Start, jax.Array]) -> Grown:
    start, key = row
    alternatives = None
    if searcher is not None:
      alternatives = Alternatives(start.promised, beliefs=start.believed)
    given = params, (start.root, start.current), start.beliefs, alternatives, prior
    return grow(tree, info, key, given, rounds, search, leaf_values, searcher)

  return jax.vmap(one)(rows)
