"""Hidden moves in trees by insertion: stations against paths, and against independent programs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.rules.scotland_yard_board import Board
from games.rules.scotland_yard_maps import GLASSES, GLASSES_HEXAGONS
from solvers import GTCFR, loop
from solvers.growing.gt_cfr import grow
from solvers.growing.insertion.hidden import HiddenProblem
from solvers.growing.resolving import Promises
from solvers.growing.starts import ByRules
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from tests import harness
from tests import scotland_yard as referee
from tests.games.test_scotland_yard_stations import ROW
from tests.hidden_moves import Solved, by_edges

NEAR = dataclasses.replace(GLASSES, detectives=(2, 10))
CASES = {
  "near": (NEAR, 3),
  "glasses": (GLASSES, 3),
  "two": (NEAR, 2),
  "hexagons": (GLASSES_HEXAGONS, 3),
}
KEY = jax.random.key(3)


@pytest.fixture
def no_ties(monkeypatch):
  """Makes ends worth something between: where moves tie, rounding parts correct programs."""
  plain = Board.payoff_scale

  def payoff_scale(self, states):
    xp = states.__array_namespace__()
    weights = xp.asarray(np.random.default_rng(0).normal(size=states.shape[1]))
    return plain(self, states) + 0.3 * xp.sin((states * weights).sum(axis=1))

  monkeypatch.setattr(Board, "payoff_scale", payoff_scale)


def path_game(city, rounds, root=()):
  """Returns the game on paths and its tree."""
  game = games.make("scotland_yard", map_name=city, rounds=rounds)
  return game, games.build_public_tree(game, root=root)


@harness.fast_to_compile
def on_paths(tree, beliefs, updates):
  """Returns what CFR+ finds in a tree, `[P, H]`, and what answers to it are worth, `[P]`."""
  algorithm = solvers.cfr_plus(averaging=1, alternating=False)
  problem = make_problem(tree, beliefs)
  state = loop.run(problem, algorithm, None, 2 * updates).state
  average = join_levels(algorithm.average_policy(problem, state))
  best = solvers.best_response_values(tree, average, beliefs=beliefs)
  return algorithm.root_values(problem, state), best


def referees_policy(game, tree, policy, root):
  """Returns a policy `[C, M, H]` in the referee's form, its public tree walked beside `tree`."""
  found, pending = {}, [(0, root)]
  names = {game.action_name(a): a for a in range(game.num_actions)}
  while pending:
    n, node = pending.pop()
    if node.mover == "end":
      node.payoff = float(game.payoff_scale(np.asarray(tree.state[n])[None])[0])
    leads_to, action = np.asarray(tree.leads_to[n]), np.asarray(tree.by_action[n])
    if node.mover == "mister_x":
      rows = {x: np.zeros(len(node.moves[x])) for x in node.rows()}
      for x, row in rows.items():
        for m in np.flatnonzero(leads_to[:, x - 1] >= 0):
          row[node.moves[x].index(leads_to[m, x - 1] + 1)] = policy[n, m, x - 1]
      found[id(node)] = rows
    if node.mover == "detective":
      chances = {a: policy[n, m, 0] for m, a in enumerate(action[:, 0].tolist())}
      found[id(node)] = {None: np.array([chances[names[name]] for name in node.children])}
    for name, below in node.children.items():
      pending.append((int(tree.child[n, names[name]]), below))
  return found


