"""Histories of an OpenSpiel game, walked once, and its infostates and public states."""

import dataclasses
import difflib
import graphlib
import random
from collections import defaultdict
from typing import Any

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


@dataclasses.dataclass(frozen=True)
class SpielHistories:
  """All histories of a game, parents before children; `M` of them, the empty one first."""

  parent: np.ndarray  # `[M]` history without its last action, -1 for the empty one
  action: np.ndarray  # `[M]` the last action, as OpenSpiel numbers it
  actor: np.ndarray  # `[M]` who moves: 0, 1, `CHANCE` or `TERMINAL`
  depth: np.ndarray  # `[M]` number of actions
  nature: np.ndarray  # `[M]` product of the chance probabilities on the way
  payoff: np.ndarray  # `[M]` to player 0, at the end of the game
  num_legal: np.ndarray  # `[M]` number of actions that follow
  observation: tuple[np.ndarray, np.ndarray]  # each `[M]`, numbers of strings, -1 for none
  strings: tuple[list[str], list[str]]  # information state strings by number
  action_names: dict[tuple[bool, int], str]  # by whether it is chance's and its number

  def __len__(self) -> int:
    return len(self.parent)


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
  if game.get_type().dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
    raise ValueError(f"game={game} is neither sequential nor simultaneous")
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
  observation: tuple[list[int], list[int]] = ([], [])
  numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
  names: dict[tuple[bool, int], str] = {}
  stack = [(game.new_initial_state(), -1, -1, 0, 1.0)]
  seen = 1
  while stack:
    state, parent, action, depth, nature = stack.pop()
    index = len(rows)
    terminal = state.is_terminal()
    actor = TERMINAL if terminal else CHANCE if state.is_chance_node() else state.current_player()
    payoff, below = 0.0, []
    if terminal:
      returns = state.returns()
      payoff = returns[0]
      if abs(returns[0] + returns[1]) > 1e-9:
        raise ValueError(
          f"game={game} is not zero-sum: after the history {state.history()} the players get "
          f"{returns}"
        )
    elif actor == CHANCE:
      below = [(a, p) for a, p in state.chance_outcomes() if p > 0]
    else:
      below = [(a, 1.0) for a in state.legal_actions()]
    rows.append((parent, action, actor, depth, nature, payoff, len(below)))
    for player in (0, 1):
      observation[player].append(
        -1 if terminal else _observe(state, player, index, numbers[player], has_strings, budget)
      )
    budget.spend(_HISTORY_BYTES)
    seen += len(below)
    if seen > max_histories:
      raise _too_many(game, max_histories)
    for a, p in reversed(below):
      if (actor == CHANCE, a) not in names:
        names[actor == CHANCE, a] = state.action_to_string(state.current_player(), a)
      stack.append((state.child(a), index, a, depth + 1, nature * p))
  columns: Any = map(np.array, zip(*rows))
  observations = np.array(observation[0]), np.array(observation[1])
  strings = list(numbers[0]), list(numbers[1])
  return SpielHistories(*columns, observations, strings, names)  # type: ignore[call-arg]


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
  number = numbers.setdefault(string, len(numbers))
  if number == len(numbers) - 1:
    budget.spend(len(string))
  return number


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


@dataclasses.dataclass(frozen=True)
class Infostates:
  """One player's infostates, a tree: at its decisions OpenSpiel's, elsewhere by its strings."""

  of: np.ndarray  # `[M]` the infostate at each history
  waiting: np.ndarray  # `[M]` before the player notices that it moves, see `find_times`
  string: np.ndarray  # of each infostate the last information state string, -1 for none


