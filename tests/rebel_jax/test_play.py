"""Persons and agents at the table: `rebel_jax.play` by a script, `rebel_jax.match`, its deals."""

import json
import re
import time

import numpy as np
import pytest

import games
from rebel_jax import match as command
from rebel_jax import play
from rebel_jax.agents import agent as agent_module
from rebel_jax.agents import match
from rebel_jax.agents.agent import make_searcher
from rebel_jax.agents.match import SOLVED, PolicyPlayer, play_games, play_match
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import Config
from tests.rebel_jax.test_poker_learning import GAME, TINY
from tests.sentences import run
from tests.tiny import policy_of, trained
from tests.trees import as_policy


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
TINY_POKER = TINY.replace(game_params=tuple((GAME | {"stack": 150}).items()))


def test_a_session():
  answers = ["raise", "help", "why", "bet", "bet", "why", "what", "", *["bet", "bet", ""] * 6]
  text, code = at_the_table(trained(), *COMMAND, "--games", 3, answers=answers)
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
  # Who plays may leave at any time.
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
  answers, flags = [*answers, "why", "quit"], (*COMMAND, "--seat", 0, "--games", 12)
  text, code = at_the_table(untrained(TINY_POKER, monkeypatch), *flags, answers=answers)
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
  spot = ("board", "9hTdQsKhKd", "ranks", "9TJQKA", "suits", "shd", "pot", 100, "stack", 150)
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


HOLDEM = {"ranks": "QKA", "blinds": (50, 100), "stack": 300, "first_to_act": (0, 1)}


def drawn_policy(tree, seed, *, deterministic):
  """Returns a policy drawn at random: one move everywhere, or a mixture."""
  weights = np.random.default_rng(seed).exponential(size=(tree.num_nodes, tree.num_infostates))
  if deterministic:
    best, parent = np.zeros_like(weights), np.maximum(np.asarray(tree.parent), 0)
    np.maximum.at(best, parent[1:], weights[1:])
    weights = (weights == best[parent]).astype(float)
  return as_policy(tree, weights)


@pytest.mark.parametrize(("name", "parameters"), [("kuhn_poker", {}), ("small_holdem", HOLDEM)])
def test_identical_players_who_never_draw_win_exactly_nothing(name, parameters):
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game)
  policy = drawn_policy(tree, 1, deterministic=True)

  def make(seed):
    return PolicyPlayer(tree, policy, seed=seed)

  played = play_games(game, make, make, num_games=60, duplicate=True, seed=3)
  for one, other in zip(played[::2], played[1::2]):
    assert (one.seat, other.seat) == (0, 1)
    assert (one.dealer.infostates, one.dealer.history) == (
      other.dealer.infostates,
      other.dealer.history,
    )
    assert one.payoff == -other.payoff
  assert len({tuple(game.dealer.infostates) for game in played}) > 3
  result = play_match(game, make, make, num_games=60, duplicate=True, seed=3)
  assert (result.mean, result.half_width) == (0, 0)
  # Control: each deal once.
  other = play_match(game, make, make, num_games=60, seed=3)
  assert other.mean != 0
  assert other.half_width > 0


def test_chance_is_the_same_however_the_players_get_there():
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  one, other = (drawn_policy(tree, seed, deterministic=False) for seed in (1, 2))
  played = play_games(
    game,
    lambda seed: PolicyPlayer(tree, one, seed=seed),
    lambda seed: PolicyPlayer(tree, other, seed=seed),
    num_games=120,
    duplicate=True,
  )

  public = 6  # the column of the card
  cards = [
    (x.dealer.state[public], y.dealer.state[public]) for x, y in zip(played[::2], played[1::2])
  ]
  both = [(x, y) for x, y in cards if min(x, y) >= 0]
  assert len(both) > 10
  assert all(x == y for x, y in both)
  assert len(set(both)) > 3
  assert any(x.dealer.history != y.dealer.history for x, y in zip(played[::2], played[1::2]))


def test_one_json_object(capsys):
  flags = (trained(), "uniform", "--hands", 64, "--iterations", 8, "--json")
  out, err, code = run(capsys, command.main, *flags)
  assert code == 0, err
  assert "hands" in err  # progress
  result = json.loads(out)
  assert (result["hands"], result["iterations"], result["duplicate"]) == (64, 8, False)
  assert result["unit"] == "a game"
  assert result["aivat_values"] == SOLVED
  assert result["aivat_half_width"] < result["half_width"]
  assert abs(result["aivat"] - result["mean"]) < result["half_width"] + result["aivat_half_width"]
  again = json.loads(run(capsys, command.main, *flags)[0])
  for key in ("mean", "half_width", "aivat"):
    assert again[key] == result[key]
  assert json.loads(run(capsys, command.main, *flags, "--seed", 5)[0])["mean"] != result["mean"]


def test_ctrl_c_keeps_whole_parts(capsys, monkeypatch):
  monkeypatch.setattr(command, "_PART", 8)
  games_of, parts = match.play_games, iter(range(2))

  def interrupted(*arguments, **settings):
    if next(parts, None) is None:
      raise KeyboardInterrupt
    return games_of(*arguments, **settings)

  monkeypatch.setattr(match, "play_games", interrupted)
  few = (trained(), "uniform", "--hands", 24, "--iterations", 4, "--json")
  out, _, code = run(capsys, command.main, *few)
  assert code == 130
  assert json.loads(out)["hands"] == 16


@pytest.mark.slow
@pytest.mark.parametrize("opponent", ["itself", "always_fold"])
def test_whole_holdem(opponent, capsys, monkeypatch):
  sizes = {"depth": "stage", "hidden_layers": 1, "width": 16}
  config = Config().replace(game="small_holdem", game_params=tuple(HOLDEM.items()), **sizes)
  network = untrained(config, monkeypatch)
  # As of games too large for tables, and for a solution.
  monkeypatch.setattr(agent_module, "made_on_device", lambda *_: True)
  monkeypatch.setattr(match, "_MOST_PAIRS", 0)

  flags = ("--hands", 24, "--iterations", 4, "--duplicate", "--json")
  out, err, code = run(capsys, command.main, network, network, *flags)
  assert code == 0, err
  result = json.loads(out)
  assert "AIVAT" in err  # progress
  assert result["unit"] == "mbb a hand"
  assert result["aivat_values"] == match.SHARES
  bound = result["half_width"] + result["aivat_half_width"]
  assert abs(result["aivat"] - result["mean"]) <= bound
