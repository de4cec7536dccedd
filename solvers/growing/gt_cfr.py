"""Growing-tree CFR: simulations and regret updates in turn (Player of Games, algorithm 1).

Every node of the game's tree has its place; a search marks those that it has added. Regrets are
updated on the marked nodes, the leaves among them valued from outside, and simulations add more.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array, PublicTree
from solvers import loop, validation
from solvers.algorithms.gadgets.continual_resolve import ContinualResolve
from solvers.algorithms.leaf_means import LeafMeans, LeafMeansState
from solvers.algorithms.named import cfr_plus
from solvers.algorithms.with_gadget import WithGadget
from solvers.growing.checks import (
  check_key,
  check_leaf_function,
  check_node,
  check_nodes,
  check_prior,
)
from solvers.growing.choose import Rules
from solvers.growing.rooted_problem import (
  RootedProblem,
  children_of_marked,
  nodes_above,
  nodes_below,
  rooted_problem,
)
from solvers.growing.simulate import Growth, View, sample_pair, simulate
from solvers.leaf_values import LeafValues
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.masked import NodeInfo, with_nodes
from solvers.sweeps.problem import Sweep


@dataclasses.dataclass(frozen=True)
class GTCFR:
  """Settings of growing-tree CFR; the paper's PoG(s, c) is `GTCFR(simulations=s, per_update=c)`.

  Updates are of both players at once, by regret matching+ with linear averaging, and a fraction
  `per_update` of c < 1 means 1 / c updates for each simulation.

  Attributes:
    simulations: how many in all; 0 grows nothing.
    per_update: simulations for each update of both players.
    updates: how many without simulations; else they are counted from the two above.
    whole: whether the tree below the root is all there from the start.
    children: how many moves of a player a leaf gets when it is added, those of the highest prior;
      None for all. Chance's are added together.
    puct: how much PUCT explores.
    puct_share: share of PUCT's moves; the others follow the policy.
    selection: which policy, `"current"` or `"average"`.
    mix: share of `ContinualResolve`'s followers, where there are alternatives.

  Raises:
    ValueError: a number is out of range.
  """

  simulations: int = 100
  per_update: float = 1.0
  updates: int | None = None
  whole: bool = False
  children: int | None = None
  puct: float = 1.25
  puct_share: float = 0.5
  selection: str = "current"
  mix: float = 0.2

  def __post_init__(self):
    validation.check_integer("simulations", self.simulations, least=0)
    ratio = validation.check_number("per_update", self.per_update, allow_infinite=False)
    if ratio <= 0 or not _whole(max(ratio, 1 / ratio)):
      raise ValueError(f"per_update={self.per_update!r} must be a whole number, or one over one")
    if self.simulations % self.per_round:
      raise ValueError(
        f"simulations={self.simulations} must be a multiple of per_update={self.per_update}"
      )
    if (self.updates is None) != (self.simulations > 0):
      raise ValueError(
        f"updates={self.updates!r} must be a number if simulations=0, and None otherwise"
      )
    validation.check_bool("whole", self.whole)
    if self.updates is not None:
      validation.check_integer("updates", self.updates)
    if self.children is not None:
      validation.check_integer("children", self.children)
    for name in ("puct_share", "mix"):
      if not 0 <= validation.check_number(name, getattr(self, name)) <= 1:
        raise ValueError(f"{name}={getattr(self, name)!r} must be a share, from 0 to 1")
    validation.check_number("puct", self.puct, allow_infinite=False)
    if self.selection not in ("current", "average"):
      raise ValueError(f"selection={self.selection!r} must be 'current' or 'average'")

  @property
  def per_round(self) -> int:
    """Simulations between two rounds of updates."""
    return max(1, round(self.per_update))

  @property
  def updates_per_round(self) -> int:
    """Updates of both players in each round."""
    return max(1, round(1 / self.per_update))

  @property
  def rounds(self) -> int:
    """How often updates and simulations take turns."""
    return self.updates or self.simulations // self.per_round

  def of_any_length(self) -> "GTCFR":
    """Returns the settings of one round, which are the same for searches of all lengths."""
    if self.simulations:
      return dataclasses.replace(self, simulations=self.per_round)
    return dataclasses.replace(self, updates=1)


def check_search(search: Any) -> None:
  """Checks that `search` is settings of a search."""
  if not isinstance(search, GTCFR):
    raise TypeError(f"search={search!r} must be solvers.GTCFR")


def _whole(number: float) -> bool:
  return math.isclose(number, round(number), rel_tol=1e-6)


class Grown(NamedTuple):
  """What a search leaves: its answer, and what the next search starts from.

  Attributes:
    average_policy: `[N, H]`; zero for nodes that are not in the tree.
    root_values: `[P, H]` mean expected payoffs at the root; under alternatives those of an
      opponent that enters always.
    values: `[P, N, H]` mean expected payoff at every inner node, by each player's infostate: sums
      of counterfactual values over sums of the other's mass.
    reach: `[P, N, H]` players' ranges: average policy times public chance and what they were
      believed to hold at the root.
    present: `[N]` which nodes are in the tree.
    visits: `[N, H]` how often simulations made a move.
  """

  average_policy: jax.Array
  root_values: jax.Array
  values: jax.Array
  reach: jax.Array
  present: jax.Array
  visits: jax.Array


class Seen(NamedTuple):
  """State of `Watched`: that of `LeafMeans`, and the last update's values and masses."""

  means: LeafMeansState
  nodes: jax.Array  # [P, N, H] counterfactual
  mass: jax.Array  # [P, L, H]


