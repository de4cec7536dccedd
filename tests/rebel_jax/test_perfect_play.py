"""Training in games of perfect information: what is played and learned, how runs are measured."""

import dataclasses
import functools
import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from benchmarks.growing import exact_play
from rebel_jax import evaluate
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import REBEL, GrowingSearch, PerfectSearch
from rebel_jax.evaluation import chain_evaluator
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.runs.options import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training import chain_play
from rebel_jax.training.chain_play import ChainPlay
from rebel_jax.training.setup import make_setup
from solvers.growing.continual.grounds import RulesGround
from solvers.growing.continual.search_each import AskedState, Found
from tests.tiny import rows

GAME = games.TicTacToe()
TABLE = RulesGround.of(GAME, solvers.GTCFR(simulations=1))
TINY = Config().replace(
  preset="pog_tic_tac_toe",
  game="tic_tac_toe",
  game_params=(),
  search=PerfectSearch(
    simulations=16, td1_share=0.3, query_share=0.3, eval_iterations=32, final_playthroughs=4
  ),
  lanes=32,
  width=64,
  optimizer="muon",
  learning_rate=0.02,
  batch_size=128,
  uses_per_example=16.0,
  buffer_size=8_192,
  examples=4_000,
  report_every=60,
  evaluate_every=0,
)
# Too little to learn.
BRIEF = TINY.replace(
  simulations=2,
  lanes=8,
  width=16,
  batch_size=16,
  uses_per_example=4.0,
  buffer_size=512,
  examples=160,
  report_every=5,
  eval_iterations=4,
  final_playthroughs=2,
)


@functools.cache
def trained(config: Config = TINY) -> Path:
  """Returns the folder of a finished run, made once."""
  folder = Path(tempfile.mkdtemp(prefix="rebel-jax-test-"))
  train(config, RunOptions(output_dir=str(folder), num_devices=1))
  return folder


@pytest.mark.slow
def test_a_run_learns_tic_tac_toe():
  """Its searching agents lose less than those of a fresh network."""
  final = rows(trained())[-1]
  assert final["seeds"] == 4
  assert final["not_lost_min"] <= final["not_lost_mean"] <= final["not_lost_max"] <= 1.0
  assert final["solves"] > 0.9 * TINY.self_play.examples / 2
  setup = make_setup(TINY)
  fresh = setup.trainer.init(setup.table, 0, setup.mesh).params
  untrained = ChainEvaluator(TINY).of_seeds(fresh, (0, 1, 2, 3))
  assert 1 - np.mean(untrained["not_lost"]) > 2 * (1 - final["not_lost_mean"])
  assert np.mean(untrained["exploitability"]) >= final["exploitability_mean"]


def test_the_command_measures_what_the_run_did(capsys):
  final = rows(trained(BRIEF))[-1]
  seed = str(BRIEF.seed + final["step"])
  assert evaluate.main([str(trained(BRIEF)), "--seed", seed, "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  for name in ("exploitability_mean", "not_lost_mean", "not_lost_min"):
    assert found[name] == pytest.approx(final[name], abs=1e-6)


@pytest.mark.slow
def test_games_against_exact_play_come_out_as_the_measure_says(capsys):
  final = rows(trained())[-1]
  exact_play.main(["--games", "64", "--simulations", "16", "--checkpoint", str(trained())])
  lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  lost = sum(line["lost"] for line in lines) / 128
  assert lost == pytest.approx(1 - final["not_lost_mean"], abs=0.15)


def test_runs_go_on_bit_by_bit():
  """Stopped after its first row and resumed, a run ends with the same parameters."""
  folder = Path(tempfile.mkdtemp(prefix="rebel-jax-test-"))
  options = RunOptions(output_dir=str(folder), num_devices=1)
  train(BRIEF, options, stop=lambda step: True)
  assert rows(folder)[-1]["step"] == 5
  stopped = rebel_jax.load(folder).params
  train(BRIEF, dataclasses.replace(options, resume=True))
  whole, parts = (rebel_jax.load(f).params for f in (trained(BRIEF), folder))

  def same(x, y):
    return jax.tree.all(jax.tree.map(lambda x, y: (np.asarray(x) == np.asarray(y)).all(), x, y))

  assert same(whole, parts)
  assert not same(whole, stopped)  # control: there was more to learn


@pytest.fixture
def scripted(monkeypatch):
  """Returns a maker of self-play whose searches find a script's policy, by action.

  Who moves second expects to win `worth`.
  """

  def make(script=(1.0,) * 9, worth=0.0, **settings):
    def search(ground, about, keys, active, *, how, rounds, params):
      state, number = about.here.state, len(keys)
      policy = jnp.where(state == 0, jnp.asarray(script), 0.0)
      policy = (policy / policy.sum(axis=1, keepdims=True))[:, :, None]
      values = jnp.broadcast_to(jnp.array([[-worth], [worth]]), (number, 2, 1))
      ones = jnp.ones((number, 2, 1))
      left = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), ground.nothing())
      asked = AskedState(about.here, ones, jnp.ones(number, jnp.int32))
      return Found(policy, values, values, ones, left, asked)

    monkeypatch.setattr(chain_play, "search_each", search)
    nothing = dict(num_solvers=0, query_share=0.0, exploration=0.0, num_lanes=512)
    return ChainPlay(solvers.GTCFR(simulations=1), lambda *_: None, **nothing | settings)

  return make


