"""No-limit betting against OpenSpiel's universal_poker, and action abstractions."""

import numpy as np
import pytest

import games
from games.poker import Geometric, Times, abstraction, betting
from games.poker.abstraction import BetSizes, make_bet_sizes, map_bet
from games.poker.betting import Betting
from games.poker.holdem import CALL, FOLD

pyspiel = pytest.importorskip("pyspiel")

_BOARD = (0, 3, 1, 1)


def universal_poker(stack, rounds=4):
  boards = " ".join(map(str, _BOARD[:rounds]))
  first = " ".join(["2", "1", "1", "1"][:rounds])
  return pyspiel.load_game(
    f"universal_poker(betting=nolimit,numPlayers=2,numRounds={rounds},blind=100 50,firstPlayer="
    f"{first},numSuits=4,numRanks=13,numHoleCards=2,numBoardCards={boards},"
    f"stack={stack} {stack},bettingAbstraction=fullgame)"
  )


def play_at_random(rng, stack, rules_class=Betting):
  """Plays one hand in both programs; returns how many decisions were compared."""
  rules = rules_class((stack, stack), paid=(100, 50), big_blind=100, first_to_act=(1, 0))
  theirs = universal_poker(stack).new_initial_state()
  ours = rules.start()[None]
  decisions = 0
  while True:
    while theirs.is_chance_node():
      theirs.apply_action(int(rng.choice(theirs.legal_actions())))
    if theirs.is_terminal():
      break
    assert ours[0, betting.STATUS] == betting.GOING_ON
    assert theirs.current_player() == ours[0, betting.ACTOR]
    legal = theirs.legal_actions()
    assert (0 in legal) == rules.may_fold(ours)[0]
    assert 1 in legal
    raises = [a for a in legal if a > 1]
    assert bool(raises) == rules.may_raise(ours)[0]
    if raises:
      assert min(raises) == rules.least_raise(ours)[0]
      assert max(raises) == rules.stack
    decisions += 1
    # Small raises, large ones, calls and folds all occur.
    size = int(rng.choice([min(raises), max(raises), rng.choice(raises)])) if raises else 1
    action = int(rng.choice([legal[0], 1, 1, size], p=[0.1, 0.3, 0.2, 0.4]))
    theirs.apply_action(action)
    if action == 0:
      ours = rules.fold(ours)
    elif action == 1:
      ours = rules.call(ours)
    else:
      assert rules.check_raise(ours[0], action) == action
      ours = rules.raise_to(ours, np.array([action]))
    while ours[0, betting.STATUS] == betting.CLOSED and ours[0, betting.ROUND] < 3:
      ours = rules.next_round(ours)
  paid = ours[0, [betting.PAID_0, betting.PAID_1]]
  status = ours[0, betting.STATUS]
  returns = np.array(theirs.returns())
  if status in (betting.FOLDED_0, betting.FOLDED_1):
    loser = int(status == betting.FOLDED_1)
    assert returns[loser] == -paid[loser] == -returns[1 - loser]
  else:
    assert status == betting.CLOSED
    assert paid[0] == paid[1]
    assert returns[0] in (-paid[0], 0, paid[0])
  return decisions


@pytest.mark.parametrize("stack", [100, 150, 201, 450, 1_000, 20_000])
def test_random_playouts_agree_with_open_spiel(stack):
  rng = np.random.default_rng(stack)
  decisions = sum(play_at_random(rng, stack) for _ in range(60))
  assert decisions > 20


def test_wrong_rules_disagree_with_open_spiel():
  class AnyRaise(Betting):
    def least_raise(self, states):
      return np.minimum(self.highest(states) + self.big_blind, self.stack)

  def play():
    for seed in range(60):
      play_at_random(np.random.default_rng(seed), 1_000, AnyRaise)

  with pytest.raises(AssertionError):
    play()


def test_states_are_rows_and_rows_do_not_mix():
  """A batch of different states moves as each alone does."""
  rules = Betting((900, 900), paid=(100, 100))
  start = rules.start()[None]
  bet = rules.raise_to(start, np.array([300]))
  shove = rules.raise_to(bet, np.array([900]))
  batch = np.concatenate([start, bet, shove])
  np.testing.assert_array_equal(rules.may_fold(batch), [False, True, True])
  np.testing.assert_array_equal(rules.may_raise(batch), [True, True, False])
  np.testing.assert_array_equal(rules.least_raise(batch), [200, 500, 900])
  for move in (rules.call, rules.fold, rules.next_round):
    apart = np.concatenate([move(row[None]) for row in batch])
    np.testing.assert_array_equal(move(batch), apart)
  np.testing.assert_array_equal(batch[0], rules.start())  # arguments are left alone


def test_the_smaller_stack_is_what_can_be_lost():
  rules = Betting((5_000, 700), paid=(100, 100))
  assert rules.stack == 700
  with pytest.raises(ValueError, match="bet=701 is more than the smaller stack of 700 chips"):
    rules.check_raise(rules.start(), 701)


