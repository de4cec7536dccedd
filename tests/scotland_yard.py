"""Scotland Yard on stations in plain Python, which shares nothing with the rules but the map."""

# Paths that end at one station have one future and look alike, so values and best responses are
# those of the game on paths, and CFR keeps its guarantee (Lanctot et al. 2012).

import copy
import dataclasses
from collections import defaultdict

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix


@dataclasses.dataclass
class Node:
  """A public history."""

  mover: str
  maybe: frozenset[int]
  moves: dict[int, list[int]] = dataclasses.field(default_factory=dict)
  children: dict[str, "Node"] = dataclasses.field(default_factory=dict)
  payoff: int = 0

  def count(self) -> int:
    return 1 + sum(child.count() for child in self.children.values())

  def rows(self):
    """Returns whose choices there are here: stations of Mr. X, or None for the detectives."""
    return [x for x in self.maybe if self.moves[x]] if self.mover == "mister_x" else [None]


class PlainScotlandYard:
  """A game in plain Python, which shares nothing with the rules but the map."""

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

  def after(self, name):
    """Returns the game after what happens next, itself unchanged."""
    new = copy.copy(self)
    new.detectives, new.cards = list(self.detectives), [dict(x) for x in self.cards]
    new.take(name)
    return new

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


def grow(city, rounds, *, ghost=False) -> Node:
  """Returns the start of the game on a map of taxis alone."""

  def node(plain):
    maybe = frozenset(plain.maybe)
    if plain.over():
      return Node("end", maybe, payoff=1)
    made = Node("look" if plain.looks else "detective" if plain.turn else "mister_x", maybe)
    if made.mover == "mister_x":
      made.moves = {x: sorted(end for _, end in plain.moves(x)) for x in maybe}
    for name in sorted(plain.options()):
      if name == "caught":
        below = Node("end", frozenset({plain.detectives[plain.turn - 1]}), payoff=-1)
      elif name == "no move" and made.mover == "mister_x":
        below = Node("end", frozenset(x for x in maybe if not made.moves[x]), payoff=-1)
      else:
        below = node(plain.after(name))
      made.children[name.removeprefix("taxi ")] = below
    return made

  return node(PlainScotlandYard(city, rounds, ghost=ghost))


def pushed(node: Node, name: str, reach: dict, policy: dict) -> dict:
  """Returns Mr. X's reach, by station, at a child: `policy[id(node)][station]` are its moves."""
  child = node.children[name]
  if name != "hidden":
    return {x: reach.get(x, 0.0) for x in child.maybe}
  after: dict[int, float] = defaultdict(float)
  for x in node.rows():
    for y, chance in zip(node.moves[x], policy[id(node)][x]):
      after[y] += reach.get(x, 0.0) * chance
  return after


def best_response_values(root: Node, policy: dict) -> np.ndarray:
  """Returns what each player gets that responds best to `policy`: Mr. X, the detectives."""

  def mister_x(node):  # what Mr. X expects at each station
    if node.mover == "end":
      return dict.fromkeys(node.maybe, float(node.payoff))
    below = {name: mister_x(child) for name, child in node.children.items()}
    if node.mover == "detective":
      chances = dict(zip(node.children, policy[id(node)][None]))
      return {x: sum(chances[name] * below[name][x] for name in below) for x in node.maybe}
    if node.mover == "look":
      return {x: value for part in below.values() for x, value in part.items()}
    here = dict(below.get("no move", {}))
    return here | {x: max(below["hidden"][y] for y in node.moves[x]) for x in node.rows()}

  def detectives(node, reach):  # what Mr. X gets, times its reach
    if node.mover == "end":
      return node.payoff * sum(reach.get(x, 0.0) for x in node.maybe)
    below = [detectives(c, pushed(node, name, reach, policy)) for name, c in node.children.items()]
    return min(below) if node.mover == "detective" else sum(below)

  start = dict.fromkeys(root.maybe, 1.0)
  return np.array([sum(mister_x(root).values()), -detectives(root, start)])


def game_value(root: Node) -> float:
  """Returns what Mr. X expects in equilibrium, by linear programming."""
  names: dict = {}
  equal, least = [], []  # sums that are zero, and sums that are at most zero

  def variable(*key) -> int:
    return names.setdefault(key, len(names))

  def constrain(node, reach):  # reach: {station: variable}; returns the variable of its worth
    worth = variable(id(node), "worth")
    if node.mover == "end":
      equal.append([(worth, 1.0)] + [(reach[x], -float(node.payoff)) for x in node.maybe])
      return worth
    below = []
    for name, child in node.children.items():
      after = reach
      if name == "hidden":
        after = {y: variable(id(child), "reach", y) for y in child.maybe}
        flows = {(x, y): variable(id(node), x, y) for x in node.rows() for y in node.moves[x]}
        for x in node.rows():
          equal.append([(reach[x], 1.0)] + [(flows[x, y], -1.0) for y in node.moves[x]])
        for y in child.maybe:
          parts = [(flow, -1.0) for (_, to), flow in flows.items() if to == y]
          equal.append([(after[y], 1.0), *parts])
      below.append(constrain(child, after))
    if node.mover == "detective":
      least.extend([(worth, 1.0), (value, -1.0)] for value in below)
    else:
      equal.append([(worth, 1.0)] + [(value, -1.0) for value in below])
    return worth

  start = {x: variable("start", x) for x in root.maybe}
  goal = constrain(root, start)
  return solve_program(names, equal, least, start.values(), goal)


def solve_program(names, equal, least, ones, goal) -> float:
  """Maximises variable `goal`; those whose name ends in "worth" may be negative."""

  def table(rows):
    entries = [(i, column, factor) for i, terms in enumerate(rows) for column, factor in terms]
    i, columns, factors = zip(*entries)
    return coo_matrix((factors, (i, columns)), shape=(len(rows), len(names)))

  objective = np.zeros(len(names))
  objective[goal] = -1.0
  equal = [*equal, *([(x, 1.0)] for x in ones)]
  solved = linprog(
    objective,
    A_ub=table(least),
    b_ub=np.zeros(len(least)),
    A_eq=table(equal),
    b_eq=np.concatenate([np.zeros(len(equal) - len(ones)), np.ones(len(ones))]),
    bounds=[(None, None) if name[-1] == "worth" else (0, None) for name in names],
  )
  assert solved.status == 0, solved.message
  return float(-solved.fun)
