"""Policies of agents that search at every decision (Player of Games, section B.1).

The policy of one seed is exact: its searches depend on what it saw alone, so that all of them can
be made beforehand, those further down the tree after those above.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game, PublicTree
from solvers import tuning, validation
from solvers.growing.continual.chain import (
  ChainSearch,
  ChainStart,
  Found,
  How,
  Left,
  PublicState,
  decision_key,
  longest_wait,
  next_starts,
  search_each,
)
from solvers.growing.continual.grounds import RulesGround, tree_ground
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateFunction
from solvers.metrics.histories import Histories, public_histories
from solvers.xla.compiler_options import Programs, work_on_trees

_CHAINS = ("own", "single")
# Room of the trees of searches of which no more than so many nodes are ahead: most are near the
# end of the game, and what they find does not depend on their room.
_ROOM = (48, 384)
Progress = Callable[[int, int], None]


@validation.checked
def resolved_policies(
  game: Game,
  tree: PublicTree,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  chain: str = "own",
  batch_size: int | None = None,
  progress: Progress | None = None,
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
    batch_size: searches made side by side; None for what suits the device.
    progress: called with how many searches are done, and of how many.

  Raises:
    ValueError: `chain` or `batch_size` is not allowed, or `tree` is of another game or cut off.
  """
  if chain not in _CHAINS:
    raise ValueError(f"chain={validation.short(chain)} must be one of: {', '.join(_CHAINS)}")
  validation.check_unstacked(tree)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves; a policy of the whole game needs all"
    )
  ground = tree_ground(game, tree)
  histories = public_histories(ground.rules, max_histories=tree.num_nodes)
  whole = jax.tree.map(jnp.asarray, ground)
  settings = dict(network=network, params=params, batch_size=batch_size, progress=progress)
  found = _policies(lambda size: whole, histories, search, seeds, chain=chain, **settings)
  nodes, info = histories.state[:, 0], ground.rules.tables.info
  policies = np.ones((len(found), tree.num_nodes, tree.num_infostates), tree.dtype)
  if ground.rules.num_hidden == 1:
    child = info.child[nodes, : found.shape[2]]
    there = (child >= 0) & (histories.kind < CHANCE)[:, None]
    policies[:, child[there]] = found[:, there]
  else:
    place, move, held = np.nonzero(histories.moves >= 0)
    child = info.child[nodes[place], histories.moves[place, move, held]]
    leads_to = histories.leads_to[place, move, held]
    policies[:, child, leads_to] = found[:, place, move, held]
  return policies


