"""How much of a run is done, and how long the rest will take."""

import dataclasses

from rebel_jax.config import Config


def work(config: Config, step: int) -> float:
  """Returns what a run's first `step` steps cost, in steps with searches of `config.iterations`."""
  late = max(step - config.late_step, 0)
  return step - late + late * config.last_iterations / config.iterations


class Pace:
  """Seconds that steps take, where late ones may have longer searches than the first.

  Attributes:
    config: of the run.
    evaluation: what the latest evaluation before the last took, 0 if there was none.
  """

  def __init__(self, config: Config):
    self.config = config
    self.evaluation = 0.0
    # Seconds and work of all chunks that were not compiled first, and of each that was.
    self._seconds, self._work = 0.0, 0.0
    self._compiled: list[tuple[float, float]] = []

  def add(self, first: int, last: int, seconds: float, *, compiled: bool) -> None:
    """Takes note of the chunk from step `first` to step `last`, and whether it was compiled."""
    done = work(self.config, last) - work(self.config, first)
    if compiled:
      self._compiled.append((seconds, done))
    else:
      self._seconds, self._work = self._seconds + seconds, self._work + done

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return work(self.config, step) / work(self.config, self.config.num_steps)

  def left(self, step: int) -> float:
    """Returns how many seconds the rest after `step` takes: steps and evaluations.

    Compilation and the last evaluation are apart.
    """
    return self._left(self.config, step)

  @property
  def compiling(self) -> float:
    """How many seconds the compilation of a step took, the longest of them."""
    return max((x - self._unit * done for x, done in self._compiled), default=0.0)

  def affordable(self, step: int, seconds: float) -> int:
    """Returns of how many examples the run must be to end `seconds` after `step`.

    Zero if all of them can be made by then, or not even those of another chunk.
    """
    if self.left(step) <= seconds:
      return 0
    a_step = 2 * self.config.lanes

    def fits(steps: int) -> bool:
      shorter = dataclasses.replace(self.config, examples=a_step * steps)
      return self._left(shorter, step) <= seconds

    low, high = step, self.config.num_steps  # the first fits, the second does not
    while high - low > 1:
      middle = (low + high) // 2
      low, high = (middle, high) if fits(middle) else (low, middle)
    return a_step * low if low >= step + self.config.report_every else 0

  @property
  def _unit(self) -> float:
    if self._work:
      return self._seconds / self._work
    seconds, done = self._compiled[-1] if self._compiled else (0.0, 1.0)
    return seconds / done  # compilation too, as there is nothing else to go by

  def _left(self, config: Config, step: int) -> float:
    steps = self._unit * (work(config, config.num_steps) - work(config, step))
    return steps + self.evaluation * _evaluations(config, step)


def _evaluations(config: Config, step: int) -> int:
  """Returns how many evaluations come after `step`, without the one at the end."""
  if not config.evaluate_every or step >= config.num_steps:
    return 0
  made = 2 * config.lanes * step
  return (config.examples - 1) // config.evaluate_every - made // config.evaluate_every
