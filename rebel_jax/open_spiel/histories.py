"""Histories of an OpenSpiel game, walked once, and its infostates and public states."""

import difflib
import graphlib
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyspiel

from games.game import CHANCE, TERMINAL
from rebel_jax.config import in_config_errors

_PROBES = 64
_HISTORY_BYTES = 500  # of a history, its strings apart


class Budget:
  """The memory that what is read of a game may take."""

  def __init__(self, game: pyspiel.Game, max_bytes: float):
    self._game, self._max_bytes, self.left = game, max_bytes, max_bytes

  def spend(self, number: int) -> None:
    """Takes a number of bytes."""
    self.left -= number
    if self.left < 0:
      raise ValueError(
        f"game={self._game} takes more than max_bytes={self._max_bytes:.12g} of memory to be "
        "written out as a public tree"
      )


class SpielHistories(NamedTuple):
  """All histories of a game, parents before children; `M` of them, the empty one first."""

  parent: list[int]  # `[M]` history without its last action, -1 for the empty one
  action: list[int]  # `[M]` the last action, as OpenSpiel numbers it
  actor: list[int]  # `[M]` who moves: 0, 1, `CHANCE` or `TERMINAL`
  depth: list[int]  # `[M]` number of actions
  nature: list[float]  # `[M]` product of the chance probabilities on the way
  payoff: list[float]  # `[M]` to player 0, at the end of the game
  num_legal: list[int]  # `[M]` number of actions that follow
  observation: tuple[list[int], list[int]]  # each `[M]`, numbers of strings, -1 for none
  strings: tuple[list[str], list[str]]  # information state strings by number
  action_names: dict[tuple[bool, int], str]  # by whether it is chance's and its number


def load(game: str | pyspiel.Game) -> pyspiel.Game:
  """Returns a sequential two-player game with explicit chance."""
  if isinstance(game, str):
    name = game.split("(")[0].strip()
    if name not in pyspiel.registered_names():
      close = difflib.get_close_matches(name, pyspiel.registered_names(), n=1)
      hint = f" (did you mean {close[0]!r}?)" if close else ""
      raise ValueError(f"game={game!r} is not a game of OpenSpiel{hint}")
    kinds, head = (pyspiel.SpielError, IndexError), f"game={game!r} cannot be loaded by OpenSpiel"
    with in_config_errors(head, kinds, raises=ValueError):
      game = pyspiel.load_game(game)
  if not isinstance(game, pyspiel.Game):
    raise ValueError(f"game={game!r} must be an OpenSpiel game or its name")
  if game.num_players() != 2:
    raise ValueError(f"game={game} has {game.num_players()} players; only two can be represented")
  kind = game.get_type()
  if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
    raise ValueError(
      f"game={game} samples its chance outcomes; they must be explicit to be represented"
    )
  # The second of simultaneous moves is made without having seen the first.
  if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
    game = pyspiel.convert_to_turn_based(game)
  return game


def walk(game: pyspiel.Game, *, max_histories: int, budget: Budget) -> SpielHistories:
  """Returns all histories of `game`, depth first."""
  kind = game.get_type()
  perfect = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
  has_strings = kind.provides_information_state_string
  if not has_strings and not perfect:
    raise ValueError(f"game={game} has no information state strings in OpenSpiel")
  _refuse_if_hopeless(game, max_histories)

  rows: list[tuple] = []
  numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
  names: dict[tuple[bool, int], str] = {}
  stack = [(game.new_initial_state(), -1, -1, 0, 1.0)]
  while stack:
    state, parent, action, depth, nature = stack.pop()
    index = len(rows)
    terminal = state.is_terminal()
    actor = TERMINAL if terminal else CHANCE if state.is_chance_node() else state.current_player()
    payoff, below = 0.0, []
    if terminal:
      payoff, other = state.returns()
      if abs(payoff + other) > 1e-9:
        raise ValueError(
          f"game={game} is not zero-sum: after the history {state.history()} the players get "
          f"{[payoff, other]}"
        )
    elif actor == CHANCE:
      below = [(a, p) for a, p in state.chance_outcomes() if p > 0]
    else:
      below = [(a, 1.0) for a in state.legal_actions()]
    seen = [
      -1 if terminal else _observe(state, player, index, own, has_strings, budget)
      for player, own in enumerate(numbers)
    ]
    rows.append((parent, action, actor, depth, nature, payoff, len(below), *seen))
    budget.spend(_HISTORY_BYTES)
    if len(rows) + len(stack) + len(below) > max_histories:
      raise _too_many(game, max_histories)
    for a, p in reversed(below):
      if (actor == CHANCE, a) not in names:
        names[actor == CHANCE, a] = state.action_to_string(state.current_player(), a)
      stack.append((state.child(a), index, a, depth + 1, nature * p))
  columns: Any = list(map(list, zip(*rows)))
  strings = list(numbers[0]), list(numbers[1])
  return SpielHistories(*columns[:-2], tuple(columns[-2:]), strings, names)  # type: ignore[call-arg]


def _observe(
  state, player: int, index: int, numbers: dict[str, int], has_strings: bool, budget: Budget
) -> int:
  """Returns the number of a player's information state, -1 where OpenSpiel gives none."""
  try:
    # Where everybody sees everything, each history is a state of its own.
    string = state.information_state_string(player) if has_strings else str(index)
  except pyspiel.SpielError:
    if state.current_player() == player:
      raise
    return -1
  if string not in numbers:
    budget.spend(len(string))
  return numbers.setdefault(string, len(numbers))


