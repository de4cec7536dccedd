"""Runs the Python of the README, docs/ and notebooks, and looks up the code that they name."""

import ast
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import rebel_jax
from docs import one_file_rebel as one_file
from docs.cells import as_markdown
from rebel_jax.config.presets import PRESETS
from tests.golden import inventory

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *NOTEBOOKS]
# Whose programs take longest to compile.
_SLOW = ("agent", "contributing", "own_parts", "poker", "resolving", "safe_search")
SLOW_PAGES = [
  *(ROOT / "docs" / f"{name}.md" for name in (*_SLOW, "subgame_solving", "transformations")),
  *(path for path in NOTEBOOKS if path.stem != "poker_spot"),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"python\s+-m\s+((?:benchmarks|rebel_jax)[\w.]*)((?:(?!python )[^`|])*)")
_FILE = re.compile(r"\b(?:games|solvers|rebel_jax|tests|benchmarks|docs)/[\w/]+\.py\b")
_NAME = re.compile(r"\b((?:games|solvers|rebel_jax|tests|benchmarks|docs)/[\w/]+\.py):([\w.]+)")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def run_page(text: str) -> int:
  """Runs the Python blocks of a page; returns how many outputs were compared."""
  namespace = {"__name__": "page"}
  compared, printed, end = 0, None, None
  for block in _BLOCK.finditer(text):
    language, body = block.groups()
    if language == "python":
      out = io.StringIO()
      line = text.count("\n", 0, block.start(2))
      with contextlib.redirect_stdout(out):
        exec(compile("\n" * line + body, "page", "exec"), namespace)
      printed, end = out.getvalue(), block.end()
    elif language == "text" and printed is not None and not text[end : block.start()].strip():
      assert_same_output(printed, body)
      compared += 1
      printed = None
  return compared


def assert_same_output(printed: str, shown: str) -> None:
  """Compares output; numbers may differ by one in the last digit shown."""
  assert _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", shown).split(), printed
  for ours, theirs in zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True):
    mantissa, _, exponent = theirs.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits) if digits else 0.0
    assert abs(float(ours) - float(theirs)) <= 1.001 * unit, f"prints {ours}, not {theirs}"


def text_of(page: Path) -> str:
  return as_markdown(page) if page in NOTEBOOKS else page.read_text()


@pytest.fixture
def pictures(monkeypatch):
  """Draws nowhere; returns the numbers of lines, bars and points of what a page shows."""
  plt = pytest.importorskip("matplotlib.pyplot")
  plt.switch_backend("agg")
  shown = []

  def show():
    (axes, *_) = plt.gcf().axes
    shown.append(len(axes.get_children()))
    plt.gcf().canvas.draw()
    plt.close("all")

  monkeypatch.setattr(plt, "show", show)
  return shown


