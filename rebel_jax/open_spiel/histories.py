"""Every history of an OpenSpiel game, walked once."""

import dataclasses
import difflib
import random

import numpy as np
import pyspiel

from games.game import CHANCE, TERMINAL

_PROBES = 64
_HISTORY_BYTES = 500  # of a history, its strings apart


class Budget:
  """The memory that what is read of a game may take.

  Attributes:
    left: bytes.
  """

  def __init__(self, game: pyspiel.Game, max_bytes: float):
    self._game, self._max_bytes, self.left = game, max_bytes, max_bytes

  def spend(self, number: int) -> None:
    """Takes a number of bytes.

    Raises:
      ValueError: there are not as many left.
    """
    self.left -= number
    if self.left < 0:
      raise ValueError(
        f"game={self._game} takes more than max_bytes={self._max_bytes:.12g} of memory to be "
        "written out as a public tree"
      )


@dataclasses.dataclass(frozen=True)
class SpielHistories:
  """All histories of a game, parents before children; `M` of them, the empty one first.

  Attributes:
    parent: `[M]` history without its last action, -1 for the empty one.
    action: `[M]` the last action, as OpenSpiel numbers it.
    actor: `[M]` who moves: 0, 1, `CHANCE` or `TERMINAL`.
    depth: `[M]` number of actions.
    nature: `[M]` product of the chance probabilities on the way.
    payoff: `[M]` to player 0, at the end of the game.
    num_legal: `[M]` number of actions that follow.
    observation: for each player `[M]`, the number of its information state string, -1 where
      OpenSpiel gives none.
    strings: for each player, its information state strings by number.
    action_names: what OpenSpiel calls each action, by whether it is chance's and its number.
  """

  parent: np.ndarray
  action: np.ndarray
  actor: np.ndarray
  depth: np.ndarray
  nature: np.ndarray
  payoff: np.ndarray
  num_legal: np.ndarray
  observation: tuple[np.ndarray, np.ndarray]
  strings: tuple[list[str], list[str]]
  action_names: dict[tuple[bool, int], str]

  def __len__(self) -> int:
    return len(self.parent)


def load(game: str | pyspiel.Game) -> pyspiel.Game:
  """Returns a sequential two-player game with explicit chance.

  Simultaneous moves become moves in turn, the second made without having seen the first
  (`pyspiel.convert_to_turn_based`).

  Raises:
    ValueError: OpenSpiel does not know the game, or it has not two players or not that form.
  """
  if isinstance(game, str):
    name = game.split("(")[0].strip()
    if name not in pyspiel.registered_names():
      close = difflib.get_close_matches(name, pyspiel.registered_names(), n=1)
      hint = f" (did you mean {close[0]!r}?)" if close else ""
      raise ValueError(f"game={game!r} is not a game of OpenSpiel{hint}")
    try:
      game = pyspiel.load_game(game)
    except (pyspiel.SpielError, IndexError) as error:
      reason = str(error).split("\n")[0]
      raise ValueError(f"game={game!r} cannot be loaded by OpenSpiel: {reason}") from None
  if not isinstance(game, pyspiel.Game):
    raise ValueError(f"game={game!r} must be an OpenSpiel game or its name")
  if game.num_players() != 2:
    raise ValueError(f"game={game} has {game.num_players()} players; only two can be represented")
  kind = game.get_type()
  if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
    raise ValueError(
      f"game={game} samples its chance outcomes; they must be explicit to be represented"
    )
  if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
    game = pyspiel.convert_to_turn_based(game)
  if game.get_type().dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
    raise ValueError(f"game={game} is neither sequential nor simultaneous")
  return game


def walk(game: pyspiel.Game, *, max_histories: int, budget: Budget) -> SpielHistories:
  """Walks all histories of `game`, depth first.

  Raises:
    ValueError: there are more than `max_histories`, or than the budget has room for, payoffs are
      not zero-sum, or OpenSpiel has no information states for a game that is not of perfect
      information.
  """
  kind = game.get_type()
  perfect = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
  has_strings = kind.provides_information_state_string
  if not has_strings and not perfect:
    raise ValueError(f"game={game} has no information state strings in OpenSpiel")
  _refuse_if_hopeless(game, max_histories)

  columns: dict[str, list] = {
    name: [] for name in ("parent", "action", "actor", "depth", "nature", "payoff", "num_legal")
  }
  observation: tuple[list[int], list[int]] = ([], [])
  numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
  names: dict[tuple[bool, int], str] = {}
  stack = [(game.new_initial_state(), -1, -1, 0, 1.0)]
  seen = 1
  while stack:
    state, parent, action, depth, nature = stack.pop()
    index = len(columns["parent"])
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
    row = (parent, action, actor, depth, nature, payoff, len(below))
    for column, value in zip(columns.values(), row):
      column.append(value)
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
  return SpielHistories(
    **{name: np.array(column) for name, column in columns.items()},
    observation=(np.array(observation[0]), np.array(observation[1])),
    strings=(list(numbers[0]), list(numbers[1])),
    action_names=names,
  )


def _observe(
  state, player: int, index: int, numbers: dict[str, int], has_strings: bool, budget: Budget
) -> int:
  """Returns the number of a player's information state, -1 where OpenSpiel gives none."""
  string = str(index)  # everybody sees everything: each history is a state of its own
  if has_strings:
    try:
      string = state.information_state_string(player)
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
  """Refuses games of far too many histories without walking them.

  A uniformly random play ends at a given end of the game with probability 1/b, b the product of
  the branching factors on the way. If at least half of 64 random plays have b > 10 m, then with
  confidence 1 - 1e-7 at least a fifth of all plays do, which takes more than m ends of the game.
  """
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
