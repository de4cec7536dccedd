"""One game as it is played: private deals, public moves and chance, who won, and its players."""

import abc
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from games import CHANCE, TERMINAL, Array, Game, PublicTree
from games.arrays import Count, Player, checked
from games.poker import CALL, FIRST_BET, FOLD, Holdem
from games.public_tree import check_is_tree
from games.tabulate import origin_of
from solvers import Resolve, answer_bet, validation
from solvers.resolving import Placer, Widened


class Move(NamedTuple):
  """A public action, and the infostate of the player after it: another where moves are hidden."""

  action: int
  infostate: int


class Dealer:
  """One game in progress on the host, with both players' infostates."""

  @checked
  def __init__(self, game: Game):
    self.game = game
    self.history: list[int] = []
    self.state = game.initial_state()
    self.infostates = [0, 0]

  def deal(self, rng: np.random.Generator) -> None:
    """Starts a new game; infostates are drawn from the prior, and chance moves if it is first."""
    self.state, self.history = self.game.initial_state(), []
    self.infostates = self.game.deal(rng)

  def widen(self, chips: int) -> Move:
    """Adds a bet to `chips` at this state of hold'em, and returns it as the actor's move."""
    if not isinstance(self.game, Holdem):
      raise ValueError(f"bet={chips} is not a move of {self.game!r}")
    wider, action = self.game.with_bet(self.history, chips), self.game.burn
    # Chance's actions come after the bets, so each moves up by one.
    self.history = [x + (x >= action) for x in self.history]
    self.game = wider
    return Move(action, self.infostates[self.actor])

  @property
  def actor(self) -> int:
    """Who moves: 0, 1, `games.CHANCE` or `games.TERMINAL`."""
    return int(self.game.actor(self.state[None])[0])

  def legal_moves(self) -> list[Move]:
    """Returns the moves of the player whose turn it is; none where it is no player's."""
    player = self.actor
    found = self.game.moves(self.state, player, self.infostates[player]) if player < CHANCE else []
    return [Move(*x) for x in found]

  def legal_actions(self) -> list[int]:
    """Returns the public actions that exist here."""
    return np.flatnonzero(self.game.legal_actions(self.state[None])[0]).tolist()

  def sample_chance(self, rng: np.random.Generator) -> int:
    """Returns a public outcome of chance, given what the players hold."""
    return self.game.sample_chance(self.state, self.infostates, rng)

  @checked
  def apply(self, move: Move, rng: np.random.Generator) -> None:
    """Makes a move of the player whose turn it is, or of chance, whose infostate is ignored."""
    mover, edge = self.actor, (self.state[None], np.array([move.action]))
    dealt = self.legal_actions() if mover == CHANCE else []
    legal = [move._replace(action=x) for x in dealt] or self.legal_moves()
    if move not in legal:
      raise ValueError(
        f"action={validation.short(move.action)} is not legal; legal here: "
        f"{validation.short(sorted({m.action for m in legal}))}"
      )
    if mover == CHANCE and not self.game.chance(*edge)[1][0, (0, 1), self.infostates].all():
      raise ValueError(f"action={move.action} is not possible where players hold {self.infostates}")
    origin = self.game.infostate_parents(*edge)
    for player in (0, 1):
      if player == mover:
        self.infostates[player] = move.infostate
      elif origin is not None:
        after = np.flatnonzero(origin[0, player] == self.infostates[player])
        self.infostates[player] = int(rng.choice(after))
    self.state = self.game.next_states(self.state[None], np.array([move.action]))[0]
    self.history.append(int(move.action))

  def payoff(self) -> float:
    """Returns the payoff of player 0 in a finished game; player 1 loses as much."""
    if self.actor != TERMINAL:
      raise ValueError(f"history={self.history} has no payoff: the game goes on")
    return self.game.payoff(self.state, self.infostates)

  def is_over(self) -> bool:
    """Returns whether the game has ended."""
    return self.actor == TERMINAL


