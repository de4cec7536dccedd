"""Products of reach and values are not rounded on any device; GPUs and TPUs would by default."""

import re

import jax
import jax.numpy as jnp
import pytest

import games
from rebel_jax.training.self_play import init_lanes, self_play_step
from rebel_jax.training.setup import make_setup
from solvers.metrics.expected_values import policy_values
from solvers.sweeps import dense_pairs
from solvers.sweeps.problem import make_problem
from tests.tiny import TINY

HOLDEM = {"board": "9sTsJsQs", "ranks": "89TJQ", "suits": "sh", "stack": 3_000}
GAMES = {
  "kuhn_poker": ({}, 1),
  "leduc_poker": ({}, 2),
  "liars_dice": ({"num_dice": 1, "num_faces": 3}, 2),
  "turn_endgame_holdem": (HOLDEM, "stage"),
}


def products(function, *arguments) -> tuple[int, list[str]]:
  """Returns how many products `function` is traced to, and those that devices may round."""
  text = str(jax.make_jaxpr(function)(*arguments))
  found = re.findall(r"dot_general\[(.*?)\n\s*\]", text, re.DOTALL)
  return len(found), [x for x in found if "(Precision.HIGHEST, Precision.HIGHEST)" not in x]


@pytest.mark.parametrize(
  "name", [pytest.param(g, marks=[pytest.mark.slow] * (g != "liars_dice")) for g in GAMES]
)
def test_self_play(name):
  """With a network in float32: search, sampling, values of inner nodes, examples."""
  parameters, depth = GAMES[name]
  config = TINY.replace(
    game=name,
    game_params=tuple(parameters.items()),
    depth=depth,
    precision="float32",
    level_values=True,
  )

  def trace(config):
    setup = make_setup(config, 1)
    settings, (target,) = setup.trainer.self_play, setup.trainer.targets
    params = setup.trainer.init(setup.table, 0, setup.mesh).params
    lanes = init_lanes(setup.table, settings.num_lanes, jax.random.key(0))

    def step(table, lanes, params, key):
      played = self_play_step(table, settings, lanes, params, key)
      return played.lanes, target.examples_of(played.searched)

    return products(step, setup.table, lanes, params, jax.random.key(0))

  count, rounded = trace(config)
  assert count > 4
  assert not rounded
  _, rounded = trace(config.replace(precision="default"))
  assert rounded  # the network's


def test_payoffs(monkeypatch):
  """Those of few infostates are loops, not products."""
  monkeypatch.setattr(dense_pairs, "_FEW_INFOSTATES", 0)
  monkeypatch.setattr(dense_pairs, "_SMALL_LEVEL", 0)
  tree = games.build_public_tree(games.make("leduc_poker"))

  def values(beliefs):
    here = make_problem(tree, beliefs)
    return policy_values(here, here.uniform_policy())

  count, rounded = products(values, jnp.asarray(tree.prior))
  assert count > 4
  assert not rounded
