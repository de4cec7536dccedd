"""CFR on a spot of hold'em, the last round a few boards at a time, on a mesh's devices."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from games.arrays import check_fields
from games.poker.lines.lines import LineLevel, Lines
from solvers import loop, tuning
from solvers.algorithms.cfr import CFR, CFRState, replace_player
from solvers.algorithms.regret_rules import Siblings, decay
from solvers.half import from_half, half_zeros, is_half, to_half
from solvers.sweeps.levels import Levels
from solvers.sweeps.lines.parts import (
  AXIS,
  Part,
  PartedProblem,
  at,
  join_parts,
  layout,
  make_parted_problem,
  split_parts,
)
from solvers.sweeps.lines.problem import LinesProblem
from solvers.sweeps.problem import Lock
from solvers.xla import Programs, Work

Tables = tuple[Any, ...]  # for each level of the last round that a player moved to, `[K, n, W]`


class BoardsState(NamedTuple):
  """State of CFR by boards."""

  # Of the last round there are sums of regrets and of policies alone. A player's policy, and its
  # reach, follow from its regrets, and its newest policy is counted in its average when the other
  # is next updated, since its reach is needed then anyway.
  top: CFRState  # of the rounds before
  regret: tuple[tuple[Tables, ...], tuple[Tables, ...]]  # of each player, part by part
  average: tuple[tuple[Tables, ...], tuple[Tables, ...]]
  key: Any = ()  # of draws, where an algorithm makes any


@dataclasses.dataclass(frozen=True)
class ByBoards:
  """CFR whose tables of the last round are visited a few boards at a time."""

  # It computes what `cfr` does on the problem in one piece, to rounding. Each device visits its own
  # chunks, whose values for the rounds before are gathered once an update.
  cfr: CFR  # the algorithm, with turns
  tables: Literal["float16"] | None = None  # of the last round's sums: None for the lines' type

  def __post_init__(self):
    check_fields(self)

  alternating = True
  primed = ()

  def init(self, problem: PartedProblem, policy: Levels | None = None) -> BoardsState:
    assert policy is None, "it begins from the uniform policy"
    top = self.cfr.init(problem.top)
    average: Any = tuple(
      tuple(self._zeros(problem, part, p, self.tables is not None) for part in problem.parts)
      for p in (0, 1)
    )
    regret = jax.tree.map(self.cfr.rule.init, average, is_leaf=is_half)
    state = BoardsState(top, regret, average)
    return self._count_first(problem, state)

  def update(
    self, problem: PartedProblem, state: BoardsState, values: Any, player: int
  ) -> tuple[BoardsState, Any]:
    other = 1 - player
    k = self._count(state, player) + 1
    factor = decay(self._count(state, other), self.cfr.averaging)
    arrivals = problem.arrivals(state.top.reach[other])

    def learn_part(number: int, part: Part) -> Any:
      def visit(i, carry):
        own, counted, found = carry
        before = at(own, i), at(state.regret[other][number], i), at(counted, i)

        def learn(*tables):
          own, others, counted = map(_unpack, tables)
          chunk = problem.chunk(part, i)
          now = self._state(chunk, {player: own, other: others}, state)
          reach = chunk.own_reach(now.policy, other, problem.deal(part, i, arrivals, other))
          sweep = chunk.values_up(now.policy, reach, None, player)
          learned = self.cfr.learn(chunk, now, sweep, player, k)
          newest = _moved(chunk, reach, other)
          counted = tuple(x * factor + y for x, y in zip(counted, newest, strict=True))
          own = _moved(chunk, learned.regret, player)
          return self._pack(part, own), self._pack(part, counted), sweep.nodes[0].T

        rows = _apart(k, learn, before)
        return _put(own, i, rows[0]), _put(counted, i, rows[1]), _put(found, i, rows[2])

      shape = (*part.belief[player].shape, problem.num_rows)
      start = state.regret[player][number], state.average[other][number]
      empty = jnp.zeros(shape, part.belief[0].dtype)
      return self.visit_chunks(part, number, state, player, visit, (*start, empty))

    learned = itertools.starmap(learn_part, enumerate(problem.parts))
    regrets, averages, collected = zip(*learned)
    leaves = problem.collect(collected, player)
    top, sweep = self.cfr.update_weighed(problem.top, state.top, leaves, player)
    state = state._replace(
      top=top,
      regret=replace_player(state.regret, player, regrets),
      average=replace_player(state.average, other, averages),
    )
    return state, sweep

  def go_on(
    self, problem: PartedProblem, state: BoardsState, number: Any
  ) -> tuple[BoardsState, jax.Array]:
    """Returns the state after a number of iterations, and the exploitability then."""
    # It has what the loop needs of an algorithm where there are no leaves.
    state = loop.run(problem, self, None, number, state=state).state  # type: ignore[arg-type]
    return state, self.exploitability(problem, state)

  def resume(self, problem: PartedProblem, sums: Any, number: Any) -> BoardsState:
    """Returns the state after some updates of each player, with sums of `top` and of parts."""
    above, below = zip(*sums)
    pack = lambda rows: tuple(map(self._pack, problem.parts, rows))  # noqa: E731
    return BoardsState(
      self.cfr.resume(problem.top, above, number), *((pack(x), pack(y)) for x, y in below)
    )

  def visit_chunks(
    self, part: Part, number: int, state: BoardsState, player: int, visit: Any, carry: Any
  ) -> Any:
    """Visits all chunks of a part; `visit` takes a chunk's index and what is carried along."""
    return lax.fori_loop(0, part.num_chunks, visit, carry)

  def _count(self, state: BoardsState, player: int) -> jax.Array:
    return state.top.updates[player].astype(state.top.policy[0].dtype)

  def _state(self, chunk: LinesProblem, rows: dict[int, Tables], state: BoardsState) -> CFRState:
    """Returns the state of CFR on a chunk, policies matched to regrets of one or both players."""
    policy = list(chunk.uniform_policy())
    regret: list[Any] = [None] * len(policy)
    for p, own in rows.items():
      k = self._count(state, p)
      for i, row in zip(_levels(chunk.lines.levels, p), own, strict=True):
        regret[i] = row
        policy[i] = self.cfr.rule.match(row, Siblings(chunk, i, p), k)
    nothing: Any = None
    return CFRState(tuple(policy), tuple(regret), (), nothing, nothing, state.top.updates)

  def _count_first(self, problem: PartedProblem, state: BoardsState) -> BoardsState:
    """Counts player 0's first policy, which is gone before player 1's first update."""
    arrivals = problem.arrivals(state.top.reach[0])
    averages = []
    for number, part in enumerate(problem.parts):

      def visit(i, counted, part=part):
        chunk = problem.chunk(part, i)
        start = problem.deal(part, i, arrivals, 0)
        reach = chunk.own_reach(chunk.uniform_policy(), 0, start)
        return _put(counted, i, self._pack(part, _moved(chunk, reach, 0)))

      averages.append(lax.fori_loop(0, part.num_chunks, visit, state.average[0][number]))
    return state._replace(average=replace_player(state.average, 0, tuple(averages)))

  # Results.

  def exploitability(self, problem: PartedProblem, state: BoardsState) -> jax.Array:
    """Returns the exploitability of the average policies, in chips."""
    policy = self.cfr.average_policy(problem.top, state.top)
    gap = self._worth(problem, state, policy, best=True)
    if problem.rakes is not None:
      gap = gap - self._worth(problem, state, policy, best=False)
    return gap / 2

  def _worth(
    self, problem: PartedProblem, state: BoardsState, policy: Levels, *, best: bool
  ) -> jax.Array:
    """Returns the sum of both players' payoffs, each against the other's average policy."""
    reach = problem.top.both_reach(policy)
    newest = problem.arrivals(state.top.reach[1])

    def worth(player: int) -> jax.Array:
      other = 1 - player
      arrivals = problem.arrivals(reach[other])

      def of_part(number: int, part: Part) -> jax.Array:
        def visit(i):
          chunk = problem.chunk(part, i)
          levels = {
            p: self._average_chunk(
              problem, state, newest, number, i, p, _unpack(at(state.average[p][number], i))
            )
            for p in ((other,) if best else (0, 1))
          }
          start = problem.deal(part, i, arrivals, other)
          below = chunk.own_reach(levels[other], other, start)
          own = None if best else levels[player]
          return chunk.values_up(own, below, None, player).nodes[0].T

        return lax.map(visit, jnp.arange(part.num_chunks))

      collected = list(itertools.starmap(of_part, enumerate(problem.parts)))
      leaves = problem.collect(collected, player)
      own = None if best else policy
      root = problem.top.values_up(own, reach[other], leaves, player).root
      return problem.top.worth(root, player)

    return worth(0) + worth(1)

  def _average_chunk(
    self,
    problem: PartedProblem,
    state: BoardsState,
    newest_arrivals: jax.Array,
    number: int,
    i: Any,
    player: int,
    rows: Tables,
  ) -> Levels:
    """Returns a player's average policy on a chunk; rows that it did not move to are uniform."""
    part = problem.parts[number]
    chunk = problem.chunk(part, i)
    if player == 1:  # the newest policy is not counted yet
      now = self._state(chunk, {1: _unpack(at(state.regret[1][number], i))}, state)
      start = problem.deal(part, i, newest_arrivals, 1)
      newest = _moved(chunk, chunk.own_reach(now.policy, 1, start), 1)
      factor = decay(self._count(state, 1), self.cfr.averaging)
      rows = tuple(x * factor + y for x, y in zip(rows, newest, strict=True))
    policy = list(chunk.uniform_policy())
    for index, row in zip(_levels(problem.levels, player), rows, strict=True):
      policy[index] = chunk.normalise_rows(index, player, row, free=False)
    return tuple(policy)

  def read(self, problem: PartedProblem, average: Any, state: BoardsState) -> Any:
    """Returns the average policy: levels of `top`, and of each player part by part `[K, n, W]`."""
    # `average` is an argument of its own, so that the policy may take its memory.
    found: Any = tuple(
      tuple(self._average_part(problem, state, x, number, player) for number, x in enumerate(own))
      for player, own in enumerate(average)
    )
    return self.cfr.average_policy(problem.top, state.top), found

  def _average_part(
    self, problem: PartedProblem, state: BoardsState, average: Tables, number: int, player: int
  ) -> Tables:
    part = problem.parts[number]
    k, newest = self._count(state, 0), problem.arrivals(state.top.reach[1])

    def visit(i, tables):
      # Sums that are not packed give way to the policy where they stand.
      rows = _unpack(at(tables if self.tables is None else average, i))

      def normalise(*rows):
        policy = self._average_chunk(problem, state, newest, number, i, player, rows)
        return tuple(policy[k] for k in _levels(problem.levels, player))

      return _put(tables, i, _apart(k, normalise, rows))

    start = average if self.tables is None else self._zeros(problem, part, player)
    return lax.fori_loop(0, part.num_chunks, visit, start)

  def _zeros(self, problem: PartedProblem, part: Part, player: int, halves: bool = False) -> Tables:
    chunks, width = part.belief[player].shape
    dtype = part.belief[player].dtype
    sizes = [problem.levels[i].size for i in _levels(problem.levels, player)]
    if not halves:
      return tuple(jnp.zeros((chunks, size, width), dtype) for size in sizes)
    boards = part.group.boards
    return tuple(half_zeros((chunks, size, boards, width // boards), dtype) for size in sizes)

  def _pack(self, part: Part, tables: Any) -> Any:
    """Returns tables `[n, W]` as they are kept: in 16 bits with a scale for each line and board."""
    if self.tables is None:
      return tables
    size = part.group.boards
    return jax.tree.map(lambda x: to_half(x.reshape(*x.shape[:-1], size, -1)), tables)


def _unpack(tables: Any) -> Any:
  def rows(x: Any) -> jax.Array:
    return from_half(x).reshape(*x.numbers.shape[:-2], -1) if is_half(x) else x

  return jax.tree.map(rows, tables, is_leaf=is_half)


def _levels(levels: Sequence[LineLevel], player: int) -> list[int]:
  """Returns which of the last round's levels a player moved to."""
  return [i for i, level in enumerate(levels) if level.mover == player]


def _moved(chunk: LinesProblem, rows: Levels, player: int) -> Tables:
  return tuple(rows[i] for i in _levels(chunk.lines.levels, player))


def _halved(problem: PartedProblem, top: Any, tables: Any) -> Any:
  """Returns sums by level, of the last round in 16 bits."""
  return (*top, None, *map(to_half, join_parts(problem, tables, lambda x: np.asarray(_unpack(x)))))


def _apart(k: jax.Array, function: Any, arguments: Any) -> Any:
  """Returns `function(*arguments)`, computed in a program of its own; `k` is at least one."""
  # Otherwise XLA reads a row of a table while the next is computed that is to stand in its place,
  # and copies the whole table for it, once a row. An accelerator takes all rows at once.
  if not tuning.pieces().apart:
    return function(*arguments)
  found = jax.eval_shape(function, *arguments)
  nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)
  return lax.cond(k > 0, function, lambda *_: nothing, *arguments)


def _put(tables: Any, index: Any, rows: Any) -> Any:
  return jax.tree.map(
    lambda x, row: lax.dynamic_update_index_in_dim(x, row, index, 0), tables, rows
  )


_EVERYWHERE: Any = PartitionSpec()
_SHARED: Any = PartitionSpec(AXIS)
_STATE = BoardsState(top=_EVERYWHERE, regret=_SHARED, average=_SHARED, key=_EVERYWHERE)


def resumes(algorithm: Any) -> bool:
  """Says whether it is CFR that keeps one sum of regrets for each move, and can thus `resume`."""
  if not isinstance(algorithm, CFR):
    return False
  return len(jax.tree.leaves(jax.eval_shape(algorithm.rule.init, 0.0))) == 1


def boards_on(
  lines: Lines,
  algorithm: ByBoards,
  devices: Sequence[jax.Device] | None,
  lock: Lock | None = None,
  key: Any = (),
  start: tuple[Any, int] | None = None,
) -> tuple[Callable[[int], jax.Array], Callable[[], Any]]:
  """Returns two functions that solve lines of more than one round of betting, step by step."""
  # The first goes on for some iterations and returns the exploitability. The second, called at the
  # end, returns the average policy, `[n, W]` for each level, and sums in 16 bits as of `Solution`.
  # `key` is of draws that updates make, `start` such sums and how often each player was updated.
  boards = sum(group.boards for group in lines.streets[-1].groups)
  chosen = list(jax.local_devices() if devices is None else devices)[:boards]
  mesh = Mesh(np.array(chosen), (AXIS,))
  work = Work.BOARDS if tuning.on_cpu() else Work.PLAIN
  problem = _part_boards(lines, mesh.size, lock)
  shardings = jax.tree.map(lambda x: NamedSharding(mesh, x), layout(problem))
  problem = jax.device_put(problem, shardings)
  how = problem, algorithm, mesh
  cut = len(problem.top.lines.levels)
  begun: tuple[Any, ...] = ("init",)
  if start is not None:
    sums = tuple((x[:cut], split_parts(problem, x[cut + 1 :])) for x in start[0])
    begun = "resume", sums, start[1]
  state = _calls[work](*how, *begun)._replace(key=key)

  def run(number: int) -> jax.Array:
    nonlocal state
    state, gap = _calls_in_place[work](*how, "go_on", state, number)
    return gap

  def read() -> Any:
    nonlocal state
    average, state = state.average, state._replace(average=())
    programs = _calls_in_place if algorithm.tables is None else _calls
    whole = resumes(algorithm.cfr)
    # Before they give way to the policy.
    counted = _halved(problem, state.top.average, average) if whole else None
    top, below = programs[work](*how, "read", average, state)
    rows = join_parts(problem, below)
    del average, below
    width = lines.streets[-1].width(0)
    deal = np.broadcast_to(np.ones(1, lines.dtype), (problem.num_rows, width))
    policy = (*map(np.asarray, top), deal, *rows)
    if not whole:
      return policy, None
    return policy, (_halved(problem, state.top.regret, state.regret), counted)

  return run, read


# How arguments beside the problem are laid out, and results, of methods that run on every device.
_LAYOUTS: dict[str, Any] = {
  "init": ((), _STATE),
  "resume": ((((_EVERYWHERE, _SHARED),) * 2, _EVERYWHERE), _STATE),  # `sums` of `top` and of parts
  "go_on": ((_STATE, _EVERYWHERE), (_STATE, _EVERYWHERE)),
  "read": ((_SHARED, _STATE), (_EVERYWHERE, _SHARED)),
}


def _on_mesh(problem, algorithm, mesh, name, *arguments):
  """Calls a method of the algorithm on every device with its share of the boards."""
  specs, results = _LAYOUTS[name]
  specs = layout(problem), *specs
  # What all devices compute from what was gathered is alike, which the checker cannot see.
  call = jax.shard_map(
    getattr(algorithm, name), mesh=mesh, in_specs=specs, out_specs=results, check_vma=False
  )
  return call(problem, *arguments)


_static: Any = {"static_argnames": ("algorithm", "mesh", "name")}
_part_boards = Programs(make_parted_problem, static_argnames="shares")
_calls = Programs(_on_mesh, **_static)
_calls_in_place = Programs(_on_mesh, donate_argnums=4, **_static)  # of what follows the name
