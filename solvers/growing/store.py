"""The protocol of a growing search's store: what it needs of the places that hold its nodes.

Two follow it: `Marked`, whose places are the nodes of a written-out tree, swept by levels, and
`InsertedTree`, whose places are made by a game's rules as nodes join, swept by parents.

Letters: `C` places, `L` of them leaves of its problem, `A` public actions, `M` moves in the
numbering of the store, `H` infostates, `R` rows of policies and values, `P = 2`.
"""

from typing import Any, NamedTuple, Protocol

import jax


class Moves(NamedTuple):
  """Moves at one node of a mover who holds one infostate: `[M]` of each.

  Attributes:
    open: whether the rules allow it.
    known: whether it leads to a node of the tree.
    action: the public action.
    leads_to: the infostate that the mover holds afterwards.
    row, column: its place in arrays `[R, H]` of policies and values; meaningless unless known.
    met_row, met_column: the place in arrays `[L, H]` of the other's mass that the mover meets
      afterwards: a move of one's own leaves it as it was, so that the node's holds at ends.
    here: `[]` the node's own row there.
    prior: how likely the network thinks it; uniform without one.
  """

  open: jax.Array
  known: jax.Array
  action: jax.Array
  leads_to: jax.Array
  row: jax.Array
  column: jax.Array
  met_row: jax.Array
  met_column: jax.Array
  here: jax.Array
  prior: jax.Array


class Store(Protocol):
  """Places of one search, in its present state.

  Attributes:
    kind: `[C]` who moves, `CHANCE`, `TERMINAL` or something larger.
    present: `[C]` which places hold a node of the tree.
    legal: `[C, A]` which public actions the rules allow, in the tree or not.
    prior: `[L, M, H]` how likely the network thinks each move.
    movers: `[L]` as `kind`.
    open: `[L, M, H]` or `[L, M, 1]`, which moves the rules allow.
    scale: the largest payoff.
    deals: whether chance may move.
    asks_once: whether the network is asked when a node joins and never again.
    grows: whether places are made as nodes join; else all are known beforehand.
  """

  kind: Any
  present: Any
  legal: Any
  prior: Any
  movers: Any
  open: Any
  scale: Any
  deals: bool
  asks_once: bool
  grows: bool

  def problem(self, beliefs: jax.Array, like: Any = None) -> Any:
    """Returns the problem of the present nodes from root beliefs `[P, H]`.

    `like` is None or an earlier problem of the search, from the same beliefs.
    """
    ...

  def seen(self) -> jax.Array:
    """Returns the public states of the problem's leaves as their movers see them: `[L, F]`."""
    ...

  def join(self, node: jax.Array, joins: jax.Array) -> tuple["Store", jax.Array]:
    """Adds children of a node after the actions `joins` `[A]`; returns also their places."""
    ...

  def children(self, node: jax.Array) -> jax.Array:
    """Returns the places after each action, -1 where no node of the tree is: `[A]`."""
    ...

  def moves(self, node: jax.Array, held: jax.Array) -> Moves:
    """Returns the moves at a node of its mover, who holds infostate `held`."""
    ...

  def dealt(self, node: jax.Array, hands: jax.Array) -> jax.Array:
    """Returns how likely chance takes each action to infostates `[P]`: `[A]`, not normalised."""
    ...

  def turned(self, node: jax.Array, action: jax.Array, hands: jax.Array) -> jax.Array:
    """Returns the infostates `[P]` after a public action, of those who did not move."""
    ...

  def by_move(self, rows: jax.Array) -> jax.Array:
    """Returns the part of an array `[R, H]` that is about moves."""
    ...

  def at_places(self, rows: jax.Array) -> jax.Array:
    """Returns rows of the problem's leaves `[P, L, ...]` by place, `[P, C, ...]`, zero at ends."""
    ...
