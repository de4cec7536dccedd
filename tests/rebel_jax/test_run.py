"""A run among others: several processes, another command in its folder, buffers of all networks."""

import dataclasses
import sys

import jax
import pytest

from rebel_jax.config.config import ConfigError
from rebel_jax.devices import memory
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs import folders
from rebel_jax.runs import run as run_module
from rebel_jax.runs.run import _Run, train
from rebel_jax.runs.stopping import Interrupted, RunError
from rebel_jax.training.loop import Trainer
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets.target import Decay
from tests.rebel_jax.test_checkpoint import assert_same_run
from tests.tiny import tiny, trained


@pytest.mark.parametrize("ends", [Interrupted, RunError("the exploitability is nan"), None])
def test_all_processes_leave_an_evaluation_alike(ends, monkeypatch):
  """Only the first measures; each of them asks it as often, and ends as it does."""
  row = {"exploitability": 0.1}

  def measure(self, final):
    if ends is not None:
      raise ends
    return row

  def evaluate():
    """Returns what one process's evaluation comes to."""
    run = object.__new__(_Run)
    run.examples = 8
    try:
      return run._evaluate(final=True)
    except (Interrupted, RunError) as error:
      return type(error)

  decisions = []
  monkeypatch.setattr(_Run, "_measure", measure)
  monkeypatch.setattr(run_module, "agree", lambda asked: decisions.append(asked) or asked)
  first = evaluate()
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(run_module, "agree", lambda asked: decisions.pop(0))
  second = evaluate()
  assert decisions == []
  expected = ends if ends in (Interrupted, None) else RunError
  assert (first, second) == ((row, {}) if expected is None else (expected, expected))


def test_a_run_that_another_command_ended_before_the_folder_was_free(tmp_path, monkeypatch):
  """It goes on from what that command left, here the end, and not from what was there before."""
  train(*tiny(tmp_path), stop=lambda step: step >= 4)
  lock, trained_here = folders.lock, []

  def late(folder):
    monkeypatch.setattr(folders, "lock", lock)
    train(*tiny(tmp_path, resume=True))
    monkeypatch.setattr(Trainer, "run", lambda *_: trained_here.append(True))
    return lock(folder)

  monkeypatch.setattr(folders, "lock", late)
  result = train(*tiny(tmp_path, resume=True))
  assert (result.row["step"], trained_here) == (8, [])
  monkeypatch.undo()
  assert_same_run(tmp_path, trained())


def test_a_step_may_not_make_more_examples_of_policies_than_the_buffer_holds(tmp_path):
  changes = dict(game="leduc_poker", depth=2, batch_size=4, buffer_size=16)
  make_setup(tiny(tmp_path / "run", **changes)[0])
  # Four lanes, and subgames of up to six decisions.
  with pytest.raises(ConfigError, match=r"^buffer_size=16 must be at least 24: as many examples"):
    make_setup(tiny(tmp_path / "run", **changes, policy_network=True)[0])
  assert not (tmp_path / "run").exists()


def test_memory_on_systems_that_do_not_say(monkeypatch):
  monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
  assert memory.resident_memory() is None


class Clock:
  """Time that passes with the steps of training alone, ten seconds each."""

  def __init__(self, monkeypatch):
    self.now = 0.0
    self.trainers = set()
    run = Trainer.run

    def timed(trainer, table, state, num_steps, mesh):
      self.now += 10.0 * num_steps
      self.trainers.add(trainer)
      is_decay = lambda x: isinstance(x, Decay)  # noqa: E731
      states = jax.tree.leaves(state.optimizer_state, is_leaf=is_decay)
      self.decay_steps = next(int(x.steps) for x in states if is_decay(x))
      return run(trainer, table, state, num_steps, mesh)

    monkeypatch.setattr(Trainer, "run", timed)
    monkeypatch.setattr(run_module, "time", self)

  def monotonic(self):
    return self.now


@pytest.mark.parametrize(
  ("limit", "steps", "planned"),
  # Of 300 s the 120 after step 18 are spent carefully; in 30 s there is nothing left to plan.
  [(None, 40, 40), (600.0, 40, 40), (300.0, 28, 28), (30.0, 3, 40)],
)
def test_a_run_whose_time_does_not_suffice_is_made_shorter(
  tmp_path, monkeypatch, limit, steps, planned
):
  """Its learning rate falls to zero by its end, where being cut off would leave it high."""
  clock = Clock(monkeypatch)
  config, options = tiny(tmp_path, examples=320, max_seconds=limit, evaluate_every=0)
  result = train(config, options, started=0.0)
  assert result.row["step"] == steps
  assert clock.decay_steps == planned * config.learn_steps
  assert len(clock.trainers) == 1  # nothing is compiled anew
  if planned < 40:  # it goes on to its whole length if asked to
    resumed = train(config.replace(max_seconds=None), dataclasses.replace(options, resume=True))
    assert resumed.row["step"] == 40
    assert clock.decay_steps == 40 * config.learn_steps


def test_evaluations_are_planned_with(tmp_path, monkeypatch):
  """Of 600 s 400 are gone after step 20: a run of 30 steps saves the evaluation there."""
  clock = Clock(monkeypatch)
  measure = Evaluator.measure

  def timed(*arguments, **keywords):
    clock.now += 100.0
    return measure(*arguments, **keywords)

  monkeypatch.setattr(Evaluator, "measure", timed)
  config, options = tiny(tmp_path, examples=320, max_seconds=600.0, evaluate_every=80)
  assert train(config, options, started=0.0).row["step"] == 30
  assert clock.decay_steps == 30 * config.learn_steps
