"""Hold'em as public trees: against an enumeration of histories, and its own counts and errors."""

import math

import numpy as np
import pytest

import games
from games import pairs
from games.poker import betting
from games.poker.abstraction import TEH, BetSizes
from games.poker.holdem import CALL, FIRST_BET, FOLD, Holdem, in_units
from games.testing import check_game
from tests import harness

SMALL = {
  "a card dealt": {"ranks": "QKA", "suits": "sh", "stack": 300},
  "no card dealt": {"ranks": "TJQKA", "suits": "s", "deals": (), "bets": (0.5, 1.0), "stack": 700},
  "blinds": {"ranks": "KA", "suits": "shd", "blinds": (100, 50), "first_to_act": (1, 0)},
  "two deals": {"ranks": "KA", "suits": "shd", "deals": (1, 1), "stack": 200},
  "two cards at once": {"ranks": "KA", "suits": "shdc", "deals": (2,), "stack": 200},
}


@pytest.mark.parametrize("name", harness.slow(SMALL, "two deals"))
def test_game_agrees_with_its_histories(name):
  check_game(games.make("small_holdem", **SMALL[name]))


class ForgetsTheBoard(Holdem):
  """A showdown on the wrong board."""

  def payoff_index(self, states):
    return super().payoff_index(states).clip(0, 1)


def test_a_showdown_on_the_wrong_board_is_found_out():
  game = games.make("small_holdem", **SMALL["a card dealt"])
  right = games.build_public_tree(game)
  game.__class__ = ForgetsTheBoard
  wrong = games.build_public_tree(game)
  at = np.flatnonzero(right.payoff_index != wrong.payoff_index)[0]
  truth, table = (
    pairs.of_tree(tree).payoff_table(tree.payoff_index[at]) for tree in (right, wrong)
  )
  assert not np.array_equal(truth, table)


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


def test_river_cards_come_with_their_probability(paper_game, paper_tree):
  dealt = np.flatnonzero(paper_tree.dealt[:, 0] >= 0)
  np.testing.assert_allclose(paper_tree.chance_probability[dealt], 1 / 44)
  assert set(paper_tree.dealt[dealt, 0]) == set(range(52)) - set(paper_game.board)
  possible = paper_tree.possible[dealt, 0]
  assert (possible.sum(axis=1) == 1081).all()
  holds = (paper_game.hole_cards[None] == paper_tree.dealt[dealt, :1, None]).any(axis=2)
  np.testing.assert_array_equal(possible, ~holds)


def test_levels_have_one_mover(paper_tree):
  """A card is burned where it is needed for that, and nowhere else."""
  movers = [set(level.movers) - {games.CHANCE} for level in paper_tree.structure.levels]
  assert all(len(m) <= 1 for m in movers)
  acted = paper_tree.state[:, betting.ACTOR]
  decisions = np.flatnonzero(paper_tree.kind <= games.PLAYER_1)
  assert (paper_tree.kind[decisions] == acted[decisions]).all()


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


def test_all_in_leaves_nothing_to_bet(paper_game):
  all_in = FIRST_BET + TEH.num_slots
  state = paper_game.state_after((all_in, CALL))[None]
  assert paper_game.actor(state)[0] == games.CHANCE
  deals = np.flatnonzero(paper_game.legal_actions(state)[0])
  assert len(deals) == 48
  after = paper_game.next_states(state, deals[:1])
  assert paper_game.actor(after)[0] == games.TERMINAL
  assert paper_game.payoff_scale(after)[0] == 20_000


def test_the_shorter_stack_is_played_for():
  game = games.make("turn_endgame_holdem", stack=[5_000, 20_000])
  assert game.describe((), FIRST_BET + TEH.num_slots) == "bet to 5000 (all-in)"
  assert repr(game) == (
    "<turn_endgame_holdem: board '3s7hTdKs', paid (1000, 1000), stacks (5000, 20000)>"
  )


