"""What the studies of poker read and draw; what they measure is in docs/results/poker.md."""

import dataclasses

import numpy as np
import pytest

from benchmarks import poker
from benchmarks.studies import poker as poker_study
from games.poker import Deck


@pytest.fixture
def endgame(tmp_path):
  """A file in the format of Libratus's endgames: two hands against all."""
  deck = Deck()
  every = [deck.names(hand) for hand in deck.hole_cards()]
  reach = np.zeros((2, len(every)))
  reach[0, every.index("KsAs")] = 0.75
  reach[0, every.index("2s2h")] = 0.25
  reach[1] = 1e-3
  path = tmp_path / "river.txt"
  numbers = " ".join(repr(float(x)) for x in reach.reshape(-1))
  path.write_text(f"-round 4\n-board 4s8hTc9h2d\n-pot 500\n-reach {numbers}\n")
  return path


def test_endgames_are_read_as_they_are_written(endgame):
  game, beliefs = poker_study.read_endgame(endgame)
  assert game.deck.names(game.board) == "4s8hTc9h2d"
  assert game.rules.paid == (250, 250)
  assert game.rules.stacks == (20_000, 20_000)
  assert beliefs[0, game.infostate("AsKs")] == 0.75
  assert beliefs[0, game.infostate("2s2h")] == 0.25
  np.testing.assert_allclose(beliefs[1], 1 / 1081)  # the board's hands have no weight
  bets = [game.describe((), action) for action in (1, 2, 3, 4)]
  assert bets == ["check", "bet to 500", "bet to 750", "bet to 20000 (all-in)"]
  assert game.describe((2,), 2) == "raise to 1500"  # later raises are the pot or all-in


@pytest.mark.slow
def test_a_flop_of_few_hands():
  small = dataclasses.replace(poker.FLOP, oop="AA,KQs", ip="QQ,AKs", ranks="9TJQKA", board="TsJs9h")
  found = poker.flop("float16", small, target=20.0)
  assert found["percent_of_pot"] <= 20
  assert found["boards"] > 100
  assert found["processor_seconds"] > 0
