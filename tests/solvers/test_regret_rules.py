"""A rule with another matching is one file: Hedge, written as a newcomer would."""

import dataclasses

import jax.numpy as jnp
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
