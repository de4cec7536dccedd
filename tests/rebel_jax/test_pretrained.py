"""Networks that come with the package are what they say."""

import shlex

import pytest

import rebel_jax
from benchmarks.maintenance import pretrained
from benchmarks.maintenance.pretrained import command_of
from rebel_jax import train as cli
from rebel_jax.config.presets import get_preset
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.opponents import MEASURED
from tests.tiny import trained


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
  pretrained.main(pretrained.Options(str(trained()), "tiny", **small, command="two commands"))
  many: dict = {"trajectories": 2, "algorithm": other}
  pretrained.main(pretrained.Options(str(trained()), "other", **small, **many))
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
    pretrained.main(pretrained.Options(str(trained()), "tiny", algorithm=other, own=True))


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
