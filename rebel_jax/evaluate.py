"""The command `python -m rebel_jax.evaluate`: how exploitable a trained agent is.

Exit codes: 0 measured; 2 a wrong argument or checkpoint; 130 interrupted, after what was measured
is printed.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Annotated, Any

import jax

import solvers
from rebel_jax import flags
from rebel_jax.agents.dealer import same_rules
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import Config, DeepCFR, allowed
from rebel_jax.evaluation.opponents import LADDER, MEASURED
from rebel_jax.runs.display import Display


@dataclasses.dataclass(frozen=True)
class Options(flags.SearchOptions):
  """Measure the exploitability of the agent that searches with a trained network.

  The policies of sampled playthroughs, each search stopped at a random iteration, are averaged by
  own reach; the exploitability of the average bounds the agent's from above (ReBeL, section 7).

  Attributes:
    checkpoint: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, or
      the name of a network that comes with the package.
    playthroughs: Playthroughs to average; the paper's measure takes 1,024. Where a game is too
      large for exploitability, hands played against each of several simple players.
    game_params: Parameters of the game to change, such as stack 9000: how the network plays a spot
      that it was not trained for.
    seed: Seed of the playthroughs.
    keep: File that keeps the playthroughs sampled so far, so that the same command goes on where it
      was stopped, or with more playthroughs where it ended; made if missing.
    trajectories: Trajectories of the first search, which rounding decides and all playthroughs
      share; all are played in each, and exploitability is the mean, its spread the standard
      deviation of one. None for this machine's alone.
    unsafe: Measure also, as exploitability_average_policy, unsafe search, which plays the average
      policy of each search.
    mix: How far the opponent may change its range when they search again; None for the run's.
    at_once: Update both players at once in such searches, as in PoG, if the run's take turns.
    seeds: Agents of different seeds that search so; their exploitabilities are exact, so there are
      no playthroughs.
    ladder: Play also a player who always folds to bets, and one who searches as the agent does with
      no network, as if hands were shown after the round; where a game is too large for
      exploitability.
    against: Another network to play instead of the simple players, both searching alike; where a
      game is too large for exploitability.
    lbr_hands: Hands of hold'em that local best response plays against the agent, an even number,
      where a game is too large for exploitability; 0 for none.
    json: Print one JSON object on standard output instead of a table.
  """

  checkpoint: Annotated[str, allowed.Positional, allowed.text("CHECKPOINT")]
  playthroughs: Annotated[int, allowed.integer(1, 2**24)] = 1_024
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = ()
  seed: Annotated[int, allowed.integer(0, 2**32 - 1)] = 0
  keep: Annotated[str | None, allowed.optional(allowed.text("FILE"))] = None
  trajectories: Annotated[int | None, allowed.optional(allowed.integer(1, 2**16))] = None
  unsafe: bool = False
  mix: Annotated[float | None, allowed.optional(allowed.number(1.0, zero=True))] = None
  at_once: bool = False
  seeds: Annotated[int | None, allowed.optional(allowed.integer(1, 2**16))] = None
  ladder: bool = False
  against: Annotated[str | None, allowed.optional(allowed.text("CHECKPOINT"))] = None
  lbr_hands: Annotated[int, allowed.iterations(0)] = 0
  json: bool = False


_EXPLOITABILITY = "keep", "unsafe", "depth", "trajectories"


def measure(options: Options, display: Display | None = None) -> dict[str, Any]:
  """Returns the command's result, by JSON key."""
  from rebel_jax.evaluation.evaluator import make_evaluator

  began = time.monotonic()
  shown = display or Display(quiet=True)
  policy = checkpoint.load(options.checkpoint).at_spot(options.game_params)
  flags.check_kind(options, policy.config.search)
  changes, settings = _settings(options, policy.config)
  config = _changed(policy.config, changes)
  with shown:
    shown.show("compiling", 0.0)
    evaluator = make_evaluator(config, **settings)
    measured, ended = _kept(
      lambda: evaluator.measure(policy.params, options.seed, show=shown.count)
    )
    row = measured.row
    if options.lbr_hands and not ended:
      shown.show("local best response", 0.0)
      found, ended = _kept(
        lambda: _local_best_response(options, policy._replace(config=config), shown), default=()
      )
      row = row | (
        {
          "lbr_mbb": found.mean,
          "lbr_mbb_interval": found.half_width,
          "lbr_mbb_aivat": found.aivat,
          "lbr_mbb_aivat_interval": found.aivat_half_width,
          "lbr_hands": found.num_hands,
        }
        if found
        else {}
      )
  return {
    **row,
    **({"interrupted": True} if ended else {}),
    **evaluator.about,
    "seed": options.seed,
    "checkpoint": policy.about["checkpoint"],
    "preset": config.preset,
    "game": config.game,
    "game_params": dict(config.game_params),
    "step": policy.about.get("step"),
    "examples": policy.about.get("examples"),
    "seconds": round(time.monotonic() - began, 3),
    "device": jax.devices()[0].device_kind,
    "course": list(measured.course),
  }


