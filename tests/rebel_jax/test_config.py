"""Configurations and flags: what is allowed, what presets say, own parts, and random bad input."""

import dataclasses
import json
import math
import re
import shlex
import typing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rebel_jax
import rebel_jax.agents.agent
import rebel_jax.runs.run
from rebel_jax import devices, evaluate, play
from rebel_jax import train as cli
from rebel_jax.config import ConfigError, allowed
from rebel_jax.config.allowed import Allowed
from rebel_jax.config.config import KINDS, REBEL, Config, GrowingSearch, PerfectSearch
from rebel_jax.config.presets import PRESETS, get_preset, paper_exploitability
from rebel_jax.evaluation.measurement import Measurement
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.train import Command
from rebel_jax.training.setup import make_setup, make_subgames
from tests.sentences import refused
from tests.tiny import TINY, as_flags, tiny

# Changes to a valid configuration, and what the sentence must name.
BAD = [
  ({"preset": "../escape"}, r"^preset='\.\./escape' must be"),
  ({"game": "poker"}, r"^game='poker' is unknown \(did you mean 'kuhn_poker'\?\); known: "),
  ({"game_params": (("dice", 2),), "game": "liars_dice"}, r"no parameter 'dice'; it takes: num_"),
  ({"algorithm": "cfr"}, r"^algorithm='cfr' is unknown.*known: vanilla_cfr, cfr_plus"),
  (
    {"algorithm": "discounted_cfr(delta=1)"},
    r"^algorithm='discounted_cfr\(delta=1\)' has 'delta=1' where .* beta, gamma",
  ),
  ({"iterations": 7}, r"^iterations=7 must be even"),
  ({"activation": "tanh"}, r"^activation='tanh' is unknown; known: gelu, relu, silu"),
  ({"share_start": "yes"}, r"^share_start='yes' must be True or False"),
  ({"batch_size": 512}, r"^batch_size=512 must be at most buffer_size=256"),
  ({"lanes": 129}, r"^buffer_size=256 must be at least 258, two examples for each of lanes=129"),
]


LARGE = get_preset("liars_dice_2x3f").replace(game_params=(("num_dice", 2), ("num_faces", 6)))
GROWN = get_preset("pog_kuhn")
test_what_is_not_allowed = refused(
  *((lambda x=x: TINY.replace(**x).validate(), sentence) for x, sentence in BAD),
  (lambda: make_setup(TINY.replace(depth=3)), "^depth=3 must be less than what the game lasts"),
  (lambda: make_setup(TINY, num_devices=4096), "^num_devices=4096 must be from 1 to"),
  (lambda: make_subgames(LARGE, LARGE.make_game()), "has a public tree of 33554431 nodes"),
  (lambda: get_preset("kuhn_pok"), r"did you mean 'kuhn_poker'\?\); known: .*leduc_poker"),
  (lambda: Config.from_dict({"self_play": {"lane": 3}}), "field='lane' is unknown"),
  (lambda: TINY.replace(lane=3), r"^field='lane' is unknown \(did you mean 'lanes'\?\)"),
  (lambda: Config.from_dict({"search": 3}), "^search=3 must be a group of settings"),
  (lambda: TINY.replace(simulations=3), "^simulations is no setting of ReBeL's searches, which "),
  (lambda: GROWN.replace(depth=2), "^depth is no setting of growing searches, which preset="),
  (lambda: GROWN.replace(td1_share=0.5), "^td1_share is no setting of growing searches, which "),
  (lambda: TINY.growing, f"of preset='{TINY.preset}'"),
  (lambda: GROWN.rebel, f"of preset='{GROWN.preset}'"),
)


def test_large_games_are_trained_in_subgames():
  assert len(make_subgames(LARGE, LARGE.make_game(), measured=False).trees) == 24
  assert TINY.replace(search=GrowingSearch(), simulations=3).growing.simulations == 3


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_allowed_and_survive_json(name):
  config = get_preset(name)
  config.validate()
  assert config.preset == name
  assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_paper_presets_hold_appendix_e():
  for game, number in {"1x4f": 0.017, "1x5f": 0.015, "1x6f": 0.024, "2x3f": 0.017}.items():
    config = get_preset(f"liars_dice_{game}_paper")
    uses = config.num_steps * config.learn_steps * config.learning.batch_size
    assert uses == pytest.approx(1_000 * 25_600, rel=0.01)
    assert paper_exploitability(config) == number
    assert paper_exploitability(get_preset(f"liars_dice_{game}")) == number
  assert paper_exploitability(TINY) is None


