"""The command that measures a machine, and what is counted in programs compiled for a GPU."""

import functools
import json
import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

from benchmarks import checks, compiled, gpu_compiler, machine, measurements
from rebel_jax import flags

GOLDEN = json.loads(checks.GOLDEN.read_text())
CHEAP = ("showdowns", "muon", "network, float32", "network, default")


@pytest.mark.parametrize(
  "name",
  [
    x if x in CHEAP else pytest.param(x, marks=pytest.mark.slow)
    for x, check in checks.CHECKS.items()
    if not check.platforms
  ],
)
def test_numbers_are_those_of_the_golden_file(name):
  row = checks.compare(name, GOLDEN)
  assert row["ok"], row


@pytest.fixture
def tiny(monkeypatch):
  """Replaces checks and rates by few that take no time; returns how often each rate was made."""
  made = []

  def prepare(name, error=None):
    made.append(name)
    if error is not None:
      raise error
    return measurements.Prepared(lambda: jnp.zeros(1), lambda seconds: 2.0)

  rates = {
    "fast": measurements.Rate(functools.partial(prepare, "fast"), "things/s", 3.0),
    "fails": measurements.Rate(functools.partial(prepare, "fails", MemoryError("none")), "x"),
    "large": measurements.Rate(functools.partial(prepare, "large"), "x", accelerator=True),
  }
  monkeypatch.setattr(measurements, "rates", lambda small: rates)
  monkeypatch.setattr(machine.jax, "default_backend", lambda: "cpu")
  for name in list(checks.CHECKS):
    if name != "muon":
      monkeypatch.delitem(checks.CHECKS, name)
  return made


def run(output, **options):
  return flags.command(lambda: machine.main(output, small=True, **options), is_process=False)


def test_it_measures_what_is_missing(tmp_path, tiny, capsys):
  output = tmp_path / "machine.jsonl"
  assert run(output) == 0
  assert tiny == ["fast", "fails"]  # nothing that is for accelerators alone
  first, *lines = map(json.loads, output.read_text().splitlines())
  assert first["machine"]["platform"]
  rows = {line["measurement"]: line for line in lines}
  assert rows["fast"]["figure"] == 2.0
  assert rows["fails"]["error"] == "MemoryError: none"
  assert rows["check: muon"]["ok"]
  assert "2 things/s" in capsys.readouterr().out

  with output.open("a") as file:  # the command was killed while it wrote
    file.write('{"benchmark": "machine", "measurem')
  kept = output.read_text().splitlines()[:-2]
  output.write_text("\n".join(kept) + "\n")  # and one result is missing
  tiny.clear()
  assert run(output) == 0
  assert len(tiny) == 1
  assert run(output) == 0
  assert len(tiny) == 1  # all is there now


@pytest.mark.slow
def test_every_program_runs_in_small_form(tmp_path):
  output = tmp_path / "machine.jsonl"
  command = [sys.executable, "-m", "benchmarks.machine", "--output", str(output)]
  subprocess.run([*command, "--small", "--minutes", "20"], check=True)
  rows = [json.loads(line) for line in output.read_text().splitlines()][1:]
  assert not [row for row in rows if "error" in row]
  wanted = {name for name, rate in measurements.rates(small=True).items() if not rate.accelerator}
  assert wanted <= {row["measurement"] for row in rows}


def rows(*programs):
  """Returns the figures of programs, compiled in a process that may change what JAX is told."""
  command = [sys.executable, "-m", "benchmarks.compiled", "--limit", "0", "--programs", *programs]
  done = subprocess.run(
    command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=False
  )
  if "no GPU compiler" in done.stderr + done.stdout:
    pytest.skip("no GPU compiler: pip install 'rebel-jax[gpu-compiler]'")
  assert done.returncode == 0, done.stderr[-2000:]
  return [json.loads(line) for line in done.stdout.splitlines()]


def test_kernels_of_a_turn_of_small_games():
  for row, most in zip(rows("solve kuhn", "solve leduc"), (17, 40), strict=True):
    assert 4 < row["kernels"] <= most
    assert row["waits_for_the_host"] == row["rounded_products"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
  ("program", "most", "waits"),
  [
    ("solve liars_dice_1x4f", {"kernels": 32}, 0),
    ("batch of 1,024", {"kernels": 50}, 0),
    ("self-play liars_dice_1x4f_paper", {"kernels_a_turn": 28}, 0),
    ("training liars_dice_1x4f", {"kernels": 1_500}, 1),  # the number of steps is the host's
    ("training hunl_small", {}, 1),
    ("training pog_kuhn", {}, 2),  # and that of gradient steps
  ],
)
def test_main_loops(program, most, waits):
  (row,) = rows(program)
  assert all(row[name] <= number for name, number in most.items())
  assert row["waits_for_the_host"] == waits


def test_a_program_that_ends_with_an_error_says_so(capsys, monkeypatch):
  def run(command, **_):
    raise subprocess.CalledProcessError(1, command)

  monkeypatch.setattr(subprocess, "run", run)
  compiled.main(programs=("solve kuhn",))
  row = json.loads(capsys.readouterr().out)
  assert row["not_compiled_in_seconds"] == 300
  assert "exit status 1" in row["why"]


_TEXT = """
%body (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %fusion.1 = f32[2]{0} fusion(%x), kind=kLoop, calls=%f
  ROOT %copy.1 = f32[2]{0} copy(%fusion.1)
}

%other (y: f32[2]) -> f32[2] {
  %y = f32[2]{0} parameter(0)
  ROOT %fusion.2 = f32[2]{0} fusion(%y), kind=kLoop, calls=%f
}

ENTRY %main (a: f32[2], p: pred[]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %p = pred[] parameter(1)
  %while.1 = f32[2]{0} while(%a), body=%body, backend_config={"known_trip_count":{"n":"3"}}
  %while.2 = f32[2]{0} while(%while.1), condition=%c, body=%other
  ROOT %if.1 = f32[2]{0} conditional(%p, %a, %a), true_computation=%body, false_computation=%other
}
"""


def test_what_is_counted():
  """Three turns of two kernels, a loop of unknown length, and the longer of two branches."""
  assert gpu_compiler.count(_TEXT) == (3 * 2 + 1 + 2, (3 * 2 + 1 + 2) * 16, 2, 2)