def test_paper_sizes_of_turn_endgame_holdem():
  """Appendix C.2: half the pot, the pot or all-in first; then 0.75 of the pot or all-in."""
  rules = Betting((20_000, 20_000), paid=(1_000, 1_000))
  start = rules.start()[None]
  np.testing.assert_array_equal(abstraction.TEH.amounts(rules, start), [[2_000, 3_000, 20_000]])
  bet = rules.raise_to(start, np.array([3_000]))
  # Calling makes the pot 6,000; three quarters of it are 4,500 more.
  np.testing.assert_array_equal(abstraction.TEH.amounts(rules, bet), [[7_500, -1, 20_000]])
  # A new round starts the sizes again, and with all chips in there is none.
  turned = rules.next_round(rules.call(rules.raise_to(bet, np.array([7_500]))))
  np.testing.assert_array_equal(abstraction.TEH.amounts(rules, turned), [[15_000, -1, 20_000]])
  done = rules.next_round(rules.call(rules.raise_to(bet, np.array([20_000]))))
  assert (abstraction.TEH.amounts(rules, done) == -1).all()


def test_sizes_are_legal_and_differ():
  rules = Betting((400, 400), paid=(30, 30), big_blind=100)
  sizes = BetSizes((((0.1, 0.2, 3.0, 10.0),),))
  start = rules.start()[None]
  # 0.1 and 0.2 of a pot of 60 are below the big blind: one becomes it. 10 pots are all-in.
  np.testing.assert_array_equal(sizes.amounts(rules, start), [[130, -1, 210, -1, 400]])
  # So they are where all-in is no move of its own: a size does not vanish.
  no_shove = BetSizes((((3.0, 10.0, 20.0), ()),), all_in=False)
  np.testing.assert_array_equal(no_shove.amounts(rules, start), [[210, 400, -1, -1]])
  once = BetSizes((((1.0,),),), max_raises=1)
  assert (once.amounts(rules, rules.raise_to(start, np.array([130]))) == -1).all()


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


def test_multiples_are_of_the_bet_of_this_round():
  game = games.make(
    "turn_endgame_holdem", pot=200, stack=5_000, big_blind=2, bets="50% / 3x | 50% / 2x"
  )
  line = ("bet to 200", "raise to 400", "raise to 1000", "call")  # 100, 300, 900 in this round
  assert moves(game, *line[:1])[2:] == ["raise to 400"]
  assert moves(game, *line[:2])[2:] == ["raise to 1000"]
  history = [2, 2, 2, 1]
  state = game.state_after(history)[None]
  deal = int(np.flatnonzero(game.legal_actions(state)[0])[0])
  if deal == game.burn:
    history.append(deal)
    deal = int(np.flatnonzero(game.legal_actions(game.state_after(history)[None])[0])[0])
  history.append(deal)
  assert game.describe(history, 2) == "bet to 2000"  # half of 2,000
  assert game.describe([*history, 2], 2) == "raise to 3000"  # twice 1,000
  assert game.describe([*history, 2, 2], 2) == "raise to 5000 (all-in)"  # twice 2,000


@pytest.mark.parametrize(("pot", "behind"), [(200, 900), (201, 900), (35, 4_000)])
def test_geometric_sizes_end_with_all_chips_in(pot, behind):
  """The same fraction of the pot, bet and called on two rounds."""
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
  assert river("2e", pot, pot // 2 + behind).amounts(game.initial_state()[None])[0, 0] == (
    first + pot // 2
  )
  assert moves(river("1e"))[1:] == ["bet to 1000 (all-in)"]


def test_sizes_for_each_player():
  """Player 0 does not bet first, and raises otherwise than player 1."""
  game = river(("- / 3x", "50% / 4x"))
  assert moves(game) == ["check"]
  assert moves(game, "check") == ["check", "bet to 200"]
  assert moves(game, "check", "bet to 200") == ["fold", "call", "raise to 400"]
  assert moves(game, "check", "bet to 200", "raise to 400")[2:] == ["raise to 1000 (all-in)"]


def test_bets_of_nearly_all_chips_are_all_in():
  def sizes(share):
    bets = BetSizes((((0.5, 3.0, 3.5),),), all_in=False, near_all_in=share)
    return river(bets).amounts(river("a").initial_state()[None])[0].tolist()

  assert sizes(None) == [200, 700, 800, -1]
  assert sizes(0.75) == [200, 700, 1_000, -1]  # 600 and 700 of 900 chips
  assert sizes(0.6) == sizes(0.666) == [200, 1_000, -1, -1]
  assert sizes(1.0) == [200, 700, 800, -1]


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


