"""Solves many subgames in one call, in pieces that fit the cache or the device."""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import Array, PublicTree, check_is_tree
from solvers import validation
from solvers.algorithms.algorithm import Algorithm
from solvers.exact_leaf_values import ExactLeafValues
from solvers.leaf_values import LeafValues
from solvers.solve import Given, Solution, _run
from solvers.sweeps.constraints import Alternatives, Lock
from solvers.sweeps.pairs import root_mass
from solvers.xla.compiler_options import Programs, work_of_solving
from solvers.xla.cores import map_over_cores

# A solver reads and writes some eight tables `[N, H]` at each update. On a CPU they should stay
# in the cache nearest to the core: `python -m benchmarks.tabular --pieces` shows that throughput
# falls beyond this many bytes for one table of all subgames of a piece. An accelerator wants all
# the work there is, as long as it fits.
_CPU_TABLE_BYTES = 16 * 1024
_ACCELERATOR_TABLE_BYTES = 64 * 1024 * 1024


def default_batch_size(tree: PublicTree) -> int:
  """Returns how many subgames of the shape of `tree` to solve side by side on this device."""
  check_is_tree(tree)
  cpu = jax.default_backend() == "cpu"
  table = tree.num_nodes * tree.num_infostates * np.dtype(tree.dtype).itemsize
  return max(1, (_CPU_TABLE_BYTES if cpu else _ACCELERATOR_TABLE_BYTES) // table)


def solve_batch(
  trees: PublicTree,
  *,
  algorithm: Algorithm,
  num_iterations: int,
  beliefs: Array | None = None,
  leaf_values: LeafValues | None = None,
  params: Any = None,
  initial_policy: Array | None = None,
  locked: Lock | Array | None = None,
  alternatives: Alternatives | Array | None = None,
  batch_size: int | None = None,
) -> Solution:
  """Solves `B` subgames as `solve` would one at a time.

  Batching is the point here: `batch_size` subgames are solved side by side under `jax.vmap`, and
  one such piece after another.

  Args:
    trees: `B` trees of different roots, stacked by `games.stack_trees`, or one tree that is
      solved at `B` beliefs.
    algorithm, num_iterations: as for `solve`; static.
    beliefs: `[B, P, H]` at the roots; None, for stacked trees, for each tree's own prior.
    leaf_values, params: as for `solve`, shared by all subgames.
    initial_policy: `[B, N, H]`, as for `solve`; None for uniform.
    locked: `[B, N, H]` or `[B, N]`, as for `solve`.
    alternatives: `[B, H]`, as for `solve`.
    batch_size: how many subgames to solve side by side; None for `default_batch_size(trees)`,
      which was measured.

  Returns:
    The solutions; every array has a leading axis `[B]`.

  Raises:
    ValueError: as `solve`, or `batch_size` is not a positive integer, one tree comes without
      beliefs, or the numbers of trees, beliefs and policies differ.
  """
  if not isinstance(trees, PublicTree):
    raise TypeError(
      f"trees={type(trees).__name__} must be a PublicTree; games.stack_trees makes one of several"
    )
  validation.check_algorithm(algorithm)
  num_iterations = validation.check_num_iterations(num_iterations, algorithm.alternating)
  validation.check_leaves(trees, leaf_values)
  stacked = trees.prior.ndim == 3
  if beliefs is None and not stacked:
    raise ValueError("beliefs=None with one tree; give beliefs [B, P, H], or stacked trees")
  _check_batch(trees, stacked, trees.prior if beliefs is None else beliefs, initial_policy)
  batch_size = _check_batch_size(batch_size, trees)
  beliefs = jnp.asarray(trees.prior if beliefs is None else beliefs, trees.dtype)
  if initial_policy is not None:
    initial_policy = jnp.asarray(initial_policy, trees.dtype)
  locks = _check_each(trees, stacked, algorithm, initial_policy, locked, alternatives)
  row_params: np.ndarray | None = None
  if not trees.depth_limited:
    leaf_values, params = None, None
  elif isinstance(leaf_values, ExactLeafValues) and stacked:
    leaf_values, params, row_params = leaf_values.bind_stacked(trees)
  elif leaf_values is not None and hasattr(leaf_values, "bind"):
    leaf_values, params = leaf_values.bind(trees)
  rows = (trees if stacked else None, beliefs, initial_policy, *locks, row_params)
  work = work_of_solving(trees, leaf_values, rows, params)
  solve_pieces = _solves[work]

  def solve_rows(rows) -> Solution:
    # As many pieces as needed, of sizes as equal as can be: little of the last one is padding.
    size = len(jax.tree.leaves(rows)[0])
    return solve_pieces(
      rows,
      None if stacked else trees,
      params,
      algorithm=algorithm,
      num_iterations=num_iterations,
      leaf_values=leaf_values,
      piece=-(-size // -(-size // batch_size)),
    )

  pieces = -(-len(beliefs) // batch_size)
  if jax.default_backend() == "cpu" and validation.is_concrete(rows, params):
    shared = () if stacked else (trees.structure, *(x.shape for x in jax.tree.leaves(trees)))
    key = (shared, algorithm, num_iterations, leaf_values, batch_size)
    return map_over_cores(solve_rows, rows, most=pieces, key=key)
  return solve_rows(rows)


def _run_pieces(rows, shared_tree, params, *, algorithm, num_iterations, leaf_values, piece):
  """Solves `rows`, a pytree whose arrays have a leading axis `[B]`, `piece` at a time."""
  size = len(jax.tree.leaves(rows)[0])

  def solve_one(row):
    tree, beliefs, policy, lock, alternatives, row_params = row
    tree = shared_tree if tree is None else tree
    own = params if row_params is None else (params, row_params)
    given = Given(beliefs, own, policy, lock, alternatives)
    return _run(tree, algorithm, num_iterations, leaf_values, given)

  if size == piece:
    return jax.vmap(solve_one)(rows)
  if piece == 1:
    return lax.map(solve_one, rows)
  # The last piece is filled up with the last subgame.
  places = np.minimum(np.arange(-(-size // piece) * piece), size - 1).reshape(-1, piece)
  pieces = jax.tree.map(lambda x: jnp.asarray(x)[places], rows)
  solutions = lax.map(jax.vmap(solve_one), pieces)
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], solutions)


_solves = Programs(
  _run_pieces, static_argnames=("algorithm", "num_iterations", "leaf_values", "piece")
)


def _check_batch_size(batch_size, trees: PublicTree) -> int:
  if batch_size is None:
    return default_batch_size(trees)
  try:
    size = operator.index(batch_size)
  except TypeError:
    size = 0
  if size < 1 or isinstance(batch_size, bool):
    raise ValueError(f"batch_size={batch_size!r} must be a positive integer, or None to choose")
  return size


def _check_batch(trees: PublicTree, stacked: bool, beliefs, initial_policy) -> None:
  """Checks shapes always, and contents of each subgame where they are concrete."""
  shape = (2, trees.num_infostates)
  batch = np.shape(beliefs)[0] if np.ndim(beliefs) == 3 else 0
  if np.shape(beliefs)[1:] != shape or batch == 0:
    raise ValueError(
      f"beliefs of shape {np.shape(beliefs)} must have shape (B, {shape[0]}, {shape[1]}) "
      "(B, P, H), B at least 1"
    )
  if stacked and trees.prior.shape[0] != batch:
    raise ValueError(f"beliefs are for {batch} subgames, but trees for {trees.prior.shape[0]}")
  expected = (batch, trees.num_nodes, trees.num_infostates)
  if initial_policy is not None and np.shape(initial_policy) != expected:
    raise ValueError(
      f"initial_policy of shape {np.shape(initial_policy)} must have shape {expected} (B, N, H)"
    )
  if not validation.is_concrete(trees, beliefs, initial_policy):
    return
  beliefs = np.asarray(beliefs)
  for i in range(batch) if initial_policy is not None else _suspects(trees, stacked, beliefs):
    tree = jax.tree.map(lambda x, i=i: np.asarray(x)[i], trees) if stacked else trees
    try:
      validation.check_beliefs(tree, beliefs[i])
      if initial_policy is not None:
        validation.check_policy("initial_policy", tree, np.asarray(initial_policy)[i])
    except ValueError as error:
      raise ValueError(f"subgame {i}: {error}") from None


def _check_each(trees: PublicTree, stacked: bool, algorithm, policy, locked, alternatives):
  """Returns locks `[B, N, H]` and alternatives `[B, H]`, checked subgame by subgame."""
  if locked is None and (alternatives is None or not hasattr(algorithm, "gadget")):
    validation.check_alternatives(trees, algorithm, alternatives)
    return None, None
  if not isinstance(locked, Lock | None) and np.ndim(locked) not in (2, 3):
    raise ValueError(
      f"locked of shape {np.shape(locked)} must have shape "
      f"(B, {trees.num_nodes}, {trees.num_infostates}) (B, N, H), or (B, N)"
    )
  batch = len(trees.prior) if stacked else None
  given = (policy, locked, alternatives)
  traced = not validation.is_concrete(trees, given)
  if not traced:  # rows of numpy's arrays cost nothing
    given = jax.tree.map(np.asarray, given)
  for i in range(len(jax.tree.leaves(given)[0] if batch is None else trees.prior)):
    tree = jax.tree.map(lambda x, i=i: x[i], trees) if stacked else trees
    try:
      row = jax.tree.map(lambda x, i=i: x[i], given)
      validation.check_lock(tree, *row[:2])
      validation.check_alternatives(tree, algorithm, row[2])
    except (ValueError, IndexError) as error:
      raise ValueError(f"subgame {i}: {error}") from None
    if traced:
      break  # shapes are the same for all
  lock = locked
  if locked is not None and not isinstance(locked, Lock):
    share = jnp.asarray(locked, trees.dtype)
    share = jnp.broadcast_to(share if share.ndim == 3 else share[..., None], policy.shape)
    lock = Lock(policy * share, 1.0 - share)
  if alternatives is not None and not isinstance(alternatives, Alternatives):
    alternatives = Alternatives(alternatives)
  return jax.tree.map(lambda x: jnp.asarray(x, trees.dtype), (lock, alternatives))


@functools.partial(jax.jit, static_argnames="stacked")
def _root_masses(trees: PublicTree, beliefs: jax.Array, stacked: bool) -> jax.Array:
  return jax.vmap(root_mass, (0 if stacked else None, 0))(trees, beliefs)


def _suspects(trees: PublicTree, stacked: bool, beliefs: np.ndarray) -> list[int]:
  """Returns the subgames whose beliefs must be looked at one by one, found all at once."""
  with np.errstate(invalid="ignore"):
    wrong = ~np.isfinite(beliefs) | (beliefs < 0)
    wrong |= np.abs(beliefs.sum(axis=-1, keepdims=True) - 1) > validation.TOLERANCE
    if trees.possible is not None:
      possible = np.asarray(trees.possible)
      wrong |= (beliefs > 0) & ~(possible[:, 0] if stacked else possible[0])
  mass = _root_masses(trees, beliefs, stacked)
  together = (beliefs[:, 0] * np.asarray(mass)[:, 0]).sum(axis=-1)
  return np.flatnonzero(wrong.any(axis=(1, 2)) | ~(together > 0)).tolist()
