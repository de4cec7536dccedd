"""The order in which a network for hold'em sees hands, against one hand and one board at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.poker import Deck, evaluate
from rebel_jax.config import Config, ConfigError, get_preset
from rebel_jax.networks.poker import CardNetwork, PokerValueNetwork, Table, order_hands, standing
from rebel_jax.networks.value import OrderedNetwork, PolicyNetwork, ValueNetwork
from rebel_jax.training.setup import make_network, make_policy_network
from solvers.sweeps.showdowns import make_showdowns
from tests.hand_pairs import pairs_on

DECK = Deck("9TJQKA", "shd")
HANDS = DECK.hole_cards(())


# Operations one by one would be a program each.
in_order = jax.jit(lambda shown: order_hands(DECK, HANDS, shown))


def boards(size, number=40, seed=0):
  rng = np.random.default_rng(seed)
  shown = np.zeros((number, DECK.num_cards), np.float32)
  for row in shown:
    row[rng.choice(DECK.num_cards, size, replace=False)] = 1
  return shown


@pytest.mark.parametrize("size", [0, 3, 4, 5])
def test_hands_go_from_the_weakest_to_the_strongest(size):
  shown = boards(size)
  found = jax.tree.map(np.asarray, in_order(shown))
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
  return Table(DECK, (), 100)


def values(network, params, shown, beliefs):
  """Returns the outputs for hands `[R, ..., H]`, in the same pot on every board."""
  betting = jnp.tile(jnp.asarray([0, 1, 0, 1, 0, 0.1, 0.2, 0.2]), (len(shown), 1))
  features = jnp.concatenate([betting, jnp.asarray(shown)], axis=1)
  flat = jnp.asarray(beliefs, jnp.float32).reshape(len(shown), -1)
  if isinstance(network, PolicyNetwork):
    return np.asarray(jax.jit(network.apply)(params, features, flat, jnp.ones((len(shown), 2))))
  return np.asarray(jax.jit(network.apply)(params, features, flat))


def make(kind):
  sizes = dict(hidden_layers=1, width=16, table=table(), embedding=4)
  network = PokerValueNetwork(len(HANDS), showdown_inputs=kind == "standing", **sizes)
  if kind == "policy":
    network = PolicyNetwork(CardNetwork(2 * len(HANDS), **sizes), 2)
  features = jnp.zeros((1, 8 + DECK.num_cards))
  beliefs = jnp.zeros((1, 2 * len(HANDS)))
  legal = [jnp.ones((1, 2))] if kind == "policy" else []
  return network, jax.jit(network.init)(jax.random.key(0), features, beliefs, *legal)


@pytest.mark.parametrize("kind", ["standing", "policy"])
def test_a_network_answers_alike_where_suits_have_other_names(kind):
  network, params = make(kind)
  shown = boards(5)
  beliefs = np.random.default_rng(1).dirichlet(np.ones(len(HANDS)), (len(shown), 2))
  suits = np.array([2, 0, 1])  # the new name of each
  cards = np.arange(DECK.num_cards) - DECK.suit_of + suits[DECK.suit_of]
  numbers = {tuple(hand): i for i, hand in enumerate(HANDS.tolist())}
  there = np.array([numbers[tuple(sorted(hand))] for hand in cards[HANDS].tolist()])
  renamed = np.zeros_like(shown)
  renamed[:, cards] = shown
  masks = np.stack([shown[:, DECK.suit_of == s] for s in range(3)], axis=1)
  apart = np.array([len({tuple(m) for m in row.tolist()}) == 3 for row in masks])
  moved = np.zeros_like(beliefs)
  moved[..., there] = beliefs
  found = values(network, params, shown, beliefs)[apart]
  other = values(network, params, renamed, moved)[apart]
  np.testing.assert_allclose(other[..., there], found, rtol=1e-4, atol=1e-4)
  # Control: beliefs that stay where they were.
  wrong = values(network, params, renamed, beliefs)[apart]
  assert np.abs(wrong[..., there] - found).max() > 0.01


def test_both_players_see_one_board():
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


H, ROWS = 5, 12
SIZES = dict(hidden_layers=2, width=16, belief_roots=1)


def rows():
  rng = np.random.default_rng(0)
  orders = rng.permuted(np.tile(np.arange(H), (ROWS, 1)), axis=1)
  public = rng.normal(size=(ROWS, 3))
  beliefs = rng.dirichlet(np.ones(H), (ROWS, 2)).astype(np.float32)
  return public.astype(np.float32), orders, beliefs


@pytest.mark.parametrize("answers", [1, 3])
def test_it_is_a_plain_network_of_rearranged_infostates(answers):
  public, orders, beliefs = rows()
  ordered = OrderedNetwork(answers * H, places=H, **SIZES)
  plain = ValueNetwork(answers * H, **SIZES)
  features = jnp.concatenate([public, orders], axis=1)
  params = jax.jit(ordered.init)(jax.random.key(0), features, beliefs.reshape(ROWS, -1))
  found = np.asarray(jax.jit(ordered.apply)(params, features, beliefs.reshape(ROWS, -1)))
  inside = np.stack([beliefs[i][:, orders[i]] for i in range(ROWS)]).reshape(ROWS, -1)
  of_places = np.asarray(jax.jit(plain.apply)(params, public, inside)).reshape(ROWS, answers, H)
  expected = np.zeros_like(of_places)
  for i in range(ROWS):
    expected[i][:, orders[i]] = of_places[i]
  np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
  # Control: answers that are left at their places.
  assert np.abs(found.reshape(expected.shape) - of_places).max() > 0.01


def test_the_order_of_leduc_is_that_of_showdowns():
  """Who is further on in the order loses to nobody before, and the public card comes first."""
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  for state, kind in zip(tree.state, tree.kind):
    if kind == games.TERMINAL:
      continue
    mine, other = (game.features(state[None], player)[0, -6:] for player in (0, 1))
    np.testing.assert_array_equal(mine, other)
    order, card = mine.astype(int), int(state[6])
    if card >= 0:
      assert order[0] == card
      wins = game.payoffs()[1 + card][np.ix_(order[1:], order[1:])]
    else:
      wins = np.sign(np.subtract.outer(order // 2, order // 2))
    assert (np.tril(wins) >= 0).all()
    assert (np.diff(wins, axis=0) >= 0).all()
  # Control: in the game's own order a pair may stand anywhere.
  own = game.payoffs()[1][np.ix_(np.arange(1, 6), np.arange(1, 6))]
  assert (np.tril(own) < 0).any()


def pairwise(board, other, **how):
  """Returns the shares and masses of one board, pair by pair."""
  mass, won = (table @ other for table in pairs_on(DECK, HANDS, board, **how))
  return np.stack([won / np.where(mass > 0, mass, 1), mass])


@pytest.mark.parametrize(("dense", "size"), [(True, 3), (False, 0), (False, 5)])
def test_it_is_what_pairs_of_hands_come_to(size, dense, x64):
  rng = np.random.default_rng(size)
  boards = [sorted(rng.choice(DECK.num_cards, size, replace=False)) for _ in range(4)]
  shown = np.zeros((4, DECK.num_cards))
  for row, board in zip(shown, boards):
    row[board] = 1
  # A range of a few hands, among them some that the board blocks.
  other = rng.dirichlet(np.full(len(HANDS), 0.1), 4)
  hands = in_order(shown)

  def share(x):
    return standing(make_showdowns(hands.strength, x.dtype, dense=dense), hands.live, x)

  found = np.asarray(jax.jit(share)(other))
  expected = np.stack([pairwise(*each) for each in zip(boards, other)])
  np.testing.assert_allclose(found, expected, atol=1e-9)
  assert size == 0 or np.abs(expected[:, 0]).max() > 0.1
  # Control: hands that share a card counted too.
  wrong = np.stack([pairwise(*each, blockers=False) for each in zip(boards, other)])
  assert np.abs(found - wrong).max() > 0.01


def test_all_networks_of_holdem_see_it_and_no_others():
  config = get_preset("small_holdem_4_rounds").replace(policy_network=True)
  game = config.make_game()
  for on in (True, False):
    chosen = config.replace(architecture="showdowns" if on else "mlp")
    value, policy = make_network(chosen, game), make_policy_network(chosen, game)
    assert (value.showdown_inputs, policy.trunk.showdown_inputs) == (on, on)
  with pytest.raises(ConfigError, match=r"architecture='showdowns' needs .* game='liars_dice'"):
    Config().replace(architecture="showdowns").validate()
