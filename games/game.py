"""The interface of a game: rules that become a public tree, over batches of public states.

A game is *factored*: all that happens is seen by both players (public actions, public chance) or
known through each player's infostate, an index below `num_infostates`.
"""

import abc
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from games.arrays import (
  Rows,
  check_integer,
  check_shape,
  checked,
  integers,
  short,
  unknown_name,
  xp,
)
from games.pairs import DensePairs, HoleCards, Pairs
from games.public_tree import CHANCE, PLAYER_0, PLAYER_1, TERMINAL, walk

__all__ = [
  "CHANCE", "PLAYER_0", "PLAYER_1", "TERMINAL", "Game", "make", "register",
  "registered_games",
]  # fmt: skip


T = TypeVar("T", bound=type)


class MoverMoves(NamedTuple):
  """The moves of each state's mover, by infostate: `[n, M, H]` each, -1 where there is none."""

  leads_to: Any  # the infostate that the mover holds afterwards
  action: Any  # the public action that the other player sees


# Axes of rules' arguments, kinds of their dtypes, and words; no kind for one number along an axis.
_ARGUMENTS = {
  "state": ("S", "iu", "integers"),
  "states": ("nS", "iu", "integers"),
  "actions": ("n", "iu", "integers"),
  "hands": ("nP", "iu", "integers"),
  "possible": ("nPH", "b", "booleans"),
  "reach": ("nH", "fiuV", "numbers"),
  "player": ("P", "", ""),
  "action": ("A", "", ""),
  "infostate": ("H", "", ""),
}
# Attributes of games; of players there are always two.
_SIZES = {"P": "", "S": "_num_columns", "H": "num_infostates", "A": "num_actions"}


def _check_given(game: Any, given: Mapping[str, Any]) -> None:
  """Checks that a rule's arguments, by name, have the game's shapes and are among its numbers."""
  sizes: dict[str, int] = {}
  for name, value in given.items():
    axes, kinds, words = _ARGUMENTS.get(name, ("", "", ""))
    sizes |= {x: getattr(game, _SIZES[x], 2) for x in axes if x in _SIZES}
    kind = getattr(getattr(value, "dtype", None), "kind", "?")
    if kinds:
      shape = value.shape if isinstance(value, (np.ndarray, jax.Array)) else ()
      if (
        len(shape) != len(axes)
        or kind not in kinds
        or any(sizes.setdefault(x, size) != size for x, size in zip(axes, shape))
      ):
        shown = ", ".join(f"{x} = {sizes[x]}" if x in sizes else x for x in axes)
        raise ValueError(f"{name}={short(value)} must be an array [{shown}] of {words}")
    elif axes and not isinstance(value, jax.core.Tracer):
      one = int(value) if kind in "iu" and value.ndim == 0 else value  # a number that was computed
      check_integer(name, one, least=0, most=sizes[axes] - 1)


def _in_sentences(rule: Callable[..., Any]) -> Callable[..., Any]:
  """Makes a rule refuse, in one sentence, arguments that play never comes to."""
  parameters = inspect.signature(rule).parameters
  names, optional = list(parameters)[1:], [x for x in parameters if parameters[x].default is None]

  @functools.wraps(rule)
  def call(self, *values, **options):
    given = dict(zip(names, values)) | options
    if given and hasattr(Game, rule.__name__):  # a subclass's other methods may take what they like
      _check_given(self, {k: x for k, x in given.items() if x is not None or k not in optional})
    try:
      return rule(self, *values, **options)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
      ours = any(f"{name}=" in str(error) for name in given)
      if ours or not given or any(isinstance(x, jax.core.Tracer) for x in given.values()):
        raise
      raise ValueError(
        ", ".join(f"{name}={short(x)}" for name, x in given.items())
        + f" must be what play of {self.name} comes to ({rule.__name__}: {short(str(error))})"
      ) from error

  return call


