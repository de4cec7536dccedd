"""AIVAT: unbiased over all deals and paths of a game, and controls that are not."""

import collections
import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker.cards import strengths_on
from solvers import tuning
from solvers.metrics.aivat import TreeValues, strengths_where
from tests.brute_force import enumerate_public, next_hands
from tests.hand_pairs import pairs_on
from tests.sentences import sentence_of
from tests.trees import random_policy, uniform_policy

pytestmark = pytest.mark.usefixtures("x64")


class OneRaise(type(games.make("leduc_poker"))):
  """Leduc poker where a round has one bet, which nobody raises."""

  def legal_actions(self, states):
    return super().legal_actions(states) & ~np.outer(states[:, 2] > 0, np.arange(9) == 2)


BLINDS = {"suits": "sh", "blinds": (50, 100), "stack": 250, "first_to_act": (0, 1)}
GAMES = {
  "kuhn": lambda: games.make("kuhn_poker"),
  "leduc": OneRaise,
  "one deal": lambda: games.make("small_holdem", ranks="QKA", **BLINDS),
  "two deals": lambda: games.make("small_holdem", ranks="QKA", deals=(1, 1), **BLINDS),
  "flop": lambda: games.make("small_holdem", ranks="JQKA", deals=(2, 1), **BLINDS),
}
# Of hold'em without a tree: all boards listed; a first deal of too many; the last listed alone.
RUNOUTS = {"all": 2_000, "order": 5, "last": 1}


@functools.cache
def case(name):
  """Returns a game, its tree, a random policy, and every way that a hand can go."""
  game = GAMES[name]()
  with jax.enable_x64(True):
    tree = games.build_public_tree(game)
  game.state_after = functools.cache(game.state_after)
  policy = random_policy(tree, np.random.default_rng(1))
  places = {tree.history(node): node for node in range(tree.num_nodes)}
  ways = {}

  def walk(node, hands, probability):
    if node.actor == games.TERMINAL:
      ways[places[node.history], hands] = probability, node.payoffs[hands[0]][hands[1]]
      return
    for child in node.children.values():
      played = 1.0
      if node.actor < games.CHANCE:
        played = policy[places[child.history], hands[node.actor]]
      for new, nature in next_hands(node, child, hands):
        walk(child, new, probability * played * nature)

  root, prior = enumerate_public(game), np.asarray(game.prior(), float)
  joint = prior[0][:, None] * prior[1] * np.array(root.weights)
  for i, j in np.argwhere(joint > 0).tolist():
    walk(root, (i, j), joint[i, j] / joint.sum())
  assert sum(p for p, _ in ways.values()) == pytest.approx(1)
  return game, tree, policy, ways


def moments(name, known, estimate_of):
  """Returns the mean of estimates less that of payoffs, and the variances of both."""
  _, _, _, ways = case(name)
  seat = known[0]
  mass, truth, squares = collections.Counter(), 0.0, 0.0
  for (node, hands), (probability, payoff) in ways.items():
    told = tuple(None if p in known else hands[p] for p in (0, 1))
    mass[node, told] += probability
    truth += probability * payoff * (1 - 2 * seat)
    squares += probability * payoff**2
  found = [(p, estimate_of(node, told)) for (node, told), p in mass.items()]
  mean = sum(p * x for p, x in found)
  return mean - truth, sum(p * (x - mean) ** 2 for p, x in found), squares - truth**2


def pair_values(game, tree, policy):
  """Returns player 0's expectation for every pair at every node, `[N, H, H]`, node after node."""
  parent, kind, state = (np.asarray(x) for x in (tree.parent, tree.kind, tree.state))
  result = np.zeros((tree.num_nodes, tree.num_infostates, tree.num_infostates))
  for node in np.flatnonzero(kind == games.TERMINAL).tolist():
    table = game.pairs().payoff_table(int(game.payoff_index(state[node][None])[0]))
    result[node] = table * float(game.payoff_scale(state[node][None])[0])
  for node in range(tree.num_nodes - 1, 0, -1):  # children after parents
    above = parent[node]
    if kind[above] == games.CHANCE:
      fits = np.asarray(tree.possible[node], float)
      weight = float(tree.chance_probability[node]) * fits[0][:, None] * fits[1]
    else:
      weight = policy[node][:, None] if kind[above] == 0 else policy[node]
    result[above] += weight * result[node]
  return result


