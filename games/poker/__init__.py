"""Poker: cards, hands, no-limit betting and hold'em endgames as public-tree games."""

from games.poker.cards import RANKS, SUITS, Deck
from games.poker.hands import CATEGORIES, category_name, evaluate, strengths, suit_masks

__all__ = [
  "CATEGORIES",
  "RANKS",
  "SUITS",
  "Deck",
  "category_name",
  "evaluate",
  "strengths",
  "suit_masks",
]
