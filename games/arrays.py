"""Operations of game rules on numbers, and on numpy's and JAX's arrays alike.

Rules call functions of `states.__array_namespace__()`, so that numpy builds trees with them and
JAX runs the same rules, traced or mapped over single states.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from games.arguments import (
  Count,
  Player,
  Positive,
  Share,
  as_array,
  check_fields,
  check_integer,
  checked,
  integers,
  is_whole,
  kind_of,
  short,
  unknown_name,
)

__all__ = [
  "Count",
  "Player",
  "Positive",
  "Rows",
  "Share",
  "as_array",
  "check_fields",
  "check_integer",
  "check_rows",
  "checked",
  "integers",
  "is_finite",
  "is_whole",
  "kind_of",
  "lookup",
  "one",
  "short",
  "unknown_name",
  "whole_numbers",
  "with_columns",
]  # fmt: skip

Rows = TypeVar("Rows", np.ndarray, jax.Array)  # a function takes and returns one of the two


def is_finite(value: Any) -> bool:
  """Says whether `value` is a real number that a float can hold, NaN and infinity excluded."""
  if isinstance(value, bool) or not isinstance(value, int | float | np.number):
    return False
  try:
    return math.isfinite(value)
  except OverflowError:  # an integer of more than 308 digits
    return False


def check_rows(name: str, rows: Any, shape: tuple[int, ...], letters: str) -> None:
  """Checks the shape of an argument; `letters` says what its axes are.

  Raises:
    ValueError: it has another.
  """
  if np.shape(rows) != shape:
    raise ValueError(f"{name} of shape {np.shape(rows)} must have shape {shape} {letters}")


def whole_numbers(name: str, numbers: Sequence[int]) -> tuple[int, ...]:
  """Returns `numbers` as a tuple if all are whole.

  Raises:
    ValueError: one is not.
  """
  if not kind_of(Sequence[int])[0](numbers):
    raise ValueError(f"{name}={short(numbers)} must be whole numbers")
  return tuple(int(x) for x in numbers)


def lookup(table: Any, *index: Any) -> Any:
  """Returns `table[index]`, an array of the kind of `index`: one for each leading axis."""
  xp = index[0].__array_namespace__()
  table = table if isinstance(table, jax.Array) else np.asarray(table)
  # Whole numbers are of the states' type, which JAX's own is not under `jax.enable_x64`.
  dtype = index[0].dtype if table.dtype.kind in "iu" else table.dtype
  return xp.asarray(table.astype(dtype, copy=False))[index]


def may_hold(rows: Any) -> bool:
  """Says whether any of `rows` `[n]` of bool holds; true of arrays of JAX, which may be traced."""
  return isinstance(rows, jax.Array) or bool(rows.any())


def one(rule: Callable[..., Any], *row: Any) -> Any:
  """Returns a rule's answer for one state from that for rows `[n, ...]`, arrays of its kind."""
  return jax.tree.map(lambda x: x[0], rule(*(x[None] for x in row)))


def with_columns(states: Rows, columns: Mapping[int, Any]) -> Rows:
  """Returns `states` `[n, S]` with some columns replaced, each by a scalar or by `[n]`."""
  xp: Any = states.__array_namespace__()
  for place, column in columns.items():
    column = xp.asarray(column).astype(states.dtype)
    chosen = np.arange(states.shape[1]) == range(states.shape[1])[place]
    states = xp.where(chosen, column[:, None] if column.ndim else column, states)
  return states
