"""Training rows from inside a solved subgame: right values, on the right rows, when asked."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.build import build_from_state
from rebel_jax.config import ConfigError
from rebel_jax.examples import MIN_OWN_REACH, MIN_REACH, make_inner_examples
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.self_play import init_lanes, self_play_step
from rebel_jax.setup import make_setup
from solvers import traversal
from solvers.batch_search import search_batch
from solvers.evaluate_policy import policy_values
from solvers.inner_nodes import add_inner_states, batch_inner_values, inner_nodes
from solvers.subgames import find_subgames, stack_subgames
from tests.test_batch_search import make_params, random_root_beliefs, row_values
from tests.tiny import TINY

# A game, the depth of its subgames, and which of these: those of poker have public chance inside,
# and cards that block each other; some are smaller than the common shape.
HOLDEM = {"ranks": "QKA", "suits": "shdc", "board": "QsKhAdQh", "pot": 200, "stack": 300}
CASES: dict[str, tuple[dict, int, tuple[int, ...] | None]] = {
  "liars_dice": ({"num_dice": 1, "num_faces": 2}, 2, None),
  "leduc_poker": ({}, 3, (0, 1, -1)),
  "turn_endgame_holdem": (HOLDEM, 4, (0, 1)),
}


@pytest.fixture(params=CASES)
def solved(request, x64):
  """Returns what `solve` does, in float64."""
  return solve(request.param)


@functools.cache
def solve(name):
  """Returns a game, its depth, table, beliefs and leaf parameters, a search and inner values."""
  params, depth, entries = CASES[name]
  game = games.make(name, **params)
  subgames = find_subgames(game, depth=depth)
  if entries is not None:
    entries = [range(len(subgames.trees))[i] for i in entries]
  table = add_inner_states(game, stack_subgames(subgames, entries))
  roots = np.arange(table.num_subgames)
  rng = np.random.default_rng(0)
  trees = [subgames.trees[i] for i in entries or roots]
  beliefs = np.stack([random_root_beliefs(rng, tree) for tree in trees])
  params, num_rows = make_params(trees[0]), int(table.num_live.sum())

  @jax.jit
  def search(table, roots, beliefs):
    result = search_batch(
      table, roots, beliefs, jnp.zeros(len(roots), int), 6,
      algorithm=solvers.linear_cfr(), leaf_values=row_values, params=params,
      num_rows=num_rows, answer_average=True,
    )  # fmt: skip
    return result, batch_inner_values(table, roots, beliefs, result)

  result, inner = jax.tree.map(np.asarray, search(table, roots, beliefs))
  return game, depth, table, beliefs, params, result, inner


def history(trees, root, node):
  """Returns the actions from a stacked tree's root to one of its nodes."""
  actions = []
  while trees.parent[root, node] >= 0:
    actions.append(int(trees.action[root, node]))
    node = int(trees.parent[root, node])
  return tuple(reversed(actions))


def by_history(trees, root):
  """Returns the place of every node of a stacked tree by the actions that lead to it."""
  real = np.flatnonzero(np.asarray(trees.kind)[root] != games.PADDING)
  return {history(trees, root, node): node for node in real}


@jax.jit
def value_policy(tree, beliefs, policy, params):
  """Returns both players' values `[P, H]` at the root of one tree, and the others' mass there."""
  setting = traversal.prepare(tree, beliefs)
  levels = traversal.split_levels(tree, policy)
  leaf_values = row_values if tree.depth_limited else None
  return policy_values(tree, setting, levels, leaf_values, params), setting.root_mass


