"""A third training target, made in two files: its own, and the line that lists it.

What stands between the lines below would be the first, `rebel_jax/training/targets/outcome.py`; the
second is `rebel_jax/training/targets/__init__.py`, whose `TARGETS` the tests extend. The loop,
buffers, optimizers, metrics and checkpoints follow by name.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

from rebel_jax.networks.value import ValueNetwork
from rebel_jax.training import targets
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import value
from rebel_jax.training.targets.target import Target, array, pbs_arrays
from tests.tiny import TINY

# ------------------------------------------------------------------------------------------------


class Examples(NamedTuple):
  """What a PBS is worth to a player who does not know its own infostate yet: `outcome` `[E, 1]`."""

  features: Any  # [E, F]
  beliefs: Any  # [E, 2 * H]
  outcome: Any  # [E, 1]

  @property
  def inputs(self):
    return self.features, self.beliefs


def make_examples(network, searched):
  found = value.make_examples(network, searched)
  if found is None:
    return None
  (features, beliefs, values, mask), valid = found
  own = beliefs[:, : values.shape[1]]
  return Examples(features, beliefs, (own * values * mask).sum(axis=1, keepdims=True)), valid


def errors(network, predicted, examples):
  return (predicted - examples.outcome) ** 2, np.ones(predicted.shape, predicted.dtype)


def make_target(config, game, networks, learner):
  return Target(
    name="outcome",
    network=ValueNetwork(1, hidden_layers=1, width=16),
    learner=dataclasses.replace(learner, learning_rate=1e-2),
    example=Examples(*pbs_arrays(game), array(1)),
    make_examples=make_examples,
    errors=errors,
    most_examples=value.most_examples,
  )


# ------------------------------------------------------------------------------------------------


def changed(make, **changes):
  return lambda *arguments: dataclasses.replace(make(*arguments), **changes)


@pytest.fixture
def listed(monkeypatch):
  """Returns a function that adds a target to the list."""
  return lambda make: monkeypatch.setattr(targets, "TARGETS", (*targets.TARGETS, make))


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"make_examples": lambda *_: None}, "target='outcome' makes no examples of any search"),
    ({"example": Examples(array(5), array(6), array(1, dtype=int))}, "int32"),
    ({"errors": lambda *_: (np.ones((3, 1)), np.ones(3))}, r"\(3,\)"),
  ],
  ids=["none", "dtype", "shape"],
)
def test_mistakes_in_it_are_found_before_anything_is_learned(changes, sentence, listed):
  listed(changed(make_target, **changes))
  setup = make_setup(TINY)
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  with pytest.raises((ValueError, AssertionError), match=sentence):
    setup.trainer.run(setup.table, state, 1, setup.mesh)
