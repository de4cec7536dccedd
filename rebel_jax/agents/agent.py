"""Agents of trained networks; those of growing searches re-solve (Player of Games, section B.1).

Each search starts at the deepest state on the path that the agent's last search held, and promises
the opponent its values there. In games of perfect information the likeliest move is made.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import Positive, checked, one, short
from rebel_jax.agents.belief_agent import Agent, Searcher, StreetSearcher
from rebel_jax.agents.dealer import Move, PolicyPlayer, SearchingSeat, Seat, check_turn, prepare
from rebel_jax.checkpoints.checkpoint import Policy, checked_numbers
from rebel_jax.config import ConfigError, DeepCFR
from rebel_jax.evaluation.evaluator import AverageEvaluator, ChainEvaluator
from rebel_jax.training.setup import made_on_device, make_search
from solvers.growing import (
  Found,
  PublicState,
  TreeGround,
  follow_action,
  longest_wait,
  search_decisions,
)


class ChainSearcher:
  """Searches decisions with a trained network, several at a time; agents share one."""

  @checked
  def __init__(
    self,
    policy: Policy,
    *,
    simulations: int | None = None,
    per_update: float | None = None,
    num_games: Positive = 1,
    seed: int = 0,
  ):
    """Prepares searches, by default with half of the run's `eval_iterations` as simulations."""
    self._room = num_games
    config = checked_numbers(policy).config
    search = make_search(config, evaluation=True, simulations=simulations, per_update=per_update)
    measured = ChainEvaluator(config, search=search)
    self.game, ground = measured.game, measured.ground
    if self._room == 1 and isinstance(ground, TreeGround):
      # Small trees for small parts compile anew, and spare one game little.
      ground = dataclasses.replace(ground, parts=None)
    self.rules = ground.rules
    self.nothing = jax.tree.map(np.asarray, ground.nothing())
    self._ground = jax.device_put(ground)
    self.settings, self._how, self._params = measured.search, measured.how, policy.params

  @checked
  def agent(self, *, seed: int = 0) -> "ChainAgent":
    """Returns an agent that searches so."""
    return ChainAgent(self, seed=seed)

  def search_for(self, agents: Sequence["ChainAgent"]) -> None:
    """Lets agents that must search do so, as many side by side as there is room for."""
    for first in range(0, len(agents), self._room):
      some = agents[first : first + self._room]
      filled = [*some, *[some[0]] * (self._room - len(some))]
      since = np.full((self._room, longest_wait(self.rules)), -1, np.int32)
      for row, agent in zip(since, filled):
        row[: len(agent._since)] = agent._since[: len(row)]
      found: Any = search_decisions(
        self._ground,
        jax.tree.map(lambda *x: np.stack(x), *[x._left for x in filled]),
        jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *[x._here for x in filled]),
        since,
        np.array([x.player for x in filled], np.int32),
        jnp.stack([x._key for x in filled]),
        np.arange(self._room) < len(some),
        how=self._how, rounds=self.settings.rounds, params=self._params,
      )  # fmt: skip
      found = jax.tree.map(np.asarray, found._replace(asked=None))
      for i, agent in enumerate(some):
        agent._search = jax.tree.map(lambda x, i=i: x[i].copy(), found)


class ChainAgent(SearchingSeat):
  """Player of one game at a time from one seat; its seed fixes all searches, and so its policy."""

  def __init__(self, searcher: ChainSearcher, *, seed: int = 0):
    super().__init__(searcher, seed=seed)
    self._key = jax.random.key(seed)

  def _begin(self) -> None:
    rules, self._search = self.searcher.rules, None
    first = rules.initial_state().astype(np.int32)
    self._here: PublicState = PublicState(first, np.asarray(rules.prior()) > 0)
    # What the last search left, and the public actions since.
    self._left, self._since = self.searcher.nothing, list[int]()

  def choices(self) -> dict[Move, float]:
    policy, rules = self._found().policy[:, self.infostate], self.searcher.rules
    if rules.num_infostates == 1:
      policy = np.eye(len(policy))[policy.argmax()]
    moves = one(rules.moves_of, *self._here)
    leads_to, action = (x[:, self.infostate].tolist() for x in moves)
    found = dict[Move, float]()
    for number in (m for m, seen in enumerate(action) if seen >= 0):
      move = Move(action[number], leads_to[number])
      found[move] = found.get(move, 0.0) + float(policy[number])
    return found

  @property
  def pending(self) -> bool:
    """Whether the agent must search before it can act or observe."""
    return self._mover == self.player and self._search is None

  @property
  def value(self) -> float:
    """Expected payoff of the agent by its search for this decision."""
    return float(self._found().values[self.player, self.infostate])

  def _follow(self, action: int) -> None:
    rules = self.searcher.rules
    legal = np.flatnonzero(one(rules.legal_actions, self._here.state)).tolist()
    if action not in legal:
      raise ValueError(f"action={short(action)} is not legal here; legal: {legal}")
    if self._mover == self.player:
      self._left, self._since = self._found().left, []
    self._here = follow_action(rules, self._here, np.asarray(action))
    self._since.append(action)
    self._search = None

  @property
  def _mover(self) -> int:
    return int(one(self.searcher.rules.actor, self._here.state))

  def _found(self) -> Found:
    check_turn(self.player, self._mover)
    return super()._found()


class AverageSearcher:
  """The average policy of Deep CFR's network, of which agents share one: nothing is searched."""

  @checked
  def __init__(self, policy: Policy, *, num_games: int = 1, seed: int = 0):
    """Computes the policy of `rebel_jax.load`'s network; other arguments are ignored."""
    network = AverageEvaluator(checked_numbers(policy).config)
    self.game = network.game
    if network.tree is None:
      raise ConfigError(f"game={self.game!r} is too large for a tree, which this agent plays on")
    self.tree = network.tree
    self.policy = np.asarray(network.policy(policy.params))

  @checked
  def agent(self, *, seed: int = 0) -> PolicyPlayer:
    """Returns an agent that plays so."""
    return PolicyPlayer(self.tree, self.policy, seed=seed, game=self.game)


__all__ = [
  "Agent",
  "Searcher",
  "StreetSearcher",
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
  if isinstance(policy.config.search, DeepCFR):
    return AverageSearcher
  return StreetSearcher if made_on_device(policy.config, policy.config.make_game()) else Searcher


@checked
def make_searcher(policy: Policy, **settings: Any) -> Any:
  """Returns the searcher that agents of a network share; `settings` are those of its kind."""
  return searcher_of(policy)(policy, **settings)


@checked
def make_agent(policy: Policy, *, seed: int = 0, **settings: Any) -> Seat:
  """Returns an agent that plays with a trained network; `settings` as for `make_searcher`."""
  return make_searcher(policy, seed=seed, **settings).agent(seed=seed)
