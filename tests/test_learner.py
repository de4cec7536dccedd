"""The learner's optimizers: each step is what it is said to be, and both learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rebel_jax.learner import OPTIMIZERS, Learner
from rebel_jax.networks import ValueNetwork
from rebel_jax.replay import Examples

NETWORK = ValueNetwork(4, width=32, belief_roots=1)


def make_examples(count: int) -> Examples:
  """Returns examples whose values are bilinear in the beliefs and differ by public state."""
  keys = jax.random.split(jax.random.key(0), 3)
  features = jax.nn.one_hot(jax.random.randint(keys[0], (count,), 0, 3), 3)
  beliefs = jax.random.dirichlet(keys[1], jnp.full(4, 0.5), (count, 2))
  payoffs = jax.random.normal(keys[2], (3, 4, 4))
  values = jnp.einsum("ef,fij,ej->ei", features, payoffs, beliefs[:, 1])
  return Examples(features, beliefs.reshape(count, 8), values, jnp.ones((count, 4)))


def learner(optimizer: str, learning_rate: float, **changes) -> Learner:
  settings = dict(halve_every=0, decay_steps=300, batch_size=256) | changes
  return Learner(NETWORK, optimizer, learning_rate, **settings)


def start(examples: Examples):
  return NETWORK.init(jax.random.key(1), examples.features[:1], examples.beliefs[:1])


@pytest.mark.parametrize(("optimizer", "learning_rate"), [("adam", 1e-2), ("muon", 2e-2)])
def test_it_learns(optimizer, learning_rate):
  examples = make_examples(256)
  one = learner(optimizer, learning_rate)
  params = start(examples)
  state = one.optimizer().init(params)
  first = one.loss(params, examples)

  @jax.jit
  def learn(params, state):
    def step(_, carry):
      return one.update(*carry, examples)[:2]

    return jax.lax.fori_loop(0, 300, step, (params, state))

  params, state = learn(params, state)
  assert one.loss(params, examples) < 0.02 * first


def test_steps_of_muon():
  """A matrix moves along an orthogonal one, however unequal its gradient's directions are."""
  examples = make_examples(256)
  params = start(examples)
  spread = {}
  for optimizer in OPTIMIZERS:
    one = learner(optimizer, 1e-2)
    moved, _, stats = one.update(params, one.optimizer().init(params), examples)
    change = jax.tree.map(jnp.subtract, moved, params)["params"]["hidden_0"]["kernel"]
    singular = np.linalg.svd(change, compute_uv=False)
    spread[optimizer] = singular[0] / singular[len(singular) // 2]
    assert stats.gradient_norm > 0
  # Five iterations of Newton and Schulz bring them within a factor of about two.
  assert spread["muon"] < 2.5 < spread["adam"]


def test_the_learning_rate_decays_to_nothing():
  examples = make_examples(256)
  for optimizer in OPTIMIZERS:
    one = learner(optimizer, 1e-2, decay_steps=2)
    params = start(examples)
    state = one.optimizer().init(params)
    changes = []
    for _ in range(3):
      moved, state, _ = one.update(params, state, examples)
      change = jax.tree.map(lambda x, y: jnp.abs(x - y).max(), moved, params)
      changes.append(max(map(float, jax.tree.leaves(change))))
      params = moved
    assert changes[0] > changes[1] > 0 == changes[2]
