"""The command `python -m rebel_jax.evaluate`, and what it measures."""

import json
import types

import numpy as np
import pytest

from rebel_jax import evaluate
from rebel_jax.checkpoints.checkpoint import checkpoints_of
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from solvers import GTCFR
from solvers.search import playthroughs
from tests.sentences import run
from tests.tiny import TINY, rows, trained


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


def test_ctrl_c_keeps_whole_parts_of_the_seeds(monkeypatch):
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
