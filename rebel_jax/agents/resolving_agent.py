"""An agent that searches each of its decisions anew, in a tree that grows (Player of Games, B.1).

Each search starts from what the agent's own last one of the game left: at the deepest state on the
way that its tree held, with the values that it found there for the opponent as promises. It plays
the average policy of the search. What the opponent holds it need not believe, and the opponent's
searches it never makes.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rebel_jax.agents.dealer import Move
from rebel_jax.agents.moves import check_seat, check_turn, child_after, draw_move, moves_at
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import ConfigError
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_growing_grounds, make_search, make_state_network
from solvers import GTCFR, validation
from solvers.growing.continual.next_start import Left
from solvers.growing.continual.search_each import How, search_next
from solvers.growing.simulate import child_slots


@dataclasses.dataclass(frozen=True)
class ResolvingSearch:
  """What the search for one decision found.

  Attributes:
    policy: `[A, H]` the average policy of its moves, in the order of its children.
    values: `[P, H]` expected payoffs there.
    left: for the same player's next search.
  """

  policy: np.ndarray
  values: np.ndarray
  left: Left


class ResolvingSearcher:
  """Searches decisions with a trained network, several at a time; agents share one.

  Attributes:
    game, tree: the rules, and their whole public tree.
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
      policy: from `rebel_jax.load`, of a run whose searches grow trees.
      simulations: of each search; None for the run's `eval_simulations`.
      per_update: simulations for each update of both players; None for `eval_per_update`.
      num_games: how many decisions one compiled call has room for.

    Raises:
      ConfigError: the network's searches do not grow trees, settings do not go together, or the
        game's tree is too large to be written out.
      ValueError: a number is not allowed.
    """
    if not policy.config.grows:
      raise ConfigError(
        f"the searches of preset={policy.config.preset!r} do not grow trees; take Searcher"
      )
    self._room = validation.check_integer("num_games", num_games)
    given = {"eval_simulations": simulations, "eval_per_update": per_update}
    config = policy.config.replace(**{k: v for k, v in given.items() if v is not None})
    self.settings: GTCFR = make_search(config, evaluation=True)
    self.game = config.make_game()
    whole = make_growing_grounds(self.game)
    if num_games == 1:  # small trees for small parts compile anew, and spare one game little
      whole = whole._replace(parts=None)
    self.tree = whole.tree
    self.slots = child_slots(self.tree.structure)  # [N, A] children, filled up with -1
    self._params = policy.params
    self._grounds = jax.tree.map(jnp.asarray, whole)
    network = NetworkStates(make_state_network(config, self.game))
    self._how = How(self.settings.of_any_length(), network=network)

  def agent(self, *, seed: int = 0) -> "ResolvingAgent":
    """Returns an agent that searches so."""
    return ResolvingAgent(self, seed=seed)

  def search(
    self, nodes: Sequence[int], left: Sequence[Left], keys: Sequence[jax.Array]
  ) -> list[ResolvingSearch]:
    """Searches decisions, each from what the last search of the same player and game left.

    Args:
      nodes: `M` decisions, numbered as in the whole tree.
      left: `M` times what was left; `Left.nothing` for the first search of a game.
      keys: `M` random keys.
    """
    found: list[ResolvingSearch] = []
    for first in range(0, len(nodes), self._room):
      part = slice(first, first + self._room)
      found += self._search(list(nodes[part]), list(left[part]), list(keys[part]))
    return found

  def _search(
    self, nodes: list[int], left: list[Left], keys: list[jax.Array]
  ) -> list[ResolvingSearch]:
    size, room = len(nodes), self._room
    index = [*range(size), *[0] * (room - size)]
    rows = np.array(nodes)[index]
    found = search_next(
      self._grounds,
      jax.tree.map(lambda *x: np.stack(x), *[left[i] for i in index]),
      rows,
      np.asarray(self.tree.kind)[rows].astype(np.int32),
      jnp.stack([keys[i] for i in index]),
      np.arange(room) < size,
      how=self._how,
      rounds=self.settings.rounds,
      params=self._params,
      prior=None,
    )
    policy, after = jax.tree.map(np.asarray, (found.policy, found.left))
    return [
      ResolvingSearch(
        policy[i].copy(),
        after.values[i][:, node].copy(),
        jax.tree.map(lambda x, i=i: x[i].copy(), after),
      )
      for i, node in enumerate(nodes)
    ]

  def search_for(self, agents: Sequence["ResolvingAgent"]) -> None:
    """Lets agents that must search do so, side by side."""
    found = self.search(
      [agent._node for agent in agents],
      [agent._left for agent in agents],
      [jax.random.fold_in(agent._key, agent._node) for agent in agents],
    )
    for agent, search in zip(agents, found):
      agent._search = search


class ResolvingAgent:
  """Plays one game at a time from one seat.

  It is used as `Agent` is: `start`, `observe` every public action, `act`. Its seed decides all its
  searches, so that one agent has one policy, which is what `python -m rebel_jax.evaluate` scores.

  Attributes:
    player: the seat, 0 or 1.
    infostate: what the agent holds.
  """

  def __init__(self, searcher: ResolvingSearcher, *, seed: int = 0):
    self.searcher = searcher
    self.player = self.infostate = 0
    self._rng, self._key = np.random.default_rng(seed), jax.random.key(seed)
    self._prior = np.asarray(searcher.game.prior())
    self._nothing = Left.nothing(searcher.tree)
    self._left, self._node = self._nothing, 0
    self._search: ResolvingSearch | None = None

  def start(self, player: int, infostate: int) -> None:
    """Begins a new game in seat `player`, holding `infostate`.

    Raises:
      ValueError: there is no such seat or infostate.
    """
    check_seat(self._prior, player, infostate)
    self.player, self.infostate = player, infostate
    self._left, self._node, self._search = self._nothing, 0, None

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

  def choices(self) -> dict[Move, float]:
    """Returns the agent's moves here and their probabilities.

    Raises:
      ValueError: it is not the agent's turn.
    """
    policy = dict(zip(self.searcher.slots[self._node].tolist(), self._found().policy))
    moves = moves_at(self.searcher.tree, self._node, self.player, self.infostate)
    return {move: float(policy[child][move.infostate]) for move, child in moves}

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
    child = child_after(self.searcher.tree, self._node, action)
    if self._mover == self.player:
      self._left = self._found().left
    self._node, self._search = child, None
    if infostate is not None:
      self.infostate = int(infostate)

  @property
  def _mover(self) -> int:
    return int(self.searcher.tree.kind[self._node])

  def _found(self) -> ResolvingSearch:
    check_turn(self.player, self._mover)
    if self._search is None:
      self.searcher.search_for([self])
    assert self._search is not None
    return self._search
