"""Settings in groups: frozen dataclasses whose fields are settings or groups of them.

No two settings of one dataclass share a name, so a setting is named without its group.
"""

import dataclasses
import typing
from typing import Any, TypeVar

from rebel_jax.config.allowed import Allowed, ConfigError, unknown

T = TypeVar("T")


def flat(settings: Any) -> dict[str, Any]:
  """Returns every setting's value by its name."""
  values: dict[str, Any] = {}
  for name, value in vars(settings).items():
    values |= flat(value) if dataclasses.is_dataclass(value) else {name: value}
  return values


def replace(settings: T, **changes: Any) -> T:
  """Returns the settings with some changed, each named without its group, or whole groups.

  Raises:
    ConfigError: there is no setting of a name.
  """
  new, left = {}, dict(changes)
  for name, value in vars(settings).items():
    value = left.pop(name, value)
    if dataclasses.is_dataclass(value):
      inside = {inner: left.pop(inner) for inner in flat(value) if inner in left}
      value = replace(value, **inside)
    new[name] = value
  replaced = typing.cast(T, dataclasses.replace(typing.cast(Any, settings), **new))
  if left:
    raise unknown("field", next(iter(left)), flat(replaced))
  return replaced


def check(settings: Any) -> None:
  """Checks every setting by itself, as its annotation says.

  Raises:
    ConfigError: a value is not allowed.
  """
  for name, hint in typing.get_type_hints(type(settings), include_extras=True).items():
    value = getattr(settings, name)
    if dataclasses.is_dataclass(value):
      check(value)
    elif hint is bool:
      if not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r} must be True or False")
    else:
      for allowed in typing.get_args(hint)[1:]:
        if isinstance(allowed, Allowed):
          allowed.check(name, value)


def to_dict(settings: Any) -> dict[str, Any]:
  """Returns the settings as JSON can hold them: groups and pairs as dicts."""
  as_dict = {}
  for name, value in vars(settings).items():
    if dataclasses.is_dataclass(value):
      value = to_dict(value)
    as_dict[name] = dict(value) if isinstance(value, tuple) else value
  return as_dict
