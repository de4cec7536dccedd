"""Modes of JAX that people switch on, over programs of every kind on the smallest games."""

import contextlib
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from rebel_jax.runs.run import train
from rebel_jax.training.setup import make_setup
from solvers.growing.states import only_wanted
from tests.golden import cases as golden
from tests.solvers.test_kinds import CALLS, functions
from tests.tiny import TINY, rows, stepped, tiny, trained

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


def halved():
  """Takes steps in half precision, with a smaller step size on the way."""
  config = TINY.replace(precision="bfloat16_activations", halve_every=4)
  *_, report = stepped(config, 3)
  assert all(np.asarray(x.loss).any() for x in report.learned.values())


# Cases of the goldens, and what these do not compute; every public function is called as well.
PROGRAMS = {name: case.figures for name, case in golden.CASES.items()}
hidden = {"search": solvers.GTCFR(simulations=2), "key": jax.random.key(0)}
PROGRAMS["inserted hidden"] = lambda: solvers.gt_cfr(games.RockPaperScissors(), **hidden)
PROGRAMS["halved"] = halved
PROGRAMS |= {
  f"call {call.__qualname__}": functools.partial(call, **CALLS[call])
  for call in functions
  if call not in (rebel_jax.load, rebel_jax.load_pretrained)
}

# What takes seconds to compile, or minutes where it is not compiled, is for the slow tier.
QUICK = {
  "checked": [
    "solve/kuhn/linear_cfr", "solve/kuhn/predictive_cfr_plus_avg", "solve/kuhn/fictitious_play",
    "metrics/rock_paper_scissors", "gadget/Maxmargin", "call lock", "warm_start/substitute",
    "solve_lines", "preset/kuhn_poker",
  ],
  "doubles": ["solve/kuhn/discounted_cfr", "spot", "preset/kuhn_poker"],
  "not compiled": ["solve/kuhn/linear_cfr", "warm_start/best"],
}  # fmt: skip
# Searches and training by networks of hundreds of units, one operation at a time.
TOO_LONG = ("preset", "evaluator", "agent", "command", "solve_to", "gt_cfr", "resolved_policies")


@pytest.fixture(autouse=True)
def forget_runs():
  """Drops runs of other modes."""
  golden.trained.cache_clear()
  yield
  golden.trained.cache_clear()


@contextlib.contextmanager
def modes(switches):
  with contextlib.ExitStack() as stack:
    for switch in switches:
      stack.enter_context(switch())
    yield


def cases():
  for mode in MODES:
    for name in PROGRAMS:
      if mode == "not compiled" and name.startswith(TOO_LONG):
        continue
      marks = () if name in QUICK[mode] else pytest.mark.slow
      yield pytest.param(mode, name, marks=marks, id=f"{mode}-{name}".replace(" ", "_"))


@pytest.mark.parametrize(("mode", "name"), list(cases()))
def test_programs_run_in_modes(mode, name):
  with modes(MODES[mode]):
    PROGRAMS[name]()


@pytest.mark.parametrize("name", ["leduc", "rock_paper_scissors"])
def test_searches_are_traced_in_doubles(name):
  """In a tree and by rules: types and ranks show before anything is compiled."""
  with modes(MODES["doubles"]):
    game, tree = golden.game_of(name), golden.tree_of(name)
    for rules in ((tree, solvers.node_info(game, tree)), (game,)):
      search = functools.partial(solvers.gt_cfr, *rules, search=hidden["search"])
      jax.eval_shape(search, key=hidden["key"])
    with pytest.raises(ValueError, match=r"^current=\d+ must be a node where the game goes on"):
      solvers.gt_cfr(tree, solvers.node_info(game, tree), current=tree.num_nodes - 1, **hidden)


def test_rows_of_numpy_are_packed_without_compilation():
  rows, wanted = np.arange(8.0), jnp.arange(8) % 2 == 0
  with modes(MODES["not compiled"]):
    found = only_wanted(lambda x: 2 * x, rows, wanted, (2, 4), len(rows))
  np.testing.assert_array_equal(found, np.where(wanted, 2 * rows, 0.0))


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
  masked = jax.jit(lambda x: jnp.where(x > 0, x / x, 0.0))
  with no_nans():
    masked(jnp.zeros(3))
    with not_compiled(), pytest.raises(FloatingPointError):
      masked(jnp.zeros(3))


def test_control_doubles_are_what_programs_compute_with():
  for switches, dtype in (((), np.float32), ((doubles,), np.float64)):
    with modes(switches):
      assert golden.CASES["solve/kuhn/linear_cfr"].figures()["average_policy"].dtype == dtype


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
  checkpoint.export(policy._replace(params=wide), tmp_path, {"exploitability": 0.25})
  with doubles():
    found = checkpoint.load_pretrained("wide", tmp_path)
  jax.tree.map(np.testing.assert_array_equal, found.params, wide)
  assert (found.config, found.about["exploitability"]) == (policy.config, 0.25)
  assert {x.dtype for x in jax.tree.leaves(found.params)} == {np.dtype(np.float64)}
  with pytest.raises(ConfigError, match=r"in float64, .*; JAX_ENABLE_X64=1 reads it as it is$"):
    checkpoint.load_pretrained("wide", tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_a_run_goes_on_in_its_precision(dtype, tmp_path):
  """Bit for bit, whatever the session's is."""
  run, own, found = trained(), [doubles] * (dtype == np.float64), []
  if own:
    run = tmp_path / "run"
    with doubles():
      train(*tiny(run))
    with pytest.raises(ConfigError, match=r"in float64, .*; JAX_ENABLE_X64=1 reads it as it is$"):
      rebel_jax.load(run)
  for session in ((), [doubles]):
    folder = tmp_path / str(len(found))
    shutil.copytree(run, folder)
    with modes(session):
      train(*tiny(folder, examples=96, resume=True))
    with modes(own):
      found.append((rows(folder), rebel_jax.load(folder).params))
  first, second = found
  assert first[0] == second[0]
  assert len(first[0]) > len(rows(run))
  jax.tree.map(np.testing.assert_array_equal, first[1], second[1])
  assert {x.dtype for x in jax.tree.leaves(second[1])} == {np.dtype(dtype)}


def test_a_state_of_another_precision_is_refused():
  setup = make_setup(TINY)
  newest = checkpoint.checkpoints_of(trained())[-1]
  with doubles():
    like = jax.eval_shape(functools.partial(setup.trainer.init, setup.table, mesh=setup.mesh), 0)
    with pytest.raises(ConfigError, match=r"in float32, .*; JAX_ENABLE_X64=0 reads it as it is$"):
      checkpoint.restore(newest, like, setup.mesh)