def test_later_raises_may_be_all_in_alone():
  sizes = BetSizes((((0.5, 1.0), (1.0,)),), all_in_after=2)
  rules = Betting(stacks=(100_000, 100_000), paid=(100, 100))
  state, legal = rules.start()[None], []
  for _ in range(4):
    amounts = sizes.amounts(rules, state)[0]
    legal.append((amounts >= 0).sum())
    state = rules.raise_to(state, amounts[amounts >= 0][:1])
  # Two sizes, one, and from the third raise on all-in, beside which nothing is left after it.
  assert legal == [3, 2, 1, 0]
  with pytest.raises(ValueError, match="all_in_after=-1 must be a whole number, or None"):
    BetSizes((((0.5,),),), all_in_after=-1)


def test_states_may_have_sizes_of_their_own():
  sizes, rules = BetSizes((((0.5, 1.0), (0.75,)),)), Betting()
  states = np.repeat(rules.start()[None], 2, axis=0)
  own = np.array([sizes.thousandths.reshape(-1), [431, 1_069, 800, 0]])
  first, second = sizes.amounts(rules, states, own)
  np.testing.assert_array_equal(first, sizes.amounts(rules, states)[0])
  assert second.tolist() == [1_862, 3_138, 20_000]  # 1,000 in, of a pot of 2,000


def test_bets_off_the_tree_are_mapped_to_neighbours():
  np.testing.assert_allclose(map_bet(0.5, [0.5, 1.0]), [1, 0])
  np.testing.assert_allclose(map_bet(2.0, [0.5, 1.0]), [0, 1])
  np.testing.assert_allclose(map_bet(0.1, [0.5, 1.0]), [1, 0])
  # (1 - 0.75)(1 + 0.5) / ((1 - 0.5)(1 + 0.75)) = 3/7
  np.testing.assert_allclose(map_bet(0.75, [0.5, 1.0]), [3 / 7, 4 / 7])


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: Betting((-5, 100)), "stacks=-5 must be a whole number of chips, at least 1"),
    (lambda: Betting((100.5, 100)), "stacks=100.5"),
    (lambda: Betting(100), "stacks=100 must be two numbers"),
    (lambda: Betting((500, 400), (450, 100)), r"paid=\(450, 100\) is more than the smaller"),
    (lambda: Betting(big_blind=0), "big_blind=0"),
    (lambda: Betting(first_to_act=(2,)), "first_to_act"),
    (lambda: Betting().check_raise(Betting().start(), 1_050), "bet=1050 is below the minimum"),
    (lambda: BetSizes((), all_in=False), "without any bet"),
    (lambda: BetSizes((((0.5,),), ((),)), all_in=False), "without any bet"),
    (lambda: BetSizes((((-0.5,),),)), "fractions hold -0.5"),
    (lambda: BetSizes((0.5,)), "must be tuples"),
    (lambda: BetSizes((((1.0,),),), max_raises=-1), "max_raises=-1"),
    (lambda: make_bet_sizes("huge"), "bets='huge' is unknown; known: teh"),
    (lambda: make_bet_sizes(3), "bets=3 must be"),
    (lambda: make_bet_sizes("33%,75"), "bets='33%,75' holds '75'; a size must be '33%' of the pot"),
    (lambda: make_bet_sizes("2.5x / 33%"), "before '/', where nobody has bet"),
    (lambda: make_bet_sizes("33% / 1x"), "must be above 1x"),
    (lambda: make_bet_sizes("0% / 2x"), "must be from 0.1% to 100000%"),
    (lambda: make_bet_sizes("33%,,a"), "holds ''"),
    (lambda: make_bet_sizes("33% | 50%"), "is of 2 rounds of betting, and the game has 1"),
    (lambda: make_bet_sizes("- / 2x"), "without any bet"),
    (lambda: make_bet_sizes(""), "holds ''; a size must be"),
    (lambda: BetSizes.parse(3), "bets=3 must be a string"),
    (lambda: Times(1.0), "factor=1.0 of a raise"),
    (lambda: Geometric(0), "bets=0 of a geometric size"),
    (lambda: BetSizes((((1.0,),),), near_all_in=1.5), "near_all_in=1.5 must be a share"),
    (lambda: BetSizes((((1.0,),),), second=(((float("nan"),),),)), "fractions hold nan"),
    (lambda: Betting(dead=-1), "dead=-1 must be a whole number of chips"),
    (
      lambda: river("2e", stack=2_000_000).amounts(river("a").initial_state()[None]),
      "stacks of 2000000 chips are too many for geometric sizes",
    ),
    (lambda: map_bet(-1, [0.5]), "must not be negative"),
    (lambda: map_bet(1, []), "at least one"),
  ],
)
def test_bad_betting_gets_one_sentence(make, message):
  with pytest.raises(ValueError, match=message) as error:
    make()
  assert "\n" not in str(error.value)


def test_only_who_faces_a_bet_may_fold():
  """Who has posted the larger blind and acts first may check; a fold would leave half of it."""
  for actor, folds in ((0, False), (1, True)):
    rules = Betting((600, 600), (100, 50), 100, (actor,))
    assert rules.may_fold(rules.start()[None])[0] == folds