def _settings(options: Options, config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns the options that change the configuration, and those of its evaluator."""
  from rebel_jax.training.deep_cfr import make_decisions
  from rebel_jax.training.setup import made_on_device, make_search

  if isinstance(config.search, DeepCFR):
    if options.seed and make_decisions(config.make_game()).tree is not None:
      flags.refuse(
        options, ["seed"], f"is not for {options.checkpoint!r}, where nothing is sampled"
      )
    return {}, {}
  if config.grows:
    search = make_search(
      config,
      evaluation=True,
      simulations=options.simulations,
      per_update=options.per_update,
      mix=options.mix,
      alternating=False if options.at_once else None,
    )
    return {"final_playthroughs": options.seeds}, {"search": search}
  changes = {
    "final_playthroughs": options.playthroughs,
    "final_iterations": options.iterations,
    "eval_algorithm": options.algorithm,
  }
  of_exploitability = {name: getattr(options, name) for name in _EXPLOITABILITY}
  if made_on_device(config, config.make_game()):
    flags.refuse(
      options,
      of_exploitability,
      f"is about exploitability, which cannot be computed in {config.game!r}",
    )
    return changes, _opponents(options, config, changes)
  flags.refuse(options, ["lbr_hands", "ladder", "against"], "is for hold'em too large for a tree")
  return changes, of_exploitability


def _opponents(options: Options, config: Config, changes: dict[str, Any]) -> dict[str, Any]:
  """Returns whom hands are played against, as `HandsEvaluator` takes it."""
  if options.against is None:
    return {"opponents": LADDER if options.ladder else MEASURED}
  other = checkpoint.load(options.against).at_spot(options.game_params)
  if other.config.search.kind != config.search.kind:
    raise allowed.ConfigError(
      f"against={options.against!r} has {other.config.search.kind}; allowed are networks that have "
      f"{config.search.kind}"
    )
  games = [x.make_game() for x in (config, other.config)]
  if not same_rules(*games):
    raise allowed.ConfigError(
      f"against={options.against!r} plays {games[1]!r} and {options.checkpoint!r} {games[0]!r}; "
      "both must play the same game"
    )
  other = other._replace(config=_changed(other.config, changes))
  return {"opponents": LADDER * options.ladder, "against": other}


def _changed(config: Config, changes: dict[str, Any]) -> Config:
  return config.replace(**{name: x for name, x in changes.items() if x is not None})


def _kept(measure: Callable[[], Any], default: Any = None) -> tuple[Any, bool]:
  """Returns a measure, or its part before Ctrl-C, and whether that ended it."""
  try:
    return measure(), False
  except KeyboardInterrupt as stopped:
    if not stopped.args and default is None:
      raise
    return next(iter(stopped.args), default), True


def _local_best_response(options: Options, policy: checkpoint.Policy, shown: Display) -> Any:
  """Returns the `LBRResult` of local best response to the agent, by ReBeL's rules (table 1)."""
  from rebel_jax.agents.belief_agent import StreetSearcher
  from rebel_jax.agents.match import AgentStrategy

  agent, shadow = (
    StreetSearcher(policy, iterations=options.iterations, average=average, seed=options.seed)
    for average in (False, True)
  )
  strategy = AgentStrategy(agent.agent(seed=options.seed), shadow.agent(seed=options.seed))
  return solvers.contrib.local_best_response(
    agent.game,
    strategy,
    num_hands=options.lbr_hands,
    seed=options.seed,
    progress=lambda done, total: shown.count("local best response", done, total, "hands"),
  )


def _run(options: Options) -> int:
  result = measure(options, Display(stderr=True))
  rows = [
    (key.replace("_", " "), f"{value:.5f}" if key.startswith("exploitability") else str(value))
    for key, value in result.items()
    if value is not None and key != "course"
  ]
  titles = "exploitability of the searching agent", "what the searching agent wins"
  flags.say(result, options.json, titles["hands" in result], rows)
  return flags.INTERRUPTED if "interrupted" in result else 0


main = flags.entry(
  "evaluate",
  Options,
  _run,
  networks=checkpoint.pretrained,
  algorithms=solvers.registered_algorithms,
)


if __name__ == "__main__":
  raise SystemExit(main())
