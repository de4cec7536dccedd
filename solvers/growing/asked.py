"""What a growing search asks about its leaves in every update, and what comes of the answers."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE
from solvers.growing.rooted_problem import RootedProblem
from solvers.growing.states import StateFunction, StateQuery, ask_some, seat_of
from solvers.leaf_values import LeafValues
from solvers.sweeps.levels import join_levels
from solvers.sweeps.masked import NodeInfo, row_of_nodes

# Logits beyond this are as good as certain; their exponentials stay finite.
_LARGEST_LOGIT = 30.0


class Answers(NamedTuple):
  """Values `[P, L, H]` of the leaves for each player, and `[L, A, H]` logits, None without."""

  values: jax.Array
  logits: jax.Array | None


class Asked(NamedTuple):
  """One of a search's questions, each as likely as any other.

  Attributes:
    node: `[]` a leaf of that moment; a place in trees by insertion.
    beliefs: `[P, H]` there, player 0's first.
    total: `[]` how many questions there were.
  """

  node: jax.Array
  beliefs: jax.Array
  total: jax.Array

  @classmethod
  def nothing(cls, problem: RootedProblem) -> "Asked":
    """Returns what is known before the first question."""
    zero = jnp.zeros((), jnp.int32)
    return cls(zero, jnp.zeros((2, problem.num_infostates), problem.tree.dtype), zero)


class Ask(NamedTuple):
  """Whom a search asks.

  Attributes:
    params: passed on.
    movers: `[L]` who moves at each row, `CHANCE` among them.
    features: `[L, F]` as the mover sees them; None if they are encoded.
    encoded: what the network makes of them, once a search; None if it has no `encode`.
    leaf_values, network: one of them, or neither.
  """

  params: Any
  movers: jax.Array
  features: jax.Array | None
  encoded: Any
  leaf_values: LeafValues | None
  network: StateFunction | None

  @classmethod
  def of(
    cls,
    nodes: NodeInfo,
    problem: RootedProblem,
    params: Any,
    leaf_values: LeafValues | None,
    network: StateFunction | None,
  ) -> "Ask":
    """Returns whom the search of a problem asks, the network's share of the features computed."""
    movers = jnp.asarray(problem.tree.kind)[problem.rows]
    seen = jnp.asarray(nodes.features)[:, problem.rows]
    features = jnp.where((movers == 1)[:, None], seen[1], seen[0])
    encode = getattr(network, "encode", None)
    encoded = None if encode is None else encode(params, features)
    kept = features if encode is None else None
    return cls(params, movers, kept, encoded, leaf_values, network)

  def answer(self, beliefs: jax.Array, wanted: jax.Array) -> Answers:
    """Returns the network's answers at `beliefs` `[L, P, H]`, where they are wanted `[L]`."""
    assert self.network is not None
    query = StateQuery(self.features, seat_of(self.movers, beliefs), self.encoded)
    found = ask_some(self.network, self.params, query, wanted)
    return Answers(jnp.swapaxes(seat_of(self.movers, found.values), 0, 1), found.logits)

  def no_logits(self, problem: RootedProblem) -> jax.Array | None:
    """Returns zeros in the shape of the logits; None without a network."""
    if self.network is None:
      return None
    beliefs = jnp.zeros((len(self.movers), 2, problem.num_infostates), problem.tree.dtype)
    shape = jax.eval_shape(lambda: self.answer(beliefs, problem.is_frontier()).logits)
    assert shape is not None
    return jnp.zeros(shape.shape, shape.dtype)


def ask_about(
  ask: Ask, problem: RootedProblem, algorithm: Any, state: Any, beliefs: jax.Array
) -> Answers:
  """Returns both players' values of all rows, at the beliefs `[L, P, H]` of the next update."""
  if ask.network is not None:
    return ask.answer(beliefs, problem.is_frontier())
  if ask.leaf_values is None:
    return Answers(jnp.zeros_like(jnp.swapaxes(beliefs, 0, 1)), None)
  queries = [algorithm.leaf_query(problem, state, player) for player in (0, 1)]
  return Answers(jnp.stack([ask.leaf_values(ask.params, query) for query in queries]), None)


def note(asked: Asked, problem: RootedProblem, beliefs: jax.Array, numbers: jax.Array) -> Asked:
  """Draws between what was asked before and the questions about the leaves of one update.

  Args:
    asked: what was drawn so far.
    problem: whose leaves are asked about.
    beliefs: `[L, P, H]` at all rows.
    numbers: `[2]` random ones.
  """
  wanted = problem.is_frontier()
  seen = jnp.cumsum(wanted, dtype=jnp.int32)
  number = seen[-1]
  row = jnp.argmax(seen.astype(numbers.dtype) > numbers[0] * number.astype(numbers.dtype))
  total = asked.total + number
  is_new = numbers[1] * total.astype(numbers.dtype) < number.astype(numbers.dtype)
  new = Asked(problem.rows[row].astype(jnp.int32), beliefs[row], total)
  return jax.tree.map(lambda x, y: jnp.where(is_new, x, y), new, asked._replace(total=total))


def prior_of(
  everywhere: RootedProblem,
  problem: RootedProblem,
  logits: jax.Array,
  before: jax.Array,
  answered: jax.Array,
) -> jax.Array:
  """Returns how likely each move is, `[N, H]`: by `logits` below rows with answers, else as before.

  Args:
    everywhere: the problem with all nodes, so that moves that are not in the tree yet count.
    problem: with those of the tree.
    logits: `[L, A, H]` of the rows.
    before: `[N, H]` by earlier answers.
    answered: `[L]` of which rows `logits` are answers.
  """
  tree = problem.tree
  above = jnp.asarray(row_of_nodes(tree.structure))[jnp.maximum(jnp.asarray(tree.parent), 0)]
  action = jnp.clip(jnp.asarray(tree.action), 0, logits.shape[1] - 1)
  weights = jnp.exp(jnp.clip(logits[above, action], -_LARGEST_LOGIT, _LARGEST_LOGIT))
  likely = join_levels(everywhere.normalise(everywhere.split(weights)))
  is_new = answered[above] & (ask_movers(problem)[above] < CHANCE)
  return jnp.where(is_new[:, None], likely, before)


def ask_movers(problem: RootedProblem) -> jax.Array:
  """Returns who moves at each row: `[L]`."""
  return jnp.asarray(problem.tree.kind)[problem.rows]
