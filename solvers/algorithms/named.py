"""Algorithms by name: compositions of regret rules, averaging and turns, and by settings' text."""

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast

from games.arrays import MOST, Finite, Number, Weight, checked, is_finite, unknown_name
from solvers.algorithms.cfr import CFR, Algorithm
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.algorithms.gadgets import Gadget
from solvers.algorithms.regret_rules import (
  DiscountedRegret,
  MirrorDescent,
  PredictiveRegretPlus,
  Schedule,
)
from solvers.algorithms.wrappers import CFRAvg, WarmStarted, WithGadget
from solvers.validation import check_gadget, check_integer, short

_Falling = Annotated[float, (5, MOST)]  # it falls by five over a run
F = TypeVar("F", bound=Callable[..., Any])


def _named(function: F) -> F:
  """Checks an algorithm's settings, and makes numbers floats, which leave arrays their type."""
  right = checked(function)

  def own(value: Any) -> Any:
    return float(value) if is_finite(value) else value

  @functools.wraps(function)
  def call(*args, **options):
    return right(*map(own, args), **{name: own(x) for name, x in options.items()})

  return cast(F, call)


@_named
def vanilla_cfr(*, averaging: Weight = 0.0, alternating: bool = True) -> CFR:
  """CFR (Zinkevich et al. 2007; thesis, section 2.3.5): regret matching, uniform average."""
  return CFR(DiscountedRegret(math.inf, math.inf), averaging, alternating)


@_named
def cfr_plus(*, averaging: Weight = 2.0, alternating: bool = True) -> CFR:
  """CFR+: regrets floored at zero. Quadratic average (thesis, section 3.1.1); OpenSpiel's is 1."""
  return CFR(DiscountedRegret(math.inf, -math.inf), averaging, alternating)


@_named
def linear_cfr(*, averaging: Weight = 1.0, alternating: bool = True) -> CFR:
  """Linear CFR (thesis, section 3.1.2): iteration t weighs t in regrets and average."""
  return CFR(DiscountedRegret(1.0, 1.0), averaging, alternating)


@_named
def discounted_cfr(
  alpha: Number = 1.5, beta: Number = 0.0, gamma: Weight = 2.0, *, alternating: bool = True
) -> CFR:
  """DCFR (thesis, section 3.1.2), with regrets discounted by sign.

  Positive sums are multiplied by t^alpha / (t^alpha + 1), negative ones by t^beta / (t^beta + 1),
  and the average's weights are t^gamma. The thesis's settings: (1.5, 0, 2), (1.5, -inf, 2) with a
  floor, (1.5, 0.5, 2) to allow pruning.

  Raises:
    TypeError: `alternating` is not a boolean.
    ValueError: an exponent is not a number (alpha and beta may be infinite), or gamma is negative.
  """
  return CFR(DiscountedRegret(alpha, beta), gamma, alternating)


@_named
def predictive_cfr_plus(*, averaging: Weight = 2.0, alternating: bool = True) -> CFR:
  """PCFR+ (Farina, Kroer and Sandholm 2021): CFR+ that expects the last regrets again."""
  return CFR(PredictiveRegretPlus(), averaging, alternating)


@_named
def predictive_discounted_cfr_plus(
  *, alpha: Number = 2.3, averaging: Weight = 5.0, alternating: bool = True
) -> CFR:
  """PDCFR+ (Xu et al. 2024): PCFR+ with sums discounted as DCFR's are, and heavier late weights."""
  return CFR(PredictiveRegretPlus(alpha), averaging, alternating)


@_named
def asymmetric_predictive_cfr_plus(
  *, share: Finite = 1 / 3, averaging: Weight = 2.0, alternating: bool = True
) -> CFR:
  """SAPCFR+ (Meng et al. 2025): PCFR+ that expects a share of the last regrets again."""
  return CFR(PredictiveRegretPlus(share=share), averaging, alternating)


@_named
def scheduled_discounted_cfr(*, gamma: _Falling = 30.0, alternating: bool = True) -> CFR:
  """HS-DCFR (Zhang, McAleer and Sandholm 2024): DCFR whose exponents know a run's length."""
  # Exponents at the k-th of a player's n updates: 1 + 3k/n, -1 - 2k/n and gamma - 5k/n, the paper's
  # gamma being 30 or 15.
  rule = DiscountedRegret(Schedule(1.0, 3.0), Schedule(-1.0, -2.0))
  return CFR(rule, Schedule(gamma, -5.0), alternating)


@_named
def scheduled_predictive_cfr_plus(*, gamma: _Falling = 30.0, alternating: bool = True) -> CFR:
  """HS-PCFR+ (Zhang, McAleer and Sandholm 2024): PCFR+ with the averaging weights of HS-DCFR."""
  return CFR(PredictiveRegretPlus(), Schedule(gamma, -5.0), alternating)


@_named
def magnetic_mirror_descent(
  *, rate: Finite = 30.0, pull: Finite = 0.1, alternating: bool = True
) -> CFR:
  """Magnetic mirror descent (Sokota et al. 2022), whose last policy is its answer."""
  # Rate and pull to the uniform policy fade as 1 / sqrt(k); the average policy is the last one.
  return CFR(MirrorDescent(rate, pull), math.inf, alternating)


@_named
def fictitious_play(*, averaging: Weight = 0.0, alternating: bool = True) -> FictitiousPlay:
  """Fictitious play (Brown 1951; ReBeL, appendix H)."""
  return FictitiousPlay(averaging, alternating=alternating)


