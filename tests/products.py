"""Products of a program, and a program's results where devices round the factors of products."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

_PROGRAM = (core.ClosedJaxpr, core.Jaxpr)
_EXACT = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)
# Primitives that compute one program of their own once; it is that of this parameter.
_CALLS = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


@jax.default_matmul_precision(None)
def products(function: Callable, *arguments: Any) -> list[core.JaxprEqn]:
  """Returns the products of floats of `function`'s program, and of the programs within it."""
  return [x for x in _equations(jax.make_jaxpr(function)(*arguments).jaxpr) if _is_product(x)]


def is_rounded(product: core.JaxprEqn) -> bool:
  """Returns whether a device may round the factors of a product."""
  return product.params["precision"] != _EXACT


def with_rounded_products(function: Callable) -> Callable:
  """Returns `function` with factors of 10 bits in each product whose factors may be rounded."""

  @jax.default_matmul_precision(None)
  def rounded(*arguments: Any) -> Any:
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    results = _evaluate(program, *jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(shapes), results)

  return rounded


def _programs(equation: core.JaxprEqn) -> Iterator[core.Jaxpr]:
  """Returns the programs within an equation, such as that of a loop, if it has turns."""
  if equation.params.get("length") == 0:
    return
  parameters = list(equation.params.values())
  for x in jax.tree.leaves(parameters, is_leaf=lambda x: isinstance(x, _PROGRAM)):
    if isinstance(x, _PROGRAM):
      yield x.jaxpr if isinstance(x, core.ClosedJaxpr) else x


def _equations(program: core.Jaxpr) -> Iterator[core.JaxprEqn]:
  for equation in program.eqns:
    yield equation
    for inner in _programs(equation):
      yield from _equations(inner)


def _is_product(equation: core.JaxprEqn) -> bool:
  if equation.primitive.name not in ("dot_general", "conv_general_dilated"):
    return False
  return jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.floating)


def _evaluate(program: core.ClosedJaxpr, *arguments: Any) -> list[Any]:
  jaxpr = program.jaxpr
  values = dict(zip(jaxpr.constvars, program.consts)) | dict(zip(jaxpr.invars, arguments))

  def read(x: Any) -> Any:
    return x.val if isinstance(x, core.Literal) else values[x]

  for equation in jaxpr.eqns:
    inputs = [read(x) for x in equation.invars]
    name = equation.primitive.name
    if name in _CALLS:
      results = _evaluate(equation.params[_CALLS[name]], *inputs)
    else:
      if _is_product(equation) and is_rounded(equation):
        inputs = [lax.reduce_precision(x, 8, 10) for x in inputs]
      parameters = {name: _rounded(x) for name, x in equation.params.items()}
      results = equation.primitive.bind(*inputs, **parameters)
      results = results if equation.primitive.multiple_results else [results]
    values.update(zip(equation.outvars, results))
  return [read(x) for x in jaxpr.outvars]


def _rounded(parameter: Any) -> Any:
  """Returns a primitive's parameter, the products of programs in it rounded too."""
  if isinstance(parameter, tuple):
    parts = [_rounded(x) for x in parameter]
    return type(parameter)(*parts) if hasattr(parameter, "_fields") else tuple(parts)
  if not isinstance(parameter, _PROGRAM):
    return parameter
  if not isinstance(parameter, core.ClosedJaxpr):  # JAX 0.12 has no other programs
    raise NotImplementedError("a program that is not closed, as `jax.shard_map` has it")
  shapes = [
    jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in parameter.in_avals
  ]
  return jax.make_jaxpr(lambda *x: _evaluate(parameter, *x))(*shapes)
