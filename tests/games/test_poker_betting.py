"""No-limit betting against OpenSpiel's universal_poker, and action abstractions."""

import numpy as np
import pytest

from games.poker import abstraction, betting
from games.poker.abstraction import BetSizes, make_bet_sizes, map_bet
from games.poker.betting import Betting

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
  no_shove = BetSizes((((10.0,), ()),), all_in=False)
  assert (no_shove.amounts(rules, start) == -1).all()
  once = BetSizes((((1.0,),),), max_raises=1)
  assert (once.amounts(rules, rules.raise_to(start, np.array([130]))) == -1).all()


def test_perturbed_sizes_stay_within_a_tenth_of_the_pot():
  moved = [abstraction.TEH.perturbed(np.random.default_rng(i)) for i in range(50)]
  first = np.array([sizes.fractions[0][0] for sizes in moved])
  assert (np.abs(first - [0.5, 1.0]) <= 0.1).all()
  assert first.std(axis=0).min() > 0.03
  assert all(sizes.all_in for sizes in moved)


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
