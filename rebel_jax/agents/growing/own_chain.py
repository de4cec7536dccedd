"""What agents share whose searches each start from what their own last one left (section B.1)."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from rebel_jax.agents.dealer import Move
from rebel_jax.agents.moves import check_seat, check_turn, draw_move
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_search, make_state_network
from solvers import GTCFR, validation


@dataclasses.dataclass(frozen=True)
class OwnSearch:
  """What the search for one decision found.

  Attributes:
    policy: `[moves, H]` the average policy; the searcher says in which order.
    values: `[P, H]` expected payoffs there.
    left: for the same player's next search.
  """

  policy: np.ndarray
  values: np.ndarray
  left: Any


class OwnSearcher(abc.ABC):
  """Searches decisions with a trained network, several at a time; agents share one.

  Attributes:
    game: what the agents play; a subclass says of which kind.
    settings: of every search.
  """

  game: Any

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
      policy: from `rebel_jax.load`, of a run whose searches grow or make their trees.
      simulations: of each search; None for half of the run's `eval_iterations`.
      per_update: simulations for each update of both players; None for one.
      num_games: how many decisions one compiled call has room for.

    Raises:
      ConfigError: the run is for another kind of searcher, or settings do not go together.
      ValueError: a number is not allowed.
    """
    self._room = validation.check_integer("num_games", num_games)
    config = policy.config
    self._rules = self._make_rules(config)
    self.settings: GTCFR = make_search(
      config, evaluation=True, simulations=simulations, per_update=per_update
    )
    self._params = policy.params
    self._network = NetworkStates(make_state_network(config, self._rules))

  @abc.abstractmethod
  def _make_rules(self, config: Config) -> Any:
    """Returns the rules; ConfigError if they are for another kind of searcher."""

  @abc.abstractmethod
  def agent(self, *, seed: int = 0) -> "OwnChain":
    """Returns an agent that searches so."""

  @abc.abstractmethod
  def _search(self, agents: Sequence[Any]) -> list[OwnSearch]:
    """Searches for at most as many agents as there is room for."""

  def search_for(self, agents: Sequence["OwnChain"]) -> None:
    """Lets agents that must search do so, side by side."""
    for first in range(0, len(agents), self._room):
      some = agents[first : first + self._room]
      for agent, search in zip(some, self._search(some)):
        agent._search = search


class OwnChain(abc.ABC):
  """Plays one game at a time from one seat.

  It is used as `Agent` is: `start`, `observe` every public action, `act`. Its seed decides all its
  searches, so that one agent has one policy, which is what `python -m rebel_jax.evaluate` scores.

  Attributes:
    searcher: what searches its decisions; agents may share it.
    player: the seat, 0 or 1.
    infostate: what the agent holds.
  """

  def __init__(self, searcher: OwnSearcher, *, seed: int = 0):
    self.searcher = searcher
    self.player = self.infostate = 0
    self._rng, self._key = np.random.default_rng(seed), jax.random.key(seed)
    self._prior = np.asarray(searcher.game.prior())
    self._search: OwnSearch | None = None
    self._begin()

  @abc.abstractmethod
  def _begin(self) -> None:
    """Goes to where a game begins, and forgets what searches left."""

  @property
  @abc.abstractmethod
  def _mover(self) -> int:
    """Who moves here, as kinds of nodes are numbered."""

  @abc.abstractmethod
  def _check(self, action: int) -> None:
    """Checks that a public action is legal here; ValueError if not."""

  @abc.abstractmethod
  def _follow(self, action: int) -> None:
    """Goes to where a legal public action leads."""

  @abc.abstractmethod
  def _keep(self, search: OwnSearch) -> None:
    """Keeps what the search for this decision leaves."""

  @abc.abstractmethod
  def _choices(self, policy: np.ndarray) -> dict[Move, float]:
    """Returns the moves here and their probabilities by the policy of a search, `[moves, H]`."""

  def start(self, player: int, infostate: int) -> None:
    """Begins a new game in seat `player`, holding `infostate`.

    Raises:
      ValueError: there is no such seat or infostate.
    """
    check_seat(self._prior, player, infostate)
    self.player, self.infostate, self._search = player, infostate, None
    self._begin()

  def choices(self) -> dict[Move, float]:
    """Returns the agent's moves here and their probabilities.

    Raises:
      ValueError: it is not the agent's turn.
    """
    return self._choices(self._found().policy)

  @property
  def pending(self) -> bool:
    """Whether the agent must search before it can act or observe."""
    return self._mover == self.player and self._search is None

  @property
  def value(self) -> float:
    """What the agent expects to win, by its search for this decision.

    Raises:
      ValueError: it is not the agent's turn.
    """
    return float(self._found().values[self.player, self.infostate])

  def act(self) -> Move:
    """Returns the agent's move, sampled; tell it to `observe`, as any other.

    Raises:
      ValueError: it is not the agent's turn.
    """
    return draw_move(self.choices(), self._rng)

  def observe(self, action: int, infostate: int | None = None) -> None:
    """Takes note of a public action, of whoever's move it was.

    Args:
      action: the public action.
      infostate: what the agent holds afterwards; None where that has not changed.

    Raises:
      ValueError: the action is not legal.
    """
    self._check(action)
    if self._mover == self.player:
      self._keep(self._found())
    self._follow(action)
    self._search = None
    if infostate is not None:
      self.infostate = int(infostate)

  def _found(self) -> OwnSearch:
    check_turn(self.player, self._mover)
    if self._search is None:
      self.searcher.search_for([self])
    assert self._search is not None
    return self._search
