"""Modes of JAX that people switch on, over programs of every kind on the smallest games.

Types, ranks and NaN are looked at together: each stops the program that is not right.
"""

import contextlib
import functools
import io
import shutil
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from games import registry
from games.poker.lines import make_lines
from rebel_jax import PRESETS, evaluate, match, spot
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.evaluation.evaluators import make_evaluator
from rebel_jax.runs.run import train
from rebel_jax.training.setup import make_setup
from solvers import contrib
from tests.hidden_moves import HiddenRockPaperScissors
from tests.random_game import RandomGame
from tests.tiny import TINY, TINY_GROWING, rows, tiny, trained

strict = functools.partial(jax.numpy_dtype_promotion, "strict")
same_ranks = functools.partial(jax.numpy_rank_promotion, "raise")
no_nans = functools.partial(jax.debug_nans, True)
doubles = functools.partial(jax.enable_x64, True)
not_compiled = functools.partial(jax.disable_jit, True)
# Without compilation NaN is looked for after every operation, not only in a program's results.
MODES = {
  "checked": (strict, same_ranks, no_nans),
  "doubles": (doubles, strict, same_ranks),
  "not compiled": (not_compiled, no_nans),
}

CFR = solvers.linear_cfr()


def solve(name="kuhn_poker", algorithm=CFR, **options):
  """Solves a whole game, or one cut off where exact values are asked for, and measures it."""
  parameters = options.pop("parameters", {})
  game = name() if callable(name) else games.make(name, **parameters)
  depth = options.pop("depth", None)
  tree = games.build_public_tree(game, root=options.pop("root", ()), depth=depth)
  if depth is not None:
    options["leaf_values"] = solvers.exact_leaf_values(game, tree, algorithm=CFR, num_iterations=4)
  solution = solvers.solve(tree, algorithm=algorithm, num_iterations=4, **options)
  if depth is None:
    policy = solution.average_policy
    measured = (
      solvers.exploitability(tree, policy),
      solvers.best_response(tree, policy, player=0).policy,
      solvers.expected_values(tree, policy),
    )
    assert all(np.isfinite(x).all() for x in measured)
  return game, tree, solution


def blueprint():
  return solve()


def gadget(kind):
  game, tree, solution = blueprint()
  known = solvers.blueprint_values(game, tree, solution.average_policy, searcher=0)
  below = games.build_public_tree(game, root=tree.history(1))
  algorithm = solvers.with_gadget(solvers.cfr_plus(), kind(searcher=0))
  promised = known._replace(spread=np.full_like(known.value, 0.1)).alternatives(1)
  beliefs = known.beliefs[1]
  solvers.solve(
    below, algorithm=algorithm, num_iterations=4, beliefs=beliefs, alternatives=promised
  )


def warm(start, avg=False):
  _, tree, solution = blueprint()
  algorithm = solvers.cfr_avg(CFR) if avg else CFR
  algorithm = start(algorithm, num_iterations=3)
  solvers.solve(tree, algorithm=algorithm, num_iterations=4, initial_policy=solution.average_policy)


def locked():
  _, tree, solution = blueprint()
  bounds = solvers.lock(tree, (), {0: (0.2, 0.5)}, infostates=[0, 1])
  found = solvers.solve(tree, algorithm=CFR, num_iterations=4, locked=bounds)
  solvers.best_response(tree, found.average_policy, player=0, locked=bounds)
  held = np.zeros(tree.num_nodes, bool)
  held[1:3] = True
  solvers.solve(
    tree, algorithm=solvers.fictitious_play(), num_iterations=4, locked=held,
    initial_policy=solution.average_policy,
  )  # fmt: skip


def batch():
  trees = games.stack_trees([games.build_public_tree(games.make("kuhn_poker"))] * 3)
  solvers.solve_batch(trees, algorithm=CFR, num_iterations=4)


RIVER = dict(ranks="QKA", suits="shd", board="QsKsAsAhAd", bets="teh", pot=20, stack=100,
             big_blind=2)  # fmt: skip


def river():
  return games.make("river_endgame_holdem", **RIVER)