def test_bets_off_the_tree_can_be_added(paper_game):
  game = paper_game.with_bet((CALL,), 1_700)
  assert game.describe((CALL,), paper_game.burn) == "bet to 1700"
  assert paper_game.burn not in np.flatnonzero(game.legal_actions(game.initial_state()[None])[0])
  state = game.state_after((CALL, paper_game.burn))
  assert state[betting.PAID_1] == 1_700
  again = game.with_bet((CALL, paper_game.burn), 5_000)
  assert again.state_after((CALL, paper_game.burn, game.burn))[betting.PAID_0] == 5_000
  with pytest.raises(ValueError, match="bet=1050 is below the minimum"):
    paper_game.with_bet((), 1_050)
  with pytest.raises(ValueError, match="bet=2000 is in the abstraction already"):
    paper_game.with_bet((), 2_000)
  with pytest.raises(ValueError, match="no player moves"):
    paper_game.with_bet((CALL, CALL), 2_000)


def test_added_bets_keep_the_game_a_game():
  game = games.make("small_holdem", **SMALL["a card dealt"])
  check_game(game.with_bet((CALL,), 250))


def test_names_of_moves(paper_game):
  history = (FIRST_BET, CALL, paper_game.burn)
  assert paper_game.describe((), FOLD + 1) == "check"
  assert paper_game.describe((FIRST_BET,), CALL) == "call"
  assert paper_game.describe((FIRST_BET,), FIRST_BET) == "raise to 5000"
  assert paper_game.describe((), FIRST_BET + 2) == "bet to 20000 (all-in)"
  assert paper_game.describe(history[:2], paper_game.burn) == "burn"
  card = paper_game.first_deal + paper_game.deck.parse("2c")[0]
  assert paper_game.describe(history, card) == "deal 2c"
  assert paper_game.action_name(card) == "deal 2c"
  assert paper_game.infostate_name(0, 0) == "2h2s"
  assert paper_game.infostate("2s2h") == paper_game.infostate("2h2s") == 0
  assert paper_game.infostate_name(1, paper_game.infostate("AhKd")) == "AhKd"


def test_ranges_become_beliefs(paper_game):
  ranges = np.zeros((2, 1326))
  every = [paper_game.deck.hand_name(hand) for hand in paper_game.deck.hole_cards()]
  ranges[0, every.index("AhAs")] = 3.0
  ranges[0, every.index("Kh2c")] = 1.0
  ranges[1] = [not set(hand) & set(paper_game.board) for hand in paper_game.deck.hole_cards()]
  beliefs = paper_game.beliefs(ranges)
  names = [paper_game.infostate_name(0, h) for h in range(1128)]
  assert beliefs[0, names.index("Kh2c")] == 0.25
  np.testing.assert_allclose(beliefs[1], 1 / 1128)
  ranges[1, every.index("Kh3s")] = 1  # blocked by the board
  np.testing.assert_array_equal(paper_game.beliefs(ranges), beliefs)
  wide = paper_game.replace(every_hand=True).beliefs(ranges)
  assert wide[1, every.index("Kh3s")] == 0
  np.testing.assert_allclose(wide.sum(axis=1), 1)


def test_range_strings_become_beliefs(paper_game):
  beliefs = paper_game.beliefs(["AA,Kh2c:0.5", "33,AsKd"])
  named = [{paper_game.infostate_name(0, h) for h in np.flatnonzero(row)} for row in beliefs]
  assert named[0] == {"AhAs", "AdAs", "AcAs", "AdAh", "AcAh", "AcAd", "Kh2c"}
  assert beliefs[0, paper_game.infostate("Kh2c")] == pytest.approx(0.5 / 6.5)
  # Three of the six threes hold the three of spades on the board.
  assert named[1] == {"3d3h", "3c3h", "3c3d", "AsKd"}


