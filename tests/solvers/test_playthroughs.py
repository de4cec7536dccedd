"""The searching agent's policy: safe by random iterations, unsafe by averages (Theorem 3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import LeafQuery
from solvers.contrib.search_leaf_values import search_leaf_values
from solvers.search import find_subgames, make_searching_agent, playthroughs
from solvers.search.playthroughs import searches_from, searching_policy, visits
from solvers.search.subgames import FoundSubgames
from solvers.xla import Work

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
  policy = searching_policy(
    agent,
    params=params,
    num_playthroughs=playthroughs,
    num_iterations=iterations,
    key=jax.random.key(seed),
    **options,
  )
  return policy, float(solvers.exploitability(agent.tree, policy))


def test_safe_search_approaches_the_equilibrium(agent):
  _, one = play(agent, 1, 2_048)
  policy, few = play(agent, 32, 2_048)
  policy, many = play(agent, 2_048, 2_048)
  assert many < 0.02 < few < one
  np.testing.assert_allclose(policy[1], [0.4, 0.4, 0.2], atol=0.02)
  np.testing.assert_allclose(policy[2:, 0], [0.4, 0.4, 0.2], atol=0.03)


def test_searches_go_on_from_the_beliefs_of_averages_with_cfr_avg():
  """Its leaf values hold for those (appendix I); from an iterate's the agent stays at 0.14."""
  game = games.make("rock_paper_scissors")
  first = games.build_public_tree(game, depth=1)
  leaf_values, params = solvers.exact_leaf_values(game, num_iterations=256).bind(first)
  agent = make_searching_agent(
    game,
    find_subgames(game, depth=1),
    algorithm=solvers.cfr_avg(solvers.linear_cfr(), sound=True),
    leaf_values=leaf_values,
  )
  assert play(agent, 2_048, 512, params=params)[1] < 0.03


def bids_differ(params, query):
  """Some leaves are worth more than others to everybody, so not all of them are reached."""
  worth = jnp.sin(query.features @ jnp.arange(1.0, query.features.shape[-1] + 1))
  return jnp.broadcast_to(worth[:, None], query.beliefs[:, 0].shape)


@pytest.fixture(scope="module")
def dice_agent():
  game = games.make("liars_dice", num_dice=1, num_faces=3)
  return make_searching_agent(
    game,
    find_subgames(game, depth=2),
    algorithm=solvers.cfr_plus(),
    leaf_values=bids_differ,
    max_lanes=8,
  )


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
  expected, first = (
    np.add.reduceat(reach, [0, 40, 44]),
    lambda x: np.searchsorted(x.node, [3, 5, 9]),
  )
  assert 20 < np.mean([len(x.node) for x in drawn]) < 40
  for name, same in (("reach", True), ("beliefs", False)):
    sums = np.mean([np.add.reduceat(getattr(x, name), first(x)) for x in drawn], axis=0)
    assert np.allclose(sums, expected, rtol=0.05) == same


@pytest.mark.parametrize("shift", [0, 2])
def test_searches_end_where_play_goes_on(dice_agent, monkeypatch, shift):
  """Running every search to its end changes nothing but time; playing other iterates does."""
  settings = {"params": None, "num_playthroughs": 32, "num_iterations": 64}
  real, wanted, spent = playthroughs._searches[Work.PLAIN], [], []

  def count(table, roots, beliefs, stop, active, num_iterations, *rest, **static):
    wanted.extend(np.asarray(stop)[np.asarray(active)].tolist())
    spent.extend([num_iterations // 2] * int(np.sum(active)))
    return real(table, roots, beliefs, stop, active, num_iterations, *rest, **static)

  monkeypatch.setattr(playthroughs, "_searches", dict.fromkeys(Work, count))
  policy = searching_policy(dice_agent, key=jax.random.key(0), **settings)
  # Weights (j + 1)² over 32 updates stop after 24.4 of them on average.
  assert abs(np.mean(wanted) + 1 - 24.4) < 1
  assert np.mean(wanted) < np.mean(spent) < 27

  def to_the_end(table, roots, beliefs, stop, active, num_iterations, *rest, **static):
    stop = np.minimum(np.asarray(stop) + shift, 31)
    return real(table, roots, beliefs, stop, active, 64, *rest, **static)

  monkeypatch.setattr(playthroughs, "_searches", dict.fromkeys(Work, to_the_end))
  full = searching_policy(dice_agent, key=jax.random.key(0), **settings)
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
    np.mean([play(agent, n, iterations[1], params=params, seed=i)[1] for i in range(seeds)])
    for n, seeds in zip(playthroughs, (8, 4, 1))
  )
  assert many < some / 1.2 < few / 2
  assert many < play(agent, playthroughs[2], iterations[0], params=params)[1] / 1.5
  assert play(agent, 1, iterations[1], params=params, unsafe=True)[1] > factor * many


@pytest.mark.parametrize("player", [1])
def test_each_row_is_worth_what_its_subgame_is(player, x64):
  game = games.make("kuhn_poker")
  subgames = find_subgames(game, depth=1)
  function, params = search_leaf_values(game, subgames, num_iterations=8)

  oracle, rng = solvers.exact_leaf_values(game, num_iterations=8), np.random.default_rng(0)
  values_of = jax.jit(lambda *row: function(params, LeafQuery(row[0], player, row[1])))
  for tree in [x for x in subgames.trees if x.depth_limited][::-1]:
    features, beliefs = tree.leaf_features[player], rng.dirichlet([1] * 3, (tree.num_leaves, 2))
    (below, own), values = oracle.bind(tree), values_of(features, beliefs)
    wanted = below(own, LeafQuery(features, player, beliefs))
    np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-10)
  # The control: rows that took one another's place would be noticed.
  assert np.abs(values_of(features[::-1], beliefs) - values).max() > 1e-2
