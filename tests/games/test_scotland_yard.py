"""Scotland Yard on paths against a referee on stations, and its rules on maps drawn for them."""

import dataclasses

import numpy as np
import pytest

import games
from games.rules.scotland_yard_maps import GLASSES, GLASSES_HEXAGONS, Map
from games.testing import check_game
from tests import scotland_yard as referee
from tests.trees import children_of

# Detectives nearer to Mr. X than on the map itself, so that few rounds make a game.
NEAR = dataclasses.replace(GLASSES, detectives=(2, 10))
CASES = {"near": (NEAR, 3), "glasses": (GLASSES, 3), "hexagons": (GLASSES_HEXAGONS, 4)}


def make(city, rounds, **parameters):
  return games.make("scotland_yard", map_name=city, rounds=rounds, **parameters)


def both(case):
  """Returns the game, its tree, the referee's, and pairs of equal nodes of the two."""
  game, root = make(*CASES[case]), referee.grow(*CASES[case])
  tree = games.build_public_tree(game)
  child, pairs, pending = children_of(tree), [], [(0, root)]
  actions = range(game.num_actions)
  while pending:
    n, node = pending.pop()
    pairs.append((n, node))
    names = {game.action_name(a): a for a in actions if (n, a) in child}
    assert names.keys() == node.children.keys()
    pending += [(child[n, names[name]], below) for name, below in node.children.items()]
  assert len(pairs) == tree.num_nodes
  return game, tree, root, pairs


def stations(game, moved):
  """Returns where Mr. X is with each path after so many moves, `[H]`."""
  names = [game.infostate_name(0, h) for h in range(game.num_infostates)]
  return np.array([int(name.split("-")[moved]) for name in names])


def value_on_paths(tree):
  """Returns the value of the game by linear programming over the paths of a tree's arrays."""
  names, equal, least = {}, [], []

  def variable(*key):
    return names.setdefault(key, len(names))

  for n in range(tree.num_nodes):
    worth, kids = variable(n, "worth"), np.flatnonzero(tree.parent == n)
    paths = np.flatnonzero(tree.possible[n, 0])
    if tree.kind[n] == games.TERMINAL:
      scale = float(tree.payoff_scale[np.searchsorted(tree.terminal_nodes, n)])
      equal.append([(worth, 1.0)] + [(variable(n, h), -scale) for h in paths])
      continue
    for kid in kids if tree.kind[n] != 0 else ():
      held = np.flatnonzero(tree.possible[kid, 0])
      above = tree.infostate_parent[kid, 0, held]
      equal += [[(variable(n, i), 1.0), (variable(kid, h), -1.0)] for h, i in zip(held, above)]
    if tree.kind[n] == 0:
      for h in paths:
        moves = [
          (variable(kid, int(i)), -1.0)
          for kid in kids
          for i in np.flatnonzero(tree.possible[kid, 0] & (tree.infostate_parent[kid, 0] == h))
        ]
        equal.append([(variable(n, h), 1.0), *moves])
    values = [variable(kid, "worth") for kid in kids]
    if tree.kind[n] == 1:
      least += [[(worth, 1.0), (value, -1.0)] for value in values]
    else:
      equal.append([(worth, 1.0)] + [(value, -1.0) for value in values])
  return referee.solve_program(names, equal, least, [variable(0, 0)], variable(0, "worth"))


@pytest.mark.parametrize(
  ("city", "rounds", "seen", "stuck", "looked", "paths"),
  [
    (GLASSES, 5, 6_444, 24, 5_296, 220),
    (GLASSES, 3, 188, 0, 120, 30),
  ],
)
def test_the_trees_are_as_large_as_those_counted_by_hand(city, rounds, seen, stuck, looked, paths):
  """Public histories, a detective's look being no event, and ends where Mr. X is caught apart."""
  game = make(city, rounds)
  tree = games.build_public_tree(game)
  names = np.array(["", *(game.action_name(a) for a in tree.action[1:])])
  ends = tree.kind == games.TERMINAL
  assert (ends & (names == "caught")).sum() == (tree.kind == games.CHANCE).sum() == looked
  # One who loses with "no move" is Mr. X; detectives who stay go on.
  assert (ends & (names == "no move") & (tree.kind[tree.parent] == 0)).sum() == stuck
  assert tree.num_nodes == seen + stuck + 2 * looked == referee.grow(city, rounds).count()
  assert tree.possible[:, 0].sum(axis=1).max() == paths


@pytest.mark.parametrize("case", CASES)
def test_trees_are_the_referees(case):
  game, tree, _, pairs = both(case)
  movers = {0: "mister_x", 1: "detective", games.CHANCE: "look", games.TERMINAL: "end"}
  ends = dict(zip(tree.terminal_nodes.tolist(), tree.payoff_scale.tolist()))
  for n, node in pairs:
    assert movers[int(tree.kind[n])] == node.mover
    moved = int(tree.state[n, 0])
    assert set(stations(game, moved)[tree.possible[n, 0]].tolist()) == node.maybe
    assert ends.get(n, 0) == node.payoff


@pytest.mark.parametrize("case", ["near", "glasses"])
def test_paths_and_stations_have_one_value(case, x64):
  """Two linear programs, of which one does not know that paths meet."""
  _, tree, root, _ = both(case)
  assert value_on_paths(tree) == pytest.approx(referee.game_value(root), abs=1e-6)


def test_control_a_mister_x_who_may_enter_detectives_stations_is_worth_more():
  assert referee.game_value(referee.grow(NEAR, 3)) == pytest.approx(0, abs=1e-6)
  assert referee.game_value(referee.grow(NEAR, 3, ghost=True)) == pytest.approx(1, abs=1e-6)
  assert referee.game_value(referee.grow(GLASSES, 4)) == pytest.approx(0.6, abs=1e-6)


def names(game, history):
  legal = game.legal_actions(game.state_after(history)[None])[0]
  return [game.action_name(a) for a in np.flatnonzero(legal)]


def action(game, name):
  return next(a for a in range(game.num_actions) if game.action_name(a) == name)


def test_double_moves():
  """In a row of four, seen all the time, Mr. X at 2 is caught from 4 unless it moves twice."""
  city = Map("four", ((1, 2, "taxi"), (2, 3, "taxi"), (3, 4, "taxi")), 2, (4,), (("taxi", 5),))
  for doubles, worth in ((0, -1.0), (1, 1.0)):
    game = make(dataclasses.replace(city, doubles=doubles), 2, reveals=(1, 2))
    check_game(game)
    assert value_on_paths(games.build_public_tree(game)) == pytest.approx(worth, abs=1e-9)
  first = (action(game, "to 1"),)
  assert names(game, first) == ["moves again", "does not move again"]
  assert "Mr. X may move again" in game.situation(first)
  again = (*first, action(game, "moves again"))
  assert names(game, again) == ["to 2"]
  assert "double moves: 0" in game.situation(again)
  assert names(game, (*again, action(game, "to 2"))) == ["to 3"]  # a detective's; there is no third
  assert "twice in a row, 1 times" in game.text
