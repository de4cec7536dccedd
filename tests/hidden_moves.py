"""Games with hidden moves, and whole trees of them, for tests of trees by insertion."""

import functools

import jax.numpy as jnp
import numpy as np
from jax import lax

import games
import solvers
from solvers import loop
from solvers.growing.insertion.hidden import with_hidden_moves
from solvers.growing.insertion.problem import inserted_problem
from solvers.growing.insertion.tree import insert, plant
from solvers.sweeps.levels import join_levels
from tests import harness


class HiddenRockPaperScissors:
  """Modified rock-paper-scissors, player 0's move hidden: `games.RockPaperScissors` on the device.

  A public state is that game's, and so are actions; infostates are the row that was chosen.
  """

  name = "hidden_rock_paper_scissors"
  num_infostates, num_actions, num_children, num_hidden = 3, 4, 3, 3
  deals, largest_payoff, max_moves = False, 2.0, 2
  payoffs = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -2.0], [-2.0, 2.0, 0.0]])

  def initial_state(self):
    return np.zeros(1, np.int32)

  def actor(self, state):
    return jnp.where(state[0] >= 2, games.TERMINAL, state[0])

  def legal_actions(self, state):
    return ((jnp.arange(4) == 3) == (state[0] == 0)) & (state[0] < 2)

  def next_state(self, state, action):
    return jnp.where(state == 0, 1, 2 + action).astype(state.dtype)

  def prior(self):
    return np.array([[1.0, 0.0, 0.0]] * 2)

  def chance(self, state):
    return jnp.zeros(4)

  def possible_after(self, state, action, possible):
    return jnp.where((state[0] == 0) & jnp.array([[True], [False]]), True, possible)

  def hidden_moves(self, state):
    move, held = jnp.arange(3)[None], jnp.arange(3)[:, None]
    begins = state[0] == 0
    leads_to = jnp.where(begins, move, held)
    there = (held == 0) & (leads_to >= 0)
    return jnp.where(there, leads_to, -1), jnp.where(there, jnp.where(begins, 3, move), -1)

  def compatible_mass(self, state, reach, player):
    return jnp.broadcast_to(reach.sum(), reach.shape)

  def terminal_values(self, state, reach, player):
    column = jnp.asarray(self.payoffs)[:, jnp.clip(state[0] - 2, 0, 2)].astype(reach.dtype)
    return column * reach[0] if player == 0 else jnp.broadcast_to(-(column * reach).sum(), (3,))

  def features(self, state, player):
    return (state == jnp.arange(5, dtype=state.dtype)).astype(float)


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
  """What simultaneous CFR+ finds in a whole tree, and what answers to it are worth.

  Attributes:
    tree: the nodes.
    root_values: `[P, H]`.
    policy: `[C, M, H]` on average.
    best: `[P]` what each player gets that responds best to it.
  """

  def __init__(self, game, beliefs, updates, *, state=None, possible=None, capacity=200):
    state = game.initial_state() if state is None else state
    possible = game.prior() > 0 if possible is None else possible
    self.tree = whole_tree(game, jnp.asarray(state), jnp.asarray(possible), capacity)
    assert int(self.tree.lost) == 0
    found = _solve(game, self.tree, jnp.asarray(beliefs, float), 2 * updates)
    self.root_values, self.policy, self.best = (np.asarray(x) for x in found)


@functools.partial(harness.fast_to_compile, static_argnames="game")
def _solve(game, tree, beliefs, num_iterations):
  problem = with_hidden_moves(inserted_problem(tree, beliefs))
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
