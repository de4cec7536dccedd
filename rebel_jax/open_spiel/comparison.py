"""Comparison of a game of ours with OpenSpiel's: turns, moves, chance and payoffs."""

import functools
from collections import defaultdict
from typing import Any

import numpy as np
import pyspiel

from games import CHANCE, TERMINAL, Game
from games.arguments import integers

_LINES, _STEPS = 100, 400  # of play at random, and public actions in all
_DEALS = 2**17  # of private information, all of which are compared
_TURNS = {CHANCE: pyspiel.PlayerId.CHANCE, TERMINAL: pyspiel.PlayerId.TERMINAL}
Held = tuple[tuple[int, ...], ...]  # each player's infostates that OpenSpiel takes to be one


class Comparison:
  """A game of ours beside OpenSpiel's, some lines of which are played at once.

  Attributes:
    deals: outcomes of OpenSpiel's private deals, the state after them and the infostates of ours.

  Raises:
    ValueError: the rules differ.
  """

  def __init__(self, game: Game, spiel_game: pyspiel.Game, correspondence: Any):
    self._game, self._spiel_game, self._to = game, spiel_game, correspondence
    self._pairs, self._rules_at = game.pairs(), functools.cache(self._rules)
    self.deals: list[tuple[tuple[int, ...], pyspiel.State, Held]] = []
    first, second = np.asarray(game.prior(), float)
    here = game.initial_state()
    joint = first[:, None] * second * self._pairs.weight_table(game.pair_index(here[None])[0])
    chances, waiting = defaultdict[Held, float](float), [(spiel_game.new_initial_state(), 1.0)]
    while waiting:
      state, reach = waiting.pop()
      if state.is_chance_node():
        waiting += [(state.child(a), reach * p) for a, p in state.chance_outcomes()[::-1] if p > 0]
        continue
      deal, most = tuple(state.history()), game.num_infostates - 1
      found = [correspondence.infostates(game, deal, player) for player in (0, 1)]
      held = tuple(tuple(integers("infostates", x, 0, most, ndim=1).tolist()) for x in found)
      self.deals.append((deal, state, held))
      chances[held] += reach
      if len(self.deals) > _DEALS:
        raise self._mismatch(f"more than {_DEALS} private deals are too many to compare")
    for held, reach in chances.items():
      if abs(joint[np.ix_(*held)].sum() / joint.sum() - reach) > 1e-6:
        raise self._mismatch(f"how likely infostates {held} are dealt")
    rng, steps = np.random.default_rng(0), 0
    for number in rng.integers(len(self.deals), size=_LINES):
      _, state, held = self.deals[number]
      state, ours = state.clone(), here
      while steps < _STEPS and (moves := self.moves(ours, state, held)):
        likely = (
          [a for a, p in state.chance_outcomes() if p] if state.is_chance_node() else [*moves]
        )
        action = int(rng.choice(likely))
        ours = game.next_states(ours[None], np.array([moves[action]]))[0]
        state.apply_action(action)
        steps += 1

  def _rules(self, state: tuple[int, ...]) -> tuple[int, Any, Any]:
    """Returns who moves, and actions and their chances; or the table and the scale of payoffs."""
    game, states = self._game, np.array(state)[None]
    actor = int(game.actor(states)[0])
    if actor == TERMINAL:
      return actor, int(game.payoff_index(states)[0]), float(game.payoff_scale(states)[0])
    legal = np.flatnonzero(game.legal_actions(states)[0])
    chance = game.chance(np.repeat(states, len(legal), axis=0), legal) if actor == CHANCE else None
    return actor, legal.tolist(), chance

  def moves(self, state: np.ndarray, theirs: pyspiel.State, held: Held) -> dict[int, int]:
    """Returns our action for each of OpenSpiel's at a public state of ours and a state of theirs.

    Raises:
      ValueError: the rules differ there.
    """
    actor, legal, more = self._rules_at(tuple(state.tolist()))
    if theirs.current_player() != _TURNS.get(actor, actor):
      raise self._mismatch("whose turn it is", theirs)
    if actor == TERMINAL:
      first, second = np.ix_(*held)
      won, paid = self._pairs.payoff(legal, (first, second)) * more, theirs.returns()[0]
      if not np.min(won) - 1e-6 <= paid <= np.max(won) + 1e-6:
        raise self._mismatch(f"player 0 wins {np.mean(won):g} and {paid:g}", theirs)
      return {}
    spiel_actions = theirs.legal_actions()
    ours = {x: int(self._to.action(self._game, x, actor == CHANCE)) for x in spiel_actions}
    if actor < CHANCE and sorted(ours.values()) != legal:
      raise self._mismatch(f"actions are {legal} and {sorted(ours.values())}", theirs)
    if actor == CHANCE:
      found = dict.fromkeys(legal, 0.0)
      for action, probability in theirs.chance_outcomes():
        found[ours[action]] = found.get(ours[action], 0.0) + probability
      probability, possible = more
      there = [possible[:, player, list(held[player])].any(axis=1) for player in (0, 1)]
      expected = probability * there[0] * there[1]
      if found.keys() != set(legal) or np.abs([*found.values()] - expected).max() > 1e-6:
        raise self._mismatch("how likely chance's outcomes are", theirs)
    return ours

  def _mismatch(self, what: str, state: pyspiel.State | None = None) -> ValueError:
    after = "" if state is None else f" after {state.history()}"
    return ValueError(
      f"game={self._game!r} and OpenSpiel's {self._spiel_game} differ: {what}{after}"
    )
