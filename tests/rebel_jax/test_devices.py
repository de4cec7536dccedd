"""Many devices: gradients are averaged, learning goes as on one, and a CPU's cores are some."""

import json
import os
from pathlib import Path

import jax
import pytest

from rebel_jax import devices, train
from rebel_jax.config.presets import ACCELERATOR_LANES, get_preset, on_this_device
from rebel_jax.runs import folders
from rebel_jax.runs.folders import RunOptions
from solvers import tuning
from tests.tiny import python

_GRADIENTS = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec as P
from rebel_jax.config.presets import get_preset
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import ValueExamples as Examples
from rebel_jax.training.loop import DEVICES, make_mesh
from tests.tiny import TINY, stepped

adam = get_preset("kuhn_poker").replace(optimizer="adam", learning_rate=1e-3, belief_roots=0)
(target,) = make_setup(adam).trainer.targets
keys = jax.random.split(jax.random.key(0), 4)
batch = Examples(
  features=jax.random.normal(keys[0], (64, 5)), beliefs=jax.random.uniform(keys[1], (64, 6)),
  values=jax.random.normal(keys[2], (64, 3)), mask=jnp.ones((64, 3)),
)
params = target.network.init(keys[3], *batch[:2])
start = (params, target.optimizer().init(params))

def distance(count, axis):
  update = jax.shard_map(
    lambda p, s, b: target.update(p, s, b, axis)[0], mesh=make_mesh(count),
    in_specs=(P(), P(), P(DEVICES)), out_specs=P(), check_vma=False)
  one = jax.jit(target.update)(*start, batch)[0]
  many = jax.jit(update)(*start, batch)
  apart = jax.tree.map(lambda x, y: float(jnp.abs(np.asarray(x) - np.asarray(y)).max()), one, many)
  return max(jax.tree.leaves(apart))

# Each of two devices plays its own games; what is learned is the same on both.
_, state, _ = stepped(TINY, 4, devices=2)
weights = next(x for x in jax.tree.leaves(state.params) if x.ndim == 2)
one, other = (np.asarray(shard.data) for shard in weights.addressable_shards)
played = np.asarray(state.replay["value"].examples.beliefs)[:, :16]
alike = [bool((one == other).all()), bool((played[0] == played[1]).all())]
print(json.dumps([distance(4, DEVICES), distance(4, None), alike]))
"""


def test_a_step_is_that_of_the_whole_batch():
  shared, alone, alike = json.loads(python(_GRADIENTS, devices=4))
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
  assert devices.choose_number(config, cores, number, before=before) == expected


@pytest.mark.parametrize(
  ("platform", "flags", "lanes"),
  [
    ("cpu", "", 64),
    ("gpu", "", 4_096),
    ("gpu", "--lanes 64", 64),
    ("gpu", "--lanes=128", 128),
    ("gpu", "--preset leduc_poker", 64),
  ],
)
def test_lanes_are_those_of_the_device_unless_said(platform, flags, lanes, monkeypatch):
  monkeypatch.setattr(tuning, "platform", lambda: platform)
  argv = ["--preset", "liars_dice_1x4f_paper", *flags.split()]
  config, _ = train._settle(argv, train.parse(argv))
  assert config.self_play.lanes == lanes
  config.validate()


def test_lanes_of_accelerators_fit_their_presets(monkeypatch):
  monkeypatch.setattr(tuning, "platform", lambda: "gpu")
  for name in ACCELERATOR_LANES:
    config = on_this_device(get_preset(name))
    assert config.self_play.lanes > get_preset(name).self_play.lanes
    config.validate()


@pytest.mark.parametrize(
  ("before", "asked", "expected"),
  [(("gpu", 2), None, 2), (("gpu", 2), 1, 1), (("gpu", 8), None, None), (("cpu", 2), None, None)],
)
def test_a_run_goes_on_with_as_many_accelerators(before, asked, expected, monkeypatch):
  monkeypatch.setattr(tuning, "platform", lambda: "gpu")
  monkeypatch.setattr(jax, "device_count", lambda: 4)
  about = {"environment": {"platform": before[0]}, "num_devices": before[1]}
  run = folders.Resumable(Path(), Path(), about)
  monkeypatch.setattr(folders, "find_run", lambda output_dir: run)
  options = RunOptions(resume=True, num_devices=asked)
  _, found = train._settle([], train.Command(get_preset("kuhn_poker"), options))
  assert found.num_devices == expected


def test_accelerators_have_one_worker(request, accelerator):
  ask = request.config.hook.pytest_xdist_auto_num_workers
  assert ask(config=request.config) == 1
  assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


# Every device of this process solves some of a batch, or makes some of an agent's searches.
_SHARED = """
import json
import jax, numpy as np
import games, solvers
from solvers import tuning
from solvers.search import find_subgames, make_searching_agent
from solvers.search.playthroughs import searching_policy
from solvers.xla import run_ahead

