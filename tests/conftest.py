"""Fixtures that every test file may use."""

import jax
import pytest


@pytest.fixture
def x64():
  """Runs the test in float64: trees that are built inside it hold doubles."""
  with jax.enable_x64(True):
    yield
