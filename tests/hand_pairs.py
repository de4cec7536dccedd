"""What all pairs of hands come to on a board: the referee of showdowns, blockers and equities."""

import numpy as np

from games.poker import evaluate


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
