"""A run that takes a second once it is compiled, for the tests of everything around training."""

import dataclasses
import fcntl
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config import allowed
from rebel_jax.config.config import Config, GrowingSearch, PerfectSearch
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training.loop import TrainState
from rebel_jax.training.setup import make_setup, make_targets
from rebel_jax.training.targets import init_params

# Kuhn poker, 8 steps in 4 chunks, an evaluation after the second and at the end.
TINY = Config().replace(
  preset="kuhn_poker",
  game="kuhn_poker",
  game_params=(),
  depth=1,
  iterations=8,
  lanes=4,
  rows_fraction=1.0,
  width=32,
  batch_size=2,
  uses_per_example=1.0,
  buffer_size=256,
  examples=64,
  report_every=2,
  evaluate_every=24,
  eval_playthroughs=2,
  eval_iterations=8,
  final_playthroughs=3,
  final_iterations=16,
)

# Kuhn poker by searches that grow their trees, for long enough to learn it.
TINY_GROWING = Config().replace(
  preset="pog_kuhn",
  game="kuhn_poker",
  game_params=(),
  search=GrowingSearch(simulations=8, eval_iterations=60, final_playthroughs=3),
  lanes=16,
  width=32,
  belief_roots=1,
  optimizer="muon",
  learning_rate=0.02,
  batch_size=32,
  uses_per_example=4.0,
  buffer_size=2_048,
  examples=3_000,
  report_every=25,
  evaluate_every=0,
)

# Tic-tac-toe by searches of perfect information, for too short to learn it.
TINY_PERFECT = Config().replace(
  preset="pog_tic_tac_toe",
  game="tic_tac_toe",
  game_params=(),
  search=PerfectSearch(
    simulations=2, td1_share=0.3, query_share=0.3, eval_iterations=4, final_playthroughs=2
  ),
  lanes=8,
  width=16,
  optimizer="muon",
  learning_rate=0.02,
  batch_size=16,
  uses_per_example=4.0,
  buffer_size=512,
  examples=160,
  report_every=5,
  evaluate_every=0,
)


def tiny(folder, **changes) -> tuple[Config, RunOptions]:
  """Returns the tiny configuration, and options to run it in `folder`."""
  options = {
    x.name: changes.pop(x.name) for x in dataclasses.fields(RunOptions) if x.name in changes
  }
  return TINY.replace(**changes), RunOptions(output_dir=str(folder), **options)


def stepped(config: Config, steps: int, *, seed: int = 0, devices: int | None = None) -> tuple:
  """Returns a configuration's setup, and the state and the report after some steps."""
  setup = make_setup(config, devices)
  state = setup.trainer.init(setup.table, seed, setup.mesh)
  return setup, *setup.trainer.run(setup.table, state, steps, setup.mesh)


def restored(path: Path, config: Config, devices: int | None = None) -> TrainState:
  """Returns all arrays of a checkpoint, as on so many devices."""
  setup = make_setup(config, devices)
  like = setup.trainer.init(setup.table, 0, setup.mesh)
  state = checkpoint.restore(path, like, setup.mesh)
  return jax.tree.map(np.asarray, state._replace(keys=jax.random.key_data(state.keys)))


def as_flags(**changes) -> list[str]:
  """Returns the tiny configuration as flags of `train.py`, without a folder."""
  flags = []
  for name, value in (allowed.flat(TINY) | changes).items():
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
      flags.append(flag if value else f"--no-{flag[2:]}")
    elif value is not None and value != ():
      flags += [flag, str(value)]
  return flags


def untrained(game, game_params=(), **settings) -> Policy:
  """Returns a small network that has learned nothing."""
  sizes = {"hidden_layers": 1, "width": 16}
  return policy_of(Config().replace(game=game, game_params=game_params, **sizes | settings))


def policy_of(config: Config) -> Policy:
  """Returns a configuration's network before it has learned anything."""
  targets = make_targets(config, config.make_game())
  init = jax.jit(functools.partial(init_params, targets))
  return Policy(config, init(jax.random.key(0)), {"checkpoint": config.game})


@functools.cache
def trained(name: str = "tiny", config: Config = TINY) -> Path:
  """Returns the folder of a finished run, made once a session of tests; leave it as it is."""
  base = os.environ.get("REBEL_JAX_TEST_RUNS") or tempfile.mkdtemp(prefix="rebel-jax-test-")
  folder = Path(base) / name
  folder.mkdir(parents=True, exist_ok=True)
  with open(folder.with_suffix(".lock"), "w") as file:  # of all workers one trains
    fcntl.flock(file, fcntl.LOCK_EX)
    if not (folder / "done").exists():
      train(config, RunOptions(output_dir=str(folder)))
      (folder / "done").touch()
  return folder


def python(program: str, *arguments: object, devices: int | None = None, **variables: str) -> str:
  """Returns what a program prints in a process of its own, which may have so many CPU devices."""
  environment = {k: v for k, v in os.environ.items() if k != "JAX_NUM_CPU_DEVICES"}
  environment |= {"PYTHONPATH": str(Path(__file__).parents[1])} | variables
  if devices is not None:
    flags = os.environ.get("XLA_FLAGS", "")
    environment["JAX_PLATFORMS"] = "cpu"
    environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}"
  command = [sys.executable, "-c", program, *map(str, arguments)]
  done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
  assert done.returncode == 0, done.stderr
  return done.stdout


def rows(folder) -> list[dict]:
  """Returns the rows of a run's chunks without what the clock and the machine decide."""
  timing = ("seconds", "examples_per_second", "evaluation_seconds", "device_memory_bytes")
  lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
  found = [{k: v for k, v in json.loads(line).items() if k not in timing} for line in lines]
  return [row for row in found if row["step"]]  # without what was measured before training
