"""The parts of `benchmarks.studies.family`: one function each, which yields a row a curve."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
import solvers
from benchmarks import timing
from benchmarks.studies.curves import checkpoints, curve, jittered_priors
from games import Array, PublicTree
from solvers import Algorithm, LeafQuery
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.contrib.sampling import MCCFR, solve_sampled
from solvers.exact_leaf_values import LeafGroup, SolveBelow
from solvers.search import SearchingAgent, find_subgames, make_searching_agent
from solvers.search.playthroughs import searching_policy
from solvers.sweeps import Levels, Problem, join_levels, make_problem
from solvers.xla import Programs, work_on_trees

Family = dict[str, Algorithm]
TABULAR: Family = {
  "FP": solvers.fictitious_play(),
  "linear FP": solvers.linear_fictitious_play(),
  "FLOP": solvers.linear_optimistic_fictitious_play(),
  "vanilla CFR": solvers.vanilla_cfr(),
  "Linear CFR": solvers.linear_cfr(),
  "CFR+": solvers.cfr_plus(),
  "DCFR": solvers.discounted_cfr(),
  "PCFR+": solvers.predictive_cfr_plus(),
}

DISCOUNTS: Family = {
  "vanilla CFR": solvers.vanilla_cfr(),
  "CFR+, linear average": solvers.cfr_plus(averaging=1),
  "CFR+, quadratic average": solvers.cfr_plus(),
  "DCFR (1, 1, 1), Linear CFR": solvers.linear_cfr(),
  "DCFR (1.5, 0, 2)": solvers.discounted_cfr(),
  "DCFR (1.5, -inf, 2)": solvers.discounted_cfr(1.5, -math.inf, 2),
  "DCFR (1.5, 0.5, 2)": solvers.discounted_cfr(1.5, 0.5, 2),
}

RULES: Family = {
  "DCFR": solvers.discounted_cfr(),
  "CFR+": solvers.cfr_plus(),
  "PCFR+": solvers.predictive_cfr_plus(),
  "SAPCFR+": solvers.make_algorithm("asymmetric_predictive_cfr_plus"),
  "PDCFR+": solvers.make_algorithm("predictive_discounted_cfr_plus"),
  "HS-DCFR(30)": solvers.make_algorithm("scheduled_discounted_cfr"),
  "HS-DCFR(15)": solvers.make_algorithm("scheduled_discounted_cfr(gamma=15)"),
  "HS-PCFR+(30)": solvers.make_algorithm("scheduled_predictive_cfr_plus"),
  "MMD, last policy": solvers.make_algorithm("magnetic_mirror_descent"),
}

DEPTH_LIMITED: Family = {
  "CFR-D": solvers.linear_cfr(),
  "CFR-AVG, sound": solvers.cfr_avg(solvers.linear_cfr(), sound=True),
  "CFR-AVG, modified": solvers.cfr_avg(solvers.linear_cfr()),
  "CFR-D, uniform": solvers.vanilla_cfr(),
  "CFR-AVG, sound, uniform": solvers.cfr_avg(solvers.vanilla_cfr(), sound=True),
  "CFR-AVG, modified, uniform": solvers.cfr_avg(solvers.vanilla_cfr()),
  "linear FP": solvers.linear_fictitious_play(),
  "FLOP": solvers.linear_optimistic_fictitious_play(),
}
# Public actions from the start to the leaves, chance included; 2 in other games.
DEPTHS = {"leduc": 3}

Row = dict[str, Any]


def make_row(
  part: str,
  game: str,
  algorithm: str,
  curves: Sequence[np.ndarray],
  at: Sequence[int],
  *,
  x: str = "iterations",
  **others: Any,
) -> Row:
  """Returns the row of one curve of several runs, each `[K]`: their median, best and worst."""
  row: Row = {
    "part": part,
    "game": game,
    "algorithm": algorithm,
    **others,
    "x": x,
    x: [int(i) for i in at],
  }
  for name, of_runs in (("exploitability", np.median), ("low", np.min), ("high", np.max)):
    row[name] = [timing.significant(float(y)) for y in of_runs(np.stack(curves), axis=0)]
  return row


def whole_games(
  part: str, algorithms: Family, names: Sequence[str], iterations: int, runs: int
) -> Iterator[Row]:
  """Curves of algorithms on whole games, over priors that differ in the last bit."""
  points, runs_to = checkpoints(iterations), [checkpoints(iterations)]
  if part == "rules":  # some know how long a run is: each point is a run of its own
    points = points[::4]
    runs_to = [[point] for point in points]
  for name in names:
    tree = games.build_public_tree(timing.make_game(name))
    for label, algorithm in algorithms.items():
      curves = [
        np.concatenate([curve(tree, algorithm, x, prior=p) for x in runs_to])
        for p in jittered_priors(tree, runs)
      ]
      precision = str(np.dtype(tree.dtype))
      yield make_row(part, name, label, curves, points, precision=precision, runs=runs)


def samplers(
  names: Sequence[str], iterations: int, runs: int, labels: Sequence[str] = ()
) -> Iterator[Row]:
  """Monte Carlo CFR here and in OpenSpiel, by `runs` seeds; with means, and errors of these."""
  import pyspiel
  from open_spiel.python.algorithms import exploitability
  from open_spiel.python.algorithms.external_sampling_mccfr import ExternalSamplingSolver
  from open_spiel.python.algorithms.outcome_sampling_mccfr import OutcomeSamplingSolver

  for name in names:
    game = timing.make_game(name)
    tree, other = games.build_public_tree(game), pyspiel.load_game(game.name)

    def ours(seed: int, explore: float | None, tree=tree) -> float:
      key, algorithm = jax.random.key(seed), MCCFR(explore=explore)
      run: Any = solve_sampled(tree, num_iterations=iterations, key=key, algorithm=algorithm)
      return float(solvers.exploitability(tree, run.average_policy))

    def theirs(seed: int, explore: float | None, other=other) -> float:
      np.random.seed(seed)
      solver = (ExternalSamplingSolver if explore is None else OutcomeSamplingSolver)(other)
      for _ in range(iterations // 2):  # an iteration of theirs is one of both players
        solver.iteration()
      return exploitability.exploitability(other, solver.average_policy())

    for explore, kind in ((None, "external"), (0.6, "outcome")):
      plays = {f"{kind} sampling": ours, f"{kind} sampling, OpenSpiel": theirs}
      for label, play in plays.items():
        if labels and label not in labels:
          continue
        found = [np.array([play(seed, explore)]) for seed in range(runs)]
        error = np.std(found) / runs**0.5
        about: Row = {"mean": round(float(np.mean(found)), 4), "error": round(float(error), 4)}
        yield make_row("samplers", name, label, found, [iterations], **about, runs=runs)


def depth_limited(
  algorithms: Family,
  names: Sequence[str],
  iterations: int,
  runs: int,
  iterations_below: int,
) -> Iterator[Row]:
  """Depth-limited solving with exact leaf values, by both scores of `measure_top`."""
  points = checkpoints(iterations)
  for name in names:
    game, depth = timing.make_game(name), DEPTHS.get(name, 2)
    priors = jittered_priors(games.build_public_tree(game, depth=depth), runs)
    for label, algorithm in algorithms.items():
      solved = [
        list(
          measure_top(
            game,
            depth=depth,
            algorithm=algorithm,
            checkpoints=points,
            prior=prior,
            num_iterations_below=iterations_below,
            num_iterations_to_complete=1024,
          )
        )
        for prior in priors
      ]
      for score in ("exploitability", "exploitability_of_top"):
        curves = [np.array([getattr(point, score) for point in run]) for run in solved]
        of = "whole policy" if score == "exploitability" else "top, completed"
        settings: Row = {"score": of, "depth": depth, "iterations_below": iterations_below}
        yield make_row("depth_limited", name, label, curves, points, **settings, runs=runs)


def noisy(tree: PublicTree, policy: Array, share: float, seed: int) -> np.ndarray:
  """Mixes random moves into a policy `[N, H]`: a stand-in for what a policy network answers."""
  # In each infostate a distribution is drawn evenly from all and played with probability `share`.
  parents = np.asarray(tree.parent)
  weights = np.random.default_rng(seed).exponential(size=policy.shape)
  total = np.zeros(policy.shape)
  np.add.at(total, parents[1:], weights[1:])
  random = weights / np.where(total > 0, total, 1.0)[parents]
  players = np.isin(np.asarray(tree.kind)[parents], (0, 1))
  players[0] = False
  mixed = (1 - share) * np.asarray(policy) + share * random
  return np.where(players[:, None], mixed, np.asarray(policy)).astype(tree.dtype)


def warm_start(names: Sequence[str], iterations: int, runs: int) -> Iterator[Row]:
  """Linear CFR from good, middling and bad policies, warm and cold (appendix J)."""
  points = checkpoints(iterations, first=2)
  cold = solvers.linear_cfr()
  warm = solvers.warm_started(cold)
  for name in names:
    tree = games.build_public_tree(timing.make_game(name))
    best = timing.average_policy(tree, solvers.discounted_cfr(), 4096)
    short = timing.average_policy(tree, cold, 32)
    noise = [noisy(tree, best, 0.1, i) for i in range(runs)]
    starts: dict[str, tuple[Algorithm, Sequence[Any]]] = {
      "cold": (cold, [even(tree)] * runs),
      "warm, from an equilibrium with noise": (warm, noise),
      "warm, from 32 iterations": (warm, [short] * runs),
      "warm, from the uniform policy": (warm, [even(tree)] * runs),
      "cold, first policy an equilibrium with noise": (cold, noise),
    }
    priors = jittered_priors(tree, runs)
    for label, (algorithm, policies) in starts.items():
      scores, curves = [], []
      for prior, policy in zip(priors, policies):
        scores.append(float(solvers.exploitability(tree, policy)))
        curves.append(curve(tree, algorithm, points, prior=prior, initial_policy=policy))
      settings: Row = {"exploitability_of_start": float(f"{np.median(scores):.4g}"), "runs": runs}
      yield make_row("warm_start", name, label, curves, points, **settings)


def even(tree: PublicTree) -> jax.Array:
  """Returns the policy `[N, H]` that takes every move equally often."""
  return join_levels(make_problem(tree, tree.prior).uniform_policy())


# Safe search in modified rock-paper-scissors (ReBeL, section 6), with exact values: player 0's
# hidden move is one subgame, player 1's answer the next, and the value of the leaf between them is
# the second subgame solved at the leaf's beliefs.

ROCK_PAPER_SCISSORS = games.make("rock_paper_scissors")
_ITERATIONS_BELOW = 512
_AFTER = games.build_public_tree(ROCK_PAPER_SCISSORS, root=(3,))  # 3 is the hidden move


def leaf_values(params: None, query: LeafQuery) -> jax.Array:
  """Returns the traverser's values `[L, H]` after the hidden move, by solving what follows."""
  del params

  def solve(beliefs: jax.Array) -> jax.Array:
    solution = solvers.solve(
      _AFTER, algorithm=solvers.linear_cfr(), num_iterations=_ITERATIONS_BELOW, beliefs=beliefs
    )
    return solution.root_values[query.traverser]

  return jax.vmap(solve)(query.beliefs)


