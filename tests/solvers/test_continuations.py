"""Leaves of several values: values of pairs against enumeration, games solved by hand, controls."""

import numpy as np
import pytest

import games
import solvers
from games.origin import check_tree_of
from games.poker import MergedSuits
from solvers import contrib
from solvers.contrib.continuations.policies import of_players
from solvers.contrib.continuations.round_search import Rounds
from tests.brute_force import Referee, from_array, next_hands, tree_edges
from tests.harness import make_case
from tests.solvers.test_locks import random_policy
from tests.trees import children_of

KUHN = games.make("kuhn_poker")
PASS, BET, AFTER_PASS, AFTER_BET, PASS_BET = 1, 2, 1, 2, 3
ALPHA, QUEEN_CALLS = 0.2, 8 / 15  # of an equilibrium of Kuhn poker: alpha, and alpha + 1/3
SMALL = ("kuhn", "rock_paper_scissors", "leduc", "random_5")
TABLES = np.zeros((2, 1, 1, 3, 3))


def solve(tree, num_iterations=2000, **arguments):
  return solvers.solve(
    tree, algorithm=solvers.cfr_plus(), num_iterations=num_iterations, **arguments
  )


def with_moves(tree, often):
  """Returns a policy that makes moves (node, action) of two so `often`, and others at random."""
  policy, child = np.array(random_policy(tree, np.random.default_rng(0))), children_of(tree)
  for (node, action), row in often.items():
    policy[child[node, action]], policy[child[node, 1 - action]] = row, 1 - np.array(row)
  return policy


def enumerated(game, tree, policy, root):
  """Returns for histories and pairs of infostates that exist what player 0 expects of them."""
  known, found = from_array(tree_edges(tree, root), policy), {}
  referee = Referee(game, root, tree.prior)

  def value(node, hands):
    if (node.history, hands) in found:
      return found[node.history, hands]
    total = node.payoffs[hands[0]][hands[1]] if node.payoffs else 0.0
    for action, child in node.children.items():
      for after, nature in next_hands(node, child, hands):
        often = 1.0
        if node.actor in (0, 1):
          infoset = node.actor, node.history, hands[node.actor]
          often = known[infoset][action, after[node.actor]]
        total += nature * often * value(child, after)
    found[node.history, hands] = total
    return total

  for hands, _ in referee.pairs:
    value(referee.root, hands)
  return found


@pytest.mark.parametrize("name", [*SMALL, pytest.param("random_2", marks=pytest.mark.slow)])
def test_pair_values_are_those_of_enumeration(name, x64):
  game, root = make_case(name) if name != "leduc" else (games.make("leduc_poker"), (1, 1))
  tree = games.build_public_tree(game, root=root)
  policy = random_policy(tree, np.random.default_rng(3))
  values = np.asarray(contrib.pair_values(tree, policy))
  weights, index = np.asarray(game.pair_weights()), game.pair_index(np.asarray(tree.state))
  expected = enumerated(game, tree, policy, root)
  histories = {(*root, *tree.history(node)): node for node in range(tree.num_nodes)}
  errors, sizes = [], []
  for (history, hands), value in expected.items():
    node = histories[history]
    errors.append(values[node][hands] - value * weights[index[node]][hands])
    sizes.append(abs(value))
  assert np.abs(errors).max() < 1e-10 < 0.1 < np.max(sizes)
  # Control: another policy of one player has other values.
  other = of_players(tree, random_policy(tree, np.random.default_rng(4)), policy)
  assert np.abs(contrib.pair_values(tree, other)[0] - values[0]).max() > 1e-3


def test_pair_values_of_some_nodes_come_in_the_order_asked_for(x64):
  tree = games.build_public_tree(KUHN)
  policy = random_policy(tree, np.random.default_rng(3))
  values, some = np.asarray(contrib.pair_values(tree, policy)), [3, 0, 8, 1, 3]
  np.testing.assert_allclose(
    contrib.pair_values(tree, policy, nodes=some), values[some], atol=1e-12
  )
  assert len(np.unique(values[some].sum(axis=(1, 2)))) == 4


def rock_paper_scissors(tree, answers):
  policy = np.full((tree.num_nodes, 3), 1 / 3)
  policy[0], policy[2:] = 1, np.array(answers)[:, None]
  return policy