@checked
def same_rules(one: Game, other: Game) -> bool:
  """Returns whether two games have the same mark, without a walk over their states."""
  return bool((origin_of(one) == origin_of(other)).all())


def check_turn(player: int, mover: int) -> None:
  """Checks that `player` is the one who moves."""
  if mover != player:
    name = {CHANCE: "chance", TERMINAL: "nobody"}.get(mover, f"player {mover}")
    raise ValueError(f"player={player} is not to move here, {name} is")


def choices_at(
  tree: PublicTree, policy: np.ndarray, node: int, player: int, infostate: int
) -> dict[Move, float]:
  """Returns the moves of `player`, who holds `infostate` at `node`, and their probabilities."""
  check_turn(player, int(tree.kind[node]))
  found = dict[Move, float]()
  for child in np.flatnonzero(np.asarray(tree.parent) == node).tolist():
    after = [infostate]
    if tree.infostate_parent is not None:
      comes_from_here = np.asarray(tree.infostate_parent[child, player] == infostate)
      if tree.possible is not None:
        comes_from_here &= np.asarray(tree.possible[child, player])
      after = np.flatnonzero(comes_from_here).tolist()
    found |= {Move(int(tree.action[child]), held): float(policy[child, held]) for held in after}
  return found


@checked
def child_after(tree: PublicTree, node: int, action: int) -> int:
  """Returns the child of `node` that a public action leads to."""
  check_is_tree(tree, one=True)
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  actions = np.asarray(tree.action)[children].tolist()
  if action not in actions:
    raise ValueError(
      f"action={validation.short(action)} is not legal here; legal: {sorted(actions)}"
    )
  return int(children[actions.index(action)])


class Seat(abc.ABC):
  """A player of one game at a time, who draws moves by their probabilities."""

  dealer: Any  # of the match or the table
  game: Any = None  # the rules that the player knows; None for the table's
  pending: Any = False  # whether the player must search before it can act or observe
  _prior: Any = None  # `[P, H]` which infostates can be dealt; None if the player does not know

  def __init__(self, seed: int = 0):
    self.player = self.infostate = 0
    self._rng = np.random.default_rng(seed)

  @checked
  def start(self, player: Player, infostate: Count) -> None:
    """Begins a game in seat `player`, holding `infostate`."""
    known = self._prior
    if known is not None and (infostate >= known.shape[1] or known[player, infostate] == 0):
      raise ValueError(f"infostate={infostate!r} must be one that player {player} can be dealt")
    self.player, self.infostate = player, infostate
    self._begin()

  @checked
  def observe(self, action: int, infostate: int | None = None) -> None:
    """Takes note of a public action; `infostate` is the player's afterwards if that has changed."""
    self._follow(int(action))
    if infostate is not None:
      self.infostate = int(infostate)

  @abc.abstractmethod
  def _begin(self) -> None:
    """Forgets the game before."""

  @abc.abstractmethod
  def _follow(self, action: int) -> None:
    """Takes note of a public action."""

  @abc.abstractmethod
  def choices(self) -> dict[Move, float]:
    """Returns the moves of the player, whose turn it is, and their probabilities."""

  def act(self) -> Move:
    """Returns a move, sampled; the player must `observe` it, as any other."""
    choices = self.choices()
    weights = np.array(list(choices.values()))
    return list(choices)[self._rng.choice(len(weights), p=weights / weights.sum())]


class PolicyPlayer(Seat):
  """Plays a policy of the whole game, such as a solver's average.

  Args:
    tree: the whole public tree.
    policy: `[N, H]` on it.
    seed: of the player's moves.
    game: the rules that the player knows, None for those of the match.
  """

  @checked
  def __init__(self, tree: PublicTree, policy: Array, *, seed: int = 0, game: Game | None = None):
    super().__init__(seed)
    self.tree, self.policy, self.game = tree, policy, game
    self._rows, self._node = np.asarray(policy), 0
    self._prior = np.asarray(tree.prior)

  def _begin(self) -> None:
    self._node = 0

  def _follow(self, action: int) -> None:
    self._node = child_after(self.tree, self._node, action)

  def choices(self) -> dict[Move, float]:
    return choices_at(self.tree, self._rows, self._node, self.player, self.infostate)


