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
from solvers.growing.asked import Asked, note
from solvers.growing.checks import check_key
from solvers.growing.choose import Rules, in_rounds
from solvers.growing.insertion.hidden import with_hidden_moves
from solvers.growing.insertion.problem import InsertedProblem, inserted_problem
from solvers.growing.insertion.tree import InsertedTree, insert, plant
from solvers.growing.insertion.walk import Inserted, InsertedView, longest_walk, simulate_inserted
from solvers.growing.resolving import Promises, Resolving
from solvers.growing.settings import GTCFR, check_search
from solvers.growing.simulate import sample_pair
from solvers.growing.states import StateFunction, StateQuery, ask_some
from solvers.growing.watched import Watched
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
    known: `[P, C]` whether anything is known of those values; see `Grown`.
    visits: how often simulations made a move, in the same form.
    tree: the nodes; `tree.lost` says how many had no room.
    current: `[]` the place that simulations started from.
    root_mass: `[P, H]` the other's mass at the root that is compatible with an infostate.
    asked: one of the questions that the search asked in its updates, drawn from all of them; its
      node is a place. With one infostate a player nothing is asked there.
  """

  average_policy: jax.Array
  root_values: jax.Array
  values: jax.Array
  reach: jax.Array
  known: jax.Array
  visits: jax.Array
  tree: InsertedTree
  current: jax.Array
  root_mass: jax.Array
  asked: Asked

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
  searcher: int | jax.Array | None = None,
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
    searcher: whose policy is wanted, with `alternatives`.
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
  if isinstance(searcher, int):
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
  most = most_nodes(game, search, path.size)
  if capacity is None:
    capacity = most
  elif validation.check_integer("capacity", capacity) < 1 + game.num_children * (path.size + 1):
    raise ValueError(
      f"capacity={capacity} must have room for the root, the path and their children: "
      f"{1 + game.num_children * (path.size + 1)} nodes"
    )
  promises = None
  if alternatives is not None and searcher is not None:
    known = beliefs[1 - searcher] if alternatives.beliefs is None else alternatives.beliefs
    promises = Promises.to_opponent(searcher, alternatives.value, known)
  given = params, jnp.asarray(root_state), jnp.asarray(possible), path, jnp.asarray(beliefs, float)
  settings = search.of_any_length(), network, min(capacity, most)
  return grow_inserted(game, key, given, promises, search.rounds, *settings)


def most_nodes(game: DeviceGame, search: GTCFR, length: int) -> int:
  """Returns how many nodes a search has at most whose path is of `length` actions."""
  return 1 + game.num_children * (length + 1) + search.simulations * _width(game, search)


def _width(game: DeviceGame, search: GTCFR) -> int:
  """Returns how many children a simulation adds at most."""
  if search.children is None or game.deals:
    return game.num_children
  return min(search.children, game.num_children)


@functools.partial(jax.jit, static_argnames=("game", "search", "network", "capacity", "ask_once"))
def grow_inserted(
  game, key, given, promises, rounds, search, network, capacity, ask_once=None
) -> GrownByInsertion:
  """Does what `gt_cfr_inserted` says, unchecked; `rounds` is traced.

  `promises` are a `Promises`, which may be to nobody, or None for never to anybody.
  `ask_once` says whether the network is asked when states join and never again; None for where
  that is right, with one infostate a player.
  """
  params, root_state, possible, path, beliefs = given
  ask_once = game.num_infostates == 1 if ask_once is None else ask_once
  inner: Any = cfr_plus(averaging=1.0, alternating=search.alternating)
  if promises is not None:
    inner = Resolving(inner, ContinualResolve(0, search.mix), promises)
  algorithm = Watched(inner)
  tree, current = _first_tree(game, root_state, possible, path, capacity, beliefs.dtype)
  width = _width(game, search)

  def problem_of(tree):
    return _problem(game, tree, beliefs)

  def ask(tree, beliefs, wanted=None):
    """Returns values `[C, P, H]` and priors `[C, M, H]` at beliefs `[C, P, H]`."""
    turned = (tree.kind == 1)[:, None, None]
    beliefs = jnp.where(turned, beliefs[:, ::-1], beliefs)
    query = StateQuery(tree.features, beliefs)
    whole = wanted is None
    answer = network(params, query) if whole else ask_some(network, params, query, wanted)
    values = jnp.where(turned, answer.values[:, ::-1], answer.values)
    return values.astype(tree.dtype), _prior(tree, answer.logits / search.temperature)

  def updated(tree, state, asked, numbers):
    """Updates both players, and takes the priors of the states that were asked last."""
    problem = problem_of(tree)
    once = search.updates_per_round == 1 and not search.alternating
    if tree.hides and search.simulations and once:
      # Simulations ask for reach where they start, and what comes after them computes it anew. Who
      # responds to what the other has just learned would ask for all of it.
      problem = dataclasses.replace(problem, until=tree.depth[current])

    def update(j, carry):
      state, prior, asked = carry
      if network is None:
        values = jnp.zeros((capacity, 2, game.num_infostates), tree.dtype)
      elif ask_once:
        values = tree.values[:, :, None]
      else:
        here = algorithm.leaf_query(problem, state, 0).beliefs
        values, new = ask(tree, here, problem.is_frontier())
        prior = jnp.where(problem.is_frontier()[:, None, None], new, prior)
        asked = note(asked, problem, here, numbers.notes[j])
      state, _ = loop.update_both(problem, algorithm, state, lambda _, player: values[:, player])
      return state, prior, asked

    state, prior, asked = lax.fori_loop(
      0, search.updates_per_round, update, (state, tree.prior, asked)
    )
    return dataclasses.replace(tree, prior=prior), state, asked

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
    state, grown, asked = carry
    tree, state, asked = updated(grown.tree, state, asked, numbers)
    grown = Inserted(tree, grown.visits, jnp.zeros_like(grown.recent))
    if not search.simulations:
      return state, grown, asked
    now = problem_of(tree)
    view, reach = _view(now, algorithm, state, search), algorithm.core(state).reach
    for j in range(search.per_round):
      hands = sample_pair(now, reach, current, numbers.pairs[j])
      grown, places = simulate_inserted(
        game, view, grown, current, hands, numbers.walks[:, j], rules, width
      )
      grown = grown._replace(tree=joined(grown.tree, places))
    return algorithm.extend(problem_of(grown.tree), state), grown, asked

  rules = Rules(search.puct, search.children, game.largest_payoff)
  if network is not None:
    if ask_once:
      tree = joined(tree, jnp.arange(1 + game.num_children * (path.size + 1)))
    else:
      start = problem_of(tree)
      first = algorithm.leaf_query(start, algorithm.init(start), 0).beliefs
      tree = dataclasses.replace(tree, prior=ask(tree, first, tree.kind <= CHANCE)[1])
  first = problem_of(tree)
  state = algorithm.init(first)
  zeros = jnp.zeros_like(state.nodes[0])
  carry = state, Inserted(tree, zeros, zeros), Asked.nothing(first)
  steps = longest_walk(game, tree)
  state, grown, asked = in_rounds(round_of, carry, key, rounds, search, steps)
  root_values, believed = algorithm.root_values(problem_of(grown.tree), state.means), beliefs
  if promises is not None:
    believed = jnp.where(promises.given[:, None], promises.beliefs, beliefs)
  problem = _problem(game, grown.tree, believed)
  average = algorithm.average_policy(problem, state.means)
  policy = grown.tree.by_move(join_levels(average))
  there = grown.tree.present.reshape(-1, *[1] * (policy.ndim - 1))
  return GrownByInsertion(
    average_policy=jnp.where(there, policy, 0.0),
    root_values=root_values,
    values=jnp.where((grown.tree.kind == TERMINAL)[:, None], 0.0, algorithm.means(state.means)),
    reach=jnp.moveaxis(problem.node_reach(problem.both_reach(average)), 1, 0),
    known=algorithm.known(state.means) & (grown.tree.kind != TERMINAL)[None],
    visits=grown.tree.by_move(grown.visits),
    tree=grown.tree,
    current=current,
    root_mass=first.root_mass,
    asked=asked,
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
  if not len(path):  # without compilation there is no loop of no turns
    return tree, start
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
    some = mass > 0
    values.append(jnp.where(some, state.nodes[player], 0.0) / jnp.where(some, mass, 1.0))
  return InsertedView(join_levels(choose(problem, state.means)), jnp.stack(values))
