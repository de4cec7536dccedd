"""Kinds of arguments and what errors show of them, and arrays of numpy and JAX alike.

Rules call functions of `xp`, so that numpy builds trees with them and JAX runs the same rules,
traced or mapped over single states.
"""

import difflib
import functools
import inspect
import math
import reprlib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_REPR = reprlib.Repr()
vars(_REPR).update(maxlist=20, maxtuple=20, maxdict=20, maxstring=100, maxother=100)
_REAL = (np.floating, np.integer, np.bool_)
_LISTS = (list, tuple, range, set, frozenset, np.ndarray)
MAX_COUNT = 2**31 - 1
# Annotations with limits: the least and the most that are allowed.
Player = Annotated[int, (0, 1)]
Positive = Annotated[int, (1, MAX_COUNT)]
Count = Annotated[int, (0, MAX_COUNT)]
Share = Annotated[float, (0, 1)]
Number = Annotated[float, (-np.inf, np.inf)]
MOST = float(np.finfo(float).max)
Finite = Annotated[float, (-MOST, MOST)]
Weight = Annotated[float, (0, MOST)]
_NUMBER = (int, float, np.floating, np.integer)


def short(value: Any) -> str:
  """Returns a value as errors show it: one line, at most some two hundred characters."""
  line = " ".join(_REPR.repr(value).split())
  return line if len(line) <= 200 else f"{line[:98]}...{line[-98:]}"


def unknown_name(field: str, value: object, known: Iterable[str]) -> str:
  """Returns the sentence about a name that is not one of `known`, with the nearest as a hint."""
  known = list(known)
  close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
  hint = f" (did you mean {close[0]!r}?)" if close else ""
  return f"{field}={short(value)} is unknown{hint}; known: {', '.join(known) or 'none'}"


def is_whole(value: Any, least: float = -np.inf, most: float = np.inf) -> bool:
  """Says whether `value` is an integer, Python's or numpy's, from `least` to `most`."""
  whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
  return whole and least <= value <= most


def check_integer(name: str, value: Any, *, least: int = 1, most: int = MAX_COUNT) -> int:
  """Returns `value` if it is an integer from `least` to `most`."""
  if not is_whole(value, least, most):
    known = ", known before tracing" if isinstance(value, jax.core.Tracer) else ""
    raise ValueError(
      f"{name}={short(value)} must be an integer, at least {least}, at most {most}{known}"
    )
  return int(value)


def integers(name: str, values: Any, least: int, most: int, *, ndim: int | None = None) -> Any:
  """Returns `values` as an array of integers from `least` to `most`; traced ones are unchecked."""
  array = as_array(values)
  array = array if array.size or isinstance(array, jax.Array) else array.astype(int)
  if not jax.dtypes.issubdtype(array.dtype, np.integer) or ndim not in (None, array.ndim):
    kind = "an integer" if ndim == 0 else f"a list of {'lists of ' * (ndim == 2)}integers"
    raise TypeError(f"{name}={short(values)} must be {kind}")
  concrete = array.size and not isinstance(array, jax.core.Tracer)
  if concrete and not least <= array.min() <= array.max() <= most:
    raise ValueError(
      f"{name}={short(values)} must {'be an integer' if ndim == 0 else 'hold integers'} "
      f"from {least} to {most}"
    )
  return array


def as_array(values: Any) -> Any:
  """Returns values as an array, of JAX if they are one; `[None]` where they are none."""
  try:
    return values if isinstance(values, jax.Array) else np.asarray(values)
  except (TypeError, ValueError, OverflowError):  # rows that differ in length, say
    return np.array([None])


def _is_array(value: Any) -> bool:
  """Says whether a value is an array of real numbers, or lists that make one."""
  array = isinstance(value, list | tuple | np.ndarray | jax.Array)
  dtype = as_array(value).dtype
  return array and any(jax.dtypes.issubdtype(dtype, real) for real in _REAL)


