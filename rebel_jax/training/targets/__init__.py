"""Training targets, one a file; those of `TARGETS` are trained.

A target is a record (`target.Target`), made by its file's `make_target`. Its name is the key of its
parameters, its optimizer and its buffer in `TrainState` and in checkpoints.
"""

from rebel_jax.training.targets import moves, policy, value, value_policy
from rebel_jax.training.targets.target import TargetMaker

# In the order in which their parameters are drawn.
TARGETS: tuple[TargetMaker, ...] = (
  value.make_target,
  policy.make_target,
  value_policy.make_target,
  *moves.MAKERS,
)
