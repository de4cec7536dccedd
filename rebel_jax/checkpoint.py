"""Checkpoints: everything a run needs to go on exactly, and the networks shipped with the package.

A checkpoint is a folder `OUTPUT_DIR/checkpoints/STEP` of three items that Orbax writes together:
`params`, `state` (optimizer, lanes, replay buffer, random keys, counters) and `about` (JSON: the
configuration, where the run stood, how far `metrics.jsonl` had been written). Orbax writes to a
temporary folder and renames it, so a folder with a number for a name is complete.
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh

from rebel_jax.config import Config, ConfigError
from rebel_jax.policy_networks import init_params
from rebel_jax.setup import make_network, make_policy_network
from rebel_jax.training import TrainState, shardings

FORMAT = 1
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
  """Returns the complete checkpoints of a run's folder, oldest first."""
  folder = Path(output_dir) / "checkpoints"
  if not folder.is_dir():
    return []
  return sorted((p for p in folder.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


def _checkpointer():
  # Imported here because it takes half a second and few users of the package need it.
  import orbax.checkpoint as ocp

  return ocp, ocp.Checkpointer(ocp.CompositeCheckpointHandler())


def _plain(state: TrainState) -> dict[str, Any]:
  """Returns what there is beside the parameters, keys as the integers that they are made of."""
  fields = {name: value for name, value in state._asdict().items() if value is not None}
  del fields["params"]
  return fields | {"keys": jax.random.key_data(state.keys)}


def save(output_dir: str | Path, state: TrainState, about: dict[str, Any], keep: int) -> Path:
  """Saves a checkpoint and removes old ones; every process must call it.

  Args:
    output_dir: the run's folder.
    state: of training.
    about: anything JSON can hold; `exploitability` in it decides which checkpoint is the best.
    keep: newest checkpoints to keep, beside the best.

  Returns:
    The checkpoint's folder.
  """
  ocp, checkpointer = _checkpointer()
  path = Path(output_dir).absolute() / "checkpoints" / f"{int(state.step):08d}"
  checkpointer.save(
    path,
    args=ocp.args.Composite(
      params=ocp.args.StandardSave(state.params),
      state=ocp.args.StandardSave(_plain(state)),
      about=ocp.args.JsonSave(about | {"format": FORMAT}),
    ),
    force=True,
  )
  if jax.process_index() == 0:
    _prune(output_dir, keep)
  return path


def remove_unfinished(output_dir: str | Path) -> None:
  """Removes what a process that was killed while saving left behind."""
  folder = Path(output_dir) / "checkpoints"
  for path in folder.iterdir() if folder.is_dir() else ():
    if path.is_dir() and not path.name.isdigit():
      shutil.rmtree(path, ignore_errors=True)


def _prune(output_dir: str | Path, keep: int) -> None:
  paths = checkpoints_of(output_dir)
  best = best_checkpoint(output_dir)
  for path in paths[:-keep]:
    if path != best:
      shutil.rmtree(path, ignore_errors=True)


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
  return about


def _damaged(path: Path, error: Exception) -> ConfigError:
  reason = str(error).strip().split("\n")[0] or type(error).__name__
  return ConfigError(f"checkpoint={str(path)!r} cannot be read, it may be damaged: {reason}")


def restore(path: Path, like: TrainState, mesh: Mesh) -> TrainState:
  """Reads the state of training.

  Args:
    path: the checkpoint's folder.
    like: a state of the same shapes, only looked at.
    mesh: the devices to lay it out over.

  Raises:
    ConfigError: it cannot be read, or it belongs to another game, network or number of devices.
  """
  ocp, checkpointer = _checkpointer()
  where = shardings(like, mesh)
  plain = _plain(like)
  abstract = jax.tree.map(
    lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
    (like.params, plain),
    (where.params, {name: getattr(where, name) for name in plain}),
  )
  try:
    items = checkpointer.restore(
      path.absolute(),
      args=ocp.args.Composite(
        params=ocp.args.StandardRestore(abstract[0]),
        state=ocp.args.StandardRestore(abstract[1]),
      ),
    )
  except Exception as error:
    raise _damaged(path, error) from None
  fields = dict(items["state"]) | {"params": items["params"]}
  fields["keys"] = jax.random.wrap_key_data(fields["keys"])
  return TrainState(**fields)


def load(name: str | Path) -> Policy:
  """Loads a trained network from a run's folder, a checkpoint in it, or a pretrained name.

  A folder stands for its newest checkpoint.

  Raises:
    ConfigError: there is nothing of that name, or it cannot be read.
  """
  path = Path(name)
  if not path.is_dir():
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
  ocp, checkpointer = _checkpointer()
  device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  abstract = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), abstract_params(config)
  )
  try:
    items = checkpointer.restore(
      path.absolute(), args=ocp.args.Composite(params=ocp.args.StandardRestore(abstract))
    )
  except Exception as error:
    raise _damaged(path, error) from None
  return Policy(config, items["params"], about | {"checkpoint": str(path)})


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
  except (OSError, ValueError) as error:
    raise _damaged(path, error) from None
  config = config_of(path, about)
  params = traverse_util.unflatten_dict(flat, sep="/")
  expected = abstract_params(config)
  if _shapes(params) != _shapes(expected):
    raise ConfigError(f"checkpoint={str(path)!r} does not hold the network that about.json says")
  return Policy(config, params, about | {"checkpoint": name})
