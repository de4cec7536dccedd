"""Solving to a target: the same as solving that long, and where it stops."""

import numpy as np
import pytest

import games
import solvers
from solvers import loop
from tests.sentences import refused


@pytest.fixture(scope="module")
def case():
  tree = games.build_public_tree(games.make("kuhn_poker"))
  beliefs = np.random.default_rng(0).dirichlet(np.ones(tree.num_infostates), 2)
  return tree, beliefs


ALGORITHMS = {
  "dcfr": solvers.discounted_cfr(),
  "pcfr+": solvers.predictive_cfr_plus(),
  "fp": solvers.linear_fictitious_play(),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_goes_on_where_it_was(case, name):
  tree, beliefs = case
  looks = []
  found = solvers.solve(
    tree,
    algorithm=ALGORITHMS[name],
    target=0.0,
    num_iterations=150,
    beliefs=beliefs,
    progress=looks.append,
  )
  assert [look.iterations for look in looks] == [32, 64, 96, 128, 150]
  whole = solvers.solve(tree, algorithm=ALGORITHMS[name], num_iterations=150, beliefs=beliefs)
  np.testing.assert_allclose(found.average_policy, whole.average_policy, atol=2e-4)
  first = solvers.solve(tree, algorithm=ALGORITHMS[name], num_iterations=32, beliefs=beliefs)
  gap = solvers.exploitability(tree, first.average_policy, beliefs=beliefs)
  assert looks[0].exploitability == pytest.approx(float(gap), abs=1e-4)
  found = solvers.solve(
    tree,
    algorithm=ALGORITHMS[name],
    target=looks[1].exploitability,
    num_iterations=150,
    beliefs=beliefs,
  )
  assert found.iterations == 64
  assert looks[1].exploitability < looks[0].exploitability
  # Started anew, it would be what 32 iterations give.
  assert np.abs(whole.average_policy - first.average_policy).max() > 0.01


def test_a_long_solve_comes_back_every_few_seconds_and_stops_at_looks_alone(monkeypatch):
  """Each iteration seems to take a tenth of a second, and each run is done at once."""
  now, runs, seen = [0.0], [], []
  monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

  def run(number):
    now[0] += 0.1 * number
    runs.append(number)
    return solvers.Solution(None, exploitability=0.5 if sum(runs) < 260 else 0.0)

  found = loop.until(run, 0.0, 1_000, lambda found: seen.append(found.iterations))
  # Looks are after 160, 200, 250 and 312; three seconds are 30 iterations, and 32 are the least.
  assert seen == [32, 64, 96, 128, 160, 192, 200, 232, 250, 282, 312]
  assert found.iterations == 312 == sum(runs)  # it was good enough at 282, between two looks
  # Where iterations are slow, the first two measure how slow.
  runs.clear()
  assert loop.until(run, 0.0, 200, None, 2**30).iterations == 200
  assert runs[:4] == [2, 30, 30, 2]
  runs.clear()
  ended = loop.until(run, 0.0, 1_000, lambda found: found.iterations >= 64)
  assert ended.iterations == 64


def solve(**changes):
  tree = games.build_public_tree(games.make("kuhn_poker"))
  settings = {"algorithm": solvers.discounted_cfr(), "target": 1.0, "num_iterations": 32}
  solvers.solve(tree, **(settings | changes))


test_what_is_refused = refused(
  (lambda: solve(num_iterations=33), "num_iterations=33 must be even"),
  *((lambda x=x: solve(target=x), f"target={x} finite") for x in (-1.0, np.nan, np.inf)),
  (lambda: solve(beliefs=np.ones((2, 3))), "beliefs"),
)
