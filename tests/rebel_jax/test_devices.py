"""Many devices: gradients are averaged, and learning goes as on one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import with_devices

ROOT = Path(__file__).parents[2]

_GRADIENTS = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec as P
from rebel_jax.config.presets import get_preset
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets.value import Examples
from rebel_jax.training.loop import DEVICES, make_mesh

(target,) = make_setup(get_preset("kuhn_poker")).trainer.targets
keys = jax.random.split(jax.random.key(0), 4)
batch = Examples(
  features=jax.random.normal(keys[0], (64, 5)), beliefs=jax.random.uniform(keys[1], (64, 6)),
  values=jax.random.normal(keys[2], (64, 3)), mask=jnp.ones((64, 3)),
)
params = target.network.init(keys[3], *batch.inputs)
start = (params, target.learner.optimizer().init(params))

def distance(count, axis):
  update = jax.shard_map(
    lambda p, s, b: target.update(p, s, b, axis)[0], mesh=make_mesh(count),
    in_specs=(P(), P(), P(DEVICES)), out_specs=P(), check_vma=False)
  one = jax.jit(target.update)(*start, batch)[0]
  many = jax.jit(update)(*start, batch)
  apart = jax.tree.map(lambda x, y: float(jnp.abs(np.asarray(x) - np.asarray(y)).max()), one, many)
  return max(jax.tree.leaves(apart))

print(json.dumps([[distance(n, DEVICES) for n in (2, 8)], distance(8, None)]))
"""


def run(script: str, devices: int, *arguments: str):
  """Runs a script on so many CPU devices and returns what it prints as JSON."""
  done = subprocess.run(
    [sys.executable, "-c", script, *arguments],
    cwd=ROOT,
    capture_output=True,
    text=True,
    env=with_devices(devices),
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[-1])


def test_a_step_is_that_of_the_whole_batch():
  shared, alone = run(_GRADIENTS, 8)
  # Adam's first step is the learning rate times the gradient's sign, nearly: small gradients show.
  assert max(shared) < 2e-5
  assert alone > 1e-3  # the control: each device's own gradient


_LEARN = """
import json, sys
from rebel_jax.config.presets import get_preset
from rebel_jax.runs.options import RunOptions
from rebel_jax.runs.run import train
preset = get_preset("kuhn_poker")
config = preset.replace(
  evaluate_every=0, examples=int(sys.argv[2]), final_playthroughs=256, final_iterations=256)
print(json.dumps(train(config, RunOptions(output_dir=sys.argv[1])).row))
"""


@pytest.mark.slow
def test_learning_is_the_same_for_the_same_global_batch(tmp_path):
  rows = {n: run(_LEARN, n, str(tmp_path / str(n)), "10000") for n in (1, 2, 4, 8)}
  untrained = run(_LEARN, 1, str(tmp_path / "untrained"), "64")
  losses = [row["loss"] for row in rows.values()]
  found = [row["exploitability"] for row in rows.values()]
  assert len({row["examples"] for row in rows.values()}) == 1
  assert max(losses) < 2 * min(losses)
  assert max(found) < untrained["exploitability"] / 3
  assert max(found) - min(found) < 0.02
