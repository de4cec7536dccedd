"""Learning hold'em: subgames by stage, deals, card networks, hands that are new each time."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from games.build import stack_trees
from games.poker import Deck, betting, evaluate
from rebel_jax.config import Config, ConfigError, get_preset
from rebel_jax.networks.poker import CardNetwork, PokerValueNetwork, Table, order_hands, standing
from rebel_jax.networks.value import OrderedNetwork, PolicyNetwork, ValueNetwork
from rebel_jax.training.self_play import Searched
from rebel_jax.training.setup import make_network, make_policy_network, make_setup
from rebel_jax.training.targets import value_examples
from solvers.search.batch import search_batch
from solvers.search.subgames import find_subgames, stack_subgames
from solvers.sweeps.showdowns import make_showdowns
from tests import tiny
from tests.hand_pairs import pairs_on
from tests.own_games import Hedge, own_tree
from tests.sentences import refused

# Nine cards: five hole cards are left to make ten hands, and three of them may come on the river.
GAME = dict(ranks="QKA", suits="shd", board="QsKhAdQh", pot=200, stack=300, big_blind=100)
TINY = tiny.TINY.replace(
  preset="tiny_poker",
  game="turn_endgame_holdem",
  game_params=tuple(GAME.items()),
  depth="stage",
  share_start=True,
  lanes=8,
  width=16,
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


def values(network, params, shown, beliefs):
  """Returns the outputs for hands `[R, ..., H]`, in the same pot on every board."""
  betting = jnp.tile(jnp.asarray([0, 1, 0, 1, 0, 0.1, 0.2, 0.2]), (len(shown), 1))
  features = jnp.concatenate([betting, jnp.asarray(shown)], axis=1)
  flat = jnp.asarray(beliefs, jnp.float32).reshape(len(shown), -1)
  if isinstance(network, PolicyNetwork):
    return np.asarray(jax.jit(network.apply)(params, features, flat, jnp.ones((len(shown), 2))))
  return np.asarray(jax.jit(network.apply)(params, features, flat))


def make(kind):
  sizes = dict(hidden_layers=1, width=16, table=Table(DECK, (), 100), embedding=4)
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
  apply = jax.jit(network.apply, static_argnames="method")
  found = apply(params, features, method="encode_both")
  apart = [apply(params, x, method="encode") for x in features]
  for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(apart), strict=True):
    np.testing.assert_array_equal(one, other)
  # Control: players whose boards differ are not served so.
  turned = features[0], features[1].at[:, 8:].set(features[1][::-1, 8:])
  wrong = apply(params, turned, method="encode_both")[1]
  assert (wrong.order != apply(params, turned[1], method="encode").order).any()


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


VARY = {"stack": "250-500", "pot": "100-300", "bets": 0.1, "board": "random"}
FRESH = TINY.replace(vary=tuple(VARY.items()), share_start=False, iterations=4)
BIG_BLIND = 8  # column of the features of a game with fresh stacks
SMOOTH = solvers.CFR(Hedge(0.01))


def search_of_own(setup, params, searched):
  """Returns the search of a stage's lanes again, each in the tree of its own game."""
  game = setup.game
  states = np.asarray(searched.trees.state)[:, 0]
  trees = stack_trees([own_tree(game, state) for state in states])
  in_own_chips = game.rules.stack / states[:, betting.STACK]
  blinds = game.rules.big_blind / states[:, betting.STACK]

  def with_blind(features):  # [B, .., F]
    shape = (-1, *[1] * (features.ndim - 2))
    column = np.broadcast_to(blinds.reshape(shape), features.shape[:-1])
    return np.insert(features, BIG_BLIND, column, axis=-1)

  trees = dataclasses.replace(
    trees,
    payoff_scale=trees.payoff_scale * in_own_chips[:, None],
    root_features=with_blind(trees.root_features),
    leaf_features=with_blind(trees.leaf_features),
  ).astype(np.float32)
  decides = searched.average_policy is not None
  result = search_batch(
    jax.tree.map(jnp.asarray, trees), searched.beliefs, jnp.zeros(len(states), int),
    FRESH.search.iterations if decides else 2,
    algorithm=SMOOTH if decides else solvers.vanilla_cfr(),
    leaf_values=setup.trainer.self_play.leaf_values, params=params,
    num_rows=max(trees.leaf_nodes.size, 1), active=searched.active,
  )  # fmt: skip
  return Searched(trees, None, searched.beliefs, searched.active, result.average_policy, result)


