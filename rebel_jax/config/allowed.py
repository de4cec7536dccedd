"""Settings in groups, their allowed values, and parts of one's own that they name.

A group is a frozen dataclass of settings and groups, whose names differ. What a field may be is
metadata, `Annotated[int, integer(1)]`: tyro reads a flag by it, and `check` checks any value.
"""

import contextlib
import dataclasses
import importlib
import importlib.util
import math
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import tyro

import solvers
from games.arrays import is_finite, is_whole, short, unknown_name
from rebel_jax.networks.names import NETWORKS
from rebel_jax.networks.optimizers import OPTIMIZERS


class ConfigError(ValueError):
  """A setting that is not allowed; the message is one sentence for the user."""


class RunError(RuntimeError):
  """Training cannot go on; the message is one sentence for the user."""


@contextlib.contextmanager
def in_config_errors(
  head: str = "",
  kinds: Any = (TypeError, ValueError),
  *,
  reason: bool = True,
  raises: type[Exception] = ConfigError,
  then: str = "",
) -> Iterator[None]:
  """Raises a ConfigError, or another, where something inside is refused.

  Args:
    head: what it begins with, such as the setting's name.
    kinds: of errors, one or a tuple.
    reason: whether the error's own words follow.
    raises: the kind of error raised.
    then: what it ends with.
  """
  try:
    yield
  except kinds as error:
    said = (str(getattr(error, "strerror", None) or error).splitlines() or [""])[0]
    raise raises(": ".join(filter(None, [head, said * reason])) + then) from None


def unknown(field: str, value: Any, known: Iterable[str]) -> ConfigError:
  """Returns the error for a name that is not one of `known`, with the nearest as a hint."""
  return ConfigError(unknown_name(field, value, known))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allowed(tyro.constructors.PrimitiveConstructorSpec[Any]):
  """What one field may be; a text that cannot be read stays a text, which `check` refuses."""

  # (field, value); raises `ConfigError` if the value is not allowed
  check: Callable[[str, Any], object]


def _read(word: str, *kinds: Callable[[str], Any]) -> Any:
  """Returns a text as the first of `kinds` that it reads as, itself if there is none."""
  for kind in kinds:
    with contextlib.suppress(ValueError):
      return kind(word)
  return word


def _allowed(
  metavar: str, read: Callable[[str], Any], must_be: str, fits: Callable[[Any], object]
) -> Allowed:
  """Allows values that `fits` accepts; errors say of others what they `must_be`."""

  def check(field: str, value: Any) -> None:
    if not fits(value):
      raise ConfigError(f"{field}={short(value)} must be {must_be}")

  return Allowed(
    nargs=1,
    metavar=metavar,
    instance_from_str=lambda texts: _read(texts[0], read),
    is_instance=lambda value: True,
    str_from_instance=lambda value: [str(value)],
    check=check,
  )


def integer(low: int, high: int | None = None) -> Allowed:
  """Allows integers from `low` to `high` (None for no limit)."""
  must_be = f"an integer, at least {low}" + (f" and at most {high}" if high is not None else "")
  return _allowed(f"INT>={low}", int, must_be, lambda x: is_whole(x, low, high or math.inf))


def chips(low: float, high: int) -> Allowed:
  """Allows numbers of chips from `low` to `high`, of at most two decimals."""
  return _allowed(
    f"CHIPS>={low}",
    lambda word: _read(word, int, float),
    f"a number of chips of at most two decimals, at least {low} and at most {high}",
    lambda x: is_finite(x) and low <= x <= high and round(x, 2) == x,
  )


def iterations(low: int = 2) -> Allowed:
  """Allows even numbers from `low` on: both players are updated equally often."""
  must_be = f"even, at least {low} and at most {2**24}: one player's update is one iteration"
  return _allowed(f"EVEN>={low}", int, must_be, lambda x: is_whole(x, low, 2**24) and not x % 2)


def number(high: float | None = None, *, zero: bool = False) -> Allowed:
  """Allows finite numbers up to `high` (None for no limit), above zero or, with `zero`, from it."""
  low = "at least 0" if zero else "above 0"
  top = f" and at most {high:g}" if high is not None else ""

  def fits(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)
    return is_number and (value > 0 or (zero and value == 0)) and (high is None or value <= high)

  metavar = f"FLOAT>{'=' * zero}0" + (f",<={high:g}" if high is not None else "")
  return _allowed(metavar, float, f"a finite number {low}{top}", fits)


def one_of(known: Collection[str]) -> Allowed:
  """Allows the names `known`; of a registry, a dict, also names that it gains later."""

  def check(field: str, value: Any) -> None:
    if not isinstance(value, str) or value not in known:
      raise unknown(field, value, known)

  return dataclasses.replace(text(f"{{{','.join(known)}}}"), check=check)


def several(known: Collection[str]) -> Allowed:
  """Allows any number of the names `known`; of a registry also names that it gains later."""
  one = one_of(known)
  return dataclasses.replace(
    one,
    nargs="*",
    metavar=f"[{one.metavar} ...]",
    instance_from_str=tuple,
    str_from_instance=list,
    check=lambda field, value: [one.check(field, name) for name in value],
  )


def text(
  metavar: str, must_be: str = "text", fits: Callable[[str], object] = lambda value: True
) -> Allowed:
  """Allows texts that `fits` accepts, all by default; errors say what others `must_be`."""
  return _allowed(metavar, str, must_be, lambda value: isinstance(value, str) and fits(value))


