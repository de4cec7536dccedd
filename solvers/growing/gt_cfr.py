"""Growing-tree CFR: simulations and regret updates in turn (Player of Games, algorithm 1)."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games import Game, pairs
from games.game import CHANCE, check_is_game
from games.public_tree import Array, PublicTree, largest_payoff
from games.tabulate import NodeInfo, children_of
from solvers import loop, validation
from solvers.algorithms.gadgets import ContinualResolve
from solvers.algorithms.named import cfr_plus
from solvers.algorithms.wrappers import LeafMeans, Promises, WithGadget
from solvers.growing.insertion.tree import ByRules, InsertedTree, most_nodes
from solvers.growing.marked import OnTree, ancestors
from solvers.growing.simulate import Growth, View, in_rounds, sample_pair, simulate
from solvers.growing.states import GTCFR, StateFunction, StateQuery, ask_some
from solvers.growing.store import Store
from solvers.leaf_values import LeafValues, seat_of
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import Alternatives
from solvers.xla import Programs, by_rows, varying_alike


def check_nodes(tree: PublicTree, nodes: Any) -> None:
  """Checks that `nodes` is what `node_info` returns for `tree`."""
  if not isinstance(nodes, NodeInfo) or not isinstance(nodes.pair_index, np.ndarray | jax.Array):
    raise TypeError(f"nodes={type(nodes).__name__} must be what solvers.node_info returned")
  if len(nodes.pair_index) != tree.num_nodes:
    raise ValueError(f"nodes are those of {len(nodes.pair_index)}, but tree has {tree.num_nodes}")
  if validation.is_concrete(tree, nodes):
    number = nodes.child.shape[1]
    if tree.action.max() >= number or (children_of(tree, number) != nodes.child).any():
      raise ValueError("nodes are those of another tree; solvers.node_info(game, tree) makes them")


def _start_on_tree(tree: PublicTree, nodes: Any, root: Any, current: Any, beliefs: Any) -> OnTree:
  """Returns the start of `gt_cfr` in a tree; arguments as for `gt_cfr`."""
  validation.check_unstacked(tree)
  check_nodes(tree, nodes)
  beliefs = tree.prior if beliefs is None else beliefs
  validation.check_shape("beliefs", beliefs, (2, tree.num_infostates), "(P, H)")
  root = 0 if root is None else root
  root, current = (
    jnp.asarray(validation.integers(name, node, 0, tree.num_nodes - 1, ndim=0), jnp.int32)
    for name, node in (("root", root), ("current", root if current is None else current))
  )
  if validation.is_concrete(tree, nodes, root, current):
    if root not in ancestors(tree.structure)[current] or tree.kind[int(current)] > CHANCE:
      raise ValueError(
        f"current={int(current)} must be a node where the game goes on, root={int(root)} or below"
      )
    if validation.is_concrete(beliefs):
      possible = None if tree.possible is None else np.asarray(tree.possible)[int(root)]
      table = int(nodes.pair_index[int(root)])
      validation.check_distributions(beliefs, possible, pairs.of_tree(tree), table)
  beliefs = jnp.asarray(beliefs, tree.dtype)
  return OnTree(tree, nodes, largest_payoff(tree), root, current, beliefs, None)


def _start_by_rules(
  game: Game, search: GTCFR, state: Any, possible: Any, path: Any, beliefs: Any, capacity: Any
) -> ByRules:
  """Returns the start of `gt_cfr` in a game by its rules; arguments as for `gt_cfr`."""
  if game.renumbers:
    raise ValueError(
      f"infostates of {game.name} change by others' moves, which rules do not follow"
    )
  if beliefs is None and state is not None:
    raise ValueError("beliefs=None are the game's prior: give those at root")
  if game.num_hidden > 1 and possible is None:
    if state is not None:
      raise ValueError(f"possible=None, but infostates of {game.name} change: give those possible")
    possible = np.asarray(game.prior()) > 0
  shape = (2, game.num_infostates)
  first = np.asarray(game.initial_state())
  state = first if state is None else state
  validation.check_shape("root", state, first.shape, "(S,)")
  beliefs = game.prior() if beliefs is None else beliefs
  validation.check_shape("beliefs", beliefs, shape, "(P, H)")
  possible = np.ones(shape, bool) if possible is None else possible
  validation.check_shape("possible", possible, shape, "(P, H)")
  path = jnp.asarray(validation.integers("path", path, -1, 2**31 - 1, ndim=1), jnp.int32)
  if validation.is_concrete(state, possible, path, beliefs):
    followed = [action for action in path.tolist() if action >= 0]
    last = game.state_after(followed, start=np.asarray(state), field="path")
    if game.actor(last[None])[0] > CHANCE:
      raise ValueError(f"root and path={followed} lead to where the game is over")
    table = int(game.pair_index(np.asarray(state)[None])[0])
    validation.check_distributions(beliefs, np.asarray(possible) > 0, game.pairs(), table)
  least, most = 1 + game.num_children * (path.size + 1), most_nodes(game, search, path.size)
  capacity = most if capacity is None else validation.check_integer("capacity", capacity)
  if capacity < least:
    raise ValueError(
      f"capacity={capacity} must have room for the root, the path and their children: {least} nodes"
    )
  state, possible, beliefs = jnp.asarray(state), jnp.asarray(possible), jnp.asarray(beliefs, float)
  return ByRules(state, possible, path, beliefs, None, game, min(capacity, most))


class Asked(NamedTuple):
  """One of a search's questions to the network, drawn uniformly."""

  here: Any  # `[]` a leaf's place in the store; of a chain's search its public state
  beliefs: jax.Array  # `[P, H]` there, player 0's first
  total: jax.Array  # `[]` how many questions there were


