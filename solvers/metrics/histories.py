"""All public histories of a small game, best responses in them, and exact values of its states."""
# A policy that depends on all that was seen, such as that of searches which follow each other,
# has its place for every history, also where several lead to one state.

from typing import Any, NamedTuple

import numpy as np

from games.arrays import Positive, checked
from games.game import CHANCE, TERMINAL, Game
from games.public_tree import walk


class Histories(NamedTuple):
  """The public histories of a game, shorter ones first; letters as in `Game`."""

  game: Game  # the rules
  state: np.ndarray  # `[N, S]`
  possible: np.ndarray  # `[N, P, H]` which infostates the rules allow
  kind: np.ndarray  # `[N]` 0 or 1 (that player moves), `CHANCE` or `TERMINAL`
  depth: np.ndarray  # `[N]` public actions before it
  parent: np.ndarray  # `[N]` the history before; -1 for the first
  action: np.ndarray  # `[N]` the public action taken there; -1 for the first
  child: np.ndarray  # `[N, A]` the history after each action; -1 where there is none
  chance: np.ndarray  # `[N]` how likely chance, if it made the last move, made it; else 1
  leads_to: np.ndarray  # `[N, M, H]` the infostate after each of the mover's moves
  moves: np.ndarray  # `[N, M, H]` their public actions; both are -1 for none, see `Game.moves_of`

  def path(self, node: int) -> list[int]:
    """Returns the histories that `node` begins with, the first to itself."""
    found = [node]
    while found[-1] > 0:
      found.append(int(self.parent[found[-1]]))
    return found[::-1]


def subtree_sizes(parent: np.ndarray) -> np.ndarray:
  """Returns how many nodes are below each, itself counted: `[N]`, of `parent` `[N]`, -1 at first.

  A node's parent is numbered before it.
  """
  sizes = np.ones(len(parent), int)
  for node in range(len(parent) - 1, 0, -1):
    sizes[parent[node]] += sizes[node]
  return sizes


@checked
def public_histories(game: Game, *, max_histories: Positive = 100_000) -> Histories:
  """Returns all public histories of a game.

  Args:
    game: the rules.
    max_histories: the most that the game may have.

  Raises:
    TypeError: `game` is something else.
    ValueError: the game has more histories.
  """
  possible = (np.asarray(game.prior()) > 0)[None]
  parent, action, chance = np.full(1, -1), np.full(1, -1), np.ones(1)
  levels: list[tuple[np.ndarray, ...]] = []
  for first, states, kind, above, taken, below in walk(
    game, game.initial_state(), most=max_histories
  ):
    child = np.full((len(states), game.num_actions), -1)
    child[above, taken] = below
    depth = np.full(len(states), len(levels))
    moves = game.moves_of(states, possible)
    levels.append((states, possible, kind, depth, parent, action, child, chance, *moves))
    made = states[above], taken
    possible = game.possible_after(*made, possible[above])
    parent, action, chance = first + above, taken, np.ones(len(taken))
    if (by_chance := kind[above] == CHANCE).any():
      chance[by_chance] = game.chance(*(x[by_chance] for x in made))[0]
  return Histories(game, *(np.concatenate(x) for x in zip(*levels)))


def best_response_worth(histories: Histories, policy: np.ndarray, player: int) -> float:
  """Returns the expected payoff of `player`'s best response to the other's policy."""
  game, other = histories.game, 1 - player
  reach = _reach(histories, policy, other)
  over = histories.kind == TERMINAL
  values = np.zeros(reach.shape)
  values[over] = game.terminal_values(histories.state[over], reach[over], player)
  for depth in range(int(histories.depth[-1]), -1, -1):
    here, below = (np.flatnonzero(histories.depth == x) for x in (depth, depth + 1))
    np.add.at(values, histories.parent[below], values[below])
    own = here[histories.kind[here] == player]
    after, there = _after(histories, own)
    worth = np.where(there, values[after, np.maximum(histories.leads_to[own], 0)], -np.inf)
    best = worth.max(axis=1)
    values[own] = np.where(np.isfinite(best), best, 0.0)
    values[here] *= histories.possible[here, player]
  prior = np.asarray(game.prior(), float)
  met = game.compatible_mass(histories.state[:1], prior[other][None], player)[0]
  return float((prior[player] * values[0]).sum() / (prior[player] * met).sum())


