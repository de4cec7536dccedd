"""Deep CFR is tabular Linear CFR with tables for networks; its memories are fair; its runs."""

import dataclasses
import functools
import json
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import games
import rebel_jax
import solvers
from benchmarks.studies import large_dice
from rebel_jax import evaluate, open_spiel
from rebel_jax.agents.agent import make_agent
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import ConfigError, DeepCFR
from rebel_jax.evaluation.evaluator import AverageEvaluator
from rebel_jax.training import deep_cfr
from rebel_jax.training import replay as replays
from rebel_jax.training.deep_cfr import (
  DeepTrainer,
  Traversals,
  make_decisions,
  matched,
  probabilities,
)
from rebel_jax.training.setup import make_setup
from solvers.contrib.sampling.ranges import draw, traverse_ranges
from tests import tiny
from tests.harness import slow
from tests.sentences import error_of, refused
from tests.tiny import rows, trained

pytestmark = pytest.mark.usefixtures("strictly")

TINY = tiny.TINY.replace(
  preset="deep_cfr_kuhn",
  search=DeepCFR(alternating=True),
  lanes=8,
  hidden_layers=1,
  width=16,
  batch_size=32,
  learning_rate=1e-2,
  uses_per_example=40.0,
  buffer_size=512,
  examples=128,
  evaluate_every=64,
)


class Table(nn.Module):
  """A number for each move of each infostate, by decision."""

  shape: tuple[int, ...]
  infostates: "Infostates"

  @nn.compact
  def __call__(self, features, history, place):
    rows = self.param("table", nn.initializers.zeros, self.shape)[self.infostates.nodes(history)]
    # Without regret uniform, as the solver is.
    return jnp.maximum(rows, 0.0).swapaxes(1, 2)


@dataclasses.dataclass(frozen=True)
class Everything(Traversals):
  """Traversals that draw nothing: one is the expectation of all."""

  def traverse(self, *arguments):
    settings = {"number": 1, "slots": self.slots}
    return traverse_ranges(*arguments, choose=lambda _, odds: (odds > 0, odds**0), **settings)

  def samples(self, table, *arguments):
    found = super().samples(table, *arguments)
    return [x._replace(weight=jnp.where(table.even, jnp.sign(x.weight), x.weight)) for x in found]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weighed(deep_cfr.Decisions):
  """A game whose samples all weigh the same if it says so, which is no other program."""

  even: Any = False


class Infostates:
  """The numbers `node * H + infostate` of what a memory holds."""

  def __init__(self, table):
    lines = table.lines
    self.factors = np.random.default_rng(0).integers(2**31, size=lines.shape[1], dtype=np.int32)
    self.marks = (lines + 2) @ self.factors
    nodes = np.arange(len(lines), dtype=np.int32)[:, None]
    self.held = np.argsort(jax.jit(table.inputs)(nodes, lines)[2], axis=1)

  def nodes(self, history):
    return (((history + 2) @ self.factors)[:, None] == self.marks[None]).argmax(axis=1)

  def of(self, examples):
    node = self.nodes(examples.history)
    return node * self.held.shape[1] + jnp.asarray(self.held)[node, examples.place]


@dataclasses.dataclass(frozen=True)
class Tables(DeepTrainer):
  """Deep CFR whose networks are tables: the least squares of a memory, its weighted means."""

  infostates: Any = None

  def learn(self, target, learned, replay, key, turns):
    kept, (*shape, h) = replay.examples, learned[0]["params"]["table"].shape
    place = self.infostates.of(kept)
    sums = jnp.zeros((shape[0] * h, shape[1])).at[place].add(kept.weight[:, None] * kept.numbers)
    mass = jnp.zeros(len(sums)).at[place].add(kept.weight)
    means = (sums / jnp.where(mass > 0, mass, 1.0)[:, None]).reshape(shape[0], h, -1)
    return {"params": {"table": means.swapaxes(1, 2)}}, *learned[1:]