def river_lines():
  lines, _ = make_lines(river().only(river().prior()))
  solvers.solve_batch([lines], algorithm=CFR, num_iterations=4)
  solvers.solve(lines, algorithm=solvers.discounted_cfr(), target=0.1, num_iterations=64)


def river_tree():
  tree = games.build_public_tree(river())
  found = solvers.solve(tree, algorithm=CFR, target=0.1, num_iterations=64)
  policy = found.average_policy
  solvers.local_best_response_value(river(), tree, policy, max_runouts=10)
  strategy = solvers.TreeStrategy(tree, np.asarray(policy))
  solvers.local_best_response(river(), strategy, num_hands=4, max_runouts=10)


SPOT = ["--board", "TdJdQhKc2s", "--oop", "QQ,32", "--ip", "JJ,KQ:0.5"]
SPOT += ["--pot", "200", "--stack", "300", "--bets", "50%,a", "--max-iterations", "64"]
TURN_SPOT = ["--board", "TdJdQhKc", *SPOT[2:]]


def spots(flags):
  with contextlib.redirect_stdout(io.StringIO()):
    assert spot.main(flags) == 0


def state_values(actions, params, query):
  """Answers for states as a network that knows nothing would."""
  rows, infostates = query.beliefs.shape[0], query.beliefs.shape[-1]
  dtype = query.beliefs.dtype
  return solvers.StateAnswer(
    jnp.zeros((rows, 2, infostates), dtype), jnp.zeros((rows, actions, infostates), dtype)
  )


def marked(game="kuhn_poker"):
  game = game() if callable(game) else games.make(game)
  tree = games.build_public_tree(game)
  search = solvers.GTCFR(simulations=2)
  network = functools.partial(state_values, game.num_player_actions)
  for function in (None, network):
    solvers.gt_cfr(
      tree, solvers.node_info(game, tree), search=search, key=jax.random.key(0),
      network=function,
    )  # fmt: skip
  solvers.resolved_policies(game, tree, search=search, seeds=(0,))


def inserted(game):
  game = game()
  search = solvers.GTCFR(simulations=2, children=1 if game.num_infostates == 1 else None)
  solvers.gt_cfr(game, search=search, key=jax.random.key(0))


def tables_of(name):
  return lambda: games.tabulate(games.make(name))


def family():
  def build(bet):
    return games.build_public_tree(games.make("matrix_game", payoffs=((bet, -1.0), (-1.0, 1.0))))

  trees = contrib.affine_trees(build, (2.0,))
  start = contrib.solve_affine(trees, (2.0,), num_iterations=4)
  contrib.solve_affine(trees, (3.0,), num_iterations=4, start=start)
  contrib.optimise(trees, player=0, bounds=[(1.0, 3.0)], num_iterations=8, num_steps=2)


def hand_values():
  game, tree, solution = blueprint()
  recorder = solvers.HandRecorder(game, solvers.zero_values(tree))
  policy = np.asarray(solution.average_policy)
  rows = {tree.history(node): policy[node] for node in range(tree.num_nodes)}
  solvers.aivat(recorder.record(tree.history(tree.num_nodes - 1), (None, 0), rows))
  solvers.node_values(tree, policy)
  solvers.infostate_values(tree, value=lambda beliefs: beliefs.sum(), beliefs=tree.prior, player=0)


def continued():
  game, tree, solution = blueprint()
  top, policy = games.build_public_tree(game, depth=1), np.asarray(solution.average_policy)
  contrib.grown_continuations(
    tree, top, policy, chooser=0, count=2, algorithm=CFR, num_iterations=4
  )
  contrib.search_rounds(game, tree, [policy], [policy], algorithm=CFR, num_iterations=4)
  contrib.pair_values(tree, policy)
  contrib.biased_policy(tree, policy, {0: 2.0})


def refined():
  game, tree, solution = blueprint()
  policy = np.asarray(solution.average_policy)
  solvers.refine(game, tree, policy, searcher=0, cut=1, gifts=0.5, algorithm=CFR, num_iterations=4)
  contrib.warm_start_length(tree, policy, algorithm=CFR, probe=2)


