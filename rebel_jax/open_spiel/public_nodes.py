"""The public tree of an OpenSpiel game, node by node, before it becomes arrays.

A public state is expanded in stages: player 0's moves, player 1's moves (both only where the
players cannot tell whose turn it is), then what nature or the rules reveal.
"""

import dataclasses
import functools
import re
from collections import defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pyspiel

from games.game import CHANCE, TERMINAL
from rebel_jax.open_spiel.histories import (
  Budget,
  SpielHistories,
  connected,
  find_infostates,
  find_times,
)

Key = tuple[int, int]  # an infostate, and the own action taken in it or `PASS`
Keys = tuple[Key, Key]  # both players'
Target = tuple[str, int, int]
PASS = -1


class Step(NamedTuple):
  """One history's way through a public state: to the history after its move, or it waits."""

  after: int  # the history that it leads to
  actor: int  # 0, 1 or `CHANCE`; `PASS` while the history waits
  action: int  # the last of `after`, `PASS` while the history waits
  target: Target  # ("state", time, public state), or ("end", who moved, the action): one by chance
  known: Keys  # to each player at the stage that is being expanded

  def moved(self, player: int) -> Key:
    """Returns the key of `player` after its move."""
    known = self.known[player]
    return (known[0], self.action) if self.actor == player else known


_RTOL = 1e-9
_INFOSTATE_BYTES = 200  # of an infostate at a node


class InfostatesMerge(Exception):  # noqa: N818
  """Two infostates of a public state are one further down."""


@dataclasses.dataclass(slots=True)
class SpielNode:
  """A public state, `n0` and `n1` infostates of the players possible."""

  actor: int  # 0, 1, `CHANCE` or `TERMINAL`
  parent: int  # -1 at the root
  depth: int  # 0 there
  # of infostates by key, ascending: the parent's unless one splits
  numbers: tuple[dict[Key, int], dict[Key, int]]
  # `[n0]` and `[n1]`, the number at the parent of what each comes from
  above: tuple[list[int], list[int]]
  weights: np.ndarray  # `[n0, n1]` nature's of each pair
  # `[n0]` and `[n1]`, prior of the root infostate that each comes from
  mass: tuple[np.ndarray, np.ndarray]
  # OpenSpiel's, that took the mover to each of its infostates
  own_action: dict[int, int] = dataclasses.field(default_factory=dict)
  # strings of infostates that decide
  decisions: dict[int, str] = dataclasses.field(default_factory=dict)
  label: int = PASS  # the public action that led here
  shares_weights: bool = False  # whether all weights are the parent's
  chance: float = 1.0  # of the outcome that led here, 1 if a player moved
  path_chance: float = 1.0  # the product of `chance` on the way here
  payoff: np.ndarray | None = None  # `[n0, n1]` to player 0, at the end


