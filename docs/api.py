"""Page of all public names: signature and first line of the docstring, module by module.

`python -m docs.api` writes docs/api.md, `python -m docs.api FILE` another file.
"""

import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any

MODULES = (
  "games",
  "games.game",
  "games.testing",
  "games.poker",
  "games.poker.lines",
  "solvers",
  "solvers.algorithms.regret_rules",
  "solvers.contrib",
  "rebel_jax",
  "rebel_jax.spot",
  *(["rebel_jax.open_spiel"] if importlib.util.find_spec("pyspiel") else []),
)


def entry(name: str, value: Any) -> str:
  """Returns the line of one public name; annotations are left to the docstring."""
  if not (inspect.isclass(value) or inspect.isroutine(value)):
    return f"- `{name} = {value!r:.80}`"
  try:
    signature = inspect.signature(value)
  except ValueError:  # exceptions
    signature = inspect.Signature()
  empty = inspect.Parameter.empty
  parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
  bare = signature.replace(parameters=parameters, return_annotation=empty)
  readable = re.sub(r"<function (\w+) at \w+>", r"\1", str(bare))
  return f"- `{name}{readable}`: {(inspect.getdoc(value) or '').partition(chr(10))[0]}"


def page() -> str:
  """Returns the page as Markdown."""
  parts = ["# Public names", "`help(NAME)` has arguments, returns and errors of each."]
  for path in MODULES:
    module = importlib.import_module(path)
    parts += [f"## `{path}`", (inspect.getdoc(module) or "").partition("\n\n")[0]]
    parts.append("\n".join(entry(name, getattr(module, name)) for name in sorted(module.__all__)))
  return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
  Path(*sys.argv[1:2] or [Path(__file__).with_name("api.md")]).write_text(page())
