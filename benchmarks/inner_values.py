"""How wrong are the values that a solved subgame offers beside the mean over its iterations?

`python -m benchmarks.inner_values liars_dice_1x4f` searches subgames that self-play of a network's
run would train on and compares values with those of solving the rest of the game to its end (DCFR):

- of roots: means over iterations, the average policies' values, and means levelled by these
  (`solvers.level_values`);
- of inner nodes under the average policy (`solvers.inner_nodes`), by how often it goes there, and
  of their infostates, by how often their player's own moves lead there;
- of leaves that play goes on to, with a policy found at other beliefs than one's own: that of the
  search at the average policy's beliefs, or of one at another iterate's.

Prints a JSON line each. `pbs` is the root mean square error of the players' values of public belief
states, `infostates` that of all infostates.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import rebel_jax
from benchmarks import value_error
from benchmarks.timing import environment, significant
from games.build import build_from_state
from rebel_jax import compile_cache
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.setup import Setup, make_setup
from solvers import LeafQuery, discounted_cfr, solve_batch, traversal
from solvers.batch_search import SearchResult, leaf_beliefs, sample_stop, search_batch
from solvers.evaluate_policy import values_given_leaves
from solvers.inner_nodes import batch_inner_values, inner_nodes
from solvers.level_values import level_values
from solvers.sampling import leaf_probabilities

_REACH = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
_OWN_REACH = (0.0, 1e-3, 0.01, 0.05, 0.2, 0.5, 1.0)

_search = jax.jit(
  search_batch, static_argnames=("algorithm", "leaf_values", "num_rows", "answer_average")
)


@dataclasses.dataclass(frozen=True)
class Options:
  """Compare the values that searches offer with solved games."""

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f"
  """A run's folder, a checkpoint, or the name of a network that comes with the package."""
  states: int = 384
  """PBSs of self-play that are searched."""
  iterations: int = 64
  """Iterations of the searches."""
  exact_iterations: int = 1_024
  """Iterations of the solves to the end of the game."""
  seed: int = 0
  """Of self-play."""


def rms(x: Any) -> float:
  return significant(float(np.sqrt(np.mean(np.asarray(x) ** 2))), 3)


