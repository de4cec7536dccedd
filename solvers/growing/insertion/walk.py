"""One simulation of GT-CFR in an inserted tree: a walk, and the nodes that it adds (store B)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE
from games.on_device.game import DeviceGame
from solvers.growing.choose import Options, Rules, best_moves, choose_move, sample_index
from solvers.growing.insertion.tree import InsertedTree, insert


class Inserted(NamedTuple):
  """A tree, and what simulations count in it; see `simulate.Growth`."""

  tree: InsertedTree
  visits: jax.Array  # [C, H]
  recent: jax.Array  # [C, H]


class InsertedView(NamedTuple):
  """What a simulation sees of the last update; priors are the tree's. See `simulate.View`."""

  policy: jax.Array  # [C, H]
  values: jax.Array  # [P, C, H]


class _Walk(NamedTuple):
  """A walk so far: its last two nodes, and the moves on the way, of which chance's do not count."""

  node: jax.Array  # -1 where the move taken last is not in the tree
  before: jax.Array
  action: jax.Array
  length: jax.Array
  nodes: jax.Array  # [most moves]
  held: jax.Array  # [most moves] the mover's infostate
  counted: jax.Array  # [most moves]


def simulate_inserted(
  game: DeviceGame,
  view: InsertedView,
  grown: Inserted,
  start: jax.Array,
  hands: jax.Array,
  numbers: jax.Array,
  rules: Rules,
  width: int,
) -> tuple[Inserted, jax.Array]:
  """Walks from `start` to the first state that is not in the tree, and adds that.

  As `simulate.simulate`, and with the same numbers it makes the same moves.

  Args:
    game: the rules.
    view: of the last update.
    grown: what there is.
    start: a node.
    hands: `[P]` the players' infostates.
    numbers: `[longest_walk, NUMBERS]` random ones, a row for each step.
    rules: see `GTCFR`.
    width: how many children join at most; static.

  Returns:
    What there is then, and the places of who joined, `[width]`, the capacity where none.
  """
  tree = grown.tree
  interior = tree.interior

  def step(walk: _Walk) -> _Walk:
    drawn, node = numbers[walk.length], walk.node
    mover = tree.kind[node]
    moves, player = mover < CHANCE, jnp.minimum(mover, 1)
    held = hands[player]
    options = _look(view, grown, node, held, player)
    chosen = choose_move(drawn[:2], options, rules)
    dealt = sample_index(drawn[2], _chance_weights(tree, node, hands)) if game.deals else chosen
    action = jnp.where(moves, chosen, dealt)
    child = tree.child[node, action]
    return _Walk(
      child,
      node,
      action,
      walk.length + 1,
      walk.nodes.at[walk.length].set(child),
      walk.held.at[walk.length].set(held),
      walk.counted.at[walk.length].set(moves),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return (walk.node >= 0) & interior[walk.node]

  nothing = jnp.zeros(longest_walk(game, tree), jnp.int32)
  start, hands, zero = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, start, zero, zero, nothing, nothing, nothing > 0)
  end = lax.while_loop(goes_on, step, first)

  missing = end.node < 0
  leaf = jnp.maximum(end.node, 0)
  mover = tree.kind[leaf]
  likely = jnp.where(tree.legal[leaf], tree.prior[leaf, :, hands[jnp.minimum(mover, 1)]], -1.0)
  joins = best_moves(likely, tree.legal[leaf], mover < CHANCE, rules)
  joins = jnp.where(missing, jnp.arange(game.num_actions) == end.action, joins)
  above = jnp.where(missing, end.before, leaf)
  tree, places = insert(game, tree, above, joins, width)
  # The move to a node that joined just now was made too.
  last = jnp.where(missing, tree.child[above, end.action], end.node)
  nodes = end.nodes.at[jnp.maximum(end.length - 1, 0)].set(last)
  nodes = jnp.where(end.counted & (nodes >= 0), nodes, tree.capacity)
  one = jnp.ones((), grown.visits.dtype)
  visits = grown.visits.at[nodes, end.held].add(one, mode="drop")
  recent = grown.recent.at[nodes, end.held].add(one, mode="drop")
  return Inserted(tree, visits, recent), places


def longest_walk(game: DeviceGame, tree: InsertedTree) -> int:
  """Returns how many steps a simulation takes at most."""
  return min(game.max_moves, tree.capacity)


def _look(view: InsertedView, grown: Inserted, node, held, player) -> Options:
  """Returns what `player` may do at `node`, holding `held`: `[A]`."""
  tree = grown.tree
  kids, known = jnp.maximum(tree.child[node], 0), tree.child[node] >= 0
  value = jnp.where(known, view.values[player, kids, held], view.values[player, node, held])
  return Options(
    open=tree.legal[node],
    policy=view.policy[kids, held] * known,
    prior=tree.prior[node, :, held],
    value=value,
    visits=grown.visits[kids, held] * known,
    recent=grown.recent[kids, held] * known,
  )


def _chance_weights(tree: InsertedTree, node, hands) -> jax.Array:
  """Returns how likely chance deals each child to these infostates: `[A]`, not normalised."""
  kids = jnp.maximum(tree.child[node], 0)
  possible = tree.possible[kids, 0, hands[0]] & tree.possible[kids, 1, hands[1]]
  return jnp.where((tree.child[node] >= 0) & possible, tree.chance[kids], 0.0)
