"""CFR update by update against the referee that walks over histories, in float64."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import brute_force, harness

NUM_UPDATES = 16
TOLERANCE = 1e-10
ALGORITHMS = {"vanilla": solvers.vanilla_cfr(), "linear": solvers.linear_cfr()}


# Each case compiles twice a rule: by default those of a kind that are the smallest.
QUICK = [("kuhn", "vanilla"), ("leduc_after_a_card", "vanilla"), ("liars_dice_1x3f", "linear"),
         ("random_5", "linear")]  # fmt: skip
OTHERS = [("rock_paper_scissors", "vanilla"), ("random_2", "vanilla"), ("leduc", "linear"),
          ("liars_dice_2x2f_after_a_bid", "linear")]  # fmt: skip
CASES = [*QUICK, *(pytest.param(*x, marks=pytest.mark.slow) for x in OTHERS)]


def build(case, *, jitter=False):
  """Returns game, root and tree of a case, and random root beliefs with zeros among them."""
  game, root = harness.make_case(case)
  if jitter:
    harness.jitter_payoffs(game)
  tree = games.build_public_tree(game, root=root)
  rng = np.random.default_rng(len(case))
  return game, root, tree, harness.random_beliefs(rng, harness.root_possible(tree))


def errors(steps, algorithm, tree, edges, beliefs, **leaves):
  """Returns the largest errors of policies, averages and root values over all updates."""
  worst = np.zeros(3)
  for t, step in enumerate(steps):
    current, average, values = harness.run(tree, beliefs, t + 1, algorithm=algorithm, **leaves)
    pairs = (current, step.policy), (average, step.average)
    apart = [brute_force.worst_difference(edges, *pair) for pair in pairs]
    worst = np.maximum(worst, [*apart, np.abs(values - step.root_values).max()])
  return worst


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_update_matches_the_referee(case, name, x64):
  game, root, tree, beliefs = build(case, jitter=True)
  referee = brute_force.Referee(game, root, beliefs)
  steps = list(referee.cfr(NUM_UPDATES, linear=name == "linear"))
  edges = brute_force.tree_edges(tree, root)
  assert errors(steps, ALGORITHMS[name], tree, edges, beliefs).max() < TOLERANCE


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_update_follows_from_the_one_before(case, name, x64):
  """As above with the games' own payoffs and priors, where ties do occur."""
  game, root, tree, _ = build(case)
  beliefs = np.asarray(tree.prior)
  referee = brute_force.Referee(game, root, beliefs)
  trajectory = [
    harness.run(tree, beliefs, t + 1, algorithm=ALGORITHMS[name]) for t in range(NUM_UPDATES)
  ]
  edges = brute_force.tree_edges(tree, root)
  follow = [brute_force.from_array(edges, current) for current, _, _ in trajectory]
  steps = referee.cfr(NUM_UPDATES, linear=name == "linear", follow=follow)
  num_decided = 0
  for step, (current, average, values) in zip(steps, trajectory, strict=True):
    num_decided += len(step.decided)
    error = brute_force.worst_difference(edges, current, step.policy, step.decided)
    assert error < TOLERANCE
    assert brute_force.worst_difference(edges, average, step.average) < TOLERANCE
    np.testing.assert_allclose(values, step.root_values, rtol=0, atol=TOLERANCE)
  assert num_decided > 0.2 * len(referee.infosets) * NUM_UPDATES / 2


# Trees that are cut off: where each leaf is worth a payoff matrix, such a tree is a whole game
# that ends there. The referee solves that game; the solver only learns what leaves are worth.

# A case and where it is cut off, counted from the start of the game.
CUTS = {
  "kuhn": 2,
  "rock_paper_scissors": 1,
  "liars_dice_1x3f": 2,
  "liars_dice_2x2f_after_a_bid": 3,
  "leduc": 4,  # some leaves after the public card, one of them before a chance node
  "random_5": 2,
}


def of_the_game(name):
  """Returns a rule of the game that is cut off, whose states lack the last column."""
  return lambda self, states, *others: getattr(self.game, name)(states[:, :-1], *others)


