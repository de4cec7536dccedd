"""How much of a run is done, and how long the rest will take."""

from rebel_jax.config import Config


class Pace:
  """Seconds that steps take, where late ones may have longer searches than the first.

  Work is counted in steps with searches of `config.iterations`.
  """

  def __init__(self, config: Config):
    self._config = config
    self._seconds, self._work = 0.0, 0.0
    self._estimate = 0.0  # seconds a unit of work, from a chunk that was compiled too

  def add(self, first: int, last: int, seconds: float, *, compiled: bool) -> None:
    """Takes note of the chunk from step `first` to step `last`, and whether it was compiled."""
    work = self.work(last) - self.work(first)
    if compiled:
      self._estimate = seconds / work
    else:
      self._seconds, self._work = self._seconds + seconds, self._work + work

  def work(self, step: int) -> float:
    """Returns what the steps until `step` cost."""
    late = max(step - self._config.late_step, 0)
    return step - late + late * self._config.last_iterations / self._config.iterations

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return self.work(step) / self.work(self._config.num_steps)

  def left(self, step: int) -> float:
    """Returns how many seconds the steps after `step` will take, compilation apart."""
    unit = self._seconds / self._work if self._work else self._estimate
    return unit * (self.work(self._config.num_steps) - self.work(step))