@_named
def linear_fictitious_play(*, averaging: Weight = 1.0, alternating: bool = True) -> FictitiousPlay:
  """Fictitious play with linear weights; it reproduces "Full-game FP" of ReBeL's Table 2."""
  return FictitiousPlay(averaging, alternating=alternating)


@_named
def linear_optimistic_fictitious_play(
  *, averaging: Weight = 1.0, alternating: bool = True
) -> FictitiousPlay:
  """FLOP (ReBeL, appendix H): linear, and the last response counts twice.

  Its average policy is the one that responses are computed against.
  """
  return FictitiousPlay(averaging, optimistic=True, alternating=alternating)


@_named
def cfr_avg(algorithm: Algorithm, *, sound: bool = False) -> Algorithm:
  """Sets leaf beliefs by the average policies: CFR-AVG (ReBeL, appendix I).

  The modified form of the paper's experiments by default; the sound form asks for leaf values
  with two beliefs, which an exact oracle can answer.

  Raises:
    TypeError: `sound` is not a boolean.
    ValueError: `algorithm` is not of the CFR family.
  """
  if isinstance(algorithm, WarmStarted):
    return dataclasses.replace(algorithm, algorithm=cfr_avg(algorithm.algorithm, sound=sound))
  if isinstance(algorithm, CFRAvg):
    return dataclasses.replace(algorithm, sound=sound)
  return CFRAvg(_check_cfr(algorithm), sound)


def with_gadget(algorithm: Algorithm, gadget: Gadget) -> Algorithm:
  """Solves subgames that the opponent enters as `gadget` says: safe subgame solving.

  `solve` then needs `alternatives`. Gadgets are Maxmargin, Resolve and
  `solvers.contrib.Distributional`; Reach and Estimate are other alternatives for them.

  Raises:
    TypeError: `gadget` is no gadget.
    ValueError: `algorithm` is not of the CFR family.
  """
  if isinstance(algorithm, (WarmStarted, CFRAvg)):
    return dataclasses.replace(algorithm, algorithm=with_gadget(algorithm.algorithm, gadget))
  if isinstance(algorithm, WithGadget):
    algorithm = algorithm.algorithm
  check_gadget(gadget)
  return WithGadget(_check_cfr(algorithm), gadget)


def warm_started(algorithm: Algorithm, *, num_iterations: int = 15) -> WarmStarted:
  """Starts from `solve`'s `initial_policy` as if it had been played `num_iterations` times.

  Regrets are taken against an exact best response (ReBeL, appendix J, which uses 15 iterations).
  `solvers.contrib.substitute_started` is the thesis's start, which forgets less of a long run.

  Args:
    algorithm: of the CFR family.
    num_iterations: how many of each player the policy stands for.

  Raises:
    ValueError: `algorithm` is not of the CFR family or has a schedule, or `num_iterations` is not a
      positive integer.
  """
  return started(WarmStarted, algorithm, num_iterations)


def started(start: type[WarmStarted], algorithm: Algorithm, num_iterations: int) -> WarmStarted:
  """Returns an algorithm of the CFR family with a kind of warm start."""
  num_iterations = check_integer("num_iterations", num_iterations)
  if isinstance(algorithm, WarmStarted):
    algorithm = algorithm.algorithm
  if isinstance(getattr(algorithm, "averaging", None), Schedule):
    raise ValueError(f"algorithm={short(algorithm)} must not know its length: a start adds to it")
  return start(
    algorithm if isinstance(algorithm, CFRAvg) else _check_cfr(algorithm), num_iterations
  )


def _check_cfr(algorithm: Any) -> Any:
  if not isinstance(algorithm, (CFR, WithGadget)):
    raise ValueError(f"algorithm={short(algorithm)} must be of the CFR family, as linear_cfr() is")
  return algorithm


_CFR = (
  vanilla_cfr, cfr_plus, linear_cfr, discounted_cfr, predictive_cfr_plus,
  predictive_discounted_cfr_plus, asymmetric_predictive_cfr_plus, scheduled_discounted_cfr,
  scheduled_predictive_cfr_plus, magnetic_mirror_descent,
)  # fmt: skip
_OTHERS = (fictitious_play, linear_fictitious_play, linear_optimistic_fictitious_play)


def _averaged(make: Callable[..., CFR]) -> Callable[..., Algorithm]:
  # The parameters are known by the function's own.
  return functools.wraps(make)(lambda **parameters: cfr_avg(make(**parameters)))


_REGISTRY: dict[str, Callable[..., Algorithm]] = {
  **{make.__name__: make for make in (*_CFR, *_OTHERS)},
  **{f"{make.__name__}_avg": _averaged(make) for make in _CFR},
}
_FORM = re.compile(r"(\w+)(?:\((.*)\))?")


def registered_algorithms() -> tuple[str, ...]:
  """Returns the names of registered algorithms."""
  return tuple(_REGISTRY)


def make_algorithm(text: str, field: str = "algorithm") -> Algorithm:
  """Makes an algorithm from its name, and its parameters if others than the usual ones.

  Args:
    text: `linear_cfr`, or `discounted_cfr(beta=0.5, gamma=4)`, with parameters of the function of
      that name in `solvers`. One that ends in `_avg` is wrapped by `solvers.cfr_avg`.
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
  try:
    return {"True": True, "False": False}[value] if kind is bool else float(value)
  except (KeyError, ValueError):
    allowed = "True or False" if kind is bool else "a number"
    raise ValueError(f"{where} has {name}={value}, which must be {allowed}") from None
