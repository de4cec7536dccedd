"""ReBeL's Figure 2 on a small deck: what self-play, a policy network and perfect values are worth.

  python -m benchmarks.studies.poker_learning tabular    the whole game solved by Linear CFR
  python -m benchmarks.studies.poker_learning perfect    search with exact leaf values
  python -m benchmarks.studies.poker_learning train      networks of each variant
  python -m benchmarks.studies.poker_learning draw --lines FILE ...    what these printed

Prints a JSON line for each number of search iterations (one player's update is one) with the
exploitability of the average over playthroughs, in chips and as a fraction of the pot. Networks
train for `--steps` of self-play; their processor time leaves out compilation and evaluation.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import games
import solvers
from benchmarks import timing
from benchmarks.figures import Lines, draw_lines, read_rows
from games.poker import Holdem, in_units
from rebel_jax import flags
from rebel_jax.config.config import Config
from rebel_jax.config.presets import get_preset
from rebel_jax.devices import compile_cache
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs.chunk import losses as losses_of
from rebel_jax.training.setup import make_setup, make_subgames
from solvers.search.oracle import search_leaf_values
from solvers.search.playthroughs import searching_policy
from solvers.search.searching_agent import SearchingAgent, make_searching_agent

VARIANTS: dict[str, dict[str, Any]] = {
  "self-play value net": {"policy_network": False},
  "self-play value and policy nets": {"policy_network": True},
  # The control: subgames at random beliefs instead of those that play leads to.
  "random beliefs": {"policy_network": False},
}
# What the preset's optimizer and searches are worth, beside the first of these; not in the figure.
CHOICES: dict[str, dict[str, Any]] = {
  "Adam, no roots": {
    "optimizer": "adam",
    "learning_rate": 0.001,
    "batch_size": 256,
    "belief_roots": 0,
    "uses_per_example": 16.0,
  },
  "Linear CFR, 64 iterations": {"algorithm": "linear_cfr", "iterations": 64},
}


def say(variant: str, game: Holdem, exploitability: float, **figures: Any) -> None:
  """Prints one JSON line."""
  units = in_units(game, exploitability)
  row = {"benchmark": "poker_learning", **timing.environment(), "variant": variant}
  row |= {"chips": timing.significant(units.chips), "pot": timing.significant(units.pot)}
  timing.say(row | figures)


def make_game(config: Config) -> Holdem:
  """Returns the preset's game.

  Raises:
    SystemExit: it is not one of hold'em.
  """
  game = config.make_game()
  if not isinstance(game, Holdem):
    sys.exit(f"preset={config.preset!r} must be a preset of hold'em")
  return game


def tabular(config: Config, iterations: list[int]) -> None:
  """Solves the whole game by Linear CFR."""
  game = make_game(config)
  tree = jax.tree.map(jnp.asarray, games.build_public_tree(game))
  for number in iterations:
    solution = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=number)
    value = float(solvers.exploitability(tree, solution.average_policy))
    say("tabular Linear CFR", game, value, iterations=number, nodes=tree.num_nodes)


def measure(agent: SearchingAgent, params: Any, iterations: int, playthroughs: int) -> float:
  """Returns an agent's exploitability in chips."""
  policy = searching_policy(
    agent,
    params=params,
    num_playthroughs=playthroughs,
    num_iterations=iterations,
    key=jax.random.key(0),
  )
  return float(solvers.exploitability(agent.tree, jnp.asarray(policy)))


def perfect(config: Config, iterations: list[int], playthroughs: int, below: int) -> None:
  """Searches with the values of subgames solved by `below` iterations."""
  game = make_game(config)
  subgames = make_subgames(config, game)
  oracle, params = search_leaf_values(game, subgames, num_iterations=below)
  algorithm = timing.make_algorithm("eval_algorithm", config.rebel.eval_algorithm)
  agent = make_searching_agent(
    game, subgames, algorithm=algorithm, leaf_values=oracle, average_last=True
  )
  for number in iterations:
    start = time.perf_counter()
    value = measure(agent, params, number, playthroughs)
    say(
      "perfect values",
      game,
      value,
      iterations=number,
      playthroughs=playthroughs,
      iterations_below=below,
      seconds=timing.significant(time.perf_counter() - start, 3),
    )


