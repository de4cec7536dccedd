"""Ships a trained network: measures it by the paper's measure and writes its two small files.

`python -m benchmarks.maintenance.pretrained RUN NAME` writes `rebel_jax/pretrained/NAME`. A network
of the package is measured again where RUN is its name, with `--algorithm` searching otherwise.
"""

import shlex
from pathlib import Path
from typing import Any

import tyro

import rebel_jax
import solvers
from benchmarks import timing
from rebel_jax import devices, evaluate
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import allowed
from rebel_jax.config.config import Config
from rebel_jax.config.presets import get_preset
from rebel_jax.runs import metrics
from rebel_jax.runs.display import Display

_FOLDER = Path(rebel_jax.__file__).parent / "pretrained"


def command_of(config: Config) -> str:
  """Returns the command that trains with `config`."""
  preset, flags = get_preset(config.preset), []
  usual = allowed.flat(preset)
  for name, value in allowed.flat(config).items():
    if name == "preset" or value == usual[name]:
      continue
    name = name.replace("_", "-")
    if isinstance(value, bool):
      flags.append(f" --{name}" if value else f" --no-{name}")
    else:
      flags.append(f" --{name} {shlex.quote(str(value))}")
  return f"python train.py --preset {config.preset}{''.join(flags)}"


def own_measure(run: str, policy: checkpoint.Policy) -> dict[str, Any]:
  """Returns the run's own measures of its newest checkpoint, with the settings it used."""
  config, search = policy.config, policy.config.rebel
  row = metrics.read_metrics(run)[-1]
  if row["step"] != policy.about["step"] or row.get("exploitability") is None:
    raise SystemExit(f"run={run!r} has not measured its newest checkpoint, leave out --own")
  found = {name: row[name] for name in ("exploitability", "playthroughs", "iterations")}
  seed = (config.seed + row["step"]) % 2**32  # as the run draws its playthroughs
  return found | {
    "algorithm": search.eval_algorithm,
    "depth": search.depth,
    "seed": seed,
  }


def main(
  run: tyro.conf.Positional[str],
  name: tyro.conf.Positional[str],
  playthroughs: int = 1024,
  iterations: int = 1024,
  seed: int = 0,
  trajectories: int | None = None,
  keep: str | None = None,
  seeds: int | None = None,
  lbr_hands: int = 0,
  algorithm: str | None = None,
  command: str | None = None,
  own: bool = False,
) -> None:
  """Measure a run's network and ship it with the package.

  Args:
    run: Folder of the run, or the name of a network that comes with the package.
    name: Name to ship it under.
    playthroughs: Playthroughs to average.
    iterations: Iterations of each search; one player's update is one.
    seed: Seed of the playthroughs.
    trajectories: Trajectories of the first search, as of `python -m rebel_jax.evaluate`; None for
      one.
    keep: File that keeps the playthroughs sampled so far, as of `python -m rebel_jax.evaluate`.
    seeds: Agents to measure, where searches grow trees.
    lbr_hands: Hands that local best response plays, where a game is too large for exploitability.
    algorithm: What the agent is to search with; None for what the run's configuration says.
    command: What trained it, if that was not one command with the run's settings.
    own: Take the run's own last evaluation instead of measuring again.
  """
  devices.enable_cache()
  policy = checkpoint.load(run)
  if algorithm is not None:
    if own:
      raise SystemExit(f"algorithm={algorithm!r} is not allowed with --own")
    solvers.make_algorithm(algorithm)
    policy = policy._replace(config=policy.config.replace(eval_algorithm=algorithm))
  asked = evaluate.Options(
    checkpoint=run, playthroughs=playthroughs, iterations=iterations, seed=seed, seeds=seeds,
    trajectories=trajectories, lbr_hands=lbr_hands, keep=keep, algorithm=algorithm,
  )  # fmt: skip
  result = own_measure(run, policy) if own else evaluate.measure(asked, Display(stderr=True))
  config = policy.config
  kept: tuple[str, ...] = ("exploitability", "playthroughs", "iterations", "algorithm", "depth")
  if "exploitability_mean" in result:
    kept = tuple(f"exploitability_{end}" for end in ("mean", "min", "max"))
    kept += ("seeds", "simulations", "per_update", "mix", "alternating")
  elif "trajectories" in result:  # a mean
    kept += ("exploitability_spread", "trajectories")
  elif "hands" in result:  # the game is too large for exploitability
    won = tuple(name for name in result if name.startswith(("won_mbb", "lbr_")))
    kept = (*won, "hands", "iterations", "algorithm")
  about = {
    "measured": {name: result[name] for name in (*kept, "seed")},
    "command": command
    or policy.about.get("command")
    or f"{command_of(config)} --num-devices {policy.about['num_devices']}",
    **{name: policy.about[name] for name in ("step", "examples", "seconds", "environment")},
  }
  shipped = checkpoint.Policy(config, policy.params, {})
  folder = checkpoint.export(shipped, _FOLDER / name, about)
  size = sum(path.stat().st_size for path in folder.iterdir())
  timing.say("pretrained", **{"name": name, "bytes": size} | result)


if __name__ == "__main__":
  timing.command(main)
