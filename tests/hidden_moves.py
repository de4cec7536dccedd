"""Games with hidden moves, and whole trees of them, for tests of trees by insertion."""

import functools

import jax.numpy as jnp
import numpy as np
from jax import lax

import solvers
from solvers import loop
from solvers.growing.insertion.problem import inserted_problem
from solvers.growing.insertion.tree import insert, plant
from solvers.sweeps.levels import join_levels
from tests import harness


@functools.partial(harness.fast_to_compile, static_argnames=("game", "capacity"))
def whole_tree(game, state, possible, capacity):
  """Returns the tree of all that can follow a public state."""
  tree = plant(game, state, possible, capacity, jnp.zeros(()).dtype)

  def expand(carry):
    node, tree = carry
    tree, _ = insert(tree, node, tree.legal[node], game.num_children)
    return node + 1, tree

  return lax.while_loop(lambda x: x[0] < x[1].count, expand, (jnp.asarray(0), tree))[1]


class Solved:
  """What simultaneous CFR+ finds in a whole tree, and what answers to it are worth."""

  def __init__(self, game, beliefs, updates, *, state=None, possible=None, capacity=200):
    state = game.initial_state() if state is None else state
    possible = game.prior() > 0 if possible is None else possible
    self.tree = whole_tree(game, jnp.asarray(state), jnp.asarray(possible), capacity)
    assert int(self.tree.lost) == 0
    found = _solve(game, self.tree, jnp.asarray(beliefs, float), 2 * updates)
    self.root_values, self.policy, self.best = (np.asarray(x) for x in found)


@functools.partial(harness.fast_to_compile, static_argnames="game")
def _solve(game, tree, beliefs, num_iterations):
  problem = inserted_problem(tree, beliefs)
  algorithm = solvers.cfr_plus(averaging=1, alternating=False)
  nothing = jnp.zeros((tree.capacity, game.num_infostates))
  end = loop.run(problem, algorithm, lambda query: nothing, num_iterations)
  average = algorithm.average_policy(problem, end.state)
  best = []
  for player in (0, 1):
    reach = problem.own_reach(average, 1 - player)
    sweep = problem.values_up(None, reach, nothing, player)
    best.append((beliefs[player] * sweep.root).sum())
  values = algorithm.root_values(problem, end.state)
  return values, tree.by_move(join_levels(average)), jnp.stack(best)
