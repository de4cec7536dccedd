"""Safe subgame solving: Coin Toss as printed, the theorems as inequalities, what breaks them."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import games
import solvers
from benchmarks.studies import family_parts
from solvers import Alternatives, Maxmargin, Resolve
from solvers.contrib import Distributional
from solvers.contrib.distributional import mean_sigmoid
from solvers.search.batch import search_batch
from tests.random_game import RandomGame
from tests.sentences import refused
from tests.trees import children_of, random_policy


def coin_toss(answers=(0.5, 0.25, 0.25), play=(0.75, 0.5), **parameters):
  """Returns the game, its tree and the blueprint of the thesis's Figure 5.2 (or another)."""
  game = games.make("coin_toss", **parameters)
  tree = games.build_public_tree(game)
  child, policy = children_of(tree), np.ones((tree.num_nodes, 2))
  policy[child[0, 4]], policy[child[0, 3]] = play, 1 - np.array(play)
  guesses = np.flatnonzero(tree.kind == 1)
  for node in guesses:
    for answer, often in enumerate(answers):
      policy[child[int(node), answer]] = often
  return game, tree, policy, guesses


def refined(setting, gadget=None, num_iterations=4096, **arguments):
  """Returns what player 0 gets against the refined player 1, and how it answers Play."""
  game, tree, policy, guesses = setting
  new = solvers.refine(
    game, tree, policy, searcher=1, gadget=gadget, num_iterations=num_iterations, **arguments
  )
  child = children_of(tree)
  answers = [new[child[int(guesses[0]), answer], 0] for answer in range(3)]
  return float(solvers.best_response_values(tree, new)[0]), np.array(answers)


def known_of(setting, **changes):
  game, tree, policy, _ = setting
  return solvers.blueprint_values(game, tree, policy, searcher=1)._replace(**changes)


def test_coin_toss_as_printed(x64):
  """Thesis, sections 5.1.1 to 5.1.4: each method's answer and what it then loses."""
  setting = coin_toss()
  _, tree, policy, (guess,) = setting
  assert float(solvers.best_response_values(tree, policy)[0]) == pytest.approx(0.5)
  known = known_of(setting)
  np.testing.assert_allclose(known.value[guess], [0.0, 0.5], atol=1e-12)
  np.testing.assert_allclose(known.gift[guess], [0.5, 0.0], atol=1e-12)

  lost, answers = refined(setting)
  assert lost == pytest.approx(0.75, abs=2e-3)
  np.testing.assert_allclose(answers, [1, 0, 0], atol=2e-3)
  lost, _ = refined(setting, Resolve(1))
  assert 0.25 - 2e-3 <= lost <= 0.5 + 2e-3
  lost, answers = refined(setting, Maxmargin(1))
  assert lost == pytest.approx(0.375, abs=2e-3)
  np.testing.assert_allclose(answers, [5 / 8, 3 / 8, 0], atol=2e-3)
  lost, answers = refined(setting, Maxmargin(1), gifts=1.0)
  assert lost == pytest.approx(0.25, abs=2e-3)
  np.testing.assert_allclose(answers, [1 / 2, 1 / 2, 0], atol=2e-3)
  optimum = known._replace(value=np.zeros_like(known.value) + np.array([0.5, -0.5]))
  for gadget in (Resolve(1), Maxmargin(1)):
    lost, answers = refined(setting, gadget, known=optimum)
    assert lost == pytest.approx(0, abs=2e-3)
    np.testing.assert_allclose(answers, [1 / 4, 3 / 4, 0], atol=2e-3)


