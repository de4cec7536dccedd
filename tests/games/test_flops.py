"""Flops by suit classes, against enumerations of all flops."""

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
from games.poker import CALL, FIRST_BET, Deck, dealing
from games.template import fill
from solvers.search import search_batch
from tests.own_games import own_tree, some_leaf_values

SMALL = {"12 cards, 3 suits": ("JQKA", "shd"), "9 cards, 3 suits": ("QKA", "shd")}


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


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_over_renamed_suits_is_the_sum_over_all_flops(name, x64):
  deck = Deck(*SMALL[name])
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
  deck = Deck(*SMALL["12 cards, 3 suits"])
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


def make_game(**changes):
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
  game = make_game()
  left, to_two_hands = (math.comb(game.deck.num_cards - held, 3) for held in (0, 4))
  number = len(dealing.flop_classes(game.deck)[0])
  drawn = make_game(flops=number)
  state = drawn.state_after((1, 1))  # both call
  if drawn.burns(state[None])[0]:
    state = drawn.next_states(state[None], np.array([drawn.burn]))[0]
  tree = own_tree(drawn, state)
  assert tree.num_leaves == left
  weights = np.random.default_rng(0).exponential(size=(2, game.num_infostates))
  beliefs = jnp.asarray(weights / weights.sum(axis=1, keepdims=True))
  whole = jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
  (right,) = values_of(whole, beliefs)

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
  game = make_game(ranks="TQKA", flops=5)
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
