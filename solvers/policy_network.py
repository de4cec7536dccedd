"""What search and a policy network tell each other about the decisions of a subgame.

The network answers at a PBS: for every infostate of the player who moves, how likely each action
is. On the way down a tree its answers make the policy that search starts from (ReBeL, algorithm 1,
InitializePolicy); on the way back the average policy that search found at every decision, with the
PBS that it led to there, is what the network learns from (section 5.3).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE
from games.public_tree import PublicTree
from solvers import traversal
from solvers.leaf_values import normalise_beliefs
from solvers.solve import uniform_policy
from solvers.subgames import SubgameTable
from solvers.traversal import Levels, Setting


class PolicyQuery(NamedTuple):
  """A question about `n` decisions.

  Attributes:
    features: `[n, F]` the public states as the player who moves sees them.
    beliefs: `[n, P, H]` PBS, that player's first.
    legal: `[n, A]` 1 for actions that exist, else 0.
  """

  features: jax.Array  # [n, F]
  beliefs: jax.Array  # [n, P, H]
  legal: jax.Array  # [n, A]


# (params, query) -> [n, A, H]: how likely the player who moves takes each action.
PolicyFunction = Callable[[Any, PolicyQuery], jax.Array]


class PolicyTargets(NamedTuple):
  """What a solved subgame says about its `D` inner nodes.

  Attributes:
    query: what a network would be asked, under the average policy.
    policy: `[D, A, H]` the average policy; zero for infostates that are impossible there.
    valid: `[D]` whether a player moves there.
  """

  query: PolicyQuery
  policy: jax.Array  # [D, A, H]
  valid: jax.Array  # [D]


@dataclasses.dataclass(frozen=True)
class SearchPolicy:
  """A policy network as searches use it; static.

  Attributes:
    network: the policy function.
    num_actions: A, of its answers.
  """

  network: PolicyFunction
  num_actions: int

  def start_one(self, tree: PublicTree, features: jax.Array, beliefs: Any, params: Any) -> Levels:
    """Returns the network's policy on one tree from root `beliefs` `[P, H]`, by level `[n, H]`."""
    setting = traversal.prepare(tree, beliefs)
    return policy_from_network(tree, setting, features, self.network, params, self.num_actions)

  def start(self, table: SubgameTable, roots: jax.Array, beliefs: jax.Array, params: Any) -> Levels:
    """Returns the network's policies on `B` subgames of a table, by level `[B, n, H]`."""
    trees, features = jax.tree.map(
      lambda x: jnp.asarray(x)[roots], (table.trees, table.node_features)
    )
    start = functools.partial(self.start_one, params=params)
    return jax.vmap(start)(trees, features, beliefs)

  def targets(
    self, table: SubgameTable, roots: jax.Array, beliefs: jax.Array, policy: Levels
  ) -> PolicyTargets:
    """Returns `policy_targets` of `B` searched subgames, each array with a leading axis `[B]`."""
    trees, features = jax.tree.map(
      lambda x: jnp.asarray(x)[roots], (table.trees, table.node_features)
    )

    def one(tree, features, beliefs, policy):
      setting = traversal.prepare(tree, beliefs)
      return policy_targets(tree, setting, features, policy, self.num_actions)

    return jax.vmap(one)(trees, features, beliefs, policy)


