"""Networks that see infostates in an order of each public state, against plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from rebel_jax.config.presets import get_preset
from rebel_jax.networks.value import OrderedNetwork, ValueNetwork
from rebel_jax.training.setup import make_network, make_policy_network, make_state_network

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
  """Beliefs are put in order by hand, and the plain network's answers back."""
  public, orders, beliefs = rows()
  ordered = OrderedNetwork(answers * H, places=H, **SIZES)
  plain = ValueNetwork(answers * H, **SIZES)
  features = jnp.concatenate([public, orders], axis=1)
  params = ordered.init(jax.random.key(0), features, beliefs.reshape(ROWS, -1))
  found = np.asarray(ordered.apply(params, features, beliefs.reshape(ROWS, -1)))
  inside = np.stack([beliefs[i][:, orders[i]] for i in range(ROWS)]).reshape(ROWS, -1)
  of_places = np.asarray(plain.apply(params, public, inside)).reshape(ROWS, answers, H)
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


def test_every_network_of_such_a_game_is_ordered():
  config, game = get_preset("leduc_poker"), games.make("leduc_poker")
  config = config.replace(policy_network=True)
  trunk = make_policy_network(config, game).trunk
  for network in (make_network(config, game), trunk):
    assert isinstance(network, OrderedNetwork)
    assert network.places == 6
  tabulated = make_network(config, games.tabulate(game))
  assert tabulated == make_network(config, game)
  growing = make_state_network(get_preset("pog_leduc"), games.tabulate(game))
  assert isinstance(growing.trunk, OrderedNetwork)
  kuhn = make_network(config, games.make("kuhn_poker"))
  assert not isinstance(kuhn, OrderedNetwork)
