"""How well networks and optimizers learn the same examples: value regression by itself.

`python -m benchmarks.fit liars_dice_1x5f` lets self-play with a trained network, which stays as it
is, make examples, and fits networks of several kinds to them anew, each with the same number of
gradient steps. It prints a JSON line for each: errors on examples that were held out, and what a
step takes. Since the targets do not change, this says what self-play cannot: how much of a
network's error is learning's.

`rms` is the root mean square error over infostates, `pbs_rms` that of their mean by the player's
own beliefs, which is the value of the PBS where the players' infostates are independent.
"""

import dataclasses
import functools
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import rebel_jax
from benchmarks.timing import environment, look_up, significant
from rebel_jax import compile_cache
from rebel_jax.config import Config
from rebel_jax.learner import Learner
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.replay import Examples
from rebel_jax.self_play import init_lanes, self_play_step
from rebel_jax.setup import make_network, make_setup

_PLAIN: dict[str, Any] = {
  "optimizer": "adam",
  "learning_rate": 1e-3,
  "belief_roots": 0,
  "hidden_layers": 2,
  "width": 256,
  "activation": "gelu",
  "layer_norm": True,
}
_MUON: dict[str, Any] = _PLAIN | {"optimizer": "muon", "learning_rate": 0.02}
VARIANTS: dict[str, dict[str, Any]] = {
  "adam 0.001": _PLAIN,
  "adam 0.003": _PLAIN | {"learning_rate": 3e-3},
  "adam 0.01": _PLAIN | {"learning_rate": 0.01},
  "adam 0.01, roots": _PLAIN | {"learning_rate": 0.01, "belief_roots": 2},
  "muon 0.02": _MUON,
  "muon 0.02, square roots": _MUON | {"belief_roots": 1},
  "muon 0.02, square and fourth roots": _MUON | {"belief_roots": 2},
  "muon 0.02, three kinds of roots": _MUON | {"belief_roots": 3},
  "muon 0.01, square and fourth roots": _MUON | {"learning_rate": 0.01, "belief_roots": 2},
  **{
    f"muon 0.02, roots, {activation}, {layers} layers of {width}"
    + ("" if norm else ", no layer norm"): _MUON
    | {
      "belief_roots": 2,
      "activation": activation,
      "hidden_layers": layers,
      "width": width,
      "layer_norm": norm,
    }
    for activation, layers, width, norm in (
      ("gelu", 3, 256, True),
      ("gelu", 2, 512, True),
      ("gelu", 2, 128, True),
      ("gelu", 3, 128, True),
      ("relu", 2, 256, True),
      ("relu", 3, 256, True),
      ("relu", 3, 128, True),
      ("relu", 3, 128, False),
      ("relu", 4, 192, True),
      ("relu", 4, 128, True),
      ("relu", 4, 96, True),
      ("relu", 4, 64, True),
      ("relu", 6, 96, True),
      ("relu", 6, 64, True),
      ("relu", 8, 64, True),
    )
  },
  "adam 0.001, width 512": _PLAIN | {"width": 512},
  "adam 0.001, three layers": _PLAIN | {"hidden_layers": 3},
  "adam 0.001, no layer norm": _PLAIN | {"layer_norm": False},
}
_CHUNK = 20  # steps of self-play, or a tenth of as many gradient steps, in one compiled call


@dataclasses.dataclass(frozen=True)
class Options:
  """Fit networks to the same examples."""

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x5f"
  """Whose self-play makes the examples: a run's folder, a checkpoint, or the name of a network that
  comes with the package."""
  variants: tuple[str, ...] = tuple(VARIANTS)
  """Names of the variants to fit."""
  examples: int = 200_000
  """Examples to learn from."""
  held_out: int = 20_000
  """Examples to measure on."""
  steps: int = 3_000
  """Gradient steps of each variant; the learning rate decays over them."""
  batch_size: int = 512
  """Examples a step."""
  seed: int = 0
  """Of self-play, the networks and the batches."""
  cache: Path | None = None
  """File to keep the examples in (NumPy's npz), read again if it is there."""