def test_three_answers_make_rock_paper_scissors_whole(x64):
  """Thesis, section 5.2.1: one value leaves the top uniform, three pure answers do not."""
  game = games.make("rock_paper_scissors")
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth=1)
  uniform = rock_paper_scissors(tree, np.full(3, 1 / 3))
  pure = [rock_paper_scissors(tree, row) for row in np.eye(3)]
  equilibrium = rock_paper_scissors(tree, [0.4, 0.4, 0.2])

  def play(continuations):
    tables = contrib.leaf_tables(tree, [1], [uniform], continuations)
    extended = contrib.with_continuations(top, tables)
    solution = solve(extended.tree, 8192)
    policy = np.array(equilibrium)
    policy[1] = extended.of_top(solution.average_policy)[1]
    return policy[1], float(solvers.best_response_values(tree, policy)[1])

  played, lost = play(pure)
  np.testing.assert_allclose(played, [0.4, 0.4, 0.2], atol=1e-3)
  assert lost == pytest.approx(0, abs=3e-3)
  played, lost = play([equilibrium])
  np.testing.assert_allclose(played, np.full(3, 1 / 3), atol=1e-6)
  assert lost == pytest.approx(1 / 3, abs=1e-6)


def kuhn():
  """Returns Kuhn's tree, player 0's equilibrium below, and player 1's two pure continuations."""
  tree = games.build_public_tree(KUHN)
  calls = {(PASS_BET, 1): [0, QUEEN_CALLS, 1], (0, 1): [ALPHA, 0, 3 * ALPHA]}
  answers = [
    {(AFTER_PASS, 1): np.full(3, often), (AFTER_BET, 1): np.full(3, often)} for often in (0.0, 1.0)
  ]
  return tree, with_moves(tree, calls), [with_moves(tree, answer) for answer in answers]


def top_of_kuhn(tree, first, second, num_iterations=8192):
  """Returns what player 0 bets with, and the solution of Kuhn cut off after its first action."""
  top = games.build_public_tree(KUHN, depth=1)
  tables = contrib.leaf_tables(tree, [AFTER_PASS, AFTER_BET], first, second)
  extended = contrib.with_continuations(top, tables)
  solution = solve(extended.tree, num_iterations)
  prior = solvers.root_marginals(extended.tree, extended.tree.prior)
  value = float((prior[0] * solution.root_values[0]).sum())
  return extended.of_top(solution.average_policy)[children_of(tree)[0, 1]], value, extended


def test_values_of_pure_continuations_suffice(x64):
  """Proposition 3 on Kuhn poker: the top of the equilibrium whose values below are known."""
  tree, below, pure = kuhn()
  bets, value, _ = top_of_kuhn(tree, [below], pure)
  np.testing.assert_allclose(bets, [ALPHA, 0, 3 * ALPHA], atol=1e-3)
  assert value == pytest.approx(-1 / 18, abs=1e-3)

  def lost(bets):
    policy = np.array(below)
    policy[2], policy[1] = bets, 1 - bets
    return float(solvers.best_response_values(tree, policy)[1]) - 1 / 18

  assert lost(bets) == pytest.approx(0, abs=1e-3)
  # Control: with an equilibrium's values alone player 0 may bet as it likes, and loses.
  one = np.array(solve(tree).average_policy)
  single, _, _ = top_of_kuhn(tree, [below], [one])
  assert lost(single) > 0.02


@pytest.mark.slow
def test_both_players_may_choose(x64):
  """The first choice is hidden, so that choices of all pure continuations are the game itself."""
  tree, below, pure = kuhn()
  own = [with_moves(tree, {(PASS_BET, 1): np.full(3, often)}) for often in (0.0, 1.0)]
  bets, value, extended = top_of_kuhn(tree, own, pure)
  assert extended.tree.num_infostates == 6
  assert value == pytest.approx(-1 / 18, abs=1e-3)
  policy = np.array(below)
  policy[2], policy[1] = bets, 1 - bets
  held = np.zeros(tree.num_nodes, bool)
  held[1:3] = True
  done = solve(tree, initial_policy=policy, locked=held).average_policy
  assert float(solvers.best_response_values(tree, done)[1]) == pytest.approx(1 / 18, abs=2e-3)
  # Player 0 may also be the only one who chooses, openly. Controls: against a single continuation
  # it wins more, and had it to show its choice it would win less.
  _, alone, _ = top_of_kuhn(tree, own, pure[:1])
  assert alone > value + 0.1
  shown = [top_of_kuhn(tree, [choice], pure)[1] for choice in own]
  assert max(shown) < value - 0.02


