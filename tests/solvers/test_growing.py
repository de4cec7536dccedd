"""Growing-tree CFR: against plain loops, plain CFR and figures by hand; both stores, and chains."""

import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.public_tree import largest_payoff
from solvers import GTCFR, ContinualResolve, StateAnswer, StateQuery
from solvers.growing import deal, play_on, tree_ground
from solvers.growing.continual.chain import Left, PublicState, longest_wait, next_start
from solvers.growing.gt_cfr import grow
from solvers.growing.insertion import tree as tree_module
from solvers.growing.insertion.tree import ByRules, InsertedTree, insert, plant
from solvers.growing.states import ask_some
from solvers.metrics.histories import best_response_worth, exploitability_in, public_histories
from tests.gt_cfr_referee import Referee
from tests.harness import slow
from tests.sentences import refused
from tests.solvers.test_hidden_moves import Solved
from tests.trees import possible_of

AT_ONCE = solvers.cfr_plus(averaging=1.0, alternating=False)
KEY = jax.random.key(0)


def setting(name, dtype=np.float64, **parameters):
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game).astype(dtype)
  return game, tree, solvers.node_info(game, tree)


SEARCHES = (
  GTCFR(simulations=24, per_update=2, children=1),
  GTCFR(simulations=36, per_update=1 / 3),  # whose numbers are drawn in two parts
)


def difference_from_loops(grown, referee):
  """Returns the largest difference of what two searches found; infinite if of other nodes."""
  if set(np.flatnonzero(grown.present).tolist()) != referee.present:
    return np.inf
  kind = np.asarray(referee.tree.kind)[np.maximum(referee.tree.parent, 0)]
  pairs = [(grown.root_values, referee.root)]
  for node, kids in enumerate(referee.kids):
    if kids and referee.kind[node] < games.CHANCE:
      moves = referee.tree.action[kids]
      pairs.append((np.asarray(grown.visits)[node, moves], referee.visits[kids]))
  for player in (0, 1):
    moved = (kind == player) & (np.arange(len(kind)) > 0)
    average = np.asarray(grown.average_policy)[moved]
    pairs.append((average, referee.matched(referee.average[player])[moved]))
  return max(np.abs(np.asarray(x) - y).max() for x, y in pairs)


GAMES = (("kuhn_poker", {}), ("liars_dice", {"num_dice": 1, "num_faces": 3}))
# By default each game, search and kind of leaves once.
CASES = [
  pytest.param(*GAMES[i], SEARCHES[j], bool(k), marks=[pytest.mark.slow] * (not i != j == k))
  for i, j, k in itertools.product((0, 1), repeat=3)
]


@pytest.mark.parametrize(("name", "parameters", "search", "asks"), CASES)
def test_searches_are_those_of_plain_loops(name, parameters, search, asks, x64):
  """Digit by digit; controls: another key, another weight of priors."""
  game, tree, info = setting(name, **parameters)
  numbers = np.arange(tree.num_nodes)[:, None] * np.ones(info.features.shape[1:])
  rng = np.random.default_rng(0)
  values = rng.normal(size=(tree.num_nodes, 2, tree.num_infostates))
  logits = 4 * rng.normal(size=(tree.num_nodes, game.num_actions))

  def network(params, query):
    seen = query.features[:, 0]  # player 1 sees a node's number below zero
    node = jnp.where(seen < 0, -1 - seen, seen).astype(int)
    rows = jnp.asarray(values)[node]
    rows = jnp.where((seen < 0)[:, None, None], rows[:, ::-1], rows)
    likes = jnp.asarray(logits)[node][:, :, None]
    return StateAnswer(rows, likes + jnp.zeros(tree.num_infostates))

  info = info._replace(features=np.stack([numbers, -1 - numbers]))
  key, another = map(jax.random.key, (5, 6))  # with which the weight of priors shows
  grown = solvers.gt_cfr(tree, info, search=search, key=key, network=network if asks else None)

  def by_loops(key, search=search):
    judged = (lambda node: (values[node], logits[node])) if asks else None
    referee = Referee(tree, info, search, judged)
    return referee.run(key, float(largest_payoff(tree)), jax.random.fold_in)

  assert difference_from_loops(grown, by_loops(key)) < 1e-12
  assert difference_from_loops(grown, by_loops(another)) > 1e-6
  if name == "kuhn_poker":  # the other game's tree is soon whole
    other = dataclasses.replace(search, puct=50.0)
    assert difference_from_loops(grown, by_loops(key, other)) > 1e-6


