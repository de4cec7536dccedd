"""The command `python -m rebel_jax.acpc_dealer`: deals a match of hold'em to two programs.

Exit codes: 0 the match was played; 1 a player failed; 2 a wrong argument; 130 interrupted.
"""

import dataclasses
import json
from typing import Annotated

from rebel_jax import flags
from rebel_jax.config import allowed
from rebel_jax.tables.acpc import MOST_HANDS, MatchDealer
from rebel_jax.tables.players import rules_of


@dataclasses.dataclass(frozen=True)
class Options:
  """Deal a match of two-player no-limit hold'em over the ACPC match protocol 2.0.0.

  The match's log is printed on standard output, in the form of ACPC's.

  Attributes:
    first_port: Where the first player is to connect; 0 for any port.
    second_port: Where the second player is to connect.
    hands: How many hands to play; even unless --no-duplicate.
    seed: Seed of the cards.
    duplicate: Deal every hand twice, seats exchanged.
    first_name: Of the first player, for the log.
    second_name: Of the second player.
    host: Address to listen at; other machines reach no other than their own.
    game_params: What is dealt, such as stack 20000 small_blind 50 big_blind 100 deals 311 ranks
      23456789TJQKA suits shdc, which are the defaults.
    start_timeout: Seconds that players have to come.
    timeout: Seconds that a player has for each move.
    json: Print one JSON object on standard error too, at the end.
  """

  first_port: Annotated[int, allowed.integer(0, 65_535)] = 18_790
  second_port: Annotated[int, allowed.integer(0, 65_535)] = 18_791
  hands: Annotated[int, allowed.integer(1, MOST_HANDS)] = 1_000
  seed: Annotated[int, allowed.integer(0, 2**32 - 1)] = 0
  duplicate: bool = True
  first_name: Annotated[str, allowed.text("NAME")] = "first"
  second_name: Annotated[str, allowed.text("NAME")] = "second"
  host: Annotated[str, allowed.text("HOST")] = "127.0.0.1"
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = ()
  start_timeout: Annotated[float, allowed.number(1e6)] = 60.0
  timeout: Annotated[float, allowed.number(1e6)] = 60.0
  json: bool = False


def _run(options: Options) -> None:
  rules = rules_of(dict(options.game_params))
  with allowed.in_config_errors():
    dealer = MatchDealer(
      rules,
      num_hands=options.hands,
      seed=options.seed,
      duplicate=options.duplicate,
      names=(options.first_name, options.second_name),
      host=options.host,
      ports=(options.first_port, options.second_port),
      start_timeout=options.start_timeout,
      timeout=options.timeout,
      log=lambda line: print(line, flush=True),
    )
  with dealer:
    flags.complain(f"players connect to ports {dealer.ports[0]} and {dealer.ports[1]}")
    result = dealer.play()
  if options.json:
    about = {"mbb_per_hand": result.mean, "half_width": result.half_width}
    flags.complain(json.dumps(about | {"hands": len(result.chips)}))
  else:
    flags.complain(f"{options.first_name}: {result}")


main = flags.entry("acpc_dealer", Options, _run)


if __name__ == "__main__":
  raise SystemExit(main())
