"""Training: that it learns, and that its examples are right."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from rebel_jax.config.config import Config
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.training.self_play import Lanes, ServedStage, choose_lanes
from rebel_jax.training.setup import make_setup
from solvers.search.subgames import find_subgames, stack_subgames
from tests.tiny import TINY

KUHN = TINY.replace(
  iterations=32,
  lanes=16,
  batch_size=64,
  buffer_size=8_192,
  uses_per_example=8.0,
  examples=6_144,
  learning_rate=2e-3,
)
SEEDS = range(2)
LEARNED = 0.1  # measured: 0.40 before training, 0.05 after


def exploitability_after(config: Config) -> tuple[float, float]:
  """Returns the searching agent's exploitability before and after training, mean over seeds."""
  setup = make_setup(config)
  evaluator = Evaluator(config, game=setup.game, subgames=setup.subgames)
  measure = functools.partial(evaluator.exploitability, playthroughs=16, iterations=64)
  trainer, results = setup.trainer, []
  for seed in SEEDS:
    state = trainer.init(setup.table, seed, setup.mesh)
    before = measure(state.params)
    state, report = trainer.run(setup.table, state, config.num_steps, setup.mesh)
    assert np.isfinite(report.learned["value"].loss).all()
    results.append((before, measure(state.params)))
  before, after = np.mean(results, axis=0)
  return before, after


def test_self_play_learns_a_game():
  before, after = exploitability_after(KUHN)
  assert before > 3 * LEARNED
  assert after < LEARNED


GAMES = {
  "leduc_poker": dict(game="leduc_poker", depth=2),  # public chance, cards that block each other
  "rock_paper_scissors": dict(game="rock_paper_scissors", depth=1),  # a hidden move
}


@functools.cache
def played(name, play_on=0.0):
  """Returns the setup of a game, and for some steps of self-play: lanes before, examples."""
  config = TINY.replace(game_params=(), iterations=8, play_on=play_on, **GAMES.get(name, {}))
  setup = make_setup(config)
  params = setup.trainer.init(setup.table, 3, setup.mesh).params
  settings, (target,) = setup.trainer.self_play, setup.trainer.targets

  @jax.jit
  def step(lanes, key):
    after = settings.step(setup.table, lanes, params, key)
    return after.lanes, *target.examples_of(after.searched)

  lanes, steps = settings.init(setup.table, jax.random.key(0)), []
  for i in range(6):
    after, examples, valid = step(lanes, jax.random.key(i))
    assert valid.all()
    steps.append((lanes, examples))
    lanes = after
  return setup, params, steps


def test_games_play_on_where_they_would_end():
  """They begin anew where a subgame has no leaf to go on at; control: also elsewhere."""
  begun = {}
  for play_on in (0.0, 1.0):
    setup, _, steps = played("kuhn_poker", play_on)
    roots = np.stack([lanes.roots for lanes, _ in steps])
    leaves = np.asarray(setup.table.stages[0].live_leaves(roots[:-1].ravel()))
    anew = roots[1:].ravel() == roots[0, 0]
    assert (leaves == 0).any()
    assert anew[leaves == 0].all()
    begun[play_on] = anew[leaves > 0].any()
  assert begun == {0.0: True, 1.0: False}


@pytest.mark.parametrize("name", GAMES)
def test_examples_hold_the_values_of_a_solve(name):
  setup, params, steps = played(name)
  algorithm, iterations = solvers.linear_cfr(), setup.config.search.iterations
  roots = jnp.concatenate([lanes.roots for lanes, _ in steps])
  beliefs = jnp.concatenate([lanes.beliefs for lanes, _ in steps])
  lanes = TINY.self_play.lanes
  values = jnp.concatenate([e.values.reshape(2, lanes, -1) for _, e in steps], axis=1)
  mask = jnp.concatenate([e.mask.reshape(2, lanes, -1) for _, e in steps], axis=1)

  @jax.jit
  @jax.vmap
  def solve(root, beliefs):
    tree = jax.tree.map(lambda x: jnp.asarray(x)[root], setup.table.stages[0].trees)
    solution = solvers.solve(
      tree,
      algorithm=algorithm,
      num_iterations=iterations,
      beliefs=beliefs,
      leaf_values=setup.trainer.self_play.leaf_values,
      params=params,
    )
    return solution.root_values

  expected = solve(roots, beliefs).swapaxes(0, 1)
  np.testing.assert_allclose(values * mask, expected * mask, atol=1e-4)
  elsewhere = solve(roots, jnp.roll(beliefs, 1, axis=0)).swapaxes(0, 1)
  assert np.abs((values - elsewhere) * mask).max() > 0.01


def test_lanes_are_chosen_from_the_turn_on_up_to_capacity_and_rows():
  table = stack_subgames(find_subgames(games.make("kuhn_poker"), depth=1))
  choose = jax.jit(choose_lanes, static_argnums=1)

  def served(roots, capacity, turn=0, num_rows=100, stage=table):
    lanes = Lanes(np.array(roots), np.zeros((5, 2, 3)), np.array(turn))
    chosen, active = choose(stage, ServedStage(num_rows, capacity), lanes)
    return sorted(np.asarray(chosen)[np.asarray(active)].tolist())

  assert served([0] * 5, 5) == [0, 1, 2, 3, 4]
  assert served([0] * 5, 2) == [0, 1]
  assert served([0] * 5, 2, turn=4) == [0, 4]
  assert served([0] * 5, 4, num_rows=3 * int(table.num_live[0])) == [0, 1, 2]
  elsewhere = dataclasses.replace(table, row_of=np.where(table.row_of == 0, -1, table.row_of))
  assert served([0, 1, 0, 1, 1], 2, stage=elsewhere) == [1, 3]
  assert served([0, 1, 0, 1, 1], 2, turn=3, stage=elsewhere) == [3, 4]
