"""What an agent wins from players who do not look at their cards, against whole-tree values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.pairs import compatible_mass, holds, per_pair_mass
from games.poker import CALL
from rebel_jax.evaluation.hands_evaluator import (
  HandsSearch,
  favourites,
  guessed,
  play_chance,
  play_round,
  show_down,
  sit_down,
)
from solvers.search import TemplateSubgames, find_subgames, make_searching_agent
from solvers.search.playthroughs import searching_policy
from solvers.sweeps import join_levels, make_problem, pairs

HANDS, BATCHES = 512, 6
ACTIONS = (CALL, CALL + 2)  # the last is all-in


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
    "small_holdem", ranks="TJQK", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=300
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


def worth(own, other, seat):
  """Returns what policy `own` wins in `seat` from `other`, by expected values on the tree."""
  tree = small()[1]
  mover = np.asarray(tree.kind)[np.maximum(np.asarray(tree.parent), 0)]
  policy = np.where((mover == 1 - seat)[:, None], np.asarray(other), np.asarray(own))
  values = solvers.expected_values(tree, policy)[seat]
  marginals = pairs.root_marginals(tree, tree.prior)[seat]
  return float((np.asarray(marginals) * np.asarray(values)).sum())


@functools.cache
def exact(opponent, seat):
  """Returns what uniform play wins in `seat` from the other."""
  tree = small()[1]
  return worth(*policies(tree, likes(tree)[opponent]), seat)


# The policy before the first update is uniform.
SEARCH = HandsSearch(solvers.linear_cfr(), Anything(), None, 2)


def play(searches, opponent, params, key):
  """Returns the ends of hands between one that searches and another."""
  game, _ = small()
  rules = game.templates()
  stages = TemplateSubgames(rules).stages
  keys, about = jax.random.split(key, 3), (opponent, params)
  tables = sit_down(rules, jnp.tile(jnp.asarray(game.initial_state(), jnp.int32), (HANDS, 1)))
  first, second = (stages[rules.stage_template(i)] for i in (0, 1))
  tables = play_round(first, searches, likes, tables, *about, keys[0])
  tables = play_chance(rules, show_down(stages[-1], tables), keys[1])
  return play_round(second, searches, likes, tables, *about, keys[2])


def played(opponent, params=(300.0, None), searches=(SEARCH, None)):
  """Returns what the agent won: `[hands]`, and its seats; `params` are what leaves are worth."""
  found = [play(searches, jnp.asarray(opponent), params, jax.random.key(i)) for i in range(BATCHES)]
  assert all(float(tables.weight.max()) == 0 for tables in found)  # every hand has ended
  return np.concatenate([x.won for x in found]), np.concatenate([x.seat for x in found])


@pytest.mark.parametrize("opponent", [0, 1])
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
  # Play is uniform whatever leaves are worth.
  luck = played(0, (1_000.0, None))[0] - played(0, (0.0, None))[0]
  error = luck.std(ddof=1) / np.sqrt(len(luck))
  assert abs(luck.mean()) < 4 * error
  assert luck.std() > 10


@pytest.mark.parametrize("averages", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_that_search_win_what_they_win_on_the_tree(averages):
  game, _ = small()
  subgames = find_subgames(game, depth="stage")
  agent = make_searching_agent(
    game, subgames, algorithm=solvers.linear_cfr(), leaf_values=Anything()
  )
  params, numbers = (50.0, -1_000.0), {"num_iterations": 8, "key": jax.random.key(0)}
  policies = [
    searching_policy(
      agent, params=x, num_playthroughs=1 if unsafe else 1_024, unsafe=unsafe, **numbers
    )
    for x, unsafe in zip(params, (False, averages))
  ]
  search = SEARCH._replace(num_iterations=8)
  won, seats = played(0, params, (search, search._replace(averages=averages)))
  for seat in (0, 1):
    own = won[seats == seat]
    error = own.std(ddof=1) / np.sqrt(len(own))
    assert abs(own.mean() - worth(*policies, seat)) < 4 * error
  # Control: from its like the agent wins nothing.
  assert won.mean() > 4 * won.std(ddof=1) / np.sqrt(len(won))


def test_duplicates_of_equal_agents_cancel():
  """All but rounding; with the leaves of another network they do not."""
  search = SEARCH._replace(num_iterations=8)
  for other, same in ((2_000.0, True), (-1_000.0, False)):
    won, _ = played(0, (2_000.0, other), (search, search))
    both = won.reshape(BATCHES, 2, -1).sum(axis=1)
    assert (np.abs(both).max() < 0.1) == same
    assert np.abs(won).max() > 100


def test_leaves_that_no_pair_of_hands_reaches_are_worth_nothing():
  """Ranges whose hands all hold one card: the mass of pairs cancels to rounding errors."""
  game, tree = small()
  ours = (game.hole_cards == 0).any(axis=1)
  drawn = np.random.default_rng(0).exponential(size=(64, *tree.prior.shape)) * ours
  reach = np.asarray(drawn / drawn.sum(axis=-1, keepdims=True), tree.dtype)

  @jax.jit
  def found(reach):
    held = holds(jnp.asarray(game.hole_cards), game.deck.num_cards, reach.dtype)
    mass = (reach * compatible_mass(reach[:, ::-1], held)).sum(axis=-1)
    values = 100 * jnp.ones_like(reach)
    return mass, guessed(game.templates(), values, reach), per_pair_mass(values, mass[..., None])

  mass, *worth = found(reach)
  assert 1e-9 < np.abs(mass).max() < 1e-6
  assert not any(np.any(x) for x in worth)