@pytest.mark.parametrize(
  "page",
  [pytest.param(p, marks=[pytest.mark.slow] * (p in SLOW_PAGES)) for p in PAGES],
  ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page_runs_and_prints_what_it_shows(page, own_registry, pictures):
  text = text_of(page)
  compared = run_page(text)
  assert (len(pictures) > 1) == (page in NOTEBOOKS)
  assert compared == len(re.findall(r"^```text$", text, re.MULTILINE))


def test_all_presets_are_listed():
  table = (ROOT / "docs/runs.md").read_text().split("## Presets")[1].split("\n## ")[0]
  rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
  listed = re.findall(r"`(\w+)`", " ".join(rows))
  assert sorted(listed) == sorted(PRESETS)


def anchors(text: str) -> set[str]:
  """Returns what a page's headings are called in links."""
  kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
  return {heading.replace(" ", "-") for heading in kept}


def wrong_commands(text: str) -> list[str]:
  """Returns modules and flags of a page's commands, and files, that do not exist."""
  wrong = []
  for paragraph in re.split(r"\n\s*\n", text):
    if re.search(r"\bcommit `?[0-9a-f]{7}", paragraph):
      continue
    wrong += [path for path in _FILE.findall(paragraph) if not (ROOT / path).exists()]
    for module, rest in _COMMAND.findall(paragraph):
      if module.endswith(".NAME"):
        continue
      if importlib.util.find_spec(module) is None:
        wrong.append(module)
        continue
      if hasattr(importlib.import_module(module), "main"):
        known = {*inventory.flags_of(module), "help"}
        flags = re.findall(r"(?<!\S)--([a-z-]+)", rest)
        wrong += [flag for flag in flags if flag.removeprefix("no-") not in known]
  return wrong


def test_a_command_that_does_not_exist_is_found():
  page = "`python -m benchmarks.tabular\n--games kuhn --no-open-spiel --batchs 2` and\n"
  page += "`python -m benchmarks.layout`, `tests/test_docs.py`, `tests/test_games.py`"
  assert wrong_commands(page) == ["tests/test_games.py", "batchs", "benchmarks.layout"]
  assert not wrong_commands("at commit e2fc1a3, `python -m benchmarks.layout`")


def missing_names(text: str) -> list[str]:
  """Returns what a page names as `path/file.py:name` and does not exist."""
  return [f"{path}:{name}" for path, name in _NAME.findall(text) if not defines(ROOT / path, name)]


def defines(path: Path, name: str) -> bool:
  """Says whether a file defines a function, class, method or constant of a (dotted) name."""
  if not path.exists():
    return False
  body = ast.parse(path.read_text()).body
  for part in name.split("."):
    there = {node.name: node.body for node in body if hasattr(node, "name")}
    for node in body:
      if isinstance(node, ast.Assign | ast.AnnAssign):
        assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
        there |= {target.id: [] for target in assigned if isinstance(target, ast.Name)}
    if part not in there:
      return False
    body = there[part]
  return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
  text = text_of(page)
  assert not wrong_commands(text)
  assert not missing_names(text)
  for target, heading in _LINK.findall(text):
    there = page.parent / target if target else page
    assert there.exists(), target
    assert not heading or heading in anchors(there.read_text()), (target, heading)


def test_a_name_that_does_not_exist_is_found():
  page = "`tests/test_docs.py:defines`, `tests/test_docs.py:ROOT`, `solvers/loop.py:Run.state`\n"
  wrong = ["solvers/loop.py:lax", "solvers/loop.py:Run.walk", "solvers/lop.py:run"]
  assert missing_names(page + " ".join(wrong)) == wrong
  assert _NAME.findall((ROOT / "docs" / "rebel.md").read_text())


def test_the_site_lists_every_package_that_has_public_names():
  listed = re.findall(r"^ +- ([\w.]+): reference/\1\.md$", (ROOT / "mkdocs.yml").read_text(), re.M)
  assert all(importlib.import_module(name).__all__ for name in listed)
  layers = ("games", "solvers", "rebel_jax")
  packages = [path.parent for x in layers for path in (ROOT / x).rglob("__init__.py")]
  public = [path for path in packages if "__all__ = [" in (path / "__init__.py").read_text()]
  assert {".".join(path.relative_to(ROOT).parts) for path in public} <= {*listed}


def test_the_site_lists_every_page():
  listed = (ROOT / "mkdocs.yml").read_text()
  pages = [p.relative_to(ROOT / "docs") for p in PAGES if p.is_relative_to(ROOT / "docs")]
  assert [p for p in pages if not re.search(rf"[ \[]{p.with_suffix('.md')}[,\]\n]", listed)] == []


def test_there_is_one_version():
  version = re.escape(rebel_jax.__version__)
  assert re.search(rf"^version: {version}$", (ROOT / "CITATION.cff").read_text(), re.M)
  assert re.search(rf"^## {version}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.mark.parametrize(
  "text",
  [
    "```python\nraise RuntimeError\n```\n",
    "```python\nprint('a 1.25')\n```\n\n```text\na 1.27\n```\n",
    "```python\nprint('1.5e-03')\n```\n\n```text\n1.5e-04\n```\n",
  ],
)
def test_a_page_that_is_wrong_fails(text):
  with pytest.raises((AssertionError, RuntimeError)):
    run_page(text)
  assert run_page("```python\nprint('a', 1.2512)\n```\n\n```text\na 1.2512\n```\n") == 1


FILE = ROOT / "docs" / "one_file_rebel.py"


def test_the_one_file_is_short_and_learns_in_twenty_steps():
  assert len(FILE.read_text().splitlines()) <= 300
  settings = one_file.Settings(iterations=32, lanes=32, width=64, learning_rate=5e-3)
  _, state, losses = one_file.train(20, seed=1, settings=settings)
  assert int(state.buffer.added) == 20 * 2 * settings.lanes
  np.testing.assert_allclose(state.lanes.beliefs.sum(axis=-1), 1, atol=1e-5)
  assert len(np.unique(state.lanes.roots)) > 4  # games stand at different public states
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))
  assert np.mean(losses[-4:]) < 0.6 * np.mean(losses[:4])


@pytest.mark.slow
def test_the_agent_of_one_file_is_hard_to_exploit():
  environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
  done = subprocess.run(
    [sys.executable, FILE],
    env=environment | {"PYTHONPATH": str(FILE.parents[1])},
    capture_output=True,
    text=True,
    check=True,
  )
  assert float(re.search(r"exploitability ([\d.]+)$", done.stdout, re.M)[1]) < 0.05
