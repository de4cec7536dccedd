"""Gadgets by themselves: in batches, inside other wrappers, on other trees, and what is refused."""

import functools
import itertools

import jax
import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import family_parts
from solvers import Alternatives, Maxmargin
from solvers.contrib import Distributional
from solvers.search.batch import search_batch
from tests.sentences import refused
from tests.solvers.test_resolving import coin_toss, known_of


def test_the_mean_of_a_sigmoid(x64):
  """Equation 5.3 against scipy's integral; without a spread it is Hedge of two actions."""
  from scipy.integrate import quad
  from scipy.special import expit
  from scipy.stats import norm

  from solvers.contrib.distributional import mean_sigmoid

  centres, widths = (-30.0, -3.0, -0.2, 0.0, 1.0, 12.0), (0.0, 0.01, 0.3, 0.99, 1.01, 4.0, 60.0)
  pairs = np.array(list(itertools.product(centres, widths)))
  for (centre, width), found in zip(pairs, jax.jit(mean_sigmoid)(*pairs.T), strict=True):

    def integrand(z, centre=centre, width=width):
      return norm.pdf(z) * expit(centre - width * z)

    middle = np.clip(centre / width, -12, 12) if width else 0.0
    wanted = sum(quad(integrand, *x, limit=200)[0] for x in ((-12, middle), (middle, 12)))
    assert float(found) == pytest.approx(wanted, abs=1e-6)


def test_gadgets_in_a_batch_and_under_vmap(x64):
  setting = coin_toss()
  game, tree, _, (guess,) = setting
  known = known_of(setting)
  below = games.build_public_tree(game, root=tree.history(int(guess)))
  promised = known.alternatives(int(guess))
  algorithm = solvers.with_gadget(solvers.cfr_plus(), Maxmargin(1))
  values = np.array([[0.0, 0.5], [0.5, 0.5], [0.5, -0.5]])
  batch = solvers.solve_batch(
    below,
    algorithm=algorithm,
    num_iterations=4096,
    beliefs=np.stack([known.beliefs[guess]] * 3),
    alternatives=values,
  )
  one = solvers.solve(
    below,
    algorithm=algorithm,
    num_iterations=4096,
    beliefs=known.beliefs[guess],
    alternatives=promised,
  )
  np.testing.assert_allclose(batch.average_policy[0], one.average_policy, atol=1e-12)
  heads = np.asarray(batch.average_policy)[:, 1, 0]
  np.testing.assert_allclose(heads, [5 / 8, 1 / 2, 1 / 4], atol=2e-3)
  # The opponent's root values are what entering is worth to it.
  np.testing.assert_allclose(one.root_values[0], [-0.25, 0.25], atol=5e-3)


@pytest.mark.parametrize("gadget", [Maxmargin(1)])
def test_a_search_hands_on_what_the_next_one_must_promise(gadget):
  algorithm = solvers.with_gadget(solvers.cfr_plus(), gadget)
  game = games.make("rock_paper_scissors")
  top = games.build_public_tree(game, depth=1)
  search = functools.partial(
    search_batch,
    algorithm=algorithm,
    leaf_values=family_parts.leaf_values,
    params=None,
    num_rows=1,
    alternatives=Alternatives(np.full((1, 3), -9.0)),  # it always enters
    keep_leaf_values=True,
  )
  stacked = games.stack_trees([top])
  found = jax.jit(search)(stacked, np.asarray(top.prior)[None], np.zeros(1, int), 1024)
  promised = np.asarray(found.leaf_values)[0, 0, 0]
  np.testing.assert_allclose(promised, 0, atol=0.02)
  below = games.build_public_tree(game, root=(3,))
  answer = solvers.solve(
    below,
    algorithm=algorithm,
    num_iterations=4096,
    beliefs=np.array([[1 / 3] * 3, [1, 0, 0]]),
    alternatives=Alternatives(promised),
  ).average_policy
  np.testing.assert_allclose(answer[1:, 0], [0.4, 0.4, 0.2], atol=0.03)
  unsafe = solvers.solve(
    below,
    algorithm=solvers.cfr_plus(),
    num_iterations=4096,
    beliefs=np.array([[0.41, 0.39, 0.2], [1, 0, 0]]),
  ).average_policy
  assert np.abs(np.asarray(unsafe)[1:, 0] - [0.4, 0.4, 0.2]).max() > 0.15


GAME, TREE, POLICY, (GUESS,) = coin_toss()
BELOW = games.build_public_tree(GAME, root=TREE.history(int(GUESS)))


def solve(alternatives, algorithm, gadget=Maxmargin):
  algorithm = solvers.with_gadget(algorithm, gadget(1)) if gadget else algorithm
  solvers.solve(BELOW, algorithm=algorithm, num_iterations=2, alternatives=alternatives)


CFR_PLUS = solvers.cfr_plus()
test_what_cannot_be_solved_so_is_refused = refused(
  (lambda: solve(None, CFR_PLUS), r"^alternatives=None, but Maxmargin\(searcher=1\) needs"),
  (lambda: solve(np.zeros(2), CFR_PLUS, None), r"^alternatives belong to a gadget"),
  (lambda: solve(np.array([0, 500.0]), CFR_PLUS), r"^alternatives hold 500, but .* pays 1 at most"),
  (
    lambda: solve(np.zeros(2), CFR_PLUS, Distributional),
    r"^spread=None, but Distributional need",
  ),
  (lambda: solve(np.zeros(2), solvers.fictitious_play()), "must be of the CFR family"),
  (lambda: solvers.refine(GAME, TREE, POLICY, searcher=1, gadget=Maxmargin(0)), "is for player 0"),
  (lambda: solvers.refine(GAME, TREE, POLICY, searcher=1, cut=[0, int(GUESS)]), "node below node"),
)
