"""Betting of hold'em: sizes as players write them, bets into who bet last, and public trees."""

import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.game import CHANCE, TERMINAL
from games.poker import CALL, FOLD, TEH, BetSizes, Betting, betting, map_bet
from games.poker.abstraction import make_bet_sizes
from games.poker.lines import make_lines
from solvers.contrib.off_tree import midpoint, widest_gap
from tests.hand_pairs import small_spot
from tests.sentences import refused

TEH_NAME = "turn_endgame_holdem"
NO_DONK = BetSizes((((1.0,),),), donk=((),))


def river(bets, pot=200, stack=1_000, **options):
  return games.make("river_endgame_holdem", pot=pot, stack=stack, big_blind=2, bets=bets, **options)


def moves(game, *history):
  """Returns the names of the legal moves after moves of these names."""
  actions = []
  for name in history:
    legal = np.flatnonzero(game.legal_actions(game.state_after(actions)[None])[0])
    actions += [a for a in legal if game.describe(actions, a).startswith(name)]
  legal = np.flatnonzero(game.legal_actions(game.state_after(actions)[None])[0])
  return [game.describe(actions, action) for action in legal]


def test_sizes_as_players_write_them():
  """Chips count the 100 that each player has in the pot of 200, and 900 are left."""
  game = river("33%,75%,a / 2.5x,a / 50%")
  assert moves(game) == ["check", "bet to 166", "bet to 250", "bet to 1000 (all-in)"]
  # A bet of 66 is raised to 165; the raise to 165 by half of 530.
  raises = moves(game, "bet to 166")
  assert raises == ["fold", "call", "raise to 265", "raise to 1000 (all-in)"]
  assert moves(game, "bet to 166", "raise to 265")[2:] == ["raise to 530"]
  # 2.5 times 900 is more than there is: no further bet, as all chips are in.
  assert moves(game, "check", "bet to 1000") == ["fold", "call"]


@pytest.mark.parametrize(("pot", "behind"), [(201, 900), (35, 4_000)])
def test_geometric_sizes_end_with_all_chips_in(pot, behind):
  game = games.make(
    "turn_endgame_holdem", pot=pot, stack=pot // 2 + behind, big_blind=1, bets="e / -"
  )
  first = game.amounts(game.initial_state()[None])[0, 0] - pot // 2
  fraction = ((1 + 2 * behind / pot) ** 0.5 - 1) / 2
  assert first == pytest.approx(fraction * pot, abs=0.51)
  state = game.rules.next_round(
    game.rules.call(game.next_states(game.initial_state()[None], np.array([2])))
  )
  assert game.amounts(state)[0, 0] == pot // 2 + behind
  # 2e says so on a river as well, and 1e is all-in.
  assert river("2e", pot, pot // 2 + behind).amounts(game.initial_state()[None, :-1])[0, 0] == (
    first + pot // 2
  )
  assert moves(river("1e"))[1:] == ["bet to 1000 (all-in)"]


def test_sizes_in_chips_and_capped_geometric_ones():
  """Chips are beyond a call, at least the legal minimum; a capped size is a third of the pot."""
  game = river("150c / 200c, 5000c")
  assert moves(game)[1:] == ["bet to 250"]
  assert moves(game, "bet to 250")[2:] == ["raise to 450", "raise to 1000 (all-in)"]
  assert moves(river("50c / 10c"), "bet to 150")[2:] == ["raise to 200"]
  # 2e is a bet of 216 here.
  assert moves(river("2e33%"))[1:] == moves(river("33%"))[1:] != moves(river("2e"))[1:]
  assert moves(river("2e5000%"))[1:] == moves(river("2e"))[1:]


def test_the_odd_chip_of_a_pot_is_split_where_the_pot_is():
  """Payoffs are as if half a chip came from each: who folds loses half the pot."""
  odd = river("100%", pot=201, stack=1_000)
  assert odd.situation(()) == "board 3s7hTdKs2c, pot 201, stacks 900 and 900"
  assert moves(odd)[1:] == ["bet to 301"]
  folded = odd.state_after((2, FOLD))[None]
  shown = odd.state_after((2, CALL))[None]
  assert odd.payoff_scale(folded)[0] == 100.5
  assert odd.payoff_scale(shown)[0] == 301.5
  assert odd.rules.pot == 201
  # The same spot in half chips has payoffs twice as large.
  double = river("100%", pot=402, stack=2_001)
  assert (
    2 * odd.payoff_scale(shown)[0] == double.payoff_scale(double.state_after((2, CALL))[None])[0]
  )