def _with_checks(cls: T) -> T:
  """Makes the rules that a class defines refuse arguments that play never comes to."""
  for name, rule in list(vars(cls).items()):
    if inspect.isfunction(rule) and not hasattr(rule, "__wrapped__") and name[0] != "_":
      setattr(cls, name, _in_sentences(rule))
  return cls


@_with_checks
class Game(abc.ABC):
  """A two-player zero-sum game with public actions, as functions of public states.

  A public state is a row of `S` integers of 32 bits. Player 0 is the one that the rules call the
  first. Payoffs are to the player, in the game's own units.

  Letters: `n` public states in a batch, `S` integers a state, `A` actions, `H` infostates of a
  player (the larger of the two; the rest is padding that has no prior), `M` moves of an infostate,
  `F` features, `C` tables of pair weights, `K` tables of payoffs.

  A subclass sets `name`, `num_infostates` and `num_actions` and implements the abstract methods.
  Those with a default are for public chance, hidden moves, and hands that exclude each other.

  Methods of `states` take numpy's arrays or JAX's and answer with the same numbers in arrays of the
  same kind, also under `jax.jit` and `jax.vmap`: functions come from `games.arrays.xp`, and tables
  are read by `games.arrays.lookup`. `games.tabulate` serves rules that only numpy can run. The
  other methods return numpy's arrays. `games.testing.check_game` tests all of it.
  """

  name: str
  text: str = ""  # the rules in a few lines, for human players
  num_infostates: int  # H
  num_actions: int  # A; players' actions and public chance outcomes share the numbering
  # Hidden moves of an infostate at most, where `hidden_moves` says which; 1 where all are seen.
  num_hidden: int = 1
  # Whether infostates hold all that their player saw and did. Where they do not, several may lead
  # to one, which no public tree can say.
  remembers: bool = True
  # Whether searches are of a tree that is written out beforehand; else they make it as they grow.
  written: bool = True
  # Whether the last H of the features are infostates in an order that suits the public state, such
  # as from the weakest to the strongest, in which networks see them: a place then means much the
  # same in all public states.
  orders_infostates: bool = False
  # Whether infostates change by chance or by the other's moves, which searches by rules refuse.
  renumbers: bool = False

  @functools.cached_property
  def num_player_actions(self) -> int:
    """Number above all players' actions, for a policy network; by default A."""
    return self.num_actions

  @property
  def num_moves(self) -> int:
    """M: hidden moves where there are some, else players' actions."""
    return self.num_hidden if self.num_hidden > 1 else self.num_player_actions

  @property
  def num_children(self) -> int:
    """The most public actions that are legal in one state."""
    return self.num_actions

  @property
  def num_held(self) -> tuple[int, int]:
    """Number above each player's infostates."""
    return self.num_infostates, self.num_infostates

  @functools.cached_property
  def _num_columns(self) -> int:
    """S: integers of a public state."""
    return len(self.initial_state())

  @property
  def has_chance(self) -> bool:
    """Whether chance may ever move."""
    return type(self).chance is not Game.chance

  @functools.cached_property
  def max_moves(self) -> int:
    """Public actions, chance outcomes included, in the longest game; by default by a walk of it."""
    return sum(1 for _ in walk(self, self.initial_state(), merge="level")) - 1

  @property
  def longest_wait(self) -> int:
    """How many public actions there are at most from one decision of a player to its next."""
    return self.max_moves

  @functools.cached_property
  def largest_payoff(self) -> float:
    """The largest payoff of a player; by default over all terminal states and infostates."""
    pairs, most = self.pairs(), 0.0
    for level in walk(self, self.initial_state(), merge="game"):
      ends = level.states[level.kind == TERMINAL]
      tables = pairs.most(np.asarray(self.payoff_index(ends), int))
      most = max(most, float(np.abs(self.payoff_scale(ends) * tables).max(initial=0.0)))
    return most

  def __init_subclass__(cls, **options: Any):
    super().__init_subclass__(**options)
    _with_checks(cls)

  # Public states.

  @abc.abstractmethod
  def initial_state(self) -> np.ndarray:
    """Returns the public state before the first public action, `[S]`, integer."""

  @abc.abstractmethod
  def actor(self, states: Rows) -> Rows:
    """Returns who moves in `states` `[n, S]`: `[n]` of 0, 1, `CHANCE` or `TERMINAL`."""

  @abc.abstractmethod
  def legal_actions(self, states: Rows) -> Rows:
    """Returns which public actions exist in `states`: `[n, A]`, bool.

    At a chance state these are the outcomes that are possible for some pair of infostates.
    Rows of terminal states are ignored.
    """

  @abc.abstractmethod
  def next_states(self, states: Rows, actions: Rows) -> Rows:
    """Returns the states after legal `actions` `[n]` in `states`: `[n, S]`, of their dtype."""

  # Private information.

  def prior(self) -> np.ndarray:
    """Returns the players' beliefs before the first public action, `[P, H]`, rows sum to one.

    The joint prior of a pair of infostates is the product of the two beliefs and the pair's
    weight, renormalised.
    """
    return np.full((2, self.num_infostates), 1.0 / self.num_infostates)

  def pair_weights(self) -> np.ndarray:
    """Returns tables of pair weights `[C, H, H]`, indexed (player 0's, player 1's infostate).

    A weight of zero says that the two infostates exclude each other, as hands that share a
    card do. More generally a weight is the probability, by nature alone and up to a constant,
    of that pair of infostates given that both could be there.
    """
    return np.ones((1, self.num_infostates, self.num_infostates))

  def pair_index(self, states: Rows) -> Rows:
    """Returns which table of `pair_weights` holds in each state: `[n]`, integer."""
    return states.__array_namespace__().zeros(len(states), int)

  def chance(self, states: Rows, actions: Rows) -> tuple[Rows, Rows]:
    """Returns probability `[n]` and mask `[n, P, H]` of public chance outcomes.

    The probability of the outcome is the first where both players' infostates pass the mask,
    and zero elsewhere. Rows of states whose actor is not `CHANCE` are ignored.
    """
    raise NotImplementedError(f"{self.name} has chance states but does not define chance()")

  def infostate_parents(self, states: Rows, actions: Rows) -> Rows | None:
    """Returns where infostates come from when moves are hidden, or None if they never change.

    Entry `[i, p, h]` of `[n, P, H]` is what player p held in `states[i]` if it holds h after
    `actions[i]`, -1 where h is impossible. Several that come from one differ by a hidden move.
    """
    return None

  def held_after(self, states: Rows, actions: Rows, hands: Rows) -> Rows:
    """Returns the infostates `[n, P]` that `hands` become, of players who did not move."""
    parents: Any = self.infostate_parents(states, actions)
    if parents is None:
      return hands
    return (parents == hands[..., None]).argmax(axis=-1).astype(hands.dtype)

  def possible_after(self, states: Rows, actions: Rows, possible: Rows) -> Rows:
    """Returns which infostates the rules allow after actions: `[n, P, H]` bool, as `possible`."""
    parents: Any = self.infostate_parents(states, actions)
    if parents is not None:
      source = xp.maximum(parents, 0)
      possible = xp.take_along_axis(possible, source, axis=2) & (parents >= 0)
    if self.has_chance:
      mask: Any = self.chance(states, actions)[1]
      dealt = mask.astype(bool) | (self.actor(states) != CHANCE)[:, None, None]
      possible = possible & dealt
    return possible

  def hidden_moves(self, states: Rows) -> MoverMoves:
    """Returns the mover's hidden moves, M for each infostate, of games with `num_hidden`."""
    # `games.tabulate` reads those of others off `infostate_parents`. Several infostates may lead to
    # one where the game does not remember; meaningless for chance.
    raise NotImplementedError(f"{self.name} has hidden moves but does not define hidden_moves()")

  def moves_of(self, states: Rows, possible: Rows | None = None) -> MoverMoves:
    """Returns the mover's moves, hidden or not, with infostates `possible` `[n, P, H]`; None: all.

    Where all moves are seen, move m is public action m and leaves the infostate as it was.

    Raises:
      ValueError: moves are hidden, and the game does not say which.
    """
    if self.num_hidden > 1:
      leads_to, action = self.hidden_moves(states)
    else:
      if self.infostate_parents(states, xp.zeros_like(states[:, 0])) is not None:
        raise ValueError(f"{self.name} does not number its hidden moves; take games.tabulate(game)")
      legal: Any = self.legal_actions(states)[:, : self.num_moves]
      leads_to = xp.where(legal[:, :, None], np.arange(self.num_infostates), -1)
      action = xp.broadcast_to(np.arange(self.num_moves)[:, None], leads_to.shape)
    there = leads_to >= 0
    if possible is not None:
      player = xp.clip(self.actor(states), 0, 1)[:, None, None]
      there = there & xp.take_along_axis(possible, player, axis=1)
    return MoverMoves(xp.where(there, leads_to, -1), xp.where(there, action, -1))

  def hands(self) -> np.ndarray | None:
    """Returns the two cards of each infostate, `[H, 2]`, if they are hands of cards, else None.

    They are all pairs of some cards, or a list of such pairs, in the order of
    `itertools.combinations`. Pairs of hands that share a card exclude each other and all others
    weigh the same, payoff table 0 is a fold's (one for every pair) and table 1 + k a showdown's of
    `strengths` k. Trees then keep the cards and the strengths, never a table `[H, H]`.
    """
    return None

  def strengths(self) -> np.ndarray:
    """Returns integer strengths of `hands` at each showdown, `[K, H]`, -1 where impossible.

    The higher of two wins, and equal ones split.
    """
    raise NotImplementedError(f"{self.name} has hands but does not define strengths()")

  def pairs(self) -> Pairs:
    """Returns which infostates go together, and what each pair wins: hole cards or tables."""
    hands = self.hands()
    if hands is None:
      return DensePairs(np.asarray(self.pair_weights(), float), np.asarray(self.payoffs(), float))
    return HoleCards(hands, self.strengths())

  def dealt_cards(self, states: Rows, actions: Rows) -> Rows:
    """Returns the cards that `actions` deal face up, which block `hands`: `[n, k]`, -1 for none."""
    return states.__array_namespace__().full((len(states), 1), -1)

  def stages(self, states: Rows) -> Rows:
    """Returns which part of the game each state belongs to: `[n]`, integer.

    A tree of `depth="stage"` ends where the stage changes, as a subgame of poker ends with the
    round of betting.
    """
    return states.__array_namespace__().zeros(len(states), int)

  # Payoffs.

  def payoffs(self) -> np.ndarray:
    """Returns payoff tables to player 0, `[K, H, H]`, indexed (player 0's, player 1's).

    By default there is one, of ones, and `payoff_scale` alone says what is won.

    Raises:
      NotImplementedError: if the game does not define that one, or tells several tables apart.
    """
    own = type(self)
    if own.payoff_scale is Game.payoff_scale or own.payoff_index is not Game.payoff_index:
      raise NotImplementedError(f"{own.__name__} must define payoffs, or payoff_scale alone")
    return np.ones((1, self.num_infostates, self.num_infostates))

  def payoff_index(self, states: Rows) -> Rows:
    """Returns which payoff table holds in each terminal state: `[n]`, integer.

    By default 0, of the one table that `payoffs` returns by default.

    Raises:
      NotImplementedError: if the game defines `payoffs`.
    """
    if type(self).payoffs is not Game.payoffs:
      raise NotImplementedError(f"{type(self).__name__} defines payoffs and no payoff_index")
    return states.__array_namespace__().zeros(len(states), int)

  def payoff_scale(self, states: Rows) -> Rows:
    """Returns the factor of the payoff table in each terminal state: `[n]`, float; by default 1."""
    return states.__array_namespace__().ones(len(states))

  def compatible_mass(self, states: Rows, reach: Rows, player: int) -> Rows:
    """Returns the mass of the opponent's `reach` that `player`'s infostates may meet: `[n, H]`."""
    return self.pairs().mass(self.pair_index(states), reach, player)

  def terminal_values(self, states: Rows, reach: Rows, player: int) -> Rows:
    """Returns `player`'s counterfactual values at terminal states, linear in `reach`: `[n, H]`.

    `reach` `[n, H]` is the opponent's, beliefs and chance included.
    """
    scaled: Any = reach * self.payoff_scale(states).astype(reach.dtype)[:, None]
    return self.pairs().values(self.payoff_index(states), self.pair_index(states), scaled, player)

  # One play of the game.

  def deal(self, rng: np.random.Generator) -> list[int]:
    """Returns both players' infostates at the root, drawn from the prior."""
    table = int(self.pair_index(self.initial_state()[None])[0])
    return list(self.pairs().deal(np.asarray(self.prior(), float), table, rng))

  def moves(self, state: np.ndarray, player: int, infostate: int) -> list[tuple[int, int]]:
    """Returns `player`'s moves in `state` `[S]`: the public action, and the infostate held then."""
    found = []
    if self.num_hidden > 1:
      leads_to, action = (x[0, :, infostate].tolist() for x in self.moves_of(state[None]))
      return [(seen, held) for seen, held in zip(action, leads_to) if held >= 0]
    for action in np.flatnonzero(self.legal_actions(state[None])[0]).tolist():
      origin = self.infostate_parents(state[None], np.array([action]))
      after = [infostate] if origin is None else np.flatnonzero(origin[0, player] == infostate)
      found += [(action, int(held)) for held in after]
    return found

  def payoff(self, state: np.ndarray, infostates: Sequence[Any]) -> Any:
    """Returns the payoff of player 0 in a terminal `state` `[S]` for a pair of `infostates`.

    A number, or an array where each player's is an array `[n]` of several; a pair that excludes
    each other may give anything.
    """
    table = int(self.payoff_index(state[None])[0])
    won = self.pairs().payoff(table, (infostates[0], infostates[1]))
    return float(self.payoff_scale(state[None])[0]) * won

  def sample_chance(
    self, state: np.ndarray, infostates: Sequence[int], rng: np.random.Generator
  ) -> int:
    """Returns an outcome of chance in `state` `[S]`, given what the players hold."""
    actions = np.flatnonzero(self.legal_actions(state[None])[0])
    states = np.repeat(state[None], len(actions), axis=0)
    probability, mask = self.chance(states, actions)
    fits = mask[:, 0, infostates[0]] & mask[:, 1, infostates[1]]
    weights = np.asarray(probability, float) * fits
    return int(rng.choice(actions, p=weights / weights.sum()))

  # What a network sees, and what a person reads.

  @abc.abstractmethod
  def features(self, states: Rows, player: int) -> Rows:
    """Returns the public part of a PBS query from `player`'s seat: `[n, F]`, float.

    In a game where the seats differ only in who acts, features that say "I act" rather than
    "player 0 acts" let a network learn both seats from the same examples.
    """

  def action_name(self, action: int) -> str:
    """Returns a short name of a public action for people to read."""
    return str(action)

  def describe(self, history: Sequence[int], action: int) -> str:
    """Returns a readable description of `action` after `history`; by default its name."""
    return self.action_name(action)

  def situation(self, history: Sequence[int]) -> str:
    """Returns a readable description of the state after `history`; empty if none is needed."""
    return ""

  def infostate_name(self, player: int, infostate: int) -> str:
    """Returns a short name of an infostate for people to read."""
    return str(infostate)

  def hidden_move_name(self, player: int, action: int, infostate: int) -> str:
    """Returns a short name of a move of which the other sees `action`, by what is held then."""
    return self.infostate_name(player, infostate)

  # Shared by all games.

  def vary(self, **how: Any) -> "Game":
    """Returns the game whose parameters, those that `how` names, are drawn anew for every play.

    Raises:
      ValueError: the game has no parameters that may vary, or a value is not allowed.
    """
    raise ValueError(f"vary={', '.join(how)} is not allowed: {self.name} is always the same")

  def forgetful(self) -> "Game":
    """Returns the game with infostates of equal futures merged, if it defines that; else itself."""
    return self

  @property
  def unlisted(self) -> bool:
    """Whether the game is too large for any tree of the whole of it."""
    return False

  def templates(self) -> Any:
    """Returns the shapes of subgames of `depth="stage"`, to be filled in on the device, or None.

    They have the methods of `games.poker.streets.Streets`.

    Raises:
      ValueError: the game has them, but not with these parameters.
    """
    return None

  @checked
  def state_after(
    self, history: Sequence[int], *, start: np.ndarray | None = None, field: str = "root"
  ) -> np.ndarray:
    """Returns the public state `[S]` after the public actions in `history`.

    Args:
      history: the actions.
      start: `[S]` the public state before them; None for the first.
      field: what errors call them.

    Raises:
      TypeError: `start` is not a list of integers.
      ValueError: an action is not legal, or follows the end; `start` has another shape.
    """
    first = self.initial_state()
    states = integers("start", first if start is None else start, -(2**31), 2**31 - 1, ndim=1)[None]
    check_shape("start", states[0], np.shape(first), "(S,)")
    for depth, action in enumerate(history):
      if self.actor(states)[0] == TERMINAL:
        raise ValueError(
          f"{field}={short(tuple(history))} goes on after the game has ended: its first {depth} "
          f"actions reach a terminal state of {self.name}"
        )
      legal = np.flatnonzero(self.legal_actions(states)[0])
      if action not in legal:
        raise ValueError(
          f"{field}={short(tuple(history))} takes action {short(action)} where {self.name} allows "
          f"{short(legal.tolist())}"
        )
      states = self.next_states(states, np.array([action]))
    return states[0]

  def __repr__(self) -> str:
    return f"games.make({self.name!r})"


