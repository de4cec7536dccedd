"""Arrays on meshes of devices: types that vary, and batches that are laid out over axes."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import AxisType, NamedSharding, PartitionSpec


def varying_alike(arrays: Any, like: Any = None) -> Any:
  """Returns arrays that all vary over those axes of a `jax.shard_map` that any of them varies over.

  Loops carry what they were given, and constants do not vary. `like` counts too.
  """

  def axes_of(x: Any) -> frozenset:
    return jax.typeof(x).manual_axis_type.varying

  axes = frozenset().union(*map(axes_of, _arrays((arrays, like))))
  if not axes:
    return arrays
  return jax.tree.map(lambda x: lax.pcast(x, tuple(axes - axes_of(x)), to="varying"), arrays)


def _arrays(tree: Any) -> Iterator[jax.Array]:
  """Yields the arrays of a tree, and of records in it that are no trees, as problems are."""
  for x in jax.tree.leaves(tree):
    if isinstance(x, jax.Array):
      yield x
    elif dataclasses.is_dataclass(x):
      yield from _arrays(list(vars(x).values()))


def on_mesh_of(*arrays: Any) -> contextlib.AbstractContextManager:
  """Returns a context in which operations know the explicit axes that arrays are laid out over."""
  for x in jax.tree.leaves(arrays):
    mesh = getattr(_layout(x), "mesh", None)
    if mesh is not None and AxisType.Explicit in mesh.axis_types:
      return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)
  return contextlib.nullcontext()


def _layout(x: Any) -> Any:
  """Returns the sharding of an array; of a traced one, what its type says."""
  return getattr(jax.typeof(x) if isinstance(x, jax.core.Tracer) else x, "sharding", None)


def layout_of_rows(rows: Any) -> NamedSharding | None:
  """Returns how rows `[B, ...]` are laid out over several devices, None where that is not known.

  It is known of arrays, and of traced ones on explicit axes.
  """
  for x in jax.tree.leaves(rows):
    layout = _layout(x)
    if isinstance(layout, NamedSharding) and layout.spec and layout.spec[0] is not None:
      return NamedSharding(layout.mesh, PartitionSpec(layout.spec[0]))
  return None


def by_rows(function: Any, *arrays: Any) -> Any:
  """Returns `function(*arrays)`; under `jax.vmap` over explicit axes each device has its own rows.

  Rows that index arrays which all of them share have no type on explicit axes.
  """
  if not any(
    AxisType.Explicit in jax.typeof(x).sharding.mesh.axis_types for x in jax.tree.leaves(arrays)
  ):
    return function(*arrays)
  each = custom_vmap(function)

  @each.def_vmap
  def on_rows(_, is_row, *arrays):
    rows = next(
      jax.typeof(x).sharding
      for x, own in zip(jax.tree.leaves(arrays), jax.tree.leaves(is_row))
      if own
    )
    every = jax.vmap(function, jax.tree.map(lambda own: 0 if own else None, tuple(is_row)))
    found = (
      by_rows(every, *arrays)
      if rows.spec[0] is None
      else jax.shard_map(
        every,
        mesh=rows.mesh,
        in_specs=jax.tree.map(lambda own: PartitionSpec(*rows.spec[:own]), tuple(is_row)),
        out_specs=PartitionSpec(rows.spec[0]),
      )(*arrays)
    )
    return found, jax.tree.map(lambda _: True, found)

  return each(*arrays)
