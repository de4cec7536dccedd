"""The generate, store and learn loop, compiled as one scan mapped over devices."""

import dataclasses
import functools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from rebel_jax.training import replay as replays
from rebel_jax.training.chain_play import ChainLanes, ChainPlay
from rebel_jax.training.self_play import Lanes, SelfPlay
from rebel_jax.training.targets import LearnerStats, Target, init_params, with_decay_steps
from solvers import tuning
from solvers.validation import is_concrete
from solvers.xla import Programs, Work, options_for

DEVICES = "devices"
MOST_STEPS = 256  # of one call of `Trainer.run`
# Fields of the state that have a leading axis `[D]`: each device's own.
PER_DEVICE = ("lanes", "replay", "keys")


class TrainState(NamedTuple):
  """Everything that changes during training; parts in `PER_DEVICE` have a leading axis `[D]`."""

  params: dict[str, Any]  # by target's name
  optimizer_state: dict[str, Any]  # by target's name
  lanes: Any
  replay: dict[str, replays.Replay]  # buffers by target's name
  keys: jax.Array
  step: jax.Array  # `[]` self-play steps taken
  solves: jax.Array  # `[]` subgames solved, all devices together


class Report(NamedTuple):
  """Measures of each step of a call of `Trainer.run`: `[MOST_STEPS]`, zero beyond its steps."""

  learned: dict[str, LearnerStats]  # by target's name, means over the gradient steps
  held_out: dict[str, jax.Array]  # losses on each step's own examples before they enter the buffer
  solves: jax.Array  # subgames solved a step
  rows: jax.Array  # leaves evaluated an iteration


@dataclasses.dataclass(frozen=True)
class Trainer:
  """Settings of the loop, all static."""

  self_play: SelfPlay | ChainPlay  # of one device
  targets: tuple[Target, ...]
  buffer_size: int  # examples of each target kept on each device
  learn_steps: int  # gradient steps after each self-play step
  min_solves: int  # subgames to solve before learning starts, all devices together
  # instead of `learn_steps`, gradient steps for each subgame solved; 0 for those
  per_solve: float = 0.0
  # of the whole run; not compared: a new optimizer's state alone depends on it
  decay_steps: int = dataclasses.field(default=1, compare=False)

  def init(self, table: Any, seed: Any, mesh: Mesh) -> TrainState:
    """Returns the state before training, laid out over the devices of `mesh`."""
    work = Work.PLAIN
    if is_concrete(seed):
      seed, work = np.uint32(seed), Work.ONCE if tuning.on_cpu() else work
    return with_decay_steps(_compile_init(self, mesh, work)(table, seed), self.decay_steps)

  def run(
    self, table: Any, state: TrainState, num_steps: int, mesh: Mesh
  ) -> tuple[TrainState, Report]:
    """Takes `num_steps` steps, at most `MOST_STEPS`, by one program; `state` is donated."""
    if num_steps > MOST_STEPS:
      raise ValueError(f"num_steps={num_steps} must be at most {MOST_STEPS}")
    work = self.work(table, mesh) if is_concrete(state) else Work.PLAIN
    return _runs[work](self, mesh, np.int32(num_steps), table, state)

  def compiled(self, table: Any, state: TrainState, mesh: Mesh) -> jax.stages.Compiled:
    """Returns the program of `run`, which that need not compile again."""
    inputs = self, mesh, np.int32(1), table, state
    return _runs.of(self.work(table, mesh), *inputs).lower(*inputs).compile()

  def learn(
    self, target: Target, learned: Any, replay: replays.Replay, key: jax.Array, turns: Any
  ) -> tuple[Any, Any, LearnerStats]:
    """Takes `turns` gradient steps on one device.

    `learned` and the result are parameters, optimizer state and means of statistics, to which a
    step adds its own over `learn_steps`.
    """
    share = target.learning.batch_size // jax.lax.psum(1, DEVICES)

    def take(i: jax.Array, learned: Any) -> Any:
      params, optimizer_state, means = learned
      batch = replays.sample(replay, jax.random.fold_in(key, i), share)
      params, optimizer_state, new = target.update(params, optimizer_state, batch, DEVICES)
      means = jax.tree.map(lambda mean, x: mean + x / self.learn_steps, means, new)
      return params, optimizer_state, means

    return jax.lax.fori_loop(0, turns, take, learned)

  def step(self, table: Any, state: TrainState) -> tuple[TrainState, Report]:
    """Takes a step on one device: generates, stores and learns."""
    key, play_key, sample_key = jax.random.split(state.keys, 3)
    played = self.self_play.step(table, state.lanes, state.params, play_key)
    replay, held_out = {}, {}
    for target in self.targets:
      examples, valid = target.examples_of(played.searched)
      if target.held_out:
        error = target.loss(state.params[target.name], examples, valid)
        held_out[target.name] = jax.lax.pmean(error, DEVICES)
      replay[target.name] = replays.add(state.replay[target.name], examples, valid)
    stats = jax.lax.psum(played.stats, DEVICES)
    solves = state.solves + stats.solves
    fewest = jnp.stack([buffer.added for buffer in replay.values()]).min()
    ready = (solves >= self.min_solves) & (jax.lax.pmin(fewest, DEVICES) > 0)

    turns: Any = self.learn_steps
    if self.per_solve:  # no example is used more than so often, on average
      before, now = (jnp.floor(x.astype(float) * self.per_solve) for x in (state.solves, solves))
      turns = (now - before).astype(jnp.int32)
    # An accelerator would wait for the host to read the number of turns.
    always = not (self.per_solve or tuning.on_cpu())
    if not always:  # a loop of no turns rather than a branch, so that devices stay in step
      turns = jnp.where(ready, turns, 0)
    learned = {}
    for target in self.targets:
      start = state.params[target.name], state.optimizer_state[target.name], nothing()
      end = self.learn(target, start, replay[target.name], sample_key, turns)
      if always:
        end = jax.tree.map(lambda x, y: jnp.where(ready, x, y), end, start)
      learned[target.name] = end
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

  def work(self, table: Any, mesh: Mesh) -> Work:
    """Returns the kind of work that dominates self-play; it decides how that is compiled."""
    return self.self_play.work(table) if tuning.on_cpu() else Work.PLAIN


