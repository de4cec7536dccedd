"""Head-to-head: a trained agent against uniform play, an equilibrium and OpenSpiel's bots.

A JSON line for each opponent: the agent's mean payoff a game over both seats, with its 95 %
confidence interval. An equilibrium wins nothing from another, and loses to no player.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tyro

import games
import rebel_jax
import solvers
from benchmarks import timing
from rebel_jax import devices, flags
from rebel_jax.agents.agent import ChainSearcher, make_searcher
from rebel_jax.agents.match import MatchResult, PolicyPlayer, UniformPlayer, play_match


@dataclasses.dataclass(frozen=True)
class Options:
  """Play matches.

  Attributes:
    checkpoint: A run's folder, a checkpoint, or the name of a network that comes with the package.
    opponents: Whom to play; these three are all there are.
    games: Games of each match.
    iterations: Iterations of the agent's searches; one player's update is one.
    simulations: Simulations of each search, where searches grow trees; None for the run's.
    per_update: Simulations for each update of such searches; None for one.
    seed: Of deals and players.
  """

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f"
  opponents: tuple[str, ...] = ("uniform", "equilibrium", "open_spiel_uniform")
  games: int = 2_000
  iterations: int = 256
  simulations: int | None = None
  per_update: float | None = None
  seed: int = 0


def play_uniform(searcher: Any, options: Options) -> MatchResult:
  """Against a player who takes any legal move."""
  return _play(searcher, options, lambda seed: UniformPlayer(searcher.game, seed=seed))


def play_equilibrium(searcher: Any, options: Options) -> MatchResult:
  """Against the whole game's average policy after 4,096 iterations of Linear CFR."""
  if not searcher.game.written:
    raise TypeError(f"opponents=equilibrium needs a tree, and none is made of {searcher.game!r}")
  tree = games.build_public_tree(searcher.game)
  policy = timing.average_policy(tree, solvers.linear_cfr(), 4096)
  return _play(searcher, options, lambda seed: PolicyPlayer(tree, policy, seed=seed))


def _play(searcher: Any, options: Options, opponent: Callable) -> MatchResult:
  return play_match(
    searcher.game,
    lambda seed: searcher.agent(seed=seed),
    opponent,
    num_games=options.games,
    seed=options.seed,
  )


def play_open_spiel_uniform(searcher: Any, options: Options) -> MatchResult:
  """Against OpenSpiel's uniform bot, as an OpenSpiel bot."""
  import pyspiel

  from rebel_jax.open_spiel.bots import play_bots

  def make_bot(game, seat, seed):
    return pyspiel.make_uniform_random_bot(seat, seed)

  return play_bots(searcher, make_bot, num_games=options.games, seed=options.seed)


OPPONENTS: dict[str, Callable[[Any, Options], MatchResult]] = {
  "uniform": play_uniform,
  "equilibrium": play_equilibrium,
  "open_spiel_uniform": play_open_spiel_uniform,
}


def main(options: Options) -> None:
  """Plays all matches."""
  chosen = [timing.look_up("opponents", name, OPPONENTS) for name in options.opponents]
  devices.enable_cache()
  policy = rebel_jax.load(options.checkpoint)
  flags.check_kind(options, policy.config.search)
  settings = flags.agent_settings(options, policy.config.search)
  searcher = make_searcher(policy, **settings, num_games=64)
  if isinstance(searcher, ChainSearcher):  # where the run's are taken
    about = searcher.settings
    settings = {"simulations": about.simulations, "per_update": about.per_update}
  for name, play in zip(options.opponents, chosen):
    result = play(searcher, options)
    timing.say(
      "match",
      agent=options.checkpoint,
      opponent=name,
      **settings,
      games=result.num_games,
      mean=round(result.mean, 4),
      half_width=round(result.half_width, 4),
      by_seat=[round(x, 4) for x in result.by_seat],
    )


if __name__ == "__main__":
  timing.command(main)
