"""Runs of searches that grow trees: what is learned, how they are measured and go on."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import rebel_jax
from rebel_jax import evaluate
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import divergence
from tests import harness
from tests.rebel_jax.test_deep_cfr import TINY as DEEP
from tests.sentences import refused
from tests.tiny import TINY_GROWING, TINY_PERFECT, rows, trained

TINY = TINY_GROWING.replace(alternating=True, mix=0.5)
RUNS = {"growing": TINY, "perfect": TINY_PERFECT, "deep": DEEP}


def of(kind):
  """Returns the folder of a finished run of growing searches."""
  return trained(kind, RUNS[kind])


def test_a_run_learns_kuhn_poker():
  final = rows(of("growing"))[-1]
  assert final["seeds"] == 3
  assert final["exploitability_min"] <= final["exploitability_mean"] <= final["exploitability_max"]
  assert final["exploitability_mean"] < 0.1
  assert final["solves"] > 0.9 * TINY.self_play.examples / 2
  assert "exploitability" not in final
  setup = make_setup(TINY)
  fresh = setup.trainer.init(setup.table, 0, setup.mesh).params
  untrained = ChainEvaluator(TINY).of_seeds(fresh, (0, 1, 2))["exploitability"]
  assert np.mean(untrained) > 2 * final["exploitability_mean"]


@pytest.mark.parametrize("kind", ["growing", "perfect"])
def test_the_command_measures_what_the_run_did(kind, capsys):
  final = rows(of(kind))[-1]
  seed = ["--seed", str(RUNS[kind].seed + final["step"])]
  assert evaluate.main([str(of(kind)), *seed, "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  measured = [name for name in final if name.startswith(("exploitability_", "not_lost_"))]
  assert len(measured) >= 3
  for name in measured:
    assert found[name] == pytest.approx(final[name], abs=1e-6)
  assert len(found["course"]) == final["seeds"]


def test_other_searches_are_other_agents(capsys, monkeypatch):
  folder, made = of("growing"), []

  def of_seeds(self, params, seeds, progress):
    made.append(self.how.search)
    return {"exploitability": [0.5] * len(seeds)}

  monkeypatch.setattr(ChainEvaluator, "of_seeds", of_seeds)
  for others in ([], ["--mix", "0", "--at-once", "--seeds", "2"]):
    assert evaluate.main([str(folder), *others, "--json"]) == 0
  found = json.loads(capsys.readouterr().out.splitlines()[-1])
  assert (found["mix"], found["alternating"], found["seeds"]) == (0, False, 2)
  assert [(x.mix, x.alternating) for x in made] == [(0.5, True), (0.0, False)]


@pytest.mark.parametrize("kind", harness.slow(RUNS, "growing"))
def test_runs_go_on_bit_by_bit(kind, tmp_path):
  options = RunOptions(output_dir=str(tmp_path))
  train(RUNS[kind], options, stop=lambda step: True)
  assert rows(tmp_path)[-1]["step"] == RUNS[kind].schedule.report_every
  stopped = rebel_jax.load(tmp_path).params
  train(RUNS[kind], dataclasses.replace(options, resume=True))
  whole, parts = (rebel_jax.load(folder).params for folder in (of(kind), tmp_path))
  jax.tree.map(np.testing.assert_array_equal, whole, parts)
  moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), whole, stopped)
  assert max(jax.tree.leaves(moved)) > 0  # control: there was more to learn


def softmax(logits, axis):
  raised = np.exp(logits)
  return raised / raised.sum(axis=axis, keepdims=True)


def test_divergences_are_those_of_distributions():
  """Zero, with no gradient, at the target; moves that do not exist have no part in the softmax."""
  rng = np.random.default_rng(0)
  logits, target = rng.normal(size=(2, 4, 3, 5)).astype(np.float32)
  target, own = softmax(target, 1), np.ones(target.shape, bool)
  found, slope = (jax.jit(f) for f in (divergence, jax.grad(lambda *x: divergence(*x).sum())))
  expected = (target * (np.log(target) - np.log(softmax(logits, 1)))).sum(axis=1)
  np.testing.assert_allclose(found(logits, target, own), expected, rtol=1e-5, atol=1e-6)
  at_target = np.log(target) + 2.0
  np.testing.assert_allclose(found(at_target, target, own), 0.0, atol=1e-5)
  np.testing.assert_allclose(slope(at_target, target, own), 0.0, atol=1e-5)
  assert np.abs(slope(logits, target, own)).max() > 0.05
  own[:, 2:, 1:], own[:, :, 4] = False, False
  target, shares = (softmax(np.where(own, x, -99.0), 1) * own for x in (np.log(target), logits))
  expected = np.where(target > 0, target * np.log((target + 1e-30) / (shares + 1e-30)), 0).sum(1)
  for unseen in (logits, np.where(own, logits, 9.0)):
    np.testing.assert_allclose(found(unseen, target, own), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(slope(unseen, target, own)[~own], 0.0)


LARGE = TINY.replace(game="liars_dice", game_params=(("num_dice", 3), ("num_faces", 6)))
test_what_does_not_go_together_is_refused = refused(
  (lambda: make_setup(TINY.replace(per_update=7.0)), "per_update=7.0"),
  (lambda: make_setup(LARGE), "public tree of"),
)
