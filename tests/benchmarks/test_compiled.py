"""Kernels, waits for the host and products of programs that are compiled for a GPU."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import compiled, gpu_compiler


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
