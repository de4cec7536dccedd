"""Folds and showdowns between hands that block each other, against sums over all pairs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.pairs import compatible_mass
from games.poker import Deck
from games.poker.cards import strengths_on
from solvers import tuning
from solvers.sweeps import join_levels, make_problem, showdowns, split_levels
from tests import harness
from tests.hand_pairs import pairs_on
from tests.trees import random_policy, without_hands

DECK = Deck()
BOARDS = ["3s7hTdKs2c", "2s2h2d2c3s", "AsKsQsJsTs", "4s8hTc9h2s"]  # the third always splits
DECKS = {"whole": (DECK, BOARDS), "small": (Deck("9TJQKA", "sh"), ["9sTsJsQsKs", "9h9sTsThAs"])}


@pytest.fixture(scope="module", params=DECKS)
def case(request):
  """Strengths `[K, H]`, random reach, values of folds and showdowns by pairs, and live hands."""
  deck, names = DECKS[request.param]
  rng = np.random.default_rng(5)
  hands, found = deck.hole_cards(), []
  for board in map(deck.parse, names):
    strengths = strengths_on(deck, hands, np.array(board))
    alive, size = strengths >= 0, (3, len(hands))
    reach = rng.exponential(size=size) * alive * (rng.random(size) < 0.7)
    truth = np.stack([reach @ table.T for table in pairs_on(deck, hands, board)])
    found.append((strengths, reach, truth, alive))
  strengths, reach, truth, live = zip(*found)
  return np.stack(strengths), np.stack(reach), np.stack(truth, axis=1), np.stack(live)[:, None]


@functools.partial(jax.jit, static_argnames="dense")
def values_of(strengths, reach, dense):
  tables = showdowns.make_showdowns(strengths, reach.dtype, dense=dense)
  return showdowns.showdown_values(tables, reach)


@pytest.mark.parametrize("form", ["dense", "sorted"])
def test_showdowns_equal_sums_over_pairs(case, form):
  strengths, reach, truth, live = case
  dtype = np.float64 if len(live) == 2 else np.float32
  with jax.enable_x64(dtype == np.float64):
    values = np.asarray(values_of(strengths, reach.astype(dtype), dense=form == "dense"))
  assert values.dtype == dtype
  tolerance = 1e-4 if dtype == np.float32 else 1e-12
  np.testing.assert_allclose(values * live, truth[1], atol=tolerance * reach.sum(axis=2).max())


def test_an_accelerator_sorts_where_matrices_of_all_lanes_are_too_large(case, accelerator):
  strengths, reach, truth, live = case
  reach = np.tile(reach, (1, 7, 1)).astype(np.float32)
  make = functools.partial(showdowns.make_showdowns, dtype=jnp.float32)
  tables = [jax.jit(functools.partial(make, lanes=lanes))(strengths) for lanes in (1, 2**14)]
  dense, many = (np.asarray(jax.jit(showdowns.showdown_values)(x, reach)) * live for x in tables)
  assert [isinstance(x, showdowns.SortedShowdowns) for x in tables] == [False, True]
  for values in (dense, many):  # all 21 nodes of all boards at once
    np.testing.assert_allclose(values, np.tile(truth[1], (1, 7, 1)), atol=3e-4 * reach.max())


def test_folds_equal_sums_over_pairs(case):
  _, reach, truth, live = case
  values = jax.jit(compatible_mass)(reach.astype(np.float32))
  np.testing.assert_allclose(values * live, truth[0], atol=1e-4 * reach.sum(axis=2).max())


def test_forgetting_blockers_is_found_out(case):
  strengths, reach, truth, live = case

  @jax.jit
  def without_cards(strengths, reach):
    tables = showdowns.make_showdowns(strengths, reach.dtype, dense=False)
    nothing = jnp.zeros_like(tables.card_bounds)  # as if no hand held a card
    return showdowns.showdown_values(tables._replace(card_bounds=nothing), reach)

  values = without_cards(strengths, reach.astype(np.float32))
  assert np.abs(values * live - truth[1]).max() > 0.05 * reach.max()
  assert np.abs(reach.sum(axis=2, keepdims=True) * live - truth[0]).max() > 0.5


GAME = {"ranks": "JQKA", "suits": "shd", "stack": 250, "bets": (1.0,)}


@harness.fast_to_compile
def both_sweeps(tree, beliefs, policy):
  tree = jax.tree.map(jnp.asarray, tree)
  problem = make_problem(tree, beliefs)
  by_level = split_levels(tree, policy)
  reach = problem.both_reach(by_level)
  sweeps = [problem.values_up(by_level, reach[1 - player], None, player) for player in (0, 1)]
  return [(join_levels(sweep.nodes), sweep.root) for sweep in sweeps]


def root_and_node_values(tree, beliefs, policy):
  """Returns for both players counterfactual values `[N, H]` under `policy`, and the root's."""
  with jax.enable_x64(True):
    both_sweeps.clear_cache()  # the form of showdowns is no argument
    return jax.tree.map(np.asarray, both_sweeps(tree, jnp.asarray(beliefs), policy))


@pytest.fixture(scope="module")
def small_case():
  with jax.enable_x64(True):
    game = games.make("small_holdem", **GAME)
    trees = games.build_public_tree(game), games.build_public_tree(without_hands(game))
    rng = np.random.default_rng(3)
    beliefs = rng.exponential(size=(2, game.num_infostates))
    beliefs /= beliefs.sum(axis=1, keepdims=True)
  return trees, beliefs, random_policy(trees[0], rng)


@pytest.mark.parametrize("entries", harness.slow([0, 2**30], 2**30), ids=["sorted", "dense"])
def test_a_tree_of_hands_has_the_values_of_tables_of_pairs(small_case, entries, monkeypatch):
  most = dataclasses.replace(tuning.ON_CPU, dense=entries, dense_of_few=entries)
  monkeypatch.setattr(tuning, "ON_CPU", most)
  (tree, dense), beliefs, policy = small_case
  assert tree.payoffs.size == 1
  assert dense.payoffs.shape[1:] == (66, 66)
  pairs = zip(
    root_and_node_values(tree, beliefs, policy), root_and_node_values(dense, beliefs, policy)
  )
  # Below a card the hands that hold it are not played; their values there mean nothing.
  possible = np.asarray(dense.possible)
  for player, ((ours, ours_root), (theirs, theirs_root)) in enumerate(pairs):
    np.testing.assert_allclose(ours * possible[:, player], theirs, atol=1e-10)
    np.testing.assert_allclose(ours_root, theirs_root, atol=1e-10)


def test_beliefs_on_hands_that_a_dealt_card_blocks_are_refused():
  game = games.make("small_holdem", **GAME)
  tree = games.build_public_tree(game, root=(1, 1, game.burn, game.first_deal))
  blocked = int(np.flatnonzero(~tree.possible[0, 0])[0])
  beliefs = np.array(tree.prior)
  beliefs[0] = 0
  beliefs[0, blocked] = 1
  with pytest.raises(ValueError, match=f"player 0's infostate {blocked} weight, which the rules"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=beliefs)