def exploitability_in(histories: Histories, policy: np.ndarray) -> float:
  """Returns the exploitability of both players' policies `[N, M, H]`."""
  return sum(best_response_worth(histories, policy, p) for p in (0, 1)) / 2


def _reach(histories: Histories, policy: np.ndarray, player: int) -> np.ndarray:
  """Returns `player`'s reach of every history, what is dealt included: `[N, H]`."""
  reach = np.zeros((len(histories.kind), histories.possible.shape[-1]))
  reach[0] = np.asarray(histories.game.prior())[player]
  for depth in range(1, int(histories.depth[-1]) + 1):
    here = np.flatnonzero(histories.depth == depth)
    above = histories.parent[here]
    reach[here] = reach[above] * histories.chance[here, None]
    reach[here[histories.kind[above] == player]] = 0.0
    movers = np.flatnonzero((histories.depth == depth - 1) & (histories.kind == player))
    after, there = _after(histories, movers)
    moved = np.where(there, reach[movers][:, None] * policy[movers], 0.0)
    np.add.at(reach, (after, np.maximum(histories.leads_to[movers], 0)), moved)
    reach[here] *= histories.possible[here, player]
  return reach


def _after(histories: Histories, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns infostates after the movers' moves at `nodes`, and the legal moves: `[n, M, H]`."""
  moves = histories.moves[nodes]
  after = histories.child[nodes[:, None, None], np.maximum(moves, 0)]
  there = (moves >= 0) & (after >= 0)
  return np.where(there, after, 0), there


class Minimax(NamedTuple):
  """Minimax values of all states that play can reach.

  Attributes:
    states: `[n, S]` public states, the first the game's own; a move leads to a later one.
    values: `[n]` what player 0 gets if both play without mistake.
    place: the place of a state, by its bytes as `np.int64`.
  """

  states: np.ndarray
  values: np.ndarray
  place: dict[bytes, int]

  def value_of(self, states: np.ndarray) -> np.ndarray:
    """Returns the values of `states` `[..., S]`; NaN for those that play does not reach."""
    rows = np.asarray(states, np.int64)
    flat = rows.reshape(-1, rows.shape[-1])
    found = [self.values[self.place[x]] if x in self.place else np.nan for x in map(_key, flat)]
    return np.array(found).reshape(rows.shape[:-1])


@checked
def minimax(game: Game, *, max_states: Positive = 1_000_000) -> Minimax:
  """Returns exact values of all states of a game of perfect information.

  Args:
    game: the rules, with one infostate a player and no chance.
    max_states: the most that the game may have.

  Raises:
    TypeError: `game` is something else.
    ValueError: the game has chance, private information or more states.
  """
  check_perfect(game)
  levels = list(walk(game, game.initial_state(), merge="game", most=max_states))
  states = np.concatenate([level.states for level in levels])
  values = np.zeros(len(states))
  for first, rows, kind, parent, _, child in reversed(levels):
    best, least = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    np.maximum.at(best, parent, values[child])
    np.minimum.at(least, parent, values[child])
    won = np.where(kind == 0, best, least)
    over = kind == TERMINAL
    won[over] = payoff_of(game, rows[over])
    values[first : first + len(rows)] = won
  return Minimax(states, values, {_key(state): i for i, state in enumerate(states)})


@checked
def check_perfect(game: Game) -> None:
  """Checks that a game is of perfect information and without chance."""
  if game.num_infostates > 1 or game.has_chance:
    raise ValueError(f"{game.name} is not of perfect information, or has chance")


def payoff_of(game: Game, states: Any) -> Any:
  """Returns the payoff of player 0 in terminal public states: `[n, S]` to `[n]`."""
  xp = states.__array_namespace__()
  return game.terminal_values(states, xp.ones((len(states), 1)), 0)[:, 0]


def _key(state: np.ndarray) -> bytes:
  return np.asarray(state, np.int64).tobytes()
