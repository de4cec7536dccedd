"""The order in which a network for hold'em sees hands, against one hand and one board at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.poker import Deck
from games.poker.hands import evaluate
from rebel_jax.networks.poker import CardNetwork, PokerValueNetwork, Table, order_hands
from rebel_jax.networks.policy import PolicyNetwork

DECK = Deck("9TJQKA", "shd")
HANDS = DECK.hole_cards(())


def boards(size, number=40, seed=0):
  rng = np.random.default_rng(seed)
  shown = np.zeros((number, DECK.num_cards), np.float32)
  for row in shown:
    row[rng.choice(DECK.num_cards, size, replace=False)] = 1
  return shown


def rename(shown, suits):
  """Returns `shown` `[R, cards]` with suit `s` called `suits[s]`."""
  renamed = np.zeros_like(shown)
  renamed[:, renamed_cards(suits)] = shown
  return renamed


def renamed_cards(suits):
  """Returns what each card is called."""
  cards = np.arange(DECK.num_cards)
  return cards - DECK.suit_of + np.asarray(suits)[DECK.suit_of]


def renamed_hands(suits):
  """Returns the number of each hand under its new name."""
  numbers = {tuple(hand): i for i, hand in enumerate(HANDS.tolist())}
  return np.array([numbers[tuple(sorted(hand))] for hand in renamed_cards(suits)[HANDS].tolist()])


@pytest.mark.parametrize("size", [0, 3, 4, 5])
def test_hands_go_from_the_weakest_to_the_strongest(size):
  shown = boards(size)
  found = jax.tree.map(np.asarray, order_hands(DECK, HANDS, jnp.asarray(shown)))
  for row, order, place, live in zip(shown, found.order, found.place, found.live):
    board = np.flatnonzero(row)
    blocked = np.isin(HANDS, board).any(axis=1)
    np.testing.assert_array_equal(live, ~blocked)
    np.testing.assert_array_equal(order[place], np.arange(len(HANDS)))
    assert blocked[order[: blocked.sum()]].all()
    free = order[blocked.sum() :]
    cards = np.concatenate([HANDS[free], np.tile(board, (len(free), 1))], axis=1)
    assert (np.diff(evaluate(DECK, cards)) >= 0).all()


def table():
  return Table(DECK.ranks, DECK.suits, (), 100)


def values(network, params, shown, beliefs):
  """Returns the outputs for hands `[R, ..., H]`, in the same pot on every board."""
  betting = jnp.tile(jnp.asarray([0, 1, 0, 1, 0, 0.1, 0.2, 0.2]), (len(shown), 1))
  features = jnp.concatenate([betting, jnp.asarray(shown)], axis=1)
  flat = jnp.asarray(beliefs, jnp.float32).reshape(len(shown), -1)
  if isinstance(network, PolicyNetwork):
    return np.asarray(network.apply(params, features, flat, jnp.ones((len(shown), 2))))
  return np.asarray(network.apply(params, features, flat))


def make(kind):
  sizes = dict(hidden_layers=1, width=16, table=table(), embedding=4)
  network = PokerValueNetwork(len(HANDS), showdown_inputs=kind == "standing", **sizes)
  if kind == "policy":
    network = PolicyNetwork(CardNetwork(2 * len(HANDS), **sizes), 2)
  features = jnp.zeros((1, 8 + DECK.num_cards))
  beliefs = jnp.zeros((1, 2 * len(HANDS)))
  legal = [jnp.ones((1, 2))] if kind == "policy" else []
  return network, network.init(jax.random.key(0), features, beliefs, *legal)


@pytest.mark.parametrize("kind", ["value", "standing", "policy"])
def test_a_network_answers_alike_where_suits_have_other_names(kind):
  """Beliefs renamed with the board give the same answers for the renamed hands."""
  network, params = make(kind)
  shown = boards(5)
  beliefs = np.random.default_rng(1).dirichlet(np.ones(len(HANDS)), (len(shown), 2))
  suits = (2, 0, 1)
  masks = np.stack([shown[:, DECK.suit_of == s] for s in range(3)], axis=1)
  apart = np.array([len({tuple(m) for m in row.tolist()}) == 3 for row in masks])
  there = renamed_hands(suits)
  moved = np.zeros_like(beliefs)
  moved[..., there] = beliefs
  found = values(network, params, shown, beliefs)[apart]
  other = values(network, params, rename(shown, suits), moved)[apart]
  np.testing.assert_allclose(other[..., there], found, rtol=1e-4, atol=1e-4)
  # Control: beliefs that stay where they were.
  wrong = values(network, params, rename(shown, suits), beliefs)[apart]
  assert np.abs(wrong[..., there] - found).max() > 0.01


def test_both_players_see_one_board():
  """Hands are ordered once for both, and what each sees of the betting stays its own."""
  network, params = make("value")
  shown = jnp.asarray(boards(5), jnp.float32)
  paid = jax.random.uniform(jax.random.key(1), (2, len(shown), 8))
  features = tuple(jnp.concatenate([own, shown], axis=1) for own in paid)
  found = network.apply(params, features, method="encode_both")
  apart = [network.apply(params, x, method="encode") for x in features]
  for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(apart), strict=True):
    np.testing.assert_array_equal(one, other)
  # Control: players whose boards differ are not served so.
  turned = features[0], features[1].at[:, 8:].set(features[1][::-1, 8:])
  wrong = network.apply(params, turned, method="encode_both")[1]
  assert (wrong.order != network.apply(params, turned[1], method="encode").order).any()


def test_features_end_with_the_cards_shown():
  """On which the order relies."""
  game = games.make("river_endgame_holdem")
  shown = game.features(game.initial_state()[None], 0)[0, -game.deck.num_cards :]
  np.testing.assert_array_equal(np.flatnonzero(shown), sorted(game.board))
