"""Growing-tree CFR on trees made on the device, from a game's own rules (store B).

The same search as `gt_cfr`, which marks nodes of a tree of the whole game; here a node is inserted
when it joins. With the same keys both find the same.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.game import CHANCE, TERMINAL
from games.on_device.game import DeviceGame, check_device_game
from games.public_tree import Array
from solvers import loop, validation
from solvers.algorithms.gadgets.continual_resolve import ContinualResolve
from solvers.algorithms.named import cfr_plus
from solvers.algorithms.with_gadget import WithGadget
from solvers.growing.checks import check_key
from solvers.growing.choose import Rules, in_rounds
from solvers.growing.insertion.hidden import with_hidden_moves
from solvers.growing.insertion.problem import InsertedProblem, inserted_problem
from solvers.growing.insertion.tree import InsertedTree, insert, plant
from solvers.growing.insertion.walk import Inserted, InsertedView, longest_walk, simulate_inserted
from solvers.growing.settings import GTCFR, check_search
from solvers.growing.simulate import sample_pair
from solvers.growing.states import StateFunction, StateQuery
from solvers.growing.watched import Watched
from solvers.leaf_values import LeafQuery
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import join_levels


class GrownByInsertion(NamedTuple):
  """What a search leaves: as `Grown`, over the places of its own tree.

  Attributes:
    average_policy: `[C, H]`, how likely who moved to a node did so; zero where there is no node.
      With hidden moves `[C, M, H]`, by the node at which they are made; see `policy_at`.
    root_values: `[P, H]` mean expected payoffs at the root; under alternatives those of an
      opponent that enters always.
    values: `[P, C, H]` mean expected payoff at every node at which the game goes on.
    reach: `[P, C, H]` players' ranges: average policy times public chance and what they were
      believed to hold at the root.
    visits: how often simulations made a move, in the same form.
    tree: the nodes; `tree.lost` says how many had no room.
    current: `[]` the place that simulations started from.
  """

  average_policy: jax.Array
  root_values: jax.Array
  values: jax.Array
  reach: jax.Array
  visits: jax.Array
  tree: InsertedTree
  current: jax.Array

  @property
  def present(self) -> jax.Array:
    """Which places hold a node: `[C]`."""
    return self.tree.present

  def policy_at(self, node: int | Array | None = None) -> jax.Array:
    """Returns the average policy of a node's mover, `[M, H]`; None for `current`.

    Moves have the numbers of `games.on_device.moves`: `[A, H]` where all are seen.
    """
    node = self.current if node is None else node
    if self.tree.hides:
      return self.average_policy[node]
    child = self.tree.child[node]
    return jnp.where((child >= 0)[:, None], self.average_policy[jnp.maximum(child, 0)], 0.0)


def gt_cfr_inserted(
  game: DeviceGame,
  *,
  search: GTCFR,
  key: jax.Array,
  network: StateFunction | None = None,
  params: Any = None,
  root_state: Array | None = None,
  possible: Array | None = None,
  path: Array | Sequence[int] = (),
  beliefs: Array | None = None,
  alternatives: Alternatives | None = None,
  searcher: int | None = None,
  capacity: int | None = None,
) -> GrownByInsertion:
  """Searches below a public state by growing-tree CFR, the tree made as it grows.

  Works under `jax.jit`, `jax.vmap` (over states, paths, beliefs, keys and params) and inside
  `lax.scan`. With one infostate a player the network is asked once about each state, when it joins,
  and its answer scaled by reach; with several, about all leaves in every update, at the beliefs of
  the current policies (Player of Games, sections 3.2 and B.2).

  Args:
    game: rules on JAX's arrays; static.
    search: settings, of which `whole` must be False; static.
    key: a random key, as `jax.random.key` returns it.
    network: values of leaves and priors of moves; None for zero and uniform. Static.
    params: passed on to `network`.
    root_state: `[S]` public state at which the search starts; None for the game's first.
    possible: `[P, H]` which infostates the rules allow there; None for all, in a game with hidden
      moves for those of its prior.
    path: `[D]` public actions from there to the state that simulations start from, then -1; what
      lies between is in the tree from the start. They must be legal.
    beliefs: `[P, H]` at the root; None for the game's prior, where `root_state` is None.
    alternatives: what the opponent of `searcher` is promised at the root; see `ContinualResolve`.
    searcher: whose policy is wanted, with `alternatives`; static.
    capacity: how many nodes there is room for; None for as many as could join. Children of a node
      join all or, where they do not fit, not at all, and are counted in `tree.lost`.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: a static argument is out of range or a shape is wrong.
  """
  check_device_game(game)
  check_search(search)
  check_key(key)
  if network is not None and not callable(network):
    raise TypeError(f"network={network!r} must be a function of (params, query), or None")
  if search.whole:
    raise ValueError("whole=True is for trees that are there beforehand: use solvers.gt_cfr")
  if (alternatives is None) != (searcher is None):
    raise ValueError("alternatives belong to a searcher: give both, or neither")
  if searcher is not None:
    validation.check_player(searcher, "searcher")
  if beliefs is None and root_state is not None:
    raise ValueError("beliefs=None are the game's prior: give those at root_state")
  if game.num_hidden > 1 and possible is None:
    if root_state is not None:
      raise ValueError(f"possible=None, but infostates of {game.name} change: give those possible")
    possible = np.asarray(game.prior()) > 0
  shape = (2, game.num_infostates)
  first = np.asarray(game.initial_state())
  root_state = first if root_state is None else root_state
  validation.check_shape("root_state", root_state, first.shape, "(S,)")
  beliefs = game.prior() if beliefs is None else beliefs
  validation.check_shape("beliefs", beliefs, shape, "(P, H)")
  possible = np.ones(shape, bool) if possible is None else possible
  validation.check_shape("possible", possible, shape, "(P, H)")
  if not isinstance(path, jax.Array):
    path = jnp.asarray(validation.check_history(path), jnp.int32)
  validation.check_shape("path", path, (path.size,), "(D,)")
  most = _most_nodes(game, search, path.size)
  if capacity is None:
    capacity = most
  elif validation.check_integer("capacity", capacity) < 1 + game.num_children * (path.size + 1):
    raise ValueError(
      f"capacity={capacity} must have room for the root, the path and their children: "
      f"{1 + game.num_children * (path.size + 1)} nodes"
    )
  given = params, jnp.asarray(root_state), jnp.asarray(possible), path, jnp.asarray(beliefs, float)
  settings = search.of_any_length(), network, searcher, min(capacity, most)
  return grow_inserted(game, key, given, alternatives, search.rounds, *settings)


def _most_nodes(game: DeviceGame, search: GTCFR, length: int) -> int:
  return 1 + game.num_children * (length + 1) + search.simulations * _width(game, search)


def _width(game: DeviceGame, search: GTCFR) -> int:
  """Returns how many children a simulation adds at most."""
  if search.children is None or game.deals:
    return game.num_children
  return min(search.children, game.num_children)


@functools.partial(
  jax.jit, static_argnames=("game", "search", "network", "searcher", "capacity", "ask_once")
)
def grow_inserted(
  game, key, given, alternatives, rounds, search, network, searcher, capacity, ask_once=None
) -> GrownByInsertion:
  """Does what `gt_cfr_inserted` says, unchecked; `rounds` is traced.

  `ask_once` says whether the network is asked when states join and never again; None for where
  that is right, with one infostate a player.
  """
  params, root_state, possible, path, beliefs = given
  ask_once = game.num_infostates == 1 if ask_once is None else ask_once
  inner: Any = cfr_plus(averaging=1.0, alternating=False)
  if searcher is not None:
    inner = WithGadget(inner, ContinualResolve(searcher, search.mix))
  algorithm = Watched(inner)
  tree, current = _first_tree(game, root_state, possible, path, capacity, beliefs.dtype)
  width = _width(game, search)

  def problem_of(tree):
    problem = _problem(game, tree, beliefs)
    return dataclasses.replace(problem, alternatives=alternatives)

  def ask(tree, beliefs):
    """Returns values `[C, P, H]` and priors `[C, M, H]` at beliefs `[C, P, H]`."""
    turned = (tree.kind == 1)[:, None, None]
    beliefs = jnp.where(turned, beliefs[:, ::-1], beliefs)
    answer = network(params, StateQuery(tree.features, beliefs))
    values = jnp.where(turned, answer.values[:, ::-1], answer.values)
    return values.astype(tree.dtype), _prior(tree, answer.logits)

  def updated(tree, state):
    """Updates both players, and takes the priors of the states that were asked last."""
    problem = problem_of(tree)

    def values_of(query: LeafQuery):
      if network is None:
        return jnp.zeros(query.beliefs.shape[::2], tree.dtype)
      if ask_once:
        return tree.values[:, query.traverser, None]
      return ask(tree, query.beliefs)[0][:, query.traverser]

    def priors_of(j, problem, state, prior):
      del j
      # The same question as the updates', which XLA asks once.
      new = ask(tree, algorithm.leaf_query(problem, state, 0).beliefs)[1]
      return jnp.where(tree.frontier[:, None, None], new, prior)

    observe = None if network is None or ask_once else priors_of
    number = 2 * search.updates_per_round
    end = loop.run(
      problem, algorithm, values_of, number, state=state, observe=observe, carry=tree.prior
    )
    return dataclasses.replace(tree, prior=end.carry), end.state

  def joined(tree, places):
    """Asks about nodes at `places` `[K]` that have just joined, where that is done once."""
    if network is None or not ask_once:
      return tree
    at = jnp.minimum(places, capacity - 1)
    rows = jax.tree.map(lambda x: x[at] if x.ndim else x, tree)
    values, prior = ask(rows, jnp.ones((len(places), 2, 1), tree.dtype))
    over = (rows.kind == TERMINAL)[:, None]
    values = jnp.where(over, rows.values, values[:, :, 0])
    return dataclasses.replace(
      tree,
      values=tree.values.at[places].set(values, mode="drop"),
      prior=tree.prior.at[places].set(prior, mode="drop"),
    )

  def round_of(numbers, carry):
    state, grown = carry
    tree, state = updated(grown.tree, state)
    grown = Inserted(tree, grown.visits, jnp.zeros_like(grown.recent))
    if not search.simulations:
      return state, grown
    now = problem_of(tree)
    view, reach = _view(now, algorithm, state, search), algorithm.core(state).reach
    for j in range(search.per_round):
      hands = sample_pair(now, reach, current, numbers.pairs[j])
      grown, places = simulate_inserted(
        game, view, grown, current, hands, numbers.walks[:, j], rules, width
      )
      grown = grown._replace(tree=joined(grown.tree, places))
    return algorithm.extend(problem_of(grown.tree), state), grown

  rules = Rules(search.puct, search.puct_share, search.children, game.largest_payoff)
  if network is not None:
    if ask_once:
      tree = joined(tree, jnp.arange(1 + game.num_children * (path.size + 1)))
    else:
      start = problem_of(tree)
      first = algorithm.leaf_query(start, algorithm.init(start), 0).beliefs
      tree = dataclasses.replace(tree, prior=ask(tree, first)[1])
  state = algorithm.init(problem_of(tree))
  zeros = jnp.zeros_like(state.nodes[0])
  grown = Inserted(tree, zeros, zeros)
  steps = longest_walk(game, tree)
  state, grown = in_rounds(round_of, (state, grown), key, rounds, search, steps)
  root_values, believed = algorithm.root_values(problem_of(grown.tree), state.means), beliefs
  if alternatives is not None and alternatives.beliefs is not None:
    believed = beliefs.at[1 - searcher].set(alternatives.beliefs)
  problem = _problem(game, grown.tree, believed)
  average = algorithm.average_policy(problem, state.means)
  policy = grown.tree.by_move(join_levels(average))
  there = grown.tree.present.reshape(-1, *[1] * (policy.ndim - 1))
  return GrownByInsertion(
    average_policy=policy * there,
    root_values=root_values,
    values=jnp.where((grown.tree.kind == TERMINAL)[:, None], 0.0, algorithm.means(state.means)),
    reach=jnp.moveaxis(problem.node_reach(problem.both_reach(average)), 1, 0),
    visits=grown.tree.by_move(grown.visits),
    tree=grown.tree,
    current=current,
  )


def _first_tree(
  game: DeviceGame, root_state, possible, path, capacity: int, dtype
) -> tuple[InsertedTree, jax.Array]:
  """Returns the root, the states along the path, all their children, and where the path ends."""
  tree = plant(game, root_state, possible, capacity, dtype)
  tree, _ = insert(game, tree, jnp.zeros((), int), tree.legal[0], game.num_children)

  def follow(carry, action):
    tree, node = carry
    next_node = jnp.where(action >= 0, tree.child[node, action], node)
    joins = tree.legal[next_node] & (action >= 0)
    tree, _ = insert(game, tree, next_node, joins, game.num_children)
    return (tree, next_node), None

  start = jnp.zeros((), tree.child.dtype)
  return lax.scan(follow, (tree, start), path)[0]


def _problem(game: DeviceGame, tree: InsertedTree, beliefs: jax.Array) -> InsertedProblem:
  problem = inserted_problem(game, tree, beliefs)
  return with_hidden_moves(problem) if tree.hides else problem


def _prior(tree: InsertedTree, logits: jax.Array) -> jax.Array:
  """Returns the softmax of logits `[C, M, H]` over legal moves; uniform where chance moves."""
  legal = tree.open
  logits = jnp.where((tree.kind < CHANCE)[:, None, None], logits.astype(tree.dtype), 0.0)
  most = jnp.where(legal, logits, -jnp.inf).max(axis=1, keepdims=True)
  weights = jnp.where(legal, jnp.exp(logits - jnp.where(jnp.isfinite(most), most, 0.0)), 0.0)
  return weights / jnp.maximum(weights.sum(axis=1, keepdims=True), jnp.finfo(tree.dtype).tiny)


def _view(problem: InsertedProblem, algorithm: Watched, state, search: GTCFR) -> InsertedView:
  choose = algorithm.current_policy if search.selection == "current" else algorithm.average_policy
  tree: Any = problem.tree
  mover, over = tree.kind[tree.parent], tree.kind == TERMINAL
  values = []
  for player in (0, 1):
    # A move of one's own leaves the other's mass as it was, and an end is not asked about it.
    mass = state.mass[player]
    if tree.hides:
      mass = join_levels((mass, problem.from_parents(2, player, mass)))
    else:
      mass = jnp.where(((mover == player) & over)[:, None], mass[tree.parent], mass)
    values.append(state.nodes[player] * (mass > 0) / jnp.where(mass > 0, mass, 1.0))
  return InsertedView(join_levels(choose(problem, state.means)), jnp.stack(values))