def test_inner_values_are_those_of_the_rest_of_the_subgame(solved):
  """Each inner node as the root of a tree of its own, with the average policy that search found."""
  game, depth, table, _, params, result, inner = solved
  trees = jax.tree.map(np.asarray, table.trees)
  average = np.concatenate([np.asarray(level) for level in result.average_policy], axis=1)
  places, seen, chance = inner_nodes(trees.structure), 0, 0
  for root in range(table.num_subgames):
    nodes = by_history(trees, root)
    for i, place in enumerate(places):
      if trees.kind[root, place] == games.PADDING:
        assert inner.reach[root, i] == 0
        continue
      above = history(trees, root, place)
      allowed = np.ones_like(inner.possible[root, i])
      if trees.possible is not None:
        allowed = trees.possible[root, place]
      state = trees.state[root, place]
      tree = build_from_state(game, state, possible=allowed, depth=depth - len(above))
      policy = np.ones((tree.num_nodes, tree.num_infostates))
      for node in range(1, tree.num_nodes):
        policy[node] = average[root, nodes[above + tree.history(node)]]
      beliefs = inner.beliefs[root, i]
      expected, mass = value_policy(tree, beliefs, policy, params)
      possible = inner.possible[root, i]
      np.testing.assert_allclose(beliefs.sum(axis=-1), 1.0, atol=1e-12)
      np.testing.assert_array_equal(possible, allowed & (mass > 0))
      np.testing.assert_allclose(
        inner.values[root, i][possible], np.asarray(expected)[possible], atol=1e-10
      )
      # From both seats, as the game itself shows the state.
      for player in (0, 1):
        np.testing.assert_array_equal(
          table.inner.features[root, i, player], game.features(state[None], player)[0]
        )
      seen += 1
      chance += int(trees.kind[root, place] == games.CHANCE)
  assert seen > 5
  assert (chance > 0) == (game.name != "liars_dice")


def test_reach_is_the_probability_of_play(solved):
  """By enumerating pairs of infostates and walking up to the root."""
  _, _, table, beliefs, _, result, inner = solved
  trees = jax.tree.map(np.asarray, table.trees)
  average = np.concatenate([np.asarray(level) for level in result.average_policy], axis=1)
  for root in range(table.num_subgames):
    if trees.hands is None:
      weights = trees.pair_weights[root][trees.root_pair_index[root]]
    else:
      hands = [set(hand) for hand in np.asarray(trees.hands[root]).tolist()]
      weights = np.array([[not a & b for b in hands] for a in hands])
    joint = np.outer(*beliefs[root]) * weights
    for i, place in enumerate(inner_nodes(trees.structure)):
      if trees.kind[root, place] == games.PADDING:
        continue
      path, node = joint / joint.sum(), place
      while trees.parent[root, node] >= 0:
        above = trees.parent[root, node]
        mover = trees.kind[root, above]
        if mover == 0:
          path = path * average[root, node][:, None]
        elif mover == 1:
          path = path * average[root, node][None]
        else:
          possible = trees.possible[root, node]
          path = path * trees.chance_probability[root, node] * np.outer(*possible)
        node = above
      np.testing.assert_allclose(inner.reach[root, i], path.sum(), atol=1e-10)


def test_rows_are_drawn_by_reach_and_masked_where_play_hardly_goes(solved):
  *_, table, _, _, _, inner = solved
  roots = jnp.arange(table.num_subgames)
  size = inner.reach.shape[1]
  examples, valid = make_inner_examples(table, roots, inner, jax.random.key(0), size + 3)
  valid = np.asarray(valid).reshape(2, table.num_subgames, size)
  np.testing.assert_array_equal(valid.sum(axis=-1)[0], (inner.reach >= MIN_REACH).sum(axis=-1))
  # All that are drawn from a subgame differ, and each seat has its own beliefs first.
  rows = jax.tree.map(lambda x: np.asarray(x).reshape(2, table.num_subgames, size, -1), examples)
  for root in range(table.num_subgames):
    found = rows.beliefs[0, root][valid[0, root]]
    expected = inner.beliefs[root][inner.reach[root] >= MIN_REACH].reshape(-1, found.shape[-1])
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))
  half = rows.beliefs.shape[-1] // 2
  np.testing.assert_array_equal(rows.beliefs[0, ..., :half], rows.beliefs[1, ..., half:])
  mask = inner.possible & (inner.own_reach >= MIN_OWN_REACH)
  counted = (mask & (inner.reach >= MIN_REACH)[..., None, None]).sum()
  assert (rows.mask * valid[..., None]).sum() == counted
  # One a subgame: as often as its share of the reach.
  keys = jax.random.split(jax.random.key(1), 4_000)
  draw = jax.jit(jax.vmap(lambda key: make_inner_examples(table, roots, inner, key, 1)))
  ones, _ = draw(keys)
  beliefs = np.asarray(ones.beliefs).reshape(len(keys), 2, table.num_subgames, -1)[:, 0, 0]
  share = np.where(inner.reach[0] >= MIN_REACH, inner.reach[0], 0.0)
  own = inner.beliefs[0].reshape(size, -1)
  drawn = [(np.abs(beliefs - row).max(axis=-1) < 1e-12).mean() for row in own]
  same = np.abs(own[:, None] - own[None]).max(axis=-1) < 1e-12  # nodes of equal beliefs
  np.testing.assert_allclose(drawn, same @ (share / share.sum()), atol=0.03)


