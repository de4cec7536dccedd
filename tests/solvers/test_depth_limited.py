"""Depth-limited CFR (CFR-D) against the referee, update by update, in float64.

Where every leaf is worth a fixed payoff matrix, a tree cut off at its leaves is a whole game that
ends there. The referee solves that game; the solver only gets to know what the leaves are worth
at its beliefs.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import brute_force, harness

NUM_UPDATES = 12
TOLERANCE = 1e-10
# A case and where it is cut off, counted from the start of the game.
CUTS = {
  "kuhn": 2,
  "rock_paper_scissors": 1,
  "liars_dice_1x3f": 2,
  "liars_dice_2x2f_after_a_bid": 3,
  "leduc": 4,  # some leaves after the public card, one of them before a chance node
  "random_5": 2,
}


class CutOff(games.Game):
  """A game that ends at a depth, at leaves that are worth random payoff matrices."""

  name = "cut_off"

  def __init__(self, game, depth, rng):
    self.game, self.depth = game, depth
    self.num_infostates, self.num_actions = game.num_infostates, game.num_actions
    self.prior, self.pair_weights = game.prior, game.pair_weights
    tree = games.build_public_tree(game, depth=depth)
    leaves = np.asarray(tree.state)[np.asarray(tree.leaf_nodes)]
    self.leaf_index = {leaf.tobytes(): i for i, leaf in enumerate(np.unique(leaves, axis=0))}
    h = game.num_infostates
    self.leaf_tables = rng.normal(size=(len(self.leaf_index), h, h))

  def table_of(self, state):
    """Returns the place of a leaf's payoff matrix among `leaf_tables`."""
    return self.leaf_index[np.asarray(state, np.int32).tobytes()]

  def initial_state(self):
    return np.append(self.game.initial_state(), 0)

  def actor(self, states):
    return np.where(states[:, -1] == self.depth, games.TERMINAL, self.game.actor(states[:, :-1]))

  def legal_actions(self, states):
    return self.game.legal_actions(states[:, :-1])

  def next_states(self, states, actions):
    new = self.game.next_states(states[:, :-1], actions)
    return np.concatenate([new, states[:, -1:] + 1], axis=1)

  def pair_index(self, states):
    return self.game.pair_index(states[:, :-1])

  def chance(self, states, actions):
    return self.game.chance(states[:, :-1], actions)

  def infostate_parents(self, states, actions):
    return self.game.infostate_parents(states[:, :-1], actions)

  def payoffs(self):
    return np.concatenate([self.leaf_tables, self.game.payoffs()])

  def _is_cut(self, states):
    return self.game.actor(states[:, :-1]) != games.TERMINAL

  def payoff_index(self, states):
    ends = len(self.leaf_tables) + self.game.payoff_index(states[:, :-1])
    cut = self._is_cut(states)
    return np.array([self.table_of(s[:-1]) if c else e for s, c, e in zip(states, cut, ends)], int)

  def payoff_scale(self, states):
    return np.where(self._is_cut(states), 1.0, self.game.payoff_scale(states[:, :-1]))

  def features(self, states, player):
    return self.game.features(states[:, :-1], player)


def matrix_values(params, query):
  """Expected values at leaves that are worth `params`: payoffs and pair weights `[L, H, H]`."""
  payoffs, weights = params
  if query.traverser == 1:
    payoffs, weights = -payoffs.swapaxes(1, 2), weights.swapaxes(1, 2)
  opponent = query.beliefs[:, 1 - query.traverser]
  total = jnp.einsum("lij,lj->li", payoffs * weights, opponent)
  mass = jnp.einsum("lij,lj->li", weights, opponent)
  return jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1.0), 0.0)


def scene(case):
  """Returns the cut tree, its edges, leaf params, root beliefs with zeros, and the referee."""
  game, root = harness.make_case(case)
  harness.jitter_payoffs(game)
  rng = np.random.default_rng(len(case))
  cut = CutOff(game, CUTS[case], rng)
  tree = games.build_public_tree(game, root=root, depth=CUTS[case] - len(root))
  assert tree.depth_limited
  places = [cut.table_of(state) for state in tree.state[tree.leaf_nodes]]
  params = cut.leaf_tables[places], tree.pair_weights[tree.leaf_pair_index]
  beliefs = harness.random_beliefs(rng, harness.root_possible(tree))
  referee = brute_force.Referee(cut, root, beliefs)
  return tree, brute_force.tree_edges(tree, root), params, beliefs, referee


def worst_errors(case, algorithm, num_updates=NUM_UPDATES):
  """Returns the largest errors of policies, averages and root values over all updates."""
  tree, edges, params, beliefs, referee = scene(case)
  errors = []
  for t, step in enumerate(referee.cfr(num_updates, linear=True)):
    current, average, values = harness.run(
      tree, beliefs, t + 1, params=params, algorithm=algorithm, leaf_values=matrix_values
    )
    errors.append(
      [
        brute_force.worst_difference(edges, current, step.policy),
        brute_force.worst_difference(edges, average, step.average),
        np.abs(values - step.root_values).max(),
      ]
    )
  return np.max(errors, axis=0)


@pytest.mark.parametrize("case", harness.slow(CUTS, "rock_paper_scissors", "liars_dice_1x3f"))
def test_every_update_matches_the_game_that_ends_at_the_leaves(case, x64):
  assert worst_errors(case, solvers.linear_cfr()).max() < TOLERANCE


class ForgetsTheOpponentsReach(solvers.CFR):
  """Leaf values enter as they come, however seldom the opponent plays to the leaf."""

  def update(self, problem, state, values, player):
    return self.update_weighed(problem, state, values, player)


class AsksAboutTheFirstPolicy(solvers.CFR):
  """Leaf beliefs stay those of the uniform policy."""

  def leaf_query(self, problem, state, player):
    first = super().init(problem)
    return super().leaf_query(problem, first, player)


class WeighsRootValuesByBelief(solvers.CFR):
  """Own reach starts at the root belief rather than at one: 0 / 0 where that is zero."""

  def root_values(self, problem, state):
    own = jnp.stack([problem.pairs.nature[player][0][0] for player in (0, 1)])
    weight = state.values.weight[:, None] * problem.root_mass * own
    return jnp.where(weight > 0, state.values.total * own / jnp.where(weight > 0, weight, 1), 0.0)


@pytest.mark.parametrize(
  ("mistake", "shows_in"),
  [(ForgetsTheOpponentsReach, 0), (AsksAboutTheFirstPolicy, 0), (WeighsRootValuesByBelief, 2)],
)
def test_control_a_mistake_is_seen(mistake, shows_in, x64):
  right = solvers.linear_cfr()
  fields = {field.name: getattr(right, field.name) for field in dataclasses.fields(right)}
  assert worst_errors("liars_dice_1x3f", mistake(**fields))[shows_in] > 1e-3


def never(params, query):
  raise AssertionError("a tree without leaves asked for leaf values")


def test_with_depth_at_least_the_games_leaves_are_never_asked_about(x64):
  game = games.make("kuhn_poker")
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 16}
  whole = solvers.solve(games.build_public_tree(game), **settings)
  deep = solvers.solve(games.build_public_tree(game, depth=3), leaf_values=never, **settings)
  for one, other in zip(deep, whole):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
  with pytest.raises(AssertionError, match="asked for leaf values"):
    solvers.solve(games.build_public_tree(game, depth=2), leaf_values=never, **settings)