def make_rock_paper_scissors() -> SearchingAgent:
  """Returns an agent that looks one public action ahead."""
  subgames = find_subgames(ROCK_PAPER_SCISSORS, depth=1)
  return make_searching_agent(
    ROCK_PAPER_SCISSORS, subgames, algorithm=solvers.linear_cfr(), leaf_values=leaf_values
  )


def play(
  agent: SearchingAgent, playthroughs: int, iterations: int, *, seed: int = 0, unsafe: bool
) -> np.ndarray:
  """Returns the agent's expected policy `[N, H]`."""
  return searching_policy(
    agent,
    params=None,
    num_playthroughs=playthroughs,
    num_iterations=iterations,
    key=jax.random.key(seed),
    unsafe=unsafe,
  )


def safe_search(playthroughs: int, iterations: int, runs: int) -> Iterator[Row]:
  """Safe and unsafe search in modified rock-paper-scissors, and the first run's last policies."""
  # Safe search against the number of playthroughs that are averaged, over runs with other random
  # numbers; unsafe search, which is the same in every playthrough, against its iterations.
  agent = make_rock_paper_scissors()
  counts = [4**k for k in range(20) if 4**k <= playthroughs]
  lengths = checkpoints(iterations, first=16)[::2]
  safe: Any = [
    [play(agent, n, iterations, seed=i, unsafe=False) for n in counts] for i in range(runs)
  ]
  unsafe: Any = [[play(agent, 1, n, unsafe=True) for n in lengths]]
  for label, policies, at, x, others in (
    ("safe search", safe, counts, "playthroughs", {"iterations": iterations, "runs": runs}),
    ("unsafe search", unsafe, lengths, "iterations", {"playthroughs": 1, "runs": 1}),
  ):
    curves = [np.array([float(solvers.exploitability(agent.tree, y)) for y in z]) for z in policies]
    last = np.round(policies[0][-1].astype(float), 3)  # moves of rock, paper, scissors
    others |= {"player_0": last[1].tolist(), "player_1": last[2:, 0].tolist()}
    yield make_row("safe_search", "rock_paper_scissors", label, curves, at, x=x, **others)


