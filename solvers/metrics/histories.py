"""All public histories of a small game of rules on the device, and best responses in them.

A policy that depends on all that was seen, such as that of searches which follow each other, has
its place for every history, also where several lead to one state. Infostates may be reached in
several ways, so that one of Mr. X is its station and not its path.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL
from games.on_device.game import DeviceGame, check_device_game
from games.on_device.moves import moves_of
from solvers import validation

# Histories that are asked about at a time.
_BLOCK = 512


class Histories(NamedTuple):
  """The public histories of a game, shorter ones first; letters as in `DeviceGame`.

  Attributes:
    game: the rules.
    state: `[N, S]`.
    possible: `[N, P, H]` which infostates the rules allow.
    kind: `[N]` 0 or 1 (that player moves), `CHANCE` or `TERMINAL`.
    depth: `[N]` public actions before it.
    parent, action: `[N]` the history before, -1 for the first, and what was done there.
    child: `[N, A]` the history after each action; -1 where there is none.
    chance: `[N]` how likely chance, if it made the last move, made it; else 1.
    leads_to, moves: `[N, M, H]` the mover's moves; see `DeviceMoves`.
  """

  game: DeviceGame
  state: np.ndarray
  possible: np.ndarray
  kind: np.ndarray
  depth: np.ndarray
  parent: np.ndarray
  action: np.ndarray
  child: np.ndarray
  chance: np.ndarray
  leads_to: np.ndarray
  moves: np.ndarray

  @property
  def sizes(self) -> np.ndarray:
    """How many histories begin with each, itself counted: `[N]`."""
    sizes = np.ones(len(self.kind), int)
    for _, here in self._levels(upwards=True):
      np.add.at(sizes, self.parent[here], sizes[here])
    return sizes

  def since(self, node: int, above: int | None) -> list[int]:
    """Returns the public actions that lead from history `above` to `node`; None for the first."""
    actions: list[int] = []
    while node > 0 and node != above:
      actions.append(int(self.action[node]))
      node = int(self.parent[node])
    return actions[::-1]

  def _levels(self, *, upwards: bool = False) -> Iterator[tuple[int, np.ndarray]]:
    """Yields depths from 1 on, or down to it, and which histories are there."""
    depths = range(1, int(self.depth[-1]) + 1)
    for depth in reversed(depths) if upwards else depths:
      yield depth, np.flatnonzero(self.depth == depth)


def public_histories(game: DeviceGame, *, max_histories: int = 100_000) -> Histories:
  """Returns all public histories of a game.

  Args:
    game: rules on JAX's arrays.
    max_histories: how many are too many.

  Raises:
    TypeError: `game` is something else.
    ValueError: the game has more histories.
  """
  check_device_game(game)
  most = validation.check_integer("max_histories", max_histories)
  look = jax.jit(jax.vmap(lambda s, x: _around(game, s, x)))
  state = np.asarray(game.initial_state())[None]
  possible = (np.asarray(game.prior()) > 0)[None]
  parent, action, chance = np.full(1, -1), np.full(1, -1), np.ones(1)
  levels: list[tuple[np.ndarray, ...]] = []
  first = 0
  while len(state):
    number = len(state)
    if first + number > most:
      raise ValueError(f"{game.name} has more than max_histories={most} public histories")
    kind, legal, after, allowed, dealt, leads_to, moves = _in_blocks(look, state, possible)
    legal &= (kind != TERMINAL)[:, None]
    row, taken = np.nonzero(legal)
    child = np.full(legal.shape, -1)
    child[row, taken] = first + number + np.arange(len(row))
    depth = np.full(number, len(levels))
    levels.append((state, possible, kind, depth, parent, action, child, chance, leads_to, moves))
    state, possible = after[row, taken], allowed[row, taken]
    parent, action = first + row, taken
    chance = np.where(kind[row] == CHANCE, dealt[row, taken], 1.0)
    first += number
  return Histories(game, *(np.concatenate(x) for x in zip(*levels)))


def best_response_worth(histories: Histories, policy: np.ndarray, player: int) -> float:
  """Returns what `player` wins on average by a best response to the other's policy.

  Args:
    histories: of the game.
    policy: `[N, M, H]` of movers, as `moves_of` numbers moves; the other's rows count.
    player: 0 or 1.
  """
  game, other = histories.game, 1 - player
  reach = _reach(histories, policy, other)
  over = histories.kind == TERMINAL
  won = jax.jit(jax.vmap(lambda s, x: game.terminal_values(s, x, player)))
  values = np.zeros(reach.shape)
  if over.any():
    values[over] = _in_blocks(lambda *x: (won(*x),), histories.state[over], reach[over])[0]
  values *= histories.possible[:, player]
  for depth, here in histories._levels(upwards=True):
    above = np.flatnonzero((histories.depth == depth - 1) & (histories.kind != TERMINAL))
    own = above[histories.kind[above] == player]
    found = np.zeros_like(values)
    np.add.at(found, histories.parent[here], values[here])
    after, there = _after(histories, own)
    worth = np.where(there, values[after, np.maximum(histories.leads_to[own], 0)], -np.inf)
    best = worth.max(axis=1)
    found[own] = np.where(np.isfinite(best), best, 0.0)
    values[above] = found[above] * histories.possible[above, player]
  prior = np.asarray(game.prior(), float)
  met = np.asarray(game.compatible_mass(jnp.asarray(histories.state[0]), prior[other], player))
  return float((prior[player] * values[0]).sum() / (prior[player] * met).sum())


def exploitability_in(histories: Histories, policy: np.ndarray) -> float:
  """Returns the mean of what best responses win from both players' policies `[N, M, H]`."""
  return sum(best_response_worth(histories, policy, p) for p in (0, 1)) / 2


def _reach(histories: Histories, policy: np.ndarray, player: int) -> np.ndarray:
  """Returns `player`'s reach of every history, what is dealt included: `[N, H]`."""
  reach = np.zeros((len(histories.kind), histories.possible.shape[-1]))
  reach[0] = np.asarray(histories.game.prior())[player]
  for depth, here in histories._levels():
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
  """Returns where each move of the movers at `nodes` leads and which there are, `[n, M, H]`."""
  moves = histories.moves[nodes]
  after = histories.child[nodes[:, None, None], np.maximum(moves, 0)]
  there = (moves >= 0) & (after >= 0)
  return np.where(there, after, 0), there


def _around(game: DeviceGame, state: jax.Array, possible: jax.Array) -> tuple[jax.Array, ...]:
  actions = jnp.arange(game.num_actions)
  moves = moves_of(game, state, possible)
  return (
    game.actor(state),
    game.legal_actions(state),
    jax.vmap(game.next_state, (None, 0))(state, actions),
    jax.vmap(game.possible_after, (None, 0, None))(state, actions, possible),
    game.chance(state),
    moves.leads_to,
    moves.action,
  )


def _in_blocks(ask: Callable[..., Any], *rows: np.ndarray) -> list[np.ndarray]:
  """Returns what a function of rows says of all of them, a block at a time."""
  number = len(rows[0])
  block = min(_BLOCK, 1 << (number - 1).bit_length())
  found = []
  for start in range(0, number, block):
    some = np.minimum(np.arange(start, start + block), number - 1)
    answers = ask(*(x[some] for x in rows))
    found.append([np.asarray(x)[: number - start] for x in answers])
  return [np.concatenate(x) for x in zip(*found)]
