"""Approximates equilibria: of one game or many, for a number of iterations or to a target."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from games.arrays import Weight, kind_of
from games.poker.lines import Lines
from games.public_tree import Array, PublicTree, check_is_tree, gathered
from solvers import loop, tuning, validation
from solvers.algorithms.cfr import CFR, Algorithm
from solvers.algorithms.regret_rules import at_horizon
from solvers.half import from_half, is_half
from solvers.leaf_values import LeafQuery, LeafValues, shared_by_program
from solvers.metrics.policies import exploitability_of, policy_values
from solvers.solve_boards import ByBoards, boards_on, resumes
from solvers.sweeps.lines.problem import LinesProblem, largest_table, make_lines_problem
from solvers.sweeps.pairs import root_mass
from solvers.sweeps.problem import Alternatives, Lock, make_lock, make_problem
from solvers.xla import (
  Programs,
  Work,
  layout_of_rows,
  map_over_cores,
  on_mesh_of,
  varying_alike,
  work_of_solving,
)


class Solution(NamedTuple):
  """An approximate equilibrium of one (sub)game; of a batch every array has a leading axis `[B]`.

  Attributes:
    average_policy: `[N, H]` the policy that converges to an equilibrium: the probability that the
      mover at n's parent, holding infostate h, moves to n. Of lines `[n, W]` for each level, W
      being the columns of the player who moved.
    root_values: `[P, H]` expected payoff to each player given its root infostate; None for lines.
    current_policy: `[N, H]` the policy of the last iteration; None for lines.
    exploitability: of the average policy, in the game's units; None for a tree without a target.
    iterations: one player's updates each; None without a target.
    sums: of lines, with a target, by CFR whose rule keeps one number a move: sums of regrets and of
      policies by level, from which `solve` can go on; on the last of several rounds as `Half`.
  """

  average_policy: Any  # [N, H]
  root_values: Any = None  # [P, H]
  current_policy: Any = None  # [N, H]
  exploitability: Any = None
  iterations: Any = None
  sums: Any = None


class Given(NamedTuple):
  """Arguments of a solve beside the game, as arrays; see `solve`."""

  beliefs: jax.Array | None = None
  initial_policy: jax.Array | None = None
  lock: Lock | None = None
  alternatives: Alternatives | None = None
  start: tuple[Any, int] | None = None  # sums, and updates of each player


def solve(
  tree: PublicTree | Lines,
  *,
  algorithm: Algorithm,
  num_iterations: int | jax.Array,
  target: float | None = None,
  beliefs: Array | None = None,
  leaf_values: LeafValues | None = None,
  params: Any = None,
  initial_policy: Array | None = None,
  locked: Lock | Array | None = None,
  alternatives: Alternatives | Array | None = None,
  progress: Callable[[Solution], bool | None] | None = None,
  tables: str | None = None,
  devices: Sequence[jax.Device] | None = None,
  start: Solution | None = None,
) -> Solution:
  """Approximates an equilibrium of the (sub)game that `tree` represents.

  Without a target it works under `jax.jit`, `jax.vmap` (over beliefs, params and stacked trees) and
  inside `lax.scan`, compiled once for each tree structure, algorithm and `leaf_values`. With one
  the algorithm goes on where it was after each look at the exploitability: after 32 iterations, and
  then after a quarter more each time, at least 32.

  Args:
    tree: one tree, from `games.build_public_tree`, or a spot of hold'em as lines of betting
      (`games.poker.lines.make_lines`), which hold their own beliefs and have no leaves.
    algorithm: such as `solvers.linear_cfr()`; static.
    num_iterations: one player's update is one, player 0 is first; with a target the most, and even.
      A number inside a `jit` of your own, an odd one, and one on an accelerator are static; a
      `jax.Array`, which is even, is traced: a program for all numbers, without derivatives.
    target: exploitability to stop at, in the game's units, at least 0; None for no stop.
    beliefs: `[P, H]` at the root, each row a distribution; None for the tree's own prior. The joint
      prior is the product of the rows and the pairs' weights, renormalised.
    leaf_values: function of `(params, query)`, see `LeafQuery`: the traverser's expected values
      `[L, H]`; required if the tree is depth-limited; static. Two functions of one program are
      compiled once.
    params: passed on to `leaf_values`.
    initial_policy: `[N, H]` the first policy, or what `solvers.warm_started` starts from; None for
      uniform.
    locked: `[N]` or `[N, H]` bool, the same for all moves of a choice: where true, the player who
      moves keeps to `initial_policy`, and both know. Or a `Lock`, as `solvers.lock` makes; of lines
      `[lines, 1]`, for all hands and boards, or `[lines, W]` by the first round's columns.
    alternatives: `[H]` what the opponent is promised instead, with `solvers.with_gadget` only.
    progress: with a target, called at looks and every few seconds; it ends the solve by True.
      Policies are None where CFR solves lines of several rounds, board by board.
    tables: of such lines: `float16`, scaled for each line and board; None for their own type.
    devices: they share the boards of such lines' last round; None for all of this process.
      `jax.config.update("jax_num_cpu_devices", 2)`, before anything else, makes two of a CPU's
      cores.
    start: what to go on from: a solution of the same lines by the same algorithm, with `sums`. Its
      iterations count among `num_iterations`.

  Returns:
    The solution. `root_values[p, h]` is p's payoff given root infostate h, the other's infostate
    drawn from the root beliefs conditioned on it: for CFR-D the mean over p's updates with the
    algorithm's weights (ReBeL, algorithm 2), else that of the average policy. Zero without a
    compatible infostate of the other, and for player 1 of CFR-D after a single iteration.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: a static argument is out of range, a shape is wrong, a depth-limited tree has no
      `leaf_values` or a target, or concrete beliefs or policies are not distributions.
  """
  number = _check_settings(algorithm, num_iterations, target)
  if progress is not None and not (callable(progress) and target is not None):
    raise TypeError(f"progress={validation.short(progress)} must be a function, with a target")
  boards = None
  if isinstance(tree, Lines) and len(tree.streets) > 1 and isinstance(algorithm, CFR):
    boards = ByBoards(algorithm, tables) if algorithm.alternating else None  # type: ignore[arg-type]
  if tables is not None and boards is None:
    raise ValueError(
      f"tables={validation.short(tables)} are for CFR with turns on lines of several rounds"
    )
  given = (beliefs, initial_policy, locked, alternatives)
  begun = None if start is None else _check_start(tree, algorithm, number, target, start)
  done = 0 if begun is None else 2 * begun[1]
  if isinstance(tree, Lines):
    lock = validation.check_lines_alone(tree, leaf_values, *given)
    if boards is None:
      rows, others = (tree, Given(lock=lock, start=begun), None), (None, None, target, number)
      return _find(rows, others, algorithm, None, progress=progress, done=done)
    if int(number) % 2:
      raise ValueError(f"num_iterations={number} of lines of several rounds must be even")
    boards = at_horizon(boards, int(number) // 2)
    run, read = boards_on(tree, boards, devices, lock, start=begun)
    look = lambda n: Solution(None, exploitability=run(n))  # noqa: E731
    found = loop.until(look, target, number, progress, _table_bytes(tree), done)
    policy, sums = read()
    return found._replace(average_policy=policy, sums=sums)
  validation.check_unstacked(tree)
  validation.check_leaves(tree, leaf_values, target)
  validation.check_given(tree, algorithm, *given)
  function, params, _ = _bound(tree, leaf_values, params, given, algorithm)
  arrays = _as_given(tree, *given)
  if not tuning.on_cpu():
    tree = dataclasses.replace(tree, structure=gathered(tree.structure))
  others = None, params, target, number
  return _find((tree, arrays, None), others, algorithm, function, progress=progress)


def _check_start(
  tree: Any, algorithm: Any, number: Any, target: Any, start: Solution
) -> tuple[Any, int]:
  """Returns the sums that a solve goes on from, and how often each player was updated."""
  begun = isinstance(start, Solution) and start.sums and target is not None
  if not (begun and isinstance(tree, Lines) and resumes(algorithm)):
    raise ValueError("start must be a solution with sums, of lines by CFR with a target")
  sums = jax.tree.map(lambda x: from_half(x) if is_half(x) else x, start.sums, is_leaf=is_half)
  wanted = [None if x.mover is None else size for x, size in zip(tree.levels, tree.shapes)]
  if any([None if x is None else np.shape(x) for x in rows] != wanted for rows in sums):
    raise ValueError("start must be of the same lines")
  if int(number) <= start.iterations:
    raise ValueError(f"num_iterations={number} must be more than start's {start.iterations}")
  return sums, start.iterations // 2


def solve_batch(
  trees: PublicTree | Sequence[Lines],
  *,
  algorithm: Algorithm,
  num_iterations: int | jax.Array,
  target: float | None = None,
  beliefs: Array | None = None,
  leaf_values: LeafValues | None = None,
  params: Any = None,
  initial_policy: Array | None = None,
  locked: Lock | Array | None = None,
  alternatives: Alternatives | Array | None = None,
  batch_size: int | None = None,
) -> Solution:
  """Solves `B` subgames as `solve` would one at a time.

  `batch_size` subgames are solved side by side under `jax.vmap`, and one such piece after another;
  a CPU's cores, or this process's accelerators, share the pieces.

  Args:
    trees: `B` trees of different roots, stacked by `games.stack_trees`, or one tree that is solved
      at `B` beliefs. Or a list of lines of one round, made alike by
      `games.poker.lines.share_shapes`.
    algorithm, num_iterations, leaf_values, params: as for `solve`.
    target: exploitability that each stops at, when `solve` would look at it; None for no stop.
    beliefs: `[B, P, H]` at the roots; None, for stacked trees, for each tree's own prior.
    initial_policy, alternatives: `[B, ...]`, as for `solve`.
    locked: `[B, N, H]` or `[B, N]`, as for `solve`.
    batch_size: subgames side by side; None for `default_batch_size(trees)`, which was measured.

  Returns:
    The solutions; every array has a leading axis `[B]`.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: as `solve`, or `batch_size` is not a positive integer, one tree comes without
      beliefs, the numbers of trees, beliefs and policies differ, or shapes of lines differ.
  """
  number = _check_settings(algorithm, num_iterations, target)
  given = (beliefs, initial_policy, locked, alternatives)
  game: Any = trees
  stacked, function, own = True, None, None
  if isinstance(trees, list | tuple) and trees and all(isinstance(x, Lines) for x in trees):
    validation.check_lines_alone(None, leaf_values, *given)
    game, arrays = _stack_lines(trees), Given()
  elif isinstance(trees, PublicTree):
    stacked = trees.prior.ndim == 3
    validation.check_leaves(trees, leaf_values, target)
    _check_rows(trees, stacked, algorithm, *given)
    function, params, own = _bound(trees, leaf_values, params, given, algorithm)
    arrays = _as_given(trees, *given)
  else:
    raise TypeError(
      f"trees={type(trees).__name__} must be a PublicTree, of several made by games.stack_trees, "
      "or a list of lines, as games.poker.lines.make_lines returns them"
    )
  if batch_size is None:
    batch_size = default_batch_size(game)
  batch_size = validation.check_integer("batch_size", batch_size)
  rows, shared = (game if stacked else None, arrays, own), None if stacked else game
  size, how = len(jax.tree.leaves(rows)[0]), (algorithm, function, batch_size)
  others = shared, params, target, number
  if (layout := layout_of_rows(rows)) is not None:
    return _on_layout(rows, others, layout, *how)
  if not validation.is_concrete(rows, params, number):
    return _find(rows, others, *how)
  if not tuning.on_cpu():
    return _share(rows, others, *how)
  shapes = () if stacked else (game.structure, *(x.shape for x in jax.tree.leaves(game)))
  key = (shapes, algorithm, number % 2 and number, target is None, function, batch_size)
  return map_over_cores(
    lambda part: _find(part, others, *how), rows, most=-(-size // batch_size), key=key
  )


def default_batch_size(tree: PublicTree | Lines) -> int:
  """Returns how many subgames of the shape of `tree` to solve side by side on this device."""
  pieces = tuning.pieces()
  if isinstance(tree, Lines) and pieces.spots is not None:
    return pieces.spots
  return max(1, pieces.table_bytes // _table_bytes(tree))


def _table_bytes(tree: PublicTree | Lines) -> int:
  if isinstance(tree, Lines):
    return largest_table(tree)
  check_is_tree(tree)
  return tree.num_nodes * tree.num_infostates * np.dtype(tree.dtype).itemsize


# Programs. A row is a game (None where all share one), its arguments, and params of its own.


def _find(rows, others, algorithm, leaf_values, most=None, progress=None, done=0) -> Solution:
  """Solves one row, or rows `[B]`, `most` side by side at most, where their arrays are laid out."""
  shared, params, target, number = others
  piece = None
  if most is not None:
    # As many pieces as needed, of sizes as equal as can be: little of the last one is padding.
    size = len(jax.tree.leaves(rows)[0])
    piece = -(-size // -(-size // most))
  with on_mesh_of(rows, shared, params):
    game = rows[0] if shared is None else shared
    work = work_of_solving(game, leaf_values, rows[1:], params, number)
    if target is None:
      # Outside of any `jit` on a CPU: on an accelerator the host would have to read the number.
      cpu = work in (Work.TREES, Work.NETWORKS)
      traced = isinstance(number, jax.Array) or (cpu and number % 2 == 0)
      return _wholes[work](
        rows, shared, params, number if traced else None, algorithm=algorithm,
        leaf_values=leaf_values, num_iterations=None if traced else number,
        scored=isinstance(game, Lines), piece=piece,
      )  # fmt: skip
    rows, shared = jax.device_put((rows, shared))  # `asarray` compiles a program for every shape
    algorithm = at_horizon(algorithm, number // 2)
    if piece is not None:
      return _targets[work](rows, shared, target, algorithm=algorithm, most=number, piece=piece)
    problem, state = _begins[work](rows, shared, algorithm=algorithm, piece=None)

    def run(number: int) -> Solution:
      nonlocal state
      state, found = _looks[work](problem, state, number, algorithm=algorithm, piece=None)
      return found

    found = loop.until(run, target, number, progress, _table_bytes(game), done)
    if not (isinstance(game, Lines) and resumes(algorithm)):
      return found
    return found._replace(sums=(state.regret, state.average))


def _share(rows, others, *how) -> Solution:
  """Solves rows `[B]`, an equal part on each device of this process."""
  size, devices = len(jax.tree.leaves(rows)[0]), jax.local_devices()
  if len(devices) == 1 or size == 1:
    return _find(rows, others, *how)
  mesh = Mesh(np.array(devices[:size]), ("rows",))
  # The last part is filled up with the last row.
  places = np.minimum(np.arange(-(-size // mesh.size) * mesh.size), size - 1)
  rows = jax.tree.map(lambda x: jnp.asarray(x)[places], rows)
  found = _on_layout(rows, others, NamedSharding(mesh, PartitionSpec("rows")), *how)
  return jax.tree.map(lambda x: x[:size], found)


def _on_layout(rows, others, layout: NamedSharding, *how) -> Solution:
  """Solves rows `[B]` where they are, or are to be: each device its own."""
  traced = isinstance(others[-1], jax.Array)
  return _find_on_mesh(rows, others[: 3 + traced], layout, None if traced else others[-1], *how)


@functools.partial(jax.jit, static_argnums=range(2, 7))
def _find_on_mesh(rows, others, layout, number, *how) -> Solution:
  def find(rows, others):
    return _find(rows, others if number is None else (*others, number), *how)

  mesh, own, same = layout.mesh, layout.spec, PartitionSpec()
  if AxisType.Explicit in mesh.axis_types:
    rows, others = (
      jax.reshard(x, NamedSharding(mesh, y)) for x, y in ((rows, own), (others, same))
    )
  # Devices do nothing together, which the checker cannot see through loops.
  return jax.shard_map(find, mesh=mesh, in_specs=(own, same), out_specs=own, check_vma=False)(
    rows, others
  )


@functools.partial(Programs, static_argnames=("algorithm", "piece"))
def _targets(rows, shared, target, *, algorithm, most, piece) -> Solution:
  """Solves rows `[B]`, `piece` side by side, each until its solution is within the target."""

  def together(rows):
    problem, state = _begin_rows(rows, shared, algorithm=algorithm, piece=piece)
    go_on = functools.partial(_look, problem, algorithm=algorithm, piece=piece)

    def look(carry):
      state, done, found = carry
      number = loop.before_next_look(done, most, jnp.maximum, jnp.minimum)
      going = ~(found.exploitability <= target)
      state, new = go_on(state, number)
      new = new._replace(iterations=jnp.full_like(found.iterations, done + number))
      picked = jax.tree.map(
        lambda x, y: jnp.where(going.reshape(-1, *[1] * (x.ndim - 1)), x, y), new, found
      )
      return state, done + number, picked

    def goes_on(carry):
      return (carry[1] < most) & ~(carry[2].exploitability <= target).all()

    like = jax.eval_shape(go_on, state, 2)[1]
    found = jax.tree.map(lambda x: jnp.full(x.shape, jnp.inf).astype(x.dtype), like)
    start = varying_alike((state, jnp.asarray(0), found), rows)
    return lax.while_loop(goes_on, lambda x: varying_alike(look(x), rows), start)[2]

  return _in_pieces(together, rows, piece)


@functools.partial(
  Programs,
  static_argnames=("algorithm", "leaf_values", "num_iterations", "scored", "piece"),
)
def _wholes(
  rows, shared, params, traced, *, algorithm, leaf_values, num_iterations, scored, piece
) -> Solution:
  number = num_iterations if traced is None else traced
  rows, shared, params = varying_alike((rows, shared, params))

  def one(row):
    problem, evaluate, policy = _problem(row, shared, piece, params, leaf_values)
    state = loop.run(problem, algorithm, evaluate, number, policy=policy).state
    return _read(problem, algorithm, state, evaluate, number if scored else None)

  return _over(one, rows, piece)


def _begin_rows(rows, shared, *, algorithm, piece):
  def one(row):
    problem, _, policy = _problem(row, shared, piece)
    if row[1].start is not None:
      return problem, algorithm.resume(problem, *row[1].start)
    return problem, loop.begin(problem, algorithm, policy=policy)

  return _over(one, rows, piece)


def _look(problem, state, number, *, algorithm, piece):
  def one(row):
    problem, state = row
    state = loop.run(problem, algorithm, None, number, state=state).state
    return state, _read(problem, algorithm, state, None, 0)

  return _over(one, (problem, state), piece)


def _problem(row, shared, piece, params=None, leaf_values=None):
  """Returns the problem of a row, the values of its leaves, and its first policy."""
  game, given, own = row
  lanes = 1 if game is None else piece or 1
  game = shared if game is None else game
  if isinstance(game, Lines):
    return make_lines_problem(game, given.lock), None, None
  problem = make_problem(
    game, given.beliefs, lock=given.lock, alternatives=given.alternatives, lanes=lanes
  )
  policy = None if given.initial_policy is None else problem.split(given.initial_policy)
  if leaf_values is None:
    return problem, None, policy
  params = params if own is None else (params, own)

  def evaluate(query: LeafQuery) -> jax.Array:
    answer = leaf_values(params, query)
    validation.check_leaf_answer(len(query.beliefs), game.num_infostates, answer)
    return answer

  return problem, evaluate, policy


def _read(problem, algorithm: Algorithm, state, evaluate, iterations: int | None) -> Solution:
  average = algorithm.average_policy(problem, state)
  gap = None if iterations is None else exploitability_of(problem, average)
  if isinstance(problem, LinesProblem):
    return Solution(average, exploitability=gap, iterations=iterations)
  if algorithm.uses_average:
    root_values = policy_values(problem, average, evaluate)
  else:
    root_values = algorithm.root_values(problem, state)
  current = algorithm.current_policy(problem, state)
  return Solution(problem.join(average), root_values, problem.join(current), gap, iterations)


def _over(function: Callable[[Any], Any], rows: Any, piece: int | None) -> Any:
  """Applies a function of a row to rows `[B]`, `piece` side by side; None for one row alone."""
  if piece is None:
    return function(rows)
  if piece == 1 < len(jax.tree.leaves(rows)[0]):
    return lax.map(function, rows)
  return _in_pieces(jax.vmap(function), rows, piece)


def _in_pieces(function: Callable[[Any], Any], rows: Any, piece: int) -> Any:
  """Applies a function of `piece` rows to rows `[B]`."""
  size = len(jax.tree.leaves(rows)[0])
  if size == piece:
    return function(rows)
  # The last piece is filled up with the last row.
  places = np.minimum(np.arange(-(-size // piece) * piece), size - 1).reshape(-1, piece)
  found = lax.map(function, jax.tree.map(lambda x: jnp.asarray(x)[places], rows))
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], found)


_begins = Programs(_begin_rows, static_argnames=("algorithm", "piece"))
_looks = Programs(_look, static_argnames=("algorithm", "piece"))


# Arguments.


def _as_given(trees: PublicTree, beliefs, policy, locked, alternatives) -> Given:
  """Returns checked arguments of one tree, or of a batch, as arrays of the type of the trees."""
  beliefs = jnp.asarray(trees.prior if beliefs is None else beliefs, trees.dtype)
  policy = None if policy is None else jnp.asarray(policy, trees.dtype)
  if alternatives is not None:
    rows = alternatives if isinstance(alternatives, Alternatives) else Alternatives(alternatives)
    alternatives = jax.tree.map(lambda x: jnp.asarray(x, trees.dtype), rows)
  return Given(beliefs, policy, make_lock(locked, policy, trees.dtype), alternatives)


def _check_settings(algorithm: Algorithm, num_iterations: Any, target: float | None) -> Any:
  """Returns the checked number of iterations, as it was if that is a traced or an even array."""
  validation.check_algorithm(algorithm)
  if not validation.is_concrete(num_iterations) and target is None:
    if num_iterations.shape or not jnp.issubdtype(num_iterations.dtype, jnp.integer):
      raise ValueError(f"num_iterations={num_iterations!r} must be an integer")
    return num_iterations
  number = validation.check_num_iterations(num_iterations, algorithm.alternating)
  if target is None and isinstance(num_iterations, jax.Array) and number % 2 == 0:
    return num_iterations
  if target is not None and (number % 2 or not kind_of(Weight)[0](target)):
    raise ValueError(
      f"num_iterations={num_iterations!r} must be even, and target={validation.short(target)} "
      "finite and at least 0, or None"
    )
  return number


def _bound(trees: PublicTree, leaf_values: Any, params: Any, given: Any, algorithm: Any) -> Any:
  """Returns the function of leaves, its params, and each row's own params; None without leaves."""
  own = None
  if not trees.depth_limited:
    return None, None, None
  if trees.prior.ndim == 3 and hasattr(leaf_values, "bind_stacked"):
    leaf_values, params, own = leaf_values.bind_stacked(trees)
  elif hasattr(leaf_values, "bind"):
    leaf_values, params = leaf_values.bind(trees)
  if validation.is_concrete(trees, given, params):
    sound = getattr(algorithm, "sound", False)
    leaf_values = shared_by_program(leaf_values, params, trees, sound)
  return leaf_values, params, own