# Names that may be part of a file's on any system.
NAME = text("NAME", "a name of letters, digits, '_', '-', '.'", re.compile(r"[\w.-]+").fullmatch)


def path(what: str) -> Allowed:
  """Allows paths that the system could have; `what` is the kind of file."""
  # Without NUL, and without the halves of pairs that no bytes of a name are read as.
  possible = re.compile("[^\0\ud800-\udc7f\udd00-\udfff]+").fullmatch
  return text("PATH", f"the path of a {what}", possible)


@in_config_errors()
def check_algorithm(field: str, value: Any) -> None:
  """Checks that a field names an algorithm, with parameters that it has.

  Raises:
    ConfigError: it does not.
  """
  solvers.make_algorithm(value, field)


ALGORITHM = dataclasses.replace(text("ALGORITHM"), check=check_algorithm)
# Positive numbers of public actions, and `stage`.
DEPTH = _allowed(
  "INT>=1|stage",
  int,
  "an integer, at least 1, or 'stage'",
  lambda x: x == "stage" or is_whole(x, 1),
)


def optional(inner: Allowed) -> Allowed:
  """Allows what `inner` allows, and None."""
  return dataclasses.replace(
    inner,
    metavar=f"{inner.metavar}|None",
    instance_from_str=lambda texts: None if texts == ["None"] else inner.instance_from_str(texts),
    check=lambda field, value: value is None or inner.check(field, value),
  )


def pairs(*kinds: type) -> Allowed:
  """Allows pairs of a name and a value, which is of the first of `kinds` that a text reads as."""

  def read(words: list[str]) -> Any:
    if len(words) % 2:
      return " ".join(words)
    return tuple((name, _read(word, *kinds)) for name, word in zip(words[::2], words[1::2]))

  def fits(value: Any) -> bool:
    return (
      isinstance(value, tuple)
      and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
      )
      and len(dict(value)) == len(value)
    )

  return dataclasses.replace(
    _allowed("[NAME VALUE ...]", str, "pairs of a name and a number or text, each name once", fits),
    nargs="*",
    instance_from_str=read,
    str_from_instance=lambda value: [str(word) for pair in value for word in pair],
  )


Positional = tyro.conf.Positional  # of a field that a command line names by its place
T = TypeVar("T")


def flat(settings: Any) -> dict[str, Any]:
  """Returns every setting's value by its name."""
  values: dict[str, Any] = {}
  for name, value in vars(settings).items():
    values |= flat(value) if dataclasses.is_dataclass(value) else {name: value}
  return values


def replace(settings: T, **changes: Any) -> T:
  """Returns the settings with some changed, each named without its group, or whole groups."""
  new, left = {}, dict(changes)
  for name, value in vars(settings).items():
    value = left.pop(name, value)
    if dataclasses.is_dataclass(value):
      inside = {inner: left.pop(inner) for inner in flat(value) if inner in left}
      value = replace(value, **inside)
    new[name] = value
  replaced = typing.cast(T, dataclasses.replace(typing.cast(Any, settings), **new))
  if left:
    raise unknown("field", next(iter(left)), flat(replaced))
  return replaced


def check(settings: Any) -> None:
  """Checks every setting by itself, as its annotation says; raises `ConfigError`."""
  for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
    value = getattr(settings, name)
    if dataclasses.is_dataclass(value):
      check(value)
    if hint is bool and not isinstance(value, bool):
      raise ConfigError(f"{name}={value!r} must be True or False")
    for allowed in typing.get_args(hint)[1:]:
      if isinstance(allowed, Allowed):
        allowed.check(name, value)


# (folder, step) -> a function of a row of metrics; rows beyond the step are no longer valid.
WRITERS: dict[str, Callable[[Path, int], Callable[[dict[str, Any]], None]]] = {}
_KINDS: dict[str, dict[str, Any]] = {
  "network": NETWORKS,
  "optimizer": OPTIMIZERS,
  "writer": WRITERS,
}


def register(kind: str, name: str, make: Callable[..., Any]) -> None:
  """Makes a part of one's own known by name, as settings and flags name it.

  Args:
    kind: `network`, of `make(config, game, outputs)`, a Flax module of features `[R, F]` and
      beliefs `[R, 2 * H]`, own ones first, that answers `[R, outputs]`, a value for each infostate;
      `optimizer`, of `make(learning_rate)`, Optax's, before clipping and decay; or `writer`, of
      `make(folder, step)`, a function of each row of metrics from `step` on. `games.register` is
      for games.
    name: of it.
    make: makes it.

  Raises:
    TypeError: `name` is no text, or `make` no function.
    ValueError: there is no such kind, or the name is taken.
  """
  if kind not in _KINDS:
    raise ValueError(unknown_name("kind", kind, _KINDS))
  if not isinstance(name, str) or not callable(make):
    raise TypeError(f"name={name!r} must be a string, and make={make!r} a function")
  if name in _KINDS[kind]:
    raise ValueError(f"name={name!r} is already registered; choose another")
  _KINDS[kind][name] = make


def import_module(name: str) -> None:
  """Imports a module, also of the present folder or a file `NAME.py`, once: it registers parts."""
  path = Path(name)
  module = path.stem if path.suffix == ".py" else name
  folder = str(path.parent.resolve() if path.suffix == ".py" else Path.cwd())
  if folder not in sys.path:
    sys.path.append(folder)
  if importlib.util.find_spec(module.partition(".")[0]) is None:
    raise ConfigError(f"module={name!r} is neither a module nor a file that ends in .py")
  importlib.import_module(module)
