"""All layers in one kernel give what they give one by one; lowered for a GPU, run step by step."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from rebel_jax.networks.names import PRECISIONS
from rebel_jax.networks.value import NetworkLeafValues, ValueNetwork
from rebel_jax.training import loop as training
from rebel_jax.training.setup import make_setup
from solvers import LeafQuery
from tests.products import equations
from tests.tiny import TINY, python

BACKEND = "jax.experimental.pallas.triton"


def ask(network, params, features, beliefs):
  query = LeafQuery(features=features, beliefs=beliefs.reshape(-1, 2, 4), traverser=0)
  return NetworkLeafValues(network)({"value": params}, query)


def make(network, rows, features=None):
  """Returns parameters moved from where they start, public features and beliefs."""
  keys = jax.random.split(jax.random.key(0), 4)
  if features is None:
    features = jax.random.normal(keys[0], (rows, 5))
  beliefs = jax.random.uniform(keys[1], (rows, 2 * network.num_infostates))
  params = jax.jit(network.init)(keys[2], features, beliefs)
  leaves, structure = jax.tree.flatten(params)
  rng = np.random.default_rng(0)
  leaves = [x + 0.1 * rng.normal(size=x.shape).astype(x.dtype) for x in map(np.asarray, leaves)]
  return jax.tree.unflatten(structure, leaves), features, beliefs


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


@pytest.mark.parametrize("precision", ["tensorfloat32", "bfloat16_activations"])
def test_it_rounds_what_it_should(precision):
  network = ValueNetwork(3, hidden_layers=3, width=32, precision=precision)
  params, features, beliefs = make(network, 16)
  expected, found = both_ways(network, params, features, beliefs)
  exact = network.clone(precision="float32").apply(params, features, beliefs)
  # What stays on the chip is not rounded to be kept, and a CPU knows no TensorFloat-32.
  close = {"bfloat16_activations": 0.03, "tensorfloat32": 3e-3}.get(precision, 2e-5)
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
  init = functools.partial(training._init, setup.trainer, 1)
  state = jax.eval_shape(lambda seed: init(setup.table, seed), jnp.asarray(0))
  run = functools.partial(training._run_on_mesh, setup.trainer, setup.mesh)
  found = equations(run, jnp.asarray(1), setup.table, state)
  assert sum(x.primitive.name == "pallas_call" for x in found) == 2 * fused


def test_commands_do_without_the_backend():
  """JAX has announced its removal; networks of single layers need none."""
  modules = ("train", "evaluate", "match", "play", "spot", "networks.value")
  program = f"import sys; sys.modules[{BACKEND!r}] = None\n"
  program += "".join(f"import rebel_jax.{module}\n" for module in modules)
  python(program)
