"""A rule with another matching is one file: Hedge, written as a newcomer would."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import harness


@dataclasses.dataclass(frozen=True)
class Hedge:
  """Exponential weights (Freund and Schapire 1997): a choice weighs exp(rate * its regrets' sum).

  It must see its siblings, since the weights of many regrets would overflow.
  """

  rate: float

  def init(self, zeros):
    return {"sum": zeros}

  def update(self, state, regret, k):
    del k
    return {"sum": state["sum"] + regret}

  def match(self, state, siblings, k):
    scaled = self.rate / jnp.sqrt(jnp.maximum(k, 1.0)) * state["sum"]
    return siblings.normalise(jnp.exp(scaled - siblings.largest(scaled)))


@dataclasses.dataclass(frozen=True)
class Uniform(Hedge):
  """Learns nothing: the control."""

  def match(self, state, siblings, k):
    return siblings.normalise(jnp.ones_like(state["sum"]))


def after(rule, game, num_iterations):
  tree = games.build_public_tree(game)
  solution = solvers.solve(tree, algorithm=solvers.CFR(rule), num_iterations=num_iterations)
  return tree, solution.average_policy


@pytest.mark.parametrize(
  "name", harness.slow(["kuhn_poker", "rock_paper_scissors", "leduc_poker"], "leduc_poker")
)
def test_hedge_finds_equilibria(name):
  game = games.make(name)
  tree, average = after(Hedge(2.0), game, 1024)
  found = float(solvers.exploitability(tree, average))
  _, control = after(Uniform(2.0), game, 1024)
  assert found < 0.15 * float(solvers.exploitability(tree, control))


def test_hedge_is_the_softmax_of_its_regrets_against_what_never_changes(x64):
  """Player 1's first update answers a uniform player 0; regrets by enumeration."""
  tree = games.build_public_tree(games.make("kuhn_poker"))
  solution = solvers.solve(tree, algorithm=solvers.CFR(Hedge(1.0)), num_iterations=1)
  uniform = np.asarray(
    solvers.solve(tree, algorithm=solvers.CFR(Uniform(1.0)), num_iterations=2).current_policy
  )
  first = [n for n in range(tree.num_nodes) if tree.parent[n] == 0]
  values = np.stack(
    [[np.asarray(solvers.expected_values(tree, _always(tree, uniform, n)))[0]] for n in first]
  )[:, 0]
  advantage = (values - values.mean(axis=0)) * np.asarray(tree.prior)[1].sum() * 2 / 3
  weights = np.exp(advantage)
  expected = weights / weights.sum(axis=0)
  np.testing.assert_allclose(np.asarray(solution.current_policy)[first], expected, atol=1e-9)


def _always(tree, policy, node):
  """Returns the policy that goes to `node` at the root."""
  changed = np.array(policy)
  for child in range(1, tree.num_nodes):
    if tree.parent[child] == 0:
      changed[child] = float(child == node)
  return changed
