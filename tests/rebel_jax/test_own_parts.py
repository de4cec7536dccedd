"""Parts of one's own: a module registers them, flags name them, and later commands know them."""

import json
import re
import shlex

import rebel_jax
from rebel_jax import evaluate
from rebel_jax import train as cli
from rebel_jax.config import allowed
from rebel_jax.runs.run import train
from tests.sentences import refused
from tests.tiny import TINY, as_flags, tiny

MODULE = """
import flax.linen as nn
import jax.numpy as jnp
import optax

import games
import rebel_jax
from games import KuhnPoker


class Residual(nn.Module):
  outputs: int

  @nn.compact
  def __call__(self, features, beliefs):
    x = jnp.concatenate([features, beliefs], axis=-1)
    return nn.Dense(self.outputs)(nn.relu(nn.Dense(8)(x)))


class ThreeHands(KuhnPoker):
  name = "three_hands"


def rows_to(folder, step):
  def write(row):
    with open(folder / "mine.txt", "a") as file:
      file.write(f"{step} {row['step']}\\n")
  return write


games.register("three_hands", ThreeHands)
rebel_jax.register("network", "residual", lambda config, game, outputs: Residual(outputs))
rebel_jax.register("optimizer", "lion", optax.lion)
rebel_jax.register("writer", "mine", rows_to)
"""
OWN = {"game": "three_hands", "architecture": "residual", "optimizer": "lion"}


def test_a_module_s_parts_and_the_commands_that_the_run_prints(
  tmp_path, monkeypatch, capsys, own_registry
):
  (tmp_path / "my_parts.py").write_text(MODULE)
  monkeypatch.chdir(tmp_path)
  flags = as_flags(**OWN)
  assert cli.main(flags) == 2  # nobody has imported them
  capsys.readouterr()
  names = ["--module", "my_parts", "--writers", "csv", "mine"]
  assert cli.main([*flags, *names]) == 0
  out = capsys.readouterr().out
  folder = tmp_path / "runs" / "three_hands-1"
  assert out.startswith("three_hands: preparing")
  steps = [json.loads(x)["step"] for x in (folder / "metrics.jsonl").read_text().splitlines()]
  assert (folder / "mine.txt").read_text().splitlines() == [f"0 {step}" for step in steps]
  table = (folder / "metrics.csv").read_text().splitlines()
  assert len(table) == 1 + len(steps)
  assert "exploitability" in table[0].split(",")
  again, longer = (
    shlex.split(re.search(rf"{name} +(python.*)", out)[1])
    for name in ("measure it again", "train longer")
  )
  assert evaluate.main([*again[3:], "--playthroughs", "2", "--iterations", "4", "--json"]) == 0
  assert json.loads(capsys.readouterr().out)["exploitability"] > 0
  assert cli.main([*longer[2:-1], "72", "--writers", "mine"]) == 0
  assert (folder / "mine.txt").read_text().splitlines()[-1] == "8 9"
  # The control: where nothing was imported, a good checkpoint is not called damaged.
  capsys.readouterr()
  allowed.NETWORKS.pop("residual")
  assert evaluate.main([str(folder)]) == 2
  error = capsys.readouterr().err
  assert "architecture='residual' is unknown; known: mlp, showdowns" in error
  assert "--module" in error
  assert "damaged" not in error


def test_rows_and_evaluations_of_one_s_own(tmp_path):
  written, asked = [], []

  def measure(params, final):
    asked.append(final)
    return {"largest_weight": max(abs(x).max() for x in params["value"]["params"]["out"].values())}

  result = train(*tiny(tmp_path), writers=[written.append], evaluate=measure)
  assert asked == [False, False, True]
  assert [row["step"] for row in written] == [0, 2, 4, 6, 8]
  assert [row["step"] for row in written if "largest_weight" in row] == [0, 4, 8]
  assert written[-1] == result.row
  assert "exploitability" not in result.row


test_what_cannot_be_registered = refused(
  (lambda: rebel_jax.register("game", "mine", dict), "kind='game' is unknown; known: network"),
  (lambda: rebel_jax.register("optimizer", "adam", dict), "already registered"),
  (lambda: rebel_jax.register("optimizer", "mine", 3), "make=3"),
  (lambda: TINY.replace(architecture="mine").validate(), "architecture='mine' is unknown"),
)
