"""The command `python -m rebel_jax.evaluate`: how exploitable a trained agent is.

Exit codes: 0 it was measured; 2 an argument is not allowed or the checkpoint cannot be read; 130
it was interrupted.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import jax
import tyro

import solvers
from rebel_jax import flags
from rebel_jax.agents.recording import AgentStrategy
from rebel_jax.agents.street_searcher import StreetSearcher
from rebel_jax.checkpoints import checkpoint, checksums
from rebel_jax.config import allowed, groups
from rebel_jax.config.allowed import ConfigError
from rebel_jax.config.search import GrowingSearch
from rebel_jax.devices import compile_cache
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.kept_playthroughs import KeptPlaythroughs
from rebel_jax.evaluation.spots import at_spot
from rebel_jax.runs.display import Display
from rebel_jax.runs.measure import of_seeds
from rebel_jax.training.growing_setup import make_search
from rebel_jax.training.setup import made_on_device
from solvers.search.playthroughs import Sampled


@dataclasses.dataclass(frozen=True)
class Options:
  """Measure the exploitability of the agent that searches with a trained network.

  The policies of sampled playthroughs, each search stopped at a random iteration, are averaged by
  own reach; the exploitability of the average bounds the agent's from above (ReBeL, section 7).

  Attributes:
    checkpoint: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, or
      the name of a network that comes with the package.
    playthroughs: Playthroughs to average; the paper's measure takes 1,024. Where a game is too
      large for exploitability, hands played against each of several simple players.
    iterations: Iterations of each search; one player's update is one.
    algorithm: What the agent searches with; None for the run's eval_algorithm.
    game_params: Parameters of the game to change, such as stack 9000: how the network plays a spot
      that it was not trained for.
    depth: Public actions, chance included, that each search looks ahead, or stage; None for the
      run's.
    seed: Seed of the playthroughs.
    keep: File that keeps the playthroughs sampled so far, so that the same command goes on where it
      was stopped, or with more playthroughs where it ended; made if missing.
    unsafe: Measure also, as exploitability_average_policy, unsafe search, which plays the average
      policy of each search.
    simulations: Simulations of each search of a network whose searches grow trees; None for
      half of the run's eval_iterations.
    per_update: Simulations for each update of such searches; None for one.
    mix: How far the opponent may change its range when they search again; None for the run's.
    at_once: Update both players at once in such searches, as in the paper, if the run's take turns.
    seeds: Agents of different seeds that search so; their exploitabilities are exact, so there are
      no playthroughs.
    lbr_hands: Hands of hold'em that local best response plays against the agent, an even number,
      where a game is too large for exploitability; 0 for none.
    json: Print one JSON object on standard output instead of a table.
  """

  checkpoint: Annotated[str, tyro.conf.Positional, allowed.text("CHECKPOINT")]
  playthroughs: Annotated[int, allowed.integer(1, 2**24)] = 1_024
  iterations: Annotated[int, allowed.iterations()] = 1_024
  algorithm: Annotated[str | None, allowed.optional(allowed.algorithm())] = None
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = ()
  depth: Annotated[int | str | None, allowed.optional(allowed.depth())] = None
  seed: Annotated[int, allowed.integer(0, 2**32 - 1)] = 0
  keep: Annotated[str | None, allowed.optional(allowed.text("FILE"))] = None
  unsafe: bool = False
  simulations: Annotated[int | None, allowed.optional(allowed.integer(1, 2**20))] = None
  per_update: Annotated[float | None, allowed.optional(allowed.number())] = None
  mix: Annotated[float | None, allowed.optional(allowed.number(1.0, zero=True))] = None
  at_once: bool = False
  seeds: Annotated[int | None, allowed.optional(allowed.integer(1, 2**16))] = None
  lbr_hands: Annotated[int, allowed.iterations(0)] = 0
  json: bool = False


def measure(options: Options, display: Display | None = None) -> dict[str, Any]:
  """Returns what the command prints.

  Raises:
    ConfigError: an option is not allowed or the checkpoint cannot be read.
  """
  began = time.monotonic()
  groups.check(options)
  shown = display or Display(quiet=True)
  policy = at_spot(checkpoint.load(options.checkpoint), options.game_params)
  config = policy.config
  flags.check_kind(options, config.search)
  if isinstance(config.search, GrowingSearch):
    return _measure_growing(options, policy, shown, began)
  if made_on_device(config, config.make_game()):
    return _measure_hands(options, policy, shown, began)
  algorithm = options.algorithm or config.rebel.eval_algorithm
  depth = options.depth or config.rebel.depth
  with shown:
    shown.show("compiling", 0.0)
    evaluator = Evaluator(config, algorithm=algorithm, depth=depth)

    def measure_it(name: str, unsafe: bool, start: Sampled | None, kept: KeptPlaythroughs | None):
      def progress(done: int, total: int) -> None:
        left = (time.monotonic() - started) * (total - done) / done
        shown.show(name, done / total, f"{done:,} of {total:,} searches, {left:.0f} s left{said}")

      started, said, course = time.monotonic(), "", []
      for sampled, value in evaluator.course(
        policy.params,
        playthroughs=1 if unsafe else options.playthroughs,
        iterations=options.iterations,
        seed=options.seed,
        start=start,
        unsafe=unsafe,
        progress=progress,
      ):
        course.append((sampled.count, value))
        said = f"; {value:.4f} after {sampled.count:,}"
        if kept is not None:
          kept.save(sampled)
      return course

    kept = start = None
    if options.keep is not None:
      kept = KeptPlaythroughs(options.keep, _what(options, algorithm, depth, policy))
      start = kept.load((evaluator.agent.tree.num_nodes, evaluator.agent.tree.num_infostates))
    course = measure_it(f"{options.playthroughs} playthroughs", False, start, kept)
    results: dict[str, Any] = {"exploitability": course[-1][1]}
    if options.unsafe:
      unsafe = measure_it("average policy", True, None, None)
      results["exploitability_average_policy"] = unsafe[-1][1]
  return results | {
    "playthroughs": course[-1][0],
    "iterations": options.iterations,
    "algorithm": algorithm,
    "depth": depth,
    **_about(options, policy, began),
    "course": course,
  }


def _about(options: Options, policy: checkpoint.Policy, began: float) -> dict[str, Any]:
  """Returns what was measured, and where."""
  config = policy.config
  return {
    "seed": options.seed,
    "checkpoint": policy.about["checkpoint"],
    "preset": config.preset,
    "game": config.game,
    "game_params": dict(config.game_params),
    "step": policy.about.get("step"),
    "examples": policy.about.get("examples"),
    "seconds": round(time.monotonic() - began, 3),
    "device": jax.devices()[0].device_kind,
  }


def _measure_hands(
  options: Options, policy: checkpoint.Policy, shown: Display, began: float
) -> dict[str, Any]:
  """Returns what the command prints of a game too large for exploitability."""
  for name in ("keep", "unsafe", "depth"):
    if getattr(options, name):
      raise ConfigError(
        f"{name}={getattr(options, name)!r} is about exploitability, which cannot be computed in "
        f"{policy.config.game!r}"
      )
  config = policy.config
  if options.algorithm is not None:
    config = config.replace(eval_algorithm=options.algorithm)
  with shown:
    shown.show("compiling", 0.0)
    evaluator = HandsEvaluator(config, iterations=options.iterations)
    found = evaluator.measure(
      policy.params,
      hands=options.playthroughs,
      seed=options.seed,
      progress=lambda done, total: shown.show(
        "playing", done / total, f"{done:,} of {total:,} hands"
      ),
    )
    if options.lbr_hands:
      shown.show("local best response", 0.0)
      found |= _local_best_response(options, policy._replace(config=config), shown)
  return found | {
    "iterations": options.iterations,
    "algorithm": config.rebel.eval_algorithm,
    **_about(options, policy, began),
    "course": [],
  }


def _local_best_response(
  options: Options, policy: checkpoint.Policy, shown: Display
) -> dict[str, Any]:
  """Returns what local best response wins from the agent, by ReBeL's rules (table 1)."""
  agent, shadow = (
    StreetSearcher(policy, iterations=options.iterations, average=average, seed=options.seed)
    for average in (False, True)
  )
  strategy = AgentStrategy(agent.agent(seed=options.seed), shadow.agent(seed=options.seed))
  found = solvers.local_best_response(
    agent.game,
    strategy,
    num_hands=options.lbr_hands,
    seed=options.seed,
    progress=lambda done, total: shown.show(
      "local best response", done / total, f"{done:,} of {total:,} hands"
    ),
  )
  return {
    "lbr_mbb": found.mean,
    "lbr_mbb_interval": found.half_width,
    "lbr_mbb_aivat": found.aivat,
    "lbr_mbb_aivat_interval": found.aivat_half_width,
    "lbr_hands": found.num_hands,
  }


