"""Many devices, and other ones: the same learning and numbers; runs go on with another number."""

import contextlib
import dataclasses
import functools
import json
import os
from itertools import chain
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rebel_jax import devices, train
from rebel_jax.config.presets import ACCELERATOR_LANES, get_preset, on_this_device
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs import folders
from rebel_jax.runs.folders import RunOptions
from rebel_jax.training import loop
from rebel_jax.training import replay as replays
from rebel_jax.training.chain_play import ChainLanes
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Lanes
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import ValueExamples as Examples
from rebel_jax.training.targets import init_params
from solvers import tuning
from tests import harness
from tests.tiny import TINY, TINY_GROWING, TINY_PERFECT, python

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
  assert python(_SCRIPT, JAX_PLATFORMS="cpu", XLA_FLAGS=flags).split() == [str(number)] * 2


CONFIGS = {
  "tables": TINY,
  "growing": TINY_GROWING.replace(simulations=4, lanes=8),
  "perfect": TINY_PERFECT,
  "endgame": get_preset("small_turn_endgame_holdem").replace(
    lanes=4, iterations=4, width=16, hidden_layers=1, batch_size=4, buffer_size=256
  ),
}
# Sizes that would each show: nothing is cut.
SMALL = dataclasses.replace(tuning.ON_CPU, leaves=(4, 4), questions=(4, 24), searches=(2, 4))


@contextlib.contextmanager
def on(platform):
  """Traces programs for a platform; on a CPU with pieces so small that there are several."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(tuning, "platform", lambda: platform)
    patch.setattr(tuning, "ON_CPU", SMALL)
    jax.clear_caches()
    yield
  jax.clear_caches()


KINDS = harness.slow(list(CONFIGS), "growing", "perfect", "endgame")


@pytest.mark.parametrize("kind", KINDS)
def test_self_play_is_the_same_on_both(kind):
  found = []
  for platform in ("cpu", "gpu"):
    with on(platform):
      setup = make_setup(CONFIGS[kind], num_devices=1)
      play, init = setup.trainer.self_play, functools.partial(init_params, setup.trainer.targets)

      def steps(params, table, play=play):
        lanes = play.init(table, jax.random.key(2))
        for i in range(2):
          played = play.step(table, lanes, params, jax.random.key(i))
          lanes = played.lanes
        return lanes, [x.average_policy for x in played.searched if hasattr(x, "average_policy")]

      stepped = jax.jit(steps)(jax.jit(init)(jax.random.key(1)), setup.table)
      found.append(jax.tree.map(np.asarray, jax.tree.leaves(stepped)))
  for x, y in zip(*found, strict=True):
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_is_lowered_for_a_gpu(kind):
  """Which need not be there."""
  loops = {}
  for platform in ("cpu", "gpu"):
    with on(platform):
      setup = make_setup(CONFIGS[kind], num_devices=1)
      state, run = setup.trainer.init(setup.table, 0, setup.mesh), setup.trainer.run
      step = jax.jit(lambda *x, run=run, mesh=setup.mesh: run(*x, 1, mesh)).trace(
        setup.table, state
      )
      text = step.lower(lowering_platforms=("cuda",)).as_text()
      loops[platform] = text.count("stablehlo.while")
  assert loops["gpu"] < loops["cpu"] or kind == "endgame"


def test_a_default_device_of_a_thread_says_the_platform(monkeypatch, request):
  monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
  assert tuning.pieces() == tuning.ON_ACCELERATOR
  request.getfixturevalue("cpu")
  assert tuning.pieces() == tuning.ON_CPU


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tables", "growing"])
def test_agents_are_measured_alike_on_both(kind):
  config = CONFIGS[kind]
  evaluator = {"tables": Evaluator, "growing": ChainEvaluator}[kind]
  found = []
  for platform in ("cpu", "gpu"):
    with on(platform):
      setup = make_setup(config, num_devices=1)
      params = init_params(setup.trainer.targets, jax.random.key(1))
      found.append(evaluator(config).measure(params, 0, final=False).row)
  assert found[0].keys() == found[1].keys()
  for name, value in found[0].items():
    assert found[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


LAYOUTS = [(1, 8), (8, 1), (4, 2), (1, 1)]


def make_replay(added, capacity) -> Replay:
  """Returns buffers `[D, C]` filled one example after the other; each says when it was made."""
  values = np.zeros((len(added), capacity, 1), np.float32)
  for device, number in enumerate(added):
    for i in range(number):
      # Made together on all devices, as far as their buffers tell: the newest is as new everywhere.
      values[device, i % capacity] = 1000.0 * (i - number) - device
  return Replay(
    Examples(values - 0.5, values - 0.25, values, values + 0.25), np.array(added, np.int32)
  )


def by_age(buffers: Replay, device: int) -> list[float]:
  """Returns what a device's buffer holds, newest first."""
  added, capacity = int(buffers.added[device]), buffers.examples.values.shape[1]
  return [
    float(buffers.examples.values[device, (added - 1 - rank) % capacity, 0])
    for rank in range(min(added, capacity))
  ]


