"""Nothing of the inventory of commit bc05050 is missing but what `gone.json` says, and why."""

import fnmatch
import json

import pytest

from tests.golden import inventory


@pytest.fixture(scope="module")
def missing():
  start = json.loads(inventory.FILE.read_text())
  return inventory.names(start) - inventory.names(inventory.inventory())


GONE = json.loads(inventory.GONE.read_text())


def unexplained(missing, gone=GONE):
  """Returns what is missing and matches no pattern of `gone`."""
  return sorted(x for x in missing if not any(fnmatch.fnmatchcase(x, y) for y in gone))


def test_what_is_missing_and_nothing_else_has_a_reason(missing):
  assert unexplained(missing) == []
  assert [x for x in GONE if not fnmatch.filter(missing, x)] == []
  assert all(isinstance(reason, str) and reason.endswith(".") for reason in GONE.values())


def test_a_command_that_came_later_is_read():
  assert inventory.flags_of("benchmarks.first_use") == ["against", "cases", "repeats"]


def test_a_name_that_goes_is_noticed(missing):
  """Control: a flag, a setting of a preset and a public name of the start, none of them gone."""
  lost = {
    "commands/rebel_jax.evaluate/playthroughs",
    "presets/kuhn_poker/game=kuhn_poker",
    "exports/solvers/solve",
  }
  assert lost <= inventory.names(json.loads(inventory.FILE.read_text()))
  assert not lost & missing
  assert unexplained(lost) == sorted(lost)
  assert unexplained(lost, {"exports/*": "Moved."}) == sorted(lost)[:1] + sorted(lost)[2:]
