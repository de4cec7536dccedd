"""Figures of every case are those of commit bc05050."""

import jax
import numpy as np
import pytest

from tests.golden import cases, values
from tests.golden.cases import CASES

STORED = values.load()


@pytest.mark.parametrize(
  "name", [pytest.param(x, marks=[pytest.mark.slow] * y.slow) for x, y in CASES.items()]
)
def test_figures_are_those_of_the_start(name):
  case = CASES[name]
  assert values.difference(STORED[name], case.compute()) <= case.rtol


@pytest.mark.parametrize("name", CASES)
def test_another_figure_is_noticed(name):
  """Control: an entry moved by a millionth, or by ten tolerances where these are wider."""
  share = max(1e-6, 10 * CASES[name].rtol)
  for figure, wanted in STORED[name].items():
    if wanted.size:
      moved = np.array(wanted, float)
      largest = np.abs(moved).argmax()
      moved.flat[largest] += share * max(values.LEAST, abs(moved.flat[largest]))
      assert values.difference(STORED[name], STORED[name] | {figure: moved}) > CASES[name].rtol


@pytest.mark.slow
def test_rounding_does_not_decide_how_much_hunl_small_searches_and_learns():
  name, exact = "preset/hunl_small", ("solves", "value_added", "value_features", "value_mask")
  stored, found = ({x: y[x] for x in exact} for y in (STORED[name], CASES[name].compute()))
  assert values.difference(stored, found) <= cases.FLOAT32


@pytest.mark.slow
def test_an_untrained_agent_of_hunl_small_chooses_as_at_6cea797b(monkeypatch):
  """In float64; in float32 rounding decides what the first steps make of its network."""
  with jax.enable_x64(True):
    setup = cases.make_setup(cases.tiny("hunl_small"), 1)
    state = setup.trainer.init(setup.table, 0, setup.mesh)
    monkeypatch.setattr(cases, "trained", lambda preset: (setup, state, None))
    choices = list(cases.chosen("hunl_small").values())
  wanted = [
    [0.378041081445, 0.190016772242, 0.431942146313, 0],
    [0.821415123177, 0.178584876823, 0, 0],
    [0.049937154844, 0, 0.950062845156, 0],
  ]
  np.testing.assert_allclose(choices, wanted, atol=1e-9)
