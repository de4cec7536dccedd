"""Sampled traversals of a public tree: external and outcome sampling (Lanctot et al. 2009).

One pair of infostates is dealt. Chance and the opponent take one move each, by their
probabilities; the traverser takes all of its moves (external sampling) or one (outcome sampling).
The nodes of a level that are visited are a frontier of fixed capacity, so a traversal costs what it
visits and not what the tree has, and `jax.vmap` runs many.

With baseline b, policy s and q the probability that a move a is taken, the value of the move is
`b(a) + taken(a) (v(a) - b(a)) / q(a)`, and of the node `sum_a s(a)` of that (Schmid et al. 2019,
equation 9). Its mean is the value, whatever b is: zero in plain Monte Carlo CFR.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL
from games.node_info import children_of
from games.pairs import of_tree
from games.public_tree import Array, PublicTree
from solvers import validation

# (nodes `[C]`, the movers' infostates `[C]`) -> probability of each move `[C, A]`
Policy = Callable[[jax.Array, jax.Array], jax.Array]


class Visits(NamedTuple):
  """The nodes of one traversal, `[V]` slots level by level.

  Attributes:
    node: -1 in a slot that is empty.
    infostate: of the mover.
    held: the traverser's infostate.
    player: who moves: 0 or 1; any other number at chance and terminal nodes.
    moves: `[V, A]` the node after each of the mover's moves, -1 where there is none.
    policy: `[V, A]` the mover's, or chance's.
    value: sampled value of the node to the traverser, in the game's units.
    regret: `[V, A]` sampled regrets of the traverser's moves, in the game's units; else zero. By
      outcome sampling they are divided by the probability that the traverser's own moves are taken.
    reach: the traverser's own, by its policy.
    probability: that the traversal visits the node, the deal included.
  """

  node: jax.Array
  infostate: jax.Array
  held: jax.Array
  player: jax.Array
  moves: jax.Array
  policy: jax.Array
  value: jax.Array
  regret: jax.Array
  reach: jax.Array
  probability: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sampler:
  """A tree with what traversals look up.

  Attributes:
    tree: whole, of moves that all see.
    child: `[N, A]` the node after each action, -1 where there is none.
    deals: `[H]` probability of player 0's infostates, and `[H, H]` of both.
    ends: `[N]` table and factor of the payoffs of terminal nodes; zero elsewhere.
    capacity: for each traverser the most nodes of each level that external sampling visits.
  """

  tree: PublicTree
  child: Array
  deals: tuple[Array, Array]
  ends: tuple[Array, Array]
  capacity: tuple[tuple[int, ...], tuple[int, ...]] = dataclasses.field(metadata={"static": True})

  def sizes(self, player: int, explore: float | None = None) -> tuple[int, ...]:
    """Returns the number of slots of each level; see `traverse`."""
    full = self.capacity[player]
    return full if explore is None else (1,) * len(full)

  def num_draws(self, player: int, explore: float | None = None) -> int:
    """Returns how many random numbers a traversal takes."""
    return 2 + sum(self.sizes(player, explore))


def make_sampler(tree: PublicTree) -> Sampler:
  """Returns what traversals of `tree` look up.

  Raises:
    ValueError: the tree is depth-limited or stacked, or players' moves are hidden in it.
  """
  validation.check_unstacked(tree)
  if tree.depth_limited or tree.infostate_parent is not None:
    raise ValueError("tree must be whole, and all must see its moves: traversals sample no others")
  child, kind = children_of(tree), np.asarray(tree.kind)
  first, second = np.asarray(tree.prior)
  pairs = first[:, None] * second * of_tree(tree).weight_table(int(tree.root_pair_index))
  pairs = pairs / pairs.sum()
  table, scale = np.zeros(len(kind), np.int32), np.zeros(len(kind))
  table[tree.terminal_nodes], scale[tree.terminal_nodes] = tree.payoff_index, tree.payoff_scale
  deals, scale = (pairs.sum(axis=1), pairs), scale.astype(tree.dtype)
  capacity = tuple(_capacity(tree, child, kind, player) for player in (0, 1))
  return Sampler(tree, child, deals, (table, scale), capacity)


def _capacity(tree: PublicTree, child: np.ndarray, kind: np.ndarray, player: int):
  offsets = tree.structure.offsets
  depth = len(offsets) - 1
  below = np.zeros((0, depth), np.int32)  # of the level below: nodes visited at each level
  for i in reversed(range(depth)):
    own = np.zeros((offsets[i + 1] - offsets[i], depth), np.int32)
    for moves in child[offsets[i] : offsets[i + 1]].T:
      there = moves >= 0
      rows, parents = below[moves[there] - offsets[i + 1]], np.flatnonzero(there)
      mine = (kind[offsets[i] + parents] == player)[:, None]
      own[parents] = np.where(mine, own[parents] + rows, np.maximum(own[parents], rows))
    own[:, i] = 1
    below = own
  return tuple(below[0].tolist())


def table_policy(sampler: Sampler, table: Any) -> Policy:
  """Returns a policy that reads `table` `[N, H]`, as `solve` returns policies."""

  def policy(node: jax.Array, infostate: jax.Array) -> jax.Array:
    moves = jnp.asarray(sampler.child)[node]
    return jnp.where(moves >= 0, jnp.asarray(table)[moves, infostate[:, None]], 0.0)

  return policy


def traverse(
  sampler: Sampler,
  policy: Policy,
  draws: jax.Array,
  player: int,
  *,
  explore: float | None = None,
  baseline: Array | None = None,
) -> Visits:
  """Samples the values and regrets of `player` at the nodes that a traversal visits.

  Args:
    sampler: of the tree.
    policy: of both players; moves beyond a node's are ignored. `table_policy` reads a table.
    draws: `[num_draws]` random numbers, even in [0, 1): two for the deal, one for each slot.
    player: the traverser, 0 or 1; static.
    explore: None for external sampling; for outcome sampling how much of the traverser's choice of
      its one move is uniform.
    baseline: `[N, H]` guesses of what nodes are worth to the traverser's infostates; None for zero.

  Returns:
    The visits.
  """
  tree, (table, scale) = jax.tree.map(jnp.asarray, (sampler.tree, sampler.ends))
  hands, chance = _deal(sampler, draws[:2])
  sizes = sampler.sizes(player, explore)
  places = np.cumsum((2, *sizes))
  node, reach, taken_by_own, others = (jnp.zeros(1, jnp.int32), *[jnp.ones(1, draws.dtype)] * 3)
  levels = []
  for i, size in enumerate(sizes):
    draw = draws[places[i] : places[i + 1]]
    kind = jnp.where(node >= 0, tree.kind[node], TERMINAL)
    infostate = hands[jnp.clip(kind, 0, 1)]
    moves = jnp.where((kind != TERMINAL)[:, None], jnp.asarray(sampler.child)[node], -1)
    legal, by = moves >= 0, (kind == CHANCE)[:, None]
    share = policy(node, infostate)
    if tree.chance_probability is not None:
      fits = legal
      if tree.possible is not None:
        fits &= tree.possible[moves, 0, hands[0]] & tree.possible[moves, 1, hands[1]]
      share = jnp.where(by, tree.chance_probability[moves] * fits, share)
    share = jnp.where(legal, share, 0.0)
    mine = (kind == player)[:, None]
    rate = share
    if explore is not None:
      even = legal / jnp.maximum(legal.sum(axis=1, keepdims=True), 1)
      rate = jnp.where(mine, explore * even + (1 - explore) * share, share)
    taken = _choose(rate, draw) & legal
    if explore is None:
      taken, rate = jnp.where(mine, legal, taken), jnp.where(mine, 1.0, rate)
    levels.append((node, kind, infostate, moves, share, rate, taken, reach, taken_by_own, others))
    if i + 1 < len(sizes):
      at = jnp.nonzero(taken.reshape(-1), size=sizes[i + 1], fill_value=-1)[0]
      above, there = at // moves.shape[1], at >= 0
      node = jnp.where(there, moves.reshape(-1)[at], -1)

      def down(x, y, above=above, at=at):
        return x[above] * y.reshape(-1)[at]

      reach = down(reach, jnp.where(mine, share, 1.0))
      taken_by_own = down(taken_by_own, jnp.where(mine, rate, 1.0))
      others = down(others, jnp.where(mine, 1.0, share))
  visits, below = [], None
  sign = 1.0 if player == 0 else -1.0
  for node, kind, infostate, moves, share, rate, taken, reach, by_own, others in levels[::-1]:
    guess = jnp.zeros_like(share)
    if baseline is not None:
      guess = jnp.where(moves >= 0, jnp.asarray(baseline)[moves, hands[player]], 0.0)
    worth = guess
    if below is not None:
      slot = (jnp.cumsum(taken.reshape(-1)) - 1).reshape(taken.shape)
      worth += jnp.where(taken, (below[slot] - guess) / jnp.where(taken, rate, 1.0), 0.0)
    value = (share * worth).sum(axis=1)
    ends = sign * scale[node] * _payoff(tree, table[node], hands)
    below = jnp.where(kind == TERMINAL, jnp.where(node >= 0, ends, 0.0), value)
    mine = (kind == player)[:, None] & (moves >= 0)
    regret = jnp.where(mine, (worth - value[:, None]) / by_own[:, None], 0.0)
    probability = chance * by_own * others
    held = jnp.full_like(infostate, hands[player])
    visits.append(
      Visits(node, infostate, held, kind, moves, share, below, regret, reach, probability)
    )
  return jax.tree.map(lambda *rows: jnp.concatenate(rows), *visits[::-1])


def _deal(sampler: Sampler, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns both players' infostates `[2]`, and the probability of the pair."""
  first, pairs = (jnp.asarray(x, draws.dtype)[None] for x in sampler.deals)
  own = _choose(first, draws[:1])[0].argmax()
  other = _choose(pairs[:, own], draws[1:])[0].argmax()
  return jnp.stack([own, other]), pairs[0, own, other]


def _choose(weights: jax.Array, draws: jax.Array) -> jax.Array:
  """Returns which of weights `[n, A]` a draw `[n]` takes, one of each row."""
  sums = weights.cumsum(axis=1)
  total = sums[:, -1:]
  # A product may round up to the total, which no sum exceeds.
  at = jnp.minimum(draws[:, None] * total, total * (1 - jnp.finfo(sums.dtype).eps))
  after = sums > at
  return after & ~jnp.pad(after, ((0, 0), (1, 0)))[:, :-1]


def _payoff(tree: PublicTree, table: jax.Array, hands: jax.Array) -> jax.Array:
  """Returns what player 0 wins by each of the payoff tables, `[C]`, before their factors."""
  if tree.hands is None:
    # Where pairs weigh something, tables hold payoffs times that, and deals had the root's.
    weight = tree.pair_weights[tree.root_pair_index, hands[0], hands[1]]
    return tree.payoffs[table, hands[0], hands[1]] / weight
  first, second = (tree.strengths[table - 1, hand] for hand in hands)
  return jnp.where(table == 0, 1.0, jnp.sign(first - second))
