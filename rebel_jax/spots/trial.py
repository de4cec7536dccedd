"""A hand that a person plays against a solution."""

import dataclasses

import numpy as np

from games import CHANCE
from rebel_jax.agents.dealer import Dealer, Move
from rebel_jax.spots.spot import PLAYERS
from rebel_jax.spots.study import Study


class Trial:
  """One hand from a spot's start; the solution plays the player that is not in `seat`."""

  def __init__(self, study: Study, seat: int, rng: np.random.Generator):
    # Where the house takes a rake, what players win does not add up to zero, and dealers refuse.
    free = dataclasses.replace(study.solved.spot, rake=0.0)
    self.dealer, self.seat, self.rng = Dealer(free.game()), seat, rng
    self.study = study.at("")
    self.dealer.deal(rng)
    self.record = [f"You are {PLAYERS[seat]} and hold {self._hand(seat)}."]
    self._continue()

  def _hand(self, seat: int) -> str:
    return self.dealer.game.infostate_name(seat, self.dealer.infostates[seat])

  def play(self, move: str) -> None:
    """Makes the person's move, and those of chance and of the solution until its next turn."""
    study = self.study
    after, held = study.go(move), self.dealer.infostates[self.seat]
    table, place = study.table, list(study.moves).index(move)
    best = int(np.argmax(table.move_ev[:, held]))
    cost = table.move_ev[best, held] - table.move_ev[place, held]
    said = f"You {move}: the solution does {table.frequency[place, held]:.0%} of the time"
    self.record.append(
      f"{said}, {cost:{study.solved.spot.form}} chips below {list(study.moves)[best]}."
    )
    self._make(after)
    self._continue()

  def _make(self, study: Study) -> None:
    for action in study.node[len(self.dealer.history) :]:
      held = self.dealer.infostates[self.dealer.actor] if self.dealer.actor < CHANCE else -1
      self.dealer.apply(Move(action, held), self.rng)
    self.study = study

  def _continue(self) -> None:
    dealer, other = self.dealer, 1 - self.seat
    if not dealer.history:  # a burned card
      self._make(self.study)
    while not dealer.is_over() and dealer.actor != self.seat:
      names = {node[-1]: name for name, node in self.study.moves.items()}
      if dealer.actor == CHANCE:
        name = names[dealer.sample_chance(self.rng)]
        self.record.append(f"{name} is dealt.")
      else:
        chances = self.study.table.frequency[:, dealer.infostates[other]]
        name = str(self.rng.choice(list(names.values()), p=chances / chances.sum()))
        self.record.append(f"{PLAYERS[other]}: {name}")
      self._make(self.study.go(name))
    if dealer.is_over():
      net = dealer.payoff() * (1 - 2 * self.seat)
      rules, state = self.study.solved.game.rules, dealer.state[None]
      rake = float(rules.raked(2 * np.abs(rules.stakes(state)))[0])
      spot = self.study.solved.spot
      won = round((net - rake * (1 + np.sign(net)) / 2) / spot.unit + spot.pot / 2, 2)
      held = self._hand(other)
      self.record.append(f"{PLAYERS[other]} held {held}; you get {won:.12g} of the pot.")
