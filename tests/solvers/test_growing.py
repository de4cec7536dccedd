"""Growing-tree CFR: plain CFR where all is there, walks as computed by hand, re-solving."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.public_tree import largest_payoff
from solvers import GTCFR, ContinualResolve
from solvers.growing.choose import NUMBERS, Numbers, Rules, in_rounds
from solvers.growing.marked import plant_marked
from solvers.growing.marked_problem import marked_problem
from solvers.growing.simulate import Growth, View, sample_pair, simulate
from tests import harness
from tests.solvers.test_locks import random_policy

AT_ONCE = solvers.cfr_plus(averaging=1.0, alternating=False)
KEY = jax.random.key(0)


def setting(name, dtype=np.float64, **parameters):
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game).astype(dtype)
  return game, tree, solvers.node_info(game, tree)


def guess(params, query):
  """Returns values that depend on beliefs and features, so that queries must be right."""
  del params
  ours, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
  return 0.3 * query.features.sum(axis=1)[:, None] + ours - (other**2).sum(axis=1)[:, None]


@jax.jit
def whole_problem(tree, info):
  everywhere = jnp.ones(tree.num_nodes, bool)
  return marked_problem(tree, info, jnp.asarray(0), tree.prior, everywhere)


def solved(tree, updates, **arguments):
  return solvers.solve(tree, algorithm=AT_ONCE, num_iterations=2 * updates, **arguments)


@pytest.mark.parametrize(
  ("name", "alternating"),
  [
    ("kuhn_poker", False),
    ("kuhn_poker", True),
    ("rock_paper_scissors", False),
    pytest.param("leduc_poker", False, marks=pytest.mark.slow),
    pytest.param("leduc_poker", True, marks=pytest.mark.slow),
  ],
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


@pytest.mark.parametrize("name", ["kuhn_poker", pytest.param("liars_dice", marks=pytest.mark.slow)])
def test_without_simulations_it_is_cfr_d(name, x64):
  """Of depth 1, its leaves asked at the current beliefs."""
  parameters = {"num_dice": 1, "num_faces": 3} if name == "liars_dice" else {}
  game, tree, info = setting(name, **parameters)
  part = games.build_public_tree(game, depth=1).astype(np.float64)
  found = solvers.gt_cfr(
    tree, info, search=GTCFR(simulations=0, updates=15), key=KEY, leaf_values=guess
  )
  plain = solved(part, 15, leaf_values=guess)
  moves = solvers.Placer(tree).places(part)
  np.testing.assert_allclose(
    np.asarray(found.average_policy)[moves], plain.average_policy, atol=1e-12
  )
  assert int(found.present.sum()) == part.num_nodes


@pytest.mark.parametrize(
  ("name", "level", "parameters"),
  [
    ("kuhn_poker", 1, {}),
    pytest.param("leduc_poker", 3, {}, marks=pytest.mark.slow),
    ("river_endgame_holdem", 1, {"ranks": "TJQKA", "suits": "shd", "board": "QsKsAsAhAd"}),
    pytest.param("small_holdem", 3, {"ranks": "TJQK", "suits": "shd"}, marks=pytest.mark.slow),
  ],
)
def test_any_node_may_be_the_root(name, level, parameters, x64):
  """Of a tree of the whole game: policies, values and reach are those of the subgame's own tree."""
  game, tree, info = setting(name, **parameters)
  here = np.arange(tree.num_nodes) >= tree.structure.offsets[level]
  node = int(np.flatnonzero(here & (tree.kind < games.CHANCE))[0])
  below = games.build_public_tree(game, root=tree.history(node)).astype(np.float64)
  beliefs = harness.random_beliefs(np.random.default_rng(1), harness.root_possible(below))
  search = GTCFR(simulations=0, updates=12, whole=True)
  found = solvers.gt_cfr(tree, info, search=search, key=KEY, root=node, beliefs=beliefs)
  plain = solved(below, 12, beliefs=beliefs)
  places = solvers.Placer(tree).places(below, node)
  np.testing.assert_allclose(
    np.asarray(found.average_policy)[places][1:], np.asarray(plain.average_policy)[1:], atol=1e-9
  )
  met = np.asarray(plain.root_values) != 0
  np.testing.assert_allclose(
    np.asarray(found.root_values)[met], np.asarray(plain.root_values)[met], atol=1e-9
  )
  outside = np.setdiff1d(np.arange(tree.num_nodes), places)
  assert not np.asarray(found.present)[outside].any()
  other = solvers.gt_cfr(
    tree, info, search=search, key=KEY, root=node, beliefs=beliefs[:, ::-1].copy()
  )
  assert np.abs(np.asarray(other.root_values) - found.root_values).max() > 1e-3


