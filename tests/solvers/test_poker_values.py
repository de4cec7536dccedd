"""Folds and showdowns between hands that block each other, against sums over all pairs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.poker import Deck, evaluate
from rebel_jax.training.self_play import Searched
from rebel_jax.training.targets import value
from solvers.search.batch import SearchResult
from solvers.sweeps import levels, showdowns
from solvers.sweeps.levels import join_levels, split_levels
from solvers.sweeps.problem import make_problem
from tests import harness

DECK = Deck()
BOARDS = ["3s7hTdKs2c", "2s2h2d2c3s", "AsKsQsJsTs", "4s8hTc9h2s"]  # the third always splits
DECKS = {"whole": (DECK, BOARDS), "small": (Deck("9TJQKA", "sh"), ["9sTsJsQsKs", "9h9sTsThAs"])}


def brute_force(deck, hands, board, reach):
  """Returns values `[2, n, H]` of a fold and a showdown, pair by pair of hands, in float64."""
  shown = np.array([[*hand, *board] for hand in hands.tolist()])
  strength = evaluate(deck, shown).astype(int)
  apart = np.array([[not set(a) & set(b) for b in hands.tolist()] for a in hands.tolist()])
  wins = np.sign(strength[:, None] - strength[None]) * apart
  return np.stack([reach @ apart.T, reach @ wins.T])


@pytest.fixture(scope="module", params=DECKS)
def case(request):
  """Strengths `[K, H]` over the hands of the deck, random reach, and values by brute force."""
  deck, names = DECKS[request.param]
  rng = np.random.default_rng(5)
  hands = deck.hole_cards()
  boards = [deck.parse(name) for name in names]
  strengths, reach, truth, live = [], [], [], []
  for board in boards:
    alive = ~np.isin(hands, board).any(axis=1)
    shown = np.array([[*hand, *board] for hand in hands.tolist()])
    strengths.append(np.where(alive, evaluate(deck, shown), -1))
    x = rng.exponential(size=(3, len(hands))) * alive * (rng.random((3, len(hands))) < 0.7)
    reach.append(x)
    values = np.zeros((2, 3, len(hands)))
    values[:, :, alive] = brute_force(deck, hands[alive], board, x[:, alive])
    truth.append(values)
    live.append(alive)
  return (np.stack(strengths), np.stack(reach), np.stack(truth, axis=1), np.stack(live)[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "sorted"])
def test_showdowns_equal_sums_over_pairs(case, form, dtype):
  strengths, reach, truth, live = case
  with jax.enable_x64(dtype == np.float64):
    tables = showdowns.make_showdowns(jnp.asarray(strengths), dtype, dense=form == "dense")
    values = np.asarray(showdowns.showdown_values(tables, jnp.asarray(reach, dtype)))
  assert values.dtype == dtype
  tolerance = 1e-4 if dtype == np.float32 else 1e-12
  np.testing.assert_allclose(values * live, truth[1], atol=tolerance * reach.sum(axis=2).max())


def test_folds_equal_sums_over_pairs(case):
  _, reach, truth, live = case
  values = showdowns.compatible_mass(jnp.asarray(reach, jnp.float32))
  np.testing.assert_allclose(values * live, truth[0], atol=1e-4 * reach.sum(axis=2).max())


def test_forgetting_blockers_is_found_out(case):
  strengths, reach, truth, live = case
  tables = showdowns.sorted_showdowns(jnp.asarray(strengths))
  nothing = jnp.zeros_like(tables.card_bounds)  # as if no hand held a card
  values = showdowns.showdown_values(
    tables._replace(card_bounds=nothing), jnp.asarray(reach, jnp.float32)
  )
  assert np.abs(values * live - truth[1]).max() > 0.05 * reach.max()
  assert np.abs(reach.sum(axis=2, keepdims=True) * live - truth[0]).max() > 0.5


def test_numbers_of_hands_that_no_deck_has_are_refused():
  assert showdowns.num_live_cards(1326) == 52
  with pytest.raises(ValueError, match="hands=1000 must be all pairs"):
    showdowns.num_live_cards(1000)


GAME = {"ranks": "JQKA", "suits": "shd", "stack": 250, "bets": (1.0,)}


def dense_tree(game):
  """Returns the tree with tables of all pairs, as for any other game."""
  return games.build_public_tree(without_hands(game))


def without_hands(game):
  plain = games.make("small_holdem", **GAME)
  plain.__dict__.update(game.__dict__)
  plain.hands = lambda: None
  return plain


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
    trees = games.build_public_tree(game), dense_tree(game)
    rng = np.random.default_rng(3)
    beliefs = rng.exponential(size=(2, game.num_infostates))
    beliefs /= beliefs.sum(axis=1, keepdims=True)
    problem = make_problem(trees[0], jnp.asarray(beliefs))
    weights = tuple(rng.exponential(size=p.shape) for p in problem.uniform_policy())
    policy = join_levels(problem.normalise(weights))
  return trees, beliefs, policy


@pytest.mark.parametrize("entries", harness.slow([0, 2**30], 2**30), ids=["sorted", "dense"])
def test_a_tree_of_hands_has_the_values_of_tables_of_pairs(small_case, entries, monkeypatch):
  for most in ("_MAX_DENSE_ON_CPU", "_MAX_DENSE_OF_FEW"):
    monkeypatch.setattr(showdowns, most, entries)
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


def test_rows_whose_kind_is_not_static_are_evaluated_one_by_one(small_case):
  """In stacked trees of different shapes a row is a fold in one and a showdown in the other."""
  (tree, _), beliefs, policy = small_case
  loose_levels = [dataclasses.replace(level, payoff_runs=None) for level in tree.structure.levels]
  structure = dataclasses.replace(tree.structure, levels=tuple(loose_levels))
  loose = dataclasses.replace(tree, structure=structure)
  for (ours, _), (theirs, _) in zip(
    root_and_node_values(loose, beliefs, policy), root_and_node_values(tree, beliefs, policy)
  ):
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
  stacks = [games.make("small_holdem", **{**GAME, "stack": stack}) for stack in (250, 400)]
  stacked = games.stack_trees([games.build_public_tree(game) for game in stacks])
  assert any(level.payoff_runs is None for level in stacked.structure.levels)
  assert stacked.strengths.shape == (2, 12, 66)


def test_beliefs_that_block_each_other_are_refused(small_case):
  (tree, _), beliefs, _ = small_case
  one = np.zeros_like(beliefs)
  one[:, 0] = 1.0
  with pytest.raises(ValueError, match="no compatible pair"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=one)


def test_beliefs_on_hands_that_a_dealt_card_blocks_are_refused():
  game = games.make("small_holdem", **GAME)
  tree = games.build_public_tree(game, root=(1, 1, game.burn, game.first_deal))
  blocked = int(np.flatnonzero(~tree.possible[0, 0])[0])
  beliefs = np.array(tree.prior)
  beliefs[0] = 0
  beliefs[0, blocked] = 1
  with pytest.raises(ValueError, match=f"player 0's infostate {blocked} weight, which the rules"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=beliefs)
  with pytest.raises(ValueError, match="beliefs of shape"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=beliefs[:, 1:])


def test_values_are_zero_where_the_root_blocks_a_hand():
  game = games.make("small_holdem", **GAME)
  tree = games.build_public_tree(game, root=(1, 1, game.burn, game.first_deal))
  problem = make_problem(tree, jnp.asarray(tree.prior))
  policy = join_levels(problem.uniform_policy())
  values = np.asarray(solvers.expected_values(tree, policy))
  assert (values[~tree.possible[0]] == 0).all()
  assert np.abs(values[tree.possible[0]]).max() > 0
  broken = dataclasses.replace(tree, possible=None)
  assert (np.asarray(solvers.expected_values(broken, policy))[~tree.possible[0]] != 0).any()


def test_rows_are_moved_alike_by_slices_and_by_index():
  """A node of chance has 48 children, players' nodes at the same level four."""
  tree = games.build_public_tree(games.make("turn_endgame_holdem"))
  rng = np.random.default_rng(0)
  for above, level in zip(tree.structure.levels[:5], tree.structure.levels[1:5]):
    rows = rng.normal(size=(level.size, 2)).astype(np.float32)
    total = np.zeros((above.num_inner, 2))
    np.add.at(total, level.parents, rows)
    best = np.full_like(total, -np.inf)
    np.maximum.at(best, level.parents, rows)
    for sliced in (False, True):
      same = dataclasses.replace(level, sliced=sliced)
      np.testing.assert_allclose(
        levels.reduce_children(same, jnp.asarray(rows), above.num_inner), total, atol=1e-5
      )
      highest = levels.reduce_children(same, jnp.asarray(rows), above.num_inner, maximum=True)
      np.testing.assert_allclose(highest, best, atol=1e-6)


