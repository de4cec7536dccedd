"""A game that goes on: moves by a policy, and what chance deals."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games import CHANCE, TERMINAL, Game
from games.arrays import one
from solvers.growing.choose import draw, sample_index
from solvers.growing.continual.chain import PublicState, beginning, follow_action, longest_wait


class Standing(NamedTuple):
  """Where a game stands.

  Attributes:
    here: the public state, a decision or the end.
    hands: `[P]` the players' infostates.
    since: `[P, D]` public actions since each player's last decision, or since the game began, in
      turn, then -1; None in games of perfect information.
  """

  here: PublicState
  hands: jax.Array
  since: jax.Array | None


def deal(rules: Game, key: jax.Array) -> Standing:
  """Begins a game: returns its first decision."""
  pair_key, chance_key = jax.random.split(key)
  numbers, here = draw(pair_key, 2), beginning(rules)
  prior = jnp.asarray(rules.prior()) * jnp.ones(())
  met = rules.compatible_mass(here.state[None], prior[1:], 0)[0]
  first = sample_index(numbers[0], prior[0] * met)
  is_first = jnp.zeros_like(prior[:1]).at[0, first].set(1.0)
  met = rules.compatible_mass(here.state[None], is_first, 1)[0]
  second = sample_index(numbers[1], prior[1] * met)
  since = jnp.full((2, longest), -1, jnp.int32) if (longest := longest_wait(rules)) else None
  return _past_chance(rules, Standing(here, jnp.stack([first, second]), since), chance_key)


def play_on(
  rules: Game,
  standing: Standing,
  policy: jax.Array,
  key: jax.Array,
  *,
  exploration: Any,
) -> tuple[Standing, jax.Array]:
  """Makes one move, and deals what chance deals after it.

  Args:
    rules: of the game.
    standing: at a decision.
    policy: `[M, H]` the mover's, as `moves_of` numbers moves.
    key: a random key.
    exploration: `[]` how likely the move is uniform instead.

  Returns:
    The next decision or end, and whether the game is over.
  """
  move_key, chance_key = jax.random.split(key)
  numbers, here = draw(move_key, 2), standing.here
  player = one(rules.actor, here.state)
  held = standing.hands[player]
  moves = one(rules.moves_of, here.state, here.possible)
  options = moves.action[:, held] >= 0
  by_policy = jnp.where(options, policy[:, held], 0.0)
  uniform = options.astype(policy.dtype)
  by_policy = jnp.where(by_policy.sum() > 0, by_policy, uniform)
  explores = numbers[0] < exploration
  weights = jnp.where(explores, uniform, by_policy)
  chosen = sample_index(numbers[1], weights)
  mover = jnp.arange(2, dtype=jnp.int32) == player.astype(jnp.int32)
  moved = mover, moves.leads_to[chosen, held].astype(jnp.int32)
  if standing.since is not None:  # what a player did itself is the first action since
    standing = standing._replace(since=standing.since.at[player].set(-1))
  after = _past_chance(rules, _take(rules, standing, moves.action[chosen, held], moved), chance_key)
  return after, one(rules.actor, after.here.state) == TERMINAL


def _take(
  rules: Game,
  standing: Standing,
  action: jax.Array,
  moved: tuple[jax.Array, jax.Array] | None = None,
) -> Standing:
  """Returns the state of a game after a public action.

  Args:
    rules, standing, action: before and of the action.
    moved: `[P]` which player made it, and the infostate that it holds then.
  """
  here, hands, since = standing
  if since is not None:
    number = (since >= 0).sum(axis=1)
    since = since.at[jnp.arange(2), number].set(action.astype(jnp.int32), mode="drop")
  hands = one(rules.held_after, here.state, action, hands)
  if moved is not None:
    hands = jnp.where(moved[0], moved[1], hands)
  return Standing(follow_action(rules, here, action), hands, since)


def _past_chance(rules: Game, standing: Standing, key: jax.Array) -> Standing:
  if not rules.has_chance:
    return standing

  def step(carry):
    standing, key = carry
    key, now = jax.random.split(key)
    actions = jnp.arange(rules.num_actions, dtype=jnp.int32)
    state, possible, hands = (
      jnp.broadcast_to(x, (len(actions), *x.shape)) for x in (*standing.here, standing.hands)
    )
    after = rules.possible_after(state, actions, possible)
    hands = rules.held_after(state, actions, hands)
    both = jnp.take_along_axis(after, hands[..., None], axis=2).all(axis=(1, 2))
    fits = both & one(rules.legal_actions, standing.here.state)
    chosen = sample_index(draw(now)[()], jnp.where(fits, rules.chance(state, actions)[0], 0.0))
    return _take(rules, standing, chosen), key

  def at_chance(carry):
    return one(rules.actor, carry[0].here.state) == CHANCE

  return lax.while_loop(at_chance, step, (standing, key))[0]
