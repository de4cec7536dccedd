"""Imports point one way, between packages and between their rooms; sizes keep their budgets."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

import solvers
from docs.cells import as_markdown
from rebel_jax.config import KINDS, Config, allowed
from solvers.contrib import __all__ as contrib_names

ROOT = Path(__file__).parent.parent
# Each package may import those before it.
LAYERS = ("games", "solvers", "rebel_jax")
SCRIPTS = ("docs", "train", "benchmarks", "tests")
# Each room of a package, a folder or a module that is in none, may import those before it. The
# package's own `__init__` may import all of them.
ROOMS = {
  "solvers": [
    "half", "native", "tuning", "sweeps", "validation", "xla", "leaf_values", "algorithms",
    "loop", "metrics", "solve_boards", "solve", "exact_leaf_values", "search", "resolving",
    "growing", "contrib",
  ],
  "rebel_jax": [
    "networks", "config", "devices", "training", "checkpoints", "evaluation", "agents", "tables",
    "open_spiel", "runs", "spots", "flags", "evaluate", "match", "play", "spot", "acpc",
    "acpc_dealer", "train",
  ],
}  # fmt: skip
QUESTIONS = [[word] for word in ("What", "How", "Where", "Which", "Who", "When")]
STORY = re.compile(r"\b(nobody|whoever|whatever|told|found|Returns what|comes of)\b")

Modules = dict[str, Path]


def modules_of(folder: Path) -> Modules:
  """Returns the file of every module of a package, by the module's full name."""
  modules = {}
  for path in sorted(folder.rglob("*.py")):
    parts = path.relative_to(folder.parent).with_suffix("").parts
    modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
  return modules


def imports_of(source: str, known: Iterable[str] = ()) -> set[str]:
  """Returns the modules that a module imports: `a.b` of `from a import b` if `known`, else `a`."""
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


def upward(graph: Mapping[str, set[str]], order: Sequence[str], depth: int) -> set[tuple[str, str]]:
  """Returns the imports that point up an order of what the modules' names hold at a depth."""

  def rank(module: str) -> int:
    parts = module.split(".")
    return order.index(parts[depth]) if len(parts) > depth else len(order)

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


def without_init(paths: Iterable[Path]) -> set[Path]:
  """Returns the folders of modules that lack `__init__.py`; no wheel would hold them."""
  return {path.parent for path in paths if not (path.parent / "__init__.py").exists()}


def statements_in(source: str) -> int:
  """Returns the number of statements of a module, however its lines are broken."""
  return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source)))


def sizes() -> dict[str, int]:
  """Returns what `budgets.json` bounds, by name."""
  sources = {
    package: {name: path.read_text() for name, path in modules_of(ROOT / package).items()}
    for package in (*LAYERS, "benchmarks", "tests")
  }
  ours = {name: text for layer in LAYERS for name, text in sources[layer].items()}
  contrib = {name: text for name, text in ours.items() if name.startswith("solvers.contrib")}
  core = {name: text for name, text in ours.items() if name not in contrib}
  trees = {name: ast.parse(text) for name, text in ours.items()}
  first_words = [(ast.get_docstring(tree) or "").split(maxsplit=1)[:1] for tree in trees.values()]
  classes = Counter(
    node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)
  )
  pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
  texts = [path.read_text() for path in pages]
  texts += [as_markdown(path, code=False) for path in (ROOT / "docs").rglob("*.ipynb")]
  return {
    "statements of the packages without solvers.contrib": sum(map(statements_in, core.values())),
    "statements of solvers.contrib": sum(map(statements_in, contrib.values())),
    "statements of benchmarks": sum(map(statements_in, sources["benchmarks"].values())),
    "lines of the packages without solvers.contrib": sum(x.count("\n") for x in core.values()),
    "lines of tests": sum(x.count("\n") for x in sources["tests"].values()),
    "lines of the longest module": max(x.count("\n") for x in ours.values()),
    "words of pages": sum(len(text.split()) for text in texts),
    "public names of solvers": len(solvers.__all__),
    "public names of solvers.contrib": len(contrib_names),
    "fields of a configuration": len(
      {name for kind in KINDS for name in allowed.flat(Config(search=kind()))}
    ),
    "modules that begin with a question word": sum(w in QUESTIONS for w in first_words if w),
    "docstrings that begin like a story": sum(
      bool(STORY.search((ast.get_docstring(node) or "").split("\n\n")[0]))
      for tree in trees.values()
      for node in ast.walk(tree)
      if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ),
    "class names used twice": sum(number > 1 for number in classes.values()),
  }


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
  modules = modules_of(ROOT / layer)
  packages = {
    name: {x for x in imports_of(path.read_text()) if x.split(".")[0] in (*LAYERS, *SCRIPTS)}
    for name, path in modules.items()
  }
  assert modules
  assert not upward(packages, (*LAYERS, *SCRIPTS), 0)
  assert layer not in ROOMS or not upward(graph_of(modules), ROOMS[layer], 1)


def test_an_upward_import_would_be_found():
  source = "import solvers.algorithms.cfr\ndef f():\n  from rebel_jax import run"
  assert imports_of(source) == {"solvers.algorithms.cfr", "rebel_jax"}
  graph = {"solvers.sweeps.problem": {"solvers.loop"}, "solvers.loop": {"solvers.sweeps.levels"}}
  assert upward(graph, ROOMS["solvers"], 1) == {("solvers.sweeps.problem", "solvers.loop")}
  graph |= {"games": {"solvers.loop"}, "solvers": {"docs.cells"}}
  assert upward(graph, (*LAYERS, *SCRIPTS), 0) == {
    ("games", "solvers.loop"),
    ("solvers", "docs.cells"),
  }
  with pytest.raises(ValueError, match="attic"):
    upward({"solvers.attic": {"solvers.solve"}}, ROOMS["solvers"], 1)


@pytest.mark.parametrize("package", [*LAYERS, "benchmarks"])
def test_modules_do_not_import_in_circles_and_every_folder_is_a_package(package):
  modules = modules_of(ROOT / package)
  assert not circles(graph_of(modules))
  assert not without_init(modules.values())


def test_a_circle_would_be_found():
  graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
  assert circles(graph) == {frozenset("abc")}
  assert not circles(graph | {"c": set()})


def test_type_checkers_do_not_see_a_door_for_any_name():
  body = ast.parse((ROOT / "rebel_jax/__init__.py").read_text()).body
  assert "__getattr__" not in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_train_is_thin():
  source = (ROOT / "train.py").read_text()
  names = {name.split(".")[0] for name in imports_of(source)}
  assert names <= {"signal", "sys", "time", "rebel_jax"}
  assert len(source.splitlines()) < 40


def test_a_folder_that_is_no_package_would_be_found(tmp_path):
  paths = [tmp_path / "module.py"]
  assert without_init(paths) == {tmp_path}
  (tmp_path / "__init__.py").touch()
  assert not without_init(paths)


def test_sizes_keep_their_budgets():
  """A budget may only be raised by the commit that builds what needs it."""
  budgets = json.loads((ROOT / "tests" / "budgets.json").read_text())
  found = sizes()
  assert found.keys() == budgets.keys()
  assert {name: (size, budgets[name]) for name, size in found.items() if size > budgets[name]} == {}


def test_statements_do_not_depend_on_lines():
  assert statements_in("if a: b = 1; c = 2") == statements_in("if a:\n  b = 1\n  c = 2") == 3
