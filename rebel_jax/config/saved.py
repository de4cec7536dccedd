"""Configurations read from JSON, those of earlier versions too."""

from typing import Any

from rebel_jax.config import groups
from rebel_jax.config.allowed import ConfigError, unknown
from rebel_jax.config.search import KINDS, GrowingSearch, PerfectSearch, ReBeLSearch

# Groups of settings, with those that are gone, and settings whose value is pairs.
_GROUPS = (
  "search", "self_play", "growing", "network", "learning", "evaluation", "schedule", "run",
)  # fmt: skip
# Settings that belong to a command, not to what is trained.
_OF_COMMANDS = {"output_dir", "resume", "num_devices", "checkpoint_every", "tensorboard"}
# Settings that have another name, and the factor between their values.
_RENAMED = (
  ("eval_simulations", "eval_iterations", 2),
  ("eval_seeds", "eval_playthroughs", 1),
  ("final_seeds", "final_playthroughs", 1),
)
# Settings that are gone, at their defaults; where one is a constant of the search, that value is
# allowed too, and no other where it decides how agents play.
_GONE: dict[str, Any] = {
  "simulations": 0,
  "random_beliefs": False,
  "stop_sampling": "weighted",
  "max_gradient_norm": 1.0,
  "eval_per_update": 1.0,
  "puct": 1.25,
  "children": 0,
  "temperature": 1.0,
  "recursive_share": 0.1,
  "exploration": 0.1,
  "policy_weight": 0.05,
  "never_resign": 0.0,
}
_PLAYED = ("children", "temperature")


def read(default: Any, fields: Any) -> Any:
  """Returns the configuration that `groups.to_dict` made `fields` of.

  Args:
    default: a `Config` whose settings those that are missing take.
    fields: by group; settings that are gone, and those of other searches, are ignored at their
      defaults.

  Raises:
    ConfigError: there is a setting or group that is not one, or one that is gone with another
      value.
  """
  settings = _ungrouped(fields, "config")
  kind: Any = ReBeLSearch
  if settings.get("simulations"):
    # Earlier versions saved settings of all kinds, at zero where they had no part.
    perfect = settings.get("td1_share") if "growing" in fields else "td1_share" in settings
    kind = PerfectSearch if perfect else GrowingSearch
  for before, now, factor in _RENAMED:
    value = settings.pop(before, None)
    if value is not None and kind is not ReBeLSearch:
      settings[now] = factor * value
  config = groups.replace(default, search=kind())
  known = groups.flat(config)
  config = groups.replace(config, **{k: v for k, v in settings.items() if k in known})
  others = {k: v for other in KINDS for k, v in vars(other()).items()} | _GONE
  for name in sorted(settings.keys() - known.keys() - _OF_COMMANDS):
    if name not in others:
      raise unknown("field", name, known)
    now = getattr(config.search, name, getattr(config.learning, name, others[name]))
    if settings[name] != now and (settings[name] != others[name] or name in _PLAYED):
      raise ConfigError(
        f"{name}={settings[name]!r} is no setting of {kind.kind} any more; allowed is {now!r}"
      )
  return config


def _ungrouped(fields: Any, group: str) -> dict[str, Any]:
  """Returns settings by name, pairs as tuples."""
  if not isinstance(fields, dict):
    raise ConfigError(f"{group}={fields!r} must be a group of settings by name")
  settings: dict[str, Any] = {}
  for name, value in fields.items():
    if name in _GROUPS:
      settings |= _ungrouped(value, name)
    else:
      settings[name] = tuple(value.items()) if isinstance(value, dict) else value
  return settings