def train(
  config: Config, names: list[str], steps: int, iterations: list[int], playthroughs: int
) -> None:
  """Trains each variant and measures it at each number of iterations."""
  for name in names:
    changes = timing.look_up("variant", name, VARIANTS | CHOICES)
    figures, evaluator, params = run(
      config.replace(**changes), steps, random_beliefs=name == "random beliefs"
    )
    for number in iterations:
      value = evaluator.exploitability(params, playthroughs=playthroughs, iterations=number)
      known = {"iterations": number, "playthroughs": playthroughs}
      say(name, make_game(config), value, **known, **figures)


def run(
  config: Config, steps: int, *, random_beliefs: bool = False
) -> tuple[dict[str, Any], Evaluator, Any]:
  """Trains for so many steps of self-play; returns figures, an evaluator and parameters."""
  examples = 2 * config.self_play.lanes * steps
  config = config.replace(max_seconds=None, examples=examples)
  setup = make_setup(config, num_devices=1)
  play: Any = setup.trainer.self_play
  play = dataclasses.replace(play, random_beliefs=random_beliefs)
  trainer = dataclasses.replace(setup.trainer, self_play=play)
  state = trainer.init(setup.table, config.seed, setup.mesh)
  state, report = trainer.run(setup.table, state, config.schedule.report_every, setup.mesh)
  jax.block_until_ready(state)
  start = time.process_time()
  while int(state.step) < config.num_steps:
    state, report = trainer.run(setup.table, state, config.schedule.report_every, setup.mesh)
    jax.block_until_ready(state)
  figures = {
    "steps": int(state.step),
    "examples": int(state.replay["value"].added.sum()),
    "processor_seconds": timing.significant(time.process_time() - start, 3),
  }
  first = jax.tree.map(lambda x: x[: config.schedule.report_every].mean(), report)
  losses = losses_of(first, 1, 1)
  figures |= {name: timing.significant(x) for name, x in losses.items() if x and "loss" in name}
  evaluator = Evaluator(config, game=make_game(config), subgames=setup.subgames)
  return figures, evaluator, state.params


def draw(files: list[Path], path: Path) -> None:
  """Draws exploitability against iterations, one line a variant."""
  lines: Lines = {}
  for row in sorted(read_rows(files, "poker_learning"), key=lambda row: row["iterations"]):
    if row["variant"] not in CHOICES:
      iterations, values = lines.setdefault(row["variant"], ([], []))
      iterations.append(row["iterations"])
      values.append(row["pot"])
  title, y = "Turn endgame hold'em with 18 cards", "exploitability, parts of the pot"
  draw_lines(lines, path, title=title, y=y)


def main(argv: Sequence[str] | None = None) -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("part", choices=("tabular", "perfect", "train", "draw"))
  parser.add_argument("--preset", default="small_turn_endgame_holdem")
  parser.add_argument("--game", help="another game of hold'em than the preset's")
  parser.add_argument(
    "--variants", nargs="+", default=list(VARIANTS), help=f"also {', '.join(CHOICES)}"
  )
  parser.add_argument("--steps", type=int, default=1_500)
  parser.add_argument("--iterations", type=int, nargs="+", default=[16, 32, 64, 128, 256])
  parser.add_argument("--playthroughs", type=int, default=128)
  parser.add_argument("--below", type=int, default=64, help="iterations of the oracle's solves")
  parser.add_argument("--lines", type=Path, nargs="+", default=[])
  parser.add_argument("--figure", type=Path, default=Path("docs/images/poker_figure2.png"))
  options = parser.parse_args(argv)
  if options.part == "draw":
    draw(options.lines, options.figure)
    return
  compile_cache.enable()
  # All are measured by the algorithm that solves the whole game.
  config = get_preset(options.preset).replace(eval_algorithm="linear_cfr")
  if options.game:
    config = config.replace(game=options.game, game_params=())
  if options.part == "tabular":
    tabular(config, options.iterations)
  elif options.part == "perfect":
    perfect(config, options.iterations, options.playthroughs, options.below)
  else:
    train(config, options.variants, options.steps, options.iterations, options.playthroughs)


if __name__ == "__main__":
  sys.exit(flags.command(main))
