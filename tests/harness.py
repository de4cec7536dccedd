"""What several test files share: the games, ways to perturb them, and a stepwise solver."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from solvers import loop
from solvers.sweeps import join_levels, make_problem, split_levels
from tests.random_game import RandomGame

# Small instances that are enumerated history by history: game, parameters, root.
CASES = {
  "kuhn": ("kuhn_poker", {}, ()),
  "rock_paper_scissors": ("rock_paper_scissors", {}, ()),
  "liars_dice_1x3f": ("liars_dice", {"num_dice": 1, "num_faces": 3}, ()),
  "liars_dice_1x4f": ("liars_dice", {"num_dice": 1, "num_faces": 4}, ()),
  "liars_dice_2x2f_after_a_bid": ("liars_dice", {"num_dice": 2, "num_faces": 2}, (1,)),
  "leduc": ("leduc_poker", {}, ()),
  "leduc_after_a_card": ("leduc_poker", {}, (1, 2, 1, 5)),
  # Hidden moves, private and public chance and changing infostates, all at once.
  "random_2": (RandomGame, {"seed": 2}, ()),
  "random_5": (RandomGame, {"seed": 5}, ()),
  "random_38": (RandomGame, {"seed": 38, "depth": 3}, ()),
}


def slow(cases, *chosen):
  """Returns `cases` for `pytest.mark.parametrize`, those that are `chosen` as slow tests."""
  missing = set(chosen) - set(cases)
  assert not missing, missing
  rows = [(x, x if isinstance(x, tuple) else (x,)) for x in cases]
  return [pytest.param(*row, marks=[pytest.mark.slow] * (x in chosen)) for x, row in rows]


def make_case(name):
  """Returns the game and the root of a case."""
  game, parameters, root = CASES[name]
  make = game if callable(game) else functools.partial(games.make, game)
  return make(**parameters), root


def jitter_payoffs(game, seed=0):
  """Gives `game` payoffs without ties, in place: no two moves are worth exactly the same."""
  rng = np.random.default_rng(seed)
  tables = np.asarray(game.payoffs(), float)
  tables = tables + rng.normal(scale=0.3, size=tables.shape)
  game.payoffs = lambda: tables
  return game


def random_beliefs(rng, possible, num_zeros=1):
  """Returns random beliefs `[2, H]` over `possible` `[2, H]`, each row with `num_zeros` zeros."""
  beliefs = rng.exponential(size=possible.shape) * possible
  for row in beliefs:
    support = np.flatnonzero(row)
    row[rng.permutation(support)[: min(num_zeros, len(support) - 1)]] = 0.0
  return beliefs / beliefs.sum(axis=1, keepdims=True)


# Compiling is what the tests' time goes to, and it is several times faster without LLVM's
# optimisations; the tests of `solve` itself compile as users do.
fast_to_compile = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@functools.partial(fast_to_compile, static_argnames="algorithm")
def run(tree, beliefs, num_iterations, averaging=None, *, algorithm):
  """Solves for an even number of iterations; an exponent of averages may be traced."""
  if averaging is not None:
    algorithm = dataclasses.replace(algorithm, averaging=averaging)
  problem = make_problem(jax.tree.map(jnp.asarray, tree), beliefs)
  return _figures(problem, algorithm, loop.run(problem, algorithm, None, num_iterations).state)


def _figures(problem, algorithm, state):
  """Returns the current and the average policy, `[N, H]` each, and root values."""
  policies = algorithm.current_policy(problem, state), algorithm.average_policy(problem, state)
  return *map(join_levels, policies), algorithm.root_values(problem, state)


@functools.partial(fast_to_compile, static_argnames=("pairs", "algorithm", "leaf_values"))
def iterates(tree, beliefs, params, policy=None, *, pairs, algorithm, leaf_values):
  """Returns policies, averages and root values `[pairs, ...]` before each pair of updates."""
  problem = make_problem(jax.tree.map(jnp.asarray, tree), beliefs)
  shapes = [(size, tree.num_infostates) for size in (tree.num_nodes, tree.num_nodes, 2)]

  def observe(j, problem, state, seen):
    return tuple(x.at[j].set(y) for x, y in zip(seen, _figures(problem, algorithm, state)))

  return loop.run(
    problem,
    algorithm,
    functools.partial(leaf_values, params) if tree.depth_limited else None,
    2 * pairs,
    policy=None if policy is None else split_levels(tree, policy),
    observe=observe,
    carry=tuple(jnp.zeros((pairs, *shape), tree.dtype) for shape in shapes),
  ).carry
