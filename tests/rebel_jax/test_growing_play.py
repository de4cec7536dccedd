"""Searches that grow trees: what is played and learned, how runs are measured and go on."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from rebel_jax import evaluate
from rebel_jax.config.config import REBEL, GrowingSearch
from rebel_jax.evaluation import chain_evaluator
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.runs.folders import RunOptions
from rebel_jax.runs.run import train
from rebel_jax.training import chain_play
from rebel_jax.training.chain_play import ChainPlay
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import divergence
from solvers.growing.continual.chain import Found
from solvers.growing.continual.grounds import RulesGround
from solvers.growing.gt_cfr import Asked
from tests.harness import fast_to_compile, slow
from tests.rebel_jax.test_deep_cfr import TINY as DEEP
from tests.sentences import refused
from tests.tiny import TINY_GROWING, TINY_PERFECT, policy_of, rows, trained

TINY = TINY_GROWING.replace(alternating=True, mix=0.5)
RUNS = {"growing": TINY, "perfect": TINY_PERFECT.replace(optimizer="adam"), "deep": DEEP}


def of(kind):
  return trained(kind, RUNS[kind])


def test_a_run_learns_kuhn_poker():
  final = rows(of("growing"))[-1]
  assert final["seeds"] == 3
  assert final["exploitability_min"] <= final["exploitability_mean"] <= final["exploitability_max"]
  assert final["exploitability_mean"] < 0.1
  assert final["solves"] > 0.9 * TINY.self_play.examples / 2
  assert "exploitability" not in final
  setup = make_setup(TINY)
  fresh = setup.trainer.init(setup.table, 0, setup.mesh).params
  fresh = jax.tree.map(lambda x: x.addressable_data(0), fresh)  # as the run measured its own
  untrained = ChainEvaluator(TINY).of_seeds(fresh, (0, 1, 2))["exploitability"]
  assert np.mean(untrained) > 2 * final["exploitability_mean"]


@pytest.mark.parametrize("kind", ["growing", "perfect"])
def test_the_command_measures_what_the_run_did(kind, capsys):
  final = rows(of(kind))[-1]
  seed = ["--seed", str(RUNS[kind].seed + final["step"])]
  assert evaluate.main([str(of(kind)), *seed, "--json"]) == 0
  found = json.loads(capsys.readouterr().out)
  measured = [name for name in final if name.startswith(("exploitability_", "not_lost_"))]
  assert len(measured) >= 3
  for name in measured:
    assert found[name] == pytest.approx(final[name], abs=1e-6)
  assert len(found["course"]) == final["seeds"]


def test_other_searches_are_other_agents(capsys, monkeypatch):
  folder, made = of("growing"), []

  def of_seeds(self, params, seeds, progress):
    made.append(self.how.search)
    return {"exploitability": [0.5] * len(seeds)}

  monkeypatch.setattr(ChainEvaluator, "of_seeds", of_seeds)
  for others in ([], ["--mix", "0", "--at-once", "--seeds", "2"]):
    assert evaluate.main([str(folder), *others, "--json"]) == 0
  found = json.loads(capsys.readouterr().out.splitlines()[-1])
  assert (found["mix"], found["alternating"], found["seeds"]) == (0, False, 2)
  assert [(x.mix, x.alternating) for x in made] == [(0.5, True), (0.0, False)]


@pytest.mark.parametrize("kind", slow(RUNS, "growing"))
def test_runs_go_on_bit_by_bit(kind, tmp_path, request):
  if kind == "deep":  # as in its own file, so that nothing is compiled anew
    request.getfixturevalue("strictly")
  options = RunOptions(output_dir=str(tmp_path))
  train(RUNS[kind], options, stop=lambda step: True)
  assert rows(tmp_path)[-1]["step"] == RUNS[kind].schedule.report_every
  stopped = rebel_jax.load(tmp_path).params
  train(RUNS[kind], dataclasses.replace(options, resume=True))
  whole, parts = (rebel_jax.load(folder).params for folder in (of(kind), tmp_path))
  jax.tree.map(np.testing.assert_array_equal, whole, parts)
  moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), whole, stopped)
  assert max(jax.tree.leaves(moved)) > 0  # control: there was more to learn


def softmax(logits, axis):
  raised = np.exp(logits)
  return raised / raised.sum(axis=axis, keepdims=True)


def test_divergences_are_those_of_distributions():
  """Zero, with no gradient, at the target; moves that do not exist have no part in the softmax."""
  rng = np.random.default_rng(0)
  logits, target = rng.normal(size=(2, 4, 3, 5)).astype(np.float32)
  target, own = softmax(target, 1), np.ones(target.shape, bool)
  found, slope = (jax.jit(f) for f in (divergence, jax.grad(lambda *x: divergence(*x).sum())))
  expected = (target * (np.log(target) - np.log(softmax(logits, 1)))).sum(axis=1)
  np.testing.assert_allclose(found(logits, target, own), expected, rtol=1e-5, atol=1e-6)
  at_target = np.log(target) + 2.0
  np.testing.assert_allclose(found(at_target, target, own), 0.0, atol=1e-5)
  np.testing.assert_allclose(slope(at_target, target, own), 0.0, atol=1e-5)
  assert np.abs(slope(logits, target, own)).max() > 0.05
  own[:, 2:, 1:], own[:, :, 4] = False, False
  target, shares = (softmax(np.where(own, x, -99.0), 1) * own for x in (np.log(target), logits))
  expected = np.where(target > 0, target * np.log((target + 1e-30) / (shares + 1e-30)), 0).sum(1)
  for unseen in (logits, np.where(own, logits, 9.0)):
    np.testing.assert_allclose(found(unseen, target, own), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(slope(unseen, target, own)[~own], 0.0)


KUHN = games.make("kuhn_poker")
TREE = games.build_public_tree(KUHN)
NODES = {int(state): node for node, state in enumerate(TREE.state[:, 0])}


def found_without_search(ground, about, policy, values):
  """Returns what searches may have come to, with questions about the decisions themselves."""
  zeros = jnp.zeros(len(values), jnp.int32)
  left = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(values), *x.shape)), ground.nothing())
  left = left._replace(current=zeros, here=about.here)
  asked = Asked(about.here, about.beliefs, zeros + 1)
  return Found(policy, values, values, jnp.ones_like(values), left, asked)


def searched_for_nothing(ground, about, *_, **__):
  """Returns uniform policies, and beliefs for values."""
  moves = ground.rules.moves_of(*about.here).action >= 0
  policy = moves / jnp.maximum(moves.sum(axis=1, keepdims=True), 1)
  return found_without_search(ground, about, policy, about.beliefs)


@pytest.mark.parametrize("solves", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_steps_learn_what_beliefs_are_worth(solves, monkeypatch):
  monkeypatch.setattr(games.KuhnPoker, "written", False)  # its trees are made by searches
  if not solves:
    monkeypatch.setattr(chain_play, "search_each", searched_for_nothing)
  config = TINY_GROWING.replace(simulations=30, query_share=1.0, lanes=8)
  setup = make_setup(config)
  play = setup.trainer.self_play
  params = policy_of(config).params if solves else None
  lanes = fast_to_compile(functools.partial(play.init, setup.table))(jax.random.key(8))
  step = fast_to_compile(functools.partial(play.step, setup.table))
  seen, ended = 0, 0
  for number in range(8):
    waiting, taken = lanes.waiting, int(lanes.taken)
    played = step(lanes, params, jax.random.key(number))
    ((solved, active),) = played.searched
    active = np.asarray(active)
    places = np.arange(taken, int(waiting.added))[: play.num_solvers]
    assert active.sum() == len(places)
    for row, place in zip(np.flatnonzero(active), places):
      asked = jax.tree.map(lambda x, p=place % waiting.capacity: np.asarray(x)[p], waiting.examples)
      node = NODES[int(asked.here.state[0])]
      turn = slice(None, None, -1 if TREE.kind[node] == 1 else 1)
      np.testing.assert_allclose(solved.beliefs[row].reshape(2, -1), asked.beliefs[turn], atol=1e-6)
      # All is in the tree after thirty simulations: the values are those of plain CFR, nearly.
      values = np.asarray(solved.values)[row][turn]
      worth = (values * asked.beliefs).sum(axis=1)
      if not solves:
        np.testing.assert_allclose(values, asked.beliefs, atol=1e-6)
      elif seen < 6:  # each solves another tree
        below = games.build_public_tree(games.make("kuhn_poker"), root=TREE.history(node))
        how = {"algorithm": solvers.cfr_plus(), "num_iterations": 400, "beliefs": asked.beliefs}
        exact = (np.asarray(solvers.solve(below, **how).root_values) * asked.beliefs).sum(axis=1)
        assert np.abs(worth - exact).max() < 0.25
      policy, comes_from = np.asarray(solved.policy)[row], np.asarray(solved.comes_from)[row]
      np.testing.assert_allclose(policy.sum(axis=0), 1.0, atol=1e-5)
      np.testing.assert_array_equal(comes_from, np.broadcast_to(np.arange(3), comes_from.shape))
      seen += 1
    mover = np.asarray(KUHN.actor(lanes.standing.here.state))
    assert (mover < games.CHANCE).all()
    lanes = played.lanes
    begun, current = np.asarray(lanes.moves) == 0, np.asarray(lanes.left.current)
    ended += begun.sum()
    assert (current[begun] == -1).all()
    assert (current[np.arange(8), mover][~begun] >= 0).all()
  assert seen > 8
  assert ended > 8


GAME = games.TicTacToe()
TABLE = RulesGround.of(GAME, solvers.GTCFR(simulations=1))


def by_script(ground, about, keys, active, *, params, **_):
  """Returns the policy of a script by action, and a value, as if searches had come to them."""
  script, worth = params
  policy = jnp.where(about.here.state == 0, script, 0.0)
  policy = (policy / policy.sum(axis=1, keepdims=True))[:, :, None]
  values = jnp.broadcast_to(jnp.stack([-worth, worth])[:, None], (len(keys), 2, 1))
  return found_without_search(ground, about, policy, values)


@pytest.fixture
def scripted(monkeypatch):
  """Lets self-play follow a script instead of searches."""
  monkeypatch.setattr(chain_play, "search_each", by_script)


NOTHING = dict(num_lanes=512, most_moves=1, greedy_after=0) | dict.fromkeys(
  ("exploration", "td1_share", "resign_below", "never_resign"), 0.0
)


def playing(**settings):
  more = dict(num_solvers=0, query_share=0.0) | NOTHING | settings
  return ChainPlay(solvers.GTCFR(simulations=1), lambda *_: None, **more)


@functools.partial(jax.jit, static_argnames=("num_lanes", "most_moves", "greedy_after"))
def _step(lanes, params, key, **settings):  # one program for all shares
  return playing(**settings).step(TABLE, lanes, params, key)


def stepped(lanes, key=1, script=(1.0,) * 9, worth=0.0, **settings):
  params = np.array(script, np.float32), np.float32(worth)
  return _step(lanes, params, jax.random.key(key), **NOTHING | settings)


def first_moves(script, moves=0, **settings):
  """Returns how often each square is marked first; moves are greedy after three."""
  lanes = playing().init(TABLE, jax.random.key(0))
  lanes = lanes._replace(moves=lanes.moves + moves)
  played = stepped(lanes, script=script, greedy_after=3, **settings)
  return np.asarray(played.lanes.standing.here.state > 0).mean(axis=0)


def test_moves_follow_the_policy_explore_and_are_greedy_in_the_end(scripted):
  script = (6.0, 4.0, *[0.0] * 7)
  np.testing.assert_allclose(first_moves(script), np.array(script) / 10, atol=0.07)
  explores = first_moves(script, exploration=0.5)
  np.testing.assert_allclose(explores, np.array(script) / 20 + 0.5 / 9, atol=0.07)
  assert (explores[2:] > 0.02).all()
  np.testing.assert_array_equal(first_moves(script, 3, exploration=0.5), np.eye(9)[0])
  assert first_moves(script, 2, exploration=0.5)[0] < 0.5  # control: a move too early


def test_who_expects_to_lose_resigns(scripted):
  for worth, rates, expected in (
    (0.95, dict(resign_below=0.9), 1.0),
    (0.85, dict(resign_below=0.9), 0.0),  # controls: not so badly, and never
    (0.95, dict(), 0.0),
    (0.95, dict(resign_below=0.9, never_resign=0.25), 0.75),
  ):
    lanes = playing(**rates).init(TABLE, jax.random.key(0))
    step = functools.partial(stepped, worth=worth, greedy_after=3, **rates)
    after = step(lanes).lanes
    resigned = np.asarray(after.moves) == 0
    assert resigned.mean() == pytest.approx(expected, abs=0.06)
    assert (np.asarray(after.standing.here.state)[resigned] == 0).all()
    assert lanes.plays_on is None or not (resigned & np.asarray(lanes.plays_on)).any()
    # Who moves second expects to win.
    here = lanes.standing.here
    here = here._replace(state=here.state.at[:, 4].set(1))
    gone_on = lanes._replace(moves=lanes.moves + 1, standing=lanes.standing._replace(here=here))
    assert (np.asarray(step(gone_on).lanes.moves) > 0).all()


def games_of(steps, worth=0.0, **rates):
  """Returns the examples of some steps, and (states, payoff) of each game that was played out."""
  settings = dict(num_lanes=16, most_moves=9, resign_below=0.9) | rates
  lanes = playing(**settings).init(TABLE, jax.random.key(0))
  examples, ended, open_games = [], [], [[] for _ in range(16)]
  for number in range(steps):
    played = stepped(lanes, number, worth=worth, **settings)
    examples += jax.tree.map(np.asarray, played.searched[1:])
    moves, (outcomes, active) = np.asarray(played.lanes.moves), examples[-1]
    values, learned = outcomes.values.reshape(16, -1, 2), active.reshape(16, -1)
    for lane, state in enumerate(np.asarray(lanes.standing.here.state)):
      open_games[lane].append(state)
      if moves[lane] == 0:
        ended.append((open_games[lane], values[lane, 0, 0], learned[lane].any()))
        open_games[lane] = []
    lanes = played.lanes
  return examples, ended


@functools.cache
def outcomes():
  """Returns exact values of tic-tac-toe, and the outcome of each of its states."""
  exact = solvers.metrics.minimax(GAME)
  found = np.asarray(jax.vmap(GAME.outcome)(exact.states)).tolist()
  return exact, dict(zip(map(tuple, exact.states.tolist()), found))


def test_outcomes_are_learned_of_what_was_visited(scripted):
  examples, ended = games_of(20, td1_share=1.0)
  assert len(ended) > 30
  expected = []
  for states, won, learned in ended:
    assert learned
    last = states[-1]
    marks = np.eye(9, dtype=int)[last == 0] * (1 + (last > 0).sum() % 2)
    assert won in {outcomes()[1][tuple(x)] for x in (last + marks).tolist()}
    for ply, state in enumerate(states):
      own = (state == 1 + ply % 2, state == 2 - ply % 2)
      expected.append((*np.concatenate(own).astype(int), won if ply % 2 == 0 else -won))
  found = []
  for batch, active in examples:
    for row in np.flatnonzero(active):
      features, values = batch.features[row], batch.values[row, :, 0]
      assert values[0] == -values[1]
      legal = features[:9] + features[9:] == 0
      np.testing.assert_allclose(batch.policy[row, :, 0], legal / legal.sum(), rtol=1e-6)
      found.append((*features.astype(int), int(values[0])))
  assert sorted(found) == sorted(expected)
  assert {x[-1] for x in found} == {-1, 0, 1}
  # Some of them, where the share says so.
  some, _ = games_of(20, td1_share=0.3)
  share = sum(int(active.sum()) for _, active in some) / len(expected)
  assert share == pytest.approx(0.3, abs=0.08)
  # Games are given up in the first move, but for those that nobody resigns.
  given_up, ended = games_of(20, td1_share=1.0, worth=1.0, never_resign=0.3)
  lengths = [len(states) for states, _, learned in ended if learned]
  assert 0 < len(lengths) < len(ended) / 2
  assert all(len(states) == 1 for states, _, learned in ended if not learned)
  assert sum(int(active.sum()) for _, active in given_up) == sum(lengths)


@functools.cache
def play_by(choose, seat: int, state, worth_of) -> tuple[int, float]:
  """Returns an agent's least payoff, and its chance not to lose to exact play, by recursion."""
  ended = outcomes()[1][state] * (1 if seat == 0 else -1)
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
  exact = outcomes()[0]
  known = {tuple(s): v for s, v in zip(exact.states.tolist(), exact.values)}

  def last(state):
    return max(a for a, x in enumerate(state) if x == 0)

  def perfect(state):
    mover = sum(x > 0 for x in state) % 2
    free = [a for a, x in enumerate(state) if x == 0]
    return max(
      free, key=lambda a: (1 - 2 * mover) * known[(*state[:a], mover + 1, *state[a + 1 :])]
    )

  for choose in (last, perfect):

    def moves(states, seeds, choose=choose):
      return np.array([choose(tuple(s)) for s in states.tolist()], int)

    found = chain_evaluator.against_all(TABLE.rules, exact, moves, (0,), lambda *_: None)
    pairs = [play_by(choose, seat, (0,) * 9, known.__getitem__) for seat in (0, 1)]
    least, kept = (np.mean(x) for x in zip(*pairs))
    assert found["exploitability"] == [pytest.approx(-least)]
    assert found["not_lost"] == [pytest.approx(kept)]
    assert (found["exploitability"] == [0.0]) == (choose is perfect)
    assert (found["not_lost"] == [1.0]) == (choose is perfect)


LARGE = TINY.replace(game="liars_dice", game_params=(("num_dice", 3), ("num_faces", 6)))
test_what_does_not_go_together_is_refused = refused(
  (lambda: make_setup(TINY.replace(per_update=7.0)), "per_update=7.0"),
  (lambda: make_setup(LARGE), "public tree of"),
  *((lambda x=x: make_setup(TINY_PERFECT.replace(**x)), sentence) for x, sentence in [
    (dict(search=REBEL), "'tic_tac_toe' has no tree .*, which ReBeL's searches need"),
    (dict(search=GrowingSearch()), "'tic_tac_toe' is one of perfect information"),
    (dict(game="kuhn_poker"), "game='kuhn_poker' is not one of perfect information"),
    (dict(lanes=32, buffer_size=256), "buffer_size=256 must be .* of one step of lanes=32"),
  ])
)  # fmt: skip