def test_bets_off_the_tree_are_mapped_to_neighbours():
  np.testing.assert_allclose(map_bet(0.5, [0.5, 1.0]), [1, 0])
  np.testing.assert_allclose(map_bet(2.0, [0.5, 1.0]), [0, 1])
  np.testing.assert_allclose(map_bet(0.1, [0.5, 1.0]), [1, 0])
  # (1 - 0.75)(1 + 0.5) / ((1 - 0.5)(1 + 0.75)) = 3/7
  np.testing.assert_allclose(map_bet(0.75, [0.5, 1.0]), [3 / 7, 4 / 7])


def test_stacks_below_the_blinds_are_all_in():
  short = games.make("small_holdem", blinds=(50, 100), first_to_act=(0, 1), stack=80)
  assert short.rules.paid == (50, 80)
  assert moves(short) == ["fold", "call"]
  closed = games.make("small_holdem", blinds=(50, 100), stack=40)
  assert closed.rules.paid == (40, 40)
  tree = games.build_public_tree(closed)
  assert set(np.asarray(tree.kind).tolist()) == {games.CHANCE, games.TERMINAL}


def test_rounds_may_be_without_bets():
  for bets, raises in (("-|50%", [False, True]), ("50%|-", [True, False]), ("-", [False, False])):
    game = games.make("turn_endgame_holdem", board="3s7hTdKs", bets=bets)
    lines = (), ("check", "check", "burn", "deal 2c")
    found = [any("bet" in move for move in moves(game, *line)) for line in lines]
    assert found == raises


def test_numbers_of_the_thesis():
  assert midpoint(0, 1) == pytest.approx(1 / 3)
  assert midpoint(0, 1 / 3) == pytest.approx(1 / 7)
  assert midpoint(1 / 3, 1) == pytest.approx(3 / 5)


def test_the_gap_is_where_bets_are_furthest_from_what_is_there():
  sizes = (0, 0.5, 1, 3)
  assert widest_gap([0.4, 0.7, 0.7, 1.2], sizes) == (0.5, 1)
  assert widest_gap([0.4, 0.7, 0.7, 1.7], sizes) == (1, 3)
  assert widest_gap([7.0, 0.1], sizes) == (0, 0.5)


def with_donk_bets(donk):
  bets = BetSizes.parse("50%,100% / 100% / -", rounds=2, donk=donk)
  return small_spot("TsJhQsKh", ("AA,KQ", "TT,AJ:0.5"), stack=400, bets=bets)


def last_bettor(game, history):
  """Returns who bet last in the round before, and whether anybody acted in this one; by hand."""
  bettor, before, actor, acted = None, None, 0, False
  for move in history:
    if move >= game.burn:
      if move >= game.first_deal:
        before, bettor, actor, acted = bettor, None, 0, False
      continue
    if move >= 2:
      bettor = actor
    actor, acted = 1 - actor, True
  return before, acted


@pytest.mark.parametrize(
  ("donk", "sizes"), [("25%", [0.25]), ("-", []), ("25%,50%", [0.25, 0.5]), (None, [0.5, 1.0])]
)
def test_sizes_follow_from_the_history(donk, sizes):
  game = with_donk_bets(donk)
  tree = games.build_public_tree(game)
  histories = [tree.history(n) for n in range(tree.num_nodes)]
  seen = set()
  for node, (history, state) in enumerate(zip(histories, np.asarray(tree.state))):
    if tree.kind[node] in (CHANCE, TERMINAL):
      continue
    turn = game.rules.at(state)
    before, acted = last_bettor(game, history)
    leads = before == 1 and not acted  # player 0 acts first
    if not turn.may_fold:
      of_pot = [(to / turn.highest - 1) / 2 for to in game.bets_at(state).values()]
      assert np.round(of_pot, 2).tolist() == (sizes if leads else [0.5, 1.0])
      seen.add(leads)
  assert seen == {True, False}


def count_lines(game, state):
  """Returns how many lines of betting begin with a state's, the first card dealt after each."""
  actor = int(game.actor(state[None])[0])
  moves = np.flatnonzero(game.legal_actions(state[None])[0]) if actor != TERMINAL else []
  after = [game.next_states(state[None], np.array([move]))[0] for move in moves]
  if actor != CHANCE:
    return 1 + sum(count_lines(game, state) for state in after)
  return (moves[0] != game.burn) + count_lines(game, after[0])


@pytest.mark.parametrize("donk", ["-", None])
def test_lines_have_the_same_bets(donk):
  game = with_donk_bets(donk)
  assert make_lines(game)[0].num_nodes == count_lines(game, game.initial_state())


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


def of_ranges(kept=None):
  """Returns a river of all hands, and that of the hands of `kept` `[2, H]`, or of two ranges."""
  whole = games.make("river_endgame_holdem", board="3s7hTdKs2c")
  return whole, whole.only(whole.beliefs(("AA,KQ", "TT,AJ")) if kept is None else kept)


