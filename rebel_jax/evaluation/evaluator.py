"""Exploitability of agents: of ReBeL's searches (section 7), and of an average policy."""

import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import solvers
from games import CHANCE, Game, PublicTree
from games.tabulate import by_edge
from rebel_jax.checkpoints import files
from rebel_jax.checkpoints.checkpoint import sum_of_arrays
from rebel_jax.config import Config, ConfigError, DeepCFR, in_config_errors
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.measurement import Measurement, Measures, Show, check_finite
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.deep_cfr import Decisions, make_decisions, probabilities
from rebel_jax.training.setup import (
  Setup,
  made_on_device,
  make_algorithm,
  make_move_network,
  make_network,
  make_search_policy,
  make_subgames,
)
from solvers.contrib.local_best_response import Strategy, TreeStrategy, local_response
from solvers.contrib.sampling.strategy import RulesStrategy
from solvers.search import (
  FoundSubgames,
  Sampled,
  SearchingAgent,
  average_policy,
  make_searching_agent,
  no_playthroughs,
  sample_playthroughs,
)

_PLAYS = 1_000  # of local response at the end of a run
_KIND = "kept playthroughs", "network"  # in words, and what their file says something of


class Evaluator(Measures):
  """Measures the agent of one game, network and search; its programs are compiled once."""

  # The agent is made when it is first needed: it may take a minute, for which training need not
  # wait.

  def __init__(
    self,
    config: Config,
    *,
    algorithm: str | None = None,
    depth: int | str | None = None,
    game: Game | None = None,
    subgames: FoundSubgames | None = None,
    unsafe: bool = True,
    keep: str | None = None,
    trajectories: int | None = None,
  ):
    """Prepares the agent; None takes the configuration's setting."""
    # `keep`: file of the sampled playthroughs, from which `measure` goes on; one for each of
    # several `trajectories` of the first search, whose number ends its name. `unsafe`: measure that
    # search too.
    self.about: dict[str, Any] = {
      "algorithm": algorithm or config.rebel.eval_algorithm,
      "depth": depth or config.rebel.depth,
    }
    self._config, self._unsafe, self._keep = config, unsafe, keep
    self._trajectories = trajectories
    self._game = config.make_game() if game is None else game
    self._subgames = subgames
    self._leaf_values = NetworkLeafValues(make_network(config, self._game))
    self._algorithm = make_algorithm(config, self.about["algorithm"])

  @functools.cached_property
  def agent(self) -> SearchingAgent:
    """The agent that is measured."""
    config, game, subgames = self._config, self._game, self._subgames
    return make_searching_agent(
      game,
      make_subgames(config, game, self.about["depth"]) if subgames is None else subgames,
      algorithm=self._algorithm,
      leaf_values=self._leaf_values,
      policy=make_search_policy(config, game),
      average_last=config.rebel.depth == "stage",
    )

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    search, many = self._config.rebel, self._trajectories
    amounts = search.eval_playthroughs, search.eval_iterations
    playthroughs, iterations = (
      (search.final_playthroughs, search.final_iterations) if final else amounts
    )
    course, row = list[tuple[int, float]](), dict[str, Any]()
    settings: dict[str, Any] = dict(iterations=iterations, seed=seed)

    def progress(done: int, total: int) -> None:
      so_far = f"; {row['exploitability']:.4f} after {course[-1][0]:,}" if course else ""
      show(f"{playthroughs} playthroughs", done, total, "searches", so_far)

    for number in range(1, 1 + many) if many else (None,):
      kept = start = None
      if self._keep is not None:  # a file that playthroughs go on from and are kept in
        name = f"{self._keep}-{number}" if many else self._keep
        what = {
          "game": [self._config.game, self._config.game_params],
          "network": sum_of_arrays(params),
          **self.about,
          **settings,
          "trajectory": number,
          "stops": "spread, sorted",  # how numbers are drawn, which earlier versions did otherwise
        }
        kept = KeptPlaythroughs(name, what)
        start = kept.load((self.agent.tree.num_nodes, self.agent.tree.num_infostates))
      for sampled, value in self.course(
        params,
        playthroughs=playthroughs,
        start=start,
        trajectory=number,
        progress=progress,
        **settings,
      ):
        if kept is not None:
          kept.save(sampled)
        of_each = {"playthroughs": sampled.count, "iterations": iterations}
        if not many:
          course.append((sampled.count, value))
          row = {"exploitability": value} | of_each
          yield Measurement(row, course)
      if number is not None:
        course.append((number, value))
        values = [x for _, x in course]
        spread = float(np.std(values, ddof=1)) if number > 1 else None  # of one trajectory
        row = {"exploitability": float(np.mean(values)), "exploitability_spread": spread}
        row |= {"trajectories": number} | of_each
        yield Measurement(row, course)
    if self._unsafe:
      average = self.exploitability(
        params,
        playthroughs=1,
        unsafe=True,
        progress=lambda done, total: show("average policy", done, total, "searches", ""),
        **settings,
      )
      yield Measurement(row | {"exploitability_average_policy": average}, course)

  def exploitability(self, params: Any, **settings: Any) -> float:
    """Returns the exploitability of the average of all playthroughs; `settings` as of `course`."""
    *_, (_, value) = self.course(params, **settings)
    return value

  def course(
    self,
    params: Any,
    *,
    playthroughs: int,
    iterations: int,
    seed: int = 0,
    start: Sampled | None = None,
    unsafe: bool = False,
    trajectory: int | None = None,
    progress: Callable[[int, int], None] | None = None,
  ) -> Iterator[tuple[Sampled, float]]:
    """Yields the playthroughs sampled and their average's exploitability, after each batch."""
    # `start`: an earlier course's yield, to go on from; `unsafe`: the average policy of each search
    # instead, one playthrough of which is all; `trajectory`: number of a jitter of the first
    # search.
    features = jnp.stack([tree.root_features[0] for tree in self.agent.subgames.trees])
    beliefs = jnp.full((len(features), 2, self.agent.tree.num_infostates), 1.0)
    query = solvers.LeafQuery(features, 0, beliefs / beliefs.shape[2])
    check_finite(self._leaf_values, params, query)
    key, jitter = jax.random.key(seed), None
    if trajectory is not None:
      key, jitter = jax.random.split(jax.random.fold_in(key, trajectory))
    so_far = sample_playthroughs(
      self.agent,
      params=params,
      num_playthroughs=playthroughs,
      num_iterations=iterations,
      start=no_playthroughs(self.agent, key) if start is None else start,
      unsafe=unsafe,
      jitter=jitter,
      progress=progress,
    )
    for sampled in so_far:
      policy = jnp.asarray(average_policy(self.agent, sampled))
      yield sampled, float(solvers.exploitability(self.agent.tree, policy))