def _stack_lines(spots: Sequence[Lines]) -> Lines:
  shapes = {
    (jax.tree.structure(x), *((y.shape, y.dtype) for y in jax.tree.leaves(x))) for x in spots
  }
  if len(shapes) != 1:
    raise ValueError(
      f"trees={len(spots)} lines of {len(shapes)} shapes must be of one shape; see "
      "games.poker.lines.share_shapes"
    )
  return jax.tree.map(lambda *rows: np.stack(rows), *spots)


def _check_rows(
  trees: PublicTree, stacked: bool, algorithm, beliefs, policy, locked, alternatives
) -> None:
  """Checks shapes always, and contents of each subgame where they are concrete."""
  shape = (trees.num_nodes, trees.num_infostates)
  if beliefs is None and not stacked:
    raise ValueError("beliefs=None with one tree; give beliefs [B, P, H], or stacked trees")
  beliefs = trees.prior if beliefs is None else beliefs
  batch = np.shape(beliefs)[0] if np.ndim(beliefs) == 3 else 0
  if np.shape(beliefs)[1:] != (2, shape[1]) or batch == 0:
    raise ValueError(
      f"beliefs of shape {np.shape(beliefs)} must have shape (B, 2, {shape[1]}) (B, P, H), B > 0"
    )
  if stacked and len(trees.prior) != batch:
    raise ValueError(f"beliefs are for {batch} subgames, but trees for {len(trees.prior)}")
  if policy is not None and np.shape(policy) != (batch, *shape):
    raise ValueError(
      f"initial_policy of shape {np.shape(policy)} must have shape {(batch, *shape)} (B, N, H)"
    )
  if not isinstance(locked, Lock | None) and np.ndim(locked) not in (2, 3):
    raise ValueError(
      f"locked of shape {np.shape(locked)} must have shape {(batch, *shape)} (B, N, H), or (B, N)"
    )
  given = (beliefs, policy, locked, alternatives)

  def check(tree, given):
    validation.check_given(tree, algorithm, *given)

  rows: Sequence[int] = range(batch)
  if validation.is_concrete(trees, given):
    trees, given = jax.tree.map(np.asarray, (trees, given))  # rows of numpy's arrays cost nothing
    if policy is None and locked is None and alternatives is None:
      validation.check_alternatives(trees, algorithm, None)
      rows = _suspects(trees, stacked, given[0])
  validation.check_rows(check, (trees, given), (0 if stacked else None, 0), rows, "subgame")


@functools.partial(Programs, static_argnames="stacked")
def _root_masses(trees: PublicTree, beliefs: jax.Array, stacked: bool) -> jax.Array:
  return jax.vmap(root_mass, (0 if stacked else None, 0))(trees, beliefs)


def _suspects(trees: PublicTree, stacked: bool, beliefs: np.ndarray) -> list[int]:
  """Returns the subgames whose beliefs need a check of their own, by one batched test."""
  with np.errstate(invalid="ignore"):
    wrong = ~np.isfinite(beliefs) | (beliefs < 0)
    off = np.abs(beliefs.astype(float).sum(axis=-1, keepdims=True) - 1)
    wrong |= off > validation.tolerance(beliefs)
    if trees.possible is not None:
      possible = np.asarray(trees.possible)
      wrong |= (beliefs > 0) & ~(possible[:, 0] if stacked else possible[0])
  with jax.ensure_compile_time_eval():  # inside a `jit` of others, too
    mass = _root_masses(trees, beliefs, stacked)
  together = (beliefs[:, 0] * np.asarray(mass)[:, 0]).sum(axis=-1)
  return np.flatnonzero(wrong.any(axis=(1, 2)) | ~(together > 0)).tolist()
