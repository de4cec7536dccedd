"""The command that measures a machine: what it keeps, what it survives, what it refuses."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import isolated, machine, measurements, poker
from benchmarks.ledger import Ledger, LedgerError
from tests.benchmarks import tiny_measurements as tiny
from tests.tiny import trained

ROOT = Path(__file__).parents[2]
CPU = {"device": "cpu", "platform": "cpu", "devices": 1, "processor": "x", "cores": 2}
CPU |= {"versions": {"jax": "1"}, "source": "a"}
REGISTRY = tiny.__name__


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  """The folder where measurements say that they ran."""
  folder = tmp_path / "ran"
  folder.mkdir()
  monkeypatch.setenv(tiny.FOLDER, str(folder))
  return folder


def command(output: Path, minutes: float = 0.5) -> list[str]:
  flags = ["--output", str(output), "--minutes", str(minutes), "--registry", REGISTRY]
  return [sys.executable, "-m", "benchmarks.machine", *flags]


def run(output: Path, minutes: float = 0.5) -> subprocess.CompletedProcess[str]:
  child = command(output, minutes)
  return subprocess.run(child, cwd=ROOT, capture_output=True, text=True, check=False)


def lines(output: Path) -> list[dict]:
  return [json.loads(line) for line in output.read_text().splitlines()]


def alive(pid: int) -> bool:
  status = Path(f"/proc/{pid}/status")
  return status.exists() and "zombie" not in status.read_text()


def wait_for(condition, seconds: float = 60.0) -> None:
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end, "it did not happen"
    time.sleep(0.05)


@pytest.mark.slow
def test_it_is_killed_and_goes_on_where_it_was(tmp_path, folder):
  output = tmp_path / "machine.jsonl"
  first = subprocess.Popen(command(output), cwd=ROOT, stdout=subprocess.PIPE, text=True)
  wait_for(lambda: (folder / "wait").exists() and (folder / "wait").read_text().endswith("\n"))
  pid = int((folder / "wait").read_text())
  assert alive(pid)
  first.kill()
  first.communicate()
  wait_for(lambda: not alive(pid), 10)  # what it measured ends with it
  with output.open("a") as file:
    file.write('{"benchmark": "machine", "measurem')  # a line that was not finished
  finished = {
    line["measurement"] for line in lines_before_the_last(output) if "took_seconds" in line
  }
  assert finished == {"crashes", "fails", "fast way"}

  second = run(output)
  assert second.returncode == 0, second.stderr
  found = {line["measurement"]: line for line in lines(output) if "measurement" in line}
  assert found.keys() == {"crashes", "fails", "fast way", "waits", "slow way"}
  counts = {path.name: len(path.read_text().splitlines()) for path in folder.iterdir()}
  assert counts == {"crash": 1, "fail": 1, "quick 4": 1, "wait": 2, "quick 2": 1}
  # What was interrupted comes after what was not tried.
  assert [x["started"] for x in lines(output) if "started" in x][-2:] == ["slow way", "waits"]
  assert found["crashes"]["error"] == "killed by SIGKILL, after: out of memory"
  assert found["fails"]["error"] == "ValueError: nothing to measure\nand more"
  assert found["waits"]["rate"] == 3.0
  assert "fast way is 2.00 times as fast as slow way: 4 and 2 things/s" in second.stdout
  assert "skipped too long: it takes about" in second.stdout
  assert "elsewhere" not in second.stdout


def lines_before_the_last(output: Path) -> list[dict]:
  return [json.loads(line) for line in output.read_text().splitlines()[:-1]]


def test_what_cannot_be_used_is_refused_in_a_sentence(tmp_path, capsys):
  header = {"benchmark": "machine", "machine": CPU | {"device": "another"}}
  other = json.dumps(header) + "\n" + json.dumps({"measurement": "x", "took_seconds": 1.0}) + "\n"
  for text, sentence in (
    (other, "holds measurements of device='another', and here it is 'cpu'; give another file"),
    ('{"a": 1}\n', "must be a new file or one of benchmarks.machine"),
  ):
    output = tmp_path / "machine.jsonl"
    output.write_text(text)
    assert machine.main(machine.Options(output, registry=REGISTRY)) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert output.read_text() == text
  with pytest.raises(LedgerError, match="registry='benchmarks.timing' must be a module with"):
    machine.load_registry("benchmarks.timing")
  child = run(tmp_path / "new.jsonl", minutes=0)
  assert (child.returncode, child.stderr) == (2, "error: minutes=0.0 must be a positive number\n")
  assert not (tmp_path / "new.jsonl").exists()


@pytest.mark.parametrize("name", ["devices", "processor", "cores", "versions", "source"])
def test_a_file_is_of_one_machine_and_version(name, tmp_path):
  Ledger(tmp_path / "a", CPU).close()
  Ledger(tmp_path / "a", CPU | {"git_commit": "of pages only"}).close()
  with pytest.raises(LedgerError, match=f"holds measurements of {name}="):
    Ledger(tmp_path / "a", CPU | {name: "other"})


def schedule(tmp_path, *found: measurements.Measurement) -> tuple[machine.Schedule, Ledger]:
  ledger = Ledger(tmp_path / "ledger", CPU)
  return machine.Schedule(found, ledger, CPU), ledger


def test_the_most_valuable_minutes_come_first_and_what_does_not_fit_waits(tmp_path):
  dear, cheap = tiny.make("dear", None, 10, 100), tiny.make("cheap", None, 1, 1)
  planned, ledger = schedule(tmp_path, dear, cheap)
  assert [x.name for x in planned.pending()] == ["cheap", "dear"]
  assert planned.next(1000) is cheap
  ledger.start("cheap")
  assert planned.next(1000) is dear  # cheap may be what ended the command
  assert planned.next(99) is cheap
  assert planned.next(0.5) is None


def test_estimates_learn_from_what_measurements_took(tmp_path):
  names = ("quick", "slow", "broken", "other")
  quick, slow, broken, other = (tiny.make(name, None, 1, 10) for name in names)
  planned, ledger = schedule(tmp_path, quick, slow, broken, other)
  assert planned.estimate(slow) == 10
  ledger.finish("broken", 500.0, {"error": "it does not work"})  # says nothing about the machine
  assert planned.estimate(slow) == 10
  ledger.finish("quick", 30.0, {"rate": 1.0})
  assert planned.estimate(slow) == 30
  ledger.cut("slow", 200.0)
  assert planned.estimate(slow) == pytest.approx(220)
  assert planned.estimate(other) == pytest.approx(10 * (30 + 200) / 20)
  ledger.close()
  again, _ = schedule(tmp_path, quick, slow, broken)
  assert again.estimate(slow) == pytest.approx(220)


def test_a_measurement_ends_when_its_time_is_up():
  ended = isolated.call(functools.partial(time.sleep, 60), seconds=0.5)
  assert ended.cut_off
  assert ended.seconds < 30
  fast = isolated.call(functools.partial(time.sleep, 0), seconds=60)  # control
  assert (fast.cut_off, fast.error) == (False, None)


def test_which_way_is_faster_is_said_where_both_were_measured():
  fused = dataclasses.replace(tiny.MEASUREMENTS[2], rival="slow way")
  done = {"slow way": {"rate": 2.0}, "fast way": {"rate": 1.0}}
  assert machine.verdicts([fused], done) == [
    "slow way is 2.00 times as fast as fast way: 2 and 1 things/s"
  ]
  assert machine.verdicts([fused], done | {"fast way": {"error": "out of memory"}}) == []
  assert machine.verdicts([fused], {"fast way": {"rate": 1.0}}) == []


def test_the_registry_is_sound():
  found = {x.name: x for x in measurements.MEASUREMENTS}
  assert len(found) == len(measurements.MEASUREMENTS)
  for x in found.values():
    assert x.rival is None or found[x.rival].shows == x.shows
    assert x.value > 0
  fused = [x for x in found.values() if x.name.endswith("fused")]
  assert fused
  assert all(x.cpu is None and x.run.keywords["fused"] for x in fused)


@pytest.mark.parametrize(
  ("name", "run"),
  [
    ("tabular kuhn", functools.partial(measurements.solve_game, "kuhn")),
    ("default training run", lambda: measurements.describe_run(trained())),
    (
      "64 playthroughs, liars_dice_1x4f",
      lambda: measurements.evaluate_agent(str(trained()), playthroughs=3),
    ),
    pytest.param(
      "batch of 128 rivers", functools.partial(poker.rivers, 2, 8), marks=pytest.mark.slow
    ),
    pytest.param(
      "poker update, all hands",
      functools.partial(poker.update, "teh_one_bet", 2),
      marks=pytest.mark.slow,
    ),
  ],
)
def test_measurements_give_what_the_table_shows(name, run):
  """Small ones of each kind."""
  measurement = next(x for x in measurements.MEASUREMENTS if x.name == name)
  found = run()
  assert all(found[figure] > 0 for figure in measurement.shows)
  assert machine.figures(measurement, json.loads(json.dumps(found))).count(",") >= 1


def test_training_that_fails_is_no_measurement():
  with pytest.raises(RuntimeError, match=r"train.py ended with exit code 2"):
    measurements.train("--preset", "chess")


def test_listing_measurements_leaves_the_devices_alone():
  """The command's own process must not hold memory of an accelerator."""
  code = "import benchmarks.machine, jax; jax.config.update('jax_num_cpu_devices', 2){}"
  for more, allowed in (
    ("", True),
    ("; jax.devices(); jax.config.update('jax_num_cpu_devices', 3)", False),
  ):
    child = [sys.executable, "-c", code.format(more)]
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    found = subprocess.run(child, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert (found.returncode == 0) == allowed, found.stderr
