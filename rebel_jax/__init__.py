"""ReBeL in JAX: beliefs, networks, self-play, learning and agents."""

import importlib.util
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

_IS_COMMAND = sys.argv[:1] == ["-m"]  # as long as `python -m rebel_jax...` is being loaded
if _IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
  signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the command without a traceback


def _check_packages() -> None:
  """Checks that `games` and `solvers` are ours: a file of that name in the way hides them."""
  for name in ("games", "solvers"):
    spec = importlib.util.find_spec(name)
    found = Path(spec.origin) if spec is not None and spec.origin else Path()
    if found.resolve() != Path(__file__).resolve().parents[1] / name / "__init__.py":
      sentence = f"{str(found)!r} hides the package {name!r} of rebel-jax; rename it"
      if _IS_COMMAND:  # which looks for packages where it is started
        print(f"error: {sentence} or start elsewhere", file=sys.stderr)
        sys.exit(2)
      raise ImportError(sentence)


_check_packages()

if TYPE_CHECKING:
  from rebel_jax.checkpoints.checkpoint import Policy, load, load_pretrained, pretrained
  from rebel_jax.config import PRESETS, Config, ConfigError, get_preset, register
else:  # out of type checkers' sight, which would take any name for one of the package

  def __getattr__(name: str) -> Any:
    """Imports the module of a public name at its first use: JAX takes long to load."""
    if name not in __all__:
      raise AttributeError(f"module 'rebel_jax' has no attribute {name!r}")
    in_checkpoint = name in ("Policy", "load", "load_pretrained", "pretrained")
    module = "checkpoints.checkpoint" if in_checkpoint else "config"
    return getattr(importlib.import_module(f"rebel_jax.{module}"), name)


__all__ = [
  "PRESETS",
  "Config",
  "ConfigError",
  "Policy",
  "get_preset",
  "load",
  "load_pretrained",
  "pretrained",
  "register",
]
__version__ = "0.1.0"


def __dir__() -> list[str]:
  """Lists public names before their first use, too."""
  return sorted({*globals(), *__all__})
