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
  """A tree, and what simulations count in it by `rows_at`; see `simulate.Growth`."""

  tree: InsertedTree
  visits: jax.Array  # [R, H]
  recent: jax.Array  # [R, H]


class InsertedView(NamedTuple):
  """What a simulation sees of the last update; priors are the tree's. See `simulate.View`."""

  policy: jax.Array  # [R, H]
  values: jax.Array  # [P, R, H]


class _Walk(NamedTuple):
  """A walk so far: its last two nodes, and the moves on the way, of which chance's do not count."""

  node: jax.Array  # -1 where the move taken last is not in the tree
  before: jax.Array
  action: jax.Array
  hands: jax.Array  # [P]
  length: jax.Array
  rows: jax.Array  # [most moves]
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
    hands, held = walk.hands, walk.hands[player]
    options = _look(view, grown, node, held, player)
    chosen = seen = choose_move(drawn[:2], options, rules)
    if tree.hides:
      seen = tree.by_action[node, chosen, held]
      turned = hands.at[player].set(tree.leads_to[node, chosen, held])
      hands = jnp.where(moves, turned, hands)
    dealt = sample_index(drawn[2], _chance_weights(tree, node, hands)) if game.deals else seen
    action = jnp.where(moves, seen, dealt)
    child = tree.child[node, action]
    return _Walk(
      child,
      node,
      action,
      hands,
      walk.length + 1,
      walk.rows.at[walk.length].set(tree.rows_at(node)[chosen] if tree.hides else child),
      walk.held.at[walk.length].set(held),
      walk.counted.at[walk.length].set(moves),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return (walk.node >= 0) & interior[walk.node]

  nothing = jnp.zeros(longest_walk(game, tree), jnp.int32)
  start, hands, zero = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, start, zero, hands, zero, nothing, nothing, nothing > 0)
  end = lax.while_loop(goes_on, step, first)

  missing = end.node < 0
  leaf = jnp.maximum(end.node, 0)
  mover = tree.kind[leaf]
  joins = _joining(tree, leaf, end.hands[jnp.minimum(mover, 1)], rules)
  joins = jnp.where(missing, jnp.arange(game.num_actions, dtype=jnp.int32) == end.action, joins)
  above = jnp.where(missing, end.before, leaf)
  tree, places = insert(game, tree, above, joins, width)
  rows = end.rows
  if not tree.hides:
    # The move to a node that joined just now was made too.
    last = jnp.where(missing, tree.child[above, end.action], end.node)
    rows = rows.at[jnp.maximum(end.length - 1, 0)].set(last)
  rows = jnp.where(end.counted & (rows >= 0), rows, len(grown.visits))
  one = jnp.ones((), grown.visits.dtype)
  visits = grown.visits.at[rows, end.held].add(one, mode="drop")
  recent = grown.recent.at[rows, end.held].add(one, mode="drop")
  return Inserted(tree, visits, recent), places


def longest_walk(game: DeviceGame, tree: InsertedTree) -> int:
  """Returns how many steps a simulation takes at most."""
  return min(game.max_moves, tree.capacity)


def _joining(tree: InsertedTree, leaf, held, rules: Rules) -> jax.Array:
  """Returns which children a leaf gets, whose mover holds `held`: `[A]` bool."""
  moves, legal = tree.kind[leaf] < CHANCE, tree.legal[leaf]
  allowed = _allowed(tree, leaf, held)
  likely = jnp.where(allowed, tree.prior[leaf, :, held], -1.0)
  if not tree.hides:
    return best_moves(likely, legal, moves, rules)
  if rules.children is None:
    return legal
  seen = tree.by_action[leaf, :, held]
  best = jnp.where(best_moves(likely, allowed, moves, rules), seen, len(legal))
  return jnp.where(moves, jnp.zeros_like(legal).at[best].set(True, mode="drop"), legal)


def _allowed(tree: InsertedTree, node, held) -> jax.Array:
  """Returns which moves the rules allow one who holds `held`: `[M]` bool."""
  return tree.leads_to[node, :, held] >= 0 if tree.hides else tree.legal[node]


def _look(view: InsertedView, grown: Inserted, node, held, player) -> Options:
  """Returns what `player` may do at `node`, holding `held`: `[M]`."""
  tree, rows = grown.tree, grown.tree.rows_at(node)
  if tree.hides:
    counted, action = jnp.ones_like(rows, bool), tree.by_action[node, :, held]
    known = (action >= 0) & (tree.child[node, action] >= 0)
  else:
    counted = known = rows >= 0
  rows = jnp.maximum(rows, 0)
  value = jnp.where(known, view.values[player, rows, held], view.values[player, node, held])
  return Options(
    open=_allowed(tree, node, held),
    policy=jnp.where(known, view.policy[rows, held], 0.0),
    prior=tree.prior[node, :, held],
    value=value,
    visits=jnp.where(counted, grown.visits[rows, held], 0.0),
    recent=jnp.where(counted, grown.recent[rows, held], 0.0),
  )


def _chance_weights(tree: InsertedTree, node, hands) -> jax.Array:
  """Returns how likely chance deals each child to these infostates: `[A]`, not normalised."""
  kids = jnp.maximum(tree.child[node], 0)
  possible = tree.possible[kids, 0, hands[0]] & tree.possible[kids, 1, hands[1]]
  return jnp.where((tree.child[node] >= 0) & possible, tree.chance[kids], 0.0)
