"""Settings of searches in trees that grow."""

import dataclasses
from typing import Annotated

from rebel_jax.config import allowed
from rebel_jax.config.allowed import ConfigError

# Settings of self-play that only games of perfect information have.
_OF_PERFECT_PLAY = ("td1_share", "greedy_after", "resign_below", "never_resign")


@dataclasses.dataclass(frozen=True)
class GrowingSettings:
  """Searches in trees that grow, as in Player of Games, instead of ReBeL's.

  Attributes:
    simulations: Simulations of each search of training; 0 for ReBeL's searches, which depth,
      algorithm and iterations are about.
    per_update: Simulations for each update of both players; below one, one over the updates for
      each simulation.
    mix: How far the opponent may change its range when a decision is searched again, from 0, not at
      all and unsafe, to 1.
    alternating: Let player 1 of a search respond in each update to what player 0 has just learned,
      and not both to what they played before.
    children: Moves that a state gets at once when searches add to it, the likeliest by the network;
      0 for all.
    puct: How much simulations explore.
    temperature: Of the softmax that makes a prior of the network's policy.
    query_share: Of the searches that play, how many leave a question to the network to be solved.
    recursive_share: Of the searches that solve such questions, how many leave another.
    td1_share: Of the states that a game of perfect information came to, how many are learned with
      its outcome and the policy that was searched there.
    exploration: Probability of a uniform move in self-play.
    greedy_after: Moves of a game of perfect information after which the likeliest are made, without
      exploration; 0 for never.
    resign_below: Share of the largest payoff; in games of perfect information who expects to lose
      more resigns, and the game has no outcome to learn; 0 for never.
    never_resign: Share of those games in which nobody does.
    policy_weight: Weight of policies in the loss, where values weigh one.
    eval_simulations: Simulations of each search of evaluations.
    eval_per_update: Simulations for each update in evaluations.
    eval_seeds: Agents of different seeds that an evaluation during training measures.
    final_seeds: Agents that the evaluation at the end measures.
  """

  simulations: Annotated[int, allowed.integer(0, 2**20)] = 0
  per_update: Annotated[float, allowed.number()] = 1.0
  mix: Annotated[float, allowed.number(1.0, zero=True)] = 0.2
  alternating: bool = False
  children: Annotated[int, allowed.integer(0, 2**20)] = 0
  puct: Annotated[float, allowed.number(zero=True)] = 1.25
  temperature: Annotated[float, allowed.number()] = 1.0
  query_share: Annotated[float, allowed.number(1.0, zero=True)] = 0.9
  recursive_share: Annotated[float, allowed.number(0.9, zero=True)] = 0.1
  td1_share: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  exploration: Annotated[float, allowed.number(1.0, zero=True)] = 0.1
  greedy_after: Annotated[int, allowed.integer(0, 2**20)] = 0
  resign_below: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  never_resign: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  policy_weight: Annotated[float, allowed.number(zero=True)] = 0.05
  eval_simulations: Annotated[int, allowed.integer(1, 2**20)] = 100
  eval_per_update: Annotated[float, allowed.number()] = 1.0
  eval_seeds: Annotated[int, allowed.integer(1, 2**16)] = 2
  final_seeds: Annotated[int, allowed.integer(1, 2**16)] = 10

  @property
  def questions_per_lane(self) -> float:
    """How many questions are solved for each search of play, on average."""
    return self.query_share / (1.0 - self.recursive_share)

  @property
  def examples_per_lane(self) -> float:
    """How many states are learned for each search of play, if nobody resigns."""
    return self.questions_per_lane + self.td1_share

  def check(self, game: str, *, on_device: bool, perfect: bool) -> None:
    """Checks settings against each other and the game.

    Args:
      game: its name.
      on_device: whether its trees are made on the device.
      perfect: whether it is of perfect information.

    Raises:
      ConfigError: they do not go together.
    """
    if on_device and not self.simulations:
      raise ConfigError(
        f"simulations=0 must be above 0 for game={game!r}, of which no tree is made beforehand"
      )
    if not self.simulations:
      return
    if not self.query_share and not self.td1_share:
      raise ConfigError(
        f"query_share={self.query_share} must be above 0 where td1_share={self.td1_share}: then "
        "nothing would be learned"
      )
    for name in () if on_device and perfect else _OF_PERFECT_PLAY:
      if getattr(self, name):
        raise ConfigError(
          f"{name}={getattr(self, name)} must be 0 for game={game!r}, which is not one of perfect "
          "information with its trees made on the device"
        )
    if self.never_resign and not self.resign_below:
      raise ConfigError(
        f"never_resign={self.never_resign} must be 0 where resign_below={self.resign_below}: then "
        "nobody resigns anyway"
      )


REBEL = GrowingSettings()  # no simulations: searches in trees that are there beforehand
