"""Random bad input, by the thousand: one clear sentence each, and nothing else."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rebel_jax.agents.agent
import rebel_jax.runs.run
from rebel_jax import devices, evaluate, play
from rebel_jax import train as cli
from rebel_jax.config import PRESETS, Config, ConfigError, allowed
from rebel_jax.evaluation.measurement import Measurement
from tests.tiny import TINY

FIELDS = list(allowed.flat(TINY))


def tiers(default: int, slow: int):
  """Parametrises a test by how many examples it draws."""
  both = [default, pytest.param(slow, marks=pytest.mark.slow)]
  return pytest.mark.parametrize("number", both)


def check(number: int, strategy, holds) -> None:
  """Checks that `holds` for what a strategy draws; fewer examples are always the same ones."""
  options = settings(
    max_examples=number,
    deadline=None,
    derandomize=number < 1_000,
    suppress_health_check=list(HealthCheck),
    database=None,
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


@tiers(300, 20_000)
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

  class Nothing:
    def __init__(self, *_, **__):
      pass

    about: ClassVar = {}

    def measure(self, *_, **__):
      return Measurement({"exploitability": 0.5})

  monkeypatch.setattr(rebel_jax.runs.run, "train", train)
  monkeypatch.setattr(devices, "enable_cache", lambda: None)
  monkeypatch.setattr(rebel_jax.evaluation.evaluator, "make_evaluator", Nothing)
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
@tiers(100, 5_000)
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
    check(50, st.fixed_dictionaries({"lanes": JUNK}), too_strict)
