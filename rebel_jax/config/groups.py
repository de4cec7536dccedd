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
  found: dict[str, Any] = {}
  for name, value in vars(settings).items():
    found |= flat(value) if dataclasses.is_dataclass(value) else {name: value}
  return found


def replace(settings: T, **changes: Any) -> T:
  """Returns the settings with some of them changed, each named without its group.

  Raises:
    ConfigError: there is no setting of a name.
  """
  new = {}
  for name, value in vars(settings).items():
    if dataclasses.is_dataclass(value):
      inside = {inner: changes.pop(inner) for inner in flat(value) if inner in changes}
      new[name] = replace(value, **inside)
    elif name in changes:
      new[name] = changes.pop(name)
  if changes:
    raise unknown("field", next(iter(changes)), flat(settings))
  return typing.cast(T, dataclasses.replace(typing.cast(Any, settings), **new))


def check(settings: Any) -> None:
  """Checks every setting by itself, as its annotation says.

  Raises:
    ConfigError: a value is not allowed.
  """
  for name, hint in _hints(type(settings)).items():
    value = getattr(settings, name)
    if dataclasses.is_dataclass(hint):
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


def from_dict(cls: type[T], fields: Any, group: str = "settings") -> T:
  """Returns the settings that `to_dict` gave; missing ones take their defaults.

  Raises:
    ConfigError: there is a setting or group that `cls` has not.
  """
  if not isinstance(fields, dict):
    raise ConfigError(f"{group}={fields!r} must be a group of settings by name")
  hints, values = _hints(cls), {}
  for name, value in fields.items():
    if name not in hints:
      raise unknown("field", name, hints)
    if dataclasses.is_dataclass(hints[name]):
      value = from_dict(hints[name], value, name)
    values[name] = tuple(value.items()) if isinstance(value, dict) else value
  return cls(**values)


def _hints(cls: type) -> dict[str, Any]:
  return typing.get_type_hints(cls, include_extras=True)
