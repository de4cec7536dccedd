"""Command lines: tyro parses them, and its complaints are brought to one sentence each."""

import contextlib
import difflib
import io
import sys
import types
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from rebel_jax.config import ConfigError

T = TypeVar("T")


def given(cls: type, argv: Sequence[str], positional: Sequence[str] = ()) -> dict[str, list[str]]:
  """Returns which fields of a dataclass a command line sets, with their values as text.

  A flag without a value maps to an empty list. Of a flag given twice the last counts, as for
  tyro.

  Args:
    cls: the dataclass.
    argv: the command line.
    positional: fields, marked as such for tyro, that are given without a flag.

  Raises:
    ConfigError: a flag is unknown, lacks its value or has one of the wrong type, or there is an
      argument that belongs to no flag.
  """
  flags = {n: hint for n, hint in typing.get_type_hints(cls).items() if n not in positional}
  found: dict[str, list[str]] = {}
  waiting = list(positional)
  tokens = list(argv)
  while tokens:
    token = tokens.pop(0)
    if not token.startswith("--"):
      if not waiting or (token.startswith("-") and len(token) > 1):
        raise ConfigError(f"argument {token!r} belongs to no flag; --help lists the flags")
      found[waiting.pop(0)] = [token]
      continue
    flag, equals, value = token.partition("=")
    name = flag[2:].replace("-", "_")
    if name.startswith("no_") and flags.get(name[3:]) is bool:
      name = name[3:]
    if name not in flags:
      names = [f"--{n.replace('_', '-')}" for n in flags]
      close = difflib.get_close_matches(flag, names, n=1)
      hint = f" (did you mean {close[0]}?)" if close else ""
      raise ConfigError(f"flag {flag!r} is unknown{hint}; --help lists the flags")
    values = [value] if equals else []
    if flags[name] is bool:
      if equals or (tokens and tokens[0].lower() in ("true", "false", "0", "1", "yes", "no")):
        wrong = value if equals else tokens[0]
        off = f"--no-{flag[2:].removeprefix('no-')}"
        raise ConfigError(f"{name}={wrong!r} is not allowed: the flag takes no value; {off} unsets")
    elif _is_pairs(flags[name]):
      while tokens and not tokens[0].startswith("--"):
        values.append(tokens.pop(0))
    elif not equals:
      if not tokens or tokens[0].startswith("--"):
        raise ConfigError(f"{name} must have a value after {flag}; allowed is {_said(flags[name])}")
      values.append(tokens.pop(0))
    _check(name, flags[name], values)
    found[name] = values
  if waiting:
    raise ConfigError(f"{waiting[0]} must be given; --help says what it is")
  return found


def parse(
  cls: type[T],
  argv: Sequence[str],
  *,
  prog: str,
  default: T | None = None,
  positional: Sequence[str] = (),
) -> T:
  """Returns the dataclass that a command line describes; `--help` prints and exits.

  Raises:
    ConfigError: the command line is wrong.
  """
  if "--help" in argv or "-h" in argv:
    tyro.cli(cls, args=["--help"], prog=prog, default=default)
  given(cls, argv, positional)
  printed = io.StringIO()
  try:
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
      parsed = tyro.cli(cls, args=list(argv), prog=prog, default=default)
  except SystemExit:
    lines = [line.strip("│╭╮╰╯─+|- ") for line in printed.getvalue().splitlines()]
    text = next((line for line in lines[1:] if line), "it is not understood")
    raise ConfigError(f"command line: {text}; --help lists the flags") from None
  assert isinstance(parsed, cls)
  return parsed


def fail(error: Exception) -> int:
  """Prints one sentence on standard error and returns the exit code of a wrong setting."""
  print(f"error: {error}", file=sys.stderr)
  return 2


def _is_pairs(hint: Any) -> bool:
  return typing.get_origin(hint) is tuple


def _options(hint: Any) -> tuple[Any, ...]:
  return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _said(hint: Any) -> str:
  names = {int: "an integer", float: "a number", str: "text", types.NoneType: "None"}
  if _is_pairs(hint):
    return "pairs of a name and an integer or text"
  return " or ".join(names[option] for option in _options(hint))


def _check(name: str, hint: Any, values: list[str]) -> None:
  """Checks that text can become what a field holds."""
  if _is_pairs(hint):
    if len(values) % 2:
      raise ConfigError(f"{name}={' '.join(values)!r} must be {_said(hint)}")
    names = values[::2]
    if len(set(names)) < len(names):
      raise ConfigError(f"{name}={' '.join(values)!r} must name each parameter once")
  elif hint is not bool and not any(_reads(option, values[0]) for option in _options(hint)):
    raise ConfigError(f"{name}={values[0]!r} must be {_said(hint)}")


def _reads(kind: type, text: str) -> bool:
  if kind is types.NoneType:
    return text == "None"
  try:
    kind(text)
  except ValueError:
    return False
  return True
