"""One simulation of GT-CFR: a walk through the tree, and the nodes that it adds (section 3.2.2)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE
from solvers.growing.choose import MoveOptions, Rules, best_moves, choose_move, sample_index
from solvers.growing.store import Moves, Store
from solvers.xla.meshes import varying_alike


class Growth(NamedTuple):
  """What simulations leave behind.

  Attributes:
    store: the nodes.
    visits: `[C, M, H]` how often each move was simulated, by the infostate that the mover held.
  """

  store: Any
  visits: jax.Array


class View(NamedTuple):
  """What a simulation sees of the last update.

  Attributes:
    policy: `[R, H]` that is followed half of the time.
    values: for each player `[R, H]`, counterfactual, in its infostates.
    mass: for each player `[L, H]`, the other's mass that its infostates may meet.
    visits: `[C, M, H]` as they were then.
  """

  policy: jax.Array
  values: tuple[jax.Array, jax.Array]
  mass: tuple[jax.Array, jax.Array]
  visits: jax.Array

  def expected(self, player: jax.Array, value: Any, mass: Any) -> jax.Array:
    """Returns `player`'s expected payoff, by places of its value and of the mass that it meets."""
    first, second = (x[value] for x in self.values)
    met_first, met_second = (x[mass] for x in self.mass)
    worth, met = (
      jnp.where(player == 1, second, first),
      jnp.where(player == 1, met_second, met_first),
    )
    return jnp.where(met > 0, worth, 0.0) / jnp.where(met > 0, met, 1.0)


class _Walk(NamedTuple):
  """A walk so far: its last two nodes, and the moves on the way, of which chance's do not count."""

  node: jax.Array  # -1 where the move taken last is not in the tree
  before: jax.Array
  action: jax.Array
  hands: jax.Array  # [P]
  length: jax.Array
  nodes: jax.Array  # [most moves]
  moves: jax.Array  # [most moves]
  held: jax.Array  # [most moves] the mover's infostate
  counted: jax.Array  # [most moves]


def sample_pair(problem: Any, reach: Any, node: jax.Array, numbers: Any) -> jax.Array:
  """Samples both players' infostates at a node by their joint belief there: `[2]`.

  Args:
    problem: the search's.
    reach: both players' own reach.
    node: an inner node.
    numbers: `[2]` random ones.
  """
  row = jnp.argmax(jnp.asarray(problem.rows, jnp.int32) == jnp.asarray(node, jnp.int32))
  own = [problem.leaf_reach(reach[p], p)[row] for p in (0, 1)]
  first = sample_index(numbers[0], own[0] * problem.compatible_mass(own[1][None], 0, row)[0])
  held = jax.nn.one_hot(first, problem.num_infostates, dtype=own[0].dtype)
  second = own[1] * problem.compatible_mass(held[None], 1, row)[0]
  return jnp.stack([first, sample_index(numbers[1], second)])


def simulate(
  view: View,
  growth: Growth,
  start: jax.Array,
  hands: jax.Array,
  numbers: jax.Array,
  rules: Rules,
) -> tuple[Growth, jax.Array]:
  """Walks from `start` to the first state that is not in the tree, and adds that.

  Half of the moves are PUCT's, half follow the policy. At a leaf of the tree its children are
  added, `rules.children` of a player's by prior, all of chance's; where a move is missing, that.

  Args:
    view: of the last update.
    growth: what there is.
    start: a node.
    hands: `[P]` the players' infostates.
    numbers: `[most moves, NUMBERS]` random ones, a row for each step.
    rules: see `GTCFR`.

  Returns:
    What there is then, and the places of who joined.
  """
  store: Store = growth.store
  most = len(numbers)

  def step(walk: _Walk) -> _Walk:
    drawn, node, hands = numbers[walk.length], walk.node, walk.hands
    mover = store.kind[node]
    moves, player = mover < CHANCE, jnp.minimum(mover, 1)
    held = hands[player]
    found = store.moves(node, held)
    chosen = choose_move(drawn[:2], _options(view, growth, found, node, held, player), rules)
    action = found.action[chosen]
    if store.deals:
      action = jnp.where(moves, action, sample_index(drawn[2], store.dealt(node, hands)))
    after = store.turned(node, action, hands)
    moved = moves & (jnp.arange(2, dtype=jnp.int32) == player.astype(jnp.int32))
    now = jnp.arange(most, dtype=jnp.int32) == walk.length
    return _Walk(
      store.children(node)[action],
      node,
      action,
      jnp.where(moved, found.leads_to[chosen], after),
      walk.length + 1,
      jnp.where(now, node, walk.nodes),
      jnp.where(now, chosen, walk.moves),
      jnp.where(now, held, walk.held),
      jnp.where(now, moves, walk.counted),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return (walk.node >= 0) & (store.children(walk.node) >= 0).any()

  # Moves are kept as a path: tables of all nodes in the loop would be copied each step.
  nothing = jnp.zeros(most, jnp.int32)
  start, hands, zero = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, start, zero, hands, zero, nothing, nothing, nothing, nothing > 0)
  end = lax.while_loop(goes_on, step, varying_alike(first))
  missing = end.node < 0
  above = jnp.where(missing, end.before, end.node)
  is_action = jnp.arange(store.legal.shape[-1], dtype=jnp.int32) == end.action
  joins = jnp.where(missing, is_action, _joining(store, above, end.hands, rules))
  joined, places = store.join(above, joins)
  counts = end.counted.astype(growth.visits.dtype)
  return Growth(
    joined,
    growth.visits.at[end.nodes, end.moves, end.held].add(counts),
  ), places


def _joining(store: Store, leaf: jax.Array, hands: jax.Array, rules: Rules) -> jax.Array:
  """Returns the children that a leaf gets whose mover holds its one of `hands`: `[A]` bool."""
  legal = store.legal[leaf]
  if rules.children is None:
    return legal
  mover = store.kind[leaf]
  found = store.moves(leaf, hands[jnp.minimum(mover, 1)])
  likely = jnp.where(found.open, found.prior, -1.0)
  best = best_moves(likely, found.open, mover < CHANCE, rules)
  chosen = (
    jnp.zeros_like(legal).at[jnp.where(best, found.action, len(legal))].set(True, mode="drop")
  )
  return jnp.where(mover < CHANCE, chosen, legal)


def _options(view: View, growth: Growth, found: Moves, node, held, player) -> MoveOptions:
  """Returns the legal moves of `player` at `node` with infostate `held`: `[M]`."""
  below = view.expected(player, (found.row, found.column), (found.met_row, found.met_column))
  here = view.expected(player, (node, held), (found.here, held))
  visits = growth.visits[node, :, held]
  return MoveOptions(
    open=found.open,
    policy=jnp.where(found.known, view.policy[found.row, found.column], 0.0),
    prior=found.prior,
    value=jnp.where(found.known, below, here),
    visits=visits,
    recent=visits - view.visits[node, :, held],
  )