def generate(config: Config, params: Any, count: int, seed: int) -> Examples:
  """Returns `count` examples of self-play with a network that does not learn."""
  setup = make_setup(dataclasses.replace(config, num_devices=1))
  settings = setup.trainer.self_play
  leaf_values = NetworkLeafValues(setup.trainer.learner.network)

  @jax.jit
  def play(lanes, key):
    def step(lanes, key):
      played = self_play_step(setup.table, settings, lanes, leaf_values, params, key)
      return played.lanes, (played.examples, played.valid)

    return jax.lax.scan(step, lanes, jax.random.split(key, _CHUNK))

  lanes, key = init_lanes(setup.table, settings.num_lanes), jax.random.key(seed)
  parts: list[Examples] = []
  while sum(len(part.values) for part in parts) < count:
    key, chunk_key = jax.random.split(key)
    lanes, (examples, valid) = play(lanes, chunk_key)
    kept = np.asarray(valid)
    parts.append(jax.tree.map(lambda x, kept=kept: np.asarray(x)[kept], examples))
  return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


def gather(options: Options, config: Config, params: Any) -> tuple[Examples, Examples]:
  """Returns examples to learn from and examples held out, shuffled."""
  count = options.examples + options.held_out
  if options.cache is not None and options.cache.is_file():
    found = Examples(**np.load(options.cache))
  else:
    found = generate(config, params, count, options.seed)
    if options.cache is not None:
      np.savez(options.cache, **found._asdict())
  if len(found.values) < count:
    raise SystemExit(f"cache={str(options.cache)!r} holds {len(found.values)} examples of {count}")
  order = np.random.default_rng(options.seed).permutation(count)
  cut = options.examples
  pick = lambda rows: jax.tree.map(lambda x: jnp.asarray(x[rows]), found)  # noqa: E731
  return pick(order[:cut]), pick(order[cut:])


def fit(config: Config, options: Options, examples: Examples, held_out: Examples) -> dict[str, Any]:
  """Fits one network and returns its errors."""
  network = make_network(config, config.make_game())
  learner = Learner(
    network,
    config.optimizer,
    config.learning_rate,
    halve_every=0,
    decay_steps=options.steps,
    batch_size=options.batch_size,
    max_gradient_norm=config.max_gradient_norm,
  )
  params = network.init(jax.random.key(options.seed), examples.features[:1], examples.beliefs[:1])
  state = learner.optimizer().init(params)

  @functools.partial(jax.jit, static_argnums=4)
  def learn(params, state, examples, key, steps):
    def step(carry, key):
      index = jax.random.randint(key, (options.batch_size,), 0, len(examples.values))
      batch = jax.tree.map(lambda x: x[index], examples)
      *carry, stats = learner.update(carry[0], carry[1], batch)
      return tuple(carry), stats.loss

    return jax.lax.scan(step, (params, state), jax.random.split(key, steps))

  @jax.jit
  def errors(params, examples):
    predicted = network.apply(params, examples.features, examples.beliefs)
    error = (predicted - examples.values) * examples.mask
    own = examples.beliefs[:, : examples.values.shape[-1]]
    return {
      "held_out_loss": learner.loss(params, examples),
      "rms": jnp.sqrt((error**2).sum() / examples.mask.sum()),
      "pbs_rms": jnp.sqrt((((error * own).sum(axis=-1)) ** 2).mean()),
    }

  key, done, seconds, losses = jax.random.key(options.seed + 1), 0, 0.0, None
  chunk = 10 * _CHUNK
  while done < options.steps:
    steps = min(chunk, options.steps - done)
    key, chunk_key = jax.random.split(key)
    start = time.perf_counter()
    (params, state), losses = learn(params, state, examples, chunk_key, steps)
    jax.block_until_ready(losses)
    if done and steps == chunk:  # the first call compiles
      seconds += time.perf_counter() - start
    done += steps
  timed = max((options.steps // chunk - 1) * chunk, 1)
  assert losses is not None
  return {
    "loss": significant(float(losses.mean()), 3),
    **{name: significant(float(x), 3) for name, x in errors(params, held_out).items()},
    "milliseconds_a_step": round(1e3 * seconds / timed, 2) if seconds else None,
  }


def main(options: Options) -> None:
  """Fits all variants."""
  changes = [look_up("variants", name, VARIANTS) for name in options.variants]
  compile_cache.enable()
  policy = rebel_jax.load(options.checkpoint)
  examples, held_out = gather(options, policy.config, policy.params)
  known = {"benchmark": "fit", **environment(), "network": options.checkpoint}
  known |= {"examples": options.examples, "steps": options.steps, "batch_size": options.batch_size}
  for name, change in zip(options.variants, changes):
    config = dataclasses.replace(policy.config, **change)
    row = known | {"variant": name} | fit(config, options, examples, held_out)
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
  main(tyro.cli(Options))
