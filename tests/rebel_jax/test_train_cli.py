"""The command `python train.py`: its flags, its sentences, what it shows and leaves."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import games
import rebel_jax
import solvers
from rebel_jax import acpc, devices, evaluate, match, play, spot
from rebel_jax import train as cli
from rebel_jax.config import PRESETS, ConfigError, allowed, get_preset
from rebel_jax.runs import display
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from tests.tiny import TINY, as_flags, rows, tiny, trained

ROOT = Path(__file__).parents[2]

# Command lines and what the one sentence on standard error must say, by command.
BAD: dict = {}
BAD[cli] = [
  ("--preset liars_dice_1x4", "preset='liars_dice_1x4' is unknown (did you mean 'liars_dice_1x4f'"),
  ("--game-params num_dice 1 num_faces -4", "num_faces=-4 must be an integer, at least 1"),
  ("--game-params num_dice", "game_params='num_dice' must be pairs of a name and a number or text"),
  ("--game-params num_dice 1 num_dice 2", "a number or text, each name once"),
  ("--game-params num_dice 3 num_faces 6", "a public tree of 137438953471 nodes, or 1.88e+14"),
  ("--game-params num_dice 1000000000", "num_dice=1000000000 with num_faces=4 has 4**1000000000"),
  ("--game turn_endgame_holdem --game-params board 3s", "board='3s' holds 1 cards"),
  ("--uses-per-example 1e18", "uses_per_example=1e+18 must be a finite number above 0 and at most"),
  ("--uses-per-example 1e9", "uses_per_example=1000000000.0 makes"),
  ("--lanes 0", "lanes=0 must be an integer, at least 1"),
  ("--lanes 1e3", "lanes='1e3' must be an integer"),
  ("--lanes --seed 3", "Missing value for argument '--lanes'"),
  ("--lane 4", "flag '--lane' is unknown (did you mean --lanes?)"),
  ("--depth street", "depth='street' must be an integer, at least 1, or 'stage'"),
  ("--share-start False", "argument 'False' belongs to no flag"),
  ("--resume=yes", "argument 'yes' belongs to no flag"),
  ("--resume", "resume=True finds no run with a checkpoint in runs/"),
  ("--resume --preset kuhn_poker", "finds no run of preset 'kuhn_poker'"),
  ("--distributed", "distributed=True but the job's other processes are not found"),
  ("--preset leduc_poker --vary bets 0.1", "vary=bets is not allowed: leduc_poker is always the"),
  ("--requeue", "requeue=True needs output_dir"),
  ("--writers cvs", "writers='cvs' is unknown (did you mean 'csv'?)"),
  ("liars_dice_1x4f --module nowhere.py", "module='nowhere.py' is neither a module"),
]
BAD[evaluate] = [
  ("", "Missing from python -m rebel_jax.evaluate: CHECKPOINT Folder of a run"),
  ("nothing", "is neither a folder nor a network that comes with the package; those are: "),
  ("RUN --iterations 9", "iterations=9 must be even"),
  ("RUN --playthrough 3", "flag '--playthrough' is unknown (did you mean --playthroughs?)"),
  ("RUN --lbr-hands 10", "lbr_hands=10 is for hold'em too large"),
  ("RUN --ladder", "ladder=True is for hold'em too large"),
  ("RUN --against hunl_small", "against='hunl_small' is for hold'em too large"),
  ("hunl_small --against liars_dice_1x4f", "both must play the same game"),
  ("hunl_small --against pog_leduc", "has growing searches; allowed are networks that have ReBeL"),
  ("pog_leduc --ladder", "which has growing searches; allowed"),
  ("pog_leduc --depth 2", "which has growing searches; allowed"),
  ("liars_dice_1x4f --simulations 3", "which has ReBeL's searches; allowed"),
  ("pog_leduc --per-update 0.3", "per_update=0.3"),
]
BAD[match] = [
  ("uniform always_call", "are no networks"),
  ("RUN always_call", "plays hold'em"),
  ("RUN liars_dice_1x4f", "both must play the same game"),
  ("RUN uniform --hands 5", "hands=5 must be even"),
  ("pog_leduc uniform --iterations 64", "iterations=64 is not for 'pog_leduc'"),
]
BAD[play] = [
  ("pog_leduc --iterations 8", "iterations=8 is not for"),
  ("pog_leduc --simulations 6 --per-update 4", "simulations=6 must be"),
  ("kuhn_poker_no", "'kuhn_poker_no' is neither"),
  ("river_endgame_holdem --game-params pot -1", "pot=-1"),
  ("river_endgame_holdem --depth 2", "depth=2 is for networks"),
]
BAD[acpc] = [
  ("nobody 127.0.0.1 9", "opponents are: always_call"),
  ("uniform 127.0.0.1 9 --off-tree map", "off_tree is not for run='uniform'"),
  ("liars_dice_1x4f 127.0.0.1 9", "a table of hold'em needs hold'em"),
  ("uniform 127.0.0.1 9 --iterations 8", "iterations is not for run='uniform'"),
]
BAD[spot] = [
  ("--load nothing.npz", "load='nothing.npz' cannot be read"),
  ("--load nothing.npz --rake 5", "rake=5.0 is not for load="),
  ("--load nothing.npz --half-tables", "half_tables=True is not for load="),
]
LINES = [(command, *row) for command, rows in BAD.items() for row in rows]


@pytest.mark.parametrize(("command", "line", "sentence"), LINES, ids=[x[1] for x in LINES])
def test_bad_command_lines(command, line, sentence, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  code = command.main(line.replace("RUN", str(trained())).split())
  out, err = capsys.readouterr()
  assert code == 2
  assert out in ("", "liars_dice_1x4f: preparing games, searches and networks\n")
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  assert sentence in err
  assert list(tmp_path.iterdir()) == []


def test_flags_override_the_preset_and_the_settings_of_a_resumed_run():
  config = cli.parse(["--preset", "leduc_poker", "--lanes", "16", "--share-start"]).config
  expected = get_preset("leduc_poker").replace(lanes=16, share_start=True)
  assert config == expected
  assert cli.parse([]).config == get_preset("liars_dice_1x4f")
  config = cli.parse(["--lanes=8", "--game_params", "num_dice", "2", "num_faces", "3"]).config
  assert config.self_play.lanes == 8
  assert config.game_params == (("num_dice", 2), ("num_faces", 3))
  assert cli.parse(["--max-seconds", "None"]).config.schedule.max_seconds is None
  assert cli.parse(as_flags()).config == TINY
  config = cli.parse(["--game", "kuhn_poker"]).config  # another game inherits no parameters
  assert (config.game, config.game_params) == ("kuhn_poker", ())
  folder = str(trained())
  command = cli.parse(["--resume", "--output-dir", folder, "--max-seconds", "9"])
  assert command.config == TINY.replace(max_seconds=9.0)
  assert command.run == RunOptions(output_dir=folder, resume=True)


def test_every_field_is_explained(capsys, monkeypatch):
  monkeypatch.setenv("COLUMNS", "100")
  with pytest.raises(SystemExit) as caught:
    cli.main(["--preset", "kuhn_poker", "--help"])
  assert caught.value.code == 0
  text = capsys.readouterr().out
  for name in allowed.flat(cli.parse(["--preset", "kuhn_poker"])):
    flag = name.replace("_", "-")
    # The flag, some words about it, its default, and no other flag in between.
    rest = re.split(rf"^\W {{1,2}}--{flag}(?=[ ,])", text, flags=re.MULTILINE)[1]
    rest = rest.removeprefix(f", --no-{flag}")
    words = re.split(r"^\W {1,2}--", rest, flags=re.MULTILINE)[0]
    assert "(default:" in words, flag
    assert len(re.findall(r"\w+", words)) >= 6, flag
  assert not re.search(r"\b20000\b", text)  # a default of another preset
  assert "(default: kuhn_poker)" in re.sub(r"[\s│]+", " ", text)  # wherever lines break


@pytest.mark.parametrize("command", [cli, evaluate, play])
def test_help_names_what_is_registered(command, capsys, monkeypatch):
  monkeypatch.setenv("COLUMNS", "100")

  def named() -> set[str]:
    with pytest.raises(SystemExit):
      command.main(["--help"])
    return set(re.findall(r"\w+", capsys.readouterr().out))

  known = {*solvers.registered_algorithms(), *rebel_jax.pretrained()}
  if command is cli:
    known = {*solvers.registered_algorithms(), *games.registered_games(), *PRESETS}
  assert known <= named()
  assert "cfr_of_tomorrow" not in named()
  registry = solvers.algorithms.named._REGISTRY
  monkeypatch.setitem(registry, "cfr_of_tomorrow", solvers.linear_cfr)
  assert "cfr_of_tomorrow" in named()


def test_a_run_from_beginning_to_end(tmp_path, monkeypatch, capsys, figures):
  monkeypatch.chdir(tmp_path)
  assert cli.main(as_flags()) == 0
  out = capsys.readouterr().out
  folder = tmp_path / "runs" / "kuhn_poker-1"
  for said in ("in runs/kuhn_poker-1", "compiling self-play", "-m rebel_jax.evaluate runs/kuhn"):
    assert said in out
  assert rows(folder) == rows(trained())
  lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
  seconds = [line["seconds"] for line in lines]
  assert seconds == sorted(seconds)
  assert seconds[0] > 0
  last = lines[-1]["playthroughs"], lines[-1]["iterations"]
  assert last == (TINY.search.final_playthroughs, TINY.search.final_iterations)
  assert (folder / "exploitability.png").read_bytes().startswith(b"\x89PNG")
  monkeypatch.setattr("rebel_jax.runs.run.plot_exploitability", lambda *_, **__: None)

  assert cli.main(as_flags(max_seconds=1e-3)) == 0
  out = capsys.readouterr().out
  assert "in runs/kuhn_poker-2" in out
  short = rows(tmp_path / "runs" / "kuhn_poker-2")
  assert [row["step"] for row in short] == [1]  # no longer than the time asks for
  assert short[-1]["playthroughs"] == TINY.search.final_playthroughs

  assert cli.main(["--resume"]) == 0
  assert [row["step"] for row in rows(tmp_path / "runs" / "kuhn_poker-2")] == [1, 2, 4, 6, 8]


def test_a_job_that_is_named_wrongly(monkeypatch):
  monkeypatch.setenv("JAX_PROCESS_ID", "2")
  with pytest.raises(ConfigError, match="needs JAX_COORDINATOR_ADDRESS and JAX_NUM_PROCESSES"):
    devices.join()
  monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "localhost:1")
  monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
  with pytest.raises(ConfigError, match="JAX_PROCESS_ID='2': they must be"):
    devices.join()


def test_one_command_starts_and_resumes(tmp_path, capsys):
  folder = tmp_path / "run"
  again = [*as_flags(), "--requeue", "--output-dir", str(folder)]
  folder.mkdir()
  left = {"config": {}, "num_devices": 1, "environment": {}}  # killed before its first checkpoint
  (folder / "config.json").write_text(json.dumps(left | {"commands": [{"step": 0, **left}]}))
  assert cli.main([*again, "--max-seconds", "0.001"]) == 0
  short = rows(folder)[-1]["step"]
  assert cli.main(again) == 0
  assert "memory of each device:" in capsys.readouterr().out
  assert rows(folder)[-1]["step"] > short


def job(folder, variables, *flags):
  """Starts the two processes of a job, whose rank, number and place `variables` say."""
  command = [sys.executable, ROOT / "train.py", "--output-dir", folder, "--distributed", *flags]
  env = os.environ | {"JAX_PLATFORMS": "cpu"}  # each needs a device of its own
  return [
    subprocess.Popen(command, env=env | variables(rank), stdout=subprocess.PIPE, text=True)
    for rank in ("0", "1")
  ]


def ended(processes):
  """Returns what each process has printed, and its exit code."""
  return [process.communicate()[0] for process in processes], [x.returncode for x in processes]


def processes_of(folder):
  commands = json.loads((folder / "config.json").read_text())["commands"]
  return [command["environment"]["num_processes"] for command in commands]


@pytest.mark.slow
def test_a_job_of_two_processes_is_requeued(tmp_path):
  def slurm(rank):
    names = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost"}
    return names | {"SLURM_NTASKS": "2", "SLURM_PROCID": rank, "SLURM_LOCALID": rank}

  folder = tmp_path / "run"
  flags = as_flags(examples=20_000, buffer_size=2_048, evaluate_every=0, max_seconds=25)
  first = job(folder, slurm, "--requeue", *flags)
  while not (folder / "metrics.jsonl").exists() or not rows(folder):
    assert first[0].poll() is None
    time.sleep(0.2)
  for process in first:
    process.send_signal(signal.SIGTERM)
  assert ended(first)[1] == [143, 143]
  step = rows(folder)[-1]["step"]
  shown, codes = ended(job(folder, slurm, "--requeue", *flags))
  assert ("exploitability" in shown[0], codes) == (True, [0, 0])
  assert rows(folder)[-1]["step"] > step
  assert processes_of(folder) == [2]


@pytest.mark.slow
def test_from_one_process_to_two_and_back(tmp_path):
  folder = tmp_path / "run"
  train(*tiny(folder), stop=lambda step: step >= 4)
  with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"

  def named(rank):
    names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    return dict(zip(names, (address, "2", rank)))

  shown, codes = ended(job(folder, named, "--resume", "--examples", "96"))
  assert codes == [0, 0]
  assert ["examples" in text for text in shown] == [True, False]
  train(*tiny(folder, examples=128, resume=True))
  assert [row["step"] for row in rows(folder)] == [2, 4, 6, 8, 10, 12, 14, 16]
  assert processes_of(folder) == [1, 2, 1]


@pytest.mark.parametrize(
  ("command", "shown"), [("bin/rebel-train", "rebel-train"), ("train.py", "python train.py")]
)
def test_the_command_that_resumes_is_the_one_in_use(command, shown, monkeypatch, tmp_path):
  monkeypatch.setattr(sys, "argv", [command])
  assert display.resume_command(tmp_path) == f"{shown} --resume --output-dir {tmp_path}"
