"""Continual re-solving: every decision searched anew, from what the last search left (section B.1).

The policy of an agent that plays so is found exactly for each seed: its searches depend on what it
saw alone, so that all of them can be made beforehand, those further down the tree after those
above.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game, PublicTree
from solvers import validation
from solvers.growing.checks import check_function, check_seeds
from solvers.growing.continual.grounds import make_grounds
from solvers.growing.continual.next_start import Left
from solvers.growing.continual.search_each import How, search_next
from solvers.growing.settings import GTCFR, check_search
from solvers.growing.simulate import child_slots
from solvers.growing.states import StateFunction

_CHAINS = ("own", "single")


def resolved_policies(
  game: Game,
  tree: PublicTree,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  chain: str = "own",
  batch_size: int = 32,
  progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision, for each seed: `[S, N, H]`.

  Args:
    game, tree: the game and its whole tree.
    search: settings of every search; `mix` says how far the opponent's range is trusted.
    seeds: one agent each.
    network, params: as for `gt_cfr`.
    chain: which search the next starts from: `"own"`, the same player's last, or `"single"`, the
      last of either player. Values found under a gadget of the other player's are promises of
      nobody, so a single chain is not sound; it is here to show that.
    batch_size: searches made side by side.
    progress: called with how many searches are done, and of how many.

  Raises:
    ValueError: `chain` or `batch_size` is not allowed, or `tree` is of another game or cut off.
  """
  if chain not in _CHAINS:
    raise ValueError(f"chain={chain!r} must be one of: {', '.join(_CHAINS)}")
  check_search(search)
  check_function("network", network)
  batch_size = validation.check_integer("batch_size", batch_size)
  validation.check_unstacked(tree)
  seeds = check_seeds(seeds)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves; a policy of the whole game needs all"
    )
  grounds = jax.tree.map(jnp.asarray, make_grounds(game, tree))
  how = How(search.of_any_length(), network)
  slots = child_slots(tree.structure)
  kind, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  policies = np.ones((len(seeds), tree.num_nodes, tree.num_infostates), tree.dtype)
  kept: dict[tuple[int | None, int], Left] = {}  # by decision and seed
  level = np.repeat(np.arange(tree.structure.depth + 1), np.diff(tree.structure.offsets))
  decisions = np.flatnonzero(kind < CHANCE).tolist()
  above = {node: _last_search(parent, kind, node, chain) for node in decisions}
  nothing = Left.nothing(tree)
  asked_again = set(above.values())
  done, total = 0, len(decisions) * len(seeds)
  for depth in range(tree.structure.depth):
    jobs = [(node, i) for node in decisions if level[node] == depth for i in range(len(seeds))]
    for first in range(0, len(jobs), batch_size):
      some = jobs[first : first + batch_size]
      filled = some + [some[-1]] * (batch_size - len(some))
      lefts = [kept.get((above[n], i), nothing) for n, i in filled]
      keys = jnp.stack([jax.random.fold_in(jax.random.key(seeds[i]), n) for n, i in filled])
      nodes = np.array([node for node, _ in filled])
      found = search_next(
        grounds,
        jax.tree.map(lambda *x: np.stack(x), *lefts),
        nodes,
        kind[nodes].astype(np.int32),
        keys,
        np.arange(batch_size) < len(some),
        how=how,
        rounds=search.rounds,
        params=params,
      )
      policy, left = jax.tree.map(np.asarray, (found.policy, found.left))
      for row, (node, i) in enumerate(some):
        if node in asked_again:
          kept[node, i] = jax.tree.map(lambda x, row=row: x[row].copy(), left)
        there = slots[node] >= 0
        policies[i, slots[node][there]] = policy[row, there]
      done += len(some)
      if progress is not None:
        progress(done, total)
  return policies


def _last_search(parent: np.ndarray, kind: np.ndarray, node: int, chain: str) -> int | None:
  """Returns the decision above `node` that the search there starts from, if there is one."""
  above = int(parent[node])
  while above >= 0:
    if kind[above] == kind[node] or (chain == "single" and kind[above] < CHANCE):
      return above
    above = int(parent[above])
  return None
