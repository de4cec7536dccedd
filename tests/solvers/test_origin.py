"""Trees know which game they are of, whatever takes a game beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.tabulate import check_tree_of, origin_of
from rebel_jax import open_spiel
from rebel_jax.agents.match import PolicyPlayer, UniformPlayer, play_match
from solvers.resolving import graft
from tests.games.test_games import broken
from tests.sentences import refused
from tests.trees import uniform_policy

# Equal shapes, actions and public states; only what a call of liar pays differs.
GAME = games.make("liars_dice", num_dice=1, num_faces=4)
OTHER = games.make("liars_dice", num_dice=2, num_faces=2)
TREE, CUT = games.build_public_tree(OTHER), games.build_public_tree(OTHER, depth=1)
UNIFORM = uniform_policy(TREE)


def solve_batch(game, trees):
  leaf_values = solvers.exact_leaf_values(game, num_iterations=2)
  algorithm = solvers.linear_cfr()
  return solvers.solve_batch(trees, algorithm=algorithm, num_iterations=2, leaf_values=leaf_values)


def play(game):
  first, second = (
    lambda seed: PolicyPlayer(TREE, UNIFORM, seed=seed),
    lambda seed: UniformPlayer(game, seed=seed),
  )
  play_match(game, first, second, num_games=4)


USES = (
  lambda: solvers.exact_leaf_values(GAME).bind(CUT),
  lambda: solve_batch(GAME, games.stack_trees([CUT, CUT])),
  lambda: solvers.blueprint_values(GAME, TREE, UNIFORM, searcher=0),
  lambda: solvers.refine(GAME, TREE, UNIFORM, searcher=0, cut=3, num_iterations=2),
  lambda: open_spiel.to_tabular_policy(GAME, TREE, UNIFORM),
  lambda: play(GAME),
)
test_a_tree_of_another_game_of_the_same_shape_is_refused = refused(
  *((use, r"tree is not of .*num_dice=1.*: its payoffs") for use in USES)
)


@pytest.mark.parametrize(
  ("name", "one", "other"),
  [
    ("leduc_poker", {}, {"bets": ((1,), (2,))}),
    ("river_endgame_holdem", {"bets": "50%"}, {"bets": "75%"}),
    ("river_endgame_holdem", {"big_blind": 50}, {"big_blind": 100}),
  ],
)
def test_sizes_of_bets_tell_games_apart(name, one, other):
  """Their trees have the same shape, and the same tables."""
  one, same, other = (games.make(name, **x) for x in (one, one, other))
  assert (origin_of(one) == origin_of(same)).all()
  assert (origin_of(one) != origin_of(other)).tolist() == [True, False, False]
  if name == "leduc_poker":
    trees = [games.build_public_tree(x) for x in (one, other)]
    with pytest.raises(ValueError, match="part is of another game than tree: parameters differ"):
      solvers.Placer(trees[0]).places(trees[1])


def test_what_is_made_of_a_tree_is_of_its_game():
  own = games.build_public_tree(GAME)
  for call in (
    lambda: solvers.Placer(own).places(TREE),
    lambda: graft(own, UNIFORM, [(solvers.Placer(TREE).places(TREE), UNIFORM)]),
    lambda: refine(own, solvers.blueprint_values(OTHER, TREE, UNIFORM, searcher=0)),
  ):
    with pytest.raises(ValueError, match="is of another game than tree: payoffs .* differ"):
      call()
  known = solvers.blueprint_values(GAME, own, UNIFORM, searcher=0)
  np.testing.assert_array_equal(refine(own, known), refine(own, None))
  with pytest.raises(ValueError, match="known.value of shape"):
    refine(own, known._replace(value=known.value[:-1]))


def refine(tree, known):
  gadget = solvers.Maxmargin(0)
  return solvers.refine(
    GAME, tree, UNIFORM, searcher=0, cut=3, gadget=gadget, num_iterations=2, known=known
  )


PLACES = solvers.Placer(TREE).places(TREE)
test_grafted_places_are_of_the_tree = refused(
  (lambda: graft(TREE, UNIFORM, [(PLACES + 999, UNIFORM)]), "parts=.* must hold integers from -1"),
  (lambda: graft(TREE, UNIFORM, [(PLACES, UNIFORM[1:])]), "parts of shape"),
)


LARGE = {"flop_holdem", "no_limit_holdem"}  # no tree of them is made


@pytest.mark.parametrize("name", sorted(set(games.registered_games()) - LARGE))
def test_a_tree_is_of_its_own_game(name):
  game = games.make(name)
  tree = games.build_public_tree(game, depth=2)
  again = games.make(name)  # an equal game is the same game
  check_tree_of(again, tree)
  check_tree_of(again, games.stack_trees([tree, games.build_public_tree(game, depth=1)]))
  check_tree_of(again, jax.tree.map(jnp.asarray, tree.astype(jnp.float32)))


KUHN = type("Changed", (games.KuhnPoker,), {})
CHANGES = [
  ("payoff_scale", lambda x, _: 3 * x, "payoffs"),
  ("actor", lambda x, _: np.where(x < 2, 1 - x, x), "turns"),
  ("prior", lambda x: np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]), "prior"),
  ("legal_actions", lambda x, states: x & ((states > 0) | (np.arange(2) == 0)), "legal"),
  ("next_states", lambda x, states, actions: x + 1, "states"),
]


@pytest.mark.parametrize(("method", "change", "what"), CHANGES)
def test_what_differs_is_named(method, change, what):
  tree = games.build_public_tree(games.make("kuhn_poker"))
  check_tree_of(KUHN(), tree)
  for trees in (tree, games.stack_trees([tree, tree])):
    with pytest.raises(ValueError, match=f"its .*{what}"):
      check_tree_of(broken(KUHN, method, change)(), trees)
