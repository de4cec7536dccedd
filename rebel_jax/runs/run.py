"""A training run from beginning to end: generate and learn, report, evaluate, save."""

import contextlib
import dataclasses
import functools
import gc
import importlib.util
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from rebel_jax import devices
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import Config, ConfigError, allowed, name_of, paper_exploitability
from rebel_jax.evaluation.evaluator import make_evaluator
from rebel_jax.evaluation.measurement import Measurement
from rebel_jax.runs import folders, metrics
from rebel_jax.runs.display import (
  CLOSED_PIPE,
  Display,
  Interrupted,
  RunError,
  Signals,
  duration,
  in_sentences,
  plot_exploitability,
  progress_text,
  resume_command,
  summary,
)
from rebel_jax.training.loop import MOST_STEPS, Trainer, TrainState, place
from rebel_jax.training.setup import Setup, make_setup
from rebel_jax.training.targets import with_decay_steps
from solvers.xla import return_memory

_compiled: list[float] = []  # seconds of each program that this process compiled


def _note_program(event: str, duration_secs: float, **_: Any) -> None:
  if event.endswith("backend_compile_duration"):
    _compiled.append(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_note_program)


class Result(NamedTuple):
  """How a run ended."""

  output_dir: Path  # the run's folder
  row: dict[str, Any]  # the last of its metrics
  signal: int  # that stopped it, 0 if none did


def train(
  config: Config,
  options: folders.RunOptions | None = None,
  *,
  started: float | None = None,
  display: Display | None = None,
  stop: Callable[[int], bool] = lambda step: False,
  writers: Sequence[Callable[[dict[str, Any]], None]] = (),
  evaluate: Callable[[Any, bool], Mapping[str, Any]] | None = None,
) -> Result:
  """Trains as `config` says and leaves configuration, metrics, checkpoints and a figure.

  SIGINT, SIGTERM, SIGHUP and a closed standard output make it save a checkpoint and return; a
  second SIGINT or SIGTERM does what it did before.

  Args:
    config: the settings.
    options: where to train, and what to keep; None for the usual.
    started: `time.monotonic()` when the command began, for `seconds` and `max_seconds`; None
      for now.
    display: where to show progress; None for nowhere.
    stop: called with the number of steps after each row of metrics; if it returns True, the run
      saves and returns there, to be resumed later.
    writers: called with each row of metrics, beside those that `options` name.
    evaluate: function of the parameters, by target's name, and of whether the run is over, that
      returns numbers by name, measured instead of exploitability.

  Returns:
    How it ended.

  Raises:
    ConfigError: a setting is not allowed; nothing was written.
    Interrupted: a signal came before there was anything to save.
    RunError: a parameter, loss, value or gradient is not finite, the folder cannot be written, or
      the memory of the device does not suffice; the last checkpoint is from before.
  """
  started = time.monotonic() if started is None else started
  options = options or folders.RunOptions()
  with contextlib.ExitStack() as stack:
    shown = stack.enter_context(display or Display(quiet=True))
    signals = stack.enter_context(Signals())
    about: dict[str, Any] = {}
    allowed.check(options)
    writes_events = options.tensorboard or "tensorboard" in options.writers
    if writes_events and importlib.util.find_spec("tensorboardX") is None:
      raise ConfigError(
        "tensorboard=True needs the package tensorboardX, which is not installed: "
        "pip install 'rebel-jax[tensorboard]'"
      )
    if options.resume:
      config.validate()
      folder = folders.find_run(options.output_dir).folder
      stack.enter_context(folders.lock(folder))
      resumed = folders.find_run(str(folder))  # from here on nobody else adds a newer checkpoint
      about = resumed.about
      folders.check_compatible(resumed, checkpoint.config_of(resumed.checkpoint, about), config)
      # A run goes on in the precision that it began in, whatever the session's.
      stack.enter_context(jax.enable_x64(checkpoint.is_double(resumed.checkpoint)))
    elif options.output_dir is not None:
      folders.check_free(options.output_dir)
    shown.say(f"{name_of(config)}: preparing games, searches and networks")
    with in_sentences(config), signals.raising():
      setup = make_setup(config, options.num_devices, measured=evaluate is None)
      if options.resume:
        init = functools.partial(setup.trainer.init, setup.table, mesh=setup.mesh)
        like = jax.eval_shape(init, 0)  # a traced seed: nothing is compiled
        state = checkpoint.restore(resumed.checkpoint, like, setup.mesh)
        state = with_decay_steps(state, config.gradient_steps)  # it may have been for a shorter run
      else:
        state = setup.trainer.init(setup.table, config.seed, setup.mesh)
      jax.block_until_ready(state)
    if signals.received:
      raise Interrupted(signals.received)
    if not options.resume:
      folder = folders.make_folder(name_of(config), options.output_dir)
      stack.enter_context(folders.lock(folder))
      folders.check_free(str(folder))  # another run may have come and gone meanwhile
    stack.enter_context(in_sentences(config, folder))
    run = _Run(setup, state, options, folder, about, started, shown, signals, stop)
    run.writers += writers if jax.process_index() == 0 else ()
    if evaluate is not None:
      run.measure = lambda params, seed, final, show: Measurement(
        {name: float(x) for name, x in evaluate(params, final).items()}
      )
    return stack.enter_context(contextlib.closing(run)).go()


