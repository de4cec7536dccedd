"""Checkpoints: everything a run needs to go on exactly, and the networks shipped with the package.

A folder `OUTPUT_DIR/checkpoints/STEP` has items that Orbax writes together, in the background, and
renames when complete: `params`, `state`, `about` (JSON with checksums of all of it), `metrics`.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from games.arrays import checked, short
from rebel_jax import devices
from rebel_jax.checkpoints import files
from rebel_jax.config import Config, ConfigError, RunError, in_config_errors

if TYPE_CHECKING:  # Flax and Optax take long to load; functions import what needs them
  from rebel_jax.training.loop import TrainState

FORMAT = 8
# The checksums are ours: of 90 bits flipped at random in the files of a small checkpoint's state,
# Orbax 0.12 reported 27 and read back other numbers for 6, without a word.
# Where checkpoints are moved that are no longer kept, whole and at once: deleted in place, a folder
# would be half a checkpoint for a while, and for good after a kill.
PRUNED = ".pruned"
# Fields of a checkpoint's description that are read, and their types.
_ABOUT: dict[str, Any] = {
  **dict.fromkeys(("step", "examples", "metrics_bytes", "metrics_checksum", "num_devices"), int),
  **dict.fromkeys(("config", "row", "chunk", "environment", "checksums"), dict),
  **{"seconds": float | int, "evaluated_at": int, "commands": list},
}
_PRETRAINED = Path(__file__).parents[1] / "pretrained"
_WHAT = "the network that about.json says"


class Policy(NamedTuple):
  """A trained network: what an agent needs.

  Attributes:
    config: of the run that trained it.
    params: the networks' parameters, by target's name.
    about: where it comes from and what was measured.
  """

  config: Config
  params: Any
  about: dict[str, Any]

  def at_spot(self, game_params: tuple[tuple[str, Any], ...]) -> "Policy":
    """Returns the network as it plays the same game with some parameters changed.

    Args:
      game_params: pairs as `Config.game_params`, such as `(("stack", 9_000),)`; those not named
        stay.

    Raises:
      ConfigError: a parameter is not allowed, or an infostate, an input or an output of the network
        would mean something else than in training. Hands are numbered by what the board leaves, so
        other boards are refused unless the run varied them.
    """
    if not game_params:
      return self
    params = dict(self.config.game_params) | dict(game_params)
    new = self.config.replace(game_params=tuple(params.items()))
    new.validate()
    games = [config.make_game() for config in (self.config, new)]
    shapes = [jax.tree.map(lambda x: x.shape, abstract_params(x)) for x in (self.config, new)]
    names = [[x.infostate_name(0, h) for h in range(x.num_infostates)] for x in games]
    if shapes[0] != shapes[1] or names[0] != names[1]:
      raise ConfigError(
        f"game_params={dict(game_params)} would number infostates or actions otherwise than the "
        f"network of {self.about['checkpoint']!r} learned them; other boards need a run with vary "
        "board random"
      )
    return self._replace(config=new)


def checkpoints_of(output_dir: str | Path) -> list[Path]:
  """Returns the complete checkpoints of a run's folder, oldest first."""
  folder = Path(output_dir) / "checkpoints"
  if not os.path.isdir(folder):  # unlike Path's, it takes names that the system does not
    return []
  with in_config_errors(f"checkpoints={str(folder)!r} cannot be read", OSError):
    found = [path for path in folder.iterdir() if re.fullmatch("[0-9]{8,}", path.name)]
  plain = (path for path in found if path.is_dir() and not path.is_symlink())
  return sorted(plain, key=lambda path: int(path.name))


def is_unfinished(path: Path) -> bool:
  """Says whether a folder is an unfinished checkpoint, left by a killed process."""
  return path.name == PRUNED or bool(re.fullmatch(r"[0-9]{8,}\.orbax-checkpoint-tmp.*", path.name))


def plain(state: "TrainState") -> dict[str, Any]:
  """Returns the state without its parameters, keys as the integers that they are made of."""
  fields = {name: part for name, part in state._asdict().items() if name != "params"}
  return fields | {"keys": jax.random.key_data(state.keys)}


def read_about(path: Path) -> dict[str, Any]:
  """Returns a checkpoint's `about`."""
  try:
    # Orbax's JSON item is one file; reading it so takes no start of Orbax.
    # Orbax would wait for a FIFO, and writes where a link leads.
    for part in path.rglob("*"):
      if part.is_symlink() or not part.is_dir():
        files.check_file(part)
    about = json.loads(files.read_bytes(path / "about" / "metadata"))
  except (OSError, ValueError, RecursionError) as error:
    raise _damaged(path, error) from None
  if not isinstance(about, dict) or about.get("format") != FORMAT:
    found = about.get("format") if isinstance(about, dict) else None
    raise ConfigError(f"checkpoint={str(path)!r} has format {found!r}; this version reads {FORMAT}")
  if about.pop("about_checksum", None) != sum_of_json(about):
    raise _damaged(path, "what it says about itself was changed")
  for name, kind in _ABOUT.items():
    if not isinstance(about.get(name), kind):
      raise _damaged(path, f"its {name} is {about.get(name)!r}")
  return about


