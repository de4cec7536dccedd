"""Learning hold'em: subgames by stage, deals, card networks, self-play and training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import games
from games.poker import betting
from rebel_jax.config.config import Config
from rebel_jax.networks.poker import PokerValueNetwork, Table
from solvers.search.batch import search_batch
from solvers.search.subgames import find_subgames, stack_subgames
from tests.hand_pairs import pairs_on

# Nine cards: five hole cards are left to make ten hands, and three of them may come on the river.
GAME = dict(ranks="QKA", suits="shd", board="QsKhAdQh", pot=200, stack=300, big_blind=100)
TINY = Config().replace(
  preset="tiny_poker",
  game="turn_endgame_holdem",
  game_params=tuple(GAME.items()),
  depth="stage",
  iterations=8,
  share_start=True,
  lanes=8,
  rows_fraction=1.0,
  width=16,
  batch_size=2,
  uses_per_example=1.0,
  buffer_size=512,
  examples=128,
  report_every=4,
  evaluate_every=0,
  final_playthroughs=2,
  final_iterations=8,
)


@functools.cache
def tiny_game():
  return games.make("turn_endgame_holdem", **GAME)


@functools.cache
def tiny_subgames():
  return find_subgames(tiny_game(), depth="stage")


def deal_values(card_probability=None):
  """Returns what search and an enumeration say of a deal: `[2, P, H]`."""
  game, subgames = tiny_game(), tiny_subgames()
  entry = next(i for i, t in enumerate(subgames.trees) if t.num_leaves and t.kind[0] == 2)
  table = stack_subgames(subgames, [entry])
  tree = subgames.trees[entry]
  h = game.num_infostates
  rng = np.random.default_rng(0)
  weights = rng.exponential(size=(2, h))
  beliefs = weights / weights.sum(axis=1, keepdims=True)
  slopes = rng.normal(size=(h, h))

  def leaf_values(params, query):
    own, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
    return query.features.sum(axis=1, keepdims=True) + own @ slopes + jnp.cos(other @ slopes)

  search = functools.partial(
    search_batch, algorithm=None, leaf_values=leaf_values, params=None, num_rows=tree.num_leaves
  )
  result = jax.jit(search)(table.trees, beliefs[None], np.zeros(1, int), 2)
  cards = game.hole_cards
  left = game.deck.num_cards - len(game.board)
  probability = 1 / (left - 4) if card_probability is None else card_probability
  values = np.zeros((2, h))
  for player in (0, 1):
    mass = pairs_on(game.deck, cards, ())[0] @ beliefs[1 - player]
    for k, leaf in enumerate(tree.leaf_nodes):
      meet, _ = pairs_on(game.deck, cards, tree.dealt[leaf])
      free = ~np.isin(cards, tree.dealt[leaf]).any(axis=1)
      own, other = (b * free / (b * free).sum() for b in (beliefs[player], beliefs[1 - player]))
      value = tree.leaf_features[player][k].sum() + own @ slopes + np.cos(other @ slopes)
      values[player] += meet @ beliefs[1 - player] * probability * value / mass
  return np.asarray(result.root_values[0]), values


def test_a_deal_is_worth_the_mean_over_cards_and_hands(x64):
  tiny_subgames.cache_clear()
  ours, theirs = deal_values()
  np.testing.assert_allclose(ours, theirs, atol=1e-10)
  ours, theirs = deal_values(card_probability=1 / 5)  # of the cards left, whoever holds them
  assert np.abs(ours - theirs).max() > 0.1
  tiny_subgames.cache_clear()


def test_card_network():
  """Hands that the board blocks are worth nothing; values grow with the pot they are learned in."""
  game, subgames = tiny_game(), tiny_subgames()
  sizes = dict(hidden_layers=1, width=16, embedding=4)
  network = PokerValueNetwork(game.num_infostates, table=Table.of(game), **sizes)
  rivers = [s for s in subgames.states if game.stages(s[None])[0] == 2]
  features = jnp.asarray(game.features(np.stack(rivers), 0), jnp.float32)
  beliefs = jnp.full((len(rivers), 2 * game.num_infostates), 1 / game.num_infostates)
  params = jax.jit(network.init)(jax.random.key(0), features, beliefs)
  values = np.asarray(jax.jit(network.apply)(params, features, beliefs))
  for state, row in zip(rivers, values):
    blocked = (game.hole_cards == state[-1]).any(axis=1)
    np.testing.assert_array_equal(row == 0, blocked)
  pots = np.stack(rivers)[:, [betting.PAID_0, betting.PAID_1]].sum(axis=1, keepdims=True)
  np.testing.assert_allclose(network.unit(features), pots, rtol=1e-5)
  # Rows of the same betting differ by their cards.
  first = [k for k, state in enumerate(rivers) if (state[:-1] == rivers[0][:-1]).all()]
  assert len(first) == 5
  assert np.ptp(values[first], axis=0).max() > 0
