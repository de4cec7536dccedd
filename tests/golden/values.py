"""Stored figures of the cases: where they lie, and how computed ones are compared with them."""

from pathlib import Path

import numpy as np

from tests.golden.cases import Figures

PATH = Path(__file__).with_name("values.npz")
LEAST = 1e-2  # largest entry that a difference is relative to, where all are smaller


def load() -> dict[str, Figures]:
  """Returns the figures by the case's name."""
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
