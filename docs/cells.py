"""Notebooks as Markdown, for the tests and the site."""

import json
from pathlib import Path


def as_markdown(path: Path, *, code: bool = True, pictures: bool = False) -> str:
  """Returns a notebook's cells in order: its words, its code, and what that printed and drew."""
  parts = []
  for cell in json.loads(path.read_text())["cells"]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
      parts.append(source)
    elif code:
      parts.append(f"```python\n{source}\n```")
      for output in cell["outputs"]:
        if output["output_type"] == "stream":
          parts.append("```text\n" + "".join(output["text"]) + "```")
        elif pictures:
          png = output["data"]["image/png"].replace("\n", "")
          parts.append(f"![picture](data:image/png;base64,{png})")
  return "\n\n".join(parts) + "\n"
