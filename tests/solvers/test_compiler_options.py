"""Programs are compiled with options for what they spend their time on; inside a jit without."""

import contextlib
import gc
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import tuning, xla
from solvers.xla import Programs, Work, work_of_solving


def game_tree(num_faces, depth=None):
  game = games.make("liars_dice", num_dice=1, num_faces=num_faces)
  return games.build_public_tree(game, depth=depth)


def test_an_xla_that_refuses_every_option_solves(monkeypatch):
  jit = jax.jit

  def refuse(function, *, compiler_options=None, **arguments):
    if compiler_options:
      raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: No such compile option")
    return jit(function, **arguments)

  monkeypatch.setattr(jax, "jit", refuse)
  xla._is_taken.cache_clear()
  programs = Programs(jnp.sin)
  assert all(programs[work](0.0) == 0 for work in Work)
  xla._is_taken.cache_clear()


def test_programs_are_bounded_and_return_what_compiling_took(monkeypatch):
  returned, traced = [], []
  programs = Programs(lambda x: traced.append(len(x)) or 2 * x)
  monkeypatch.setattr(xla, "MOST_PROGRAMS", 4)
  monkeypatch.setattr(xla, "return_memory", lambda: returned.append(1))
  made = []
  for size in (1, 2, 3, 4, 1, 5, 1, 2, 3):
    np.testing.assert_array_equal(programs(np.ones(size)), 2)
    made.append(weakref.ref(programs.of(Work.PLAIN, np.ones(size)).__wrapped__))
  assert traced == [1, 2, 3, 4, 5, 2, 3]
  gc.collect()
  assert [x() is not None for x in made] == [True, *[False] * 3, *[True] * 5]
  assert len(returned) == 1  # as the second is made
  xla.return_memory()


def test_what_is_compiled_quickly_is_another_program_of_the_same_numbers():
  programs, x, tree = Programs(jnp.sin), np.ones(3, np.float32), game_tree(3)
  policies = []
  for context in (contextlib.nullcontext, xla.quickly):
    with context():
      made = programs.of(Work.TREES, x)
      found = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=4)
      policies.append(found.average_policy)
      chosen = "xla_backend_optimization_level" in (xla.options_for(Work.TREES) or {})
      assert chosen == (context is xla.quickly)
  assert programs.of(Work.TREES, x) is not made
  np.testing.assert_allclose(*policies, atol=1e-6)


def test_inside_a_jit_there_are_no_options():
  """XLA takes them for a whole program only, so `solve` inside one must not ask for any."""
  tree, seen = game_tree(3), []

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


@pytest.fixture(params=[1, 4])
def count(request, monkeypatch):
  monkeypatch.setattr(xla, "num_cores", lambda: request.param)
  return request.param


def test_items_come_back_in_order_with_their_results(count):
  def slow_at_first(item):
    time.sleep(0.02 if item % 4 == 0 else 0.0)
    return item * item

  found = list(xla.run_ahead(slow_at_first, range(20), kind=lambda item: 0))
  assert found == [(i, i * i) for i in range(20)]
  assert not list(xla.run_ahead(slow_at_first, [], kind=lambda item: 0))


def test_the_first_of_each_kind_is_done_before_the_others_begin(count):
  done, too_early = set(), []

  def compile_or_run(item):
    kind, number = item
    if number == 0:
      time.sleep(0.02)
    elif (kind, 0) not in done:
      too_early.append(item)
    done.add(item)

  items = [("a", i) for i in range(8)] + [("b", i) for i in range(8)]
  list(xla.run_ahead(compile_or_run, items, kind=lambda item: item[0]))
  assert len(done) == 16
  assert not too_early
  # Control: with each item a kind of its own nothing waits, but for itself.
  done.clear()
  list(xla.run_ahead(compile_or_run, reversed(items), kind=lambda item: item))
  assert len(too_early) == 14


def test_threads_keep_the_default_device(count):
  (cpu,) = jax.devices("cpu")[:1]
  with jax.default_device(cpu):
    ahead = xla.run_ahead(lambda item: tuning.chosen_device(), range(3), kind=int)
    assert [device for _, device in ahead] == [cpu] * 3
    seen = set()
    look = lambda rows: (seen.add(tuning.chosen_device()), rows)[1]  # noqa: E731
    xla.map_over_cores(look, jnp.zeros(4), most=4, key="default device")
    assert seen == {cpu}


def test_failures_reach_the_caller(count):
  def fail(item):
    if item == 3:
      raise ValueError("item 3")
    return item

  found = xla.run_ahead(fail, range(9), kind=lambda item: 0)
  assert [next(found) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
  with pytest.raises(ValueError, match="item 3"):
    next(found)


def test_threads_keep_the_callers_precision(count, x64):
  types = [x for _, x in xla.run_ahead(lambda i: jnp.ones(i + 1).dtype, range(4), kind=int)]
  assert types == [jnp.zeros(1, jax.dtypes.canonicalize_dtype(float)).dtype] * 4
  assert types[0] == jnp.float64
