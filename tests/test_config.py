"""Configurations and presets: what is allowed, and what each preset says."""

import dataclasses
import json
import math

import pytest

import solvers
from rebel_jax.config import Config, ConfigError
from rebel_jax.presets import PRESETS, get_preset, paper_exploitability
from rebel_jax.setup import make_setup
from tests.tiny import TINY

# Changes to a valid configuration, and what the sentence must name.
BAD = [
  ({"preset": "../escape"}, r"^preset='\.\./escape' must be"),
  ({"game": "poker"}, r"^game='poker' is unknown \(did you mean 'kuhn_poker'\?\); known: "),
  ({"game_params": (("num_dice", 0),), "game": "liars_dice"}, r"^num_dice=0 must be a positive"),
  ({"game_params": (("num_faces", -2),), "game": "liars_dice"}, r"^num_faces=-2 must be"),
  ({"game_params": (("dice", 2),), "game": "liars_dice"}, r"no parameter 'dice'; it takes: num_"),
  ({"game_params": "num_dice 1"}, r"^game_params='num_dice 1' must be pairs"),
  ({"depth": 0}, r"^depth=0 must be at least 1"),
  ({"depth": -1}, r"^depth=-1 must be"),
  ({"depth": True}, r"^depth=True must be an integer"),
  ({"algorithm": "cfr"}, r"^algorithm='cfr' is unknown.*known: vanilla_cfr, cfr_plus"),
  (
    {"algorithm": "discounted_cfr(delta=1)"},
    r"^algorithm='discounted_cfr\(delta=1\)' has 'delta=1' where .* beta, gamma",
  ),
  ({"eval_algorithm": "linear_cfr("}, r"^eval_algorithm='linear_cfr\(' is unknown"),
  ({"eval_algorithm": None}, r"^eval_algorithm=None is unknown"),
  ({"iterations": 0}, r"^iterations=0 must be at least 2"),
  ({"iterations": 7}, r"^iterations=7 must be even"),
  ({"late_iterations": 5}, r"^late_iterations=5 must be even"),
  ({"late_share": 1.5}, r"^late_share=1.5 must be"),
  ({"eval_iterations": 3}, r"^eval_iterations=3 must be even"),
  ({"stop_sampling": "linear"}, r"^stop_sampling='linear' is unknown.*weighted, uniform"),
  ({"exploration": 1.01}, r"^exploration=1.01 must be .* at least 0 and at most 1"),
  ({"exploration": -0.5}, r"^exploration=-0.5 must be"),
  ({"exploration": math.nan}, r"^exploration=nan must be a finite number"),
  ({"exploration": "0.5"}, r"^exploration='0.5' must be a number"),
  ({"lanes": 0}, r"^lanes=0 must be at least 1"),
  ({"lanes": 4.0}, r"^lanes=4.0 must be an integer"),
  ({"rows_fraction": 0.0}, r"^rows_fraction=0.0 must be .* above 0 and at most 1"),
  ({"hidden_layers": 0}, r"^hidden_layers=0 must be"),
  ({"width": -8}, r"^width=-8 must be at least 1"),
  ({"activation": "tanh"}, r"^activation='tanh' is unknown; known: gelu, relu, silu"),
  ({"precision": "float16"}, r"^precision='float16' is unknown"),
  ({"layer_norm": "yes"}, r"^layer_norm='yes' must be True or False"),
  ({"fused_network": True, "width": 257}, r"^width=257 must be at most 256 where fused_network"),
  ({"learning_rate": 0.0}, r"^learning_rate=0.0 must be a finite number above 0"),
  ({"learning_rate": math.inf}, r"^learning_rate=inf must be"),
  ({"learning_rate": -1e-3}, r"^learning_rate=-0.001 must be"),
  ({"halve_every": -1}, r"^halve_every=-1 must be at least 0"),
  ({"batch_size": 0}, r"^batch_size=0 must be"),
  ({"batch_size": 512}, r"^batch_size=512 must be at most buffer_size=256"),
  ({"min_examples": 257}, r"^min_examples=257 must be at most buffer_size=256"),
  ({"lanes": 129}, r"^buffer_size=256 must be at least 258, two examples for each of lanes=129"),
  ({"buffer_size": 2**31}, r"^buffer_size=2147483648 must be at least 1 and at most 2147483647"),
  ({"uses_per_example": 0}, r"^uses_per_example=0 must be"),
  ({"max_gradient_norm": -1.0}, r"^max_gradient_norm=-1.0 must be"),
  ({"examples": 0}, r"^examples=0 must be"),
  ({"max_seconds": 0.0}, r"^max_seconds=0.0 must be a finite number above 0"),
  ({"report_every": 0}, r"^report_every=0 must be"),
  ({"evaluate_every": -1}, r"^evaluate_every=-1 must be at least 0"),
  ({"eval_playthroughs": 0}, r"^eval_playthroughs=0 must be"),
  ({"final_playthroughs": 0}, r"^final_playthroughs=0 must be"),
  ({"num_devices": 0}, r"^num_devices=0 must be at least 1"),
  ({"seed": -1}, r"^seed=-1 must be at least 0"),
  ({"seed": 2**32}, r"^seed=4294967296 must be"),
  ({"output_dir": ""}, r"^output_dir='' must be the path of a folder"),
  ({"checkpoint_every": math.nan}, r"^checkpoint_every=nan must be"),
  ({"keep_checkpoints": 0}, r"^keep_checkpoints=0 must be"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(c) for c, _ in BAD])
