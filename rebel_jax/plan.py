"""What a run does with its time: one that its time would cut off is made shorter instead.

A learning rate that is still high where training is cut off leaves a worse network than a shorter
run whose learning rate has fallen.
"""

from rebel_jax.pace import Pace
from rebel_jax.processes import share
from rebel_jax.setup import Setup, with_examples

# When to look whether the time suffices, as a share of it: late enough to know the pace, early
# enough for the learning rate to fall. And which share of the time left is planned with.
_LOOK = 0.6
_CAREFULLY = 0.9


class Plan:
  """How long a run is to be.

  Attributes:
    setup: of the run as it is to end: its configuration's examples are fewer if it was shortened.
    pace: how fast it goes.
    shortened: whether it was.
  """

  def __init__(self, setup: Setup):
    self.setup = setup
    self.pace = Pace(setup.config)
    self.shortened = False

  def shorten(self, step: int, elapsed: float) -> bool:
    """Makes the run shorter if its time will not suffice; every process must make the same calls.

    Args:
      step: how many were taken.
      elapsed: seconds since the command began.

    Returns:
      Whether it did.
    """
    limit = self.setup.config.max_seconds
    if self.shortened or limit is None:
      return False
    examples = 0
    seconds = _CAREFULLY * (limit - elapsed)
    if elapsed >= _LOOK * limit and self.pace.left(step) > seconds > 0:
      # A shorter run is another program.
      examples = self.pace.affordable(step, seconds - self.pace.compiling)
    examples = share(examples)
    if not examples:
      return False
    self.setup = with_examples(self.setup, examples)
    self.pace.config = self.setup.config
    self.shortened = True
    return True