Kind = tuple[Callable[[Any], bool], str]  # whether a value is of it, and words for it
_KINDS: dict[Any, Kind] = {
  int: (is_whole, "an integer"),
  **dict.fromkeys(
    (float, typing.SupportsFloat),
    (
      lambda x: (
        (isinstance(x, _NUMBER) and not isinstance(x, bool) and x == x)
        or (getattr(x, "ndim", None) == 0 and _is_array(x))  # one real number, which may be traced
      ),
      "a number, not NaN",
    ),
  ),
  str: (lambda x: isinstance(x, str), "a string"),
  bool: (lambda x: isinstance(x, bool | np.bool_), "True or False"),
  type(None): (lambda x: x is None, "None"),
  np.ndarray: (_is_array, "an array of real numbers"),
  jax.Array: (lambda x: isinstance(x, jax.Array) or _is_array(x), "an array of real numbers"),
  Callable: (callable, "a function"),
  Mapping: (lambda x: isinstance(x, Mapping), "a mapping"),
  dict: (lambda x: isinstance(x, Mapping), "a mapping"),
}


def _a(name: str) -> str:
  return f"a{'n' * (name[0] in 'AEIO')} {name}"


@functools.cache
def kind_of(annotation: Any) -> Kind:
  """Returns the kind that an annotation names; annotations of other sorts take anything."""
  # Numbers may be numpy's, lists and tuples stand for each other and for arrays of numbers, and a
  # protocol is had by whatever has its methods.
  origin, parts = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
  if origin is Literal:
    words = " or ".join(map(repr, parts))
    return lambda x: (isinstance(x, str) or is_whole(x)) and x in parts, words
  if origin is Annotated:
    (right, words), (least, most) = kind_of(parts[0]), parts[1]
    ends = f"from {least} to {most}"
    if most >= MOST:
      finite = "that is finite, " * (most < np.inf) + f"of at least {least}"
      ends = {np.inf: "that is not NaN", MOST: "that is finite"}.get(-least, finite)
    if (*parts[:1], most - least) == (int, 1):
      words, ends = str(least), f"or {most}"
    words = f"{words.removesuffix(', not NaN')} {ends}"
    # As Python numbers: in single precision the greatest limit is infinite.
    return (
      lambda x: isinstance(x, _NUMBER) and right(x) and least <= np.asarray(x).item() <= most
    ), words
  if isinstance(annotation, TypeVar):
    origin, parts = typing.Union, annotation.__constraints__
  tests = [kind_of(part)[0] for part in parts if part is not ... and origin is not Callable]
  if origin in (typing.Union, type(int | str)):
    ways = dict.fromkeys(kind_of(part)[1] for part in parts)
    return lambda x: not tests or any(test(x) for test in tests), " or ".join(ways)
  if origin in (Mapping, dict) and tests:
    words = " to ".join(kind_of(part)[1] for part in parts)
    return (
      lambda x: isinstance(x, Mapping) and all(tests[0](k) and tests[1](x[k]) for k in x)
    ), f"a mapping from {words}"
  if origin in (list, tuple, Sequence, Iterable):
    fixed = len(tests) if origin is tuple and ... not in parts else 0
    words = " and ".join(kind_of(part)[1] for part in parts if part is not ...)

    def is_list(x: Any) -> bool:
      if not isinstance(x, _LISTS):
        return origin is Iterable and isinstance(x, Iterator)
      right = getattr(x, "ndim", 1) > 0 and len(x) == (fixed or len(x))
      return right and all(test(y) for y, test in zip(x, tests if fixed else tests * len(x)))

    return is_list, f"a list of {words}" if fixed else f"a list, each {words or 'anything'}"
  if origin in _KINDS:
    return _KINDS[origin]
  if getattr(origin, "_is_protocol", False):
    names = [name for name in vars(origin) if not name.startswith("_")]
    return lambda x: all(hasattr(x, name) for name in names), _a(origin.__name__)
  if origin is Any or not isinstance(origin, type):
    return lambda x: True, "anything"
  return lambda x: isinstance(x, origin), _a(origin.__name__)


def _limited(annotation: Any) -> bool:
  """Says whether an annotation allows but some values of a kind."""
  parts = typing.get_args(annotation)
  return typing.get_origin(annotation) in (Literal, Annotated) or any(map(_limited, parts))


def check_kinds(arguments: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
  """Checks that arguments, by name, are of the kinds that annotations name, within limits."""
  for name in (x for x in arguments if x in annotations):
    is_right, words = kind_of(annotations[name])
    if not is_right(arguments[name]):
      named = arguments.get("field", name) if name in ("text", "history") else name
      error = ValueError if _limited(annotations[name]) else TypeError
      raise error(f"{named}={short(arguments[name])} must be {words}")
    if name == "seed" and not 0 <= np.min(arguments[name]) <= np.max(arguments[name]) < 2**63:
      raise ValueError(f"seed={short(arguments[name])} must be at least 0 and below 2**63")


def checked(function: F) -> F:
  """Makes a function on the host refuse arguments of other kinds than its annotations name."""
  signature = inspect.signature(function)
  annotations = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))

  @functools.wraps(function)
  def call(*args, **options):
    check_kinds(signature.bind(*args, **options).arguments, annotations(function))
    return function(*args, **options)

  return typing.cast(F, call)


