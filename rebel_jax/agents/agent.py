"""The agent of a trained network, by the kind of its search and the size of its game."""

from typing import Any

from games.arguments import checked
from rebel_jax.agents.belief_agent import Agent, Searcher
from rebel_jax.agents.chain_agent import ChainSearcher
from rebel_jax.agents.dealer import SearchingSeat, prepare
from rebel_jax.agents.street_searcher import StreetSearcher
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.training.setup import made_on_device

__all__ = [
  "Agent",
  "Searcher",
  "make_agent",
  "make_searcher",
  "prepare",
  "searcher_of",
]


@checked
def searcher_of(policy: Policy) -> type[Any]:
  """Returns the kind of searcher that agents of a trained network share."""
  if policy.config.grows:
    return ChainSearcher
  return StreetSearcher if made_on_device(policy.config, policy.config.make_game()) else Searcher


@checked
def make_searcher(policy: Policy, **settings: Any) -> Any:
  """Returns the searcher that agents of a network share; `settings` are those of its kind."""
  return searcher_of(policy)(policy, **settings)


@checked
def make_agent(policy: Policy, *, seed: int = 0, **settings: Any) -> SearchingSeat:
  """Returns an agent that plays with a trained network; `settings` as for `make_searcher`."""
  return make_searcher(policy, seed=seed, **settings).agent(seed=seed)
