"""An agent whose searches make their trees, each from what its own last one left (section B.1).

As `ResolvingAgent`, for rules on the device: no tree of the whole game numbers its states, so the
agent keeps the public state, which infostates are possible there, and the public actions so far.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import Game
from games.on_device.one_play import OnePlay
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.growing.own_chain import OwnChain, OwnSearch
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import ConfigError
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_search, make_state_network
from solvers import GTCFR, validation
from solvers.growing.continual.inserted_start import (
  LeftInserted,
  PublicState,
  decision_key,
  longest_wait,
  next_inserted_start,
)
from solvers.growing.continual.search_inserted import (
  FoundInserted,
  HowInserted,
  InsertedSearch,
  most_room,
  search_each_inserted,
)
from solvers.xla.compiler_options import Work, jit_for_each


class ChainSearcher:
  """Searches decisions with a trained network, several at a time; agents share one.

  Attributes:
    game: one play of the rules.
    settings: of every search.
  """

  def __init__(
    self,
    policy: Policy,
    *,
    simulations: int | None = None,
    per_update: float | None = None,
    num_games: int = 1,
  ):
    """Prepares the searches; the first one compiles.

    Args:
      policy: from `rebel_jax.load`, of a run whose searches make their trees.
      simulations: of each search; None for the run's `eval_simulations`.
      per_update: simulations for each update of both players; None for `eval_per_update`.
      num_games: how many decisions one compiled call has room for.

    Raises:
      ConfigError: the run's trees are made beforehand, its game has one infostate a player, or
        settings do not go together.
      ValueError: a number is not allowed.
    """
    self._room = validation.check_integer("num_games", num_games)
    given = {"eval_simulations": simulations, "eval_per_update": per_update}
    config = policy.config.replace(**{k: v for k, v in given.items() if v is not None})
    rules = config.make_rules()
    if isinstance(rules, Game):
      raise ConfigError(
        f"the searches of preset={config.preset!r} do not make their trees; take make_searcher"
      )
    if rules.num_infostates == 1:
      raise ConfigError(
        f"game={config.game!r} has one infostate a player; agents at a table play games of several"
      )
    self.settings: GTCFR = make_search(config, evaluation=True)
    self.game = OnePlay(rules)
    self._params = policy.params
    network = NetworkStates(make_state_network(config, rules))
    room = most_room(rules, self.settings)
    self._how = HowInserted(rules, self.settings.of_any_length(), room, network)
    self._nothing = LeftInserted.nothing(rules, room, jnp.result_type(float))
    # The older emitters compile a search in two thirds of the time.
    self._search_next = _search_next[Work.TREES if jax.default_backend() == "cpu" else Work.PLAIN]

  def agent(self, *, seed: int = 0) -> "ChainAgent":
    """Returns an agent that searches so."""
    return ChainAgent(self, seed=seed)

  def search_for(self, agents: Sequence["ChainAgent"]) -> None:
    """Lets agents that must search do so, side by side."""
    for first in range(0, len(agents), self._room):
      some = agents[first : first + self._room]
      for agent, search in zip(some, self._search(some)):
        agent._search = search

  def _search(self, agents: Sequence["ChainAgent"]) -> list[OwnSearch]:
    size, rules = len(agents), self.game.rules
    filled = [*agents, *[agents[0]] * (self._room - size)]
    left = [self._nothing if x._left is None else x._left for x in filled]
    parts = [self.game.parts(x._state) for x in filled]
    here = PublicState(*(jnp.asarray(np.stack(x)) for x in zip(*parts)))
    since = [_row(x._history[x._known :], longest_wait(rules)) for x in filled]
    history = [_row(x._history, rules.max_moves) for x in filled]
    found = self._search_next(
      self._how,
      jax.tree.map(lambda *x: np.stack(x), *left),
      here,
      np.stack(since),
      np.array([x.player for x in filled], np.int32),
      jnp.stack([x._key for x in filled]),
      np.stack(history),
      np.arange(self._room) < size,
      self.settings.rounds,
      self._params,
    )
    policy, after = jax.tree.map(np.asarray, (found.policy, found.left))
    return [
      OwnSearch(
        policy[i].copy(),
        after.values[i][:, after.current[i]].copy(),
        jax.tree.map(lambda x, i=i: x[i].copy(), after),
      )
      for i in range(size)
    ]


def _row(actions: Sequence[int], length: int) -> np.ndarray:
  row = np.full(length, -1, np.int32)
  row[: len(actions)] = actions
  return row


def _search_from(
  how: HowInserted, left: Any, here: Any, since: Any, player: Any, keys: Any, history: Any,
  active: Any, rounds: Any, params: Any,
) -> FoundInserted:  # fmt: skip
  start = jax.vmap(lambda *x: next_inserted_start(how.game, *x))(left, since, player)
  about = InsertedSearch(start, here)
  keys = jax.vmap(decision_key)(keys, history)
  return search_each_inserted(about, keys, active, how=how, rounds=rounds, params=params)


_search_next = jit_for_each(_search_from, static_argnames="how")


class ChainAgent(OwnChain):
  """An `OwnChain` by rules on the device; `policy` is as `moves_of` numbers moves.

  `python -m rebel_jax.evaluate` scores it where all public histories can be written out.
  """

  searcher: ChainSearcher

  def _begin(self) -> None:
    self._state, self._history = self.searcher.game.initial_state(), list[int]()
    # What the last search left, and how many public actions there were before it.
    self._left: LeftInserted | None = None
    self._known = 0

  @property
  def _mover(self) -> int:
    return int(self.searcher.game.actor(self._state[None])[0])

  def _choices(self, policy: np.ndarray) -> dict[Move, float]:
    found = dict[Move, float]()
    moves = self.searcher.game.numbered_moves(self._state, self.player, self.infostate)
    for number, action, held in moves:
      move = Move(action, held)
      found[move] = found.get(move, 0.0) + float(policy[number, self.infostate])
    return found

  def _check(self, action: int) -> None:
    legal = np.flatnonzero(self.searcher.game.legal_actions(self._state[None])[0]).tolist()
    if action not in legal:
      raise ValueError(f"action={action!r} is not legal here; legal: {legal}")

  def _keep(self, search: OwnSearch) -> None:
    self._left, self._known = search.left, len(self._history)

  def _follow(self, action: int) -> None:
    self._state = self.searcher.game.next_states(self._state[None], np.array([action]))[0]
    self._history.append(int(action))
