"""The paper's Table 2 of one's own runs: exploitability of each run's last three checkpoints.

As in the paper, the average policy of 1,024 playthroughs with searches of 1,024 iterations; with
`--playthroughs 64` it is a minute's work for Liar's Dice 1x4f, and higher: few are uneven.
"""

from pathlib import Path
from typing import Any

import tyro

from benchmarks import timing
from rebel_jax import devices, evaluate
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.presets import paper_exploitability
from rebel_jax.runs.display import Display


def last_checkpoints(run: str, count: int) -> list[Path]:
  """Returns a run's last `count` checkpoints, oldest first."""
  found = checkpoint.checkpoints_of(run)
  if not 1 <= count <= len(found):
    raise SystemExit(f"checkpoints={count} must be from 1 to the {len(found)} that {run!r} has")
  return found[-count:]


def main(
  runs: tyro.conf.Positional[tuple[str, ...]],
  playthroughs: int = 1024,
  iterations: int = 1024,
  algorithm: str | None = None,
  checkpoints: int = 3,
  seed: int = 0,
  keep: Path | None = None,
) -> None:
  """Measure the last checkpoints of runs by the paper's measure.

  Args:
    runs: Folders of runs.
    playthroughs: Playthroughs to average.
    iterations: Iterations of each search; one player's update is one.
    algorithm: What the agent searches with; None for what the runs' configurations say.
    checkpoints: How many of a run's last checkpoints to measure.
    seed: Seed of the playthroughs.
    keep: Folder that keeps the playthroughs sampled so far.
  """
  devices.enable_cache()
  paths = {run: last_checkpoints(run, checkpoints) for run in runs}  # before hours of work
  if keep is not None:
    keep.mkdir(parents=True, exist_ok=True)
  asked: dict[str, Any] = {
    "playthroughs": playthroughs, "iterations": iterations, "seed": seed, "algorithm": algorithm,
  }  # fmt: skip
  for run, config in ((run, checkpoint.load(run).config) for run in runs):
    name = Path(run).name
    kept = [None if keep is None else str(keep / f"{name}-{x.name}.npz") for x in paths[run]]
    rows = [
      evaluate.measure(
        evaluate.Options(checkpoint=str(path), keep=file, **asked), Display(stderr=True)
      )
      for path, file in zip(paths[run], kept)
    ]
    found = [row["exploitability"] for row in rows]
    timing.say(
      "table2",
      run=name,
      preset=rows[-1]["preset"],
      seed_of_run=config.seed,
      examples=[row["examples"] for row in rows],
      exploitability=[timing.significant(value) for value in found],
      mean=timing.significant(sum(found) / len(found)),
      paper=paper_exploitability(config),
      playthroughs=playthroughs,
      iterations=iterations,
      algorithm=rows[-1]["algorithm"],
      seconds=timing.significant(sum(row["seconds"] for row in rows)),
    )


if __name__ == "__main__":
  timing.command(main)
