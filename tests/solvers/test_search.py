"""Search of subgames: in batches as one by one, by policy networks, and by agents that are safe."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import LeafQuery
from solvers.contrib.search_leaf_values import search_leaf_values
from solvers.search import (
  find_subgames,
  iterations_to,
  make_searching_agent,
  playthroughs,
  policy_targets,
  sample_stop,
  search_batch,
  spread_stops,
)
from solvers.search.batch import beliefs_at_leaves, node_beliefs
from solvers.search.playthroughs import searches_from, searching_policy, visits
from solvers.search.starts import (
  explore,
  leaf_probabilities,
  policy_from_network,
  searched_starts,
)
from solvers.search.subgames import FoundSubgames, stack_subgames
from solvers.sweeps import join_levels, make_problem, split_levels
from solvers.xla import Work
from tests import harness
from tests.trees import possible_of

ITERATIONS = 16


def row_values(params, query):
  """Any function of features and beliefs that treats each leaf by itself."""
  own, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
  mix = jnp.sin(query.features @ params["features"])[:, None]
  return mix + own @ params["own"] + jnp.cos(other @ params["other"])


def make_params(tree, seed=0):
  rng = np.random.default_rng(seed)
  h, f = tree.num_infostates, tree.root_features.shape[-1]
  return {
    "features": rng.normal(size=f).astype(tree.dtype),
    "own": rng.normal(size=(h, h)).astype(tree.dtype),
    "other": rng.normal(size=(h, h)).astype(tree.dtype),
  }


ALGORITHMS = {
  "linear": solvers.linear_cfr(),
  "modified-avg": solvers.cfr_avg(solvers.linear_cfr()),
  "simultaneous": solvers.discounted_cfr(alternating=False),
  "fictitious-play": solvers.fictitious_play(),
}
DICE = {"num_dice": 1, "num_faces": 3}
PACKED = {"kuhn_poker": ({}, 1), "liars_dice": (DICE, 2), "leduc_poker": ({}, 2)}


@pytest.mark.parametrize("algorithm", harness.slow(ALGORITHMS, *list(ALGORITHMS)[1:]))
@pytest.mark.parametrize("name", harness.slow(PACKED, "liars_dice", "leduc_poker"))
def test_packed_search_equals_solving_one_by_one(name, algorithm, x64):
  """In float64: CFR-AVG takes differences of sums, which float32 blurs."""
  parameters, depth = PACKED[name]
  subgames = find_subgames(games.make(name, **parameters), depth=depth)
  entries = [0, 1, len(subgames.trees) // 2, len(subgames.trees) - 1]
  table = stack_subgames(subgames, entries)
  algorithm = ALGORITHMS[algorithm]
  rng = np.random.default_rng(1)
  params = make_params(subgames.trees[0])
  roots = np.array([2, 0, 1, 3, 0])
  possible = [possible_of(subgames.trees[entries[i]])[0] for i in roots]
  beliefs = np.stack([harness.random_beliefs(rng, x, num_zeros=0) for x in possible])
  result = jax.jit(
    lambda: search_batch(
      table.trees_at(np.asarray(entries)[roots]), beliefs, np.zeros(5, int), ITERATIONS,
      algorithm=algorithm, leaf_values=row_values, params=params,
      num_rows=int(table.num_live[roots].sum()),
    )
  )()  # fmt: skip
  for lane, root in enumerate(roots):
    tree = subgames.trees[entries[root]]
    how = {"algorithm": algorithm, "num_iterations": ITERATIONS, "params": params}
    how["leaf_values"] = row_values if tree.depth_limited else None
    alone = solvers.solve(tree, beliefs=beliefs[lane], **how)
    # CFR-AVG's differences vanish where the opponent stopped going; rounding then breaks the tie
    # between actions that are worth nothing, one way here and another there.
    atol = 2e-2 if algorithm == solvers.cfr_avg(solvers.linear_cfr()) else 1e-8
    np.testing.assert_allclose(result.root_values[lane], alone.root_values, atol=atol)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_spread_stops_have_the_same_weights_and_are_even(exponent):
  weights = np.arange(1, 9) ** exponent
  keys = jax.random.split(jax.random.key(0), 4_000)
  stops = np.asarray(jax.vmap(lambda key: spread_stops(key, 10, 16, exponent))(keys))
  for column in stops.T[:2]:  # each by itself, wherever it stands
    counts = np.bincount(column, minlength=8) / len(column)
    np.testing.assert_allclose(counts, weights / weights.sum(), atol=0.03)
  expected = 10 * weights.cumsum() / weights.sum()

  def unevenness(stops):
    below = (stops[:, :, None] <= np.arange(8)).sum(axis=1)
    return np.abs(below - expected).max()

  assert unevenness(stops) < 1 + 1e-4
  # Control: drawn one by one they are not even.
  apart = np.asarray(jax.vmap(lambda key: sample_stop(key, (10,), 16, exponent))(keys))
  assert unevenness(apart) > 2


def test_leaf_probabilities_against_enumeration():
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game, root=(1,), depth=2)
  beliefs = jnp.asarray(tree.prior)
  weights = np.random.default_rng(0).exponential(size=(tree.num_nodes, 6)).astype(np.float32)

  @jax.jit
  def computed(explorer, epsilon):
    """Returns the policy, its leaves' probabilities, and player 1's reach of its nodes."""
    here = make_problem(tree, beliefs)
    policy = here.normalise(split_levels(tree, weights))
    policy = explore(here, policy, explorer, epsilon)
    leaves = leaf_probabilities(here, policy, beliefs)
    return join_levels(policy), leaves, join_levels(here.own_reach(policy, 1))

  rows, got, reach = (np.asarray(x) for x in computed(0, 0.0))
  kind, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  expected = np.zeros(tree.num_leaves)
  for place, leaf in enumerate(np.asarray(tree.leaf_nodes)):
    for first in range(6):
      for second in set(range(6)) - {first}:
        probability, node, card = 1 / 30, leaf, (first, second)
        while parent[node] >= 0:
          mover = kind[parent[node]]
          if mover == games.CHANCE:
            dealt = int(tree.action[node]) - 3
            probability *= 0.0 if dealt in card else 1 / 4
          else:
            probability *= rows[node, card[mover]]
          node = parent[node]
        expected[place] += probability
  np.testing.assert_allclose(got, expected, atol=1e-6)
  # Exploring changes what is sampled, for the explorer alone.
  _, mixed, mixed_reach = computed(0, 0.25)
  assert not np.allclose(mixed, expected, atol=1e-4)
  np.testing.assert_allclose(mixed_reach, reach)


@pytest.mark.parametrize(
  "algorithm",
  [
    pytest.param(solvers.linear_cfr(), marks=pytest.mark.slow),
    pytest.param(solvers.linear_cfr(alternating=False), marks=pytest.mark.slow),
    solvers.cfr_avg(solvers.linear_cfr()),
  ],
  ids=["d", "simultaneous", "avg"],
)
def test_shared_start_gives_the_iterates_of_a_search_of_its_own(algorithm, x64):
  table = stack_subgames(find_subgames(games.make("liars_dice", num_dice=1, num_faces=2), depth=1))
  tree = jax.tree.map(lambda x: np.asarray(x)[0], table.trees)
  params = make_params(tree)
  _, _, iterates = searched_starts(
    table, np.zeros(1, int), algorithm, ITERATIONS, row_values, params
  )
  iterates = jax.tree.map(lambda x: np.asarray(x)[0], iterates)
  assert iterates.policies.shape[0] == ITERATIONS // 2

  @jax.jit
  def search_until(stop, iterations):
    return search_batch(
      table.trees_at(np.zeros(1, int)), np.asarray(tree.prior)[None], stop[None], iterations,
      algorithm=algorithm, leaf_values=row_values, params=params,
      num_rows=table.trees.num_leaves,
    )  # fmt: skip

  def search(stop, iterations=ITERATIONS):
    return search_until(jnp.int32(stop), iterations)

  def join(levels):
    return np.concatenate([np.asarray(level)[0] for level in levels])

  @jax.jit
  def at_leaves(policy):
    return beliefs_at_leaves(make_problem(tree, tree.prior), split_levels(tree, policy))

  for stop in (0, 3, 7):
    result = search(stop)
    np.testing.assert_allclose(iterates.policies[stop], join(result.policy), atol=1e-9)
    believed = at_leaves(iterates.believed[stop])
    np.testing.assert_allclose(believed, result.leaf_beliefs[0], atol=1e-9)
    if stop == 0:
      continue
    # CFR-AVG passes on the beliefs of the average until then, CFR-D those of the policy itself.
    until = join(search(0, 2 * stop).average_policy)
    believed = until if algorithm.uses_average else iterates.policies[stop]
    np.testing.assert_allclose(iterates.believed[stop], believed, atol=1e-9)
    assert np.abs(until - iterates.policies[stop]).max() > 0.01
  np.testing.assert_allclose(iterates.average_policy, join(search(0).average_policy), atol=1e-9)


# Policy networks.

RIVER = dict(ranks="TJQKA", suits="sh", board="TsJhQsKhAs", pot=200, stack=400, bets=[1.0])
GAMES = {"river_endgame_holdem": RIVER, "leduc_poker": {}}


@functools.cache
class Case:
  """A game with a policy on it, and a network that knows the policy by heart."""

  def __init__(self, name, seed=0):
    self.game = games.make(name, **GAMES[name])
    whole = find_subgames(self.game, depth=100)  # as one subgame
    assert len(whole.trees) == 1
    self.table = stack_subgames(whole, features_of=self.game)
    self.tree = jax.tree.map(lambda x: jnp.asarray(x)[0], self.table.trees)
    self.features = jnp.asarray(self.table.node_features)[0]
    rng = np.random.default_rng(seed)
    prior = np.asarray(self.tree.prior)
    weights = rng.exponential(size=prior.shape) * (prior > 0)
    self.beliefs = jnp.asarray(weights / weights.sum(axis=1, keepdims=True), self.tree.dtype)
    self.problem = jax.jit(make_problem)(self.tree, self.beliefs)
    # A function of what the network sees: histories may look alike.
    _, seen = np.unique(np.asarray(self.features), axis=0, return_inverse=True)
    shape = (seen.max() + 1, self.game.num_actions, self.tree.num_infostates)
    rows = rng.exponential(size=shape) ** 3
    rows = rows[seen.reshape(-1)[self.tree.parent], self.tree.action]
    policy_of = jax.jit(lambda problem, rows: problem.normalise(split_levels(self.tree, rows)))
    self.policy = policy_of(self.problem, rows.astype(self.tree.dtype))

  def recall(self, policy):
    """Returns a network that looks up which decision it is asked about, and answers `policy`."""
    tree, num_actions = self.tree, self.game.num_player_actions
    kind, parent, action = (np.asarray(x) for x in (tree.kind, tree.parent, tree.action))
    joined = np.concatenate([np.asarray(level) for level in policy])
    table = np.zeros((len(kind), num_actions, joined.shape[1]))
    for child in range(1, len(kind)):
      if kind[parent[child]] < games.CHANCE:
        table[parent[child], action[child]] = joined[child]
    return Recall(table, np.asarray(self.features))


class Recall:
  """A policy function from a table `[N, A, H]`, by the features of the decisions `[N, F]`."""

  def __init__(self, table, features):
    self.table, self.features, self.asked = table, features, []

  def __call__(self, params, query):
    features = jnp.asarray(self.features)
    distance = ((query.features[:, None] - features) ** 2).sum(axis=-1)
    self.asked.append(query)
    return jnp.asarray(self.table, query.features.dtype)[distance.argmin(axis=1)]


@pytest.mark.parametrize("name", harness.slow(GAMES, "leduc_poker"))
def test_targets_are_the_questions_and_the_right_answers(name, x64):
  case = Case(name)
  num_actions = case.game.num_player_actions
  targets = jax.jit(policy_targets, static_argnums=3)(
    case.problem, case.features, case.policy, num_actions
  )
  kind, parent, action = (np.asarray(getattr(case.tree, x)) for x in ("kind", "parent", "action"))
  beliefs = np.asarray(jax.jit(node_beliefs)(case.problem, case.policy))
  policy = np.concatenate([np.asarray(level) for level in case.policy])
  inner = [
    node
    for level, start in zip(case.tree.structure.levels, case.tree.structure.offsets)
    for node in range(start, start + level.num_inner)
  ]
  valid = np.asarray(targets.valid)
  assert len(valid) == len(inner)
  assert (valid == (kind[inner] < games.CHANCE)).all()
  targets = jax.tree.map(np.asarray, targets)
  for row, node in enumerate(inner):
    if not valid[row]:
      continue
    mover = int(kind[node])
    np.testing.assert_allclose(targets.query.beliefs[row, 0], beliefs[node, mover], atol=1e-12)
    np.testing.assert_allclose(targets.query.beliefs[row, 1], beliefs[node, 1 - mover], atol=1e-12)
    np.testing.assert_array_equal(
      targets.query.features[row], case.game.features(np.asarray(case.tree.state)[[node]], mover)[0]
    )
    possible = possible_of(case.tree)[node, mover]
    children = np.flatnonzero(parent == node)
    legal = np.isin(np.arange(num_actions), action[children])
    np.testing.assert_array_equal(targets.query.legal[row], legal)
    for child in children:
      answer = targets.policy[row, action[child]]
      np.testing.assert_allclose(answer, policy[child] * possible, atol=1e-12)
    assert not targets.policy[row][~legal].any()


def test_targets_ask_what_search_will_ask(x64):
  case = Case("river_endgame_holdem")
  network = case.recall(case.policy)
  arguments = (case.problem, case.features)
  num_actions = case.game.num_player_actions

  @jax.jit
  def asked_about(problem, features):
    policy_from_network(problem, features, network, None, num_actions)
    return jnp.concatenate([query.beliefs for query in network.asked])

  asked = np.asarray(asked_about(*arguments))
  targets_of = jax.jit(policy_targets, static_argnums=3)
  targets = targets_of(*arguments, case.policy, num_actions)
  np.testing.assert_allclose(asked, targets.query.beliefs, atol=1e-12)
  uniform = jax.jit(type(case.problem).uniform_policy)(case.problem)
  other = targets_of(*arguments, uniform, num_actions)
  assert np.abs(asked - other.query.beliefs).max() > 0.01


def test_searches_whose_schedule_knows_their_length_are_not_cut_short():
  stops, names = np.array([1, 2]), ("discounted_cfr", "scheduled_discounted_cfr")
  assert [iterations_to(stops, solvers.make_algorithm(x), 16) for x in names] == [6, 16]


def test_stops_are_drawn_as_if_the_warm_start_had_been_searched():
  stops = np.asarray(sample_stop(jax.random.key(0), (40_000,), 8, 1.0, 15))
  share = np.bincount(stops, minlength=4) / len(stops)
  np.testing.assert_allclose(share, np.arange(16, 20) / np.arange(16, 20).sum(), atol=0.01)
  cold = np.asarray(sample_stop(jax.random.key(0), (40_000,), 8, 1.0))
  assert np.abs(np.bincount(cold, minlength=4) / len(cold) - share).max() > 0.1


# The searching agent's policy: safe by random iterations, unsafe by averages (Theorem 3).

PAYOFF = jnp.array([[0.0, -1.0, 2.0], [1.0, 0.0, -2.0], [-2.0, 2.0, 0.0]])


def answered(params, query):
  """Exact values after player 0's hidden move: player 1 answers the beliefs best."""
  del params
  belief = query.beliefs[:, 0]
  answers = belief @ PAYOFF
  best = answers <= answers.min(axis=-1, keepdims=True) + 1e-9
  mix = best / best.sum(axis=-1, keepdims=True)
  first = mix @ PAYOFF.T
  second = jnp.zeros_like(first).at[:, 0].set(-(belief * first).sum(axis=-1))
  return first if query.traverser == 0 else second


