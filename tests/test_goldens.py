"""Figures of every case are those of commit bc05050."""

from pathlib import Path

import jax
import numpy as np
import pytest

from tests.golden import cases
from tests.golden.cases import CASES, Figures

PATH = Path(__file__).with_name("golden") / "values.npz"
LEAST = 1e-2  # largest entry that a difference is relative to, where all are smaller


def load() -> dict[str, Figures]:
  stored: dict[str, Figures] = {}
  with np.load(PATH) as file:
    for key in file:
      case, figure = key.split(":")
      stored.setdefault(case, {})[figure] = file[key]
  return stored


def difference(stored: Figures, computed: Figures) -> float:
  """Returns the largest difference, relative to the largest entry of its figure, or to `LEAST`."""
  if stored.keys() != computed.keys():
    raise AssertionError(f"figures are {sorted(computed)}, not {sorted(stored)}")
  worst = 0.0
  for name, wanted in stored.items():
    found = computed[name]
    if found.shape != wanted.shape:
      raise AssertionError(f"{name} has shape {found.shape}, not {wanted.shape}")
    if wanted.size:
      scale = max(LEAST, np.abs(wanted).max())
      worst = max(worst, np.nan_to_num(np.abs(found - wanted), nan=np.inf).max() / scale)
  return worst


STORED = load()


@pytest.mark.parametrize(
  "name", [pytest.param(x, marks=[pytest.mark.slow] * y.slow) for x, y in CASES.items()]
)
def test_figures_are_those_of_the_start(name):
  case = CASES[name]
  assert difference(STORED[name], case.compute()) <= case.rtol


@pytest.mark.parametrize("name", CASES)
def test_another_figure_is_noticed(name):
  """Control: an entry moved by a millionth, or by ten tolerances where these are wider."""
  share = max(1e-6, 10 * CASES[name].rtol)
  for figure, wanted in STORED[name].items():
    if wanted.size:
      moved = np.array(wanted, float)
      largest = np.abs(moved).argmax()
      moved.flat[largest] += share * max(LEAST, abs(moved.flat[largest]))
      assert difference(STORED[name], STORED[name] | {figure: moved}) > CASES[name].rtol


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["hunl_small", "small_turn_endgame_holdem"])
def test_rounding_does_not_decide_how_much_is_searched_and_learned(preset):
  name, exact = f"preset/{preset}", ("solves", "value_added", "value_features", "value_mask")
  stored, found = ({x: y[x] for x in exact} for y in (STORED[name], CASES[name].compute()))
  assert difference(stored, found) <= cases.FLOAT32


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
