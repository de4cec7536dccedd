"""Games against the shared check, against rules worked out by hand, and broken on purpose."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import games
from games.testing import check_game
from tests import harness
from tests.random_game import RandomGame

LONG = ("small_holdem_4_rounds", "turn_endgame_holdem")
SMALL = {
  "kuhn": lambda: games.make("kuhn_poker"),
  "rock_paper_scissors": lambda: games.make("rock_paper_scissors"),
  "scotland_yard": lambda: games.make("scotland_yard", rounds=2),
  "coin_toss": lambda: games.make("coin_toss", num_subgames=3),
  "matrix_game": lambda: games.make("matrix_game", payoffs=((1, -2), (0, 3), (-1, 5))),
  "leduc": lambda: games.make("leduc_poker"),
  "leduc_sizes": lambda: games.make("leduc_poker", bets=((1.5, 2), (0.25,))),
  "liars_dice_1x1f": lambda: games.make("liars_dice", num_dice=1, num_faces=1),
  "liars_dice_1x3f": lambda: games.make("liars_dice", num_dice=1, num_faces=3),
  "liars_dice_1x4f": lambda: games.make("liars_dice", num_dice=1, num_faces=4),
  "liars_dice_2x2f": lambda: games.make("liars_dice", num_dice=2, num_faces=2),
  # More of these are in test_poker_games.py.
  "small_holdem": lambda: games.make("small_holdem", ranks="QKA", suits="sh", stack=300),
  "small_holdem_4_rounds": lambda: games.make("small_holdem_4_rounds", ranks="TJQK", stack=300),
  "turn_endgame_holdem": lambda: games.make(
    "turn_endgame_holdem", board="9sTsJsQs", ranks="89TJQ", suits="sh", stack=3_000
  ),
  "connect_four": lambda: games.make("connect_four", width=3, height=2, in_a_row=2),
  "go": lambda: games.make("go", size=2, komi=0.5, max_moves=4),
  "river_endgame_holdem": lambda: games.make(
    "river_endgame_holdem", board="9sTsJsQsQh", ranks="89TJQ", suits="sh", stack=3_000
  ),
}

# Too large for a tree, or to be looked at one by one; rules of the former are the small ones'.
LARGE = {"flop_holdem", "no_limit_holdem", "tic_tac_toe"}


# Four rounds take as long as all others together, and are built in test_template.py too.
@pytest.mark.parametrize("name", harness.slow(SMALL, *LONG))
def test_small_games_pass(name):
  check_game(SMALL[name]())


def test_every_registered_game_is_checked_here():
  """A new game must be added above, in a size that can be enumerated."""
  assert {make().name for make in SMALL.values()} == set(games.registered_games()) - LARGE


@pytest.mark.parametrize("seed", harness.slow(range(20), *range(6, 20)))
def test_random_games_pass(seed):
  """Hidden moves, private and public chance and changing infostates, all at once."""
  check_game(RandomGame(seed))


# Controls: each mistake must fail the check with a sentence that names it.


class UnnormalisedPrior(games.KuhnPoker):
  def prior(self):
    return np.full((2, 3), 0.5)


class ImpossiblePrior(games.KuhnPoker):
  def prior(self):
    return np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])  # both the jack


class MissingMove(games.KuhnPoker):
  def legal_actions(self, states):
    return super().legal_actions(states) & (states[:, :1] != 4)  # none after pass, bet


class LegalActionsOfTheFirstRow(games.LiarsDice):
  """Right for one state at a time, wrong for a batch."""

  def legal_actions(self, states):
    return super().legal_actions(np.repeat(states[:1], len(states), axis=0))


class EndlessBidding(games.LiarsDice):
  """Bids need not go up."""

  def legal_actions(self, states):
    legal = super().legal_actions(states)
    legal[:, :-1] = True
    return legal


class WrongActor(games.KuhnPoker):
  def actor(self, states):
    return np.where(states[:, 0] == 1, 4, super().actor(states))


class ActorByBatch(games.KuhnPoker):
  """Right for one state at a time, wrong for a batch."""

  def actor(self, states):
    return np.repeat(super().actor(states)[:1], len(states))


class WrongChance(games.LeducPoker):
  """Six cards are equally likely, though two are held."""

  def chance(self, states, actions):
    probability, mask = super().chance(states, actions)
    return probability * 4 / 6, mask


class HeldCardIsDealt(games.LeducPoker):
  """Player 1's card may become public."""

  def chance(self, states, actions):
    probability, mask = super().chance(states, actions)
    mask[:, 1] = True
    return probability, mask


