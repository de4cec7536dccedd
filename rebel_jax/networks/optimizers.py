"""The optimizers by name."""

from collections.abc import Callable

import optax
from optax import contrib

OPTIMIZERS: dict[str, Callable[[optax.Schedule], optax.GradientTransformation]] = {
  "adam": optax.adam,  # the paper's
  # Momentum, with each matrix replaced by its nearest orthogonal one (Jordan et al. 2024); vectors
  # by Adam.
  "muon": contrib.muon,
}
