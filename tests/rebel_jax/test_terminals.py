"""Commands and what is around them: terminals, signals, the folder that they are started in."""

import io
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rebel_jax
from rebel_jax import flags, play
from rebel_jax.config.config import ConfigError
from rebel_jax.runs.display import resume_command

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


@pytest.mark.parametrize(
  ("main", "name"), [("evaluate", "liars_dice_1x4f"), ("play", "river_endgame_holdem")]
)
def test_a_folder_named_like_what_comes_with_the_package(main, name, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  (tmp_path / name).mkdir()
  assert getattr(__import__(f"rebel_jax.{main}"), main).main([name]) == 2
  err = capsys.readouterr().err
  assert err.count("\n") == 1
  assert f"give './{name}' for the folder" in err
  with pytest.raises(ConfigError, match="holds no checkpoint"):
    rebel_jax.load(f"./{name}")


def test_commands_that_are_printed_can_be_typed():
  words = shlex.split(resume_command(Path("my runs/it's one")))
  assert words[-2:] == ["--output-dir", "my runs/it's one"]


def test_a_terminal_of_few_characters(monkeypatch):
  stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
  monkeypatch.setattr(sys, "stdout", stream)
  assert flags.command(lambda: print("a folder é")) == 0
  play._say("You hold K♠ and ⚃")
  stream.flush()
  assert stream.buffer.getvalue() == b"a folder \\xe9\nYou hold Ks and 4\n"


def test_standard_input_that_is_closed(monkeypatch):
  monkeypatch.setattr(sys, "stdin", None)
  with pytest.raises(EOFError):
    play._ask("Your move")


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


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]))
def test_pages_name_the_extra_that_they_import(page):
  text = page.read_text()
  if "import pyspiel" in text or "from rebel_jax.open_spiel" in text:
    assert "[open-spiel]" in text
