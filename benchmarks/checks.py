"""Numbers of the main programs, held to those of a CPU.

`benchmarks/golden.json` keeps products of each array with a few random signs, which differ as the
arrays do but for a factor near one. The command makes it; anew where numbers change on purpose.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games
import solvers
from benchmarks import timing
from games.pairs import compatible_mass
from games.poker import BetSizes, RiverEndgame
from rebel_jax import Config
from rebel_jax.networks.optimizers import orthogonalised
from rebel_jax.networks.value import NetworkLeafValues, ValueNetwork
from rebel_jax.training.setup import make_setup
from solvers.sweeps import showdowns

GOLDEN = Path(__file__).with_name("golden.json")
_SIGNS = 16
# With 128 a rounding error has become half a percent of Leduc's values, on one CPU or another.
_ITERATIONS = 32


@dataclasses.dataclass(frozen=True)
class Check:
  """A program whose numbers are checked."""

  # returns arrays by name; those called `exploitability` are one number
  make: Callable[[], dict[str, Any]]
  limit: float  # the most by which an array may be off, as a share of its norm


def project(array: Any) -> list[float]:
  """Returns products of an array with random signs, a few numbers for any size."""
  flat = np.asarray(array, float).ravel()
  rng = np.random.default_rng(0)
  return [float((rng.integers(0, 2, flat.size) * 2 - 1) @ flat) for _ in range(_SIGNS)]


def compare(name: str, golden: dict[str, list[float]]) -> dict[str, Any]:
  """Returns how far a check's arrays are off, and whether that is allowed (`ok`)."""
  check, errors, ok = CHECKS[name], {}, True
  for key, array in check.make().items():
    got, wanted = np.asarray(project(array)), np.asarray(golden[f"{name}/{key}"])
    limit = check.limit
    if key == "exploitability":  # near zero, and the more so the more its policy errs
      limit = max(0.02, 1e-5 / max(abs(float(wanted[0])), 1e-30))
    size = max(float(np.linalg.norm(wanted)), 1e-30)
    errors[key] = float(np.linalg.norm(got - wanted)) / size
    ok = ok and errors[key] <= limit
  return {"ok": ok, "limit": check.limit, "errors": errors}


def _solve(tree: games.PublicTree, number: int, algorithm: Any) -> dict[str, Any]:
  solution = solvers.solve(tree, algorithm=algorithm, num_iterations=number)
  gap = solvers.exploitability(tree, solution.average_policy)
  return {"values": solution.root_values, "exploitability": gap}


def _whole_game(name: str) -> dict[str, Any]:
  tree = games.build_public_tree(timing.make_game(name))
  return _solve(tree, _ITERATIONS, solvers.linear_cfr())


def _river() -> dict[str, Any]:
  """Solves a river of 1,081 hands: dense showdowns on an accelerator, sorted ones on a CPU."""
  game = RiverEndgame(board="Td9d6h2cKs", pot=1_000, bets=BetSizes((((1.0,),),)))
  return _solve(games.build_public_tree(game), _ITERATIONS, solvers.discounted_cfr())


def _showdowns() -> dict[str, Any]:
  rng = np.random.default_rng(1)
  reach = jnp.asarray(rng.exponential(size=(4, 8, 1081)) ** 3, jnp.float32)
  strength = jnp.asarray(rng.integers(0, 400, size=(4, 1081)), jnp.int32)
  make = functools.partial(showdowns.make_showdowns, strength, jnp.float32)
  tables = make(dense=True), make(dense=False)
  dense, by_order = (jax.jit(showdowns.showdown_values)(table, reach) for table in tables)
  mass = jax.jit(compatible_mass)(reach)
  return {"mass": mass, "dense": dense, "sorted": by_order}


def _muon() -> dict[str, Any]:
  """Orthogonalises matrices whose singular values span decades."""
  found = {}
  for (rows, columns), power in (((96, 96), -1.0), ((24, 96), -2.0), ((96, 4), -4.0)):
    rng, rank = np.random.default_rng(0), min(rows, columns)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank] for n in (rows, columns))
    matrix = jnp.asarray((left * np.arange(1, rank + 1) ** power) @ right.T, jnp.float32)
    found[f"{rows}x{columns}"] = jax.jit(orthogonalised)(matrix)
  return found


def _network(precision: str) -> dict[str, Any]:
  network = ValueNetwork(4, width=256, precision=precision)
  rng = np.random.default_rng(0)
  features = jnp.asarray(rng.normal(size=(1000, 9)), jnp.float32)
  beliefs = jnp.asarray(rng.dirichlet(np.ones(4), size=(1000, 2)), jnp.float32)
  params = network.init(jax.random.key(2), features, beliefs.reshape(1000, 8))
  ask = jax.jit(NetworkLeafValues(network))
  query = solvers.LeafQuery(features=features, beliefs=beliefs, traverser=0)
  return {"values": ask({"value": params}, query)}


def _self_play() -> dict[str, Any]:
  config = Config().replace(  # no preset's: those change
    game="kuhn_poker",
    game_params=(),
    depth=1,
    iterations=16,
    rows_fraction=1.0,
    lanes=32,
    width=64,
    precision="float32",
    buffer_size=16_384,
  )
  setup = make_setup(config, num_devices=1)
  play = setup.trainer.self_play
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  params, table = jax.device_put((params, setup.table), jax.devices()[0])
  lanes = play.init(table, jax.random.key(3))
  played = jax.jit(lambda *x: play.step(*x))(table, lanes, params, jax.random.key(4))
  values = next(x.result.root_values for x in played.searched if x.result is not None)
  return {"values": values, "beliefs": played.lanes.beliefs}


CHECKS = {
  "solve leduc": Check(functools.partial(_whole_game, "leduc"), 2e-4),
  "solve liars_dice_1x4f": Check(functools.partial(_whole_game, "liars_dice_1x4f"), 2e-4),
  "showdowns": Check(_showdowns, 2e-5),
  "muon": Check(_muon, 5e-3),
  "river": Check(_river, 1e-3),
  "network, float32": Check(functools.partial(_network, "float32"), 2e-5),
  "network, default": Check(functools.partial(_network, "default"), 3e-3),
  "network, bfloat16": Check(functools.partial(_network, "bfloat16_activations"), 1e-2),
  "self-play step": Check(_self_play, 2e-2),
}


def main(output: Path = GOLDEN) -> None:
  """Makes the file of numbers, on a CPU.

  Args:
    output: File to write.
  """
  jax.config.update("jax_platforms", "cpu")
  golden: dict[str, list[float]] = {}
  for name, check in CHECKS.items():
    golden |= {f"{name}/{key}": project(array) for key, array in check.make().items()}
  output.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
  timing.command(main)
