"""ReBeL's Figure 2 on a small deck: what self-play, a policy network and perfect values are worth.

tabular  the whole game solved by Linear CFR
perfect  search with exact leaf values
train    networks of each variant, whose processor time leaves out compilation and evaluation
ladder   fixed opponents, exactly and in matches
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
import rebel_jax
import solvers
from benchmarks import timing
from benchmarks.figures import Lines, draw_lines, read_rows
from benchmarks.measurements import Run
from games.poker import Holdem, in_units
from rebel_jax import devices
from rebel_jax.config import Config, get_preset
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator, favourites
from rebel_jax.evaluation.opponents import LADDER, OPPONENTS, SHOWN, likes
from rebel_jax.networks.poker import ShownValues, Table
from rebel_jax.runs.metrics import losses as losses_of
from rebel_jax.training.setup import make_subgames
from solvers.contrib.off_tree import translate
from solvers.contrib.search_leaf_values import search_leaf_values
from solvers.metrics import milli_big_blinds
from solvers.search.playthroughs import make_searching_agent, searching_policy
from solvers.sweeps.levels import join_levels
from solvers.sweeps.pairs import root_marginals

VARIANTS: dict[str, dict[str, Any]] = {
  "self-play value net": {"policy_network": False},
  "self-play value and policy nets": {"policy_network": True},
  # The control: subgames at random beliefs instead of those that play leads to.
  "random beliefs": {"policy_network": False},
}
PRESET, ITERATIONS = "small_turn_endgame_holdem", (16, 32, 64, 128, 256)
WHOLE = 512  # iterations of the ladder's equilibria: of a game of one bet, and of the whole game
FIGURE = Path("docs/images/poker_figure2.png")
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


def measured(preset: str, game: str | None = None) -> Config:
  """Returns a preset, for another game of hold'em where `game` names one."""
  # All are measured by the algorithm that solves the whole game.
  config = get_preset(preset).replace(eval_algorithm="linear_cfr")
  return config.replace(game=game, game_params=()) if game else config


def make_game(config: Config) -> Holdem:
  """Returns the preset's game of hold'em."""
  game = config.make_game()
  if not isinstance(game, Holdem):
    raise SystemExit(f"preset={config.preset!r} must be a preset of hold'em")
  return game


def tabular(
  preset: str = PRESET, game: str | None = None, iterations: tuple[int, ...] = ITERATIONS
) -> None:
  """Solves the whole game by Linear CFR."""
  rules = make_game(measured(preset, game))
  tree = jax.tree.map(jnp.asarray, games.build_public_tree(rules))
  for number in iterations:
    policy = timing.average_policy(tree, solvers.linear_cfr(), number)
    value = float(solvers.exploitability(tree, policy))
    say("tabular Linear CFR", rules, value, iterations=number, nodes=tree.num_nodes)


def perfect(
  preset: str = PRESET,
  game: str | None = None,
  iterations: tuple[int, ...] = ITERATIONS,
  playthroughs: int = 128,
  below: int = 64,
) -> None:
  """Searches with the values of subgames solved by `below` iterations."""
  config = measured(preset, game)
  rules = make_game(config)
  subgames = make_subgames(config, rules)
  oracle, params = search_leaf_values(rules, subgames, num_iterations=below)
  algorithm = solvers.make_algorithm(config.rebel.eval_algorithm)
  agent = make_searching_agent(
    rules, subgames, algorithm=algorithm, leaf_values=oracle, average_last=True
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
      rules,
      value,
      iterations=number,
      playthroughs=playthroughs,
      iterations_below=below,
      seconds=timing.significant(seconds, 3),
    )


def train(
  preset: str = PRESET,
  game: str | None = None,
  variants: tuple[str, ...] = tuple(VARIANTS),
  steps: int = 1_500,
  iterations: tuple[int, ...] = ITERATIONS,
  playthroughs: int = 128,
) -> None:
  """Trains each variant and measures it at each number of iterations."""
  config = measured(preset, game)
  for name in variants:
    changes = timing.look_up("variant", name, VARIANTS | CHOICES)
    figures, evaluator, params = learn(
      config.replace(**changes), steps, random_beliefs=name == "random beliefs"
    )
    for number in iterations:
      value = evaluator.exploitability(params, playthroughs=playthroughs, iterations=number)
      known = {"iterations": number, "playthroughs": playthroughs}
      say(name, make_game(config), value, **known, **figures)


