"""Checkpoints: everything a run needs to go on exactly, and the networks shipped with the package.

A checkpoint is a folder `OUTPUT_DIR/checkpoints/STEP` of three items that Orbax writes together:
`params`, `state` (optimizer, lanes, replay buffer, random keys, counters) and `about` (JSON: the
configuration, where the run stood, how far `metrics.jsonl` had been written, and checksums of all
three). Orbax writes to a temporary folder and renames it, so a folder with a number for a name is
complete.
"""

import json
import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh

from rebel_jax import checksums, redistribute
from rebel_jax.config import Config, ConfigError
from rebel_jax.policy_networks import init_params
from rebel_jax.setup import make_network, make_policy_network
from rebel_jax.training import PER_DEVICE, TrainState, shardings

FORMAT = 2
# A checkpoint written beside one of the same step, which it replaces.
NEWER = ".new"
_PRETRAINED = Path(__file__).parent / "pretrained"


class Policy(NamedTuple):
  """A trained network: what an agent needs.

  Attributes:
    config: of the run that trained it.
    params: the value network's parameters, or both networks' (`TrainState`).
    about: where it comes from and what was measured.
  """

  config: Config
  params: Any
  about: dict[str, Any]


def checkpoints_of(output_dir: str | Path) -> list[Path]:
  """Returns the complete checkpoints of a run's folder, oldest first, one for each step."""
  folder = Path(output_dir) / "checkpoints"
  if not os.path.isdir(folder):
    return []
  found = {}
  for path in sorted(folder.iterdir()):
    step = path.name.removesuffix(NEWER)
    if step.isdecimal() and path.is_dir():
      found[int(step)] = path  # STEP.new comes after STEP
  return [found[step] for step in sorted(found)]


def plain(state: TrainState) -> dict[str, Any]:
  """Returns the state without its parameters, keys as the integers that they are made of."""
  fields = {name: value for name, value in state._asdict().items() if value is not None}
  del fields["params"]
  return fields | {"keys": jax.random.key_data(state.keys)}


def best_checkpoint(output_dir: str | Path) -> Path | None:
  """Returns the checkpoint of lowest exploitability, None if none was evaluated."""
  scored = []
  for path in checkpoints_of(output_dir):
    try:
      score = read_about(path).get("exploitability")
    except ConfigError:  # damaged, so it is not the best
      continue
    if score is not None:
      scored.append((score, path))
  return min(scored)[1] if scored else None


def read_about(path: Path) -> dict[str, Any]:
  """Returns a checkpoint's `about`.

  Raises:
    ConfigError: it cannot be read, or another version of the program wrote it.
  """
  try:
    # Orbax's JSON item is one file; reading it so takes no start of Orbax.
    about = json.loads((path / "about" / "metadata").read_text())
  except (OSError, ValueError) as error:
    raise _damaged(path, error) from None
  if not isinstance(about, dict) or about.get("format") != FORMAT:
    found = about.get("format") if isinstance(about, dict) else None
    raise ConfigError(f"checkpoint={str(path)!r} has format {found!r}; this version reads {FORMAT}")
  if about.pop("about_checksum", None) != checksums.of_json(about):
    raise _damaged(path, "what it says about itself was changed")
  return about


def _damaged(path: Path, reason: object) -> ConfigError:
  said = str(reason).strip().split("\n")[0] or type(reason).__name__
  others = [p for p in checkpoints_of(path.parent.parent) if p != path]
  hint = f"; without that folder, {others[-1].name} is the newest" if others else ""
  return ConfigError(f"checkpoint={str(path)!r} cannot be read, it may be damaged: {said}{hint}")


def _read(path: Path, **items: Any) -> dict[str, Any]:
  """Reads items of a checkpoint as arrays like those given.

  Raises:
    ConfigError: they cannot be read.
  """
  import orbax.checkpoint as ocp  # here because it takes half a second and few users need it

  checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
  asked = {name: ocp.args.StandardRestore(like) for name, like in items.items()}
  try:
    return dict(checkpointer.restore(path.absolute(), args=ocp.args.Composite(**asked)))
  except Exception as error:
    raise _damaged(path, error) from None


def _check_sum(path: Path, about: dict[str, Any], name: str, arrays: Any) -> None:
  if about["checksums"][name] != checksums.of_arrays(arrays):
    raise _damaged(path, f"its {name} are not those that were saved")


def restore(path: Path, like: TrainState, mesh: Mesh) -> TrainState:
  """Reads the state of training, which may have been saved on another number of devices.

  Args:
    path: the checkpoint's folder.
    like: a state of the shapes that training goes on with, only looked at.
    mesh: the devices to lay it out over.

  Raises:
    ConfigError: it cannot be read, it was changed, or it belongs to another game or network.
  """
  about, where = read_about(path), shardings(like, mesh)
  now, then = mesh.devices.size, about["num_devices"]
  params = jax.tree.map(_abstract, like.params, where.params)
  state = plain(like)
  layout = {name: getattr(where, name) for name in state}
  if now == then:
    items = _read(path, params=params, state=jax.tree.map(_abstract, state, layout))
    _check_sum(path, about, "state", items["state"])
    fields = dict(items["state"])
  else:
    items = _read(path, params=params, state=_saved_like(state, then))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
      _check_sum(path, about, "state", items["state"])
      fields = _redistribute(dict(items["state"]), now)
    fields = jax.tree.map(_lay_out, fields, layout)
  _check_sum(path, about, "params", items["params"])
  fields["keys"] = jax.random.wrap_key_data(fields["keys"])
  return TrainState(**fields, params=items["params"])


