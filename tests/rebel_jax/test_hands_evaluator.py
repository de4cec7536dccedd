"""What agents of large games win from simple players: who these are, and what a row says."""

import json
import types

import numpy as np
import pytest

import games
import solvers
from games.poker import betting
from games.poker.betting import CALL, FOLD
from games.poker.cards import strengths_on
from rebel_jax import evaluate
from rebel_jax.checkpoints import checkpoint
from rebel_jax.evaluation import evaluator, hands_evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator, favourites
from rebel_jax.evaluation.opponents import LADDER, MEASURED, OPPONENTS, likes
from rebel_jax.networks.poker import ShownValues, Table
from rebel_jax.training import setup
from solvers import LeafQuery
from solvers.sweeps.levels import join_levels
from tests.rebel_jax.test_poker_learning import TINY
from tests.sentences import run
from tests.tiny import untrained


@pytest.fixture(scope="module")
def river():
  """Bets of many sizes, numbered otherwise after each raise."""
  game = games.make(
    "river_endgame_holdem", board="9sTsJsQsQh", ranks="89TJQ", suits="sh", bets="hunl", stack=9_000
  )
  return game, games.build_public_tree(game)


def moves(tree, opponent):
  """Returns which actions an opponent may take at each decision, by node."""
  policy = join_levels(favourites(tree, likes(tree)[list(OPPONENTS).index(opponent)]))[:, 0]
  found = {}
  for child in np.flatnonzero((np.asarray(tree.parent) >= 0) & (np.asarray(policy) > 0)):
    found.setdefault(int(tree.parent[child]), set()).add(int(tree.action[child]))
  return {node: taken for node, taken in found.items() if tree.kind[node] < games.CHANCE}


def test_the_pot_is_raised_after_every_raise(river):
  game, tree = river
  rules = solvers.contrib.LBRRules(("CP",))
  taken = moves(tree, "pot_maniac")
  expected = {node: {rules.moves(game, np.asarray(tree.state)[node])[-1]} for node in taken}
  assert taken == expected
  assert len({action for actions in taken.values() for action in actions}) > 3


def test_the_others_do_as_they_are_called(river):
  game, tree = river
  assert set.union(*moves(tree, "always_call").values()) == {CALL}
  for node, taken in moves(tree, "always_fold").items():
    facing = bool(game.rules.may_fold(np.asarray(tree.state)[node][None])[0])
    assert taken == {FOLD if facing else CALL}
  for node, taken in moves(tree, "uniform").items():
    assert len(taken) == game.legal_actions(np.asarray(tree.state)[node][None])[0].sum()


def test_hands_shown_now_win_what_both_paid(river):
  game, _ = river
  state, values = game.initial_state()[None], ShownValues(Table.of(game))
  beliefs = np.asarray(game.prior(), np.float32)[None]
  query = LeafQuery(game.features(state, 0).astype(np.float32), 0, beliefs)
  won = np.asarray(values(None, query))[0]
  strength = strengths_on(game.deck, game.hole_cards, np.array(game.board))
  paid = int(state[0, betting.PAID_0])
  np.testing.assert_allclose(won[strength == strength.max()], paid, rtol=1e-5)
  assert (won < paid * 0.99).sum() == (strength < strength.max()).sum() > 3
  assert abs(won.sum()) < 1e-3 * paid


def test_ctrl_c_keeps_the_hands_so_far(monkeypatch):
  evaluator = object.__new__(HandsEvaluator)
  evaluator.game = types.SimpleNamespace(rules=types.SimpleNamespace(big_blind=100))
  search = types.SimpleNamespace(final_playthroughs=100, final_iterations=2)
  evaluator._search, evaluator._opponents = None, MEASURED
  evaluator._config = types.SimpleNamespace(rebel=search)

  def run_ahead(play, jobs, **_):
    yield from ((job, np.full(64, float(i))) for i, job in enumerate(jobs[:3]))
    raise KeyboardInterrupt

  monkeypatch.setattr(hands_evaluator, "run_ahead", run_ahead)
  with pytest.raises(KeyboardInterrupt) as caught:
    evaluator.measure(None, 0)
  (measured,) = caught.value.args
  row = {name: x for name, x in measured.row.items() if "interval" not in name}
  assert row == {"hands": 64, "iterations": 2, "won_mbb_always_call": 5.0, "won_mbb_uniform": 20.0}


def test_the_command_climbs_the_ladder(monkeypatch, capsys):
  policy = untrained(TINY.game, TINY.game_params, depth="stage")
  monkeypatch.setattr(checkpoint, "load", lambda name: policy)
  for module in (setup, evaluator):
    monkeypatch.setattr(module, "made_on_device", lambda config, game: True)
  few = "--playthroughs", 2, "--iterations", 4, "--json"
  found = json.loads(run(capsys, evaluate.main, "any", "--ladder", *few)[0])
  assert all(found[f"won_mbb_{name}_interval"] > 0 for name in LADDER)
  assert len({found[f"won_mbb_{name}"] for name in LADDER}) == len(LADDER)
  assert found["won_mbb_always_fold"] > 0
