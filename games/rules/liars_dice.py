"""Liar's Dice for two players (ReBeL, appendix C.3)."""

import math

import numpy as np

from games.arrays import check_integer, one_hot, xp
from games.game import TERMINAL, Game, register

_MAX_TABLE_ENTRIES = 2**28
NO_BID = -1


class LiarsDice(Game):
  """Liar's Dice with `num_dice` dice of `num_faces` faces each; the highest face is wild.

  Bids run from one die of face 1 to all `2 * num_dice` dice of the highest face; each must name
  more dice, or as many of a higher face, than the one before. Calling liar, after a bid, ends the
  game: the bidder wins (+1, else -1) if all dice together show at least as many of the face.

  Infostates are ordered rolls, `num_faces ** num_dice` of them, equally likely: infostate h shows
  face `(h // num_faces**i) % num_faces + 1` on die i.

  Actions: `(quantity - 1) * num_faces + (face - 1)` is a bid; the last action is liar.
  A public state is the last bid (-1 for none), who acts, and whether liar was called.
  """

  name = "liars_dice"

  def __init__(self, num_dice: int = 1, num_faces: int = 4):
    self.num_dice = num_dice = check_integer("num_dice", num_dice)
    self.num_faces = num_faces = check_integer("num_faces", num_faces)
    self.num_bids = 2 * num_dice * num_faces
    self.liar = self.num_bids  # the action that calls liar
    self.num_actions = self.num_bids + 1
    # Bids first: a power of more dice than that would not be computed in a lifetime.
    few = self.num_bids <= _MAX_TABLE_ENTRIES and num_dice * math.log2(num_faces) <= 64
    if not few or self.num_bids * num_faces ** (2 * num_dice) > _MAX_TABLE_ENTRIES:
      raise ValueError(
        f"num_dice={num_dice} with num_faces={num_faces} has {num_faces}**{num_dice} rolls a "
        f"player: its payoff tables may hold at most {_MAX_TABLE_ENTRIES} entries"
      )
    self.num_infostates = num_faces**num_dice
    self.text = (
      "A bid such as 1x3 claims that at least one die of both players together shows a 3; the "
      f"highest face, {num_faces}, counts as any. Bid higher, or call the last bid with liar: "
      "whoever is wrong loses."
    )

  def initial_state(self):
    return np.array([NO_BID, 0, 0])

  def actor(self, states):
    return xp.where(states[:, 2] == 1, TERMINAL, states[:, 1])

  def legal_actions(self, states):
    last_bid, action = states[:, :1], np.arange(self.num_actions, dtype=states.dtype)[None]
    legal = xp.where(action == self.liar, last_bid != NO_BID, action > last_bid)
    return legal & (states[:, 2:] == 0)

  def next_states(self, states, actions):
    called = actions == self.liar
    bid = xp.where(called, states[:, 0], actions.astype(states.dtype))
    return xp.stack([bid, 1 - states[:, 1], called], axis=1, dtype=states.dtype)

  def dice(self) -> np.ndarray:
    """Returns the faces of each roll, zero-based: `[H, num_dice]`."""
    powers = self.num_faces ** np.arange(self.num_dice)
    return np.arange(self.num_infostates)[:, None] // powers % self.num_faces

  def payoffs(self):
    faces = np.arange(self.num_faces)
    shown = self.dice()[:, :, None]
    counts = ((shown == faces) | (shown == self.num_faces - 1)).sum(axis=1)  # [H, faces]
    total = counts[:, None] + counts[None]  # [H, H, faces]
    quantity, face = np.divmod(np.arange(self.num_bids), self.num_faces)
    true = total[:, :, face] >= quantity + 1
    return np.moveaxis(np.where(true, 1.0, -1.0), -1, 0)  # to the bidder

  def payoff_index(self, states):
    return states[:, 0]

  def payoff_scale(self, states):
    # After the call it is the bidder's turn again: payoffs are to player 0.
    return xp.where(states[:, 1] == 0, 1.0, -1.0)

  def features(self, states, player):
    acts = states[:, 1:2] == player
    last_bid = one_hot(states[:, 0], self.num_bids)
    return xp.concatenate([acts, last_bid], axis=1, dtype=float)

  def action_name(self, action):
    if action == self.liar:
      return "liar"
    quantity, face = divmod(int(action), self.num_faces)
    return f"{quantity + 1}x{face + 1}"

  def infostate_name(self, player, infostate):
    return "".join(str(face + 1) for face in self.dice()[infostate])

  def __repr__(self):
    return f"games.make('liars_dice', num_dice={self.num_dice}, num_faces={self.num_faces})"


register("liars_dice", LiarsDice)
