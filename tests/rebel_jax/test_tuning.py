"""Programs as a CPU and as an accelerator get them: the same numbers, cut into other pieces."""

import contextlib
import dataclasses
import functools

import jax
import numpy as np
import pytest

from rebel_jax.config.presets import get_preset
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import init_params
from solvers import tuning
from tests import harness
from tests.tiny import TINY, TINY_GROWING, TINY_PERFECT

CONFIGS = {
  "tables": TINY,
  "growing": TINY_GROWING.replace(simulations=4, lanes=8),
  "perfect": TINY_PERFECT,
  "endgame": get_preset("small_turn_endgame_holdem").replace(
    lanes=4, iterations=4, width=16, hidden_layers=1, batch_size=4, buffer_size=256
  ),
}
# Sizes that would each show: nothing is cut.
SMALL = dataclasses.replace(tuning.ON_CPU, leaves=(4, 4), questions=(4, 24), searches=(2, 4))


@contextlib.contextmanager
def on(platform):
  """Traces programs for a platform; on a CPU with pieces so small that there are several."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(tuning, "platform", lambda: platform)
    patch.setattr(tuning, "ON_CPU", SMALL)
    jax.clear_caches()
    yield
  jax.clear_caches()


def step_of(config):
  """Returns a function of two steps of self-play, and its arguments."""
  setup = make_setup(config, num_devices=1)
  play, init = setup.trainer.self_play, functools.partial(init_params, setup.trainer.targets)
  params = jax.jit(init)(jax.random.key(1))

  def steps(params, table):
    lanes = play.init(table, jax.random.key(2))
    for i in range(2):
      played = play.step(table, lanes, params, jax.random.key(i))
      lanes = played.lanes
    return lanes, [x.average_policy for x in played.searched if hasattr(x, "average_policy")]

  return steps, (params, setup.table)


KINDS = harness.slow(list(CONFIGS), "growing", "perfect", "endgame")


@pytest.mark.parametrize("kind", KINDS)
def test_self_play_is_the_same_on_both(kind):
  found = {}
  for platform in ("cpu", "gpu"):
    with on(platform):
      steps, arguments = step_of(CONFIGS[kind])
      found[platform] = jax.tree.map(np.asarray, jax.jit(steps)(*arguments))
  ours, theirs = (jax.tree.leaves(found[platform]) for platform in ("cpu", "gpu"))
  assert len(ours) == len(theirs)
  for x, y in zip(ours, theirs):
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=2e-5)


def lowered(config):
  """Returns the text of a training step as it is lowered for a GPU, which need not be there."""
  setup = make_setup(config, num_devices=1)
  table, state = setup.table, setup.trainer.init(setup.table, 0, setup.mesh)
  run = jax.jit(lambda table, state: setup.trainer.run(table, state, 1, setup.mesh))
  return run.trace(table, state).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_is_lowered_for_a_gpu(kind):
  loops = {}
  for platform in ("cpu", "gpu"):
    with on(platform):
      loops[platform] = lowered(CONFIGS[kind]).count("stablehlo.while")
  assert loops["gpu"] < loops["cpu"] or kind == "endgame"


def test_a_default_device_of_a_thread_says_the_platform(monkeypatch):
  monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
  assert tuning.pieces() == tuning.ON_ACCELERATOR
  with jax.default_device(jax.devices("cpu")[0]):
    assert tuning.pieces() == tuning.ON_CPU


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tables", "growing"])
def test_agents_are_measured_alike_on_both(kind):
  config = CONFIGS[kind]
  evaluator = {"tables": Evaluator, "growing": ChainEvaluator}[kind]
  found = []
  for platform in ("cpu", "gpu"):
    with on(platform):
      setup = make_setup(config, num_devices=1)
      params = init_params(setup.trainer.targets, jax.random.key(1))
      found.append(evaluator(config).measure(params, 0, final=False).row)
  assert found[0].keys() == found[1].keys()
  for name, value in found[0].items():
    assert found[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
