"""Queries about the leaves of depth-limited trees, and the PBSs in them."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from games.public_tree import PublicTree
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem


class LeafQuery(NamedTuple):
  """A question about all leaves of a tree, from one player's seat.

  Attributes:
    features: `[L, F]` the public states as the traverser sees them.
    traverser: 0 or 1, static.
    beliefs: `[L, P, H]` PBS at each leaf, rows sum to one; uniform over what the rules allow where
      no infostate is reached.
    value_beliefs: None, or `[L, P, H]` to take values over other beliefs than those that the
      subgames are solved at (sound CFR-AVG).
    encoded: None, or the function's own `encode` of the features, made before the solver's loop.
  """

  features: jax.Array  # [L, F]
  traverser: int
  beliefs: jax.Array  # [L, P, H]
  value_beliefs: jax.Array | None = None
  encoded: Any = None


# (params, query) -> [L, H]: the traverser's expected value for each of its infostates, the
# other's infostate drawn from the beliefs.
LeafValues = Callable[[Any, LeafQuery], jax.Array]


def before_loop(
  leaf_values: LeafValues, params: Any, features: tuple[jax.Array, jax.Array]
) -> tuple[LeafValues, Any, tuple[Any, Any]]:
  """Returns a loop's leaf function, its parameters, and each player's `encoded`."""
  # That is what the function's own `before_loop(params, features)` returns, if it has one.
  asked: Any = leaf_values
  if hasattr(asked, "before_loop"):
    return asked.before_loop(params, features)
  encode = getattr(asked, "encode", lambda *_: None)
  return asked, params, (encode(params, features[0]), encode(params, features[1]))


@dataclasses.dataclass(frozen=True)
class TracedLeafValues:
  """A leaf function as its programs for either traverser; equal where these are the same."""

  # So closures made anew, as by a notebook's cell, share compiled solvers.
  key: tuple[Any, ...]
  two_beliefs: bool
  programs: tuple[Callable, ...] = dataclasses.field(compare=False)

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    """Returns the traverser's expected values at the leaves, `[L, H]`."""
    values = query.beliefs if query.value_beliefs is None else query.value_beliefs
    beliefs = (query.beliefs, values) if self.two_beliefs else query.beliefs
    arrays = jax.tree.leaves((params, query.features, beliefs))
    return self.programs[query.traverser](*arrays)[0]


def shared_by_program(
  leaf_values: LeafValues, params: Any, tree: PublicTree, two_beliefs: bool
) -> LeafValues:
  """Returns a leaf function that equals others of its program; itself if it defines equality."""
  extras = ("encode", "before_loop", "solves_trees")
  if type(leaf_values).__eq__ is not object.__eq__ or any(hasattr(leaf_values, x) for x in extras):
    return leaf_values
  dtype = jax.dtypes.canonicalize_dtype(tree.dtype)
  arrays, structure = jax.tree.flatten(params)
  sizes = np.shape(tree.leaf_features)[-2:], (tree.num_leaves, *tree.prior.shape[-2:])
  return _shared(leaf_values, structure, tuple(map(jax.typeof, arrays)), dtype, sizes, two_beliefs)


@functools.lru_cache(maxsize=64)  # for calls with the same function; tracing takes 0.5 ms
def _shared(leaf_values, structure, types, dtype, sizes, two_beliefs) -> LeafValues:
  features, beliefs = (jax.ShapeDtypeStruct(x, dtype) for x in sizes)
  shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in types]
  params = jax.tree.unflatten(structure, shapes)
  query = params, features, beliefs, beliefs if two_beliefs else None

  def answer(params, features, beliefs, value_beliefs, player):
    return leaf_values(params, LeafQuery(features, player, beliefs, value_beliefs))

  traced = [jax.jit(answer, static_argnums=4).trace(*query, player) for player in (0, 1)]
  if any(len(x.jaxpr.in_avals) != len(jax.tree.leaves(query)) for x in traced):
    return leaf_values  # the others are tracers that it closes over
  digests = tuple(_digest(x.jaxpr) for x in traced)
  if None in digests or any(isinstance(x.out_info, tuple | list | dict) for x in traced):
    return leaf_values
  programs = tuple(jaxpr_as_fun(x.jaxpr) for x in traced)
  return TracedLeafValues((structure, *digests), two_beliefs, programs)


@functools.lru_cache(maxsize=64)
def _digest(jaxpr: Any) -> str | None:
  """Returns a digest of a program with its constants; None if it calls Python back."""
  text = jax.jit(jaxpr_as_fun(jaxpr)).lower(*jaxpr.in_avals).as_text()
  return None if "callback" in text else hashlib.sha256(text.encode()).hexdigest()


def normalise_beliefs(reach: jax.Array, possible: jax.Array | None) -> jax.Array:
  """Turns reach `[..., H]` into beliefs; without any mass, uniform over `possible`."""
  total = reach.sum(axis=-1, keepdims=True)
  if possible is None:
    fallback = jnp.full_like(reach, 1.0 / reach.shape[-1])
  else:
    allowed = possible.astype(reach.dtype)
    fallback = allowed / jnp.maximum(allowed.sum(axis=-1, keepdims=True), 1.0)
  # A sum of subnormal numbers would divide to garbage, so it counts as no mass.
  enough = total > jnp.finfo(reach.dtype).tiny
  return jnp.where(enough, reach / jnp.where(enough, total, 1.0), fallback)


def leaf_beliefs(problem: Problem, own: tuple[Levels, Levels]) -> jax.Array:
  """Returns the PBS at each leaf `[L, P, H]`, given both players' own reach."""
  return beliefs_of(problem, (problem.leaf_reach(own[0], 0), problem.leaf_reach(own[1], 1)))


def beliefs_of(problem: Problem, reach: tuple[jax.Array, jax.Array] | jax.Array) -> jax.Array:
  """Returns the PBS at each leaf `[L, P, H]`, given players' reach there, `[L, H]` each."""
  return normalise_beliefs(jnp.stack((reach[0], reach[1]), axis=1), problem.leaf_possible())


def seat_of(movers: jax.Array, rows: jax.Array) -> jax.Array:
  """Swaps players in rows `[R, P, ...]` where player 1 moves: the mover's first, or back again."""
  is_second = (movers == 1).reshape(-1, *[1] * (rows.ndim - 1))
  return jnp.where(is_second, rows[:, ::-1], rows)
