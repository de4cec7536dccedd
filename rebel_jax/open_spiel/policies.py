"""Policies to and from OpenSpiel."""

from collections import defaultdict

import numpy as np
import pyspiel

from games import CHANCE, Game, PublicTree
from rebel_jax.open_spiel.decisions import find_moves
from solvers import validation


def to_tabular_policy(game: Game, tree: PublicTree, policy) -> pyspiel.TabularPolicy:
  """Turns a policy of ours into one of the same game in OpenSpiel.

  Where OpenSpiel takes several infostates of ours to be one (Liar's Dice: it sorts dice), their
  policies are averaged, weighted by prior and own reach, which plays the same.

  Args:
    game: from `games.make` or `open_spiel.from_game`.
    tree: its whole public tree.
    policy: `[N, H]` on the tree, as `solvers.solve` returns it.

  Returns:
    A policy for both players, of every information state.

  Raises:
    ValueError: the game has no counterpart in OpenSpiel, `tree` is not its whole public tree, or
      `policy` has the wrong shape or is not a distribution.
  """
  moves = find_moves(game, tree)
  validation.check_policy("policy", tree, policy)
  policy = np.asarray(policy, float)
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  weights = None
  table: dict[str, dict[int, float]] = defaultdict(dict)
  for string, action, node, infostates in moves:
    rows = policy[node, list(infostates)]
    if len(infostates) == 1:
      table[string][action] = float(rows[0])
      continue
    if weights is None:
      weights = np.asarray(tree.prior, float) * _own_reach(tree, policy)
    weight = weights[parent[node], kind[parent[node]], list(infostates)]
    weight = weight if weight.sum() > 0 else np.ones(len(infostates))
    table[string][action] = float(rows @ weight / weight.sum())
  totals = {string: sum(row.values()) for string, row in table.items()}
  return pyspiel.TabularPolicy(
    {string: [(a, p / totals[string]) for a, p in row.items()] for string, row in table.items()}
  )


def _own_reach(tree: PublicTree, policy: np.ndarray) -> np.ndarray:
  """Returns each player's reach by its own moves, infostates never changing: `[N, P, H]`."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  reach = np.ones((tree.num_nodes, 2, tree.num_infostates))
  for start, stop in zip(tree.structure.offsets[1:-1], tree.structure.offsets[2:]):
    above = parent[start:stop]
    reach[start:stop] = reach[above]
    for player in (0, 1):
      moved = start + np.flatnonzero(kind[above] == player)
      reach[moved, player] *= policy[moved]
  return reach


def from_tabular_policy(game: Game, tree: PublicTree, policy) -> np.ndarray:
  """Turns a policy of OpenSpiel into one of ours: the inverse of `to_tabular_policy`.

  Args:
    game: from `games.make` or `open_spiel.from_game`.
    tree: its whole public tree.
    policy: of the same game: a `pyspiel.Policy` that knows information state strings, as
      tabular policies and the averages of OpenSpiel's solvers do, or a
      `open_spiel.python.policy.TabularPolicy`.

  Returns:
    `[N, H]` on the tree, float64.

  Raises:
    ValueError: as `to_tabular_policy`; or `policy` lacks an information state or an action.
  """
  if hasattr(policy, "to_dict"):  # OpenSpiel's Python policies
    policy = pyspiel.TabularPolicy(policy.to_dict())
  array = _default_policy(tree)
  for string, action, node, infostates in find_moves(game, tree):
    try:
      probabilities = policy.action_probabilities(string)
    except (AttributeError, TypeError):
      raise ValueError(
        f"policy={type(policy).__name__} must know information state strings, as a tabular policy "
        "does; OpenSpiel's Python policies have to_tabular()"
      ) from None
    if not probabilities:
      raise ValueError(f"policy has nothing for OpenSpiel's information state {string!r}")
    array[node, list(infostates)] = probabilities.get(action, 0.0)
  validation.check_policy("policy", tree, array)
  return array


def _default_policy(tree: PublicTree) -> np.ndarray:
  """Returns probabilities `[N, H]` for the infostates that OpenSpiel says nothing of.

  Where infostates never change these are the impossible ones (a card that lies on the board),
  which move at random. Where they do, impossible ones come from nowhere, and others that are
  left have one move.
  """
  policy = np.ones((tree.num_nodes, tree.num_infostates))
  if tree.infostate_parent is None:
    parent, kind = np.asarray(tree.parent)[1:], np.asarray(tree.kind)
    siblings = np.bincount(parent, minlength=tree.num_nodes)[parent]
    policy[1:] = np.where(kind[parent] < CHANCE, 1 / siblings, 1.0)[:, None]
  return policy