def test_trees_grow_by_whole_leaves():
  _, tree, info = setting("liars_dice", np.float32, num_dice=1, num_faces=2)
  sizes = []
  for simulations in (2, 4, 8):
    found = solvers.gt_cfr(tree, info, search=GTCFR(simulations=simulations), key=KEY)
    present, parent = np.asarray(found.present), np.asarray(tree.parent)
    assert present[0]
    assert present[parent[1:]][present[1:]].all()
    counts = np.bincount(parent[1:], minlength=tree.num_nodes)
    there = np.bincount(parent[1:][present[1:]], minlength=tree.num_nodes)
    assert np.isin(there, [0]).sum() + (there == counts)[there > 0].sum() == tree.num_nodes
    assert not np.asarray(found.average_policy)[~present].any()
    assert not np.asarray(found.visits)[~present].any()
    sizes.append(present.sum())
  assert sizes[0] < sizes[1] < sizes[2] < tree.num_nodes
  one = solvers.gt_cfr(tree, info, search=GTCFR(simulations=8, children=1), key=KEY)
  assert one.present.sum() < sizes[2]
  others = solvers.gt_cfr(tree, info, search=GTCFR(simulations=8), key=jax.random.key(1))
  assert (np.asarray(others.present) != present).any()


def test_values_are_known_of_nodes_that_were_there_in_an_update():
  """Not of those that the last simulation added: nothing was learned of them."""
  _, tree, info = setting("liars_dice", np.float32, num_dice=1, num_faces=2)
  inner = np.asarray(tree.kind) <= games.CHANCE
  found = [solvers.gt_cfr(tree, info, search=GTCFR(simulations=n), key=KEY) for n in range(1, 9)]
  number = 0
  for before, after in itertools.pairwise(found):
    joined = np.asarray(after.present) & ~np.asarray(before.present) & inner
    known = np.asarray(after.known).any(axis=0)
    assert not known[joined].any()
    assert not np.asarray(after.values)[:, ~known].any()
    number += joined.sum()
  assert number > 2
  assert known.sum() > 5


def test_a_grown_tree_ends_at_an_equilibrium():
  _, tree, info = setting("kuhn_poker", np.float32)
  errors = [
    float(
      solvers.exploitability(
        tree,
        np.where(
          np.asarray(found.present)[:, None],
          found.average_policy,
          0.5,
        ),
      )
    )
    for found in (
      solvers.gt_cfr(tree, info, search=GTCFR(simulations=number), key=KEY) for number in (20, 1000)
    )
  ]
  assert errors[1] < 0.05
  assert errors[0] > 2 * errors[1]


def whole_store(tree, info, prior=None):
  """Returns the store of all nodes of a tree."""
  zero = jnp.asarray(0)
  store = plant_marked(tree, info, zero, zero, jnp.asarray(1.0), whole=True)
  return store if prior is None else dataclasses.replace(store, prior=prior)


def walk_frequencies(name, policy_seed, number, **rules):
  """Returns how often simulations make each move, and the tree, policy and sampled pairs."""
  _, tree, info = setting(name, np.float32)
  problem, store = whole_problem(tree, info), whole_store(tree, info)
  policy = jnp.asarray(random_policy(tree, np.random.default_rng(policy_seed)), tree.dtype)
  nothing = jnp.zeros_like(policy)
  zeros = jnp.zeros((tree.num_nodes, info.by_action.shape[1], tree.num_infostates))
  view = View(policy, (nothing, nothing), (nothing, nothing), zeros)
  reach = jax.jit(lambda x: problem.both_reach(problem.split(x)))(policy)
  how = Rules(**{"puct": 1.0, "puct_share": 0.0, "children": None, "scale": 1.0, **rules})

  @jax.jit
  @jax.vmap
  def run(key):
    first, second = jax.random.split(key)
    hands = sample_pair(problem, reach, jnp.asarray(0), jax.random.uniform(first, (2,)))
    numbers = jax.random.uniform(second, (tree.structure.depth, NUMBERS))
    start = Growth(store, zeros)
    grown, _ = simulate(view, start, jnp.asarray(0), hands, numbers, how)
    return hands, grown.visits

  hands, visits = (np.asarray(x) for x in run(jax.random.split(KEY, number)))
  by_child = np.zeros((number, *policy.shape))
  node, move = np.nonzero(info.by_action[:, :, 0] >= 0)
  by_child[:, info.child[node, move]] = visits[:, node, move]
  return tree, np.asarray(policy, float), hands, by_child