test_bad_input_gets_one_sentence = refused(
  (lambda: of_ranges()[1].only(of_ranges()[1].prior()), "distributions over all hands"),
  (lambda: of_ranges(np.eye(1081)[[0, 0]]), "no compatible pair of hands"),
  (lambda: of_ranges()[1].infostate("3h3d"), "in neither range"),
  (lambda: Betting((-5, 100)), r"stacks=\(-5, 100\) must be a list of an integer from 1 "),
  (lambda: Betting((500, 400), (450, 100)), r"paid=\(450, 100\) is more than the smaller"),
  (lambda: Betting().check_raise(Betting().start(), 20_001), "more than the smaller stack"),
  (lambda: Betting(rake=0.7), "rake=0.7 must be a number from 0 to 0.5"),
  (lambda: games.build_public_tree(small_spot("TsJhQsKh", rake=0.1)), "rake=0.1 .* of zero sum"),
  (lambda: BetSizes((((-0.5,),),)), "fractions hold -0.5"),
  *((lambda x=x: river(x), "bets=") for x in ("0c", "1.5c", "2e0%", "2e%")),
  *(
    (lambda x=x: map_bet(0.7, x), "sizes=.* must be increasing finite fractions")
    for x in ([0.5, np.inf], [1.0, 0.5], [-1.0], [])
  ),
  (lambda: games.make("small_holdem", blinds=(-5, 100)), r"blinds=.*-5.* must be a list of an int"),
  (lambda: widest_gap([1.0], (1, 1)), "increasing"),
  (lambda: make_bet_sizes("huge"), "bets='huge' is unknown; known: teh"),
  (lambda: make_bet_sizes("33%,75"), "bets='33%,75' holds '75'; a size must be '33%' of the pot"),
  (lambda: make_bet_sizes("2.5x / 33%"), "before '/', where nobody has bet"),
  (lambda: make_bet_sizes("33% | 50%"), "is of 2 rounds of betting, and the game has 1"),
  (
    lambda: river("2e", stack=2_000_000).amounts(jnp.asarray(river("a").initial_state()[None])),
    "stacks of 2000000 chips are too many for geometric sizes",
  ),
  (lambda: BetSizes.parse("50%", donk="25%"), "donk='25%' is about rounds after the first"),
  (lambda: BetSizes.parse("50%", rounds=2, donk="25% / 2x"), "must hold first bets only"),
  (lambda: games.make(TEH_NAME, bets=NO_DONK).templates(), "must be None for subgames"),
  (
    lambda: games.make(TEH_NAME, bets="33%,a / 2.5x").templates(),
    "must be fractions of the pot, wi",
  ),
  (lambda: games.make(TEH_NAME, bets=(0.01, 1.0)).templates(), "give them all_in_after, such as 4"),
  (
    lambda: games.make(TEH_NAME).with_bet((), 1_217).templates(),
    "bets added to one spot cannot be",
  ),
  (lambda: games.make(TEH_NAME, board="3s7hTd3s"), "names '3s' twice"),
  (lambda: games.make(TEH_NAME, board="3s7hTd"), "holds 3 cards; this endgame needs 4"),
  (lambda: games.make(TEH_NAME, ranks="TJQKA"), "which is not in the deck"),
  (lambda: games.make(TEH_NAME, stack=1_000), "must have chips behind"),
  (lambda: games.make("small_holdem", ranks="KA", suits="s"), "too small"),
  (lambda: games.make("small_holdem", deals=(6,)), "at most 5 are compared"),
  (lambda: games.make("small_holdem", stack=100).vary(bets=0.1), "may leave nothing to bet"),
  (
    lambda: games.make(
      "small_holdem", ranks="23456789TJQKA", suits="shdc", deals=(3, 1)
    ).strengths(),
    "make more than 100000 boards",
  ),
  (lambda: games.make(TEH_NAME).infostate("KsAd"), "hand='KsAd' is blocked by the board"),
  (lambda: games.make(TEH_NAME).beliefs(["AA", "33+,9x"]), r"ranges\[1\] holds '9x'"),
  (lambda: games.make(TEH_NAME).beliefs(["AA", "3s3h"]), "player 1 no hand that the board"),
  (
    lambda: games.make("river_endgame_holdem", stack=5_000_000_000, pot=4_000_000_000),
    "pot=4000000000 must be an integer from 2 to 1073741823",
  ),
  (lambda: games.make(TEH_NAME).with_bet((), 1_050), "bet=1050 is below the minimum"),
  (lambda: games.make(TEH_NAME).with_bet((), 2_000), "bet=2000 is in the abstraction already"),
  (lambda: games.make(TEH_NAME).with_bet((CALL, CALL), 2_000), "no player moves"),
)
