"""All decisions of a game that is written out, as Deep CFR's networks and memories number them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from games import Game, PublicTree, build_public_tree
from games.public_tree import Array, largest_payoff
from solvers import node_info


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Decisions:
  """The decision nodes of a tree, player 0's first; an infostate's number is `d * H + h`.

  Attributes:
    tree: of the whole game.
    node: `[D]` their places in the tree.
    features: `[D, F]` the public state as its mover sees it.
    history: `[D, L]` public actions that led there, -1 to fill up.
    place: `[D, H]` each infostate's place in the game's order of them, if it has one.
    possible: `[D, H]` 1 where the rules allow the mover's infostate, else 0.
    pair_index: `[D]` which pair weights hold.
    edge: `[D, M, H]` the entry of a policy `[N * H]` that a move is, -1 where there is none.
    row: `[N, H]` the entry of numbers `[D * M * H]` that a policy's is; `D * M * H` for others.
    unit: `[]` the largest payoff, unit of advantages.
    first: how many decisions are player 0's.
  """

  tree: PublicTree
  node: Array
  features: Array
  history: Array
  place: Array
  possible: Array
  pair_index: Array
  edge: Array
  row: Array
  unit: Array
  first: int = dataclasses.field(metadata={"static": True})

  @property
  def num_subgames(self) -> int:
    """How many decision nodes there are."""
    return len(self.node)

  @property
  def legal(self) -> jax.Array:
    """`[D, M, H]` which moves there are."""
    return jnp.asarray(self.edge) >= 0

  def of(self, player: int) -> slice:
    """Returns which decisions are the player's."""
    return slice(0, self.first) if player == 0 else slice(self.first, None)

  def policy(self, probabilities: jax.Array) -> jax.Array:
    """Returns the tree's policy `[N, H]` of probabilities of moves `[D, M, H]`."""
    return jnp.append(probabilities, 1.0)[self.row]


def make_decisions(game: Game) -> Decisions:
  """Returns the decisions of a game.

  Raises:
    ValueError: its tree is too large to be written out.
  """
  tree = build_public_tree(game)
  info, kind = node_info(game, tree), np.asarray(tree.kind)
  node = np.concatenate([np.flatnonzero(kind == player) for player in (0, 1)])
  mover, h = kind[node], tree.num_infostates
  features = np.asarray(info.features)[mover, node]
  place = np.broadcast_to(np.arange(h), (len(node), h))
  if game.orders_infostates:
    place, features = np.argsort(features[:, -h:], axis=1), features[:, :-h]
  possible = np.ones((len(node), h))
  if tree.possible is not None:
    possible = np.asarray(tree.possible)[node, mover].astype(float)
  seen = np.asarray(info.by_action)[node]
  after = np.asarray(info.leads_to)[node]
  if not after.shape[1]:  # all moves are seen
    seen = np.broadcast_to(seen, (*seen.shape[:2], h))
    after = np.broadcast_to(np.arange(h), seen.shape)
  child = np.asarray(info.child)[node[:, None, None], np.maximum(seen, 0)]
  edge = np.where(seen >= 0, child * h + after, -1)
  row = np.full(len(kind) * h, edge.size)
  row[edge[edge >= 0]] = np.flatnonzero(edge.reshape(-1) >= 0)
  paths = [tree.history(int(x)) for x in node]
  history = np.full((len(node), game.max_moves), -1, np.int32)
  for line, path in zip(history, paths):
    line[: len(path)] = path
  return Decisions(
    tree=tree,
    node=node,
    features=features,
    history=history,
    place=place.astype(np.int32),
    possible=possible,
    pair_index=np.asarray(info.pair_index)[node],
    edge=edge.astype(np.int32),
    row=row.reshape(-1, h).astype(np.int32),
    unit=largest_payoff(tree),
    first=int((mover == 0).sum()),
  )
