"""Games in tables, for rules that only numpy can run."""

import numpy as np

from games.arrays import lookup
from games.game import CHANCE, TERMINAL, Game, check_is_game


def tabulate(game: Game, *, max_states: int = 100_000) -> "Tabulated":
  """Returns `game` with its public states numbered and its rules read from tables.

  Args:
    game: rules for numpy's arrays.
    max_states: how many public states are too many.

  Raises:
    TypeError: `game` is something else.
    ValueError: `max_states` is not a positive integer, or the game has more public states.
  """
  check_is_game(game)
  if isinstance(max_states, bool) or not isinstance(max_states, int) or max_states < 1:
    raise ValueError(f"max_states={max_states!r} must be a positive integer")
  return Tabulated(game, max_states)


class Tabulated(Game):
  """A game made by `games.tabulate`: the same moves, infostates and payoffs, other public states.

  A public state is its number, 0 at the start, in the order in which public actions reach them.
  Methods of states are gathers, so that JAX runs them whatever the rules are written in.

  Attributes:
    game: the rules.
    states: `[N, S]` its public states.
  """

  def __init__(self, game: Game, max_states: int):
    self.game = game
    self.name = game.name
    self.num_infostates, self.num_actions = game.num_infostates, game.num_actions
    self.states, parent, action, self._child = _enumerate(game, max_states)
    self._actor = np.asarray(game.actor(self.states))
    self._edge = np.full((len(self.states), game.num_actions), -1, np.int32)
    self._edge[parent, action] = np.arange(len(action))

    moves = self.states[parent], action
    self._dealt_cards = np.asarray(game.dealt_cards(*moves))
    parents = game.infostate_parents(*moves)
    self._parents = None if parents is None else _distinct(parents)
    deals = np.flatnonzero(self._actor[parent] == CHANCE)
    self._deal = np.zeros(len(action), int)
    self._deal[deals] = np.arange(len(deals))
    if len(deals):
      self._probability, mask = game.chance(self.states[parent[deals]], action[deals])
      self._mask = _distinct(mask)

    self._pair_index = np.asarray(game.pair_index(self.states))
    self._stages = np.asarray(game.stages(self.states))
    self._features = [np.asarray(game.features(self.states, player)) for player in (0, 1)]
    ends = np.flatnonzero(self._actor == TERMINAL)
    self._payoff_index = np.zeros(len(self.states), int)
    self._payoff_index[ends] = game.payoff_index(self.states[ends])
    self._payoff_scale = np.zeros(len(self.states))
    self._payoff_scale[ends] = game.payoff_scale(self.states[ends])

  # Public states.

  def initial_state(self):
    return np.array([0])

  def actor(self, states):
    return lookup(self._actor, states[:, 0])

  def legal_actions(self, states):
    return lookup(self._edge, states[:, 0]) >= 0

  def next_states(self, states, actions):
    edge = lookup(self._edge, states[:, 0], actions)
    return lookup(self._child, edge)[:, None].astype(states.dtype)

  def stages(self, states):
    return lookup(self._stages, states[:, 0])

  # Private information.

  def pair_index(self, states):
    return lookup(self._pair_index, states[:, 0])

  def chance(self, states, actions):
    deal = lookup(self._deal, lookup(self._edge, states[:, 0], actions))
    masks, index = self._mask
    return lookup(self._probability, deal), lookup(masks, lookup(index, deal))

  def infostate_parents(self, states, actions):
    if self._parents is None:
      return None
    parents, index = self._parents
    return lookup(parents, lookup(index, lookup(self._edge, states[:, 0], actions)))

  def dealt_cards(self, states, actions):
    return lookup(self._dealt_cards, lookup(self._edge, states[:, 0], actions))

  # Payoffs, and what a network sees.

  def payoff_index(self, states):
    return lookup(self._payoff_index, states[:, 0])

  def payoff_scale(self, states):
    return lookup(self._payoff_scale, states[:, 0])

  def features(self, states, player):
    return lookup(self._features[player], states[:, 0])

  # As in the game itself.

  @property
  def num_player_actions(self):
    return self.game.num_player_actions

  @property
  def orders_infostates(self):
    return self.game.orders_infostates

  def prior(self):
    return self.game.prior()

  def pair_weights(self):
    return self.game.pair_weights()

  def hands(self):
    return self.game.hands()

  def strengths(self):
    return self.game.strengths()

  def payoffs(self):
    return self.game.payoffs()

  def pairs(self):
    return self.game.pairs()

  def action_name(self, action):
    return self.game.action_name(action)

  def describe(self, history, action):
    return self.game.describe(history, action)

  def situation(self, history):
    return self.game.situation(history)

  def explain(self):
    return self.game.explain()

  def infostate_name(self, player, infostate):
    return self.game.infostate_name(player, infostate)

  def hidden_move_name(self, player, action, infostate):
    return self.game.hidden_move_name(player, action, infostate)

  def __repr__(self):
    return f"games.tabulate({self.game!r})"


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns different `rows`, each once, and which of them every row is: many are equal."""
  number: dict[bytes, int] = {}
  index = np.array([number.setdefault(row.tobytes(), len(number)) for row in rows])
  return rows[np.unique(index, return_index=True)[1]], index


def _enumerate(
  game: Game, max_states: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Returns all public states `[N, S]`, and of each edge the state, the action, the next state.

  Raises:
    ValueError: there are more than `max_states` states.
  """
  newest = np.asarray(game.initial_state(), np.int64)[None]
  number = {newest[0].tobytes(): 0}
  states, edges = [newest], []
  first = 0
  while True:
    inner = np.flatnonzero(game.actor(newest) != TERMINAL)
    if len(inner) == 0:
      break
    place, action = np.nonzero(game.legal_actions(newest[inner]))
    after = np.asarray(game.next_states(newest[inner[place]], action), np.int64)
    child = np.array([number.setdefault(row.tobytes(), len(number)) for row in after], int)
    if len(number) > max_states:
      raise ValueError(
        f"max_states={max_states}: {game!r} has more public states than that; allow more, or write "
        "its rules over arrays"
      )
    edges.append(np.stack([first + inner[place], action, child]))
    first += len(newest)
    found, rows = np.unique(child, return_index=True)
    newest = after[rows[found >= first]]
    states.append(newest)
  return np.concatenate(states), *np.concatenate(edges, axis=1)