def values_of(name, kind):
  game, tree, policy, _ = case(name)
  if kind in RUNOUTS:
    return solvers.metrics.PotShares(game, max_runouts=RUNOUTS[kind])
  if kind == "zero":
    return solvers.metrics.zero_values(tree)
  if kind == "half":
    return solvers.metrics.half_the_difference(tree, solvers.metrics.node_values(tree, policy))
  if kind == "exact":
    return TreeValues(tree, pair_values(game, tree, policy).__getitem__)
  noise = np.random.default_rng(2).normal(size=(tree.num_nodes, *(tree.num_infostates,) * 2))
  return TreeValues(tree, lambda node: noise[node])


def estimator(name, kind, policy=None, change=lambda record, node, told: record):
  """Returns the estimate of an end and what is told of the hands there."""
  game, tree, played, _ = case(name)
  values = values_of(name, kind)
  recorder = solvers.metrics.HandRecorder(game, values)
  histories = [tree.history(node) for node in range(tree.num_nodes)]
  rows = dict(zip(histories, played if policy is None else policy))

  def estimate_of(node, told):
    history = histories[node]
    near = {x: row for x, row in rows.items() if x[:-1] == history[: len(x) - 1]}
    return solvers.metrics.aivat(change(recorder.record(history, told, near), node, told))

  return estimate_of


@pytest.mark.parametrize(
  ("name", "known"),
  [
    ("kuhn", (0,)),
    ("kuhn", (1,)),
    ("kuhn", (0, 1)),
    ("leduc", (0,)),
    pytest.param("one deal", (1,), marks=pytest.mark.slow),
  ],
)
def test_it_is_unbiased_whatever_the_value_function(name, known):
  variance = {}
  for kind in ("zero", "exact", "random", "half")[: 3 if name == "leduc" else 4]:
    bias, variance[kind], variance["payoffs"] = moments(name, known, estimator(name, kind))
    assert abs(bias) < 1e-10, kind
  assert variance["exact"] < variance["zero"] <= variance["payoffs"] + 1e-9
  assert variance["exact"] < 0.7 * variance["payoffs"]
  if known == (0, 1):  # nothing is left but the dealt cards, which the value at the start knows
    assert variance["exact"] < 1e-12 * max(variance["payoffs"], 1)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "kind", "seat"),
  [("two deals", "order", 1), ("two deals", "all", 0), ("two deals", "last", 0),
   *(("flop", kind, 0) for kind in RUNOUTS)],
)  # fmt: skip
def test_it_is_unbiased_without_a_tree(name, kind, seat):
  bias, variance, of_payoffs = moments(name, (seat,), estimator(name, kind))
  assert abs(bias) < 1e-10
  if name == "two deals":
    assert variance < {"all": 0.7, "order": 0.97, "last": 1.0}[kind] * of_payoffs


WITHOUT_A_TREE = pytest.param("two deals", "order", marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "kind"), [("kuhn", "exact"), WITHOUT_A_TREE])
def test_control_another_policy_than_the_one_played(name, kind):
  _, tree, _, _ = case(name)
  other = random_policy(tree, np.random.default_rng(5))
  assert abs(moments(name, (0,), estimator(name, kind, policy=other))[0]) > 1e-3


@pytest.mark.parametrize(("name", "kind"), [("leduc", "exact"), WITHOUT_A_TREE])
def test_control_chance_that_forgets_the_cards_that_are_held(name, kind):
  def change(record, node, told):
    moves = [record.moves[0]]  # the deal
    for move in record.moves[1:]:
      # Chance's moves are those that a hand can block.
      of_chance = (move.weights[move.taken] == 0).any()
      weights = np.full_like(move.weights, 1 / len(move.weights)) if of_chance else move.weights
      moves.append(move._replace(weights=weights))
    return record._replace(moves=tuple(moves))

  assert abs(moments(name, (0,), estimator(name, kind, change=change))[0]) > 1e-3