def policy_from_network(
  tree: PublicTree,
  setting: Setting,
  features: jax.Array,
  network: PolicyFunction,
  params: Any,
  num_actions: int,
) -> Levels:
  """Returns the policy of a network on one tree, by level `[n, H]`.

  Its answer at a decision sets the beliefs at those below, so it is asked level by level.

  Args:
    tree, setting: see `traversal`; infostates that never change.
    features: `[N, F]` from `add_node_features`.
    network: the policy function.
    params: passed on to it.
    num_actions: A, of the network's answers.
  """
  policy = list(uniform_policy(tree, setting))
  rows = traversal.split_levels(tree, features)
  reach = [traversal.own_reach(tree, setting, (policy[0],), p)[0] for p in (0, 1)]
  for i in range(1, len(policy)):
    above = tree.structure.levels[i - 1].num_inner
    beliefs = _node_beliefs(tree, setting, i - 1, reach)[:above]
    actions, parents = _actions(tree, i, num_actions), tree.structure.levels[i].parents
    legal = jnp.zeros((above, num_actions), policy[0].dtype)
    legal = legal.at[parents, actions].set(1.0, mode="drop")
    if any(traversal.moves_at(tree, setting, i, p) is not False for p in (0, 1)):
      own_first = _own_first(beliefs, _movers(tree, i - 1)[:above])
      answer = network(params, PolicyQuery(rows[i - 1][:above], own_first, legal))
      weights = answer[parents, jnp.minimum(actions, num_actions - 1)]
      for player in (0, 1):
        moved = traversal.moves_at(tree, setting, i, player)
        if moved is not False:
          matched = traversal.normalise_rows(tree, setting, i, player, weights)
          policy[i] = traversal.choose(moved, matched, policy[i])
    reach = [traversal.reach_below(tree, setting, i, policy[i], reach[p], p) for p in (0, 1)]
  return tuple(policy)


def policy_targets(
  tree: PublicTree, setting: Setting, features: jax.Array, policy: Levels, num_actions: int
) -> PolicyTargets:
  """Returns what a network should have answered on one tree, and to which questions.

  Args:
    tree, setting, features, num_actions: as for `policy_from_network`.
    policy: by level, the average policy that search found.
  """
  rows = traversal.split_levels(tree, features)
  queries, targets, valid = [], [], []
  reach = traversal.both_reach(tree, setting, policy)
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    above = tree.structure.levels[i - 1].num_inner
    at = (level.parents, _actions(tree, i, num_actions))
    legal = jnp.zeros((above, num_actions), policy[0].dtype).at[at].set(1.0, mode="drop")
    target = jnp.zeros((above, num_actions, tree.num_infostates), policy[0].dtype)
    target = target.at[at].set(policy[i], mode="drop")
    movers = _movers(tree, i - 1)[:above]
    beliefs = _node_beliefs(tree, setting, i - 1, (reach[0][i - 1], reach[1][i - 1]))[:above]
    if tree.possible is not None:
      first = tree.structure.offsets[i - 1]
      possible = jnp.asarray(tree.possible)[first : first + above]
      target *= _own_first(possible, movers)[:, :1].astype(target.dtype)
    queries.append(PolicyQuery(rows[i - 1][:above], _own_first(beliefs, movers), legal))
    targets.append(target)
    valid.append(movers < CHANCE)
  return PolicyTargets(
    query=PolicyQuery(*(jnp.concatenate(x) for x in zip(*queries))),
    policy=jnp.concatenate(targets),
    valid=jnp.concatenate(valid),
  )


def _actions(tree: PublicTree, index: int, num_actions: int) -> jax.Array:
  """Returns which action leads to each node of a level; `num_actions` for padding."""
  start, stop = tree.structure.offsets[index : index + 2]
  actions = jnp.asarray(tree.action)[start:stop]
  return jnp.where(actions < 0, num_actions, actions)


def _movers(tree: PublicTree, index: int) -> jax.Array:
  start, stop = tree.structure.offsets[index : index + 2]
  return jnp.asarray(tree.kind)[start:stop]


def _own_first(beliefs: jax.Array, movers: jax.Array) -> jax.Array:
  """Puts the mover's row of `[n, P, H]` first."""
  return jnp.where((movers == 1)[:, None, None], beliefs[:, ::-1], beliefs)


def _node_beliefs(tree: PublicTree, setting: Setting, index: int, reach) -> jax.Array:
  """Returns the PBS at the nodes of a level, from both players' own reach: `[n, P, H]`."""
  full = [
    own * jnp.broadcast_to(setting.nature[p][index], own.shape) for p, own in enumerate(reach)
  ]
  start, stop = tree.structure.offsets[index : index + 2]
  possible = None if tree.possible is None else jnp.asarray(tree.possible)[start:stop]
  return normalise_beliefs(jnp.stack(full, axis=1), possible)
