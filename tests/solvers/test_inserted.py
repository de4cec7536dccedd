"""Trees that grow by insertion: what both stores find, what fits, perfect information."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import GTCFR, StateAnswer
from solvers.growing.gt_cfr import grow
from solvers.growing.insertion import tree as tree_module
from solvers.growing.insertion.tree import ByRules, InsertedTree, insert, plant
from tests.sentences import refused

KEY = jax.random.key(3)


def setting(name, dtype=np.float64, **parameters):
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game).astype(dtype)
  return tree, solvers.node_info(game, tree), games.tabulate(game, tree)


def judges(tree, info, table):
  """Returns a judgement of public belief states, and the features that it sees."""
  seen = np.random.default_rng(0).normal(size=(tree.num_nodes, 1))
  info = info._replace(features=np.stack([seen, seen]))
  table.tables = table.tables._replace(info=info)

  def worth(features, ours, other):
    return 0.3 * features * (1.0 + ours) + ours - (other**2).sum(axis=1)[:, None]

  def states(params, query):
    first, second = query.beliefs[:, 0], query.beliefs[:, 1]
    both = [worth(query.features, first, second), worth(query.features, second, first)]
    logits = jnp.sin(9 * query.features * (1 + jnp.arange(table.num_actions)))[:, :, None]
    return StateAnswer(jnp.stack(both, axis=1), logits + jnp.zeros(tree.num_infostates))

  return info, states


def difference(marked, grown):
  """Returns the largest difference of marked and inserted searches, infinite if of other nodes."""
  there = np.asarray(grown.present)
  nodes = np.asarray(grown.tree.state)[there, 0]
  if set(nodes.tolist()) != set(np.flatnonzero(np.asarray(marked.present)).tolist()):
    return np.inf
  pairs = [(marked.root_values, grown.root_values)]
  for name in ("average_policy", "values", "reach"):
    ours, theirs = (np.asarray(getattr(x, name)) for x in (marked, grown))
    pairs.append((ours[..., nodes, :], theirs[..., there, :]))
  pairs += [(marked.visits[nodes], grown.visits[there]), (marked.policy, grown.policy)]
  pairs.append((np.asarray(marked.known)[:, nodes] * 1.0, np.asarray(grown.known)[:, there] * 1.0))
  return max(np.abs(np.asarray(a) - b).max() for a, b in pairs)


@pytest.mark.parametrize(
  ("name", "search", "leaves"),
  [
    ("kuhn_poker", GTCFR(simulations=40, per_update=2, children=1, alternating=True), True),
    pytest.param("leduc_poker", GTCFR(simulations=40, children=2), False, marks=pytest.mark.slow),
    pytest.param(
      "leduc_poker", GTCFR(10, per_update=0.25, selection="average"), True, marks=pytest.mark.slow
    ),
  ],
)
def test_both_stores_find_the_same(name, search, leaves, x64):
  """Digit by digit, with the same keys; control: another key."""
  tree, info, table = setting(name)
  states = None
  if leaves:
    info, states = judges(tree, info, table)
  marked = solvers.gt_cfr(tree, info, search=search, key=KEY, network=states)
  grown = solvers.gt_cfr(table, search=search, key=KEY, network=states)
  assert difference(marked, grown) < 1e-12
  assert int(grown.tree.lost) == 0
  other = solvers.gt_cfr(table, search=search, key=jax.random.key(4), network=states)
  assert difference(marked, other) > 1e-6


@pytest.mark.parametrize(
  ("name", "level"), [("kuhn_poker", 1), pytest.param("leduc_poker", 4, marks=pytest.mark.slow)]
)
def test_both_stores_resolve_alike(name, level, x64):
  tree, info, table = setting(name)
  here = np.arange(tree.num_nodes) >= tree.structure.offsets[level]
  root = int(np.flatnonzero(here & (tree.kind < games.CHANCE))[0])
  current = int(np.flatnonzero((tree.parent == root) & (tree.kind != games.TERMINAL))[:1].sum())
  path = [int(tree.action[current])] if current else []
  rng = np.random.default_rng(2)
  possible = (
    np.ones((2, tree.num_infostates), bool) if tree.possible is None else tree.possible[root]
  )
  beliefs = rng.random(possible.shape) * possible
  beliefs /= beliefs.sum(axis=1, keepdims=True)
  searcher = int(tree.kind[root])
  promised = solvers.Alternatives(
    rng.normal(size=tree.num_infostates), beliefs=beliefs[1 - searcher]
  )
  info, states = judges(tree, info, table)
  search = GTCFR(simulations=30)
  given = dict(search=search, key=KEY, beliefs=beliefs, searcher=searcher, network=states)
  marked = solvers.gt_cfr(
    tree, info, root=root, current=current or root, alternatives=promised, **given
  )
  start = dict(root=np.array([root], np.int32), possible=possible)
  grown = solvers.gt_cfr(table, path=path, alternatives=promised, **start, **given)
  assert difference(marked, grown) < 1e-12
  assert int(grown.tree.state[grown.current, 0]) == (current or root)
  less = solvers.Alternatives(promised.value - 1.0, beliefs=promised.beliefs)
  other = solvers.gt_cfr(table, path=path, alternatives=less, **start, **given)
  assert difference(marked, other) > 1e-6


def likes(seed):
  """Returns a network for tic-tac-toe that prefers some squares, and values marks on others."""

  def network(params, query):
    worth = jnp.tanh(query.features @ params["values"])[:, None]
    logits = query.features @ params["logits"]
    return StateAnswer(jnp.stack([worth, -worth], axis=1), logits[:, :, None])

  rng = np.random.default_rng(seed)
  return network, {"values": rng.normal(size=18), "logits": rng.normal(size=(18, 9))}


def test_states_of_one_infostate_are_asked_once(x64, monkeypatch):
  game, search, (network, params) = games.TicTacToe(), GTCFR(simulations=60, children=1), likes(0)
  given = jnp.asarray(game.initial_state()), np.ones((2, 1), bool), jnp.zeros(0, int)
  start = ByRules(*given, jnp.ones((2, 1)), None, game, 120)

  def found(params):
    return grow(start, KEY, params, search.rounds, search.of_any_length(), network=network)

  once, other = found(params), found(likes(1)[1])
  jax.clear_caches()
  monkeypatch.setattr(InsertedTree, "asks_once", False)
  again = found(params)
  jax.clear_caches()
  for name in ("average_policy", "root_values", "visits", "values"):
    np.testing.assert_allclose(getattr(once, name), getattr(again, name), atol=1e-12)
  np.testing.assert_array_equal(once.tree.state, again.tree.state)
  asked = int(once.tree.count) - 1  # the last node joined after the last update
  np.testing.assert_allclose(once.tree.prior[:asked], again.tree.prior[:asked], atol=1e-12)
  logits = np.asarray(once.tree.features[1]) @ params["logits"]
  expected = np.exp(logits) * np.asarray(once.tree.legal[1])
  np.testing.assert_allclose(once.tree.prior[1, :, 0], expected / expected.sum(), atol=1e-12)
  assert np.abs(np.asarray(other.root_values) - once.root_values).max() > 1e-3


def test_many_children_are_written_some_at_a_time(monkeypatch):
  """Control: a block left out leaves places empty."""

  def grown(at_once):
    monkeypatch.setattr(tree_module, "_AT_ONCE", at_once)
    game = games.TicTacToe()

    @jax.jit
    def grow():
      tree = plant(game, game.initial_state(), np.ones((2, 1), bool), 20, float)
      tree, first = insert(tree, jnp.zeros((), int), tree.legal[0], 9)
      tree, second = insert(tree, jnp.array(3), tree.legal[3], 9)
      return tree, (first, second)

    return grow()

  whole = grown(9)
  for at_once in (4, 1):
    chex.assert_trees_all_equal(grown(at_once), whole)
  assert int(whole[0].count) == 18
  monkeypatch.setattr(tree_module, "_put_children", lambda tree, *_: tree)
  assert (grown(4)[0].kind != whole[0].kind).any()


def call(**arguments):
  right = dict(rules=games.TicTacToe(), search=GTCFR(simulations=2), key=KEY)
  solvers.gt_cfr(**(right | arguments))


test_calls_are_checked = refused(
  (lambda: call(rules=games.TicTacToe), "must be a games.Game"),
  (lambda: call(capacity=9), "capacity=9 must have room"),
  (lambda: call(search=GTCFR(simulations=0, updates=1, whole=True)), "whole is not for games"),
  (lambda: call(root=np.zeros(9, int)), "beliefs=None"),
)
