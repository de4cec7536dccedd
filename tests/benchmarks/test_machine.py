"""The command that measures a machine: what it keeps, what it survives, what it refuses."""

import functools
import json
import subprocess
import sys

import jax.numpy as jnp
import pytest

from benchmarks import checks, machine, measurements
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
