"""What every hand of a solved spot does, and is worth, at any node."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.poker import betting
from games.poker.cards import shares_card
from rebel_jax.spots.solved import SolvedSpot
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem


class HandTable(NamedTuple):
  """Every hand at a node, of both players.

  Attributes:
    reach: `[P, H]` each player's range there, rows sum to one; zeros if a player never comes there.
    ev: `[P, H]` chips that a hand gets from there on, with what is in the pot; NaN where the other
      can hold nothing.
    equity: `[P, H]` share of the pot if all cards came and nobody bet; NaN likewise.
    frequency: `[A, H]` how often the player to move makes each move of `SolvedSpot.children`.
    move_ev: `[A, H]` `ev` of the player to move if it makes each move; what the move costs is
      taken off.
    mass: `[P, H]` how much of the other's range shares no card with a hand, in any unit.
  """

  reach: np.ndarray
  ev: np.ndarray
  equity: np.ndarray
  frequency: np.ndarray
  move_ev: np.ndarray
  mass: np.ndarray

  def mean(self, values: np.ndarray) -> np.ndarray:
    """Returns what each player's range has on average of `ev` or `equity`: `[P]`.

    Hands count by how often both players hold what they hold, so shared cards are left out.
    """
    joint = self.reach * self.mass
    total = joint.sum(axis=1)
    return np.where(joint > 0, joint * values, 0).sum(axis=1) / np.where(total > 0, total, 1)


def hand_table(solved: SolvedSpot, node: int = 0) -> HandTable:
  """Returns what every hand does, and is worth, at a node of a solved spot."""
  children = list(solved.children(node).values())
  nodes = np.array([node, *children])
  found = _values(solved.tree, jnp.asarray(solved.policy), jnp.asarray(solved.beliefs), nodes)
  reach, values, mass = (np.asarray(x, float) for x in found)
  game, kind = solved.game, int(np.asarray(solved.tree.kind)[node])
  state = np.asarray(solved.tree.state)[node]
  paid = state[[betting.PAID_0, betting.PAID_1]] + game.rules.dead / 2
  there = mass > 1e-12
  ev = np.where(there, values / np.where(there, mass, 1), np.nan) + paid[:, None, None]
  total = reach[:, 0].sum(axis=1, keepdims=True)
  ranges = reach[:, 0] / np.where(total > 0, total, 1)
  mover = kind if kind in (0, 1) else 0
  return HandTable(
    reach=ranges,
    ev=ev[:, 0],
    equity=_equity(solved, node, ranges),
    frequency=solved.policy[children],
    move_ev=ev[mover, 1:],
    mass=mass[:, 0],
  )


@jax.jit
def _values(tree, policy, beliefs, nodes):
  """Returns reach, counterfactual values and the other's mass: each `[P, n, H]`."""
  problem = make_problem(tree, beliefs.astype(tree.dtype))
  levels = problem.split(policy)
  own = problem.both_reach(levels)
  reach = jnp.moveaxis(problem.node_reach(own), 1, 0)[:, nodes]
  values = jnp.stack(
    [join_levels(problem.values_up(levels, own[1 - p], None, p).nodes)[nodes] for p in (0, 1)]
  )
  mass = jnp.stack([problem.compatible_mass(reach[1 - p], p) for p in (0, 1)])
  return reach, values, mass


def _equity(solved: SolvedSpot, node: int, ranges: np.ndarray) -> np.ndarray:
  game = solved.game
  dealt = [card for card in np.asarray(solved.tree.dealt)[node].tolist() if card >= 0]
  boards = [k for k, cards in enumerate(game.dealing.final) if set(dealt) <= set(cards.tolist())]
  apart = (~shares_card(game.hole_cards, game.hole_cards)).astype(np.float32)
  won, held = np.zeros((2, *ranges.shape))
  for strength in game.strengths()[boards]:
    live = strength >= 0
    better = (np.sign(strength[:, None] - strength[None]) + 1) / 2 * apart
    for p in (0, 1):
      other = ranges[1 - p] * live
      won[p] += live * (better @ other)
      held[p] += live * (apart @ other)
  return np.where(held > 1e-12, won / np.where(held > 1e-12, held, 1), np.nan)
