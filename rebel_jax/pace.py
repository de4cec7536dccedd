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
    seconds: spent in chunks that were not compiled first.
  """

  def __init__(self, config: Config):
    self.config = config
    self.seconds, self._work = 0.0, 0.0
    self._estimate = 0.0  # seconds a unit of work, from a chunk that was compiled too

  def add(self, first: int, last: int, seconds: float, *, compiled: bool) -> None:
    """Takes note of the chunk from step `first` to step `last`, and whether it was compiled."""
    done = work(self.config, last) - work(self.config, first)
    if compiled:
      self._estimate = seconds / done
    else:
      self.seconds, self._work = self.seconds + seconds, self._work + done

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return work(self.config, step) / work(self.config, self.config.num_steps)

  def left(self, step: int) -> float:
    """Returns how many seconds the steps after `step` will take, compilation apart."""
    return self._left(self.config, step)

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

  def _left(self, config: Config, step: int) -> float:
    unit = self.seconds / self._work if self._work else self._estimate
    return unit * (work(config, config.num_steps) - work(config, step))
