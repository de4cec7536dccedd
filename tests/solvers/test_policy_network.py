"""Policy networks in search: what they are asked, what they learn from, where they start search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from solvers.search import find_subgames, node_beliefs, policy_targets, sample_stop
from solvers.search.starts import policy_from_network
from solvers.search.subgames import stack_subgames
from solvers.sweeps import join_levels, make_problem, split_levels
from tests import harness
from tests.trees import possible_of

RIVER = dict(ranks="TJQKA", suits="sh", board="TsJhQsKhAs", pot=200, stack=400, bets=[1.0])
GAMES = {"river_endgame_holdem": RIVER, "leduc_poker": {}}


class Case:
  """A game with a policy on it, and a network that knows the policy by heart."""

  def __init__(self, name, seed=0):
    self.game = games.make(name, **GAMES[name])
    whole = find_subgames(self.game, depth=100)  # as one subgame
    assert len(whole.trees) == 1
    self.table = stack_subgames(whole, features_of=self.game)
    self.tree = jax.tree.map(lambda x: jnp.asarray(x)[0], self.table.trees)
    self.features = jnp.asarray(self.table.node_features)[0]
    rng = np.random.default_rng(seed)
    prior = np.asarray(self.tree.prior)
    weights = rng.exponential(size=prior.shape) * (prior > 0)
    self.beliefs = jnp.asarray(weights / weights.sum(axis=1, keepdims=True), self.tree.dtype)
    self.problem = jax.jit(make_problem)(self.tree, self.beliefs)
    # A function of what the network sees: histories may look alike.
    _, seen = np.unique(np.asarray(self.features), axis=0, return_inverse=True)
    shape = (seen.max() + 1, self.game.num_actions, self.tree.num_infostates)
    rows = rng.exponential(size=shape) ** 3
    rows = rows[seen.reshape(-1)[self.tree.parent], self.tree.action]
    weights = split_levels(self.tree, rows.astype(self.tree.dtype))
    self.policy = jax.jit(type(self.problem).normalise)(self.problem, weights)

  def recall(self, policy):
    """Returns a network that looks up which decision it is asked about, and answers `policy`."""
    tree, num_actions = self.tree, self.game.num_player_actions
    kind, parent, action = (np.asarray(x) for x in (tree.kind, tree.parent, tree.action))
    joined = np.asarray(join_levels(policy))
    table = np.zeros((len(kind), num_actions, joined.shape[1]))
    for child in range(1, len(kind)):
      if kind[parent[child]] < games.CHANCE:
        table[parent[child], action[child]] = joined[child]
    return Recall(table, np.asarray(self.features))


class Recall:
  """A policy function from a table `[N, A, H]`, by the features of the decisions `[N, F]`."""

  def __init__(self, table, features):
    self.table, self.features, self.asked = table, features, []

  def __call__(self, params, query):
    features = jnp.asarray(self.features)
    distance = ((query.features[:, None] - features) ** 2).sum(axis=-1)
    self.asked.append(query)
    return jnp.asarray(self.table, query.features.dtype)[distance.argmin(axis=1)]


@pytest.mark.parametrize("name", harness.slow(GAMES, "leduc_poker"))
def test_targets_are_the_questions_and_the_right_answers(name, x64):
  case = Case(name)
  num_actions = case.game.num_player_actions
  targets = jax.jit(policy_targets, static_argnums=3)(
    case.problem, case.features, case.policy, num_actions
  )
  kind, parent, action = (
    np.asarray(x) for x in (case.tree.kind, case.tree.parent, case.tree.action)
  )
  beliefs = np.asarray(node_beliefs(case.problem, case.policy))
  policy = np.asarray(join_levels(case.policy))
  inner = [
    node
    for level, start in zip(case.tree.structure.levels, case.tree.structure.offsets)
    for node in range(start, start + level.num_inner)
  ]
  valid = np.asarray(targets.valid)
  assert len(valid) == len(inner)
  assert (valid == (kind[inner] < games.CHANCE)).all()
  for row, node in enumerate(inner):
    if not valid[row]:
      continue
    mover = int(kind[node])
    np.testing.assert_allclose(targets.query.beliefs[row, 0], beliefs[node, mover], atol=1e-12)
    np.testing.assert_allclose(targets.query.beliefs[row, 1], beliefs[node, 1 - mover], atol=1e-12)
    np.testing.assert_array_equal(
      targets.query.features[row], case.game.features(np.asarray(case.tree.state)[[node]], mover)[0]
    )
    possible = possible_of(case.tree)[node, mover]
    children = np.flatnonzero(parent == node)
    legal = np.isin(np.arange(num_actions), action[children])
    np.testing.assert_array_equal(targets.query.legal[row], legal)
    for child in children:
      answer = targets.policy[row, action[child]]
      np.testing.assert_allclose(answer, policy[child] * possible, atol=1e-12)
    assert not np.asarray(targets.policy[row])[~legal].any()


def test_targets_ask_what_search_will_ask(x64):
  case = Case("river_endgame_holdem")
  network = case.recall(case.policy)
  arguments = (case.problem, case.features)
  num_actions = case.game.num_player_actions

  @jax.jit
  def asked_about(problem, features):
    policy_from_network(problem, features, network, None, num_actions)
    return jnp.concatenate([query.beliefs for query in network.asked])

  asked = np.asarray(asked_about(*arguments))
  targets_of = jax.jit(policy_targets, static_argnums=3)
  targets = targets_of(*arguments, case.policy, num_actions)
  np.testing.assert_allclose(asked, targets.query.beliefs, atol=1e-12)
  uniform = case.problem.uniform_policy()
  other = targets_of(*arguments, uniform, num_actions)
  assert np.abs(asked - other.query.beliefs).max() > 0.01


def test_stops_are_drawn_as_if_the_warm_start_had_been_searched():
  stops = np.asarray(sample_stop(jax.random.key(0), (40_000,), 8, 1.0, 15))
  share = np.bincount(stops, minlength=4) / len(stops)
  np.testing.assert_allclose(share, np.arange(16, 20) / np.arange(16, 20).sum(), atol=0.01)
  cold = np.asarray(sample_stop(jax.random.key(0), (40_000,), 8, 1.0))
  assert np.abs(np.bincount(cold, minlength=4) / len(cold) - share).max() > 0.1
