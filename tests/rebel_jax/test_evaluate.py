"""The command `python -m rebel_jax.evaluate`, what it measures, and the networks that ship."""

import json
import shlex
import types

import numpy as np
import pytest

import games
import rebel_jax
import solvers
from benchmarks.maintenance import pretrained
from benchmarks.maintenance.pretrained import command_of
from games.poker import betting
from games.poker.betting import CALL, FOLD
from games.poker.cards import strengths_on
from rebel_jax import evaluate
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import checkpoints_of
from rebel_jax.config.presets import get_preset
from rebel_jax.evaluation import evaluator, hands_evaluator
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator, favourites
from rebel_jax.evaluation.opponents import LADDER, MEASURED, OPPONENTS, likes
from rebel_jax.networks.poker import ShownValues, Table
from rebel_jax.training import setup
from solvers import GTCFR, LeafQuery
from solvers.search import playthroughs
from solvers.sweeps.levels import join_levels
from tests.rebel_jax.test_poker_learning import TINY as TINY_POKER
from tests.sentences import run
from tests.tiny import TINY, rows, trained, untrained


def test_one_json_object_that_agrees_with_the_run(capsys):
  final = rows(trained())[-1]
  same = ["--playthroughs", final["playthroughs"], "--iterations", final["iterations"]]
  same += ["--seed", TINY.seed + final["step"], "--unsafe", "--json"]
  out, err, code = run(capsys, evaluate.main, trained(), *same)
  assert code == 0
  assert out.count("\n") == 1
  result = json.loads(out)
  for key in ("exploitability", "playthroughs", "iterations", "exploitability_average_policy"):
    assert result[key] == final[key], key
  assert result["seconds"] > 0
  assert result["step"] == 8
  assert "playthroughs" in err
  assert "searches" in err

  # A folder in checkpoints/ is that checkpoint; another seed samples other playthroughs.
  oldest = checkpoints_of(trained())[0]
  other = json.loads(run(capsys, evaluate.main, oldest, *same)[0])
  assert other["checkpoint"] == str(oldest)
  assert other["exploitability"] != final["exploitability"]
  # Three playthroughs of eight iterations: not every seed has others.
  others = {
    json.loads(run(capsys, evaluate.main, trained(), *same, "--seed", seed)[0])["exploitability"]
    for seed in range(90, 106)
  }
  assert others - {final["exploitability"]}


def test_an_evaluation_that_was_cut_short_goes_on(capsys, monkeypatch, tmp_path):
  monkeypatch.setattr(playthroughs, "_MAX_FRONTIER", 4)  # batches of two
  settings = ["--iterations", 8, "--seed", 3, "--json"]
  whole = json.loads(run(capsys, evaluate.main, trained(), "--playthroughs", 6, *settings)[0])
  assert [count for count, _ in whole["course"]] == [2, 4, 6]
  assert whole["course"][-1][1] == whole["exploitability"]
  assert len({value for _, value in whole["course"]}) == 3

  kept = tmp_path / "kept.npz"
  settings += ["--keep", kept]
  first = json.loads(run(capsys, evaluate.main, trained(), "--playthroughs", 4, *settings)[0])
  assert first["exploitability"] == whole["course"][1][1]
  again = json.loads(run(capsys, evaluate.main, trained(), "--playthroughs", 6, *settings)[0])
  assert again["exploitability"] == whole["exploitability"]
  assert [count for count, _ in again["course"]] == [6]
  # It has more than that already.
  again = json.loads(run(capsys, evaluate.main, trained(), "--playthroughs", 2, *settings)[0])
  assert (again["playthroughs"], again["exploitability"]) == (6, whole["exploitability"])

  # Another search, seed or network is not taken for the same.
  for change, name in (
    (["--iterations", 16], "iterations=8"),
    (["--seed", 4], "seed=3"),
    (["--keep", tmp_path / "missing" / "kept.npz"], "must be a file that can be written"),
  ):
    _, err, code = run(capsys, evaluate.main, trained(), "--playthroughs", 4, *settings, *change)
    assert code == 2
    assert name in err
  _, err, code = run(
    capsys, evaluate.main, checkpoints_of(trained())[0], "--playthroughs", 4, *settings
  )
  assert code == 2
  assert "network=" in err