def _damaged(path: Path, reason: object) -> ConfigError:
  others = [p for p in checkpoints_of(path.parent.parent) if p != path]
  hint = f"; without that folder, {others[-1].name} is the newest" if others else ""
  said = str(reason).strip().split("\n")[0] or type(reason).__name__
  return ConfigError(f"checkpoint={str(path)!r} cannot be read, it may be damaged: {said}{hint}")


def _read(path: Path, about: dict[str, Any], item: str, like: Any) -> Any:
  """Reads an item of a checkpoint as arrays like those given."""
  import orbax.checkpoint as ocp  # here because it takes half a second and few users need it

  try:
    with ocp.StandardCheckpointer() as checkpointer:
      arrays = checkpointer.restore(path.absolute() / item, like)
    if about["checksums"][item] == sum_of_arrays(arrays):
      return arrays
  except Exception as error:
    if devices.is_exhausted(error):
      raise
    raise _damaged(path, error) from None
  raise _damaged(path, f"its {item} are not those that were saved")


def is_double(path: Path) -> bool:
  """Says whether a checkpoint is of a run in float64."""
  import orbax.checkpoint as ocp

  # A checkpointer's own `metadata` warns that an item is no checkpoint by itself.
  handler: Any = ocp.StandardCheckpointHandler()
  try:
    with contextlib.closing(handler):
      saved = jax.tree.leaves(handler.metadata(path.absolute() / "params").tree)
    return any(np.dtype(x.dtype) == np.float64 for x in saved)
  except Exception as error:
    raise _damaged(path, error) from None


def _check_precision(path: Path | str, saved: bool, session: bool) -> None:
  """Checks that float64 is read as that, and as nothing else: Orbax would convert silently."""
  if saved != session:
    names = "float32", "float64"
    raise ConfigError(
      f"checkpoint={str(path)!r} holds numbers in {names[saved]}, which would be {names[session]} "
      f"in this session; JAX_ENABLE_X64={int(saved)} reads it as it is"
    )


def restore(path: Path, like: "TrainState", mesh: Mesh) -> "TrainState":
  """Reads the state of training, which may have been saved on another number of devices."""
  from rebel_jax.training.loop import redistribute, saved_like, shardings

  about = read_about(path)
  now, then = mesh.devices.size, about["num_devices"]
  parts = jax.eval_shape(plain, like) | {"params": like.params}
  as_now = {
    name: jax.tree.map(
      lambda x, at=at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at), parts[name]
    )
    for name, at in shardings(mesh)._asdict().items()
  }
  _check_precision(path, is_double(path), jax.tree.leaves(like.params)[0].dtype == np.float64)
  params = _read(path, about, "params", as_now.pop("params"))
  if now == then:
    fields = _read(path, about, "state", as_now)
  else:
    fields = redistribute(_read(path, about, "state", saved_like(as_now, then)), now)
    # Every process holds all of the arrays, and puts their parts where they belong.
    fields = jax.tree.map(
      lambda x, like: jax.make_array_from_callback(
        np.shape(x), like.sharding, lambda at: np.asarray(x)[at]
      ),
      fields,
      as_now,
    )
  fields = fields | {"keys": jax.random.wrap_key_data(fields["keys"])}
  return like._replace(**fields, params=params)


def load(name: str | Path) -> Policy:
  """Loads a trained network from a run's folder, a checkpoint in it, or a pretrained name.

  A folder stands for its newest checkpoint. Parameters keep the types that they were saved in.

  Raises:
    TypeError: `name` is of another kind.
    ConfigError: there is nothing of that name, it cannot be read, or it is in float64, which this
      session has not.
  """
  if not isinstance(name, str | Path):
    raise TypeError(f"checkpoint={short(name)} must be a folder's path or a network's name")
  path = Path(name)
  if name in pretrained() and os.path.isdir(path):
    raise ConfigError(
      f"checkpoint={name!r} is a folder here and a network that comes with the package; give "
      f"{os.path.join(os.curdir, str(name))!r} for the folder, or start elsewhere for the network"
    )
  if not os.path.isdir(path):  # unlike Path's, it takes names that the system does not
    return load_pretrained(str(name))
  if not os.path.isdir(path / "about"):
    checkpoints = checkpoints_of(path)
    if not checkpoints:
      raise ConfigError(
        f"checkpoint={str(name)!r} holds no checkpoint; give the output_dir of a run, a folder in "
        f"its checkpoints/, or one of the pretrained: {', '.join(pretrained()) or 'none'}"
      )
    path = checkpoints[-1]
  about = read_about(path)
  config = config_of(path, about)
  device, double = jax.sharding.SingleDeviceSharding(jax.local_devices()[0]), is_double(path)
  _check_precision(path, double, double and jnp.result_type(float) == np.float64)
  kind = np.float64 if double else np.float32
  like = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, kind, sharding=device), abstract_params(config)
  )
  params = _read(path, about, "params", like)
  return checked_numbers(Policy(config, params, about | {"checkpoint": str(path)}))


