"""Matches of duplicate deals, and the command `python -m rebel_jax.match`."""

import json

import numpy as np
import pytest

import games
from rebel_jax import match as command
from rebel_jax.agents import agent as agent_module
from rebel_jax.agents import match
from rebel_jax.agents.match import SOLVED, PolicyPlayer, play_games, play_match
from rebel_jax.config import Config
from tests.rebel_jax.test_play import untrained
from tests.sentences import run
from tests.tiny import trained
from tests.trees import as_policy

STREETS = Config().replace(
  game="small_holdem",
  game_params=(("ranks", "QKA"), ("blinds", (50, 100)), ("first_to_act", (0, 1)), ("stack", 300)),
  depth="stage",
  hidden_layers=1,
  width=16,
)

HOLDEM = {"ranks": "QKA", "blinds": (50, 100), "stack": 300, "first_to_act": (0, 1)}


def policy_of(tree, seed, *, deterministic):
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
  policy = policy_of(tree, 1, deterministic=True)

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
  one, other = (policy_of(tree, seed, deterministic=False) for seed in (1, 2))
  played = play_games(
    game,
    lambda seed: PolicyPlayer(tree, one, seed=seed),
    lambda seed: PolicyPlayer(tree, other, seed=seed),
    num_games=120,
    duplicate=True,
  )

  def card(history):
    state = game.initial_state()
    for action in history:
      if game.actor(state[None])[0] == games.CHANCE:
        return action
      state = game.next_states(state[None], np.array([action]))[0]
    return None

  cards = [
    (card(x.dealer.history), card(y.dealer.history)) for x, y in zip(played[::2], played[1::2])
  ]
  both = [(x, y) for x, y in cards if x is not None and y is not None]
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
  network = untrained(STREETS, monkeypatch)
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