def test_a_gift_is_shared_by_the_subgames_below_it(x64):
  """Thesis, Figure 5.4; the whole gift in each of eight subgames is worse than the blueprint."""
  two = coin_toss(answers=(0.5, 0.5, 0.0), play=(0.5, 0.5), num_subgames=2)
  np.testing.assert_allclose(known_of(two).gift[two[-1]], [[0.5, 0], [0.5, 0]], atol=1e-12)
  assert refined(two, Maxmargin(1))[0] == pytest.approx(0.25, abs=2e-3)
  assert refined(two, Maxmargin(1), gifts=1.0)[0] == pytest.approx(0.125, abs=2e-3)

  eight = coin_toss((0.5, 0.5, 0.0), (0.5, 0.5), num_subgames=8, sell=(0.25, -0.5))
  blueprint = float(solvers.best_response_values(eight[1], eight[2])[0])
  assert blueprint == pytest.approx(0.125)
  assert refined(eight, Maxmargin(1), gifts=1.0)[0] <= blueprint + 2e-3
  assert refined(eight, Maxmargin(1), gifts=8.0)[0] > blueprint + 0.1


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("spread", [(0.1, 0.1), (0.5, 2.0)])
def test_distributional_coin_toss(spread, softmax, x64):
  """Theorem 22: margins in units of their spreads are balanced, (1 - 2h) / s = (2h - 1.5) / t."""
  setting = coin_toss()
  heads, tails = spread
  wanted = (tails + 1.5 * heads) / (2 * (heads + tails))
  known = known_of(setting)
  known = known._replace(spread=np.zeros_like(known.value) + np.array(spread))
  _, answers = refined(setting, Distributional(1, softmax), known=known)
  assert answers[0] == pytest.approx(wanted, abs=5e-3)
  # Control: the spread is what does it.
  other = known._replace(spread=known.spread[:, ::-1])
  if heads != tails:
    _, answers = refined(setting, Distributional(1, softmax), known=other)
    assert abs(answers[0] - wanted) > 0.02


CASES = {
  "kuhn": (games.make("kuhn_poker"), 1),
  "dice": (games.make("liars_dice", num_dice=1, num_faces=3), 2),
  "random": (RandomGame(38, depth=3), 2),
  "leduc": (games.make("leduc_poker"), "chance"),
}


@functools.cache
def tree_of(case):
  """Returns the tree in doubles, of a test that asks for them."""
  return games.build_public_tree(CASES[case][0])


@functools.cache
def blueprint_of(case, kind):
  """Returns a policy to start from, and what each player's best response gets against it."""
  tree = tree_of(case)
  if kind == "random":
    policy = random_policy(tree, np.random.default_rng(0))
  else:
    solved = solvers.solve(tree, algorithm=solvers.cfr_plus(), num_iterations=int(kind))
    policy = np.asarray(solved.average_policy)
  return policy, np.asarray(solvers.best_response_values(tree, policy))


def change(case, searcher, blueprint, gadget, num_iterations=2000, **arguments):
  """Returns by how much the opponent gains more, responding best, after refining."""
  (game, cut), tree = CASES[case], tree_of(case)
  policy, before = blueprint_of(case, blueprint)
  cut = np.flatnonzero(tree.kind == games.CHANCE) if cut == "chance" else cut
  how = {"searcher": searcher, "cut": cut, "gadget": gadget, "num_iterations": num_iterations}
  new = solvers.refine(game, tree, policy, **how, **arguments)
  return float((solvers.best_response_values(tree, new) - before)[1 - searcher])


QUICK = {("kuhn", 0, "resolve"), ("kuhn", 1, "maxmargin"), ("kuhn", 1, "reach")}


@pytest.mark.parametrize(
  ("case", "searcher", "kind"),
  [
    pytest.param(*x, marks=[] if x in QUICK else pytest.mark.slow)
    for x in itertools.product(CASES, (0, 1), ("resolve", "maxmargin", "reach"))
  ],
)
def test_safe_methods_are_no_worse_than_the_blueprint(case, searcher, kind, x64):
  gadget = Resolve(searcher) if kind == "resolve" else Maxmargin(searcher)
  for blueprint in ("random", "16", "240"):
    found = change(case, searcher, blueprint, gadget, gifts=float(kind == "reach"))
    assert found <= 3e-3, blueprint
    if blueprint == "random" and case in ("kuhn", "leduc"):
      assert found < -0.1  # and from a poor blueprint it is a good deal better


@pytest.mark.slow
def test_control_unsafe_search_near_equilibrium_is_worse_than_the_blueprint(x64):
  """From a poor blueprint it is better than any safe method on Leduc, which proves nothing."""
  assert change("leduc", 0, "240", None) > 0.1
  from_random = change("leduc", 0, "random", None)
  assert from_random < min(-1.0, change("leduc", 0, "random", Maxmargin(0)))


