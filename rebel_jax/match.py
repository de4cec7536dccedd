"""The command `python -m rebel_jax.match`: two players, many hands, and who wins.

Exit codes: 0 it was played; 2 an argument is not allowed or a checkpoint cannot be read; 130 it was
interrupted.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax
import tyro

from games import Game
from games.origin import origin_of
from games.poker import Holdem
from rebel_jax import flags
from rebel_jax.agents import match
from rebel_jax.agents.agent import AnySearcher, Searcher, make_searcher
from rebel_jax.agents.recording import RecordingAgent, make_estimator
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import allowed, groups
from rebel_jax.config.allowed import ConfigError
from rebel_jax.devices import compile_cache
from rebel_jax.runs.display import Display
from solvers.metrics.local_best_response import milli_big_blinds

PLAYERS = ("uniform", "always_call")
_SIDE_BY_SIDE = 64  # games whose searches share a call
_Make = Callable[[int], match.Player]


@dataclasses.dataclass(frozen=True)
class Options:
  """Play a match between two players of one game.

  What A wins a hand is printed with its 95 % confidence interval, in thousandths of a big blind
  where the game is hold'em and in the game's own units elsewhere; and once more by AIVAT, which
  takes luck out without bias, where A's policy is known for all that it could have held.

  Attributes:
    a: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, the name of a
      network that comes with the package, uniform (any legal move), or always_call (for hold'em).
    b: Whom A plays; the same choices. One of the two must be a network.
    hands: Hands to play, half of them with A in the first seat; even.
    iterations: Iterations of each search; one player's update is one. Searches that grow trees take
      what their run was evaluated with.
    duplicate: Deal every hand twice, seats changed, with the same cards; the interval is then over
      pairs of hands.
    seed: Seed of deals, chance and players.
    json: Print one JSON object on standard output instead of a table.
  """

  a: Annotated[str, tyro.conf.Positional, allowed.text("A")]
  b: Annotated[str, tyro.conf.Positional, allowed.text("B")]
  hands: Annotated[int, allowed.integer(4, 2**20)] = 1_000
  iterations: Annotated[int, allowed.iterations()] = 256
  duplicate: bool = False
  seed: Annotated[int, allowed.integer(0, 2**31 - 1)] = 0
  json: bool = False


def measure(options: Options, display: Display | None = None) -> dict[str, Any]:
  """Returns what the command prints.

  Raises:
    ConfigError: an option is not allowed, a checkpoint cannot be read, or the players do not know
      the same game.
  """
  began = time.monotonic()
  shown = display or Display(quiet=True)
  if options.hands % 2:
    raise ConfigError(
      f"hands={options.hands} must be even: each player has each seat equally often"
    )
  searchers = _searchers(options)
  game = _game_of(options, searchers)
  makers = [_maker(name, searchers.get(name), game) for name in (options.a, options.b)]
  known = searchers.get(options.a)
  with shown:
    shown.show("compiling", 0.0)
    estimator = None
    if isinstance(known, Searcher):
      estimator = make_estimator(game)
      makers[0] = lambda seed: RecordingAgent(known, seed=seed)
    started = time.monotonic()

    def progress(done: int, total: int) -> None:
      spent = time.monotonic() - started
      shown.show(f"{total:,} hands", done / total, f"{done:,} of {total:,} hands, {spent:.0f} s")

    played = match.play_games(
      game, makers[0], makers[1], num_games=options.hands, seed=options.seed,
      duplicate=options.duplicate, progress=progress,
    )  # fmt: skip
    holdem = isinstance(game, Holdem)
    scale = milli_big_blinds(game) if isinstance(game, Holdem) else 1.0
    won = [scale * x.payoff for x in played]
    raw = _summary(played, won, options)
    result = {
      "mean": raw.mean,
      "half_width": raw.half_width,
      "by_seat": list(raw.by_seat),
      "unit": "mbb a hand" if holdem else "a game",
      "aivat": None,
      "aivat_half_width": None,
      "aivat_values": None,
    }
    if estimator is not None:
      better = _summary(played, [scale * x for x in estimator.estimates(played)], options)
      result["aivat"], result["aivat_half_width"] = better.mean, better.half_width
      result["aivat_values"] = estimator.values
  return (
    {"a": options.a, "b": options.b}
    | result
    | {
      "hands": options.hands,
      "iterations": options.iterations,
      "duplicate": options.duplicate,
      "seed": options.seed,
      "game": repr(game),
      "seconds": round(time.monotonic() - began, 3),
      "device": jax.devices()[0].device_kind,
    }
  )


def _searchers(options: Options) -> dict[str, AnySearcher]:
  """Returns what searches for each network, by the name that was given."""
  found: dict[str, AnySearcher] = {}
  for name in dict.fromkeys((options.a, options.b)):
    if name in PLAYERS:
      continue
    policy = checkpoint.load(name)
    settings: dict[str, Any] = {} if policy.config.grows else {"iterations": options.iterations}
    found[name] = make_searcher(policy, seed=options.seed, num_games=_SIDE_BY_SIDE, **settings)
  return found


def _game_of(options: Options, searchers: dict[str, AnySearcher]) -> Game:
  """Returns the game that is played.

  Raises:
    ConfigError: nobody says which it is, or the players know different games.
  """
  if not searchers:
    raise ConfigError(
      f"a={options.a!r} and b={options.b!r} are no networks; one of the two must be, for it says "
      "which game is played"
    )
  known = [searcher.game for searcher in searchers.values()]
  if (origin_of(known[0]) != origin_of(known[-1])).any():
    raise ConfigError(
      f"a={options.a!r} plays {known[0]!r} and b={options.b!r} plays {known[-1]!r}; both must play "
      "the same game"
    )
  return known[0]


def _maker(name: str, searcher: AnySearcher | None, game: Game) -> _Make:
  """Returns what makes a player of one game, given a seed."""
  if searcher is not None:
    return lambda seed: searcher.agent(seed=seed)
  if name == "uniform":
    return lambda seed: match.UniformPlayer(game, seed=seed)
  if not isinstance(game, Holdem):
    raise ConfigError(f"{name!r} plays hold'em, and the network plays {game!r}")
  return lambda seed: match.CallingPlayer(game)


def _summary(
  played: Sequence[match.Played], won: Sequence[float], options: Options
) -> match.MatchResult:
  pairs = [(x.seat, payoff) for x, payoff in zip(played, won)]
  return match.summarise(pairs, duplicate=options.duplicate)


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit code."""
  is_process, argv = argv is None, sys.argv[1:] if argv is None else argv
  return flags.command(lambda: _run(argv), is_process=is_process)


def _run(argv: Sequence[str]) -> None:
  options = flags.parse(
    Options,
    argv,
    prog="python -m rebel_jax.match",
    networks=checkpoint.pretrained(),
    players=PLAYERS,
  )
  groups.check(options)
  compile_cache.enable()
  result = measure(options, Display(stderr=True))
  if options.json:
    print(json.dumps(result))
    return
  display = Display()
  display.table("match", _rows(result))
  if display.closed:
    raise BrokenPipeError


def _rows(result: dict[str, Any]) -> list[tuple[str, str]]:
  digits = 1 if result["unit"].startswith("mbb") else 4
  first = f"{result['mean']:+.{digits}f} ± {result['half_width']:.{digits}f} {result['unit']}"
  seats = ", ".join(f"{x:+.{digits}f}" for x in result["by_seat"])
  rows = [("A wins", first), ("by seat", seats)]
  if result["aivat"] is not None:
    better = f"{result['aivat']:+.{digits}f} ± {result['aivat_half_width']:.{digits}f}"
    rows += [("by AIVAT", f"{better} {result['unit']}"), ("value function", result["aivat_values"])]
  said = ("a", "b", "hands", "iterations", "duplicate", "seed", "game", "seconds", "device")
  return rows + [(name, str(result[name])) for name in said]


if __name__ == "__main__":
  sys.exit(main())