def test_trajectories_are_averaged(capsys, tmp_path):
  some = [trained(), "--playthroughs", 32, "--iterations", 64, "--json", "--trajectories"]
  found = json.loads(run(capsys, evaluate.main, *some, 3, "--keep", tmp_path / "kept")[0])
  numbers, values = zip(*found["course"])
  assert numbers == (1, 2, 3)
  assert found["trajectories"] == 3
  assert found["exploitability"] == pytest.approx(np.mean(values))
  assert found["exploitability_spread"] == pytest.approx(np.std(values, ddof=1))
  assert sorted(x.name for x in tmp_path.iterdir()) == ["kept-1", "kept-2", "kept-3"]
  assert json.loads(run(capsys, evaluate.main, *some, 1)[0])["exploitability_spread"] is None


def test_ctrl_c_keeps_whole_parts_of_the_seeds(cpu, monkeypatch):
  evaluator = object.__new__(ChainEvaluator)
  growing = types.SimpleNamespace(final_playthroughs=10)
  evaluator._config, evaluator.search = types.SimpleNamespace(growing=growing), GTCFR()
  rules = types.SimpleNamespace(num_infostates=3)
  evaluator.ground = types.SimpleNamespace(rules=rules)
  shown = []

  def of_seeds(params, seeds, progress):
    if 9 in seeds:
      raise KeyboardInterrupt
    progress(1, 2)
    return {"score": [float(seed) for seed in seeds]}

  monkeypatch.setattr(evaluator, "of_seeds", of_seeds)
  with pytest.raises(KeyboardInterrupt) as caught:
    evaluator.measure(None, 5, show=lambda *x: shown.append(x[1:3]))
  (measured,) = caught.value.args
  assert measured.course == [5.0, 6.0, 7.0, 8.0]
  assert (measured.row["seeds"], measured.row["score_mean"]) == (4, 6.5)
  assert shown == [(1, 5)]
  shown.clear()
  assert evaluator.measure(None, 20, show=lambda *x: shown.append(x[1:3])).row["score_max"] == 29.0
  shares = [done / total for done, total in shown]
  assert shares == sorted(shares)
  assert shares[-1] == 9 / 10  # half of the last two seeds is done


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_prints_the_playthroughs_so_far(late, capsys, monkeypatch):
  monkeypatch.setattr(playthroughs, "_MAX_FRONTIER", 4)  # batches of two
  course = Evaluator.course

  def interrupted(self, *arguments, **settings):
    if not late:
      yield next(course(self, *arguments, **settings))
    raise KeyboardInterrupt

  def interrupted_at_once(*_, **__):
    raise KeyboardInterrupt

  if late:  # after the playthroughs
    monkeypatch.setattr(Evaluator, "exploitability", interrupted_at_once)
  else:
    monkeypatch.setattr(Evaluator, "course", interrupted)
  few = [trained(), "--iterations", 8, "--seed", 3, "--json", "--playthroughs", 2 if late else 6]
  out, _, code = run(capsys, evaluate.main, *few, *["--unsafe"] * late)
  found = json.loads(out)
  assert (code, found["playthroughs"], found["interrupted"]) == (130, 2, True)
  assert late or found["course"] == [[2, found["exploitability"]]]


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


def test_opponents_do_as_they_are_called(river):
  game, tree = river
  rules = solvers.contrib.LBRRules(("CP",))
  taken = moves(tree, "pot_maniac")
  expected = {node: {rules.moves(game, np.asarray(tree.state)[node])[-1]} for node in taken}
  assert taken == expected
  assert len({action for actions in taken.values() for action in actions}) > 3
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


def test_ctrl_c_keeps_the_hands_so_far(cpu, monkeypatch):
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
  game_params = tuple((dict(TINY_POKER.game_params) | {"stack": 200}).items())  # one bet is all-in
  policy = untrained(TINY_POKER.game, game_params, depth="stage")
  monkeypatch.setattr(checkpoint, "load", lambda name: policy)
  for module in (setup, evaluator):
    monkeypatch.setattr(module, "made_on_device", lambda config, game: True)
  few = "--playthroughs", 2, "--iterations", 4, "--json"
  found = json.loads(run(capsys, evaluate.main, "any", "--ladder", "--against", "it", *few)[0])
  assert found["against"] == policy.about["checkpoint"]
  assert all(found[f"won_mbb_{name}_interval"] > 0 for name in LADDER)
  assert len({found[f"won_mbb_{name}"] for name in LADDER}) == len(LADDER)
  assert found["won_mbb_always_fold"] > 0
  assert abs(found["won_mbb_against"]) < 1e-3  # itself


