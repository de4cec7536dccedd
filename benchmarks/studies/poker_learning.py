"""ReBeL's Figure 2 on a small deck: what self-play, a policy network and perfect values are worth.

tabular  the whole game solved by Linear CFR
perfect  search with exact leaf values
train    networks of each variant, whose processor time leaves out compilation and evaluation
draw     --lines FILE ...: what these printed
"""

import dataclasses
import functools
import time
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import tyro

import games
import solvers
from benchmarks import timing
from benchmarks.figures import Lines, draw_lines, read_rows
from benchmarks.measurements import Run
from games.poker import Holdem, in_units
from rebel_jax import devices
from rebel_jax.config import Config, get_preset
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.runs.metrics import losses as losses_of
from rebel_jax.training.setup import make_subgames
from solvers.contrib.search_leaf_values import search_leaf_values
from solvers.search.playthroughs import make_searching_agent, searching_policy

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
  chips, pot = map(timing.significant, (units.chips, units.pot))
  timing.say("poker_learning", variant=variant, chips=chips, pot=pot, **figures)


def make_game(config: Config) -> Holdem:
  """Returns the preset's game of hold'em."""
  game = config.make_game()
  if not isinstance(game, Holdem):
    raise SystemExit(f"preset={config.preset!r} must be a preset of hold'em")
  return game


def tabular(config: Config, iterations: tuple[int, ...]) -> None:
  """Solves the whole game by Linear CFR."""
  game = make_game(config)
  tree = jax.tree.map(jnp.asarray, games.build_public_tree(game))
  for number in iterations:
    policy = timing.average_policy(tree, solvers.linear_cfr(), number)
    value = float(solvers.exploitability(tree, policy))
    say("tabular Linear CFR", game, value, iterations=number, nodes=tree.num_nodes)


def perfect(config: Config, iterations: tuple[int, ...], playthroughs: int, below: int) -> None:
  """Searches with the values of subgames solved by `below` iterations."""
  game = make_game(config)
  subgames = make_subgames(config, game)
  oracle, params = search_leaf_values(game, subgames, num_iterations=below)
  algorithm = solvers.make_algorithm(config.rebel.eval_algorithm)
  agent = make_searching_agent(
    game, subgames, algorithm=algorithm, leaf_values=oracle, average_last=True
  )
  for number in iterations:
    search = functools.partial(
      searching_policy, agent, params=params, num_playthroughs=playthroughs, num_iterations=number,
      key=jax.random.key(0),
    )  # fmt: skip
    policy, seconds, _ = timing.timed(search)
    value = float(solvers.exploitability(agent.tree, jnp.asarray(policy)))
    say(
      "perfect values",
      game,
      value,
      iterations=number,
      playthroughs=playthroughs,
      iterations_below=below,
      seconds=timing.significant(seconds, 3),
    )


def train(
  config: Config, names: tuple[str, ...], steps: int, iterations: tuple[int, ...], playthroughs: int
) -> None:
  """Trains each variant and measures it at each number of iterations."""
  for name in names:
    changes = timing.look_up("variant", name, VARIANTS | CHOICES)
    figures, evaluator, params = learn(
      config.replace(**changes), steps, random_beliefs=name == "random beliefs"
    )
    for number in iterations:
      value = evaluator.exploitability(params, playthroughs=playthroughs, iterations=number)
      known = {"iterations": number, "playthroughs": playthroughs}
      say(name, make_game(config), value, **known, **figures)


def learn(
  config: Config, steps: int, *, random_beliefs: bool = False
) -> tuple[dict[str, Any], Evaluator, Any]:
  """Trains for so many steps of self-play; returns figures, an evaluator and parameters."""
  examples = 2 * config.self_play.lanes * steps
  config = config.replace(max_seconds=None, examples=examples)
  run, every = Run(config, num_devices=1), config.schedule.report_every
  play: Any = run.trainer.self_play
  play = dataclasses.replace(play, random_beliefs=random_beliefs)
  run.trainer = dataclasses.replace(run.trainer, self_play=play)
  run.take(every)
  start = time.process_time()
  while int(run.state.step) < config.num_steps:
    run.take(every)
  figures = {
    "steps": int(run.state.step),
    "examples": int(run.state.replay["value"].added.sum()),
    "processor_seconds": timing.significant(time.process_time() - start, 3),
  }
  losses = losses_of(jax.tree.map(lambda x: x[:every].mean(), run.report), 1, 1)
  figures |= {name: timing.significant(x) for name, x in losses.items() if x and "loss" in name}
  evaluator = Evaluator(config, game=make_game(config), subgames=run.setup.subgames)
  return figures, evaluator, run.state.params


def draw(files: tuple[Path, ...], path: Path) -> None:
  """Draws exploitability against iterations, one line a variant."""
  lines: Lines = {}
  for row in sorted(read_rows(files, "poker_learning"), key=lambda row: row["iterations"]):
    if row["variant"] not in CHOICES:
      iterations, values = lines.setdefault(row["variant"], ([], []))
      iterations.append(row["iterations"])
      values.append(row["pot"])
  title, y = "Turn endgame hold'em with 18 cards", "exploitability, parts of the pot"
  draw_lines(lines, path, title=title, y=y)


def main(
  part: tyro.conf.Positional[Literal["tabular", "perfect", "train", "draw"]],
  preset: str = "small_turn_endgame_holdem",
  game: str | None = None,
  variants: tuple[str, ...] = tuple(VARIANTS),
  steps: int = 1_500,
  iterations: tuple[int, ...] = (16, 32, 64, 128, 256),
  playthroughs: int = 128,
  below: int = 64,
  lines: tuple[Path, ...] = (),
  figure: Path = Path("docs/images/poker_figure2.png"),
) -> None:
  """Measures a part of ReBeL's Figure 2 on a small deck, or draws it.

  Args:
    part: what to do.
    preset: whose game, network and searches.
    game: another game of hold'em than the preset's.
    variants: of training; also 'Adam, no roots' and 'Linear CFR, 64 iterations'.
    steps: of self-play, in training.
    iterations: of each search or solve.
    playthroughs: to average.
    below: iterations of the oracle's solves.
    lines: files to draw.
    figure: where to draw.
  """
  if part == "draw":
    draw(lines, figure)
    return
  devices.enable_cache()
  # All are measured by the algorithm that solves the whole game.
  config = get_preset(preset).replace(eval_algorithm="linear_cfr")
  if game:
    config = config.replace(game=game, game_params=())
  if part == "tabular":
    tabular(config, iterations)
  elif part == "perfect":
    perfect(config, iterations, playthroughs, below)
  else:
    train(config, variants, steps, iterations, playthroughs)


if __name__ == "__main__":
  timing.command(main)
