"""Growing searches that ask a value-and-policy network, and many of them side by side."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from solvers import StateAnswer, StateQuery
from solvers.growing import deal, play_on, tree_ground
from solvers.growing.states import ask_some
from tests.solvers.test_growing import setting

KEY = jax.random.key(0)


def test_an_accelerator_answers_all_rows_at_once(accelerator):
  assert only_what_is_wanted(300) == 3 * 300


@pytest.mark.parametrize("number", [9, 300])
def test_only_what_is_wanted_is_answered(number):
  most = only_what_is_wanted(number)
  assert most < 3 * number or number < 300


def only_what_is_wanted(number):
  """Checks what is answered of three lanes; returns the most rows of one call."""
  rng = np.random.default_rng(0)
  calls = []

  def function(params, query):
    calls.append(len(query.beliefs))
    rows = query.beliefs * params + query.features[:, None]
    return StateAnswer(rows, rows[:, :1])

  beliefs = jnp.asarray(rng.random((3, number, 2, 2)), jnp.float32)
  features = jnp.asarray(rng.random((number, 2)), jnp.float32)
  wanted = jnp.asarray(rng.random((3, number)) < 0.5)
  ask = functools.partial(ask_some, function)
  expected = np.where(wanted[:, :, None, None], beliefs * 2.0 + features[:, None], 0.0)
  alone = jax.jit(ask)(2.0, StateQuery(features, beliefs[0]), wanted[0])
  np.testing.assert_allclose(alone.values, expected[0], rtol=1e-6)
  axes = (None, StateQuery(None, 0), 0)
  lanes = jax.jit(jax.vmap(ask, in_axes=axes))(2.0, StateQuery(features, beliefs), wanted)
  np.testing.assert_allclose(lanes.values, expected, rtol=1e-6)
  each = jax.jit(jax.vmap(ask, in_axes=(0, StateQuery(None, 0), 0)))
  own = each(jnp.array([1.0, 2.0, 3.0]), StateQuery(features, beliefs), wanted)
  np.testing.assert_allclose(own.values[1], expected[1], rtol=1e-6)
  assert np.abs(np.asarray(own.values) - expected).max() > 0.1
  return max(calls)


def test_games_go_on_by_the_policy_and_the_deal():
  game, tree, _ = setting("kuhn_poker", np.float32)
  rules = jax.tree.map(jnp.asarray, tree_ground(game, tree).rules)
  slots = np.asarray(rules.tables.info.child)
  rng = np.random.default_rng(4)
  policy = rng.random((tree.num_nodes, tree.num_infostates)).astype(np.float32)
  kinds, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  for node in np.flatnonzero(kinds < games.CHANCE):
    kids = slots[node][slots[node] >= 0]
    policy[kids] /= policy[kids].sum(axis=0)

  @jax.jit
  @functools.partial(jax.vmap, in_axes=(0, None))
  def play(key, exploration):
    standing, over = deal(rules, key), jnp.zeros((), bool)
    for step in range(3):
      rows = jnp.asarray(policy)[rules.tables.info.child[standing.here.state[0]]]
      key_now = jax.random.fold_in(key, step)
      new, ends = play_on(rules, standing, rows, key_now, exploration=exploration)
      standing = jax.tree.map(lambda x, y, over=over: jnp.where(over, x, y), standing, new)
      over |= ends
    return standing.here.state[0], standing.hands

  ends, hands = (np.asarray(x) for x in play(jax.random.split(KEY, 20_000), 0.0))
  assert (kinds[ends] == games.TERMINAL).all()
  assert (hands[:, 0] != hands[:, 1]).all()
  expected = np.zeros(tree.num_nodes)
  for end in np.flatnonzero(kinds == games.TERMINAL):
    for mine, yours in np.argwhere(~np.eye(3, dtype=bool)):
      likely, node = 1 / 6, end
      while node > 0:
        mover = kinds[parent[node]]
        likely *= policy[node, (mine, yours)[mover]]
        node = parent[node]
      expected[end] += likely
  shares = np.bincount(ends, minlength=tree.num_nodes) / len(ends)
  np.testing.assert_allclose(shares, expected, atol=0.012)
  explored, _ = play(jax.random.split(KEY, 20_000), 0.9)
  others = np.bincount(np.asarray(explored), minlength=tree.num_nodes) / len(ends)
  assert np.abs(others - expected).max() > 0.03
