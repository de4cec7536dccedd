"""Whether runs survive: memory and speed over a long time, and kills at random moments.

`python -m benchmarks.soak --seconds 3600` trains with `train.py` for that long, or until it has
made `--examples`, and prints a JSON line at regular intervals (resident memory, examples a second),
then one with the slopes of both over the time after `--warm-up` seconds, in which it compiles and
fills caches.

`python -m benchmarks.soak --kills 20` trains a run to its end, then the same run again while it is
killed (SIGKILL) that many times at random moments, each time resumed, and prints a JSON line for
each kill and one that compares the two: parameters and all other state bit for bit, and
`metrics.jsonl` row by row but for what the clock and the machine say. Checkpoints are saved after
every chunk, so that many of the kills fall into a save. The exit code is 1 if anything differs.
"""

import dataclasses
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from benchmarks import timing
from rebel_jax import checkpoint, metrics
from rebel_jax.config import Config

ROOT = Path(__file__).parents[1]
CLOCK = ("seconds", "examples_per_second", "evaluation_seconds", "device_memory_bytes")


@dataclasses.dataclass(frozen=True)
class Options:
  """Train for long, or kill and resume."""

  preset: str = "kuhn_poker"
  """What to train."""
  seconds: float = 1_200.0
  """How long to train, without `--kills`."""
  warm_up: float = 240.0
  """Seconds at the beginning that the slopes leave out."""
  interval: float = 60.0
  """Seconds between two measurements."""
  kills: int = 0
  """How often to kill; 0 to train undisturbed for `seconds`."""
  longest: float = 8.0
  """Seconds after which a process is killed at the latest; half of the kills fall anywhere in
  them, imports and compilation included, the others soon after a checkpoint."""
  examples: int | None = None
  """Of each of the two runs that `--kills` compares, None for 10,000; otherwise of the run, None
  for as many as it makes in `seconds`."""
  evaluate_every: int = 2_000
  """Examples between evaluations."""
  seed: int = 0
  """Of training and of the moments of kills."""
  folder: Path | None = None
  """Where the runs go; None for a temporary folder."""


def command(folder: Path, options: Options, *more: str) -> list[str]:
  """Returns the command that trains in `folder`, or goes on there if there is a checkpoint."""
  if checkpoint.checkpoints_of(folder):
    return [sys.executable, "train.py", "--resume", "--output-dir", str(folder)]
  flags = ["--preset", options.preset, "--seed", str(options.seed), "--num-devices", "1"]
  flags += ["--evaluate-every", str(options.evaluate_every), "--output-dir", str(folder)]
  return [sys.executable, "train.py", *flags, *more]


def start(arguments: list[str]) -> subprocess.Popen:
  return subprocess.Popen(
    arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
  )


def resident_bytes(process: subprocess.Popen) -> int:
  """Returns the memory that a process has resident."""
  status = Path(f"/proc/{process.pid}/status").read_text()
  return 1024 * int(status.split("VmRSS:")[1].split()[0])


def last_step(run: Path) -> int:
  """Returns the step that a run ends with."""
  written = json.loads((run / "config.json").read_text())
  return Config.from_dict(written["config"]).num_steps


def slope(times: list[float], values: list[float]) -> float:
  """Returns by how much values grow in an hour, as a least-squares line has it."""
  return float(np.polyfit(np.asarray(times) / 3600, values, 1)[0])


def soak(options: Options, folder: Path) -> list[dict[str, Any]]:
  """Trains undisturbed; prints a row an interval and returns them."""
  run = folder / "soak"
  total = 2**31 - 1 if options.examples is None else options.examples
  limits = ["--max-seconds", str(options.seconds), "--examples", str(total)]
  process, began = start(command(run, options, *limits)), time.monotonic()
  rows: list[dict[str, Any]] = []
  before, last = 0, began
  while process.poll() is None:
    time.sleep(max(0.0, last + options.interval - time.monotonic()))
    now = time.monotonic()
    if process.poll() is not None or now - began > options.seconds:
      break
    done = metrics.read_metrics(run)
    examples = done[-1]["examples"] if done else 0
    if done and done[-1]["step"] >= last_step(run):
      break  # all that is left is the evaluation at the end
    rows.append(
      {
        "benchmark": "soak",
        **timing.environment(),
        "preset": options.preset,
        "seconds": round(now - began, 1),
        "resident_bytes": resident_bytes(process),
        "examples": examples,
        "examples_per_second": round((examples - before) / (now - last), 2),
      }
    )
    print(json.dumps(rows[-1]), flush=True)
    before, last = examples, now
  said = process.communicate()[1]
  if process.returncode:
    raise SystemExit(f"training ended with {process.returncode}: {said}")
  return rows