@pytest.mark.slow
def test_examples_are_those_of_each_hands_own_game():
  setup = make_setup(FRESH)
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  # Few lanes fit where cards are dealt, so that others wait.
  first, *others = setup.trainer.self_play.layers
  # Each group of lanes is searched by itself, the last group overlaps the one before.
  layers = (
    dataclasses.replace(first, piece=3),
    *(dataclasses.replace(layer, capacity=2, piece=1) for layer in others),
  )
  settings = dataclasses.replace(setup.trainer.self_play, layers=layers, algorithm=SMOOTH)
  step = jax.jit(lambda lanes, key: settings.step(setup.table, lanes, params, key))
  lanes, checked = settings.init(setup.table, jax.random.key(0)), 0
  for i in range(4):
    after = step(lanes, jax.random.key(i))
    lanes = after.lanes
  for searched in after.searched:
    active = np.asarray(searched.active)
    if searched.trees.state.shape[0] == 0 or not active.any():
      continue
    found = value_examples(None, searched)
    if found is None:
      continue
    ours, valid = found
    theirs, _ = value_examples(None, search_of_own(setup, params, searched))
    valid = np.asarray(valid)
    for name in ("features", "beliefs", "mask"):
      one, other = (np.asarray(getattr(x, name))[valid] for x in (ours, theirs))
      np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)
    mask = np.asarray(ours.mask)[valid]
    errors = np.abs(np.asarray(ours.values) - np.asarray(theirs.values))[valid][mask > 0]
    assert errors.max() < 0.02
    others = np.roll(np.asarray(theirs.values)[valid], 1, axis=0)  # the control: another hand's
    wrong = np.abs(np.asarray(ours.values)[valid] - others)[mask > 0]
    assert np.quantile(wrong, 0.9) > 1
    checked += valid.sum()
  assert checked > 4


HOLDEM = {"game": "turn_endgame_holdem", "game_params": tuple(GAME.items())}
HEADS_UP = {"game": "small_holdem", "game_params": ()}
SPOT = "small_turn_endgame_holdem"
OTHERS = (("board", "9sJhKdQs"),), (("ranks", "8TJQKA"), ("board", "8sJhKdAs"))
test_what_is_not_allowed = refused(
  *((lambda x=x: TINY.replace(**x).validate(), message) for x, message in [
    (dict(vary="stack"), "^vary='stack' must be pairs of a name"),
    (HOLDEM | dict(vary=(("stacks", "1-2"),)), "^vary='stacks' is unknown for turn_endgame_hold"),
    (HOLDEM | dict(vary=(("stack", "2-1"),)), "^vary stack='2-1' must be LOW-HIGH"),
    (HOLDEM | dict(vary=(("stack", "100-300"),)), "^vary stack='100-300' may leave nothing to bet"),
    (HOLDEM | dict(vary=(("bets", 1.5),)), "^vary bets=1.5 must be a part of the pot"),
    (HEADS_UP | dict(vary=(("board", "random"),)), "^vary board='random' must be 'random', in a g"),
    (HEADS_UP | dict(game_params=(("flops", 4),)), "^flops=4 needs a game that deals three cards"),
  ]),
  (lambda: make_setup(FRESH.replace(depth=2)), "needs depth='stage', not depth=2"),
  *((lambda x=x: rebel_jax.load_pretrained(SPOT).at_spot(x), "would number infostates or actions")
    for x in OTHERS),
  (lambda: rebel_jax.load_pretrained(SPOT).at_spot((("stacks", 1),)), "has no parameter 'stacks'"),
)  # fmt: skip


def test_a_network_at_another_spot():
  policy = rebel_jax.load_pretrained("small_turn_endgame_holdem")
  assert policy.at_spot(()) is policy
  moved = policy.at_spot((("stack", 9_000),))
  assert moved.config.make_game().rules.stack == 9_000
  assert dict(moved.config.game_params)["board"] == dict(policy.config.game_params)["board"]
  assert moved.params is policy.params