class CutOff(games.Game):
  """A game that ends at a depth, at leaves that are worth random payoff matrices."""

  name = "cut_off"
  legal_actions, pair_index = of_the_game("legal_actions"), of_the_game("pair_index")
  chance, features = of_the_game("chance"), of_the_game("features")
  infostate_parents = of_the_game("infostate_parents")

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

  def next_states(self, states, actions):
    new = self.game.next_states(states[:, :-1], actions)
    return np.concatenate([new, states[:, -1:] + 1], axis=1)

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


def errors_where_cut(case, algorithm):
  """Returns `errors` of a tree that is cut off."""
  tree, edges, params, beliefs, referee = scene(case)
  steps = referee.cfr(12, linear=True)
  return errors(steps, algorithm, tree, edges, beliefs, params=params, leaf_values=matrix_values)


@pytest.mark.parametrize("case", harness.slow(CUTS, "rock_paper_scissors", "liars_dice_1x3f"))
def test_every_update_matches_the_game_that_ends_at_the_leaves(case, x64):
  assert errors_where_cut(case, solvers.linear_cfr()).max() < TOLERANCE


def never(params, query):
  raise AssertionError("a tree without leaves asked for leaf values")


def test_with_depth_at_least_the_games_leaves_are_never_asked_about(x64):
  game = games.make("kuhn_poker")
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 2}
  solvers.solve(games.build_public_tree(game, depth=3), leaf_values=never, **settings)
  with pytest.raises(AssertionError, match="asked for leaf values"):
    solvers.solve(games.build_public_tree(game, depth=2), leaf_values=never, **settings)


class WeighsRootValuesByBelief(solvers.CFR):
  """Own reach starts at the root belief rather than at one: 0 / 0 where that is zero."""

  def root_values(self, problem, state):
    own = jnp.stack([problem.nature[player][0][0] for player in (0, 1)])
    total, weight = (jnp.stack(x) for x in state.values)
    total, weight = total * own, weight[:, None] * problem.root_mass * own
    return jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1.0), 0.0)


class UpdatesFromStaleReach(solvers.CFR):
  """Player 1 responds to the policy that player 0 had before its update of the same pair."""

  def update(self, problem, state, values, player):
    new, sweep = super().update(problem, state, values, player)
    return new if player else new._replace(reach=state.reach), sweep


def broken(kind):
  """Returns Linear CFR with the mistake of `kind`."""
  right = solvers.linear_cfr()
  return kind(**{field.name: getattr(right, field.name) for field in dataclasses.fields(right)})


# Which of (current policy, average policy, root values) each mistake shows in.
MISTAKES = {
  "root values weighted by root belief": (broken(WeighsRootValuesByBelief), 2),
  "quadratic average": (solvers.linear_cfr(averaging=2.0), 1),
  "stale opponent": (broken(UpdatesFromStaleReach), 0),
  "regrets not discounted": (solvers.vanilla_cfr(averaging=1.0), 0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_control_a_mistake_is_seen(mistake, x64):
  algorithm, shows_in = MISTAKES[mistake]
  game, root, tree, beliefs = build("kuhn", jitter=True)
  edges = brute_force.tree_edges(tree, root)
  steps = list(brute_force.Referee(game, root, beliefs).cfr(NUM_UPDATES, linear=True))
  assert errors(steps, solvers.linear_cfr(), tree, edges, beliefs).max() < TOLERANCE
  assert errors(steps, algorithm, tree, edges, beliefs)[shows_in] > 1e-3


class ForgetsTheOpponentsReach(solvers.CFR):
  """Leaf values enter as they come, however seldom the opponent plays to the leaf."""

  def update(self, problem, state, values, player):
    return self.update_weighed(problem, state, values, player)


class AsksAboutTheFirstPolicy(solvers.CFR):
  """Leaf beliefs stay those of the uniform policy."""

  def leaf_query(self, problem, state, player):
    first = super().init(problem)
    return super().leaf_query(problem, first, player)


@pytest.mark.parametrize("kind", [ForgetsTheOpponentsReach, AsksAboutTheFirstPolicy])
def test_control_a_mistake_at_leaves_is_seen(kind, x64):
  assert errors_where_cut("liars_dice_1x3f", broken(kind))[0] > 1e-3
