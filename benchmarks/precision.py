"""What rounding the network's products does to the agent: exploitability by precision.

`python -m benchmarks.precision liars_dice_1x4f` measures one network's agent with its products in
float32, TensorFloat-32 and bfloat16, and with its activations in bfloat16 too, sums always float32,
with the same random numbers, and prints a JSON line for each. Rounding is done on every device, so
the figures hold for all. What training in these precisions leads to is a variant of
`benchmarks.learning`.
"""

import dataclasses
import json
import time

import jax
import jax.numpy as jnp
import tyro

import rebel_jax
from benchmarks.timing import environment
from rebel_jax import compile_cache
from rebel_jax.evaluation import Evaluator
from rebel_jax.networks import PRECISIONS
from rebel_jax.setup import make_network


@dataclasses.dataclass(frozen=True)
class Options:
  """Compare the precisions of products."""

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f"
  """A run's folder, a checkpoint, or the name of a network that comes with the package."""
  playthroughs: int = 64
  """Playthroughs of each evaluation."""
  iterations: int = 1024
  """Iterations of each search; one player's update is one."""
  seeds: int = 2
  """Evaluations of each precision, with other random numbers."""


def value_error(config, params) -> float:
  """Returns the root mean square difference of values from float32's, at random beliefs."""
  game = config.make_game()
  count, h = 1_024, game.num_infostates
  features = jnp.tile(jnp.asarray(game.features(game.initial_state()[None], 0)), (count, 1))
  beliefs = jax.random.dirichlet(jax.random.key(0), jnp.ones(h), (count, 2)).reshape(count, -1)

  def values(precision: str) -> jax.Array:
    network = make_network(dataclasses.replace(config, precision=precision), game)
    return jnp.asarray(network.apply(params, features, beliefs))

  return float(jnp.sqrt(jnp.mean((values(config.precision) - values("float32")) ** 2)))


def main(options: Options) -> None:
  """Measures all precisions."""
  compile_cache.enable()
  policy = rebel_jax.load(options.checkpoint)
  for precision in PRECISIONS[1:]:
    config = dataclasses.replace(policy.config, precision=precision)
    evaluator = Evaluator(config)
    for seed in range(options.seeds):
      start = time.perf_counter()
      found = evaluator.exploitability(
        policy.params, playthroughs=options.playthroughs, iterations=options.iterations, seed=seed
      )
      row = {
        "benchmark": "precision",
        **environment(),
        "network": options.checkpoint,
        "precision": precision,
        "value_error": float(f"{value_error(config, policy.params):.3g}"),
        "seed": seed,
        "exploitability": round(found, 4),
        "playthroughs": options.playthroughs,
        "iterations": options.iterations,
        "seconds": round(time.perf_counter() - start, 1),
      }
      print(json.dumps(row), flush=True)


if __name__ == "__main__":
  main(tyro.cli(Options))
