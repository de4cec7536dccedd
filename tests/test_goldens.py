"""Figures of every case are those of commit bc05050."""

import numpy as np
import pytest

from tests.golden import values
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