class Watched(LeafMeans):
  """`LeafMeans` that also keeps the last sweep, which simulations choose by."""

  def init(self, problem: Any, policy: Levels | None = None) -> Any:
    means = super().init(problem, policy)
    nodes = jnp.zeros((2, problem.tree.num_nodes, problem.num_infostates), problem.tree.dtype)
    return Seen(means, nodes, jnp.zeros_like(means.mass))

  def leaf_query(self, problem: Any, state: Any, player: int) -> Any:
    return super().leaf_query(problem, state.means, player)

  def update(
    self, problem: Any, state: Any, values: jax.Array | None, player: int
  ) -> tuple[Any, Sweep]:
    reach = self.algorithm.core(state.means.inner).reach[1 - player]
    means, sweep = super().update(problem, state.means, values, player)
    mass = problem.weigh_leaf_values(jnp.ones_like(state.mass[player]), reach, player)
    nodes = state.nodes.at[player].set(join_levels(sweep.nodes))
    return Seen(means, nodes, state.mass.at[player].set(mass)), sweep

  def merge(self, problem: Any, first: Any, second: Any) -> Any:
    means = super().merge(problem, first.means, second.means)
    pick = lambda x, y: jnp.stack([x[0], y[1]])  # noqa: E731
    return Seen(means, pick(first.nodes, second.nodes), pick(first.mass, second.mass))

  def extend(self, problem: Any, state: Any) -> Any:
    return state._replace(means=super().extend(problem, state.means))

  def core(self, state: Any) -> Any:
    return super().core(state.means)


