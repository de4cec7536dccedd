"""Scotland Yard on paths and on stations: against plain Python, and on maps drawn for its rules."""

import dataclasses
import functools
from collections import Counter, defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.rules.scotland_yard_maps import GLASSES, GLASSES_HEXAGONS, LONDON, Map
from games.testing import check_game
from tests.brute_force import Referee

# Detectives nearer to Mr. X than on the map itself, so that few rounds make a game.
NEAR = dataclasses.replace(GLASSES, detectives=(2, 10))
# 1 - 2 - 3 - 4 in a row, a bus from 1 to 4, and black cards for all of it.
ROW = Map(
  "row",
  (
    *((a, b, kind) for kind in ("taxi", "black") for a, b in ((1, 2), (2, 3), (3, 4))),
    (1, 4, "bus"),
    (1, 4, "black"),
  ),
  mister_x=2,
  detectives=(4,),
  cards=(("taxi", 2), ("bus", 1), ("black", 0)),
  mister_x_cards=(("taxi", 1), ("bus", 1), ("black", 1)),
  used_go_to_mister_x=True,
)
LINE = Map("line", ((1, 2, "taxi"), (2, 3, "taxi")), 1, (2,), (("taxi", 5),))
CASES = {
  "near": (NEAR, 2, ()),
  "near_shown": (NEAR, 3, (2,)),
  "glasses": (GLASSES, 3, ()),
  "hexagons": (GLASSES_HEXAGONS, 4, ()),
  "row": (ROW, 3, ()),
  "row_shown": (ROW, 3, (1, 3)),
  "line": (LINE, 2, ()),
  "row_twice": (dataclasses.replace(ROW, doubles=1), 3, (3,)),
  "near_twice": (dataclasses.replace(NEAR, doubles=2), 3, ()),
}


def make(city, rounds, reveals=(), **parameters):
  return games.make("scotland_yard", map_name=city, rounds=rounds, reveals=reveals, **parameters)


@functools.partial(jax.jit, static_argnames="game")
def ask(game, states, possible):
  """Returns what the rules say of states: who moves, what is legal, moves, and what all win."""
  reach = jnp.ones((len(states), game.num_infostates))
  won = [game.terminal_values(states, reach, player) for player in (0, 1)]
  legal = game.legal_actions(states)
  return game.actor(states), legal, game.moves_of(states, possible), jnp.stack(won, axis=1)


@functools.partial(jax.jit, static_argnames="game")
def follow(game, states, actions, possible):
  """Returns the states after actions, and what is possible there."""
  return game.next_states(states, actions), game.possible_after(states, actions, possible)


@pytest.mark.parametrize("case", CASES)
def test_rules_are_those_of_the_game_on_paths(case):
  city, rounds, reveals = CASES[case]
  paths = make(city, rounds, reveals)
  game = paths.forgetful()
  tree = games.build_public_tree(paths)
  walks = [paths.infostate_name(0, h).split("-") for h in range(paths.num_infostates)]
  walks = np.array(walks, int) - 1
  # Where Mr. X may be at each node, by its paths.
  maybe = np.zeros((tree.num_nodes, game.num_infostates), bool)
  for n, (there, moved) in enumerate(zip(tree.possible[:, 0], tree.state[:, 0])):
    maybe[n, walks[there, moved]] = True
  team = np.arange(game.num_infostates) == 0
  possible = np.stack([maybe, np.broadcast_to(team, maybe.shape)], axis=1)
  state = np.asarray(tree.state, np.int32)
  actor, legal, moves, won = jax.tree.map(np.asarray, ask(game, state, possible))
  np.testing.assert_array_equal(actor, tree.kind)
  inner = tree.kind != games.TERMINAL
  child = np.full(legal.shape, -1)
  child[tree.parent[1:], tree.action[1:]] = np.arange(1, tree.num_nodes)
  np.testing.assert_array_equal(legal[inner], child[inner] >= 0)
  assert legal.sum(axis=1).max() <= game.num_children
  n, action = np.nonzero(child >= 0)
  after, possible_after = follow(game, state[n], action, possible[n])
  np.testing.assert_array_equal(after, state[child[n, action]])
  np.testing.assert_array_equal(possible_after, possible[child[n, action]])
  ends = np.flatnonzero(~inner)
  np.testing.assert_array_equal(won[ends, 0, 0], tree.payoff_scale * game.num_infostates)
  np.testing.assert_array_equal(won[:, 1], -won[:, 0])
  for n in np.flatnonzero((tree.kind == 0) | (tree.kind == 1)):
    expected = set()
    for action in np.flatnonzero(child[n] >= 0).tolist():
      below, moved = child[n, action], tree.state[n, 0]
      if tree.kind[n] == 1:
        expected.add((0, action, 0))
        continue
      for h in np.flatnonzero(tree.possible[below, 0]):
        above = tree.infostate_parent[below, 0, h]
        new = walks[h, tree.state[below, 0]]
        expected.add((walks[above, moved], action, new))
    m, h = np.nonzero(moves.leads_to[n] >= 0)
    found = list(zip(h, moves.action[n, m, h], moves.leads_to[n, m, h]))
    assert len(found) == len(set(found))
    assert set(found) == expected
  assert (child >= 0).any()