@pytest.mark.parametrize("name", rebel_jax.pretrained())
def test_it_says_where_it_comes_from(name):
  policy = rebel_jax.load_pretrained(name)
  about, measured = policy.about, policy.about["measured"]
  if policy.config.grows:
    assert 0 <= measured["exploitability_min"] <= measured["exploitability_mean"]
    assert measured["seeds"] >= 8
  elif "hands" in measured:
    for opponent in MEASURED:
      assert measured[f"won_mbb_{opponent}"] > measured[f"won_mbb_{opponent}_interval"] > 0
  else:
    assert measured["exploitability"] > 0
    assert measured["playthroughs"] >= 256
  assert about["command"].startswith("python train.py --preset ")
  commit = about["environment"]["git_commit"]
  assert len(commit) == 40, "trained with changes that are in no commit"
  assert (pretrained._FOLDER / name / "about.json").is_file()  # where another would be shipped
  assert len(about["checksum"]) == 64  # which its reader compares


def test_its_command_is_read_as_its_configuration():
  config = get_preset("kuhn_poker").replace(
    level_values=True,
    share_start=False,
    learning_rate=0.02,
    game_params=(),
    max_seconds=None,
    eval_algorithm="discounted_cfr(beta=0.5, gamma=4)",
  )
  python, program, *flags = shlex.split(command_of(config))
  assert (python, program) == ("python", "train.py")
  assert cli.parse(flags).config == config


@pytest.mark.slow
def test_an_agent_may_search_otherwise_than_its_run(monkeypatch, tmp_path):
  monkeypatch.setattr(pretrained, "_FOLDER", tmp_path)
  other = "discounted_cfr(beta=0.5,gamma=4)"
  small = {"playthroughs": 64, "iterations": 64}  # of fewer the figures may agree by chance
  pretrained.main(str(trained()), "tiny", **small, command="two commands")
  many: dict = {"trajectories": 2, "algorithm": other}
  pretrained.main(str(trained()), "other", **small, **many)
  plain, changed = (
    rebel_jax.checkpoints.checkpoint.load_pretrained(name, tmp_path / name)
    for name in ("tiny", "other")
  )
  assert changed.config.search.eval_algorithm == changed.about["measured"]["algorithm"] == other
  assert plain.config.search.eval_algorithm == plain.about["measured"]["algorithm"] != other
  assert changed.about["measured"]["exploitability"] != plain.about["measured"]["exploitability"]
  assert changed.about["measured"]["trajectories"] == 2
  assert changed.about["measured"]["exploitability_spread"] > 0
  assert plain.about["command"] == "two commands"
  with pytest.raises(SystemExit, match="not allowed with --own"):
    pretrained.main(str(trained()), "tiny", algorithm=other, own=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", rebel_jax.pretrained())
def test_measured_again(name):
  policy = rebel_jax.load_pretrained(name)
  measured = policy.about["measured"]
  if policy.config.grows:
    (found,) = ChainEvaluator(policy.config).of_seeds(policy.params, (1,))["exploitability"]
    assert found <= measured["exploitability_max"] * 1.5
    return
  if "hands" in measured:
    few = {"final_playthroughs": 256, "final_iterations": measured["iterations"]}
    again = HandsEvaluator(policy.config.replace(**few)).measure(policy.params, 1).row
    for name in (f"won_mbb_{opponent}" for opponent in MEASURED):
      spread = again[f"{name}_interval"] + measured[f"{name}_interval"]
      assert abs(again[name] - measured[name]) < 1.5 * spread
    return
  few = {"playthroughs": 64, "iterations": measured["iterations"]}
  found = Evaluator(policy.config).exploitability(policy.params, **few)
  # With fewer playthroughs the average is less even; poker counts in chips.
  assert found < measured["exploitability"] * 1.5 + 0.03


@pytest.mark.slow
def test_an_agent_that_looks_twice_as_far_leaves_less_to_exploit():
  policy = rebel_jax.load_pretrained("liars_dice_1x4f")
  two, three, four = (
    Evaluator(policy.config.replace(depth=depth)).exploitability(
      policy.params, playthroughs=64, iterations=1024
    )
    for depth in (2, 3, 4)
  )
  assert four < two / 5
  assert three > two  # control: its leaves are none of training's
