"""Results of growing-tree CFR against exact play, or with `--depth` a player that looks ahead.

The latter is possible where states cannot be enumerated; both then begin with a random move each.
Leaves are worth nothing, or what a checkpoint's network says, with its run's searches but for their
lengths. Each search is made anew, all games side by side.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import solvers
from benchmarks import timing
from benchmarks.growing.look_ahead import look_ahead
from games import TERMINAL, Game, TicTacToe
from rebel_jax.checkpoints import checkpoint as checkpoints
from rebel_jax.networks.value import NetworkStates
from rebel_jax.training.setup import make_search, make_state_network
from solvers.metrics import minimax, payoff_of

Values = Callable[[np.ndarray], np.ndarray]
_RANDOM_PLIES = 2  # before a player that looks ahead, for else both would repeat one game


class Played(NamedTuple):
  """Games of a search against exact play."""

  won: int
  drawn: int
  lost: int
  moves: int  # of the search
  mistakes: int  # moves that gave some of the state's value away, as the other player knows it
  seconds: float  # of the searches, compilation included


@functools.partial(jax.jit, static_argnums=(0, 1, 2))  # one program for both seats
@functools.partial(jax.vmap, in_axes=(None, None, None, 0, 0, None))
def _policy_at(
  game: Game, search: solvers.GTCFR, network: Any, state: Any, key: jax.Array, params: Any
) -> jax.Array:
  return solvers.gt_cfr(
    game, search=search, key=key, root=state, beliefs=jnp.ones((2, 1)), network=network,
    params=params,
  ).policy[:, 0]  # fmt: skip


def play_exactly(
  game: Game,
  value_of: Values,
  *,
  search: solvers.GTCFR,
  seat: int,
  number: int,
  seed: int = 0,
  random_plies: int = 0,
  network: solvers.StateFunction | None = None,
  params: Any = None,
) -> Played:
  """Plays `number` games, the search as player `seat`, which makes its likeliest move."""
  # `value_of` `[..., S]`: worth to player 0; the other player takes any move of the best, equally
  # often.
  rng = np.random.default_rng(seed)

  states = np.repeat(np.asarray(game.initial_state())[None], number, axis=0)
  moves = mistakes = 0
  seconds = 0.0
  for ply in range(game.max_moves):
    actor, legal = game.actor(states), game.legal_actions(states)
    alive = actor != TERMINAL
    if not alive.any():
      break
    above = np.repeat(states, game.num_actions, axis=0)
    after = game.next_states(above, np.tile(np.arange(game.num_actions), number))
    after = after.reshape(number, game.num_actions, -1)
    sign = np.where(actor == 0, 1.0, -1.0)[:, None]
    worth = np.where(legal, np.nan_to_num(value_of(after)) * sign, -np.inf)
    best = worth == worth.max(axis=1, keepdims=True)
    policy = best / best.sum(axis=1, keepdims=True)
    ours = alive & (actor == seat) & (ply >= random_plies)
    if ply < random_plies:
      policy = np.where(alive[:, None], legal, best)
    if ours.any():
      keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), ply), number)
      once = functools.partial(_policy_at, game, search, network, states, keys, params)
      searched, took, _ = timing.timed(once)
      likeliest, seconds = np.asarray(searched).argmax(axis=1), seconds + took
      policy = np.where(ours[:, None], np.eye(game.num_actions)[likeliest], policy)
    policy = policy / policy.sum(axis=1, keepdims=True)
    chosen = np.array([rng.choice(game.num_actions, p=row) for row in policy])
    rows = np.arange(number)
    moves += int(ours.sum())
    mistakes += int((ours & ~best[rows, chosen]).sum())
    states = np.where(alive[:, None], after[rows, chosen], states)
  ended = payoff_of(game, states) * (1 if seat == 0 else -1)
  counts = (int((ended > 0).sum()), int((ended == 0).sum()), int((ended < 0).sum()))
  return Played(*counts, moves, mistakes, seconds)


def main(
  simulations: tuple[int, ...] = (25, 100, 400),
  checkpoint: str | None = None,
  depth: int | None = None,
  seed: int = 0,
  games: int = 100,
) -> None:
  """Plays from both seats.

  Args:
    simulations: of each search.
    checkpoint: a run's folder, of a game of perfect information.
    depth: plies that the other player looks ahead; all by default.
    seed: of searches and of the other player.
    games: from each seat.
  """
  game: Any = TicTacToe()
  search, network, params = solvers.GTCFR(children=1), None, None
  if checkpoint:
    policy = checkpoints.load(checkpoint)
    game = policy.config.make_game()
    if game.num_infostates > 1:
      raise SystemExit(f"--checkpoint {checkpoint} is not of a game of perfect information")
    search = make_search(policy.config, evaluation=True)
    network, params = NetworkStates(make_state_network(policy.config, game)), policy.params
  value_of = look_ahead(game, depth - 1) if depth else minimax(game).value_of
  for number in simulations:
    search = dataclasses.replace(search, simulations=number)
    for seat in (0, 1):
      played = play_exactly(
        game,
        value_of,
        search=search,
        seat=seat,
        number=games,
        seed=seed,
        random_plies=_RANDOM_PLIES if depth else 0,
        network=network,
        params=params,
      )
      timing.say(
        "exact_play",
        game=game.name,
        simulations=number,
        children=search.children,
        checkpoint=checkpoint,
        depth=depth,
        seat=seat,
        **played._asdict(),
      )


if __name__ == "__main__":
  timing.command(main)
