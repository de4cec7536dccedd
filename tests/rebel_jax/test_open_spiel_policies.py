"""Games, policies and algorithms of OpenSpiel beside ours, judged by it and linear programming."""

import dataclasses
import gc
import importlib
import re
import sys

import numpy as np
import pyspiel
import pytest
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms import cfr, discounted_cfr, fictitious_play

import games
import solvers
from games.testing import check_game, rules
from rebel_jax import open_spiel
from rebel_jax.open_spiel import bots, policies
from tests import harness
from tests.brute_force import Referee, tree_edges
from tests.harness import run
from tests.random_efg import random_efg
from tests.sentences import sentence_of
from tests.sequence_form import game_value
from tests.trees import random_policy

GAMES = {
  "kuhn": ("kuhn_poker", {}),
  "leduc": ("leduc_poker", {}),
  "liars_dice_1x4f": ("liars_dice", {"num_dice": 1, "num_faces": 4}),
  # The same public tree, so nothing is compiled anew, but OpenSpiel sorts the two dice.
  "liars_dice_2x2f": ("liars_dice", {"num_dice": 2, "num_faces": 2}),
}


def make(name):
  game, parameters = GAMES[name]
  game = games.make(game, **parameters)
  return game, games.build_public_tree(game)


def referee(game, tree, policy):
  exported = open_spiel.to_tabular_policy(game, tree, policy)
  return pyspiel.exploitability(open_spiel.load_game(game), exported)


@pytest.mark.parametrize("name", GAMES)
def test_policies_score_alike_both_ways(name, x64):
  game, tree = make(name)
  spiel_game = open_spiel.load_game(game)
  theirs = pyspiel.GetRandomPolicy(spiel_game, 3)
  ours = open_spiel.from_tabular_policy(game, tree, theirs)
  back = open_spiel.to_tabular_policy(game, tree, ours)
  for string, row in theirs.policy_table().items():
    assert back.action_probabilities(string) == pytest.approx(dict(row))
  score = float(solvers.exploitability(tree, ours))
  assert score == pytest.approx(pyspiel.exploitability(spiel_game, theirs), abs=1e-5)

  solved = run(tree, tree.prior, 64, algorithm=PAIRS["cfr_plus_in_cpp"][0])[1]
  score = float(solvers.exploitability(tree, solved))
  assert referee(game, tree, solved) == pytest.approx(score, abs=1e-5)
  assert score < 0.2  # a random one is worth about a bet
  # Control: one infostate's moves at the first decision turned around.
  perturbed = np.array(solved)
  children = np.flatnonzero(np.asarray(tree.parent) == 0)
  perturbed[children, 0] = perturbed[children[::-1], 0]
  assert abs(referee(game, tree, perturbed) - score) > 1e-4


def test_equal_dice_are_merged_by_own_reach(monkeypatch, x64):
  game, tree = make("liars_dice_2x2f")
  policy = random_policy(tree, np.random.default_rng(5), 0.2)
  policy[1:, 1], policy[1:, 2] = policy[1:, 1].copy(), policy[1:, 2].copy()  # rolls 21 and 12
  ours = float(solvers.exploitability(tree, policy))
  assert referee(game, tree, policy) == pytest.approx(ours, abs=1e-5)
  # Control: merged evenly, the rolls' different bidding before is forgotten.
  evenly = np.ones((tree.num_nodes, 2, tree.num_infostates))
  monkeypatch.setattr(policies, "posteriors", lambda *_: evenly)
  assert abs(referee(game, tree, policy) - ours) > 1e-4