def test_walks_follow_the_policy_and_the_deal():
  """Their frequencies are those of enumeration, cards that exclude each other among them."""
  number = 20_000
  tree, policy, hands, visits = walk_frequencies("kuhn_poker", 3, number)
  assert (hands[:, 0] != hands[:, 1]).all()
  pairs = np.bincount(hands[:, 0] * 3 + hands[:, 1], minlength=9).reshape(3, 3) / number
  np.testing.assert_allclose(pairs, (1 - np.eye(3)) / 6, atol=0.012)
  reach = np.ones((tree.num_nodes, 2, 3))
  expected = np.zeros((tree.num_nodes, 3))
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  for node in range(1, tree.num_nodes):
    above = parent[node]
    mover = kind[above]
    reach[node] = reach[above]
    reach[node, mover] = reach[node, mover] * policy[node]
    joint = reach[node, 0][:, None] * reach[node, 1][None] * (1 - np.eye(3)) / 6
    expected[node] = joint.sum(axis=1 - mover)
  np.testing.assert_allclose(visits.mean(axis=0), expected, atol=0.012)
  assert np.abs(visits.mean(axis=0) - expected[:, ::-1]).max() > 0.05


def test_puct_takes_what_its_formula_says():
  """One row, five columns: the sequence of a plain program, virtual losses and all."""
  worth, prior = np.array([0.1, -0.3, 0.2, 0.0, 0.15]), np.array([0.2, 0.4, 0.1, 0.2, 0.1])
  game = games.make("matrix_game", payoffs=(tuple(-worth),))
  tree = games.build_public_tree(game)
  info = solvers.node_info(game, tree)
  ends = np.flatnonzero(np.asarray(tree.kind) == games.TERMINAL)
  values = np.zeros((2, tree.num_nodes, 1), np.float32)
  values[1, ends, 0] = worth
  likely = jnp.zeros((2, 5, 1)).at[1, :, 0].set(prior)
  ones = jnp.ones((2, 1))
  rules = Rules(puct=1.5, puct_share=1.0, children=None, scale=0.5)
  none = jnp.zeros((tree.num_nodes, 5, 1))
  growth = Growth(whole_store(tree, info, likely), none)
  view = View(jnp.ones((tree.num_nodes, 1)), tuple(jnp.asarray(values)), (ones, ones), none)
  counts, recent = np.zeros(5), np.zeros(5)
  hands = jnp.zeros(2, int)
  numbers = jnp.zeros((tree.structure.depth, NUMBERS))
  step = jax.jit(lambda x, view: simulate(view, x, jnp.asarray(0), hands, numbers, rules)[0])
  for number in range(30):
    if number % 10 == 0:
      view, recent = view._replace(visits=growth.visits), np.zeros(5)
    growth = step(growth, view)
    lost = (counts * worth / 0.5 - recent) / np.maximum(counts + recent, 1)
    value = np.where(recent > 0, lost, worth / 0.5)
    score = value + 1.5 * prior * np.sqrt(counts.sum()) / (1 + counts)
    counts[score.argmax()] += 1
    recent[score.argmax()] += 1
    np.testing.assert_array_equal(np.asarray(growth.visits)[1, :, 0], counts)


@pytest.mark.parametrize("rounds", [1, 40])
def test_rounds_get_the_numbers_of_their_keys(rounds):
  """Also where they are drawn in several lots; each round has its own."""
  search, steps = GTCFR(simulations=4, per_update=2), 3

  def take(numbers, carry):
    taken, kept = carry
    return taken + 1, jax.tree.map(lambda x, y: x.at[taken].set(y), kept, numbers)

  shapes = jax.eval_shape(lambda: Numbers.draw(KEY, search, steps))
  kept = jax.tree.map(lambda x: jnp.zeros((rounds + 1, *x.shape)), shapes)
  taken, kept = jax.jit(
    lambda n: in_rounds(take, (jnp.zeros((), int), kept), KEY, n, search, steps)
  )(rounds)
  assert taken == rounds
  for i in {0, rounds - 1}:
    keys = jax.random.split(jax.random.fold_in(KEY, i), 3)
    for key, found in zip(keys, kept):
      np.testing.assert_array_equal(found[i], jax.random.uniform(key, found.shape[1:]))
  assert all((x[rounds] == 0).all() for x in kept)
  if rounds > 1:
    assert (kept.pairs[0] != kept.pairs[rounds - 1]).any()


