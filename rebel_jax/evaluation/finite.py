"""The check that a network answers with finite numbers, before its agent is measured."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from rebel_jax.config.config import ConfigError
from solvers import StateQuery

Query = Callable[[jax.Array, jax.Array], Any]


def check_finite(
  ask: Callable[[Any, Any], Any],
  params: Any,
  features: Any,
  num_infostates: int,
  query: Query = StateQuery,
) -> None:
  """Checks that a network's parameters and its values at uniform beliefs are finite.

  Where values are NaN, searches play uniformly and nothing looks amiss.

  Args:
    ask: what searches ask, called with `params` and a query.
    params: the network's.
    features: `[R, F]` public states to ask about.
    num_infostates: of each player.
    query: makes the query of the features and of beliefs `[R, P, H]`.

  Raises:
    ConfigError: some are not.
  """
  finite = _finite(ask, params, features, num_infostates, query)
  for name, good in zip(("parameters", "values"), finite):
    if not good:
      raise ConfigError(f"the network's {name} are not finite, so nothing can be searched with it")


@functools.partial(jax.jit, static_argnames=("ask", "num_infostates", "query"))
def _finite(
  ask: Callable[[Any, Any], Any], params: Any, features: Any, num_infostates: int, query: Query
) -> list[jax.Array]:
  """Says whether all parameters are finite, and all values at uniform beliefs."""
  beliefs = jnp.full((len(features), 2, num_infostates), 1 / num_infostates)
  both = params, ask(params, query(features, beliefs))
  return [jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(y)]).all() for y in both]
