"""The command `python -m rebel_jax.match`: two players, many hands, and who wins.

Exit codes: 0 it was played; 2 an argument is not allowed or a checkpoint cannot be read; 130 it was
interrupted.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from games import Game
from games.poker import Holdem
from rebel_jax import flags
from rebel_jax.agents import match
from rebel_jax.agents.agent import AnySearcher, Searcher, make_searcher
from rebel_jax.agents.dealer import same_rules
from rebel_jax.agents.recording import Estimator, RecordingAgent, make_estimator
from rebel_jax.agents.street_searcher import StreetSearcher
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import allowed
from rebel_jax.config.allowed import ConfigError
from rebel_jax.evaluation.opponents import OPPONENTS
from rebel_jax.runs.display import Display
from solvers.metrics.local_best_response import milli_big_blinds

_SIDE_BY_SIDE = 64  # games whose searches share a call
_AT_ONCE = 256  # hands under way where each holds on to a search of its own
_Make = Callable[[int], match.Player]


@dataclasses.dataclass(frozen=True)
class Options:
  """Play a match between two players of one game.

  What A wins a hand is printed with its 95 % confidence interval, in thousandths of a big blind
  where the game is hold'em and in the game's own units elsewhere; and once more by AIVAT, which
  takes luck out without bias, from the policy of each network for all that it could have held.

  Attributes:
    a: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, the name of a
      network that comes with the package, uniform (any legal move), or in hold'em always_call,
      always_fold, equity_threshold or pot_maniac.
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
  known = [n for n, name in enumerate((options.a, options.b)) if _records(searchers.get(name))]
  with shown:
    shown.show("compiling", 0.0)
    estimator = make_estimator(game) if known and game.written else None
    if estimator is not None:
      estimator.prepare(lambda done, total: shown.show("value function", done / total))
    holdem = isinstance(game, Holdem)
    scale = milli_big_blinds(game) if isinstance(game, Holdem) else 1.0
    at_once = options.hands
    if not game.written or any(isinstance(x, StreetSearcher) for x in searchers.values()):
      at_once = min(options.hands, _AT_ONCE)
    won, better = _play(options, game, makers, estimator, known, at_once, shown)
    raw = _summary(won, scale, options)
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
      found = _summary(better, scale, options)
      result["aivat"], result["aivat_half_width"] = found.mean, found.half_width
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


def _play(
  options: Options,
  game: Game,
  makers: Sequence[_Make],
  estimator: Estimator | None,
  known: Sequence[int],
  at_once: int,
  shown: Display,
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
  """Returns A's seat and payoff in each hand, and the same by AIVAT.

  Hands are played some at a time, for what agents remember of each takes memory.
  """
  won: list[tuple[int, float]] = []
  better: list[tuple[int, float]] = []
  began = time.monotonic()

  def progress(what: str) -> Callable[[int, int], None]:
    before, total = len(won), options.hands

    def show(done: int, _: int) -> None:
      spent = time.monotonic() - began
      line = f"{before + done:,} of {total:,} hands, {spent:.0f} s"
      shown.show(what, (before + done) / total, line)

    return show

  pairs = np.array_split(np.arange(options.hands // 2), -(-options.hands // at_once))
  seeds = [options.seed]  # of one part the match's own, so that parts change nothing there
  if len(pairs) > 1:
    seeds = np.random.default_rng(options.seed).integers(2**31, size=len(pairs)).tolist()
  for seed, part in zip(seeds, pairs):
    played = match.play_games(
      game, makers[0], makers[1], num_games=2 * len(part), seed=seed,
      duplicate=options.duplicate, progress=progress(f"{options.hands:,} hands"),
    )  # fmt: skip
    if estimator is not None:
      estimates = estimator.estimates(played, known, progress("AIVAT"))
      better += [(x.seat, estimate) for x, estimate in zip(played, estimates)]
    won += [(x.seat, x.payoff) for x in played]
  return won, better


def _searchers(options: Options) -> dict[str, AnySearcher]:
  """Returns what searches for each network, by the name that was given."""
  found: dict[str, AnySearcher] = {}
  for name in dict.fromkeys((options.a, options.b)):
    if name in OPPONENTS:
      continue
    policy = checkpoint.load(name)
    settings = flags.agent_settings(options, policy.config.search)
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
  if not same_rules(known[0], known[-1]):
    raise ConfigError(
      f"a={options.a!r} plays {known[0]!r} and b={options.b!r} plays {known[-1]!r}; both must play "
      "the same game"
    )
  return known[0]


def _records(searcher: AnySearcher | None) -> bool:
  """Says whether agents of a searcher have a policy that is known for all that they could hold."""
  return isinstance(searcher, Searcher | StreetSearcher)


def _maker(name: str, searcher: AnySearcher | None, game: Game) -> _Make:
  """Returns what makes a player of one game, given a seed.

  Raises:
    ConfigError: the player is for another game.
  """
  if isinstance(searcher, Searcher | StreetSearcher):
    return lambda seed: RecordingAgent(searcher, seed=seed)
  if searcher is not None:
    return lambda seed: searcher.agent(seed=seed)
  if name == "uniform":
    return lambda seed: match.UniformPlayer(game, seed=seed)
  if not isinstance(game, Holdem):
    raise ConfigError(f"{name!r} plays hold'em, and the network plays {game!r}")
  return lambda seed: match.SimplePlayer(game, name, seed=seed)


def _summary(won: Sequence[tuple[int, float]], scale: float, options: Options) -> match.MatchResult:
  """Returns the result of pairs of A's seat and payoff, payoffs times `scale`."""
  return match.summarise([(s, scale * x) for s, x in won], duplicate=options.duplicate)


def _run(options: Options) -> None:
  result = measure(options, Display(stderr=True))
  digits = 1 if result["unit"].startswith("mbb") else 4
  first = f"{result['mean']:+.{digits}f} ± {result['half_width']:.{digits}f} {result['unit']}"
  seats = ", ".join(f"{x:+.{digits}f}" for x in result["by_seat"])
  rows = [("A wins", first), ("by seat", seats)]
  if result["aivat"] is not None:
    better = f"{result['aivat']:+.{digits}f} ± {result['aivat_half_width']:.{digits}f}"
    rows += [("by AIVAT", f"{better} {result['unit']}"), ("value function", result["aivat_values"])]
  said = ("a", "b", "hands", "iterations", "duplicate", "seed", "game", "seconds", "device")
  rows += [(name, str(result[name])) for name in said]
  flags.say(result, options.json, "match", rows)


main = flags.entry("match", Options, _run, networks=checkpoint.pretrained(), players=OPPONENTS)


if __name__ == "__main__":
  sys.exit(main())
