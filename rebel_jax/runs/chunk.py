"""The steps of training that one row of metrics is about, and the row."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import optax

from rebel_jax.config.config import Config
from rebel_jax.devices import memory
from rebel_jax.training.loop import Report, TrainState
from rebel_jax.training.targets.target import LearnerStats


@dataclasses.dataclass
class Chunk:
  """Steps since the last row.

  Attributes:
    examples, gradient_steps: how many there were before these steps.
    steps, seconds: how many they are, and how long they took.
    sums: sums of what they measured, in the places of `Report`; None without steps.
  """

  examples: int
  gradient_steps: int
  steps: int = 0
  seconds: float = 0.0
  sums: Any = None

  @classmethod
  def of(cls, fields: dict[str, Any]) -> "Chunk":
    """Returns the chunk that `dataclasses.asdict` gave, after JSON held it."""
    sums = fields["sums"]
    if sums is not None:
      sums = Report(*sums)
      learned = {name: LearnerStats(*stats) for name, stats in sums.learned.items()}
      sums = sums._replace(learned=learned)
    return cls(**fields | {"sums": sums})

  def add(self, report: Report, steps: int, seconds: float) -> None:
    """Adds the `steps` of one call of `Trainer.run`.

    Steps are added one after the other, so the sums are the same bit for bit wherever calls end.
    """

    def add(total: float, each: jax.Array) -> float:
      return float(np.cumsum([total, *np.asarray(each)[:steps].tolist()])[-1])

    before = jax.tree.map(lambda _: 0.0, report) if self.sums is None else self.sums
    self.sums = jax.tree.map(add, before, report)
    self.steps, self.seconds = self.steps + steps, self.seconds + seconds

  def means(self) -> Report:
    """Returns the means over its steps."""
    return jax.tree.map(lambda total: total / self.steps, self.sums)


def make_row(chunk: Chunk, state: TrainState, config: Config) -> dict[str, Any]:
  """Returns the row of metrics of a chunk that ends in `state`, without `seconds`."""
  means, taken = chunk.means(), gradient_steps(state)
  step, solves = int(state.step), int(state.solves)
  made = int(state.replay[target_of_values(state.replay)].added.sum())
  in_buffer = min(made, config.learning.buffer_size)
  return {
    "step": step,
    "solves": solves,
    "examples": 2 * solves,
    "seconds": 0.0,
    **losses(means, chunk.steps * config.learn_steps, taken - chunk.gradient_steps),
    "examples_per_second": round((2 * solves - chunk.examples) / chunk.seconds, 3),
    "gradient_steps": taken,
    "buffer_examples": in_buffer,
    "buffer_age": buffer_age(in_buffer, made, step),
    "leaves_per_iteration": means.rows,
    "device_memory_bytes": memory.device_memory(),
  }


def losses(report: Report, steps: int, learned: int) -> dict[str, float | None]:
  """Returns the statistics of learning by metric; those of the target of values have no prefix.

  Args:
    report: means of the chunk, which count steps before learning began as zero.
    steps, learned: gradient steps that the chunk has room for, and those that were taken.
  """
  share = steps / learned if learned else None
  metrics: dict[str, float | None] = {}
  of_values = target_of_values(report.learned)
  for name, stats in report.learned.items():
    prefix = "" if name == of_values else f"{name}_"
    for statistic, mean in stats._asdict().items():
      metrics[prefix + statistic] = float(mean) * share if share else None
  return metrics | {f"{name}_error": float(error) for name, error in report.held_out.items()}


def target_of_values(names: Iterable[str]) -> str:
  """Returns which of the targets values are learned by; every configuration has one.

  Mappings that went through JAX are sorted by name, so that none of them is the first.
  """
  return next(name for name in names if name in ("value", "value_policy"))


def buffer_age(in_buffer: int, examples: int, step: int) -> float:
  """Returns how many steps ago the examples in the buffer were made, on average.

  The buffer holds the newest of all `examples`, and the `step` steps made about equally many.
  """
  return round(in_buffer / 2 * step / max(examples, 1), 3)


def gradient_steps(state: TrainState) -> int:
  """Returns how many gradient steps were taken: a decay of the learning rate counts them."""
  find = optax.tree_utils.tree_get_all_with_path
  counts = [find(state.optimizer_state, name) for name in ("taken", "count")]
  return int((counts[0] or counts[1])[0][1])


@jax.jit
def all_finite(tree: Any) -> jax.Array:
  """Says whether all numbers of a pytree are finite."""
  return jax.numpy.stack([jax.numpy.isfinite(x).all() for x in jax.tree.leaves(tree)]).all()
