"""AIVAT: what a hand was worth, with the luck taken out as far as it is known (Burch et al., 2018).

One player's policy is known for every infostate that it could have held, and so is what the other
held. The estimate replaces the payoff by its mean over the infostates that the known player could
have come here with, and takes away what chance and the known player's own draws gave by a value
function. Its mean is that of the payoffs, whatever the value function is, if that was fixed before
the hand and the policy is the one that was played: then each correction has mean zero.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from games.game import CHANCE, TERMINAL, Game
from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.metrics.aivat_values import ValueFunction, chance_of_pairs, check_unchanging

PolicyRows = Mapping[int, Array] | Array  # the rows `[H]` of a policy, by node


class Move(NamedTuple):
  """A public move of chance or of the known player, and what else could have been.

  Attributes:
    taken: which of the `C` outcomes happened.
    weights: `[C, K]` probability of each outcome, given what the known player holds.
    values: `[C, K]` value function after each.
  """

  taken: int
  weights: np.ndarray
  values: np.ndarray


class HandRecord(NamedTuple):
  """What is known of one hand.

  `K` is what the known player could hold, `H` infostates, and `J` what the other could. Where both
  are known, `K` is all pairs and `J` is one.

  Attributes:
    joint: `[J, K]` probability of both, before the first move.
    root_values: `[J, K]` value function there.
    held: what the other did hold, below `J`.
    moves: of chance and of the known player, in order; the other's moves are left out.
    payoffs: `[K]` what the known player wins at the end, given what it holds.
  """

  joint: np.ndarray
  root_values: np.ndarray
  held: int
  moves: tuple[Move, ...]
  payoffs: np.ndarray


def aivat(record: HandRecord) -> float:
  """Computes the estimate of what the known player wins in a hand (Burch et al., 2018).

  With `R(k)` the probability that nature and the known player come to a node with `k`, given what
  the other holds: the mean of the payoffs by `R` at the end; at every move of chance or of the
  known player the mean of the value function over what could have happened less its mean over what
  did; and the same of the other's infostate, which nature deals.

  Raises:
    TypeError: `record` is something else.
    ValueError: by its policy the known player, or chance, never makes a move that was made.
  """
  if not isinstance(record, HandRecord):
    raise TypeError(f"record={record!r} must be a HandRecord, as solvers.HandRecorder makes it")
  masses = record.joint.sum(axis=1)
  known = np.flatnonzero(masses > 0)
  dealt = (record.joint * record.root_values)[known].sum(axis=1) / masses[known]
  everywhere = float(masses[known] @ dealt / masses.sum())
  reach = _normalised(record.joint[record.held], "held", record.held)
  estimate = everywhere - float(reach @ record.root_values[record.held])
  for number, (taken, weights, values) in enumerate(record.moves):
    after = reach * weights
    reach = _normalised(after[taken], "move", number)
    mean = float((after * values).sum() / after.sum())
    estimate += mean - float(reach @ values[taken])
  return estimate + float(reach @ record.payoffs)


class HandRecorder:
  """Gathers hands of an enumerated game for `aivat`.

  Args:
    game: the rules; infostates must not change (no hidden moves).
    tree: the whole tree.
    values: the value function, fixed before the hands; `zero_values` and `half_the_difference`
      make some.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: the tree is not the whole tree of the game, or infostates change.
  """

  def __init__(self, game: Game, tree: PublicTree, values: ValueFunction):
    check_unchanging(game, tree)
    if not callable(values):
      raise TypeError(f"values={values!r} must be a function of a node")
    self._tree, self._values = tree, values
    self._game, self._pairs = game, game.pairs()
    self._kind, self._parent = np.asarray(tree.kind), np.asarray(tree.parent)
    self._state = np.asarray(tree.state)
    prior = np.asarray(game.prior(), float)
    weights = self._pairs.weight_table(int(game.pair_index(self._state[:1])[0]))
    joint = prior[0][:, None] * prior[1] * weights
    self._joint = joint / joint.sum()

  def record(
    self, node: int, infostates: tuple[int | None, int | None], policy: PolicyRows
  ) -> HandRecord:
    """Returns the record of a hand.

    Args:
      node: where the hand ended.
      infostates: what each player held; None for a player whose policy is known, and who might
        have held anything: one of them, or both.
      policy: rows `[H]` by node, `[N, H]` or a mapping: the known player's policy in this hand, at
        each move that it had, the ones not taken too. Other rows are not looked at.

    Returns:
      The record; payoffs are the known player's, or player 0's if both are known.

    Raises:
      TypeError: an argument is of another kind.
      ValueError: `node` does not end the game, or `infostates` are not allowed.
    """
    node = int(validation.check_places("node", [node], self._tree.num_nodes)[0])
    if self._kind[node] != TERMINAL:
      raise ValueError(f"node={node} must be one where the game is over")
    if not hasattr(policy, "__getitem__") or isinstance(policy, str | bytes):
      raise TypeError(f"policy={policy!r} must hold rows [H] by node")
    h = self._tree.num_infostates
    seat, held = check_infostates(infostates, h)
    sign = -1.0 if seat == 1 else 1.0

    def by_other(table: np.ndarray) -> np.ndarray:
      """Returns a table of pairs `[H, H]` as `[J, K]`."""
      return table.reshape(1, -1) if seat is None else (table.T if seat == 0 else table)

    def worth(node: int) -> np.ndarray:
      return sign * by_other(np.asarray(self._values(node), float))

    moves = []
    for above, below in self._way(node):
      mover = int(self._kind[above])
      if mover not in (CHANCE, seat) and seat is not None:
        continue
      children = np.flatnonzero(self._parent == above).tolist()
      weights = [
        by_other(_weight(self._tree, child, mover, policy) * np.ones((h, h)))[held]
        for child in children
      ]
      values = [worth(child)[held] for child in children]
      moves.append(Move(children.index(below), np.stack(weights), np.stack(values)))
    end = self._state[node][None]
    table = self._pairs.payoff_table(int(self._game.payoff_index(end)[0]))
    payoffs = sign * float(self._game.payoff_scale(end)[0]) * by_other(table)[held]
    return HandRecord(by_other(self._joint), worth(0), held, tuple(moves), payoffs)

  def _way(self, node: int) -> list[tuple[int, int]]:
    """Returns the moves from the root to `node`: where each was made, and where it led."""
    way = []
    while self._parent[node] >= 0:
      way.append((int(self._parent[node]), node))
      node = way[-1][0]
    return way[::-1]


def _weight(tree: PublicTree, child: int, mover: int, policy: PolicyRows) -> np.ndarray:
  """Returns the probability of the move to `child`, as a table of pairs or broadcast to one."""
  if mover == CHANCE:
    return chance_of_pairs(tree, child)
  row = row_of(policy, child, tree.num_infostates)
  return row[:, None] if mover == 0 else row[None]


def row_of(policy: Any, place: Any, size: int) -> np.ndarray:
  """Returns the row `[H]` of a policy for the move that leads to `place`, a node or a history.

  Raises:
    ValueError: there is none of `size` infostates.
  """
  try:
    row = np.asarray(policy[place], float)
  except (IndexError, KeyError):
    row = np.zeros(0)
  if row.shape != (size,):
    name = f"node {place}" if isinstance(place, int) else f"history {place}"
    raise ValueError(
      f"policy must hold a row of shape ({size},) (H) for {name}, to which the known player could "
      "have moved"
    )
  return row


def _normalised(reach: np.ndarray, name: str, number: int) -> np.ndarray:
  total = reach.sum()
  if not total > 0:
    raise ValueError(
      f"{name}={number} of the record cannot happen by its policy; give the policy that was played"
    )
  return reach / total


def check_infostates(infostates: Any, size: int) -> tuple[int | None, int]:
  """Returns the seat of the one known player, None if both are, and what the other held.

  Raises:
    TypeError, ValueError: `infostates` are not two, None for who is known, below `size`.
  """
  if not isinstance(infostates, tuple | list) or len(infostates) != 2:
    raise TypeError(f"infostates={infostates!r} must be two, None for who is known")
  known = [player for player in (0, 1) if infostates[player] is None]
  if not known:
    raise ValueError(f"infostates={infostates!r} must hold None for a player whose policy is known")
  if len(known) == 2:
    return None, 0
  place = validation.check_places("infostates", [infostates[1 - known[0]]], size)
  return known[0], int(place[0])
