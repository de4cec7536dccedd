"""The self-improver's rule: the thesis's numbers, the mapping's midpoint, a gap by hand."""

import numpy as np
import pytest

from games.poker.abstraction import map_bet
from solvers.contrib.off_tree import midpoint, widest_gap


def test_numbers_of_the_thesis():
  assert midpoint(0, 1) == pytest.approx(1 / 3)
  assert midpoint(0, 1 / 3) == pytest.approx(1 / 7)
  assert midpoint(1 / 3, 1) == pytest.approx(3 / 5)


def test_a_midpoint_is_taken_for_either_neighbour_equally_often():
  rng = np.random.default_rng(0)
  for low, high in np.sort(rng.exponential(2.0, (200, 2)), axis=1).tolist():
    np.testing.assert_allclose(map_bet(midpoint(low, high), (low, high)), 0.5, rtol=1e-9)
    assert not np.allclose(map_bet((low + high) / 2, (low, high)), 0.5, atol=1e-6)


def test_the_gap_is_where_bets_are_furthest_from_what_is_there():
  sizes = (0, 0.5, 1, 3)
  assert widest_gap([0.4, 0.7, 0.7, 1.2], sizes) == (0.5, 1)
  assert widest_gap([0.4, 0.7, 0.7, 1.7], sizes) == (1, 3)
  assert widest_gap([7.0, 0.1], sizes) == (0, 0.5)
  with pytest.raises(ValueError, match="increasing"):
    widest_gap([1.0], (1, 1))