def place(table: Any, mesh: Mesh) -> Any:
  """Returns the subgames on every device of `mesh`, lest `Trainer.run` copy them anew."""
  return jax.device_put(table, NamedSharding(mesh, jax.P()))


# The sharding of each part of the state.
SPECS: Any = TrainState._make(
  jax.P(DEVICES) if name in PER_DEVICE else jax.P() for name in TrainState._fields
)


def shardings(mesh: Mesh) -> Any:
  """Returns the sharding of each part of the state, as a `TrainState` of shardings."""
  return TrainState._make(NamedSharding(mesh, spec) for spec in SPECS)


@functools.lru_cache(maxsize=16)
def _compile_init(trainer: Trainer, mesh: Mesh, work: Work):
  # A compiled program puts each array where it belongs, also on the devices of other processes.
  init = functools.partial(_init, trainer, mesh.devices.size)
  return jax.jit(init, out_shardings=shardings(mesh), compiler_options=options_for(work))


def _init(trainer: Trainer, num_devices: int, table: Any, seed: jax.Array) -> TrainState:
  params_key, play_key = jax.random.split(jax.random.key(seed))
  params = init_params(trainer.targets, params_key)

  lane_keys = jax.random.split(jax.random.fold_in(play_key, 1), num_devices)
  replay = {t.name: replays.make_replay(t.example, trainer.buffer_size) for t in trainer.targets}
  return TrainState(
    params=params,
    optimizer_state={t.name: t.optimizer().init(params[t.name]) for t in trainer.targets},
    lanes=jax.vmap(functools.partial(trainer.self_play.init, table))(lane_keys),
    replay=jax.tree.map(lambda x: jnp.broadcast_to(x, (num_devices, *x.shape)), replay),
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
    in_specs=(jax.P(), jax.P(), SPECS),
    out_specs=(SPECS, jax.P()),
    check_vma=False,
  )(num_steps, table, state)


_runs = Programs(_run_on_mesh, static_argnames=("trainer", "mesh"), donate_argnames="state")


def _run_on_device(trainer: Trainer, num_steps: jax.Array, table: Any, state: TrainState):
  # Here the leading axis is one device long.
  own = {n: jax.tree.map(lambda x: x[0], getattr(state, n)) for n in PER_DEVICE}
  state = state._replace(**own)
  # Without the jit, the step would be traced twice.
  step = jax.jit(functools.partial(trainer.step, table))

  def take(i, carry):
    state, reports = carry
    state, report = step(state)
    return state, jax.tree.map(lambda all_, x: all_.at[i].set(x), reports, report)

  _, shapes = jax.eval_shape(step, state)
  reports = jax.tree.map(lambda x: jnp.zeros((MOST_STEPS, *x.shape), x.dtype), shapes)
  state, reports = jax.lax.fori_loop(0, num_steps, take, (state, reports))
  own = {n: jax.tree.map(lambda x: x[None], getattr(state, n)) for n in PER_DEVICE}
  return state._replace(**own), reports


def nothing() -> LearnerStats:
  """Returns the statistics of no gradient steps."""
  return LearnerStats(jnp.zeros(()), jnp.zeros(()))


