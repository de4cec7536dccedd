"""The benchmark of the training recipe says what it promises, and judges by known values."""

import dataclasses
import json

import numpy as np
import pytest

import rebel_jax
from benchmarks import learning, value_error
from rebel_jax.presets import PRESETS
from rebel_jax.setup import make_setup
from tests.tiny import TINY, trained

KUHN = dataclasses.replace(TINY, preset="tiny_kuhn", depth=2, lanes=8)


@pytest.mark.slow
def test_variants_are_trained_for_their_time_and_drawn(capsys, monkeypatch, tmp_path):
  monkeypatch.setitem(PRESETS, "tiny_kuhn", KUHN)
  monkeypatch.setitem(learning.VARIANTS, "inner", {"inner_rows": 2})
  options = learning.Options(
    "tiny_kuhn", ("recipe", "inner"), seconds=0.2, evaluations=1, playthroughs=2, iterations=8,
    learner_share=True,
  )  # fmt: skip
  learning.main(options)
  lines = capsys.readouterr().out
  plain, inner = (json.loads(line) for line in lines.splitlines())
  for row in (plain, inner):
    assert row["seconds"] >= options.seconds
    assert row["exploitability"] > 0
    assert 0 < row["learner_share"] < 1
  assert plain["examples"] == 2 * plain["solves"]
  assert 2 * inner["solves"] < inner["examples"] <= 6 * inner["solves"]
  printed, figure = tmp_path / "rows.jsonl", tmp_path / "learning.png"
  printed.write_text(lines)
  learning.main(learning.Options(variants=(), lines=(printed,), figure=figure))
  assert figure.stat().st_size > 1000


def test_the_judge_knows_the_values(monkeypatch):
  policy = rebel_jax.load(trained())
  monkeypatch.setattr(rebel_jax, "load", lambda name: policy)
  judge = learning.Judge("kuhn_poker", 12)
  setup = make_setup(dataclasses.replace(policy.config, num_devices=1))
  errors = judge.errors(setup, policy.params)
  places = {"error_self_play", "error_leaves"}
  assert errors.keys() == places | {f"{place}_infostates" for place in places}
  assert min(errors.values()) > 0.05  # after eight steps
  # Control: a network that says what solving finds has no error.
  monkeypatch.setattr(
    value_error,
    "ask_network",
    lambda setup, params, *where: value_error.solve_exactly(setup, *where, 1_024)[0],
  )
  np.testing.assert_allclose(list(judge.errors(setup, policy.params).values()), 0, atol=1e-6)
  with pytest.raises(SystemExit, match="'leduc_poker' is of other subgames"):
    learning.Judge("leduc_poker", 12)


def test_what_is_unknown_ends_the_command_with_a_sentence():
  with pytest.raises(SystemExit, match=r"^error_states=12 needs a network called 'leduc_poker'"):
    learning.Judge("leduc_poker", 12)
  with pytest.raises(SystemExit, match="variants='none' is unknown; known: recipe"):
    learning.main(learning.Options(variants=("none",)))
