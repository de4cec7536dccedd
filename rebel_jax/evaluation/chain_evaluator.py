"""Measures of the agent whose searches grow trees (Player of Games, section 4.1).

Where all public histories or states of a game can be written out, its exploitability is exact for
each seed. Elsewhere it plays games against the same search without a network.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import solvers
from games import DeviceGame, Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation import positions
from rebel_jax.evaluation.finite import check_finite
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.chain_play import won_by
from rebel_jax.training.growing_setup import make_ground, make_search, make_state_network
from rebel_jax.training.self_play import where_lanes
from solvers import GTCFR
from solvers.growing.continual.grounds import TreeGround
from solvers.growing.continual.play_on import Standing, deal, play_on
from solvers.growing.continual.policies import history_policies
from solvers.growing.continual.search_each import How, Search, next_starts, search_each
from solvers.growing.continual.start import Left
from solvers.metrics.histories import exploitability_in, public_histories
from solvers.metrics.minimax import minimax

# Public histories of a game, or states where all see everything, of which all are written out.
_MOST_HISTORIES = 50_000
_MOST_STATES = 20_000
# Games from each seat that a seed plays where they are too many.
_GAMES = 32

Progress = Callable[[int, int], None]


class ChainEvaluator:
  """Measures the agent of one game and network.

  Attributes:
    game: what is played.
    ground: of its searches.
    network: what searches ask.
    search: settings of searches.
  """

  def __init__(
    self,
    config: Config,
    *,
    game: Game | DeviceGame | None = None,
    ground: Any = None,
    search: GTCFR | None = None,
  ):
    """Prepares the agent of a configuration; `game`, `ground` and `search` replace its own.

    Raises:
      ConfigError: the tree of a `Game` is too large to be written out.
    """
    self.game = config.make_rules() if game is None else game
    self.search = search or make_search(config, evaluation=True)
    if not isinstance(ground, TreeGround):  # a training's trees have other room than these
      ground = make_ground(config, self.game, self.search)
    self.ground = ground
    self.network = NetworkStates(make_state_network(config, self.game))

  @property
  def unit(self) -> str:
    """What `progress` counts."""
    return "plies" if self.ground.rules.num_infostates == 1 else "searches"

  @functools.cached_property
  def whole(self) -> Any:
    """All public histories, or what all states are worth; None where they are too many."""
    game = self.ground.rules
    try:
      if game.num_infostates == 1:
        return minimax(game, max_states=_MOST_STATES)
      return public_histories(game, max_histories=_MOST_HISTORIES)
    except ValueError:  # there are too many
      return None

  def measure(
    self, params: Any, *, seeds: Sequence[int], progress: Progress | None = None
  ) -> dict[str, list[float]]:
    """Returns what was measured of the agent of each seed.

    Where all public histories can be written out, that is `exploitability`, in the game's units: an
    agent of one seed has one policy, found by searching at every decision from what the same
    player's last search left. In games of perfect information, where it makes its likeliest moves,
    that is of all states that it comes to, and there is `not_lost`: how likely a game against exact
    play is not lost, each of whose best moves is as likely, over both seats. Elsewhere it is
    `score`: what it wins on average, as many games from either seat, from the same search without
    a network; in games of perfect information after a random first move.

    Args:
      params: the network's.
      seeds: of the agents.
      progress: called with what is done and in all.

    Raises:
      ConfigError: the network's values are not finite.
    """
    game, told = self.ground.rules, progress or (lambda done, total: None)
    features = game.features(jnp.asarray(game.initial_state()), 0)
    check_finite(self.network, params, features[None], game.num_infostates)
    how = dict(search=self.search, network=self.network, params=params)
    if isinstance(self.game, Game):
      tree = game.tree
      policies = solvers.resolved_policies(
        self.game, tree, seeds=tuple(seeds), progress=progress, **how
      )
      return {"exploitability": [float(solvers.exploitability(tree, x)) for x in policies]}
    if self.whole is None:
      scores = [self._score(params, s, i, len(seeds), told) for i, s in enumerate(seeds)]
      return {"score": scores}
    if game.num_infostates == 1:
      return positions.against_all(self.ground, self.whole, seeds=seeds, told=told, **how)
    policies = history_policies(self.whole, seeds=tuple(seeds), progress=progress, **how)
    return {"exploitability": [exploitability_in(self.whole, policy) for policy in policies]}

  def _score(self, params: Any, seed: int, number: int, total: int, told: Progress) -> float:
    """Returns the mean payoff of games from both seats."""
    game, key = self.ground.rules, jax.random.key(seed)
    seat = np.arange(2 * _GAMES) % 2
    how = How(self.search.of_any_length(), self.network)
    table, over = _begin(self.ground, key, len(seat)), np.zeros(len(seat), bool)
    for ply in range(game.max_moves):
      told(number * game.max_moves + ply, total * game.max_moves)
      if over.all():
        break
      now, rounds = jax.random.fold_in(key, ply), self.search.rounds
      random = ply == 0 and game.num_infostates == 1
      table, over = _play(self.ground, table, seat, over, now, random, rounds, params, how=how)
      over = np.asarray(over)
    return float(np.mean(won_by(game, table.standing, seat)))


class _Table(NamedTuple):
  """Games that are played side by side, and what each player's last search left."""

  standing: Standing
  left: Left


@functools.partial(jax.jit, static_argnames="number")
def _begin(ground: Any, key: jax.Array, number: int) -> _Table:
  standing = jax.vmap(functools.partial(deal, ground.rules))(jax.random.split(key, number))
  nothing = ground.nothing()
  return _Table(
    standing, jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), nothing)
  )


@functools.partial(jax.jit, static_argnames="how")
def _play(
  ground: Any, table: _Table, seat: Any, over: Any, key: jax.Array, random: Any, rounds: Any,
  params: Any, *, how: How,
) -> tuple[_Table, jax.Array]:  # fmt: skip
  """Makes a move in games that are not over; who sits in `seat` `[G]` searches with the network."""
  rules, (standing, left) = ground.rules, table
  each, here = jnp.arange(len(seat)), standing.here
  search_key, move_key = jax.random.split(key)
  mover = jnp.minimum(jax.vmap(rules.actor)(here.state), 1)
  before, since = jax.tree.map(lambda x: x[each, mover], (left, standing.since))
  about = Search(next_starts(ground, before, here, since, mover), here)
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
  return _Table(where_lanes(over, standing, after), left), over | ended
