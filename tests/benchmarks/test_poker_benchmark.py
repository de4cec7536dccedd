"""What the studies of poker read and draw; what they measure is in docs/results/poker.md."""

import dataclasses
import json

import numpy as np
import pytest

import games
from benchmarks import poker
from benchmarks.studies import poker as poker_study
from benchmarks.studies import poker_learning
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


def test_random_rivers_differ():
  made, beliefs = poker.random_rivers(6)
  assert len({game.board for game in made}) == 6
  assert len({game.rules.paid for game in made}) == 6
  assert beliefs.shape == (6, 2, 1081)
  np.testing.assert_allclose(beliefs.sum(axis=2), 1)
  again, _ = poker.random_rivers(6)
  assert [game.board for game in again] == [game.board for game in made]


def test_unknown_bets_end_with_a_sentence():
  with pytest.raises(SystemExit, match="bets='huge' is unknown; known: teh, teh_one_bet"):
    poker.main(poker.Options("update", bets="huge"))
  with pytest.raises(SystemExit, match="bets='huge' is unknown"):
    poker.main(poker.Options("ranges", bets="huge"))
  with pytest.raises(SystemExit, match="--folder must name"):
    poker_study.main(poker_study.Options("libratus"))


def test_curves_that_were_printed_are_drawn(tmp_path):
  pytest.importorskip("matplotlib")
  row = {"benchmark": "poker.libratus", "endgame": "river", "board": "4s8hTc9h2d"}
  row |= {"algorithm": "CFR", "iterations": [4, 8], "pot": [0.5, 0.25], "mbb": [2_500, 1_250]}
  other = {"benchmark": "poker.rivers", "rivers": 3}
  lines, nothing = tmp_path / "lines.json", tmp_path / "nothing.json"
  lines.write_text(f"{json.dumps(row)}\n{json.dumps(other)}\n")
  nothing.write_text(json.dumps(other))
  images = tmp_path / "images"
  poker_study.main(poker_study.Options("draw", lines=(lines,), images=images))
  assert [path.name for path in images.iterdir()] == ["poker_libratus_river.png"]
  with pytest.raises(SystemExit, match="hold no poker.figure5 or poker.libratus"):
    poker_study.main(poker_study.Options("draw", lines=(nothing,), images=tmp_path))


def test_figure_2_is_drawn_from_what_was_printed(tmp_path):
  pytest.importorskip("matplotlib")
  rows = [
    {"benchmark": "poker_learning", "variant": name, "iterations": number, "pot": 1 / number}
    for name in ("tabular Linear CFR", *poker_learning.VARIANTS)
    for number in (64, 16)
  ]
  lines, figure = tmp_path / "lines.json", tmp_path / "images" / "figure.png"
  lines.write_text("\n".join(json.dumps(row) for row in rows))
  poker_learning.main(["draw", "--lines", str(lines), "--figure", str(figure)])
  assert figure.stat().st_size > 1_000
  lines.write_text(json.dumps({"benchmark": "poker.update"}))
  with pytest.raises(SystemExit, match="hold no poker_learning"):
    poker_learning.main(["draw", "--lines", str(lines), "--figure", str(figure)])


def test_figure_2_is_about_holdem():
  with pytest.raises(SystemExit, match="preset='kuhn_poker' must be a preset of hold'em"):
    poker_learning.main(["tabular", "--preset", "kuhn_poker"])


def test_a_flop_of_few_hands():
  small = dataclasses.replace(poker.FLOP, oop="AA,KQs", ip="QQ,AKs", ranks="9TJQKA", board="TsJs9h")
  found = poker.flop("float16", small, target=20.0)
  assert found["percent_of_pot"] <= 20
  assert found["boards"] > 100
  assert found["processor_seconds"] > 0


def test_ranges_hold_as_many_hands_as_they_say():
  game = games.make("turn_endgame_holdem")
  beliefs = poker.overlapping_ranges(game, (167, 250), 270)
  assert (beliefs > 0).sum(axis=1).tolist() == [167, 250]
  assert game.only(beliefs).num_infostates == 270
