"""One game as it is played: private deals, public moves and chance, and who won."""

from typing import NamedTuple

import numpy as np

from games import CHANCE, TERMINAL, Game
from games.card_removal import compatible_mass, holds
from games.poker.cards import shares_card


class Move(NamedTuple):
  """What a player may do: a public action, and the infostate that the player then holds.

  The infostate is the one held before, except where moves are hidden.
  """

  action: int
  infostate: int


class Dealer:
  """The table that one game is played at; it alone knows both players' infostates.

  Attributes:
    game: the rules.
    history: public actions so far, chance included.
    state: `[S]` the public state.
    infostates: what each player holds.
  """

  def __init__(self, game: Game):
    self.game = game
    # Where infostates are hands of cards, tables of all pairs are too many to keep for every game.
    self._hands = game.hands()
    plain = self._hands is None
    self._weights = np.asarray(game.pair_weights(), float) if plain else None
    self._payoffs = np.asarray(game.payoffs(), float) if plain else None
    self._strengths = None if plain else game.strengths()
    self.history: list[int] = []
    self.state = game.initial_state()
    self.infostates = [0, 0]

  def deal(self, rng: np.random.Generator) -> None:
    """Starts a new game; infostates are drawn from the prior, and chance moves if it is first."""
    prior = np.asarray(self.game.prior(), float)
    self.state, self.history = self.game.initial_state(), []
    if self._hands is not None:
      self.infostates = _deal_hands(self._hands, prior, rng)
      return
    assert self._weights is not None
    table = int(self.game.pair_index(self.state[None])[0])
    joint = prior[0][:, None] * prior[1] * self._weights[table]
    pair = rng.choice(joint.size, p=joint.ravel() / joint.sum())
    self.infostates = [int(x) for x in np.unravel_index(pair, joint.shape)]

  @property
  def actor(self) -> int:
    """Who moves: 0, 1, `CHANCE` or `TERMINAL`."""
    return int(self.game.actor(self.state[None])[0])

  def legal_moves(self) -> list[Move]:
    """Returns the moves of the player whose turn it is."""
    player, found = self.actor, []
    for action in self.legal_actions():
      origin = self._infostate_parents(action)
      if origin is None:
        found.append(Move(action, self.infostates[player]))
        continue
      after = np.flatnonzero(origin[player] == self.infostates[player])
      found += [Move(action, int(infostate)) for infostate in after]
    return found

  def legal_actions(self) -> list[int]:
    """Returns the public actions that exist here."""
    return np.flatnonzero(self.game.legal_actions(self.state[None])[0]).tolist()

  def sample_chance(self, rng: np.random.Generator) -> int:
    """Returns a public outcome of chance, given what the players hold."""
    actions = np.array(self.legal_actions())
    states = np.repeat(self.state[None], len(actions), axis=0)
    probability, mask = self.game.chance(states, actions)
    fits = mask[:, 0, self.infostates[0]] & mask[:, 1, self.infostates[1]]
    weights = np.asarray(probability, float) * fits
    return int(rng.choice(actions, p=weights / weights.sum()))

  def apply(self, move: Move, rng: np.random.Generator) -> None:
    """Makes a move of the player whose turn it is, or of chance (its infostate is not looked at).

    Raises:
      ValueError: the move is not legal.
    """
    mover = self.actor
    if mover in (0, 1) and move not in self.legal_moves():
      legal = sorted({m.action for m in self.legal_moves()})
      raise ValueError(f"action={move.action} is not legal; legal here: {legal}")
    origin = self._infostate_parents(move.action)
    for player in (0, 1):
      if player == mover:
        self.infostates[player] = move.infostate
      elif origin is not None:
        after = np.flatnonzero(origin[player] == self.infostates[player])
        self.infostates[player] = int(rng.choice(after))
    self.state = self.game.next_states(self.state[None], np.array([move.action]))[0]
    self.history.append(int(move.action))

  def payoff(self) -> float:
    """Returns what player 0 wins in a game that has ended; player 1 loses as much."""
    assert self.actor == TERMINAL
    table = int(self.game.payoff_index(self.state[None])[0])
    scale = float(self.game.payoff_scale(self.state[None])[0])
    first, second = self.infostates
    if self._payoffs is not None:
      return scale * float(self._payoffs[table, first, second])
    assert self._strengths is not None
    if table == 0:  # a fold
      return scale
    strengths = self._strengths[table - 1].astype(int)
    return scale * float(np.sign(strengths[first] - strengths[second]))

  def is_over(self) -> bool:
    """Returns whether the game has ended."""
    return self.actor == TERMINAL

  def settle_chance(self, rng: np.random.Generator) -> list[int]:
    """Lets chance move until a player must, and returns its outcomes."""
    outcomes = []
    while self.actor == CHANCE:
      outcomes.append(self.sample_chance(rng))
      self.apply(Move(outcomes[-1], -1), rng)
    return outcomes

  def _infostate_parents(self, action: int) -> np.ndarray | None:
    origin = self.game.infostate_parents(self.state[None], np.array([action]))
    return None if origin is None else origin[0]


def _deal_hands(hands: np.ndarray, prior: np.ndarray, rng: np.random.Generator) -> list[int]:
  """Draws two hands `[H, 2]` that share no card from `prior` `[P, H]`, one after the other."""
  mass = compatible_mass(prior[1], holds(hands, int(hands.max()) + 1))
  first = prior[0] * np.where(mass > 1e-12, mass, 0.0)  # not what rounding leaves of nothing
  own = int(rng.choice(len(hands), p=first / first.sum()))
  second = np.where(shares_card(hands, hands[own][None])[:, 0], 0.0, prior[1])
  return [own, int(rng.choice(len(hands), p=second / second.sum()))]