def gt_cfr(
  tree: PublicTree,
  nodes: NodeInfo,
  *,
  search: GTCFR,
  key: jax.Array,
  leaf_values: LeafValues | None = None,
  params: Any = None,
  root: int | jax.Array = 0,
  current: int | jax.Array | None = None,
  beliefs: Array | None = None,
  alternatives: Alternatives | None = None,
  searcher: int | None = None,
  prior: Array | None = None,
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
    params: passed on to `leaf_values`.
    root: the node at which the search starts.
    current: the node at which simulations start, below `root` or the same, for continual
      re-solving; what lies between is in the tree from the start.
    beliefs: `[P, H]` at `root`; None for the tree's prior, at its own root.
    alternatives: what the opponent of `searcher` is promised at `root`; see `ContinualResolve`.
    searcher: whose policy is wanted, with `alternatives`; static.
    prior: `[N, H]` how likely each move is to be good, as a network thinks; None for uniform.

  Raises:
    ValueError: a static argument is out of range or a shape is wrong.
  """
  validation.check_unstacked(tree)
  check_search(search)
  check_nodes(tree, nodes)
  check_key(key)
  check_leaf_function(leaf_values)
  if (alternatives is None) != (searcher is None):
    raise ValueError("alternatives belong to a searcher: give both, or neither")
  if beliefs is None:
    beliefs = tree.prior
  else:
    shape = (2, tree.num_infostates)
    validation.check_shape("beliefs", beliefs, shape, "(P, H)")
  if searcher is not None:
    validation.check_player(searcher, "searcher")
  root = check_node("root", tree, root)
  where = root, root if current is None else check_node("current", tree, current)
  beliefs = jnp.asarray(beliefs, tree.dtype)
  given = params, where, beliefs, alternatives, check_prior(tree, prior)
  return grow(tree, nodes, key, given, search.rounds, search.of_any_length(), leaf_values, searcher)


@functools.partial(jax.jit, static_argnames=("search", "leaf_values", "searcher"))
def grow(tree, nodes, key, given, rounds, search, leaf_values, searcher) -> Grown:
  """Does what `gt_cfr` says, unchecked; `rounds` is traced, so that one program serves them all."""
  params, (root, current), beliefs, alternatives, prior = given
  tree = jax.tree.map(jnp.asarray, tree)
  inner: Any = cfr_plus(averaging=1.0, alternating=False)
  if searcher is not None:
    inner = WithGadget(inner, ContinualResolve(searcher, search.mix))
  algorithm = Watched(inner)
  ids = jnp.arange(tree.num_nodes)
  below = nodes_below(tree, ids == root)
  path = below & nodes_above(tree, ids == current)
  present = below if search.whole else path | children_of_marked(tree, path)
  problem = rooted_problem(tree, nodes, root, beliefs, present)
  problem = dataclasses.replace(problem, alternatives=alternatives)

  def ask(query):
    if leaf_values is None:
      return jnp.zeros(query.beliefs.shape[::2], tree.dtype)
    return leaf_values(params, query)

  rules = Rules(search.puct, search.puct_share, search.children, _largest_payoff(tree))
  if prior is None:
    everywhere = with_nodes(problem, jnp.ones(tree.num_nodes, bool))
    prior = join_levels(everywhere.uniform_policy())

  def round_of(i, carry):
    state, growth, key = carry
    now = with_nodes(problem, growth.present)
    end = loop.run(now, algorithm, ask, 2 * search.updates_per_round, state=state)
    state = end.state
    if not search.simulations:
      return state, growth, key
    key, pair_key, walk_key = jax.random.split(key, 3)
    growth = growth._replace(recent=jnp.zeros_like(growth.recent))
    view = _view(now, algorithm, state, prior, search)
    reach = algorithm.core(state).reach
    for j in range(search.per_round):
      keys = (jax.random.fold_in(k, j) for k in (pair_key, walk_key))
      hands = sample_pair(now, reach, current, next(keys))
      growth = simulate(now, view, growth, current, hands, next(keys), rules)
    return algorithm.extend(with_nodes(problem, growth.present), state), growth, key

  zeros = jnp.zeros((tree.num_nodes, tree.num_infostates), tree.dtype)
  state = algorithm.init(problem)
  growth = Growth(present, zeros, zeros)
  state, growth, _ = lax.fori_loop(0, rounds, round_of, (state, growth, key))
  root_values, believed = algorithm.root_values(problem, state.means), beliefs
  if alternatives is not None and alternatives.beliefs is not None:
    believed = beliefs.at[1 - searcher].set(alternatives.beliefs)
  problem = rooted_problem(tree, nodes, root, believed, growth.present)
  return _result(problem, algorithm, state, growth, root_values)


def _view(problem: RootedProblem, algorithm: Watched, state: Seen, prior, search: GTCFR) -> View:
  choose = algorithm.current_policy if search.selection == "current" else algorithm.average_policy
  policy = join_levels(choose(problem, state.means))
  parent = jnp.maximum(jnp.asarray(problem.tree.parent), 0)
  mass = jnp.zeros_like(state.nodes).at[:, problem.rows].set(state.mass)
  mover = jnp.asarray(problem.tree.kind)[parent]
  values = []
  for player in (0, 1):
    # A move of one's own leaves the other's mass as it was.
    above = problem.split(mass[player])
    lifted = jnp.concatenate(
      [above[0]] + [problem.from_parents(i, player, above[i - 1]) for i in range(1, len(above))]
    )
    weight = jnp.where((mover == player)[:, None], lifted, mass[player])
    weight = weight.at[problem.rows].set(mass[player][problem.rows])
    values.append(state.nodes[player] * (weight > 0) / jnp.where(weight > 0, weight, 1.0))
  return View(policy, jnp.stack(values), prior)


def _result(
  problem: RootedProblem, algorithm: Watched, state: Seen, growth: Growth, root_values: jax.Array
) -> Grown:
  average = algorithm.average_policy(problem, state.means)
  means = algorithm.means(state.means)
  values = jnp.zeros_like(state.nodes).at[:, problem.rows].set(means)
  reach = problem.node_reach(problem.both_reach(average))
  return Grown(
    average_policy=join_levels(average),
    root_values=root_values,
    values=values,
    reach=jnp.moveaxis(reach, 1, 0),
    present=growth.present,
    visits=growth.visits,
  )


def _largest_payoff(tree: PublicTree) -> jax.Array:
  """Returns the most that a player can win: a scalar."""
  largest = jnp.abs(tree.payoff_scale).max()
  if tree.hands is not None:
    return largest
  weights = jnp.asarray(tree.pair_weights)
  least = jnp.where(weights > 0, weights, jnp.inf).min() if len(weights) == 1 else 1.0
  return jnp.maximum(largest * jnp.abs(tree.payoffs).max() / least, jnp.finfo(tree.dtype).tiny)
