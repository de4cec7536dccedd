"""Parts of one's own, by name: games, networks, optimizers and writers of metrics."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from games.arguments import unknown_name
from rebel_jax.config.allowed import ConfigError
from rebel_jax.networks.optimizers import OPTIMIZERS
from rebel_jax.networks.value import NETWORKS

# (folder, step) -> a function of a row of metrics; rows beyond the step are no longer valid.
WRITERS: dict[str, Callable[[Path, int], Callable[[dict[str, Any]], None]]] = {}
_KINDS: dict[str, dict[str, Any]] = {
  "network": NETWORKS,
  "optimizer": OPTIMIZERS,
  "writer": WRITERS,
}


def register(kind: str, name: str, make: Callable[..., Any]) -> None:
  """Makes a part of one's own known by name, as settings and flags name it.

  Args:
    kind: `network`, of `make(config, game, outputs)`, a Flax module of features `[R, F]` and
      beliefs `[R, 2 * H]`, own ones first, that answers `[R, outputs]`, a value for each infostate;
      `optimizer`, of `make(learning_rate)`, Optax's, before clipping and decay; or `writer`, of
      `make(folder, step)`, a function of each row of metrics from `step` on. `games.register` is
      for games.
    name: of it.
    make: makes it.

  Raises:
    TypeError: `name` is no text, or `make` no function.
    ValueError: there is no such kind, or the name is taken.
  """
  if kind not in _KINDS:
    raise ValueError(unknown_name("kind", kind, _KINDS))
  if not isinstance(name, str) or not callable(make):
    raise TypeError(f"name={name!r} must be a string, and make={make!r} a function")
  if name in _KINDS[kind]:
    raise ValueError(f"name={name!r} is already registered; choose another")
  _KINDS[kind][name] = make


def import_module(name: str) -> None:
  """Imports a module that registers parts of one's own, once.

  Args:
    name: of a module, looked for in the present folder too, or the path of a file `NAME.py`.

  Raises:
    ConfigError: there is none.
  """
  path = Path(name)
  module = path.stem if path.suffix == ".py" else name
  folder = str(path.parent.resolve() if path.suffix == ".py" else Path.cwd())
  if folder not in sys.path:
    sys.path.append(folder)
  if importlib.util.find_spec(module.partition(".")[0]) is None:
    raise ConfigError(f"module={name!r} is neither a module nor a file that ends in .py")
  importlib.import_module(module)
