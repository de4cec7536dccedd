"""What all pairs of hands come to on a board: the referee of showdowns, blockers and equities."""

import numpy as np

from games.poker import BetSizes, Betting, Deck, Holdem, evaluate

ONE_BET = BetSizes((((1.0,), ()),), all_in=False)


def pairs_on(deck, hands, board, *, blockers=True):
  """Returns which pairs of `hands` `[H, 2]` can meet, and who wins: `[H, H]` each, 1, 0 or -1."""
  hands, board = np.asarray(hands), np.asarray(board, int)
  live = ~np.isin(hands, board).any(axis=1)
  strength = np.zeros(len(hands), int)
  shown = np.concatenate([hands[live], np.tile(board, (live.sum(), 1))], axis=1)
  strength[live] = evaluate(deck, shown)
  meet = live[:, None] & live
  if blockers:
    meet &= (hands[:, None, :, None] != hands[None, :, None, :]).all(axis=(2, 3))
  return meet.astype(float), np.sign(strength[:, None] - strength) * meet


def small_spot(board, ranges=None, *, ranks="TJQKA", suits="shd", stack=60, bets=ONE_BET, **rules):
  """Returns a spot from `board` to the river with 20 chips in the pot, of the ranges' hands."""
  deck = Deck(ranks, suits)
  cards = deck.parse(board)
  betting = Betting((stack, stack), (10, 10), 2, **rules)
  whole = Holdem(deck=deck, board=cards, deals=(1,) * (5 - len(cards)), rules=betting, bets=bets)
  return whole if ranges is None else whole.only(whole.beliefs(ranges))
