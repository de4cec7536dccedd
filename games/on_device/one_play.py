"""One play of a game of rules on the device, in numpy's arrays and one state at a time."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.game import Words
from games.on_device.game import DeviceGame, check_device_game
from games.on_device.moves import moves_of


class OnePlay(Words):
  """Answers for a `DeviceGame` what somebody who deals one game of it asks a `Game`.

  A state is a row `[S + 2 * H]`: the rules' public state, then which infostates are possible.
  People read what the rules' attribute `words` says, a `Words`, if there is one.

  Attributes:
    rules: the game on the device.
  """

  def __init__(self, rules: DeviceGame):
    """Takes the rules.

    Raises:
      TypeError: `rules` are something else.
    """
    check_device_game(rules)
    self.rules = rules
    self.name = rules.name
    self.num_infostates, self.num_actions = rules.num_infostates, rules.num_actions
    self._words: Words = getattr(rules, "words", None) or Words()
    self._width = len(np.asarray(rules.initial_state()))
    self._look = jax.jit(lambda s, p: _look(rules, s, p))
    first = rules.initial_state()
    self._met = [
      jax.jit(lambda x, p=p: rules.compatible_mass(jnp.asarray(first), x, p)) for p in (0, 1)
    ]
    self._next = jax.jit(lambda s, p, a: (rules.next_state(s, a), rules.possible_after(s, a, p)))
    self._outcomes = jax.jit(lambda s, p: _outcomes(rules, s, p))
    self._worth = jax.jit(lambda s, h: _worth(rules, s, h))

  # Public states.

  def initial_state(self) -> np.ndarray:
    """Returns the state before the first public action: `[S + 2 * H]`."""
    return _packed(self.rules.initial_state(), np.asarray(self.rules.prior()) > 0)

  def parts(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rules' public state `[S]` and what is possible there, `[P, H]` bool."""
    return state[: self._width], state[self._width :].reshape(2, -1) > 0

  def actor(self, states: np.ndarray) -> np.ndarray:
    """Returns who moves in `states` `[n, S + 2 * H]`: `[n]`."""
    return np.array([int(self._at(state)[0]) for state in states])

  def legal_actions(self, states: np.ndarray) -> np.ndarray:
    """Returns which public actions exist in `states`: `[n, A]` bool."""
    return np.stack([np.asarray(self._at(state)[1]) for state in states])

  def next_states(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Returns the states after legal `actions` `[n]`."""
    rows = zip(states, actions)
    return np.stack([_packed(*self._next(*self.parts(s), np.int32(a))) for s, a in rows])

  # Private information, and one play.

  def prior(self) -> np.ndarray:
    """Returns beliefs before the first public action: `[P, H]`."""
    return np.asarray(self.rules.prior())

  def infostate_parents(self, states: np.ndarray, actions: np.ndarray) -> None:
    """Returns None: nobody's infostate changes but the mover's, by its own move."""
    del states, actions

  def deal(self, rng: np.random.Generator) -> list[int]:
    """Returns what both players hold at the start, drawn from the prior."""
    prior, held = self.prior().astype(float), list[int]()
    met = self._met[0](prior[1])
    for player in (0, 1):
      weights = prior[player] * np.asarray(met, float)
      held.append(int(rng.choice(len(weights), p=weights / weights.sum())))
      met = self._met[1](np.eye(self.num_infostates)[held[0]])
    return held

  def numbered_moves(self, state: np.ndarray, player: int, infostate: int) -> list[tuple[int, ...]]:
    """Returns the moves of `moves`, before each its number as `moves_of` counts."""
    actor, _, leads_to, action = self._at(state)
    if int(actor) != player:
      return []
    to, seen = (np.asarray(x)[:, infostate].tolist() for x in (leads_to, action))
    return [(m, seen[m], to[m]) for m in range(len(seen)) if seen[m] >= 0]

  def moves(self, state: np.ndarray, player: int, infostate: int) -> list[tuple[int, int]]:
    """Returns the moves of `player`, whose turn it is: public action, and what is held then."""
    return [(a, held) for _, a, held in self.numbered_moves(state, player, infostate)]

  def sample_chance(
    self, state: np.ndarray, infostates: Sequence[int], rng: np.random.Generator
  ) -> int:
    """Returns an outcome of chance in `state`, given what the players hold."""
    chance, after = (np.asarray(x) for x in self._outcomes(*self.parts(state)))
    fits = (
      after[:, 0, infostates[0]] & after[:, 1, infostates[1]] & self.legal_actions(state[None])[0]
    )
    weights = np.where(fits, np.asarray(chance, float), 0.0)
    return int(rng.choice(len(weights), p=weights / weights.sum()))

  def payoff(self, state: np.ndarray, infostates: Sequence[int]) -> float:
    """Returns what player 0 wins in a terminal `state` where players hold `infostates`."""
    return float(self._worth(self.parts(state)[0], np.array(infostates)))

  def _at(self, state: np.ndarray) -> tuple[jax.Array, ...]:
    return self._look(*self.parts(state))

  # What a person reads.

  def action_name(self, action: int) -> str:
    return self._words.action_name(action)

  def describe(self, history: Sequence[int], action: int) -> str:
    return self._words.describe(history, action)

  def situation(self, history: Sequence[int]) -> str:
    return self._words.situation(history)

  def explain(self) -> str:
    return self._words.explain()

  def infostate_name(self, player: int, infostate: int) -> str:
    return self._words.infostate_name(player, infostate)

  def hidden_move_name(self, player: int, action: int, infostate: int) -> str:
    return self._words.hidden_move_name(player, action, infostate)

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, OnePlay) or repr(self.rules) != repr(other.rules):
      return False
    return all(
      np.array_equal(getattr(self, x)(), getattr(other, x)()) for x in ("initial_state", "prior")
    )

  def __hash__(self) -> int:
    return hash(repr(self.rules))

  def __repr__(self) -> str:
    return f"games.make_on_device({self.name!r})"


def _packed(state: Any, possible: Any) -> np.ndarray:
  return np.concatenate([np.asarray(state), np.asarray(possible).ravel()]).astype(np.int32)


def _look(game: DeviceGame, state: jax.Array, possible: jax.Array) -> tuple[jax.Array, ...]:
  return game.actor(state), game.legal_actions(state), *moves_of(game, state, possible)


def _outcomes(game: DeviceGame, state: jax.Array, possible: jax.Array) -> tuple[jax.Array, ...]:
  actions = jnp.arange(game.num_actions)
  after = jax.vmap(game.possible_after, (None, 0, None))(state, actions, possible)
  return game.chance(state), after


def _worth(game: DeviceGame, state: jax.Array, infostates: jax.Array) -> jax.Array:
  held = jnp.zeros(game.num_infostates).at[infostates[1]].set(1.0)
  won = game.terminal_values(state, held, 0)[infostates[0]]
  return won / game.compatible_mass(state, held, 0)[infostates[0]]
