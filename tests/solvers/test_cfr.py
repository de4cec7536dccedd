"""CFR, CFR-AVG, warm starts and best responses against the referee over histories, in float64."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.algorithms.wrappers import CFRAvg, WarmStarted
from tests import brute_force, harness
from tests.trees import possible_of

NUM_UPDATES = 16
TOLERANCE = 1e-9
ALGORITHMS = {
  "vanilla": solvers.vanilla_cfr,
  "linear": solvers.linear_cfr,
  "quadratic": solvers.cfr_plus,
}

# Trees that are cut off: where each leaf is worth a payoff matrix, such a tree is a whole game
# that ends there. The referee solves that game; the solver only learns what leaves are worth.

# A case and where it is cut off, counted from the start of the game.
CUTS = {
  "kuhn": 2,
  "rock_paper_scissors": 1,
  "liars_dice_1x3f": 2,
  "liars_dice_2x2f_after_a_bid": 3,
  "leduc": 4,  # some leaves after the public card, one of them before a chance node
  "random_38": 2,
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
  """Expected values at leaves worth `params`: payoffs and pair weights `[L, H, H]`, and a bend.

  Bent by one, the opponent answers the beliefs: values are convex, not linear, in its reach.
  """
  payoffs, weights, bend = params
  if query.traverser == 1:
    payoffs, weights = -payoffs.swapaxes(1, 2), weights.swapaxes(1, 2)
  opponent = query.beliefs[:, 1 - query.traverser]
  total = jnp.einsum("lij,lj->li", payoffs * weights, opponent)
  mass = jnp.einsum("lij,lj->li", weights, opponent)
  values = jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1.0), 0.0)
  return values + bend * jnp.abs(values)


def scene(case, cut=True):
  """Returns a tree, its edges, leaf params, root beliefs with zeros, and the referee."""
  game, root = harness.make_case(case)
  harness.jitter_payoffs(game)
  rng, depth, params = np.random.default_rng(len(case)), None, None
  if cut:
    game, depth, whole = CutOff(game, CUTS[case], rng), CUTS[case] - len(root), game
  tree = games.build_public_tree(whole if cut else game, root=root, depth=depth)
  assert tree.depth_limited == cut
  if cut:
    places = [game.table_of(state) for state in tree.state[tree.leaf_nodes]]
    params = game.leaf_tables[places], tree.pair_weights[tree.leaf_pair_index], 0.0
  beliefs = harness.random_beliefs(rng, possible_of(tree)[0])
  referee = brute_force.Referee(game, root, beliefs)
  return tree, brute_force.tree_edges(tree, root), params, beliefs, referee


def errors(scene, algorithm, steps, start=None, leaf_values=matrix_values):
  """Returns the largest errors of policies, averages and root values before pairs of updates."""
  tree, edges, params, beliefs, _ = scene
  worst, steps = np.zeros(3), list(steps)[::2]
  how = {"algorithm": algorithm, "leaf_values": leaf_values, "pairs": len(steps)}
  rows = map(np.asarray, harness.iterates(tree, beliefs, params, start, **how))
  for step, *found in zip(steps, *rows):
    apart = [brute_force.worst_difference(edges, x, y) for x, y in zip(found[:2], step)]
    worst = np.maximum(worst, [*apart, np.abs(found[2] - step.root_values).max()])
  return worst


def cfr_errors(case, algorithm, *, linear=True, cut=False):
  """Returns `errors` against CFR of the referee."""
  made = scene(case, cut)
  return errors(made, algorithm, made[-1].cfr(16, linear=linear))


# Each case compiles anew: by default those of a kind that are the smallest.
QUICK = [("kuhn", "vanilla"), ("leduc_after_a_card", "vanilla"), ("random_38", "linear")]
OTHERS = [("rock_paper_scissors", "vanilla"), ("random_2", "vanilla"), ("leduc", "linear"),
          ("liars_dice_1x3f", "linear"), ("random_5", "linear"),
          ("liars_dice_2x2f_after_a_bid", "linear")]  # fmt: skip


@pytest.mark.parametrize(("case", "name"), harness.slow([*QUICK, *OTHERS], *OTHERS))
def test_every_pair_of_updates_matches_the_referee(case, name, x64):
  assert cfr_errors(case, ALGORITHMS[name](), linear=name == "linear").max() < 1e-10


@pytest.mark.parametrize("case", harness.slow(CUTS, "rock_paper_scissors", "liars_dice_1x3f"))
def test_every_pair_of_updates_matches_the_game_that_ends_at_the_leaves(case, x64):
  assert cfr_errors(case, snapped(solvers.linear_cfr()), cut=True).max() < 1e-10


def test_an_odd_number_of_iterations_ends_with_player_0(x64):
  tree, edges, _, beliefs, referee = scene("kuhn", cut=False)
  step = list(referee.cfr(3, linear=True))[-1]
  found = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=3, beliefs=beliefs)
  assert brute_force.worst_difference(edges, found.current_policy, step.policy) < TOLERANCE
  np.testing.assert_allclose(found.root_values, step.root_values, atol=TOLERANCE)


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


class ForgetsTheOpponentsReach(solvers.CFR):
  """Leaf values enter as they come, however seldom the opponent plays to the leaf."""

  def update(self, problem, state, values, player):
    return self.update_weighed(problem, state, values, player)


class AsksAboutTheFirstPolicy(solvers.CFR):
  """Leaf beliefs stay those of the uniform policy."""

  def leaf_query(self, problem, state, player):
    first = super().init(problem)
    return super().leaf_query(problem, first, player)


def broken(kind):
  """Returns Linear CFR with the mistake of `kind`."""
  right = solvers.linear_cfr()
  return kind(**{field.name: getattr(right, field.name) for field in dataclasses.fields(right)})


# Which of (current policy, average policy, root values) each mistake shows in, and in which case.
MISTAKES = {
  "root values weighted by root belief": (broken(WeighsRootValuesByBelief), 2, "kuhn"),
  "quadratic average": (solvers.linear_cfr(averaging=2.0), 1, "kuhn"),
  "stale opponent": (broken(UpdatesFromStaleReach), 0, "kuhn"),
  "regrets not discounted": (solvers.vanilla_cfr(averaging=1.0), 0, "kuhn"),
  "leaf values as they come": (broken(ForgetsTheOpponentsReach), 0, "liars_dice_1x3f"),
  "leaf beliefs of the first policy": (broken(AsksAboutTheFirstPolicy), 0, "liars_dice_1x3f"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_control_a_mistake_is_seen(mistake, x64):
  algorithm, shows_in, case = MISTAKES[mistake]
  assert cfr_errors(case, algorithm, cut=case != "kuhn")[shows_in] > 1e-3


# CFR-AVG (ReBeL, appendix I), both forms.
# Where leaves are worth fixed payoff matrices, the difference of two averages is this iteration's
# value, and the modified form is CFR. The sound form is CFR over histories with moving payoffs.


@dataclasses.dataclass(frozen=True)
class Snapped:
  """A regret rule that takes rounding for zero."""

  rule: Any

  def init(self, zeros):
    return self.rule.init(zeros)

  def update(self, state, regret, k):
    snap = functools.partial(jax.tree.map, lambda x: jnp.where(jnp.abs(x) < 1e-13, 0.0, x))
    return snap(self.rule.update(state, regret, k))

  def match(self, state, siblings, k):
    return self.rule.match(state, siblings, k)


def snapped(algorithm):
  """Returns the algorithm whose regrets are zero where they are rounding."""
  return dataclasses.replace(algorithm, rule=Snapped(algorithm.rule))


def difference(case, plain, other, bend=0.0):
  """Returns the largest difference between two algorithms' policies over all updates."""
  tree, _, (*params, _), beliefs, _ = scene(case)
  found = []
  if other is not plain:
    other = dataclasses.replace(other, algorithm=snapped(plain))
  for algorithm in (snapped(plain), other):
    how = {"algorithm": algorithm, "leaf_values": matrix_values, "pairs": NUM_UPDATES // 2 + 1}
    found.append(map(np.asarray, harness.iterates(tree, beliefs, (*params, bend), **how)))
  return max(float(np.abs(x - y).max()) for x, y, _ in zip(*found, range(2)))


@pytest.mark.parametrize(
  ("case", "name", "alternating"),
  [
    ("kuhn", "linear", False),
    ("random_38", "linear", True),
    ("liars_dice_1x3f", "quadratic", True),
    pytest.param("kuhn", "vanilla", True, marks=pytest.mark.slow),
    pytest.param("leduc", "linear", True, marks=pytest.mark.slow),
  ],
)
def test_modified_form_is_cfr_where_leaves_are_payoff_matrices(case, name, alternating, x64):
  plain = ALGORITHMS[name](alternating=alternating)
  assert difference(case, plain, solvers.cfr_avg(plain)) < TOLERANCE


class KeepsNoMemory(CFRAvg):
  """The values at the averages stand in for this iteration's."""

  def _weigh(self, problem, state, values, player):
    return super()._weigh(problem, state._replace(known=jnp.zeros(2, bool)), values, player)


class ForgetsTheDecay(CFRAvg):
  """The difference of two averages as under uniform weights."""

  def _weigh(self, problem, state, values, player):
    uniform = CFRAvg(dataclasses.replace(self.algorithm, averaging=0.0))
    return uniform._weigh(problem, state, values, player)


class IsNotPrimed(CFRAvg):
  """Player 1 does not know what player 0's first policy was worth."""

  primed = ()


@pytest.mark.parametrize("kind", [KeepsNoMemory, ForgetsTheDecay, IsNotPrimed, "bent"])
def test_control_mistakes_in_the_modified_form_and_leaves_that_are_not_linear_are_seen(kind, x64):
  plain = solvers.cfr_plus()
  wrong = (solvers.cfr_avg(plain), 1.0) if kind == "bent" else (kind(plain),)
  assert difference("liars_dice_1x3f", plain, *wrong) > 1e-3


def moving_payoffs(payoffs, beliefs):
  """Returns payoff matrices `[L, H, H]` that depend on the beliefs `[L, 2, H]`: "subgames"."""
  slope = jnp.arange(1.0, payoffs.shape[-1] + 1)
  lean = (beliefs[:, 0] - 0.5 * beliefs[:, 1]) @ slope
  return payoffs * (1.0 + jnp.sin(3.0 * lean))[:, None, None]


def subgame_values(params, query):
  """Solves at `beliefs` and values at `value_beliefs`, as an oracle does."""
  payoffs, weights, bend = params
  given = query.beliefs if query.value_beliefs is None else query.value_beliefs
  solved = moving_payoffs(payoffs, query.beliefs)
  return matrix_values((solved, weights, bend), query._replace(beliefs=given))


def beliefs_at(referee, policy, history):
  """Returns both players' beliefs `[2, H]` after `history`, walking one path for each infostate."""
  rows = np.zeros((2, referee.h))
  for player in (0, 1):
    reach = {h: p for h, p in enumerate(referee.beliefs[player]) if p > 0}
    node = referee.root
    for action in history[len(node.history) :]:
      child, below = node.children[action], {}
      for h, probability in reach.items():
        for new in child.successors[player].get(h, ()):
          played = 1.0
          if node.actor == player:
            played = policy.get((player, node.history, h), {}).get((action, new), 0.0)
          below[new] = below.get(new, 0.0) + probability * played
      node, reach = child, below
    for h, probability in reach.items():
      rows[player, h] = probability
  return rows / rows.sum(axis=1, keepdims=True)


def sound_steps(made, linear):
  """Yields the step before each update of CFR-AVG over histories and after the last."""
  tree, _, (payoffs, *_), _, referee = made
  histories = [referee.root.history + tree.history(int(leaf)) for leaf in tree.leaf_nodes]
  for step in referee.cfr(NUM_UPDATES, linear=linear):
    yield step
    beliefs = np.stack([beliefs_at(referee, step.average, history) for history in histories])
    for history, table in zip(histories, np.asarray(moving_payoffs(payoffs, beliefs)).tolist()):
      node = referee.root
      for action in history[len(referee.root.history) :]:
        node = node.children[action]
      node.payoffs = table


SOUND = [("kuhn", "linear"), ("liars_dice_1x3f", "vanilla"), ("kuhn", "vanilla"),
         ("liars_dice_1x3f", "linear")]  # fmt: skip


def sound_error(case, linear, algorithm):
  """Returns the largest difference of policies to CFR-AVG over histories."""
  made = scene(case)
  steps = sound_steps(made, linear)
  return errors(made, algorithm, steps, leaf_values=subgame_values)[:2].max()


@pytest.mark.parametrize(("case", "name"), harness.slow(SOUND, *SOUND[2:]))
def test_sound_form_solves_at_the_averages_and_values_at_this_iteration(case, name, x64):
  algorithm = solvers.cfr_avg(ALGORITHMS[name](), sound=True)
  assert sound_error(case, name == "linear", algorithm) < TOLERANCE


def test_control_other_beliefs_are_seen(x64):
  plain = solvers.linear_cfr()
  for wrong in (plain, solvers.cfr_avg(plain)):
    assert sound_error("kuhn", True, wrong) > 1e-3


# Warm starting (ReBeL, appendix J).

ITERATIONS = 15


def regrets_against_best_response(referee, policy, player):
  """Returns what each move is worth if `player` responds best afterwards, less `policy`'s mix."""
  response = dict(policy)
  for _ in range(20):  # policy iteration, from the bottom up
    gains = referee.regrets_of(response, player)[0]
    best = {i: max(moves, key=moves.get) for i, moves in gains.items()}
    chosen = {i: {m: float(m == best[i]) for m in moves} for i, moves in gains.items()}
    if all(response[i] == moves for i, moves in chosen.items()):
      break
    response.update(chosen)
  else:
    raise AssertionError("the best response did not settle")
  regrets = {}
  for infoset, moves in gains.items():
    mix = sum(policy[infoset][m] * worth for m, worth in moves.items())
    regrets[infoset] = {m: worth - mix for m, worth in moves.items()}
  return regrets


def warm_errors(case, algorithm, linear=True, iterations=ITERATIONS):
  """Returns `errors` of a warm start from a random policy, which the referee begins with too."""
  made = scene(*case)
  referee = made[-1]
  start, known = referee.random(np.random.default_rng(5)), {}
  for player in (0, 1):
    known |= regrets_against_best_response(referee, start, player)
  steps = referee.cfr(6, linear=linear, start=(start, iterations, known))
  return errors(made, algorithm, steps, brute_force.to_array(made[0], start))[:2]


@pytest.mark.parametrize(
  ("case", "cut", "name"),
  [
    pytest.param("kuhn", False, "vanilla", marks=pytest.mark.slow),
    ("kuhn", False, "linear"),
    ("random_38", False, "linear"),
    ("liars_dice_1x3f", True, "linear"),
    pytest.param("liars_dice_1x3f", False, "linear", marks=pytest.mark.slow),
  ],
)
def test_warm_started_regrets_average_and_what_follows(case, cut, name, x64):
  algorithm = solvers.warm_started(ALGORITHMS[name](), num_iterations=ITERATIONS)
  assert warm_errors((case, cut), algorithm, linear=name == "linear").max() < TOLERANCE


class SeedsRegretsOnly(solvers.CFR):
  """The average holds the policy once, not as if it had been played all the while."""

  def count(self, problem, state, reach, player, decay):
    return super().count(problem, state, reach, player, jnp.minimum(decay, 1.0))


class StartsAtOne(WarmStarted):
  """Goes on as if no iterations had passed."""

  def prime(self, problem, state, values, player):
    state = super().prime(problem, state, values, player)
    return state._replace(updates=jax.tree.map(jnp.zeros_like, state.updates))


def test_control_a_mistake_in_the_warm_start_is_seen(x64):
  right = solvers.linear_cfr()
  once = SeedsRegretsOnly(right.rule, right.averaging)
  assert warm_errors(("kuhn", False), solvers.warm_started(once))[1] > 1e-3
  assert warm_errors(("kuhn", False), StartsAtOne(right))[1] > 1e-3
  count = solvers.warm_started(right, num_iterations=ITERATIONS)
  assert warm_errors(("kuhn", False), count, iterations=ITERATIONS + 5).min() > 1e-3


# Expected values, best responses and exploitability.

# The rest have trees of the same kinds, and each compiles anew.
FEW = {"leduc_after_a_card", "random_38"}


@harness.fast_to_compile
def measure(tree, policy, beliefs):
  """Returns expected values, best responses, exploitability, and the root's marginals."""
  responses = [solvers.best_response(tree, policy, player, beliefs=beliefs) for player in (0, 1)]
  return (
    solvers.expected_values(tree, policy, beliefs=beliefs),
    jnp.stack([response.values for response in responses]),
    [response.policy for response in responses],
    solvers.exploitability(tree, policy, beliefs=beliefs),
    solvers.root_marginals(tree, beliefs),
  )


def scene_of_policy(case, seed, zeros):
  """Returns referee, tree, its edges, beliefs with zeros, and a policy as a dict and an array."""
  game, root = harness.make_case(case)
  tree = games.build_public_tree(game, root=root)
  rng = np.random.default_rng(seed)
  beliefs = harness.random_beliefs(rng, possible_of(tree)[0])
  referee = brute_force.Referee(game, root, beliefs)
  policy = referee.random(rng, zeros=zeros)
  edges = brute_force.tree_edges(tree, root)
  return referee, tree, edges, beliefs, policy, brute_force.to_array(tree, policy, root)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("case", harness.slow(harness.CASES, *(harness.CASES.keys() - FEW)))
def test_measures_of_random_policies_match_the_referee(case, zeros, x64):
  referee, tree, edges, beliefs, policy, array = scene_of_policy(case, 1, zeros)
  found = jax.tree.map(np.asarray, measure(tree, array, beliefs))
  values, best, responses, exploitability, marginals = found
  expected = referee.expected_values(policy)
  np.testing.assert_allclose(values, expected, rtol=0, atol=1e-10)
  for player in (0, 1):
    expected_best = np.array(referee.best_response_values(policy, player))
    np.testing.assert_allclose(best[player], expected_best, rtol=0, atol=1e-10)
    # The policy that is returned earns those values, and leaves the other's part alone.
    response = brute_force.from_array(edges, responses[player])
    earned = referee.root_values(response, player)
    np.testing.assert_allclose(earned, expected_best, rtol=0, atol=1e-10)
    theirs = [infoset for infoset in policy if infoset[0] != player]
    assert brute_force.worst_difference(edges, responses[player], policy, theirs) < 1e-10
    # A control on the comparison: a mixed policy earns less than the response to it.
    assert zeros or (expected_best - expected[player]).max() > 1e-3
  np.testing.assert_allclose(exploitability, referee.exploitability(policy), atol=1e-10)
  worth = (marginals * values).sum(axis=1)
  np.testing.assert_allclose(worth, referee.game_value(policy) * np.array([1, -1]), atol=1e-10)


def test_the_referees_best_response_is_that_of_linear_programming():
  """Where the other's policy is kept, a best response is all that is left to solve."""
  for case in ("kuhn", "random_2"):
    referee, *_, policy, _ = scene_of_policy(case, 3, 0.2)
    for player in (0, 1):
      kept = {i: (1.0, mix) for i, mix in policy.items() if i[0] != player}
      value = (1 - 2 * player) * referee.equilibrium_value(kept)
      assert referee.best_response_value(policy, player) == pytest.approx(value, abs=1e-9)
