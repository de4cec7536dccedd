"""The command `python -m rebel_jax.acpc`: plays hold'em with a dealer of ACPC's protocol.

Exit codes: 0 the match ended; 1 the dealer failed; 2 a wrong argument or run; 130 interrupted.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from rebel_jax import flags
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import allowed
from rebel_jax.evaluation.opponents import OPPONENTS
from rebel_jax.tables.acpc import play_acpc
from rebel_jax.tables.chips import OFF_TREE


@dataclasses.dataclass(frozen=True)
class Options(flags.SearchOptions):
  """Play two-player no-limit hold'em with a dealer of the ACPC match protocol 2.0.0.

  Attributes:
    run: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, or the name
      of a network that comes with the package, whose game is hold'em from the blinds; or the name
      of a simple opponent.
    host: Where the dealer listens.
    port: The port there that is this player's.
    game_params: What the dealer deals to a simple opponent, such as stack 20000 small_blind 50
      big_blind 100 deals 311 ranks 23456789TJQKA suits shdc, which are the defaults.
    iterations: Iterations of each search; one player's update is one; None for 1,024,
      or 256 where subgames are made as play meets them.
    seconds: Seconds that a search may take after its first round, of games whose subgames are made
      as play meets them; None for no limit.
    off_tree: How bets are answered that the agent's tree lacks, add to search the round again with
      the bet in it, nearest to take it for the closest one as a share of the pot, map for one of
      both neighbours at random; None for add where subgames are made as play meets them, else
      nearest.
    seed: Seed of the player's moves; None for another one each time.
    timeout: Seconds to wait for a line of the dealer's.
    connect_timeout: Seconds to wait for the dealer to come.
    json: Print one JSON object on standard output instead of a sentence.
  """

  run: Annotated[str, allowed.Positional, allowed.text("RUN")]
  host: Annotated[str, allowed.Positional, allowed.text("HOST")]
  port: Annotated[int, allowed.Positional, allowed.integer(1, 65_535)]
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = ()
  iterations: Annotated[int | None, allowed.optional(allowed.iterations())] = dataclasses.field(  # type: ignore[assignment]
    default=None, kw_only=True
  )
  seconds: Annotated[float | None, allowed.optional(allowed.number())] = None
  off_tree: Annotated[str | None, allowed.optional(allowed.one_of(OFF_TREE))] = None
  seed: Annotated[int | None, allowed.optional(allowed.integer(0, 2**32 - 1))] = None
  timeout: Annotated[float, allowed.number(1e6)] = 600.0
  connect_timeout: Annotated[float, allowed.number(1e6)] = 10.0
  json: bool = False


_SETTINGS = ("iterations", "algorithm", "depth", "seconds", "simulations", "per_update")


def play(options: Options, log: Callable[[int], None] = lambda chips: None) -> list[int]:
  """Plays the command's match and returns the chips won in each hand."""
  from rebel_jax.tables.players import make_chip_player

  chosen: dict[str, Any] = {name: getattr(options, name) for name in _SETTINGS}
  drawn = int(np.random.default_rng().integers(2**31))
  seated = make_chip_player(
    options.run,
    rules=dict(options.game_params),
    off_tree=options.off_tree,
    seed=drawn if options.seed is None else options.seed,
    **{name: value for name, value in chosen.items() if value is not None},
  )
  seated.warm_up()
  return play_acpc(
    seated,
    seated.rules,
    options.host,
    options.port,
    timeout=options.timeout,
    connect_timeout=options.connect_timeout,
    log=log,
  )


def _run(options: Options) -> None:
  chips: list[int] = []
  ended = False
  try:
    play(options, chips.append)
    ended = True
  finally:
    if ended or chips:  # of a match that broke, the hands before
      found = json.dumps({"hands": len(chips), "chips": sum(chips)})
      print(found if options.json else f"{len(chips)} hands, {sum(chips):+} chips")


main = flags.entry(
  "acpc", Options, _run, networks=checkpoint.pretrained, opponents=lambda: OPPONENTS
)


if __name__ == "__main__":
  raise SystemExit(main())