@pytest.mark.parametrize(
  ("name", "dense"),
  [("kuhn", 0), ("one deal", 0), pytest.param("one deal", 2**30, marks=pytest.mark.slow)],
)
def test_values_of_nodes_are_means_over_pairs(name, dense, cpu, monkeypatch):
  """Compiled sweeps against sums over tables of pairs; showdowns are sorted, or matrices."""
  few = dataclasses.replace(tuning.ON_CPU, dense=dense, dense_of_few=dense)
  monkeypatch.setattr(tuning, "ON_CPU", few)
  jax.clear_caches()
  game, tree, policy, _ = case(name)
  table, parent, kind = pair_values(game, tree, policy), tree.parent, tree.kind
  weights = game.pairs().weight_table(int(game.pair_index(np.asarray(tree.state)[:1])[0]))
  reach = np.zeros((tree.num_nodes, 2, tree.num_infostates))
  found = solvers.metrics.node_values(tree, policy)
  for node in range(tree.num_nodes):
    reach[node] = game.prior() if node == 0 else reach[parent[node]]
    if node and kind[parent[node]] < games.CHANCE:
      reach[node, kind[parent[node]]] *= policy[node]
    elif node and tree.possible is not None:
      reach[node] *= tree.possible[node]
    for player, towards in enumerate((weights, weights.T)):
      mass = towards @ reach[node, 1 - player]
      worth = table[node] if player == 0 else -table[node].T
      expected = (towards * worth) @ reach[node, 1 - player] / np.where(mass > 0, mass, 1)
      np.testing.assert_allclose(
        found[node, player], np.where(reach[node, player] > 0, expected, found[node, player]),
        atol=1e-9,
      )  # fmt: skip


def test_what_is_refused():
  game, tree, _, _ = case("kuhn")
  assert "tree=int must be a PublicTree" in sentence_of(solvers.metrics.zero_values, 3)
  recorder = solvers.metrics.HandRecorder(game, solvers.metrics.zero_values(tree))
  end, nothing = (0, 1, 0), dict.fromkeys(map(tree.history, range(tree.num_nodes)), np.zeros(3))
  for history, told, rows, message in (
    ((0,), (None, 1), nothing, "where the game is over"),
    (end, (None, 1), {}, "must hold a row"),
    (end, (0, 1), nothing, "whose policy is known"),
  ):
    assert message in sentence_of(recorder.record, history, told, rows)
  record = recorder.record(end, (None, 1), nothing)
  assert "policy that was played" in sentence_of(solvers.metrics.aivat, record)
  hidden = games.build_public_tree(games.make("rock_paper_scissors"))
  assert "hidden moves" in sentence_of(solvers.metrics.node_values, hidden, uniform_policy(hidden))


def test_values_of_hands_are_those_of_all_boards():
  game = GAMES["flop"]()
  boards = itertools.combinations(range(game.deck.num_cards), 3)
  meet, won = sum(np.stack(pairs_on(game.deck, game.hole_cards, board)) for board in boards)
  shares = solvers.metrics.PotShares(game).prepare()
  np.testing.assert_allclose(shares[meet > 0], (won / np.maximum(meet, 1))[meet > 0], atol=1e-12)


def test_the_mean_of_places_is_over_all_first_deals():
  game, (held, own) = GAMES["flop"](), (0, 13)  # two hands without a card in common
  hands, found = game.hole_cards, solvers.metrics.PotShares(game, max_runouts=1).prepare()
  apart = []
  for deal in itertools.combinations(sorted(set(range(8)) - {*hands[held], *hands[own]}), 2):
    strengths = strengths_on(game.deck, hands, np.array(deal))
    live = strengths[strengths >= 0]
    apart.append((np.sign(strengths[own] - live) - np.sign(strengths[held] - live)).mean() / 2)
  assert found[own, held] == pytest.approx(1.25 * np.mean(apart))


def test_strengths_of_the_whole_deck_are_those_of_its_deals():
  game, dealt = games.make("no_limit_holdem"), np.array([[0, 17, 33, 50, 51], [1, 2, 3, 40, 9]])
  one_by_one = game.dealing.strengths_on(game.hole_cards, dealt)
  np.testing.assert_array_equal(strengths_where(game, dealt), one_by_one)
