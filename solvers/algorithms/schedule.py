"""Exponents of discounts and of averaging weights, fixed or over the length of a run."""

import dataclasses
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Schedule:
  """Exponent `start + slope * k / horizon` at a player's k-th update (Zhang et al. 2024).

  Attributes:
    start, slope: of the line.
    horizon: updates of each player in the run, which `at_horizon` sets; None: it stays at `start`.
  """

  start: float
  slope: float
  horizon: Any = None

  def at(self, k: jax.Array) -> Any:
    """Returns the exponent at the k-th update."""
    return self.start if self.horizon is None else self.start + self.slope * k / self.horizon


Exponent = float | Schedule


def decay(k: jax.Array, averaging: Exponent) -> jax.Array:
  """Returns `(k / (k + 1)) ** averaging`, the factor of an average before policy k + 1 is added."""
  return (k / (k + 1.0)) ** (averaging.at(k) if isinstance(averaging, Schedule) else averaging)


def at_horizon(part: Any, num_updates: Any) -> Any:
  """Returns an algorithm, or a part of one, whose schedules end after so many updates a player."""
  if not dataclasses.is_dataclass(part):
    return part
  if isinstance(part, Schedule):
    return part if part.horizon is not None else dataclasses.replace(part, horizon=num_updates)
  parts = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
  changed = {name: at_horizon(value, num_updates) for name, value in parts.items()}
  return dataclasses.replace(part, **changed)  # type: ignore[type-var]
