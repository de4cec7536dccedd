"""What the agent that searches each move anew is worth in games of perfect information.

An agent of one seed makes one move in each state. Where the game is small, a best response to it is
found in all states that it comes to, and so are its chances against exact play. Elsewhere it plays
games against the same search without a network.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import TERMINAL, DeviceGame, Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation.finite import check_finite
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_search, make_state_network
from solvers import GTCFR
from solvers.growing.positions import position_key, search_positions
from solvers.metrics.minimax import Minimax, minimax

# States of a game for which all are enumerated.
_MOST_STATES = 20_000
# Searches at a time.
_BLOCK = 256
# Games from each seat that a seed plays where states are too many.
_GAMES = 32


class _Ply(NamedTuple):
  """States of agents after so many moves, and where each move leads among the next ply's."""

  agents: np.ndarray  # [n] twice the seed's number, plus the seat
  actor: np.ndarray  # [n]
  won: np.ndarray  # [n] by the agent, if the game is over
  children: np.ndarray  # [n, A] -1 where the agent does not go, or nobody can
  best: np.ndarray  # [n, A] which moves exact play may make


class PerfectEvaluator:
  """Measures the agent of one game and network.

  Attributes:
    game: what is played.
    network: what searches ask.
    search: settings of searches.
    exact: what all states are worth; None where they are too many.
  """

  unit = "plies"  # of `progress`

  def __init__(
    self, config: Config, *, game: DeviceGame | None = None, search: GTCFR | None = None
  ):
    """Prepares the agent of a configuration; `game` and `search` replace its own."""
    rules = config.make_rules() if game is None else game
    assert not isinstance(rules, Game)
    self.game = rules
    self.network = NetworkStates(make_state_network(config, rules))
    self.search: GTCFR = search or make_search(config, evaluation=True)
    self.exact: Minimax | None = None
    self._counted = False

  def measure(
    self, params: Any, *, seeds: Sequence[int], progress: Callable[[int, int], None] | None = None
  ) -> dict[str, list[float]]:
    """Returns what was measured of the agent of each seed, which makes its likeliest moves.

    Where all states can be enumerated, that is `exploitability`, exactly, in the game's units, and
    `not_lost`: how likely a game against exact play is not lost, each of whose best moves is as
    likely, over both seats. Elsewhere it is `score`: what a game against the same search without a
    network wins on average, after a random first move.

    Args:
      params: the network's.
      seeds: of the agents.
      progress: called with plies done and in all.

    Raises:
      ConfigError: the network's values are not finite.
    """
    first = np.asarray(self.game.initial_state())
    features = self.game.features(jnp.asarray(first), 0)
    check_finite(self.network, params, features[None], 1)
    told = progress or (lambda done, total: None)
    if not self._counted:
      self._counted = True
      try:
        self.exact = minimax(self.game, max_states=_MOST_STATES)
      except ValueError:  # there are too many
        self.exact = None
    if self.exact is None:
      return {
        "score": [self._score(params, seed, i, len(seeds), told) for i, seed in enumerate(seeds)]
      }
    return self._against_all(params, self.exact, seeds, told)

  def _against_all(
    self, params: Any, exact: Minimax, seeds: Sequence[int], told: Callable[[int, int], None]
  ) -> dict[str, list[float]]:
    plies: list[_Ply] = []
    agents = np.arange(2 * len(seeds))
    states = np.repeat(np.asarray(self.game.initial_state())[None], len(agents), axis=0)
    while len(states):
      told(min(len(plies), self.game.max_moves), self.game.max_moves + 1)
      seat = agents % 2
      actor, legal, after, won = self._around(states)
      ours = actor == seat
      # The searches are told apart by position, as those of an agent at a table.
      chosen = self._choose(
        params, states[ours], np.asarray(seeds)[agents[ours] // 2], states[ours]
      )
      legal[ours] &= np.eye(self.game.num_actions, dtype=bool)[chosen]
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

  def _score(
    self, params: Any, seed: int, number: int, total: int, told: Callable[[int, int], None]
  ) -> float:
    """Returns the mean payoff of games from both seats."""
    rng = np.random.default_rng(seed)
    seat = np.arange(2 * _GAMES) % 2
    states = np.repeat(np.asarray(self.game.initial_state())[None], len(seat), axis=0)
    moves = self.game.max_moves
    for ply in range(moves):
      told(number * moves + ply, total * moves)
      actor, legal, after, _ = self._around(states)
      alive = actor != TERMINAL
      if not alive.any():
        break
      chosen = np.array([rng.choice(np.flatnonzero(x)) if x.any() else 0 for x in legal])
      for asks, rows in ((True, alive & (actor == seat)), (False, alive & (actor != seat))):
        if ply and rows.any():
          # By game too, so that games which begin alike go on differently.
          places = (ply * len(seat) + np.flatnonzero(rows))[:, None]
          seeds = np.full(len(places), seed)
          chosen[rows] = self._choose(params, states[rows], seeds, places, asks=asks, block=_GAMES)
      states = np.where(alive[:, None], after[np.arange(len(seat)), chosen], states)
    *_, won = self._around(states)
    return float(np.where(seat == 0, won, -won).mean())

  def _around(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns who moves, what is legal `[n, A]`, where it leads, and what player 0 has won."""
    number = len(states)
    padded = np.concatenate([states, np.repeat(states[-1:], _padding(number), axis=0)])
    actor, legal, won = (np.asarray(x)[:number] for x in _look(self.game, padded))
    after = np.asarray(_follow(self.game, padded))[:number]
    return actor, legal & (actor != TERMINAL)[:, None], after, won[:, 0]

  def _choose(
    self,
    params: Any,
    states: np.ndarray,
    seeds: np.ndarray,
    numbers: np.ndarray,
    *,
    asks: bool = True,
    block: int = _BLOCK,
  ) -> np.ndarray:
    """Returns the moves of agents of `seeds` in `states`: `[n]`.

    Each search has a random key of its own, by the agent's seed and by `numbers` `[n, k]`. `block`
    of them are made at a time, with the network if the agent `asks`.
    """
    network = self.network if asks else None
    found = []
    for start in range(0, len(states), block):
      some = np.minimum(np.arange(start, start + block), len(states) - 1)
      keys = _keys(seeds[some].astype(np.uint32), numbers[some])
      policy, _ = search_positions(
        self.game, states[some], keys, search=self.search, network=network, params=params
      )
      found.append(np.asarray(policy).argmax(axis=1))
    return np.concatenate([np.zeros(0, int), *found])[: len(states)]


@jax.jit
def _keys(seeds: jax.Array, numbers: jax.Array) -> jax.Array:
  return jax.vmap(lambda seed, x: position_key(jax.random.key(seed), x))(seeds, numbers)


@functools.partial(jax.jit, static_argnames="game")
def _look(game: DeviceGame, states: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns who moves `[n]`, what is legal `[n, A]`, and what player 0 has won `[n, 1]`."""
  one = jnp.ones(1)
  return jax.vmap(
    lambda s: (game.actor(s), game.legal_actions(s), game.terminal_values(s, one, 0))
  )(states)


@functools.partial(jax.jit, static_argnames="game")
def _follow(game: DeviceGame, states: jax.Array) -> jax.Array:
  """Returns where each move leads: `[n, A, S]`."""
  actions = jnp.arange(game.num_actions)
  return jax.vmap(jax.vmap(game.next_state, (None, 0)), (0, None))(states, actions)


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


def _padding(number: int) -> int:
  """Returns how many rows fill a ply up to a power of two, so that few programs are compiled."""
  return (1 << (number - 1).bit_length()) - number
