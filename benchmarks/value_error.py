"""How wrong a trained value network is, and what makes it so.

`python -m benchmarks.value_error liars_dice_1x4f` takes public belief states from two places: those
that self-play of the network's run would train on, and leaves that its searches ask about, which
play may never reach. At each it compares three things with the value found by solving the rest of
the game to its end (DCFR, `--exact-iterations`):

- `network`: what the network says;
- `target`: what training would teach it there, the values that a search with this network finds;
- `fit`: the network against the target.

Errors of the network come from both: it repeats the errors of its targets, and adds what it has
not learned of them. Differences are root mean squares over the players' values of the PBS (each
infostate weighed by its probability), in the game's units: such a value is unique, while those of
single infostates need not be. The same with `_infostates` are root mean squares over infostates,
each weighed by its probability: what decides between the moves that lead to a PBS. `bias` is the
mean over PBSs and players of `network`'s difference; were it exact for one player whatever the
other's, it would be zero.
"""

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import rebel_jax
from benchmarks.timing import environment, make_algorithm, significant
from games.build import build_from_state
from rebel_jax import compile_cache
from rebel_jax.config import Config
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.self_play import init_lanes, self_play_step
from rebel_jax.setup import Setup, make_setup
from solvers import Algorithm, LeafQuery, discounted_cfr, exploitability, solve_batch
from solvers.batch_search import sample_stop, search_batch
from solvers.exploitability import root_marginals


@dataclasses.dataclass(frozen=True)
class Options:
  """Measure a network's errors against solved games."""

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f"
  """A run's folder, a checkpoint, or the name of a network that comes with the package."""
  states: int = 256
  """PBSs from each place."""
  iterations: int | None = None
  """Iterations of the searches that make targets; None for those that the run ended with."""
  algorithm: str | None = None
  """What makes targets, at PBSs of self-play with the run's; None for the run's."""
  level_values: bool | None = None
  """Whether targets are levelled (`solvers.level_values`); None for the run's."""
  exact_iterations: int = 1_024
  """Iterations of the solves to the end of the game."""
  seed: int = 0
  """Of self-play."""


def sample_states(setup: Setup, params: Any, options: Options) -> dict[str, tuple]:
  """Returns subgames `[M]` and beliefs `[M, P, H]` from each place."""
  settings = setup.trainer.self_play
  table = setup.table.tables[0]
  leaf_values = NetworkLeafValues(setup.trainer.learner.network)

  @jax.jit
  def play(lanes, key):
    played = self_play_step(setup.table, settings, lanes, leaf_values, params, key)
    stop_key, leaf_key = jax.random.split(jax.random.fold_in(key, 1))
    shape = (settings.num_lanes,)
    stop = sample_stop(stop_key, shape, settings.num_iterations, settings.stop_exponent)
    found = search_batch(
      table,
      lanes.roots,
      lanes.beliefs,
      stop,
      settings.num_iterations,
      algorithm=settings.algorithm,
      leaf_values=leaf_values,
      params=params,
      num_rows=settings.num_lanes * table.trees.num_leaves,
    )
    live = jnp.asarray(table.successor)[lanes.roots] >= 0
    leaf = jax.random.categorical(leaf_key, jnp.where(live, 0.0, -jnp.inf))
    lane = jnp.arange(settings.num_lanes)
    below = (jnp.asarray(table.successor)[lanes.roots, leaf], found.leaf_beliefs[lane, leaf])
    # Exploring may lead where beliefs leave no compatible pair of infostates, and nothing is worth
    # anything.
    met = (
      (lanes.roots != 0) & _is_possible(setup, lanes.roots, lanes.beliefs),
      live.any(axis=-1) & _is_possible(setup, *below),
    )
    return played.lanes, below, met

  lanes = init_lanes(setup.table, settings.num_lanes)
  key = jax.random.key(options.seed)
  places: dict[str, list] = {"self-play": [], "leaves": []}
  gathered = 0
  for step in range(10_000):
    key, step_key = jax.random.split(key)
    before = lanes
    lanes, below, met = play(lanes, step_key)
    if step < 8:  # games have begun together, and drift apart
      continue
    for found, place, kept in zip(places.values(), ((before.roots, before.beliefs), below), met):
      found += zip(*(np.asarray(x)[np.asarray(kept)] for x in place))
    gathered = min(map(len, places.values()))
    if gathered >= options.states:
      break
  return {
    name: tuple(np.stack(x) for x in zip(*found[: options.states]))
    for name, found in places.items()
  }


def _marginals(setup: Setup, roots, beliefs) -> jax.Array:
  """Returns how likely infostates are at PBSs, given that hands exclude each other: `[M, P, H]`."""
  trees = jax.tree.map(lambda x: jnp.asarray(x)[roots], setup.table.tables[0].trees)
  return jax.vmap(root_marginals)(trees, beliefs)


def _is_possible(setup: Setup, roots, beliefs) -> jax.Array:
  """Says which PBSs leave some pair of infostates possible: `[M]`."""
  return _marginals(setup, roots, beliefs).sum(axis=(1, 2)) > 1  # two where possible, else zero


