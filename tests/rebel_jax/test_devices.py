"""Many devices: gradients are averaged, learning goes as on one, and a CPU's cores are some."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebel_jax.config.presets import get_preset
from rebel_jax.devices import cpu_devices
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
from tests.tiny import TINY

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

# Each of two devices plays its own games; what is learned is the same on both.
setup = make_setup(TINY, 2)
state = setup.trainer.init(setup.table, 0, setup.mesh)
state, _ = setup.trainer.run(setup.table, state, 4, setup.mesh)
weights = next(x for x in jax.tree.leaves(state.params) if x.ndim == 2)
one, other = (np.asarray(shard.data) for shard in weights.addressable_shards)
played = np.asarray(state.replay["value"].examples.beliefs)[:, :16]
alike = [bool((one == other).all()), bool((played[0] == played[1]).all())]
print(json.dumps([distance(4, DEVICES), distance(4, None), alike]))
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
  shared, alone, alike = run(_GRADIENTS, 4)
  # Adam's first step is the learning rate times the gradient's sign, nearly: small gradients show.
  assert shared < 2e-5
  assert alone > 1e-3  # the control: each device's own gradient
  assert alike == [True, False]


@pytest.mark.parametrize(
  ("cores", "changes", "before", "expected"),
  [
    (1, {}, None, 1),
    (64, {}, None, 4),  # no fewer than 16 lanes each
    (3, {}, None, 2),  # three do not divide the lanes
    (8, {"lanes": 8}, None, 1),
    (8, {"num_devices": 3}, None, 3),
    (2, {"num_devices": 3}, None, 2),
    (8, {"lanes": 96, "batch_size": 256, "buffer_size": 65_536}, None, 4),
    (1, {}, 4, 4),  # a resumed run keeps its number
    (8, {}, 1, 1),
    (8, {"num_devices": 2}, 1, 2),
  ],
)
def test_number_of_devices(cores, changes, before, expected):
  number = changes.pop("num_devices", None)
  config = get_preset("liars_dice_1x4f").replace(**changes)
  assert cpu_devices.choose_number(config, cores, number, before=before) == expected


_SCRIPT = """
import jax
from rebel_jax.devices import cpu_devices
from rebel_jax.config.presets import get_preset
cpu_devices.num_cores = lambda: 4
cpu_devices.share_cores(get_preset("liars_dice_1x4f"))
print(jax.device_count())
cpu_devices.share_cores(get_preset("kuhn_poker"))  # too late: nothing happens
print(jax.device_count())
"""


@pytest.mark.parametrize(
  ("variables", "expected"),
  [
    ({}, "4\n4\n"),
    ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, "3\n3\n"),
  ],
)
def test_cores_become_devices_unless_the_user_said_otherwise(variables, expected):
  environment = {
    k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
  }
  done = subprocess.run(
    [sys.executable, "-c", _SCRIPT],
    env=environment | variables,
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout == expected
