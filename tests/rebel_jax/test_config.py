"""Configurations and presets: what is allowed, and what each preset says."""

import dataclasses
import json
import math
import typing
from typing import Annotated

import pytest

import solvers
from rebel_jax import evaluate, play
from rebel_jax.config import groups
from rebel_jax.config.allowed import Allowed
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.presets import PRESETS, get_preset, paper_exploitability
from rebel_jax.train import Command
from rebel_jax.training.setup import make_setup
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
  ({"eval_iterations": 3}, r"^eval_iterations=3 must be even"),
  ({"stop_sampling": "linear"}, r"^stop_sampling='linear' is unknown.*weighted, uniform"),
  ({"lanes": 0}, r"^lanes=0 must be at least 1"),
  ({"lanes": 4.0}, r"^lanes=4.0 must be an integer"),
  ({"rows_fraction": 0.0}, r"^rows_fraction=0.0 must be .* above 0 and at most 1"),
  ({"rows_fraction": 1.01}, r"^rows_fraction=1.01 must be .* above 0 and at most 1"),
  ({"rows_fraction": math.nan}, r"^rows_fraction=nan must be a finite number"),
  ({"rows_fraction": "0.5"}, r"^rows_fraction='0.5' must be a number"),
  ({"hidden_layers": 0}, r"^hidden_layers=0 must be"),
  ({"width": -8}, r"^width=-8 must be at least 1"),
  ({"activation": "tanh"}, r"^activation='tanh' is unknown; known: gelu, relu, silu"),
  ({"precision": "float16"}, r"^precision='float16' is unknown"),
  ({"share_start": "yes"}, r"^share_start='yes' must be True or False"),
  ({"fused_network": True, "width": 257}, r"^width=257 must be at most 256 where fused_network"),
  ({"learning_rate": 0.0}, r"^learning_rate=0.0 must be a finite number above 0"),
  ({"learning_rate": math.inf}, r"^learning_rate=inf must be"),
  ({"learning_rate": -1e-3}, r"^learning_rate=-0.001 must be"),
  ({"halve_every": -1}, r"^halve_every=-1 must be at least 0"),
  ({"batch_size": 0}, r"^batch_size=0 must be"),
  ({"batch_size": 512}, r"^batch_size=512 must be at most buffer_size=256"),
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
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(c) for c, _ in BAD])
def test_what_is_not_allowed(changes, sentence):
  with pytest.raises(ConfigError, match=sentence) as caught:
    TINY.replace(**changes).validate()
  assert "\n" not in str(caught.value)


def test_what_is_allowed():
  TINY.validate()
  edges = {"rows_fraction": 1.0, "batch_size": 256, "lanes": 128, "seed": 0}
  TINY.replace(**edges, halve_every=5, max_seconds=1).validate()


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    ({"depth": 3}, r"^depth=3 must be less than what the game lasts"),
    ({"num_devices": 4096}, r"^num_devices=4096 must be from 1 to"),
  ],
)
def test_what_is_not_allowed_once_the_game_is_known(changes, sentence):
  with pytest.raises(ConfigError, match=sentence):
    make_setup(TINY.replace(**changes))


def test_devices_must_divide_the_work():
  TINY.check_devices(2)
  with pytest.raises(ConfigError, match=r"^lanes=4 must be a multiple of the 3 devices"):
    TINY.check_devices(3)
  with pytest.raises(ConfigError, match=r"^batch_size=6 must be a multiple of the 4 devices"):
    TINY.replace(batch_size=6).check_devices(4)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_allowed_and_survive_json(name):
  config = get_preset(name)
  config.validate()
  assert config.preset == name
  assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_unknown_names():
  with pytest.raises(ConfigError, match=r"did you mean 'kuhn_poker'\?\); known: .*leduc_poker"):
    get_preset("kuhn_pok")
  with pytest.raises(ConfigError, match="field='lane' is unknown"):
    Config.from_dict({"self_play": {"lane": 3}})
  with pytest.raises(ConfigError, match=r"^field='lane' is unknown \(did you mean 'lanes'\?\)"):
    TINY.replace(lane=3)
  with pytest.raises(ConfigError, match="^search=3 must be a group of settings"):
    Config.from_dict({"search": 3})


def test_paper_presets_hold_appendix_e():
  for game, number in {"1x4f": 0.017, "1x5f": 0.015, "1x6f": 0.024, "2x3f": 0.017}.items():
    config = get_preset(f"liars_dice_{game}_paper")
    network, search, learning = config.network, config.search, config.learning
    assert (network.hidden_layers, network.width, network.activation) == (2, 256, "gelu")
    assert (search.algorithm, search.iterations, search.depth) == ("linear_cfr", 1024, 2)
    assert (learning.learning_rate, learning.batch_size) == (3e-4, 512)
    assert learning.halve_every * learning.batch_size == 400 * 25_600
    uses = config.num_steps * config.learn_steps * learning.batch_size
    assert uses == pytest.approx(1_000 * 25_600, rel=0.01)
    assert learning.buffer_size >= config.self_play.examples
    assert paper_exploitability(config) == number
    assert paper_exploitability(get_preset(f"liars_dice_{game}")) == number
  assert paper_exploitability(TINY) is None


@pytest.mark.parametrize("cls", [Config, Command, evaluate.Options, play.Options])
def test_every_setting_says_what_is_allowed(cls):
  """In a group or not, by its annotation; and no two share a name."""
  names = [name for name, _ in leaves(cls)]
  assert len(names) == len(set(names))
  assert all(is_checked(hint) for _, hint in leaves(cls))


def test_a_setting_without_a_check_is_noticed():
  @dataclasses.dataclass(frozen=True)
  class Careless:
    width: int = 3
    fused: bool = False

  assert [name for name, hint in leaves(Careless) if not is_checked(hint)] == ["width"]


def leaves(cls):
  """Returns the settings of a dataclass, those of its groups too, with their annotations."""
  found = []
  for name, hint in typing.get_type_hints(cls, include_extras=True).items():
    bare = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
    found += leaves(bare) if dataclasses.is_dataclass(bare) else [(name, hint)]
  return found


def is_checked(hint) -> bool:
  return hint is bool or any(isinstance(x, Allowed) for x in typing.get_args(hint))


def test_settings_are_changed_by_name():
  """Whatever their group."""
  changed = TINY.replace(iterations=16, width=8, seed=3)
  assert (changed.search.iterations, changed.network.width, changed.seed) == (16, 8, 3)
  assert groups.flat(changed) == groups.flat(TINY) | {"iterations": 16, "width": 8, "seed": 3}
  assert changed.replace(iterations=8, width=32, seed=0) == TINY
  assert list(TINY.to_dict()["search"]) == [x.name for x in dataclasses.fields(TINY.search)]


def test_learning_starts_with_four_batches():
  assert TINY.learning.min_examples == 4 * TINY.learning.batch_size
  assert TINY.replace(batch_size=100).learning.min_examples == TINY.learning.buffer_size


def test_steps_follow_from_examples():
  assert (TINY.num_steps, TINY.learn_steps) == (8, 4)
  assert TINY.replace(examples=65).num_steps == 9
  assert TINY.replace(uses_per_example=0.01).learn_steps == 1


def test_algorithms_by_name_have_averaging_weights():
  for name in solvers.registered_algorithms():
    algorithm = solvers.make_algorithm(name)
    assert algorithm.averaging >= 0
    assert algorithm.uses_average == (name.endswith("_avg") or "fictitious" in name), name
