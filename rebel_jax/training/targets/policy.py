"""Average policies at the decisions of searched subgames (ReBeL, section 5.3 and appendix E)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from games import Game
from rebel_jax.config import Config
from rebel_jax.networks.value import PolicyNetwork
from rebel_jax.training.self_play import Searched
from rebel_jax.training.targets.target import Target, array, pbs_arrays
from solvers.search import Stage, policy_targets
from solvers.sweeps import make_problem

STEPS = 255  # the largest number of a quantized probability


class PolicyExamples(NamedTuple):
  """One example for each decision of a searched subgame."""

  features: Any  # `[E, F]` the public state as the player who moves sees it
  beliefs: Any  # `[E, 2 * H]` own beliefs, then the other's
  legal: Any  # `[E, A]` 1 for actions that exist, else 0
  # `[E, A, H]` the search's average policy in steps of 1 / 255 (appendix E: linear quantization);
  # zero for infostates that are impossible
  policy: Any


def make_examples(
  network: PolicyNetwork, searched: Searched
) -> tuple[PolicyExamples, jax.Array] | None:
  """Returns one example for each inner node of each search, valid where a player moves."""
  if searched.average_policy is None:
    return None
  trees, features = searched.trees, searched.node_features
  assert features is not None

  found = jax.vmap(
    lambda tree, features, beliefs, policy: policy_targets(
      make_problem(tree, beliefs), features, policy, network.num_actions
    )
  )(trees, features, searched.beliefs, searched.average_policy)
  found = found._replace(valid=found.valid & searched.active[:, None])
  (features, beliefs, legal), policy, valid = jax.tree.map(
    lambda x: x.reshape(-1, *x.shape[2:]), found
  )
  chex.assert_rank([features, beliefs, legal, policy, valid], [2, 3, 2, 3, 1])
  legal, policy = (x.astype(jnp.uint8) for x in (legal, jnp.round(policy * STEPS)))
  return PolicyExamples(features, beliefs.reshape(len(beliefs), -1), legal, policy), valid


def errors(
  network: PolicyNetwork, predicted: jax.Array, examples: PolicyExamples
) -> tuple[jax.Array, jax.Array]:
  """Returns squared errors of the probabilities `[E, H]`, weighed by whether there are any."""
  chex.assert_rank(predicted, 3)
  chex.assert_equal_shape([predicted, examples.policy])
  target = examples.policy.astype(predicted.dtype)
  total = target.sum(axis=1, keepdims=True)
  target = target / jnp.maximum(total, 1.0)  # what was rounded need not sum to one
  return ((predicted - target) ** 2).sum(axis=1), (total[:, 0] > 0).astype(predicted.dtype)


def most_examples(stage: Stage, shared: bool) -> int:
  """Returns how many decisions a subgame of the stage has at most."""
  return stage.most_decisions


def make_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of the policy network, if there is one."""
  if (network := networks.get("policy")) is None:
    return None
  features, beliefs = pbs_arrays(game)
  actions, infostates = network.num_actions, game.num_infostates
  return Target(
    name="policy",
    network=network,
    learning=config.learning,
    example=PolicyExamples(
      features,
      beliefs,
      legal=array(actions, dtype=jnp.uint8),
      policy=array(actions, infostates, dtype=jnp.uint8),
    ),
    make_examples=make_examples,
    errors=errors,
    most_examples=most_examples,
    num_inputs=3,
    node_features=True,
  )
