"""The generate, store and learn loop, compiled as one scan mapped over devices."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from rebel_jax import replay as replays
from rebel_jax.learner import Learner, LearnerStats
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.replay import Examples, Replay
from rebel_jax.self_play import Lanes, SelfPlay, init_lanes, self_play_step
from solvers.subgames import SubgameTable

DEVICES = "devices"


class TrainState(NamedTuple):
  """Everything that changes during training.

  Lanes, buffer and keys have a leading axis `[D]` over devices; the rest is the same on all.

  Attributes:
    params, optimizer_state: the network's and Adam's.
    lanes, replay, keys: each device's.
    step: `[]` self-play steps taken.
    solves: `[]` subgames solved, all devices together.
  """

  params: Any
  optimizer_state: Any
  lanes: Lanes
  replay: Replay
  keys: jax.Array
  step: jax.Array
  solves: jax.Array


class Report(NamedTuple):
  """Means over a chunk of steps.

  Attributes:
    loss, gradient_norm: over the gradient steps of each step, zero where there were none.
    value_error: the loss on each step's own examples before they enter the buffer: held out, as
      the network has never been trained on them.
    solves: subgames solved a step.
    rows: leaves evaluated an iteration.
  """

  loss: jax.Array
  gradient_norm: jax.Array
  value_error: jax.Array
  solves: jax.Array
  rows: jax.Array


@dataclasses.dataclass(frozen=True)
class Trainer:
  """Settings of the loop, all static.

  Attributes:
    self_play, learner: their settings, for one device and all devices respectively.
    buffer_size: examples kept on each device.
    learn_steps: gradient steps after each self-play step.
    min_examples: examples that must be in the buffer before learning starts.
  """

  self_play: SelfPlay
  learner: Learner
  buffer_size: int
  learn_steps: int
  min_examples: int

  def init(self, table: SubgameTable, seed: int, mesh: Mesh) -> TrainState:
    """Returns the state before training, laid out over the devices of `mesh`."""
    return _compile_init(self, mesh)(table, np.uint32(seed))

  def run(
    self, table: SubgameTable, state: TrainState, num_steps: int, mesh: Mesh
  ) -> tuple[TrainState, Report]:
    """Takes `num_steps` steps; `state` is donated. Compiled once for each `num_steps`."""
    return _run(self, mesh, num_steps, table, state)


def specs() -> Any:
  """Returns how each part of the state lies over the devices, as a `TrainState` of specs."""
  split = {"lanes": P(DEVICES), "replay": P(DEVICES), "keys": P(DEVICES)}
  return TrainState._make(split.get(name, P()) for name in TrainState._fields)


def shardings(state: TrainState, mesh: Mesh) -> TrainState:
  """Returns the sharding of every array of the state."""
  return TrainState(
    *(
      jax.tree.map(lambda _, s=spec: NamedSharding(mesh, s), part)
      for spec, part in zip(specs(), state)
    )
  )


@functools.lru_cache(maxsize=16)
def _compile_init(trainer: Trainer, mesh: Mesh):
  # A compiled program puts each array where it belongs, also on the devices of other processes.
  where = TrainState._make(NamedSharding(mesh, spec) for spec in specs())
  return jax.jit(functools.partial(_init, trainer, mesh.devices.size), out_shardings=where)


def _init(trainer: Trainer, num_devices: int, table: SubgameTable, seed: jax.Array) -> TrainState:
  num_features = table.trees.root_features.shape[-1]
  num_infostates = table.trees.num_infostates
  params_key, play_key = jax.random.split(jax.random.key(seed))
  network = trainer.learner.network
  params = network.init(
    params_key, jnp.zeros((1, num_features)), jnp.zeros((1, 2 * num_infostates))
  )

  def on_each(x):
    return jnp.broadcast_to(x, (num_devices, *x.shape))

  replay = replays.make_replay(trainer.buffer_size, num_features, num_infostates)
  return TrainState(
    params=params,
    optimizer_state=trainer.learner.optimizer().init(params),
    lanes=jax.tree.map(on_each, init_lanes(table, trainer.self_play.num_lanes)),
    replay=jax.tree.map(on_each, replay),
    keys=jax.random.split(play_key, num_devices),
    step=jnp.zeros((), jnp.int32),
    solves=jnp.zeros((), jnp.int32),
  )


@functools.partial(
  jax.jit, static_argnames=("trainer", "mesh", "num_steps"), donate_argnames="state"
)
def _run(trainer: Trainer, mesh: Mesh, num_steps: int, table, state: TrainState):
  # The carry of the scan is the same on all devices or differs between them by construction,
  # which the checker cannot see through the buffers.
  return jax.shard_map(
    functools.partial(_run_on_device, trainer, num_steps),
    mesh=mesh,
    in_specs=(P(), specs()),
    out_specs=(specs(), P()),
    check_vma=False,
  )(table, state)


def _run_on_device(trainer: Trainer, num_steps: int, table: SubgameTable, state: TrainState):
  lanes, replay, keys = jax.tree.map(lambda x: x[0], (state.lanes, state.replay, state.keys))
  state = state._replace(lanes=lanes, replay=replay, keys=keys)
  step = functools.partial(_step, trainer, table)
  state, reports = jax.lax.scan(step, state, length=num_steps)
  lanes, replay, keys = jax.tree.map(lambda x: x[None], (state.lanes, state.replay, state.keys))
  state = state._replace(lanes=lanes, replay=replay, keys=keys)
  return state, jax.tree.map(jnp.mean, reports)


def _step(trainer: Trainer, table: SubgameTable, state: TrainState, _):
  key, play_key, sample_key = jax.random.split(state.keys, 3)
  leaf_values = NetworkLeafValues(trainer.learner.network)
  lanes, examples, valid, stats = self_play_step(
    table, trainer.self_play, state.lanes, leaf_values, state.params, play_key
  )
  value_error = jax.lax.pmean(_held_out_loss(trainer, state.params, examples, valid), DEVICES)
  replay = replays.add(state.replay, examples, valid)
  stats = jax.lax.psum(stats, DEVICES)
  ready = jax.lax.pmin(replay.added, DEVICES) >= trainer.min_examples
  num_devices = jax.lax.psum(1, DEVICES)
  batch_size = trainer.learner.batch_size // num_devices

  def learn(i, carry):
    params, optimizer_state, means = carry
    batch = replays.sample(replay, jax.random.fold_in(sample_key, i), batch_size)
    params, optimizer_state, new = trainer.learner.update(params, optimizer_state, batch, DEVICES)
    means = jax.tree.map(lambda mean, x: mean + x / trainer.learn_steps, means, new)
    return params, optimizer_state, means

  carry = (state.params, state.optimizer_state, LearnerStats(jnp.zeros(()), jnp.zeros(())))
  # A loop of no turns rather than a branch, so that devices stay in step.
  turns = jnp.where(ready, trainer.learn_steps, 0)
  params, optimizer_state, means = jax.lax.fori_loop(0, turns, learn, carry)
  state = TrainState(
    params=params,
    optimizer_state=optimizer_state,
    lanes=lanes,
    replay=replay,
    keys=key,
    step=state.step + 1,
    solves=state.solves + stats.solves,
  )
  return state, Report(means.loss, means.gradient_norm, value_error, stats.solves, stats.rows)


def _held_out_loss(trainer: Trainer, params: Any, examples: Examples, valid: jax.Array):
  """Returns the loss on those of a step's examples that are valid."""
  valid = valid[:, None]
  values = jnp.where(valid, examples.values, 0.0)  # of lanes that wait, anything
  fresh = examples._replace(values=values, mask=examples.mask * valid)
  return trainer.learner.loss(params, fresh)


def make_mesh(num_devices: int | None = None) -> Mesh:
  """Returns a mesh over the first `num_devices` devices of all processes, or all of them.

  Raises:
    ValueError: there are fewer devices.
  """
  devices = jax.devices()
  if num_devices is not None:
    if not 0 < num_devices <= len(devices):
      raise ValueError(f"num_devices={num_devices} must be from 1 to the {len(devices)} available")
    devices = devices[:num_devices]
  return jax.make_mesh((len(devices),), (DEVICES,), (jax.sharding.AxisType.Auto,), devices=devices)
