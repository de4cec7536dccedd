"""Makes those of the site's pages that are no Markdown: notebooks, the changelog, public names.

Public names are those of `__all__`, a page for each module of `nav`. `mkdocs build` calls this
hook, which fails where one is not on its page.
"""

from pathlib import Path

import cells
import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]


def public(module):
  """Returns the paths of a module's public names, in alphabetical order, read without importing."""
  read = griffe.load(module, search_paths=[str(ROOT)])
  # A function may have the name of its file.
  twice = {name for name, member in read.members.items() if isinstance(member, griffe.Module)}
  names = sorted(read.exports, key=str.lower)
  return [f"{module}.{name}.{name}" if name in twice else f"{module}.{name}" for name in names]


def modules(config):
  """Returns the modules that the navigation ends with."""
  return [name for entry in config.nav[-1]["Public names"] for name in entry]


def on_files(files, config):
  """Adds the pages of modules and of notebooks, and the changelog."""
  config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(ROOT)]
  head = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
  for module in modules(config):
    text = f"# `{module}`\n\n::: {module}\n    options: {head}\n\n"
    text += "\n".join(f"::: {path}\n" for path in public(module))
    files.append(File.generated(config, f"reference/{module}.md", content=text))
  for path in ROOT.glob("docs/notebooks/*.ipynb"):
    text = cells.as_markdown(path, pictures=True)
    files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
  changes = (ROOT / "CHANGELOG.md").read_text()
  files.append(File.generated(config, "changelog.md", content=changes))
  return files


def on_page_markdown(markdown, **_):
  """Links to notebooks lead to their pages."""
  return markdown.replace(".ipynb)", ".md)")


def on_post_build(config):
  """Checks that every public name is on its page."""
  for module in modules(config):
    page = (Path(config.site_dir) / "reference" / module / "index.html").read_text()
    missing = [path for path in public(module) if f'id="{path}"' not in page]
    if missing:
      raise PluginError(f"not on the page of {module}: {missing}")