def tables(game, iterations, **settings):
  """Returns the tree and the average policies of some iterations, without and with even samples."""
  config = TINY.replace(game=game, buffer_size=2**13, **settings)
  setup = make_setup(config, 1)
  tree, legal = setup.table.tree, setup.table.legal
  shape = tree.num_nodes, legal(np.zeros((1, 1), int)).shape[1], tree.num_infostates
  infostates = Infostates(setup.table)
  fields, network = vars(setup.trainer), Table(shape, infostates)
  targets = tuple(dataclasses.replace(x, network=network) for x in setup.trainer.targets)
  more = {"targets": targets, "self_play": Everything(1, 1_000), "infostates": infostates}
  trainer, measure, found = Tables(**fields | more), AverageEvaluator(config, table=setup.table), []
  measure.rows = jax.jit(lambda table, nodes, _: matched(table[nodes[:, 0]], legal(nodes)))
  for even in (False, True):
    table = Weighed(**vars(setup.table), even=np.array(even))
    state = trainer.init(table, 0, setup.mesh)
    state, _ = trainer.run(table, state, iterations, setup.mesh)
    found.append(measure.policy(state.params["average"]["params"]["table"]))
  return tree, *found


SLOW = ("kuhn_poker", False), ("rock_paper_scissors", True), ("leduc_poker", True)


@pytest.mark.parametrize(("game", "alternating"), slow([("kuhn_poker", True), *SLOW], *SLOW))
def test_with_tables_it_is_linear_cfr(game, alternating):
  """By all deals and moves; controls: even samples, however likely the infostate, other turns."""
  with jax.enable_x64(True):
    tree, average, even = tables(game, 6, search=DeepCFR(alternating=alternating))
    linear = functools.partial(solvers.solve, tree, num_iterations=10)
    known = linear(algorithm=solvers.linear_cfr(alternating=alternating))
    other = linear(algorithm=solvers.linear_cfr(alternating=not alternating))
    np.testing.assert_allclose(average, known.average_policy, atol=1e-12)
    assert np.abs(average - other.average_policy).max() > 0.01
    assert np.abs(even - average).max() > 0.01 or game == "rock_paper_scissors"  # one infostate


@pytest.mark.parametrize("player", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_traversals_are_fair(player, monkeypatch):
  """Their mean is the expectation of all, also where a level has more states than slots."""
  table = make_setup(TINY.replace(game="leduc_poker"), 1).table
  infostates, shape = Infostates(table), (table.tree.num_nodes, table.tree.num_infostates)
  shares = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(3), shape).swapaxes(1, 2))

  def policy(states, history):
    weights = jnp.where(table.legal(states), shares[states[:, 0]], 0.0)
    return weights / jnp.maximum(weights.sum(axis=1, keepdims=True), 1e-9)

  @jax.jit
  def sums(everything, key):
    def some_or_all(key, odds, **number):
      both = (odds > 0, odds**0), draw(key, odds, **number)
      return jax.tree.map(functools.partial(jnp.where, everything), *both)

    monkeypatch.setattr(deep_cfr, "draw", some_or_all)
    play = Traversals(jnp.where(everything, 1, 2_000), 4_000)
    found = play.samples(table, policy, player, key)
    rows = [x.weight[:, None] * jnp.column_stack([x.numbers, x.weight**0]) for x in found]
    zeros = jnp.zeros((shape[0] * shape[1], 4))
    return [zeros.at[infostates.of(x)].add(w) / play.number for w, x in zip(rows, found)]

  some, exact = (sums(everything, jax.random.key(2)) for everything in (False, True))
  jax.tree.map(functools.partial(np.testing.assert_allclose, atol=0.03), some, exact)
  assert np.abs(exact[0]).max() > 0.1


