"""Bad input to the family of solvers: one sentence each. More of it in test_validation.py."""

import math

import numpy as np
import pytest

import games
import solvers

INF = math.inf
KUHN = games.build_public_tree(games.make("kuhn_poker"))
CUT = games.build_public_tree(games.make("kuhn_poker"), depth=2)
UNIFORM = np.asarray(
  solvers.solve(KUHN, algorithm=solvers.fictitious_play(), num_iterations=2).average_policy
)


def solve(tree=KUHN, algorithm=None, **options):
  algorithm = solvers.linear_cfr() if algorithm is None else algorithm
  return solvers.solve(tree, algorithm=algorithm, num_iterations=2, **options)


def with_entry(value):
  policy = UNIFORM.copy()
  policy[1, 0] = value
  return policy


BAD = [
  # Exponents that are not numbers.
  (lambda: solvers.discounted_cfr(alpha=None), "alpha=None must be a number"),
  (lambda: solvers.discounted_cfr(gamma=INF), "gamma=inf must be finite"),
  (lambda: solvers.predictive_cfr_plus(averaging=-1), "averaging=-1.* at least 0"),
  # Algorithms by name.
  (lambda: solvers.make_algorithm("linear"), r"algorithm='linear' is unknown \(did you mean"),
  (lambda: solvers.make_algorithm(None), "algorithm=None is unknown; known: vanilla_cfr"),
  (lambda: solvers.make_algorithm("discounted_cfr(1.5)"), "has '1.5' where NAME=VALUE"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=1,beta=2)"), "'beta=2' where .* once"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=half)"), "beta=half, which must be a num"),
  (lambda: solvers.make_algorithm("discounted_cfr(gamma=-1)"), "is not allowed: gamma=-1.0 must"),
  (lambda: solvers.make_algorithm("linear_cfr(alternating=0)"), "alternating=0, which must be T"),
  # Policies that are not distributions.
  (lambda: solve(initial_policy=with_entry(0.9)), "initial_policy is not a distribution"),
  (lambda: solve(initial_policy=with_entry(-0.5)), "initial_policy holds -0.5"),
  (lambda: solve(initial_policy=with_entry(np.inf)), "initial_policy holds NaN or infinite"),
  (lambda: solvers.exploitability(KUHN, with_entry(0.9)), "policy is not a distribution"),
  # Wrong shapes.
  (lambda: solve(initial_policy=UNIFORM.T), r"initial_policy of shape \(3, 9\).*\(9, 3\)"),
  (lambda: solvers.exploitability(KUHN, 0.5), r"policy of shape \(\)"),
  # Leaves without values.
  (lambda: solve(CUT), "leaf_values=None, but the tree is cut off at 1 leaves"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_gives_one_sentence(call, message):
  with pytest.raises(ValueError, match=message) as caught:
    call()
  assert "\n" not in str(caught.value)


def test_leaf_values_of_the_wrong_shape():
  def scalar_per_leaf(params, query):
    return query.beliefs.sum(axis=(1, 2))

  with pytest.raises(ValueError, match=r"leaf_values.*\(1,\).*\(1, 3\)"):
    solve(CUT, leaf_values=scalar_per_leaf)


@pytest.mark.parametrize(
  ("exponents", "same_as"),
  [
    ((INF, INF, 0), "vanilla_cfr"),
    ((INF, -INF, 2), "cfr_plus"),
    ((1, 1, 1), "linear_cfr"),
    ((np.float32(1.5), 0, np.int64(2)), "discounted_cfr"),
  ],
)
def test_legal_exponents(exponents, same_as):
  """Infinite ones too: other members of the family are settings of discounted CFR."""
  assert solvers.discounted_cfr(*exponents) == getattr(solvers, same_as)()


def test_algorithms_by_name_take_their_parameters():
  named = solvers.make_algorithm
  assert named("discounted_cfr") == solvers.discounted_cfr()
  assert named("discounted_cfr( beta=-inf, gamma = 4 )") == solvers.discounted_cfr(1.5, -INF, 4.0)
  assert named("linear_cfr(alternating=False)") == solvers.linear_cfr(alternating=False)
  assert named("linear_cfr_avg(averaging=2)") == solvers.cfr_avg(solvers.linear_cfr(averaging=2.0))
  assert named("fictitious_play()") == solvers.fictitious_play()
  assert named("discounted_cfr(beta=0.5)") != solvers.discounted_cfr()