def test_training_examples_mask_hands_that_the_other_blocks():
  """Where the other can only hold one hand, no hand that shares a card with it is an example."""
  game = games.make("small_holdem", ranks="QKA", suits="sh", stack=200)
  beliefs = np.full((1, 2, game.num_infostates), 1 / game.num_infostates, np.float32)
  beliefs[0, 1] = np.eye(game.num_infostates)[4]
  masks = []
  for each in (game, without_hands(game)):
    tree = games.build_public_tree(each)
    trees = games.stack_trees([tree])
    found = SearchResult(jnp.zeros(beliefs.shape), (), (), jnp.zeros(0), jnp.zeros(()))
    searched = Searched(trees, None, jnp.asarray(beliefs), jnp.ones(1, bool), None, found)
    masks.append(np.asarray(value.make_examples(None, searched)[0].mask))
  np.testing.assert_array_equal(masks[0], masks[1])
  shares = (game.hole_cards[:, :, None] == game.hole_cards[4]).any(axis=(1, 2))
  np.testing.assert_array_equal(masks[0][0], ~shares)
  assert masks[0][1].all()


def test_hands_that_nothing_of_the_other_side_allows_are_worth_nothing():
  """All that the other may hold has one card, and what sums that cancel leave is rounding."""
  game = games.make(
    "river_endgame_holdem",
    board="TsThJsJhQs", pot=200, stack=300, big_blind=100, bets=(1.0,), ranks="TJQKA", suits="sh",
  )  # fmt: skip
  tree = games.build_public_tree(game)
  hands = np.asarray(game.hole_cards)
  holds = (hands == hands[0, 0]).any(axis=1)
  beliefs = np.zeros((2, len(hands)))
  beliefs[0] = 1 / len(hands)
  beliefs[1, holds] = np.random.default_rng(0).dirichlet(np.ones(holds.sum()))
  found = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=64, beliefs=beliefs)
  policy = found.average_policy
  best = solvers.best_response(tree, policy, 0, beliefs=beliefs).values
  for values in (found.root_values[0], best):
    assert (np.asarray(values)[holds] == 0).all()
    assert (np.asarray(values)[~holds] != 0).any()