def ladder(
  preset: str = PRESET, iterations: tuple[int, ...] = ITERATIONS, playthroughs: int = 128
) -> None:
  """Says how exploitable each rung is, and its loss to the package's network by tree and match."""
  network, number = rebel_jax.load_pretrained(preset), iterations[-1]
  params, config = network.params, network.config.replace(final_iterations=number)
  config, game = config.replace(final_playthroughs=64 * playthroughs), make_game(config)
  matches = HandsEvaluator(config, game, LADDER).measure(params, 0).row
  agent = Evaluator(config, game=game).agent
  values = ShownValues(Table.of(game))
  policies = [
    searching_policy(
      x, params=y, num_playthroughs=z, num_iterations=number, key=jax.random.key(1), unsafe=u
    )
    for x, y, z, u in (
      (agent, params, playthroughs, False),
      (dataclasses.replace(agent, leaf_values=values, policy=None), None, 1, True),
    )
  ]
  own, searched = (jnp.asarray(x) for x in policies)
  tree = jax.tree.map(jnp.asarray, agent.tree)
  mover = tree.kind[jnp.maximum(tree.parent, 0)][:, None]
  pairs = root_marginals(tree, tree.prior)
  liked = zip((x for x, y in OPPONENTS.items() if y.likes), likes(tree))
  others = {SHOWN: searched} | {x: join_levels(favourites(tree, y)) for x, y in liked}
  few: Any = games.make(config.game, **dict(config.game_params) | {"bets": (1.0,)})
  coarse = games.build_public_tree(few)
  played, best = (timing.average_policy(x, solvers.linear_cfr(), WHOLE) for x in (coarse, tree))
  first, second = (translate(few, coarse, played, game, tree, player=x) for x in (0, 1))
  others |= {"pot bets": jnp.where(mover == 0, first, second), "equilibrium": jnp.asarray(best)}
  for name in others:
    other, won = jnp.broadcast_to(others[name], own.shape), 0.0
    for seat in (0, 1):
      both = solvers.expected_values(tree, jnp.where(mover == seat, own, other))
      won += float((pairs[seat] * both[seat]).sum()) / 2
    seen = {"chips_in_matches": "", "interval": "_interval"} if name in LADDER else {}
    match = {x: matches[f"won_mbb_{name}{y}"] / milli_big_blinds(game) for x, y in seen.items()}
    figures = {x: timing.significant(y) for x, y in {"chips_won": won, **match}.items()}
    say(name, game, float(solvers.exploitability(tree, other)), iterations=number, **figures)


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


def draw(lines: tuple[Path, ...] = (), figure: Path = FIGURE) -> None:
  """Draws exploitability against iterations, one line a variant."""
  curves: Lines = {}
  for row in sorted(read_rows(lines, "poker_learning"), key=lambda row: row["iterations"]):
    if row["variant"] not in CHOICES:
      iterations, values = curves.setdefault(row["variant"], ([], []))
      iterations.append(row["iterations"])
      values.append(row["pot"])
  title, y = "Turn endgame hold'em with 18 cards", "exploitability, parts of the pot"
  draw_lines(curves, figure, title=title, y=y)


def main(
  part: tyro.conf.Positional[Literal["tabular", "perfect", "train", "ladder", "draw"]],
  preset: str | None = None,
  game: str | None = None,
  variants: tuple[str, ...] = (),
  steps: int | None = None,
  iterations: tuple[int, ...] = (),
  playthroughs: int | None = None,
  below: int | None = None,
  lines: tuple[Path, ...] = (),
  figure: Path | None = None,
) -> None:
  """Measures a part of ReBeL's Figure 2 on a small deck, or draws it.

  Args:
    part: what to do.
    preset: whose game, network and searches; None for small_turn_endgame_holdem.
    game: another game of hold'em than the preset's.
    variants: of training; also 'Adam, no roots' and 'Linear CFR, 64 iterations'; none for the
      figure's.
    steps: of self-play, in training; None for 1,500.
    iterations: of each search or solve; none for 16, 32, 64, 128 and 256, of ladder the last.
    playthroughs: to average; None for 128.
    below: iterations of the oracle's solves; None for 64.
    lines: files to draw.
    figure: where to draw; None for docs/images/poker_figure2.png.
  """
  devices.enable_cache()
  parts: dict[str, Any] = {
    "tabular": tabular,
    "perfect": perfect,
    "train": train,
    "ladder": ladder,
    "draw": draw,
  }
  timing.run_part(
    parts, part, preset=preset, game=game, variants=variants, steps=steps, iterations=iterations,
    playthroughs=playthroughs, below=below, lines=lines, figure=figure,
  )  # fmt: skip


if __name__ == "__main__":
  timing.command(main)
