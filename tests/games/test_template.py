"""Subgames filled in on the device against those that the builder of trees makes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games import PADDING
from games.poker import betting
from games.template import fill
from solvers.search.subgames import TemplateSubgames, find_subgames
from solvers.search.subgames import after as after_leaf
from tests import harness
from tests.own_games import by_path, own_game, own_state, own_tree

WALKS = 6  # hands followed through each game
SMALL = dict(ranks="QKA", suits="shd", pot=200, stack=300, big_blind=100)
VARY = dict(stack="250-600", pot="100-300", bets=0.1, board="random")
BIG_BLIND = 8  # column of the features of a game with fresh stacks


def make_turn(**changes):
  return games.make("turn_endgame_holdem", **SMALL | dict(board="QsKhAdQh") | changes)


# A river has one template; others one for each round, deal, and deals to hands that are all-in.
GAMES = {
  "river": lambda: games.make("river_endgame_holdem", board="QsKhAdQhKs", **SMALL).vary(**VARY),
  "turn": make_turn,
  "fresh turn": lambda: make_turn(pot=100).vary(**VARY),
  "two rounds": lambda: games.make("small_holdem", ranks="QKA"),
  "four rounds": lambda: games.make("small_holdem_4_rounds", ranks="9TJQKA").vary(
    stack="150-600", bets=0.1
  ),
}


@functools.cache
def make(name):
  return GAMES[name]()


@functools.cache
def filling(game, number):
  return jax.jit(jax.vmap(lambda state: fill(game.templates(), number, state)))


def walk(game, number_of_walks=WALKS, seed=0):
  """Follows hands, some all-in and some for few chips."""
  rules, rng = game.templates(), np.random.default_rng(seed)
  states = np.array(rules.starts(jax.random.key(seed), number_of_walks), np.int32)
  rounds = np.zeros(number_of_walks, int)
  # Rounds that share a template are met one after the other.
  for number, template in list(enumerate(rules.templates)) * max(len(game.deals), 1):
    there = np.asarray(rules.number_of(jnp.asarray(states))) == number
    if not there.any():
      continue
    # Always as many, so that a template is compiled once.
    standing = np.resize(np.flatnonzero(there), number_of_walks)
    trees = filling(game, number)(jnp.asarray(states[standing], jnp.int32))
    trees = jax.tree.map(np.asarray, trees)
    yield number, states[standing[: there.sum()]], trees
    for row, walker in enumerate(np.flatnonzero(there)):
      if template.structure.num_leaves:
        live = trees.leaf_nodes[row][trees.leaf_actor[row] != PADDING]
        below = trees.state[row][live]
        chips = below[:, betting.PAID_0 : betting.PAID_1 + 1].max(axis=1)
        # All-in in the first round, or in the second, or in the third.
        most = walker >> rounds[walker] & 1
        wanted = chips.max() if most else chips.min() if walker < number_of_walks // 2 else chips
        states[walker] = below[rng.choice(np.flatnonzero(chips == wanted))]
        rounds[walker] += template.decides


def check_filled(game, state, tree, own=None):
  """Compares a filled tree with its referee, path by path; returns how many nodes there are."""
  own = own_game(game, state) if own is None else own
  referee = own_tree(game, state, own)
  ours, theirs = by_path(tree, game.burn), by_path(referee, own.burn)
  assert ours.keys() == theirs.keys()
  place = {node: i for i, node in enumerate(tree.leaf_nodes.tolist())}
  referee_place = {node: i for i, node in enumerate(np.asarray(referee.leaf_nodes).tolist())}
  end = {node: i for i, node in enumerate(tree.terminal_nodes.tolist())}
  referee_end = {node: i for i, node in enumerate(np.asarray(referee.terminal_nodes).tolist())}
  in_own_chips = game.rules.stack / own.rules.stack
  for path, node in ours.items():
    other = theirs[path]
    assert tree.kind[node] == referee.kind[other]
    np.testing.assert_array_equal(own_state(game, tree.state[node]), referee.state[other])
    possible = True if referee.possible is None else referee.possible[other]
    np.testing.assert_array_equal(tree.possible[node], possible)
    chances = [
      1.0 if t.chance_probability is None else t.chance_probability[n]
      for t, n in ((tree, node), (referee, other))
    ]
    assert chances[0] == pytest.approx(chances[1], rel=1e-14)
    np.testing.assert_array_equal(tree.dealt[node].max(), np.max(referee.dealt[other]))
    if node in place:
      leaf, referee_leaf = place[node], referee_place[other]
      assert tree.leaf_actor[leaf] == referee.leaf_actor[referee_leaf]
      features = tree.leaf_features[:, leaf]
      if game.fresh.stack is not None:
        blind = game.rules.big_blind / own.rules.stack
        np.testing.assert_allclose(features[:, BIG_BLIND], blind, rtol=1e-14)
        features = np.delete(features, BIG_BLIND, axis=1)
      np.testing.assert_allclose(features, referee.leaf_features[:, referee_leaf], rtol=1e-14)
    if node in end:
      shown, referee_shown = (
        t.payoff_index[at[n]] for t, at, n in ((tree, end, node), (referee, referee_end, other))
      )
      scale = referee.payoff_scale[referee_end[other]] * in_own_chips
      assert tree.payoff_scale[end[node]] == pytest.approx(scale, rel=1e-14)
      assert (shown > 0) == (referee_shown > 0)
      if shown:
        np.testing.assert_array_equal(
          tree.strengths[shown - 1], referee.strengths[referee_shown - 1]
        )
  np.testing.assert_array_equal(tree.prior, referee.prior)
  return len(ours)


def row_of(trees, row):
  return jax.tree.map(lambda x: x[row], trees)


@pytest.mark.parametrize("name", harness.slow(GAMES, *(x for x in GAMES if x != "river")))
def test_filled_templates_are_the_builders_trees(name, x64):
  game, met, sizes = make(name), set(), set()
  for number, states, trees in walk(game):
    met.add(number)
    for row, state in enumerate(states):
      sizes.add((number, check_filled(game, state, row_of(trees, row))))
  assert met == set(range(len(game.templates().templates)))
  assert (
    len(sizes) > len(met) or game.templates().one_start
  )  # what is legal differs from hand to hand


@pytest.mark.slow
@pytest.mark.parametrize("name", ["turn", "two rounds"])
def test_successors_are_those_of_tables(name, x64):
  game = make(name)
  found = find_subgames(game, depth="stage")
  templates = TemplateSubgames(game.templates())
  entry_of = {state.astype(int).tobytes(): entry for entry, state in enumerate(found.states)}
  numbers = np.asarray(templates.rules.number_of(jnp.asarray(np.stack(found.states))))
  assert set(numbers) == set(range(4))
  follow = jax.jit(after_leaf)
  tree_of = jax.jit(lambda stage, roots: (stage.trees_at(roots), stage.live_leaves(roots)))
  for number, stage in enumerate(templates.stages):
    entries = np.flatnonzero(numbers == number)[-3:]
    states = jnp.asarray(np.stack([found.states[e] for e in entries]), jnp.int32)
    assert np.asarray(stage.holds(states)).all()
    filled, live = tree_of(stage, states)
    for row, entry in enumerate(entries):
      at = by_path(found.trees[entry], game.burn)
      nodes = {node: leaf for leaf, node in enumerate(found.trees[entry].leaf_nodes.tolist())}
      one, alone = row_of(filled, row), jax.tree.map(lambda x, row=row: x[row : row + 1], filled)
      paths = [
        (path, leaf)
        for path, node in by_path(one, game.burn).items()
        for leaf in np.flatnonzero(np.asarray(one.leaf_nodes) == node)
      ]
      assert len(paths) == len(nodes) == live[row]
      for path, leaf in paths:
        after = np.asarray(follow(stage, states[row][None], alone, jnp.array([leaf])))[0]
        follows = entry_of[after.astype(int).tobytes()]
        assert follows == found.successors[entry][nodes[at[path]]]


def test_control_another_hands_tree_is_another(x64):
  game = make("river")
  _, states, trees = next(walk(game))
  with pytest.raises(AssertionError):
    check_filled(game, states[1], row_of(trees, 0))
