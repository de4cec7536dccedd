"""Poker as a load: updates of turn endgame hold'em, and river subgames in batches.

update  one player's update on the ReBeL paper's board
rivers  rivers of random boards, pots and beliefs, solved in a batch
ranges  updates of ranges of 167 and 250 hands, on trees and as lines
flop    a flop from ranges of 184 and 269 hands, to 0.5 % of the pot
spots   updates of realistic spots as lines, for one core (`taskset`)
resumed a river, a turn and a flop, to 1 % of the pot and on to 0.3
"""

import dataclasses
import functools
import resource
import time
from collections.abc import Iterator
from typing import Any, Literal

import jax
import numpy as np
import tyro

import games
import solvers
from benchmarks import timing
from games.poker import RANKS, TEH, BetSizes, Deck, Holdem, RiverEndgame, TurnEndgame, in_units
from games.poker.lines import Lines, make_lines, round_up
from rebel_jax import devices
from rebel_jax.spots import solved
from rebel_jax.spots.spot import Spot
from solvers.xla import num_cores

BETS = {"teh": TEH, "teh_one_bet": dataclasses.replace(TEH, max_raises=1)}
Suits = Literal["merged", "apart"]


def row(part: str, **figures: Any) -> dict[str, Any]:
  """Returns a line's figures, with the largest resident memory of this process so far in GB."""
  gigabytes = timing.significant(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3)
  return {"benchmark": f"poker.{part}", **figures, "gigabytes": gigabytes}


def make_tree(game: games.Game, beliefs: np.ndarray | None = None) -> games.PublicTree:
  """Builds the whole tree of `game`, with `beliefs` as its prior, on the device."""
  tree = games.build_public_tree(game)
  if beliefs is not None:
    tree = dataclasses.replace(tree, prior=beliefs.astype(tree.dtype))
  return jax.tree.map(jax.numpy.asarray, tree)


def paper_turn(bets: str, suits: Suits = "apart") -> tuple[Holdem, Any]:
  """Returns turn endgame hold'em on the paper's board, and its tree or lines."""
  game = TurnEndgame(bets=timing.look_up("bets", bets, BETS))
  return game, make_lines(game)[0] if suits == "merged" else make_tree(game)


def update(bets: str = "teh", iterations: int = 20, suits: Suits = "apart") -> dict[str, Any]:
  """Times Linear CFR on the paper's board: two runs of different length, compiled."""
  _, tree = paper_turn(bets, suits)
  solve = functools.partial(solvers.solve, tree, algorithm=solvers.linear_cfr())
  runs = [functools.partial(solve, num_iterations=number) for number in (2, 2 + iterations)]
  short, long = (timing.time_calls(run, repeats=3) for run in runs)
  of_cores = [timing.timed(run)[2] for run in runs]
  return row(
    "update",
    bets=bets,
    suits=suits,
    nodes=tree.num_nodes,
    decisions=int((tree.kind <= games.PLAYER_1).sum()) if suits == "apart" else None,
    hands=tree.num_infostates if suits == "apart" else tree.streets[0].width(0),
    milliseconds_per_update=timing.significant(1000 * (long.fastest - short.fastest) / iterations),
    # Of all cores together: what other programs take away does not count.
    processor_milliseconds=timing.significant(1000 * (of_cores[1] - of_cores[0]) / iterations),
    compile_seconds=timing.significant(long.compile_seconds, 3),
  )


def overlapping_ranges(game: Holdem, own: tuple[int, int], union: int) -> np.ndarray:
  """Returns random beliefs `[P, H]` of so many hands each, and so many together."""
  rng, beliefs = np.random.default_rng(0), np.zeros((2, game.num_infostates))
  hands = rng.permutation(game.num_infostates)[:union]
  for row, held in zip(beliefs, (hands[: own[0]], hands[union - own[1] :])):
    row[held] = rng.dirichlet(np.ones(len(held)))
  return beliefs


def ranges(bets: str = "teh_one_bet", iterations: int = 20) -> dict[str, Any]:
  """Times Linear CFR from ranges, in turn: on trees of all hands and of theirs, and as lines."""
  # Exploitability is that of a policy of numpy's, its check included.
  game = TurnEndgame(bets=timing.look_up("bets", bets, BETS))
  beliefs = overlapping_ranges(game, (167, 250), 270)
  small = game.only(beliefs)
  trees = {"all": make_tree(game, beliefs), "held": make_tree(small)}
  ways: list[tuple[str, Any]] = [*trees.items(), ("lines", make_lines(small)[0])]

  def seconds(tree: games.PublicTree | Lines, number: int) -> float:
    solve = functools.partial(solvers.solve, algorithm=solvers.linear_cfr(), target=0)
    return timing.timed(lambda: solve(tree, num_iterations=number).average_policy)[1]

  def judge(tree: games.PublicTree) -> float:
    policy = timing.average_policy(tree, solvers.linear_cfr(), 2)
    once = functools.partial(solvers.exploitability, tree, policy)
    return timing.significant(timing.time_calls(once, repeats=5).median)

  per_update = [
    {name: 1000 * (seconds(x, 2 + iterations) - seconds(x, 2)) / iterations for name, x in ways}
    for _ in range(6)
  ]
  # The first compiles.
  taken = {name: np.array([found[name] for found in per_update[1:]]) for name, _ in ways}
  return row(
    "ranges",
    bets=bets,
    nodes=trees["all"].num_nodes,
    decisions=int((trees["all"].kind <= games.PLAYER_1).sum()),
    hands=game.num_infostates,
    held=small.num_infostates,
    milliseconds_per_update={
      name: timing.significant(float(np.median(found))) for name, found in taken.items()
    },
    seconds_of_exploitability={name: judge(tree) for name, tree in trees.items()},
    times_faster={
      name: timing.significant(float(np.median(taken["all"] / taken[name])), 3)
      for name in ("held", "lines")
    },
  )


