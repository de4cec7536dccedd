"""`python -m rebel_jax.play`: a person at the table, played by a script."""

import re

import pytest

from rebel_jax import play
from tests.tiny import trained


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
    answers=["raise", "help", "bet", "bet", "why", "what", "", *["bet", "bet", ""] * 6],
  )
  assert code == 0
  assert "'raise' is not a move here" in text
  assert "type why" in text  # help
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


def test_the_same_seed_is_the_same_game():
  answers = ["bet"] * 4
  settings = (trained(), *COMMAND, "--seat", 0)
  assert at_the_table(*settings, answers=answers) == at_the_table(*settings, answers=answers)
  others = {
    at_the_table(trained(), "--iterations", 8, "--seed", s, answers=answers)[0] for s in range(6)
  }
  assert len(others) > 1


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["nowhere"], "checkpoint='nowhere'"),
    ([trained, "--iterations", "7"], "iterations=7"),
    ([trained, "--algorithm", "magic"], "algorithm='magic'"),
    ([trained, "--seat", "2"], "seat=2"),
    ([trained, "--games", "0"], "games=0"),
    ([trained, "--seed", "-1"], "seed=-1"),
    ([trained, "--seed", "x"], "seed='x'"),
    ([trained, "--colour", "red"], "--colour"),
    ([], "checkpoint must be given"),
  ],
)
def test_mistakes_are_named(arguments, message, capsys):
  text, code = at_the_table(*(str(x()) if callable(x) else x for x in arguments), answers=[])
  assert code == 2
  assert text == ""
  err = capsys.readouterr().err
  assert message in err
  assert err.count("\n") == 1
