"""Who plays in chips: simple opponents, players of trees, and matches between them."""

import numpy as np
import pytest

import games
from games.poker import CALL, FIRST_BET, map_bet
from rebel_jax import acpc as command
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.match import SimplePlayer, UniformPlayer
from rebel_jax.evaluation.opponents import OPPONENTS
from rebel_jax.tables import players as seats
from rebel_jax.tables.chips import (
  Call,
  Deal,
  RaiseTo,
  hands_of,
  make_rules,
  play_chip_match,
  play_hand,
)
from rebel_jax.tables.players import TreePlayer, make_chip_player
from tests.chip_hands import AlwaysCall, AlwaysFold, PotManiac, Uniform
from tests.sentences import sentence_of
from tests.tiny import TINY, policy_of

# Two rounds from blinds of 50 and 100, the larger one first in the second.
GAME = dict(ranks="JQKA", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=1_000)


def game_of(**changes):
  return games.make("small_holdem", **(GAME | dict(bets=(1.0,)) | changes))


def test_a_raise_becomes_the_nearest_of_the_tree_or_a_smaller():
  game = game_of(bets=(0.5, 2.0))
  (half, low), (twice, high), *_ = game.bets_at(game.initial_state()).items()
  player = SimplePlayer(game, "uniform")
  player.start(0, 0)
  for wish, action in ((low, half), ((low + high) // 2, half), (high - 1, twice)):
    player._wish = lambda *_, wish=wish: wish
    assert player.act().action == action


def test_hands_worked_out():
  rules = make_rules(stack=1_000)
  hand = next(hands_of(rules, num_hands=2))
  # The small blind folds to nothing but a bet, and it faces one at once.
  assert play_hand([AlwaysFold(rules), AlwaysCall(rules)], rules, hand).payoffs() == (-50, 50)
  assert play_hand([AlwaysCall(rules), AlwaysFold(rules)], rules, hand).turn.paid == (100, 100)
  # Pot after pot: 300, 900, all-in; the other folds to the first, or calls.
  assert play_hand([PotManiac(rules), AlwaysFold(rules)], rules, hand).payoffs() == (100, -100)

  assert play_hand([PotManiac(rules), PotManiac(rules)], rules, hand).events[:4] == [
    RaiseTo(300), RaiseTo(900), RaiseTo(1_000), Call(),
  ]  # fmt: skip


@pytest.mark.parametrize("name", OPPONENTS)
def test_opponents_move_legally_and_as_their_seed_says(name):
  rules = make_rules(stack=1_500)

  def match(seed):
    both = [
      make_chip_player(name, rules=dict(stack=1_500), seed=seed),
      Uniform(rules, seed=9),
    ]
    return play_chip_match(both, rules, num_hands=20, seed=2)

  assert match(1) == match(1)
  if name in ("uniform", "equity_threshold"):
    assert match(1) != match(2)


def test_duplicate_hands_take_out_luck():
  rules = make_rules(stack=2_000)
  one = play_chip_match([AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=20)
  assert (one.mean, one.half_width) == (0, 0)  # the same play wins from both seats what it loses
  other = play_chip_match(
    [AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=20, duplicate=False
  )
  assert other.half_width > 0
  with pytest.raises(ValueError, match="num_hands=3 must be even"):
    play_chip_match([AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=3)


class Checked(UniformPlayer):
  """A uniform player who is told legal actions alone; burns are among those of chance."""

  def observe(self, action, infostate=None):
    assert self.game.legal_actions(self._state[None])[0, action]
    super().observe(action, infostate)


def payoffs_of_the_tree(game, player, hole_cards):
  """Returns what the tree says of the hand that `player` followed, to both seats."""
  assert game.actor(player._state[None])[0] == games.TERMINAL
  held = [game.infostate(game.deck.names(cards)) for cards in hole_cards]
  won = game.payoff(player._state, held)
  return won, -won


@pytest.mark.parametrize(
  "changes",
  [
    dict(ranks="9TJQKA", suits="shd", deals=(3, 1), bets="hunl", stack=3_000),
    dict(blinds=(100, 50), first_to_act=(1, 0)),
  ],
)
def test_the_hand_of_the_tree_is_the_hand_at_the_table(changes):
  game = game_of(**changes)
  rules = game
  both = [TreePlayer(game, Checked(game, seed=seed)) for seed in (1, 2)]
  wrong, ends = 0, set()
  for hand in hands_of(rules, num_hands=60, seed=1):
    table = play_hand(both, rules, hand)
    assert not both[0].lost
    assert (both[0]._state == both[1]._state).all()
    assert payoffs_of_the_tree(game, both[0], hand.hole_cards) == table.payoffs()
    ends.add((table.turn.folded, table.turn.round, table.turn.highest == rules.rules.stack))
    exchanged = payoffs_of_the_tree(game, both[0], hand.hole_cards[::-1])
    wrong += exchanged != table.payoffs()
  assert wrong > 0  # the control: with each other's cards
  assert len(ends) >= 5


class Scripted:
  """A player of the tree that makes given moves and remembers what it was told."""

  def __init__(self, *moves):
    self.moves, self.seen = list(moves), []

  def start(self, player, infostate):
    self.held = player, infostate

  def observe(self, action, infostate=None):
    self.seen.append(action)

  def act(self):
    return Move(self.moves.pop(0), self.held[1])


def seat(player_of_tree, *, seat=1, off_tree="nearest", seed=0, **changes):
  """Returns a player of the tree in a seat, with a hand."""
  game = game_of(**changes)
  player = TreePlayer(game, player_of_tree, off_tree=off_tree, seed=seed)
  player.start(seat, game.deck.parse("AsKh"))
  return player


BETS = dict(bets=(0.5, 1.0), stack=2_000)  # to 200, 300 or all-in at first


def test_bets_off_the_tree_are_taken_for_the_nearest():
  for chips, number in ((200, 0), (249, 0), (251, 1), (1_149, 1), (1_151, 2), (2_000, 2)):
    script = Scripted(CALL)
    player = seat(script, **BETS)
    player.observe(RaiseTo(chips))
    assert script.seen == [FIRST_BET + number]
    assert player.act() == Call()


def test_bets_off_the_tree_may_be_mapped_at_random():
  counts = np.zeros(3)
  for seed in range(400):
    script = Scripted()
    player = seat(script, off_tree="map", seed=seed, **BETS)
    player.observe(RaiseTo(240))
    counts[script.seen[0] - FIRST_BET] += 1
  expected = map_bet(140 / 200, [0.5, 1.0, 9.5])
  assert counts[2] == 0
  assert counts / 400 == pytest.approx(expected, abs=0.08)


def test_own_sizes_are_shares_of_the_pot_at_the_table():
  # A bet to 240 is taken for one to 200; the tree then raises by the pot, to 600, and the table by
  # its own, to 720.
  script = Scripted(FIRST_BET + 1)
  player = seat(script, **BETS)
  player.observe(RaiseTo(240))
  assert player.act() == RaiseTo(720)
  player.observe(RaiseTo(720))
  assert script.seen == [FIRST_BET, FIRST_BET + 1]
  # The other's call and the card are the same in both; the tree burns a card where it must.
  player.observe(Call())
  player.observe(Deal(player.rules.deck.parse("Qs")))
  assert script.seen[2] == CALL
  assert (
    player.game.describe([FIRST_BET, FIRST_BET + 1, CALL, *script.seen[3:-1]], script.seen[-1])
    == "deal Qs"
  )
  assert not player.lost


def test_a_tree_without_all_in_is_left_where_the_table_is_all_in():
  # All-in is taken for half the pot. The tree's raise cannot be made, and the table's cards come.
  script = Scripted(FIRST_BET)
  sizes = games.poker.BetSizes((((0.5,),),), all_in=False)
  player = seat(script, bets=sizes, stack=2_000)
  player.observe(RaiseTo(2_000))
  assert player.act() == Call()
  player.observe(Call())
  assert not player.lost
  player.observe(Deal(player.rules.deck.parse("Qs")))
  assert player.lost
  assert script.seen == [FIRST_BET, FIRST_BET]
  assert player.table.is_over
  player.start(0, (0, 1))
  assert not player.lost


ONE_SIZE = games.poker.BetSizes((((0.5,),),), all_in=False, max_raises=1)


@pytest.mark.parametrize(("off_tree", "bets"), [("nearest", "hunl"), ("map", ONE_SIZE)])
def test_any_bets_are_answered_legally(off_tree, bets):

  game = game_of(bets=bets, stack=1_700)
  rules = game
  player = TreePlayer(game, Checked(game, seed=1), off_tree=off_tree, seed=2)
  for other in (Uniform(rules, seed=3), PotManiac(rules)):
    play_chip_match([player, other], rules, num_hands=60, seed=4)  # raises on an illegal move


# Agents of networks.

CONFIG = TINY.replace(
  game="small_holdem", game_params=tuple((GAME | dict(ranks="QKA", stack=300)).items()), depth=4
)


def test_an_agent_that_searches_sits_down(monkeypatch):
  policy = policy_of(CONFIG)
  monkeypatch.setattr(seats.checkpoint, "load", lambda name: policy)

  def match(seated):
    assert seated.rules.rules == CONFIG.make_game().rules
    return play_chip_match([seated, Uniform(seated.rules, seed=2)], seated.rules, num_hands=6)

  # The command lets it compile before it connects; else it plays as any other of its seed.
  alone = make_chip_player("runs/mine", iterations=4, seed=1)
  alone.warm_up()
  connected = []

  def connect(player, rules, host, port, **timeouts):
    connected.append((host, port))
    return match(player)

  monkeypatch.setattr(command, "play_acpc", connect)
  options = command.Options("runs/mine", "there", 7, iterations=4, seed=1)
  assert command.play(options) == match(alone)
  assert connected == [("there", 7)]

  for other in (dict(rules=dict(stack=300)), dict(simulations=4)):
    assert "for run='runs/mine'" in sentence_of(make_chip_player, "runs/mine", **other)
