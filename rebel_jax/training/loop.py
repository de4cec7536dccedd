"""The generate, store and learn loop, compiled as one scan mapped over devices."""

import dataclasses
import functools
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from rebel_jax.training import replay as replays
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Played
from rebel_jax.training.targets.target import LearnerStats, Target, init_params, with_decay_steps
from solvers.validation import is_concrete
from solvers.xla.compiler_options import Programs, Work

DEVICES = "devices"
MOST_STEPS = 256  # of one call of `Trainer.run`
# Fields of the state that have a leading axis `[D]`: each device's own.
PER_DEVICE = ("lanes", "replay", "keys")


class TrainState(NamedTuple):
  """Everything that changes during training.

  What `PER_DEVICE` names has a leading axis `[D]` over devices; the rest is the same on all.

  Attributes:
    params, optimizer_state: by target's name.
    lanes, keys: each device's.
    replay: each device's buffers, by target's name.
    step: `[]` self-play steps taken.
    solves: `[]` subgames solved, all devices together.
  """

  params: dict[str, Any]
  optimizer_state: dict[str, Any]
  lanes: Any
  replay: dict[str, Replay]
  keys: jax.Array
  step: jax.Array
  solves: jax.Array


class Report(NamedTuple):
  """What each step of a call of `Trainer.run` measured: `[MOST_STEPS]`, zero beyond its steps.

  Attributes:
    learned: by target's name, over the gradient steps of each step, zero where there were none.
    held_out: by target's name, where it says so, the loss on each step's own examples before they
      enter the buffer: the network has never been trained on them.
    solves: subgames solved a step.
    rows: leaves evaluated an iteration.
  """

  learned: dict[str, LearnerStats]
  held_out: dict[str, jax.Array]
  solves: jax.Array
  rows: jax.Array


class Play(Protocol):
  """Settings of self-play on one device; static, and compared by value."""

  def init(self, table: Any, key: jax.Array) -> Any:
    """Returns lanes that all begin a game, in what `table` holds of it."""

  def step(self, table: Any, lanes: Any, params: dict[str, Any], key: jax.Array) -> Played:
    """Searches once in every lane, and goes on."""

  def work(self, table: Any) -> Work:
    """Returns what a step spends its time on, on a CPU."""


@dataclasses.dataclass(frozen=True)
class Trainer:
  """Settings of the loop, all static.

  Attributes:
    self_play: how, on one device.
    targets: what is learned.
    buffer_size: examples of each target kept on each device.
    learn_steps: gradient steps after each self-play step.
    per_solve: instead of it, gradient steps for each subgame that was solved, where steps solve
      more or fewer of them; `learn_steps` is what they come to about.
    min_solves: subgames to solve before learning starts, all devices together.
  """

  self_play: Play
  targets: tuple[Target, ...]
  buffer_size: int
  learn_steps: int
  min_solves: int
  per_solve: float = 0.0

  def init(self, table: Any, seed: int, mesh: Mesh) -> TrainState:
    """Returns the state before training, laid out over the devices of `mesh`."""
    state = _compile_init(self, mesh)(table, np.uint32(seed))
    decays = {
      t.name: with_decay_steps(state.optimizer_state[t.name], t.learner.decay_steps)
      for t in self.targets
    }
    return state._replace(optimizer_state=decays)

  def run(
    self, table: Any, state: TrainState, num_steps: int, mesh: Mesh
  ) -> tuple[TrainState, Report]:
    """Takes `num_steps` steps; `state` is donated. Compiled once, whatever their number.

    Raises:
      ValueError: they are more than `MOST_STEPS`.
    """
    if num_steps > MOST_STEPS:
      raise ValueError(f"num_steps={num_steps} must be at most {MOST_STEPS}")
    work = self.work(table, mesh) if is_concrete(state) else Work.PLAIN
    return _runs[work](self, mesh, np.int32(num_steps), table, state)

  def work(self, table: Any, mesh: Mesh) -> Work:
    """Returns what self-play spends its time on, which decides how it is compiled."""
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return self.self_play.work(table) if on_cpu else Work.PLAIN


def place(table: Any, mesh: Mesh) -> Any:
  """Returns the subgames on every device of `mesh`, lest `Trainer.run` copy them anew."""
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


