"""Monte Carlo CFR with tables: external and outcome sampling, plain or Linear, with baselines."""

import dataclasses
from typing import NamedTuple

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
  """Sums over traversals; a row of a table is of the move to that node.

  Attributes:
    regret: `[N, H]` sampled regrets.
    average: `[N, H]` policies, weighted by own reach in the mean.
    baseline: `[P, N, H]` guesses of each traverser's values; None without.
    nodes: how many the traversals of this period touched, terminal ones too.
    periods: how many were before.
  """

  regret: jax.Array
  average: jax.Array
  baseline: jax.Array | None
  nodes: jax.Array
  periods: jax.Array


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
    zeros = jnp.zeros((sampler.tree.num_nodes, sampler.tree.num_infostates), sampler.tree.dtype)
    guesses = None if self.baseline is None else jnp.stack([zeros, zeros])
    return MCCFRState(zeros, zeros, guesses, *[jnp.zeros((), jnp.int32)] * 2)

  def policy(self, sampler: Sampler, state: MCCFRState) -> Policy:
    """Returns the current policy, matched to regrets at the nodes that are visited.

    Floors and discounts of regrets do not help where they are samples (thesis, section 3.1).
    """

    def policy(node: jax.Array, infostate: jax.Array) -> jax.Array:
      moves = jnp.asarray(sampler.child)[node]
      legal = (moves >= 0).astype(state.regret.dtype)
      weights = legal * jnp.maximum(state.regret[moves, infostate[:, None]], 0.0)
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
    guesses = None if baseline is None else baseline[player]
    shape = self.deals, sum(sampler.sizes(player, explore))
    visits = jax.vmap(
      lambda draws: traverse(sampler, policy, draws, player, explore=explore, baseline=guesses)
    )(jax.random.uniform(key, shape, sampler.tree.dtype))
    if explore is None:
      counted = jnp.where(visits.player == 1 - player, 1.0, 0.0)
    else:
      counted = jnp.where(visits.player == player, visits.reach / visits.probability, 0.0)

    def add(table: jax.Array, rows: jax.Array) -> jax.Array:
      # Moves that are not there go to a row past the end, which is dropped.
      places = jnp.where(visits.moves >= 0, visits.moves, len(table)), visits.infostate[..., None]
      rows = rows * (1 + state.periods if self.period else 1)
      return table.at[places].add(rows.astype(table.dtype), mode="drop")

    if self.baseline is not None and baseline is not None:
      places = player, jnp.where(visits.node >= 0, visits.node, baseline.shape[1]), visits.held
      off = visits.value - baseline.at[places].get(mode="fill", fill_value=0.0)
      baseline = baseline.at[places].add(self.baseline / self.deals * off, mode="drop")
    nodes, length = state.nodes + (visits.node >= 0).sum(dtype=jnp.int32), self.period or _LARGE
    return MCCFRState(
      regret=add(state.regret, visits.regret),
      average=add(state.average, counted[..., None] * visits.policy),
      baseline=baseline,
      nodes=nodes % length,
      periods=state.periods + nodes // length,
    )


class SampledSolution(NamedTuple):
  """A run of Monte Carlo CFR.

  Attributes:
    average_policy: `[N, H]`, which converges to an equilibrium.
    nodes: how many were touched, terminal ones too.
    state: to go on from.
  """

  average_policy: jax.Array
  nodes: int
  state: MCCFRState


@validation.checked
def solve_sampled(
  tree: PublicTree,
  *,
  num_iterations: Positive,
  key: jax.Array,
  algorithm: MCCFR = MCCFR(),
  state: MCCFRState | None = None,
) -> SampledSolution:
  """Solves a game by traversals of samples of it.

  Args:
    tree: whole, of moves that all see.
    num_iterations: one player's update is one; player 0 is first. The last of an odd
      number is left out.
    key: of the samples.
    algorithm: what is sampled, and how it is weighed.
    state: of a run to go on from; None to begin.

  Returns:
    The average policy, the number of nodes, and the state.

  Raises:
    ValueError: an argument is not as above.
  """
  sampler = make_sampler(tree)
  state = algorithm.init(sampler) if state is None else state
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
  problem = make_problem(sampler.tree, sampler.tree.prior)
  return state, problem.join(problem.normalise(problem.split(state.average)))


_run = Programs(_traversals, static_argnames="algorithm")