def test_london_is_the_board_games():
  kinds = Counter(kind for *_, kind in LONDON.edges)
  joined = {edge[:2] for edge in LONDON.edges}
  assert (kinds["taxi"], kinds["bus"], kinds["underground"]) == (346, 99, 20)
  assert kinds["black"] == len(joined)
  water = joined - {edge[:2] for edge in LONDON.edges if edge[2] != "black"}
  assert water == {(108, 115), (115, 157), (157, 194)}
  busy = Counter(station for a, b, kind in LONDON.edges if kind != "black" for station in (a, b))
  busy.update(station for pair in water for station in pair)
  assert LONDON.num_stations == len(busy) == 199
  assert {station for station in busy if busy[station] == max(busy.values())} == {67, 128, 140, 153}
  assert max(busy.values()) == 13


class PlainScotlandYard:
  """A game, which shares the map alone with the rules, and the stations where Mr. X may be."""

  def __init__(self, city, rounds, reveals=(), *, ghost=False):
    self.city, self.rounds, self.reveals = city, rounds, reveals
    self.ghost = ghost  # whether Mr. X may enter detectives' stations, which is wrong
    self.near = defaultdict(set)
    for a, b, kind in city.edges:
      self.near[a].add((kind, b))
      self.near[b].add((kind, a))
    self.detectives = list(city.detectives)
    own = city.mister_x_cards or city.cards
    self.cards = [dict(own), *(dict(city.cards) for _ in city.detectives)]
    self.maybe, self.moved, self.turn, self.looks = {city.mister_x}, 0, 0, False
    self.doubles, self.chooses, self.second = city.doubles, False, False

  def over(self):
    return self.turn == 0 and self.moved == self.rounds

  def moves(self, station):
    return {
      (kind, end)
      for kind, end in self.near[station]
      if self.cards[self.turn][kind]
      and (end not in self.detectives or (self.ghost and self.turn == 0))
    }

  def options(self):
    """Returns what all can see that happens next, by name."""
    if self.looks:
      return {"caught"} | ({"not there"} if len(self.maybe) > 1 else set())
    if self.chooses:
      return {"moves again", "does not move again"}
    if self.turn:
      moves = self.moves(self.detectives[self.turn - 1])
      return {f"{kind} to {end}" for kind, end in moves} or {"no move"}
    moves = {x: self.moves(x) for x in self.maybe}
    shows = self.moved + 1 in self.reveals
    names = {
      f"{kind} to {end}" if shows else f"{kind} hidden" for x in moves for kind, end in moves[x]
    }
    return names | ({"no move"} if not all(moves.values()) else set())

  def take(self, name):
    station = self.detectives[self.turn - 1] if self.turn else None
    kind, *_, last = name.split()
    if self.chooses:
      self.chooses, self.second = False, name == "moves again"
      self.doubles -= self.second
      self.turn += not self.second
      return
    if self.looks:
      self.looks, self.maybe = False, self.maybe - {station}
    elif not self.turn:
      ends = {(k, end) for x in self.maybe for k, end in self.moves(x) if k == kind}
      self.maybe = {end for _, end in ends if last in ("hidden", str(end))}
      self.cards[0][kind] -= 1
      self.moved += 1
      self.chooses = not self.second and self.doubles > 0 and self.moved < self.rounds
      self.second = False
      if self.chooses:
        return
    elif name != "no move":
      self.cards[self.turn][kind] -= 1
      self.cards[0][kind] += self.city.used_go_to_mister_x
      self.detectives[self.turn - 1] = int(last)
      self.looks = int(last) in self.maybe
    if not self.looks:
      self.turn = (self.turn + 1) % len(self.cards)


