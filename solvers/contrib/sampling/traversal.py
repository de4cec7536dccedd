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
from games.pairs import of_tree
from games.public_tree import Array, PublicTree
from games.tabulate import children_of
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
    """Returns how many draws the deal and the slots of each level take; see `traverse`."""
    return (
      (2, *self.capacity[player]) if explore is None else (2, *[1] * len(self.capacity[player]))
    )


def make_sampler(tree: PublicTree) -> Sampler:
  """Makes the sampler of `tree`, on the host.

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
    draws: `[sum of sizes]` random numbers, even in [0, 1): two for the deal, one for each slot.
    player: the traverser, 0 or 1; static.
    explore: None for external sampling; for outcome sampling how much of the traverser's choice of
      its one move is uniform.
    baseline: `[N, H]` guesses of what nodes are worth to the traverser's infostates; None for zero.

  Returns:
    The visits.
  """
  hands, chance = _deal(sampler, draws[:2])
  _, *sizes = sampler.sizes(player, explore)
  # Of a slot: the traverser's reach by its policy, that by which it is sampled, and all others'.
  node, odds = jnp.zeros(1, jnp.int32), jnp.ones((1, 3), draws.dtype)
  levels = []
  for i, draw in enumerate(jnp.split(draws[2:], np.cumsum(sizes)[:-1])):
    level, rate, taken = _frontier(sampler, policy, hands, node, draw, player, explore)
    level = level._replace(reach=odds[:, 0], probability=chance * odds[:, 1] * odds[:, 2])
    slot = jnp.cumsum(taken.reshape(-1)) - 1  # of a move that is taken, in the level below
    levels.append((level, rate, taken, slot, odds[:, 1:2]))
    if i + 1 < len(sizes):
      places = jnp.where(taken.reshape(-1), slot, sizes[i + 1])
      at = jnp.full(sizes[i + 1], -1).at[places].set(jnp.arange(len(slot)), mode="drop")
      node = jnp.where(at >= 0, level.moves.reshape(-1)[at], -1)
      mine, one = (level.player == player)[:, None], jnp.ones_like(rate)
      pairs: Any = ((level.policy, one), (rate, one), (one, level.policy))
      steps = jnp.stack([jnp.where(mine, *pair) for pair in pairs], axis=-1)  # type: ignore[misc]
      odds = odds[at // rate.shape[1]] * steps.reshape(-1, 3)[at]
  below, visits = None, []
  for level in levels[::-1]:
    visits.append(_values(*level, hands[player], below, player, baseline))
    below = visits[-1].value
  return jax.tree.map(lambda *rows: jnp.concatenate(rows), *visits[::-1])


def _frontier(sampler: Sampler, policy: Policy, hands, node, draw, player, explore):
  """Returns a level's visits without values, and which moves are taken at what rate, `[C, A]`."""
  tree, (table, scale) = sampler.tree, (jnp.asarray(x)[node] for x in sampler.ends)
  kind = jnp.where(node >= 0, jnp.asarray(tree.kind)[node], TERMINAL)
  infostate = hands[jnp.clip(kind, 0, 1)]
  moves = jnp.where((kind != TERMINAL)[:, None], jnp.asarray(sampler.child)[node], -1)
  legal, mine = moves >= 0, (kind == player)[:, None]
  share = policy(node, infostate)
  if tree.chance_probability is not None:
    dealt = jnp.asarray(tree.chance_probability)[moves]
    if tree.possible is not None:
      fits = jnp.asarray(tree.possible)[moves[..., None], jnp.arange(2), hands]
      dealt = dealt * fits.all(axis=-1)
    share = jnp.where((kind == CHANCE)[:, None], dealt, share)
  rate = share = jnp.where(legal, share, 0.0)
  if explore is not None:
    even = legal / jnp.maximum(legal.sum(axis=1, keepdims=True), 1)
    rate = jnp.where(mine, explore * even + (1 - explore) * share, share)
  taken = _choose(rate, draw) & legal
  if explore is None:
    taken, rate = jnp.where(mine, legal, taken), jnp.where(mine, 1.0, share)
  won = jnp.where(node >= 0, scale * _payoff(tree, table, hands), 0.0)
  held = jnp.full_like(infostate, hands[player])
  return Visits(node, infostate, held, kind, moves, share, won, share, won, won), rate, taken


def _values(level: Visits, rate, taken, slot, by_own, held, below, player, baseline):
  """Returns the visits of a level with values and regrets; `below` are values under it."""
  worth = jnp.zeros_like(rate)
  if baseline is not None:
    worth = jnp.where(level.moves >= 0, jnp.asarray(baseline)[level.moves, held], 0.0)
  if below is not None:
    under = below[slot].reshape(taken.shape)
    worth += jnp.where(taken, (under - worth) / jnp.where(taken, rate, 1.0), 0.0)
  value = (level.policy * worth).sum(axis=1)
  mine = (level.player == player)[:, None] & (level.moves >= 0)
  regret = jnp.where(mine, (worth - value[:, None]) / by_own, 0.0)
  ends = level.value if player == 0 else -level.value
  return level._replace(value=jnp.where(level.player == TERMINAL, ends, value), regret=regret)


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
  """Returns payoffs to player 0 by payoff tables, `[C]`, before their factors."""
  if tree.hands is None:
    # Where pairs weigh something, tables hold payoffs times that, and deals had the root's.
    weight = jnp.asarray(tree.pair_weights)[tree.root_pair_index, hands[0], hands[1]]
    return jnp.asarray(tree.payoffs)[table, hands[0], hands[1]] / weight
  first, second = jnp.asarray(tree.strengths)[table[:, None] - 1, hands].T
  return jnp.where(table == 0, 1.0, jnp.sign(first - second))