@validation.checked
def history_policies(
  histories: Histories,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  batch_size: int | None = None,
  progress: Progress | None = None,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision, for each seed.

  As `resolved_policies`, in a game by whose rules searches make their trees.

  Args:
    histories: of the game.
    search, seeds, network, params, batch_size, progress: as there.

  Returns:
    `[seeds, N, M, H]`, as `moves_of` numbers moves; zero where no player moves.

  Raises:
    ValueError: `batch_size` is not allowed.
  """
  game = histories.game
  most = min(RulesGround.of(game, search).capacity, int(histories.sizes[0]))
  rooms = [x for x in _ROOM if 2 * x < most] + [most]

  grounds = [RulesGround(game, room) for room in rooms]

  def ground_of(size: int) -> RulesGround:
    return next((ground for ground in grounds if ground.capacity >= size), grounds[-1])

  settings = dict(network=network, params=params, batch_size=batch_size, progress=progress)
  return _policies(ground_of, histories, search, seeds, chain="own", **settings)


def _policies(
  ground_of: Callable[[int], Any],
  histories: Histories,
  search: GTCFR,
  seeds: Sequence[int],
  *,
  chain: str,
  network: StateFunction | None,
  params: Any,
  batch_size: int | None,
  progress: Progress | None,
) -> np.ndarray:
  """Computes `history_policies`; `ground_of` is of the number of histories ahead."""
  batch_size = validation.check_integer(
    "batch_size", tuning.pieces().chains if batch_size is None else batch_size
  )
  seeds = validation.check_places("seeds", seeds, validation.MAX_COUNT).tolist()
  sizes, how = histories.sizes, How(search.of_any_length(), network)
  decisions = np.flatnonzero(histories.kind < CHANCE)
  above = {int(node): _last_decision(histories, int(node), chain) for node in decisions}
  below: dict[int, list[int]] = {}
  for node, before in above.items():
    if before is not None:
      below.setdefault(before, []).append(node)
  first = [node for node, before in above.items() if before is None]
  ground = ground_of(1)
  nothing = jax.tree.map(lambda x: jnp.asarray(x)[None], ground.nothing())
  begun = _starts(ground, histories, nothing, [(0, node, None) for node in first])
  waiting = {(node, i): begun[0, node] for node in first for i in range(len(seeds))}
  policies = np.zeros((len(seeds), *histories.moves.shape), nothing.reach.dtype)
  search_some = _search_some[work_on_trees()]
  done, total = 0, len(decisions) * len(seeds)
  for depth in range(int(histories.depth[-1]) + 1):
    ready = [job for job in waiting if histories.depth[job[0]] == depth]
    grounds = {job: ground_of(int(sizes[_root(histories, waiting, job)])) for job in ready}
    for ground in {id(x): x for x in grounds.values()}.values():
      jobs = [job for job in ready if grounds[job] is ground]
      for start in range(0, len(jobs), batch_size):
        some = jobs[start : start + batch_size]
        filled = some + [some[-1]] * (batch_size - len(some))
        nodes = np.array([node for node, _ in filled])
        states = histories.state[nodes]
        found = search_some(
          ground,
          jax.tree.map(lambda *x: np.stack(x), *(waiting[job] for job in filled)),
          PublicState(states, histories.possible[nodes]),
          _keys(jnp.stack([jax.random.key(seeds[i]) for _, i in filled]), states),
          np.arange(batch_size) < len(some),
          search.rounds,
          params,
          how=how,
        )
        policy = np.asarray(found.policy)
        jobs_below = [(r, n, s) for r, (s, _) in enumerate(some) for n in below.get(s, ())]
        starts = _starts(ground, histories, found.left, jobs_below)
        for row, (node, i) in enumerate(some):
          policies[i, node] = policy[row]
          del waiting[node, i]
          waiting |= {(n, i): starts[row, n] for n in below.get(node, ())}
        done += len(some)
        if progress is not None:
          progress(done, total)
  return policies


def _starts(
  ground: Any, histories: Histories, left: Left, jobs: Sequence[tuple[int, int, int | None]]
) -> dict[tuple[int, int], ChainStart]:
  """Returns starts by row of `left` `[B, ...]` and decision; jobs also say the last decision."""
  found: dict[tuple[int, int], ChainStart] = {}
  longest, size = longest_wait(histories.game), 2 * tuning.pieces().chains
  for start in range(0, len(jobs), size):
    some = jobs[start : start + size]
    filled = [*some, *[some[-1]] * (size - len(some) if len(jobs) > size else 0)]
    since = np.full((len(filled), longest), -1, np.int32)
    for row, (_, node, above) in enumerate(filled):
      actions = histories.since(node, above)
      since[row, : len(actions)] = actions[:longest]
    rows = np.array([row for row, _, _ in filled])
    nodes = np.array([node for _, node, _ in filled])
    here = PublicState(histories.state[nodes], histories.possible[nodes])
    starts = _next_starts(ground, left, rows, here, since, histories.kind[nodes])
    starts = jax.tree.map(np.asarray, starts)
    for i, (row, node, _) in enumerate(some):
      found[row, node] = jax.tree.map(lambda x, i=i: x[i], starts)
  return found


@jax.jit
def _next_starts(
  ground: Any, left: Left, rows: Any, here: Any, since: Any, searcher: Any
) -> ChainStart:
  return next_starts(ground, jax.tree.map(lambda x: x[rows], left), here, since, searcher)


def _search(
  ground: Any, start: Any, here: Any, keys: Any, active: Any, rounds: Any, params: Any, *, how: How
) -> Found:
  about = ChainSearch(start, here)
  return search_each(ground, about, keys, active, how=how, rounds=rounds, params=params)


_search_some = Programs(_search, static_argnames="how")
_keys = jax.jit(jax.vmap(decision_key))


def _root(histories: Histories, waiting: Any, job: tuple[int, int]) -> int:
  """Returns the history at which a search starts."""
  node = job[0]
  for _ in range(int((waiting[job].path >= 0).sum())):
    node = int(histories.parent[node])
  return node


def _last_decision(histories: Histories, node: int, chain: str) -> int | None:
  """Returns the decision before `node` from whose search the next starts, if there is one."""
  above = int(histories.parent[node])
  while above >= 0:
    if histories.kind[above] == histories.kind[node]:
      return above
    if chain == "single" and histories.kind[above] < CHANCE:
      return above
    above = int(histories.parent[above])
  return None
