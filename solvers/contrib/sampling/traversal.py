"""Sampled traversals of a public tree: external and outcome sampling (Lanctot et al. 2009)."""
# One pair of infostates is dealt. The nodes of a level that are visited are a frontier of fixed
# capacity, so a traversal costs what it visits, and `jax.vmap` runs many. Where moves lead to
# more nodes than it holds, each is kept with one probability, by which what it says is divided.
# With baseline b, policy s and q the probability that a move a is taken, the value of the move is
# `b(a) + taken(a) (v(a) - b(a)) / q(a)`, and of the node `sum_a s(a)` of that (Schmid et al.
# 2019, equation 9). Its mean is the value, whatever b is: zero in plain Monte Carlo CFR.

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL, Game
from games.pairs import of_tree
from games.public_tree import Array, PublicTree
from games.tabulate import children_of
from solvers import validation

# (nodes of C slots, the movers' infostates `[C]`) -> probability of each move `[C, A]`
Policy = Callable[[Any, jax.Array], jax.Array]
# (numbers of nodes, infostates) of one shape -> what nodes are worth to the traverser's infostates
Baseline = Callable[[jax.Array, jax.Array], jax.Array]


class Visits(NamedTuple):
  """The nodes of one traversal, `[V]` slots level by level."""

  node: jax.Array  # its number, -1 in a slot that is empty
  infostate: jax.Array  # of the mover
  held: jax.Array  # the traverser's infostate
  player: jax.Array  # who moves: 0 or 1; any other number at chance and terminal nodes
  moves: jax.Array  # `[V, A]` the node after each of the mover's moves, -1 where there is none
  policy: jax.Array  # `[V, A]` the mover's, or chance's
  value: jax.Array  # sampled value of the node to the traverser, in the game's units
  # `[V, A]` sampled, of the traverser's moves, else zero; by outcome sampling divided by the
  # probability that its own moves are taken
  regret: jax.Array
  reach: jax.Array  # the traverser's own, by its policy
  probability: jax.Array  # that the traversal visits the node, the deal included
  sampled: jax.Array  # the part of it that is no other's move: the traverser's draws


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sampler:
  """A game with what traversals look up, where nodes are those of a tree, by number."""

  deals: tuple[Array, Array]  # `[H]` probability of player 0's infostates, and `[H, H]` of both
  start: Any  # the root, as one slot
  tree: Any  # whole, of moves that all see; None where the rules are walked
  child: Any  # `[N, A]` the node after each action, -1 where there is none
  ends: Any  # `[N]` table and factor of the payoffs of terminal nodes; zero elsewhere
  # for each traverser the most nodes of each level that external sampling visits
  capacity: tuple[tuple[int, ...], ...] = dataclasses.field(metadata={"static": True})
  # `[N, H]` of tables of moves
  shape: tuple[int, int] = dataclasses.field(metadata={"static": True})
  dtype: Any = dataclasses.field(metadata={"static": True})  # of sums
  # whether moves may lead to more nodes than there is capacity for, of which some are kept
  kept: bool = dataclasses.field(metadata={"static": True})

  def sizes(self, player: int, explore: float | None = None) -> tuple[int, ...]:
    """Returns how many draws the deal and the slots of each level take; see `traverse`."""
    slots = self.capacity[player] if explore is None else [1] * len(self.capacity[player])
    return (2, *(size + self.kept for size in slots))

  def look(self, nodes: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns numbers `[C]`, who moves `[C]`, and the numbers after each move `[C, A]`."""
    kind = jnp.where(nodes >= 0, jnp.asarray(self.tree.kind)[nodes], TERMINAL)
    return nodes, kind, jnp.where((kind != TERMINAL)[:, None], jnp.asarray(self.child)[nodes], -1)

  def follow(self, nodes: Any, moves: jax.Array, at: jax.Array) -> Any:
    """Returns the nodes after moves `at` of `[C * A]`; of -1, empty slots."""
    del nodes
    return jnp.where(at >= 0, moves.reshape(-1)[at], -1)

  def chance(self, nodes: Any, moves: jax.Array, hands: jax.Array) -> Any:
    """Returns the probabilities of outcomes `[C, A]`, None if chance never moves."""
    del nodes
    if self.tree.chance_probability is None:
      return None
    dealt = jnp.asarray(self.tree.chance_probability)[moves]
    if self.tree.possible is None:
      return dealt
    fits = jnp.asarray(self.tree.possible)[moves[..., None], jnp.arange(2)[None, None], hands]
    return jnp.where(fits.all(axis=-1), dealt, 0.0)

  def won(self, nodes: Any, hands: jax.Array) -> jax.Array:
    """Returns the payoffs of terminal nodes to player 0: `[C]`."""
    table, scale = (jnp.asarray(x)[nodes] for x in self.ends)
    return scale * _payoff(self.tree, table, hands)


class Walked(NamedTuple):
  """Nodes of a game that is walked: numbers `[C]`, states `[C, S]`, actions before `[C, L]`."""

  number: jax.Array
  state: jax.Array
  history: jax.Array


def walk(state: Any, history: Any, there: Any = True) -> Walked:
  """Returns nodes in states `[C, S]` after actions `[C, L]`, -1 to fill up; empty if not there."""
  return Walked(jnp.where(there, _mixed(_sums(history)), -1), state, history)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RulesSampler(Sampler):
  """The same by the rules alone; a node's number is 31 mixed bits of the actions before it."""

  game: Any = dataclasses.field(default=None, metadata={"static": True})  # the rules

  def look(self, nodes):
    kind = jnp.where(nodes.number >= 0, self.game.actor(nodes.state), TERMINAL)
    legal = self.game.legal_actions(nodes.state) & (kind != TERMINAL)[:, None]
    last = jnp.asarray(_FACTORS)[(nodes.history >= 0).sum(axis=1)]
    after = jnp.arange(1, legal.shape[1] + 1, dtype=jnp.uint32)[None]
    moves = _mixed(_sums(nodes.history)[:, None] + last[:, None] * after)
    return nodes.number, kind, jnp.where(legal, moves, -1)

  def follow(self, nodes, moves, at):
    parent, action = jnp.divmod(at, moves.shape[1])
    state, history = nodes.state[parent], nodes.history[parent]
    here = jnp.arange(history.shape[1])[None] == (history >= 0).sum(axis=1, keepdims=True)
    state = self.game.next_states(state, action)
    return walk(state, jnp.where(here, action[:, None], history), at >= 0)

  def chance(self, nodes, moves, hands):
    if not self.game.has_chance:
      return None
    states, outcomes = jnp.repeat(nodes.state, moves.shape[1], axis=0), jnp.arange(moves.size)
    odds, fits = self.game.chance(states, outcomes % moves.shape[1])
    fits = fits[:, jnp.arange(2), hands].all(axis=-1)
    return jnp.where(fits, odds, 0.0).reshape(moves.shape)

  def won(self, nodes, hands):
    table, scale = self.game.payoff_index(nodes.state), self.game.payoff_scale(nodes.state)
    return scale * jnp.asarray(self.game.pairs().payoffs)[(table, *hands)]


_FACTORS = np.random.default_rng(0).integers(2**32, size=1024, dtype=np.uint32) | 1


def _sums(history: Any) -> jax.Array:
  factors = _FACTORS[None, : history.shape[1]]
  return ((history + 2).astype(jnp.uint32) * factors).sum(axis=1, dtype=jnp.uint32)


def _mixed(bits: jax.Array) -> jax.Array:
  """Returns numbers from 0 on of 32 bits, which a bit that changes changes all over."""
  for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
    bits = (bits ^ (bits >> shift)) * jnp.uint32(factor)
  return ((bits ^ (bits >> 16)) >> 1).astype(jnp.int32)


@validation.checked
def make_sampler(
  game: PublicTree | Game,
  *,
  rows: validation.Positive | None = None,
  width: validation.Positive | None = None,
) -> Sampler:
  """Makes the sampler of a game, on the host.

  Args:
    game: its tree; or its rules, where a tree is too large.
    rows: with rules, of the tables: nodes that they have room for. Nodes met once they are full are
      played evenly.
    width: the most nodes of a level that a traversal visits; None with a tree for all that its
      moves lead to.

  Raises:
    ValueError: the tree is depth-limited or stacked, or has rows; moves are hidden; rules are
      without rows and width, of hands of cards, or of games that are too long.
  """
  if isinstance(game, Game):
    first = game.initial_state()[None]
    hidden = game.infostate_parents(first, np.zeros(1, int)) is not None
    long = game.max_moves >= len(_FACTORS)
    if rows is None or width is None or hidden or long or game.hands() is not None:
      raise ValueError(
        f"game needs rows, width, no hidden moves or hands, and less than {len(_FACTORS)} moves; "
        "or take its tree"
      )
    deals = _deals(game.prior(), game.pairs().weight_table(int(game.pair_index(first)[0])))
    start = walk(jnp.asarray(first, jnp.int32), jnp.full((1, game.max_moves), -1))
    sizes, dtype = (1, *[width] * game.max_moves), jnp.zeros(0).dtype
    shape = rows, game.num_infostates
    return RulesSampler(deals, start, None, None, None, (sizes, sizes), shape, dtype, True, game)
  tree = game
  validation.check_unstacked(tree)
  if tree.depth_limited or tree.infostate_parent is not None or rows is not None:
    raise ValueError("game must be a whole tree without rows, all of whose moves both players see")
  child, kind = children_of(tree), np.asarray(tree.kind)
  table, scale = np.zeros(len(kind), np.int32), np.zeros(len(kind), tree.dtype)
  table[tree.terminal_nodes], scale[tree.terminal_nodes] = tree.payoff_index, tree.payoff_scale
  deals = _deals(tree.prior, of_tree(tree).weight_table(int(tree.root_pair_index)))
  slots = [_capacity(tree, child, kind, player) for player in (0, 1)]
  capacity = tuple(tuple(min(x, width or x) for x in sizes) for sizes in slots)
  return Sampler(
    deals, jnp.zeros(1, jnp.int32), tree, child, (table, scale), capacity,
    (tree.num_nodes, tree.num_infostates), tree.dtype, width is not None,
  )  # fmt: skip


def _deals(prior: Array, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  first, second = np.asarray(prior)
  pairs = first[:, None] * second * weights
  return pairs.sum(axis=1) / pairs.sum(), pairs / pairs.sum()


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

  def policy(nodes: Any, infostate: jax.Array) -> jax.Array:
    moves = sampler.look(nodes)[2]
    return jnp.where(moves >= 0, jnp.asarray(table)[moves, infostate[:, None]], 0.0)

  return policy


def traverse(
  sampler: Sampler,
  policy: Policy,
  draws: jax.Array,
  player: int,
  *,
  explore: float | None = None,
  baseline: Baseline | None = None,
) -> Visits:
  """Samples the values and regrets of `player` at the nodes that a traversal visits.

  Args:
    sampler: of the game.
    policy: of both players; moves beyond a node's are ignored. `table_policy` reads a table.
    draws: `[sum of sizes]` random numbers in [0, 1): two for the deal, one for each slot, and one
      after those of each level where not all nodes may be kept.
    player: the traverser, 0 or 1; static.
    explore: None for external sampling; for outcome sampling the traverser's share of uniform
      moves.
    baseline: guesses of what nodes are worth; None for zero.
  """
  hands, chance = _deal(sampler, draws[:2])
  _, *sizes = sampler.sizes(player, explore)
  # Of a slot: the traverser's reach by its policy, that by which it is sampled, and all others'.
  nodes, odds = sampler.start, jnp.ones((1, 3), draws.dtype)
  levels = []
  for i, draw in enumerate(jnp.split(draws[2:], np.cumsum(sizes)[:-1])):
    level, rate, taken = _frontier(sampler, policy, hands, nodes, draw, player, explore)
    reach, sampled, others = odds.T
    level = level._replace(reach=reach, probability=chance * sampled * others, sampled=sampled)
    slot = jnp.cumsum(taken.reshape(-1)) - 1  # of a move that is taken, in the level below
    share = jnp.ones((), draws.dtype)
    if sampler.kept and i + 1 < len(sizes):
      room, number = sizes[i + 1] - 1, (slot[-1] + 1).astype(share.dtype)
      share = jnp.where(number > room, room * (1 - _EDGE) / jnp.maximum(number, 1), share)
      before, after = (
        jnp.floor(x.astype(share.dtype) * share + draw[-1]) for x in (slot, slot + 1)
      )
      kept = after > before
      taken &= (kept | (share == 1)).reshape(taken.shape)
      slot = jnp.cumsum(taken.reshape(-1)) - 1
    levels.append((level, rate * share, taken, slot))
    if i + 1 < len(sizes):
      room = sizes[i + 1] - sampler.kept
      places = jnp.where(taken.reshape(-1), slot, room)
      at = jnp.full(room, -1).at[places].set(jnp.arange(len(slot)), mode="drop")
      nodes = sampler.follow(nodes, level.moves, at)
      mine, one = (level.player == player)[:, None], jnp.ones_like(rate)
      pairs: Any = ((level.policy, one), (rate, one), (one, level.policy))
      steps = jnp.stack([jnp.where(mine, *pair) for pair in pairs], axis=-1)  # type: ignore[misc]
      steps *= jnp.stack([1.0, share, 1.0])[None, None]
      odds = odds[at // rate.shape[1]] * steps.reshape(-1, 3)[at]
  below, visits = None, []
  for level in levels[::-1]:
    visits.append(_values(*level, hands[player], below, player, baseline))
    below = visits[-1].value
  return jax.tree.map(lambda *rows: jnp.concatenate(rows), *visits[::-1])


_EDGE = 1e-6  # by which rounding may put a node beyond the room that there is


def _frontier(sampler: Sampler, policy: Policy, hands, nodes, draw, player, explore):
  """Returns a level's visits without values, and which moves are taken at what rate, `[C, A]`."""
  node, kind, moves = sampler.look(nodes)
  infostate = hands[jnp.clip(kind, 0, 1)]
  legal, mine = moves >= 0, (kind == player)[:, None]
  share = policy(nodes, infostate)
  if (dealt := sampler.chance(nodes, moves, hands)) is not None:
    share = jnp.where((kind == CHANCE)[:, None], dealt, share)
  rate = share = jnp.where(legal, share, 0.0)
  if explore is not None:
    even = legal.astype(share.dtype)
    even /= jnp.maximum(even.sum(axis=1, keepdims=True), 1.0)
    rate = jnp.where(mine, explore * even + (1 - explore) * share, share)
  taken = _choose(rate, draw[: len(node)]) & legal
  if explore is None:
    taken, rate = jnp.where(mine, legal, taken), jnp.where(mine, 1.0, share)
  won = jnp.where((node >= 0) & (kind == TERMINAL), sampler.won(nodes, hands), 0.0)
  held = jnp.full_like(infostate, hands[player])
  return Visits(node, infostate, held, kind, moves, share, won, share, won, won, won), rate, taken


def _values(level: Visits, rate, taken, slot, held, below, player, baseline):
  """Returns the visits of a level with values and regrets; `below` are values under it."""
  worth = jnp.zeros_like(rate)
  if baseline is not None:
    infostates = jnp.full_like(level.moves, held)
    worth = jnp.where(level.moves >= 0, baseline(level.moves, infostates), 0.0)
  if below is not None:
    under = below[slot].reshape(taken.shape)
    worth += jnp.where(taken, (under - worth) / jnp.where(taken, rate, 1.0), 0.0)
  value = (level.policy * worth).sum(axis=1)
  mine = (level.player == player)[:, None] & (level.moves >= 0)
  regret = jnp.where(mine, (worth - value[:, None]) / level.sampled[:, None], 0.0)
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