@pytest.fixture(scope="module")
def agent():
  game = games.make("rock_paper_scissors")
  subgames = find_subgames(game, depth=1)
  return make_searching_agent(game, subgames, algorithm=solvers.linear_cfr(), leaf_values=answered)


def play(agent, playthroughs, iterations, params=None, seed=0, **options):
  how = {"num_playthroughs": playthroughs, "num_iterations": iterations, "params": params}
  return searching_policy(agent, key=jax.random.key(seed), **how, **options)


def gap(agent, *how, **options):
  """Returns the exploitability of what the agent plays."""
  return float(solvers.exploitability(agent.tree, play(agent, *how, **options)))


def test_safe_search_approaches_the_equilibrium(agent):
  one, few = gap(agent, 1, 512), gap(agent, 32, 512)
  policy = play(agent, 2_048, 512)
  many = float(solvers.exploitability(agent.tree, policy))
  assert many < 0.02 < few < one
  np.testing.assert_allclose(policy[1], [0.4, 0.4, 0.2], atol=0.02)
  np.testing.assert_allclose(policy[2:, 0], [0.4, 0.4, 0.2], atol=0.03)


def test_searches_go_on_from_the_beliefs_of_averages_with_cfr_avg():
  """Its leaf values hold for those (appendix I); from an iterate's the agent stays at 0.14."""
  game = games.make("rock_paper_scissors")
  first = games.build_public_tree(game, depth=1)
  leaf_values, params = solvers.exact_leaf_values(game, num_iterations=256).bind(first)
  algorithm = solvers.cfr_avg(solvers.linear_cfr(), sound=True)
  how = {"algorithm": algorithm, "leaf_values": leaf_values}
  agent = make_searching_agent(game, find_subgames(game, depth=1), **how)
  assert gap(agent, 2_048, 512, params=params) < 0.03


