"""The file of playthroughs sampled so far, from which an interrupted evaluation goes on."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rebel_jax.config.config import ConfigError
from solvers.search.playthroughs import Sampled


class KeptPlaythroughs:
  """A file of the playthroughs sampled so far, and of what they are playthroughs of.

  Attributes:
    path: the file.
    what: names and values that tell one agent, search and seed from another.
  """

  def __init__(self, path: str | Path, what: dict[str, Any]):
    self.path = Path(path)
    self._partial = self.path.with_name(self.path.name + ".partial")
    self.what = json.loads(json.dumps(what))  # as it will be read

  def load(self, shape: tuple[int, ...]) -> Sampled | None:
    """Returns what is kept, sums of `shape`, or None if there is no file yet.

    Raises:
      ConfigError: the file holds something else, or cannot be written.
    """
    if not self.path.exists():
      if not self.path.absolute().parent.is_dir():
        raise ConfigError(f"keep={str(self.path)!r} must lie in a folder that exists")
      self._try_to_write()
      return None
    try:
      with np.load(self.path) as kept:
        what = json.loads(str(kept["what"]))
        key = jax.random.wrap_key_data(kept["key"])
        sampled = Sampled(kept["sums"], int(kept["count"]), key)
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
      raise ConfigError(
        f"keep={str(self.path)!r} is no file of kept playthroughs; choose another name"
      ) from None
    for name, value in self.what.items():
      if what.get(name) != value:
        raise ConfigError(
          f"keep={str(self.path)!r} holds playthroughs of {name}={what.get(name)!r}, not {value!r};"
          " choose another file"
        )
    if sampled.sums.shape != shape:
      raise ConfigError(f"keep={str(self.path)!r} holds playthroughs of another game")
    self._try_to_write()
    return sampled

  def _try_to_write(self) -> None:
    """Finds out before hours of searching whether what comes of it can be kept."""
    try:
      self._partial.touch()
      self._partial.unlink()
    except OSError as error:
      raise ConfigError(
        f"keep={str(self.path)!r} must be a file that can be written: {error.strerror}"
      ) from None

  def save(self, sampled: Sampled) -> None:
    """Replaces the file, all or nothing."""
    with open(self._partial, "wb") as file:
      np.savez(
        file,
        what=json.dumps(self.what),
        sums=sampled.sums,
        count=sampled.count,
        key=np.asarray(jax.random.key_data(sampled.key)),
      )
    os.replace(self._partial, self.path)
