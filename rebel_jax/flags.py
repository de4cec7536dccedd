"""Command lines: tyro parses them, and what it refuses becomes one sentence."""

import argparse
import contextlib
import dataclasses
import difflib
import inspect
import io
import json
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import tyro

from rebel_jax import devices
from rebel_jax.config import KINDS, Search, allowed
from rebel_jax.runs.display import CLOSED_PIPE, Display, Interrupted, complain, watch
from rebel_jax.tables.acpc import TableError

T = TypeVar("T")
INTERRUPTED = 128 + signal.SIGINT  # the exit code
_LEAST_WIDTH = 40  # of a terminal: with much less, tyro does not end


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
  """Options of the searches of a command's agent.

  Attributes:
    iterations: Iterations of each of the agent's searches; one player's update is one.
    algorithm: What the agent searches with; None for the run's eval_algorithm.
    depth: Public actions, chance included, that each search looks ahead: a multiple of the run's,
      whose leaves its network knows, or stage; None for the run's.
    simulations: Simulations of each search of a network whose searches grow trees; None for
      half of the run's eval_iterations.
    per_update: Simulations for each update of such searches; None for one.
  """

  iterations: Annotated[int, allowed.iterations()] = 1_024
  algorithm: Annotated[str | None, allowed.optional(allowed.ALGORITHM)] = None
  depth: Annotated[int | str | None, allowed.optional(allowed.DEPTH)] = None
  simulations: Annotated[int | None, allowed.optional(allowed.integer(1, 2**20))] = None
  per_update: Annotated[float | None, allowed.optional(allowed.number())] = None


def parse(
  cls: type[T],
  argv: Sequence[str],
  *,
  prog: str,
  default: T | None = None,
  check: Callable[[str], None] = lambda name: None,
  **names: Iterable[str],
) -> T:
  """Returns the settings that a command line sets, unchecked; `--help` prints and exits."""
  about = inspect.cleandoc(cls.__doc__ or "").partition("\n\nAttributes:")[0].split("\n\n")
  about += [f"{kind}: {', '.join(known)}" for kind, known in names.items()]
  if not hasattr(default, "run"):  # of which it is no option
    about.append("--module NAME imports a module, or a .py file, that registers parts of your own.")
  width = max(shutil.get_terminal_size().columns, _LEAST_WIDTH)
  if width == _LEAST_WIDTH:
    os.environ["COLUMNS"] = str(width)
  # tyro joins lines, but those that begin with a space.
  wrap = textwrap.TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)
  options: dict[str, Any] = {} if default is None else {"default": default}
  printed = io.StringIO()
  try:
    with contextlib.redirect_stderr(printed):
      parsed, unknown = tyro.cli(
        cls,
        args=list(argv),
        prog=prog,
        description="\n\n".join(map(wrap.fill, about)),
        return_unknown_args=True,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands),
        **options,
      )
  except SystemExit as end:
    if not end.code:
      raise
    what = _sentence(printed.getvalue())
    raise allowed.ConfigError(f"command line: {what}; --help lists the flags") from None
  if unknown:
    raise _unknown(unknown, parsed, check)
  return parsed


def import_own(argv: Sequence[str]) -> tuple[str | None, list[str]]:
  """Imports the module that `--module` names; returns the name and the other arguments."""
  reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
  reader.add_argument("--module")
  with allowed.in_config_errors("command line", argparse.ArgumentError):
    asked, others = reader.parse_known_args(argv)
  if asked.module is not None:
    allowed.import_module(asked.module)
  return asked.module, others


def refuse(options: Any, names: Iterable[str], why: str) -> None:
  """Checks that none of a command's options by `names` is set."""
  for name in names:
    if (value := getattr(options, name)) != getattr(type(options), name):
      raise allowed.ConfigError(f"{name}={value!r} {why}")


def check_kind(options: Any, search: Search) -> None:
  """Checks that no option is about searches of another kind."""
  own = [x for x in vars(options) if any(x in kind.options for kind in KINDS)]
  refuse(
    options,
    [x for x in own if x not in search.options],
    f"is not for {options.checkpoint!r}, which has {search.kind}; allowed are: "
    + ", ".join(x for x in search.options if x in own),
  )


