"""Poker: cards, hands, no-limit betting and hold'em endgames as public-tree games."""

from games.poker.abstraction import HUNL, LIBRATUS_ENDGAMES, PRESETS, TEH, BetSizes, map_bet
from games.poker.betting import CALL, FIRST_BET, FOLD, Betting
from games.poker.cards import NUM_HOLE_CARDS, RANKS, SUITS, Deck, category, evaluate, strengths
from games.poker.endgames import (
  FlopHoldem,
  NoLimitHoldem,
  RiverEndgame,
  SmallHoldem,
  SmallHoldem4Rounds,
  TurnEndgame,
)
from games.poker.holdem import Chips, Holdem, in_units
from games.poker.notation import ALL_IN, Geometric, Plus, Times, format_range, parse_range

__all__ = [
  "ALL_IN", "CALL", "FIRST_BET", "FOLD", "HUNL", "LIBRATUS_ENDGAMES", "NUM_HOLE_CARDS",
  "PRESETS", "RANKS", "SUITS", "TEH", "BetSizes", "Betting", "Chips", "Deck", "FlopHoldem",
  "Geometric", "Holdem", "NoLimitHoldem", "Plus", "RiverEndgame", "SmallHoldem",
  "SmallHoldem4Rounds", "Times", "TurnEndgame", "category", "evaluate", "format_range",
  "in_units", "map_bet", "parse_range", "strengths",
]  # fmt: skip
