"""Gradient steps and losses: optimizers step as they are said to and learn; errors by hand."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax import contrib

from rebel_jax.config.config import LearningSettings
from rebel_jax.networks import names
from rebel_jax.networks.names import OPTIMIZERS
from rebel_jax.networks.value import ValueNetwork
from rebel_jax.training import targets
from rebel_jax.training.targets import Target, array
from rebel_jax.training.targets import ValueExamples as Examples
from solvers import tuning
from tests.products import with_rounded_products
from tests.tiny import TINY, stepped

NETWORK = ValueNetwork(4, width=32, belief_roots=1)


@functools.partial(jax.jit, static_argnums=0)
def make_examples(count: int) -> Examples:
  """Returns examples whose values are bilinear in the beliefs and differ by public state."""
  keys = jax.random.split(jax.random.key(0), 3)
  features = jax.nn.one_hot(jax.random.randint(keys[0], (count,), 0, 3), 3)
  beliefs = jax.random.dirichlet(keys[1], jnp.full(4, 0.5), (count, 2))
  payoffs = jax.random.normal(keys[2], (3, 4, 4))
  values = jnp.einsum("ef,fij,ej->ei", features, payoffs, beliefs[:, 1])
  return Examples(features, beliefs.reshape(count, 8), values, jnp.ones((count, 4)))


def make_target(optimizer: str, learning_rate: float) -> Target:
  return Target(
    name="value",
    network=NETWORK,
    learning=LearningSettings(optimizer, learning_rate, batch_size=256),
    example=Examples(*map(array, (3, 8, 4, 4))),
    make_examples=targets.value_examples,
    errors=targets.value_errors,
    most_examples=targets.most_values,
  )


@pytest.mark.parametrize(
  ("shape", "platform"), [((12, 5), "cpu"), ((5, 12), "gpu"), ((7, 7), "cpu"), ((3, 3), "gpu")]
)
def test_muon_is_optaxs(shape, platform, monkeypatch):
  monkeypatch.setattr(tuning, "platform", lambda: platform)
  with jax.enable_x64(True):
    params = {"matrix": jnp.ones(shape), "vector": jnp.ones(3), "still": jnp.ones(shape)}
    params["other"] = jnp.ones((8, 4))
    schedule = optax.cosine_decay_schedule(0.1, 6)
    both = OPTIMIZERS["muon"](schedule), contrib.muon(schedule)
    steps, moved = [jax.jit(optimizer.update) for optimizer in both], [params, params]
    states, rng = [optimizer.init(params) for optimizer in both], np.random.default_rng(0)
    for _ in range(5):
      gradients = {name: rng.normal(size=x.shape) for name, x in params.items()}
      gradients["still"] = np.zeros(shape)
      for i, step in enumerate(steps):
        updates, states[i] = step(gradients, states[i], moved[i])
        moved[i] = jax.tree.map(np.add, moved[i], updates)
    chex.assert_trees_all_close(*moved, rtol=2e-9, atol=0 if platform == "cpu" else 1e-8)
    fewer = jax.jit(contrib.muon(schedule, ns_steps=4).update)(gradients, states[1], params)[0]
    assert abs(fewer["matrix"] - updates["matrix"]).max() > 1e-3  # the control


def test_muon_where_products_are_rounded(monkeypatch):
  """As on GPUs: it asks for products that are not; control: the same without."""
  rng = np.random.default_rng(0)
  sides = [np.linalg.qr(rng.normal(size=(n, 16)))[0] for n in (16, 40)]
  gradient = jnp.asarray(sides[0] * np.geomspace(1, 1e-3, 16) @ sides[1].T, jnp.float32)
  optimizer = OPTIMIZERS["muon"](1.0)

  def error():
    def step(x):
      return optimizer.update(x, optimizer.init(x), x)[0]

    exact, rounded = (jax.jit(f)(gradient) for f in (step, with_rounded_products(step)))
    return jnp.linalg.norm(rounded - exact) / jnp.linalg.norm(exact)

  assert error() < 1e-3
  monkeypatch.setattr(names, "_product", jnp.matmul)
  assert error() > 0.1


class InUnits:
  """Stands for a network that measures values in `size`."""

  def __init__(self, size):
    self.size = size

  def unit(self, features):
    return self.size


@pytest.mark.parametrize(("size", "expected"), [(None, [0.125, 2.5, 0.5]), (2, [1 / 32, 1, 0.125])])
def test_errors_of_values(size, expected):
  """Huber's: x^2 / 2 up to 1, |x| - 1/2 beyond."""
  examples = Examples(*map(jnp.array, ([[0.0]], [[0.0] * 6], [[0.5, 1.0, 1.0]], [[1.0, 1.0, 0.0]])))
  errors, weights = targets.value_errors(InUnits(size), jnp.array([[1.0, 4.0, 0.0]]), examples)
  np.testing.assert_allclose(errors[0], expected)
  np.testing.assert_array_equal(weights[0], [1, 1, 0])
  with pytest.raises(AssertionError):  # one value a player would be broadcast
    targets.value_errors(InUnits(size), jnp.ones((1, 1)), examples)


def test_errors_of_policies():
  policies = jnp.array([[[255, 0], [0, 0]]], jnp.uint8)
  examples = targets.PolicyExamples(*map(jnp.array, ([[0.0]], [[0.0] * 4], [[1, 1]])), policies)
  predicted = jnp.array([[[0.75, 0.5], [0.25, 0.5]]])
  errors, weights = targets.policy_errors(None, predicted, examples)
  np.testing.assert_allclose(errors[0], [2 * 0.25**2, 0.5])
  np.testing.assert_array_equal(weights, [[1, 0]])


def test_examples_that_are_not_valid_do_not_count():
  one = make_target("adam", 1e-2)
  params, examples = jax.jit(one.init)(jax.random.key(1)), make_examples(4)
  found = examples._replace(values=examples.values.at[3].set(jnp.nan))
  valid = jnp.array([True, True, True, False])
  loss = jax.jit(one.loss)
  expected = float(loss(params, jax.tree.map(lambda x: np.asarray(x)[:3], examples)))
  assert float(loss(params, found, valid)) == pytest.approx(expected, rel=1e-6)
  assert np.isnan(loss(params, found))
  assert float(loss(params, examples)) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"make_examples": lambda *_: None}, "target='outcome' makes no examples of any search"),
    ({"example": Examples(*map(array, (10, 6, 3)), array(3, dtype=int))}, "int32"),
    ({"errors": lambda *_: (np.ones((3, 3)), np.ones(3))}, r"\(3,\)"),
  ],
  ids=["none", "dtype", "shape"],
)
def test_mistakes_in_a_target_are_found_before_anything_is_learned(changes, sentence, monkeypatch):
  def make(*arguments):
    return dataclasses.replace(targets.value_target(*arguments), name="outcome", **changes)

  monkeypatch.setattr(targets, "TARGETS", (*targets.TARGETS, make))
  with pytest.raises((ValueError, AssertionError), match=sentence):
    stepped(TINY, 1)
