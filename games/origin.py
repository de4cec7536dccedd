"""Marks that tie a tree to its game, and the check of a game against a tree."""

import dataclasses
import zlib
from typing import Any

import numpy as np

from games.game import CHANCE, TERMINAL, Game, check_is_game
from games.pairs import Pairs
from games.public_tree import PublicTree, check_is_tree

_PARTS = ("parameters", "prior", "payoffs or pair weights")


def origin_of(game: Game, pairs: Pairs | None = None) -> np.ndarray:
  """Returns the mark of a game, a checksum of each of what `_PARTS` names: `[3]`.

  Args:
    game: the rules.
    pairs: what `game.pairs()` returns, if that is known.
  """
  pairs = game.pairs() if pairs is None else pairs
  tables = [getattr(pairs, field.name) for field in dataclasses.fields(pairs)]
  # Sizes of bets are in no table, and in few games' names.
  about = (
    " ".join(map(repr, (game, *map(vars(game).get, ("bets", "rules")), game.num_infostates)))
    + f" {game.num_actions} {game.initial_state().tolist()}"
  )
  parts = [about.encode(), _bytes(game.prior()), b"".join(_bytes(table) for table in tables)]
  return np.array([zlib.crc32(part) for part in parts], np.uint32)


def _bytes(table: np.ndarray) -> bytes:
  array = np.ascontiguousarray(table)
  return str(array.shape).encode() + array.tobytes()


def check_tree_of(game: Game, tree: PublicTree) -> None:
  """Checks that `tree`, one or a stack, is of `game`: by its mark, and by the rules at its nodes.

  Raises:
    TypeError: one of the two is something else.
    ValueError: it is of another game; the message says what differs.
  """
  check_is_game(game)
  check_is_tree(tree)
  different = _difference(game, tree)
  if different is not None:
    raise ValueError(f"tree is not of {game!r}: its {different} differ from that game's")


def check_same_game(name: str, mark: Any, tree: PublicTree, *, first: int = 0) -> None:
  """Checks that what was made of a tree with a `mark` is of the game of `tree`.

  Args:
    name: what it is.
    mark: `[3]`, or None if that is not known.
    tree: with a mark or without.
    first: part of the mark that is the first to count.

  Raises:
    ValueError: it is of another game; the message says what differs.
  """
  if mark is None or tree.origin is None:
    return
  different = np.flatnonzero(np.asarray(mark) != np.asarray(tree.origin))
  if (different >= first).any():
    raise ValueError(f"{name} is of another game than tree: {_PARTS[different[-1]]} differ")


def _difference(game: Game, tree: PublicTree) -> str | None:
  """Returns the name of a part in which a game differs from a tree's game, or None."""
  if tree.state.shape[-1] != len(game.initial_state()):
    return "public states"
  if tree.num_infostates != game.num_infostates:
    return "infostates"
  if tree.origin is not None:
    same = np.asarray(tree.origin).reshape(-1, len(_PARTS)) == origin_of(game)
    if not same.all():
      return _PARTS[np.flatnonzero(~same.all(axis=0))[-1]]
  return _different_rules(game, tree)


def _different_rules(game: Game, tree: PublicTree) -> str | None:
  """Returns a difference of a tree to the rules at its own nodes, or None; stacks are one batch."""
  n = tree.num_nodes
  state = np.asarray(tree.state).reshape(-1, n, tree.state.shape[-1])
  columns = tree.kind, tree.parent, tree.action
  kind, parent, action = (np.asarray(x).reshape(-1, n) for x in columns)
  inner = kind <= CHANCE
  if (game.actor(state[inner]) != kind[inner]).any():
    return "turns"
  row, node = np.nonzero(parent >= 0)
  before, taken = state[row, parent[row, node]], action[row, node]
  legal = game.legal_actions(before)[np.arange(len(taken)), taken]
  if not legal.all() or game.legal_actions(state[inner]).sum() != len(taken):
    return "legal actions"
  if (game.next_states(before, taken) != state[row, node]).any():
    return "public states"
  ends = np.asarray(tree.terminal_nodes).reshape(len(kind), -1)
  row, end = np.nonzero(np.take_along_axis(kind, ends, axis=1) == TERMINAL)
  scale = np.asarray(tree.payoff_scale).reshape(len(kind), -1)[row, end]
  if not np.allclose(scale, game.payoff_scale(state[row, ends[row, end]]), rtol=1e-5):
    return "payoffs"
  return None
