"""Deep CFR is tabular Linear CFR with tables for networks; its memories are fair; its runs."""

import dataclasses
import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import games
import rebel_jax
import solvers
from rebel_jax import evaluate, open_spiel
from rebel_jax.agents.agent import make_agent
from rebel_jax.config.config import Config, DeepCFR
from rebel_jax.evaluation.evaluator import AverageEvaluator
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training import replay as replays
from rebel_jax.training.deep_cfr import DeepTrainer, Traversals, matched
from rebel_jax.training.setup import make_setup
from tests.sentences import error_of, refused
from tests.tiny import rows, trained

TINY = Config().replace(
  preset="deep_cfr_kuhn",
  game="kuhn_poker",
  game_params=(),
  search=DeepCFR(alternating=True),
  lanes=8,
  hidden_layers=1,
  width=16,
  batch_size=32,
  learning_rate=1e-2,
  uses_per_example=40.0,
  buffer_size=512,
  examples=128,
  report_every=2,
  evaluate_every=64,
)


class Table(nn.Module):
  """A number for each move of each infostate, by decision."""

  shape: tuple[int, ...]

  @nn.compact
  def __call__(self, features, history, place):
    return jnp.zeros((len(place), self.param("table", nn.initializers.zeros, self.shape).shape[1]))


@dataclasses.dataclass(frozen=True)
class Everything(Traversals):
  """Traversals that draw nothing: one is the expectation of all."""

  even: bool = False

  def draw(self, key, policy):
    return policy

  def samples(self, *arguments):
    found = super().samples(*arguments)
    return [x._replace(weight=jnp.sign(x.weight)) if self.even else x for x in found]


@dataclasses.dataclass(frozen=True)
class Tables(DeepTrainer):
  """Deep CFR whose networks are tables: the least squares of a memory, its weighted means."""

  def answers(self, target, params, table, which):  # without regret uniform, as the solver is
    return jnp.maximum(params["params"]["table"][which], 0.0)

  def learn(self, target, table, learned, replay, key):
    kept = replay.examples
    shape = table.place.size, kept.numbers.shape[1]
    sums = jnp.zeros(shape).at[kept.infostate].add(kept.weight[:, None] * kept.numbers)
    mass = jnp.zeros(shape[0]).at[kept.infostate].add(kept.weight)
    means = (sums / jnp.where(mass > 0, mass, 1.0)[:, None]).reshape(*table.place.shape, -1)
    return {"params": {"table": means.swapaxes(1, 2)}}, *learned[1:]


def tables(game, iterations, play=Everything(1), **settings):
  """Returns the tree and the average policy of some iterations."""
  config = TINY.replace(game=game, buffer_size=2**13, **settings)
  setup = make_setup(config, 1)
  fields, network = vars(setup.trainer), Table(setup.table.edge.shape)
  targets = tuple(dataclasses.replace(x, network=network) for x in setup.trainer.targets)
  trainer = Tables(**fields | {"targets": targets, "self_play": play})
  state = trainer.init(setup.table, 0, setup.mesh)
  state, _ = trainer.run(setup.table, state, iterations, setup.mesh)
  average = matched(state.params["average"]["params"]["table"], setup.table.legal)
  return setup.table.tree, setup.table.policy(average)


@pytest.mark.parametrize("game", ["rock_paper_scissors", "leduc_poker"])
def test_with_tables_it_is_linear_cfr(game):
  """By all deals and moves, at every infostate: the average policy, and so every one before."""
  with jax.enable_x64(True):
    tree, average = tables(game, 6)
    told = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=10)
    np.testing.assert_allclose(average, told.average_policy, atol=1e-12)


def test_other_weights_are_no_linear_cfr():
  """Control: samples that weigh the same however likely the infostate is; players at once."""
  with jax.enable_x64(True):
    tree, average = tables("kuhn_poker", 6, Everything(1, even=True))
    known = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=10).average_policy
    assert np.abs(average - known).max() > 0.01
    tree, average = tables("kuhn_poker", 6, search=DeepCFR(alternating=False))
    assert np.abs(average - known).max() > 0.01
    at_once = solvers.linear_cfr(alternating=False)
    known = solvers.solve(tree, algorithm=at_once, num_iterations=10).average_policy
    np.testing.assert_allclose(average, known, atol=1e-12)


def test_traversals_are_fair():
  setup = make_setup(TINY.replace(lanes=10_000, buffer_size=2**15), 1)
  table, play = setup.table, setup.trainer.self_play
  policy = jax.random.dirichlet(jax.random.key(1), jnp.ones(2), (4, 3)).swapaxes(1, 2)

  def sums(play, player):
    found = jax.jit(play.samples, static_argnums=2)(table, policy, player, jax.random.key(2))
    weighed = (
      x.weight[:, None] * jnp.column_stack([x.numbers, jnp.ones(len(x.weight))]) for x in found
    )
    return [jnp.zeros((12, 3)).at[x.infostate].add(w) / play.number for x, w in zip(found, weighed)]

  for player in (0, 1):
    drawn, exact = sums(play, player), sums(Everything(1), player)
    for some, all_ in zip(drawn, exact):
      np.testing.assert_allclose(some, all_, atol=0.03)
    assert np.abs(exact[0]).max() > 0.3


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


def test_a_run_learns_goes_on_bit_by_bit_and_is_measured(tmp_path, capsys):
  whole = trained("deep", TINY)
  options = RunOptions(output_dir=str(tmp_path))
  train(TINY, options, stop=lambda step: True)
  assert rows(tmp_path)[-1]["step"] == 2
  stopped = rebel_jax.load(tmp_path).params
  train(TINY, dataclasses.replace(options, resume=True))
  policies = [rebel_jax.load(folder) for folder in (whole, tmp_path)]
  jax.tree.map(np.testing.assert_array_equal, *(x.params for x in policies))
  with pytest.raises(AssertionError):  # control: there was more to learn
    jax.tree.map(np.testing.assert_array_equal, stopped, policies[0].params)
  last = rows(whole)[-1]
  assert (last["step"], last["examples"], last["gradient_steps"]) == (8, 128, 160)
  first = json.loads((whole / "metrics.jsonl").read_text().splitlines()[0])
  assert last["exploitability"] < first["exploitability"] / 2
  assert evaluate.main([str(whole), "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  assert found["exploitability"] == pytest.approx(last["exploitability"], abs=1e-6)
  pyspiel = pytest.importorskip("pyspiel")
  measure, game = AverageEvaluator(policies[0].config), games.make("kuhn_poker")
  policy = measure.policy(policies[0].params)
  theirs = open_spiel.to_tabular_policy(game, measure.tree, policy)
  told = pyspiel.exploitability(open_spiel.load_game(game), theirs)
  assert told == pytest.approx(found["exploitability"], abs=1e-6)
  agent = make_agent(policies[0])
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
