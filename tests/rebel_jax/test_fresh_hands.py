"""Training on hands that are new each time: stacks, pots, bets and boards; other spots; errors."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rebel_jax
import solvers
from games.build import stack_trees
from games.poker import betting
from rebel_jax.training.self_play import Searched
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import value_examples
from solvers.search.batch import search_batch
from tests.own_games import Hedge, own_tree
from tests.rebel_jax.test_poker_learning import GAME
from tests.rebel_jax.test_poker_learning import TINY as TINY_POKER
from tests.sentences import refused
from tests.tiny import TINY

VARY = {"stack": "250-500", "pot": "100-300", "bets": 0.1, "board": "random"}
FRESH = TINY_POKER.replace(vary=tuple(VARY.items()), share_start=False, iterations=4)
BIG_BLIND = 8  # column of the features of a game with fresh stacks
SMOOTH = solvers.CFR(Hedge(0.01))


@functools.cache
def played():
  """Returns a setup, its parameters, and steps of self-play: lanes before, and all after."""
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
  lanes, steps = settings.init(setup.table, jax.random.key(0)), []
  for i in range(8):
    after = step(lanes, jax.random.key(i))
    steps.append((lanes, after))
    lanes = after.lanes
  return setup, params, steps


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
  setup, params, steps = played()
  _, after = steps[3]
  checked = 0
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
