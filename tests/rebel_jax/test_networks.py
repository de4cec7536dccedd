"""The value network is the papers': linear layers, LayerNorm, GELU."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rebel_jax.networks.names import PRECISIONS
from rebel_jax.networks.value import NetworkLeafValues, ValueNetwork, product
from solvers import LeafQuery


def make(network, rows):
  """Returns parameters moved from where they start, public features and beliefs."""
  keys = jax.random.split(jax.random.key(0), 4)
  features = jax.random.normal(keys[0], (rows, 5))
  beliefs = jax.random.uniform(keys[1], (rows, 2 * network.num_infostates))
  params = jax.jit(network.init)(keys[2], features, beliefs)
  # Biases and scales start at zero and one: move them, or they could be forgotten unseen.
  leaves, structure = jax.tree.flatten(params)
  rng = np.random.default_rng(0)
  leaves = [x + 0.2 * rng.normal(size=x.shape).astype(x.dtype) for x in map(np.asarray, leaves)]
  return jax.tree.unflatten(structure, leaves), features, beliefs


class Plain(nn.Module):
  """The same network from Flax's own layers, public features and beliefs joined."""

  num_infostates: int
  hidden_layers: int
  width: int
  layer_norm: bool = True

  @nn.compact
  def __call__(self, x):
    for _ in range(self.hidden_layers):
      x = nn.Dense(self.width)(x)
      if self.layer_norm:
        x = nn.LayerNorm()(x)
      x = nn.gelu(x, approximate=True)
    return nn.Dense(self.num_infostates)(x)


def as_plain(params, hidden_layers, layer_norm=True):
  """Returns the parameters of `Plain`: the first layer's two parts on top of each other."""
  ours = params["params"]
  first = jnp.concatenate([ours["public"]["kernel"], ours["beliefs"]["kernel"]])
  plain = {"Dense_0": {"kernel": first, "bias": ours["public"]["bias"]}}
  for i in range(1, hidden_layers):
    plain[f"Dense_{i}"] = ours[f"hidden_{i - 1}"]
  plain[f"Dense_{hidden_layers}"] = ours["out"]
  if layer_norm:
    for i in range(hidden_layers):
      plain[f"LayerNorm_{i}"] = ours[f"norms_{i}"]
  return {"params": plain}


@pytest.mark.parametrize(
  ("hidden_layers", "belief_roots", "width"), [(1, 0, 32), (3, 0, 24), (2, 2, 96)]
)
def test_it_is_the_plain_network(hidden_layers, belief_roots, width, x64):
  network = ValueNetwork(3, hidden_layers=hidden_layers, width=width, belief_roots=belief_roots)
  params, features, beliefs = make(network, 7)
  plain = Plain(3, hidden_layers, width)
  roots = [beliefs ** (0.5**i) for i in range(1 + belief_roots)]
  joined = jnp.concatenate([features, *roots], axis=-1)
  expected = jax.jit(plain.apply)(as_plain(params, hidden_layers), joined)
  found = jax.jit(network.apply)(params, features, beliefs)
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
  # Control: a network whose layers keep their means is another one.
  other = Plain(3, hidden_layers, width, layer_norm=False)
  values = jax.jit(other.apply)(as_plain(params, hidden_layers, layer_norm=False), joined)
  assert np.abs(values - expected).max() > 1e-2


@pytest.mark.parametrize(("precision", "bits"), [("tensorfloat32", 10), ("bfloat16", 7)])
def test_products_are_rounded_once(precision, bits):
  keys = jax.random.split(jax.random.key(0))
  x, w = (jax.random.normal(key, (64, 64)) for key in keys)
  exact = np.asarray(x, np.float64) @ np.asarray(w, np.float64)
  error = np.sqrt(((np.asarray(product(x, w, precision)) - exact) ** 2).mean())
  # A factor's error is uniform in its last place: relative deviation about 2^-bits / sqrt(24).
  expected = np.sqrt(2 * 64 / 24) * 2.0**-bits
  assert expected / 2.5 < error < 1.2 * expected
  exactly = np.asarray(product(x, w, "float32"))
  assert np.sqrt(((exactly - exact) ** 2).mean()) < 1e-2 * expected


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_hidden_layers_pass_on(precision):
  network = ValueNetwork(3, hidden_layers=3, width=8, precision=precision)
  features, beliefs = jnp.ones((4, 5)), jnp.eye(4, 6)
  params = jax.jit(network.init)(jax.random.key(0), features, beliefs)
  encoded = network.apply(params, features, method="encode")
  half = jnp.bfloat16 if precision == "bfloat16_activations" else jnp.float32
  assert encoded.dtype == half
  program = jax.make_jaxpr(lambda *x: network.apply(params, *x, method="decode"))(encoded, beliefs)
  products = [e for e in program.eqns if e.primitive.name == "dot_general"]
  assert [e.outvars[0].aval.dtype for e in products] == [half, half, half, jnp.float32]
  assert program.out_avals[0].dtype == jnp.float32


def test_means_are_taken_out_before_a_search():
  """The answers are the same, and searches find weights that have none; control: other means."""
  network = NetworkLeafValues(ValueNetwork(3, hidden_layers=2, width=24))
  features, beliefs = jax.random.normal(jax.random.key(0), (7, 5)), jnp.full((7, 2, 3), 1 / 3)
  params = {"value": jax.jit(network.network.init)(jax.random.key(1), features, jnp.ones((7, 6)))}
  query = LeafQuery(features, 0, beliefs)
  expected = network(params, query)
  ready, centred, encoded = network.before_loop(params, (features, features))
  np.testing.assert_allclose(ready(centred, query), expected, atol=1e-5)
  np.testing.assert_allclose(
    ready(centred, query._replace(encoded=encoded[0])), expected, atol=1e-5
  )
  assert abs(ready(params, query) - expected).max() > 1e-3
  for name, layer in centred["value"]["params"].items():
    if "kernel" in layer:
      assert (abs(layer["kernel"].mean(axis=-1)).max() < 1e-6) == (name != "out")
