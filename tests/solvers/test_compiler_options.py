"""Compilation: options for what programs spend their time on, work ahead of it, and C++."""

import contextlib
import ctypes
import gc
import shutil
import threading
import time
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import native, tuning, xla
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


@pytest.mark.parametrize(
  ("flags", "plugin", "asked"),
  [
    ("--one", None, "--one --xla_backend_extra_options=-unroll-threshold=8"),
    ("", object(), "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling"),
    ("--xla_backend_extra_options=own", None, "--xla_backend_extra_options=own"),
  ],
)
def test_llvm_is_asked_on_a_cpu_alone(monkeypatch, flags, plugin, asked):
  monkeypatch.setenv("XLA_FLAGS", flags)
  monkeypatch.setattr("importlib.util.find_spec", lambda name: plugin)
  xla.keep_loops_short()
  assert xla.os.environ["XLA_FLAGS"] == asked


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


def test_items_come_back_in_order_from_the_callers_device_and_precision(count, x64):
  (cpu,) = jax.devices("cpu")[:1]

  def work(item):
    time.sleep(0.02 if item % 4 == 0 else 0.0)
    if item == 15:
      raise ValueError("item 15")
    return item * item, jnp.ones(item + 1).dtype, tuning.chosen_device()

  with jax.default_device(cpu):
    found = xla.run_ahead(work, range(20), kind=lambda item: 0)
    ours = [(i, (i * i, jnp.float64, cpu)) for i in range(15)]
    assert [next(found) for _ in range(15)] == ours
    with pytest.raises(ValueError, match="item 15"):
      next(found)
    assert not list(xla.run_ahead(work, [], kind=lambda item: 0))
    seen = set()
    look = lambda rows: (seen.add(tuning.chosen_device()), rows)[1]  # noqa: E731
    xla.map_over_cores(look, jnp.zeros(4), most=4, key="default device")
    assert seen == {cpu}


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


# C++ is compiled once; without it, for any reason, XLA's form is used.


@pytest.fixture
def source(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  path = tmp_path / "seven.cc"
  path.write_text('extern "C" int seven() { return 7; }')
  return path


WRONG = {
  "there is no C": {"PATH": "", "CXX": None},
  "returned non-zero exit status 1": {"CXX": "false"},
  "Not a directory": lambda source: (source.parent / "cache").write_text(""),
  "undefined symbol": lambda source: source.write_text("int seven();"),
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_cannot_be_compiled_is_said_once(source, monkeypatch, reason):
  """No compiler, one that fails, a folder that takes no files, and a file that is no library."""
  if callable(WRONG[reason]):
    WRONG[reason](source)
  else:
    for name, value in WRONG[reason].items():
      monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
  with pytest.warns(UserWarning, match=f"seven.cc is not used.*{reason}"):
    assert native.target(source, "seven") is None
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert native.target(source, "seven") is None
  if reason == "returned non-zero exit status 1":
    assert not list(source.parent.glob("cache/**/*.so"))


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")
def test_several_compile_at_once(source):
  path = source.parent / "cache" / "seven.so"
  threads = [threading.Thread(target=native._compile, args=(source, path)) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert list(path.parent.iterdir()) == [path]
  assert ctypes.CDLL(str(path)).seven() == 7
