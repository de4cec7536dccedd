"""The searching agent's policy: safe by random iterations, unsafe by averages (Theorem 3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.search import playthroughs
from solvers.search.find import find_subgames
from solvers.search.playthroughs import searching_policy
from solvers.search.searching_agent import make_searching_agent, searches_from
from solvers.xla.compiler_options import Work

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


def play(agent, playthroughs, iterations, **options):
  policy = searching_policy(
    agent,
    params=None,
    num_playthroughs=playthroughs,
    num_iterations=iterations,
    key=jax.random.key(0),
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
  policy = searching_policy(
    agent, params=params, num_playthroughs=2_048, num_iterations=512, key=jax.random.key(0)
  )
  assert float(solvers.exploitability(agent.tree, policy)) < 0.03


def test_unsafe_search_stays_exploitable(agent):
  """Player 1 answers the beliefs of one average with one move, however long it searches."""
  policy, gap = play(agent, 1, 4_096, unsafe=True)
  assert policy[2:, 0].max() > 0.99
  assert gap > 0.3


def test_the_policy_does_not_depend_on_the_cores(agent, monkeypatch):
  settings = {"playthroughs": 600, "iterations": 16}  # three calls a level
  expected, _ = play(agent, **settings)
  monkeypatch.setattr("solvers.xla.cores.num_cores", lambda: 3)
  np.testing.assert_array_equal(play(agent, **settings)[0], expected)


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


def test_what_neither_player_reaches_is_not_searched(dice_agent, monkeypatch):
  """The average gives such subgames no weight; progress counts them as done."""
  searched, seen = [], []
  real = playthroughs._search_chunk

  def spy(agent, chunk, *rest):
    searched.extend(chunk.reach.max(axis=(1, 2)).tolist())
    return real(agent, chunk, *rest)

  monkeypatch.setattr(playthroughs, "_search_chunk", spy)
  settings = {"num_playthroughs": 4, "num_iterations": 64, "key": jax.random.key(0)}
  progress = lambda done, total: seen.append((done, total))  # noqa: E731
  searching_policy(dice_agent, params=None, progress=progress, **settings)
  assert len(searched) < 4 * (searches_from(dice_agent)[0] - 1)
  assert min(searched) > 0
  assert seen == sorted(seen)
  assert seen[-1] == (128, 128)


@pytest.mark.parametrize("shift", [0, 2])
def test_searches_end_where_play_goes_on(dice_agent, monkeypatch, shift):
  """Running every search to its end changes nothing but time; playing other iterates does."""
  settings = {"params": None, "num_playthroughs": 32, "num_iterations": 64}
  real, wanted, spent = playthroughs._searches[Work.PLAIN], [], []

  def count(table, roots, beliefs, reach, stop, active, num_iterations, *rest, **static):
    wanted.extend(np.asarray(stop)[np.asarray(active)].tolist())
    spent.extend([num_iterations // 2] * int(np.sum(active)))
    return real(table, roots, beliefs, reach, stop, active, num_iterations, *rest, **static)

  monkeypatch.setattr(playthroughs, "_searches", dict.fromkeys(Work, count))
  policy = searching_policy(dice_agent, key=jax.random.key(0), **settings)
  # Weights (j + 1)² over 32 updates stop after 24.4 of them on average.
  assert abs(np.mean(wanted) + 1 - 24.4) < 1
  assert np.mean(wanted) < np.mean(spent) < 27

  def to_the_end(table, roots, beliefs, reach, stop, active, num_iterations, *rest, **static):
    stop = np.minimum(np.asarray(stop) + shift, 31)
    return real(table, roots, beliefs, reach, stop, active, 64, *rest, **static)

  monkeypatch.setattr(playthroughs, "_searches", dict.fromkeys(Work, to_the_end))
  full = searching_policy(dice_agent, key=jax.random.key(0), **settings)
  assert (np.abs(full - policy).max() < 1e-6) == (shift == 0)
