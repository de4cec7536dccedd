"""Scotland Yard on stations in plain Python, which shares nothing with the rules on paths."""

# Paths that end at one station have one future and look alike, so values and best responses are
# those of the game on paths, and CFR keeps its guarantee (Lanctot et al. 2012).

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


def grow(edges, mister_x, detectives, rounds, *, ghost=False) -> Node:
  """Returns the start of the game; a `ghost` may enter detectives' stations, which is wrong."""
  near = defaultdict(set)
  for a, b in edges:
    near[a].add(b)
    near[b].add(a)

  def mister_x_moves(moved, stations, maybe):
    if moved == rounds:
      return Node("end", maybe, payoff=1)
    taken = set() if ghost else set(stations)
    moves = {x: sorted(near[x] - taken) for x in maybe}
    node = Node("mister_x", maybe, moves)
    stuck = frozenset(x for x in maybe if not moves[x])
    if stuck < maybe:
      after = frozenset(y for x in maybe for y in moves[x])
      node.children["hidden"] = detective_moves(moved + 1, stations, 0, after)
    if stuck:
      node.children["no move"] = Node("end", stuck, payoff=-1)
    return node

  def detective_moves(moved, stations, who, maybe):
    if who == len(stations):
      return mister_x_moves(moved, stations, maybe)
    node = Node("detective", maybe)
    for station in sorted(near[stations[who]] - set(stations)):
      after = (*stations[:who], station, *stations[who + 1 :])
      missed = maybe - {station}
      below = detective_moves(moved, after, who + 1, missed) if missed else None
      if station in maybe:
        caught = Node("end", frozenset({station}), payoff=-1)
        both = {"caught": caught} | ({"not there": below} if below else {})
        below = Node("look", maybe, children=both)
      node.children[f"to {station}"] = below
    if not node.children:
      node.children["no move"] = detective_moves(moved, stations, who + 1, maybe)
    return node

  return mister_x_moves(0, tuple(detectives), frozenset({mister_x}))


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
