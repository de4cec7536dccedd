"""A training run from beginning to end: generate and learn, report, evaluate, save."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from rebel_jax import checkpoint, folders
from rebel_jax.config import Config, ConfigError
from rebel_jax.display import Display, duration, progress_text
from rebel_jax.evaluation import Evaluator
from rebel_jax.figures import plot_exploitability
from rebel_jax.metrics import MetricsLog, describe_environment, read_metrics
from rebel_jax.presets import paper_exploitability
from rebel_jax.setup import Setup, make_setup
from rebel_jax.signals import Interrupted, Signals
from rebel_jax.training import TrainState


class RunError(RuntimeError):
  """Training cannot go on; the message is one sentence for the user."""


class Result(NamedTuple):
  """How a run ended.

  Attributes:
    output_dir: its folder.
    row: the last line of its metrics.
    signal: the signal that stopped it, 0 if none did.
  """

  output_dir: Path
  row: dict[str, Any]
  signal: int


def train(
  config: Config,
  *,
  started: float | None = None,
  display: Display | None = None,
  stop: Callable[[int], bool] = lambda step: False,
) -> Result:
  """Trains as `config` says and leaves configuration, metrics, checkpoints and a figure.

  SIGINT and SIGTERM make it save a checkpoint and return; a second one interrupts at once.

  Args:
    config: the settings.
    started: `time.monotonic()` when the command began, for `seconds` and `max_seconds`; None
      for now.
    display: where to show progress; None for nowhere.
    stop: called with the number of steps after each chunk; if it returns True, the run saves
      and returns there, to be resumed later.

  Returns:
    How it ended.

  Raises:
    ConfigError: a setting is not allowed; nothing was written.
    RunError: the loss is not finite; the last checkpoint is from before.
  """
  started = time.monotonic() if started is None else started
  with display or Display(quiet=True) as shown:
    resumed = None
    if config.resume:
      config.validate()
      resumed = folders.find_run(config.output_dir)
      saved = checkpoint.config_of(resumed.checkpoint, resumed.about)
      folders.check_compatible(resumed, saved, config)
    elif config.output_dir is not None:
      folders.check_free(config.output_dir)
    setup = make_setup(config)
    state = _first_state(setup)
    folder = resumed.folder if resumed else folders.make_folder(config)
    with folders.lock(folder), Signals() as signals:
      return _Run(setup, state, folder, resumed, started, shown, signals, stop).go()


def _first_state(setup: Setup) -> TrainState:
  try:
    return setup.trainer.init(setup.table, setup.config.seed, setup.mesh)
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    raise ConfigError(
      f"buffer_size={setup.config.buffer_size} examples with width={setup.config.width} must fit "
      "in the memory of the device"
    ) from None


class _Run:
  """One command's part of a run.

  Every chunk of steps ends in one row of metrics, which is written when it is complete: with
  what an evaluation measured, where one is due. If a signal cuts the evaluation short, the row
  stays *pending* in the checkpoint, and the resumed run completes it.
  """

  def __init__(
    self,
    setup: Setup,
    state: TrainState,
    folder: Path,
    resumed: folders.Resumable | None,
    started: float,
    display: Display,
    signals: Signals,
    stop: Callable[[int], bool],
  ):
    self.setup, self.config = setup, setup.config
    self.folder, self.display, self.signals, self.stop = folder, display, signals, stop
    self.started = started
    self.state = state
    about = resumed.about if resumed else {}
    if resumed:
      devices = setup.mesh.devices.size
      if about["num_devices"] != devices:
        raise ConfigError(
          f"num_devices={devices} cannot resume the run in {str(folder)!r}, which has "
          f"{about['num_devices']}; allowed is the same number"
        )
      self.state = checkpoint.restore(resumed.checkpoint, state, setup.mesh)
    self.log = MetricsLog(folder, about.get("metrics_bytes", 0))
    self.evaluator = Evaluator(self.config, game=setup.game, subgames=setup.subgames)
    self.seconds_before = about.get("seconds", 0.0)
    self.evaluated_at = about.get("evaluated_at", 0)  # examples at the last evaluation
    self.exploitability = about.get("last_exploitability")
    self.row: dict[str, Any] = about.get("row", {})
    self.pending: bool = about.get("pending", False)
    self.saved_at = -math.inf
    self.step = int(self.state.step)
    self.examples = _count(self.state.replay.added, setup)
    self.finished = self.step >= self.config.num_steps and not self.pending
    self.chunks: list[float] = []  # seconds that each took, since this command began

  def elapsed(self) -> float:
    """Returns seconds since this command began."""
    return time.monotonic() - self.started

  def go(self) -> Result:
    """Trains until the examples or the time are used up, or someone says stop."""
    config, devices = self.config, self.setup.mesh.devices
    self._prepare_folder()
    kind = devices.flat[0].device_kind
    self.display.say(f"{config.preset} on {devices.size} {kind} device(s), in {self.folder}")
    goes_on = not self.pending or self._close_chunk()
    if goes_on and not self.finished:
      self.display.say(
        f"compiling self-play and learning: {self.setup.table.num_subgames} subgames of depth "
        f"{config.depth}, {config.lanes} lanes, {config.iterations} iterations a search"
      )
    elif goes_on:
      self.display.say("nothing left to do: raise --examples to go on")
    while goes_on and not self.finished:
      self._train_chunk()
      goes_on = self._close_chunk()
    self.log.close()
    if not goes_on:
      self.display.say(f"saved at step {self.step}; go on with: {self._command('--resume')}")
    else:
      self.display.clear()
      self._summarise()
    return Result(self.folder, self.row, self.signals.received)

  def _over(self) -> bool:
    limit = self.config.max_seconds
    late = limit is not None and self.elapsed() >= limit
    return self.step >= self.config.num_steps or _agree(late)

  def _train_chunk(self) -> None:
    config = self.config
    before, learned = self.examples, _gradient_steps(self.state)
    began = time.monotonic()
    if not self.chunks:
      self.display.show("training", self.step / config.num_steps, "compiling")
    trainer = self.setup.trainer
    self.state, report = trainer.run(
      self.setup.table, self.state, config.report_every, self.setup.mesh
    )
    self.step = int(self.state.step)
    self.examples = _count(self.state.replay.added, self.setup)
    seconds = time.monotonic() - began
    if not self.chunks:
      self.display.say(f"compiled, and took the first {config.report_every} steps: {seconds:.0f} s")
    self.chunks.append(seconds)
    learned = _gradient_steps(self.state) - learned
    loss = None
    losses = {}
    if learned:  # the report's mean counts steps before learning began as zero
      scale = config.report_every * config.learn_steps / learned
      loss = float(report.loss) * scale
      if report.policy_loss is not None:
        losses["policy_loss"] = float(report.policy_loss) * scale
      if not math.isfinite(loss):
        raise RunError(
          f"the loss is {loss} at step {self.step}, so training stopped; the last checkpoint in "
          f"{str(self.folder)!r} is from before"
        )
    self.row = {
      "step": self.step,
      "solves": int(self.state.solves),
      "examples": self.examples,
      "seconds": round(self.seconds_before + self.elapsed(), 3),
      "loss": loss,
      **losses,
      "examples_per_second": round((self.examples - before) / seconds, 3),
      "gradient_steps": _gradient_steps(self.state),
      "leaves_per_iteration": float(report.rows),
    }
    self.display.show("training", self._fraction(), self._text())

  def _fraction(self) -> float:
    """Returns how much of the run is done, by steps or by time, whichever ends it."""
    limit = self.config.max_seconds
    return max(self.step / self.config.num_steps, self.elapsed() / limit if limit else 0.0)

  def _text(self) -> str:
    # The first chunk's time is mostly compilation, which says nothing about those to come.
    chunks = self.chunks[1:] or self.chunks
    rate = len(chunks) * self.config.report_every / sum(chunks)
    left = (self.config.num_steps - self.step) / rate
    if self.config.max_seconds is not None:
      left = min(left, self.config.max_seconds - self.elapsed())
    return progress_text(self.row, self.exploitability, left)

  def _close_chunk(self) -> bool:
    """Evaluates if it is time to, writes the row and saves; returns whether nobody said stop."""
    config, over = self.config, self._over()
    every = config.evaluate_every
    due = over or (every > 0 and self.examples - self.evaluated_at >= every)
    position, evaluated_at = self.log.position, self.evaluated_at
    try:
      self._check_signals()
      if due:
        self.row |= self._evaluate(final=over)
        if not over and self._over():  # time ran out meanwhile
          over = True
          self.row |= self._evaluate(final=True)
    except Interrupted:
      self.evaluated_at = evaluated_at
      self.log.write(self.row)
      self._save(position, pending=True)
      return False
    self.finished = over
    self.log.write(self.row)
    stops = not over and self.stop(self.step)
    if due or stops or _agree(time.monotonic() - self.saved_at >= config.checkpoint_every):
      self._save(self.log.position, pending=False)
    if due:
      self._draw()
    return not stops

  def _check_signals(self) -> None:
    if _agree(bool(self.signals.received)):
      raise Interrupted

  def _evaluate(self, *, final: bool) -> dict[str, Any]:
    """Returns what an evaluation adds to the row."""
    self.evaluated_at = self.examples
    if jax.process_index() != 0:
      return {}
    config = self.config
    playthroughs = config.final_playthroughs if final else config.eval_playthroughs
    iterations = config.final_iterations if final else config.eval_iterations
    params = jax.tree.map(lambda x: x.addressable_data(0), self.state.params)

    def measure(unsafe: bool) -> float:
      def progress(done: int, total: int) -> None:
        self.signals.check()
        what = "average policy" if unsafe else f"{playthroughs} playthroughs"
        self.display.show("evaluating", done / total, f"{what}, {done:,} of {total:,} searches")

      return self.evaluator.exploitability(
        params,
        playthroughs=playthroughs,
        iterations=iterations,
        seed=(config.seed + self.step) % 2**32,
        unsafe=unsafe,
        progress=progress,
      )

    began = time.monotonic()
    exploitability, average = measure(unsafe=False), measure(unsafe=True)
    self.exploitability = exploitability
    self.display.clear()
    self.display.say(
      f"exploitability {exploitability:.4f} after {self.examples:,} examples and "
      f"{duration(self.seconds_before + self.elapsed())} ({playthroughs} playthroughs, "
      f"{iterations:,} iterations; average policy {average:.4f})"
    )
    return {
      "exploitability": exploitability,
      "playthroughs": playthroughs,
      "iterations": iterations,
      "exploitability_average_policy": average,
      "evaluation_seconds": round(time.monotonic() - began, 3),
    }

  def _save(self, metrics_bytes: int, *, pending: bool) -> None:
    about = {
      "config": self.config.to_dict(),
      "step": self.step,
      "examples": self.examples,
      "seconds": round(self.seconds_before + self.elapsed(), 3),
      "row": self.row,
      "pending": pending,
      "metrics_bytes": metrics_bytes,
      "evaluated_at": self.evaluated_at,
      "exploitability": self.row.get("exploitability"),
      "playthroughs": self.row.get("playthroughs"),
      "last_exploitability": self.exploitability,
      "num_devices": self.setup.mesh.devices.size,
      "environment": describe_environment(),
    }
    checkpoint.save(self.folder, self.state, about, self.config.keep_checkpoints)
    self.saved_at = time.monotonic()

  def _prepare_folder(self) -> None:
    if jax.process_index() == 0:
      checkpoint.remove_unfinished(self.folder)
      about = {"config": self.config.to_dict(), "environment": describe_environment()}
      (self.folder / "config.json").write_text(json.dumps(about, indent=2) + "\n")

  def _draw(self) -> None:
    if jax.process_index() != 0:
      return
    path = self.folder / "exploitability.png"
    title = f"{self.config.preset}: exploitability of the searching agent"
    paper = paper_exploitability(self.config)
    try:
      plot_exploitability(read_metrics(self.folder), path, title=title, paper=paper)
    except ImportError:
      if self.finished:
        self.display.say("no figure: install matplotlib (the extra rebel-jax[plots]) for one")

  def _command(self, flag: str) -> str:
    return f"python train.py {flag} --output-dir {self.folder}"

  def _summarise(self) -> None:
    row, newest = self.row, checkpoint.checkpoints_of(self.folder)[-1]
    rows = [
      ("examples", f"{row['examples']:,} from {row['solves']:,} subgames"),
      ("time", f"{self.seconds_before + self.elapsed():.0f} s"),
    ]
    if row.get("exploitability") is not None:
      conditions = f"{row['playthroughs']} playthroughs, {row['iterations']:,} iterations"
      rows.append(("exploitability", f"{row['exploitability']:.4f} ({conditions})"))
      average = row["exploitability_average_policy"]
      rows.append(("average policy", f"{average:.4f} (unsafe search, {row['iterations']:,})"))
    paper = paper_exploitability(self.config)
    if paper is not None:
      rows.append(("paper, Table 2", f"{paper:g} (1,024 playthroughs, 1,024 iterations)"))
    rows += [
      ("folder", str(self.folder)),
      ("checkpoint", str(newest)),
      ("measure it again", f"python -m rebel_jax.evaluate {self.folder}"),
      ("train longer", f"{self._command('--resume')} --examples {2 * self.config.examples}"),
    ]
    self.display.table("done", rows)


def _agree(decision: bool) -> bool:
  """Returns the first process's decision, so that all processes do the same."""
  if jax.process_count() == 1:
    return decision
  from jax.experimental import multihost_utils

  return bool(multihost_utils.broadcast_one_to_all(np.asarray(decision)))


def _count(per_device: jax.Array, setup: Setup) -> int:
  """Returns the sum of a number that each device of every process has."""
  everywhere = NamedSharding(setup.mesh, PartitionSpec())
  return int(jax.jit(jnp.sum, out_shardings=everywhere)(per_device))


def _gradient_steps(state: TrainState) -> int:
  """Returns how many gradient steps were taken: Adam counts them."""
  counts = optax.tree_utils.tree_get_all_with_path(state.optimizer_state, "count")
  return int(counts[0][1])
