"""Runs that go on with another number of devices or processes."""

import json
from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rebel_jax.training import loop as redistribute
from rebel_jax.training import replay as replays
from rebel_jax.training.chain_play import ChainLanes
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Lanes
from rebel_jax.training.targets import ValueExamples as Examples
from tests.tiny import python

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
  dealt = redistribute.redistribute_replay(buffers, after)
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


@pytest.mark.parametrize("fill", [5, 8, 21])
def test_the_oldest_are_overwritten_first(fill):
  dealt = redistribute.redistribute_replay(make_replay([fill] * 4, 8), 2)
  buffer = jax.tree.map(lambda x: jnp.asarray(x[1]), dealt)
  before = by_age(dealt, 1)
  new = Examples(*(jnp.full((3, 1), 7.0) for _ in Examples._fields))
  after = replays.add(buffer, new, jnp.array([True, False, True]))
  after = by_age(jax.tree.map(lambda x: np.asarray(x)[None], after), 0)
  assert after == ([7.0, 7.0, *before])[: len(before) + 2][:16]


@pytest.mark.parametrize(("before", "after"), LAYOUTS)
def test_games_go_on_in_the_order_of_waiting(before, after):
  lanes = 16 // before
  roots = np.arange(16, dtype=np.int32).reshape(before, lanes)
  beliefs = np.broadcast_to(roots[..., None, None], (before, lanes, 2, 3)).astype(np.float32)
  turn = np.arange(before, dtype=np.int32) % lanes
  dealt = redistribute.redistribute_lanes(Lanes(roots, beliefs, turn), after)
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
  dealt = redistribute.redistribute_lanes(lanes, 2)
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

SETTINGS = dict(lanes=8, batch_size=8, examples=128)

def run(devices, stop, **changes):
  settings = SETTINGS | changes | {"num_devices": devices}
  train(*tiny(sys.argv[1], **settings), stop=lambda step: step >= stop)
  return checkpoint.checkpoints_of(sys.argv[1])[-1]

def held(state):
  replay = state.replay["value"]
  added, values = replay.added, replay.examples.values
  return sorted(
    tuple(v) for d, n in enumerate(added) for v in values[d, : min(n, values.shape[1])].tolist()
  )

def compare(path, before, after):
  config = tiny(path, **SETTINGS)[0]
  one, other = restored(path, config, before), restored(path, config, after)
  jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
  jax.tree.map(np.testing.assert_array_equal, one.optimizer_state, other.optimizer_state)
  made = [state.replay["value"].added.sum() for state in (one, other)]
  assert made == [2 * one.solves, 2 * other.solves]
  assert len(held(one)) > 0 and held(one) == held(other)
  assert sorted(one.lanes.roots.ravel()) == sorted(other.lanes.roots.ravel())
  assert one.step == other.step and other.keys.shape[0] == after
  return other

many = int(sys.argv[2])
path = run(1, 4)
on_many = compare(path, 1, many)
assert set(on_many.replay["value"].added.tolist()) == {64 // many}
path = run(many, 6, resume=True)
compare(path, many, 1)
run(1, 100, resume=True)
print(json.dumps(rows(sys.argv[1])))
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


def kept(added):
  """Returns a buffer with `added` in it, and 512 samples of it."""
  like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), added)
  replay = replays.add(replays.make_replay(like, 64), added, jnp.ones(32, bool))
  return replay, replays.sample(replay, jax.random.key(1), 512)


def test_samples_are_what_was_added():
  added = examples(jax.random.key(0), 32)
  replay, sampled = kept(added)
  assert {name: x.dtype for name, x in sampled.items()} == {
    name: x.dtype for name, x in added.items()
  }
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
