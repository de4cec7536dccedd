"""Bets into who bet last on the round before: against the history, and on trees and lines alike."""

import numpy as np
import pytest

import games
from games.game import CHANCE, TERMINAL
from games.poker import BetSizes, Betting, Deck, Holdem
from games.poker.lines import make_lines
from tests.sentences import refused


def make(donk, board="TsJhQsKh"):
  deck = Deck(ranks="TJQKA", suits="shd")
  cards = deck.parse(board)
  deals = (1,) * (5 - len(cards))
  whole = Holdem(
    deck=deck,
    board=cards,
    deals=deals,
    rules=Betting((400, 400), (10, 10), 2),
    bets=BetSizes.parse("50%,100% / 100% / -", rounds=1 + len(deals), donk=donk),
  )
  return whole.only(whole.beliefs(("AA,KQ", "TT,AJ:0.5")))


def bets_of_pot(game, states, history):
  """Returns the bets after a history as fractions of the pot; None where a player faces one."""
  turn, bets = game.rules.at(states[history]), game.bets_at(states[history]).values()
  paid = turn.highest
  return None if turn.may_fold else [round((to - paid) / (2 * paid), 2) for to in bets]


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
  game = make(donk)
  tree = games.build_public_tree(game)
  histories = [tree.history(n) for n in range(tree.num_nodes)]
  states = dict(zip(histories, np.asarray(tree.state)))
  seen = set()
  for node, history in enumerate(histories):
    if tree.kind[node] in (CHANCE, TERMINAL):
      continue
    bets = bets_of_pot(game, states, history)
    before, acted = last_bettor(game, history)
    leads = before == 1 and not acted  # player 0 acts first
    if bets is not None:
      assert bets == (sizes if leads else [0.5, 1.0])
      seen.add(leads)
  assert seen == {True, False}


def count(game, state):
  """Returns how many lines of betting begin with a state's, the first card dealt after each."""
  actor = int(game.actor(state[None])[0])
  moves = np.flatnonzero(game.legal_actions(state[None])[0]) if actor != TERMINAL else []
  after = [game.next_states(state[None], np.array([move]))[0] for move in moves]
  if actor != CHANCE:
    return 1 + sum(count(game, state) for state in after)
  return (moves[0] != game.burn) + count(game, after[0])


@pytest.mark.parametrize("donk", ["-", None])
def test_lines_have_the_same_bets(donk):
  game = make(donk)
  assert make_lines(game)[0].num_nodes == count(game, game.initial_state())


NO_DONK = BetSizes((((1.0,),),), donk=((),))
test_what_is_refused = refused(
  (lambda: BetSizes.parse("50%", donk="25%"), "donk='25%' is about rounds after the first"),
  (lambda: BetSizes.parse("50%", rounds=2, donk="25% / 2x"), "must hold first bets only"),
  (
    lambda: games.make("turn_endgame_holdem", bets=NO_DONK).templates(),
    "must be None for subgames",
  ),
)