def stepped(play, lanes, key=1):
  """Returns the lanes and examples after a step."""
  return jax.jit(functools.partial(play.step, TABLE))(lanes, None, jax.random.key(key))


def first_moves(play, moves=0):
  """Returns how often each square is marked first."""
  lanes = play.init(TABLE, jax.random.key(0))
  lanes = lanes._replace(moves=lanes.moves + moves)
  return np.asarray(stepped(play, lanes).lanes.standing.here.state > 0).mean(axis=0)


def test_moves_follow_the_policy_explore_and_are_greedy_in_the_end(scripted):
  script = (6.0, 4.0, *[0.0] * 7)
  np.testing.assert_allclose(first_moves(scripted(script)), np.array(script) / 10, atol=0.07)
  explores = first_moves(scripted(script, exploration=0.5))
  expected = 0.5 * np.array(script) / 10 + 0.5 / 9
  np.testing.assert_allclose(explores, expected, atol=0.07)
  assert (explores[2:] > 0.02).all()
  greedy = scripted(script, exploration=0.5, greedy_after=3)
  np.testing.assert_array_equal(first_moves(greedy, 3), np.eye(9)[0])
  assert first_moves(greedy, 2)[0] < 0.5  # control: a move too early


def test_who_expects_to_lose_resigns(scripted):
  """A game that is given up begins anew."""
  for settings, expected in (
    (dict(worth=0.95, resign_below=0.9), 1.0),
    (dict(worth=0.85, resign_below=0.9), 0.0),  # controls: not so badly, and never
    (dict(worth=0.95), 0.0),
    (dict(worth=0.95, resign_below=0.9, never_resign=0.25), 0.75),
  ):
    play = scripted(**settings)
    lanes = play.init(TABLE, jax.random.key(0))
    after = stepped(play, lanes).lanes
    resigned = np.asarray(after.moves) == 0
    assert resigned.mean() == pytest.approx(expected, abs=0.06)
    assert (np.asarray(after.standing.here.state)[resigned] == 0).all()
    if lanes.plays_on is not None:
      assert not (resigned & np.asarray(lanes.plays_on)).any()
    # Who moves second expects to win.
    gone_on = lanes._replace(
      moves=lanes.moves + 1,
      standing=lanes.standing._replace(
        here=lanes.standing.here._replace(state=lanes.standing.here.state.at[:, 4].set(1))
      ),
    )
    assert (np.asarray(stepped(play, gone_on).lanes.moves) > 0).all()