GROUPS = [type(x) for x in vars(Config()).values() if dataclasses.is_dataclass(x)]
COMMANDS = (Command, RunOptions, evaluate.Options, play.Options)


@pytest.mark.parametrize("cls", [*dict.fromkeys([Config, *KINDS, *GROUPS, *COMMANDS])])
def test_every_setting_says_what_is_allowed(cls):
  hints = typing.get_type_hints(cls, include_extras=True)
  for hint in (hints[field.name] for field in dataclasses.fields(cls)):
    kinds = (hint, *typing.get_args(hint))
    assert hint is bool or any(isinstance(x, Allowed) or dataclasses.is_dataclass(x) for x in kinds)


# As runs of an earlier version saved them: groups, and settings that are gone, at their defaults.
EARLIER = json.loads((Path(__file__).parent / "earlier_config.json").read_text())


def earlier(preset, **changes):
  """Returns a preset as an earlier version saved it, with changes."""
  fields = json.loads(json.dumps(EARLIER))
  fields |= {"preset": preset, "game": get_preset(preset).game, "game_params": {}}
  for group in fields.values():
    if isinstance(group, dict):
      group |= {name: value for name, value in changes.items() if name in group}
  return fields


PERFECT = dict(children=1, temperature=1.5, td1_share=0.2, policy_weight=1.0)


@pytest.mark.parametrize(
  ("fields", "search"),
  [
    (earlier("kuhn_poker", depth=1), dataclasses.replace(REBEL, depth=1)),
    (earlier("kuhn_poker", fused_network=True), REBEL),
    (
      earlier("pog_kuhn", simulations=30, eval_simulations=40, eval_seeds=4, final_seeds=5),
      GrowingSearch(30, eval_iterations=80, eval_playthroughs=4, final_playthroughs=5),
    ),
    (
      earlier("pog_tic_tac_toe", simulations=30, **PERFECT, resign_below=0.9, never_resign=0.2),
      PerfectSearch(30, td1_share=0.2, resign_below=0.9),
    ),
    (earlier("pog_kuhn", simulations=100, recursive_share=0.2), GrowingSearch()),
  ],
)
def test_runs_of_earlier_versions_are_read(fields, search):
  config = Config.from_dict(fields)
  assert config.search == search
  config.validate()
  assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


# An agent would search otherwise than its run says.
test_settings_that_are_gone_are_refused_at_other_values = refused(
  *((lambda x=x: Config.from_dict(x), sentence) for x, sentence in [
    (earlier("kuhn_poker", stop_sampling="uniform"), "stop_sampling='uniform' .* is 'weighted'"),
    (earlier("kuhn_poker", max_gradient_norm=0.0), "max_gradient_norm=0.0 .* allowed is 1.0"),
    (earlier("kuhn_poker", mix=0.5), "mix=0.5 is no setting of ReBeL's searches"),
    (earlier("pog_kuhn", simulations=9, level_values=True), "level_values=True is no .* growing"),
    (
      earlier("pog_tic_tac_toe", simulations=9, **PERFECT | {"temperature": 1.0}),
      "temperature=1.0 .* allowed is 1.5",
    ),
  ])
)  # fmt: skip


MODULE = """
import flax.linen as nn
import jax.numpy as jnp
import optax

import games
import rebel_jax
from games import KuhnPoker


class Residual(nn.Module):
  outputs: int

  @nn.compact
  def __call__(self, features, beliefs):
    x = jnp.concatenate([features, beliefs], axis=-1)
    return nn.Dense(self.outputs)(nn.relu(nn.Dense(8)(x)))


class ThreeHands(KuhnPoker):
  name = "three_hands"


def rows_to(folder, step):
  def write(row):
    with open(folder / "mine.txt", "a") as file:
      file.write(f"{step} {row['step']}\\n")
  return write


games.register("three_hands", ThreeHands)
rebel_jax.register("network", "residual", lambda config, game, outputs: Residual(outputs))
rebel_jax.register("optimizer", "lion", optax.lion)
rebel_jax.register("writer", "mine", rows_to)
"""
OWN = {"game": "three_hands", "architecture": "residual", "optimizer": "lion"}
OWN |= {"eval_iterations": 4, "final_iterations": 4, "final_playthroughs": 2}


