"""Products of reach and values are not rounded on any device; GPUs and TPUs would by default."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.poker.dealing import draw_cards
from games.poker.lines import make_lines
from rebel_jax.training import loop as training
from rebel_jax.training.setup import make_setup
from solvers import contrib
from tests.products import is_rounded, products
from tests.tiny import TINY, TINY_GROWING, TINY_PERFECT

CFR = solvers.linear_cfr()
KEY = jax.random.key(0)
KUHN = games.make("kuhn_poker")
WHOLE, CUT = games.build_public_tree(KUHN), games.build_public_tree(KUHN, depth=1)
DICE = games.make("liars_dice", num_dice=1, num_faces=17)  # tables too large for sums
RIVER = games.make("river_endgame_holdem", ranks="QKA", suits="shd", board="QsKsAsAhAd")


def leaves(params, query):
  del params
  return 0.1 * query.beliefs[:, query.traverser]


def solve(tree, algorithm, **others):
  """Returns a solve as a function of the beliefs, and the beliefs."""
  if tree.depth_limited:
    others["leaf_values"] = leaves
  run = functools.partial(solvers.solve, tree, algorithm=algorithm, num_iterations=4, **others)
  return lambda beliefs: run(beliefs=beliefs), jnp.asarray(tree.prior)


def resolve(gadget):
  zeros = np.zeros(WHOLE.num_infostates, np.float32)
  promised = solvers.Alternatives(zeros, spread=zeros + 0.1)
  return solve(WHOLE, solvers.with_gadget(CFR, gadget), alternatives=promised)


def solve_affine():
  trees = contrib.affine_trees(
    lambda x: games.build_public_tree(games.make("matrix_game", payoffs=((x, 0), (0, 1)))), (1.0,)
  )
  return lambda theta: contrib.solve_affine(trees, theta, num_iterations=4), jnp.ones(1)


def solve_lines():
  lines, _ = make_lines(RIVER.only(RIVER.prior()))
  return lambda lines: solvers.solve(lines, algorithm=CFR, num_iterations=4), lines


def grow():
  nodes = solvers.node_info(KUHN, WHOLE)
  search = solvers.GTCFR(simulations=2)
  return lambda key: solvers.gt_cfr(WHOLE, nodes, search=search, key=key, leaf_values=leaves), KEY


def insert(game):
  search = solvers.GTCFR(simulations=2)
  return lambda key: solvers.gt_cfr(game, search=search, key=key), KEY


def draw():
  states = jnp.asarray(RIVER.initial_state()[None])
  reach = jnp.full((1, 2, RIVER.num_infostates), 1 / RIVER.num_infostates)
  return lambda key: draw_cards(RIVER, key[None], states, reach), KEY


PROGRAMS = {
  **{
    name: functools.partial(solve, CUT, solvers.make_algorithm(name))
    for name in solvers.registered_algorithms()
  },
  "sound_cfr_avg": lambda: solve(CUT, solvers.cfr_avg(CFR, sound=True)),
  "warm_started": lambda: solve(WHOLE, solvers.warm_started(CFR, num_iterations=2)),
  "resolve": lambda: resolve(solvers.Resolve(0)),
  "maxmargin": lambda: resolve(solvers.Maxmargin(1)),
  "continual_resolve": lambda: resolve(solvers.ContinualResolve(0)),
  "distributional": lambda: resolve(solvers.contrib.Distributional(0)),
  "distributional_by_matching": lambda: resolve(solvers.contrib.Distributional(1, softmax=False)),
  "large_tables": lambda: solve(games.build_public_tree(DICE, depth=2), CFR),
  "hole_cards": lambda: solve(games.build_public_tree(RIVER), CFR),
  "hidden_moves": lambda: solve(games.build_public_tree(games.make("rock_paper_scissors")), CFR),
  "affine": solve_affine,
  "lines": solve_lines,
  "growing": grow,
  "inserted": lambda: insert(games.make("go", size=2, komi=0.5)),
  "dealing": draw,
  "inserted_hidden": lambda: insert(games.RockPaperScissors()),
}
# The others' tables are small: each product is a sum.
WITH_PRODUCTS = {
  "large_tables", "hole_cards", "distributional", "affine", "lines", "inserted", "dealing"
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_program(name):
  found = products(*PROGRAMS[name]())
  assert bool(found) == (name in WITH_PRODUCTS)
  assert not [x for x in found if is_rounded(x)]


def test_control_a_product_that_asks_for_nothing():
  x = jnp.ones((2, 2))

  def program(precision):
    return lambda x: jax.lax.fori_loop(0, 3, lambda _, x: jnp.dot(x, x, precision=precision), x)

  assert [is_rounded(product) for product in products(program(None), x)] == [True]
  assert [is_rounded(product) for product in products(program("high"), x)] == [True]
  assert [is_rounded(product) for product in products(program("highest"), x)] == [False]


HOLDEM = {"board": "9sTsJsQs", "ranks": "89TJQ", "suits": "sh", "stack": 3_000}
SEARCHES = TINY.replace(level_values=True, optimizer="muon")
TRAINED = {
  "kuhn_poker": SEARCHES,
  "liars_dice": SEARCHES.replace(
    game="liars_dice", game_params=(("num_dice", 1), ("num_faces", 3)), depth=2
  ),
  "leduc_poker": SEARCHES.replace(game="leduc_poker", depth=2),
  "turn_endgame_holdem": SEARCHES.replace(
    game="turn_endgame_holdem", game_params=tuple(HOLDEM.items()), depth="stage"
  ),
  "growing": TINY_GROWING,
  "chains": TINY_GROWING,
  "perfect": TINY_PERFECT,
}


@pytest.mark.parametrize(
  "name", [pytest.param(x, marks=[pytest.mark.slow] * (x != "kuhn_poker")) for x in TRAINED]
)
def test_a_step_of_training(name, monkeypatch):
  if name == "chains":
    monkeypatch.setattr(games.KuhnPoker, "written", False)

  def trace(config):
    setup = make_setup(config, 1)
    init = functools.partial(training._init, setup.trainer, 1)
    state = jax.eval_shape(lambda seed: init(setup.table, seed), jnp.asarray(0))
    run = functools.partial(training._run_on_mesh, setup.trainer, setup.mesh)
    return products(run, jnp.asarray(1), setup.table, state)

  found = trace(TRAINED[name].replace(precision="float32"))
  assert len(found) > 4
  assert not [x for x in found if is_rounded(x)]
  assert any(is_rounded(x) for x in trace(TRAINED[name].replace(precision="default")))
