"""Pace of a run: a run that its time would cut off is made shorter.

A learning rate that is still high where training is cut off leaves a worse network than a shorter
run whose learning rate has fallen.
"""

import math

from rebel_jax.config.config import Config
from rebel_jax.devices.processes import share

# When to look whether the time suffices, as a share of it: late enough to know the pace, early
# enough for the learning rate to fall. And which share of the time left is planned with.
_LOOK = 0.6
_CAREFULLY = 0.9


def work(config: Config, step: int) -> float:
  """Returns the cost of a run's first `step` steps, in steps with searches of `iterations`."""
  late = max(step - config.late_step, 0)
  return step + late * (config.rebel.late_iterations / config.rebel.iterations - 1 if late else 0)


class Pace:
  """Seconds that steps take, where late ones may have longer searches than the first.

  Attributes:
    config: of the run as it is to end: its examples are fewer if it was shortened.
    shortened: whether it was.
    evaluation: what the latest evaluation before the last took, 0 if there was none.
  """

  def __init__(self, config: Config):
    self.config, self.shortened = config, False
    self.evaluation = self._seconds = self._work = 0.0

  def add(self, first: int, last: int, seconds: float, *, compiled: bool) -> None:
    """Takes note of the steps from `first` to `last`, and whether they were compiled before."""
    if not compiled:
      self._seconds += seconds
      self._work += work(self.config, last) - work(self.config, first)

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return work(self.config, step) / work(self.config, self.config.num_steps)

  def left(self, step: int, config: Config | None = None) -> float:
    """Returns the seconds of the rest after `step`, infinite before the first measurement.

    Compilation and the last evaluation are apart. `config` is another run's, of the same pace.
    """
    config = config or self.config
    if not self._work:
      return math.inf
    steps = work(config, config.num_steps) - work(config, step)
    return steps * self._seconds / self._work + self.evaluation * _evaluations(config, step)

  def affordable(self, step: int, seconds: float) -> int:
    """Returns of how many examples the run must be to end `seconds` after `step`.

    Zero if all of them can be made by then, or not even those of another step.
    """
    if self.left(step) <= seconds:
      return 0
    a_step = 2 * self.config.solves_per_step
    low, high = step, self.config.num_steps  # the first fits, the second does not
    while high - low > 1:
      middle = (low + high) // 2
      shorter = self.config.replace(examples=a_step * middle)
      low, high = (middle, high) if self.left(step, shorter) <= seconds else (low, middle)
    return a_step * low if low > step else 0

  def shorten(self, step: int, elapsed: float) -> bool:
    """Makes the run shorter if its time will not suffice; every process must make the same calls.

    Args:
      step: how many were taken.
      elapsed: seconds since the command began.

    Returns:
      Whether it did.
    """
    limit = self.config.schedule.max_seconds
    if self.shortened or limit is None:
      return False
    examples, seconds = 0, _CAREFULLY * (limit - elapsed)
    if elapsed >= _LOOK * limit and self.left(step) > seconds > 0:
      examples = self.affordable(step, seconds)
    examples = share(examples)
    self.shortened = examples > 0
    if self.shortened:
      self.config = self.config.replace(examples=examples)
    return self.shortened


def _evaluations(config: Config, step: int) -> int:
  """Returns how many evaluations come after `step`, without the one at the end."""
  every = config.schedule.evaluate_every
  if not every or step >= config.num_steps:
    return 0
  made = 2 * config.solves_per_step * step
  return (config.self_play.examples - 1) // every - made // every
