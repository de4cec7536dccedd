"""CFR with public chance sampling (Johanson et al. 2012): an update visits one deal of the cards.

Rounds of betting stay vectors over hands; in the mean an update is one on the whole tree.
"""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.build import level_shape, stack_trees
from games.game import CHANCE
from games.pairs import of_tree
from games.poker.lines import Lines
from games.public_tree import Array, PublicTree, group_of, note_changes, plan_sweeps
from solvers import validation
from solvers.algorithms.named import vanilla_cfr
from solvers.solve import Solution
from solvers.solve_boards import BoardsState, ByBoards, boards_on
from solvers.sweeps.problem import Problem, make_problem
from solvers.xla import Programs, work_on_trees


def deals_of(tree: PublicTree) -> tuple[PublicTree, np.ndarray]:
  """Cuts a tree into the parts that each deal leaves, on the host."""
  validation.check_unstacked(tree)
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  order = np.argsort(parent, kind="stable")
  rank = np.empty(len(parent), int)
  rank[order] = np.arange(len(parent)) - np.searchsorted(parent[order], parent[order])
  outcomes = np.bincount(parent[1:], minlength=len(parent))[parent]
  dealt = (parent >= 0) & (kind[parent] == CHANCE) & (outcomes > 1)
  # Of each deal on the way to a node, which outcome it was; -1 for deals to come.
  outcome = np.full((len(parent), tree.structure.depth), -1)
  count = np.zeros(len(parent), int)
  for node in range(1, len(parent)):
    outcome[node], count[node] = outcome[parent[node]], count[parent[node]] + dealt[node]
    if dealt[node]:
      outcome[node, count[node] - 1] = rank[node]
  numbers = [int(x) for x in outcome.max(axis=0) + 1 if x]
  paths = itertools.product(*map(range, numbers))
  outcome = outcome[:, : len(numbers)]
  places = [np.flatnonzero(((outcome == x) | (outcome < 0)).all(axis=1)) for x in paths]
  parts = [_part(tree, nodes, np.where(dealt, outcomes, 1)) for nodes in places]
  if tree.depth_limited or len({(x.structure, x.action.tobytes()) for x in parts}) > 1:
    raise ValueError("tree must be whole, with the same game after every deal")
  return stack_trees(parts), np.stack(places)


def _part(tree: PublicTree, nodes: np.ndarray, odds: np.ndarray) -> PublicTree:
  place = np.full(tree.num_nodes + 1, -1)
  place[nodes] = np.arange(len(nodes))
  rows = {
    name: np.asarray(getattr(tree, name))[nodes]
    for name in ("kind", "state", "possible", "infostate_parent", "dealt")
    if getattr(tree, name) is not None
  }
  parent = place[np.asarray(tree.parent)[nodes]].astype(np.int32)
  bounds = np.searchsorted(nodes, tree.structure.offsets)
  kinds = rows["kind"]
  structure = plan_sweeps(
    level_shape(group_of(kinds[a:b]), parent[a:b] - last, kinds[parent[max(a, 1) : b]])
    for a, b, last in zip(bounds[:-1], bounds[1:], [0, *bounds])
  )
  if tree.infostate_parent is not None:
    structure = note_changes(structure, rows["infostate_parent"], rows.get("possible"))
  ends = np.isin(tree.terminal_nodes, nodes)
  index, chance = np.asarray(tree.payoff_index)[ends], tree.chance_probability
  if tree.hands is not None:  # the showdowns of this deal alone
    kept, index = of_tree(tree).used(index, index)
    rows["strengths"] = kept.strengths  # type: ignore[union-attr]
  if chance is not None:
    rows["chance_probability"] = (chance * odds)[nodes].astype(tree.dtype)
  return dataclasses.replace(
    tree, structure=structure, parent=parent, payoff_index=index.astype(np.int32),
    action=np.where(odds > 1, 0, tree.action)[nodes], payoff_scale=tree.payoff_scale[ends],
    terminal_nodes=place[tree.terminal_nodes[ends]].astype(np.int32), **rows,
  )  # fmt: skip


_CFR = vanilla_cfr()  # the tree decides what an update visits, and periods its weight
Tables = tuple[jax.Array, ...]  # `[N, H]` policy, regrets, sums of policies