TEH_NAME = "turn_endgame_holdem"


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: games.make(TEH_NAME, board="3s7hTd3s"), "names '3s' twice"),
    (lambda: games.make(TEH_NAME, board="3s7hTd"), "holds 3 cards; this endgame needs 4"),
    (lambda: games.make("river_endgame_holdem", board="3s7hTdKs"), "needs 5"),
    (lambda: games.make(TEH_NAME, ranks="TJQKA"), "which is not in the deck"),
    (lambda: games.make(TEH_NAME, stack=-5), "stacks=-5"),
    (lambda: games.make(TEH_NAME, stack=(5_000, 6_000, 7_000)), "must be one number"),
    (lambda: games.make(TEH_NAME, stack="all"), "stacks='all' must be a whole number"),
    (lambda: games.make(TEH_NAME, board=None), "board=None must be a string of cards"),
    (lambda: games.make(TEH_NAME, stack=900), "is more than the smaller of stacks"),
    (lambda: games.make(TEH_NAME, stack=1_000), "must have chips behind"),
    (lambda: games.make(TEH_NAME, pot=1), "pot=1 must be a whole number of chips, at least 2"),
    (lambda: games.make(TEH_NAME, pot=-2), "pot=-2 must be a whole number"),
    (lambda: games.make(TEH_NAME, bets=(-1.0,)), "fractions hold -1.0"),
    (lambda: games.make(TEH_NAME, big_blind=0), "big_blind=0"),
    (lambda: games.make("small_holdem", ranks="KA", suits="s"), "too small"),
    (lambda: games.make("small_holdem", deals=(6,)), "at most 5 are compared"),
    (lambda: games.make("small_holdem", deals=(0,)), "must be positive"),
    (lambda: games.make("small_holdem", ranks="23456789TJQKA", suits="shdc",
                        deals=(3, 1)).strengths(), "make more than 100000 boards"),
    (lambda: Holdem(board=(3, 3), bets=TEH), "holds a card twice"),
    (lambda: Holdem(board=(3, 77), bets=TEH), "outside the deck's 0 to 51"),
    (lambda: games.make(TEH_NAME).infostate("KsAd"), "hand='KsAd' is blocked by the board"),
    (lambda: games.make(TEH_NAME).infostate("Ad"), "hand='Ad' must be 2 cards"),
    (lambda: games.make(TEH_NAME).beliefs(np.ones((2, 5))), "must have shape"),
    (lambda: games.make(TEH_NAME).beliefs(-np.ones((2, 1326))), "negative"),
    (lambda: games.make(TEH_NAME).beliefs(["AA", "33+,9x"]), r"ranges\[1\] holds '9x'"),
    (lambda: games.make(TEH_NAME).beliefs(["AA"]), "must have shape"),
    (lambda: games.make(TEH_NAME).beliefs(["AA", "3s3h"]), "player 1 no hand that the board"),
    (lambda: games.make(TEH_NAME).beliefs(np.zeros((2, 1326))), "no hand"),
    (lambda: games.build_public_tree(games.make("kuhn_poker"), depth="street"), "'stage'"),
  ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make, message):
  with pytest.raises(ValueError, match=message) as error:
    make()
  assert "\n" not in str(error.value)


def test_hands_in_another_order_are_refused():
  """Sums over hands number the pairs of cards as `itertools.combinations` does."""
  game = games.make("small_holdem")
  game.hole_cards = game.hole_cards[::-1]
  with pytest.raises(ValueError, match=r"hands\(\) must be pairs of cards, each once"):
    games.build_public_tree(game)


def test_chips_that_do_not_fit_are_refused():
  small = dict(ranks="TJQKA", suits="sh", board="TsJhQsKhAs")
  with pytest.raises(ValueError, match=r"pot=4000000000 must be at most 1073741823 chips"):
    games.make("river_endgame_holdem", **small, stack=5_000_000_000, pot=4_000_000_000)
  largest = games.make("river_endgame_holdem", **small, stack=2**30 - 1, pot=2**29)
  games.testing.check_game(largest)


def test_small_holdem_takes_one_number_for_several():
  several = games.make("small_holdem", deals=(1,), blinds=(50, 50), first_to_act=(0,))
  one = games.make("small_holdem", deals=1, blinds=50, first_to_act=0)
  assert one.deals == several.deals
  assert one.rules == several.rules
  with pytest.raises(ValueError, match=r"blinds=\(1, 2, 3\) must be one number of chips, or two"):
    games.make("small_holdem", blinds=(1, 2, 3))


def test_decks_of_digits():
  """On the command line they are numbers."""
  game = games.make(
    "turn_endgame_holdem", ranks=56789, suits="shd", board="5s6h7d8s", stack=3_000, pot=200
  )
  assert game.deck.ranks == "56789"


def test_a_pot_of_nothing_is_no_unit():
  game = games.make("small_holdem", blinds=(0, 0), big_blind=100)
  found = in_units(game, 3.0)
  assert math.isnan(found.pot)
  assert (found.chips, found.mbb) == (3.0, 30.0)


def test_fresh_hands_with_nothing_to_bet():
  game = games.make("small_holdem", stack=100)
  with pytest.raises(ValueError, match=r"vary without stack may leave nothing to bet"):
    game.vary(bets=0.1)
  with pytest.raises(ValueError, match=r"vary stack='50-90' may leave nothing to bet"):
    game.vary(stack="50-90")