class CardsComeFromTheFirst(games.KuhnPoker):
  """After the first move players no longer know which card they had before."""

  def infostate_parents(self, states, actions):
    stays = np.tile(np.arange(3), (len(states), 2, 1))
    return np.where(states[:, None] == 0, 0, stays)


class ForgottenCard(games.KuhnPoker):
  """Whoever holds the king holds nothing after a bet."""

  def infostate_parents(self, states, actions):
    parents = np.tile(np.arange(3), (len(states), 2, 1))
    parents[actions == 1, :, 2] = -1
    return parents


class ParentOutOfRange(games.RockPaperScissors):
  def infostate_parents(self, states, actions):
    return super().infostate_parents(states, actions) + 3


class SeenMove(games.RockPaperScissors):
  """Player 1's infostate follows player 0's move, but any move may lead to either."""

  def infostate_parents(self, states, actions):
    parents = super().infostate_parents(states, actions)
    parents[:, 1, 1] = 0
    return parents


class ParentsByBatch(games.RockPaperScissors):
  def infostate_parents(self, states, actions):
    parents = super().infostate_parents(states, actions)
    parents[1:, 0] = parents[1:, 0, ::-1]
    return parents


class CardsStopExcluding(games.KuhnPoker):
  """Once somebody has moved, both may hold the same card."""

  def pair_weights(self):
    return np.stack([1 - np.eye(3), np.ones((3, 3))])

  def pair_index(self, states):
    return (states[:, 0] > 0).astype(int)


class CardsGetLikelier(CardsStopExcluding):
  """The pair weights of later states have another total."""

  def pair_weights(self):
    return np.stack([1 - np.eye(3), 2 - 2 * np.eye(3)])


class PayoffNotFinite(games.KuhnPoker):
  def payoffs(self):
    return super().payoffs() / np.array([1.0, 0.0])[:, None, None]


class PayoffTablesTransposedShape(games.LiarsDice):
  def payoffs(self):
    return np.moveaxis(super().payoffs(), 0, -1)


class PayoffIndexOutOfRange(games.KuhnPoker):
  def payoff_index(self, states):
    return super().payoff_index(states) + 1


class PayoffScaleOfTheFirstRow(games.KuhnPoker):
  def payoff_scale(self, states):
    return np.repeat(super().payoff_scale(states)[:1], len(states))


class PayoffsByBatch(games.KuhnPoker):
  """What the winner gets is not what the loser pays, by the order in which one asks."""

  def payoff_scale(self, states):
    return super().payoff_scale(states) * (1 + np.arange(len(states)))


class FeaturesOfTwoLengths(games.KuhnPoker):
  def features(self, states, player):
    return super().features(states, player)[:, player:]


class FeaturesNotFinite(games.KuhnPoker):
  def features(self, states, player):
    with np.errstate(divide="ignore"):
      return 1.0 / super().features(states, player)


class ChangesItsArguments(games.LeducPoker):
  def next_states(self, states, actions):
    new = super().next_states(states, actions)
    states[:] = new
    return new


class FractionalStates(games.KuhnPoker):
  def next_states(self, states, actions):
    return super().next_states(states, actions) / 1.0


