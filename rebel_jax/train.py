"""The command `python train.py`, installed as `rebel-train`: flags in, a run out, an exit code.

Exit codes: 0 the run ended; 1 training could not go on; 2 a wrong setting, nothing was written; 128
and a signal's number, after a checkpoint was saved.
"""

import argparse
import dataclasses
import functools
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Annotated

import jax
import tyro

import games
import solvers
from rebel_jax import devices, flags
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import (
  PRESETS,
  Config,
  ConfigError,
  allowed,
  check_kind,
  get_preset,
  on_this_device,
)
from rebel_jax.runs import folders
from rebel_jax.runs.display import CLOSED_PIPE, LOST, Display, resume_command
from solvers import tuning


@dataclasses.dataclass(frozen=True)
class Command:
  """Train ReBeL by self-play. Without flags: Liar's Dice with one die of four faces each.

  Attributes:
    config: The run's settings.
    run: The run's place, and what it keeps.
    distributed: Train together with the other processes of the job, as SLURM, Open MPI, Kubernetes
      or a TPU pod start them; elsewhere JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
      JAX_PROCESS_ID name them. Needs output_dir, on a file system that all share.
    requeue: Start the run in output_dir, or resume it once it holds a checkpoint: the one command
      of a job that is put back into its queue.
  """

  config: Annotated[Config, tyro.conf.arg(name="")]
  run: folders.RunOptions = dataclasses.field(default_factory=folders.RunOptions)
  distributed: bool = False
  requeue: bool = False


def parse(argv: Sequence[str]) -> Command:
  """Returns the parsed command line; defaults are those of `--preset` or of the resumed run."""
  flags.import_own(argv)
  default = _default(argv)
  config = default.config
  return flags.parse(
    Command,
    argv,
    prog="train.py",
    default=default,
    check=lambda name: check_kind(name, config.search, config.preset),
    presets=PRESETS,
    games=games.registered_games(),
    algorithms=solvers.registered_algorithms(),
  )


def _default(argv: Sequence[str]) -> Command:
  """Returns the settings that the others of a command line replace."""
  before = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
  for flag in ("--preset", "--game"):
    before.add_argument(flag, nargs="?")
  before.add_argument("--output-dir", "--output_dir", nargs="?")
  for flag in ("--resume", "--requeue"):
    before.add_argument(flag, action=argparse.BooleanOptionalAction)
  before.add_argument("--help", "-h", action="store_true")
  try:
    asked = before.parse_known_args(argv)[0]
  except argparse.ArgumentError:  # tyro says what is wrong
    return Command(Config())
  config, options = get_preset(asked.preset or Config.preset), folders.RunOptions()
  if asked.requeue and not (asked.output_dir or asked.help):
    raise ConfigError("requeue=True needs output_dir, the folder of the run")
  resume = asked.resume or bool(asked.requeue and checkpoint.checkpoints_of(asked.output_dir))
  if resume and not asked.help:
    run = folders.find_run(asked.output_dir, None if asked.output_dir else asked.preset)
    # Where and for how long is this command's business, not the run's.
    config = checkpoint.config_of(run.checkpoint, run.about).replace(max_seconds=None)
    options = folders.RunOptions(output_dir=str(run.folder), resume=resume)
  if asked.game not in (None, config.game):  # what belongs to another game
    mine = {"game_params", "vary"} & allowed.flat(config).keys()
    config = config.replace(**dict.fromkeys(mine, ()))
  return Command(config, options)


def _settle(argv: Sequence[str], command: Command) -> tuple[Config, folders.RunOptions]:
  """Returns the command's settings for its devices, which are joined or made here."""
  config, options = command.config, command.run
  about = folders.find_run(options.output_dir).about if options.resume else {}
  before, number = about.get("environment", {}).get("platform"), about.get("num_devices")
  if command.distributed:
    devices.join()
  else:
    devices.share_cores(config, options.num_devices, number if before == "cpu" else None)
    # A run goes on with as many devices as before where there are so many.
    same = before == tuning.platform() != "cpu"
    if same and number is not None and number <= jax.device_count():
      options = dataclasses.replace(options, num_devices=options.num_devices or number)
  if not options.resume and not any(word.partition("=")[0] == "--lanes" for word in argv):
    config = on_this_device(config)
  return config, options


@functools.cache
def _quiet_libraries() -> None:
  """Silences the libraries' own messages about errors."""
  # Where a checkpoint cannot be written, Orbax logs tracebacks, threads of its own complain that
  # nobody listens, and asyncio of writes that failed after the first or never began.
  for name in ("absl", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL)
  warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
  before = sys.unraisablehook

  def hook(unraisable) -> None:
    if str(unraisable.exc_value) != "Event loop is closed":
      before(unraisable)

  sys.unraisablehook = hook


def main(argv: Sequence[str] | None = None, *, started: float | None = None) -> int:
  """Runs the command and returns its exit code."""
  started = time.monotonic() if started is None else started
  run = functools.partial(_run, sys.argv[1:] if argv is None else argv, started)
  return flags.command(run, is_process=argv is None, interrupted=LOST)


def _run(argv: Sequence[str], started: float) -> int:
  command = parse(argv)
  command.config.validate()
  allowed.check(command.run)
  from rebel_jax.runs.run import train

  config, options = _settle(argv, command)
  devices.enable_cache()
  _quiet_libraries()
  quiet = command.distributed and jax.process_index() > 0
  result = train(config, options, started=started, display=Display(quiet=quiet))
  if result.signal == CLOSED_PIPE:
    how = resume_command(result.output_dir, options.module)
    flags.complain(f"standard output was closed, so training stopped; go on with: {how}")
  return 128 + result.signal if result.signal else 0


if __name__ == "__main__":
  raise SystemExit(main())
