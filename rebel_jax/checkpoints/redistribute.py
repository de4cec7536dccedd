"""From one number of devices to another: lanes, replay contents and keys dealt out anew.

Parameters and optimizer are the same on all devices, so only what has a leading axis `[D]` changes.
Everything here is on the host and a function of its arguments alone: every process computes the
same, and the same checkpoint always goes on in the same way.
"""

from typing import Any

import jax
import numpy as np

from rebel_jax.training.chain_play import ChainLanes
from rebel_jax.training.loop import PER_DEVICE
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Lanes


def saved_like(state: dict[str, Any], num_devices: int) -> dict[str, Any]:
  """Returns arrays of the host of the shapes that a state has on `num_devices`.

  Args:
    state: fields of a `TrainState`, as training goes on with them.
    num_devices: on which it was saved.
  """

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
  """Deals a state out over `num_devices`: lanes, keys and every buffer, whatever it is called."""

  def deal(part: Any) -> Any:
    if isinstance(part, Lanes):
      return redistribute_lanes(part, num_devices)
    if isinstance(part, ChainLanes):
      return redistribute_growing(part, num_devices)
    return redistribute_replay(part, num_devices) if isinstance(part, Replay) else part

  parts = (Lanes, ChainLanes, Replay)
  dealt = jax.tree.map(deal, state, is_leaf=lambda part: isinstance(part, parts))
  return dealt | {"keys": redistribute_keys(state["keys"], num_devices)}


def redistribute_lanes(lanes: Lanes, num_devices: int) -> Lanes:
  """Deals the games of self-play out over `num_devices`, the longest waiting first.

  Args:
    lanes: of all devices, arrays `[D, B, ...]` and `turn` `[D]`.
    num_devices: must divide the number of all lanes.

  Returns:
    The same games, served in an order in which none waits longer than before: each device's from
    its `turn` on, one of each device after the other.
  """

  def deal(x):
    turned = np.stack([np.roll(part, -int(turn), axis=0) for part, turn in zip(x, lanes.turn)])
    queue = turned.swapaxes(0, 1).reshape(-1, *x.shape[2:])
    return queue.reshape(-1, num_devices, *x.shape[2:]).swapaxes(0, 1)

  turn: Any = np.zeros(num_devices, np.asarray(lanes.turn).dtype)
  roots = jax.tree.map(lambda x: deal(np.asarray(x)), lanes.roots)
  return Lanes(roots, deal(np.asarray(lanes.beliefs)), turn)


def redistribute_growing(lanes: ChainLanes, num_devices: int) -> ChainLanes:
  """Deals the games and the questions that wait out over `num_devices`; arguments as above."""

  def deal(x: Any) -> Any:
    x = np.asarray(x)
    queue = x.swapaxes(0, 1).reshape(-1, *x.shape[2:])
    return queue.reshape(-1, num_devices, *x.shape[2:]).swapaxes(0, 1)

  waiting = lanes.waiting
  capacity = jax.tree.leaves(waiting.examples)[0].shape[1]
  added = np.asarray(waiting.added)
  first = np.maximum(np.asarray(lanes.taken), added - capacity)
  order = (first[:, None] + np.arange(capacity)) % capacity
  devices = np.arange(len(added))[:, None]
  unasked: Any = added - first
  in_order = jax.tree.map(lambda x: np.asarray(x)[devices, order], waiting.examples)
  taken: Any = np.zeros(num_devices, added.dtype)
  waiting = redistribute_replay(Replay(in_order, unasked), num_devices)
  queue = {"waiting": waiting, "taken": taken}
  games = {name: part for name, part in lanes._asdict().items() if name not in queue}
  return lanes._replace(**jax.tree.map(deal, games), **queue)


def redistribute_replay(replay: Replay, num_devices: int) -> Replay:
  """Deals the examples of all devices' buffers out over `num_devices`, by age.

  Args:
    replay: of all devices, arrays `[D, C, ...]` and `added` `[D]`.
    num_devices: must divide the capacity of all buffers together.

  Returns:
    Buffers that hold the same examples, as many in each, give or take one, each in the order of
    their age. The sum of `added` is kept, unless some buffers were overwriting and others not yet
    full: then room may be left, and what was overwritten is no longer counted.
  """
  added = np.asarray(replay.added)
  capacity = jax.tree.leaves(replay.examples)[0].shape[1]
  sizes = np.minimum(added, capacity)
  # Where examples lie, newest first: rank r of device d at slot (added - 1 - r) % capacity. One of
  # each device after the other, as they were made at the same time.
  ranks, devices = np.divmod(np.arange(sizes.max(initial=0) * len(added)), len(added))
  real = ranks < sizes[devices]
  ranks, devices = ranks[real], devices[real]
  slots = (added[devices] - 1 - ranks) % capacity

  new_capacity = capacity * len(added) // num_devices
  new_sizes = np.array([len(slots[d::num_devices]) for d in range(num_devices)], added.dtype)
  overwritten = int(added.sum() - sizes.sum())
  full = np.flatnonzero(new_sizes == new_capacity)
  new_added = new_sizes.copy()
  for i, device in enumerate(full):
    new_added[device] += len(range(i, overwritten, len(full)))
  order = np.arange(len(slots))
  new_devices, new_ranks = order % num_devices, order // num_devices
  new_slots = (new_added[new_devices] - 1 - new_ranks) % new_capacity

  def deal(x):
    x = np.asarray(x)
    dealt = np.zeros((num_devices, new_capacity, *x.shape[2:]), x.dtype)
    dealt[new_devices, new_slots] = x[devices, slots]
    return dealt

  dealt: Any = new_added
  return Replay(jax.tree.map(deal, replay.examples), dealt)


def redistribute_keys(key_data: np.ndarray, num_devices: int) -> np.ndarray:
  """Derives keys for `num_devices` from the first device's: `[D, ...]` integers of keys."""
  key = jax.random.wrap_key_data(np.asarray(key_data)[0])
  keys = jax.random.split(jax.random.fold_in(key, num_devices), num_devices)
  return np.asarray(jax.random.key_data(keys))
