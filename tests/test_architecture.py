"""Imports point one way, between packages and between their rooms; files and folders stay small."""

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each package may import those before it.
LAYERS = ("games", "solvers", "rebel_jax")
# Each room of a package, a folder or a module that is in none, may import those before it. The
# package's own `__init__` may import all of them.
ROOMS = {
  "solvers": [
    "half",
    "sweeps",
    "validation",
    "xla",
    "leaf_values",
    "algorithms",
    "loop",
    "metrics",
    "solve",
    "solve_to",
    "solve_lines",
    "exact_leaf_values",
    "solve_batch",
    "search",
    "resolving",
    "growing",
    "contrib",
  ],
  "rebel_jax": [
    "networks",
    "config",
    "devices",
    "training",
    "checkpoints",
    "evaluation",
    "agents",
    "tables",
    "open_spiel",
    "runs",
    "spots",
    "flags",
    "evaluate",
    "match",
    "play",
    "spot",
    "acpc",
    "acpc_dealer",
    "train",
  ],
}
MAX_LINES = 600
MAX_FILES = 14

Modules = dict[str, Path]


def modules_of(folder: Path) -> Modules:
  """Returns the file of every module of a package, by the module's full name."""
  modules = {}
  for path in sorted(folder.rglob("*.py")):
    parts = path.relative_to(folder.parent).with_suffix("").parts
    modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
  return modules


def imports_of(source: str, known: Iterable[str] = ()) -> set[str]:
  """Returns the names of the modules that a module imports, for types alone too and anywhere in it.

  `from a import b` is an import of `a.b` if that is among the `known` modules, else of `a`.
  """
  found = set()
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
      names = [f"{node.module}.{alias.name}" for alias in node.names]
      found |= {name if name in known else node.module for name in names}
  return found


def graph_of(modules: Modules) -> dict[str, set[str]]:
  """Returns which of `modules` each of them imports."""
  sources = {name: path.read_text() for name, path in modules.items()}
  return {
    name: imports_of(source, sources) & (sources.keys() - {name})
    for name, source in sources.items()
  }


def upward_imports(layer: str, source: str) -> set[str]:
  """Returns what a module of `layer` imports from layers above it, or from the scripts."""
  above = set(LAYERS[LAYERS.index(layer) + 1 :]) | {"train", "benchmarks", "tests"}
  return {name.split(".")[0] for name in imports_of(source)} & above


def upward_rooms(layer: str, graph: Mapping[str, set[str]]) -> set[tuple[str, str]]:
  """Returns the imports between rooms of `layer` that point up its list of rooms.

  Raises:
    ValueError: a room is not in the list.
  """

  def rank(module: str) -> int:
    parts = module.split(".")
    return ROOMS[layer].index(parts[1]) if len(parts) > 1 else len(ROOMS[layer])

  return {(a, b) for a, below in graph.items() for b in below if rank(b) > rank(a)}


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
  """Returns the sets of modules that all import each other, directly or through others."""
  reach = {name: set(below) for name, below in graph.items()}
  for middle in graph:
    for below in reach.values():
      if middle in below:
        below |= reach[middle]
  alike = {
    name: frozenset(other for other in below if name in reach[other])
    for name, below in reach.items()
  }
  return {members for members in alike.values() if len(members) > 1}


def crowded(paths: Iterable[Path]) -> dict[Path, int]:
  """Returns the folders of more than `MAX_FILES` modules beside `__init__`, and how many."""
  counts = Counter(path.parent for path in paths if path.name != "__init__.py")
  return {folder: count for folder, count in counts.items() if count > MAX_FILES}


def without_init(paths: Iterable[Path]) -> set[Path]:
  """Returns the folders of modules that lack `__init__.py`; no wheel would hold them."""
  return {path.parent for path in paths if not (path.parent / "__init__.py").exists()}


def too_long(lengths: Mapping[str, int]) -> dict[str, int]:
  return {name: lines for name, lines in lengths.items() if lines > MAX_LINES}


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
  modules = modules_of(ROOT / layer)
  assert modules
  for name, path in modules.items():
    assert not upward_imports(layer, path.read_text()), name


def test_an_upward_import_would_be_found():
  assert upward_imports("games", "import solvers.algorithms.cfr") == {"solvers"}
  assert upward_imports("solvers", "def f():\n  from rebel_jax import run") == {"rebel_jax"}
  assert upward_imports("rebel_jax", "from solvers import solve") == set()


@pytest.mark.parametrize("layer", ROOMS)
def test_imports_between_rooms_point_one_way(layer):
  assert not upward_rooms(layer, graph_of(modules_of(ROOT / layer)))


def test_an_upward_import_between_rooms_would_be_found():
  graph = {"solvers.sweeps.problem": {"solvers.loop"}, "solvers.loop": {"solvers.sweeps.levels"}}
  assert upward_rooms("solvers", graph) == {("solvers.sweeps.problem", "solvers.loop")}
  assert not upward_rooms("solvers", {"solvers": {"solvers.solve"}})
  with pytest.raises(ValueError, match="attic"):
    upward_rooms("solvers", {"solvers.attic": {"solvers.solve"}})


@pytest.mark.parametrize("package", [*LAYERS, "benchmarks"])
def test_modules_do_not_import_in_circles(package):
  assert not circles(graph_of(modules_of(ROOT / package)))


def test_a_circle_would_be_found(tmp_path):
  folder = tmp_path / "solvers"
  folder.mkdir()
  sources = {
    "a": "from solvers import b",
    "b": "def f():\n  import solvers.c",
    "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from solvers.a import f",
    "d": "from solvers.a import f",
  }
  for name, source in sources.items():
    (folder / f"{name}.py").write_text(source)
  graph = graph_of(modules_of(folder))
  assert circles(graph) == {frozenset({"solvers.a", "solvers.b", "solvers.c"})}
  assert not circles(graph | {"solvers.c": set()})


def test_train_is_thin():
  source = (ROOT / "train.py").read_text()
  assert {name.split(".")[0] for name in imports_of(source)} <= {
    "signal",
    "sys",
    "time",
    "rebel_jax",
  }
  assert len(source.splitlines()) < 40


@pytest.mark.parametrize("package", [*LAYERS, "benchmarks"])
def test_files_are_short_and_folders_not_crowded(package):
  modules = modules_of(ROOT / package)
  assert not too_long({n: len(p.read_text().splitlines()) for n, p in modules.items()})
  assert not crowded(modules.values())
  assert not without_init(modules.values())


def test_a_long_file_and_a_crowded_folder_would_be_found(tmp_path):
  assert too_long({"a": MAX_LINES, "b": MAX_LINES + 1}) == {"b": MAX_LINES + 1}
  names = ["__init__", *(f"m{number}" for number in range(MAX_FILES))]
  paths = [tmp_path / f"{name}.py" for name in names]
  assert not crowded(paths)
  assert crowded([*paths, tmp_path / "one_more.py"]) == {tmp_path: MAX_FILES + 1}
  assert without_init(paths) == {tmp_path}
  (tmp_path / "__init__.py").touch()
  assert not without_init(paths)
