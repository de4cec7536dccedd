"""The paper's Table 2 of one's own runs: exploitability of each run's last three checkpoints.

As in the paper, the average policy of 1,024 playthroughs with searches of 1,024 iterations; with
`--playthroughs 64` it is a minute's work for Liar's Dice 1x4f, and higher: few are uneven.
"""

import dataclasses
from pathlib import Path

import tyro

from benchmarks import timing
from rebel_jax import devices, evaluate
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.presets import paper_exploitability
from rebel_jax.runs.display import Display


@dataclasses.dataclass(frozen=True)
class Options:
  """Measure the last checkpoints of runs by the paper's measure."""

  runs: tyro.conf.Positional[tuple[str, ...]]
  """Folders of runs."""
  playthroughs: int = 1024
  """Playthroughs to average."""
  iterations: int = 1024
  """Iterations of each search; one player's update is one."""
  algorithm: str | None = None
  """What the agent searches with; None for what the runs' configurations say."""
  checkpoints: int = 3
  """How many of a run's last checkpoints to measure."""
  seed: int = 0
  """Seed of the playthroughs."""
  keep: Path | None = None
  """Folder that keeps the playthroughs sampled so far."""


def last_checkpoints(run: str, count: int) -> list[Path]:
  """Returns a run's last `count` checkpoints, oldest first."""
  found = checkpoint.checkpoints_of(run)
  if not 1 <= count <= len(found):
    raise SystemExit(f"checkpoints={count} must be from 1 to the {len(found)} that {run!r} has")
  return found[-count:]


def measure(run: str, options: Options) -> dict[str, object]:
  """Returns the line of one run."""
  rows = []
  for path in last_checkpoints(run, options.checkpoints):
    keep = None if options.keep is None else options.keep / f"{Path(run).name}-{path.name}.npz"
    asked = evaluate.Options(
      checkpoint=str(path),
      playthroughs=options.playthroughs,
      iterations=options.iterations,
      seed=options.seed,
      algorithm=options.algorithm,
      keep=None if keep is None else str(keep),
    )
    rows.append(evaluate.measure(asked, Display(stderr=True)))
  found = [row["exploitability"] for row in rows]
  config = checkpoint.load(run).config
  return {
    "run": Path(run).name,
    "preset": rows[-1]["preset"],
    "seed_of_run": config.seed,
    "examples": [row["examples"] for row in rows],
    "exploitability": [timing.significant(value) for value in found],
    "mean": timing.significant(sum(found) / len(found)),
    "paper": paper_exploitability(config),
    "playthroughs": options.playthroughs,
    "iterations": options.iterations,
    "algorithm": rows[-1]["algorithm"],
    "seconds": timing.significant(sum(row["seconds"] for row in rows)),
  }


def main(options: Options) -> None:
  """Measures and prints."""
  devices.enable_cache()
  for run in options.runs:  # before hours of work
    last_checkpoints(run, options.checkpoints)
  if options.keep is not None:
    options.keep.mkdir(parents=True, exist_ok=True)
  for run in options.runs:
    timing.say({"benchmark": "table2"} | measure(run, options) | timing.environment())


if __name__ == "__main__":
  timing.command(main, Options)