TURN = dict(ranks="QKA", suits="shd", board="QsKhAdQh", pot=200, stack=300, big_blind=100)
STAGES = TINY.replace(
  preset="tiny_poker",
  game="turn_endgame_holdem",
  game_params=tuple(TURN.items()),
  depth="stage",
  share_start=True,
  level_values=True,
  width=16,
  buffer_size=512,
)
STREETS = STAGES.replace(
  game="small_holdem",
  game_params=(("ranks", "QKA"), ("blinds", (50, 100)), ("first_to_act", (0, 1)), ("stack", 300)),
  level_values=False,
)
FEW = dict(simulations=2, lanes=2, batch_size=4, examples=64, eval_iterations=4)
GROWING = TINY_GROWING.replace(**FEW, buffer_size=64)
PERFECT = PRESETS["pog_tic_tac_toe"].replace(
  **FEW, width=16, uses_per_example=1.0, buffer_size=512, final_playthroughs=2, max_seconds=None
)


def step(config, measures=True):
  """Takes training steps of a configuration, and measures its agent."""
  setup = make_setup(config)
  state = setup.trainer.init(setup.table, 0, setup.mesh)
  steps = 12 if config.grows else 3  # until something is learned
  state, report = setup.trainer.run(setup.table, state, steps, setup.mesh)
  assert all(np.asarray(x.loss).any() for x in report.learned.values())
  if measures:
    make_evaluator(config, setup).measure(state.params, config.seed)


def shipped(name, *flags):
  with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    assert evaluate.main([name, *flags, "--json"]) == 0


def matched(name, *flags):
  with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    assert match.main([name, "uniform", "--hands", "4", "--iterations", "4", *flags]) == 0


def device_step(name, config):
  """Takes steps in a game whose rules are a table on the device."""
  with mock.patch.dict(registry._ON_DEVICE, {name: tables_of(name)}):
    step(config)


def calls():
  from tests.solvers.test_kinds import CALLS

  for call, right in CALLS.items():
    if call not in (rebel_jax.load, rebel_jax.load_pretrained):
      call(**right)


