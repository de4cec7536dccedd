"""Policy-network queries at a subgame's decisions: initial policies and training targets.

The network answers at a PBS: for every infostate of the player who moves, how likely each action
is. On the way down a tree its answers make the policy that search starts from (ReBeL, algorithm 1,
InitializePolicy); on the way back the average policy that search found at every decision, with the
PBS that it led to there, is what the network learns from (section 5.3).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE
from games.public_tree import PublicTree
from solvers.leaf_values import normalise_beliefs, seat_of
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import TreeProblem, choose, make_problem


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
  """The average policy at the `D` inner nodes of a solved subgame, with the query for each.

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

  def start(self, trees: PublicTree, features: Any, beliefs: Any, params: Any) -> Levels:
    """Returns the network's policies on `B` stacked trees, by level `[B, n, H]`."""

    def start(tree, features, beliefs):
      problem = make_problem(tree, beliefs)
      return policy_from_network(problem, features, self.network, params, self.num_actions)

    return jax.vmap(start)(trees, features, beliefs)


def policy_from_network(
  problem: TreeProblem, features: jax.Array, network: PolicyFunction, params: Any, num_actions: int
) -> Levels:
  """Returns the policy of a network on one tree, by level `[n, H]`.

  Its answer at a decision sets the beliefs at those below, so it is asked level by level.

  Args:
    problem: of infostates that never change.
    features: `[N, F]` from `add_node_features`.
    network: the policy function.
    params: passed on to it.
    num_actions: A, of the network's answers.
  """
  tree = problem.tree
  policy = list(problem.uniform_policy())
  rows = problem.split(features)
  reach = [problem.own_reach((policy[0],), p)[0] for p in (0, 1)]
  for i in range(1, len(policy)):
    above = tree.structure.levels[i - 1].num_inner
    beliefs = _node_beliefs(problem, i - 1, reach)[:above]
    actions, parents = _actions(tree, i, num_actions), tree.structure.levels[i].parents
    legal = jnp.zeros((above, num_actions), policy[0].dtype)
    legal = legal.at[parents, actions].set(1.0, mode="drop")
    if any(problem.moves_at(i, p) is not False for p in (0, 1)):
      own_first = seat_of(_movers(tree, i - 1)[:above], beliefs)
      answer = network(params, PolicyQuery(rows[i - 1][:above], own_first, legal))
      weights = answer[parents, jnp.minimum(actions, num_actions - 1)]
      for player in (0, 1):
        moved = problem.moves_at(i, player)
        if moved is not False:
          policy[i] = choose(moved, problem.normalise_rows(i, player, weights), policy[i])
    reach = [problem.reach_below(i, policy[i], reach[p], p) for p in (0, 1)]
  return tuple(policy)


def policy_targets(
  problem: TreeProblem, features: jax.Array, policy: Levels, num_actions: int
) -> PolicyTargets:
  """Returns the queries of one tree and a network's targets for them.

  Args:
    problem, features, num_actions: as for `policy_from_network`.
    policy: by level, the average policy that search found.
  """
  tree, rows = problem.tree, problem.split(features)
  queries, targets, valid = [], [], []
  reach = problem.both_reach(policy)
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    above = tree.structure.levels[i - 1].num_inner
    at = (level.parents, _actions(tree, i, num_actions))
    legal = jnp.zeros((above, num_actions), policy[0].dtype).at[at].set(1.0, mode="drop")
    target = jnp.zeros((above, num_actions, tree.num_infostates), policy[0].dtype)
    target = target.at[at].set(policy[i], mode="drop")
    movers = _movers(tree, i - 1)[:above]
    beliefs = _node_beliefs(problem, i - 1, (reach[0][i - 1], reach[1][i - 1]))[:above]
    if tree.possible is not None:
      first = tree.structure.offsets[i - 1]
      possible = jnp.asarray(tree.possible)[first : first + above]
      target *= seat_of(movers, possible)[:, :1].astype(target.dtype)
    queries.append(PolicyQuery(rows[i - 1][:above], seat_of(movers, beliefs), legal))
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


def _node_beliefs(problem: TreeProblem, index: int, reach) -> jax.Array:
  """Returns the PBS at the nodes of a level, from both players' own reach: `[n, P, H]`."""
  full = [problem.with_nature(index, own, player) for player, own in enumerate(reach)]
  tree = problem.tree
  start, stop = tree.structure.offsets[index : index + 2]
  possible = None if tree.possible is None else jnp.asarray(tree.possible)[start:stop]
  return normalise_beliefs(jnp.stack(full, axis=1), possible)
