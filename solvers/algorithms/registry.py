"""Algorithms by name and parameters, as settings and commands give them."""

import functools
import inspect
import re
from collections.abc import Callable

from games.registry import unknown_name
from solvers.algorithms import named as algorithms
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.cfr import CFR

_CFR: dict[str, Callable[..., CFR]] = {
  "vanilla_cfr": algorithms.vanilla_cfr,
  "cfr_plus": algorithms.cfr_plus,
  "linear_cfr": algorithms.linear_cfr,
  "discounted_cfr": algorithms.discounted_cfr,
  "predictive_cfr_plus": algorithms.predictive_cfr_plus,
  "predictive_discounted_cfr_plus": algorithms.predictive_discounted_cfr_plus,
  "asymmetric_predictive_cfr_plus": algorithms.asymmetric_predictive_cfr_plus,
  "scheduled_discounted_cfr": algorithms.scheduled_discounted_cfr,
  "scheduled_predictive_cfr_plus": algorithms.scheduled_predictive_cfr_plus,
  "magnetic_mirror_descent": algorithms.magnetic_mirror_descent,
}


def _averaged(make: Callable[..., CFR]) -> Callable[..., Algorithm]:
  @functools.wraps(make)  # so that the parameters are known
  def averaged(**parameters) -> Algorithm:
    return algorithms.cfr_avg(make(**parameters))

  return averaged


_REGISTRY: dict[str, Callable[..., Algorithm]] = {
  **_CFR,
  "fictitious_play": algorithms.fictitious_play,
  "linear_fictitious_play": algorithms.linear_fictitious_play,
  "linear_optimistic_fictitious_play": algorithms.linear_optimistic_fictitious_play,
  **{f"{name}_avg": _averaged(make) for name, make in _CFR.items()},
}
_FORM = re.compile(r"(\w+)(?:\((.*)\))?")


def registered_algorithms() -> tuple[str, ...]:
  """Returns the names of registered algorithms."""
  return tuple(_REGISTRY)


def make_algorithm(text: str, field: str = "algorithm") -> Algorithm:
  """Makes an algorithm from its name, and its parameters if others than the usual ones.

  Args:
    text: `linear_cfr`, or with parameters `discounted_cfr(beta=0.5, gamma=4)`; they are those of
      the function of that name in `solvers`. A name that ends in `_avg` sets leaf beliefs by
      average policies (`solvers.cfr_avg`).
    field: what errors call the text.

  Raises:
    ValueError: the name or a parameter is unknown, or has a value that is not allowed.
  """
  found = _FORM.fullmatch(text) if isinstance(text, str) else None
  if found is None or found[1] not in _REGISTRY:
    raise ValueError(unknown_name(field, text, _REGISTRY))
  make = _REGISTRY[found[1]]
  allowed = inspect.signature(make).parameters
  parameters = {}
  for part in filter(str.strip, (found[2] or "").split(",")):
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not equals or name not in allowed or name in parameters:
      raise ValueError(
        f"{field}={text!r} has {part.strip()!r} where NAME=VALUE is expected, once for each of: "
        f"{', '.join(allowed)}"
      )
    parameters[name] = _read(value, allowed[name].annotation, f"{field}={text!r}", name)
  try:
    return make(**parameters)
  except ValueError as error:
    raise ValueError(f"{field}={text!r} is not allowed: {error}") from None


def _read(value: str, kind: type, where: str, name: str) -> float | bool:
  if kind is bool:
    if value in ("True", "False"):
      return value == "True"
    raise ValueError(f"{where} has {name}={value}, which must be True or False")
  try:
    return float(value)
  except ValueError:
    raise ValueError(f"{where} has {name}={value}, which must be a number") from None