def find_infostates(
  game: pyspiel.Game, histories: SpielHistories, player: int, *, eager: bool
) -> Infostates:
  """Returns `player`'s infostates; `eager`: strings count while it is not to move."""
  # Strings that drop something between two decisions of the player are not used all the same.
  for use_all in (True, False) if eager else (False,):
    found = _read(histories, player, use_all)
    clash = _forgotten(histories, player, found)
    if clash is None:
      return found
  string = histories.strings[player][histories.observation[player][clash]]
  raise ValueError(
    f"game={game} lacks perfect recall: player {player}'s information state {string!r} follows "
    "from different information states or actions of its own"
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
  actors = histories.actor.tolist()
  rows = zip(
    histories.parent.tolist(),
    histories.action.tolist(),
    actors,
    histories.observation[player].tolist(),
  )
  for parent, action, actor, seen in rows:
    decides = actor == player
    if parent < 0:
      started.append(False)
      waiting.append(number(-1, -1, -1 if decides else seen, False))
      of.append(number(waiting[-1], -1, seen, True) if decides else waiting[-1])
      continue
    before, acted = of[parent], actors[parent] == player
    known = last[before]
    started.append(started[parent] or actors[parent] != CHANCE)
    if eager and not started[-1]:
      # What the deals looked like one by one is forgotten: OpenSpiel sorts a player's dice.
      before = 0
    news = seen if eager and not decides and actor != TERMINAL and seen >= 0 else known
    came = of[parent]
    if acted or news != known:
      came = before = number(before, action if acted else -1, news, False)
    waiting.append(came)
    of.append(number(before, -1, seen, True) if decides else waiting[-1])
  return Infostates(np.array(of), np.array(waiting), np.array(last))


def _forgotten(histories: SpielHistories, player: int, found: Infostates) -> int | None:
  """Returns a history whose information state is spread over several infostates, or None."""
  # Those with one legal action leave nothing to decide.
  decisions = np.flatnonzero((histories.actor == player) & (histories.num_legal > 1))
  strings = histories.observation[player][decisions]
  infostates = found.of[decisions]
  order = np.lexsort((infostates, strings))
  strings, infostates = strings[order], infostates[order]
  clash = np.flatnonzero((np.diff(strings) == 0) & (np.diff(infostates) != 0))
  return None if clash.size == 0 else int(decisions[order[clash[0] + 1]])


def find_times(
  game: pyspiel.Game, histories: SpielHistories, infostates: tuple[Infostates, Infostates]
) -> np.ndarray:
  """Returns a time for each history that is the same within every decision's infostate: `[M]`."""
  # Usually the number of actions. Where a player does not notice how often the other moves, the
  # longest way to the infostate; histories that get there sooner wait.
  group = np.full(len(histories), -1)
  count = 0
  for player in (0, 1):
    own = np.flatnonzero(histories.actor == player)
    _, number = np.unique(infostates[player].of[own], return_inverse=True)
    group[own] = number.reshape(-1) + count
    count += int(number.max(initial=-1)) + 1
  decisions = np.flatnonzero(group >= 0)
  first = np.full(count, -1)
  first[group[decisions]] = histories.depth[decisions]
  if (first[group[decisions]] == histories.depth[decisions]).all():
    return histories.depth
  rest = np.flatnonzero(group < 0)
  group[rest] = count + np.arange(len(rest))
  return _longest_paths(game, histories, group)


def _longest_paths(game: pyspiel.Game, histories: SpielHistories, group: np.ndarray) -> np.ndarray:
  before = defaultdict(set)
  for above, below in zip(group[histories.parent[1:]].tolist(), group[1:].tolist()):
    before[below].add(above)
  time = np.zeros(group.max() + 1, int)
  with in_config_errors(
    f"game={game} cannot be put in an order in time that respects its information states: one "
    "is both before and after another, so there is no public tree",
    graphlib.CycleError,
    reason=False,
    raises=ValueError,
  ):
    for number in graphlib.TopologicalSorter(before).static_order():
      time[number] = max((time[above] + 1 for above in before.get(number, ())), default=0)
  return time[group]


def root_of(above: dict[Any, Any], x: Any) -> Any:
  """Returns the root of all that is linked to `x`, of a union-find forest."""
  while above.setdefault(x, x) != x:
    above[x] = x = above[above[x]]
  return x


def connected(rows: list[tuple]) -> list[list[int]]:
  """Groups rows that are connected by equal entries: lists of positions, in order."""
  above: dict[Any, Any] = {}
  for position, row in enumerate(rows):
    for key in row:
      above[root_of(above, ("key", key))] = root_of(above, position)
  groups: dict[Any, list[int]] = defaultdict(list)
  for position in range(len(rows)):
    groups[root_of(above, position)].append(position)
  return list(groups.values())