def test_extended_trees_are_whole_trees(x64):
  """They stack and batch, keep a mark of their own, and take rows of the top's nodes."""
  tree, below, pure = kuhn()
  extended = [top_of_kuhn(tree, [below], pair, 16)[2] for pair in (pure, pure[::-1])]
  batch = solvers.solve_batch(
    games.stack_trees([x.tree for x in extended]),
    algorithm=solvers.cfr_plus(),
    num_iterations=64,
  )
  for one, policy in zip(extended, batch.average_policy):
    np.testing.assert_allclose(solve(one.tree, 64).average_policy, policy, atol=1e-9)
  with pytest.raises(ValueError, match="payoffs"):
    check_tree_of(KUHN, extended[0].tree)
  assert (extended[0].tree.origin != extended[1].tree.origin).any()
  rows = np.random.default_rng(0).random((3, 3))
  _, _, both = top_of_kuhn(tree, [below] * 2, pure, 16)
  np.testing.assert_array_equal(both.of_top(both.to_whole(rows)), rows)
  np.testing.assert_array_equal(both.pad(rows[:2])[:, :3], rows[:2])
  assert both.pad(rows[:2]).shape == (2, 6)


def test_bias_multiplies_and_renormalises(x64):
  tree = games.build_public_tree(games.make("leduc_poker"), root=(1, 2, 1, 5))
  policy, child = random_policy(tree, np.random.default_rng(1)), children_of(tree)
  biased = np.asarray(contrib.biased_policy(tree, policy, {0: 5.0}))
  facing = child[0, 2]
  rows = policy[[child[facing, action] for action in range(3)]]
  expected = rows * np.array([[5], [1], [1]])
  expected /= expected.sum(axis=0)
  np.testing.assert_allclose(biased[[child[facing, a] for a in range(3)]], expected, atol=1e-12)
  assert np.abs(biased - policy).max() > 0.1
  np.testing.assert_allclose(contrib.biased_policy(tree, policy, {}), policy, atol=1e-12)


