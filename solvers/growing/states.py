"""Settings of growing-tree CFR, and its questions to a value-and-policy network."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from games.arrays import MOST, Count, Finite, Positive, Share, check_fields
from solvers import tuning, validation
from solvers.xla import varying_alike

_TINY = float(np.finfo(float).tiny)


@dataclasses.dataclass(frozen=True)
class GTCFR:
  """Settings of growing-tree CFR; Player of Games' PoG(s, c) has `simulations=s, per_update=c`.

  Updates are of both players, by regret matching+ with linear averaging; c < 1 means 1 / c updates
  for each simulation.

  Attributes:
    simulations: how many in all; 0 grows nothing.
    per_update: simulations for each update of both players.
    updates: how many without simulations; else they are counted from the two above.
    whole: whether the tree below the root is all there from the start.
    children: how many children a leaf of a player's gets when it is expanded, those of the highest
      prior; None for all. A leaf of chance's gets all.
    puct: how much PUCT explores.
    selection: which policy the moves follow that PUCT does not choose, `"current"` or `"average"`.
    mix: share of `ContinualResolve`'s followers, where there are alternatives.
    alternating: whether player 1 responds to player 0's newest policy; leaves are asked about once
      for both.
    temperature: of the softmax that turns a network's logits into the prior of PUCT.

  Raises:
    ValueError: a number is out of range.
  """

  simulations: Count = 100
  per_update: Annotated[float, (_TINY, MOST)] = 1.0
  updates: Positive | None = None
  whole: bool = False
  children: Positive | None = None
  puct: Finite = 1.25
  selection: Literal["current", "average"] = "current"
  mix: Share = 0.2
  alternating: bool = False
  temperature: Annotated[float, (_TINY, MOST)] = 1.0

  def __post_init__(self):
    check_fields(self)
    ratio = float(self.per_update)
    if not math.isclose(x := max(ratio, 1 / ratio), round(x), rel_tol=1e-6):
      raise ValueError(
        f"per_update={validation.short(self.per_update)} must be a whole number, or one over one"
      )
    if self.simulations % self.per_round:
      raise ValueError(
        f"simulations={self.simulations} must be a multiple of per_update={self.per_update}"
      )
    if (self.updates is None) != (self.simulations > 0):
      raise ValueError(
        f"updates={validation.short(self.updates)} must be a number if simulations=0, and None "
        "otherwise"
      )

  @property
  def per_round(self) -> int:
    """Simulations between two rounds of updates."""
    return max(1, round(self.per_update))

  @property
  def updates_per_round(self) -> int:
    """Updates of both players in each round."""
    return max(1, round(1 / self.per_update))

  @property
  def rounds(self) -> int:
    """How often updates and simulations take turns."""
    return self.updates or self.simulations // self.per_round

  def of_any_length(self) -> "GTCFR":
    """Returns the settings of one round, which are the same for searches of all lengths."""
    if self.simulations:
      return dataclasses.replace(self, simulations=self.per_round)
    return dataclasses.replace(self, updates=1)


class StateQuery(NamedTuple):
  """A question about `R` public belief states, each from the mover's seat, player 0's at chance.

  Attributes:
    features: `[R, F]` the public states as the mover sees them; None with `encoded`.
    beliefs: `[R, P, H]` the mover's first; rows sum to one.
    encoded: None, or rows of the function's own `encode` of the features.
  """

  features: jax.Array | None  # [R, F]
  beliefs: jax.Array  # [R, P, H]
  encoded: Any = None


class StateAnswer(NamedTuple):
  """A network's answers about `R` public belief states (Player of Games, section 3.1).

  Attributes:
    values: `[R, P, H]` expected payoffs of both players' infostates, the mover's first.
    logits: `[R, M, H]` of the mover's moves by the infostate from which they are made: public
      actions, or with hidden moves as `Game.moves_of` numbers them.
  """

  values: jax.Array  # [R, P, H]
  logits: jax.Array  # [R, M, H]


# (params, query) -> answer
StateFunction = Callable[[Any, StateQuery], StateAnswer]


def ask_some(
  function: StateFunction, params: Any, query: StateQuery, wanted: jax.Array
) -> StateAnswer:
  """Answers those rows of a query that `wanted` `[R]` marks; the others are zero."""

  # On a CPU the rows are packed, so that a row nobody wants costs nothing. Under `jax.vmap` those
  # of all lanes are packed together.
  def answer(params, query, wanted, period):
    ask = functools.partial(function, params)
    return only_wanted(ask, query, wanted, tuning.pieces().questions, period)

  @custom_vmap
  def ask(params, query, wanted):
    return answer(params, query, wanted, len(wanted))

  @ask.def_vmap
  def ask_lanes(axis_size, in_batched, params, query, wanted):
    (batched_params, batched_query, batched_wanted), period = in_batched, wanted.shape[-1]
    if any(jax.tree.leaves(batched_params)):  # each lane has its own network
      axes = jax.tree.map(lambda b: 0 if b else None, in_batched)
      each = functools.partial(answer, period=period)
      found = jax.vmap(each, in_axes=axes)(params, query, wanted)
    else:
      query = jax.tree.map(
        lambda x, b: x.reshape(-1, *x.shape[2:]) if b else x, query, batched_query
      )
      if not batched_wanted:
        wanted = jnp.broadcast_to(wanted, (axis_size, period))
      found = answer(params, query, wanted.reshape(-1), period)
      found = jax.tree.map(lambda x: x.reshape(axis_size, period, *x.shape[1:]), found)
    return found, jax.tree.map(lambda _: True, found)

  return StateAnswer(*ask(params, query, wanted))


def only_wanted(
  function: Callable[[Any], Any],
  rows: Any,
  wanted: jax.Array,
  pieces: tuple[int, int] | None,
  period: int,
) -> Any:
  """Applies `function` to those of `M` rows that `wanted` marks, in pieces; the others are zero."""
  # Arrays of `period` rows are the same for each lane.
  number = len(wanted)

  def mark(x: jax.Array) -> jax.Array:
    return jnp.where(wanted.reshape(-1, *[1] * (x.ndim - 1)), x, jnp.zeros((), x.dtype))

  if pieces is None:
    places = np.arange(number) % period
    return jax.tree.map(
      mark, function(jax.tree.map(lambda x: x if len(x) == number else x[places], rows))
    )
  least, blocks = pieces
  block = min(number, max(least, -(-number // blocks)))
  padded = -(-number // block) * block
  # Those wanted first: a sort of numbers alone takes less than scatters and searches of ranks.
  order = jnp.arange(number, dtype=jnp.int32) + jnp.where(wanted, 0, number)
  order = jnp.pad(jnp.sort(order, stable=False) % number, (0, padded - number))
  rank = jnp.cumsum(wanted, dtype=jnp.int32)

  def answer(i: jax.Array) -> Any:
    there = jax.lax.dynamic_slice_in_dim(order, i * block, block)
    return function(
      jax.tree.map(lambda x: jnp.asarray(x)[there if len(x) == number else there % period], rows)
    )

  shapes = jax.eval_shape(answer, jnp.zeros((), jnp.int32))
  empty = jax.tree.map(lambda x: jnp.zeros((padded, *x.shape[1:]), x.dtype), shapes)

  def answer_block(i: jax.Array, found: Any) -> Any:
    put = lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, i * block, 0)  # noqa: E731
    return jax.tree.map(put, found, answer(i))

  turns = -(-rank[-1] // block)
  found = jax.lax.fori_loop(0, turns, answer_block, varying_alike(empty, rows))
  return jax.tree.map(lambda x: mark(x[jnp.maximum(rank - 1, 0)]), found)
