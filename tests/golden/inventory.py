"""Inventory of commands, presets, public names, registries and networks.

`inventory.json` is that of commit bc05050 and stays as it is; `gone.json` says what moved.
"""

import ast
import dataclasses
import importlib
import inspect
import tomllib
import typing
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import games
import rebel_jax
import solvers
from rebel_jax.config import allowed
from rebel_jax.networks.names import ACTIVATIONS
from rebel_jax.networks.optimizers import OPTIMIZERS
from rebel_jax.training.targets import TARGETS

ROOT = Path(__file__).parents[2]
FILE, GONE = (Path(__file__).with_name(name) for name in ("inventory.json", "gone.json"))
_PACKAGES = ("games", "solvers", "rebel_jax", "benchmarks")


def modules() -> Iterator[tuple[str, ast.Module]]:
  for package in _PACKAGES:
    for path in sorted((ROOT / package).rglob("*.py")):
      name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
      yield name, ast.parse(path.read_text())


def options_of(cls: Any) -> Iterator[str]:
  """Yields the settings of a dataclass, those of groups and unions of groups among them."""
  for name, hint in typing.get_type_hints(cls).items():
    inner = [x for x in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(x)]
    yield from (option for x in inner for option in options_of(x))
    if not inner:
      yield name.replace("_", "-")


def flags_of(name: str) -> list[str]:
  module = importlib.import_module(name)
  for options in ("Options", "Command"):
    if hasattr(module, options):
      return sorted(set(options_of(getattr(module, options))))
  found = inspect.signature(module.main).parameters.values()
  groups = {x.name: x.annotation for x in found if dataclasses.is_dataclass(x.annotation)}
  alone = [x.name.replace("_", "-") for x in found if x.name not in groups]
  return sorted({*alone, *(option for x in groups.values() for option in options_of(x))})


def _keys(tree: ast.Module) -> set[str]:
  """Returns the names that are keys of a module's dict literals, or figures that it prints."""
  keys = (key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys)
  texts = {key.value for key in keys if isinstance(key, ast.Constant)}
  calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
  said = [x for x in calls if getattr(x.func, "attr", getattr(x.func, "id", "")) in ("say", "row")]
  texts |= {key.arg for call in said for key in call.keywords if key.arg} | (
    {"benchmark"} if said else set()
  )
  return {x for x in texts if isinstance(x, str) and x.isidentifier() and len(x) > 1}


def _network(path: Path) -> str:
  with np.load(path) as arrays:
    sums = [zlib.crc32(name.encode() + arrays[name].tobytes()) for name in sorted(arrays)]
  return f"{zlib.crc32(repr(sums).encode()):08x}"


def inventory() -> dict[str, dict[str, Any]]:
  """Returns the inventory of the working tree: lists and settings by section and name."""
  # JSON keys are by package in `rebel_jax`, whose commands and metrics share modules.
  found: dict[str, dict[str, Any]] = {"commands": {}, "json": {"rebel_jax": set()}, "exports": {}}
  networks = []
  for name, tree in modules():
    if name.startswith("rebel_jax"):
      found["json"]["rebel_jax"] |= _keys(tree)
    if name.startswith("rebel_jax.networks"):
      classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
      networks += [x for x in classes if x.endswith("Network")]
    for node in tree.body:
      if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
        found["exports"][name] = ast.literal_eval(node.value)
    if "'__main__'" in ast.unparse(tree):
      found["commands"][name] = flags_of(name)
      if name.startswith("benchmarks"):
        found["json"][name] = _keys(tree)
  found["json"] = {name: sorted(keys) for name, keys in found["json"].items()}
  scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
  found["scripts"] = {name: [target] for name, target in scripts.items()}
  found["presets"] = {
    name: {field: str(value) for field, value in allowed.flat(config).items()}
    for name, config in rebel_jax.PRESETS.items()
  }
  found["registries"] = {
    "games": list(games.registered_games()),
    "algorithms": list(solvers.registered_algorithms()),
    "optimizers": list(OPTIMIZERS),
    "activations": list(ACTIVATIONS),
    "networks": networks,
    "targets": [make.__name__.removesuffix("_target") for make in TARGETS],
  }
  shipped = ROOT / "rebel_jax" / "pretrained"
  found["networks"] = {
    name: [_network(shipped / name / "params.npz")] for name in rebel_jax.pretrained()
  }
  return found


def names(inventory: dict[str, dict[str, Any]]) -> set[str]:
  """Returns an inventory as names: `section/name/entry`, and `section/name/setting=value`."""
  return {
    f"{section}/{name}/{entry}"
    for section, rows in inventory.items()
    for name, row in rows.items()
    for entry in ["", *(row if isinstance(row, list) else (f"{k}={v}" for k, v in row.items()))]
  }
