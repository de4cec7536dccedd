"""Runs every Python block of the README and of docs/, and compares what it prints.

The blocks of a page run in order in one namespace. A block marked `text` right after one marked
`python` is what the latter prints, numbers to the digits shown give or take one in the last.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

import games.registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Whose programs take longest to compile.
SLOW_PAGES = [ROOT / "docs" / f"{name}.md" for name in ("poker", "safe_search", "transformations")]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
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


@pytest.fixture
def own_registry(monkeypatch):
  """Keeps games that a page registers from other tests."""
  monkeypatch.setattr(games.registry, "_REGISTRY", dict(games.registry._REGISTRY))


@pytest.mark.parametrize(
  "page",
  [pytest.param(p, marks=[pytest.mark.slow] * (p in SLOW_PAGES)) for p in PAGES],
  ids=lambda page: str(page.relative_to(ROOT)),
)
def test_page_runs_and_prints_what_it_shows(page, own_registry):
  text = page.read_text()
  compared = run_page(text)
  assert compared == len(re.findall(r"^```text$", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
  for target in _LINK.findall(page.read_text()):
    assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
  "text",
  [
    "```python\nraise RuntimeError\n```\n",
    "```python\nprint('a 1.25')\n```\n\n```text\na 1.27\n```\n",
    "```python\nprint('a 3')\n```\n\n```text\na 4\n```\n",
    "```python\nprint('a 1.25')\n```\n\n```text\nb 1.25\n```\n",
    "```python\nprint('1.5e-03')\n```\n\n```text\n1.5e-04\n```\n",
  ],
)
def test_a_page_that_is_wrong_fails(text):
  with pytest.raises((AssertionError, RuntimeError)):
    run_page(text)


def test_a_page_that_is_right_passes():
  page = "```python\nprint('a', 1.2512)\n```\n\n```text\na 1.2512\n```\n"
  assert run_page(page) == 1