class NamedInFull(Game):
  """A game whose representation says all of it: what was compiled for one serves its equals."""

  def __eq__(self, other: object) -> bool:
    return type(self) is type(other) and repr(self) == repr(other)

  def __hash__(self) -> int:
    return hash((type(self), repr(self)))


def check_is_game(game) -> None:
  """Raises a `TypeError` unless `game` is a `Game`."""
  if not isinstance(game, Game):
    raise TypeError(f"game={short(game)} must be a games.Game, as games.make returns it")


_REGISTRY: dict[str, Callable[..., Game]] = {}  # games by name


@checked
def register(name: str, constructor: Callable[..., Game]) -> None:
  """Makes `games.make(name, **parameters)` call `constructor(**parameters)`.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: the name is taken.
  """
  if name in _REGISTRY:
    raise ValueError(f"name={name!r} is already registered; choose another")
  _REGISTRY[name] = constructor


def registered_games() -> tuple[str, ...]:
  """Returns the names of registered games, sorted."""
  return tuple(sorted(_REGISTRY))


def make(name: str, **parameters) -> Game:
  """Makes a game from its registered name and its parameters.

  Raises:
    ValueError: the name is unknown or a parameter has a value that the game does not allow.
    TypeError: the game has no such parameter.
  """
  if not isinstance(name, str) or name not in _REGISTRY:
    raise ValueError(unknown_name("game", name, registered_games()))
  constructor = _REGISTRY[name]
  declared = inspect.signature(constructor).parameters
  allowed = [x for x, about in declared.items() if not about.kind.name.startswith("VAR")]
  unknown = [x for x in parameters if x not in allowed]
  if unknown and len(allowed) == len(declared):  # else it takes any
    names = ", ".join(allowed) or "none"
    raise TypeError(f"{name} has no parameter {unknown[0]!r}; it takes: {names}")
  # A deck of ranks 56789 is a number on the command line.
  texts = [x for x in allowed if declared[x].annotation in (str, "str")]
  digits = {x: str(y) for x, y in parameters.items() if x in texts and type(y) is int}
  return constructor(**parameters | digits)
