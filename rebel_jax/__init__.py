"""ReBeL in JAX: beliefs, networks, self-play, learning and agents."""

from rebel_jax.checkpoints.checkpoint import Policy, load, load_pretrained, pretrained
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.presets import PRESETS, get_preset

__all__ = [
  "PRESETS",
  "Config",
  "ConfigError",
  "Policy",
  "get_preset",
  "load",
  "load_pretrained",
  "pretrained",
]
