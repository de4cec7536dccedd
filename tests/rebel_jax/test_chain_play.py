"""Training by chains of searches that make their trees: what is learned, and how it is measured."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from rebel_jax.training import chain_play
from rebel_jax.training.setup import make_setup
from solvers.growing.continual.chain import Found
from solvers.growing.gt_cfr import Asked
from tests.harness import fast_to_compile
from tests.tiny import TINY_GROWING as TINY

KUHN = games.make("kuhn_poker")
TREE = games.build_public_tree(KUHN)
NODES = {int(state): node for node, state in enumerate(TREE.state[:, 0])}


@pytest.fixture(autouse=True)
def kuhn_by_rules(monkeypatch):
  """Poker whose trees searches make."""
  monkeypatch.setattr(games.KuhnPoker, "written", False)


def found_without_search(ground, about, policy, values):
  """Returns what searches may have come to, with questions about the decisions themselves."""
  zeros = jnp.zeros(len(values), jnp.int32)
  left = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(values), *x.shape)), ground.nothing())
  left = left._replace(current=zeros, here=about.here)
  asked = Asked(about.here, about.beliefs, zeros + 1)
  return Found(policy, values, values, jnp.ones_like(values), left, asked)


def searched_for_nothing(ground, about, *_, **__):
  """Returns uniform policies, and beliefs for values."""
  moves = ground.rules.moves_of(*about.here).action >= 0
  policy = moves / jnp.maximum(moves.sum(axis=1, keepdims=True), 1)
  return found_without_search(ground, about, policy, about.beliefs)


@pytest.mark.parametrize("solves", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_steps_learn_what_beliefs_are_worth(solves, monkeypatch):
  if not solves:
    monkeypatch.setattr(chain_play, "search_each", searched_for_nothing)
  config = TINY.replace(simulations=30, query_share=1.0, lanes=8)
  setup = make_setup(config)
  play = setup.trainer.self_play
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  lanes = jax.tree.map(lambda x: x[0], state.lanes)
  step = fast_to_compile(functools.partial(play.step, setup.table))
  tree = TREE
  seen, ended = 0, 0
  for number in range(8):
    waiting, taken = lanes.waiting, int(lanes.taken)
    played = step(lanes, state.params, jax.random.key(number))
    ((solved, active),) = played.searched
    active = np.asarray(active)
    places = np.arange(taken, int(waiting.added))[: play.num_solvers]
    assert active.sum() == len(places)
    for row, place in zip(np.flatnonzero(active), places):
      asked = jax.tree.map(lambda x, p=place % waiting.capacity: np.asarray(x)[p], waiting.examples)
      node = NODES[int(asked.here.state[0])]
      turn = slice(None, None, -1 if tree.kind[node] == 1 else 1)
      np.testing.assert_allclose(solved.beliefs[row].reshape(2, -1), asked.beliefs[turn], atol=1e-6)
      # All is in the tree after thirty simulations: the values are those of plain CFR, nearly.
      values = np.asarray(solved.values)[row][turn]
      worth = (values * asked.beliefs).sum(axis=1)
      if not solves:
        np.testing.assert_allclose(values, asked.beliefs, atol=1e-6)
      elif seen < 6:  # each solves another tree
        assert np.abs(worth - solved_worth(node, asked.beliefs)).max() < 0.25
      policy, comes_from = np.asarray(solved.policy)[row], np.asarray(solved.comes_from)[row]
      np.testing.assert_allclose(policy.sum(axis=0), 1.0, atol=1e-5)
      np.testing.assert_array_equal(comes_from, np.broadcast_to(np.arange(3), comes_from.shape))
      seen += 1
    mover = np.asarray(KUHN.actor(lanes.standing.here.state))
    assert (mover < games.CHANCE).all()
    after = played.lanes
    begun = np.asarray(after.moves) == 0
    ended += begun.sum()
    assert (np.asarray(after.left.current)[begun] == -1).all()
    left = np.asarray(after.left.current)[np.arange(8), mover]
    assert (left[~begun] >= 0).all()
    lanes = after
  assert seen > 8
  assert ended > 8


def solved_worth(node, beliefs):
  """Returns what players expect at a node of Kuhn poker, `[P]`."""
  exact = solvers.solve(
    games.build_public_tree(games.make("kuhn_poker"), root=TREE.history(node)),
    algorithm=solvers.cfr_plus(),
    num_iterations=400,
    beliefs=beliefs,
  )
  return (np.asarray(exact.root_values) * beliefs).sum(axis=1)