def games_of(play, steps):
  """Returns the examples of some steps, and (states, payoff) of each game that was played out."""
  lanes = play.init(TABLE, jax.random.key(0))
  step = jax.jit(functools.partial(play.step, TABLE))
  open_games = [[] for _ in range(play.num_lanes)]
  examples, ended = [], []
  for number in range(steps):
    before = np.asarray(lanes.standing.here.state)
    played = step(lanes, None, jax.random.key(number))
    examples += played.searched[1:]
    moves, (outcomes, active) = np.asarray(played.lanes.moves), played.searched[1]
    values = np.asarray(outcomes.values).reshape(play.num_lanes, -1, 2)
    learned = np.asarray(active).reshape(play.num_lanes, -1)
    for lane, state in enumerate(before):
      open_games[lane].append(state)
      if moves[lane] == 0:
        ended.append((open_games[lane], values[lane, 0, 0], learned[lane].any()))
        open_games[lane] = []
    lanes = played.lanes
  return examples, ended


def payoff_after(states):
  """Returns the payoffs of player 0 that a game can have come to after its last decision."""
  last = states[-1]
  after = [
    np.where(np.arange(9) == a, 1 + (last > 0).sum() % 2, last) for a in np.where(last == 0)[0]
  ]
  return {int(GAME.outcome(jnp.asarray(x))) for x in after}


def test_outcomes_are_learned_of_what_was_visited(scripted):
  """Each decision of a game that ended, with what its mover came to; none of a resigned one."""
  play = scripted(num_lanes=16, td1_share=1.0, most_moves=9)
  examples, ended = games_of(play, 20)
  assert len(ended) > 30
  expected = []
  for states, won, learned in ended:
    assert learned
    assert won in payoff_after(states)
    for ply, state in enumerate(states):
      own = (state == 1 + ply % 2, state == 2 - ply % 2)
      expected.append((*np.concatenate(own).astype(int), won if ply % 2 == 0 else -won))
  found = []
  for batch, active in examples:
    for row in np.flatnonzero(active):
      features, values = np.asarray(batch.features[row]), np.asarray(batch.values[row])[:, 0]
      assert values[0] == -values[1]
      legal = features[:9] + features[9:] == 0
      np.testing.assert_allclose(batch.policy[row, :, 0], legal / legal.sum(), rtol=1e-6)
      found.append((*features.astype(int), int(values[0])))
  assert sorted(found) == sorted(expected)
  assert {x[-1] for x in found} == {-1, 0, 1}
  # Some of them, where the share says so.
  some, _ = games_of(dataclasses.replace(play, td1_share=0.3), 20)
  share = sum(int(active.sum()) for _, active in some) / len(expected)
  assert share == pytest.approx(0.3, abs=0.08)
  # Games are given up in the first move, but for those that nobody resigns.
  resigns = dict(worth=1.0, resign_below=0.9, never_resign=0.3)
  given_up, ended = games_of(scripted(num_lanes=16, td1_share=1.0, most_moves=9, **resigns), 20)
  lengths = [len(states) for states, _, learned in ended if learned]
  assert 0 < len(lengths) < len(ended) / 2
  assert all(len(states) == 1 for states, _, learned in ended if not learned)
  assert sum(int(active.sum()) for _, active in given_up) == sum(lengths)


def test_questions_are_states_that_searches_added():
  """Each as likely: nine below the start, and those that two simulations add."""
  setup = make_setup(BRIEF.replace(lanes=512, buffer_size=8_192))
  play, params = setup.trainer.self_play, setup.trainer.init(setup.table, 0, setup.mesh).params
  lanes = play.init(setup.table, jax.random.key(0))
  first, number = chain_play._first_question(GAME), play.num_solvers
  nothing = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), first)
  given = nothing, jax.random.key(0), jnp.zeros(number, bool), params
  search = jax.jit(lambda lanes: play._search(setup.table, lanes, *given))
  asked = jax.tree.map(lambda x: np.asarray(x)[:512], search(lanes).asked)
  np.testing.assert_array_equal(asked.total, 11)
  marks = asked.here.state > 0
  stones = marks.sum(axis=1)
  assert stones.min() == 1
  assert np.mean(stones == 1) == pytest.approx(9 / 11, abs=0.05)
  firsts = marks[stones == 1].argmax(axis=1)
  np.testing.assert_allclose(np.bincount(firsts, minlength=9) / len(firsts), 1 / 9, atol=0.05)