WRONG = {
  "the other's card": (dict(infostates=lambda game, deal, p: [2 - deal[p]]), "player 0 wins "),
  "one card": (
    dict(infostates=lambda game, deal, p: [0]),
    r"how likely infostates \(\(0,\), \(0,\)\)",
  ),
  "no card": (dict(infostates=lambda game, deal, p: [7]), "must hold integers from 0 to 2"),
  "moves": (dict(action=lambda game, action, chance: 1 - action), "differ: "),
  "game": (
    dict(load=lambda game: "leduc_poker", infostates=lambda game, deal, p: [deal[p] // 2]),
    "differ: how likely",
  ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_correspondences_are_refused(kind, monkeypatch):
  game, tree = make("kuhn")
  policy = random_policy(tree, np.random.default_rng(0), 0.2)
  wrong, message = WRONG[kind]
  right = policies._REGISTRY["kuhn_poker"]
  monkeypatch.setitem(policies._REGISTRY, "kuhn_poker", dataclasses.replace(right, **wrong))
  assert re.search(message, sentence_of(open_spiel.to_tabular_policy, game, tree, policy))


@pytest.mark.parametrize(
  ("bets", "message"), [(((1,), (2,)), "player 0 wins .* after"), (((2,), (4, 8)), ".* after")]
)
def test_a_game_that_pays_or_deals_otherwise_is_refused_everywhere(bets, message):
  """Leduc poker of other bets has the shape of OpenSpiel's."""
  game = games.make("leduc_poker", bets=bets)
  tree = games.build_public_tree(game)
  policy = policies._default_policy(tree)
  theirs = pyspiel.UniformRandomPolicy(pyspiel.load_game("leduc_poker"))
  for call in (
    lambda: open_spiel.load_game(game),
    lambda: open_spiel.to_tabular_policy(game, tree, policy),
    lambda: open_spiel.from_tabular_policy(game, tree, theirs),
    lambda: bots.Translation(game),
  ):
    assert re.search(f"differ: .*{message}", sentence_of(call))


def test_each_end_is_compared_also_where_lines_at_random_miss_it(monkeypatch):
  """Kuhn poker that pays one fold otherwise, and Leduc poker that deals some cards more often."""
  fold = type("Fold", (games.KuhnPoker,), {})
  fold.payoff_scale = lambda self, x: games.KuhnPoker.payoff_scale(self, x) * (1 + (x[:, 0] == 8))
  game = fold()
  monkeypatch.setattr(policies, "_LINES", 0)
  with pytest.raises(ValueError, match="differ: player 0 wins"):
    list(policies.find_moves(game, games.build_public_tree(game)))
  deals = type("Deals", (games.LeducPoker,), {})

  def chance(self, states, actions):
    probability, mask = games.LeducPoker.chance(self, states, actions)
    return probability * np.where(actions % 2, 1.5, 0.5), mask

  deals.chance = chance
  game = deals()
  with pytest.raises(ValueError, match="differ: how likely chance's outcomes are after"):
    list(policies.find_moves(game, games.build_public_tree(game)))


def test_boards_are_compared_move_by_move():
  for game in (games.TicTacToe(), games.make("connect_four", width=4, height=4, in_a_row=3)):
    assert bots.Translation(game).open_spiel_game.num_players() == 2
  wide = games.make("connect_four", width=5, height=4, in_a_row=3)
  wide.in_a_row = 4  # of OpenSpiel's game alone
  assert "differ: whose turn it is after" in sentence_of(open_spiel.load_game, wide)


ZERO = """EFG 2 R "zero" { "A" "B" } ""
c "" 1 "" { "l" 1/1 "r" 0/1 } 0
p "" 1 1 "a" { "x" "y" } 0
t "" 1 "" { 1, -1 }
t "" 2 "" { -1, 1 }
p "" 1 2 "b" { "x" "y" } 0
t "" 3 "" { 1, -1 }
t "" 4 "" { -1, 1 }
"""


def test_states_that_chance_never_deals_have_a_row():
  game, tree = open_spiel.from_game(pyspiel.load_efg_game(ZERO))
  policy = np.array([[1.0], [0.75], [0.25]])
  exported = open_spiel.to_tabular_policy(game, tree, policy)
  assert exported.policy_table() == {
    "0-0-1-a": [(0, 0.75), (1, 0.25)],
    "0-0-2-b": [(0, 0.5), (1, 0.5)],
  }
  found = pyspiel.exploitability(game.open_spiel_game, exported)
  assert found == pytest.approx(float(solvers.exploitability(tree, policy)))


def test_without_openspiel_the_rest_works_and_the_bridge_says_what_to_install(monkeypatch):
  for module in [m for m in sys.modules if m.startswith("rebel_jax.open_spiel")]:
    monkeypatch.delitem(sys.modules, module)
  monkeypatch.setitem(sys.modules, "pyspiel", None)
  importlib.reload(importlib.import_module("rebel_jax"))
  with pytest.raises(ImportError, match=r"pip install 'rebel-jax\[open-spiel\]'"):
    importlib.import_module("rebel_jax.open_spiel")


def test_mistakes_get_a_sentence():
  game, tree = make("kuhn")
  policy = random_policy(tree, np.random.default_rng(0), 0.2)
  partial = pyspiel.TabularPolicy({"0": [(0, 1.0), (1, 0.0)]})
  strings = {m.information_state for m in policies.find_moves(game, tree)}
  half = pyspiel.TabularPolicy({string: [(0, 0.5)] for string in strings})
  uniform = spiel_policy.UniformRandomPolicy(open_spiel.load_game(game))
  to, back = open_spiel.to_tabular_policy, open_spiel.from_tabular_policy
  for call, last, message in (
    (to, (games.build_public_tree(game, depth=2), policy), "must be the whole public tree of"),
    (to, (games.build_public_tree(games.make("leduc_poker")), policy), "tree is not of games.make"),
    (to, (tree, policy[:, :2]), r"policy of shape \(9, 2\) must have shape \(9, 3\)"),
    (back, (tree, partial), "policy has nothing for OpenSpiel's information state"),
    (back, (tree, half), "policy is not a distribution"),
    (back, (tree, uniform), r"policy=\w+ must know information state strings"),
  ):
    assert re.search(message, sentence_of(call, game, *last))
  back(game, tree, uniform.to_tabular())


# After k of its iterations OpenSpiel's average holds the policies after 0 to k - 1 updates; ours
# holds the newest too: k - 1 updates a player. Its XFP answers both averages at once.
COUNTS = (1, 2, 3, 5, 8, 16, 32)
TOLERANCE = 1e-10  # rounding grows in 32 iterations to some 1e-13

# Our algorithm and OpenSpiel's solver of the same.
PAIRS = {
  "cfr": (solvers.vanilla_cfr(), cfr.CFRSolver),
  "cfr_plus": (solvers.cfr_plus(averaging=1), cfr.CFRPlusSolver),
  "linear_cfr": (solvers.linear_cfr(), discounted_cfr.LCFRSolver),
  "discounted_cfr": (solvers.discounted_cfr(), discounted_cfr.DCFRSolver),
  "other_discounts": (
    solvers.discounted_cfr(1.2, -0.5, 3),
    lambda game: discounted_cfr.DCFRSolver(game, 1.2, -0.5, 3),
  ),
  "cfr_in_cpp": (solvers.vanilla_cfr(), pyspiel.CFRSolver),
  "cfr_plus_in_cpp": (solvers.cfr_plus(averaging=1), pyspiel.CFRPlusSolver),
  "simultaneous_cfr": (
    solvers.vanilla_cfr(alternating=False),
    lambda game: cfr._CFRSolver(game, False, False, False),
  ),
  "simultaneous_cfr_plus": (
    solvers.cfr_plus(averaging=1, alternating=False),
    lambda game: cfr._CFRSolver(game, False, True, True),
  ),
}


def difference(game, tree, policy, theirs):
  """Returns the largest difference of two policies over information states and actions."""
  ours = open_spiel.to_tabular_policy(game, tree, policy).policy_table()
  worst = 0.0
  for string, row in ours.items():
    if hasattr(theirs, "policy_for_key"):
      expected = dict(enumerate(theirs.policy_for_key(string)))
    else:
      expected = theirs.action_probabilities(string)
    worst = max(worst, *(abs(p - expected.get(action, 0.0)) for action, p in row))
  return worst


def compare(name, algorithm, make_solver, counts, shift=1):
  """Returns the differences of average policies after `counts` iterations of OpenSpiel's."""
  game, tree = make(name)
  spiel_game = open_spiel.load_game(game)
  solver = make_solver(spiel_game)
  differences = []
  for k in range(1, max(counts) + 1):
    solver.evaluate_and_update_policy()
    if k in counts:
      average = run(tree, tree.prior, 2 * (k - shift), algorithm=algorithm)[1]
      differences.append(difference(game, tree, average, solver.average_policy()))
  return differences


LARGER = harness.slow(["leduc", "liars_dice_1x4f"], "liars_dice_1x4f")


@pytest.mark.parametrize("pair", [*PAIRS, *LARGER])
def test_algorithms_are_those_of_openspiel(pair, x64):
  name, pair = ("kuhn", pair) if pair in PAIRS else (pair, "cfr_plus_in_cpp")
  assert max(compare(name, *PAIRS[pair], COUNTS)) < TOLERANCE
  if name == "kuhn":  # control: after the same number of updates the averages differ
    assert max(compare(name, *PAIRS[pair], (2, 3, 5), shift=0)) > 1e-3


def test_fictitious_play_where_there_are_no_ties(x64):
  game, tree = open_spiel.from_game(pyspiel.load_efg_game(random_efg(95, depth=4, ties=False)))
  solver = fictitious_play.XFPSolver(game.open_spiel_game)
  for _ in range(k := 6):
    solver.iteration()
  rows = [row for table in solver.average_policy_tables() for row in table.items()]
  theirs = pyspiel.TabularPolicy({string: list(row.items()) for string, row in rows})

  def apart(iterations):
    algorithm = solvers.fictitious_play(alternating=False)
    ours = solvers.solve(tree, algorithm=algorithm, num_iterations=iterations).average_policy
    return difference(game, tree, ours, theirs)

  assert apart(2 * k) < TOLERANCE
  assert apart(2 * k - 2) > 1e-3  # control


GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
BATTLESHIP = (
  "battleship(board_width=2,board_height=2,ship_sizes=[1],ship_values=[1],num_shots=2,"
  "allow_repeated_shots=False)"
)
SMALL_POKER = (
  "universal_poker(numRanks=3,numSuits=2,stack=8 8,blind=1 1,raiseSize=2 4,betting=limit,"
  "maxRaises=1 1)"
)
SPIEL_GAMES = (
  "kuhn_poker",
  "liars_dice(numdice=1,dice_sides=3)",
  "liars_dice(numdice=2,dice_sides=2)",
  SMALL_POKER,  # a public card
  "goofspiel(num_cards=3,imp_info=False)",  # simultaneous moves, public chance
  GOOFSPIEL,  # played cards stay hidden, who won the trick does not
  "goofspiel(num_cards=3,imp_info=True,points_order=random)",
  "oshi_zumo(coins=2,size=1,horizon=3)",
  "matrix_rps",
  "blotto(coins=3,fields=2)",
  "coordinated_mp",  # private chance after a hidden move
  BATTLESHIP,  # a hidden choice decides what a seen one hits
  "dark_hex(num_rows=2,num_cols=2)",  # moves that fail unseen: nobody can count them
  "dark_hex(num_rows=2,num_cols=2,gameversion=adh)",
  "restricted_nash_response(game=kuhn_poker(),p=0.3)",
  "nim(pile_sizes=1;2)",  # perfect information
  "dots_and_boxes(num_rows=1,num_cols=1)",
)


def spiel_value(state, policy):
  """Returns what player 0 expects from a state of OpenSpiel."""
  if state.is_terminal():
    return state.returns()[0]
  chance = state.is_chance_node()
  moves = state.chance_outcomes() if chance else policy.action_probabilities(state).items()
  return sum(p * spiel_value(state.child(a), policy) for a, p in moves if p > 0)


def assert_scores_agree(game, tree, seed=0):
  """Checks value and exploitability of a random policy, float64 on both sides."""
  referee, spiel_game = Referee(game), game.open_spiel_game
  policy = referee.random(np.random.default_rng(seed), zeros=0.2)
  # What the referee never meets, holding a card that lies on the board, is uniform.
  uniform = pyspiel.UniformRandomPolicy(spiel_game)
  array = open_spiel.from_tabular_policy(game, tree, uniform)
  for node, infostate, infoset, move in tree_edges(tree):
    if infoset in policy:
      array[node, infostate] = policy[infoset][move]
  exported = open_spiel.to_tabular_policy(game, tree, array)
  theirs = pyspiel.exploitability(spiel_game, exported)
  assert referee.exploitability(policy) == pytest.approx(theirs, abs=1e-9)
  value = spiel_value(spiel_game.new_initial_state(), exported)
  assert referee.game_value(policy) == pytest.approx(value, abs=1e-9)


# Others of the same kinds stay.
REPEATED = (
  "liars_dice(numdice=2,dice_sides=2)",
  "oshi_zumo(coins=2,size=1,horizon=3)",
  "dark_hex(num_rows=2,num_cols=2,gameversion=adh)",
)


@pytest.mark.parametrize("name", harness.slow(SPIEL_GAMES, *REPEATED))
def test_games_obey_the_interface_and_score_as_in_openspiel(name, monkeypatch):
  game, tree = open_spiel.from_game(name)
  if name not in (SMALL_POKER, GOOFSPIEL):  # JAX reads all tables by the same code
    monkeypatch.setattr(rules, "check_rules", lambda *_: None)
  check_game(games.tabulate(game))
  assert_scores_agree(game, tree)


@pytest.mark.parametrize("block", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_games_score_as_in_openspiel(block):
  settings = (dict(depth=5), dict(depth=6, blind=0.5, actors=(0, 1)))[block]
  represented = 0
  for seed in range(100 * block, 100 * block + 20):
    spiel_game = pyspiel.load_efg_game(random_efg(seed, **settings))
    try:
      game, tree = open_spiel.from_game(spiel_game)
    except ValueError as error:
      assert "cannot be put in an order in time" in str(error)
      continue
    represented += 1
    if seed % 16 == 0:
      check_game(games.tabulate(game))
    assert_scores_agree(game, tree, seed)
  assert represented >= 18


def test_moves_before_one_that_still_comes_keep_its_infostates_together():
  game, tree = open_spiel.from_game(
    pyspiel.load_efg_game(random_efg(359, blind=0.5, actors=(0, 1)))
  )
  rows = zip(game.movers.tolist(), game._decisions, strict=True)
  decisions = [(actor, string) for actor, own in rows for string in own.values()]
  assert len(decisions) == len(set(decisions)) > 20  # none in two public states
  assert_scores_agree(game, tree)


@pytest.mark.parametrize(
  ("name", "attribute", "wrong"),
  [
    ("kuhn_poker", "_pair_weights", np.ones_like),  # cards no longer block each other
    (GOOFSPIEL, "payoff_indices", np.zeros_like),
    ("leduc_poker", "_chance", np.ones_like),
    ("liars_dice(numdice=2,dice_sides=2)", "_prior", lambda x: np.roll(x, 1, axis=1)),
  ],
)
def test_a_wrong_table_shows(name, attribute, wrong):
  game, tree = open_spiel.from_game(name)
  setattr(game, attribute, wrong(getattr(game, attribute)))
  # Some tables are told from the tree's at once, the others by what policies score.
  with pytest.raises((AssertionError, ValueError)):
    assert_scores_agree(game, tree)


EFG = random_efg(95, depth=4)  # value 0.739; 4 tables of pair weights


@pytest.mark.parametrize(
  "name", harness.slow(["kuhn_poker", GOOFSPIEL, "matrix_brps", EFG], GOOFSPIEL)
)
def test_solvers_find_the_value(name):
  game, tree = open_spiel.from_game(pyspiel.load_efg_game(name) if name == EFG else name)
  spiel_game = game.open_spiel_game
  policy = np.asarray(run(tree, tree.prior, 256, algorithm=solvers.predictive_cfr_plus())[1])
  exported = open_spiel.to_tabular_policy(game, tree, policy)
  ours = float(solvers.exploitability(tree, policy))
  assert pyspiel.exploitability(spiel_game, exported) == pytest.approx(ours, abs=1e-5)
  assert ours < 2e-2
  value = spiel_value(spiel_game.new_initial_state(), exported)
  assert abs(value - game_value(spiel_game.new_initial_state())) < 2 * ours + 1e-5
  # Control: another policy is worth something else.
  uniform = pyspiel.UniformRandomPolicy(spiel_game)
  assert pyspiel.exploitability(spiel_game, uniform) > 5 * ours


def ends(number):
  return f't "" {number} "" {{ 1 -1 }}\nt "" {number + 1} "" {{ 2 -2 }}\n'


# Who moves first is chance's, and neither player is told.
ONE, OTHER = 'p "" 1 1 "" { "l" "r" } 0\n', 'p "" 2 1 "" { "L" "R" } 0\n'
NO_CLOCK = 'EFG 2 R "no clock" { "0" "1" } ""\nc "" 1 "" { "a" 1/2 "b" 1/2 } 0\n'
NO_CLOCK += ONE + OTHER + ends(1) + OTHER + ends(3) + OTHER + ONE + ends(5) + ONE + ends(7)


@pytest.mark.parametrize(
  ("name", "reason"),
  [
    ("nope", "game='nope' is not a game of OpenSpiel"),
    ("kuhn_poker(cards=3)", "cannot be loaded by OpenSpiel: Unknown parameter 'cards'"),
    ("kuhn_poker(players=3)", "has 3 players; only two can be represented"),
    ("first_sealed_auction(max_value=2)", "is not zero-sum: after the history"),
    ("negotiation", "samples its chance outcomes"),
    ("dark_chess", "has no information state strings in OpenSpiel"),
    ("dark_hex_ir(num_rows=2,num_cols=2)", "lacks perfect recall: player"),
    ("phantom_ttt", "more than max_histories=2000000 histories"),
    (NO_CLOCK, "cannot be put in an order in time"),
    (7, "game=7 must be a string or a Game"),
    # Memory is bounded; the second's is enough for its 58 histories.
    (("oshi_zumo(coins=4,size=1)", 2**24), "takes more than max_bytes=16777216 of memory"),
    (("kuhn_poker", 30_000), "takes more than max_bytes=30000 of memory"),
  ],
)
def test_what_cannot_be_represented_is_refused_with_the_reason(name, reason):
  if str(name).startswith("EFG"):
    name = pyspiel.load_efg_game(name)
  name, how = (name[0], {"max_bytes": name[1]}) if isinstance(name, tuple) else (name, {})
  with pytest.raises((TypeError, ValueError), match=reason):
    open_spiel.from_game(name, **how)
  assert gc.isenabled()