class SearchingSeat(Seat):
  """A player that searches its decisions; those who share a searcher search together."""

  def __init__(self, searcher: Any, *, seed: int = 0):
    super().__init__(seed)
    self.searcher, self.game = searcher, searcher.game
    self._prior = np.asarray(searcher.game.prior())
    self._search: Any = None
    self._begin()

  def _found(self) -> Any:
    """Returns the agent's search, made at its first use."""
    if self._search is None:
      self.searcher.search_for([self])
    return self._search


def prepare(agents: Iterable[Any]) -> None:
  """Searches for all agents that must, those of one searcher in few calls."""
  waiting: dict[Any, list[SearchingSeat]] = {}
  for agent in agents:
    if agent.pending:
      waiting.setdefault(agent.searcher, []).append(agent)
  for searcher, some in waiting.items():
    searcher.search_for(some)


Bets = tuple[tuple[tuple[int, ...], int], ...]  # histories, and chips that were bet after them


class NestedAgent(Seat):
  """Player of a blueprint of hold'em with few bets against one who may bet anything.

  A bet off the tree is added to it, and what follows is solved so that the other gets no more than
  its best response to the blueprint gets at that decision (thesis, section 5.1.7).
  """

  @checked
  def __init__(
    self, game: Holdem, tree: PublicTree, policy: Array, *, num_iterations: int = 512, seed: int = 0
  ):
    """Prepares an agent that plays a blueprint.

    Args:
      game, tree, policy: the blueprint's; `[N, H]` on the whole tree.
      num_iterations: as for `solvers.answer_bet`.
      seed: of the agent's moves.
    """
    super().__init__(seed)
    self._blueprint = Widened(game, tree, np.asarray(policy, float))
    self._num_iterations = num_iterations
    # For all bets that were added, and the agent's seat.
    self._answers: dict[tuple[Bets, int], Widened] = {}
    self._begin()

  def _begin(self) -> None:
    self._added: Bets = ()
    self._use(self._blueprint, 0)

  def _use(self, found: Widened, node: int) -> None:
    self.game, self._tree, self._policy = found
    self._node = node

  def _bets(self) -> dict[int, int]:
    """Returns the chips that each bet of the agent's tree here is to, by action."""
    return self.game.bets_at(np.asarray(self._tree.state)[self._node])

  def choices(self) -> dict[Move, float]:
    """See `Seat`; moves are numbered as in the match."""
    match = {to: action for action, to in self.dealer.game.bets_at(self.dealer.state).items()}
    numbers = {FOLD: FOLD, CALL: CALL} | {x: match[to] for x, to in self._bets().items()}
    own = choices_at(self._tree, self._policy, self._node, self.player, self.infostate)
    return {move._replace(action=numbers[move.action]): p for move, p in own.items()}

  def _follow(self, action: int) -> None:
    """Takes note of a public action, numbered as in the match; solves the answer to a new bet."""
    played: Holdem = self.dealer.game
    if FIRST_BET <= action < played.burn:
      chips = played.bets_at(played.state_after(self.dealer.history[:-1]))[action]
      if chips not in self._bets().values():
        self._widen(chips)
      own = next(number for number, to in self._bets().items() if to == chips)
    else:
      own = action if action < FIRST_BET else action - played.burn + self.game.burn
    self._node = child_after(self._tree, self._node, own)

  def _widen(self, chips: int) -> None:
    history = self._tree.history(self._node)
    self._added = (*self._added, (history, chips))
    key = self._added, self.player
    if key not in self._answers:
      # The other is promised its best-response value (thesis, section 5.1.7).
      self._answers[key] = answer_bet(
        self.game, self._tree, self._policy, history, chips,
        gadget=Resolve(self.player), num_iterations=self._num_iterations,
      )  # fmt: skip
    found = self._answers[key]
    self._use(found, int(Placer(found.tree, by_state=True).places(self._tree)[self._node]))