@pytest.mark.parametrize(
  "case",
  ["two", *(pytest.param(x, marks=pytest.mark.slow) for x in CASES if x != "two")],
)
def test_stations_are_as_good_as_paths(case, x64, no_ties):
  """The same game values in every update, and equally good answers to the average policies."""
  city, rounds = CASES[case]
  game = games.make("scotland_yard", map_name=city, rounds=rounds, remembers=False)
  edges = [edge[:2] for edge in city.edges]
  root = referee.grow(edges, city.mister_x, city.detectives, rounds)
  _, tree = path_game(city, rounds)
  for updates in (1, 30):
    values, best = on_paths(tree, tree.prior, updates)
    solved = Solved(game, game.prior(), updates, capacity=tree.num_nodes)
    assert int(solved.tree.count) == tree.num_nodes
    own = solved.root_values[0, city.mister_x - 1], solved.root_values[1, 0]
    np.testing.assert_allclose(own, values[:, 0], atol=1e-10)
    np.testing.assert_allclose(solved.best, best, atol=1e-10)
    policy = referees_policy(game, solved.tree, solved.policy, root)
    np.testing.assert_allclose(referee.best_response_values(root, policy), solved.best, atol=1e-10)


def history(tree, node):
  """Returns the public actions that lead to a node."""
  actions = []
  while node:
    actions.append(int(tree.action[node]))
    node = tree.parent[node]
  return tuple(actions[::-1])


@pytest.mark.slow
def test_beliefs_about_stations_weigh_what_meets_there(x64, no_ties):
  """Within a game, from random beliefs about paths; control: what paths weigh is forgotten."""
  paths, whole = path_game(NEAR, 3)
  root = history(whole, 64)  # ten paths to seven stations, four of them to one
  game = games.make("scotland_yard", map_name=NEAR, rounds=3, remembers=False)
  _, tree = path_game(NEAR, 3, root)
  moved = int(tree.state[0, 0])
  ends = np.array(
    [int(paths.infostate_name(0, h).split("-")[moved]) - 1 for h in range(paths.num_infostates)]
  )
  there = harness.root_possible(tree)
  assert np.unique(ends[there[0]], return_counts=True)[1].max() == 4  # paths that meet
  rng = np.random.default_rng(1)
  beliefs = rng.exponential(size=there.shape) * there
  beliefs /= beliefs.sum(axis=1, keepdims=True)
  merged = np.zeros((2, game.num_infostates))
  np.add.at(merged[0], ends, beliefs[0])
  merged[1, 0] = 1.0
  values, best = on_paths(tree, beliefs, 20)
  given = dict(
    state=np.asarray(tree.state[0], np.int32), possible=merged > 0, capacity=tree.num_nodes
  )
  solved = Solved(game, merged, 20, **given)
  np.testing.assert_allclose(solved.root_values[0, ends[there[0]]], values[0][there[0]], atol=1e-10)
  np.testing.assert_allclose(solved.best, best, atol=1e-10)
  even = merged > 0
  wrong = Solved(game, even / even.sum(axis=1, keepdims=True), 20, **given)
  assert np.abs(wrong.best - best).max() > 1e-4


def test_both_stores_search_rock_paper_scissors_alike(x64):
  """Policies, values, ranges and visits, digit by digit with the same key; control: another."""
  rules = games.make("rock_paper_scissors")
  tree, game = games.build_public_tree(rules), games.RockPaperScissors()
  info, search = solvers.node_info(rules, tree), GTCFR(simulations=60, per_update=3)
  marked = solvers.gt_cfr(tree, info, search=search, key=KEY)
  for key, same in ((KEY, True), (jax.random.key(4), False)):
    grown = solvers.gt_cfr(game, search=search, key=key)
    pairs = [(marked.root_values[:, 0], grown.root_values[:, 0])]
    ours, theirs = np.asarray(marked.average_policy), np.asarray(grown.average_policy)
    pairs += [(ours[1], theirs[0, :, 0]), (ours[2:5, 0], theirs[1, :, 0])]
    pairs += [(marked.visits[:2], grown.visits[:2])]
    pairs += [(getattr(marked, x)[:, :5], getattr(grown, x)[:, :5]) for x in ("values", "reach")]
    apart = max(np.abs(np.asarray(x) - np.asarray(y)).max() for x, y in pairs)
    assert (apart < 1e-12) == same
    np.testing.assert_array_equal(grown.policy, grown.average_policy[0])