KUHN = dataclasses.replace(TINY, depth=2, lanes=8)


@functools.cache
def play(config, steps=3, rows=None):
  """Returns what some steps of self-play left behind."""
  setup = make_setup(config)
  settings = setup.trainer.self_play
  if rows is not None:
    layers = tuple(dataclasses.replace(x, num_rows=rows) for x in settings.layers)
    settings = dataclasses.replace(settings, layers=layers)
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  leaf_values = NetworkLeafValues(setup.trainer.learner.network)
  step = jax.jit(
    lambda lanes, key: self_play_step(setup.table, settings, lanes, leaf_values, params, key)
  )
  lanes, found = init_lanes(setup.table, config.lanes), []
  for i in range(steps):
    played = step(lanes, jax.random.key(i))
    found.append(played)
    lanes = played.lanes
  return found


def test_rows_of_roots_and_play_are_as_without():
  plain, with_inner = (play(dataclasses.replace(KUHN, inner_rows=n)) for n in (0, 2))
  for before, after in zip(plain, with_inner, strict=True):
    count = len(before.valid)
    assert count == 2 * KUHN.lanes
    assert len(after.valid) == 3 * count
    head = jax.tree.map(lambda x, n=count: x[:n], (after.examples, after.valid))
    for x, y in zip(jax.tree.leaves(head), jax.tree.leaves((before.examples, before.valid))):
      np.testing.assert_allclose(x, y, atol=1e-6)
    for x, y in zip(after.lanes, before.lanes):
      np.testing.assert_allclose(x, y, atol=1e-6)
    assert after.valid[count:].any()


def test_lanes_that_wait_give_no_rows():
  waited = 0
  for played in play(dataclasses.replace(KUHN, inner_rows=2), rows=3):
    valid = np.asarray(played.valid)
    roots, inner = valid[: KUHN.lanes], valid[2 * KUHN.lanes :]
    inner = inner.reshape(2, KUHN.lanes, -1)
    assert not inner[:, ~roots].any()
    assert inner[:, roots].any()
    waited += (~roots).sum()
    fields = jax.tree.map(lambda x, v=valid: np.asarray(x)[v], played.examples)
    assert all(np.isfinite(x).all() for x in fields)
  assert waited > 0


def test_training_keeps_them_and_learns():
  config = dataclasses.replace(KUHN, inner_rows=3)
  setup = make_setup(config)
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  state, report = setup.trainer.run(setup.table, state, 4, setup.mesh)
  assert np.isfinite(report.loss)
  assert 2 * int(state.solves) < int(state.replay.added.sum()) <= 8 * int(state.solves)


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"inner_rows": -1}, r"^inner_rows=-1 must be at least 0"),
    ({"inner_rows": 1.5}, r"^inner_rows=1.5 must be an integer"),
    ({"inner_rows": 1, "depth": 1}, r"^inner_rows=1 needs a depth of 2 or more .*, not depth=1"),
    ({"inner_rows": 2, "depth": "stage"}, r"^inner_rows=2 needs a depth .*, not depth=stage"),
    ({"inner_rows": 15, "buffer_size": 250, "batch_size": 8}, r"^buffer_size=250 must be at least"),
  ],
)
def test_what_is_not_allowed(changes, sentence):
  with pytest.raises(ConfigError, match=sentence):
    make_setup(dataclasses.replace(KUHN, **changes))
