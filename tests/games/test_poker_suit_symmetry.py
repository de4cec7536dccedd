"""Hold'em with interchangeable cards merged, against hold'em itself."""

import itertools

import jax
import numpy as np
import pytest

import games
import solvers
from games import pairs as pairs_
from games.poker import (
  BetSizes,
  MergedSuits,
  RiverEndgame,
  TurnEndgame,
  evaluate,
)
from games.poker import suit_symmetry as symmetry
from tests.trees import random_policy, without_hands

ONE_BET = BetSizes((((1.0,),),), all_in=False, max_raises=1)
RANKS = "9TJQKA"
GAMES = {
  "three suits": lambda: TurnEndgame("9sThKdAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "four suits": lambda: TurnEndgame("TsJhQdAs", ranks="TJQKA", bets=ONE_BET),
  "a pair on the board": lambda: TurnEndgame("9s9hKdAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "two suits alive": lambda: TurnEndgame("TsJhQsAh", ranks="TJQKA", bets=ONE_BET),
  "nothing to merge": lambda: TurnEndgame("9sThKsAh", ranks=RANKS, suits="sh", bets=ONE_BET),
  "one suit on the board": lambda: TurnEndgame("9sTsKsAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "river": lambda: RiverEndgame("9sThKdAsJs", ranks=RANKS, suits="shdc", bets=ONE_BET),
}


@pytest.fixture(scope="module")
def made():
  """Games by name, each with its merged game and both trees, in float64."""
  known = {}

  def make(name):
    if name not in known:
      game = GAMES[name]()
      merged = MergedSuits(game)
      with jax.enable_x64(True):
        trees = games.build_public_tree(game), games.build_public_tree(merged)
      known[name] = (game, merged, *trees)
    return known[name]

  return make


def symmetric_beliefs(merged, seed=0):
  """Beliefs over hands that are random but the same for all hands of a class; some are zero."""
  rng = np.random.default_rng(seed)
  of_class = rng.exponential(size=(2, merged.num_infostates))
  of_class[:, ::5] = 0
  hands = of_class[:, merged.class_of]
  return hands / hands.sum(axis=1, keepdims=True)


def orbits(game):
  """Returns the orbits of hands under all exchanges of two cards that leave every strength alone.

  Nothing is known of suits here: two cards may change places if no hand on any board gets another
  strength by it.
  """
  live = [card for card in range(game.deck.num_cards) if card not in game.board]
  seen = np.array(list(itertools.combinations(live, 2 + sum(game.deals))))
  seen = np.concatenate([np.tile(game.board, (len(seen), 1)), seen], axis=1)
  strength = evaluate(game.deck, seen)
  orbit = {hand: {hand} for hand in itertools.combinations(live, 2)}
  for a, b in itertools.combinations(live, 2):
    exchange = np.arange(game.deck.num_cards)
    exchange[[a, b]] = b, a
    if (evaluate(game.deck, exchange[seen]) != strength).any():
      continue
    for hand in orbit:
      joined = orbit[hand] | orbit[tuple(sorted(exchange[list(hand)].tolist()))]
      for member in joined:
        orbit[member] = joined
  return {frozenset(found) for found in orbit.values()}


@pytest.mark.parametrize("name", GAMES)
def test_classes_are_the_orbits_of_hands(name, made):
  game, merged, _, _ = made(name)
  hands = [tuple(hand) for hand in game.hole_cards.tolist()]
  classes = [
    frozenset(hands[h] for h in np.flatnonzero(merged.class_of == c))
    for c in range(merged.num_infostates)
  ]
  assert set(classes) == orbits(game)
  assert merged.class_sizes.sum() == len(hands)
  assert (len(classes) < len(hands)) == (name != "nothing to merge")


@pytest.mark.parametrize("name", GAMES)
def test_weights_are_shares_of_pairs_and_deals_add_up(name, made):
  """The closed form of the weights, against pairs of hands that are counted one by one."""
  game, merged, whole_tree, tree = made(name)
  compatible = pairs_.of_tree(whole_tree).weight_table(0)
  indicator = np.eye(merged.num_infostates)[:, merged.class_of]
  sizes = np.outer(merged.class_sizes, merged.class_sizes)
  rivers = np.zeros(0, int)
  if game.deals:
    rivers = np.flatnonzero(tree.chance_probability < 1)
  live = game.deck.num_cards - len(game.board)
  for state in [tree.state[0], *tree.state[rivers]]:
    blocked = np.isin(game.hole_cards, game.dealt(state[None])).any(axis=1)
    pairs = indicator @ (compatible * np.outer(~blocked, ~blocked)) @ indicator.T
    weights = merged.pair_weights()[merged.pair_index(state[None])[0]]
    share = (live - 4) / live if blocked.any() else 1.0  # of cards that no player holds
    np.testing.assert_allclose(weights * share, pairs / sizes, atol=1e-12)
  if len(rivers):
    first = tree.parent == tree.parent[rivers[0]]
    assert tree.chance_probability[first].sum() == pytest.approx(1)
    assert (first.sum() < live) == (name != "nothing to merge")


def wrongly_merged(game, monkeypatch):
  """Merges the suits of the board too."""
  monkeypatch.setattr(symmetry, "dead_suits", lambda deck, *_: np.ones(len(deck.suits), bool))
  return MergedSuits(game)


QUICK = ("three suits",)
QUICK_OR_SLOW = [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in GAMES]


@pytest.mark.parametrize("name", QUICK_OR_SLOW)
def test_solving_classes_solves_the_hands(name, made, x64):
  game, merged, whole_tree, tree = made(name)
  beliefs = symmetric_beliefs(merged)
  of_classes = merged.merge_beliefs(beliefs)
  options = {"algorithm": solvers.linear_cfr(), "num_iterations": 6}
  # Sums that cancel leave rounding where nobody comes, and its sign would decide there.
  whole = solvers.solve(games.build_public_tree(without_hands(game)), beliefs=beliefs, **options)
  found = solvers.solve(tree, beliefs=of_classes, **options)
  expanded = merged.expand_policy(tree, found.average_policy, whole_tree)
  live = np.ones(expanded.shape, bool)
  if game.deals:
    live = np.asarray(whole_tree.possible).all(axis=1)
  np.testing.assert_allclose(expanded[live], np.asarray(whole.average_policy)[live], atol=1e-9)
  values = np.asarray(found.root_values)[:, merged.class_of]
  np.testing.assert_allclose(values, np.asarray(whole.root_values), atol=1e-6)
  apart = float(solvers.exploitability(whole_tree, expanded, beliefs=beliefs))
  together = float(solvers.exploitability(tree, found.average_policy, beliefs=of_classes))
  assert apart == pytest.approx(together, abs=1e-6)


def test_merging_a_suit_of_a_flush_is_found_out(made, x64, monkeypatch):
  game, _, whole_tree, _ = made("river")
  wrong = wrongly_merged(game, monkeypatch)
  tree = games.build_public_tree(wrong)
  policy = random_policy(tree, np.random.default_rng(0))
  expanded = wrong.expand_policy(tree, policy, whole_tree)
  together = float(solvers.exploitability(tree, policy))
  assert abs(float(solvers.exploitability(whole_tree, expanded)) - together) > 1
  classes = {
    frozenset(map(tuple, game.hole_cards[wrong.class_of == c].tolist()))
    for c in range(wrong.num_infostates)
  }
  assert classes != orbits(game)