class _Run:
  """One command's part of a run: chunks of steps, each of which ends in one row of metrics."""

  def __init__(
    self,
    setup: Setup,
    state: TrainState,
    options: folders.RunOptions,
    folder: Path,
    about: dict[str, Any],
    started: float,
    display: Display,
    signals: Signals,
    stop: Callable[[int], bool],
  ):
    self.setup, self.config, self.options, self.started = setup, setup.config, options, started
    self.folder, self.display, self.signals, self.stop = folder, display, signals, stop
    self.table, self.state = place(setup.table, setup.mesh), state
    self.step = int(state.step)
    self.examples = 2 * int(state.solves)
    self.manager = checkpoint.CheckpointManager(folder)
    self.log = metrics.MetricsLog(
      folder, about.get("metrics_bytes", 0), about.get("metrics_checksum", 0)
    )
    names = (*options.writers, *["tensorboard"] * options.tensorboard) * (jax.process_index() == 0)
    self.writers: list[Any] = [allowed.WRITERS[x](folder, self.step) for x in dict.fromkeys(names)]
    with allowed.in_config_errors(
      f"checkpoint of step {self.step} in {str(folder)!r} says nothing of its chunk",
      (AttributeError, KeyError, TypeError),
      reason=False,
    ):
      self.commands = metrics.commands_of(about, self.config, setup.mesh.devices.size)
      self.chunk = self._new_chunk()
      if about:  # whose sums may be in lists of lists, as earlier versions kept them
        self.chunk = metrics.Chunk(
          **about["chunk"] | {"sums": jax.tree.leaves(about["chunk"]["sums"])}
        )
    self.measure: Callable[..., Measurement] = make_evaluator(self.config, setup).measure
    self.seconds_before = about.get("seconds", 0.0)
    self.evaluated_at = about.get("evaluated_at", 0)  # examples at the last evaluation
    self.exploitability = about.get("last_exploitability")
    self.row: dict[str, Any] = about.get("row", {})
    self.finished = self.step >= self.config.num_steps and not self.chunk.steps
    self.saved_at = time.monotonic()
    self.num_steps = 1  # that take about a second: so often signals and the clock are looked at
    self.trainer: Trainer | None = None  # of the last call, once this command has trained
    self.pace = metrics.Pace(setup.config)
    self.limit = self.config.schedule.max_seconds or math.inf  # of this command

  def elapsed(self) -> float:
    """Returns seconds since this command began."""
    return time.monotonic() - self.started

  def _seconds(self) -> float:
    """Returns seconds of the run, those of commands before included."""
    return round(self.seconds_before + self.elapsed(), 3)

  def go(self) -> Result:
    """Trains until the examples or the time are used up, or a request to stop."""
    config, devices = self.config, self.setup.mesh.devices
    metrics.write_commands(self.folder, self.commands)
    where, searches = config.search.describe(self.setup.table.num_subgames)
    on = f"on {devices.size} {devices.flat[0].device_kind} device(s)"
    self.display.say(f"{name_of(config)} {on}, in {self.folder}")
    self.display.say(
      f"nothing left to do: all {config.num_steps:,} steps that examples="
      f"{config.self_play.examples:,} amounts to are done; raise --examples to go on"
      if self.finished
      else f"compiling self-play and learning: {where}, {config.self_play.lanes} lanes, {searches}"
    )
    try:
      while not self.finished:
        self._measure_untrained()
        self._advance()
    except Interrupted:
      self._leave()
    else:
      self.manager.wait()
      self.display.clear()
      rows = metrics.read_metrics(self.folder)
      steps, title = self.pace.config.num_steps, "done"
      if self.step < steps:
        title = f"max_seconds={self.limit} went by after {self.step:,} of {steps:,} steps"
      about = summary(config, self.folder, rows, self.row, self._seconds(), self.options.module)
      self.display.table(title, about)
    return Result(self.folder, self.row, self.signals.received)

  def close(self) -> None:
    """Ends what is being written."""
    with contextlib.suppress(RunError):  # if this is the first, it was raised before
      self.manager.close()
    self.log.close()
    for writer in self.writers:
      getattr(writer, "close", lambda: None)()

  def _new_chunk(self) -> metrics.Chunk:
    return metrics.Chunk(self.examples, metrics.gradient_steps(self.state))

  def _over(self) -> bool:
    return self.step >= self.pace.config.num_steps or devices.agree(self.elapsed() >= self.limit)

  def _interrupted(self) -> bool:
    if self.display.closed and not self.signals.received:
      self.signals.received = CLOSED_PIPE
    return self.signals.received != 0

  def _advance(self) -> None:
    """Takes some steps and closes the chunk if they complete it; Interrupted after a request."""
    config = self.config
    if devices.agree(self._interrupted()):
      raise Interrupted
    if self.pace.shorten(self.step, self.elapsed()):
      shorter = self.pace.config
      self.setup = dataclasses.replace(self.setup, config=shorter)
      self.state = with_decay_steps(self.state, shorter.gradient_steps)
      self.display.say(
        f"max_seconds={self.limit:g} will not do for all {config.num_steps:,} "
        f"steps, so the run ends after {shorter.num_steps:,}, and its learning rate falls sooner"
      )
    if self.step < self._row_at():
      self._take_steps()
      if devices.agree(time.monotonic() - self.saved_at >= self.options.checkpoint_every):
        self._save()
    over = self._over()
    if over or self.step >= self._row_at():
      self._close_chunk(over)

  def _leave(self) -> None:
    """Saves, and writes what is known of an incomplete chunk; the resumed run writes it anew."""
    self._save()
    if self.chunk.steps:
      self.log.write(self.row)
    self.manager.wait()
    self.display.__exit__()
    self.display.say(
      f"saved at step {self.step}; go on with: {resume_command(self.folder, self.options.module)}"
    )

  def _row_at(self) -> int:
    """Returns the step at which the chunk's row is due."""
    start, every = self.step - self.chunk.steps, self.config.schedule.report_every
    return min((start // every + 1) * every, self.pace.config.num_steps)

  def _take_steps(self) -> None:
    """Takes as many steps as take about a second, at most those that the chunk lacks."""
    first, began, setup = self.step + 1, time.monotonic(), self.setup
    known = len(_compiled)
    trainer = setup.trainer_at(self.step)
    compiles = trainer != self.trainer
    if compiles:
      if self.trainer is not None and trainer.self_play != self.trainer.self_play:
        self.display.say(
          f"from here on searches take {setup.config.rebel.late_iterations} iterations"
        )
      self.display.show("training", self._fraction(), "compiling")
    ends = [end - self.step for end in (self._row_at(), setup.config.late_step) if end > self.step]
    num_steps = devices.share(min(self.num_steps, MOST_STEPS, *ends))
    # The state is whole until it is donated to the program that computes the next.
    whole = lambda: not any(x.is_deleted() for x in jax.tree.leaves(self.state))  # noqa: E731
    with self.signals.raising(self._leave, whole):
      if compiles:
        self._count_memory(trainer)
      self.state, report = trainer.run(self.table, self.state, num_steps, setup.mesh)
    # An error of the device is raised here; asking for a number that was not computed may hang.
    jax.block_until_ready((self.state, report))
    self.step = int(self.state.step)
    self.examples = 2 * int(self.state.solves)
    seconds = time.monotonic() - began
    if compiles:
      self.display.say(
        f"compiled {len(_compiled) - known} programs, and took {num_steps} step(s): {seconds:.0f} s"
      )
    self.pace.add(first - 1, self.step, seconds, compiled=compiles)
    self.num_steps = max(1, min(2 * self.num_steps, int(num_steps / max(seconds, 1e-6))))
    self.trainer = trainer
    means = self.chunk.add(report, num_steps, seconds)
    self.row = metrics.make_row(self.chunk, means, self.state, self.config)
    self.row["seconds"] = self._seconds()
    self._check_finite(self.row, f", in the steps from {first} on")
    left = min(self.pace.left(self.step), self.limit - self.elapsed())
    text = progress_text(self.row, self.exploitability, left)
    self.display.show("training", self._fraction(), text)

  def _count_memory(self, trainer: Trainer) -> None:
    """Says how much memory steps take on each device, and stops before they fail for lack of it."""
    sizes = devices.memory_of(trainer.compiled(self.table, self.state, self.setup.mesh))
    if sizes is None:
      return
    held, beside, limit = sizes
    text = f"{held:.2g} GB of games, networks and examples, {beside:.2g} GB beside them in a step"
    self.display.say(f"memory of each device: {text}, of {limit:.3g} GB")
    if held + beside > limit:
      raise RunError(
        f"lanes={self.config.self_play.lanes} and buffer_size={self.config.learning.buffer_size} "
        f"take {text}, and a device has {limit:.3g} GB; fewer lanes take less"
      )

  def _check_finite(self, row: dict[str, Any], when: str = "") -> None:
    """Checks the numbers of a row, measured `when`, and the networks' parameters."""
    wrong = [
      f"{name.replace('_', ' ')} is {value}"
      for name, value in row.items()
      if isinstance(value, float) and not math.isfinite(value)
    ]
    if not wrong and not metrics.all_finite(self.state.params):
      wrong = ["networks' parameters are not finite"]
    if wrong:
      raise RunError(
        f"the {' and the '.join(wrong)} at step {self.step}{when}, so training stopped; the last "
        f"checkpoint in {str(self.folder)!r} is from before"
      )

  def _fraction(self) -> float:
    """Returns how much of the run is done, by steps or by time, whichever ends it."""
    return max(self.pace.done(self.step), self.elapsed() / self.limit)

  def _measure_untrained(self) -> None:
    """Writes a row of what there is before training, once, so that exploitability falls from it."""
    if self.step or self.log.position or not self.config.schedule.evaluate_every:
      return
    self._save()
    self.manager.wait()
    row = {"step": 0, "solves": 0, "examples": 0, "seconds": self._seconds(), "loss": None}
    self.row = row | self._evaluate(final=False)
    self._write_row()

  def _write_row(self) -> None:
    self.log.write(self.row)
    for writer in self.writers:
      writer(self.row)

  def _close_chunk(self, over: bool) -> None:
    """Evaluates if due and writes the row; Interrupted where the caller wants to stop."""
    if self.manager.empty:
      # Rows without a checkpoint are of a run whose checkpoints were lost, which no other may
      # write over.
      self._save()
      self.manager.wait()
    every = self.config.schedule.evaluate_every
    due = over or (every > 0 and self.examples - self.evaluated_at >= every)
    if due:
      self.row |= self._evaluate(final=over)
      if not over and self._over():  # time ran out meanwhile
        over = True
        self.row |= self._evaluate(final=True)
      self.evaluated_at = self.examples
    self.finished = over
    self._write_row()
    self.chunk = self._new_chunk()
    if due:
      self._save()
      self._draw()
      gc.collect()  # a figure is in cycles
      return_memory()
    if not over and self.stop(self.step):
      raise Interrupted

  def _evaluate(self, *, final: bool) -> dict[str, Any]:
    """Returns the columns that an evaluation adds to the row; it ends alike for all processes."""
    row: dict[str, Any] = {}
    ended: Exception | None = None
    if jax.process_index() == 0:
      try:
        with self.signals.raising(self._leave):
          row = self._measure(final)
      except (Interrupted, RunError) as error:
        ended = error
    if devices.agree(isinstance(ended, Interrupted)):
      raise Interrupted
    if devices.agree(ended is not None):
      raise ended or RunError("training stopped, for the reason that the first process says")
    if not final:
      self.pace.evaluation = row.get("evaluation_seconds", 0.0)
    return row

  def _measure(self, final: bool) -> dict[str, Any]:
    """Evaluates and prints the result."""
    began = time.monotonic()

    def show(what: str, done: int, total: int, unit: str, more: str) -> None:
      if self._interrupted():
        raise Interrupted
      self.display.show("evaluating", done / total, f"{what}, {done:,} of {total:,} {unit}{more}")

    params = jax.tree.map(lambda x: x.addressable_data(0), self.state.params)
    stopped = f": training stopped at step {self.step}"
    with allowed.in_config_errors("", ConfigError, raises=RunError, then=stopped):
      measured = self.measure(
        params, (self.config.seed + self.step) % 2**32, final=final, show=show
      )
    self._check_finite(measured.row)
    self.exploitability = measured.exploitability
    self.display.clear()
    average = measured.row.get("exploitability_average_policy")
    about = f"; average policy {average:.4f}" if average is not None else ""
    self.display.say(
      f"{measured.sentence} after {self.examples:,} examples and "
      f"{duration(self._seconds())}"
      + (f" ({measured.conditions}{about})" if measured.conditions else "")
    )
    return measured.row | {"evaluation_seconds": round(time.monotonic() - began, 3)}

  def _save(self) -> None:
    about = {
      "config": self.config.to_dict(),
      "step": self.step,
      "examples": self.examples,
      "seconds": self._seconds(),
      "row": self.row,
      "chunk": dataclasses.asdict(self.chunk),
      "metrics_bytes": self.log.position,
      "metrics_checksum": self.log.checksum,
      "evaluated_at": self.evaluated_at,
      "exploitability": Measurement(self.row).exploitability,
      "playthroughs": self.row.get("playthroughs"),
      "last_exploitability": self.exploitability,
      "num_devices": self.setup.mesh.devices.size,
      "environment": self.commands[-1]["environment"],
      "commands": self.commands,
    }
    self.log.sync()
    self.manager.save(self.state, about)
    self.saved_at = time.monotonic()

  def _draw(self) -> None:
    if jax.process_index() != 0:
      return
    try:
      plot_exploitability(
        metrics.read_metrics(self.folder),
        self.folder / "exploitability.png",
        title=f"{name_of(self.config)}: exploitability of the searching agent",
        paper=paper_exploitability(self.config),
      )
    except ImportError:
      if self.finished:
        self.display.say("no figure: install matplotlib (the extra rebel-jax[plots]) for one")