@pytest.mark.parametrize("name", ["kuhn_poker", "rock_paper_scissors"])
def test_a_mover_expects_values_by_the_mass_that_it_meets(name):
  """Where the game is over, by that of the node above, in the infostates that it came from."""
  _, tree, info = setting(name, np.float32)
  rows, h = np.asarray(whole_problem(tree, info).rows).tolist(), tree.num_infostates
  rng, store = np.random.default_rng(0), whole_store(tree, info)
  values = jnp.asarray(rng.normal(size=(2, tree.num_nodes, h)), jnp.float32)
  mass = jnp.asarray(rng.integers(0, 3, size=(2, len(rows), h)), jnp.float32)
  view = View(values[0], tuple(values), tuple(mass), jnp.zeros(()))
  for node in np.flatnonzero(np.asarray(tree.kind) < games.CHANCE):
    player = int(tree.kind[node])
    for held in range(h):
      found = jax.tree.map(np.asarray, store.moves(jnp.asarray(node), jnp.asarray(held)))
      met = found.met_row, found.met_column
      below = view.expected(jnp.asarray(player), (found.row, found.column), met)
      assert rows[int(found.here)] == node
      for m in np.flatnonzero(found.open):
        kid = info.child[node, found.action[m]]
        k = found.leads_to[m]
        place = (rows.index(kid), k) if kid in rows else (rows.index(node), held)
        expected = values[player, kid, k] / mass[player][place] if mass[player][place] else 0.0
        assert float(below[m]) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("tables", [1, 4])
def test_one_leaf_alone_meets_what_it_meets_among_all(tables):
  _, tree, info = setting("kuhn_poker", np.float32)
  pairs = whole_problem(tree, info).pairs.by_level
  rng = np.random.default_rng(0)
  reach = jnp.asarray(rng.random((4, 3)), tree.dtype)
  pairs = pairs._replace(leaf_weights=jnp.asarray(rng.random((tables, 3, 3)), tree.dtype))
  for player in (0, 1):
    among = pairs.compatible_mass(reach, player)
    alone = [pairs.at_leaf(row).compatible_mass(reach[row][None], player)[0] for row in range(4)]
    np.testing.assert_allclose(alone, among, rtol=1e-6)
    wrong = pairs.at_leaf(0).compatible_mass(reach[3:], player)[0]
    assert (np.abs(wrong - among[3]).max() > 0.01) == (tables > 1)


def test_children_are_those_of_the_tree():
  _, tree, info = setting("leduc_poker", np.float32)
  for node in (0, 1, 7):
    kids = info.child[node][info.child[node] >= 0]
    np.testing.assert_array_equal(np.sort(kids), np.flatnonzero(np.asarray(tree.parent) == node))
    np.testing.assert_array_equal(tree.action[kids], np.flatnonzero(info.child[node] >= 0))
  assert float(largest_payoff(tree)) == pytest.approx(13, rel=1e-5)


