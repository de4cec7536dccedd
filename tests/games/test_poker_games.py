"""Hold'em as public trees: against an enumeration of histories, and its own counts and errors."""

import numpy as np
import pytest

import games
from games.poker import CALL, TEH, BetSizes, betting
from tests.sentences import refused


@pytest.fixture(scope="module")
def paper_game():
  return games.make("turn_endgame_holdem")


@pytest.fixture(scope="module")
def paper_tree(paper_game):
  return games.build_public_tree(paper_game)


def test_size_of_turn_endgame_holdem(paper_game, paper_tree):
  assert paper_game.num_infostates == 1128
  assert paper_game.deck.names(paper_game.board) == "3s7hTdKs"
  decisions = (paper_tree.kind <= games.PLAYER_1).sum()
  assert (paper_tree.num_nodes, decisions) == (21_352, 7_516)
  # With one bet or raise a round, 8 decisions on the turn and 40 on each of 48 rivers.
  one_bet = BetSizes(TEH.fractions, max_raises=1)
  tree = games.build_public_tree(games.make("turn_endgame_holdem", bets=one_bet))
  assert (tree.kind <= games.PLAYER_1).sum() == 8 + 48 * 40


def test_subgames_end_with_the_round_or_with_the_deal(paper_game, paper_tree):
  turn = games.build_public_tree(paper_game, depth="stage")
  assert (turn.kind[turn.leaf_nodes] == games.LEAF).all()
  assert set(turn.leaf_actor) == {games.CHANCE}
  assert (turn.state[turn.leaf_nodes, betting.STATUS] == betting.CLOSED).all()
  assert (
    turn.num_leaves
    == ((paper_tree.kind == games.CHANCE) & (paper_tree.action != paper_game.burn)).sum()
  )
  deal = games.build_public_tree(paper_game, root=(CALL, CALL, paper_game.burn), depth="stage")
  assert deal.num_leaves == 48
  assert set(deal.leaf_actor) == {games.PLAYER_0}
  river = games.build_public_tree(
    paper_game, root=(CALL, CALL, paper_game.burn, paper_game.first_deal), depth="stage"
  )
  assert not river.depth_limited
  assert (river.possible[0].sum(axis=1) == 1081).all()
  assert river.prior[:, ~river.possible[0, 0]].max() == 0


def test_bets_off_the_tree_can_be_added(paper_game):
  game = paper_game.with_bet((CALL,), 1_700)
  assert game.describe((CALL,), paper_game.burn) == "bet to 1700"
  assert paper_game.burn not in np.flatnonzero(game.legal_actions(game.initial_state()[None])[0])
  state = game.state_after((CALL, paper_game.burn))
  assert state[betting.PAID_1] == 1_700
  again = game.with_bet((CALL, paper_game.burn), 5_000)
  assert again.state_after((CALL, paper_game.burn, game.burn))[betting.PAID_0] == 5_000


TEH_NAME = "turn_endgame_holdem"


test_bad_input_gets_one_sentence = refused(
    (lambda: games.make(TEH_NAME, board="3s7hTd3s"), "names '3s' twice"),
    (lambda: games.make(TEH_NAME, board="3s7hTd"), "holds 3 cards; this endgame needs 4"),
    (lambda: games.make(TEH_NAME, ranks="TJQKA"), "which is not in the deck"),
    (lambda: games.make(TEH_NAME, stack=1_000), "must have chips behind"),
    (lambda: games.make("small_holdem", ranks="KA", suits="s"), "too small"),
    (lambda: games.make("small_holdem", deals=(6,)), "at most 5 are compared"),
    (lambda: games.make("small_holdem", stack=100).vary(bets=0.1), "may leave nothing to bet"),
    (lambda: games.make("small_holdem", ranks="23456789TJQKA", suits="shdc",
                        deals=(3, 1)).strengths(), "make more than 100000 boards"),
    (lambda: games.make(TEH_NAME).infostate("KsAd"), "hand='KsAd' is blocked by the board"),
    (lambda: games.make(TEH_NAME).beliefs(["AA", "33+,9x"]), r"ranges\[1\] holds '9x'"),
    (lambda: games.make(TEH_NAME).beliefs(["AA", "3s3h"]), "player 1 no hand that the board"),
    (lambda: games.make("river_endgame_holdem", stack=5_000_000_000, pot=4_000_000_000),
     "pot=4000000000 must be an integer from 2 to 1073741823"),
    (lambda: games.make(TEH_NAME).with_bet((), 1_050), "bet=1050 is below the minimum"),
    (lambda: games.make(TEH_NAME).with_bet((), 2_000), "bet=2000 is in the abstraction already"),
    (lambda: games.make(TEH_NAME).with_bet((CALL, CALL), 2_000), "no player moves"),
)  # fmt: skip