jax.config.update("jax_enable_x64", True)
game = games.make("liars_dice", num_dice=1, num_faces=2)
tree = games.build_public_tree(game).astype(float)
beliefs = np.random.default_rng(0).dirichlet(np.ones(2), size=(6, 2))
used = []

def found():
  settings = {"beliefs": beliefs, "algorithm": solvers.linear_cfr(), "num_iterations": 64}
  solved = [solvers.solve_batch(tree, **settings, target=x) for x in (None, 0.05)]
  agent = make_searching_agent(
    game, find_subgames(game, depth=1), algorithm=solvers.linear_cfr(), max_lanes=2,
    leaf_values=lambda params, query: query.beliefs[:, query.traverser] * params)
  settings = {"num_playthroughs": 16, "num_iterations": 8, "key": jax.random.key(0)}
  policy = searching_policy(agent, params=jax.device_put(2.0, jax.devices()[0]), **settings)
  return [*jax.tree.leaves(solved), policy]

alone = found()
tuning.platform = lambda: "gpu"
shared = found()
pairs = zip(alone, shared, strict=True)
apart = max(float(np.abs(np.asarray(x, float) - y).max()) for x, y in pairs)
calls = run_ahead(lambda i: jax.numpy.zeros(1).device.id, range(6), kind=int)
print(json.dumps([apart, len(shared[0].sharding.device_set), [device for _, device in calls]]))
"""


@pytest.mark.slow
def test_all_devices_of_a_process_solve_and_search():
  apart, devices, calls = json.loads(python(_SHARED, devices=4))
  assert apart < 1e-9
  assert devices == 4
  assert calls == [0, 1, 2, 3, 0, 1]


# Searches that grow trees, and hold'em whose subgames are made on the device.
_SELF_PLAY = """
import json
import jax, numpy as np
from rebel_jax.config.presets import get_preset
from tests.tiny import TINY_GROWING, stepped

small = dict(lanes=8, iterations=4, width=16, hidden_layers=1, batch_size=8, buffer_size=512)
endgame = get_preset("small_turn_endgame_holdem").replace(**small)
found = []
for config in (TINY_GROWING.replace(simulations=4), endgame):
  setup, state, _ = stepped(config, 4)
  shards = [x.addressable_shards for x in jax.tree.leaves(state.params)]
  alike = all((np.asarray(x.data) == np.asarray(own[0].data)).all() for own in shards for x in own)
  found.append([setup.mesh.devices.size, alike, int(state.solves)])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_all_kinds_of_self_play_run_on_four_devices():
  for number, alike, solves in json.loads(python(_SELF_PLAY, devices=4).splitlines()[-1]):
    assert (number, alike) == (4, True)
    assert solves > 8


_SCRIPT = """
import jax
from rebel_jax import devices
from rebel_jax.config.presets import get_preset
devices.num_cores = lambda: 4
devices.share_cores(get_preset("liars_dice_1x4f"))
print(jax.device_count())
devices.share_cores(get_preset("kuhn_poker"))  # too late: nothing happens
print(jax.device_count())
"""


@pytest.mark.parametrize(
  ("flags", "number"), [("", 4), ("--xla_force_host_platform_device_count=3", 3)]
)
def test_cores_become_devices_unless_the_user_said_otherwise(flags, number):
  assert python(_SCRIPT, XLA_FLAGS=flags).split() == [str(number)] * 2