def test_a_module_s_parts_and_the_commands_that_the_run_prints(
  tmp_path, monkeypatch, capsys, own_registry
):
  (tmp_path / "my_parts.py").write_text(MODULE)
  monkeypatch.chdir(tmp_path)
  flags = as_flags(**OWN)
  assert cli.main(flags) == 2  # nobody has imported them
  capsys.readouterr()
  names = ["--module", "my_parts", "--writers", "csv", "mine"]
  assert cli.main([*flags, *names]) == 0
  out = capsys.readouterr().out
  folder = tmp_path / "runs" / "three_hands-1"
  assert out.startswith("three_hands: preparing")
  steps = [json.loads(x)["step"] for x in (folder / "metrics.jsonl").read_text().splitlines()]
  assert (folder / "mine.txt").read_text().splitlines() == [f"0 {step}" for step in steps]
  table = (folder / "metrics.csv").read_text().splitlines()
  assert len(table) == 1 + len(steps)
  assert "exploitability" in table[0].split(",")
  again, longer = (
    shlex.split(re.search(rf"{name} +(python.*)", out)[1])
    for name in ("measure it again", "train longer")
  )
  assert evaluate.main([*again[3:], "--playthroughs", "2", "--iterations", "4", "--json"]) == 0
  assert json.loads(capsys.readouterr().out)["exploitability"] > 0
  assert cli.main([*longer[2:-1], "72", "--writers", "mine"]) == 0
  assert (folder / "mine.txt").read_text().splitlines()[-1] == "8 9"
  # The control: where nothing was imported, a good checkpoint is not called damaged.
  capsys.readouterr()
  allowed.NETWORKS.pop("residual")
  assert evaluate.main([str(folder)]) == 2
  error = capsys.readouterr().err
  assert "architecture='residual' is unknown; known: mlp, showdowns" in error
  assert "--module" in error
  assert "damaged" not in error


def test_rows_and_evaluations_of_one_s_own(tmp_path):
  written, asked = [], []

  def measure(params, final):
    asked.append(final)
    return {"largest_weight": max(abs(x).max() for x in params["value"]["params"]["out"].values())}

  result = train(*tiny(tmp_path), writers=[written.append], evaluate=measure)
  assert asked == [False, False, True]
  assert [row["step"] for row in written] == [0, 2, 4, 6, 8]
  assert [row["step"] for row in written if "largest_weight" in row] == [0, 4, 8]
  assert written[-1] == result.row
  assert "exploitability" not in result.row


test_what_cannot_be_registered = refused(
  (lambda: rebel_jax.register("game", "mine", dict), "kind='game' is unknown; known: network"),
  (lambda: rebel_jax.register("optimizer", "adam", dict), "already registered"),
  (lambda: rebel_jax.register("optimizer", "mine", 3), "make=3"),
  (lambda: TINY.replace(architecture="mine").validate(), "architecture='mine' is unknown"),
)


FIELDS = list(allowed.flat(TINY))


def tiers(default: int, slow: int):
  """Parametrises a test by how many examples it draws."""
  both = [default, pytest.param(slow, marks=pytest.mark.slow)]
  return pytest.mark.parametrize("number", both)


def check(number: int, strategy, holds, phases=tuple(Phase)) -> None:
  """Checks that `holds` for what a strategy draws; fewer examples are always the same ones."""
  options = settings(
    max_examples=number,
    deadline=None,
    derandomize=number < 1_000,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=phases,
  )
  options(given(strategy)(holds))()


def is_sentence(error: Exception) -> None:
  text = str(error)
  assert text.strip()
  assert "\n" not in text


NUMBERS = st.one_of(
  st.integers(-3, 70_000),
  st.integers(-(2**70), 2**70),
  st.floats(),
  st.sampled_from([0, 1, 2, 0.5, 1.0, -0.0, 1e-320, 2**31, 2**32, math.inf, math.nan]),
)
WORDS = st.one_of(
  st.text(max_size=6),
  st.sampled_from(["", "\n", "\0", "nan", "-1", "1e9", "True", "kuhn_poker", "../x", "~", "/"]),
  st.text(min_size=300, max_size=400),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, st.binary(max_size=2))
