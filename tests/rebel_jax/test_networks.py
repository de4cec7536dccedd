"""The value network is the papers': linear layers, LayerNorm, GELU, also in one kernel of a GPU."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from rebel_jax.networks.names import PRECISIONS
from rebel_jax.networks.value import NetworkLeafValues, ValueNetwork, product
from rebel_jax.training import loop
from rebel_jax.training.setup import make_setup
from solvers import LeafQuery
from tests.products import equations
from tests.tiny import TINY, python

BACKEND = "jax.experimental.pallas.triton"


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


def ask(network, params, features, beliefs):
  query = LeafQuery(features=features, beliefs=beliefs.reshape(-1, 2, 4), traverser=0)
  return NetworkLeafValues(network)({"value": params}, query)


def both_ways(network, params, features, beliefs):
  """Returns values layer by layer and those of the kernel's steps."""
  encoded = network.apply(params, features, method="encode")
  one_by_one = network.apply(params, encoded, beliefs, method="decode")
  return one_by_one, network.apply(params, encoded, beliefs, kernel="interpret", method="decode")


@pytest.fixture
def lowered_for_a_gpu():
  """Lets kernels be lowered where no GPU is at hand; JAX asks which one it is for."""
  pytest.importorskip(BACKEND, reason="this JAX has no Triton backend of Pallas")
  gpu = AbstractDevice("NVIDIA H100", None, "gpu")
  with use_abstract_mesh(AbstractMesh((), (), abstract_device=gpu)):
    yield


# Sizes that fill tiles and such that do not; one block of rows, a part of one, and several.
@pytest.mark.parametrize(
  ("num_infostates", "rows", "sizes"),
  [
    (4, 70, dict(width=96, hidden_layers=4, belief_roots=2, activation="relu")),
    pytest.param(70, 130, dict(width=24, hidden_layers=3, belief_roots=1), marks=pytest.mark.slow),
  ],
)
def test_the_kernel_computes_the_network(num_infostates, rows, sizes):
  network = ValueNetwork(num_infostates, precision="float32", **sizes)
  params, features, beliefs = make(network, rows)
  expected, found = both_ways(network, params, features, beliefs)
  assert found.shape == expected.shape == (rows, num_infostates)
  assert np.abs(expected).max() > 0.3
  np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


# What stays on the chip is not rounded to be kept, and a CPU knows no TensorFloat-32.
@pytest.mark.parametrize(
  ("precision", "close"), [("tensorfloat32", 3e-3), ("bfloat16_activations", 0.03)]
)
def test_it_rounds_what_it_should(precision, close):
  network = ValueNetwork(3, hidden_layers=3, width=32, precision=precision)
  params, features, beliefs = make(network, 16)
  expected, found = both_ways(network, params, features, beliefs)
  exact = network.clone(precision="float32").apply(params, features, beliefs)
  np.testing.assert_allclose(found, expected, rtol=0, atol=close)
  assert (np.abs(found - exact).max() > 1e-3) == precision.startswith("bfloat16")


# Whoever asks for the kernel is warned; `test_commands_do_without_the_backend` is for the rest.
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.usefixtures("lowered_for_a_gpu")
@pytest.mark.parametrize(("fused", "precision"), [(True, PRECISIONS[-1]), (False, PRECISIONS[0])])
def test_searches_ask_it_on_nvidias_gpus_and_nowhere_else(fused, precision):
  network = ValueNetwork(4, width=96, precision=precision, fused=fused)
  params, features, beliefs = make(network, 32)

  arguments = (params, features, beliefs)
  program = jax.jit(ask, static_argnums=0).trace(network, *arguments)
  # Lowering writes the kernel in Triton's language, which refuses what a GPU could not do.
  kernels = {
    platform: program.lower(lowering_platforms=(platform,)).as_text().count("triton")
    for platform in ("cuda", "cpu", "tpu")
  }
  assert kernels == {"cuda": int(fused), "cpu": 0, "tpu": 0}
  plain = ask(network.clone(fused=False), *arguments)
  np.testing.assert_array_equal(ask(network, *arguments), plain)


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_training_searches_with_it(fused):
  setup = make_setup(TINY.replace(fused_network=fused), 1)
  init = functools.partial(loop._init, setup.trainer, 1)
  state = jax.eval_shape(lambda seed: init(setup.table, seed), jnp.asarray(0))
  run = functools.partial(loop._run_on_mesh, setup.trainer, setup.mesh)
  found = equations(run, jnp.asarray(1), setup.table, state)
  assert sum(x.primitive.name == "pallas_call" for x in found) == 2 * fused


def test_commands_do_without_the_backend():
  """JAX has announced its removal; networks of single layers need none."""
  modules = ("train", "evaluate", "match", "play", "spot", "networks.value")
  program = f"import sys; sys.modules[{BACKEND!r}] = None\n"
  program += "".join(f"import rebel_jax.{module}\n" for module in modules)
  python(program)
