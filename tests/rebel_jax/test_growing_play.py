"""Training by growing searches: what is asked, what is learned, how runs are measured and go on."""

import dataclasses
import functools
import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from rebel_jax import evaluate
from rebel_jax.config.config import ConfigError
from rebel_jax.config.search import GrowingSearch
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.runs.options import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets.value_policy import divergence
from tests.tiny import TINY_GROWING, rows

TINY = TINY_GROWING.replace(alternating=True, mix=0.5)


@functools.cache
def trained() -> Path:
  """Returns the folder of a finished run, made once."""
  folder = Path(tempfile.mkdtemp(prefix="rebel-jax-test-"))
  train(TINY, RunOptions(output_dir=str(folder), num_devices=1))
  return folder


def test_a_run_learns_kuhn_poker():
  """Its searching agents are several times harder to exploit than those of a fresh network."""
  final = rows(trained())[-1]
  assert final["seeds"] == 3
  assert final["exploitability_min"] <= final["exploitability_mean"] <= final["exploitability_max"]
  assert final["exploitability_mean"] < 0.1
  assert final["solves"] > 0.9 * TINY.self_play.examples / 2
  assert "exploitability" not in final
  setup = make_setup(TINY)
  fresh = setup.trainer.init(setup.table, 0, setup.mesh).params
  evaluator = ChainEvaluator(TINY)
  untrained = evaluator.of_seeds(fresh, (0, 1, 2))["exploitability"]
  assert np.mean(untrained) > 2 * final["exploitability_mean"]


