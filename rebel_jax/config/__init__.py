"""Configurations of training runs, their presets, and the checks of both."""

from rebel_jax.config.allowed import (
  ConfigError,
  RunError,
  check_algorithm,
  in_config_errors,
  register,
)
from rebel_jax.config.config import KINDS, REBEL, Config, DeepCFR, PerfectSearch, Search, check_kind
from rebel_jax.config.presets import (
  PRESETS,
  get_preset,
  name_of,
  on_this_device,
  paper_exploitability,
)

__all__ = [
  "KINDS", "PRESETS", "REBEL", "Config", "ConfigError", "DeepCFR", "PerfectSearch", "RunError",
  "Search", "check_algorithm", "check_kind", "get_preset", "in_config_errors", "name_of",
  "on_this_device", "paper_exploitability", "register",
]  # fmt: skip