def _too_many(game: pyspiel.Game, max_histories: int) -> ValueError:
  return ValueError(
    f"game={game} has more than max_histories={max_histories} histories; it is too large to be "
    "written out as a public tree"
  )


def _refuse_if_hopeless(game: pyspiel.Game, max_histories: int) -> None:
  """Refuses games of far too many histories without walking them."""
  # A uniformly random play ends at a given end of the game with probability 1/b, b the product of
  # the branching factors on the way. If at least half of 64 random plays have b > 10 m, then with
  # confidence 1 - 1e-7 at least a fifth of all plays do, which takes more than m ends of the game.
  rng = random.Random(0)
  long = 0
  for _ in range(_PROBES):
    state, product = game.new_initial_state(), 1
    while not state.is_terminal() and product <= 10 * max_histories:
      actions = state.legal_actions()
      product *= len(actions)
      state.apply_action(rng.choice(actions))
    long += product > 10 * max_histories
  if 2 * long >= _PROBES:
    raise _too_many(game, max_histories)


class Infostates(NamedTuple):
  """One player's infostates, a tree: at its decisions OpenSpiel's, elsewhere by its strings."""

  waiting: list[int]  # `[M]` before the player notices that it moves, see `find_times`
  of: list[int]  # `[M]` the infostate at each history
  string: list[int]  # of each infostate the last information state string, -1 for none


def find_infostates(
  game: pyspiel.Game, histories: SpielHistories, player: int, *, eager: bool
) -> Infostates:
  """Returns `player`'s infostates; `eager`: strings count while it is not to move."""
  # Strings that drop something between two decisions of the player are not used all the same.
  for use_all in (True, False) if eager else (False,):
    found, first = _read(histories, player, use_all), dict[int, int]()
    rows = zip(histories.observation[player], found.of, histories.actor, histories.num_legal)
    forgotten = [
      string
      for string, infostate, actor, number in rows
      # With one legal action nothing is decided.
      if actor == player and number > 1 and first.setdefault(string, infostate) != infostate
    ]
    if not forgotten:
      return found
  raise ValueError(
    f"game={game} lacks perfect recall: player {player}'s information state "
    f"{histories.strings[player][min(forgotten)]!r} follows from different information states or "
    "actions of its own"
  )


def _read(histories: SpielHistories, player: int, eager: bool) -> Infostates:
  numbers: dict[tuple, int] = {}
  last: list[int] = []  # last string of each infostate

  def number(*key) -> int:
    found = numbers.setdefault(key, len(numbers))
    if found == len(last):
      last.append(key[2])
    return found

  of: list[int] = []
  waiting: list[int] = []
  started: list[bool] = []  # whether a player has moved
  actors = histories.actor
  rows = zip(histories.parent, histories.action, actors, histories.observation[player])
  for parent, action, actor, seen in rows:
    decides = actor == player
    started.append(parent >= 0 and (started[parent] or actors[parent] != CHANCE))
    if parent < 0:
      came = before = number(-1, -1, -1 if decides else seen, False)
    else:
      came = of[parent]
      known, acted = last[came], actors[parent] == player
      # What the deals looked like one by one is forgotten: OpenSpiel sorts a player's dice.
      before = 0 if eager and not started[-1] else came
      news = seen if eager and not decides and actor != TERMINAL and seen >= 0 else known
      if acted or news != known:
        came = before = number(before, action if acted else -1, news, False)
    waiting.append(came)
    of.append(number(before, -1, seen, True) if decides else came)
  return Infostates(waiting, of, last)


def find_times(
  game: pyspiel.Game, histories: SpielHistories, infostates: Sequence[Infostates]
) -> list[int]:
  """Returns a time for each history that is the same within every decision's infostate: `[M]`."""
  # Usually the number of actions. Where a player does not notice how often the other moves, the
  # longest way to the infostate; histories that get there sooner wait.
  actor, time = np.array(histories.actor), np.array(histories.depth)
  group = np.arange(len(time))  # the first history with a decision's infostate
  for player in (0, 1):
    own = np.flatnonzero(actor == player)
    there = np.array(infostates[player].of)[own]
    _, first, number = np.unique(there, return_index=True, return_inverse=True)
    group[own] = own[first][number]
  if (time[group] == time).all():
    return histories.depth
  before = defaultdict(set)
  for above, below in zip(group[histories.parent[1:]].tolist(), group[1:].tolist()):
    before[below].add(above)
  with in_config_errors(
    f"game={game} cannot be put in an order in time that respects its information states: one "
    "is both before and after another, so there is no public tree",
    graphlib.CycleError,
    reason=False,
    raises=ValueError,
  ):
    for number in graphlib.TopologicalSorter(before).static_order():
      time[number] = max((time[above] + 1 for above in before.get(number, ())), default=0)
  return time[group].tolist()


def connected(rows: dict[int, list[tuple]]) -> list[list[int]]:
  """Groups rows, by number, that are connected by equal entries: lists of numbers, in order."""
  above: dict[Any, Any] = {}

  def root_of(x: Any) -> Any:
    while above.setdefault(x, x) != x:
      above[x] = x = above[above[x]]
    return x

  for number, row in rows.items():
    for key in row:
      above[root_of(key)] = root_of(number)
  groups: dict[Any, list[int]] = defaultdict(list)
  for number in rows:
    groups[root_of(number)].append(number)
  return list(groups.values())
