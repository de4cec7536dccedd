"""Best responses to agents that make one move in each state of a game of perfect information."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import TERMINAL, DeviceGame
from solvers import GTCFR, StateFunction
from solvers.growing.continual.grounds import RulesGround
from solvers.growing.continual.search_each import How, Search
from solvers.growing.continual.start import PublicState, alone, decision_key
from solvers.metrics.minimax import Minimax

# Searches at a time.
_BLOCK = 256


class _Ply(NamedTuple):
  """States of agents after so many moves, and where each move leads among the next ply's."""

  agents: np.ndarray  # [n] twice the seed's number, plus the seat
  actor: np.ndarray  # [n]
  won: np.ndarray  # [n] by the agent, if the game is over
  children: np.ndarray  # [n, A] -1 where the agent does not go, or nobody can
  best: np.ndarray  # [n, A] which moves exact play may make


def against_all(
  ground: RulesGround,
  exact: Minimax,
  *,
  search: GTCFR,
  network: StateFunction | None,
  params: Any,
  seeds: Sequence[int],
  told: Callable[[int, int], None],
) -> dict[str, list[float]]:
  """Returns `exploitability` and `not_lost` of the agent of each seed; see `ChainEvaluator`.

  Args:
    ground: of a game of perfect information.
    exact: its states' worth.
    search, network, params: of the agents.
    seeds: of the agents.
    told: called with plies done and in all.
  """
  game, plies = ground.rules, list[_Ply]()
  agents = np.arange(2 * len(seeds))
  states = np.repeat(np.asarray(game.initial_state())[None], len(agents), axis=0)
  while len(states):
    told(min(len(plies), game.max_moves), game.max_moves + 1)
    seat = agents % 2
    actor, legal, after, won = _around(game, states)
    ours = actor == seat
    keys = np.asarray(seeds, np.uint32)[agents[ours] // 2]
    chosen = likeliest_moves(
      ground, states[ours], keys, search=search, network=network, params=params
    )
    legal[ours] &= np.eye(game.num_actions, dtype=bool)[chosen]
    worth = np.nan_to_num(exact.value_of(after)) * np.where(actor == 0, 1, -1)[:, None]
    worth = np.where(legal, worth, -np.inf)
    best = legal & (worth == worth.max(axis=1, keepdims=True))
    row, action = np.nonzero(legal)
    keyed = np.concatenate([agents[row, None], after[row, action]], axis=1)
    unique, number = np.unique(keyed, axis=0, return_inverse=True)
    children = np.full(legal.shape, -1)
    children[row, action] = number.reshape(-1)
    plies.append(_Ply(agents, actor, np.where(seat == 0, won, -won), children, best))
    agents, states = unique[:, 0], unique[:, 1:].astype(states.dtype)
  least, kept = _rise(plies)
  pairs = least.reshape(-1, 2), kept.reshape(-1, 2)
  return {
    "exploitability": (0.0 - pairs[0].mean(axis=1)).tolist(),
    "not_lost": pairs[1].mean(axis=1).tolist(),
  }


def likeliest_moves(
  ground: RulesGround,
  states: np.ndarray,
  seeds: np.ndarray,
  *,
  search: GTCFR,
  network: StateFunction | None,
  params: Any,
) -> np.ndarray:
  """Returns the moves of agents of `seeds` `[n]` in `states` `[n, S]`: `[n]`."""
  found, how = [np.zeros(0, int)], How(search.of_any_length(), network)
  for start in range(0, len(states), _BLOCK):
    some = np.minimum(np.arange(start, start + _BLOCK), len(states) - 1)
    policy = _search(ground, states[some], seeds[some], search.rounds, params, how=how)
    found.append(np.asarray(policy).argmax(axis=1))
  return np.concatenate(found)[: len(states)]


@functools.partial(jax.jit, static_argnames="how")
def _search(
  ground: RulesGround, states: Any, seeds: Any, rounds: Any, params: Any, *, how: How
) -> jax.Array:
  """Returns policies `[n, A]` of searches from states."""

  def one(state: jax.Array, seed: jax.Array) -> jax.Array:
    beliefs = jnp.ones((2, 1))
    here = PublicState(state, beliefs > 0)
    key = decision_key(jax.random.key(seed), state)
    row = Search(alone(ground.rules, here, beliefs), here)
    return ground.search(row, key, how, rounds, params).policy[:, 0]

  return jax.vmap(one)(states, seeds)


def _around(game: DeviceGame, states: np.ndarray) -> tuple[np.ndarray, ...]:
  """Returns who moves, what is legal `[n, A]`, where it leads, and what player 0 has won."""
  number = len(states)
  rows = 1 << (number - 1).bit_length()  # so that few programs are compiled
  padded = np.concatenate([states, np.repeat(states[-1:], rows - number, axis=0)])
  actor, legal, after, won = (np.asarray(x)[:number] for x in _look(game, padded))
  return actor, legal & (actor != TERMINAL)[:, None], after, won[:, 0]


@functools.partial(jax.jit, static_argnames="game")
def _look(game: DeviceGame, states: jax.Array) -> tuple[jax.Array, ...]:
  one, actions = jnp.ones(1), jnp.arange(game.num_actions)

  def look(s: jax.Array) -> tuple[jax.Array, ...]:
    after = jax.vmap(game.next_state, (None, 0))(s, actions)
    return game.actor(s), game.legal_actions(s), after, game.terminal_values(s, one, 0)

  return jax.vmap(look)(states)


def _rise(plies: Sequence[_Ply]) -> tuple[np.ndarray, np.ndarray]:
  """Returns, at the start, each agent's least payoff and its chance not to lose to exact play."""
  below = np.zeros(1), np.zeros(1)
  for ply in reversed(plies):
    there, over = ply.children >= 0, ply.actor == TERMINAL
    least, kept = (x[np.maximum(ply.children, 0)] for x in below)
    least = np.where(there, least, np.inf).min(axis=1)
    moves = np.maximum(ply.best.sum(axis=1), 1)
    kept = np.where(ply.best, kept, 0.0).sum(axis=1) / moves
    # The agent's own states have one move, which is the best of those that are left.
    below = np.where(over, ply.won, least), np.where(over, ply.won >= 0, kept)
  order = np.argsort(plies[0].agents)
  return below[0][order], below[1][order]