def random_rivers(number: int) -> tuple[list[Holdem], np.ndarray]:
  """Returns games of random boards and pots, and random beliefs `[B, P, H]`."""
  rng, deck = np.random.default_rng(0), Deck()
  bets = BetSizes((((1.0,),),))  # the pot or all-in, at every decision
  made: list[Holdem] = []
  beliefs = []
  for _ in range(number):
    board = deck.names(rng.choice(deck.num_cards, 5, replace=False).tolist())
    pot = 2 * int(rng.integers(500, 2_500))
    made.append(RiverEndgame(board=board, pot=pot, bets=bets))
    weights = rng.exponential(size=(2, made[-1].num_infostates))
    beliefs.append(weights / weights.sum(axis=1, keepdims=True))
  return made, np.stack(beliefs)


def rivers(number: int = 1024, iterations: int = 256, suits: Suits = "apart") -> dict[str, Any]:
  """Solves `number` rivers in batches, merged as lines of all hands, and measures each solution."""
  made, beliefs = random_rivers(number)
  merged, shapes = suits == "merged", dict[Any, list[int]]()

  def build() -> list[Any]:
    if merged:
      return [round_up(make_lines(game)[0], lambda n: -(-n // 16) * 16)[0] for game in made]
    return [games.build_public_tree(game) for game in made]

  def shape(x: Any) -> Any:
    return (jax.tree.structure(x), *map(np.shape, jax.tree.leaves(x))) if merged else x.structure

  problems, building, _ = timing.timed(build)
  for i, problem in enumerate(problems):
    shapes.setdefault(shape(problem), []).append(i)
  stacks: Any = [[problems[i] for i in rows] for rows in shapes.values()]
  if not merged:
    stacks = [jax.tree.map(jax.numpy.asarray, games.stack_trees(trees)) for trees in stacks]

  def solve() -> list[Any]:
    return [
      solvers.solve_batch(
        stack,
        algorithm=solvers.discounted_cfr(),
        num_iterations=iterations,
        beliefs=None if merged else beliefs[rows],
      )
      for rows, stack in zip(shapes.values(), stacks)
    ]

  _, first, _ = timing.timed(solve)
  solved, seconds, of_cores = timing.timed(solve)
  gaps = []
  for rows, found in zip(shapes.values(), solved):
    for k, i in enumerate(rows if merged else rows[:8]):
      gap: Any = (
        found.exploitability[k]
        if merged
        else solvers.exploitability(problems[i], found.average_policy[k], beliefs=beliefs[i])
      )
      gaps.append(in_units(made[i], gap).pot)
  sizes = sorted({x.streets[0].width(0) if merged else x.num_nodes for x in problems})
  return row(
    "rivers",
    suits=suits,
    rivers=number,
    shapes=len(shapes),
    **{"classes" if merged else "nodes": sizes},
    iterations=iterations,
    rivers_per_second=timing.significant(number / seconds),
    rivers_per_processor_second=timing.significant(number / of_cores),
    build_seconds=timing.significant(building, 3),
    compile_seconds=timing.significant(max(first - seconds, 0.0), 3),
    measured=len(gaps),
    pot_median=timing.significant(float(np.median(gaps))),
    pot_worst=timing.significant(max(gaps)),
  )


FLOP = Spot(
  board="Td9d6h",
  oop="22-JJ,A2s-ATs,AJs,KTs+,QTs+,J9s+,T9s,98s,87s,76s,65s,54s,AJo,KQo,AQ,KJo",
  ip="22+,A2s+,K9s+,Q9s+,J9s+,T8s+,97s+,87s,76s,65s,54s,ATo+,KTo+,QJo,QTo",
  pot=200,
  stack=900,
  bets="66% / -",
)


def flop(tables: str | None = None, made: Spot = FLOP, target: float = 0.5) -> dict[str, Any]:
  """Solves a flop by DCFR to a target in percent of the pot; memory is the process's."""
  game = made.game()
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
  lines, columns = make_lines(game)
  looks: list[tuple[float, float]] = []
  arrays: list[int] = []

  def look(_: solvers.Solution) -> None:
    looks.append((time.perf_counter(), time.process_time()))
    arrays.append(sum(x.nbytes for x in jax.live_arrays()))

  found, seconds, of_cores = timing.timed(
    lambda: solvers.solve(
      lines,
      algorithm=solvers.discounted_cfr(),
      target=target / 100 * made.pot,
      num_iterations=2_000,
      tables=tables,
      progress=look,
    )
  )
  number = max(1, found.iterations - 32)  # the first look compiles
  per_update = 1000 * (np.array(looks[-1]) - looks[0]) / number
  return row(
    "flop",
    tables=tables,
    lines=lines.num_nodes,
    boards=len(columns.boards[-1].cards),
    hands=[int(x) for x in (game.prior() > 0).sum(axis=1)],
    iterations=found.iterations,
    percent_of_pot=timing.significant(100 * found.exploitability / made.pot),
    seconds=timing.significant(seconds, 3),
    processor_seconds=timing.significant(of_cores, 3),
    milliseconds_per_update=timing.significant(per_update[0]),
    # Of all cores together: what other programs take away does not count.
    processor_milliseconds_per_update=timing.significant(per_update[1]),
    gigabytes_before=timing.significant(before, 3),
    gigabytes_of_arrays=timing.significant(max(arrays) / 1e9, 3),
  )


def spots() -> Iterator[dict[str, Any]]:
  """Times DCFR's updates on lines of realistic ranges, and of full ones, by processor time."""
  # Looks at the exploitability are told from updates by their numbers, which grow.
  looks, every = (
    list[tuple[int, float]](),
    ",".join(f"{rank}2{suit}+" for rank in RANKS[1:] for suit in "so") + ",22+",
  )
  teh_river = RiverEndgame(board="3s7hTdKsAc", bets=TEH)
  one_bet = TurnEndgame(bets=BETS["teh_one_bet"])
  full = Spot("3s7hTdKs", every, every, pot=200, stack=900, bets="75%,a")
  made: dict[str, tuple[Holdem, int]] = {
    "river": (teh_river.only(overlapping_ranges(teh_river, (163, 243), 270)), 6000),
    "turn": (one_bet.only(overlapping_ranges(one_bet, (167, 250), 270)), 300),
    "full turn": (full.game(), 100),
    "flop": (FLOP.game(), 72),
  }
  for name, (game, number) in made.items():
    lines, _ = round_up(make_lines(game)[0])
    looks.clear()
    solvers.solve(
      lines,
      algorithm=solvers.discounted_cfr(),
      target=0,
      num_iterations=number,
      progress=lambda found: looks.append((found.iterations, time.process_time())),
    )
    updates, seconds = np.diff(looks, axis=0).T
    weights = 1 / np.sqrt(seconds)[:, None]
    design = np.stack([updates, np.ones(len(updates))], axis=1) * weights
    (per_update, _), *_ = np.linalg.lstsq(design, seconds * weights[:, 0], rcond=None)
    yield row(
      "spots",
      spot=name,
      lines=lines.num_nodes,
      columns=[sum(x.boards * x.width(p) for x in lines.streets[-1].groups) for p in (0, 1)],
      processor_milliseconds_per_update=timing.significant(1000 * per_update, 3),
    )


def resumed() -> Iterator[dict[str, Any]]:
  """Times solves to 1 % of the pot, to 0.3, and on from the first to the second."""
  for board in ("Td9d6hQc2s", "Td9d6hQc", "Td9d6h"):
    solve = functools.partial(solved.solve, dataclasses.replace(FLOP, board=board))
    start = solve(target=1.0)
    go_on = functools.partial(solved.solve, start, target=0.3)
    go_on()  # compiles
    calls = functools.partial(solve, target=1.0), functools.partial(solve, target=0.3), go_on
    walls, of_cores = np.median([[timing.timed(x)[1:] for x in calls] for _ in range(3)], axis=0).T
    figures = {"seconds": walls.tolist(), "processor_seconds": of_cores.tolist()}
    yield row("resumed", board=board, **figures)


def main(
  part: tyro.conf.Positional[Literal["update", "ranges", "rivers", "flop", "spots", "resumed"]],
  bets: str | None = None,
  suits: Suits | None = None,
  iterations: int | None = None,
  tables: Literal["float16"] | None = None,
  number: int | None = None,
) -> None:
  """Time hold'em.

  Args:
    part: What to time.
    bets: Of update and ranges: teh, the paper's, or teh_one_bet, one bet or raise a round; None for
      teh of update, teh_one_bet of ranges.
    suits: Of update, whether suits that cannot make a flush are merged; so do rivers, of all hands
      equally. None for apart.
    iterations: Updates of a solve; None for 20 of update and ranges, 256 of rivers.
    tables: How a flop's sums are kept: None in 32 bits, or in 16.
    number: How many rivers; None for 1,024.
  """
  if part in ("flop", "resumed"):
    devices.make_devices(num_cores())
    devices.enable_cache()
  parts: dict[str, Any] = {
    "update": update,
    "ranges": ranges,
    "rivers": rivers,
    "flop": flop,
    "spots": spots,
    "resumed": resumed,
  }
  found = timing.run_part(
    parts, part, bets=bets, suits=suits, iterations=iterations, tables=tables, number=number
  )
  for figures in [found] if isinstance(found, dict) else found:
    timing.say(**figures)


if __name__ == "__main__":
  timing.command(main)
