"""Commands and what is around them: terminals, signals, the folder that they are started in."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rebel_jax import flags, play

ROOT = Path(__file__).parents[2]


def command(*words, folder, **options):
  """Starts `python -m` with these words in a folder."""
  return subprocess.Popen(
    [sys.executable, "-m", *words],
    cwd=folder,
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    **options,
  )


@pytest.mark.parametrize(("name", "kind"), [("games", "file"), ("solvers", "package")])
def test_a_package_of_the_same_name_is_named(name, kind, tmp_path):
  hides = tmp_path / f"{name}.py" if kind == "file" else tmp_path / name / "__init__.py"
  hides.parent.mkdir(exist_ok=True)
  hides.write_text("")
  process = command("rebel_jax.evaluate", "liars_dice_1x4f", folder=tmp_path)
  out, err = process.communicate(timeout=60)
  sentence = f"{str(hides)!r} hides the package {name!r} of rebel-jax; rename it"
  assert (process.returncode, out, err) == (2, "", f"error: {sentence} or start elsewhere\n")


def test_a_terminal_of_few_characters(monkeypatch):
  stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
  monkeypatch.setattr(sys, "stdout", stream)
  assert flags.command(lambda: print("a folder é")) == 0
  play._say("You hold K♠ and ⚃")
  stream.flush()
  assert stream.buffer.getvalue() == b"a folder \\xe9\nYou hold Ks and 4\n"


def test_standard_output_that_is_closed(monkeypatch, capsys):
  reader, writer = os.pipe()
  os.close(reader)
  monkeypatch.setattr(sys, "stdout", os.fdopen(writer, "w"))
  assert flags.command(lambda: print("nobody reads this")) == 141
  assert capsys.readouterr().err == "standard output was closed\n"


def test_ctrl_c_while_a_device_computes(tmp_path):
  """Python used to crash where it ended before a search did."""
  words = ["rebel_jax.evaluate", "liars_dice_1x4f", "--iterations=64"]
  process = command(*words, folder=tmp_path)
  for line in process.stderr:
    if "searches" in line:
      break
  time.sleep(0.3)
  process.send_signal(signal.SIGINT)
  out, err = process.communicate(timeout=60)
  assert process.returncode == 130
  assert out == ""
  assert err.endswith("\ninterrupted\n")
