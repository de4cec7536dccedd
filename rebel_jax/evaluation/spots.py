"""A trained network at another spot than the one that its run was configured for."""

import functools
from typing import Any

import jax

from games import Game
from rebel_jax.checkpoints.checkpoint import Policy, abstract_params
from rebel_jax.config.config import ConfigError


def at_spot(policy: Policy, game_params: tuple[tuple[str, Any], ...]) -> Policy:
  """Returns the network as it plays the same game with some parameters changed.

  Args:
    policy: a trained network.
    game_params: pairs as `Config.game_params`, such as `(("stack", 9_000),)`; those not named stay.

  Raises:
    ConfigError: a parameter is not allowed, or an infostate, an input or an output of the network
      would mean something else than in training. Hands are numbered by what the board leaves, so
      other boards are refused unless the run varied them.
  """
  if not game_params:
    return policy
  old = policy.config
  params = dict(old.game_params) | dict(game_params)
  new = old.replace(game_params=tuple(params.items()))
  new.validate()
  before, after = old.make_game(), new.make_game()
  shapes = [jax.tree.map(lambda x: x.shape, abstract_params(config)) for config in (old, new)]
  same = before.num_infostates == after.num_infostates and shapes[0] == shapes[1]
  if not same or _infostates(before) != _infostates(after):
    raise ConfigError(
      f"game_params={dict(game_params)} would number infostates or actions otherwise than the "
      f"network of {policy.about['checkpoint']!r} learned them; other boards need a run with vary "
      "board random"
    )
  return policy._replace(config=new)


def _infostates(game: Game) -> list[str]:
  name = functools.partial(game.infostate_name, 0)
  return [name(h) for h in range(game.num_infostates)]