def check_fields(record: Any) -> None:
  """Checks that the fields of a dataclass are of the kinds that it names."""
  check_kinds(vars(record), typing.get_type_hints(type(record), include_extras=True))
  # A list stands for a tuple, but has no hash.
  vars(record).update({name: tuple(x) for name, x in vars(record).items() if isinstance(x, list)})


Rows = TypeVar("Rows", np.ndarray, jax.Array)  # a function takes and returns one of the two


# Whether a value is a real number that a float can hold, NaN and infinity excluded.
is_finite = kind_of(Finite)[0]


def as_share(value: Any) -> float:
  """Returns a number from 0 to 1, or the text of one, as a float; NaN for anything else."""
  try:
    share = float(value.encode("ascii") if isinstance(value, str) else value)
  except (TypeError, ValueError, OverflowError):
    return math.nan
  return math.nan if isinstance(value, bool) or not 0 <= share <= 1 else share


def check_shape(name: str, array: Any, shape: tuple[int, ...], letters: str) -> None:
  """Checks that an argument, perhaps traced, has a shape; `letters` name its axes."""
  if not _is_array(array):
    raise TypeError(
      f"{name}={short(array)} must be an array of real numbers, of shape {shape} {letters}"
    )
  if np.shape(array) != shape:
    raise ValueError(f"{name} of shape {np.shape(array)} must have shape {shape} {letters}")


_HOST = {np.ndarray, np.bool_, np.int64, np.int32, np.float64, int, float, bool}


class _Namespace:
  """Functions of arrays: JAX's where an argument is an array of its own, else numpy's."""

  def __getattr__(self, name: str) -> Any:
    ours, theirs = getattr(np, name), getattr(jnp, name)

    def call(*given, **options):
      for x in (*given[0], *given[1:]) if type(given[0]) in (list, tuple) else given:
        if type(x) not in _HOST and isinstance(x, jax.Array):  # to ask for the type first is faster
          return theirs(*given, **options)
      return ours(*given, **options)

    vars(self)[name] = call
    return call


xp: Any = _Namespace()


def lookup(table: Any, *index: Any) -> Any:
  """Returns `table[index]`, an array of the kind of `index`: one for each leading axis."""
  table = table if isinstance(table, jax.Array) else np.asarray(table)
  # Whole numbers are of the states' type, which JAX's own is not under `jax.enable_x64`.
  dtype = index[0].dtype if table.dtype.kind in "iu" else table.dtype
  return index[0].__array_namespace__().asarray(table.astype(dtype, copy=False))[index]


def one_hot(values: Any, number: int) -> Any:
  """Returns which of the integers below `number` each of `values` `[...]` is: `[..., number]`."""
  every = np.arange(number, dtype=values.dtype).reshape(*[1] * values.ndim, number)
  return values[..., None] == every


def filled(rows: Any, sizes: tuple[int, ...], fill: Any = 0) -> np.ndarray:
  """Returns `rows` filled up at the ends of their first axes to `sizes`."""
  spare = [(0, size - old) for size, old in zip(sizes, rows.shape)]
  return np.pad(rows, [*spare, *[(0, 0)] * (rows.ndim - len(sizes))], constant_values=fill)


def one(rule: Callable[..., Any], *row: Any) -> Any:
  """Returns a rule's answer for one state from that for rows `[n, ...]`, arrays of its kind."""
  return jax.tree.map(lambda x: x[0], rule(*(x[None] for x in row)))


def with_columns(states: Rows, columns: Mapping[int, Any]) -> Rows:
  """Returns `states` `[n, S]` with some columns replaced, each by a scalar or by `[n]`."""
  if isinstance(states, np.ndarray):  # to write is faster, and JAX's arrays do not change
    states = states.copy()
    for place, column in columns.items():
      states[:, place] = column
    return states
  own: Any = states.__array_namespace__()
  for place, column in columns.items():
    column = own.asarray(column).astype(states.dtype)
    chosen = np.arange(states.shape[1]) == range(states.shape[1])[place]
    states = own.where(chosen, column[:, None] if column.ndim else column, states)
  return states