class PublicNodes:
  """The public states of a game and how they follow each other."""

  def __init__(self, game: pyspiel.Game, histories: SpielHistories, budget: Budget, *, eager: bool):
    self.nodes: list[SpielNode] = []
    self.names: dict[int, dict[str, None]] = defaultdict(dict)  # of each action, none twice
    self.infostates_change = False  # where one splits, or ends for another reason than chance
    self._of, self._budget = histories, budget
    self._first_unseen = 1 + max(action for _, action in histories.action_names)
    self._known = [find_infostates(game, histories, player, eager=eager) for player in (0, 1)]
    self._time = find_times(game, histories, self._known)
    order = np.argsort(histories.parent, kind="stable")
    starts = np.searchsorted(np.array(histories.parent)[order], np.arange(len(order) + 1))
    self._children, self._starts = order.tolist(), starts.tolist()
    self._public = self._public_states()
    moment, members = self._skip_private_deals()
    self.prior = self._add_root(moment, members)
    self._queue = deque([(0, moment, members)])
    while self._queue:
      node, moment, members = self._queue.popleft()
      steps = self.steps(members, moment)
      self._expand(node, steps, [p for p in (0, 1) if any(step.actor == p for step in steps)])

  # The root.

  def _skip_private_deals(self) -> tuple[int, list[int]]:
    """Returns the time and the histories of the first public state where something happens."""
    moment, members = 0, [0]
    while True:
      steps = self.steps(members, moment)
      targets = {step.target for step in steps}
      if any(step.actor in (0, 1) for step in steps) or len(targets) > 1:
        return moment, members
      if next(iter(targets))[0] == "end":
        raise ValueError("the game ends before a player moves: there is nothing to solve")
      moment, members = moment + 1, sorted({step.after for step in steps})

  def _add_root(self, moment: int, members: list[int]) -> tuple[np.ndarray, np.ndarray]:
    keys = [self.keys(h, moment) for h in members]
    own = [sorted({k[p] for k in keys}, key=functools.partial(self.order, p)) for p in (0, 1)]
    first, second = ({key: i for i, key in enumerate(some)} for some in own)
    numbers = first, second
    joint = self._sum_nature(members, keys, numbers)
    joint /= joint.sum()
    prior = joint.sum(axis=1), joint.sum(axis=0)
    weights = joint / (prior[0][:, None] * prior[1])
    self._scale = weights.max()
    weights = weights / self._scale
    weights[np.abs(weights - 1) < _RTOL] = 1.0
    actor = self.first_actor(members, moment)
    self.nodes.append(SpielNode(actor, -1, 0, numbers, ([-1], [-1]), weights, prior))
    return prior

  # One public state.

  def _expand(self, node: int, steps: list[Step], movers: list[int]) -> None:
    """Adds the edges of the first of `movers`, of chance where there is none, and those below."""
    player, later = [*movers, CHANCE][0], movers[1:]
    rows: dict[int, list[tuple]] = {}
    for number, step in enumerate(steps):
      if step.actor == player < CHANCE:
        key, here = step.known[player], self.nodes[node]
        here.decisions[here.numbers[player][key]] = self.string_of(player, key)
      rows[number] = [("target", step.target), *[("moved", step.moved(p)) for p in movers[:1]]]
      # A player who is still to move has not seen this move: its infostates stay together.
      rows[number] += [("known", q, step.known[q]) for q in later if step.actor == q]
    # Moves that lead to different public states are different public actions; moves that the other
    # player cannot tell apart are one, after which they are part of the mover's infostate. What
    # becomes public only through both infostates together (a shot hits) is chance's outcome.
    edges = []
    for group in connected(rows):
      chosen = [steps[i] for i in group]
      remaining = [q for q in later if any(step.actor == q for step in chosen)]
      reveals = len({s.target for s in chosen}) > 1 or any(s.actor == CHANCE for s in chosen)
      if movers and (remaining or reveals or self.mover_learns(chosen, player)):
        known: list[Any] = [
          tuple(s.moved(p) if p == player else s.known[p] for p in (0, 1)) for s in chosen
        ]
        child = self._add(node, [*remaining, CHANCE][0], chosen, known, player)
        self._expand(child, [s._replace(known=x) for s, x in zip(chosen, known)], remaining)
      else:  # all lead to one public state, or to the end of the game
        arrival, members = self.arrival(chosen), sorted({step.after for step in chosen})
        keys = [self.keys(step.after, arrival) for step in chosen]
        child = self._add(node, self.first_actor(members, arrival), chosen, keys, player)
        if self.nodes[child].actor != TERMINAL:
          self._queue.append((child, arrival, members))
      shown = {s.action if s.actor == player else PASS for s in chosen}
      edges.append((child, shown - {PASS} if movers else shown))
    self._label(edges, chance=not movers)

  def _label(self, edges: list[tuple[int, set[int]]], *, chance: bool) -> None:
    """Numbers the public actions of a node: as OpenSpiel does where it has one name for each."""
    numbers = [next(iter(actions)) if len(actions) == 1 else PASS for _, actions in edges]
    unseen = 0
    for (child, _), number in zip(edges, numbers):
      if number == PASS or numbers.count(number) > 1:
        number = self._first_unseen + unseen
        name = ("outcome" if chance else "hidden move") + f" {unseen}" * (unseen > 0)
        unseen += 1
      else:
        name = self._of.action_names[chance, number]
      self.nodes[child].label = number
      self.names[number][name] = None

  # One node.

  def _add(self, parent: int, actor: int, steps: list[Step], keys: list[Keys], mover: int) -> int:
    """Adds the node to which `steps` lead, after which the players know `keys`."""
    node = self.nodes[parent]
    splits, numbers, above = [False, False], [], []
    for p in (0, 1):
      origin: dict[Key, int] = {}
      for step, key in zip(steps, keys):
        number = node.numbers[p][step.known[p]]
        if origin.setdefault(key[p], number) != number:
          raise InfostatesMerge
      splits[p] = len(set(origin.values())) < len(origin)
      order = functools.partial(self.order, p) if splits[p] else lambda k: ()
      ordered = sorted(origin, key=lambda k: (origin[k], *order(k)))
      numbers.append({k: i if splits[p] else origin[k] for i, k in enumerate(ordered)})
      above.append([origin[k] for k in ordered])
    weights, mass = node.weights, node.mass
    fewer = any(len(above[p]) < len(node.numbers[p]) for p in (0, 1))
    if any(splits) or fewer:
      places = [{number: i for i, number in enumerate(own.values())} for own in node.numbers]
      rows = [[places[p][number] for number in above[p]] for p in (0, 1)]
      weights, mass = weights[np.ix_(*rows)], (mass[0][rows[0]], mass[1][rows[1]])
      self.infostates_change |= any(splits) or mover < CHANCE
    own_action = {}
    if mover < CHANCE:
      moves = zip(steps, keys)
      own_action = {numbers[mover][key[mover]]: step.moved(mover)[1] for step, key in moves}
    child = SpielNode(
      actor=actor,
      parent=parent,
      depth=node.depth + 1,
      numbers=(numbers[0], numbers[1]),
      above=(above[0], above[1]),
      weights=weights,
      mass=mass,
      own_action=own_action,
      shares_weights=not any(splits),
      path_chance=node.path_chance,
      payoff=self._average_payoff(steps, keys, numbers) if actor == TERMINAL else None,
    )
    if mover == CHANCE or splits[1 - mover]:
      self._weigh(child, mover, steps, keys)
    pairs = 1 if child.payoff is None else 2
    self._budget.spend(
      pairs * child.weights.nbytes + _INFOSTATE_BYTES * sum(map(len, child.numbers))
    )
    self.nodes.append(child)
    return len(self.nodes) - 1

  def _weigh(self, child: SpielNode, mover: int, steps: list[Step], keys: list[Keys]) -> None:
    """Replaces the inherited pair weights of a node where nature or the rules change them."""
    after = {step.after: key for step, key in zip(steps, keys)}
    nature = self._sum_nature(list(after), list(after.values()), child.numbers)
    own = child.mass[0][:, None] * child.mass[1] * (self._scale * child.path_chance)
    weights = nature / own
    there = child.weights > 0
    ratios = weights[there] / child.weights[there]
    constant, changed = np.ptp(ratios) <= _RTOL * ratios.max(), abs(ratios[0] - 1) > _RTOL
    if not constant or (changed and mover < CHANCE):
      child.weights, child.shares_weights = weights, False
    elif changed:
      child.chance = float(ratios[0])
      child.path_chance *= child.chance

  def _sum_nature(self, histories: list[int], keys: list[Keys], numbers) -> np.ndarray:
    """Returns the chance probability of each pair of infostates: `[n0, n1]`."""
    place = [{k: i for i, k in enumerate(numbers[p])} for p in (0, 1)]
    total = np.zeros((len(place[0]), len(place[1])))
    for history, key in zip(histories, keys):
      total[place[0][key[0]], place[1][key[1]]] += self._of.nature[history]
    return total

  def _average_payoff(self, steps: list[Step], keys: list[Keys], numbers) -> np.ndarray:
    """Returns the expected payoff to player 0 of each pair of infostates: `[n0, n1]`."""
    place = [{k: i for i, k in enumerate(numbers[p])} for p in (0, 1)]
    ends: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for step, key in zip(steps, keys):
      pair = place[0][key[0]], place[1][key[1]]
      ends.setdefault(pair, []).append((self._of.nature[step.after], self._of.payoff[step.after]))
    payoff = np.zeros((len(place[0]), len(place[1])))
    for pair, outcomes in ends.items():
      weights, values = zip(*outcomes)
      # An average of equal numbers may be off in its last digit, which would keep tables apart.
      payoff[pair] = values[0] if len(set(values)) == 1 else np.average(values, weights=weights)
    return payoff

  # What the players know of histories in time.

  def _public_states(self) -> list[dict[int, int]]:
    """Returns the public states: for each time, the number of each history's."""
    # Two histories share a public state if a chain of histories leads from one to the other, each
    # of which some player cannot tell from the next, or if those below them do. Histories are
    # present from the time after their parent's move to their own; ends of the game are left out.
    parents, actors = self._of.parent, self._of.actor
    arrivals = [self._time[parent] + 1 if parent >= 0 else 0 for parent in parents]
    present: dict[int, list[int]] = defaultdict(list)
    for index in np.flatnonzero(np.array(actors) != TERMINAL).tolist():
      for moment in range(arrivals[index], self._time[index] + 1):
        present[moment].append(index)
    levels: list[dict[int, int]] = [{} for _ in range(len(present) + 1)]
    for moment in reversed(range(len(present))):
      # While a history waits, whose turn it is has not been noticed.
      rows: Any = {index: [*enumerate(self.keys(index, moment))] for index in present[moment]}
      for index, state in levels[moment + 1].items():
        rows[index if arrivals[index] <= moment else parents[index]].append((2, state))
      groups = enumerate(connected(rows))
      levels[moment] = {index: number for number, group in groups for index in group}
    return levels

  def steps(self, members: list[int], moment: int) -> list[Step]:
    """Returns all ways through a public state, `members` its histories at that time."""
    steps = []
    for before in members:
      below, known, waits = [before], self.keys(before, moment), self._time[before] > moment
      if not waits:
        below = self._children[self._starts[before] : self._starts[before + 1]]
      actor = PASS if waits else self._of.actor[before]
      for after in below:
        action = PASS if waits else self._of.action[after]
        target: Target = "end", actor, action if actor < CHANCE else PASS
        if self._of.actor[after] != TERMINAL:
          target = "state", moment + 1, self._public[moment + 1][after]
        steps.append(Step(after, actor, action, target, known))
    return steps

  def keys(self, history: int, moment: int) -> Keys:
    """Returns the players' observations at a history; its end is observed at any time."""
    first, second = self._known
    if self._time[history] <= moment:
      return (first.of[history], PASS), (second.of[history], PASS)
    return (first.waiting[history], PASS), (second.waiting[history], PASS)

  def first_actor(self, members: list[int], moment: int) -> int:
    """Returns who moves first: 0, 1 or `CHANCE`."""
    return min(self._of.actor[h] for h in members if self._time[h] == moment)

  def mover_learns(self, steps: list[Step], player: int) -> bool:
    """Says whether the mover learns something in private from its own move."""
    arrival = self.arrival(steps)
    learned = {(step.moved(player), self.keys(step.after, arrival)[player]) for step in steps}
    return len({moved for moved, _ in learned}) < len(learned)

  def arrival(self, steps: list[Step]) -> int:
    """Returns the time at which something happens next to the histories that steps lead to."""
    return min(self._time[step.after] for step in steps)

  def order(self, player: int, key: Key) -> tuple:
    """Sorts infostates by their strings, numbers in them as numbers, then by own action."""
    parts = enumerate(re.split(r"(\d+)", self.string_of(player, key)))
    return tuple(int(x) if i % 2 else x for i, x in parts), key

  def string_of(self, player: int, key: Key) -> str:
    """Returns the last information state string that an infostate has seen, "" for none."""
    string = self._known[player].string[key[0]]
    return "" if string < 0 else self._of.strings[player][string]
