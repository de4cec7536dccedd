"""What an evaluation during a run adds to its row of metrics."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from games import Game
from games.poker import Holdem
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.opponents import OPPONENTS
from rebel_jax.runs.stopping import RunError
from rebel_jax.training.setup import Setup, made_on_device
from solvers import GTCFR

AnyEvaluator = Evaluator | HandsEvaluator | ChainEvaluator


def make_evaluator(setup: Setup) -> AnyEvaluator:
  """Returns what measures the agent of a run."""
  if setup.config.grows:
    return ChainEvaluator(setup.config, game=setup.game, ground=setup.table)
  assert isinstance(setup.game, Game)
  if made_on_device(setup.config, setup.game):
    assert isinstance(setup.game, Holdem)
    return HandsEvaluator(setup.config, setup.game)
  return Evaluator(setup.config, game=setup.game, subgames=setup.subgames)


def measure_any(evaluator: AnyEvaluator, *arguments: Any, **options: Any) -> dict[str, Any]:
  """Does what the `measure` of its kind does, as the evaluator is."""
  if isinstance(evaluator, HandsEvaluator):
    return measure_hands(evaluator, *arguments, **options)
  if isinstance(evaluator, ChainEvaluator):
    return measure_growing(evaluator, *arguments, **options)
  return measure(evaluator, *arguments, **options)


def headline(row: dict[str, Any]) -> float | None:
  """Returns the exploitability that a row of metrics is about, if one was measured."""
  return row.get("exploitability", row.get("exploitability_mean"))


def conditions(row: dict[str, Any]) -> str:
  """Returns how that was measured."""
  for name in ("exploitability", "score"):
    if f"{name}_mean" in row:
      low, high = row[f"{name}_min"], row[f"{name}_max"]
      return (
        f"{low:.4f} to {high:.4f} for {row['seeds']} seeds, {row['simulations']:,} simulations, "
        f"{row['per_update']:g} an update"
      )
  if "hands" in row:
    return f"{row['hands']:,} hands against each, {row['iterations']:,} iterations"
  return f"{row['playthroughs']} playthroughs, {row['iterations']:,} iterations"


def result(row: dict[str, Any]) -> str:
  """Returns what was measured, in words."""
  if "score_mean" in row:
    return f"score {row['score_mean']:.4f} against the same search without a network"
  if "hands" in row:
    return "won a hand: " + ", ".join(won_texts(row))
  kept = f", {row['not_lost_mean']:.2%} of games not lost" if "not_lost_mean" in row else ""
  return f"exploitability {headline(row):.4f}{kept}"


def won_texts(row: dict[str, Any]) -> list[str]:
  """Returns what was won from each opponent of a `HandsEvaluator`, in words."""
  names = [name for name in OPPONENTS if f"won_mbb_{name}" in row]
  return [
    f"{row[f'won_mbb_{name}']:,.0f} ± {row[f'won_mbb_{name}_interval']:,.0f} mbb from {name}"
    for name in names
  ]


def measure_hands(
  evaluator: HandsEvaluator,
  params: Any,
  config: Config,
  step: int,
  *,
  final: bool,
  progress: Callable[[float, str], None],
) -> dict[str, Any]:
  """Measures what the agent wins from simple players; arguments as for `measure`.

  Raises:
    RunError: what is measured is not finite.
  """
  asked, began = config.search, time.monotonic()
  hands = asked.final_playthroughs if final else asked.eval_playthroughs
  found = evaluator.measure(
    params,
    hands=hands,
    seed=(config.seed + step) % 2**32,
    progress=lambda done, total: progress(done / total, f"{done:,} of {total:,} hands"),
  )
  if not all(map(math.isfinite, found.values())):
    raise RunError(
      f"what the agent wins is {found} at step {step}, so training stopped; the last checkpoint is "
      "from before"
    )
  return found | {
    "iterations": evaluator.iterations,
    "evaluation_seconds": round(time.monotonic() - began, 3),
  }


def measure_growing(
  evaluator: ChainEvaluator,
  params: Any,
  config: Config,
  step: int,
  *,
  final: bool,
  progress: Callable[[float, str], None],
) -> dict[str, Any]:
  """Measures agents of several seeds; arguments as for `measure`.

  Raises:
    RunError: what is measured is not finite.
  """
  asked, began = config.growing, time.monotonic()
  number = asked.final_playthroughs if final else asked.eval_playthroughs
  try:
    found = evaluator.measure(
      params,
      seeds=[(config.seed + step + i) % 2**32 for i in range(number)],
      progress=lambda done, total: progress(
        done / total, f"{number} seeds, {done:,} of {total:,} {evaluator.unit}"
      ),
    )
  except ConfigError as error:
    raise RunError(f"{error}: training stopped at step {step}") from None
  return of_seeds(found, evaluator.search) | {
    "evaluation_seconds": round(time.monotonic() - began, 3)
  }


def of_seeds(found: Mapping[str, Sequence[float]], search: GTCFR) -> dict[str, Any]:
  """Returns what is said of several seeds, of which measures were `found`."""
  row: dict[str, Any] = {}
  for name, values in found.items():
    ends = {"mean": sum(values) / len(values), "min": min(values), "max": max(values)}
    row |= {f"{name}_{end}": value for end, value in ends.items()}
  return row | {
    "seeds": len(next(iter(found.values()))),
    "simulations": search.simulations,
    "per_update": search.per_update,
  }


def measure(
  evaluator: Evaluator,
  params: Any,
  config: Config,
  step: int,
  *,
  final: bool,
  progress: Callable[[float, str], None],
) -> dict[str, Any]:
  """Measures the agent's exploitability, and that of its average policy.

  Args:
    evaluator: of the agent.
    params: the networks'.
    config: of the run.
    step: at which it is; with the run's seed it decides the playthroughs.
    final: whether the run ends here.
    progress: called with how much is done and a text about it; what it raises is passed on.

  Raises:
    RunError: what is measured is not finite.
  """
  asked = config.rebel
  playthroughs = asked.final_playthroughs if final else asked.eval_playthroughs
  iterations = asked.final_iterations if final else asked.eval_iterations
  began = time.monotonic()

  def exploitability(unsafe: bool) -> float:
    what = "average policy" if unsafe else f"{playthroughs} playthroughs"
    return evaluator.exploitability(
      params,
      playthroughs=playthroughs,
      iterations=iterations,
      seed=(config.seed + step) % 2**32,
      unsafe=unsafe,
      progress=lambda done, total: progress(
        done / total, f"{what}, {done:,} of {total:,} searches"
      ),
    )

  try:
    sampled, average = exploitability(unsafe=False), exploitability(unsafe=True)
  except ConfigError as error:
    raise RunError(f"{error}: training stopped at step {step}") from None
  if not (math.isfinite(sampled) and math.isfinite(average)):
    raise RunError(
      f"the exploitability is {sampled}, of the average policy {average}, at step {step}, so "
      "training stopped; the last checkpoint is from before"
    )
  return {
    "exploitability": sampled,
    "playthroughs": playthroughs,
    "iterations": iterations,
    "exploitability_average_policy": average,
    "evaluation_seconds": round(time.monotonic() - began, 3),
  }
