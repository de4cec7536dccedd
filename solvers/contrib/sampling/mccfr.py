"""Monte Carlo CFR with tables: external and outcome sampling, plain or Linear, with baselines."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.arrays import Positive, Share, check_fields
from games.public_tree import PublicTree
from solvers import validation
from solvers.contrib.sampling.traversal import Policy, Sampler, make_sampler, traverse
from solvers.sweeps.problem import make_problem
from solvers.xla import Programs, work_on_trees

_LARGE = 2**30  # nodes, before a count of 32 bits is full
_TINY = 1e-30


class MCCFRState(NamedTuple):
  """Sums over traversals; a row of a table is of the move to that node."""

  regret: jax.Array  # `[N, H]` sampled regrets; rows are nodes of a tree, or as `holds` says
  average: jax.Array  # `[N, H]` policies, weighted by own reach in the mean
  baseline: jax.Array | None  # `[P, N, H]` guesses of each traverser's values; None without
  nodes: jax.Array  # how many the traversals of this period touched, terminal ones too
  periods: jax.Array  # how many were before
  holds: jax.Array | None = None  # `[N]` the node of each row, -1 where it is free


_PROBES = 4  # rows that a node may have


def _rows(holds: jax.Array | None, numbers: jax.Array, length: int, new: Any = -2) -> jax.Array:
  """Returns the rows of nodes, `length` for those without one; where free rows are `new`, one."""
  # Rows are never freed, so a node's own comes before the first that is free.
  if holds is None:
    return jnp.where(numbers >= 0, numbers, length)
  probes = jnp.arange(_PROBES, dtype=numbers.dtype).reshape(*[1] * numbers.ndim, -1)
  rows = (numbers[..., None] + probes) % length
  good = (holds[rows] == numbers[..., None]) | (holds[rows] == new)
  first = jnp.take_along_axis(rows, good.argmax(axis=-1)[..., None], axis=-1)[..., 0]
  return jnp.where((numbers >= 0) & good.any(axis=-1), first, length)


@dataclasses.dataclass(frozen=True)
class MCCFR:
  """Monte Carlo CFR; the default is external sampling (Lanctot et al. 2009).

  Attributes:
    explore: None, or outcome sampling's share of uniform moves of the traverser.
    period: nodes touched after which regrets and policies weigh one more: Linear MCCFR (thesis,
      section 3.1), whose discount n / (n + 1) after the n-th period is the same. None: all weigh
      one.
    baseline: None, or how far a baseline goes to each sampled value: VR-MCCFR (Schmid et al. 2019).
    deals: how many traversals an update takes side by side.

  Raises:
    ValueError: a number is beyond its limits.
  """

  explore: Share | None = None
  period: Positive | None = None
  baseline: Share | None = None
  deals: Positive = 1

  def __post_init__(self):
    check_fields(self)
    if self.explore == 0:
      raise ValueError("explore=0 leaves moves that are never sampled; it must be above 0")

  def init(self, sampler: Sampler) -> MCCFRState:
    """Returns the state before the first traversal."""
    zeros = jnp.zeros(sampler.shape, sampler.dtype)
    guesses = None if self.baseline is None else jnp.stack([zeros, zeros])
    holds = None if sampler.tree is not None else jnp.full(sampler.shape[0], -1, jnp.int32)
    none = jnp.zeros((), jnp.int32)
    return MCCFRState(zeros, zeros, guesses, none, none, holds)

  def policy(self, sampler: Sampler, state: MCCFRState, *, average: bool = False) -> Policy:
    """Returns the current policy, matched to regrets at the nodes that are visited; or the average.

    Floors and discounts of regrets do not help where they are samples (thesis, section 3.1).
    """
    table = state.average if average else state.regret

    def policy(nodes: Any, infostate: jax.Array) -> jax.Array:
      moves = sampler.look(nodes)[2]
      legal, rows = (moves >= 0).astype(table.dtype), _rows(state.holds, moves, len(table))
      found = table.at[rows, infostate[:, None]].get(mode="fill", fill_value=0.0)
      weights = legal * jnp.maximum(found, 0.0)
      weights = jnp.where(weights.sum(axis=1, keepdims=True) > 0, weights, legal)
      return weights / jnp.maximum(weights.sum(axis=1, keepdims=True), _TINY)

    return policy

  def update(self, sampler: Sampler, state: MCCFRState, key: jax.Array, player: int) -> MCCFRState:
    """Adds what `player`'s traversals sample.

    By external sampling policies are counted at the opponent's nodes, which are visited as often
    as it plays to them. By outcome sampling they are the traverser's, divided by the probability of
    the visit.
    """
    policy, explore, baseline = self.policy(sampler, state), self.explore, state.baseline
    shape, length = (self.deals, sum(sampler.sizes(player, explore))), sampler.shape[0]

    def guesses(numbers: jax.Array, infostates: jax.Array) -> jax.Array:
      places = player, _rows(state.holds, numbers, length), infostates
      return state.baseline.at[places].get(mode="fill", fill_value=0.0)  # type: ignore[union-attr]

    settings: Any = {"explore": explore, "baseline": None if baseline is None else guesses}
    visits = jax.vmap(lambda draws: traverse(sampler, policy, draws, player, **settings))(
      jax.random.uniform(key, shape, sampler.dtype)
    )
    if explore is None:
      counted = jnp.where(visits.player == 1 - player, 1.0 / visits.sampled, 0.0)
    else:
      counted = jnp.where(visits.player == player, visits.reach / visits.probability, 0.0)

    holds, rows = state.holds, _rows(state.holds, visits.moves, length, -1)
    if holds is not None:  # of nodes that want the same row one has it
      holds = holds.at[rows].set(visits.moves, mode="drop")
      rows = jnp.where(holds.at[rows].get(mode="fill", fill_value=-1) == visits.moves, rows, length)

    def add(table: jax.Array, found: jax.Array) -> jax.Array:
      # Moves that are not there go to a row past the end, which is dropped.
      found = found * (1 + state.periods).astype(found.dtype) if self.period else found
      return table.at[rows, visits.infostate[..., None]].add(found.astype(table.dtype), mode="drop")

    if self.baseline is not None and baseline is not None:
      places = player, _rows(holds, visits.node, length), visits.held
      off = visits.value - baseline.at[places].get(mode="fill", fill_value=0.0)
      baseline = baseline.at[places].add(self.baseline / self.deals * off, mode="drop")
    nodes, period = state.nodes + (visits.node >= 0).sum(dtype=jnp.int32), self.period or _LARGE
    return MCCFRState(
      regret=add(state.regret, visits.regret),
      average=add(state.average, counted[..., None] * visits.policy),
      baseline=baseline,
      nodes=nodes % period,
      periods=state.periods + nodes // period,
      holds=holds,
    )


class SampledSolution(NamedTuple):
  """A run of Monte Carlo CFR."""

  # `[N, H]`; None without a tree, where `MCCFR.policy` reads it from the state
  average_policy: jax.Array | None
  nodes: int  # how many were touched, terminal ones too
  state: MCCFRState  # to go on from


@validation.checked
def solve_sampled(
  tree: PublicTree | Sampler,
  *,
  num_iterations: Positive,
  key: jax.Array,
  algorithm: MCCFR = MCCFR(),
  state: MCCFRState | None = None,
) -> SampledSolution:
  """Solves a game by traversals of samples of it.

  Args:
    tree: whole, of moves that all see; or a sampler, of rules too.
    num_iterations: one player's update is one; player 0 is first. An odd number's last is left out.
    key: of the samples.
    algorithm: what is sampled, and how it is weighed.
    state: of a run to go on from, whose arrays this call takes over; None to begin.

  Raises:
    ValueError: an argument is not as above.
  """
  sampler = tree if isinstance(tree, Sampler) else make_sampler(tree)
  if state is None:  # of arrays apart, since each is donated
    state = jax.tree.map(jnp.copy, algorithm.init(sampler))
  run = _run[work_on_trees()]
  state, policy = run(sampler, state, key, num_iterations // 2, algorithm=algorithm)
  nodes = int(state.periods) * (algorithm.period or _LARGE) + int(state.nodes)
  return SampledSolution(policy, nodes, state)


def _traversals(sampler, state, key, number, *, algorithm):
  def both(i, state):
    keys = jax.random.split(jax.random.fold_in(key, i))
    for player in (0, 1):
      state = algorithm.update(sampler, state, keys[player], player)
    return state

  state = lax.fori_loop(0, number, both, state)
  if sampler.tree is None:
    return state, None
  problem = make_problem(sampler.tree, sampler.tree.prior)
  return state, problem.join(problem.normalise(problem.split(state.average)))


_run = Programs(_traversals, static_argnames="algorithm", donate_argnames="state")