PROGRAMS = {
  **{
    name: functools.partial(solve, algorithm=solvers.make_algorithm(name))
    for name in solvers.registered_algorithms()
  },
  "at once": functools.partial(solve, algorithm=solvers.linear_cfr(alternating=False)),
  "negative": functools.partial(
    solve, algorithm=solvers.discounted_cfr(beta=float("-inf"), alpha=float("inf"))
  ),
  "sound": functools.partial(solve, algorithm=solvers.cfr_avg(CFR, sound=True), depth=1),
  "cut": functools.partial(solve, depth=1),
  "cut cfr_avg": functools.partial(solve, algorithm=solvers.cfr_avg(CFR), depth=1),
  "cut fp": functools.partial(solve, algorithm=solvers.fictitious_play(), depth=1),
  "cut leduc": functools.partial(solve, "leduc_poker", root=(1, 2, 1), depth=1),
  "hidden": functools.partial(solve, "rock_paper_scissors"),
  "hidden avg": functools.partial(solve, "rock_paper_scissors", solvers.cfr_avg(CFR)),
  "random": functools.partial(solve, functools.partial(RandomGame, seed=2)),
  "leduc": functools.partial(solve, "leduc_poker", root=(1, 2, 1, 5)),
  "leduc card": functools.partial(solve, "leduc_poker", root=(1, 2, 1)),
  "dice": functools.partial(solve, "liars_dice", parameters=dict(num_dice=1, num_faces=2)),
  **{
    kind.__name__: functools.partial(gadget, kind)
    for kind in (
      solvers.Resolve,
      solvers.Maxmargin,
      solvers.Distributional,
      solvers.ContinualResolve,
    )
  },
  "warm best": functools.partial(warm, solvers.warm_started),
  "warm substitute": functools.partial(warm, contrib.substitute_started),
  "warm avg": functools.partial(warm, solvers.warm_started, True),
  "locked": locked,
  "batch": batch,
  "river lines": river_lines,
  "river tree": river_tree,
  "spot": functools.partial(spots, SPOT),
  "turn spot": functools.partial(spots, TURN_SPOT),
  "marked": marked,
  "marked hidden": functools.partial(marked, "rock_paper_scissors"),
  "inserted perfect": functools.partial(inserted, games.TicTacToe),
  "inserted go": functools.partial(inserted, functools.partial(games.Go, size=3, max_moves=4)),
  "inserted hidden": functools.partial(inserted, HiddenRockPaperScissors),
  "inserted kuhn": functools.partial(inserted, tables_of("kuhn_poker")),
  "inserted leduc": functools.partial(inserted, tables_of("leduc_poker")),
  "family": family,
  "hand values": hand_values,
  "continued": continued,
  "refined": refined,
  "calls": calls,
  "step": functools.partial(step, TINY),
  "step paper": functools.partial(step, TINY.replace(level_values=True, algorithm="cfr_plus_avg")),
  "step half": functools.partial(
    step, TINY.replace(precision="bfloat16_activations", halve_every=4)
  ),
  "step policy": functools.partial(step, TINY.replace(policy_network=True)),
  "step stages": functools.partial(step, STAGES),
  "step streets": functools.partial(step, STREETS, False),
  "step marked": functools.partial(step, GROWING),
  "step chain": functools.partial(device_step, "kuhn_poker", GROWING),
  "step perfect": functools.partial(step, PERFECT),
  "evaluate 1x4f": functools.partial(
    shipped, "liars_dice_1x4f", "--playthroughs", "1", "--iterations", "4"
  ),
  "match 1x4f": functools.partial(matched, "liars_dice_1x4f"),
  "evaluate pog_leduc": functools.partial(
    shipped, "pog_leduc", "--simulations", "4", "--seeds", "1"
  ),
  "match pog_leduc": functools.partial(matched, "pog_leduc"),
  "evaluate pog_tic_tac_toe": functools.partial(
    shipped, "pog_tic_tac_toe", "--simulations", "2", "--seeds", "1"
  ),
  "evaluate turn": functools.partial(
    shipped, "small_turn_endgame_holdem", "--playthroughs", "1", "--iterations", "4"
  ),
  "match hunl": functools.partial(matched, "hunl_small"),
  "evaluate hunl": functools.partial(
    shipped, "hunl_small", "--playthroughs", "2", "--iterations", "4"
  ),
}


# What takes seconds to compile, or minutes where it is not compiled, is for the slow tier.
QUICK = {
  "checked": [
    "linear_cfr", "predictive_cfr_plus_avg", "fictitious_play", "hidden", "Maxmargin", "locked",
    "warm substitute", "river lines", "inserted perfect", "step",
  ],
  "doubles": ["discounted_cfr", "spot", "step"],
  "not compiled": ["linear_cfr", "warm best"],
}  # fmt: skip
# Searches and training by networks of hundreds of units, one operation at a time.
TOO_LONG = ("evaluate", "match", "step", "calls", "random", "turn spot")


@pytest.fixture(autouse=True)
def forget_programs_of_slow_tests(request):
  """Drops compiled programs, of which one process cannot hold those of all."""
  yield
  if request.node.get_closest_marker("slow"):
    jax.clear_caches()


@contextlib.contextmanager
def modes(switches):
  with contextlib.ExitStack() as stack:
    for switch in switches:
      stack.enter_context(switch())
    yield


def cases():
  for mode in MODES:
    for name in PROGRAMS:
      if mode == "not compiled" and name.startswith(TOO_LONG) and name != "step":
        continue
      marks = () if name in QUICK[mode] else pytest.mark.slow
      yield pytest.param(mode, name, marks=marks, id=f"{mode}-{name}".replace(" ", "_"))


@pytest.mark.parametrize(("mode", "name"), list(cases()))
def test_programs_run_in_modes(mode, name):
  with modes(MODES[mode]):
    PROGRAMS[name]()


def hidden_nan(x):
  """Divides by zero, and takes what comes of it nowhere."""
  return jnp.where(x > 0, x / x, 0.0)