def agent_settings(options: Any, search: Search) -> dict[str, Any]:
  """Returns those of a command's options that the agents of searches of a kind take."""
  return {name: getattr(options, name) for name in search.agent_options if hasattr(options, name)}


def command(
  body: Callable[[], int | None], *, is_process: bool = True, interrupted: str = "\ninterrupted"
) -> int:
  """Runs a command and returns its exit code; what ends it says one sentence on standard error."""
  for stream in (sys.stdin, sys.stdout, sys.stderr):  # which may not show or hold all text
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(errors="replace" if stream is sys.stdin else "backslashreplace")
  if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # while it was loaded
    signal.signal(signal.SIGINT, signal.default_int_handler)
  if is_process:
    watch()
  try:
    try:
      return body() or 0
    finally:
      if sys.stdout is not None:
        sys.stdout.flush()
  except (allowed.ConfigError, allowed.RunError, TableError) as error:
    complain(f"error: {error}")
    return 2 if isinstance(error, allowed.ConfigError) else 1
  except SystemExit as end:
    if not isinstance(end.code, str):
      raise
    complain(f"error: {end.code}")  # a sentence about what was asked for
    return 2
  except (KeyboardInterrupt, Interrupted) as stopped:
    complain(interrupted)
    code = 128 + getattr(stopped, "signal", signal.SIGINT)
    if is_process:  # at once: Python crashes where it unloads itself while devices compute
      os._exit(code)
    return code
  except OSError as error:
    closed = isinstance(error, BrokenPipeError)
    complain("standard output was closed" if closed else f"error: {error}")
    if isinstance(sys.stdout, io.TextIOWrapper):  # or Python complains as it ends
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + CLOSED_PIPE if closed else 1


def entry(
  name: str, cls: type[T], body: Callable[..., int | None], **names: Callable[[], Iterable[str]]
) -> Callable[..., int]:
  """Returns the `main` of a command, which takes its flags, the process's own for None."""

  def main(argv: Sequence[str] | None = None, **more: Any) -> int:
    """Runs the command and returns its exit code."""

    def run() -> int | None:
      own = import_own(sys.argv[1:] if argv is None else argv)[1]
      known: dict[str, Any] = {kind: listed() for kind, listed in names.items()}
      options = parse(cls, own, prog=f"python -m rebel_jax.{name}", **known)
      allowed.check(options)
      devices.enable_cache()
      return body(options, **more)

    return command(run, is_process=argv is None)

  return main


def say(result: Any, as_json: bool, title: str, rows: list[tuple[str, str]]) -> None:
  """Prints a command's result on standard output, as JSON or as a table."""
  display = Display()
  if as_json:
    print(json.dumps(result))
  else:
    display.table(title, rows)
  if display.closed:
    raise BrokenPipeError


def _sentence(printed: str) -> str:
  """Returns the message in tyro's box as one line, without title and last line."""
  lines = [line.strip("│╭╮╰╯─+|- ") for line in printed.splitlines()]
  said = " ".join([line for line in lines if line][1:])
  return said.partition("For full helptext")[0].rstrip(" .")


def _unknown(
  arguments: list[str], parsed: Any, check: Callable[[str], None]
) -> allowed.ConfigError:
  """Returns the error for the first of the arguments that tyro has no use for."""
  flag = arguments[0].partition("=")[0]
  if not flag.startswith("--") or len(flag) == 2:
    return allowed.ConfigError(
      f"argument {arguments[0]!r} belongs to no flag; --help lists the flags"
    )
  check(flag.removeprefix("--").removeprefix("no-").replace("-", "_"))
  known = [f"--{name.replace('_', '-')}" for name in allowed.flat(parsed)]
  close = difflib.get_close_matches(flag, known, n=1)
  hint = f" (did you mean {close[0]}?)" if close else ""
  return allowed.ConfigError(f"flag {flag!r} is unknown{hint}; --help lists the flags")
