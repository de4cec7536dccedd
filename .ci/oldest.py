"""Prints pip's constraints for the oldest packages that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
  name, version = re.match(r"([\w-]+)>=([\d.]+)", requirement).groups()
  print(f"{name}=={version}")