def bids_differ(params, query):
  """Some leaves are worth more than others to everybody, so not all of them are reached."""
  worth = jnp.sin(query.features @ jnp.arange(1.0, query.features.shape[-1] + 1))
  return jnp.broadcast_to(worth[:, None], query.beliefs[:, 0].shape)


def test_a_jitter_is_of_the_size_of_rounding():
  beliefs = np.full((2, 6), 1 / 6, np.float32)
  jitters = [playthroughs.jittered(beliefs, jax.random.key(i)) / beliefs - 1 for i in range(8)]
  assert len({x.tobytes() for x in jitters}) == 8
  assert 1e-7 < np.max(np.abs(jitters)) < 3e-7
  assert playthroughs.jittered(beliefs, None) is beliefs


def test_thinned_frontiers_have_the_same_sums():
  """Reach over odds adds up to the whole, in expectation; without the division it does not."""
  node = np.repeat([3, 5, 9], [40, 4, 100])
  reach = np.random.default_rng(0).exponential(size=(144, 2, 3)) ** 2 / 100
  whole = playthroughs.Frontier(node, node, reach, reach)
  drawn = [playthroughs.thinned(whole, 1_000, jax.random.key(i)) for i in range(400)]
  expected, first = np.add.reduceat(reach, [0, 40, 44]), [3, 5, 9]
  assert 20 < np.mean([len(x.node) for x in drawn]) < 40
  for name, same in (("reach", True), ("beliefs", False)):
    rows = [np.add.reduceat(getattr(x, name), x.node.searchsorted(first)) for x in drawn]
    assert np.allclose(np.mean(rows, axis=0), expected, rtol=0.05) == same