def solved(tree, updates, **arguments):
  return solvers.solve(tree, algorithm=AT_ONCE, num_iterations=2 * updates, **arguments)


@pytest.mark.parametrize(
  ("name", "alternating"),
  [("kuhn_poker", True), ("rock_paper_scissors", False)],
)
def test_all_of_a_tree_is_plain_cfr(name, alternating, x64):
  """Of both players at once, or in turn; control: the other way."""
  _, tree, info = setting(name)
  search = GTCFR(simulations=0, updates=20, whole=True, alternating=alternating)
  found = solvers.gt_cfr(tree, info, search=search, key=KEY)
  in_turn = solvers.solve(tree, algorithm=solvers.cfr_plus(averaging=1.0), num_iterations=40)
  plain, other = (in_turn, solved(tree, 20))[:: 1 if alternating else -1]
  np.testing.assert_allclose(found.average_policy, plain.average_policy, atol=1e-12)
  np.testing.assert_allclose(found.root_values, plain.root_values, atol=1e-12)
  assert np.abs(np.asarray(found.average_policy) - other.average_policy).max() > 1e-3


@pytest.mark.parametrize(
  ("mix", "promised", "believed", "low", "high"),
  [
    (0.0, (0.0, 0.5), (0.6, 0.4), 0.74, 0.76),
    (1.0, (0.0, 0.5), (0.6, 0.4), 0.24, 0.505),
    (0.2, (0.5, -0.5), (0.51, 0.49), -0.01, 0.01),
    (0.0, (0.5, -0.5), (0.51, 0.49), 0.74, 0.76),
  ],
)
def test_promises_hold_however_ranges_are_mixed(mix, promised, believed, low, high):
  """By what player 0 gets if player 1 answers Play by them (section 1.4's table)."""
  game = games.make("coin_toss")
  tree = games.build_public_tree(game)
  play = int(np.flatnonzero(tree.kind == 1)[0])  # where player 1 moves
  answer = solvers.solve(
    games.build_public_tree(game, root=tree.history(play)),
    algorithm=solvers.with_gadget(AT_ONCE, ContinualResolve(1, mix)),
    num_iterations=4_000,
    beliefs=np.array([[0.5, 0.5], [1.0, 0.0]]),
    alternatives=solvers.Alternatives(np.array(promised), beliefs=np.array(believed)),
  ).average_policy
  payoffs = np.array([[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
  assert low <= np.maximum(payoffs @ np.asarray(answer)[1:, 0], [0.5, -0.5]).mean() <= high


@pytest.mark.parametrize("mix", [0.2, pytest.param(0.0, marks=pytest.mark.slow)])
def test_own_chains_are_sound(mix):
  """Within 1.5 times plain CFR; without a gadget several times worse."""
  game, tree, _ = setting("kuhn_poker", np.float32)
  plain = float(solvers.exploitability(tree, solved(tree, 100).average_policy))
  search = GTCFR(simulations=0, updates=100, whole=True, mix=mix)
  (policy,) = solvers.resolved_policies(game, tree, search=search, batch_size=4)
  found = float(solvers.exploitability(tree, policy))
  assert found < 1.5 * plain if mix else found > 3 * plain


@pytest.mark.parametrize(("number", "device"), [(9, "cpu"), (300, "cpu"), (300, "accelerator")])
def test_only_what_is_wanted_is_answered(number, device, request):
  request.getfixturevalue(device)
  rng = np.random.default_rng(0)
  calls = []

  def function(params, query):
    calls.append(len(query.beliefs))
    rows = query.beliefs * params + query.features[:, None]
    return StateAnswer(rows, rows[:, :1])

  beliefs = jnp.asarray(rng.random((3, number, 2, 2)), jnp.float32)
  features = jnp.asarray(rng.random((number, 2)), jnp.float32)
  wanted = jnp.asarray(rng.random((3, number)) < 0.5)
  ask = functools.partial(ask_some, function)
  expected = np.where(wanted[:, :, None, None], beliefs * 2.0 + features[:, None], 0.0)
  alone = jax.jit(ask)(2.0, StateQuery(features, beliefs[0]), wanted[0])
  np.testing.assert_allclose(alone.values, expected[0], rtol=1e-6)
  axes = (None, StateQuery(None, 0), 0)
  lanes = jax.jit(jax.vmap(ask, in_axes=axes))(2.0, StateQuery(features, beliefs), wanted)
  np.testing.assert_allclose(lanes.values, expected, rtol=1e-6)
  each = jax.jit(jax.vmap(ask, in_axes=(0, StateQuery(None, 0), 0)))
  own = each(jnp.array([1.0, 2.0, 3.0]), StateQuery(features, beliefs), wanted)
  np.testing.assert_allclose(own.values[1], expected[1], rtol=1e-6)
  assert np.abs(np.asarray(own.values) - expected).max() > 0.1
  # Of three lanes an accelerator answers all rows at once, and so does a CPU if they are few.
  assert (max(calls) < 3 * number) == (number == 300 and device == "cpu")


def test_games_go_on_by_the_policy_and_the_deal():
  game, tree, _ = setting("kuhn_poker", np.float32)
  rules = jax.tree.map(jnp.asarray, tree_ground(game, tree).rules)
  slots = np.asarray(rules.tables.info.child)
  rng = np.random.default_rng(4)
  policy = rng.random((tree.num_nodes, tree.num_infostates)).astype(np.float32)
  kinds, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  for node in np.flatnonzero(kinds < games.CHANCE):
    kids = slots[node][slots[node] >= 0]
    policy[kids] /= policy[kids].sum(axis=0)

  @jax.jit
  @functools.partial(jax.vmap, in_axes=(0, None))
  def play(key, exploration):
    standing, over = deal(rules, key), jnp.zeros((), bool)
    for step in range(3):
      rows = jnp.asarray(policy)[rules.tables.info.child[standing.here.state[0]]]
      key_now = jax.random.fold_in(key, step)
      new, ends = play_on(rules, standing, rows, key_now, exploration=exploration)
      standing = jax.tree.map(lambda x, y, over=over: jnp.where(over, x, y), standing, new)
      over |= ends
    return standing.here.state[0], standing.hands

  ends, hands = (np.asarray(x) for x in play(jax.random.split(KEY, 20_000), 0.0))
  assert (kinds[ends] == games.TERMINAL).all()
  assert (hands[:, 0] != hands[:, 1]).all()
  expected = np.zeros(tree.num_nodes)
  for end in np.flatnonzero(kinds == games.TERMINAL):
    for mine, yours in np.argwhere(~np.eye(3, dtype=bool)):
      likely, node = 1 / 6, end
      while node > 0:
        mover = kinds[parent[node]]
        likely *= policy[node, (mine, yours)[mover]]
        node = parent[node]
      expected[end] += likely
  shares = np.bincount(ends, minlength=tree.num_nodes) / len(ends)
  np.testing.assert_allclose(shares, expected, atol=0.012)
  explored, _ = play(jax.random.split(KEY, 20_000), 0.9)
  others = np.bincount(np.asarray(explored), minlength=tree.num_nodes) / len(ends)
  assert np.abs(others - expected).max() > 0.03


def judges(tree, info, table):
  """Returns a judgement of public belief states, and the features that it sees."""
  seen = np.random.default_rng(0).normal(size=(2, tree.num_nodes, 1))  # each player's own
  info = info._replace(features=seen)
  table.tables = table.tables._replace(info=info)

  def worth(features, ours, other):
    return 0.3 * features * (1.0 + ours) + ours - (other**2).sum(axis=1)[:, None]

  def states(params, query):
    first, second = query.beliefs[:, 0], query.beliefs[:, 1]
    both = [worth(query.features, first, second), worth(query.features, second, first)]
    logits = jnp.sin(9 * query.features * (1 + jnp.arange(table.num_actions)))[:, :, None]
    return StateAnswer(jnp.stack(both, axis=1), logits + jnp.zeros(tree.num_infostates))

  return info, states


def difference(marked, grown):
  """Returns the largest difference of marked and inserted searches, infinite if of other nodes."""
  there = np.asarray(grown.present)
  nodes = np.asarray(grown.tree.state)[there, 0]
  if set(nodes.tolist()) != set(np.flatnonzero(np.asarray(marked.present)).tolist()):
    return np.inf
  pairs = [(marked.root_values, grown.root_values)]
  for name in ("average_policy", "values", "reach"):
    ours, theirs = (np.asarray(getattr(x, name)) for x in (marked, grown))
    pairs.append((ours[..., nodes, :], theirs[..., there, :]))
  pairs += [(marked.visits[nodes], grown.visits[there]), (marked.policy, grown.policy)]
  pairs.append((np.asarray(marked.known)[:, nodes] * 1.0, np.asarray(grown.known)[:, there] * 1.0))
  return max(np.abs(np.asarray(a) - b).max() for a, b in pairs)


STORES = [
  ("kuhn_poker", 1, GTCFR(simulations=40, per_update=2, children=1, alternating=True), True),
  ("kuhn_poker", None, GTCFR(simulations=30), True),
  ("leduc_poker", 4, GTCFR(simulations=30), True),
  ("leduc_poker", None, GTCFR(simulations=40, children=2), False),
  ("leduc_poker", None, GTCFR(10, per_update=0.25, selection="average"), True),
]


@pytest.mark.parametrize(("name", "level", "search", "leaves"), slow(STORES, *STORES[1:]))
def test_both_stores_find_the_same(name, level, search, leaves, x64):
  """Digit by digit, from the start or with promises; controls: another key, less promised."""
  game, tree, info = setting(name)
  table, network = games.tabulate(game, tree), None
  if leaves:
    info, network = judges(tree, info, table)
  how = dict(search=search, network=network)
  here, start, promised, less = {}, {}, {}, {}
  root = current = 0
  if level is not None:
    later = np.arange(tree.num_nodes) >= tree.structure.offsets[level]
    root = int(np.flatnonzero(later & (tree.kind < games.CHANCE))[0])
    below = np.flatnonzero((tree.parent == root) & (tree.kind != games.TERMINAL))
    current = int(below[0]) if len(below) else root
    path = [int(tree.action[current])] if current != root else []
    rng, possible = np.random.default_rng(2), possible_of(tree)[root]
    searcher = int(tree.kind[root])
    beliefs = rng.random(possible.shape) * possible
    beliefs /= beliefs.sum(axis=1, keepdims=True)
    values, others = rng.normal(size=tree.num_infostates), beliefs[1 - searcher]
    promised, less = (
      {"alternatives": solvers.Alternatives(x, beliefs=others)} for x in (values, values - 1.0)
    )
    how |= dict(beliefs=beliefs, searcher=searcher)
    here = dict(root=root, current=current)
    start = dict(root=np.array([root], np.int32), possible=possible, path=path)
  marked = solvers.gt_cfr(tree, info, key=KEY, **here, **promised, **how)
  grown = solvers.gt_cfr(table, key=KEY, **start, **promised, **how)
  assert difference(marked, grown) < 1e-12
  assert int(grown.tree.lost) == 0
  assert int(grown.tree.state[grown.current, 0]) == current
  key = KEY if less else jax.random.key(4)
  other = solvers.gt_cfr(table, key=key, **start, **less, **how)
  assert difference(marked, other) > 1e-6


def likes(seed):
  """Returns a network for tic-tac-toe that prefers some squares, and values marks on others."""

  def network(params, query):
    worth = jnp.tanh(query.features @ params["values"])[:, None]
    logits = query.features @ params["logits"]
    return StateAnswer(jnp.stack([worth, -worth], axis=1), logits[:, :, None])

  rng = np.random.default_rng(seed)
  return network, {"values": rng.normal(size=18), "logits": rng.normal(size=(18, 9))}


def test_states_of_one_infostate_are_asked_once(x64, monkeypatch):
  game, search, (network, params) = games.TicTacToe(), GTCFR(simulations=60, children=1), likes(0)
  given = jnp.asarray(game.initial_state()), np.ones((2, 1), bool), jnp.zeros(0, int)
  start = ByRules(*given, jnp.ones((2, 1)), None, game, 120)

  def found(params, network=network):
    return grow(start, KEY, params, search.rounds, search.of_any_length(), network=network)

  once, other = found(params), found(likes(1)[1])
  monkeypatch.setattr(InsertedTree, "asks_once", False)
  again = found(params, likes(0)[0])  # another function, so that it is traced again
  for name in ("average_policy", "root_values", "visits", "values"):
    np.testing.assert_allclose(getattr(once, name), getattr(again, name), atol=1e-12)
  np.testing.assert_array_equal(once.tree.state, again.tree.state)
  asked = int(once.tree.count) - 1  # the last node joined after the last update
  np.testing.assert_allclose(once.tree.prior[:asked], again.tree.prior[:asked], atol=1e-12)
  logits = np.asarray(once.tree.features[1]) @ params["logits"]
  expected = np.exp(logits) * np.asarray(once.tree.legal[1])
  np.testing.assert_allclose(once.tree.prior[1, :, 0], expected / expected.sum(), atol=1e-12)
  assert np.abs(np.asarray(other.root_values) - once.root_values).max() > 1e-3


def test_many_children_are_written_some_at_a_time(monkeypatch):
  """Control: a block left out leaves places empty."""

  def grown(at_once):
    monkeypatch.setattr(tree_module, "_AT_ONCE", at_once)
    game = games.TicTacToe()

    @jax.jit
    def grow():
      tree = plant(game, game.initial_state(), np.ones((2, 1), bool), 20, float)
      tree, first = insert(tree, jnp.zeros((), int), tree.legal[0], 9)
      tree, second = insert(tree, jnp.array(3), tree.legal[3], 9)
      return tree, (first, second)

    return grow()

  whole = grown(9)
  for at_once in (4, 1):
    chex.assert_trees_all_equal(grown(at_once), whole)
  assert int(whole[0].count) == 18
  monkeypatch.setattr(tree_module, "_put_children", lambda tree, *_: tree)
  assert (grown(4)[0].kind != whole[0].kind).any()


def below(tree, node):
  """Says which nodes are below one, itself counted: `[N]`."""
  found = np.arange(tree.num_nodes) == node
  for child in range(node + 1, tree.num_nodes):
    found[child] = found[tree.parent[child]]
  return found


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_searches_start_at_the_last_state_of_which_the_search_before_knew_promises(name, x64):
  game, tree, _ = setting(name)
  table = games.tabulate(game, tree)
  start_of = jax.jit(lambda *x: next_start(table, *x))
  rng, places = np.random.default_rng(0), jnp.asarray(table.tables.info.child)
  decisions = np.flatnonzero(tree.kind < games.CHANCE)
  last = next(n for n in decisions if (below(tree, n) & (tree.kind == tree.kind[n])).sum() > 1)
  own = below(tree, last) & (tree.kind == tree.kind[last])
  current, searcher = int(np.flatnonzero(own)[-1]), int(tree.kind[last])
  since = np.full(longest_wait(table), -1, np.int32)
  taken = list(tree.history(current)[len(tree.history(last)) :])
  since[: len(taken)] = taken
  way = [last]
  for action in taken:
    way.append(int(table.tables.info.child[way[-1], action]))
  assert way[-1] == current
  for depth, root in enumerate(way):
    known = np.zeros((2, tree.num_nodes), bool)
    known[1 - searcher, way[: depth + 1]] = known[searcher] = True
    values = rng.normal(size=(2, tree.num_nodes, tree.num_infostates))
    reach = rng.random(values.shape) * np.swapaxes(possible_of(tree), 0, 1)
    here = PublicState(jnp.array([last], jnp.int32), jnp.asarray(possible_of(tree)[last]))
    left = Left(np.int32(last), here, None, values, reach, known)
    start = start_of(left, places, here, since, searcher)
    assert int(start.root.state[0]) == root
    assert [x for x in np.asarray(start.path) if x >= 0] == taken[depth:]
    np.testing.assert_array_equal(start.root.possible, possible_of(tree)[root])
    np.testing.assert_array_equal(start.promises.given, np.arange(2) == 1 - searcher)
    np.testing.assert_allclose(start.promises.values[1 - searcher], values[1 - searcher, root])
    ranges = reach[:, root] / reach[:, root].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(start.beliefs[searcher], ranges[searcher])
    np.testing.assert_allclose(start.promises.beliefs[1 - searcher], ranges[1 - searcher])
    even = possible_of(tree)[root, 1 - searcher] / possible_of(tree)[root, 1 - searcher].sum()
    np.testing.assert_allclose(start.beliefs[1 - searcher], even)


@pytest.mark.parametrize("name", slow(["kuhn_poker", "leduc_poker"], "leduc_poker"))
def test_best_responses_are_those_in_the_tree(name, x64):
  """Control: the same answers to another policy."""
  game, tree, _ = setting(name)
  table = games.tabulate(game, tree)
  histories, rng = public_histories(table), np.random.default_rng(0)
  assert len(histories.kind) == tree.num_nodes
  found = []
  for _ in range(2):
    weights = rng.random(histories.moves.shape) * (histories.moves >= 0)
    policy = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    rows = np.ones((tree.num_nodes, tree.num_infostates))
    for node in np.flatnonzero(histories.kind < games.CHANCE):
      there = histories.child[node] >= 0
      rows[histories.state[histories.child[node][there], 0]] = 1.0 / there.sum()
      for move, infostate in np.argwhere(histories.moves[node] >= 0):
        after = histories.child[node, histories.moves[node, move, infostate]]
        rows[histories.state[after, 0], infostate] = policy[node, move, infostate]
    found.append((exploitability_in(histories, policy), float(solvers.exploitability(tree, rows))))
  assert found[0][0] == pytest.approx(found[0][1], abs=1e-9)
  assert found[1][0] == pytest.approx(found[1][1], abs=1e-9)
  assert abs(found[0][0] - found[1][0]) > 1e-3


def test_best_responses_to_hidden_moves(x64):
  game = games.RockPaperScissors()
  histories = public_histories(game)
  assert len(histories.kind) == 5
  policy = np.zeros(histories.moves.shape)
  policy[0, :, 0] = [0.5, 0.25, 0.25]  # where player 0 moves, unseen
  policy[1, :, 0] = [1.0, 0.0, 0.0]
  worth = [best_response_worth(histories, policy, p) for p in (0, 1)]
  # Against rock, paper wins 1. Against the others, each answer wins what its column says.
  assert worth[0] == pytest.approx(game.matrix[:, 0].max())
  assert worth[1] == pytest.approx((-policy[0, :, 0] @ game.matrix).max())
  solved = Solved(game, game.prior(), 50)
  whole = np.zeros(histories.moves.shape)
  for node in range(int(solved.tree.count)):
    place = np.flatnonzero((histories.state == np.asarray(solved.tree.state)[node]).all(axis=1))
    whole[place[0]] = solved.policy[node]
  found = [best_response_worth(histories, whole, p) for p in (0, 1)]
  np.testing.assert_allclose(found, solved.best, atol=1e-9)
  assert abs(found[0] - worth[0]) > 1e-3


def call(**arguments):
  right = dict(rules=games.TicTacToe(), search=GTCFR(simulations=2), key=KEY)
  solvers.gt_cfr(**(right | arguments))


test_settings_and_calls_are_checked = refused(
  (lambda: GTCFR(simulations=5, per_update=2), "must be a multiple"),
  (lambda: GTCFR(simulations=0), "updates=None"),
  (lambda: GTCFR(mix=1.5), "mix=1.5"),
  (lambda: call(rules=games.TicTacToe), "must be a games.Game"),
  (lambda: call(capacity=9), "capacity=9 must have room"),
  (lambda: call(search=GTCFR(simulations=0, updates=1, whole=True)), "whole is not for games"),
  (lambda: call(root=np.zeros(9, int)), "beliefs=None"),
)
