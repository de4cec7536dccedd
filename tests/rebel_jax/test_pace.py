"""How much of a run is done, and how long the rest takes."""

import math

import pytest

from rebel_jax.config.config import Config
from rebel_jax.runs.pace import Pace, work

# 100 steps; in the second run the last 25 cost four times as much.
PLAIN = Config().replace(examples=12_800, lanes=64, iterations=64)
LATE = PLAIN.replace(late_iterations=256)


def test_steps_of_longer_searches_count_more():
  assert [Pace(PLAIN).done(step) for step in (0, 80, 100)] == [0, 0.8, 1]
  assert [Pace(LATE).done(step) for step in (0, 75, 80, 100)] == [0, 75 / 175, 95 / 175, 1]


def test_what_is_left_follows_from_what_was_spent():
  pace = Pace(LATE)
  pace.add(0, 10, 30.0, compiled=True)  # compilation, which says nothing
  assert pace.left(10) == math.inf
  pace.add(10, 30, 10.0, compiled=False)
  assert pace.left(30) == pytest.approx(0.5 * 145)
  pace.add(80, 90, 20.0, compiled=False)  # as much a unit of work
  assert pace.left(90) == pytest.approx(20)
  assert pace.left(100) == 0


def test_how_long_a_run_fits():
  config = PLAIN.replace(report_every=5)
  pace = Pace(config)
  pace.add(0, 40, 80.0, compiled=False)  # two seconds a step
  assert pace.affordable(40, 120.0) == 0  # all of it
  assert pace.affordable(40, 119.0) == 128 * 99
  assert pace.affordable(40, 60.0) == 128 * 70
  assert pace.affordable(40, 10.0) == 128 * 45
  assert pace.affordable(40, 3.0) == 128 * 41
  assert pace.affordable(40, 1.0) == 0  # less than a step


def test_evaluations_take_time_too():
  config = PLAIN.replace(report_every=5, evaluate_every=128 * 25)
  pace = Pace(config)
  pace.add(0, 30, 30.0, compiled=False)
  assert pace.left(30) == pytest.approx(70)  # how long they take is not known yet
  pace.evaluation = 20.0
  # After steps 50 and 75; the one at the end is apart.
  assert [pace.left(step) for step in (30, 50, 75, 99, 100)] == pytest.approx([110, 70, 25, 1, 0])
  assert pace.affordable(30, 109.0) == 128 * 99
  assert pace.affordable(30, 60.0) == 128 * 70  # 40 steps and an evaluation
  assert pace.affordable(30, 39.0) == 128 * 50  # up to where the first one would be
  assert pace.affordable(30, 20.5) == 128 * 50


def test_longer_searches_come_last_in_a_shorter_run_too():
  seconds = 90.0
  config = LATE.replace(report_every=5)
  pace = Pace(config)
  pace.add(0, 40, 40.0, compiled=False)
  examples = pace.affordable(40, seconds)
  shorter = config.replace(examples=examples)
  assert shorter.late_step == round(0.75 * shorter.num_steps)

  def left(run):
    pace = Pace(run)
    pace.add(0, 40, 40.0 * work(run, 40) / 40, compiled=False)
    return pace.left(40)

  longer = config.replace(examples=examples + 128)
  assert left(shorter) <= seconds < left(longer) < left(config)