def test_both_stores_resolve_in_turn_alike(x64):
  """Player 1 responds to all of the reach that player 0 has by now; control: at once."""
  rules = games.make("rock_paper_scissors")
  tree, game = games.build_public_tree(rules), games.RockPaperScissors()
  search = GTCFR(simulations=20, alternating=True)
  info, known = solvers.node_info(rules, tree), dict(key=KEY, searcher=1)
  promised = [solvers.Alternatives(np.zeros(x.num_infostates)) for x in (tree, game)]
  marked = solvers.gt_cfr(tree, info, search=search, alternatives=promised[0], **known)
  for alternating in (True, False):
    search = dataclasses.replace(search, alternating=alternating)
    grown = solvers.gt_cfr(game, search=search, alternatives=promised[1], **known)
    apart = np.abs(np.asarray(marked.average_policy)[2:5, 0] - grown.average_policy[1, :, 0]).max()
    assert (apart < 1e-12) == alternating


@pytest.mark.slow
def test_both_stores_search_paths_alike(x64, no_ties):
  """With looks and cards of three kinds; control: another key."""
  rules = games.make("scotland_yard", map_name=ROW, rounds=2)
  tree = games.build_public_tree(rules)
  info, game, search = solvers.node_info(rules, tree), games.tabulate(rules, tree), GTCFR(60)
  marked = solvers.gt_cfr(tree, info, search=search, key=KEY)
  moved = np.asarray(marked.present) & (tree.kind[tree.parent] < 2) & (tree.parent >= 0)
  mover = np.clip(tree.kind[tree.parent], 0, 1)
  there = moved[:, None] & tree.possible[np.arange(tree.num_nodes), mover]
  for key, same in ((KEY, True), (jax.random.key(4), False)):
    grown = solvers.gt_cfr(game, search=search, key=key)
    nodes = np.asarray(grown.tree.state)[np.asarray(grown.present), 0]
    apart = [float(set(nodes) != set(np.flatnonzero(marked.present)))]
    theirs = by_edges(tree, grown, np.asarray(grown.average_policy))
    apart.append(np.abs(np.asarray(marked.average_policy) - theirs)[there].max())
    theirs = np.asarray(grown.visits)[np.asarray(grown.present)]
    apart.append(np.abs(np.asarray(marked.visits)[nodes] - theirs).max())
    for name in ("values", "reach"):
      ours, theirs = (np.asarray(getattr(x, name)) for x in (marked, grown))
      apart.append(np.abs(ours[:, nodes] - theirs[:, np.asarray(grown.present)]).max())
    assert (max(apart) < 1e-12) == same


@pytest.mark.slow
def test_simulations_are_counted_where_the_mover_is():
  """What comes to a state leaves it or ends there, at the station that Mr. X has moved to."""
  game = games.make("scotland_yard", map_name=NEAR, rounds=3, remembers=False)
  found = solvers.gt_cfr(game, search=GTCFR(simulations=300), key=KEY)
  tree, visits = jax.tree.map(np.asarray, (found.tree, found.visits))
  assert found.policy.shape == found.visits[0].shape == (4, 11)
  assert (visits[tree.leads_to < 0] == 0).all()
  # Of Mr. X's station, down the tree; the detectives are at 0 and counted there alone.
  came = np.zeros((tree.kind.size, 11))
  came[0, NEAR.mister_x - 1] = 300
  for n in range(int(tree.count)):
    kind, left = tree.kind[n], visits[n].sum(axis=0)
    if kind == 0:
      assert (left <= came[n]).all()
      for m, h in zip(*np.nonzero(visits[n])):
        child = tree.child[n, tree.by_action[n, m, h]]
        came[child, tree.leads_to[n, m, h]] += visits[n, m, h]
    elif kind == 1:
      assert (left[1:] == 0).all()
      assert left[0] <= came[n].sum()
      for m in np.flatnonzero(visits[n, :, 0]):
        # Which of Mr. X's stations went on here is not said: at most all that came.
        came[tree.child[n, tree.by_action[n, m, 0]]] += np.minimum(came[n], visits[n, m, 0])
    elif kind == games.CHANCE:
      for child in tree.child[n][tree.child[n] >= 0]:
        came[child] += came[n] * tree.possible[child, 0]
  assert visits[0].sum() == 300
  assert {int(h) for n in np.flatnonzero(tree.kind == 0) for h in np.nonzero(visits[n])[1]} > {5, 6}