def checked_numbers(policy: Policy) -> Policy:
  """Returns the policy, whose parameters must be finite: with NaN searches play uniformly."""
  if all(np.isfinite(x).all() for x in jax.tree.leaves(policy.params)):
    return policy
  raise ConfigError(
    f"checkpoint={policy.about.get('checkpoint')!r} holds parameters that are not finite numbers"
  )


def config_of(path: Path, about: dict[str, Any]) -> Config:
  """Returns the configuration that a checkpoint's `about` holds."""
  try:
    config = Config.from_dict(about["config"])
  except (KeyError, TypeError, AttributeError, ConfigError) as error:
    raise _damaged(path, error) from None
  with in_config_errors(f"checkpoint={str(path)!r} needs what is not there (--module imports it)"):
    config.validate()
  return config


def abstract_params(config: Config) -> Any:
  """Returns shapes and types of the networks' parameters."""
  from rebel_jax.training.setup import make_targets
  from rebel_jax.training.targets import init_params

  targets = make_targets(config, config.make_game())
  return jax.eval_shape(lambda key: init_params(targets, key), jax.random.key(0))


# Networks that come with the package: `pretrained/NAME/params.npz` and `about.json`.


def pretrained() -> tuple[str, ...]:
  """Returns the names of the networks that come with the package."""
  return tuple(sorted(path.parent.name for path in _PRETRAINED.glob("*/params.npz")))


def export(policy: Policy, folder: str | Path, about: dict[str, Any] | None = None) -> Path:
  """Writes a network as the two small files that `load_pretrained` reads.

  Args:
    policy: the network.
    folder: `rebel_jax/pretrained/NAME` to ship it; made if missing.
    about: more to say about it, such as measured exploitability, beside what the policy says.
  """
  from flax import traverse_util

  path = Path(folder)
  path.mkdir(parents=True, exist_ok=True)
  flat = traverse_util.flatten_dict(policy.params, sep="/")
  arrays: dict[str, Any] = {name: np.asarray(value) for name, value in flat.items()}
  said = policy.about | {"config": policy.config.to_dict()} | (about or {})
  files.save_arrays(path / "params.npz", arrays)
  files.replace_text(path / "about.json", json.dumps(files.sealed(said, arrays), indent=2) + "\n")
  return path


@checked
def load_pretrained(name: str, folder: str | Path | None = None) -> Policy:
  """Loads a network that comes with the package.

  Args:
    name: one of `pretrained()`.
    folder: read this folder, which `export` wrote, instead.

  Raises:
    ConfigError: there is no such network, its files cannot be read, or it is in float64, which
      this session has not.
  """
  from flax import traverse_util

  if folder is None and name not in pretrained():
    known = ", ".join(pretrained()) or "none"
    raise ConfigError(
      f"checkpoint={short(name)} is neither a folder nor a network that comes with the "
      f"package; those are: {known}"
    )
  # Installers may make links of files.
  path = _PRETRAINED / name if folder is None else Path(folder)
  said, arrays = (Path(os.path.realpath(path / x)) for x in ("about.json", "params.npz"))
  shown = f"checkpoint={short(str(path))}"
  with files.reading(shown, _WHAT):
    about = json.loads(files.read_bytes(said))
    config = config_of(path, about)
  like = traverse_util.flatten_dict(abstract_params(config), sep="/")
  expected = {key: (x.shape, "f") for key, x in like.items()}
  flat = files.read_arrays(arrays, shown, _WHAT, about, expected)
  double = any(array.dtype == np.float64 for array in flat.values())
  _check_precision(path, double, double and jnp.result_type(float) == np.float64)
  params = traverse_util.unflatten_dict(jax.device_put(flat), sep="/")
  return Policy(config, params, about | {"checkpoint": name})


def sum_of_arrays(tree: Any) -> int:
  """Returns a sum over all bits of a pytree of arrays, the same however they are laid out."""
  # Each word is scrambled with its place, as hash functions do it: of what differs, one case in
  # four thousand million has the same sum. All processes must give arrays that are of several.
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  names = [jax.tree_util.keystr(path, simple=True, separator="/").encode() for path, _ in leaves]
  sums = _sums([leaf for _, leaf in leaves])
  return sum(int(x) * (2 * zlib.crc32(name) + 1) for name, x in zip(names, sums)) % 2**32


