"""Cards that may change places, against all exchanges that leave every strength alone."""

import itertools

import numpy as np
import pytest

from games.poker import BetSizes, RiverEndgame, TurnEndgame, evaluate
from games.poker.lines import boards

ONE_BET = BetSizes((((1.0,),),), all_in=False, max_raises=1)
RANKS = "9TJQKA"
GAMES = {
  "three suits": lambda: TurnEndgame("9sThKdAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "four suits": lambda: TurnEndgame("TsJhQdAs", ranks="TJQKA", bets=ONE_BET),
  "a pair on the board": lambda: TurnEndgame("9s9hKdAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "two suits alive": lambda: TurnEndgame("TsJhQsAh", ranks="TJQKA", bets=ONE_BET),
  "nothing to merge": lambda: TurnEndgame("9sThKsAh", ranks=RANKS, suits="sh", bets=ONE_BET),
  "one suit on the board": lambda: TurnEndgame("9sTsKsAs", ranks=RANKS, suits="shd", bets=ONE_BET),
  "river": lambda: RiverEndgame("9sThKdAsJs", ranks=RANKS, suits="shdc", bets=ONE_BET),
}


def orbits(game):
  """Returns the orbits of hands under exchanges of two cards that leave all strengths alone."""
  live = [card for card in range(game.deck.num_cards) if card not in game.board]
  seen = np.array(list(itertools.combinations(live, 2 + sum(game.deals))))
  seen = np.concatenate([np.tile(game.board, (len(seen), 1)), seen], axis=1)
  strength = evaluate(game.deck, seen)
  orbit = {hand: {hand} for hand in itertools.combinations(live, 2)}
  for a, b in itertools.combinations(live, 2):
    exchange = np.arange(game.deck.num_cards)
    exchange[[a, b]] = b, a
    if (evaluate(game.deck, exchange[seen]) != strength).any():
      continue
    for hand in orbit:
      joined = orbit[hand] | orbit[tuple(sorted(exchange[list(hand)].tolist()))]
      for member in joined:
        orbit[member] = joined
  return {frozenset(found) for found in orbit.values()}


def classes(game):
  found = boards.alike_hands(game, game.prior(), boards.card_groups(game))
  hands = [tuple(hand) for hand in game.hole_cards.tolist()]
  return {frozenset(hands[h] for h in np.flatnonzero(found == c)) for c in set(found.tolist())}


@pytest.mark.parametrize("name", GAMES)
def test_classes_are_the_orbits_of_hands(name):
  game = GAMES[name]()
  assert classes(game) == orbits(game)
  assert (len(classes(game)) < len(game.hole_cards)) == (name != "nothing to merge")


def test_merging_a_suit_of_a_flush_is_found_out(monkeypatch):
  game = GAMES["river"]()
  monkeypatch.setattr(boards, "dead_suits", lambda deck, *_: np.ones(len(deck.suits), bool))
  assert classes(game) != orbits(game)
