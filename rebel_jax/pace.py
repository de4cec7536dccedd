"""How much of a run is done, and how long the rest will take."""

import dataclasses

from rebel_jax.config import Config


class Pace:
  """Seconds that steps take, where late ones may have longer searches than the first.

  Work is counted in steps with searches of `config.iterations`.

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
    work = self.work(last) - self.work(first)
    if compiled:
      self._estimate = seconds / work
    else:
      self.seconds, self._work = self.seconds + seconds, self._work + work

  def work(self, step: int) -> float:
    """Returns what the steps until `step` cost."""
    late = max(step - self.config.late_step, 0)
    return step - late + late * self.config.last_iterations / self.config.iterations

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return self.work(step) / self.work(self.config.num_steps)

  def left(self, step: int) -> float:
    """Returns how many seconds the steps after `step` will take, compilation apart."""
    unit = self.seconds / self._work if self._work else self._estimate
    return unit * (self.work(self.config.num_steps) - self.work(step))

  def affordable(self, step: int, seconds: float) -> int:
    """Returns of how many examples the run must be to end `seconds` after `step`.

    Zero if all of them can be made by then, or not even those of another chunk.
    """
    if self.left(step) <= seconds:
      return 0

    def shorter(steps: int) -> "Pace":
      config = dataclasses.replace(self.config, examples=2 * self.config.lanes * steps)
      pace = Pace(config)
      pace.seconds, pace._work, pace._estimate = self.seconds, self._work, self._estimate
      return pace

    low, high = step, self.config.num_steps  # the first fits, the second does not
    while high - low > 1:
      middle = (low + high) // 2
      low, high = (middle, high) if shorter(middle).left(step) <= seconds else (low, middle)
    return 2 * self.config.lanes * low if low >= step + self.config.report_every else 0
