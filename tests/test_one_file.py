"""docs/one_file_rebel.py: a few of its steps, and the end of its run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

FILE = Path(__file__).parents[1] / "docs" / "one_file_rebel.py"


@pytest.fixture(scope="module")
def one_file():
  spec = importlib.util.spec_from_file_location("one_file_rebel", FILE)
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module
  spec.loader.exec_module(module)
  yield module
  del sys.modules[spec.name]


def test_it_learns_in_twenty_steps(one_file):
  settings = one_file.Settings(iterations=32, lanes=32, width=64, learning_rate=5e-3)
  _, state, losses = one_file.train(20, seed=1, settings=settings)
  assert int(state.buffer.added) == 20 * 2 * settings.lanes
  np.testing.assert_allclose(state.lanes.beliefs.sum(axis=-1), 1, atol=1e-5)
  assert len(np.unique(state.lanes.roots)) > 4  # games stand at different public states
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))
  assert np.mean(losses[-4:]) < 0.6 * np.mean(losses[:4])


def test_it_is_short():
  assert len(FILE.read_text().splitlines()) <= 300


@pytest.mark.slow
def test_its_agent_is_hard_to_exploit():
  environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
  done = subprocess.run(
    [sys.executable, FILE],
    env=environment | {"PYTHONPATH": str(FILE.parents[1])},
    capture_output=True,
    text=True,
    check=True,
  )
  assert float(re.search(r"exploitability ([\d.]+)$", done.stdout, re.M)[1]) < 0.05
