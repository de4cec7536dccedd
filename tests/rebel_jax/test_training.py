"""Training: that it learns, that its examples are right, and that it runs on several devices."""

import dataclasses
import functools
import json
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import solvers
from rebel_jax.config.config import Config
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.training.setup import make_setup
from tests.tiny import TINY, rows, with_devices

ROOT = Path(__file__).parents[2]

KUHN = TINY.replace(
  iterations=32,
  lanes=16,
  batch_size=64,
  buffer_size=8_192,
  uses_per_example=8.0,
  examples=6_144,
  learning_rate=2e-3,
)
SEEDS = range(3)
LEARNED = 0.1  # measured: 0.40 before training, 0.05 after, 0.20 after training on random beliefs


def exploitability_after(config: Config, **control) -> tuple[float, float]:
  """Returns the searching agent's exploitability before and after training, mean over seeds."""
  setup = make_setup(config)
  evaluator = Evaluator(config, game=setup.game, subgames=setup.subgames)
  measure = functools.partial(evaluator.exploitability, playthroughs=16, iterations=64)
  self_play = dataclasses.replace(setup.trainer.self_play, **control)
  trainer = dataclasses.replace(setup.trainer, self_play=self_play)
  results = []
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


@pytest.mark.slow
def test_random_beliefs_teach_it_less():
  """The control of ReBeL's Figure 2: as much training, on PBSs that play does not lead to."""
  _, after = exploitability_after(KUHN, random_beliefs=True)
  assert after > LEARNED


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
def test_examples_are_public_belief_states(name):
  setup, _, steps = played(name)
  trees, seen = setup.table.stages[0].trees, set()
  for lanes, examples in steps:
    beliefs = np.asarray(examples.beliefs).reshape(2, len(lanes.roots), 2, -1)
    np.testing.assert_allclose(beliefs.sum(axis=-1), 1.0, atol=1e-5)
    assert (beliefs >= 0).all()
    mask = np.asarray(examples.mask).reshape(2, len(lanes.roots), -1)
    values = np.asarray(examples.values).reshape(mask.shape)
    assert np.isfinite(values).all()
    for lane, root in enumerate(np.asarray(lanes.roots)):
      seen.add(int(root))
      weights = np.asarray(trees.pair_weights)[root][int(trees.root_pair_index[root])]
      for player in (0, 1):
        # Seen from either seat: the player's own beliefs first.
        np.testing.assert_array_equal(beliefs[player, lane], lanes.beliefs[lane][:: 1 - 2 * player])
        table = weights if player == 0 else weights.T
        met = table @ beliefs[player, lane, 1] > 0
        if trees.possible is not None:
          met &= np.asarray(trees.possible)[root, 0, player]
          assert (beliefs[player, lane, 0][~np.asarray(trees.possible)[root, 0, player]] == 0).all()
        np.testing.assert_array_equal(mask[player, lane], met)
  assert len(seen) > 1  # play went on from the start
  if name == "leduc_poker":
    cards = np.array([setup.subgames.states[root][6] for root in seen])
    assert (cards >= 0).any()


@pytest.mark.parametrize("name", GAMES)
def test_examples_hold_the_values_of_a_solve(name):
  """What the packed batch finds is what `solvers.solve` finds for each subgame by itself."""
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


TWO_DEVICES = """
import json, sys
import jax, numpy as np
from rebel_jax.runs.run import train
from rebel_jax.training.setup import make_setup
from rebel_jax.checkpoints import checkpoint
from tests.tiny import TINY, tiny
result = train(*tiny(sys.argv[1], num_devices=2))
setup = make_setup(TINY, 2)
state = setup.trainer.init(setup.table, 0, setup.mesh)
state = checkpoint.restore(checkpoint.checkpoints_of(sys.argv[1])[-1], state, setup.mesh)
weights = [x for x in jax.tree.leaves(state.params) if x.ndim == 2][0]
copies = [np.asarray(shard.data) for shard in weights.addressable_shards]
replay = state.replay["value"]
added = np.asarray(replay.added)
beliefs = np.asarray(replay.examples.beliefs)[:, : added[0]]
print(json.dumps({
  "devices": len(jax.devices()), "row": result.row, "added": added.tolist(),
  "copies": len(copies), "equal": bool((copies[0] == copies[1]).all()),
  "played_alike": bool((beliefs[0] == beliefs[1]).all()),
}))
"""


@pytest.mark.slow
def test_two_devices(tmp_path):
  """Each plays its own games; what is learned is the same on both."""
  result = subprocess.run(
    [sys.executable, "-c", TWO_DEVICES, tmp_path / "run"],
    cwd=ROOT, capture_output=True, text=True,
    env=with_devices(2),
  )  # fmt: skip
  assert result.returncode == 0, result.stderr
  said = json.loads(result.stdout.splitlines()[-1])
  assert (said["devices"], said["copies"]) == (2, 2)
  assert said["added"] == [32, 32]
  assert said["row"]["examples"] == 64
  assert np.isfinite(said["row"]["loss"])
  assert said["equal"]
  assert not said["played_alike"]


TWO_PROCESSES = """
import json, sys
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
jax.distributed.initialize(f"localhost:{port}", 2, rank)
from rebel_jax.runs.run import train
from tests.tiny import tiny
train(*tiny(folder), stop=lambda step: step >= 4)
result = train(*tiny(folder, resume=True))
print(json.dumps({"processes": jax.process_count(), "row": result.row}))
"""


@pytest.mark.slow
def test_two_processes(tmp_path):
  """They train together, stop and resume together, and only the first writes metrics."""
  with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", TWO_PROCESSES, str(rank), str(port), tmp_path / "run"],
      cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    for rank in (0, 1)
  ]  # fmt: skip
  outputs = [process.communicate() for process in processes]
  assert [process.returncode for process in processes] == [0, 0], outputs
  first, second = (json.loads(out.splitlines()[-1]) for out, _ in outputs)
  assert first["processes"] == 2
  assert first["row"]["loss"] == second["row"]["loss"]
  assert "exploitability" in first["row"]
  assert [row["step"] for row in rows(tmp_path / "run")] == [2, 4, 6, 8]