def _init(trainer: Trainer, num_devices: int, table: Any, seed: jax.Array) -> TrainState:
  params_key, play_key = jax.random.split(jax.random.key(seed))
  params = init_params(trainer.targets, params_key)

  def on_each(x):
    return jnp.broadcast_to(x, (num_devices, *x.shape))

  lane_keys = jax.random.split(jax.random.fold_in(play_key, 1), num_devices)
  replay = {t.name: replays.make_replay(t.example, trainer.buffer_size) for t in trainer.targets}
  return TrainState(
    params=params,
    optimizer_state={t.name: t.learner.optimizer().init(params[t.name]) for t in trainer.targets},
    lanes=jax.vmap(functools.partial(trainer.self_play.init, table))(lane_keys),
    replay=jax.tree.map(on_each, replay),
    keys=jax.random.split(play_key, num_devices),
    step=jnp.zeros((), jnp.int32),
    solves=jnp.zeros((), jnp.int32),
  )


def _run_on_mesh(trainer: Trainer, mesh: Mesh, num_steps: jax.Array, table, state: TrainState):
  # The carry of the loop is the same on all devices or differs between them by construction,
  # which the checker cannot see through the buffers.
  return jax.shard_map(
    functools.partial(_run_on_device, trainer),
    mesh=mesh,
    in_specs=(P(), P(), specs()),
    out_specs=(specs(), P()),
    check_vma=False,
  )(num_steps, table, state)


_runs = Programs(_run_on_mesh, static_argnames=("trainer", "mesh"), donate_argnames="state")


def _run_on_device(trainer: Trainer, num_steps: jax.Array, table: Any, state: TrainState):
  # Here the leading axis is one device long.
  own = {n: jax.tree.map(lambda x: x[0], getattr(state, n)) for n in PER_DEVICE}
  state = state._replace(**own)
  # Without the jit, the step would be traced twice.
  step = jax.jit(functools.partial(_step, trainer, table))

  def take(i, carry):
    state, reports = carry
    state, report = step(state, None)
    return state, jax.tree.map(lambda all_, x: all_.at[i].set(x), reports, report)

  _, shapes = jax.eval_shape(step, state, None)
  reports = jax.tree.map(lambda x: jnp.zeros((MOST_STEPS, *x.shape), x.dtype), shapes)
  state, reports = jax.lax.fori_loop(0, num_steps, take, (state, reports))
  own = {n: jax.tree.map(lambda x: x[None], getattr(state, n)) for n in PER_DEVICE}
  return state._replace(**own), reports


def _step(trainer: Trainer, table: Any, state: TrainState, _):
  key, play_key, sample_key = jax.random.split(state.keys, 3)
  played = trainer.self_play.step(table, state.lanes, state.params, play_key)
  replay, held_out = {}, {}
  for target in trainer.targets:
    examples, valid = target.examples_of(played.searched)
    if target.held_out:
      error = target.loss(state.params[target.name], examples, valid)
      held_out[target.name] = jax.lax.pmean(error, DEVICES)
    replay[target.name] = replays.add(state.replay[target.name], examples, valid)
  stats = jax.lax.psum(played.stats, DEVICES)
  solves = state.solves + stats.solves
  fewest = jnp.stack([buffer.added for buffer in replay.values()]).min()
  ready = (solves >= trainer.min_solves) & (jax.lax.pmin(fewest, DEVICES) > 0)
  num_devices = jax.lax.psum(1, DEVICES)

  def learn(target, key, params, optimizer_state, means):
    size = target.learner.batch_size // num_devices
    batch = replays.sample(replay[target.name], key, size)
    params, optimizer_state, new = target.update(params, optimizer_state, batch, DEVICES)
    means = jax.tree.map(lambda mean, x: mean + x / trainer.learn_steps, means, new)
    return params, optimizer_state, means

  def learn_all(i, learned):
    key = jax.random.fold_in(sample_key, i)
    return {t.name: learn(t, key, *learned[t.name]) for t in trainer.targets}

  nothing = LearnerStats(jnp.zeros(()), jnp.zeros(()))
  learned = {
    name: (params, state.optimizer_state[name], nothing) for name, params in state.params.items()
  }
  # A loop of no turns rather than a branch, so that devices stay in step.
  turns = jnp.where(ready, trainer.learn_steps, 0)
  if trainer.per_solve:  # no example is used more than so often, on average
    counts = (state.solves, solves)
    before, now = (jnp.floor(x.astype(float) * trainer.per_solve) for x in counts)
    turns = jnp.where(ready, now - before, 0.0).astype(jnp.int32)
  learned = jax.lax.fori_loop(0, turns, learn_all, learned)
  params, optimizer_state, means = ({n: x[i] for n, x in learned.items()} for i in range(3))
  state = TrainState(
    params=params,
    optimizer_state=optimizer_state,
    lanes=played.lanes,
    replay=replay,
    keys=key,
    step=state.step + 1,
    solves=solves,
  )
  return state, Report(means, held_out, stats.solves, stats.rows)


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
