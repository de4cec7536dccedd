"""Programs are compiled with options for what they spend their time on; inside a jit without."""

import os

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
from solvers.xla.compiler_options import Programs, Work, work_of_solving

ROLLED = "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling"


def game_tree(num_faces, depth=None):
  game = games.make("liars_dice", num_dice=1, num_faces=num_faces)
  return games.build_public_tree(game, depth=depth)


@pytest.mark.parametrize("work", list(Work))
def test_programs_of_every_kind_run(work):
  compiled = Programs(lambda x, power: x**power, static_argnames="power")[work]
  np.testing.assert_allclose(compiled(jnp.arange(3.0), power=2), [0, 1, 4])


def test_xla_is_asked_for_options_that_it_takes(monkeypatch):
  asked = []
  jit = jax.jit

  def spy(function, **arguments):
    asked.append(arguments.get("compiler_options"))
    return jit(function, **arguments)

  monkeypatch.setitem(
    compiler_options._WISHES,
    Work.TREES,
    {"xla_cpu_no_such_option": True, "xla_backend_optimization_level": 1},
  )
  monkeypatch.setattr(jax, "jit", spy)
  assert Programs(jnp.sin)[Work.TREES](0.0) == 0
  assert asked[-1] == {"xla_backend_optimization_level": 1}


def test_an_xla_that_refuses_every_option_solves(monkeypatch):
  jit = jax.jit

  def refuse(function, *, compiler_options=None, **arguments):
    if compiler_options:
      raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: No such compile option")
    return jit(function, **arguments)

  monkeypatch.setattr(jax, "jit", refuse)
  compiler_options._is_taken.cache_clear()
  programs = Programs(jnp.sin)
  assert all(programs[work](0.0) == 0 for work in Work)
  compiler_options._is_taken.cache_clear()


@pytest.mark.parametrize(
  ("flags", "version", "wanted"),
  [
    ("", (0, 10, 2), ROLLED),
    ("--xla_a=1", (0, 12, 0, 1), f"--xla_a=1 {ROLLED}"),
    ("--xla_backend_extra_options=a", (0, 12, 0), "--xla_backend_extra_options=a"),
    ("--xla_a=1", (0, 13, 0), "--xla_a=1"),
    ("--xla_a=1", (1, 0, 0), "--xla_a=1"),
  ],
)
def test_loops_stay_rolled_where_that_was_tried(flags, version, wanted, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", flags)
  monkeypatch.setattr(jax, "__version_info__", version)
  compiler_options.keep_loops_rolled()
  assert os.environ["XLA_FLAGS"] == wanted


def test_what_solving_consists_of():
  whole, top = game_tree(5), game_tree(5, depth=2)
  network = NetworkLeafValues(ValueNetwork(5))
  game = games.make("liars_dice", num_dice=1, num_faces=5)
  oracle, _ = solvers.exact_leaf_values(game, num_iterations=4).bind(top)
  wanted = Work.NETWORKS, Work.TREES
  if jax.default_backend() != "cpu":
    wanted = (Work.PLAIN,) * 2
  assert work_of_solving(top, network) == wanted[0]
  assert work_of_solving(whole, network) == wanted[1]  # it has no leaves to ask about
  assert work_of_solving(whole, None) == work_of_solving(top, oracle) == wanted[1]


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