@pytest.mark.parametrize("algorithm", ["cfr_plus", "scheduled_discounted_cfr"])
def test_searches_end_where_play_goes_on(algorithm, monkeypatch):
  """Running every search to its end changes nothing but time; playing other iterates does."""
  game, how = games.make("liars_dice", **DICE), {"max_lanes": 8, "num_buckets": 1}
  how |= {"algorithm": solvers.make_algorithm(algorithm), "leaf_values": bids_differ}
  agent = make_searching_agent(game, find_subgames(game, depth=2), **how)
  real, wanted, spent = playthroughs._searches[Work.PLAIN], [], []

  def count(table, roots, beliefs, stop, active, num_iterations, *rest, **static):
    wanted.extend(np.asarray(stop)[np.asarray(active)].tolist())
    spent.extend([num_iterations // 2] * int(np.sum(active)))
    return real(table, roots, beliefs, stop, active, num_iterations, *rest, **static)

  monkeypatch.setattr(playthroughs, "_searches", dict.fromkeys(Work, count))
  policy = play(agent, 32, 64)
  if algorithm == "cfr_plus":
    # Weights (j + 1)² over 32 updates stop after 24.4 of them on average.
    assert abs(np.mean(wanted) + 1 - 24.4) < 1
    assert np.mean(wanted) < np.mean(spent) < 27
  else:  # a schedule of 32 updates, whichever is played
    assert set(spent) == {32}

  def to_the_end(shift, table, roots, beliefs, stop, active, num_iterations, *rest, **static):
    stop = np.minimum(np.asarray(stop) + shift, 31)
    return real(table, roots, beliefs, stop, active, 64, *rest, **static)

  for shift in (0, 2):
    every = dict.fromkeys(Work, functools.partial(to_the_end, shift))
    monkeypatch.setattr(playthroughs, "_searches", every)
    full = play(agent, 32, 64)
    assert (np.abs(full - policy).max() < 1e-6) == (shift == 0)


def test_counts_of_subgames_below_one_another():
  """A diamond whose second way is longer, and a chain of more subgames than Python recurses."""
  long = 3_000
  chain = [[i + 1] for i in range(4, long)] + [[]]
  found = [np.array(x, np.int32) for x in [[1, 2, 1], [3, 4], [1], [], *chain]]
  subgames = FoundSubgames([], found, [])
  below, met = searches_from(subgames), visits(subgames)
  one = 2 + long - 3
  assert below[:5].tolist() == [1 + 2 * one + one + 1, one, one + 1, 1, long - 3]
  assert met[:5].tolist() == [1, 3, 1, 3, 3]
  assert (below[4:] == np.arange(long - 3, 0, -1)).all()
  assert (met[4:] == 3).all()


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "depth", "playthroughs", "iterations", "factor"),
  [
    ("kuhn_poker", 2, (1, 16, 256), (16, 128), 5),
    ("kuhn_poker", 1, (1, 16, 256), (16, 128), 3),
    # Safe 0.242, unsafe 0.485: twice as much, give or take what the playthroughs scatter.
    ("leduc_poker", 5, (1, 16, 512), (16, 64), 1.6),
  ],
)
def test_safe_search_gets_better_and_unsafe_does_not(name, depth, playthroughs, iterations, factor):
  """Theorem 3 with exact leaf values: with playthroughs and iterations; unsafe stays above."""
  game = games.make(name)
  subgames = find_subgames(game, depth=depth)
  leaf_values, params = search_leaf_values(game, subgames, num_iterations=64)
  agent = make_searching_agent(
    game, subgames, algorithm=solvers.linear_cfr(), leaf_values=leaf_values
  )
  # One playthrough is one iterate, and CFR is chaotic: rounding decides which, so means are taken.
  few, some, many = (
    np.mean([gap(agent, n, iterations[1], params=params, seed=i) for i in range(seeds)])
    for n, seeds in zip(playthroughs, (8, 4, 1))
  )
  assert many < some / 1.2 < few / 2
  assert many < gap(agent, playthroughs[2], iterations[0], params=params) / 1.5
  assert gap(agent, 1, iterations[1], params=params, unsafe=True) > factor * many


def test_each_row_is_worth_what_its_subgame_is(x64):
  game, player = games.make("kuhn_poker"), 1
  subgames = find_subgames(game, depth=1)
  function, params = search_leaf_values(game, subgames, num_iterations=8)

  oracle, rng = solvers.exact_leaf_values(game, num_iterations=8), np.random.default_rng(0)
  values_of = jax.jit(lambda *row: function(params, LeafQuery(row[0], player, row[1])))
  for tree in [x for x in subgames.trees if x.depth_limited][::-1]:
    found, beliefs = tree.leaf_features[player], rng.dirichlet([1] * 3, (2, 2))
    features, size = np.concatenate([found, found])[:2], len(found)  # rows of one program
    (below, own), values = oracle.bind(tree), values_of(features, beliefs)
    wanted = jax.jit(below)(own, LeafQuery(found, player, beliefs[:size]))
    np.testing.assert_allclose(values[:size], wanted, rtol=0, atol=1e-10)
  # The control: rows that took one another's place would be noticed.
  assert np.abs(values_of(features[::-1], beliefs) - values).max() > 1e-2
