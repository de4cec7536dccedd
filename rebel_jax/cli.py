"""The command `python train.py`: flags in, a run out, and what to tell the shell.

Exit codes: 0 the run ended; 2 a setting is not allowed, nothing was written; 1 training could not
go on; 130 or 143 it was asked to stop by SIGINT or SIGTERM and saved a checkpoint first.
"""

import dataclasses
import functools
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import jax

from rebel_jax import checkpoint, compile_cache, cpu_devices, flags, folders, processes
from rebel_jax.config import Config, ConfigError
from rebel_jax.presets import get_preset


def parse_config(argv: Sequence[str]) -> Config:
  """Returns the configuration that a command line describes.

  Defaults are those of `--preset`; with `--resume` they are the resumed run's own settings.

  Raises:
    ConfigError: the command line is wrong.
  """
  if "--help" in argv or "-h" in argv:
    shown = _value_of("--preset", argv) or Config.preset
    return flags.parse(Config, argv, prog="train.py", default=get_preset(shown))
  found = flags.given(Config, argv)
  preset = found["preset"][0] if "preset" in found else None
  default = get_preset(preset or Config.preset)
  if "resume" in found and "--no-resume" not in argv:
    output_dir = found["output_dir"][0] if "output_dir" in found else None
    run = folders.find_run(output_dir, preset if output_dir is None else None)
    default = checkpoint.config_of(run.checkpoint, run.about)
    # Where and for how long is this command's business, not the run's.
    default = dataclasses.replace(
      default, output_dir=str(run.folder), max_seconds=None, distributed=False
    )
  if "game" in found and found["game"][0] != default.game:
    others: dict[str, Any] = {
      "game_params": (),
      "variants": 0,
      "vary": (),
    }  # those were another game's
    others = {name: value for name, value in others.items() if name not in found}
    default = dataclasses.replace(default, **others)
  return flags.parse(Config, argv, prog="train.py", default=default)


def _value_of(flag: str, argv: Sequence[str]) -> str | None:
  for i, token in enumerate(argv):
    if token.startswith(f"{flag}="):
      return token.partition("=")[2]
    if token == flag and i + 1 < len(argv):
      return argv[i + 1]
  return None


def _cpu_devices_before(config: Config) -> int | None:
  """Returns on how many devices of a CPU the run to resume was trained last, None if on none."""
  if not config.resume:
    return None
  about = folders.find_run(config.output_dir).about
  return about["num_devices"] if about["environment"]["platform"] == "cpu" else None


@functools.cache
def _quiet_libraries() -> None:
  """Leaves it to us to say what went wrong.

  Where a checkpoint cannot be written, Orbax logs tracebacks, threads of its own that are left
  without a listener complain, and so does asyncio of writes that failed after the first or were
  not begun any more.
  """
  for name in ("absl", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL)
  warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
  before = sys.unraisablehook

  def hook(unraisable) -> None:
    if str(unraisable.exc_value) != "Event loop is closed":
      before(unraisable)

  sys.unraisablehook = hook


def main(argv: Sequence[str] | None = None, *, started: float | None = None) -> int:
  """Runs the command and returns its exit code.

  Args:
    argv: the flags; None for the process's own.
    started: `time.monotonic()` when the command began.
  """
  started = time.monotonic() if started is None else started
  argv = sys.argv[1:] if argv is None else argv
  from rebel_jax.display import Display
  from rebel_jax.failures import RunError
  from rebel_jax.run import train

  try:
    config = parse_config(argv)
    if config.distributed:
      processes.join()
    config.validate()
    if not config.distributed:
      cpu_devices.share_cores(config, _cpu_devices_before(config))
    compile_cache.enable()
    _quiet_libraries()
    quiet = config.distributed and jax.process_index() > 0
    result = train(config, started=started, display=Display(quiet=quiet))
  except ConfigError as error:
    return flags.fail(error)
  except RunError as error:
    print(f"error: {error}", file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print("interrupted before a checkpoint could be saved", file=sys.stderr)
    return 130
  return 128 + result.signal if result.signal else 0