def test_the_command_measures_what_the_run_did(capsys):
  final = rows(trained())[-1]
  seed = TINY.seed + final["step"]
  assert evaluate.main([str(trained()), "--seed", str(seed), "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  for end in ("mean", "min", "max"):
    name = f"exploitability_{end}"
    assert found[name] == pytest.approx(final[name], abs=1e-6)
  assert len(found["course"]) == 3
  # Unsafe searches, and others of other lengths, are other agents.
  assert found["alternating"]
  others = ["--mix", "0", "--at-once", "--seeds", "2"]
  assert evaluate.main([str(trained()), *others, "--json"]) == 0
  unsafe = json.loads(capsys.readouterr().out)
  assert unsafe["mix"] == 0
  assert not unsafe["alternating"]
  assert unsafe["seeds"] == 2
  assert unsafe["exploitability_mean"] != pytest.approx(found["exploitability_mean"], abs=1e-4)


@pytest.mark.parametrize(
  ("name", "flags", "sentence"),
  [
    (None, ["--playthroughs", "3"], "playthroughs=3 is not for"),
    (None, ["--depth", "2"], "which has growing searches; allowed"),
    ("liars_dice_1x4f", ["--simulations", "3"], "which has ReBeL's searches; allowed"),
    (None, ["--per-update", "0.3"], "per_update=0.3"),
  ],
)
def test_options_of_the_other_kind_are_refused(name, flags, sentence, capsys):
  assert evaluate.main([name or str(trained()), *flags]) == 2
  assert sentence in capsys.readouterr().err


def test_runs_go_on_bit_by_bit():
  """Stopped after its first row and resumed, a run ends with the same parameters."""
  folder = Path(tempfile.mkdtemp(prefix="rebel-jax-test-"))
  options = RunOptions(output_dir=str(folder), num_devices=1)
  train(TINY, options, stop=lambda step: True)
  assert rows(folder)[-1]["step"] == 25
  train(TINY, dataclasses.replace(options, resume=True))
  whole, parts = (rebel_jax.load(f).params for f in (trained(), folder))
  assert jax.tree.all(jax.tree.map(lambda x, y: (x == y).all(), whole, parts))


def test_divergences_are_those_of_distributions():
  """Zero, with no gradient, at the target; hidden moves of one infostate share a softmax."""
  rng = np.random.default_rng(0)
  logits = jnp.asarray(rng.normal(size=(4, 3, 5)))
  target = jax.nn.softmax(jnp.asarray(rng.normal(size=(4, 3, 5))), axis=1)
  own = jnp.broadcast_to(jnp.arange(5), target.shape)
  found = divergence(logits, target, own)
  predicted = jax.nn.softmax(logits, axis=1)
  expected = (target * (jnp.log(target) - jnp.log(predicted))).sum(axis=1)
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  at_target = jnp.log(target) + 2.0
  np.testing.assert_allclose(divergence(at_target, target, own), 0.0, atol=1e-5)
  slope = jax.grad(lambda x: divergence(x, target, own).sum())
  np.testing.assert_allclose(slope(at_target), 0.0, atol=1e-5)
  assert np.abs(slope(logits)).max() > 0.05
  # Rock, paper, scissors: one action, and three infostates that it leads to from the first.
  moves = jnp.zeros((1, 1, 3), int)
  logits, target = jnp.array([[[1.0, 0.0, -1.0]]]), jnp.array([[[0.5, 0.5, 0.0]]])
  found = np.asarray(divergence(logits, target, moves))[0]
  likely = np.asarray(jax.nn.softmax(logits[0, 0]))
  assert found[0] == pytest.approx(-0.5 * np.log(2 * likely[:2]).sum(), rel=1e-5)
  np.testing.assert_array_equal(found[1:], 0.0)
  # What is not there has no part in the softmax, whatever its logit.
  gone = jnp.where(jnp.arange(3) == 2, -1, moves)
  other = divergence(logits.at[0, 0, 2].set(9.0), target, gone)
  assert float(other[0, 0]) < found[0]


def step_of(config, seed=0):
  setup = make_setup(config)
  state = setup.trainer.init(setup.table, seed, setup.mesh)
  lanes = jax.tree.map(lambda x: x[0], state.lanes)
  step = jax.jit(functools.partial(setup.trainer.self_play.step, setup.table))
  return setup, lanes, step, state.params


@pytest.mark.slow
def test_values_are_those_of_searches_without_a_gadget():
  """What is learned of a question is the value of its beliefs; a gadget's would be another's."""
  config = TINY.replace(simulations=30, query_share=1.0)
  setup, lanes, step, params = step_of(config)
  kind = np.asarray(setup.table.tree.kind)
  seen = 0
  for number in range(6):
    waiting, taken = lanes.waiting, int(lanes.taken)
    played = step(lanes, params, jax.random.key(number))
    ((solved, active),) = played.searched
    places = np.arange(taken, int(waiting.added))[: setup.trainer.self_play.num_solvers]
    active = np.asarray(active)
    assert active.sum() == len(places)
    for row, place in zip(np.flatnonzero(active), places):
      node = int(waiting.examples.here.state[place, 0])
      beliefs = np.asarray(waiting.examples.beliefs)[place]
      own = beliefs[::-1] if kind[node] == 1 else beliefs
      np.testing.assert_allclose(solved.beliefs[row].reshape(2, -1), own, atol=1e-6)
      # All is in the tree after thirty simulations: the values are those of plain CFR, nearly.
      exact = solvers.solve(
        games.build_public_tree(setup.game, root=setup.table.tree.history(node)),
        algorithm=solvers.cfr_plus(),
        num_iterations=400,
        beliefs=beliefs,
      )
      worth = (exact.root_values * beliefs).sum(axis=1)
      values = np.asarray(solved.values)[row]
      values = values[::-1] if kind[node] == 1 else values
      if seen < 40:
        mass = np.asarray(solved.value_weight)[row] > 0
        assert np.abs((values * beliefs).sum(axis=1) - worth).max() < 0.25 or not mass.all()
      seen += 1
    lanes = played.lanes
  assert seen > 20


@pytest.mark.slow
def test_questions_come_and_go_in_order(monkeypatch):
  """As many enter as were drawn; what nobody has room for waits, the oldest first."""
  monkeypatch.setattr(GrowingSearch, "recursive_share", 0.0)
  means = {}
  for share in (0.25, 1.0):
    config = TINY.replace(simulations=2, query_share=share)
    _, lanes, step, params = step_of(config)
    added, active = [], []
    for number in range(40):
      played = step(lanes, params, jax.random.key(number))
      added.append(int(played.lanes.waiting.added) - int(lanes.waiting.added))
      active.append(int(played.searched[0][1].sum()))
      lanes = played.lanes
    means[share] = np.mean(added)
    assert sum(active) == int(lanes.taken) <= int(lanes.waiting.added)
    assert sum(added) == int(lanes.waiting.added)
  # After a bet in Kuhn poker only ends follow, and nothing is asked.
  assert 4 < means[1.0] < 15
  assert means[0.25] == pytest.approx(4, abs=0.3)


def test_what_does_not_go_together_is_refused():
  with pytest.raises(ConfigError, match="per_update=7.0"):
    make_setup(TINY.replace(per_update=7.0))
  with pytest.raises(ConfigError, match="query_share=0"):
    TINY.replace(query_share=0.0).validate()
  with pytest.raises(ConfigError, match="policy_network is no setting of growing searches"):
    TINY.replace(policy_network=True)
  with pytest.raises(ConfigError, match="public tree of"):
    make_setup(TINY.replace(game="liars_dice", game_params=(("num_dice", 3), ("num_faces", 6))))