# Depth-limited solving. A solver sets a policy for the top of a game only. Each of its iterations
# also implies one for the rest, that of the subgames solved at the leaves' beliefs; the average of
# these whole policies, weighted by own reach, is what CFR-D and CFR-AVG are proven for (ReBeL,
# appendix I). Solving the subgames once, at the final average's beliefs, is unsafe. The second
# score does not depend on what is implied below: each player keeps its average policy in the top
# and plays the rest as well as that allows.


class Point(NamedTuple):
  """A depth-limited solve after some iterations."""

  iterations: int
  exploitability: float  # of the average whole policy
  exploitability_of_top: float | None  # of its part in the top, completed as well as possible


def place_nodes(whole: PublicTree, top: PublicTree, groups: Sequence[LeafGroup]) -> np.ndarray:
  """Returns each node's number, `[N]`, among the top's nodes and the subgames' in turn."""
  placer, source = solvers.Placer(whole), np.full(whole.num_nodes, -1)
  in_whole = placer.places(top)
  source[in_whole] = np.arange(top.num_nodes)
  first = top.num_nodes
  for leaves, trees, which in groups:
    for i, leaf in enumerate(leaves):
      below = trees
      if which is not None:
        below = jax.tree.map(lambda x, row=which[i]: np.asarray(x)[row], trees)
      places = placer.places(below, int(in_whole[top.leaf_nodes[leaf]]))
      own = np.flatnonzero(places >= 0)[1:]  # the move to the subgame's root is the top's
      source[places[own]] = first + own
      first += below.num_nodes
  assert (source >= 0).all()
  return source


