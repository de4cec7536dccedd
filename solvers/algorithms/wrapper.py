"""An algorithm around another: whatever a subclass leaves alone is the other's."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Wrapper:
  """Does what `algorithm` does, with its state; see `Algorithm` for the operations."""

  algorithm: Any

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):  # copying asks before there is an algorithm
      raise AttributeError(name)
    return getattr(self.algorithm, name)
