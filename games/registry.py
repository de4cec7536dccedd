"""Games by name."""

import difflib
import inspect
from collections.abc import Callable, Iterable

from games.arguments import short
from games.game import Game

_REGISTRY: dict[str, Callable[..., Game]] = {}


def unknown_name(field: str, value: object, known: Iterable[str]) -> str:
  """Returns the sentence about a name that is not one of `known`, with the nearest as a hint."""
  known = list(known)
  close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
  hint = f" (did you mean {close[0]!r}?)" if close else ""
  return f"{field}={short(value)} is unknown{hint}; known: {', '.join(known) or 'none'}"


def register(name: str, constructor: Callable[..., Game]) -> None:
  """Makes `games.make(name, **parameters)` call `constructor(**parameters)`.

  Raises:
    TypeError: one of the two is of another kind.
    ValueError: the name is taken.
  """
  if not isinstance(name, str) or not callable(constructor):
    raise TypeError(f"name={name!r} must be a string, and constructor={constructor!r} a function")
  if name in _REGISTRY:
    raise ValueError(f"name={name!r} is already registered; choose another")
  _REGISTRY[name] = constructor


def registered_games() -> tuple[str, ...]:
  """Returns the names of registered games, sorted."""
  return tuple(sorted(_REGISTRY))


def make(name: str, **parameters) -> Game:
  """Makes a game from its registered name and its parameters.

  Raises:
    ValueError: the name is unknown or a parameter has a value that the game does not allow.
    TypeError: the game has no such parameter.
  """
  if not isinstance(name, str) or name not in _REGISTRY:
    raise ValueError(unknown_name("game", name, registered_games()))
  constructor = _REGISTRY[name]
  declared = inspect.signature(constructor).parameters
  several = [x for x, parameter in declared.items() if parameter.kind.name.startswith("VAR")]
  allowed = [x for x in declared if x not in several]
  for parameter in parameters:
    if parameter not in allowed and not several:
      names = ", ".join(allowed) or "none"
      raise TypeError(f"{name} has no parameter {parameter!r}; it takes: {names}")
  # A deck of ranks 56789 is a number on the command line.
  texts = [x for x in allowed if declared[x].annotation in (str, "str")]
  digits = {x: str(y) for x, y in parameters.items() if x in texts and type(y) is int}
  return constructor(**parameters | digits)