def measure_top(
  game: games.Game,
  *,
  depth: int,
  algorithm: Algorithm,
  checkpoints: Sequence[int],
  prior: np.ndarray | None = None,
  num_iterations_below: int = 256,
  num_iterations_to_complete: int | None = None,
) -> Iterator[Point]:
  """Solves the top `depth` actions with exact leaf values, from `prior`; yields points."""
  whole = games.build_public_tree(game)
  top = games.build_public_tree(game, depth=depth)
  below, groups = solvers.exact_leaf_values(game, num_iterations=num_iterations_below).bind(top)
  source = place_nodes(whole, top, groups)
  in_top = source < top.num_nodes
  ends = tuple(i // 2 for i in checkpoints)
  policies = _policies_by_work[work_on_trees()](
    whole, top, groups, source, prior, algorithm=algorithm, below=below, ends=ends
  )
  for number, average in zip(checkpoints, policies):
    of_top = None
    if num_iterations_to_complete is not None:
      completed = complete(whole, average, in_top, num_iterations_to_complete)
      of_top = float(solvers.exploitability(whole, completed))
    yield Point(number, float(solvers.exploitability(whole, average)), of_top)


def _policies(
  whole,
  top,
  groups,
  source,
  prior,
  *,
  algorithm: Algorithm,
  below: SolveBelow,
  ends: tuple[int, ...],
) -> jax.Array:
  """Returns the average whole policy after each of `ends` pairs of updates, `[K, N, H]`."""
  problem = make_problem(top, top.prior if prior is None else prior)
  everything = make_problem(whole, whole.prior)

  def evaluate(query: LeafQuery) -> jax.Array:
    return below(groups, query)

  def observe(j, problem, state, carry):
    sums, found = carry
    query = algorithm.leaf_query(problem, state, 0)
    rows = [join_levels(_top_policy(algorithm, problem, state))]
    rows += [x.reshape(-1, x.shape[-1]) for x in below.subgame_policies(groups, query.beliefs)]
    policy = everything.split(jnp.concatenate(rows)[source])
    weight = (j + 1.0) ** algorithm.averaging
    reach = everything.both_reach(policy)
    sums = jax.tree.map(lambda x, y: x + weight * y, sums, reach)
    average = join_levels(everything.normalise(_edges(everything, sums)))
    due = (jnp.asarray(ends) == j)[:, None, None]
    return sums, jnp.where(due, average, found)

  zeros = jax.tree.map(jnp.zeros_like, everything.both_reach(everything.uniform_policy()))
  found = jnp.zeros((len(ends), whole.num_nodes, whole.num_infostates), whole.dtype)
  # One pair of updates more: policies are observed before each.
  length = 2 * (ends[-1] + 1)
  end = solvers.loop.run(
    problem, algorithm, evaluate, length, observe=observe, carry=(zeros, found)
  )
  return end.carry[1]


_policies_by_work = Programs(_policies, static_argnames=("algorithm", "below", "ends"))


def _edges(problem: Problem, reach: tuple[Levels, Levels]) -> Levels:
  """Returns the own reach of each edge by the player who moves along it."""
  return problem.where_moved(reach[0], lambda i, player: reach[player][i], [1])


def complete(whole: PublicTree, policy: Array, kept: np.ndarray, num_iterations: int) -> np.ndarray:
  """Completes each player's part of `policy` `[N, H]` where `kept` `[N]` is False."""
  # For each player a game is solved in which it must keep to `policy` where `kept`, and its
  # opponent may do anything. What the player does elsewhere in that solution guarantees it the most
  # that its kept part still allows. So no completion of both parts is less exploitable.
  movers = np.asarray(whole.kind)[np.maximum(whole.parent, 0)]
  completed = np.asarray(policy)
  for player in (0, 1):
    solved = solvers.solve(
      whole,
      algorithm=solvers.discounted_cfr(),
      num_iterations=num_iterations,
      initial_policy=policy,
      locked=kept & (movers == player),
    )
    own = np.arange(whole.num_nodes), solved.average_policy
    completed = solvers.resolving.graft(whole, completed, [own], player=player)
  return completed


def _top_policy(algorithm: Algorithm, problem: Problem, state) -> Levels:
  """Returns the policy of this iteration alone."""
  if not isinstance(algorithm, FictitiousPlay):
    return algorithm.current_policy(problem, state)
  return problem.normalise(_edges(problem, state.response))