def answer(
  network: StateFunction,
  params: Any,
  store: Store,
  query: StateQuery,
  temperature: float,
  wanted: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
  """Returns both players' values `[L, P, H]` and priors `[L, M, H]` of a store's leaves."""
  movers = store.movers
  query = query._replace(beliefs=seat_of(movers, query.beliefs))
  found = network(params, query) if wanted is None else ask_some(network, params, query, wanted)
  dtype = store.prior.dtype
  legal, logits = store.open, (found.logits / temperature).astype(dtype)
  # Logits of more moves than the store's are left out: those of chance's outcomes, which are alike.
  logits = jnp.where((movers < CHANCE)[:, None, None], logits[:, : legal.shape[1]], 0.0)
  values = seat_of(movers, found.values).astype(dtype)
  return values, jax.nn.softmax(logits, axis=1, where=legal)


def note(asked: Asked, problem: Any, beliefs: jax.Array, numbers: jax.Array) -> Asked:
  """Returns one question, drawn uniformly from earlier ones and those of one update."""
  wanted = problem.frontier
  seen = jnp.cumsum(wanted, dtype=jnp.int32)
  number = seen[-1]
  row = jnp.argmax(seen.astype(numbers.dtype) > numbers[0] * number.astype(numbers.dtype))
  total = asked.total + number
  is_new = numbers[1] * total.astype(numbers.dtype) < number.astype(numbers.dtype)
  new = Asked(problem.rows[row].astype(jnp.int32), beliefs[row], total)
  return jax.tree.map(lambda x, y: jnp.where(is_new, x, y), new, asked._replace(total=total))


_LAST = 2**31 - 1  # no round has this number


class Grown(NamedTuple):
  """The result of a search: its answer, and data from which the next search starts."""

  # Places are a tree's nodes or those of `tree`; letters as in `solvers.growing.store`.
  policy: jax.Array  # `[M, H]` the average policy where simulations started, by move
  average_policy: jax.Array  # `[C, H]` by the node moved to; inserted hidden moves `[C, M, H]`
  # `[P, H]` mean expected payoffs at the root; with alternatives as if the opponent always entered
  root_values: jax.Array
  root_mass: jax.Array  # `[P, H]` the other's mass at the root that is compatible with an infostate
  values: jax.Array  # `[P, C, H]` mean expected payoffs at inner nodes
  reach: jax.Array  # `[P, C, H]` average policy times public chance and root beliefs
  known: jax.Array  # `[P, C]` whether the other played there in an update; else no values are known
  present: jax.Array  # `[C]` which places hold a node of the search
  visits: jax.Array  # `[C, M, H]` how often simulations made a move
  current: jax.Array  # `[]` the place that simulations started from
  asked: Asked  # one of the search's questions; the root is among them in updates alone
  tree: Any  # the nodes of a search by insertion, `tree.lost` of which had no room; else None


@validation.checked
def gt_cfr(
  rules: Any,
  nodes: NodeInfo | None = None,
  *,
  search: GTCFR,
  key: jax.Array,
  leaf_values: LeafValues | None = None,
  network: StateFunction | None = None,
  params: Any = None,
  root: Any = None,
  current: int | jax.Array | None = None,
  possible: Array | None = None,
  path: Array | Sequence[int] = (),
  beliefs: Array | None = None,
  alternatives: Alternatives | Array | None = None,
  searcher: int | jax.Array | None = None,
  capacity: int | None = None,
) -> Grown:
  """Searches below a public state of a game by growing-tree CFR.

  Works under `jax.jit`, `jax.vmap` (over roots, paths, beliefs, keys and params) and inside
  `lax.scan`. The network is asked in every update about the leaves, for both players' values at the
  beliefs of the current policies and for the prior of simulations. By rules with one infostate a
  player it is asked once about each state, when it joins, and its values are scaled by reach
  (Player of Games, sections 3.2 and B.2).

  Args:
    rules: the game's whole tree, or all of it that a search may grow into, whose nodes the search
      marks; or the game, static, whose rules make the nodes that it inserts.
    nodes: of a tree, from `solvers.node_info(game, tree)`.
    search: settings; static. `whole` is for trees.
    key: a random key, as `jax.random.key` returns it.
    leaf_values: in trees, of `(params, query)` as for `solve`; asked in every update about all
      inner nodes, of which the leaves' answers count. None for zero.
    network: instead of it, of `(params, StateQuery)`; static.
    params: passed on to either.
    root: the node at which the search starts, or `[S]` the public state; None for the first.
    current: in trees, the node at which simulations start, `root` or below it; what lies between is
      in the tree from the start.
    possible: by rules, `[P, H]` which infostates the rules allow at `root`; None for all, in a game
      with hidden moves for those of its prior.
    path: by rules, `[D]` legal public actions from `root` to where simulations start, then -1.
    beliefs: `[P, H]` at the root; None for the game's prior, at its own root.
    alternatives: what the opponent of `searcher` is promised at the root; see `ContinualResolve`.
    searcher: whose policy is wanted, with `alternatives`.
    capacity: by rules, room for nodes; None for as many as could join. Children of a node join all
      or, where they do not fit, not at all, and are counted in `Grown.tree.lost`.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: a static argument is out of range, or a shape is wrong; or what is not traced is not
      allowed: beliefs that are no distributions, promises beyond what the game pays, a root where
      the game is over, or a path that is not legal.
  """
  typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if not typed or key.ndim:
    raise TypeError(f"key={type(key).__name__} must be one key, such as jax.random.key(0)")
  if leaf_values is not None and network is not None:
    raise ValueError("leaves are valued by leaf_values or by network: give one of them")
  if (alternatives is None) != (searcher is None):
    raise ValueError("alternatives belong to a searcher: give both, or neither")
  if searcher is not None and validation.is_concrete(searcher):
    validation.check_player(np.asarray(searcher)[()], "searcher")
  on_tree = isinstance(rules, PublicTree)
  way = path or None if isinstance(path, Sequence) else path
  foreign: dict[str, Any] = {"possible": possible, "path": way, "capacity": capacity}
  if not on_tree:
    check_is_game(rules)
    foreign = {"nodes": nodes, "leaf_values": leaf_values, "current": current}
    foreign["whole"] = search.whole or None
  for name, value in foreign.items():
    if value is not None:
      raise ValueError(f"{name} is not for {'trees' if on_tree else 'games by their rules'}")
  if on_tree:
    given: Any = _start_on_tree(rules, nodes, root, current, beliefs)
    most = None if rules.depth_limited else given.scale
  else:
    given = _start_by_rules(rules, search, root, possible, path, beliefs, capacity)
    most = rules.largest_payoff
  if alternatives is not None and searcher is not None:
    most = most if validation.is_concrete(most) else None
    alternatives = validation.check_promises(alternatives, searcher, given.beliefs.shape[1], most)
    own = given.beliefs[1 - searcher]
    known = own if alternatives.beliefs is None else alternatives.beliefs
    promised = Promises.to_opponent(searcher, alternatives.value, known)
    given = dataclasses.replace(given, promises=promised)
  return by_rows(
    lambda *x: grow(*x, search.rounds, search.of_any_length(), leaf_values, network),
    given, key, params,
  )  # fmt: skip


@functools.partial(Programs, static_argnames=("search", "leaf_values", "network"))
def grow(
  start: OnTree | ByRules,
  key: jax.Array,
  params: Any,
  rounds: int | jax.Array,
  search: GTCFR,
  leaf_values: LeafValues | None = None,
  network: StateFunction | None = None,
) -> Grown:
  """Runs `gt_cfr` without checks; `rounds` is traced, so that one program serves every number."""
  start, key, params = varying_alike((start, key, params))
  beliefs, promises = jnp.asarray(start.beliefs), start.promises
  inner: Any = cfr_plus(averaging=1.0, alternating=search.alternating)
  if promises is not None:
    inner = WithGadget(inner, ContinualResolve(0, search.mix), promises)
  algorithm = LeafMeans(inner)
  store, current = start.plant(search)
  problem = store.problem(beliefs)
  state = algorithm.init(problem)
  asks = network is not None and not store.asks_once
  seen = None  # a question's part about states, where they are known beforehand
  if network is not None and asks and not store.grows:
    encode, seen = getattr(network, "encode", None), StateQuery(store.seen(), jnp.zeros(()))
    if encode is not None:
      seen = seen._replace(features=None, encoded=encode(params, seen.features))

  def ask(store, beliefs, wanted):
    assert network is not None
    query = StateQuery(store.seen(), beliefs) if seen is None else seen._replace(beliefs=beliefs)
    return answer(network, params, store, query, search.temperature, wanted)

  def update(now, store, numbers, j, carry):
    state, prior, asked, _ = carry
    query = algorithm.leaf_query(now, state, 0)
    values = jnp.zeros_like(query.beliefs)
    if store.asks_once and network is not None:
      values = store.values[:, :, None]
    elif leaf_values is not None:
      queries = [algorithm.leaf_query(now, state, player) for player in (0, 1)]
      values = jnp.stack([leaf_values(params, query) for query in queries], axis=1)
    elif network is not None:
      wanted = now.frontier
      values, new = ask(store, query.beliefs, wanted)
      prior = jnp.where(wanted[:, None, None], new, prior)
    if not store.asks_once:
      asked = note(asked, now, query.beliefs, numbers.notes[j])
    state, sweeps = loop.update_both(now, algorithm, state, lambda _, player: values[:, player])
    nodes, mass = (join_levels(x.nodes) for x in sweeps), (x.mass for x in sweeps)
    return state, prior, asked, (tuple(nodes), tuple(mass))

  def round_of(numbers, carry):
    state, growth, asked = carry
    store, now = growth.store, growth.store.problem(beliefs, problem)
    state = algorithm.extend(now, state)
    nodes = join_levels(algorithm.core(state).policy)
    once = search.updates_per_round == 1 and not search.alternating
    soon = now.until_update(current) if search.simulations and once else now
    state, prior, asked, sweeps = lax.fori_loop(
      0,
      search.updates_per_round,
      functools.partial(update, soon, store, numbers),
      (state, store.prior, asked, ((nodes, nodes), state.sums.weight)),  # of the sweeps' shapes
    )
    growth = growth._replace(store=dataclasses.replace(store, prior=prior))
    if not search.simulations:
      return state, growth, asked
    policies = {"average": algorithm.average_policy, "current": algorithm.current_policy}
    followed = join_levels(policies[search.selection](now, state))
    view = View(followed, sweeps[0], sweeps[1], growth.visits)
    reach = algorithm.core(state).reach
    row = jnp.argmax(jnp.asarray(now.rows, jnp.int32) == jnp.asarray(current, jnp.int32))
    own = [now.leaf_reach(reach[p], p)[row] for p in (0, 1)]
    met = functools.partial(now.compatible_mass, row=row)
    for j in range(search.per_round):
      hands = sample_pair(own, met, numbers.pairs[j])
      growth, places = simulate(view, growth, current, hands, numbers.walks[:, j], search)
      if store.asks_once and network is not None:
        growth = growth._replace(store=_ask_joined(growth.store, places, network, params, search))
    return state, growth, asked

  if asks:
    first = algorithm.leaf_query(problem, state, 0).beliefs
    wanted = store.present[problem.rows] & (store.movers <= CHANCE)
    prior = jnp.where(wanted[:, None, None], ask(store, first, wanted)[1], store.prior)
    store = dataclasses.replace(store, prior=prior)
  elif network is not None:
    store = _ask_joined(store, problem.rows, network, params, search)
  zeros = jnp.zeros((len(store.kind), *store.prior.shape[1:]), beliefs.dtype)
  none = jnp.zeros((), jnp.int32)
  asked = Asked(none, jnp.zeros((2, problem.num_infostates), problem.tree.dtype), none)
  carry = varying_alike((state, Growth(store, zeros), asked), beliefs)
  state, (store, visits), asked = in_rounds(round_of, carry, key, rounds, search, store.steps)
  if store.asks_once:
    asked = _one_asked(store, jax.random.fold_in(key, _LAST))
  root_values, believed = algorithm.root_values(problem, state), beliefs
  if promises is not None:
    believed = jnp.where(promises.given[:, None], promises.beliefs, beliefs)
  end = store.problem(believed)
  average = algorithm.average_policy(end, state)
  rows = join_levels(average)
  moves = jax.vmap(store.moves, (None, 0), out_axes=-1)(current, jnp.arange(beliefs.shape[1]))
  policy = store.by_move(rows)
  there = store.present.reshape(-1, *[1] * (policy.ndim - 1))
  return Grown(
    policy=jnp.where(moves.known, rows[moves.row, moves.column], 0.0),
    average_policy=jnp.where(there, policy, 0.0),
    root_values=root_values,
    root_mass=problem.root_mass,
    values=store.at_places(algorithm.means(state)),
    reach=jnp.moveaxis(end.node_reach(end.both_reach(average)), 1, 0),
    known=store.at_places(algorithm.known(state)[..., None])[..., 0],
    present=store.present,
    visits=visits,
    current=current,
    asked=asked,
    tree=store if store.grows else None,
  )


def _ask_joined(
  store: Any, places: jax.Array, network: Any, params: Any, search: GTCFR
) -> InsertedTree:
  """Asks about nodes at `places` `[K]` that have just joined, for good."""
  at = jnp.minimum(places, store.capacity - 1)
  rows = jax.tree.map(lambda x: x[at] if x.ndim else x, store)
  query = StateQuery(rows.features, jnp.ones((len(places), 2, 1), store.dtype))
  values, prior = answer(network, params, rows, query, search.temperature)
  over = (rows.kind > CHANCE)[:, None]
  values = jnp.where(over, rows.values, values[:, :, 0])
  return dataclasses.replace(
    store,
    values=store.values.at[places].set(values, mode="drop"),
    prior=store.prior.at[places].set(prior, mode="drop"),
  )


def _one_asked(store: Any, key: jax.Array) -> Asked:
  """Draws one of the states that were asked about when they joined."""
  there = (store.depth > 0) & (store.kind <= CHANCE)
  order = jnp.where(there, jax.random.uniform(key, there.shape), -1.0)
  total = there.sum(dtype=jnp.int32)
  return Asked(jnp.argmax(order).astype(jnp.int32), jnp.ones((2, 1), store.dtype), total)
