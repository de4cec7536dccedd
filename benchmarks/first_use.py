"""Seconds that a first use takes, most of them compilation, here and in another checkout.

Each case is a program that starts with an empty cache. With `--against` both checkouts run it in
turns, and `ratio` is of CPU seconds, which depend less on what else the machine does.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import timing

_ROOT = Path(__file__).parent.parent
_TREE = (
  "import jax, games, solvers\ngame = games.make({name!r})\ntree = games.build_public_tree(game)\n"
)
_TRAIN = (
  "import jax, rebel_jax\nfrom rebel_jax.training.setup import make_setup\n"
  "setup = make_setup(rebel_jax.get_preset({name!r}))\n"
  "state = setup.trainer.init(setup.table, 0, setup.mesh)\n"
  "jax.block_until_ready(setup.trainer.run(setup.table, state, 1, setup.mesh)[0].params)\n"
)
_SOLVE = "solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=64).average_policy"
_GROW = (
  "solvers.gt_cfr(tree, solvers.node_info(game, tree), search=solvers.GTCFR(simulations=100),"
  " key=jax.random.key(0)).average_policy"
)
# By name; "readme" is the first Python block of the checkout's own.
CASES = {
  "readme": "",
  "solve": _TREE.format(name="leduc_poker") + f"jax.block_until_ready({_SOLVE})",
  "grow": _TREE.format(name="leduc_poker") + f"jax.block_until_ready({_GROW})",
  "hunl_small": _TRAIN.format(name="hunl_small"),
  "default": _TRAIN.format(name="liars_dice_1x4f"),
  "pog_leduc": _TRAIN.format(name="pog_leduc"),
}
# Imports are not counted.
_AT_START = """
import json, resource, time
import jax, games, solvers, rebel_jax
_compiled, _begun = [], time.time()
jax.monitoring.register_event_duration_secs_listener(
  lambda name, *_, **__: "backend_compile" in name and _compiled.append(name))
_used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
_before = _used()
"""
_AT_END = "\nprint(json.dumps([_used() - _before, time.time() - _begun, len(_compiled)]))"


def main(
  cases: tuple[str, ...] = tuple(CASES), against: Path | None = None, repeats: int = 1
) -> None:
  """Time first uses with an empty cache.

  Args:
    cases: Which ones.
    against: Another checkout, to run in turns with this one.
    repeats: How often; the least counts.
  """
  for name in cases:
    program = timing.look_up("cases", name, CASES)
    checkouts = [_ROOT] if against is None else [_ROOT, against.resolve()]
    runs = [[first_use(name, program, x) for x in checkouts] for _ in range(repeats)]
    best = [min(rows) for rows in zip(*runs)]
    figures = {
      f"{start}{figure}": round(value, 2)
      for start, row in zip(("", "against_"), best)
      for figure, value in zip(("cpu_seconds", "seconds", "programs"), row)
    }
    ratio = {"ratio": round(best[0][0] / best[1][0], 3)} if len(best) > 1 else {}
    timing.say("first_use", case=name, **figures, **ratio)


def first_use(name: str, program: str, checkout: Path) -> tuple[float, float, int]:
  """Returns the CPU seconds, the seconds and the programs compiled of a case in a checkout."""
  if name == "readme":
    blocks = re.findall(r"```python\n(.*?)```", (checkout / "README.md").read_text(), re.DOTALL)
    program = blocks[0]
  with tempfile.TemporaryDirectory() as home:
    # Importing this library sets flags, which the other checkout's program must not inherit.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    own = {"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", _AT_START + program + _AT_END]
    done = subprocess.run(
      command, env=environment | own, cwd=checkout, capture_output=True, text=True, check=False
    )
  if done.returncode:
    raise SystemExit(f"{name} in {checkout} failed:\n{done.stderr[-2000:]}")
  return tuple(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
  timing.command(main)