def test_where_no_tree_fits_the_rules_are_walked(monkeypatch):
  """As the tree is: traversals, policies and measures are the same; agents say why they are not."""
  written, target = AverageEvaluator(TINY), make_setup(TINY, 1).trainer.targets[2]
  params = {"average": jax.jit(target.init)(jax.random.key(0))}

  def refuse(game, state):
    raise ValueError("too large")

  monkeypatch.setattr(checkpoint, "load", lambda name: Policy(TINY, params, {"checkpoint": name}))
  command = functools.partial(evaluate.measure, evaluate.Options("any", seed=3))
  with pytest.raises(ConfigError, match="seed=3 is not for 'any', where nothing is sampled"):
    command()
  monkeypatch.setattr(deep_cfr, "check_size", refuse)
  assert command()["half_width"] > 0
  walked = AverageEvaluator(TINY)
  assert (walked.tree, make_setup(TINY, 1).table.num_subgames) == (None, None)
  table = large_dice.tabulated(walked.strategy(params), written.tree)
  np.testing.assert_allclose(table, written.policy(params), atol=1e-6)
  found = walked.measure(params, 0, final=False).row
  gap = written.measure(params, 0).row["exploitability"]
  assert 0 < found["local_response"] < gap + 2 * found["half_width"]
  both = [make_decisions(games.make("kuhn_poker")), written._table]

  def samples(table):
    def policy(states, history):
      return probabilities(
        table.numbers(target.network, params["average"], states, history), table.legal(states)
      )

    found = jax.jit(lambda key: Traversals(8, 32).samples(table, policy, 0, key))(jax.random.key(1))
    return jax.tree.map(np.asarray, found)

  for one, other in zip(*map(samples, both)):
    there = one.weight > 0  # other slots hold anything
    assert np.abs(one.numbers[there]).max() > 0.1
    jax.tree.map(
      lambda x, y, z=there: np.testing.assert_allclose(x[z], y[z], atol=1e-5), one, other
    )
  with pytest.raises(ConfigError, match="too large for a tree"):
    make_agent(Policy(TINY, params, {}))


@pytest.mark.parametrize("add", ["add_evenly", "add"])
def test_a_memory_keeps_each_item_equally_often(add):
  """Of 30, in uneven lots, larger than the memory too; control: the newest alone do not pass."""
  lots, valid = np.split(np.arange(40), [3, 25]), np.arange(40) % 4 > 0

  @jax.jit
  @jax.vmap
  def kept(key):
    memory = replays.make_replay(jax.ShapeDtypeStruct((), jnp.int32), 6)
    for lot in lots:
      some = jnp.asarray(lot, jnp.int32), jnp.asarray(valid[lot])
      more = (jax.random.fold_in(key, lot[0]),) if add == "add_evenly" else ()
      memory = getattr(replays, add)(memory, *more, *some)
    return memory.examples

  if add == "add":
    lots = np.split(np.arange(40), range(5, 40, 5))
  found = np.asarray(kept(jax.random.split(jax.random.key(0), 4_000)))
  counts = np.bincount(found.reshape(-1), minlength=40)
  assert not counts[~valid].any()
  # Within one memory items exclude each other: the variance of a count is 4,000 * 0.2 * 0.8.
  squares = ((counts[valid] - 800) ** 2 / 640).sum() * 29 / 30
  assert (stats.chi2.sf(squares, 29) > 0.001) == (add == "add_evenly"), squares


def test_a_run_learns_and_is_measured(capsys):
  whole = trained("deep", TINY)
  trained_policy = rebel_jax.load(whole)
  last = rows(whole)[-1]
  assert (last["step"], last["examples"], last["gradient_steps"]) == (8, 128, 160)
  first = json.loads((whole / "metrics.jsonl").read_text().splitlines()[0])
  assert last["exploitability"] < first["exploitability"] / 2
  assert evaluate.main([str(whole), "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  assert found["exploitability"] == pytest.approx(last["exploitability"], abs=1e-6)
  pyspiel = pytest.importorskip("pyspiel")
  measure, game = AverageEvaluator(trained_policy.config), games.make("kuhn_poker")
  policy = measure.policy(trained_policy.params)
  theirs = open_spiel.to_tabular_policy(game, measure.tree, policy)
  told = pyspiel.exploitability(open_spiel.load_game(game), theirs)
  assert told == pytest.approx(found["exploitability"], abs=1e-6)
  agent = make_agent(trained_policy)
  agent.start(1, 2)
  agent.observe(1)
  moves = {move.action: chance for move, chance in agent.choices().items()}
  row = policy[[measure.tree.history(n)[:1] == (1,) for n in range(9)], 2][1:]
  assert list(moves.values()) == pytest.approx(row.tolist())
  wrong = error_of(capsys, evaluate.main, whole, "--playthroughs", 3)
  assert "which has the networks of Deep CFR" in wrong
  assert "seed=3 is not for" in error_of(capsys, evaluate.main, whole, "--seed", 3)


test_what_is_not_allowed = refused(
  (lambda: TINY.replace(iterations=8), "no setting of the networks of Deep CFR"),
  (lambda: TINY.replace(game="connect_four").validate(), "no tree that is made beforehand"),
)