@pytest.mark.parametrize(("before", "after"), LAYOUTS)
@pytest.mark.parametrize("fill", ["empty", "overwriting", "uneven", "some full"])
def test_buffers_hold_the_same_by_age(before, after, fill):
  capacity = 64 // before
  added = {
    "empty": [0] * before,
    "overwriting": [3 * capacity + 5] * before,
    "uneven": [max(0, capacity // 2 - d) for d in range(before)],
    "some full": [2 * capacity + 1 if d % 2 else capacity - 1 for d in range(before)],
  }[fill]
  buffers = make_replay(added, capacity)
  dealt = loop.redistribute_replay(buffers, after)
  held = [by_age(buffers, d) for d in range(before)]
  now = [by_age(dealt, d) for d in range(after)]
  assert sorted(chain(*now)) == sorted(chain(*held))
  sizes = [len(contents) for contents in now]
  assert max(sizes) - min(sizes) <= 1
  assert [list(contents) for contents in now] == [sorted(c, reverse=True) for c in now]
  # All devices hold the newest and the oldest alike.
  newest = sorted((c[0] for c in now if c), reverse=True)
  assert newest == sorted(chain(*held), reverse=True)[: len(newest)]
  if fill != "some full":
    assert dealt.added.sum() == sum(added)
  # What belongs together stays together.
  features, beliefs, values, mask = dealt.examples
  made = values != 0
  np.testing.assert_array_equal((features - values)[made], -0.5)
  np.testing.assert_array_equal((beliefs - values)[made], -0.25)
  np.testing.assert_array_equal((mask - values)[made], 0.25)


@pytest.mark.parametrize(("before", "after"), LAYOUTS)
def test_games_go_on_in_the_order_of_waiting(before, after):
  lanes = 16 // before
  roots = np.arange(16, dtype=np.int32).reshape(before, lanes)
  beliefs = np.broadcast_to(roots[..., None, None], (before, lanes, 2, 3)).astype(np.float32)
  turn = np.arange(before, dtype=np.int32) % lanes
  dealt = loop.redistribute_lanes(Lanes(roots, beliefs, turn), after)
  assert dealt.roots.shape == (after, 16 // after)
  assert sorted(dealt.roots.ravel()) == list(range(16))
  np.testing.assert_array_equal(dealt.beliefs[..., 1, 2], dealt.roots)
  # A lane's place in the queue, devices side by side, is the place it had.
  place = {int(roots[d, (turn[d] + i) % lanes]): i for d in range(before) for i in range(lanes)}
  waits = dealt.turn + np.arange(16 // after)[:, None]
  queue = dealt.roots[np.arange(after), waits % (16 // after)][:, ::-1].ravel()
  assert [place[root] for root in queue.tolist()] == sorted(place.values())


@pytest.mark.parametrize("added", [5, 11])
def test_questions_that_wait_go_with_the_games(added):
  """The newest three of each device, here; what was solved does not count any more."""
  games, waiting = np.arange(16).reshape(4, 4), make_replay([added] * 4, 8)
  lanes = ChainLanes(games, games, None, None, None, waiting, np.full(4, added - 3, np.int32))
  dealt = loop.redistribute_lanes(lanes, 2)
  np.testing.assert_array_equal(dealt.standing, dealt.moves)
  assert (dealt.moves.shape, sorted(dealt.moves.ravel())) == ((2, 8), list(range(16)))
  assert (dealt.waiting.added.tolist(), dealt.taken.tolist()) == ([6, 6], [0, 0])
  newest = [x for device in range(4) for x in by_age(waiting, device)[:3]]
  assert sorted(x for device in (0, 1) for x in by_age(dealt.waiting, device)) == sorted(newest)


MANY_DEVICES = """
import json, sys
import jax, numpy as np
from rebel_jax.checkpoints import checkpoint
from rebel_jax.runs.run import train
from tests.tiny import restored, rows, tiny

folder, many = sys.argv[1], int(sys.argv[2])
config, _ = tiny(folder, lanes=8, batch_size=8, examples=128)

def held(state):
  added, values = state.replay["value"].added, state.replay["value"].examples.values
  assert added.sum() == 2 * state.solves
  return sorted(map(tuple, np.concatenate([v[: min(n, len(v))] for n, v in zip(added, values)])))

for before, after, stop in (1, many, 4), (many, 1, 6), (1, 1, 100):
  options = tiny(folder, resume=stop > 4, num_devices=before)[1]
  train(config, options, stop=lambda step: step >= stop)
  path = checkpoint.checkpoints_of(folder)[-1]
  one, other = restored(path, config, before), restored(path, config, after)
  for field in ("params", "optimizer_state", "step"):
    jax.tree.map(np.testing.assert_array_equal, getattr(one, field), getattr(other, field))
  assert 0 < len(held(one)) and held(one) == held(other)
  assert sorted(one.lanes.roots.ravel()) == sorted(other.lanes.roots.ravel())
  assert len(set(other.replay["value"].added.tolist())) == 1 and other.keys.shape[0] == after
print(json.dumps(rows(folder)))
"""


@pytest.mark.slow
def test_from_one_device_to_many_and_back(tmp_path):
  many = 8
  said = json.loads(python(MANY_DEVICES, tmp_path / "run", many, devices=many).splitlines()[-1])
  assert [row["step"] for row in said] == [2, 4, 6, 8]
  assert [row["examples"] for row in said] == [32, 64, 96, 128]
  assert all(np.isfinite(row["loss"]) for row in said)
  about = json.loads((tmp_path / "run" / "config.json").read_text())
  assert [(c["step"], c["num_devices"]) for c in about["commands"]] == [(0, 1), (4, many), (6, 1)]


LONG = 1_326


def examples(key, number):
  """Returns beliefs that fall off over six powers of ten, values in chips, and short features."""
  keys = jax.random.split(key, 3)
  beliefs = 10.0 ** jax.random.uniform(keys[0], (number, LONG), minval=-6, maxval=0)
  return {
    "features": jax.random.normal(keys[1], (number, 5)),
    "beliefs": beliefs / beliefs.sum(axis=1, keepdims=True),
    "values": 20_000 * jax.random.normal(keys[2], (number, LONG)),
    "cards": jnp.tile(jnp.arange(LONG, dtype=float), (number, 1)),
    "policy": jnp.tile(jnp.arange(LONG) % 256, (number, 1)).astype(jnp.uint8),
  }


def test_the_newest_overwrite_the_oldest():
  replay, held = replays.make_replay(jnp.zeros(()), 8), []
  for i in range(6):
    new, valid = 5.0 * i + np.arange(5, dtype=np.float32), np.arange(5) != i
    replay = jax.jit(replays.add)(replay, new, valid)
    held = [*held, *new[valid].tolist()][-8:]
    assert sorted(np.asarray(replay.examples)[: replay.added].tolist()) == held


def test_samples_are_what_was_added():
  added = examples(jax.random.key(0), 32)
  like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), added)
  replay = jax.jit(replays.add)(replays.make_replay(like, 64), added, jnp.ones(32, bool))
  sampled = jax.jit(replays.sample, static_argnums=2)(replay, jax.random.key(1), 512)
  chex.assert_trees_all_equal_dtypes(sampled, added)
  # Features are short, and tell the examples.
  number = np.abs(sampled["features"][:, None] - added["features"]).sum(axis=-1).argmin(axis=1)
  assert len(np.unique(number)) == 32
  true = jax.tree.map(lambda x: np.asarray(x)[number], added)
  for exact in ("features", "cards", "policy"):
    np.testing.assert_array_equal(sampled[exact], true[exact])
  apart = np.abs(sampled["beliefs"] - true["beliefs"]).sum(axis=1) / 2
  assert 0 < apart.max() < 2e-4
  np.testing.assert_allclose(sampled["beliefs"], true["beliefs"], rtol=2**-10, atol=1e-9)
  np.testing.assert_allclose(sampled["values"], true["values"], rtol=2**-10, atol=0.01)
  stored = {name: x.nbytes for name, x in jax.tree.map(jnp.asarray, added).items()}
  half = sum(x.nbytes for x in replay.examples["beliefs"])
  assert half < 1.01 * stored["beliefs"]  # 64 places, 32 of them filled
