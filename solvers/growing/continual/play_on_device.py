"""A game of rules on the device that goes on: moves by a policy, and what chance deals."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE, TERMINAL
from games.on_device.game import DeviceGame
from games.on_device.moves import moves_of
from solvers.growing.choose import draw, sample_index
from solvers.growing.continual.inserted_start import PublicState, beginning, longest_wait


class Standing(NamedTuple):
  """Where a game stands.

  Attributes:
    here: the public state, a decision or the end.
    hands: `[P]` the players' infostates.
    since: `[P, D]` public actions since each player's last decision, or since the game began, in
      turn, then -1.
  """

  here: PublicState
  hands: jax.Array
  since: jax.Array


def deal_on_device(game: DeviceGame, key: jax.Array) -> Standing:
  """Begins a game: returns its first decision."""
  pair_key, chance_key = jax.random.split(key)
  numbers, here = draw(pair_key, 2), beginning(game)
  prior = jnp.asarray(game.prior(), float)
  first = sample_index(numbers[0], prior[0] * game.compatible_mass(here.state, prior[1], 0))
  is_first = jnp.zeros_like(prior[0]).at[first].set(1.0)
  second = sample_index(numbers[1], prior[1] * game.compatible_mass(here.state, is_first, 1))
  since = jnp.full((2, longest_wait(game)), -1, jnp.int32)
  return _past_chance(game, Standing(here, jnp.stack([first, second]), since), chance_key)


def play_on_device(
  game: DeviceGame,
  standing: Standing,
  policy: jax.Array,
  key: jax.Array,
  *,
  exploration: float,
) -> tuple[Standing, jax.Array]:
  """Makes one move, and deals what chance deals after it.

  Args:
    game: the rules.
    standing: at a decision.
    policy: `[M, H]` the mover's, as `moves_of` numbers moves.
    key: a random key.
    exploration: how likely the move is uniform instead.

  Returns:
    The next decision or end, and whether the game is over.
  """
  move_key, chance_key = jax.random.split(key)
  numbers, here = draw(move_key, 2), standing.here
  player = game.actor(here.state)
  held = standing.hands[player]
  moves = moves_of(game, here.state, here.possible)
  options = moves.action[:, held] >= 0
  by_policy = jnp.where(options, policy[:, held], 0.0)
  uniform = options.astype(policy.dtype)
  by_policy = jnp.where(by_policy.sum() > 0, by_policy, uniform)
  explores = numbers[0] < exploration
  weights = jnp.where(explores, uniform, by_policy)
  chosen = sample_index(numbers[1], weights)
  hands = standing.hands.at[player].set(moves.leads_to[chosen, held].astype(jnp.int32))
  # What a player did itself is the first action since.
  since = standing.since.at[player].set(-1)
  after = _take(game, standing._replace(hands=hands, since=since), moves.action[chosen, held])
  after = _past_chance(game, after, chance_key)
  return after, game.actor(after.here.state) == TERMINAL


def _take(game: DeviceGame, standing: Standing, action: jax.Array) -> Standing:
  """Returns where a game stands after a public action."""
  here, since = standing.here, standing.since
  number = (since >= 0).sum(axis=1)
  noted = since.at[jnp.arange(2), number].set(action.astype(jnp.int32), mode="drop")
  possible = game.possible_after(here.state, action, here.possible)
  state = game.next_state(here.state, action).astype(here.state.dtype)
  return standing._replace(here=PublicState(state, possible), since=noted)


def _past_chance(game: DeviceGame, standing: Standing, key: jax.Array) -> Standing:
  if not game.deals:
    return standing

  def step(carry):
    standing, key = carry
    key, now = jax.random.split(key)
    here, hands = standing.here, standing.hands
    actions = jnp.arange(game.num_actions)
    after = jax.vmap(game.possible_after, (None, 0, None))(here.state, actions, here.possible)
    both = after[:, 0, hands[0]] & after[:, 1, hands[1]] & game.legal_actions(here.state)
    chosen = sample_index(draw(now)[()], jnp.where(both, game.chance(here.state), 0.0))
    return _take(game, standing, chosen), key

  def at_chance(carry):
    return game.actor(carry[0].here.state) == CHANCE

  return lax.while_loop(at_chance, step, (standing, key))[0]
