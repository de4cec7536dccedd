"""Figures of every case are those of commit bc05050."""

import numpy as np
import pytest

from tests.golden import values
from tests.golden.cases import CASES

STORED = values.load()


def _marked(slow):
  return [
    pytest.param(name, marks=pytest.mark.slow) if case.slow and slow else name
    for name, case in CASES.items()
  ]


@pytest.mark.parametrize("name", _marked(slow=True))
def test_figures_are_those_of_the_start(name):
  case = CASES[name]
  assert values.difference(STORED[name], case.compute()) <= case.rtol


@pytest.mark.parametrize("name", CASES)
def test_another_figure_is_noticed(name):
  """Control: one entry moved by a millionth, or by ten times a tolerance that is above that."""
  share = max(1e-6, 10 * CASES[name].rtol)
  for figure, wanted in STORED[name].items():
    moved = np.array(wanted, float)
    largest = np.abs(moved).argmax() if moved.size else None
    if largest is None:
      continue
    moved.flat[largest] += share * max(1.0, abs(moved.flat[largest]))
    assert values.difference(STORED[name], STORED[name] | {figure: moved}) > CASES[name].rtol
