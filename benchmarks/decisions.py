"""Seconds of a decision of the agent of whole hold'em, off-tree bets among them.

Its network has learned nothing, which takes as long; the opponent bets any number of chips. A JSON
line has quantiles of the seconds from a move to the answer, without what precedes the first hand.
"""

from typing import Any

import jax
import numpy as np

from benchmarks import timing
from rebel_jax import devices
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.presets import get_preset
from rebel_jax.tables.chips import (
  Call,
  Cards,
  ChipPlayer,
  Event,
  Move,
  RaiseTo,
  Seated,
  play_chip_match,
)
from rebel_jax.tables.players import TreePlayer, seat_agent
from rebel_jax.training.setup import make_targets
from rebel_jax.training.targets import init_params


class Timed:
  """A player whose decisions are timed: what it observes since its last one, and the answer."""

  def __init__(self, player: TreePlayer):
    self._player, self._spent, self._known = player, 0.0, True
    self.seconds: list[float] = []
    self.off_tree = 0

  def start(self, seat: int, hole_cards: Cards) -> None:
    """See `ChipPlayer`."""
    self._spent, self._known = 0.0, True
    self._player.start(seat, hole_cards)

  def observe(self, event: Event) -> None:
    """See `ChipPlayer`."""
    if isinstance(event, RaiseTo) and not self._player.lost:
      known = self._player.game.bets_at(self._player._state).values()
      self._known &= self._player.table.turn.actor == self._player.seat or event.chips in known
    self._spent += timing.timed(lambda: self._player.observe(event))[1]

  def act(self) -> Move:
    """See `ChipPlayer`."""
    move, seconds, _ = timing.timed(self._player.act)
    self.seconds.append(self._spent + seconds)
    self.off_tree += not self._known
    self._spent, self._known = 0.0, True
    return move


class AnyBet(Seated):
  """Calls or raises to any number of chips, small ones more often; so that hands last."""

  def act(self) -> Move:
    """See `ChipPlayer`."""
    raises = self.table.turn.raises
    if raises is None or self.rng.random() < 0.6:
      return Call()
    most = min(raises[1], 4 * self.table.turn.highest)
    return RaiseTo(int(self.rng.integers(raises[0], max(most, raises[0]) + 1)))


def main(
  preset: str = "hunl_small",
  hidden_layers: int | None = None,
  width: int | None = None,
  seconds: float = 4.0,
  iterations: int = 1_024,
  hands: int = 100,
  seed: int = 0,
) -> None:
  """Prints how long decisions take.

  Args:
    preset: whose game, network and searches.
    hidden_layers: of the value network; None for the preset's.
    width: of the value network; None for the preset's.
    seconds: that a search may take at most.
    iterations: of each search at most; one player's update is one.
    hands: to play.
    seed: of cards and players.
  """
  devices.enable_cache()
  config = get_preset(preset)
  network = {"hidden_layers": hidden_layers, "width": width}
  config = config.replace(**{name: x for name, x in network.items() if x is not None})
  params = init_params(make_targets(config, config.make_game()), jax.random.key(seed))
  limits: dict[str, Any] = {"iterations": iterations, "seconds": seconds}
  policy = Policy(config, params, {})
  seated, started, _ = timing.timed(lambda: seat_agent(policy, preset, seed=seed, **limits))
  assert isinstance(seated, TreePlayer)
  timed = Timed(seated)
  players: tuple[ChipPlayer, ChipPlayer] = timed, AnyBet(seated.rules, seed=seed)
  play_chip_match(players, seated.rules, num_hands=hands, seed=seed)
  found = np.array(timed.seconds)
  median, late, last = (float(np.quantile(found, q)) for q in (0.5, 0.99, 1.0))
  timing.say(
    "decisions",
    preset=preset,
    network=f"{config.network.hidden_layers} x {config.network.width}",
    budget=seconds,
    hands=hands,
    decisions=len(found),
    off_tree=timed.off_tree,
    median=round(median, 3),
    p99=round(late, 3),
    max=round(last, 3),
    start_seconds=round(started, 1),
  )


if __name__ == "__main__":
  timing.command(main)