def _abstract(array: jax.Array, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)


def _saved_like(state: dict[str, Any], num_devices: int) -> dict[str, Any]:
  """Returns arrays of the host of the shapes that the state has on so many devices."""

  def empty(name: str, x: jax.Array) -> np.ndarray:
    shape = tuple(x.shape)
    if name in PER_DEVICE:
      shape = redistribute.saved_shape(x, num_devices, split=name != "keys")
    return np.empty(shape, x.dtype)

  return {
    name: jax.tree.map(lambda x, name=name: empty(name, x), part) for name, part in state.items()
  }


def _redistribute(state: dict[str, Any], num_devices: int) -> dict[str, Any]:
  dealt = {
    "lanes": redistribute.redistribute_lanes(state["lanes"], num_devices),
    "keys": redistribute.redistribute_keys(state["keys"], num_devices),
  }
  for name in ("replay", "policy_replay"):
    if name in state:
      dealt[name] = redistribute.redistribute_replay(state[name], num_devices)
  return state | dealt


def _lay_out(array: Any, sharding: jax.sharding.Sharding) -> jax.Array:
  """Puts an array that every process holds where its parts belong."""
  array = np.asarray(array)
  return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def load(name: str | Path) -> Policy:
  """Loads a trained network from a run's folder, a checkpoint in it, or a pretrained name.

  A folder stands for its newest checkpoint.

  Raises:
    ConfigError: there is nothing of that name, or it cannot be read.
  """
  path = Path(name)
  if not os.path.isdir(path):  # unlike Path's, it takes names that the system does not
    return load_pretrained(str(name))
  if not (path / "about").is_dir():
    checkpoints = checkpoints_of(path)
    if not checkpoints:
      raise ConfigError(
        f"checkpoint={str(name)!r} holds no checkpoint; give the output_dir of a run, a folder in "
        f"its checkpoints/, or one of the pretrained: {', '.join(pretrained()) or 'none'}"
      )
    path = checkpoints[-1]
  about = read_about(path)
  config = config_of(path, about)
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  abstract = jax.tree.map(lambda x: _abstract(x, device), abstract_params(config))
  params = _read(path, params=abstract)["params"]
  _check_sum(path, about, "params", params)
  return Policy(config, params, about | {"checkpoint": str(path)})


def config_of(path: Path, about: dict[str, Any]) -> Config:
  """Returns the configuration that a checkpoint's `about` holds.

  Raises:
    ConfigError: there is none or it is not allowed.
  """
  try:
    config = Config.from_dict(about["config"])
    config.validate()
  except (KeyError, TypeError, AttributeError, ConfigError) as error:
    raise _damaged(path, error) from None
  return config


def abstract_params(config: Config) -> Any:
  """Returns shapes and types of the networks' parameters."""
  game = config.make_game()
  num_features = game.features(game.initial_state()[None], 0).shape[-1]
  value, policy = make_network(config, game), make_policy_network(config, game)

  def init(key):
    return init_params(value, policy, key, num_features, game.num_infostates)

  return jax.eval_shape(init, jax.random.key(0))


# Networks that come with the package: `pretrained/NAME/params.npz` and `about.json`.


def pretrained() -> tuple[str, ...]:
  """Returns the names of the networks that come with the package."""
  if not _PRETRAINED.is_dir():
    return ()
  return tuple(sorted(p.name for p in _PRETRAINED.iterdir() if (p / "params.npz").is_file()))


def export(policy: Policy, folder: str | Path, about: dict[str, Any] | None = None) -> Path:
  """Writes a network as the two small files that `load_pretrained` reads.

  Args:
    policy: the network.
    folder: `rebel_jax/pretrained/NAME` to ship it; made if missing.
    about: more to say about it, such as measured exploitability, beside what the policy says.
  """
  path = Path(folder)
  path.mkdir(parents=True, exist_ok=True)
  flat = traverse_util.flatten_dict(policy.params, sep="/")
  arrays: dict[str, Any] = {name: np.asarray(value) for name, value in flat.items()}
  np.savez_compressed(path / "params.npz", **arrays)
  text = json.dumps(policy.about | {"config": policy.config.to_dict()} | (about or {}), indent=2)
  (path / "about.json").write_text(text + "\n")
  return path


def _shapes(params: Any) -> Any:
  return jax.tree.map(lambda x: (x.shape, x.dtype), params)


def load_pretrained(name: str, folder: str | Path | None = None) -> Policy:
  """Loads a network that comes with the package.

  Args:
    name: one of `pretrained()`.
    folder: read this folder, which `export` wrote, instead.

  Raises:
    ConfigError: there is no such network, or its files cannot be read.
  """
  if folder is None and name not in pretrained():
    known = ", ".join(pretrained()) or "none"
    raise ConfigError(
      f"checkpoint={name!r} is neither a folder nor a network that comes with the package; those "
      f"are: {known}"
    )
  path = _PRETRAINED / name if folder is None else Path(folder)
  try:
    about = json.loads((path / "about.json").read_text())
    with np.load(path / "params.npz") as arrays:
      flat = {key: jnp.asarray(arrays[key]) for key in arrays.files}
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    raise _damaged(path, error) from None
  config = config_of(path, about)
  params = traverse_util.unflatten_dict(flat, sep="/")
  expected = abstract_params(config)
  if _shapes(params) != _shapes(expected):
    raise ConfigError(f"checkpoint={str(path)!r} does not hold the network that about.json says")
  return Policy(config, params, about | {"checkpoint": name})
