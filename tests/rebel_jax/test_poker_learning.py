"""Learning hold'em: subgames by stage, deals, card networks, self-play and training."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.poker import betting
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.networks.poker import PokerValueNetwork, Table
from rebel_jax.training.self_play import Lanes, SelfPlayStats
from rebel_jax.training.setup import make_setup, make_subgames
from solvers.search.batch import search_batch
from solvers.search.find import find_subgames
from solvers.search.playthroughs import searching_policy
from solvers.search.searching_agent import make_searching_agent
from solvers.search.tables import stack_stages, stack_subgames

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


def test_subgames_are_the_stages_of_the_game():
  game, subgames = tiny_game(), tiny_subgames()
  tables = stack_stages(game, subgames, by_stage=True)
  groups = [np.flatnonzero(table.row_of >= 0) for table in tables.stages]
  assert [int(game.stages(subgames.states[entries[0]][None])[0]) for entries in groups] == [0, 1, 2]
  assert groups[0].tolist() == [0]
  assert [stage.decides for stage in tables.stages] == [True, False, True]
  for entry, (tree, successors) in enumerate(zip(subgames.trees, subgames.successors)):
    for leaf, successor in zip(tree.leaf_nodes, successors, strict=True):
      np.testing.assert_array_equal(np.asarray(tree.state)[leaf], subgames.states[successor])
    (table,) = (stage for stage in tables.stages if stage.row_of[entry] >= 0)
    row = table.row_of[entry]
    live = np.asarray(table.trees.leaf_actor)[row] != games.PADDING
    np.testing.assert_array_equal(np.asarray(table.successor)[row][live], successors)


def test_a_deal_forgets_how_the_pot_was_bet():
  """One deal for each pot, though many ways of betting lead to it."""
  game, subgames = tiny_game(), tiny_subgames()
  deals = [s for s in subgames.states if game.stages(s[None])[0] == 1]
  pots = [int(s[[betting.PAID_0, betting.PAID_1]].sum()) for s in deals]
  assert len(set(pots)) == len(pots)
  assert subgames.trees[0].num_leaves > len(pots)
  seen = [game.features(s[None], 0)[0].tobytes() for s in subgames.states]
  assert len(set(seen)) == len(seen)  # what a network sees tells all subgames apart


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

  result = search_batch(
    table.trees, jnp.asarray(beliefs)[None], jnp.zeros(1, int), 2,
    algorithm=solvers.vanilla_cfr(), leaf_values=leaf_values, params=None,
    num_rows=tree.num_leaves,
  )  # fmt: skip
  cards = game.hole_cards
  left = game.deck.num_cards - len(game.board)
  probability = 1 / (left - 4) if card_probability is None else card_probability
  values = np.zeros((2, h))
  for player in (0, 1):
    at_leaf = []
    for k, leaf in enumerate(tree.leaf_nodes):
      (card,) = tree.dealt[leaf]
      free = ~(cards == card).any(axis=1)
      own, other = (b * free / (b * free).sum() for b in (beliefs[player], beliefs[1 - player]))
      value = tree.leaf_features[player][k].sum() + own @ slopes + np.cos(other @ slopes)
      at_leaf.append((card, value))
    for hand in range(h):
      mass = total = 0.0
      for opposing in range(h):
        if set(cards[hand]) & set(cards[opposing]):
          continue
        mass += beliefs[1 - player][opposing]
        for card, value in at_leaf:
          if card not in cards[hand] and card not in cards[opposing]:
            total += beliefs[1 - player][opposing] * probability * value[hand]
      values[player, hand] = total / mass
  return np.asarray(result.root_values[0]), values


def test_a_deal_is_worth_the_mean_over_cards_and_hands(x64):
  tiny_subgames.cache_clear()
  ours, theirs = deal_values()
  np.testing.assert_allclose(ours, theirs, atol=1e-10)
  ours, theirs = deal_values(card_probability=1 / 5)  # of the cards left, whoever holds them
  assert np.abs(ours - theirs).max() > 0.1
  tiny_subgames.cache_clear()


def make_network():
  return PokerValueNetwork(
    num_infostates=tiny_game().num_infostates,
    hidden_layers=1,
    width=16,
    table=Table.of(tiny_game()),
    embedding=4,
  )


def test_card_network():
  """Hands that the board blocks are worth nothing; values grow with the pot they are learned in."""
  game, subgames, network = tiny_game(), tiny_subgames(), make_network()
  rivers = [s for s in subgames.states if game.stages(s[None])[0] == 2]
  features = jnp.asarray(game.features(np.stack(rivers), 0), jnp.float32)
  beliefs = jnp.full((len(rivers), 2 * game.num_infostates), 1 / game.num_infostates)
  params = network.init(jax.random.key(0), features, beliefs)
  values = np.asarray(network.apply(params, features, beliefs))
  for state, row in zip(rivers, values):
    blocked = (game.hole_cards == state[-1]).any(axis=1)
    np.testing.assert_array_equal(row == 0, blocked)
  pots = np.stack(rivers)[:, [betting.PAID_0, betting.PAID_1]].sum(axis=1, keepdims=True)
  np.testing.assert_allclose(network.unit(features), pots, rtol=1e-5)
  # Rows of the same betting differ by their cards.
  first = [k for k, state in enumerate(rivers) if (state[:-1] == rivers[0][:-1]).all()]
  assert len(first) == 5
  assert np.ptp(values[first], axis=0).max() > 0


class Step(NamedTuple):
  """A step of self-play: the lanes after it, counts, and examples and which are valid by target."""

  lanes: Lanes
  stats: SelfPlayStats
  found: dict[str, Any]


@functools.cache
def played(policy_network=False, **changes):
  config = TINY.replace(policy_network=policy_network, **changes)
  setup = make_setup(config)
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  trainer = setup.trainer

  @jax.jit
  def step(lanes, key):
    after = trainer.self_play.step(setup.table, lanes, params, key)
    found = {target.name: target.examples_of(after.searched) for target in trainer.targets}
    return Step(after.lanes, after.stats, found)

  lanes, steps = setup.trainer.self_play.init(setup.table, jax.random.key(0)), []
  for i in range(4):
    steps.append(step(lanes, jax.random.key(i)))
    lanes = steps[-1].lanes
  return setup, params, steps


def test_a_lane_plays_through_all_stages_in_a_step():
  setup, _, steps = played()
  game = setup.game
  lanes = setup.config.self_play.lanes
  counts = np.zeros(3, int)
  for step in steps:
    # Where a step leaves a lane, a new game has begun: at a deal, with the start played for all.
    assert set(np.asarray(game.stages(step.lanes.roots)).tolist()) == {1}
    np.testing.assert_allclose(np.asarray(step.lanes.beliefs).sum(axis=-1), 1.0, atol=1e-5)
    # Deals, rivers, and deals to hands that are all-in; players.
    valid = np.asarray(step.found["value"][1]).reshape(3, 2, lanes)
    assert (valid[0] | valid[2]).all()
    assert (valid[:, 0] == valid[:, 1]).all()
    assert int(step.stats.solves) == valid[:, 0].sum()
    counts += valid[:, 0].sum(axis=1)
  assert 0 < counts[1] <= counts[0]
  assert counts[2] > 0


def test_examples_of_rivers_and_deals_hold_the_values_of_a_solve():
  setup, params, steps = played()
  subgames = make_subgames(setup.config, setup.game)
  leaf_values = setup.trainer.self_play.leaf_values
  lanes = setup.config.self_play.lanes
  checked: dict[int, int] = {0: 0, 1: 0, 2: 0}
  errors: list[np.ndarray] = []
  for step in steps:
    examples, valid = jax.tree.map(
      lambda x: np.asarray(x).reshape(3, 2, lanes, *x.shape[1:]), step.found["value"]
    )
    for layer in checked:
      for lane in np.flatnonzero(valid[layer, 0])[:3]:
        features = examples.features[layer, 0, lane]
        entry = next(
          i
          for i, state in enumerate(subgames.states)
          if np.allclose(setup.game.features(state[None], 0)[0], features, atol=1e-6)
        )
        tree = subgames.trees[entry]
        beliefs = examples.beliefs[layer, 0, lane].reshape(2, -1)
        if (beliefs[0] * examples.mask[layer, 0, lane]).sum() < 1e-6:
          continue  # exploring led where no pair of hands is compatible
        solution = solvers.solve(
          tree,
          algorithm=solvers.linear_cfr() if layer == 1 else solvers.vanilla_cfr(),
          num_iterations=setup.config.search.iterations if layer == 1 else 2,
          beliefs=beliefs,
          leaf_values=leaf_values if tree.depth_limited else None,
          params=params if tree.depth_limited else None,
        )
        for player in (0, 1):
          mask = examples.mask[layer, player, lane]
          ours = examples.values[layer, player, lane] * mask
          errors.append(np.abs(ours - solution.root_values[player] * mask)[mask > 0])
          assert np.abs(ours).max() > 1
        checked[layer] += 1
  assert min(checked.values()) > 0
  # Between moves that are worth the same rounding decides, and a few hands' values hang on it.
  assert np.quantile(np.concatenate(errors), 0.95) < 0.02


@pytest.mark.slow
def test_policy_examples_come_from_the_start_and_from_rivers():
  setup, _, steps = played(policy_network=True)
  game, rivers = setup.game, 0
  for step in steps:
    found, valid = step.found["policy"]
    valid = np.asarray(valid)
    features = np.asarray(found.features)[valid]
    rounds = features[:, 3]
    rivers += (rounds == 1).sum()
    assert set(rounds) <= {0, 1}
    start = make_subgames(setup.config, setup.game).trees[0]
    assert (rounds == 0).sum() == (np.asarray(start.kind) < games.CHANCE).sum()
    assert (features[:, 1] == 1).all()  # seen by who acts
    legal = np.asarray(found.legal)[valid]
    policy = np.asarray(found.policy)[valid]
    assert policy.shape[1:] == (game.num_player_actions, game.num_infostates)
    total = policy.sum(axis=1)
    assert ((total == 0) | (abs(total.astype(int) - 255) <= 3)).all()
    assert not policy[legal == 0].any()
  assert rivers > 0


def agent_error(leaf_values, params, **changes):
  """Returns the exploitability, in pots, of an agent that searches the tiny game by stages."""
  game, subgames = tiny_game(), tiny_subgames()
  agent = make_searching_agent(
    game, subgames, algorithm=solvers.linear_cfr(), leaf_values=leaf_values, **changes
  )
  policy = searching_policy(
    agent, params=params, num_playthroughs=48, num_iterations=64, key=jax.random.key(0)
  )
  return float(solvers.exploitability(agent.tree, jnp.asarray(policy))) / GAME["pot"]


@pytest.mark.slow
def test_playthroughs_cover_a_game_cut_by_stages():
  """With exact values the agent is near equilibrium; with none it is not."""
  from solvers.search.oracle import search_leaf_values

  oracle, params = search_leaf_values(tiny_game(), tiny_subgames(), num_iterations=32)
  right = agent_error(oracle, params)
  nothing = agent_error(lambda params, query: jnp.zeros_like(query.beliefs[:, 0]), None)
  assert right < 0.03
  assert nothing > 3 * right


def test_bad_settings():
  for changes, message in [
    (dict(depth="street"), "depth='street' must be an integer, at least 1, or 'stage'"),
    (dict(buffer_size=16), "buffer_size=16 must be at least 48"),
    (
      dict(game="rock_paper_scissors", game_params=(), depth=1, policy_network=True),
      "policy_network=True needs infostates that never change",
    ),
    (
      dict(policy_network=True, algorithm="fictitious_play"),
      "algorithm='fictitious_play' cannot start from a policy network",
    ),
  ]:
    with pytest.raises(ConfigError, match=message):
      make_setup(TINY.replace(**changes))