def make_mesh(num_devices: int | None = None) -> Mesh:
  """Returns a mesh over the first `num_devices` devices of all processes; all of them for None."""
  devices = jax.devices()
  if num_devices is not None:
    if not 0 < num_devices <= len(devices):
      raise ValueError(f"num_devices={num_devices} must be from 1 to the {len(devices)} available")
    devices = devices[:num_devices]
  return jax.make_mesh((len(devices),), (DEVICES,), (jax.sharding.AxisType.Auto,), devices=devices)


# From one number of devices to another: lanes, replay contents and keys are dealt out anew. It is
# done on the host, by the arguments alone: every process computes the same, and the same checkpoint
# always goes on in the same way.


def saved_like(state: dict[str, Any], num_devices: int) -> dict[str, Any]:
  """Returns arrays of the host of the shapes that a state, by field, has on `num_devices`."""

  def shape(name: str, x: Any) -> tuple[int, ...]:
    if name not in PER_DEVICE:
      return x.shape
    devices, *rest = x.shape
    if name != "keys" and rest:  # lanes and buffers are shares of a whole
      rest[0] = rest[0] * devices // num_devices
    return (num_devices, *rest)

  return {
    name: jax.tree.map(lambda x, name=name: np.empty(shape(name, x), x.dtype), part)
    for name, part in state.items()
  }


def redistribute(state: dict[str, Any], num_devices: int) -> dict[str, Any]:
  """Shards a state over `num_devices`: lanes, keys and every buffer."""
  return state | {
    "lanes": redistribute_lanes(state["lanes"], num_devices) if state["lanes"] else (),
    "replay": {name: redistribute_replay(x, num_devices) for name, x in state["replay"].items()},
    "keys": redistribute_keys(state["keys"], num_devices),
  }


def redistribute_lanes(lanes: Lanes | ChainLanes, num_devices: int) -> Any:
  """Deals games, arrays `[D, B, ...]`, and questions out over `num_devices`."""
  # Games are a full buffer, in which the one that waits longest is the oldest: each device's from
  # its `turn` on, one of each device after the other, so none waits longer.
  games = lanes._asdict()
  # `Lanes` have a turn, `ChainLanes` a queue of questions and how many of them were taken.
  turn, waiting, taken = (games.pop(name, 0) for name in ("turn", "waiting", "taken"))
  devices, number = jax.tree.leaves(games)[0].shape[:2]
  added = np.full(devices, number, np.int32) + np.asarray(turn)
  dealt = redistribute_replay(replays.Replay(games, cast(Any, added)), num_devices)
  if isinstance(lanes, Lanes):
    turn = dealt.added % (devices * number // num_devices)
    return Lanes(**dealt.examples, turn=turn)
  waiting = redistribute_replay(waiting, num_devices, np.asarray(taken))
  rest = {"waiting": waiting, "taken": np.zeros_like(waiting.added)}
  return ChainLanes(**dealt.examples | rest)


def redistribute_replay(replay: replays.Replay, num_devices: int, first: Any = 0) -> replays.Replay:
  """Deals the examples of all devices' buffers, `[D, C, ...]`, out over `num_devices`, by age."""
  # `first` `[D]`: number of the oldest to deal out. The sum of `added` is kept where all buffers
  # are full or none is; else what was overwritten is no longer counted.
  added = np.asarray(replay.added)
  capacity = jax.tree.leaves(replay.examples)[0].shape[1]
  new_capacity = capacity * len(added) // num_devices
  held = np.arange(capacity) < (added - first)[:, None]  # by age
  # Newest first, one of each device after the other, as they were made at the same time; then the
  # places that hold nothing.
  order = np.argsort(~held.T.ravel(), kind="stable")
  total = (added - first).sum() if held.all() else held.sum()
  new_added = (total + np.arange(num_devices)[::-1]) // num_devices
  # Each new slot `[N, C']` by the age of its example there, then by the age and device it had.
  new_age = (new_added[:, None] - 1 - np.arange(new_capacity)) % new_capacity
  age, device = np.divmod(
    order[new_age * num_devices + np.arange(num_devices)[:, None]], len(added)
  )
  slot = (added[device] - 1 - age) % capacity
  dealt = jax.tree.map(lambda x: np.asarray(x)[device, slot], replay.examples)
  return replays.Replay(dealt, cast(Any, new_added.astype(added.dtype)))


def redistribute_keys(key_data: np.ndarray, num_devices: int) -> np.ndarray:
  """Derives keys for `num_devices` from the first device's: `[D, ...]` integers of keys."""
  key = jax.random.wrap_key_data(np.asarray(key_data)[0])
  keys = jax.random.split(jax.random.fold_in(key, num_devices), num_devices)
  return np.asarray(jax.random.key_data(keys))
