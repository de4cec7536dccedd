"""Trees know which game they are of, whatever takes a game beside them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.origin import check_tree_of
from games.rules.kuhn_poker import KuhnPoker
from rebel_jax import open_spiel
from rebel_jax.agents.match import PolicyPlayer, UniformPlayer, play_match
from solvers.exact_leaf_values import _same_leaves

# Equal shapes, actions and public states; only what a call of liar pays differs.
GAME = games.make("liars_dice", num_dice=1, num_faces=4)
OTHER = games.make("liars_dice", num_dice=2, num_faces=2)
TREE, CUT = games.build_public_tree(OTHER), games.build_public_tree(OTHER, depth=1)


def uniform(tree):
  parent = np.asarray(tree.parent)
  moves = np.where(parent >= 0, np.bincount(parent[1:], minlength=len(parent))[parent], 1)
  return np.repeat(1 / moves[:, None], tree.num_infostates, axis=1)


def solve_batch(game, trees):
  leaf_values = solvers.exact_leaf_values(game, num_iterations=2)
  algorithm = solvers.linear_cfr()
  return solvers.solve_batch(trees, algorithm=algorithm, num_iterations=2, leaf_values=leaf_values)


@pytest.mark.parametrize(
  "use",
  [
    lambda game: solvers.exact_leaf_values(game, CUT),
    lambda game: solve_batch(game, games.stack_trees([CUT, CUT])),
    lambda game: solvers.blueprint_values(game, TREE, uniform(TREE), searcher=0),
    lambda game: solvers.refine(game, TREE, uniform(TREE), searcher=0, cut=3, num_iterations=2),
    lambda game: open_spiel.to_tabular_policy(game, TREE, uniform(TREE)),
    lambda game: play_match(
      game,
      lambda seed: PolicyPlayer(TREE, uniform(TREE), seed=seed),
      lambda seed: UniformPlayer(game, seed=seed),
      num_games=4,
    ),
  ],
  ids=["leaf values", "stacked", "blueprint", "refine", "to OpenSpiel", "match"],
)
def test_a_tree_of_another_game_of_the_same_shape_is_refused(use):
  with pytest.raises(ValueError, match=r"tree is not of .*num_dice=1.*: its payoffs"):
    use(GAME)


LARGE = {"flop_holdem", "no_limit_holdem"}  # no tree of them is made


@pytest.mark.parametrize("name", sorted(set(games.registered_games()) - LARGE))
def test_a_tree_is_of_its_own_game(name):
  game = games.make(name)
  tree = games.build_public_tree(game, depth=2)
  again = games.make(name)  # an equal game is the same game
  check_tree_of(again, tree)
  check_tree_of(again, games.stack_trees([tree, games.build_public_tree(game, depth=1)]))
  check_tree_of(again, jax.tree.map(jnp.asarray, tree.astype(jnp.float32)))


class Changed(KuhnPoker):
  """Kuhn poker with something else in it."""


class Ante(Changed):
  def payoff_scale(self, states):
    return 3 * super().payoff_scale(states)


class Turns(Changed):
  def actor(self, states):
    actor = super().actor(states)
    return np.where(actor < 2, 1 - actor, actor)


class Cards(Changed):
  def prior(self):
    return np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])


class Forced(Changed):
  def legal_actions(self, states):
    return super().legal_actions(states) & ((states > 0) | (np.arange(2) == 0))


class Swapped(Changed):
  def next_states(self, states, actions):
    return super().next_states(states, 1 - actions)


@pytest.mark.parametrize(
  ("game", "what"),
  [(Ante, "payoffs"), (Turns, "turns"), (Cards, "prior"), (Forced, "legal"), (Swapped, "states")],
)
def test_what_differs_is_named(game, what):
  tree = games.build_public_tree(games.make("kuhn_poker"))
  check_tree_of(Changed(), tree)
  for trees in (tree, games.stack_trees([tree, tree])):
    with pytest.raises(ValueError, match=f"its .*{what}"):
      check_tree_of(game(), trees)


def test_wrong_kinds_are_refused():
  with pytest.raises(TypeError, match="game='kuhn_poker' must be"):
    check_tree_of("kuhn_poker", TREE)
  with pytest.raises(TypeError, match="tree=None"):
    check_tree_of(GAME, None)
  with pytest.raises(ValueError, match="infostates"):
    check_tree_of(games.make("liars_dice", num_faces=3), TREE)
  with pytest.raises(ValueError, match="public states"):
    check_tree_of(games.make("kuhn_poker"), TREE)


def test_games_of_one_shape_share_a_program():
  compiled = []

  @jax.jit
  def solve(tree):
    compiled.append(tree)
    return tree.prior.sum()

  for game in (GAME, OTHER):
    solve(games.build_public_tree(game))
  assert len(compiled) == 1


def test_a_traced_tree_of_another_game_is_noticed():
  known = games.build_public_tree(GAME, depth=1)
  same = jax.jit(lambda tree: _same_leaves(tree, known))  # answers are NaN where it is false
  assert same(known)
  assert not same(CUT)
  assert same(dataclasses.replace(CUT, origin=known.origin))
