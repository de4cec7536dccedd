"""Counterfactual regret minimisation on public trees, whole or depth-limited (CFR-D, CFR-AVG)."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers import leaf_values as leaves
from solvers import traversal, warm_start
from solvers.algorithm import RunningValues, pick_players
from solvers.leaf_values import LeafBeliefs, LeafQuery
from solvers.regret_rules import RegretRule
from solvers.traversal import Levels, Setting


class CFRState(NamedTuple):
  """State of CFR on one tree; arrays by level hold None where no player moved."""

  policy: Levels  # [n, H] a level
  regret: tuple[Any, ...]  # state of the regret rule
  average: tuple[jax.Array | None, ...]  # [n, H] a level: sum of policies weighted by own reach
  reach: tuple[Levels, Levels]  # each player's own reach under `policy`
  values: RunningValues
  updates: jax.Array  # [P] how often each player was updated
  leaf_sums: jax.Array | None  # [P, L, H] CFR-AVG: sum of reach at the leaves
  leaf_memory: jax.Array | None  # [P, L, H] CFR-AVG: last counterfactual values of that sum
  leaf_memory_valid: jax.Array | None  # [P]


@dataclasses.dataclass(frozen=True)
class CFR:
  """CFR with any regret rule.

  Conventions (`docs/conventions.md`): the first policy is uniform and counts in the average;
  at a player's k-th update regrets are taken against the other's current policy, the next
  policy is matched to them, the average is multiplied by `(k / (k + 1)) ** averaging` and the
  new policy, weighted by own reach, is added. A policy's weight is thus proportional to
  `(j + 1) ** averaging` for the policy after j updates.

  Attributes:
    rule: the regret rule.
    averaging: exponent of the averaging weights: 0 uniform, 1 linear, 2 quadratic.
    alternating: whether players take turns; else both respond to the same policies.
    leaf_beliefs: which policies set the beliefs at the leaves of a depth-limited tree.
    warm_start: how many iterations the initial policy stands for (ReBeL, appendix J); 0 for
      none, 15 in the paper.
  """

  rule: RegretRule
  averaging: float = 0.0
  alternating: bool = True
  leaf_beliefs: LeafBeliefs = LeafBeliefs.CURRENT
  warm_start: int = 0

  @property
  def primed(self) -> tuple[int, ...]:
    if self.warm_start:
      return (0, 1)
    # Under alternating updates player 1 first responds to player 0's second policy, so it must
    # remember what the first was worth to take the difference.
    return (1,) if self.leaf_beliefs == LeafBeliefs.AVERAGE and self.alternating else ()

  @property
  def values_of_average(self) -> bool:
    return self.leaf_beliefs != LeafBeliefs.CURRENT

  def init(self, tree: PublicTree, setting: Setting, policy: Levels) -> CFRState:
    reach = traversal.both_reach(tree, setting, policy)
    regret: list[Any] = [None]
    average: list[jax.Array | None] = [None]
    for i in range(1, len(policy)):
      moved = [traversal.moves_at(tree, setting, i, p) for p in (0, 1)]
      if moved[0] is False and moved[1] is False:
        regret.append(None)
        average.append(None)
        continue
      regret.append(self.rule.init(jnp.zeros_like(policy[i])))
      average.append(traversal.choose(moved[0], reach[0][i], reach[1][i]))
    dtype, h = policy[0].dtype, tree.num_infostates
    leaf_sums = leaf_memory = leaf_memory_valid = None
    if tree.depth_limited and self.leaf_beliefs != LeafBeliefs.CURRENT:
      leaf_sums = jnp.stack(leaves.leaf_reach(tree, setting, reach))
      leaf_memory = jnp.zeros_like(leaf_sums)
      leaf_memory_valid = jnp.zeros(2, bool)
    return CFRState(
      policy=policy,
      regret=tuple(regret),
      average=tuple(average),
      reach=reach,
      values=RunningValues(jnp.zeros((2, h), dtype), jnp.zeros(2, dtype)),
      updates=jnp.zeros(2, jnp.int32),
      leaf_sums=leaf_sums,
      leaf_memory=leaf_memory,
      leaf_memory_valid=leaf_memory_valid,
    )

  def leaf_query(
    self, tree: PublicTree, setting: Setting, state: CFRState, player: int
  ) -> LeafQuery:
    if self.leaf_beliefs == LeafBeliefs.CURRENT:
      return leaves.make_query(tree, player, leaves.leaf_reach(tree, setting, state.reach))
    assert state.leaf_sums is not None
    sums = (state.leaf_sums[0], state.leaf_sums[1])
    if self.leaf_beliefs == LeafBeliefs.AVERAGE:
      return leaves.make_query(tree, player, sums)
    current = leaves.leaf_reach(tree, setting, state.reach)
    return leaves.make_query(tree, player, sums, current)

  def prime(
    self,
    tree: PublicTree,
    setting: Setting,
    state: CFRState,
    values: jax.Array | None,
    player: int,
  ) -> CFRState:
    if self.warm_start:
      return warm_start.prime(self, tree, setting, state, values, player)
    if values is None:
      return state
    assert state.leaf_sums is not None
    assert state.leaf_memory is not None
    assert state.leaf_memory_valid is not None
    mass = traversal.compatible_mass(setting, state.leaf_sums[1 - player], player)
    return state._replace(
      leaf_memory=state.leaf_memory.at[player].set(values * mass),
      leaf_memory_valid=state.leaf_memory_valid.at[player].set(True),
    )

  def update(
    self,
    tree: PublicTree,
    setting: Setting,
    state: CFRState,
    values: jax.Array | None,
    player: int,
  ) -> CFRState:
    k = (state.updates[player] + 1).astype(state.policy[0].dtype)
    opponent = state.reach[1 - player]
    if values is not None:
      state, values = self._leaf_values(tree, setting, state, values, player)
    sweep = traversal.values_up(tree, setting, state.policy, opponent, values, player)
    regret, policy = self.match(tree, setting, state, sweep, player, k)
    reach = traversal.own_reach(tree, setting, policy, player)
    decay = (k / (k + 1.0)) ** self.averaging
    value_decay = ((k - 1.0) / k) ** self.averaging if self.averaging else jnp.ones_like(k)
    state = self.count_policy(tree, setting, state, reach, player, decay)
    return state._replace(
      policy=policy,
      regret=regret,
      reach=(reach, state.reach[1]) if player == 0 else (state.reach[0], reach),
      values=state.values.add(player, sweep.root, value_decay),
      updates=state.updates.at[player].add(1),
    )

  def count_policy(self, tree, setting, state, reach: Levels, player: int, decay) -> CFRState:
    """Scales `player`'s averages by `decay` and adds the policy of own reach `reach`."""
    average = list(state.average)
    for i, old in enumerate(average):
      moved = old is not None and traversal.moves_at(tree, setting, i, player)
      if moved is not False:
        average[i] = traversal.choose(moved, old * decay + reach[i], old)
    leaf_sums = state.leaf_sums
    if leaf_sums is not None:
      at_leaves = traversal.counterfactual_leaf_reach(tree, setting, reach, player)
      leaf_sums = leaf_sums.at[player].set(leaf_sums[player] * decay + at_leaves)
    return state._replace(average=tuple(average), leaf_sums=leaf_sums)

  def _leaf_values(self, tree, setting, state, values, player):
    """Returns the state and the counterfactual leaf values `[L, H]` of this iteration."""
    opponent = state.reach[1 - player]
    current = traversal.weigh_leaf_values(tree, setting, values, opponent, player)
    if self.leaf_beliefs != LeafBeliefs.AVERAGE:
      return state, current
    # Appendix I, for any weights: with S_j = d_j S_{j-1} + r_j the opponent's summed reach and
    # G(S) the counterfactual values at it, G(S_j) - d_j G(S_{j-1}) stands in for G(r_j), and is
    # equal to it where G is linear.
    mass = traversal.compatible_mass(setting, state.leaf_sums[1 - player], player)
    total = values * mass
    j = state.updates[1 - player].astype(values.dtype)
    decay = (j / (j + 1.0)) ** self.averaging if self.averaging else jnp.ones_like(j)
    difference = total - decay * state.leaf_memory[player]
    known = state.leaf_memory_valid[player]
    state = state._replace(
      leaf_memory=state.leaf_memory.at[player].set(total),
      leaf_memory_valid=state.leaf_memory_valid.at[player].set(True),
    )
    # Without a memory the values at the average stand in for this iteration's. On the very
    # first update the two are the same.
    return state, jnp.where(known, difference, current)

  def match(self, tree, setting, state, sweep: traversal.Sweep, player: int, k):
    """Returns the regrets and the policy after taking in a sweep's instantaneous regrets."""
    regret, weights = list(state.regret), list(state.policy)
    for i, parents in enumerate(sweep.parents):
      if parents is None:
        continue
      moved = traversal.moves_at(tree, setting, i, player)
      new, matched = self.rule.update(state.regret[i], sweep.nodes[i] - parents, k)
      regret[i] = jax.tree.map(lambda x, y, m=moved: traversal.choose(m, x, y), new, regret[i])
      weights[i] = matched
    return tuple(regret), match_regrets(tree, setting, state.policy, weights, player)

  def merge(
    self, tree: PublicTree, setting: Setting, first: CFRState, second: CFRState
  ) -> CFRState:
    def by_level(x, y):
      # Rows that player 1 moved to come from `second`.
      merged = list(x)
      for i in range(1, len(merged)):
        moved = traversal.moves_at(tree, setting, i, 1)
        if merged[i] is not None:
          merged[i] = jax.tree.map(lambda a, b, m=moved: traversal.choose(m, b, a), x[i], y[i])
      return tuple(merged)

    def by_player(x, y):
      return None if x is None else pick_players(x, y)

    return CFRState(
      policy=by_level(first.policy, second.policy),
      regret=by_level(first.regret, second.regret),
      average=by_level(first.average, second.average),
      reach=(first.reach[0], second.reach[1]),
      values=first.values.merge(second.values),
      updates=pick_players(first.updates, second.updates),
      leaf_sums=by_player(first.leaf_sums, second.leaf_sums),
      leaf_memory=by_player(first.leaf_memory, second.leaf_memory),
      leaf_memory_valid=by_player(first.leaf_memory_valid, second.leaf_memory_valid),
    )

  def current_policy(self, tree: PublicTree, setting: Setting, state: CFRState) -> Levels:
    return state.policy

  def average_policy(self, tree: PublicTree, setting: Setting, state: CFRState) -> Levels:
    weights = [jnp.ones_like(p) if a is None else a for a, p in zip(state.average, state.policy)]
    return traversal.normalise_policy(tree, setting, tuple(weights))

  def root_values(self, setting: Setting, state: CFRState) -> jax.Array:
    return state.values.mean(setting.root_mass)


def match_regrets(
  tree: PublicTree, setting: Setting, policy: Levels, regrets: list[jax.Array], player: int
) -> Levels:
  """Replaces `player`'s rows of `policy` by the positive parts of `regrets`, normalised.

  Where no regret is positive the choices are equally likely. Elsewhere a choice without positive
  regret gets exactly zero: any floor, however small, would let the other player collect regrets
  below it, and only their signs count.
  """
  new = list(policy)
  for i in range(1, len(policy)):
    moved = traversal.moves_at(tree, setting, i, player)
    if moved is False:
      continue
    matched = traversal.normalise_rows(tree, setting, i, player, jnp.maximum(regrets[i], 0.0))
    new[i] = traversal.choose(moved, matched, policy[i])
  return tuple(new)
