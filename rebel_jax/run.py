"""A training run from beginning to end: generate and learn, report, evaluate, save."""

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from rebel_jax import checkpoint, event_files, folders, record, watch
from rebel_jax.checkpoint_writer import CheckpointWriter, SaveError, tidy
from rebel_jax.config import Config
from rebel_jax.display import Display, duration, progress_text
from rebel_jax.evaluation import Evaluator
from rebel_jax.failures import RunError, before_writing, while_training
from rebel_jax.figures import plot_exploitability
from rebel_jax.metrics import MetricsLog, read_metrics
from rebel_jax.plan import Plan
from rebel_jax.presets import paper_exploitability
from rebel_jax.processes import agree
from rebel_jax.setup import Setup, make_setup
from rebel_jax.signals import Interrupted, Signals
from rebel_jax.summary import resume_command, summary
from rebel_jax.training import Trainer, TrainState, place


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
    RunError: a loss, value or gradient is not finite, the folder cannot be written, or the memory
      of the device does not suffice; the last checkpoint is from before.
  """
  started = time.monotonic() if started is None else started
  with display or Display(quiet=True) as shown, contextlib.ExitStack() as stack:
    resumed = None
    if config.tensorboard:
      event_files.check_installed()
    if config.resume:
      config.validate()
      folder = folders.find_run(config.output_dir).folder
      stack.enter_context(folders.lock(folder))
      resumed = folders.find_run(str(folder))  # from here on nobody else adds a newer checkpoint
      saved = checkpoint.config_of(resumed.checkpoint, resumed.about)
      folders.check_compatible(resumed, saved, config)
    elif config.output_dir is not None:
      folders.check_free(config.output_dir)
    setup = make_setup(config)
    with before_writing(config):
      state = setup.trainer.init(setup.table, config.seed, setup.mesh)
    if resumed is None:
      folder = folders.make_folder(config)
      stack.enter_context(folders.lock(folder))
      folders.check_free(str(folder))  # another run may have come and gone meanwhile
    signals = stack.enter_context(Signals())
    stack.enter_context(while_training(config, folder))
    run = _Run(setup, state, folder, resumed, started, shown, signals, stop)
    return stack.enter_context(contextlib.closing(run)).go()


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
    self.table, self.state = place(setup.table, setup.mesh), state
    about = resumed.about if resumed else {}
    if resumed:
      self.state = checkpoint.restore(resumed.checkpoint, state, setup.mesh)
    self.log = MetricsLog(folder, about.get("metrics_bytes", 0))
    self.events: event_files.EventFiles | None = None
    self.writer = CheckpointWriter(folder, self.config.keep_checkpoints)
    self.commands = record.commands(about, self.config, setup.mesh.devices.size)
    self.evaluator = Evaluator(self.config, game=setup.game, subgames=setup.subgames)
    self.seconds_before = about.get("seconds", 0.0)
    self.evaluated_at = about.get("evaluated_at", 0)  # examples at the last evaluation
    self.exploitability = about.get("last_exploitability")
    self.row: dict[str, Any] = about.get("row", {})
    self.pending: bool = about.get("pending", False)
    self.saved_at = -math.inf
    self.step = int(self.state.step)
    self.examples = 2 * int(self.state.solves)
    self.finished = self.step >= self.config.num_steps and not self.pending
    self.trainer: Trainer | None = None  # of the last chunk, once this command has trained
    self.plan = Plan(setup)

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
        + (f", {config.last_iterations} at the end" if config.late_step < config.num_steps else "")
      )
    elif goes_on:
      self.display.say("nothing left to do: raise --examples to go on")
    while goes_on and not self.finished:
      if self.plan.shorten(self.step, self.elapsed()):
        examples = self.plan.setup.config.examples
        self.display.say(
          f"max_seconds={config.max_seconds:g} will not do for {config.examples:,} examples, so "
          f"the run ends after {examples:,}, and its learning rate falls sooner"
        )
      self._train_chunk()
      goes_on = self._close_chunk()
    self.writer.wait()
    if not goes_on:
      self.display.say(f"saved at step {self.step}; go on with: {resume_command(self.folder)}")
    else:
      self.display.clear()
      seconds, rows = self.seconds_before + self.elapsed(), read_metrics(self.folder)
      self.display.table("done", summary(config, self.folder, rows, self.row, seconds))
    return Result(self.folder, self.row, self.signals.received)

  def close(self) -> None:
    """Ends what is being written."""
    with contextlib.suppress(SaveError):  # if this is the first, it was raised before
      self.writer.wait()
    self.log.close()
    if self.events:
      self.events.close()

  def _over(self) -> bool:
    limit = self.config.max_seconds
    late = limit is not None and self.elapsed() >= limit
    return self.step >= self.plan.setup.config.num_steps or agree(late)

  def _train_chunk(self) -> None:
    config = self.config
    first, before, learned = self.step + 1, self.examples, watch.gradient_steps(self.state)
    began = time.monotonic()
    trainer = self.plan.setup.trainer_at(self.step)
    compiles = trainer != self.trainer
    if compiles:
      if self.trainer is not None and trainer.self_play != self.trainer.self_play:
        self.display.say(f"from here on searches take {config.last_iterations} iterations")
      self.display.show("training", self._fraction(), "compiling")
    self.state, report = trainer.run(self.table, self.state, config.report_every, self.setup.mesh)
    self.step = int(self.state.step)
    self.examples = 2 * int(self.state.solves)
    seconds = time.monotonic() - began
    if compiles:
      which = "first" if self.trainer is None else "next"
      self.display.say(
        f"compiled, and took the {which} {config.report_every} steps: {seconds:.0f} s"
      )
    self.plan.pace.add(first - 1, self.step, seconds, compiled=compiles)
    self.trainer = trainer
    learned = watch.gradient_steps(self.state) - learned
    losses = watch.losses(report, config.report_every * config.learn_steps, learned)
    self._check_finite(losses, first)
    made = int(self.state.replay.added.sum())  # those of inner nodes too
    in_buffer = min(made, config.buffer_size)
    self.row = {
      "step": self.step,
      "solves": int(self.state.solves),
      "examples": self.examples,
      "seconds": round(self.seconds_before + self.elapsed(), 3),
      **losses,
      "examples_per_second": round((self.examples - before) / seconds, 3),
      "gradient_steps": watch.gradient_steps(self.state),
      "buffer_examples": in_buffer,
      "buffer_age": watch.buffer_age(in_buffer, made, self.step),
      "leaves_per_iteration": float(report.rows),
      "device_memory_bytes": watch.device_memory(),
    }
    self.display.show("training", self._fraction(), self._text())

  def _check_finite(self, losses: dict[str, float | None], first: int) -> None:
    wrong = [
      f"{name.replace('_', ' ')} is {value}"
      for name, value in losses.items()
      if value is not None and not math.isfinite(value)
    ]
    if wrong:
      raise RunError(
        f"the {' and the '.join(wrong)} at step {self.step}, in the chunk from step {first} on, so "
        f"training stopped; the last checkpoint in {str(self.folder)!r} is from before"
      )

  def _fraction(self) -> float:
    """Returns how much of the run is done, by steps or by time, whichever ends it."""
    limit = self.config.max_seconds
    return max(self.plan.pace.done(self.step), self.elapsed() / limit if limit else 0.0)

  def _text(self) -> str:
    left = self.plan.pace.left(self.step)
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
        if not over:
          self.plan.pace.evaluation = self.row.get("evaluation_seconds", 0.0)
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
    if self.events:
      self.events.write(self.row)
    stops = not over and self.stop(self.step)
    if due or stops or agree(time.monotonic() - self.saved_at >= config.checkpoint_every):
      self._save(self.log.position, pending=False)
    if due:
      self._draw()
    return not stops

  def _check_signals(self) -> None:
    if agree(bool(self.signals.received)):
      raise Interrupted

  def _evaluate(self, *, final: bool) -> dict[str, Any]:
    """Returns what an evaluation adds to the row.

    The first process measures; however that ends, it ends so for all.

    Raises:
      Interrupted: a signal was received meanwhile.
      RunError: what was measured is not finite.
    """
    self.evaluated_at = self.examples
    row: dict[str, Any] = {}
    ended: Exception | None = None
    if jax.process_index() == 0:
      try:
        row = self._measure(final)
      except (Interrupted, RunError) as error:
        ended = error
    if agree(isinstance(ended, Interrupted)):
      raise Interrupted
    if agree(ended is not None):
      raise ended or RunError("training stopped, for the reason that the first process says")
    return row

  def _measure(self, final: bool) -> dict[str, Any]:
    """Evaluates, and says what came of it."""
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
    if not (math.isfinite(exploitability) and math.isfinite(average)):
      raise RunError(
        f"the exploitability is {exploitability}, of the average policy {average}, at step "
        f"{self.step}, so training stopped; the last checkpoint in {str(self.folder)!r} is from "
        "before"
      )
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
      "environment": self.commands[-1]["environment"],
      "commands": self.commands,
    }
    self.log.sync()
    self.writer.save(self.state, about)
    self.saved_at = time.monotonic()

  def _prepare_folder(self) -> None:
    if jax.process_index() == 0:
      tidy(self.folder)
    record.write(self.folder, self.commands)
    if self.config.tensorboard:
      self.events = event_files.EventFiles(self.folder, self.step)

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