class KeptPlaythroughs:
  """A file of the playthroughs sampled so far, and of their agent, search and seed."""

  def __init__(self, path: str, what: dict[str, Any]):
    self.path, self._name = Path(os.path.realpath(path)), f"keep={path!r}"
    self.what = json.loads(json.dumps(what))  # as it will be read

  def load(self, shape: tuple[int, ...]) -> Sampled | None:
    """Returns the playthroughs in the file, sums of `shape`, or None if there is no file yet."""
    what = files.check_replaceable(self.path, self._name, *_KIND)
    if not what:
      return None
    for name, value in self.what.items():
      if what.get(name) != value:
        raise ConfigError(
          f"{self._name} holds playthroughs of {name}={what.get(name)!r}, not {value!r};"
          " choose another file"
        )
    key = jax.random.key_data(jax.random.key(0)).shape
    expected = {"sums": (shape, "f"), "count": ((), "iu"), "key": (key, "u")}
    found = files.read_arrays(self.path, self._name, _KIND[0], what, expected)
    count = int(found["count"])
    if count < 1 or not ((found["sums"] >= 0) & (found["sums"] <= 2 * count)).all():
      raise ConfigError(f"{self._name} holds sums that {count} playthroughs cannot have")
    return Sampled(found["sums"], count, jax.random.wrap_key_data(jnp.asarray(found["key"])))

  def save(self, sampled: Sampled) -> None:
    """Replaces the file, all or nothing."""
    key = np.asarray(jax.random.key_data(sampled.key))
    arrays = {"sums": sampled.sums, "count": np.asarray(sampled.count), "key": key}
    with in_config_errors(f"{self._name} cannot be written", OSError):
      files.save_arrays(self.path, arrays, self.what, pack=np.savez)


class AverageEvaluator(Measures):
  """Measures the average policy of one game and network: exactly, or by local response."""

  def __init__(self, config: Config, game: Game | None = None, table: Decisions | None = None):
    """Prepares; `game` and `table` are of the configuration, if they are made already."""
    self.about: dict[str, Any] = {}
    self.game = config.make_game() if game is None else game
    self._table = table = make_decisions(self.game) if table is None else table
    self.tree: PublicTree | None = table.tree
    network = make_move_network(config, self.game)

    def rows(params: Any, states: Any, history: Any) -> jax.Array:
      numbers = table.numbers(network, params["average"], states, history)
      return probabilities(numbers, table.legal(states))

    self.rows = jax.jit(rows)

  def policy(self, params: Any) -> np.ndarray:
    """Returns the policy on the tree, `[N, H]`."""
    assert self.tree is not None
    nodes = np.flatnonzero(self.tree.kind < CHANCE).astype(np.int32)
    found = self.rows(params, nodes[:, None], np.asarray(self._table.lines)[nodes])
    return by_edge(self._table.rules, nodes, found)

  def strategy(self, params: Any) -> Strategy:
    """Returns the policy as metrics play against it."""
    if self.tree is not None:
      return TreeStrategy(self.tree, self.policy(params))
    return RulesStrategy(self.game, lambda *node: self.rows(params, *node)[0])

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    """Yields the exploitability, in which nothing is sampled; or what a local response wins."""
    if self.tree is None:
      number = _PLAYS if final else _PLAYS // 5
      found = local_response(
        self.game,
        self.strategy(params),
        lambda state: int(np.flatnonzero(self.game.legal_actions(state[None])[0])[-1]),
        depth=1,
        num_plays=number,
        seed=seed,
      )
      yield Measurement(dict(zip(("local_response", "half_width"), found)))
      return
    policy = self.policy(params)
    if not np.isfinite(policy).all():
      raise ConfigError("the network's probabilities are not finite")
    yield Measurement({"exploitability": float(solvers.exploitability(self.tree, policy))})


def make_evaluator(config: Config, setup: Setup | None = None, **options: Any) -> Measures:
  """Returns the evaluator of a configuration's agent, of a run's `setup` if that is made."""
  made: Any = setup
  game, table = (config.make_game(), None) if made is None else (made.game, made.table)
  if config.grows:
    return ChainEvaluator(config, game=game, ground=table, **options)
  if isinstance(config.search, DeepCFR):
    return AverageEvaluator(config, game=game, table=table, **options)
  if made_on_device(config, game):
    return HandsEvaluator(config, game, **options)
  return Evaluator(config, game=game, subgames=made and made.subgames, **options)