@pytest.mark.parametrize("case", ["kuhn", pytest.param("leduc", marks=pytest.mark.slow)])
def test_margins_are_taken_off_the_exploitability(case, x64):
  """Theorem 20, for every infostate at the top of a subgame that the best response gets to."""
  (game, _), tree, (policy, _) = CASES[case], tree_of(case), blueprint_of(case, "16")
  # Kuhn poker's subgames follow its first move, Leduc poker's its public card.
  at = tree.kind == games.CHANCE if case == "leduc" else tree.parent == 0
  roots, hands = np.flatnonzero(at), tree.num_infostates
  searcher = 0
  known = solvers.blueprint_values(game, tree, policy, searcher=searcher)
  refined_policy = solvers.refine(
    game, tree, policy, searcher=searcher, cut=roots, gadget=Maxmargin(searcher), gifts=1.0,
    num_iterations=2000,
  )  # fmt: skip
  new = solvers.blueprint_values(game, tree, refined_policy, searcher=searcher)
  response = np.asarray(solvers.best_response(tree, refined_policy, 1).policy)
  own, parent = np.ones((2, tree.num_nodes, hands)), np.asarray(tree.parent)
  for node in range(1, tree.num_nodes):
    for player, rows in enumerate((refined_policy, response)):
      moved = tree.kind[parent[node]] == player
      own[player, node] = own[player, parent[node]] * (rows[node] if moved else 1.0)
  after = float(solvers.best_response_values(tree, refined_policy)[1])
  placer, checked = solvers.Placer(tree), 0
  for root in roots:
    below = games.build_public_tree(game, root=tree.history(int(root)))
    places = placer.places(below, int(root))
    without = solvers.resolving.graft(
      tree, refined_policy, [(places, policy[places])], player=searcher
    )
    before = float(solvers.best_response_values(tree, without)[1])
    mass = (1 - np.eye(hands)) @ own[0, root] / (hands * (hands - 1))  # two cards that differ
    margin = np.asarray(known.value[root] + known.gift[root] - new.value[root])
    for hand in np.flatnonzero(own[1, root] > 0.5):
      checked += 1
      assert after <= before - mass[hand] * margin[hand] + 1e-3
  assert checked > 5


def test_values_are_those_of_a_best_response_in_the_subgame(x64):
  (game, _), tree = CASES["random"], tree_of("random")
  policy, placer = random_policy(tree, np.random.default_rng(0)), solvers.Placer(tree)
  for searcher in (0, 1):
    known = solvers.blueprint_values(game, tree, policy, searcher=searcher)
    # Each subtree compiles anew: a third of the nodes, and others for the other player.
    for node in np.flatnonzero(np.asarray(tree.kind) <= games.CHANCE)[1 + searcher :: 3]:
      below = games.build_public_tree(game, root=tree.history(int(node)))
      own = policy[placer.places(below, int(node))]
      own[0] = 1.0
      beliefs = np.asarray(known.beliefs[node])
      found = solvers.best_response(below, own, 1 - searcher, beliefs=beliefs).values
      mass = np.asarray(below.possible[0, 1 - searcher]) if below.possible is not None else True
      np.testing.assert_allclose(np.asarray(known.value[node]) * mass, found * mass, atol=1e-9)


def test_the_mean_of_a_sigmoid(x64):
  """Equation 5.3 against scipy's integral; without a spread it is Hedge of two actions."""
  centres, widths = (-30.0, -3.0, -0.2, 0.0, 1.0, 12.0), (0.0, 0.01, 0.3, 0.99, 1.01, 4.0, 60.0)
  pairs = np.array(list(itertools.product(centres, widths)))
  for (centre, width), found in zip(pairs, jax.jit(mean_sigmoid)(*pairs.T), strict=True):

    def integrand(z, centre=centre, width=width):
      return norm.pdf(z) * expit(centre - width * z)

    middle = np.clip(centre / width, -12, 12) if width else 0.0
    wanted = sum(quad(integrand, *x, limit=200)[0] for x in ((-12, middle), (middle, 12)))
    assert float(found) == pytest.approx(wanted, abs=1e-6)


