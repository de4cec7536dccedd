"""A stage's capacity: lanes beyond it wait, and nothing else changes for those that are served."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import games
from rebel_jax.training.self_play import Lanes, Layer, _put_back, choose_lanes
from rebel_jax.training.setup import make_setup
from solvers.search.find import find_subgames
from solvers.search.tables import stack_subgames
from tests.tiny import TINY

TABLE = stack_subgames(find_subgames(games.make("kuhn_poker"), depth=1))


def lanes_at(roots, turn=0):
  beliefs = jnp.zeros((len(roots), 2, 3))
  return Lanes(jnp.asarray(roots), beliefs, jnp.asarray(turn))


def served(roots, capacity, turn=0, num_rows=100, stage=TABLE):
  chosen, active = choose_lanes(stage, Layer(num_rows, capacity), lanes_at(roots, turn))
  return np.asarray(chosen)[np.asarray(active)].tolist()


def test_lanes_are_chosen_from_the_turn_on_up_to_capacity_and_rows():
  roots = [0, 0, 0, 0, 0]
  assert served(roots, 5) == [0, 1, 2, 3, 4]
  assert served(roots, 2) == [0, 1]
  assert sorted(served(roots, 2, turn=4)) == [0, 4]
  live = int(TABLE.num_live[0])
  assert served(roots, 4, num_rows=3 * live) == [0, 1, 2]
  elsewhere = dataclasses.replace(TABLE, row_of=np.where(TABLE.row_of == 0, -1, TABLE.row_of))
  assert served([0, 1, 0, 1, 1], 2, stage=elsewhere) == [1, 3]


def test_rows_go_back_to_the_lanes_that_they_came_from():
  lanes = {"root": jnp.arange(5), "beliefs": jnp.zeros((5, 2))}
  rows = {"root": jnp.array([10, 11, 12]), "beliefs": jnp.ones((3, 2))}
  chosen, active = jnp.array([4, 1, 0]), jnp.array([True, True, False])
  found = _put_back(lanes, rows, chosen, active)
  np.testing.assert_array_equal(found["root"], [0, 11, 2, 3, 10])
  np.testing.assert_array_equal(found["beliefs"][:, 0], [0, 1, 0, 0, 1])


def test_games_go_on_and_end_alike_with_less_room(tmp_path):
  """Over many steps lanes with room for half of them play the same mix of subgames."""
  setup = make_setup(TINY)
  settings = setup.trainer.self_play
  (layer,) = settings.layers
  params = setup.trainer.init(setup.table, 0, setup.mesh).params

  def mix(capacity, active_share):
    narrow = dataclasses.replace(settings, layers=(dataclasses.replace(layer, capacity=capacity),))

    @jax.jit
    def run(key):
      def step(lanes, key):
        played = narrow.step(setup.table, lanes, params, key)
        return played.lanes, (lanes.roots, played.stats.solves)

      lanes = lanes_at([0] * settings.num_lanes)._replace(
        beliefs=jnp.tile(jnp.asarray(setup.game.prior(), jnp.float32), (settings.num_lanes, 1, 1))
      )
      return jax.lax.scan(step, lanes, jax.random.split(key, 400))[1]

    roots, solves = run(jax.random.key(0))
    np.testing.assert_array_equal(solves, round(active_share * settings.num_lanes))
    counts = np.bincount(np.asarray(roots)[50:].reshape(-1), minlength=4)
    return counts / counts.sum()

  np.testing.assert_allclose(
    mix(settings.num_lanes // 2, 0.5), mix(settings.num_lanes, 1.0), atol=0.06
  )
