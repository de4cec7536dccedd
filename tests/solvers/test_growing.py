"""Growing-tree CFR: plain CFR where all is there, walks as computed by hand, re-solving."""

import jax
import numpy as np
import pytest

import games
import solvers
from solvers import GTCFR, ContinualResolve
from tests.sentences import refused

AT_ONCE = solvers.cfr_plus(averaging=1.0, alternating=False)
KEY = jax.random.key(0)


def setting(name, dtype=np.float64, **parameters):
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game).astype(dtype)
  return game, tree, solvers.node_info(game, tree)


def solved(tree, updates, **arguments):
  return solvers.solve(tree, algorithm=AT_ONCE, num_iterations=2 * updates, **arguments)


@pytest.mark.parametrize(
  ("name", "alternating"),
  [("kuhn_poker", True), ("rock_paper_scissors", False)],
)
def test_all_of_a_tree_is_plain_cfr(name, alternating, x64):
  """Of both players at once, or in turn; control: the other way."""
  _, tree, info = setting(name)
  search = GTCFR(simulations=0, updates=20, whole=True, alternating=alternating)
  found = solvers.gt_cfr(tree, info, search=search, key=KEY)
  in_turn = solvers.solve(tree, algorithm=solvers.cfr_plus(averaging=1.0), num_iterations=40)
  plain, other = (in_turn, solved(tree, 20))[:: 1 if alternating else -1]
  np.testing.assert_allclose(found.average_policy, plain.average_policy, atol=1e-12)
  np.testing.assert_allclose(found.root_values, plain.root_values, atol=1e-12)
  assert np.abs(np.asarray(found.average_policy) - other.average_policy).max() > 1e-3


@pytest.mark.parametrize(
  ("mix", "promised", "believed", "low", "high"),
  [
    (0.0, (0.0, 0.5), (0.6, 0.4), 0.74, 0.76),
    (1.0, (0.0, 0.5), (0.6, 0.4), 0.24, 0.505),
    (0.2, (0.5, -0.5), (0.51, 0.49), -0.01, 0.01),
    (0.0, (0.5, -0.5), (0.51, 0.49), 0.74, 0.76),
  ],
)
def test_promises_hold_however_ranges_are_mixed(mix, promised, believed, low, high):
  """By what player 0 gets if player 1 answers Play by them (section 1.4's table)."""
  game = games.make("coin_toss")
  tree = games.build_public_tree(game)
  play = int(np.flatnonzero(tree.kind == 1)[0])  # where player 1 moves
  answer = solvers.solve(
    games.build_public_tree(game, root=tree.history(play)),
    algorithm=solvers.with_gadget(AT_ONCE, ContinualResolve(1, mix)),
    num_iterations=4_000,
    beliefs=np.array([[0.5, 0.5], [1.0, 0.0]]),
    alternatives=solvers.Alternatives(np.array(promised), beliefs=np.array(believed)),
  ).average_policy
  payoffs = np.array([[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
  assert low <= np.maximum(payoffs @ np.asarray(answer)[1:, 0], [0.5, -0.5]).mean() <= high


@pytest.mark.parametrize("mix", [0.2, pytest.param(0.0, marks=pytest.mark.slow)])
def test_own_chains_are_sound(mix):
  """Within 1.5 times plain CFR; without a gadget several times worse."""
  game, tree, _ = setting("kuhn_poker", np.float32)
  plain = float(solvers.exploitability(tree, solved(tree, 100).average_policy))
  search = GTCFR(simulations=0, updates=100, whole=True, mix=mix)
  (policy,) = solvers.resolved_policies(game, tree, search=search, batch_size=4)
  found = float(solvers.exploitability(tree, policy))
  assert found < 1.5 * plain if mix else found > 3 * plain


test_settings_are_checked = refused(
  (lambda: GTCFR(simulations=5, per_update=2), "must be a multiple"),
  (lambda: GTCFR(simulations=0), "updates=None"),
  (lambda: GTCFR(mix=1.5), "mix=1.5"),
)