def test_gadgets_in_a_batch_and_under_vmap(x64):
  setting = coin_toss()
  game, tree, _, (guess,) = setting
  known = known_of(setting)
  below = games.build_public_tree(game, root=tree.history(int(guess)))
  promised = known.alternatives(int(guess))
  algorithm = solvers.with_gadget(solvers.cfr_plus(), Maxmargin(1))
  values = np.array([[0.0, 0.5], [0.5, 0.5], [0.5, -0.5]])
  settings = {"algorithm": algorithm, "num_iterations": 4096}
  beliefs = known.beliefs[guess]
  batch = solvers.solve_batch(
    below, beliefs=np.stack([beliefs] * 3), alternatives=values, **settings
  )
  one = solvers.solve(below, beliefs=beliefs, alternatives=promised, **settings)
  np.testing.assert_allclose(batch.average_policy[0], one.average_policy, atol=1e-12)
  heads = np.asarray(batch.average_policy)[:, 1, 0]
  np.testing.assert_allclose(heads, [5 / 8, 1 / 2, 1 / 4], atol=2e-3)
  # The opponent's root values are what entering is worth to it.
  np.testing.assert_allclose(one.root_values[0], [-0.25, 0.25], atol=5e-3)


def test_a_search_hands_on_what_the_next_one_must_promise():
  algorithm = solvers.with_gadget(solvers.cfr_plus(), Maxmargin(1))
  game = games.make("rock_paper_scissors")
  top = games.build_public_tree(game, depth=1)
  how = {"algorithm": algorithm, "leaf_values": family_parts.leaf_values, "params": None}
  always = Alternatives(np.full((1, 3), -9.0))  # it always enters
  how |= {"num_rows": 1, "alternatives": always, "keep_leaf_values": True}
  search = functools.partial(search_batch, **how)
  stacked = games.stack_trees([top])
  found = jax.jit(search)(stacked, np.asarray(top.prior)[None], np.zeros(1, int), 1024)
  promised = np.asarray(found.leaf_values)[0, 0, 0]
  np.testing.assert_allclose(promised, 0, atol=0.02)
  below = games.build_public_tree(game, root=(3,))
  how = {"algorithm": algorithm, "num_iterations": 4096, "alternatives": Alternatives(promised)}
  beliefs = np.array([[1 / 3] * 3, [1, 0, 0]])
  answer = solvers.solve(below, beliefs=beliefs, **how).average_policy
  np.testing.assert_allclose(answer[1:, 0], [0.4, 0.4, 0.2], atol=0.03)
  how, beliefs = {"num_iterations": 4096}, np.array([[0.41, 0.39, 0.2], [1, 0, 0]])
  unsafe = solvers.solve(below, algorithm=solvers.cfr_plus(), beliefs=beliefs, **how).average_policy
  assert np.abs(np.asarray(unsafe)[1:, 0] - [0.4, 0.4, 0.2]).max() > 0.15


GAME, TREE, POLICY, (GUESS,) = coin_toss()
BELOW = games.build_public_tree(GAME, root=TREE.history(int(GUESS)))


def solve(alternatives, algorithm, gadget=Maxmargin):
  algorithm = solvers.with_gadget(algorithm, gadget(1)) if gadget else algorithm
  solvers.solve(BELOW, algorithm=algorithm, num_iterations=2, alternatives=alternatives)


CFR_PLUS = solvers.cfr_plus()
test_what_cannot_be_solved_so_is_refused = refused(
  (lambda: solve(None, CFR_PLUS), r"^alternatives=None, but Maxmargin\(searcher=1\) needs"),
  (lambda: solve(np.zeros(2), CFR_PLUS, None), r"^alternatives belong to a gadget"),
  (lambda: solve(np.array([0, 500.0]), CFR_PLUS), r"^alternatives hold 500, but .* pays 1 at most"),
  (lambda: solve(np.zeros(2), CFR_PLUS, Distributional), "^spread=None, but Distributional need"),
  (lambda: solve(np.zeros(2), solvers.fictitious_play()), "must be of the CFR family"),
  (lambda: solvers.refine(GAME, TREE, POLICY, searcher=1, gadget=Maxmargin(0)), "is for player 0"),
  (lambda: solvers.refine(GAME, TREE, POLICY, searcher=1, cut=[0, int(GUESS)]), "node below node"),
  (lambda: solvers.refine(GAME, TREE, POLICY, searcher=1, gadget=None, gifts=1), "takes no known"),
)