@pytest.mark.slow
def test_games_too_large_to_enumerate_are_played(monkeypatch):
  """Against the same search without a network, which a network that says nothing is."""
  monkeypatch.setattr(chain_evaluator, "_MOST_STATES", 100)
  params = rebel_jax.load(trained()).params
  config = TINY.replace(eval_iterations=16)
  found = ChainEvaluator(config).of_seeds(params, (0, 1))["score"]
  nothing = jax.tree.map(jnp.zeros_like, params)
  control = ChainEvaluator(config).of_seeds(nothing, (0, 1))["score"]
  assert np.mean(found) > 0.2
  assert np.mean(found) > np.mean(control) + 0.1


@functools.cache
def play_by(choose, seat: int, state, worth_of) -> tuple[int, float]:
  """Returns an agent's least payoff, and its chance not to lose to exact play, by recursion."""
  ended = int(GAME.outcome(jnp.asarray(state))) * (1 if seat == 0 else -1)
  mover = sum(x > 0 for x in state) % 2
  if ended or 0 not in state:
    return ended, float(ended >= 0)
  after = {a: (*state[:a], mover + 1, *state[a + 1 :]) for a, x in enumerate(state) if x == 0}
  if mover == seat:
    return play_by(choose, seat, after[choose(state)], worth_of)
  worth = {a: worth_of(s) * (1 if mover == 0 else -1) for a, s in after.items()}
  found = {a: play_by(choose, seat, s, worth_of) for a, s in after.items()}
  best = [found[a][1] for a in after if worth[a] == max(worth.values())]
  return min(x for x, _ in found.values()), float(np.mean(best))


def test_agents_are_measured_exactly():
  """By recursion in Python; and who plays without mistake loses nothing."""
  exact = solvers.metrics.minimax.minimax(GAME)
  known = {tuple(s): v for s, v in zip(exact.states.tolist(), exact.values)}

  def last(state):
    return max(a for a, x in enumerate(state) if x == 0)

  def perfect(state):
    mover = sum(x > 0 for x in state) % 2
    sign = 1 if mover == 0 else -1
    free = [a for a, x in enumerate(state) if x == 0]
    return max(free, key=lambda a: sign * known[(*state[:a], mover + 1, *state[a + 1 :])])

  start = (0,) * 9
  for choose in (last, perfect):

    def moves(states, seeds, choose=choose):
      return np.array([choose(tuple(s)) for s in states.tolist()], int)

    found = chain_evaluator.against_all(TABLE.rules, exact, moves, (0,), lambda *_: None)
    pairs = [play_by(choose, seat, start, known.__getitem__) for seat in (0, 1)]
    least, kept = (np.mean(x) for x in zip(*pairs))
    assert found["exploitability"] == [pytest.approx(-least)]
    assert found["not_lost"] == [pytest.approx(kept)]
    assert (found["exploitability"] == [0.0]) == (choose is perfect)
    assert (found["not_lost"] == [1.0]) == (choose is perfect)


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    (dict(search=REBEL), "game='tic_tac_toe' cannot be searched by ReBeL"),
    (dict(search=GrowingSearch()), "'tic_tac_toe' is one of perfect information"),
    (dict(query_share=0.0, td1_share=0.0), "query_share=0.0 must be above 0"),
    (dict(game="kuhn_poker"), "game='kuhn_poker' is not one of perfect information"),
    (dict(game_params=(("size", 4),)), "no parameter 'size'"),
    (dict(vary=(("stack", "3-4"),)), "vary is no setting of growing searches of perfect"),
    (dict(buffer_size=256), "buffer_size=256 must be at least"),
  ],
)
def test_what_does_not_go_together_is_refused(changes, sentence):
  with pytest.raises(ConfigError, match=sentence):
    make_setup(TINY.replace(**changes))
  make_setup(TINY)  # control


def test_trees_made_beforehand_are_refused_in_a_sentence():
  with pytest.raises(ConfigError, match="'tic_tac_toe' cannot be searched by ReBeL"):
    TINY.replace(search=REBEL).validate()