def longest_play(city, rounds, reveals, *, plays=20, ghost=False):
  """Plays on stations by the rules and in plain Python; returns the most moves of a play."""
  game = make(city, rounds, reveals, remembers=False)
  only = "" if len(city.cards) > 1 else "taxi "  # kinds are named where there are several
  named = {only + game.action_name(a): a for a in range(game.num_actions)}
  named |= {name.removeprefix(only): a for name, a in named.items()}
  return max(
    play(game, named, PlainScotlandYard(city, rounds, reveals, ghost=ghost), seed)
    for seed in range(plays)
  )


def play(game, named, plain, seed):
  rng, steps = np.random.default_rng(seed), 0
  state, possible = game.initial_state()[None], game.prior()[None] > 0
  while not plain.over():
    actor, legal = game.actor(state)[0], game.legal_actions(state)[0]
    leads_to = game.moves_of(state, possible).leads_to[0]
    options = plain.options()
    assert {named[name] for name in options} == set(np.flatnonzero(legal).tolist())
    assert actor == (games.CHANCE if plain.looks else min(plain.turn, 1))
    assert {x + 1 for x in np.flatnonzero(possible[0, 0])} == plain.maybe
    for x in plain.maybe if actor == 0 else ():
      ends = Counter((leads_to[leads_to[:, x - 1] >= 0, x - 1] + 1).tolist())
      wanted = Counter(end for _, end in plain.moves(x)) or {x: 1}
      assert ends == ({x: 2} if plain.chooses else wanted)
    ways = sorted(options - {"caught", "no move"}) or sorted(options)
    name = rng.choice(sorted(options) if rng.random() < 0.02 else ways)
    made = state, np.array([named[name]])
    state, possible = game.next_states(*made), game.possible_after(*made, possible)
    steps += 1
    if name == "caught" or (name == "no move" and actor == 0):
      break
    plain.take(name)
  assert game.actor(state)[0] == games.TERMINAL
  assert game.payoff_scale(state)[0] == (1 if plain.over() else -1)
  return steps


@pytest.mark.parametrize(
  ("case", "moves"),
  [("near_shown", 8), ("glasses", 9), ("hexagons", 12), ("row_twice", 10), ("london", 100)],
)
def test_stations_are_played_as_in_plain_python(case, moves):
  game = CASES.get(case, (LONDON, 24, (3, 8, 13, 18, 24)))
  assert longest_play(*game, plays=20 if case in CASES else 3) >= moves


def test_control_a_mister_x_who_may_enter_detectives_stations_is_seen():
  with pytest.raises(AssertionError):
    longest_play(*CASES["near_shown"], ghost=True)


@pytest.mark.parametrize(
  ("city", "rounds", "seen", "stuck", "looked", "paths"),
  [(GLASSES, 5, 6_444, 24, 5_296, 220), (GLASSES, 3, 188, 0, 120, 30)],
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
  assert tree.num_nodes == seen + stuck + 2 * looked
  assert tree.possible[:, 0].sum(axis=1).max() == paths


@pytest.mark.parametrize(("city", "value"), [(NEAR, 0.0), (GLASSES, 1.0)])
def test_values_are_those_of_linear_programming(city, value):
  """The first is of a mix: who is caught has -1 and who is not has 1."""
  assert Referee(make(city, 3)).equilibrium_value() == pytest.approx(value, abs=1e-6)


def names(game, history):
  legal = game.legal_actions(game.state_after(history)[None])[0]
  return [game.action_name(a) for a in np.flatnonzero(legal)]


def test_double_moves():
  """In a row of four, seen all the time, Mr. X at 2 is caught from 4 unless it moves twice."""
  city = Map("four", ((1, 2, "taxi"), (2, 3, "taxi"), (3, 4, "taxi")), 2, (4,), (("taxi", 5),))
  for doubles, worth in ((0, -1.0), (1, 1.0)):
    game = make(dataclasses.replace(city, doubles=doubles), 2, reveals=(1, 2))
    assert Referee(game).equilibrium_value() == pytest.approx(worth, abs=1e-9)
  check_game(game)
  action = {game.action_name(a): a for a in range(game.num_actions)}
  first = (action["to 1"],)
  assert names(game, first) == ["moves again", "does not move again"]
  assert "Mr. X may move again" in game.situation(first)
  again = (*first, action["moves again"])
  assert names(game, again) == ["to 2"]
  assert "double moves: 0" in game.situation(again)
  assert names(game, (*again, action["to 2"])) == ["to 3"]  # a detective's; there is no third
  assert "twice in a row, 1 times" in game.text