def coin_toss_answer(mix, promised, believed, gadget=ContinualResolve):
  """Returns player 1's answers to Play, and what player 0 then gets (section 1.4's table)."""
  game = games.make("coin_toss")
  tree = games.build_public_tree(game)
  below = games.build_public_tree(game, root=tree.history(_play(tree)))
  algorithm = solvers.with_gadget(AT_ONCE, gadget(1, mix))
  answer = solvers.solve(
    below,
    algorithm=algorithm,
    num_iterations=4_000,
    beliefs=np.array([[0.5, 0.5], [1.0, 0.0]]),
    alternatives=solvers.Alternatives(np.array(promised), beliefs=np.array(believed)),
  ).average_policy
  answers = np.asarray(answer)[1:, 0]
  payoffs = np.array([[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
  return answers, float(np.maximum(payoffs @ answers, [0.5, -0.5]).mean())


def _play(tree):
  """Returns the node after Play: the one at which player 1 moves."""
  return int(np.flatnonzero(np.asarray(tree.kind) == 1)[0])


@pytest.mark.parametrize(
  ("mix", "promised", "believed", "low", "high"),
  [
    (0.0, (0.0, 0.5), (0.6, 0.4), 0.74, 0.76),
    (1.0, (0.0, 0.5), (0.6, 0.4), 0.24, 0.505),
    (0.2, (0.0, 0.5), (0.6, 0.4), 0.24, 0.51),
    (0.2, (0.5, -0.5), (0.51, 0.49), -0.01, 0.01),
    (0.0, (0.5, -0.5), (0.51, 0.49), 0.74, 0.76),
  ],
)
def test_promises_hold_however_ranges_are_mixed(mix, promised, believed, low, high):
  _, worth = coin_toss_answer(mix, promised, believed)
  assert low <= worth <= high


def test_control_raw_frequencies_are_drowned():
  """A mixture with frequencies that are no distribution is no safer than none."""

  @dataclasses.dataclass(frozen=True)
  class Drowned(ContinualResolve):
    def entry(self, problem, state):
      opponent = 1 - self.searcher
      root, believed = problem.root_beliefs(opponent), problem.alternatives.beliefs
      mixed = self.mix * self.follows(state) * root + (1 - self.mix) * believed
      return mixed / root

  answers, worth = coin_toss_answer(0.2, (0.0, 0.5), (0.6, 0.4), Drowned)
  assert worth > 0.7, answers


def composed(name, updates, **how):
  game, tree, _ = setting(name, np.float32)
  mix = how.pop("mix", 0.2)
  policies = solvers.resolved_policies(
    game, tree, search=GTCFR(simulations=0, updates=updates, whole=True, mix=mix), **how
  )
  return float(solvers.exploitability(tree, policies[0]))


@pytest.mark.parametrize("mix", [0.2, pytest.param(0.0, marks=pytest.mark.slow)])
def test_own_chains_are_sound(mix):
  """Within 1.5 times plain CFR; without a gadget several times worse."""
  _, tree, _ = setting("kuhn_poker", np.float32)
  plain = float(solvers.exploitability(tree, solved(tree, 100).average_policy))
  found = composed("kuhn_poker", 100, batch_size=4, mix=mix)
  assert found < 1.5 * plain if mix else found > 3 * plain


@pytest.mark.slow
def test_chains_of_leduc():
  """Section 1.4's table: own chains fall with more updates, the others do not."""
  _, tree, _ = setting("leduc_poker", np.float32)
  own, plain = {}, {}
  for updates in (100, 300):
    plain[updates] = float(solvers.exploitability(tree, solved(tree, updates).average_policy))
    own[updates] = composed("leduc_poker", updates)
    assert own[updates] < 1.5 * plain[updates]
  assert own[300] < 0.6 * own[100]
  assert composed("leduc_poker", 100, mix=0.0) > 0.3
  single = [composed("leduc_poker", updates, chain="single", mix=1.0) for updates in (100, 300)]
  assert min(single) > 3 * plain[100]


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["own", "single"])
def test_searches_that_grow_play_whole_games(chain):
  """States that the last tree lacks are searched from the deepest one that it holds."""
  game, tree, _ = setting("kuhn_poker", np.float32)
  policies = solvers.resolved_policies(
    game, tree, search=GTCFR(simulations=6), seeds=(0, 1), chain=chain, batch_size=8
  )
  for policy in policies:
    assert float(solvers.exploitability(tree, policy)) < 0.6
  assert np.abs(policies[0] - policies[1]).max() > 1e-3


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"simulations": 5, "per_update": 2}, "must be a multiple"),
    ({"per_update": 0.3}, "one over one"),
    ({"simulations": 0}, "updates=None"),
    ({"updates": 3}, "updates=3"),
    ({"mix": 1.5}, "mix=1.5"),
    ({"selection": "best"}, "selection='best'"),
    ({"children": 0}, "children=0"),
  ],
)
def test_settings_are_checked(arguments, message):
  with pytest.raises(ValueError, match=message):
    GTCFR(**arguments)


def test_calls_are_checked():
  game, tree, info = setting("kuhn_poker", np.float32)
  search = GTCFR(simulations=2)
  with pytest.raises(ValueError, match="give both, or neither"):
    solvers.gt_cfr(tree, info, search=search, key=KEY, searcher=0)
  with pytest.raises(TypeError, match="search=3"):
    solvers.gt_cfr(tree, info, search=3, key=KEY)
  with pytest.raises(ValueError, match="chain='any'"):
    solvers.resolved_policies(game, tree, search=search, chain="any")