def update_deal(problems: Problem, places: Array, state: Tables, deal: Any, player: int) -> Tables:
  """Updates `player` on the part of one deal, whose rows of the tables change."""
  problem, rows = jax.tree.map(lambda x: x[deal], problems), jnp.asarray(places)[deal]
  policy, *sums = (problem.split(x[rows]) for x in state)
  start = _CFR.init(problem, policy)
  # CFR keeps sums at the levels that a player moved to.
  kept = [[None if y is None else x for x, y in zip(z, start.average, strict=True)] for z in sums]
  start = start._replace(regret=tuple(kept[0]), average=tuple(kept[1]))
  after, _ = _CFR.update(problem, start, None, player)
  found: Any = []
  new = after.policy, after.regret, after.average
  for table, old, levels in zip(state, (policy, *sums), new, strict=True):
    own = [x if y is None else y for x, y in zip(old, levels, strict=True)]
    found.append(table.at[rows].set(problem.join(tuple(own))))
  return tuple(found)


@dataclasses.dataclass(frozen=True)
class SampledBoards(ByBoards):
  """CFR on lines whose updates visit one chunk of each part's boards, drawn evenly."""

  period: int | None = None  # as for `solve_chance_sampled`

  def visit_chunks(self, part: Any, number: int, state: Any, player: int, visit, carry) -> Any:
    """Visits one chunk, whose values weigh as many times as there are chunks."""
    update = 2 * (state.top.updates[player] + 1) + player
    key = jax.random.fold_in(jax.random.fold_in(state.key, update), number)
    own, counted, values = visit(jax.random.randint(key, (), 0, part.num_chunks), carry)
    return own, counted, values * part.num_chunks

  def update(self, problem: Any, state: Any, values: Any, player: int) -> tuple[BoardsState, Any]:
    state, sweep = super().update(problem, state, values, player)
    if self.period is None or player == 0:
      return state, sweep
    tables = state.top.regret, state.top.average, state.regret, state.average
    tables = _weigh(tables, state.top.updates[1], self.period)
    top = state.top._replace(regret=tables[0], average=tables[1])
    return state._replace(top=top, regret=tables[2], average=tables[3]), sweep


def _weigh(tables: Any, done: jax.Array, period: int) -> Any:
  """Multiplies sums by n / (n + 1) after the n-th period; `done` updates of each are made."""
  length = max(1, period // 2)
  factor = (done // length) / (done // length + 1.0)
  return lax.cond(
    done % length == 0,
    lambda: jax.tree.map(lambda x: (x * factor).astype(x.dtype), tables),
    lambda: tables,
  )


@validation.checked
def solve_chance_sampled(
  tree: PublicTree | Lines,
  *,
  num_iterations: validation.Positive,
  seed: int = 0,
  period: int | None = None,
) -> Solution:
  """Solves a game by CFR whose updates visit one deal of the public cards.

  Args:
    tree: whole, with the same game after every deal; or lines of more than one round, whose last
      deal is sampled, a few boards at a time.
    num_iterations: one player's update is one; player 0 is first. An odd number's last is left out.
    seed: of the draws.
    period: iterations after which regrets and policies weigh one more (Linear); None for never.

  Returns:
    The average policy; of lines its exploitability, too.

  Raises:
    ValueError: an argument is not as above.
  """
  if isinstance(tree, Lines):
    run, read = boards_on(tree, SampledBoards(_CFR, period=period), None, key=jax.random.key(seed))
    gap = float(run(num_iterations))
    return Solution(exploitability=gap, average_policy=read()[0], iterations=num_iterations)
  run, key = _run[work_on_trees()], jax.random.key(seed)
  policy = run(*deals_of(tree), tree, key, num_iterations // 2, period=period)
  return Solution(policy, iterations=num_iterations)


def _updates(trees, places, tree, key, number, *, period):
  problems = jax.vmap(make_problem)(trees, trees.prior)
  whole = make_problem(tree, tree.prior)

  def both(i, state):
    for player in (0, 1):
      deal = jax.random.randint(jax.random.fold_in(key, 2 * i + player), (), 0, len(places))
      state = update_deal(problems, places, state, deal, player)
    if period is None:
      return state
    return (state[0], *_weigh(state[1:], i + 1, period))

  uniform = whole.join(whole.uniform_policy())
  start = (uniform, jnp.zeros_like(uniform), jnp.zeros_like(uniform))
  *_, average = lax.fori_loop(0, number, both, start)
  return whole.join(whole.normalise(whole.split(average)))


_run = Programs(_updates, static_argnames="period")
