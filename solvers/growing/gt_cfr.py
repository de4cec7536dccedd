"""Growing-tree CFR: simulations and regret updates in turn (Player of Games, algorithm 1).

Every node of the game's tree has its place; a search marks those that it has added. Regrets are
updated on the marked nodes, the leaves among them valued from outside, and simulations add more.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array, PublicTree, largest_payoff
from solvers import loop, validation
from solvers.algorithms.gadgets.continual_resolve import ContinualResolve
from solvers.algorithms.named import cfr_plus
from solvers.growing.asked import Ask, Asked, ask_about, note, prior_of
from solvers.growing.checks import check_function, check_key, check_node, check_nodes
from solvers.growing.choose import Rules, in_rounds
from solvers.growing.resolving import Promises, Resolving
from solvers.growing.rooted_problem import (
  RootedProblem,
  children_of_marked,
  nodes_above,
  nodes_below,
  rooted_problem,
)
from solvers.growing.settings import GTCFR, check_search
from solvers.growing.simulate import Growth, View, sample_pair, simulate
from solvers.growing.states import StateFunction
from solvers.growing.watched import Seen, Watched
from solvers.leaf_values import LeafValues
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import join_levels
from solvers.sweeps.masked import NodeInfo, at_nodes, with_nodes


class Grown(NamedTuple):
  """What a search leaves: its answer, and what the next search starts from.

  Attributes:
    average_policy: `[N, H]`; zero for nodes that are not in the tree.
    root_values: `[P, H]` mean expected payoffs at the root; under alternatives those of an
      opponent that enters always.
    root_mass: `[P, H]` the other's mass at the root that is compatible with an infostate.
    values: `[P, N, H]` mean expected payoff at every inner node, by each player's infostate: sums
      of counterfactual values over sums of the other's mass.
    reach: `[P, N, H]` players' ranges: average policy times public chance and what they were
      believed to hold at the root.
    known: `[P, N]` whether anything is known of those values: of a node that joined after the last
      update, or that the other has not played to since it joined, there is not.
    present: `[N]` which nodes are in the tree.
    visits: `[N, H]` how often simulations made a move.
    asked: one of the questions that the search asked about its leaves, drawn from all of them.
  """

  average_policy: jax.Array
  root_values: jax.Array
  root_mass: jax.Array
  values: jax.Array
  reach: jax.Array
  known: jax.Array
  present: jax.Array
  visits: jax.Array
  asked: Asked


class Given(NamedTuple):
  """What a search is about: parameters, where it starts and simulates, and what is known there."""

  params: Any
  root: Array
  current: Array
  beliefs: Array
  promises: Promises
  scale: Array  # the largest payoff of the game, of which the tree may be a part


def gt_cfr(
  tree: PublicTree,
  nodes: NodeInfo,
  *,
  search: GTCFR,
  key: jax.Array,
  leaf_values: LeafValues | None = None,
  network: StateFunction | None = None,
  params: Any = None,
  root: int | jax.Array = 0,
  current: int | jax.Array | None = None,
  beliefs: Array | None = None,
  alternatives: Alternatives | None = None,
  searcher: int | jax.Array | None = None,
) -> Grown:
  """Searches below a node of a game by growing-tree CFR.

  Works under `jax.jit`, `jax.vmap` (over roots, beliefs, keys and params) and inside `lax.scan`.

  Args:
    tree: the game's whole tree, or all of it that a search may grow into.
    nodes: from `solvers.node_info(game, tree)`.
    search: settings; static.
    key: a random key, as `jax.random.key` returns it.
    leaf_values: of `(params, query)` as for `solve`; asked in every update about all inner nodes,
      of which the leaves' answers count. None for zero.
    network: instead of it, of `(params, StateQuery)`; asked in every update about the leaves alone,
      for both players' values and for the policy that simulations take as their prior.
    params: passed on to either.
    root: the node at which the search starts.
    current: the node at which simulations start, below `root` or the same, for continual
      re-solving; what lies between is in the tree from the start.
    beliefs: `[P, H]` at `root`; None for the tree's prior, at its own root.
    alternatives: what the opponent of `searcher` is promised at `root`; see `ContinualResolve`.
    searcher: whose policy is wanted, with `alternatives`.

  Raises:
    ValueError: a static argument is out of range or a shape is wrong.
  """
  validation.check_unstacked(tree)
  check_search(search)
  check_nodes(tree, nodes)
  check_key(key)
  check_function("leaf_values", leaf_values)
  check_function("network", network)
  if leaf_values is not None and network is not None:
    raise ValueError("leaves are valued by leaf_values or by network: give one of them")
  if (alternatives is None) != (searcher is None):
    raise ValueError("alternatives belong to a searcher: give both, or neither")
  if beliefs is None:
    beliefs = tree.prior
  else:
    shape = (2, tree.num_infostates)
    validation.check_shape("beliefs", beliefs, shape, "(P, H)")
  promises = Promises.none(tree.num_infostates, tree.dtype)
  if alternatives is not None and searcher is not None:
    if isinstance(searcher, int):
      validation.check_player(searcher, "searcher")
    known = beliefs[1 - searcher] if alternatives.beliefs is None else alternatives.beliefs
    promises = Promises.to_opponent(searcher, alternatives.value, known)
  root = check_node("root", tree, root)
  current = root if current is None else check_node("current", tree, current)
  beliefs = jnp.asarray(beliefs, tree.dtype)
  given = Given(params, root, current, beliefs, promises, largest_payoff(tree))
  return grow(tree, nodes, key, given, search.rounds, search.of_any_length(), leaf_values, network)


@functools.partial(jax.jit, static_argnames=("search", "leaf_values", "network"))
def grow(
  tree: PublicTree,
  nodes: NodeInfo,
  key: jax.Array,
  given: Given,
  rounds: int | jax.Array,
  search: GTCFR,
  leaf_values: LeafValues | None = None,
  network: StateFunction | None = None,
) -> Grown:
  """Does what `gt_cfr` says, unchecked; `rounds` is traced, so that one program serves them all."""
  tree, given = jax.tree.map(jnp.asarray, (tree, given))
  root, current = (jnp.asarray(x, jnp.int32) for x in (given.root, given.current))
  inner: Any = cfr_plus(averaging=1.0, alternating=search.alternating)
  algorithm = Watched(Resolving(inner, ContinualResolve(0, search.mix), given.promises))
  ids = jnp.arange(tree.num_nodes, dtype=jnp.int32)
  below = nodes_below(tree, ids == root)
  path = below & nodes_above(tree, ids == current)
  present = below if search.whole else path | children_of_marked(tree, path)
  problem = rooted_problem(tree, nodes, root, given.beliefs, present)
  everywhere = with_nodes(problem, jnp.ones(tree.num_nodes, bool))
  ask = Ask.of(nodes, problem, given.params, leaf_values, network)
  rules = Rules(search.puct, search.children, given.scale)
  state, prior = algorithm.init(problem), join_levels(everywhere.uniform_policy())
  if network is not None:  # of what is there from the start, which is not all at the frontier
    first = algorithm.leaf_query(problem, state, 0).beliefs
    rows = present[problem.rows]
    logits: Any = ask.answer(first, rows).logits
    prior = prior_of(everywhere, problem, logits / search.temperature, prior, rows)

  def round_of(numbers, carry):
    state, present, visits, prior, asked = carry
    now = with_nodes(problem, present)

    def update(j, carry):
      state, asked, _ = carry
      query = algorithm.leaf_query(now, state, 0)
      answers = ask_about(ask, now, algorithm, state, query.beliefs)
      state, _ = loop.update_both(now, algorithm, state, lambda _, player: answers.values[player])
      return state, note(asked, now, query.beliefs, numbers.notes[j]), answers.logits

    first = state, asked, ask.no_logits(problem)
    state, asked, logits = lax.fori_loop(0, search.updates_per_round, update, first)
    if not search.simulations:
      return state, present, visits, prior, asked
    if logits is not None:
      prior = prior_of(everywhere, now, logits / search.temperature, prior, now.is_frontier())
    growth = Growth(present, visits, zeros)
    view = _view(now, algorithm, state, prior, search)
    reach = algorithm.core(state).reach
    for j in range(search.per_round):
      hands = sample_pair(now, reach, current, numbers.pairs[j])
      growth = simulate(now, view, growth, current, hands, numbers.walks[:, j], rules)
    state = algorithm.extend(with_nodes(problem, growth.present), state)
    return state, growth.present, growth.visits, prior, asked

  zeros = jnp.zeros((tree.num_nodes, tree.num_infostates), tree.dtype)
  start = state, present, zeros, prior, Asked.nothing(problem)
  steps = tree.structure.depth
  end = in_rounds(round_of, start, key, rounds, search, steps)
  state, present, visits, _, asked = end
  root_values = algorithm.root_values(problem, state.means)
  promised = given.promises.given[:, None]
  believed = jnp.where(promised, given.promises.beliefs, given.beliefs)
  problem = rooted_problem(tree, nodes, root, believed, present)
  return _result(problem, algorithm, state, Growth(present, visits, zeros), root_values, asked)


def _view(problem: RootedProblem, algorithm: Watched, state: Seen, prior, search: GTCFR) -> View:
  choose = algorithm.current_policy if search.selection == "current" else algorithm.average_policy
  policy = join_levels(choose(problem, state.means))
  return View(policy, state.nodes, state.mass, prior)


def _result(
  problem: RootedProblem,
  algorithm: Watched,
  state: Seen,
  growth: Growth,
  root_values: jax.Array,
  asked: Asked,
) -> Grown:
  average = algorithm.average_policy(problem, state.means)
  means = algorithm.means(state.means)
  values = at_nodes(problem.tree.structure, means)
  reach = problem.node_reach(problem.both_reach(average))
  return Grown(
    average_policy=join_levels(average),
    root_values=root_values,
    root_mass=problem.root_mass,
    values=values,
    reach=jnp.moveaxis(reach, 1, 0),
    known=at_nodes(problem.tree.structure, algorithm.known(state.means)[..., None])[..., 0],
    present=growth.present,
    visits=growth.visits,
    asked=asked,
  )
