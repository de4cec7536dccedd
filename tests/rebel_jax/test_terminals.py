"""Commands and what is around them: terminals, signals, the folder that they are started in."""

import io
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from rebel_jax import acpc, acpc_dealer, devices, evaluate, flags, match, play, spot, train
from tests.tiny import python

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


def test_a_disk_that_is_full(monkeypatch, capsys):
  with open("/dev/full", "w") as full:
    monkeypatch.setattr(sys, "stdout", full)
    assert flags.command(lambda: print("no room for this")) == 1
  assert capsys.readouterr().err.endswith("No space left on device\n")


COMMANDS = (acpc, acpc_dealer, evaluate, match, play, spot, train)


@pytest.mark.parametrize("module", COMMANDS)
def test_help_on_terminals_of_any_width(module, monkeypatch, capsys):
  """tyro never ends on a terminal of one column."""
  for columns, most in (("80", 80), ("1", 40), ("wide", 80)):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
      module.main(["--help"])
    usage, *lines = capsys.readouterr().out.splitlines()
    assert usage.startswith("usage: ")
    assert max(map(len, lines)) <= most


def test_flags_are_read_before_networks_are_loaded():
  """Flax and Optax take a quarter of the time of `--help`; control: an agent needs them."""
  program = "import sys\nfor name in sys.argv[1:]: __import__(f'rebel_jax.{name}')\n"
  program += "print(*{'flax', 'optax'} & {*sys.modules})"
  light = [x.__name__.removeprefix("rebel_jax.") for x in COMMANDS if x is not acpc_dealer]
  assert python(program, *light).split() == []
  assert sorted(python(program, "agents.agent").split()) == ["flax", "optax"]


def test_help_that_nobody_reads(monkeypatch, capsys):
  reader, writer = os.pipe()
  os.close(reader)
  monkeypatch.setattr(sys, "stdout", os.fdopen(writer, "w"))
  assert train.main(["--help"]) == 141
  assert capsys.readouterr().err == "standard output was closed\n"


def test_a_user_without_a_home(monkeypatch):
  def unknown(_):
    raise KeyError

  monkeypatch.setattr(pwd, "getpwuid", unknown)
  for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
    monkeypatch.delenv(name, raising=False)
  before = jax.config.jax_compilation_cache_dir
  devices.enable_cache()
  assert jax.config.jax_compilation_cache_dir == before


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
