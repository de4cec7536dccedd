"""Public trees whose payoffs are affine in parameters, such as the sizes of bets."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import Array, PublicTree
from solvers import validation

_PAYOFFS = ("payoff_scale", "payoffs")
# What may differ between trees of one family: what nodes are called, not what they are worth.
_NAMES = ("state", "root_features", "leaf_features", "origin")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AffineTrees:
  """A family of public trees, alike but for payoffs that are affine in parameters theta `[D]`.

  Made by `affine_trees`. A tree of the family has the states and features of `tree`, but not its
  mark of origin: only its payoffs are those of theta.

  Attributes:
    tree: the tree at `start`.
    start: `[D]`.
    slopes: `[D, ...]` what one more of each parameter adds to `tree`'s array `field`.
    field: `payoff_scale` or `payoffs`.
  """

  tree: PublicTree
  start: Array
  slopes: Array
  field: str = dataclasses.field(metadata={"static": True})

  def at(self, theta: Sequence[float] | Array) -> PublicTree:
    """Returns the tree at `theta` `[D]`, which may be traced."""
    away = self.parameters("theta", theta) - self.start
    slopes = jnp.asarray(self.slopes)
    change = jnp.tensordot(away, slopes, axes=1, precision=lax.Precision.HIGHEST)
    return self.with_payoffs(getattr(self.tree, self.field) + change)

  def parameters(self, name: str, theta: Any) -> jax.Array:
    """Returns `theta` `[D]` as an array, checked where it is not traced."""
    found = _parameters(name, theta) if validation.is_concrete(theta, self) else theta
    if np.shape(found) != np.shape(self.start):
      raise ValueError(
        f"{name} of shape {np.shape(found)} must have shape {np.shape(self.start)} (D,)"
      )
    return jnp.asarray(found, self.tree.dtype)

  def with_payoffs(self, payoffs: Array) -> PublicTree:
    """Returns a tree of the family's shape with any array in place of `field`."""
    changed: dict[str, Any] = {self.field: payoffs, "origin": None}
    return dataclasses.replace(self.tree, **changed)


@validation.checked
def affine_trees(build: Callable[..., PublicTree], start: Sequence[float]) -> AffineTrees:
  """Fits payoffs as affine functions of parameters, from trees built at a few of them.

  Args:
    build: returns the whole tree of a game, given each parameter as an argument, as in
      `lambda bet: games.build_public_tree(games.make("leduc_poker", bets=((2,), (bet,))))`.
    start: `[D]` parameters near which trees are built, at half as much again of each.

  Raises:
    ValueError: trees differ in more than payoffs, or payoffs are not affine, as where a bet is cut
      off by a stack, or there is no parameter, or `build` takes another number of them.
  """
  origin = _parameters("start", start)
  if not origin.size:
    raise ValueError(
      f"start={validation.short(start)} must hold a number for each parameter, one at least"
    )
  try:
    inspect.signature(build).bind(*origin)
  except TypeError as error:
    raise ValueError(
      f"start={validation.short(start)} must hold a number for each argument of build: {error}"
    ) from None
  steps = np.where(origin == 0, 1.0, origin / 2)
  base = build(*origin)
  ends = [build(*(origin + steps * unit)) for unit in np.eye(origin.size)]
  trees = [base, *ends, build(*(origin + steps / 2))]  # the last one is the check
  for tree in trees:
    _check_alike(base, tree)
  arrays = {name: [np.asarray(getattr(t, name), float) for t in trees] for name in _PAYOFFS}
  moving = [name for name, found in arrays.items() if any((x != found[0]).any() for x in found)]
  if len(moving) > 1:
    raise ValueError("build must change payoff_scale or payoffs, not both: it is not affine then")
  field = moving[0] if moving else _PAYOFFS[0]
  first, *others, last = arrays[field]
  shape = (-1, *(1,) * first.ndim)
  slopes = (np.stack(others) - first) / steps.reshape(shape)
  expected = first + np.tensordot(steps / 2, slopes, axes=1)
  if not np.allclose(last, expected, rtol=1e-5, atol=1e-5 * np.abs(first).max()):
    raise ValueError(
      f"build must give payoffs that are affine in its parameters near {origin.tolist()}; at "
      f"{(origin + steps / 2).tolist()} they are not"
    )
  return AffineTrees(base, origin.astype(base.dtype), slopes.astype(base.dtype), field)


def _parameters(name: str, values: Any) -> np.ndarray:
  """Returns a list of finite numbers as an array."""
  try:
    found = np.asarray(values, float)
  except (TypeError, ValueError, OverflowError):
    found = np.zeros(())
  if found.ndim != 1 or not np.isfinite(found).all():
    raise ValueError(
      f"{name}={validation.short(values)} must be a list of finite numbers, one for each parameter"
    )
  return found


def _check_alike(first: PublicTree, other: PublicTree) -> None:
  if not isinstance(other, PublicTree):
    raise TypeError(f"build returned {type(other).__name__}; it must return a games.PublicTree")
  if other.depth_limited or other.prior.ndim != 2:
    raise ValueError("build must return one whole tree, neither depth-limited nor stacked")
  if other.structure != first.structure:
    raise ValueError("build returned trees of different shapes; parameters may change payoffs only")
  for field in dataclasses.fields(PublicTree):
    if field.name in (*_PAYOFFS, *_NAMES):
      continue
    one, two = getattr(first, field.name), getattr(other, field.name)
    if isinstance(one, (np.ndarray, jax.Array)) and not np.array_equal(one, two):
      raise ValueError(f"build changed {field.name}; parameters may change payoffs only")