JUNK = st.recursive(
  LEAVES,
  lambda inner: st.one_of(
    st.lists(inner, max_size=3),
    st.tuples(inner, inner),
    st.dictionaries(st.text(max_size=3), inner, max_size=2),
  ),
  max_leaves=4,
)


@tiers(150, 20_000)
def test_configurations(number):
  def holds(changes):
    try:
      config = TINY.replace(**changes)
      config.validate()
    except ConfigError as error:
      is_sentence(error)
      named = [*changes, "kuhn_poker", "num_dice", "num_faces", "lanes", "buffer_size"]
      assert any(name in str(error) for name in named)
    else:
      assert config.num_steps >= 1
      assert config.learn_steps >= 1
      assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config

  check(number, st.dictionaries(st.sampled_from(FIELDS), JUNK, min_size=1, max_size=3), holds)


def command_lines(options, banned=("--help", "-h", "--distributed"), first=None):
  """Returns a strategy of command lines of settings: flags, values, and what is neither."""
  flags = [f"--{name.replace('_', '-')}" for name in allowed.flat(options)]
  flags = [flag for flag in flags if flag not in banned]
  values = st.one_of(WORDS, NUMBERS.map(str), st.sampled_from(["1", "2", "64", "0.5"]))
  flag = st.sampled_from([*flags, *(f"--no-{flag[2:]}" for flag in flags)])
  part = st.one_of(
    st.tuples(flag, values),
    st.tuples(flag),
    st.tuples(flag, values).map(lambda pair: ("=".join(pair),)),
    st.tuples(flag, values, values, values),
    st.tuples(values),
    st.tuples(st.sampled_from(["--", "-", "---", "--=", "-1", "@file", "--lane", "-v", "--no-"])),
  )
  lines = st.lists(part, max_size=4).map(lambda parts: [x for part in parts for x in part])
  if first is not None:
    lines = st.tuples(first, lines).map(lambda pair: [*pair[0], *pair[1]])
  return lines.filter(lambda line: not set(line) & set(banned))


def refused_with_a_sentence(code, out, err) -> None:
  assert (code, out) == (2, "")
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  assert len(err) > len("error: \n")


@pytest.fixture
def parsing_only(monkeypatch):
  """Commands parse and check, but neither compile, nor train, nor play."""

  def train(config, *_, **__):
    config.validate()
    return rebel_jax.runs.run.Result(Path("run"), {}, 0)

  row = {"exploitability": 0.5}
  still = SimpleNamespace(about={}, measure=lambda *_, **__: Measurement(dict(row)))
  monkeypatch.setattr(rebel_jax.runs.run, "train", train)
  monkeypatch.setattr(devices, "enable_cache", lambda: None)
  monkeypatch.setattr(rebel_jax.evaluation.evaluator, "make_evaluator", lambda *_, **__: still)
  silent = SimpleNamespace(game=None, agent=lambda seed: None)
  monkeypatch.setattr(rebel_jax.agents.agent, "make_searcher", lambda *_, **__: silent)
  monkeypatch.setattr(play, "Terminal", lambda *_: None)
  monkeypatch.setattr(play, "run", lambda *_: None)


PRESET = st.sampled_from([[], *(["--preset", name] for name in PRESETS)])
NAME = st.one_of(st.just(["liars_dice_1x4f"]), WORDS.map(lambda word: [word]), st.just([]))


@pytest.mark.parametrize(
  ("command", "options", "first"),
  [(cli, TINY, PRESET), *((x, x.Options(""), NAME) for x in (evaluate, play))],
)
@tiers(40, 5_000)
def test_command_lines(
  number, command, options, first, parsing_only, capsys, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)

  def holds(line):
    code, (out, err) = command.main(line), capsys.readouterr()
    assert "nan" not in out.replace("--", "")
    assert list(tmp_path.iterdir()) == []
    if code != 0:
      refused_with_a_sentence(code, out, err)

  check(number, command_lines(options, first=first), holds)


def test_the_controls_fail():
  with pytest.raises(AssertionError):
    is_sentence(ValueError("two\nlines"))
  with pytest.raises(AssertionError):
    refused_with_a_sentence(2, "", "error: one\nTraceback\n")

  def too_strict(changes):
    TINY.replace(**changes).validate()

  with pytest.raises((ConfigError, BaseExceptionGroup)):
    check(50, st.fixed_dictionaries({"lanes": JUNK}), too_strict, [Phase.generate])