def slopes(options: Options, rows: list[dict[str, Any]]) -> dict[str, Any]:
  """Returns the line that sums a soak up."""
  kept = [row for row in rows if row["seconds"] >= options.warm_up]
  if len(kept) < 3:
    raise SystemExit(
      f"interval={options.interval} leaves {len(kept)} measurements after "
      f"warm_up={options.warm_up}; at least 3 are needed"
    )
  times = [row["seconds"] for row in kept]
  memory = [row["resident_bytes"] for row in kept]
  rate = [row["examples_per_second"] for row in kept]
  return {
    "benchmark": "soak",
    **timing.environment(),
    "preset": options.preset,
    "seconds": options.seconds,
    "warm_up": options.warm_up,
    "measurements": len(kept),
    "resident_bytes_first": memory[0],
    "resident_bytes_last": memory[-1],
    "resident_bytes_growth_per_hour": round(slope(times, memory)),
    "resident_growth_per_hour": timing.significant(slope(times, memory) / np.mean(memory), 3),
    "examples_per_second": timing.significant(float(np.mean(rate)), 4),
    "rate_change_per_hour": timing.significant(slope(times, rate) / float(np.mean(rate)), 3),
  }


def same_arrays(folder: Path, other: Path) -> bool:
  """Says whether the newest checkpoints of two runs hold the same bits.

  It is the sum over all bits that each was saved with, and that reading them would check.
  """
  sums = [
    checkpoint.read_about(checkpoint.checkpoints_of(run)[-1])["checksums"]
    for run in (folder, other)
  ]
  loaded = [checkpoint.load(run).params for run in (folder, other)]
  alike = jax.tree.map(lambda x, y: np.array_equal(x, y), *loaded)
  return sums[0] == sums[1] and all(jax.tree.leaves(alike))


def comparable(folder: Path) -> list[dict[str, Any]]:
  """Returns a run's rows without what the clock and the machine say."""
  return [
    {name: value for name, value in row.items() if name not in CLOCK}
    for row in metrics.read_metrics(folder)
  ]


def kill_and_resume(options: Options, folder: Path) -> dict[str, Any]:
  """Trains once undisturbed and once with kills; returns how the two compare."""
  whole, killed = folder / "whole", folder / "killed"
  examples = 10_000 if options.examples is None else options.examples
  length = ["--examples", str(examples), "--checkpoint-every", "0.001"]
  process = start(command(whole, options, *length))
  said = process.communicate()[1]
  if process.returncode:
    raise SystemExit(f"training ended with {process.returncode}: {said}")
  rng, kills, attempts = random.Random(options.seed), 0, 0
  while True:
    attempts += 1
    process = start(command(killed, options, *length))
    if kills < options.kills:
      wait = rng.uniform(0.0, options.longest)
      if kills % 2:
        newest = checkpoint.checkpoints_of(killed)[-1:]
        while process.poll() is None and checkpoint.checkpoints_of(killed)[-1:] == newest:
          time.sleep(0.005)
        wait = rng.uniform(0.0, 0.5)
      try:
        process.wait(timeout=wait)
      except subprocess.TimeoutExpired:
        process.kill()
    said = process.communicate()[1]
    if process.returncode not in (0, -signal.SIGKILL):
      raise SystemExit(f"training ended with {process.returncode}: {said}")
    if process.returncode == 0:
      break
    kills += 1
    names = [p.name for p in (killed / "checkpoints").glob("*")]
    row = {
      "benchmark": "soak",
      "kill": kills,
      "at_step": max((int(p.name[:8]) for p in checkpoint.checkpoints_of(killed)), default=0),
      "while_saving": any(not name.isdecimal() for name in names),
    }
    print(json.dumps(row), flush=True)
  return {
    "benchmark": "soak",
    **timing.environment(),
    "preset": options.preset,
    "examples": examples,
    "kills": kills,
    "attempts": attempts,
    "rows": len(comparable(whole)),
    "same_state": same_arrays(whole, killed),
    "same_metrics": comparable(whole) == comparable(killed),
  }


def main(options: Options) -> int:
  """Runs the mode that the options ask for and returns the exit code."""
  with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary) if options.folder is None else options.folder
    if not options.kills:
      print(json.dumps(slopes(options, soak(options, folder))), flush=True)
      return 0
    row = kill_and_resume(options, folder)
    print(json.dumps(row), flush=True)
    return 0 if row["same_state"] and row["same_metrics"] and row["kills"] >= options.kills else 1


if __name__ == "__main__":
  sys.exit(main(tyro.cli(Options)))
