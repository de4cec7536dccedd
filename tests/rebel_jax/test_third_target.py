"""A third training target, made in two files: its own, and the line that lists it.

What stands between the lines below would be the first, `rebel_jax/training/targets/outcome.py`; the
second is `rebel_jax/training/targets/__init__.py`, whose `TARGETS` the tests extend. The loop,
buffers, optimizers, metrics and checkpoints follow by name.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.networks.value import ValueNetwork
from rebel_jax.runs.run import train
from rebel_jax.training import targets
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import value
from rebel_jax.training.targets.target import Target, array, pbs_arrays
from tests.tiny import TINY, rows, tiny

RUN = dict(examples=128, evaluate_every=0)

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


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch):
  """Runs measure themselves when they end, which is none of a target's business."""
  monkeypatch.setattr(Evaluator, "exploitability", lambda *_, **__: 0.5)


def losses(folder) -> list[float]:
  found = [row["outcome_loss"] for row in rows(folder)]
  return [loss for loss in found if loss is not None]


def test_it_is_trained_saved_and_resumed(listed, tmp_path):
  train(*tiny(tmp_path / "alone", **RUN), stop=lambda step: step >= 4)
  listed(make_target)
  train(*tiny(tmp_path / "run", **RUN))
  found = losses(tmp_path / "run")
  assert found[-1] < 0.5 * found[0]
  assert rows(tmp_path / "run")[-1]["outcome_gradient_norm"] > 0
  # The value network learns as it does alone.
  first, alone = (rows(tmp_path / folder)[1] for folder in ("run", "alone"))
  for metric in ("loss", "gradient_norm", "value_error"):
    assert first[metric] == pytest.approx(alone[metric], rel=1e-4)
  params = checkpoint.load(tmp_path / "run").params
  assert set(params) == {"value", "outcome"}
  train(*tiny(tmp_path / "cut", **RUN), stop=lambda step: step >= 4)
  train(*tiny(tmp_path / "cut", **RUN, resume=True))
  again = checkpoint.load(tmp_path / "cut").params
  jax.tree.map(np.testing.assert_array_equal, again, params)
  assert rows(tmp_path / "cut") == rows(tmp_path / "run")


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


def test_its_examples_must_fit_into_the_buffer(listed):
  listed(changed(make_target, most_examples=lambda table, shared: 100))
  with pytest.raises(ConfigError, match=r"^buffer_size=256 must be at least 400: as many examples"):
    make_setup(TINY)