def pbs_values(setup: Setup, roots, beliefs, values) -> np.ndarray:
  """Returns the players' values of PBSs, `[M, P]`, from those of their infostates `[M, P, H]`."""
  return np.asarray((_marginals(setup, roots, beliefs) * values).sum(axis=-1))


def rms(setup: Setup, roots, beliefs, differences) -> tuple[float, float]:
  """Returns root mean squares of differences between values `[M, P, H]`.

  Of the players' values of PBSs, and of infostates' values, each weighed by its probability.
  """
  of_pbs = pbs_values(setup, roots, beliefs, differences) ** 2
  of_infostates = pbs_values(setup, roots, beliefs, differences**2)
  found = [significant(float(np.sqrt(np.mean(x))), 3) for x in (of_pbs, of_infostates)]
  return found[0], found[1]


def ask_network(setup: Setup, params: Any, roots, beliefs) -> np.ndarray:
  """Returns the network's infostate values, `[M, P, H]`."""
  features = jnp.asarray(setup.table.tables[0].trees.root_features)[roots]
  leaf_values = NetworkLeafValues(setup.trainer.learner.network)
  found = [
    leaf_values(params, LeafQuery(features[:, player], player, jnp.asarray(beliefs)))
    for player in (0, 1)
  ]
  return np.stack(found, axis=1)


_STATIC = ("algorithm", "leaf_values", "num_rows", "values_of_average", "levelled")


def search_targets(
  setup: Setup, params: Any, roots, beliefs, iterations: int, algorithm: Algorithm | None = None
) -> np.ndarray:
  """Returns the root values `[M, P, H]` that searches find; the run's algorithm's for None."""
  table = setup.table.tables[0]
  found = jax.jit(search_batch, static_argnames=_STATIC)(
    table,
    roots,
    beliefs,
    np.zeros(len(roots), np.int32),
    iterations,
    algorithm=algorithm or setup.trainer.self_play.algorithm,
    leaf_values=NetworkLeafValues(setup.trainer.learner.network),
    params=params,
    num_rows=max(1, int(table.num_live[roots].sum())),
    values_of_average=setup.trainer.self_play.values_of_average,
    levelled=setup.trainer.self_play.level_values,
  )
  return np.asarray(found.root_values)


def solve_exactly(setup: Setup, roots, beliefs, iterations: int) -> tuple[np.ndarray, float]:
  """Returns values `[M, P, H]` of solving to the end, and the solutions' worst exploitability."""
  values, worst = np.zeros_like(beliefs), 0.0
  for root in np.unique(roots):
    here = np.flatnonzero(roots == root)
    tree = build_from_state(setup.game, setup.subgames.states[root])
    solved = solve_batch(
      tree, algorithm=discounted_cfr(), num_iterations=iterations, beliefs=beliefs[here]
    )
    values[here] = np.asarray(solved.root_values)
    for row, policy in zip(here[:2], np.asarray(solved.average_policy)):
      worst = max(worst, float(exploitability(tree, policy, beliefs=beliefs[row])))
  return values, worst


def compare(config: Config, params: Any, options: Options) -> list[dict[str, Any]]:
  """Returns a row for each place that PBSs come from.

  Raises:
    SystemExit: the run's subgames lie in several tables, or there is no such algorithm.
  """
  if options.level_values is not None:
    config = dataclasses.replace(config, level_values=options.level_values)
  algorithm = None
  if options.algorithm is not None:
    algorithm = make_algorithm("algorithm", options.algorithm)
  setup = make_setup(dataclasses.replace(config, num_devices=1))
  if len(setup.table.tables) > 1:
    raise SystemExit(f"depth={config.depth} is not supported here: one number of actions is")
  iterations = config.last_iterations if options.iterations is None else options.iterations
  rows = []
  for place, (roots, beliefs) in sample_states(setup, params, options).items():
    exact, worst = solve_exactly(setup, roots, beliefs, options.exact_iterations)
    found = {
      "exact": exact,
      "network": ask_network(setup, params, roots, beliefs),
      "target": search_targets(setup, params, roots, beliefs, iterations, algorithm),
    }
    values = {name: pbs_values(setup, roots, beliefs, x) for name, x in found.items()}
    compared = {
      "network": ("network", "exact"), "target": ("target", "exact"), "fit": ("network", "target")
    }  # fmt: skip
    errors: dict[str, float] = {}
    for name, (one, other) in compared.items():
      both = rms(setup, roots, beliefs, found[one] - found[other])
      errors |= {name: both[0], f"{name}_infostates": both[1]}
    rows.append(
      {
        "place": place,
        "states": len(roots),
        "iterations": iterations,
        "algorithm": options.algorithm or config.algorithm,
        "level_values": config.level_values,
        **errors,
        "bias": significant(float((values["network"] - values["exact"]).mean()), 3),
        "spread": significant(float(values["exact"].std()), 3),
        "exploitability_of_exact": significant(worst, 2),
      }
    )
  return rows


def main(options: Options) -> None:
  """Measures one network."""
  compile_cache.enable()
  policy = rebel_jax.load(options.checkpoint)
  for row in compare(policy.config, policy.params, options):
    known = {"benchmark": "value_error", **environment(), "checkpoint": options.checkpoint}
    print(json.dumps(known | row), flush=True)


if __name__ == "__main__":
  main(tyro.cli(Options))
