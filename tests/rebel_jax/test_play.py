"""`python -m rebel_jax.play`: a person at the table, played by a script."""

import re
import time

from rebel_jax import play
from rebel_jax.agents.agent import make_searcher
from rebel_jax.checkpoints import checkpoint
from tests.rebel_jax.test_poker_learning import TINY as TINY_POKER
from tests.tiny import policy_of, trained


def at_the_table(*arguments, answers):
  """Plays with scripted answers and returns what was printed, and the exit code."""
  waiting, printed = iter(answers), []

  def ask(prompt):
    printed.append(prompt)
    answer = next(waiting, None)
    if answer is None:
      raise EOFError
    return answer

  code = play.main([str(x) for x in arguments], ask=ask, say=lambda x: printed.append(str(x)))
  return "\n".join(printed), code


COMMAND = ("--iterations", 8, "--seed", 1)


def test_a_session():
  text, code = at_the_table(
    trained(),
    *COMMAND,
    *("--games", 3),
    answers=["raise", "help", "why", "bet", "bet", "why", "what", "", *["bet", "bet", ""] * 6],
  )
  assert code == 0
  assert "'raise' is not a move here" in text
  assert "type why" in text  # help
  assert "That is for after the game" in text
  assert "'what' is not understood" in text
  # Its beliefs and its policy, in per cent, after the game.
  assert re.search(r"after bet: you hold .*%.*its policy: .*\d%", text)
  assert text.count("The agent held") == 3
  won = [float(x) for x in re.findall(r"You (?:win|lose|draw) \(([-+\d.]+)\)", text)]
  scores = [float(x) for x in re.findall(r"Score after \d+ games?: you ([-+\d.]+)", text)]
  assert scores == [sum(won[: i + 1]) for i in range(3)]
  assert text.index("You begin.") < text.index("You go second.")


def test_leaving_at_any_time():
  for answers in (["quit"], [], ["bet", "bet", "q"]):
    text, code = at_the_table(trained(), *COMMAND, answers=answers)
    assert code == 0
    assert "Goodbye" in text


def untrained(config, monkeypatch):
  """Returns what `checkpoint.load` finds anywhere from now on."""
  policy = policy_of(config)
  monkeypatch.setattr(checkpoint, "load", lambda name: policy)
  return "untrained"


def test_poker_is_played_in_chips_and_cards(monkeypatch):
  answers = ["call", "bet-to-150", "check", "check", *["call", "check", ""] * 40]
  text, code = at_the_table(
    untrained(TINY_POKER, monkeypatch),
    *COMMAND,
    "--seat",
    0,
    "--games",
    12,
    answers=[*answers, "why", "quit"],
  )
  assert code == 0
  assert "'call' is not a move here; type one of: check bet-to-" in text
  assert re.search(r"You hold [2-9TJQKA][♠♥♦♣] [2-9TJQKA][♠♥♦♣]\.", text)
  table = r"board .[♠♥♦♣]( .[♠♥♦♣]){3,4}, pot (\d+), your stack (\d+), the agent's (\d+)"
  assert {int(pot) + int(own) + int(other) for _, pot, own, other in re.findall(table, text)} == {
    sum(TINY_POKER.make_game().rules.stacks)
  }
  assert "Chance: burn" not in text
  assert "The blinds" not in text  # of an endgame there are none
  assert re.search(r"  You have (a |two |three |four |high )", text)
  assert re.search(r"Chance: deal [2-9TJQKA][♠♥♦♣]", text)
  # What is won was paid by the other player, and nobody wins more than a stack.
  won = [float(x) for x in re.findall(r"You (?:win|lose|draw) \(([-+\d.]+)\)", text)]
  assert len(won) >= 8
  assert all(abs(x) <= dict(TINY_POKER.game_params)["stack"] for x in won)


def test_a_solved_spot_answers_bets_of_any_size():
  spot = ("board", "9hTdQsKhKd", "ranks", "9TJQKA", "suits", "shd", "pot", 100, "stack", 400)
  text, code = at_the_table(
    "river_endgame_holdem",
    *("--iterations", 40, "--seed", 3, "--seat", 0, "--games", 2, "--game-params", *spot),
    *("big_blind", 20),
    answers=["help", "9", "1000", "133", *["call", "check", "fold"] * 3, "", "133", *["call"] * 6],
  )
  assert code == 0
  assert "A number bets or raises until so many of your chips are in" in text
  assert "bet=9 is below the minimum" in text
  assert "bet=1000 is more than the smaller stack" in text
  assert text.count("The agent held") == 2


def test_silence_is_broken_and_long_lines_are_wrapped_between_words(capsys, monkeypatch):
  monkeypatch.setattr(play, "_SILENCE", 0.05)
  said = []
  table = play.Terminal(make_searcher(checkpoint.load(trained())).agent(), input, said.append, None)
  with table.patience():
    time.sleep(0.2)
  with table.patience():
    pass
  assert [words.split(";")[0] for words in said] == ["The agent thinks"]
  play._say("word " * 40 + "\nshort")
  lines = capsys.readouterr().out.splitlines()
  assert [len(line) for line in lines] == [79, 79, 39, 5]