@pytest.mark.slow
def test_more_continuations_are_less_exploitable(x64):
  """Leduc poker cut after its first round, as Figure 5.8: one continuation is worst."""
  game = games.make("leduc_poker")
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth="stage")
  blueprint = np.asarray(solve(tree, 30).average_policy)
  grown = contrib.grown_continuations(tree, top, blueprint, chooser=1, count=8, num_iterations=512)
  places = solvers.Placer(tree).places(top)
  tables = contrib.leaf_tables(tree, places[top.leaf_nodes], [blueprint], grown)
  movers = np.asarray(tree.kind)[np.maximum(tree.parent, 0)]
  held = np.isin(np.arange(tree.num_nodes), places[1:]) & (movers == 0)
  losses = {}
  for k in (1, 2, 4, 8):
    # Repeated, so that all are trees of one shape.
    extended = contrib.with_continuations(top, np.repeat(tables[:, :, :k], 8 // k, axis=2))
    policy = np.array(blueprint)
    policy[places] = extended.of_top(solve(extended.tree, 512).average_policy)
    done = solve(tree, 1024, initial_policy=policy, locked=held).average_policy
    losses[k] = float(solvers.best_response_values(tree, done)[1]) - 0.0856
  assert losses[1] > max(losses[2], losses[4], losses[8])
  assert losses[8] < 0.4 * losses[1]
  assert losses[8] > -1e-3


@pytest.mark.parametrize("frozen", ["hand", pytest.param("all", marks=pytest.mark.slow)])
def test_search_from_the_start_of_the_round(frozen, x64):
  """Kuhn poker is one round: from its start the game is solved."""
  tree = games.build_public_tree(KUHN)
  blueprint = [random_policy(tree, np.random.default_rng(0))]
  policy = contrib.search_rounds(KUHN, tree, blueprint, blueprint, frozen=frozen)
  assert float(solvers.exploitability(tree, policy)) < 5e-3


@pytest.mark.slow
def test_control_search_from_decision_points_does_not_solve_a_round(x64):
  tree = games.build_public_tree(KUHN)
  blueprint = [random_policy(tree, np.random.default_rng(0))]
  unsafe = contrib.search_rounds(KUHN, tree, blueprint, blueprint, start="decision")
  assert float(solvers.exploitability(tree, unsafe)) > 0.03


def test_own_past_moves_are_frozen_for_the_hand_held(x64):
  tree = games.build_public_tree(KUHN)
  uniform = np.asarray(solve(tree, 2).current_policy)
  rounds = Rounds(KUHN, tree, [uniform], [uniform], solvers.cfr_plus(), 2000)
  bets = children_of(tree)[0, 1]
  rounds.policy[bets], rounds.policy[children_of(tree)[0, 0]] = 0.9, 0.1
  ((search,),) = rounds.waves()
  asked = rounds.later_decisions([search])
  assert [(x.decision, x.past) for x in asked] == [(PASS_BET, [0])]
  queen = asked[0]._replace(hands=np.array([1]))
  (solved,) = rounds.solve([search], rounds.locks([queen]))
  np.testing.assert_allclose(solved[bets, 1], 0.9, atol=1e-9)
  assert np.abs(solved[bets, [0, 2]] - 0.9).max() > 0.2
  (solved,) = rounds.solve([search], rounds.locks(asked))
  np.testing.assert_allclose(solved[bets], 0.9, atol=1e-9)


@pytest.mark.slow
def test_merged_suits_have_tables_of_pairs(x64):
  """Hands of cards are refused with the remedy, and the remedy works."""
  whole = games.make(
    "turn_endgame_holdem", ranks="TJQKA", suits="shd", board="ThJdQsKh", pot=100, stack=200,
    big_blind=2, bets=(1.0,),
  )  # fmt: skip
  with pytest.raises(ValueError, match="MergedSuits"):
    contrib.with_continuations(games.build_public_tree(whole, depth="stage"), TABLES)
  with pytest.raises(ValueError, match="MergedSuits"):
    contrib.pair_values(games.build_public_tree(whole), None)
  game = MergedSuits(whole)
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth="stage")
  policy = random_policy(tree, np.random.default_rng(0))
  places = solvers.Placer(tree).places(top)
  tables = contrib.leaf_tables(tree, places[top.leaf_nodes], [policy], [policy])
  extended = contrib.with_continuations(top, tables)
  short = extended.to_whole(policy[places])
  (whole_values,) = contrib.pair_values(tree, policy, nodes=[0])
  np.testing.assert_allclose(contrib.pair_values(extended.tree, short)[0], whole_values, atol=1e-9)
  assert np.abs(whole_values).max() > 1


def whole_kuhn():
  return games.build_public_tree(KUHN)


def kuhn_top():
  return games.build_public_tree(KUHN, depth=1)


@pytest.mark.parametrize(
  ("call", "message"),
  [
    (lambda: contrib.with_continuations(whole_kuhn(), TABLES), "no leaves"),
    (lambda: contrib.with_continuations(kuhn_top(), TABLES[:1]), r"\(1, 1, 1, 3, 3\)"),
    (lambda: contrib.with_continuations(kuhn_top(), TABLES[:, 0]), "shape"),
    (lambda: contrib.with_continuations(kuhn_top(), TABLES * np.nan), "finite"),
    (lambda: contrib.with_continuations(games.stack_trees([kuhn_top()] * 2), TABLES), "stacked"),
    (lambda: contrib.pair_values(kuhn_top(), np.ones((3, 3))), "cut off"),
    (lambda: contrib.pair_values(whole_kuhn(), uniform_kuhn(), nodes=[9]), "0 to 8"),
    (lambda: contrib.biased_policy(whole_kuhn(), uniform_kuhn(), {0: -1.0}), "-1.0 for action 0"),
    (lambda: contrib.leaf_tables(whole_kuhn(), [1], [], [uniform_kuhn()]), "one at least"),
    (lambda: grow(chooser=2), "chooser=2"),
    (lambda: grow(count=0), "count=0"),
    (lambda: search(start="top"), "start='top'"),
    (lambda: search(frozen="none"), "frozen='none'"),
  ],
)
def test_refusals_name_the_value(call, message):
  with pytest.raises(ValueError, match=message):
    call()


def uniform_kuhn():
  policy = np.full((9, 3), 0.5)
  policy[0] = 1
  return policy


def grow(**changes):
  return contrib.grown_continuations(
    whole_kuhn(), kuhn_top(), uniform_kuhn(), **({"chooser": 1, "count": 2} | changes)
  )


def search(**changes):
  return contrib.search_rounds(KUHN, whole_kuhn(), [uniform_kuhn()], [uniform_kuhn()], **changes)


@pytest.mark.slow
def test_the_last_round_is_searched_as_unsafe_search_does(x64):
  """From the blueprint's beliefs a round without leaves is what `refine` solves at its starts."""
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  blueprint = np.asarray(solve(tree, 60).average_policy)
  rounds = Rounds(game, tree, [blueprint], [blueprint], solvers.cfr_plus(), 256)
  assert len(rounds.starts) == 31
  assert len(rounds.leaves) == 5
  rounds.policy[:] = blueprint
  _, searches = rounds.waves()
  assert len(searches) == 30
  for search, solved in zip(searches, rounds.solve(searches)):
    rows = search.extended.of_top(solved)
    rounds.policy[search.places[1:]] = rows[1:]
  for player in (0, 1):
    refined = solvers.refine(
      game, tree, blueprint, searcher=player, cut=rounds.starts[1:], num_iterations=256
    )
    movers = np.asarray(tree.kind)[np.maximum(tree.parent, 0)] == player
    np.testing.assert_allclose(rounds.policy[movers], refined[movers], atol=1e-6)
  assert np.abs(rounds.policy - blueprint).max() > 0.1
