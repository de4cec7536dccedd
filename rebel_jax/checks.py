"""Checks of settings that several commands share, and the one sentence that says what is wrong."""

import math
import os
from collections.abc import Iterable
from typing import Any

import solvers
from games.registry import unknown_name


class ConfigError(ValueError):
  """A setting that is not allowed; the message is one sentence for the user."""


def unknown(field: str, value: Any, known: Iterable[str]) -> ConfigError:
  """Returns the error for a name that is not one of `known`, with the nearest as a hint."""
  return ConfigError(unknown_name(field, value, known))


def is_path(value: Any) -> bool:
  """Says whether the system could have a file of that name."""
  try:
    return isinstance(value, str) and len(os.fsencode(value)) > 0 and "\0" not in value
  except UnicodeEncodeError:
    return False


def check_integer(field: str, value: Any, low: int, high: int | None) -> None:
  """Checks that a field's value is an integer from `low` to `high` (None for no limit).

  Raises:
    ConfigError: it is not.
  """
  if isinstance(value, bool) or not isinstance(value, int):
    raise ConfigError(f"{field}={value!r} must be an integer")
  if value < low or (high is not None and value > high):
    top = f" and at most {high}" if high is not None else ""
    raise ConfigError(f"{field}={value} must be at least {low}{top}")


def check_algorithm(field: str, value: Any) -> None:
  """Checks that a field names an algorithm, with parameters that it has.

  Raises:
    ConfigError: it does not.
  """
  try:
    solvers.make_algorithm(value, field)
  except ValueError as error:
    raise ConfigError(str(error)) from None


def check_depth(depth: Any) -> None:
  """Checks how far searches look ahead.

  Raises:
    ConfigError: it is neither a positive integer nor `stage`.
  """
  if isinstance(depth, str) and depth != "stage":
    raise ConfigError(f"depth={depth!r} must be an integer, at least 1, or 'stage'")
  if not isinstance(depth, str):
    check_integer("depth", depth, 1, None)


def check_number(field: str, value: Any, high: float | None, *, zero: bool) -> None:
  """Checks that a field's value is a finite number, at most `high`, and above zero or at least it.

  Raises:
    ConfigError: it is not.
  """
  if isinstance(value, bool) or not isinstance(value, (int, float)):
    raise ConfigError(f"{field}={value!r} must be a number")
  low = "at least 0" if zero else "above 0"
  top = f" and at most {high:g}" if high is not None else ""
  too_low = value < 0 if zero else value <= 0
  if not math.isfinite(value) or too_low or (high is not None and value > high):
    raise ConfigError(f"{field}={value} must be a finite number {low}{top}")
