"""Settings of growing-tree CFR."""

import dataclasses
import math

from solvers import validation


@dataclasses.dataclass(frozen=True)
class GTCFR:
  """Settings of growing-tree CFR; the paper's PoG(s, c) is `GTCFR(simulations=s, per_update=c)`.

  Updates are of both players, by regret matching+ with linear averaging, and a fraction
  `per_update` of c < 1 means 1 / c updates for each simulation.

  Attributes:
    simulations: how many in all; 0 grows nothing.
    per_update: simulations for each update of both players.
    updates: how many without simulations; else they are counted from the two above.
    whole: whether the tree below the root is all there from the start.
    children: how many moves of a player a leaf gets when it is added, those of the highest prior;
      None for all. Chance's are added together.
    puct: how much PUCT explores.
    selection: which policy the moves follow that PUCT does not choose, `"current"` or `"average"`.
    mix: share of `ContinualResolve`'s followers, where there are alternatives.
    alternating: whether player 1 responds to what player 0 has learned in the same update, and not
      both to what they played before. Leaves are asked about once for both, so it costs nothing.
    temperature: of the softmax that turns a network's logits into the prior of PUCT.

  Raises:
    ValueError: a number is out of range.
  """

  simulations: int = 100
  per_update: float = 1.0
  updates: int | None = None
  whole: bool = False
  children: int | None = None
  puct: float = 1.25
  selection: str = "current"
  mix: float = 0.2
  alternating: bool = False
  temperature: float = 1.0

  def __post_init__(self):
    validation.check_integer("simulations", self.simulations, least=0)
    ratio = validation.check_number("per_update", self.per_update, allow_infinite=False)
    if ratio <= 0 or not math.isclose(x := max(ratio, 1 / ratio), round(x), rel_tol=1e-6):
      raise ValueError(
        f"per_update={validation.short(self.per_update)} must be a whole number, or one over one"
      )
    if self.simulations % self.per_round:
      raise ValueError(
        f"simulations={self.simulations} must be a multiple of per_update={self.per_update}"
      )
    if (self.updates is None) != (self.simulations > 0):
      raise ValueError(
        f"updates={validation.short(self.updates)} must be a number if simulations=0, and None "
        "otherwise"
      )
    validation.check_bool("whole", self.whole)
    validation.check_bool("alternating", self.alternating)
    if self.updates is not None:
      validation.check_integer("updates", self.updates)
    if self.children is not None:
      validation.check_integer("children", self.children)
    if not 0 <= validation.check_number("mix", self.mix) <= 1:
      raise ValueError(f"mix={validation.short(self.mix)} must be a share, from 0 to 1")
    validation.check_number("puct", self.puct, allow_infinite=False)
    if validation.check_number("temperature", self.temperature, allow_infinite=False) <= 0:
      raise ValueError(f"temperature={validation.short(self.temperature)} must be above 0")
    if self.selection not in ("current", "average"):
      raise ValueError(
        f"selection={validation.short(self.selection)} must be 'current' or 'average'"
      )

  @property
  def per_round(self) -> int:
    """Simulations between two rounds of updates."""
    return max(1, round(self.per_update))

  @property
  def updates_per_round(self) -> int:
    """Updates of both players in each round."""
    return max(1, round(1 / self.per_update))

  @property
  def rounds(self) -> int:
    """How often updates and simulations take turns."""
    return self.updates or self.simulations // self.per_round

  def of_any_length(self) -> "GTCFR":
    """Returns the settings of one round, which are the same for searches of all lengths."""
    if self.simulations:
      return dataclasses.replace(self, simulations=self.per_round)
    return dataclasses.replace(self, updates=1)
