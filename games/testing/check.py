"""The one check of a game."""

import dataclasses

import numpy as np

from games.build import build_public_tree
from games.game import TERMINAL, Game
from games.public_tree import PublicTree
from games.stack import stack_trees
from games.testing.histories import enumerate_histories
from games.testing.rules import check_rules
from games.testing.trees import check_public_tree

_NUM_ROOTS = 6
_DEPTHS = (1, 2, None)


def check_game(game: Game, *, max_histories: int = 300_000) -> None:
  """Checks an implementation of `Game` against an enumeration of its histories.

  It walks over every history in plain Python, one state at a time, and checks that

  - priors, their joint and the probabilities of chance sum to one, for every pair of infostates
    at every chance state, and no move loses a pair of infostates or makes one up;
  - actors, actions, states, tables and their indices are what the interface asks for, and no
    method changes its arguments;
  - every infostate has a legal move where its player acts, and comes from one infostate above,
    so that players remember what they knew and did (perfect recall);
  - payoffs are finite: they are player 0's, and the other's are their negatives (zero sum);
  - features are finite and of one length;
  - the public tree, built from batches of states, holds what the histories hold (public states,
    actors, actions, chance, infostates and where they come from, payoffs to each pair of
    infostates, features), in the order that solvers rely on;
  - so do trees of other roots and depths, and the same trees stacked;
  - JAX answers as numpy does, for all public states: `check_rules`, which is there for games too
    large to enumerate, too.

  Args:
    game: the game, in a size small enough to enumerate; a larger one has the same code.
    max_histories: how many histories, pairs of infostates counted, are too many.

  Raises:
    AssertionError: a check fails; the message says what is wrong and where.
    ValueError: the game has more than `max_histories` histories.
  """
  histories = enumerate_histories(game, max_histories)
  inner = [history for history, node in histories.items() if node.actor != TERMINAL]
  places = np.linspace(0, len(inner) - 1, num=min(_NUM_ROOTS, len(inner)), dtype=int)
  roots = [inner[i] for i in places]  # the start of the game is the first
  for depth in _DEPTHS:
    trees = [build_public_tree(game, root=root, depth=depth) for root in roots]
    stacked = stack_trees(trees)
    for i, (root, tree) in enumerate(zip(roots, trees)):
      check_public_tree(game, tree, histories, root=root, depth=depth)
      check_public_tree(game, unstack(stacked, i), histories, root=root, depth=depth)
  check_rules(game, np.unique([node.state for node in histories.values()], axis=0))


def unstack(stacked: PublicTree, index: int) -> PublicTree:
  """Returns one tree of a stack, padding and all."""
  arrays = {
    field.name: value[index]
    for field in dataclasses.fields(stacked)
    if isinstance(value := getattr(stacked, field.name), np.ndarray)
  }
  return dataclasses.replace(stacked, **arrays)