def sum_of_json(value: Any) -> int:
  """Returns a sum over what JSON makes of a value."""
  return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def _sum(x: jax.Array) -> jax.Array:
  if x.dtype.itemsize < 4:
    x = x.astype(jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)
  words = jax.lax.bitcast_convert_type(x, jnp.uint32)
  position = jax.lax.iota(jnp.uint32, words.size).reshape(words.shape)
  return _scramble(words ^ _scramble(position)).sum(dtype=jnp.uint32)


_sums = jax.jit(functools.partial(jax.tree.map, _sum))  # of a list of leaves


def _scramble(x: jax.Array) -> jax.Array:
  """Returns a permutation of all words: the last step of MurmurHash3."""
  x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
  return x ^ (x >> 16)


class CheckpointManager:
  """Saves the checkpoints of one run; every process must make the same calls."""

  def __init__(self, output_dir: str | Path, keep: int = 3):
    """Removes what a killed process left, and keeps the newest checkpoints and the best."""
    import orbax.checkpoint as ocp

    self._folder = Path(output_dir).absolute() / "checkpoints"
    if jax.process_index() == 0 and self._folder.is_dir():
      for path in self._folder.iterdir():
        if is_unfinished(path):
          shutil.rmtree(path, ignore_errors=True)
    policies = ocp.checkpoint_managers
    options = ocp.CheckpointManagerOptions(
      step_format_fixed_length=8,
      best_fn=_exploitability,
      preservation_policy=policies.AnyPreservationPolicy(
        [
          policies.LatestN(keep),
          # It also keeps what has a number for a name and no metrics: no run wrote that.
          policies.BestN(get_metric_fn=_exploitability, reverse=True, n=1),
        ]
      ),
      todelete_subdir=PRUNED,
    )
    with in_config_errors(f"checkpoints={str(self._folder)!r} cannot be read", ValueError):
      self._manager = ocp.CheckpointManager(self._folder, options=options)
    self._writing: Path | None = None

  @property
  def empty(self) -> bool:
    """Whether there is no checkpoint yet."""
    return not self._manager.all_steps()

  def save(self, state: "TrainState", about: dict[str, Any]) -> None:
    """Begins to save a checkpoint; `state` may be donated as soon as this returns."""
    import orbax.checkpoint as ocp

    # On a CPU Orbax reads the arrays' own memory, which JAX does not reuse as long as that lasts.
    self.wait()
    step = int(state.step)
    path = self._writing = self._folder / f"{step:08d}"
    metrics = {"exploitability": about.get("exploitability")}
    with self._sentence():
      if step in self._manager.all_steps():  # whose arrays are the same
        self._say_anew(path, about, metrics)
        return
      if devices.agree(path.exists()):  # Orbax would delete it
        raise FileExistsError("what has its name was not written by this run")
      items = {"params": state.params, "state": plain(state)}
      sums = {name: sum_of_arrays(item) for name, item in items.items()}
      arrays = {name: ocp.args.StandardSave(item) for name, item in items.items()}
      said = ocp.args.JsonSave(_sealed(about | {"checksums": sums}))
      self._manager.save(
        step, args=ocp.args.Composite(**arrays, about=said), metrics=metrics, force=True
      )

  def wait(self) -> None:
    """Waits until what was begun is written, and what is no longer kept is removed."""
    with self._sentence():
      self._manager.wait_until_finished()
    if jax.process_index() == 0:
      shutil.rmtree(self._folder / PRUNED, ignore_errors=True)

  def close(self) -> None:
    """Waits, and ends Orbax's threads."""
    self.wait()
    self._manager.close()

  def _say_anew(self, path: Path, about: dict[str, Any], metrics: dict[str, Any]) -> None:
    # The arrays lie as they were saved, perhaps from another number of devices.
    before = {name: read_about(path)[name] for name in ("checksums", "num_devices")}
    if jax.process_index() == 0:
      said = {"about/metadata": _sealed(about | before), "metrics/metrics": metrics}
      for name, value in said.items():
        files.replace_text(path / name, json.dumps(value))
    devices.agree(True)  # the others read what the first process has written
    self._manager.reload()

  def _sentence(self) -> contextlib.AbstractContextManager[None]:
    return in_config_errors(
      f"checkpoint={str(self._writing)!r} cannot be written",
      Exception,
      raises=RunError,
      then=", so training stopped; the last one is from before",
    )


def _exploitability(metrics: dict[str, float | None]) -> float:
  value = metrics.get("exploitability")
  return np.inf if value is None else value


def _sealed(about: dict[str, Any]) -> dict[str, Any]:
  """Returns the description of a checkpoint as JSON, with a checksum over all of it."""
  about = json.loads(json.dumps(about | {"format": FORMAT}))
  return about | {"about_checksum": sum_of_json(about)}
