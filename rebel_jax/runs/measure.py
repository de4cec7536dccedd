"""What an evaluation during a run adds to its row of metrics."""

import math
import time
from collections.abc import Callable
from typing import Any

from rebel_jax.config.config import Config, ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs.stopping import RunError


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
  asked = config.evaluation
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
