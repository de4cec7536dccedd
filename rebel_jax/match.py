"""The command `python -m rebel_jax.match`: two players, many hands, and who wins.

Exit codes: 0 played; 2 a wrong argument or checkpoint; 130 interrupted, after whole parts are
printed.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Annotated, Any

import jax
import numpy as np

from games import Game
from games.poker import Holdem
from rebel_jax import flags
from rebel_jax.agents.dealer import Seat, same_rules
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import allowed
from rebel_jax.evaluation.opponents import OPPONENTS
from rebel_jax.runs.display import Display
from solvers.metrics import milli_big_blinds

_SIDE_BY_SIDE = 64  # games whose searches share a call
_PART = 256  # hands at most that Ctrl-C loses: those of a part end together


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
    hands: Hands to play, half of them with A in the first seat; even. They are dealt in parts of at
      most 256, each from a seed of its own if there are several, and Ctrl-C keeps whole parts.
    iterations: Iterations of each search; one player's update is one. Searches that grow trees take
      what their run was evaluated with.
    duplicate: Deal every hand twice, seats changed, with the same cards; the interval is then over
      pairs of hands.
    seed: Seed of deals, chance and players.
    json: Print one JSON object on standard output instead of a table.
  """

  a: Annotated[str, allowed.Positional, allowed.text("A")]
  b: Annotated[str, allowed.Positional, allowed.text("B")]
  hands: Annotated[int, allowed.integer(4, 2**20)] = 1_000
  iterations: Annotated[int, allowed.iterations()] = 256
  duplicate: bool = False
  seed: Annotated[int, allowed.integer(0, 2**31 - 1)] = 0
  json: bool = False


def measure(options: Options, display: Display | None = None) -> dict[str, Any]:
  """Returns the command's result, by JSON key."""
  from rebel_jax.agents import match
  from rebel_jax.agents.agent import Searcher, make_searcher

  began, shown, names = time.monotonic(), display or Display(quiet=True), (options.a, options.b)
  if options.hands % 2:
    raise allowed.ConfigError(
      f"hands={options.hands} must be even: each player has each seat equally often"
    )
  policies = {x: checkpoint.load(x) for x in dict.fromkeys(names) if x not in OPPONENTS}
  if not any("iterations" in x.config.search.agent_options for x in policies.values()):
    flags.refuse(options, ["iterations"], f"is not for {options.a!r} or {options.b!r}")
  searchers: dict[str, Any] = {}
  for name, policy in policies.items():
    settings = flags.agent_settings(options, policy.config.search)
    searchers[name] = make_searcher(policy, seed=options.seed, num_games=_SIDE_BY_SIDE, **settings)
  if not searchers:
    raise allowed.ConfigError(
      f"a={options.a!r} and b={options.b!r} are no networks; one of the two must be, for it says "
      "which game is played"
    )
  game, *others = (searcher.game for searcher in searchers.values())
  if not all(same_rules(game, other) for other in others):
    raise allowed.ConfigError(
      f"a={options.a!r} plays {game!r} and b={options.b!r} plays {others[0]!r}; both must play the "
      "same game"
    )
  makers = [_maker(name, searchers.get(name), game) for name in names]
  # Those have a policy that is known for all that they could hold.
  known = [n for n, name in enumerate(names) if isinstance(searchers.get(name), Searcher)]
  holdem = isinstance(game, Holdem)
  scale = milli_big_blinds(game) if isinstance(game, Holdem) else 1.0
  with shown:
    shown.show("compiling", 0.0)
    estimator = None
    if known and game.written:
      estimator = match.make_estimator(game, lambda share: shown.show("value function", share))
    # Of all of a part: the mean of the hands that end first is another.
    parts = np.array_split(np.arange(options.hands // 2), -(-options.hands // _PART))
    seeds = [options.seed]  # of one part the match's own, so that parts change nothing there
    if len(parts) > 1:
      seeds = np.random.default_rng(options.seed).integers(2**31, size=len(parts)).tolist()
    won, better = list[tuple[int, float]](), list[tuple[int, float]]()

    def progress(what: str) -> Callable[[int, int], None]:
      return lambda done, _: shown.count(what, len(won) + done, options.hands, "hands")

    with contextlib.suppress(KeyboardInterrupt):  # the parts before count
      for seed, part in zip(seeds, parts):
        played = match.play_games(
          game, makers[0], makers[1], num_games=2 * len(part), seed=seed,
          duplicate=options.duplicate, progress=progress(f"{options.hands:,} hands"),
        )  # fmt: skip
        if estimator is not None:
          estimates = match.estimate(estimator[0], played, known, progress("AIVAT"))
          better += [(x.seat, scale * estimate) for x, estimate in zip(played, estimates)]
        won += [(x.seat, scale * x.payoff) for x in played]
  if not won:
    raise KeyboardInterrupt
  raw = match.summarise(won, duplicate=options.duplicate)
  by_aivat = match.summarise(better, duplicate=options.duplicate) if better else None
  return {
    "a": options.a,
    "b": options.b,
    "mean": raw.mean,
    "half_width": raw.half_width,
    "by_seat": list(raw.by_seat),
    "unit": "mbb a hand" if holdem else "a game",
    "aivat": by_aivat and by_aivat.mean,
    "aivat_half_width": by_aivat and by_aivat.half_width,
    "aivat_values": estimator and estimator[1],
    "hands": len(won),
    "iterations": options.iterations,
    "duplicate": options.duplicate,
    "seed": options.seed,
    "game": repr(game),
    "seconds": round(time.monotonic() - began, 3),
    "device": jax.devices()[0].device_kind,
  }


def _maker(name: str, searcher: Any, game: Game) -> Callable[[int], Seat]:
  """Returns a function from a seed to a player of one game."""
  from rebel_jax.agents import match

  if searcher is not None:
    return lambda seed: searcher.agent(seed=seed)
  if name == "uniform":
    return lambda seed: match.UniformPlayer(game, seed=seed)
  if not isinstance(game, Holdem):
    raise allowed.ConfigError(f"{name!r} plays hold'em, and the network plays {game!r}")
  return lambda seed: match.SimplePlayer(game, name, seed=seed)


def _run(options: Options) -> int:
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
  return 0 if result["hands"] == options.hands else flags.INTERRUPTED


main = flags.entry(
  "match", Options, _run, networks=checkpoint.pretrained, players=lambda: OPPONENTS
)


if __name__ == "__main__":
  raise SystemExit(main())
