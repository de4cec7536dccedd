"""Measures of the agent whose searches grow trees (Player of Games, section 4.1).

Exploitability is exact for each seed where all public histories or states can be written out;
elsewhere the agent plays games against the same search without a network.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import solvers
from games import TERMINAL, Game
from rebel_jax.config import Config
from rebel_jax.evaluation.measurement import Measurement, Measures, Show, check_finite
from rebel_jax.networks.value import NetworkStates
from rebel_jax.training.chain_play import won_by
from rebel_jax.training.self_play import where_lanes
from rebel_jax.training.setup import make_ground, make_search, make_state_network
from solvers import GTCFR, tuning
from solvers.growing import (
  How,
  Left,
  PublicState,
  Standing,
  TreeGround,
  deal,
  history_policies,
  next_starts,
  play_on,
  search_decisions,
  search_each,
)
from solvers.metrics import Minimax, exploitability_in, minimax, payoff_of, public_histories

# Public histories of a game, or states where all see everything, of which all are written out.
_MOST_HISTORIES = 50_000
_MOST_STATES = 20_000
# Games from each seat that the agent of a seed plays where histories are too many.
_GAMES = 32
# Statistics over several seeds.
_ENDS: dict[str, Callable] = {"mean": lambda x: sum(x) / len(x), "min": min, "max": max}

Progress = Callable[[int, int], None]


class ChainEvaluator(Measures):
  """Measures the agent of one game and network."""

  def __init__(
    self,
    config: Config,
    *,
    game: Game | None = None,
    ground: Any = None,
    search: GTCFR | None = None,
  ):
    """Prepares the agent of a configuration; `game`, `ground` and `search` replace its own."""
    self.game = config.make_game() if game is None else game
    self.search = search or make_search(config, evaluation=True)
    if not isinstance(ground, TreeGround):  # a training's trees have other room than these
      ground = make_ground(config, self.game, self.search)
    self.ground, self._config = ground, config
    network = NetworkStates(make_state_network(config, self.game))
    self.how = How(self.search.of_any_length(), network)
    self.about = {"mix": self.search.mix, "alternating": self.search.alternating}

  @functools.cached_property
  def whole(self) -> Any:
    """All public histories, or minimax values of all states; None where they are too many."""
    game, tree = self.ground.rules, getattr(self.ground, "tree", None)
    try:
      if game.num_infostates == 1 and tree is None:
        return minimax(game, max_states=_MOST_STATES)
      most = _MOST_HISTORIES if tree is None else tree.num_nodes
      return public_histories(game, max_histories=most)
    except ValueError:  # there are too many
      return None

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    """Yields mean, least and most of each measure over as many seeds as playthroughs."""
    growing, search = self._config.growing, self.search
    number = growing.final_playthroughs if final else growing.eval_playthroughs
    about = {"simulations": search.simulations, "per_update": search.per_update}
    units = "plies" if self.ground.rules.num_infostates == 1 else "searches"
    size, found = max(tuning.pieces().chains // 8, 1), dict[str, list[float]]()
    for start in range(0, number, size):
      part = [(seed + i) % 2**32 for i in range(start, min(start + size, number))]

      def progress(done: int, total: int, start: int = start, count: int = len(part)) -> None:
        at = done + total * start // count, total * number // count
        show(f"{number} seeds", *at, units, "")

      measures = self.of_seeds(params, part, progress)
      found = {name: found.get(name, []) + values for name, values in measures.items()}
      row = {f"{name}_{end}": of(x) for name, x in found.items() for end, of in _ENDS.items()}
      values = next(iter(found.values()))
      yield Measurement(row | {"seeds": len(values)} | about, values)

  def of_seeds(
    self, params: Any, seeds: Sequence[int], progress: Progress = lambda done, total: None
  ) -> dict[str, list[float]]:
    """Returns one measurement for each seed's agent."""
    # `exploitability` where all public histories can be written out: an agent of one seed has one
    # policy, by a search at every decision from the end of the same player's last one. With perfect
    # information, where it makes its likeliest moves, also `not_lost`: the probability not to lose
    # to exact play, which draws one of its best moves uniformly, over both seats. Elsewhere
    # `score`: its mean payoff, as many games from either seat, against the same search without a
    # network; with perfect information after a random first move.
    game = self.ground.rules
    features = jnp.asarray(game.features(game.initial_state()[None], 0))
    uniform = jnp.full((1, 2, game.num_infostates), 1 / game.num_infostates)
    check_finite(self.how.network, params, solvers.StateQuery(features, uniform))
    if self.whole is None:
      scores = [self._score(params, s, i, len(seeds), progress) for i, s in enumerate(seeds)]
      return {"score": scores}
    if isinstance(self.whole, Minimax):
      choose = functools.partial(self.likeliest_moves, params)
      return against_all(game, self.whole, choose, seeds, progress)
    policies = history_policies(
      self.whole,
      search=self.search,
      seeds=tuple(seeds),
      network=self.how.network,
      params=params,
      ground=self.ground if isinstance(self.ground, TreeGround) else None,
      progress=progress,
    )
    return {"exploitability": [exploitability_in(self.whole, policy) for policy in policies]}

  def likeliest_moves(self, params: Any, states: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Returns the moves of agents of `seeds` `[n]` in `states` `[n, S]` that all see: `[n]`."""
    found = [np.zeros(0, int)]
    size = tuning.pieces().states
    for start in range(0, len(states), size):
      some = np.minimum(np.arange(start, start + size), len(states) - 1)
      here = PublicState(jnp.asarray(states[some]), jnp.ones((size, 2, 1), bool))
      searched = search_decisions(
        self.ground, None, here, None, np.zeros(size, np.int32), _keys(seeds[some]),
        np.ones(size, bool), how=self.how, rounds=self.search.rounds, params=params,
      )  # fmt: skip
      found.append(np.asarray(searched.policy)[:, :, 0].argmax(axis=1))
    return np.concatenate(found)[: len(states)]

  def _score(self, params: Any, seed: int, number: int, total: int, progress: Progress) -> float:
    """Returns the mean payoff of games from both seats."""
    game, key = self.ground.rules, jax.random.key(seed)
    seat = np.arange(2 * _GAMES) % 2
    table: tuple[Standing, Left] = (
      jax.vmap(functools.partial(deal, game))(jax.random.split(key, len(seat))),
      # What each player's last search left.
      jax.tree.map(lambda x: jnp.broadcast_to(x, (len(seat), 2, *x.shape)), self.ground.nothing()),
    )
    over: Any = np.zeros(len(seat), bool)
    for ply in range(game.max_moves):
      progress(number * game.max_moves + ply, total * game.max_moves)
      if np.all(over):
        break
      now, random = jax.random.fold_in(key, ply), ply == 0 and game.num_infostates == 1
      table, over = _play(
        self.ground, table, seat, over, now, random, self.search.rounds, params, how=self.how
      )
    return float(np.mean(won_by(game, table[0], seat)))


@functools.partial(jax.jit, static_argnames="how")
def _play(
  ground: Any, table: tuple[Standing, Left], seat: Any, over: Any, key: jax.Array, random: Any,
  rounds: Any, params: Any, *, how: How,
) -> tuple[tuple[Standing, Left], jax.Array]:  # fmt: skip
  """Makes a move in games that are not over; who sits in `seat` `[G]` searches with the network."""
  rules, (standing, left) = ground.rules, table
  each, here = jnp.arange(len(seat)), standing.here
  search_key, move_key = jax.random.split(key)
  mover = jnp.minimum(rules.actor(here.state), 1)
  before, since = jax.tree.map(lambda x: x[each, mover], (left, standing.since))
  about = next_starts(ground, before, here, since, mover)
  keys = jax.random.split(search_key, len(seat))
  asks = mover == seat
  found, other = (
    search_each(ground, about, keys, active & ~over, how=how, rounds=rounds, params=params)
    for how, active in ((how, asks), (how._replace(network=None), ~asks))
  )
  found = where_lanes(asks, found, other)
  policy = found.policy
  if rules.num_infostates == 1:
    policy = jax.nn.one_hot(policy.argmax(axis=1), policy.shape[1], axis=1)
  go = functools.partial(play_on, rules, exploration=jnp.where(random, 1.0, 0.0))
  after, ended = jax.vmap(go)(standing, policy, jax.random.split(move_key, len(seat)))
  left = jax.tree.map(lambda x, y: x.at[each, mover].set(y), left, found.left)
  return (where_lanes(over, standing, after), left), over | ended


def against_all(
  game: Game,
  exact: Minimax,
  choose: Callable[[np.ndarray, np.ndarray], np.ndarray],
  seeds: Sequence[int],
  progress: Progress,
) -> dict[str, list[float]]:
  """Returns `exploitability` and `not_lost` of the agent of each seed; see `ChainEvaluator`."""

  def rise(agents: np.ndarray, states: np.ndarray, ply: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns `agents`' least payoff in `states`, and the chance not to lose to exact play."""
    # Agents are twice the seed's number, plus the seat; their own states have one move.
    if not len(states):
      return np.zeros(1), np.zeros(1)
    progress(min(ply, game.max_moves), game.max_moves + 1)
    seat, actor, won = agents % 2, game.actor(states), payoff_of(game, states)
    ours, over = actor == seat, actor == TERMINAL
    legal = game.legal_actions(states) & ~over[:, None]
    keys = np.asarray(seeds, np.uint32)[agents[ours] // 2]
    legal[ours] &= np.eye(game.num_actions, dtype=bool)[choose(states[ours], keys)]
    row, action = np.nonzero(legal)
    after, worth = game.next_states(states[row], action), np.full(legal.shape, -np.inf)
    worth[row, action] = exact.value_of(after) * np.where(actor == 0, 1, -1)[row]
    best = legal & (worth == worth.max(axis=1, keepdims=True))
    unique, number = np.unique(
      np.concatenate([agents[row, None], after], axis=1), axis=0, return_inverse=True
    )
    children = np.zeros(legal.shape, int)
    children[row, action] = number.reshape(-1)
    below = rise(unique[:, 0], unique[:, 1:].astype(states.dtype), ply + 1)
    least, kept = (x[children] for x in below)
    least = np.where(legal, least, np.inf).min(axis=1)
    kept = np.where(best, kept, 0.0).sum(axis=1) / np.maximum(best.sum(axis=1), 1)
    won = np.where(seat == 0, won, -won)
    return np.where(over, won, least), np.where(over, won >= 0, kept)

  agents = np.arange(2 * len(seeds))
  start = np.repeat(np.asarray(game.initial_state())[None], len(agents), axis=0)
  least, kept = (x.reshape(-1, 2).mean(axis=1) for x in rise(agents, start, 0))
  return {"exploitability": (0.0 - least).tolist(), "not_lost": kept.tolist()}


_keys = jax.jit(jax.vmap(jax.random.key))