class Searches:
  """Searches with one network, and what they are compared with."""

  def __init__(self, setup: Setup, params: Any, options: Options):
    self.setup, self.params, self.options = setup, params, options
    self.table = setup.table.tables[0]
    self.leaf_values = NetworkLeafValues(setup.trainer.learner.network)
    known = value_error.Options(states=options.states, seed=options.seed)
    self.roots, self.beliefs = value_error.sample_states(setup, params, known)["self-play"]

  @functools.cached_property
  def found(self) -> SearchResult:
    """What searches of the sampled PBSs find."""
    return self.search(self.roots, self.beliefs)

  def search(self, roots, beliefs, stop=None) -> SearchResult:
    """Searches subgames `[B]` from beliefs `[B, P, H]`, iterates taken at `stop` `[B]`."""
    return _search(
      self.table,
      roots,
      beliefs,
      np.zeros(len(roots), np.int32) if stop is None else stop,
      self.options.iterations,
      algorithm=self.setup.trainer.self_play.algorithm,
      leaf_values=self.leaf_values,
      params=self.params,
      num_rows=max(1, int(self.table.num_live[roots].sum())),
      answer_average=True,
    )

  def tree(self, root):
    return jax.tree.map(lambda x: jnp.asarray(x)[root], self.table.trees)

  def solve(self, roots, beliefs) -> np.ndarray:
    return value_error.solve_exactly(self.setup, roots, beliefs, self.options.exact_iterations)[0]

  def errors(self, roots, beliefs, values, exact) -> dict[str, float]:
    worth = functools.partial(value_error.pbs_values, self.setup, roots, beliefs)
    return {"pbs": rms(worth(values) - worth(exact)), "infostates": rms(values - exact)}

  def of_roots(self) -> Iterator[dict[str, Any]]:
    """Yields the errors of values of the searched PBSs."""
    result = self.found

    @jax.jit
    @jax.vmap
    def average(root, beliefs, policy, answers):
      tree = self.tree(root)
      return values_given_leaves(tree, traversal.prepare(tree, beliefs), policy, answers)

    averages = average(self.roots, self.beliefs, result.average_policy, result.average_answers)
    levelled = jax.vmap(lambda r, *x: level_values(self.tree(r), *x))(
      self.roots, jnp.asarray(self.beliefs), result.root_values, averages
    )
    exact = self.solve(self.roots, self.beliefs)
    for name, values in (
      ("mean over iterations", result.root_values),
      ("average policy", averages),
      ("levelled", levelled),
    ):
      found = self.errors(self.roots, self.beliefs, np.asarray(values), exact)
      yield {"of": "roots", "values": name, "number": len(self.roots), **found}

  def of_inner_nodes(self) -> Iterator[dict[str, Any]]:
    """Yields the errors at inner nodes by reach, then of infostates by own reach."""
    result = self.found
    inner = jax.jit(functools.partial(batch_inner_values, self.table))(
      self.roots, self.beliefs, result
    )
    inner = jax.tree.map(np.asarray, inner)
    row, place = np.nonzero(inner.reach >= _REACH[0])
    nodes = inner_nodes(self.table.trees.structure)
    states = np.asarray(self.table.trees.state)[self.roots[row], nodes[place]]
    beliefs, values = inner.beliefs[row, place], inner.values[row, place]
    reach, own_reach = inner.reach[row, place], inner.own_reach[row, place]
    exact = np.zeros_like(values)
    for state in np.unique(states, axis=0):
      here = np.flatnonzero((states == state).all(axis=1))
      solved = solve_batch(
        build_from_state(self.setup.game, state),
        algorithm=discounted_cfr(),
        num_iterations=self.options.exact_iterations,
        beliefs=beliefs[here],
      )
      exact[here] = np.asarray(solved.root_values)
    wrong = values - exact
    for low, high in itertools.pairwise(_REACH):
      kept = (reach >= low) & ((reach < high) | (high == 1.0))
      if kept.any():
        error = rms((beliefs * wrong).sum(axis=-1)[kept])
        found = {"reach": [low, high], "number": int(kept.sum()), "pbs": error}
        yield {"of": "inner nodes", **found}
    often = (reach >= 0.01)[:, None, None] & inner.possible[row, place]
    for low, high in itertools.pairwise(_OWN_REACH):
      kept = often & (own_reach >= low) & ((own_reach < high) | (high == 1.0))
      if kept.any():
        found = {
          "own_reach": [low, high],
          "number": int(kept.sum()),
          "infostates": rms(wrong[kept]),
        }
        yield {"of": "inner infostates", **found, "bias": significant(float(wrong[kept].mean()), 2)}

  def of_other_beliefs(self) -> Iterator[dict[str, Any]]:
    """Yields the errors, at a sampled iterate's leaf, of policies found at others' beliefs."""
    live = np.asarray(self.table.num_live)[self.roots] > 0
    if not live.any():
      return
    roots, beliefs = self.roots[live], self.beliefs[live]
    play = self.setup.trainer.self_play
    keys = jax.random.split(jax.random.key(self.options.seed + 1), 3)
    stops = [
      sample_stop(key, (len(roots),), self.options.iterations, play.stop_exponent)
      for key in keys[:2]
    ]

    def at_leaves(root, beliefs, policy):
      tree = self.tree(root)
      setting = traversal.prepare(tree, beliefs)
      return tree, setting, leaf_beliefs(tree, setting, policy)

    @jax.jit
    @jax.vmap
    def leaves(root, beliefs, policy):
      tree, setting, at = at_leaves(root, beliefs, policy)
      return leaf_probabilities(tree, setting, policy, beliefs), at

    @jax.jit
    @jax.vmap
    def policy_values(root, beliefs, policy):
      tree, setting, at = at_leaves(root, beliefs, policy)
      first, second = (
        self.leaf_values(self.params, LeafQuery(tree.leaf_features[p], p, at)) for p in (0, 1)
      )
      return values_given_leaves(tree, setting, policy, (first, second))

    first, second = (self.search(roots, beliefs, stop) for stop in stops)
    likely, own = leaves(roots, beliefs, first.policy)
    also_likely, other = leaves(roots, beliefs, second.policy)
    _, average = leaves(roots, beliefs, first.average_policy)
    both = likely * also_likely
    leaf = np.asarray(jax.random.categorical(keys[2], jnp.log(both + 1e-30)))
    lane = np.flatnonzero(np.asarray(both)[np.arange(len(roots)), leaf] > 1e-4)
    below = np.asarray(self.table.successor)[roots[lane], leaf[lane]]
    own, other, average = (np.asarray(x)[lane, leaf[lane]] for x in (own, other, average))
    exact = self.solve(below, own)

    def found_at(there) -> np.ndarray:
      """Returns values at `own` beliefs of the average policies of searches at others."""
      return np.asarray(policy_values(below, own, self.search(below, there).average_policy))

    network = value_error.ask_network(self.setup, self.params, below, own)
    for name, values in (
      ("search there", found_at(own)),
      ("search at the average policy's beliefs", found_at(average)),
      ("search at another iterate's beliefs", found_at(other)),
      ("network", network),
    ):
      found = self.errors(below, own, values, exact)
      yield {"of": "leaves", "values": name, "number": len(below), **found}


def main(options: Options) -> None:
  """Measures one network."""
  compile_cache.enable()
  policy = rebel_jax.load(options.checkpoint)
  # Makes the tables hold what inner nodes need.
  config = dataclasses.replace(policy.config, num_devices=1, inner_rows=1)
  searches = Searches(make_setup(config), policy.params, options)
  known = {"benchmark": "inner_values", **environment(), "checkpoint": options.checkpoint}
  rows = itertools.chain(
    searches.of_roots(), searches.of_inner_nodes(), searches.of_other_beliefs()
  )
  for row in rows:
    print(json.dumps(known | {"iterations": options.iterations} | row), flush=True)


if __name__ == "__main__":
  main(tyro.cli(Options))
