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
from rebel_jax.learner import Learner, LearnerStats, PolicyLearner
from rebel_jax.networks import NetworkLeafValues, value_params
from rebel_jax.policy_networks import as_search_policy, init_params
from rebel_jax.replay import Examples, Replay
from rebel_jax.self_play import Lanes, SelfPlay, init_lanes, self_play_step
from solvers.compiler_options import Work, jit_for_each
from solvers.policy_network import SearchPolicy
from solvers.subgames import SubgameTables
from solvers.validation import is_concrete

DEVICES = "devices"
# Entries of a table. With all 1,128 hands of a turn endgame tables cost more than the network does,
# and compiling them for a network takes too long; with the 91 of a deck of 18 cards it pays.
_LARGE_HANDS = 2**14
# Fields of the state that have a leading axis `[D]`: each device's own.
PER_DEVICE = ("lanes", "replay", "keys", "policy_replay")


class TrainState(NamedTuple):
  """Everything that changes during training.

  What `PER_DEVICE` names has a leading axis `[D]` over devices; the rest is the same on all.

  Attributes:
    params, optimizer_state: the value network's and its optimizer's; with a policy network dicts of
      both networks', `value` and `policy`.
    lanes, replay, keys: each device's.
    step: `[]` self-play steps taken.
    solves: `[]` subgames solved, all devices together.
    policy_replay: each device's buffer of the policy network's examples; None without one.
  """

  params: Any
  optimizer_state: Any
  lanes: Lanes
  replay: Replay
  keys: jax.Array
  step: jax.Array
  solves: jax.Array
  policy_replay: Replay | None = None


class Report(NamedTuple):
  """Means over a chunk of steps.

  Attributes:
    loss, gradient_norm: of the value network, over the gradient steps of each step, zero where
      there were none.
    value_error: the loss on each step's own examples before they enter the buffer: held out, as
      the network has never been trained on them.
    solves: subgames solved a step.
    rows: leaves evaluated an iteration.
    policy_loss: of the policy network; None without one.
  """

  loss: jax.Array
  gradient_norm: jax.Array
  value_error: jax.Array
  solves: jax.Array
  rows: jax.Array
  policy_loss: jax.Array | None = None


@dataclasses.dataclass(frozen=True)
class Trainer:
  """Settings of the loop, all static.

  Attributes:
    self_play, learner: their settings, for one device and all devices respectively.
    buffer_size: examples kept on each device.
    learn_steps: gradient steps after each self-play step.
    min_examples: examples that must be in the buffer before learning starts.
    policy_learner: of the policy network, if there is one.
    policy_buffer_size: examples of it kept on each device.
  """

  self_play: SelfPlay
  learner: Learner
  buffer_size: int
  learn_steps: int
  min_examples: int
  policy_learner: PolicyLearner | None = None
  policy_buffer_size: int = 0

  @property
  def policy(self) -> SearchPolicy | None:
    """The policy network as searches use it."""
    return None if self.policy_learner is None else as_search_policy(self.policy_learner.network)

  def init(self, table: SubgameTables, seed: int, mesh: Mesh) -> TrainState:
    """Returns the state before training, laid out over the devices of `mesh`."""
    return _compile_init(self, mesh)(table, np.uint32(seed))

  def run(
    self, table: SubgameTables, state: TrainState, num_steps: int, mesh: Mesh
  ) -> tuple[TrainState, Report]:
    """Takes `num_steps` steps; `state` is donated. Compiled once for each `num_steps`."""
    work = work_of_self_play(table, mesh) if is_concrete(state) else Work.PLAIN
    return _runs[work](self, mesh, num_steps, table, state)


def work_of_self_play(table: SubgameTables, mesh: Mesh) -> Work:
  """Returns what self-play spends its time on, which decides how it is compiled."""
  if mesh.devices.flat[0].platform != "cpu":
    return Work.PLAIN
  trees = [x.trees for x in table.tables if x.trees.hands is not None]
  large = any(tree.num_nodes * tree.num_infostates >= _LARGE_HANDS for tree in trees)
  return Work.TREES if large else Work.NETWORKS


def place(table: SubgameTables, mesh: Mesh) -> SubgameTables:
  """Returns the subgames on every device of `mesh`, so that `Trainer.run` does not copy them anew.

  Many variants of hold'em take gigabytes.
  """
  return jax.device_put(table, NamedSharding(mesh, P()))


def specs() -> Any:
  """Returns how each part of the state lies over the devices, as a `TrainState` of specs."""
  return TrainState._make(P(DEVICES) if name in PER_DEVICE else P() for name in TrainState._fields)


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


