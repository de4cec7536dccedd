"""An agent whose searches make their trees, each from what its own last one left (section B.1).

As `ResolvingAgent`, for rules on the device: no tree of the whole game numbers its states, so the
agent keeps the public state, which infostates are possible there, and the public actions so far.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rebel_jax.agents.dealer import Move
from rebel_jax.agents.growing.by_rules import RulesAgent, RulesSearcher
from rebel_jax.agents.growing.own_chain import OwnSearch
from rebel_jax.checkpoints.checkpoint import Policy
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
from solvers.xla.compiler_options import Programs, work_on_trees


class ChainSearcher(RulesSearcher):
  """A `RulesSearcher` whose searches start from what the same agent's last one left."""

  sees_all = False

  def __init__(self, policy: Policy, **settings: Any):
    """Prepares the searches; `settings` as for `OwnSearcher`."""
    super().__init__(policy, **settings)
    rules = self.game.rules
    room = most_room(rules, self.settings)
    self._how = HowInserted(rules, self.settings.of_any_length(), room, self._network)
    self._nothing = LeftInserted.nothing(rules, room, jnp.result_type(float))
    self._search_next = _search_next[work_on_trees()]

  def agent(self, *, seed: int = 0) -> "ChainAgent":
    """See `OwnSearcher`."""
    return ChainAgent(self, seed=seed)

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


_search_next = Programs(_search_from, static_argnames="how")


class ChainAgent(RulesAgent):
  """A `RulesAgent` of games with private information.

  `python -m rebel_jax.evaluate` scores it where all public histories can be written out.
  """

  searcher: ChainSearcher

  def _begin(self) -> None:
    super()._begin()
    self._history = list[int]()
    # What the last search left, and how many public actions there were before it.
    self._left: LeftInserted | None = None
    self._known = 0

  def _choices(self, policy: np.ndarray) -> dict[Move, float]:
    found = dict[Move, float]()
    moves = self.searcher.game.numbered_moves(self._state, self.player, self.infostate)
    for number, action, held in moves:
      move = Move(action, held)
      found[move] = found.get(move, 0.0) + float(policy[number, self.infostate])
    return found

  def _keep(self, search: OwnSearch) -> None:
    self._left, self._known = search.left, len(self._history)

  def _follow(self, action: int) -> None:
    super()._follow(action)
    self._history.append(int(action))