def _measure_growing(
  options: Options, policy: checkpoint.Policy, shown: Display, began: float
) -> dict[str, Any]:
  """Returns what the command prints of a network whose searches grow trees."""
  config = policy.config
  search = make_search(
    config,
    evaluation=True,
    simulations=options.simulations,
    per_update=options.per_update,
    mix=options.mix,
    alternating=False if options.at_once else None,
  )
  seeds = config.growing.final_playthroughs if options.seeds is None else options.seeds
  with shown:
    shown.show("compiling", 0.0)
    evaluator = ChainEvaluator(config, search=search)
    started = time.monotonic()

    def progress(done: int, total: int) -> None:
      left = (time.monotonic() - started) * (total - done) / max(done, 1)
      shown.show(
        f"{seeds} seeds", done / total, f"{done:,} of {total:,} {evaluator.unit}, {left:.0f} s left"
      )

    found = evaluator.measure(
      policy.params, seeds=range(options.seed, options.seed + seeds), progress=progress
    )
  return of_seeds(found, evaluator.search) | {
    "mix": search.mix,
    "alternating": search.alternating,
    **_about(options, policy, began),
    "course": next(iter(found.values())),
  }


def _what(options: Options, algorithm: str, depth: int | str, policy: checkpoint.Policy):
  """Returns what tells the playthroughs of this command from those of another."""
  return {
    "game": [policy.config.game, policy.config.game_params],
    "network": checksums.of_arrays(policy.params),
    "algorithm": algorithm,
    "depth": depth,
    "iterations": options.iterations,
    "seed": options.seed,
    "stops": "spread, sorted",  # how random numbers are drawn, which earlier versions did otherwise
  }


def _run(argv: Sequence[str]) -> None:
  options = flags.parse(
    Options,
    argv,
    prog="python -m rebel_jax.evaluate",
    networks=checkpoint.pretrained(),
    algorithms=solvers.registered_algorithms(),
  )
  groups.check(options)
  compile_cache.enable()
  result = measure(options, Display(stderr=True))
  if options.json:
    print(json.dumps(result))
    return
  display = Display()
  title = (
    "what the searching agent wins"
    if "hands" in result
    else "exploitability of the searching agent"
  )
  display.table(title, _rows(result))
  if display.closed:
    raise BrokenPipeError


def _rows(result: dict[str, Any]) -> list[tuple[str, str]]:
  shown = {key: value for key, value in result.items() if value is not None}
  rows = []
  for key, value in shown.items():
    if key == "course":
      continue
    text = f"{value:.5f}" if key.startswith("exploitability") else str(value)
    rows.append((key.replace("_", " "), text))
  return rows


main = flags.entry(_run)


if __name__ == "__main__":
  sys.exit(main())
