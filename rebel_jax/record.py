"""What a run's folder says about how it was trained: all that it takes to repeat it."""

import json
from pathlib import Path
from typing import Any

import jax

from rebel_jax.config import Config
from rebel_jax.metrics import describe_environment

Commands = list[dict[str, Any]]


def commands(about: dict[str, Any], config: Config, num_devices: int) -> Commands:
  """Returns under what a run was trained, each from a step on; the last entry is this command.

  A command that differs in nothing from the one before has no entry of its own.

  Args:
    about: of the checkpoint that is resumed; empty for a new run.
    config: of this command.
    num_devices: that it trains on.
  """
  before = list(about.get("commands", []))
  this = {
    "config": config.to_dict() | {"resume": False},
    "num_devices": num_devices,
    "environment": describe_environment(),
  }
  if before and before[-1] | {"step": 0} == this | {"step": 0}:
    return before
  return [*before, {"step": about.get("step", 0), **this}]


def write(folder: Path, commands: Commands) -> None:
  """Writes `config.json`, whole or not at all; only the first process of a run does."""
  if jax.process_index() == 0:
    about = {name: value for name, value in commands[-1].items() if name != "step"}
    path = folder / "config.json.new"
    path.write_text(json.dumps(about | {"commands": commands}, indent=2) + "\n")
    path.replace(folder / "config.json")
