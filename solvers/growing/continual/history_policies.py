"""What an agent plays that searches at every decision of a game on the device (section B.1).

As `resolved_policies`, for games whose searches make their trees: histories are taken in the order
of their length, each search starts from what the same player's last one on the way left.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE
from games.on_device.game import DeviceGame
from solvers import validation
from solvers.growing.checks import check_function, check_seeds
from solvers.growing.continual.inserted_start import (
  InsertedStart,
  LeftInserted,
  PublicState,
  decision_key,
  longest_wait,
  next_inserted_start,
)
from solvers.growing.continual.search_inserted import (
  FoundInserted,
  HowInserted,
  InsertedSearch,
  most_room,
  search_each_inserted,
)
from solvers.growing.settings import GTCFR, check_search
from solvers.growing.states import StateFunction
from solvers.metrics.histories import Histories
from solvers.xla.compiler_options import Programs, work_on_trees

# Room of the trees of searches of which no more than so many nodes are ahead: most are near the
# end of the game, and what they find does not depend on their room.
_ROOM = (48, 384)


def history_policies(
  histories: Histories,
  *,
  search: GTCFR,
  seeds: Sequence[int] = (0,),
  network: StateFunction | None = None,
  params: Any = None,
  batch_size: int = 32,
  progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
  """Returns the policy of an agent that searches at every decision, for each seed.

  Each player's searches are a chain of its own.

  Args:
    histories: of the game.
    search: settings of every search; `mix` says how far the opponent's range is trusted.
    seeds: one agent each.
    network, params: as for `gt_cfr_inserted`.
    batch_size: searches made side by side.
    progress: called with how many searches are done, and of how many.

  Returns:
    `[seeds, N, M, H]`, as `moves_of` numbers moves; zero where no player moves.

  Raises:
    ValueError: `batch_size` is not allowed.
  """
  check_search(search)
  check_function("network", network)
  batch_size = validation.check_integer("batch_size", batch_size)
  seeds = check_seeds(seeds)
  game, sizes = histories.game, histories.sizes
  most = most_room(game, search)
  most = min(most, int(sizes[0]))
  rooms = [x for x in _ROOM if 2 * x < most] + [most]
  decisions = np.flatnonzero(histories.kind < CHANCE)
  above = {int(node): _last_decision(histories, int(node)) for node in decisions}
  below: dict[int, list[int]] = {}
  for node, before in above.items():
    if before is not None:
      below.setdefault(before, []).append(node)
  first = [node for node, before in above.items() if before is None]
  nothing = LeftInserted.nothing(game, 1, jnp.result_type(float))
  starts = _Starts(histories)
  starts.add(jax.tree.map(lambda x: jnp.asarray(x)[None], nothing), [(0, n, None) for n in first])
  waiting: dict[tuple[int, int], InsertedStart] = {
    (node, i): starts.found[0, node] for node in first for i in range(len(seeds))
  }
  policies = np.zeros((len(seeds), *histories.moves.shape), nothing.reach.dtype)
  search_some = _search_some[work_on_trees()]
  done, total = 0, len(decisions) * len(seeds)
  for depth in range(int(histories.depth[-1]) + 1):
    ready = [job for job in waiting if histories.depth[job[0]] == depth]
    needed = {job: _room(rooms, sizes[_root(histories, waiting, job)]) for job in ready}
    for room in rooms:
      jobs = [job for job in ready if needed[job] == room]
      for start in range(0, len(jobs), batch_size):
        some = jobs[start : start + batch_size]
        filled = some + [some[-1]] * (batch_size - len(some))
        found = search_some(
          HowInserted(game, search.of_any_length(), room, network),
          jax.tree.map(lambda *x: np.stack(x), *(waiting[job] for job in filled)),
          _here(histories, [node for node, _ in filled]),
          _keys(histories, filled, seeds),
          np.arange(batch_size) < len(some),
          search.rounds,
          params,
        )
        policy = np.asarray(found.policy)
        starts.found.clear()
        starts.add(
          found.left, [(r, n, s) for r, (s, _) in enumerate(some) for n in below.get(s, ())]
        )
        for row, (node, i) in enumerate(some):
          policies[i, node] = policy[row]
          del waiting[node, i]
          waiting |= {(n, i): starts.found[row, n] for n in below.get(node, ())}
        done += len(some)
        if progress is not None:
          progress(done, total)
  return policies


class _Starts:
  """Finds where searches start from what others left, many at a time.

  Attributes:
    found: by the row of the search before, and the decision.
  """

  def __init__(self, histories: Histories):
    self.histories = histories
    self.found: dict[tuple[int, int], InsertedStart] = {}

  def add(self, left: LeftInserted, jobs: list[tuple[int, int, int | None]]) -> None:
    """Finds those of `jobs`: row of `left` `[B, ...]`, the decision, that of the last search."""
    histories, longest = self.histories, longest_wait(self.histories.game)
    block = 64
    for start in range(0, len(jobs), block):
      some = jobs[start : start + block]
      filled = some + [some[-1]] * (block - len(some)) if len(jobs) > block else some
      since = np.full((len(filled), longest), -1, np.int32)
      for row, (_, node, above) in enumerate(filled):
        actions = histories.since(node, above)
        since[row, : len(actions)] = actions
      rows = np.array([row for row, _, _ in filled])
      nodes = np.array([node for _, node, _ in filled])
      found = _next_starts(histories.game, left, rows, since, histories.kind[nodes])
      found = jax.tree.map(np.asarray, found)
      for i, (row, node, _) in enumerate(some):
        self.found[row, node] = jax.tree.map(lambda x, i=i: x[i], found)


@functools.partial(jax.jit, static_argnames="game")
def _next_starts(game: DeviceGame, left: LeftInserted, rows: Any, since: Any, searcher: Any):
  one = lambda row, since, searcher: next_inserted_start(  # noqa: E731
    game, jax.tree.map(lambda x: x[row], left), since, searcher
  )
  return jax.vmap(one)(rows, since, searcher)


def _search(
  how: HowInserted, start: Any, here: Any, keys: Any, active: Any, rounds: Any, params: Any
) -> FoundInserted:
  about = InsertedSearch(start, here)
  return search_each_inserted(about, keys, active, how=how, rounds=rounds, params=params)


_search_some = Programs(_search, static_argnames="how")


def _keys(histories: Histories, jobs: Sequence[tuple[int, int]], seeds: Sequence[int]) -> jax.Array:
  taken = np.full((len(jobs), histories.game.max_moves), -1, np.int32)
  for row, (node, _) in enumerate(jobs):
    actions = histories.since(node, None)
    taken[row, : len(actions)] = actions
  return _decision_keys(jnp.stack([jax.random.key(seeds[i]) for _, i in jobs]), taken)


_decision_keys = jax.jit(jax.vmap(decision_key))


def _here(histories: Histories, nodes: Sequence[int]) -> PublicState:
  return PublicState(jnp.asarray(histories.state[nodes]), jnp.asarray(histories.possible[nodes]))


def _root(histories: Histories, waiting: Any, job: tuple[int, int]) -> int:
  """Returns the history at which a search starts."""
  node = job[0]
  for _ in range(int((waiting[job].path >= 0).sum())):
    node = int(histories.parent[node])
  return node


def _room(rooms: Sequence[int], size: int) -> int:
  """Returns the least room that is enough, the most if none is."""
  return next((room for room in rooms if room >= size), rooms[-1])


def _last_decision(histories: Histories, node: int) -> int | None:
  """Returns the decision of the same player before `node`, if there is one."""
  above = int(histories.parent[node])
  while above >= 0 and histories.kind[above] != histories.kind[node]:
    above = int(histories.parent[above])
  return above if above >= 0 else None
