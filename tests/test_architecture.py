"""Imports point one way, and files stay small enough to read."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each package may import those before it.
LAYERS = ("games", "solvers", "rebel_jax")
MAX_LINES = 400


def imported(source: str) -> set[str]:
  """Returns the top-level names of the packages that a module imports."""
  names = set()
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      names |= {alias.name.split(".")[0] for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
      names.add(node.module.split(".")[0])
  return names


def upward_imports(layer: str, source: str) -> set[str]:
  """Returns what a module of `layer` imports from layers above it, or from the scripts."""
  above = set(LAYERS[LAYERS.index(layer) + 1 :]) | {"train", "benchmarks", "tests"}
  return imported(source) & above


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
  files = sorted((ROOT / layer).rglob("*.py"))
  assert files
  for path in files:
    assert not upward_imports(layer, path.read_text()), path


def test_an_upward_import_would_be_found():
  assert upward_imports("games", "import solvers.cfr") == {"solvers"}
  assert upward_imports("solvers", "def f():\n  from rebel_jax import run") == {"rebel_jax"}
  assert upward_imports("rebel_jax", "from solvers import solve") == set()


def test_train_is_thin():
  source = (ROOT / "train.py").read_text()
  assert imported(source) <= {"sys", "time", "rebel_jax"}
  assert len(source.splitlines()) < 40


def test_files_are_short():
  lengths = {
    path: len(path.read_text().splitlines())
    for layer in LAYERS
    for path in (ROOT / layer).rglob("*.py")
  }
  assert not {path.name: lines for path, lines in lengths.items() if lines > MAX_LINES}
