"""Subgames filled in on the device against the builder's trees, and drawn flops against all."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games import PADDING
from games.poker import CALL, FIRST_BET, Deck, betting, dealing
from games.template import fill
from solvers.search import search_batch
from solvers.search.subgames import TemplateSubgames, find_subgames
from solvers.search.subgames import after as after_leaf
from tests import harness
from tests.own_games import by_path, own_game, own_state, own_tree, some_leaf_values

pytestmark = pytest.mark.usefixtures("strictly")

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
  starts, number_of = jax.jit(rules.starts, static_argnums=1), jax.jit(rules.number_of)
  states = np.array(starts(jax.random.key(seed), number_of_walks), np.int32)
  rounds = np.zeros(number_of_walks, int)
  # Rounds that share a template are met one after the other.
  for number, template in list(enumerate(rules.templates)) * max(len(game.deals), 1):
    there = np.asarray(number_of(jnp.asarray(states))) == number
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
  # What is legal differs from hand to hand.
  assert len(sizes) > len(met) or game.templates().one_start


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


# Flops by suit classes, against enumerations of all flops.


def all_flops(deck):
  return np.array(list(itertools.combinations(range(deck.num_cards), 3)))


def flops_of(deck):
  return dealing.Dealing(deck, (), (3,))


def test_the_whole_deck_has_1755_classes():
  cards, sizes = dealing.flop_classes(Deck())
  assert len(cards) == len(sizes) == 1_755
  assert sizes.sum() == math.comb(52, 3) == 22_100
  assert set(sizes) == {4, 12, 24}
  assert (np.diff(cards, axis=1) > 0).all()


def every_draw(deck, number):
  """Returns numbers that draw all classes with their suits renamed in each way."""
  draw = jax.jit(jax.vmap(functools.partial(dealing.draw_flops, flops_of(deck), number)))
  found = np.asarray(draw(jnp.arange(200))[0])
  _, first = np.unique(found, axis=0, return_index=True)
  assert len(first) == math.factorial(len(deck.suits))
  return jnp.asarray(first)


@pytest.mark.parametrize("cards", ["JQKA", "QKA"])
def test_the_mean_over_renamed_suits_is_the_sum_over_all_flops(cards, x64):
  deck = Deck(cards, "shd")
  values = np.random.default_rng(0).normal(size=(len(all_flops(deck)), 5))
  number = len(dealing.flop_classes(deck)[0])
  draws = [
    tuple(map(np.asarray, dealing.draw_flops(flops_of(deck), number, d)))
    for d in every_draw(deck, number)
  ]
  for sets, weights in draws:
    assert weights.sum() == len(values)
    assert len(set(sets.tolist())) == len(sets)
  sums = [(values[sets] * weights[:, None]).sum(axis=0) for sets, weights in draws]
  np.testing.assert_allclose(np.mean(sums, axis=0), values.sum(axis=0), atol=1e-10)
  equal = len(values) / len(weights)  # the control: as if classes were of one size
  wrong = [values[sets].sum(axis=0) * equal for sets, _ in draws]
  assert np.abs(np.mean(wrong, axis=0) - values.sum(axis=0)).max() > 0.1


def test_fewer_flops_than_classes_are_unbiased():
  deck = Deck("JQKA", "shd")
  number, draws = 7, 4_000
  values = np.random.default_rng(0).normal(size=len(all_flops(deck)))
  draw = jax.jit(jax.vmap(functools.partial(dealing.draw_flops, flops_of(deck), number)))
  sets, weights = draw(jnp.arange(draws))
  np.testing.assert_allclose(weights, len(values) / number, rtol=1e-6)
  sums = (values[sets] * np.asarray(weights)).sum(axis=1)
  assert abs(sums.mean() - values.sum()) < 4 * sums.std() / math.sqrt(draws)
  often = np.bincount(np.asarray(sets).reshape(-1), minlength=len(values))
  expected = draws * number / len(values)
  assert np.abs(often - expected).max() < 6 * math.sqrt(expected)


def with_flops(**changes):
  how = dict(ranks="QKA", suits="shd", deals=(3, 1, 1), blinds=(50, 100), stack=300)
  return games.make("small_holdem", first_to_act=(0, 1), **how | changes)


@jax.jit
def values_of(trees, beliefs):
  """Returns what deals are worth at the roots of `trees`: `[B, P, H]`."""
  found = search_batch(
    trees, jnp.tile(beliefs, (len(trees.kind), 1, 1)), jnp.zeros(len(trees.kind), int), 2,
    algorithm=solvers.vanilla_cfr(), leaf_values=some_leaf_values, params=None,
    num_rows=trees.leaf_nodes.size,
  )  # fmt: skip
  return found.root_values


def test_a_deal_of_one_flop_of_each_class_is_worth_what_all_flops_are(x64):
  """On average over the renamings of suits, exactly."""
  game = with_flops()
  left, to_two_hands = (math.comb(game.deck.num_cards - held, 3) for held in (0, 4))
  number = len(dealing.flop_classes(game.deck)[0])
  drawn = with_flops(flops=number)
  state = drawn.state_after((1, 1))  # both call
  if drawn.burns(state[None])[0]:
    state = drawn.next_states(state[None], np.array([drawn.burn]))[0]
  tree = own_tree(drawn, state)
  assert tree.num_leaves == left
  weights = np.random.default_rng(0).exponential(size=(2, game.num_infostates))
  beliefs = jnp.asarray(weights / weights.sum(axis=1, keepdims=True))
  whole = jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
  (right,) = np.asarray(values_of(whole, beliefs))

  draws = every_draw(game.deck, number)
  states = jnp.tile(jnp.asarray(state), (len(draws), 1)).at[:, -1].set(draws)
  trees = jax.jit(jax.vmap(functools.partial(fill, drawn.templates(), 1)))(states)
  assert trees.leaf_nodes.shape[1] == number
  found = np.asarray(values_of(trees, beliefs))
  np.testing.assert_allclose(found.mean(axis=0), right, atol=1e-10)
  assert np.abs(found - right).max() > 0.01

  def with_probability(trees, probability):
    at_leaves = jnp.where(
      trees.kind == games.public_tree.LEAF, probability, trees.chance_probability
    )
    return dataclasses.replace(trees, chance_probability=at_leaves)

  # Controls: classes as if they were of one size; all flops of the deck, not what two hands leave.
  alike = values_of(with_probability(trees, left / number / to_two_hands), beliefs)
  assert np.abs(np.asarray(alike).mean(axis=0) - right).max() > 0.01
  (of_the_deck,) = values_of(with_probability(whole, 1 / left), beliefs)
  assert np.abs(of_the_deck - right).max() > 0.1


@pytest.mark.slow
def test_all_in_hands_are_worth_what_they_are_on_all_boards(x64):
  game = with_flops(ranks="TQKA", flops=5)
  rules = game.templates()
  state = game.state_after((FIRST_BET + game.bets.num_slots, CALL))  # all-in, and called
  number = int(rules.number_of(state[None])[0])
  assert number == rules.runout_template(0)
  weights = np.random.default_rng(0).exponential(size=(2, game.num_infostates))
  beliefs = jnp.asarray(weights / weights.sum(axis=1, keepdims=True))
  whole = jax.tree.map(lambda x: jnp.asarray(x)[None], own_tree(game, state))
  (right,) = np.asarray(values_of(whole, beliefs))
  assert whole.terminal_nodes.size == math.comb(12, 3) * 9 * 8

  draws = 1_000
  states = jnp.tile(jnp.asarray(state), (draws, 1)).at[:, -1].set(jnp.arange(draws))
  trees = jax.jit(jax.vmap(functools.partial(fill, rules, number)))(states)
  assert trees.terminal_nodes.shape[1] == 5
  found = np.asarray(values_of(trees, beliefs))
  error = found.std(axis=0) / math.sqrt(draws)
  assert (np.abs(found.mean(axis=0) - right) < 5 * error).all()
  # Control: a card that is drawn stands for itself alone.
  ends = trees.terminal_nodes[0]
  alone = trees.chance_probability.at[:, ends].divide(8)
  alone = np.asarray(values_of(dataclasses.replace(trees, chance_probability=alone), beliefs))
  assert (np.abs(alone.mean(axis=0) - right) > 5 * error).any()
