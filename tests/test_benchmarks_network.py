"""The benchmarks of value networks: what they call an error is one."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import rebel_jax
from benchmarks import fit, inner_values, value_error
from rebel_jax.config import Config
from rebel_jax.setup import make_setup
from tests.tiny import trained


def lines(capsys):
  return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_value_errors(capsys, monkeypatch):
  policy = rebel_jax.load(trained())
  options = value_error.Options(states=24, exact_iterations=256)
  rows = value_error.compare(policy.config, policy.params, options)
  assert [row["place"] for row in rows] == ["self-play", "leaves"]
  for row in rows:
    assert row["exploitability_of_exact"] < 0.01
    assert row["network"] > 0.05  # after eight steps
    assert row["target"] <= row["network"] + row["fit"]
    assert row["network_infostates"] > row["network"]  # errors of infostates cancel in the PBS's
  # Another algorithm makes other targets, for the same PBSs.
  other = dataclasses.replace(options, algorithm="discounted_cfr(beta=0.5,gamma=4)")
  for row, same in zip(value_error.compare(policy.config, policy.params, other), rows, strict=True):
    assert row["network"] == same["network"]
    assert row["target"] != same["target"]
    assert (row["algorithm"], same["algorithm"]) == (other.algorithm, policy.config.algorithm)
  with pytest.raises(SystemExit, match="algorithm='dcfr' is unknown"):
    value_error.compare(policy.config, policy.params, value_error.Options(algorithm="dcfr"))
  # Control: a network that says what the solver finds has no error, but for float32.
  monkeypatch.setattr(
    value_error,
    "ask_network",
    lambda setup, params, roots, beliefs: value_error.solve_exactly(setup, roots, beliefs, 256)[0],
  )
  for row in value_error.compare(policy.config, policy.params, options):
    assert row["network"] < 1e-6
    assert row["network_infostates"] < 1e-5


@pytest.mark.slow
def test_values_of_inner_nodes():
  def searches(faces, depth, iterations):
    config = Config(
      preset="tiny", game="liars_dice", game_params=(("num_dice", 1), ("num_faces", faces)),
      depth=depth, iterations=iterations, inner_rows=1, lanes=8, rows_fraction=1.0, num_devices=1,
    )  # fmt: skip
    setup = make_setup(config)
    table = setup.table.tables[0]
    params = setup.trainer.learner.network.init(
      jax.random.key(0), table.trees.root_features[:1, 0], table.trees.prior[:1].reshape(1, -1)
    )
    options = inner_values.Options(states=24, iterations=iterations, exact_iterations=512)
    return inner_values.Searches(setup, params, options)

  short = searches(3, 2, 16)
  found = {row["values"]: row["pbs"] for row in short.of_other_beliefs()}
  assert found["search there"] < found["network"]  # which has learned nothing
  # Control: searches that see the end of the game.
  deep = searches(2, 3, 512)
  for row in deep.of_roots():
    assert row["pbs"] < 0.01, row
  rows = list(deep.of_inner_nodes())
  assert {row["of"] for row in rows} == {"inner nodes", "inner infostates"}
  for row in rows:
    if "reach" in row and row["reach"][0] >= 0.03:
      assert row["pbs"] < 0.01, row


def test_values_of_a_public_belief_state():
  """By hand, in Kuhn poker: cards exclude each other, so weights are those of the pairs."""
  setup = make_setup(dataclasses.replace(rebel_jax.load(trained()).config, num_devices=1))
  beliefs = np.array([[[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]], np.float32)
  values = np.array([[[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]], np.float32)
  joint = np.outer(*beliefs[0]) * (1 - np.eye(3))
  joint /= joint.sum()
  expected = [joint.sum(axis=1) @ values[0, 0], joint.sum(axis=0) @ values[0, 1]]
  found = value_error.pbs_values(setup, np.array([0]), beliefs, values)
  np.testing.assert_allclose(found[0], expected, rtol=1e-5)


@pytest.mark.slow
def test_fits(capsys, tmp_path):
  variants = ("adam 0.001", "muon 0.02, square and fourth roots")
  options = fit.Options(
    str(trained()), variants, examples=600, held_out=100, steps=400, batch_size=64,
    cache=tmp_path / "examples.npz",
  )  # fmt: skip
  fit.main(options)
  rows = lines(capsys)
  assert [row["variant"] for row in rows] == list(variants)
  for row in rows:
    assert 0 < row["rms"] < 0.5
    # Half of a squared error is the Huber loss where errors are small.
    assert row["held_out_loss"] == pytest.approx(row["rms"] ** 2 / 2, rel=0.3)
  with np.load(options.cache) as kept:
    assert len(kept["values"]) == 700
  # Control: examples whose values belong to others cannot be fitted.
  policy = rebel_jax.load(trained())
  examples, held_out = fit.gather(options, policy.config, policy.params)
  moved = examples._replace(values=jax.numpy.roll(examples.values, 1, axis=0))
  wrong = fit.fit(policy.config, options, moved, held_out)
  assert wrong["rms"] > 2 * rows[0]["rms"]
  with pytest.raises(SystemExit, match="holds 700 examples of 800"):
    fit.gather(dataclasses.replace(options, examples=700), policy.config, policy.params)
  with pytest.raises(SystemExit, match="variants='none' is unknown"):
    fit.main(dataclasses.replace(options, variants=("none",)))
