"""Exploitability, and other numbers of chips, in the units that poker papers use."""

import math
from typing import NamedTuple

from games.poker.holdem import Holdem


class Chips(NamedTuple):
  """A number of chips.

  Attributes:
    chips: the number.
    pot: as a fraction of the pot at the start of the game; NaN if nothing is in it.
    mbb: in thousandths of a big blind.
  """

  chips: float
  pot: float
  mbb: float


def in_units(game: Holdem, chips) -> Chips:
  """Returns payoffs of `game`, chips of a hand with its own stack, in all units."""
  value = float(chips)
  pot = game.rules.pot
  share = value / pot if pot else math.nan
  return Chips(value, share, 1000 * value / game.rules.big_blind)
