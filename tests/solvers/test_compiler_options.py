"""Programs are compiled with options for what they spend their time on; inside a jit without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from rebel_jax.config.presets import get_preset
from rebel_jax.networks.value import NetworkLeafValues, ValueNetwork
from rebel_jax.training import self_play
from rebel_jax.training.setup import make_setup
from solvers.xla import compiler_options
from solvers.xla.compiler_options import Work, jit_for_each, work_of_solving


def game_tree(num_faces, depth=None):
  game = games.make("liars_dice", num_dice=1, num_faces=num_faces)
  return games.build_public_tree(game, depth=depth)


@pytest.mark.parametrize("work", list(Work))
def test_xla_takes_the_options(work):
  """XLA refuses options that it does not know."""
  compiled = jit_for_each(lambda x, power: x**power, static_argnames="power")[work]
  np.testing.assert_allclose(compiled(jnp.arange(3.0), power=2), [0, 1, 4])


def test_xla_refuses_others(monkeypatch):
  monkeypatch.setitem(compiler_options._OPTIONS, Work.TREES, {"xla_cpu_no_such_option": True})
  with pytest.raises(jax.errors.JaxRuntimeError, match="xla_cpu_no_such_option"):
    jit_for_each(jnp.sin)[Work.TREES](1.0)


def test_what_solving_consists_of():
  small, large, top = game_tree(3), game_tree(5), game_tree(5, depth=2)
  network = NetworkLeafValues(ValueNetwork(5))
  game = games.make("liars_dice", num_dice=1, num_faces=5)
  oracle, _ = solvers.exact_leaf_values(game, num_iterations=4).bind(top)
  wanted = Work.NETWORKS, Work.TREES, Work.PLAIN
  if jax.default_backend() != "cpu":
    wanted = (Work.PLAIN,) * 3
  assert work_of_solving(top, network) == wanted[0]
  assert work_of_solving(large, network) == wanted[1]  # it has no leaves to ask about
  assert work_of_solving(large, None) == work_of_solving(large, oracle) == wanted[1]
  assert work_of_solving(small, None) == work_of_solving(top, oracle) == wanted[2]


@pytest.mark.parametrize("num_faces", [3, 5])
def test_inside_a_jit_there_are_no_options(num_faces):
  """XLA takes them for a whole program only, so `solve` inside one must not ask for any."""
  tree, seen = game_tree(num_faces), []

  @jax.jit
  def solve(beliefs):
    seen.append(work_of_solving(tree, None, beliefs))
    return solvers.solve(
      tree, algorithm=solvers.linear_cfr(), num_iterations=4, beliefs=beliefs
    ).root_values

  inside = solve(jnp.asarray(tree.prior))
  outside = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=4).root_values
  np.testing.assert_allclose(inside, outside, atol=1e-6)
  assert seen == [Work.PLAIN]


@pytest.mark.parametrize(
  ("preset", "large", "work"),
  [
    ("liars_dice_1x4f", 2**12, Work.NETWORKS),
    ("small_turn_endgame_holdem", 2**14, Work.NETWORKS),
    ("small_turn_endgame_holdem", 2**12, Work.TREES),
  ],
)
def test_what_self_play_consists_of(preset, large, work, monkeypatch):
  monkeypatch.setattr(self_play, "LARGE", large)
  setup = make_setup(get_preset(preset))
  if setup.mesh.devices.flat[0].platform != "cpu":
    work = Work.PLAIN
  assert setup.trainer.work(setup.table, setup.mesh) == work
