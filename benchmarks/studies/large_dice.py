"""Large Liar's Dice: Linear MCCFR by the rules, Deep CFR and ReBeL, by local best response.

Two dice of six faces have 33,554,431 public states, of which no tree fits: `mccfr` keeps sums of as
many nodes as its tables have rows for, `rebel` searches subgames, and `deep_cfr` learns networks of
what it walks. Smaller games are measured exactly, too.
"""

import functools
import time
from typing import Any, Literal

import jax
import numpy as np
import tyro

import games
import solvers
from benchmarks import timing
from games import Game, LiarsDice, PublicTree
from games.tabulate import children_of
from rebel_jax import devices, get_preset
from rebel_jax.agents.belief_agent import Searcher
from rebel_jax.agents.match import AgentStrategy
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.evaluation.evaluator import AverageEvaluator, Evaluator
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from solvers.contrib import local_response
from solvers.contrib.local_best_response import Strategy
from solvers.contrib.sampling import MCCFR, WalkedStrategy, make_sampler, solve_sampled

_EXACT = 2**20  # public states of a game that is measured exactly
_PERIOD = 2**22  # nodes touched, of Linear MCCFR


def mccfr(
  game: Game, seconds: float, rows: int = 2**21, width: int = 256
) -> tuple[Strategy, dict[str, int]]:
  """Returns the average policy of a run of Linear MCCFR, and how much it did."""
  sampler: Any = make_sampler(game, rows=rows, width=width)
  algorithm, run = MCCFR(period=_PERIOD), None
  began, number = time.monotonic(), 0
  while run is None or time.monotonic() - began < seconds:
    settings: Any = {"algorithm": algorithm, "state": run and run.state}
    run = solve_sampled(sampler, num_iterations=200, key=jax.random.key(number), **settings)
    number += 200
  rows_held = int(np.sum(np.asarray(run.state.holds) >= 0))
  return WalkedStrategy(sampler, algorithm, run.state), {
    "updates": number,
    "nodes": run.nodes,
    "rows_held": rows_held,
  }


def tabulated(strategy: Strategy, tree: PublicTree) -> np.ndarray:
  """Returns the policy `[N, H]` of a strategy."""
  table, children = np.ones((tree.num_nodes, tree.num_infostates), tree.dtype), children_of(tree)
  for node in np.flatnonzero(np.isin(tree.kind, (0, 1))).tolist():
    strategy.start()
    below = children[node][children[node] >= 0]
    table[below] = strategy.rows(tree.history(node))[tree.action[below]]
  return table


def main(
  method: tyro.conf.Positional[Literal["mccfr", "deep_cfr", "rebel"]],
  num_dice: int = 2,
  num_faces: int = 6,
  seconds: float = 120.0,
  plays: int = 1000,
  rows: int | None = None,
  width: int | None = None,
  iterations: int | None = None,
  playthroughs: int | None = None,
) -> None:
  """Learns a game and measures what was learned.

  Args:
    method: what learns.
    num_dice, num_faces: of each player.
    seconds: of learning.
    plays: of local best response.
    rows: nodes that tables of sums have room for (mccfr); None for 2,097,152.
    width: the most nodes of a level of a traversal (mccfr); None for 256.
    iterations: of a search (rebel); None for 256.
    playthroughs: by which the agent is measured exactly, too; None for none (rebel).
  """
  takes = {"mccfr": ("rows", "width"), "deep_cfr": (), "rebel": ("iterations", "playthroughs")}
  settings = timing.given(
    method, takes[method], rows=rows, width=width, iterations=iterations, playthroughs=playthroughs
  )
  devices.enable_cache()
  game = LiarsDice(num_dice, num_faces)

  def measured(strategy: Strategy, whole: Any = None, most: int = 2) -> Any:
    row: dict[str, Any] = {}
    for depth in range(1, most + 1):
      found = local_response(game, strategy, lambda _: game.liar, depth=depth, num_plays=plays)
      row |= zip((f"local_response_{depth}", f"half_width_{depth}"), found)
    if whole is not None:  # a tree and the policy on it
      row["exploitability"] = float(solvers.exploitability(*whole))
    return row

  def evaluate(params: Any, final: bool) -> Any:
    del final
    if method == "deep_cfr":
      network = AverageEvaluator(config)
      strategy = network.strategy(params)
      return measured(strategy, network.tree and (network.tree, network.policy(params)))
    searches: Any = {"iterations": 256} | settings
    search = functools.partial(
      Searcher, Policy(config, params, {}), iterations=searches["iterations"]
    )
    row = measured(AgentStrategy(*(search(average=x).agent() for x in (False, True))), most=1)
    if playthroughs is not None:
      row["exploitability"] = Evaluator(config).exploitability(params, **searches)
    return row

  if method == "mccfr":
    strategy, row = mccfr(game, seconds, **settings)
    tree = games.build_public_tree(game) if 2**game.num_bids <= _EXACT else None
    row |= measured(strategy, tree and (tree, tabulated(strategy, tree)))
  else:
    preset = {"deep_cfr": "deep_cfr_liars_dice_1x5f", "rebel": "liars_dice_2x3f"}[method]
    params = ("num_dice", num_dice), ("num_faces", num_faces)
    config = get_preset(preset).replace(game_params=params, evaluate_every=0, max_seconds=seconds)
    if method == "deep_cfr":
      config = config.replace(lanes=8, batch_size=512, uses_per_example=9_600.0)
    row = train(config, RunOptions(num_devices=1), evaluate=evaluate).row
  about = {"method": method, "dice": num_dice, "faces": num_faces, "of_learning": seconds}
  timing.say("large_dice", **about, **row)


if __name__ == "__main__":
  timing.command(main)