@pytest.mark.parametrize(
  ("switch", "function", "error"),
  [
    (strict, lambda x: x * jnp.arange(3), ValueError),
    (same_ranks, lambda x: x * jnp.ones((2, 3)), ValueError),
    (no_nans, lambda x: x / x, FloatingPointError),
  ],
)
def test_control_each_mode_stops_what_is_wrong(switch, function, error):
  function(jnp.zeros(3))
  with switch(), pytest.raises(error):
    jax.jit(function)(jnp.zeros(3))


def test_control_nan_that_is_masked_shows_where_nothing_is_compiled():
  with no_nans():
    jax.jit(hidden_nan)(jnp.zeros(3))
    with not_compiled(), pytest.raises(FloatingPointError):
      jax.jit(hidden_nan)(jnp.zeros(3))


def test_control_doubles_are_what_programs_compute_with():
  for switches, dtype in (((), np.float32), ((doubles,), np.float64)):
    with modes(switches):
      assert blueprint()[2].average_policy.dtype == dtype


# Checkpoints.


@pytest.mark.parametrize("name", rebel_jax.pretrained())
def test_networks_keep_their_types(name):
  here = rebel_jax.load(name).params
  with doubles():
    there = rebel_jax.load(name).params
  jax.tree.map(np.testing.assert_array_equal, here, there)
  assert {x.dtype for x in jax.tree.leaves(there)} == {np.dtype(np.float32)}


def test_networks_in_doubles_are_for_sessions_that_have_them(tmp_path):
  policy = rebel_jax.load(trained())
  wide = jax.tree.map(lambda x: np.asarray(x, np.float64), policy.params)
  checkpoint.export(policy._replace(params=wide), tmp_path)
  with doubles():
    found = checkpoint.load_pretrained("wide", tmp_path).params
  assert {x.dtype for x in jax.tree.leaves(found)} == {np.dtype(np.float64)}
  with pytest.raises(ConfigError, match=r"in float64, .*; JAX_ENABLE_X64=1 reads it as it is$"):
    checkpoint.load_pretrained("wide", tmp_path)


def resumed(run, folder, switches):
  """Returns metrics and parameters of a copy of a run after some more steps."""
  shutil.copytree(run, folder)
  with modes(switches):
    train(*tiny(folder, examples=96, resume=True))
  newest = checkpoint.checkpoints_of(folder)[-1]
  with modes([doubles] if checkpoint.is_double(newest) else []):
    return rows(folder), rebel_jax.load(folder).params


def check_goes_on(run, tmp_path, dtype):
  """Checks that a run goes on in its own precision, bit for bit, whatever the session's is."""
  first, second = (
    resumed(run, tmp_path / str(number), switches)
    for number, switches in enumerate([(), [doubles]])
  )
  assert first[0] == second[0]
  assert len(first[0]) > len(rows(run))
  jax.tree.map(np.testing.assert_array_equal, first[1], second[1])
  assert {x.dtype for x in jax.tree.leaves(second[1])} == {np.dtype(dtype)}


def test_a_run_goes_on_in_its_precision(tmp_path):
  check_goes_on(trained(), tmp_path, np.float32)


@pytest.mark.slow
def test_a_run_in_doubles_goes_on_in_its_precision(tmp_path):
  with doubles():
    train(*tiny(tmp_path / "run"))
  check_goes_on(tmp_path / "run", tmp_path, np.float64)
  with pytest.raises(ConfigError, match=r"in float64, .*; JAX_ENABLE_X64=1 reads it as it is$"):
    rebel_jax.load(tmp_path / "run")


def test_a_state_of_another_precision_is_refused():
  setup = make_setup(TINY)
  newest = checkpoint.checkpoints_of(trained())[-1]
  with doubles():
    like = jax.eval_shape(lambda: setup.trainer.init(setup.table, 0, setup.mesh))
    with pytest.raises(ConfigError, match=r"in float32, .*; JAX_ENABLE_X64=0 reads it as it is$"):
      checkpoint.restore(newest, like, setup.mesh)
