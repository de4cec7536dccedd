"""What an agent wins from players who do not look at their cards, against whole-tree values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.poker import CALL
from rebel_jax.evaluation.hands_evaluator import (
  HandsSearch,
  favourites,
  play_chance,
  play_round,
  show_down,
  sit_down,
)
from solvers.search import TemplateSubgames
from solvers.sweeps import join_levels, make_problem, pairs

HANDS, BATCHES = 512, 6
ACTIONS = (CALL, CALL + 1, CALL + 2)  # the last two are the pot and all-in


class Anything:
  """Leaves are worth so many chips at most, of no meaning; compared by value, as a network is."""

  def __call__(self, params, query):
    place = 100 * query.features.sum(axis=1, keepdims=True)
    hand = 0.1 * jnp.arange(query.beliefs.shape[-1])
    return params * query.traverser * jnp.sin(place + hand)


@functools.cache
def small():
  """Two rounds: blinds, so that seats differ, and all-in before the card."""
  game = games.make(
    "small_holdem", ranks="TJQK", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=400
  )
  return game, games.build_public_tree(game)


def likes(tree):
  """Returns what players like who prefer one of the actions to all others: `[K, N]`."""
  action = jnp.asarray(tree.action)
  return jnp.stack([(action == liked).astype(float) for liked in ACTIONS])


@jax.jit
def policies(tree, scores):
  """Returns uniform play, and that of who likes moves by `scores` `[N]`."""
  uniform = make_problem(tree, tree.prior).uniform_policy()
  return join_levels(uniform), join_levels(favourites(tree, scores))


@functools.cache
def exact(opponent, seat):
  """Returns what uniform play wins in `seat` from the other, by expected values on the tree."""
  tree = small()[1]
  uniform, other = policies(tree, likes(tree)[opponent])
  mover = np.asarray(tree.kind)[np.maximum(np.asarray(tree.parent), 0)]
  policy = np.where((mover == 1 - seat)[:, None], np.asarray(other), np.asarray(uniform))
  values = solvers.expected_values(tree, policy)[seat]
  marginals = pairs.root_marginals(tree, tree.prior)[seat]
  return float((np.asarray(marginals) * np.asarray(values)).sum())


@functools.cache
def program():
  """Returns what plays hands with an agent that does not search, given which other."""
  game, _ = small()
  rules = game.templates()
  stages = TemplateSubgames(rules).stages
  # The policy before the first update is uniform.
  search = HandsSearch(solvers.linear_cfr(), Anything(), None, 2)
  root = jnp.tile(jnp.asarray(game.initial_state(), jnp.int32), (HANDS, 1))

  @jax.jit
  def play(key, opponent, params):
    keys = jax.random.split(key, 3)
    tables = sit_down(rules, root)
    tables = play_round(
      stages[rules.stage_template(0)], search, likes, tables, opponent, params, keys[0]
    )
    tables = show_down(stages[-1], tables)
    tables = play_chance(rules, tables, keys[1])
    return play_round(
      stages[rules.stage_template(1)], search, likes, tables, opponent, params, keys[2]
    )

  return play


def played(opponent, most=300.0):
  """Returns what the agent won: `[hands]`, and its seats; leaves are worth `most`."""
  found = [program()(jax.random.key(i), jnp.asarray(opponent), most) for i in range(BATCHES)]
  assert all(float(tables.weight.max()) == 0 for tables in found)  # every hand has ended
  return np.concatenate([x.won for x in found]), np.concatenate([x.seat for x in found])


@pytest.mark.parametrize("opponent", [0, 2])
def test_the_mean_is_the_exact_value(opponent):
  won, seats = played(opponent)
  for seat in (0, 1):
    own = won[seats == seat]
    error = own.std(ddof=1) / np.sqrt(len(own))
    value = exact(opponent, seat)
    assert abs(own.mean() - value) < 4 * error + 1e-3
    wrong = exact(opponent, 1 - seat)  # control: the other's seat
    assert abs(own.mean() - wrong) > 4 * error


def test_what_is_taken_for_luck_is_nothing_on_average():
  luck = played(0)[0] - played(0, 0.0)[0]  # uniform play whatever leaves are worth
  error = luck.std(ddof=1) / np.sqrt(len(luck))
  assert abs(luck.mean()) < 4 * error
  assert luck.std() > 10
