"""Values of a blueprint for a re-solve: the opponent's, its gifts, and beliefs."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import Game, PublicTree
from games.kinds import TERMINAL
from games.node_info import NodeInfo, node_info
from games.public_tree import Array
from solvers import validation
from solvers.leaf_values import normalise_beliefs
from solvers.metrics.expected_values import check_whole
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.pairs import make_pairs
from solvers.sweeps.problem import Problem, choose, make_problem, per_unit_of_mass
from solvers.xla.compiler_options import Programs

_NOTHING = -1e30  # a value below any other; infinity times zero would not be a number


class BlueprintValues(NamedTuple):
  """What the searcher's blueprint leaves its opponent at every node; see `blueprint_values`.

  Attributes:
    value: `[N, H]` the opponent's counterfactual best-response value, as an expected payoff: per
      unit of the searcher's compatible mass. Zero without any, and where the game is over.
    gift: `[N, H]` what the opponent gave away on the way there, in the same unit.
    beliefs: `[N, P, H]` to re-solve from: the searcher's row is its posterior, the opponent's
      what nature alone made likely, as if it had tried to get there.
    searcher: whose blueprint it is, 0 or 1.
    spread: `[N, H]` standard deviation of `value`; None if it is exact.
    origin: `[3]` mark of the tree's game; None if that is not known.
  """

  value: Array
  gift: Array
  beliefs: Array
  searcher: int
  spread: Array | None = None
  origin: Array | None = None

  def alternatives(self, nodes: int | np.ndarray, *, gifts: float = 0.0) -> Alternatives:
    """Returns the opponent's alternative payoffs at `nodes`: `[H]`, or `[B, H]` for several.

    `gifts` scales the gifts that are added (Reach): 0 for none; with 1, the sum over all subgames
    below a gift stays within it (thesis, equation 5.2), and above that nothing is guaranteed.

    Raises:
      TypeError: `nodes` is of another kind.
      ValueError: a node is not there, or `gifts` is not a finite number.
    """
    gifts = validation.check_number("gifts", gifts, allow_infinite=False)
    rows = validation.check_places("nodes", np.atleast_1d(nodes), len(self.value))
    rows = rows if np.ndim(nodes) else rows[0]
    spread = None if self.spread is None else self.spread[rows]
    value = self.value[rows] + gifts * self.gift[rows]
    return Alternatives(value, spread, player=1 - self.searcher)


def blueprint_values(
  game: Game,
  tree: PublicTree,
  policy: Array,
  *,
  searcher: int,
  beliefs: Array | None = None,
  gift_actions: str = "terminal",
) -> BlueprintValues:
  """Computes what safe subgame solving must know about the searcher's part of `policy`.

  Args:
    game: the rules.
    tree: whole, of that game.
    policy: `[N, H]` the blueprint; only the searcher's rows are used.
    searcher: whose subgames are to be solved anew, 0 or 1; static.
    beliefs: `[P, H]` at the root; None for the tree's own prior.
    gift_actions: which better moves of the opponent count as gifts: `"terminal"` those that end the
      game, whose value no other re-solve can change (thesis, section 5.1.3), `"all"` any.

  Returns:
    Counterfactual best-response values, gifts and beliefs at every node.

  Raises:
    ValueError: the tree is depth-limited, or an argument has the wrong shape or is not allowed.
  """
  validation.check_player(searcher, "searcher")
  if gift_actions not in ("terminal", "all"):
    raise ValueError(f"gift_actions={validation.short(gift_actions)} must be 'terminal' or 'all'")
  beliefs = check_whole(tree, policy, beliefs)
  policy = jnp.asarray(policy, tree.dtype)
  info = node_info(game, tree)
  all_gifts = gift_actions == "all"
  found = _blueprint_values(tree, info, policy, beliefs, searcher=searcher, all_gifts=all_gifts)
  value, gift, root_beliefs = found
  return BlueprintValues(value, gift, root_beliefs, searcher, origin=tree.origin)


@functools.partial(Programs, static_argnames=("searcher", "all_gifts"))
def _blueprint_values(tree, info, policy, beliefs, *, searcher: int, all_gifts: bool):
  problem = make_problem(tree, beliefs)
  opponent = 1 - searcher
  levels = problem.split(policy)
  reach = problem.own_reach(levels, searcher)
  sweep = problem.values_up(None, reach, None, opponent)
  masses = problem.split(_masses(problem, info, reach, beliefs, searcher))
  values = tuple(per_unit_of_mass(x, y) for x, y in zip(sweep.nodes, masses))
  gifts = _gifts(problem, sweep.nodes, masses, opponent, all_gifts)
  tried = tuple(jnp.ones_like(x) for x in levels)
  own = [reach, reach]
  own[opponent] = problem.own_reach(tried, opponent)
  possible = None if tree.possible is None else jnp.asarray(tree.possible)
  beliefs = normalise_beliefs(problem.node_reach((own[0], own[1])), possible)
  return join_levels(values), join_levels(gifts), beliefs


def _masses(
  problem: Problem, info: NodeInfo, own: Levels, beliefs: jax.Array, searcher: int
) -> jax.Array:
  """Returns the searcher's mass that the other meets at each node, `[N, H]`; zero at ends."""
  tree = problem.tree
  starts = zip(tree.structure.offsets, tree.structure.levels)
  inner = np.concatenate([start + np.arange(level.num_inner) for start, level in starts])
  # Pair weights are looked up at the leaves: those of this problem are the inner nodes.
  index = jnp.asarray(info.pair_index)[inner]
  pairs = make_pairs(dataclasses.replace(tree, leaf_pair_index=index), beliefs)
  reach = problem.node_reach((own, own))[inner, searcher]
  masses = jnp.zeros((tree.num_nodes, tree.num_infostates), reach.dtype)
  return masses.at[inner].set(pairs.compatible_mass(reach, 1 - searcher))


def _gifts(
  problem: Problem, values: Levels, masses: Levels, opponent: int, all_gifts: bool
) -> Levels:
  """Sums the opponent's gifts along the way to every node (thesis, equation 5.2), `[n, H]` each.

  `values` are counterfactual. A gift at a choice is the best of the moves that count, and of the
  move that was made, less the latter.
  """
  gifts = [jnp.zeros_like(values[0])]
  kinds = problem.split(jnp.asarray(problem.tree.kind))
  for i in range(1, len(values)):
    gift = problem.from_parents(i, opponent, gifts[-1])
    moved = problem.moves_at(i, opponent)
    if moved is not False:
      counts = jnp.ones_like(values[i], bool) if all_gifts else (kinds[i] == TERMINAL)[:, None]
      best = problem.largest_of_siblings(i, opponent, jnp.where(counts, values[i], _NOTHING))
      mass = problem.from_parents(i, opponent, masses[i - 1])
      given = per_unit_of_mass(jnp.maximum(best - values[i], 0.0), mass)
      gift = choose(moved, gift + given, gift)
    gifts.append(gift)
  return tuple(gifts)
