"""OpenSpiel games as public trees, judged by OpenSpiel and by linear programming."""

import gc

import numpy as np
import pyspiel
import pytest

import games
import solvers
from games.testing import check_game
from rebel_jax import open_spiel
from tests import harness
from tests.brute_force import Referee, tree_edges
from tests.harness import run
from tests.random_efg import random_efg
from tests.sequence_form import game_value

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
BATTLESHIP = (
  "battleship(board_width=2,board_height=2,ship_sizes=[1],ship_values=[1],num_shots=2,"
  "allow_repeated_shots=False)"
)
SMALL_POKER = (
  "universal_poker(numRanks=3,numSuits=2,stack=8 8,blind=1 1,raiseSize=2 4,betting=limit,"
  "maxRaises=1 1)"
)
GAMES = (
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


def random_policy(game, tree, seed=0):
  """Returns a random policy as the referee's dict and as an array on the tree."""
  policy = Referee(game).random(np.random.default_rng(seed), zeros=0.2)
  # What the referee never meets, holding a card that lies on the board, is uniform.
  uniform = pyspiel.UniformRandomPolicy(game.open_spiel_game)
  array = open_spiel.from_tabular_policy(game, tree, uniform)
  for node, infostate, infoset, move in tree_edges(tree):
    if infoset in policy:
      array[node, infostate] = policy[infoset][move]
  return policy, array


def spiel_value(state, policy):
  """Returns what player 0 expects from a state of OpenSpiel."""
  if state.is_terminal():
    return state.returns()[0]
  chance = state.is_chance_node()
  moves = state.chance_outcomes() if chance else policy.action_probabilities(state).items()
  return sum(p * spiel_value(state.child(a), policy) for a, p in moves if p > 0)


def assert_scores_agree(game, tree, seed=0):
  """Checks value and exploitability of a random policy, float64 on both sides."""
  policy, array = random_policy(game, tree, seed)
  exported = open_spiel.to_tabular_policy(game, tree, array)
  referee = Referee(game)
  spiel_game = game.open_spiel_game
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


@pytest.mark.parametrize("name", harness.slow(GAMES, *REPEATED))
def test_games_obey_the_interface_and_score_as_in_openspiel(name):
  game, tree = open_spiel.from_game(name)
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
    if seed % 8 == 0:
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


SOLVED = {
  "kuhn_poker": "kuhn_poker",
  "goofspiel": GOOFSPIEL,
  "biased_rock_paper_scissors": "matrix_brps",
  "random_game": random_efg(95, depth=4),  # value 0.739; 4 tables of pair weights
}


def load(name):
  text = SOLVED[name]
  return open_spiel.from_game(pyspiel.load_efg_game(text) if text.startswith("EFG") else text)


@pytest.mark.parametrize("name", SOLVED)
def test_solvers_find_the_value(name):
  game, tree = load(name)
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


# Who moves first is chance's, and neither player is told.
NO_CLOCK = """EFG 2 R "no clock" { "0" "1" } ""
c "" 1 "" { "a" 1/2 "b" 1/2 } 0
p "" 1 1 "" { "l" "r" } 0
p "" 2 1 "" { "L" "R" } 0
t "" 1 "" { 1.0 -1.0 }
t "" 2 "" { 2.0 -2.0 }
p "" 2 1 "" { "L" "R" } 0
t "" 3 "" { 1.0 -1.0 }
t "" 4 "" { 2.0 -2.0 }
p "" 2 1 "" { "L" "R" } 0
p "" 1 1 "" { "l" "r" } 0
t "" 5 "" { 1.0 -1.0 }
t "" 6 "" { 2.0 -2.0 }
p "" 1 1 "" { "l" "r" } 0
t "" 7 "" { 1.0 -1.0 }
t "" 8 "" { 2.0 -2.0 }
"""


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
  ],
)
def test_what_cannot_be_represented_is_refused_with_the_reason(name, reason):
  if str(name).startswith("EFG"):
    name = pyspiel.load_efg_game(name)
  with pytest.raises((TypeError, ValueError), match=reason):
    open_spiel.from_game(name)
  assert gc.isenabled()


def test_memory_is_bounded():
  with pytest.raises(ValueError, match="oshi_zumo.* takes more than max_bytes=16777216 of memory"):
    open_spiel.from_game("oshi_zumo(coins=4,size=1)", max_bytes=2**24)
  with pytest.raises(ValueError, match="takes more than max_bytes=30000 of memory"):
    open_spiel.from_game("kuhn_poker", max_bytes=30_000)  # enough for its 58 histories