@pytest.mark.slow
def test_a_grown_tree_finds_what_paths_do(x64):
  """After enough simulations all of a small game is there, and its value is found."""
  game = games.make("scotland_yard", map_name=NEAR, rounds=2, remembers=False)
  _, tree = path_game(NEAR, 2)
  search = GTCFR(simulations=600)
  found = solvers.gt_cfr(game, search=search, key=KEY, capacity=tree.num_nodes)
  edges = [edge[:2] for edge in NEAR.edges]
  root = referee.grow(edges, NEAR.mister_x, NEAR.detectives, 2)
  best = referee.best_response_values(
    root, referees_policy(game, found.tree, np.asarray(found.average_policy), root)
  )
  assert int(found.tree.lost) == 0
  assert best.sum() / 2 < 0.05
  value = referee.game_value(root)
  assert -best[1] - 1e-9 <= value <= best[0] + 1e-9
  np.testing.assert_allclose(found.root_values[0, NEAR.mister_x - 1], value, atol=0.05)


@pytest.mark.slow
def test_london_is_searched():
  game = games.make("scotland_yard", map_name="london", rounds=24, remembers=False)
  search = GTCFR(simulations=10, children=8)
  found = solvers.gt_cfr(game, search=search, key=KEY, capacity=150)
  start = game.map.mister_x - 1
  assert int(found.tree.count) > 20
  np.testing.assert_allclose(found.policy[:, start].sum(), 1, atol=1e-5)
  assert float(found.visits[0].sum()) == float(found.visits[0][:, start].sum()) == 10


@pytest.mark.slow
def test_reach_that_nobody_asks_for_is_left_out(x64, monkeypatch):
  """A search within a game, digit by digit; controls: it stops too early, a player holds too few.

  An update's reach stops where simulations start, and detectives have one infostate in sweeps.
  """
  game = games.ScotlandYard(NEAR, rounds=5, remembers=False)
  path, state = [], game.initial_state()[None]
  while not path or game.actor(state)[0] != 0:
    path.append(int(np.flatnonzero(game.legal_actions(state)[0])[-1]))
    state = game.next_states(state, np.array(path[-1:]))
  over_blocks = HiddenProblem._over_blocks

  def found(shift=None, held=None):
    def stop(self, *arguments, until=None, **options):
      until = None if until is None or shift is None else until + shift
      return over_blocks(self, *arguments, until=until, **options)

    monkeypatch.setattr(HiddenProblem, "_over_blocks", stop)
    monkeypatch.setattr(games.ScotlandYard, "num_held", held or (11, 1))
    given = map(jnp.asarray, (game.initial_state(), game.prior() > 0, path, game.prior()))
    promises = Promises.to_opponent(0, np.zeros(11), game.prior()[1])
    start = ByRules(*given, promises, game, 109, False)
    run = functools.partial(grow.__wrapped__, search=GTCFR(simulations=20))
    grown = harness.fast_to_compile(run)(start, KEY, None, 20)
    return np.concatenate([np.ravel(x) for x in (grown.average_policy, grown.values, grown.visits)])

  whole = found(held=(11, 11))
  np.testing.assert_array_equal(found(shift=0), whole)
  assert np.abs(found(shift=-1) - whole).max() > 1e-3
  assert np.abs(found(held=(5, 1)) - whole).max() > 1e-3