class OutcomeForNobody(games.LeducPoker):
  """A card that cannot be dealt is listed as a legal outcome of chance."""

  def prior(self):
    return np.array([[0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], float)  # cards 1 and 0


class RaiseBeyondThePlayers(games.LeducPoker):
  num_player_actions = 2


class OrderOfOthers(games.LeducPoker):
  def features(self, states, player):
    return super().features(states, player)[:, :-1]


MISTAKES = {
  RaiseBeyondThePlayers: "num_player_actions=2 says",
  OrderOfOthers: "orders_infostates=True says",
  UnnormalisedPrior: "prior",
  ImpossiblePrior: "no pair of infostates",
  MissingMove: "no action is legal",
  LegalActionsOfTheFirstRow: "tree",
  WrongActor: "actor",
  ActorByBatch: "kind",
  WrongChance: "outcomes of chance together have probability 0.6",
  HeldCardIsDealt: "outcomes of chance together",
  CardsComeFromTheFirst: "infostate",
  ForgottenCard: "infostate",
  ParentOutOfRange: "infostate_parents",
  SeenMove: "have probability",
  ParentsByBatch: "infostate_parent",
  CardsStopExcluding: "cannot meet",
  CardsGetLikelier: "have probability 2",
  PayoffNotFinite: "payoffs",
  PayoffTablesTransposedShape: "payoffs",
  PayoffIndexOutOfRange: "payoff_index",
  PayoffScaleOfTheFirstRow: "payoff",
  PayoffsByBatch: "payoff",
  FeaturesOfTwoLengths: "features",
  FeaturesNotFinite: "features",
  ChangesItsArguments: "changed the states",
  FractionalStates: "next_states",
  OutcomeForNobody: "no pair of infostates",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_control_a_broken_game_is_refused(mistake):
  with pytest.raises(AssertionError, match=MISTAKES[mistake]):
    check_game(mistake())


def test_control_a_game_without_end_is_refused():
  with pytest.raises(ValueError, match="max_histories=1000"):
    check_game(EndlessBidding(num_dice=1, num_faces=2), max_histories=1000)


# Rules worked out apart from the games' own code.


@pytest.mark.parametrize(("num_dice", "num_faces"), [(1, 4), (2, 3)])
def test_liars_dice_is_won_by_counting_dice(num_dice, num_faces):
  game = games.make("liars_dice", num_dice=num_dice, num_faces=num_faces)
  rolls = [
    tuple(reversed(roll))  # die 0 counts up first
    for roll in itertools.product(range(1, num_faces + 1), repeat=num_dice)
  ]
  names = [game.infostate_name(0, h) for h in range(game.num_infostates)]
  assert names == ["".join(map(str, roll)) for roll in rolls]
  tables = game.payoffs()
  for bid in range(game.num_bids):
    quantity, face = (int(x) for x in game.action_name(bid).split("x"))
    # Player 0 bids and player 1 calls; then after another bid the other way around.
    for history, sign in (((bid, game.liar), 1), ((0, bid, game.liar), -1)):
      if sign < 0 and bid == 0:
        continue
      states = game.state_after(history)[None]
      payoff = tables[game.payoff_index(states)[0]] * game.payoff_scale(states)[0]
      for (i, first), (j, second) in itertools.product(enumerate(rolls), repeat=2):
        shown = sum(die in (face, num_faces) for die in first + second)
        assert payoff[i, j] == (sign if shown >= quantity else -sign)


def test_liars_dice_bids_go_up_and_nobody_calls_first():
  game = games.make("liars_dice", num_dice=1, num_faces=3)
  start = game.initial_state()[None]
  assert [game.action_name(a) for a in np.flatnonzero(game.legal_actions(start)[0])] == [
    "1x1", "1x2", "1x3", "2x1", "2x2", "2x3",
  ]  # fmt: skip
  after = game.state_after((1, 3))[None]  # 1x2, 2x1
  legal = [game.action_name(a) for a in np.flatnonzero(game.legal_actions(after)[0])]
  assert legal == ["2x2", "2x3", "liar"]


KUHN = {  # what player 0 gets, by history, if it holds the higher card, and the lower
  (0, 0): (1, -1),
  (1, 0): (1, 1),
  (1, 1): (2, -2),
  (0, 1, 0): (-1, -1),
  (0, 1, 1): (2, -2),
}


def test_kuhn_poker_pays_the_pot():
  game = games.make("kuhn_poker")
  for history, (higher, lower) in KUHN.items():
    states = game.state_after(history)[None]
    assert game.actor(states)[0] == games.TERMINAL
    payoff = game.payoffs()[game.payoff_index(states)[0]] * game.payoff_scale(states)[0]
    for i, j in itertools.permutations(range(3), 2):
      assert payoff[i, j] == (higher if i > j else lower)


@pytest.mark.parametrize(
  ("history", "pot"),
  [
    ((1, 1, 3, 1, 1), 1),  # checked down
    ((2, 1, 3, 1, 1), 3),
    ((2, 2, 1, 3, 1, 1), 5),
    ((1, 2, 2, 1, 3, 2, 2, 1), 13),
  ],
)
def test_leduc_poker_showdowns(history, pot):
  """The jack of spades (action 3) is public: the other jack pairs, then king over queen."""
  game = games.make("leduc_poker")
  states = game.state_after(history)[None]
  assert game.actor(states)[0] == games.TERMINAL
  payoff = game.payoffs()[game.payoff_index(states)[0]] * game.payoff_scale(states)[0]
  strength = {1: 9, 2: 2, 3: 2, 4: 3, 5: 3}  # J♥, Q♠, Q♥, K♠, K♥
  for i, j in itertools.permutations(strength, 2):
    assert payoff[i, j] == pot * np.sign(strength[i] - strength[j])


@pytest.mark.parametrize(
  ("history", "payoff"), [((2, 0), 1), ((2, 2, 0), -3), ((1, 2, 2, 1, 8, 1, 2, 0), -5)]
)
def test_leduc_poker_folds(history, payoff):
  game = games.make("leduc_poker")
  states = game.state_after(history)[None]
  assert game.actor(states)[0] == games.TERMINAL
  table = game.payoffs()[game.payoff_index(states)[0]] * game.payoff_scale(states)[0]
  assert (table == payoff).all()


def test_leduc_poker_allows_two_raises_a_round_and_no_fold_without_a_bet():
  game = games.make("leduc_poker")
  for history, legal in (
    ((), [1, 2]),
    ((2,), [0, 1, 2]),
    ((2, 2), [0, 1]),
    ((1, 1), [3, 4, 5, 6, 7, 8]),
    ((2, 2, 1, 4), [1, 2]),
  ):
    assert np.flatnonzero(game.legal_actions(game.state_after(history)[None])[0]).tolist() == legal


def test_games_that_take_any_parameter(monkeypatch):
  monkeypatch.setattr(games.registry, "_REGISTRY", {})
  games.register("any", lambda faces=2, **others: games.LiarsDice(num_faces=faces, **others))
  assert games.make("any", faces=3, num_dice=1).num_faces == 3


NEW_FILE = """
from games.registry import register
from games.rules.kuhn_poker import KuhnPoker

register("one_file_more", KuhnPoker)
"""


def test_a_game_is_one_file(tmp_path):
  package = tmp_path / "games"
  shutil.copytree(Path(games.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
  make = "import games; print(games.make('one_file_more').name)"

  def run():
    paths = os.environ | {"PYTHONPATH": str(tmp_path)}
    return subprocess.run(
      [sys.executable, "-c", make], cwd=tmp_path, env=paths, capture_output=True, text=True
    )

  assert "game='one_file_more' is unknown" in run().stderr
  (package / "rules" / "one_file_more.py").write_text(NEW_FILE)
  assert run().stdout.strip() == "kuhn_poker"
