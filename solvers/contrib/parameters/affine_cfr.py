"""CFR that keeps its regrets as functions of a game's parameters (thesis, section 4.2).

Payoffs are affine in theta, and so are regrets for a fixed sequence of policies.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array
from solvers.algorithms.cfr import CFR, CFRState
from solvers.contrib.parameters.affine_trees import AffineTrees
from solvers.sweeps.pairs import TreePairs, make_pairs
from solvers.sweeps.problem import Problem, Sweep, TreeProblem, make_problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class AffineProblem(TreeProblem):
  """A problem of one theta with the payoffs of all."""

  mix: jax.Array  # `[1 + D]` weights of the parts: one, and theta less where the family starts
  parts: tuple[jax.Array, TreePairs]  # `[1 + D]` trees and pairs: payoffs where the family starts
  trees: AffineTrees  # the family

  def with_part(self, payoffs: jax.Array, pairs: TreePairs) -> Problem:
    """Returns the problem with one of `parts` in place of its payoffs."""
    tree = jax.tree.map(jnp.asarray, self.trees.with_payoffs(payoffs))
    return dataclasses.replace(self, tree=tree, pairs=pairs)

  def combine(self, parts: jax.Array) -> jax.Array:
    """Returns the sum of `parts` `[1 + D, ...]` that holds at this theta."""
    return jnp.tensordot(self.mix, parts, axes=1, precision=lax.Precision.HIGHEST)


def affine_problem(trees: AffineTrees, theta: Array) -> AffineProblem:
  """Returns the problem at `theta` `[D]`, from the trees' own prior."""
  tree = trees.at(theta)
  problem = make_problem(tree, tree.prior)
  base = jnp.asarray(getattr(trees.tree, trees.field))
  payoffs = jnp.concatenate([base[None], jnp.asarray(trees.slopes)])
  pairs = jax.vmap(lambda x: make_pairs(trees.with_payoffs(x), jnp.asarray(tree.prior)))(payoffs)
  mix = jnp.concatenate([jnp.ones(1, tree.dtype), jnp.asarray(theta, tree.dtype) - trees.start])
  return AffineProblem(**vars(problem), mix=mix, parts=(payoffs, pairs), trees=trees)


@dataclasses.dataclass(frozen=True)
class AffineCFR(CFR):
  """CFR on an `AffineProblem`, with a rule whose sums are linear in regret."""

  # An update costs `1 + D` sweeps up. Each array of `CFRState.regret` is `[1 + D, n, H]`.

  def init(self, problem: Any, policy: Any = None) -> CFRState:
    state = super().init(problem, policy)
    zeros = [
      None if x is None else jnp.zeros((len(problem.mix), *x.shape), x.dtype) for x in state.regret
    ]
    return state._replace(regret=tuple(zeros))

  def update_weighed(
    self, problem: Any, state: CFRState, values: jax.Array | None, player: int
  ) -> tuple[CFRState, Sweep]:
    del values
    k = (state.updates[player] + 1).astype(state.policy[0].dtype)

    def sweep_up(part):
      there = problem.with_part(*part)
      return there.values_up(state.policy, state.reach[1 - player], None, player)

    sweeps = jax.vmap(sweep_up)(problem.parts)
    state = self.learn(problem, state, sweeps, player, k)
    sweep = jax.tree.map(problem.combine, sweeps)
    return self.average(problem, state, sweep.root, player, k), sweep

  def advantages(self, problem: Any, sweep: Sweep, index: int, player: int) -> jax.Array:
    return jax.vmap(lambda one: problem.advantages(one, index, player))(sweep)

  def matched(self, problem: Any, state: CFRState, player: int, k: jax.Array) -> CFRState:
    """Returns the state with `player`'s policy matched to its regrets at the problem's theta."""
    regret = tuple(None if x is None else problem.combine(x) for x in state.regret)
    found = super().matched(problem, state._replace(regret=regret), player, k)
    return state._replace(policy=found.policy)