def test_what_is_not_allowed(changes, sentence):
  with pytest.raises(ConfigError, match=sentence) as caught:
    dataclasses.replace(TINY, **changes).validate()
  assert "\n" not in str(caught.value)


def test_what_is_allowed():
  TINY.validate()
  edges = {"exploration": 1.0, "rows_fraction": 1.0, "batch_size": 256, "lanes": 128, "seed": 0}
  dataclasses.replace(TINY, **edges, min_examples=256, halve_every=5, max_seconds=1).validate()


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"depth": 3}, r"^depth=3 must be less than what the game lasts"),
    ({"num_devices": 4096}, r"^num_devices=4096 must be from 1 to"),
  ],
)
def test_what_is_not_allowed_once_the_game_is_known(changes, sentence):
  with pytest.raises(ConfigError, match=sentence):
    make_setup(dataclasses.replace(TINY, **changes))


def test_devices_must_divide_the_work():
  TINY.check_devices(2)
  with pytest.raises(ConfigError, match=r"^lanes=4 must be a multiple of the 3 devices"):
    TINY.check_devices(3)
  with pytest.raises(ConfigError, match=r"^batch_size=6 must be a multiple of the 4 devices"):
    dataclasses.replace(TINY, batch_size=6).check_devices(4)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_allowed_and_survive_json(name):
  config = get_preset(name)
  config.validate()
  assert config.preset == name
  assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_unknown_names():
  with pytest.raises(ConfigError, match=r"did you mean 'kuhn_poker'\?\); known: .*leduc_poker"):
    get_preset("kuhn")
  with pytest.raises(ConfigError, match="field='lane' is unknown"):
    Config.from_dict({"lane": 3})


def test_paper_presets_hold_appendix_e():
  for game, number in {"1x4f": 0.017, "1x5f": 0.015, "1x6f": 0.024, "2x3f": 0.017}.items():
    config = get_preset(f"liars_dice_{game}_paper")
    network = (config.hidden_layers, config.width, config.activation, config.layer_norm)
    assert network == (2, 256, "gelu", True)
    assert (config.algorithm, config.iterations, config.depth) == ("linear_cfr", 1024, 2)
    assert (config.learning_rate, config.batch_size) == (3e-4, 512)
    assert config.halve_every * config.batch_size == 400 * 25_600
    uses = config.num_steps * config.learn_steps * config.batch_size
    assert uses == pytest.approx(1_000 * 25_600, rel=0.01)
    assert config.buffer_size >= config.examples
    assert config.exploration == 0.25
    assert paper_exploitability(config) == number
    assert paper_exploitability(get_preset(f"liars_dice_{game}")) == number
  assert paper_exploitability(TINY) is None


def test_steps_follow_from_examples():
  assert (TINY.num_steps, TINY.learn_steps) == (8, 4)
  assert dataclasses.replace(TINY, examples=65).num_steps == 9
  assert dataclasses.replace(TINY, uses_per_example=0.01).learn_steps == 1


def test_algorithms_by_name_have_averaging_weights():
  for name in solvers.registered_algorithms():
    algorithm = solvers.make_algorithm(name)
    assert algorithm.averaging >= 0
    assert algorithm.values_of_average == (name.endswith("_avg") or "fictitious" in name), name
