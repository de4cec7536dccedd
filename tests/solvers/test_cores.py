"""Work on several cores at once comes back in order, and says what went wrong."""

import time

import jax
import jax.numpy as jnp
import pytest

from solvers.xla import cores


@pytest.fixture(params=[1, 4])
def count(request, monkeypatch):
  monkeypatch.setattr(cores, "num_cores", lambda: request.param)
  return request.param


def test_items_come_back_in_order_with_their_results(count):
  def slow_at_first(item):
    time.sleep(0.02 if item % 4 == 0 else 0.0)
    return item * item

  found = list(cores.run_ahead(slow_at_first, range(20), kind=lambda item: 0))
  assert found == [(i, i * i) for i in range(20)]
  assert not list(cores.run_ahead(slow_at_first, [], kind=lambda item: 0))


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
  list(cores.run_ahead(compile_or_run, items, kind=lambda item: item[0]))
  assert len(done) == 16
  assert not too_early
  # Control: with each item a kind of its own nothing waits, but for itself.
  done.clear()
  list(cores.run_ahead(compile_or_run, reversed(items), kind=lambda item: item))
  assert len(too_early) == 14


def test_failures_reach_the_caller(count):
  def fail(item):
    if item == 3:
      raise ValueError("item 3")
    return item

  found = cores.run_ahead(fail, range(9), kind=lambda item: 0)
  assert [next(found) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
  with pytest.raises(ValueError, match="item 3"):
    next(found)


def test_threads_keep_the_callers_precision(count, x64):
  types = [x for _, x in cores.run_ahead(lambda i: jnp.ones(i + 1).dtype, range(4), kind=int)]
  assert types == [jnp.zeros(1, jax.dtypes.canonicalize_dtype(float)).dtype] * 4
  assert types[0] == jnp.float64