def _init(trainer: Trainer, num_devices: int, table: SubgameTables, seed: jax.Array) -> TrainState:
  trees = table.tables[0].trees
  num_features, num_infostates = trees.root_features.shape[-1], trees.num_infostates
  params_key, play_key = jax.random.split(jax.random.key(seed))
  policy_learner = trainer.policy_learner
  policy_network = None if policy_learner is None else policy_learner.network
  params = init_params(
    trainer.learner.network, policy_network, params_key, num_features, num_infostates
  )

  def on_each(x):
    return jnp.broadcast_to(x, (num_devices, *x.shape))

  lane_keys = jax.random.split(jax.random.fold_in(play_key, 1), num_devices)
  replay = replays.make_replay(trainer.buffer_size, num_features, num_infostates)
  policy_replay, optimizer_state = None, trainer.learner.optimizer().init(value_params(params))
  if policy_learner is not None:
    policy_replay = replays.make_policy_replay(
      trainer.policy_buffer_size, num_features, num_infostates, policy_learner.network.num_actions
    )
    policy_state = policy_learner.optimizer().init(params["policy"])
    optimizer_state = {"value": optimizer_state, "policy": policy_state}
  return TrainState(
    params=params,
    optimizer_state=optimizer_state,
    lanes=jax.vmap(functools.partial(init_lanes, table, trainer.self_play.num_lanes))(lane_keys),
    replay=jax.tree.map(on_each, replay),
    keys=jax.random.split(play_key, num_devices),
    step=jnp.zeros((), jnp.int32),
    solves=jnp.zeros((), jnp.int32),
    policy_replay=jax.tree.map(on_each, policy_replay),
  )


def _run_on_mesh(trainer: Trainer, mesh: Mesh, num_steps: int, table, state: TrainState):
  # The carry of the scan is the same on all devices or differs between them by construction,
  # which the checker cannot see through the buffers.
  return jax.shard_map(
    functools.partial(_run_on_device, trainer, num_steps),
    mesh=mesh,
    in_specs=(P(), specs()),
    out_specs=(specs(), P()),
    check_vma=False,
  )(table, state)


_runs = jit_for_each(
  _run_on_mesh, static_argnames=("trainer", "mesh", "num_steps"), donate_argnames="state"
)


def _run_on_device(trainer: Trainer, num_steps: int, table: SubgameTables, state: TrainState):
  # Here the leading axis is one device long.
  own = {n: jax.tree.map(lambda x: x[0], getattr(state, n)) for n in PER_DEVICE}
  state = state._replace(**own)
  step = functools.partial(_step, trainer, table)
  state, reports = jax.lax.scan(step, state, length=num_steps)
  own = {n: jax.tree.map(lambda x: x[None], getattr(state, n)) for n in PER_DEVICE}
  return state._replace(**own), jax.tree.map(jnp.mean, reports)


def _step(trainer: Trainer, table: SubgameTables, state: TrainState, _):
  key, play_key, sample_key = jax.random.split(state.keys, 3)
  leaf_values = NetworkLeafValues(trainer.learner.network)
  played = self_play_step(
    table, trainer.self_play, state.lanes, leaf_values, state.params, play_key, trainer.policy
  )
  value_error = jax.lax.pmean(
    _held_out_loss(trainer, state.params, played.examples, played.valid), DEVICES
  )
  replay = replays.add(state.replay, played.examples, played.valid)
  policy_replay = state.policy_replay
  if policy_replay is not None:
    assert played.policy_valid is not None
    policy_replay = replays.add(policy_replay, played.policy_examples, played.policy_valid)
  stats = jax.lax.psum(played.stats, DEVICES)
  ready = jax.lax.pmin(replay.added, DEVICES) >= trainer.min_examples
  num_devices = jax.lax.psum(1, DEVICES)

  def learn_from(learner, replay, params, optimizer_state, key):
    batch = replays.sample(replay, key, learner.batch_size // num_devices)
    return learner.update(params, optimizer_state, batch, DEVICES)

  def learn(i, carry):
    params, optimizer_state, means = carry
    key = jax.random.fold_in(sample_key, i)
    if trainer.policy_learner is None:
      params, optimizer_state, new = learn_from(
        trainer.learner, replay, params, optimizer_state, key
      )
      news = (new,)
    else:
      learners = {"value": trainer.learner, "policy": trainer.policy_learner}
      buffers = {"value": replay, "policy": policy_replay}
      updated = {
        name: learn_from(learner, buffers[name], params[name], optimizer_state[name], key)
        for name, learner in learners.items()
      }
      params, optimizer_state = ({n: u[k] for n, u in updated.items()} for k in (0, 1))
      news = tuple(update[2] for update in updated.values())
    means = jax.tree.map(lambda mean, x: mean + x / trainer.learn_steps, means, news)
    return params, optimizer_state, means

  nothing = LearnerStats(jnp.zeros(()), jnp.zeros(()))
  carry = (
    state.params,
    state.optimizer_state,
    (nothing,) * (1 if trainer.policy_learner is None else 2),
  )
  # A loop of no turns rather than a branch, so that devices stay in step.
  turns = jnp.where(ready, trainer.learn_steps, 0)
  params, optimizer_state, means = jax.lax.fori_loop(0, turns, learn, carry)
  state = TrainState(
    params=params,
    optimizer_state=optimizer_state,
    lanes=played.lanes,
    replay=replay,
    keys=key,
    step=state.step + 1,
    solves=state.solves + stats.solves,
    policy_replay=policy_replay,
  )
  report = Report(
    loss=means[0].loss,
    gradient_norm=means[0].gradient_norm,
    value_error=value_error,
    solves=stats.solves,
    rows=stats.rows,
    policy_loss=None if trainer.policy_learner is None else means[1].loss,
  )
  return state, report


def _held_out_loss(trainer: Trainer, params: Any, examples: Examples, valid: jax.Array):
  """Returns the value network's loss on those of a step's examples that are valid."""
  valid = valid[:, None]
  values = jnp.where(valid, examples.values, 0.0)  # of lanes that wait, anything
  fresh = examples._replace(values=values, mask=examples.mask * valid)
  return trainer.learner.loss(value_params(params), fresh)


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
