"""Pluribus's search in two players: from the start of the round, continuations at its end."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from games import Game, PublicTree, stack_trees
from games.public_tree import CHANCE, Array
from games.tabulate import check_tree_of
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.named import cfr_plus
from solvers.contrib.continuations.extended import Extended, with_continuations
from solvers.contrib.continuations.pair_values import check_pairs
from solvers.contrib.continuations.policies import leaf_tables
from solvers.resolving import Placer, subtree
from solvers.search import posteriors
from solvers.solve import solve_batch
from solvers.sweeps.problem import Lock


class Search(NamedTuple):
  """One search: from a node of the whole tree to the end of its round."""

  root: int
  extended: Extended
  places: np.ndarray  # [n] nodes of the depth-limited tree in the whole tree


class Frozen(NamedTuple):
  """A search in which its player keeps to some of its past moves, and the decision it is for."""

  search: Search
  decision: int  # node of the whole tree
  past: list[int]  # the player's decisions in the round on the way there
  hands: np.ndarray  # that are kept to, and for which the answer counts


@validation.checked
def search_rounds(
  game: Game,
  tree: PublicTree,
  first: Sequence[Array],
  second: Sequence[Array],
  *,
  start: str = "round",
  frozen: str = "hand",
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> np.ndarray:
  """Computes the policy of a player that searches at every decision as Pluribus does.

  Each search reaches to the end of the round (`Game.stages`), where both players choose among their
  continuations. From the start of the round it lets the opponent have played the round in any way,
  while the searcher's moves in it stay what they were for the hand that it holds (thesis, section
  6.6). From the decision point beliefs are trusted there too, which is unsafe (section 5.1.1).

  Args:
    game: the rules, without hidden moves.
    tree: the whole tree of that game, its infostates in tables.
    first, second: each player's continuations, policies `[N, H]`, at least one; the last round uses
      none.
    start: where searches start: `"round"`, or `"decision"` for where the move is to be made.
    frozen: with `start="round"`, for whom a searcher's own past moves stay: `"hand"` for the one it
      holds, or `"all"`.
    algorithm: None for CFR+.
    num_iterations: of each search, one player's update is one.

  Returns:
    `[N, H]` both players' policy, assembled from all searches.

  Raises:
    ValueError: as `leaf_tables`, `tree` is of another game or has hidden moves, or `start` or
      `frozen` is not allowed.
  """
  check_tree_of(game, tree)
  check_pairs(tree)
  for name, value, allowed in (
    ("start", start, ("round", "decision")),
    ("frozen", frozen, ("hand", "all")),
  ):
    if value not in allowed:
      raise ValueError(f"{name}={validation.short(value)} must be {allowed[0]!r} or {allowed[1]!r}")
  if tree.infostate_parent is not None:
    raise ValueError("tree has hidden moves; searches of rounds start from public moves alone")
  algorithm = cfr_plus() if algorithm is None else algorithm
  rounds = Rounds(game, tree, first, second, algorithm, num_iterations)
  if start == "decision":
    rounds.search_decisions()
  else:
    rounds.search_from_starts(hand_by_hand=frozen == "hand")
  return rounds.policy


class Rounds:
  """Searches of one game and the policy that they make up so far."""

  def __init__(self, game, tree, first, second, algorithm, num_iterations):
    self.game, self.tree = game, tree
    self.algorithm, self.num_iterations = algorithm, num_iterations
    self.kind, self.parent = np.asarray(tree.kind), np.asarray(tree.parent)
    self.level = np.repeat(np.arange(tree.structure.depth + 1), np.diff(tree.structure.offsets))
    stage = np.asarray(game.stages(np.asarray(tree.state)))
    self.begins = (self.parent < 0) | (stage != stage[self.parent])
    self.children = [np.flatnonzero(self.parent == node) for node in range(tree.num_nodes)]
    self.starts, self.leaves = self._bounds_of_rounds()
    self.tables = leaf_tables(tree, self.leaves, first, second)
    self.placer = Placer(tree)
    self.policy = np.ones((tree.num_nodes, tree.num_infostates), tree.dtype)
    for node in np.flatnonzero(self.kind < CHANCE):
      self.policy[self.children[node]] = 1 / len(self.children[node])

  def _bounds_of_rounds(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first decisions of rounds, after every chance outcome, and the rounds' ends."""
    searched, starts, ends = np.zeros(self.tree.num_nodes, bool), [], []
    for node, (parent, kind) in enumerate(zip(self.parent, self.kind)):
      going_on = not self.begins[node] and searched[parent]
      searched[node] = going_on or kind < CHANCE
      if searched[node] and not going_on:
        starts.append(node)
      if self.begins[node] and kind <= CHANCE and parent >= 0 and searched[parent]:
        ends.append(node)
    return np.array(starts, int), np.array(ends, int)

  def search_decisions(self) -> None:
    """Searches from every decision, those further down once all above them are known."""
    decisions = np.flatnonzero(self.kind < CHANCE)
    for level in np.unique(self.level[decisions]):
      here = decisions[self.level[decisions] == level]
      for searches in self._alike(self._search(int(node)) for node in here):
        for search, solved in zip(searches, self.solve(searches)):
          self._take(search, solved, search.root, np.arange(self.tree.num_infostates))

  def search_from_starts(self, *, hand_by_hand: bool) -> None:
    """Searches from the start of every round, for each decision in it."""
    hands = np.arange(self.tree.num_infostates)
    for searches in self.waves():
      for search, solved in zip(searches, self.solve(searches)):
        for decision in self._decisions(search):
          if not self._past(search, decision):
            self._take(search, solved, decision, hands)
      asked = self.later_decisions(searches)
      # Second decisions first: what they say is frozen for third ones.
      for count in sorted({len(frozen.past) for frozen in asked}):
        later = [frozen for frozen in asked if len(frozen.past) == count]
        if hand_by_hand:
          later = [frozen._replace(hands=hands[h : h + 1]) for frozen in later for h in hands]
        answers = self.solve([frozen.search for frozen in later], self.locks(later))
        for frozen, solved in zip(later, answers):
          self._take(frozen.search, solved, frozen.decision, frozen.hands)

  def later_decisions(self, searches: Sequence[Search]) -> list[Frozen]:
    """Returns the decisions of players who have moved before in the round, all hands together."""
    hands = np.arange(self.tree.num_infostates)
    pairs = [(search, node) for search in searches for node in self._decisions(search)]
    found = [Frozen(search, node, self._past(search, node), hands) for search, node in pairs]
    return [frozen for frozen in found if frozen.past]

  def waves(self) -> Iterable[list[Search]]:
    """Yields searches of the same shape, from starts of rounds; earlier rounds first."""
    starts = self.starts
    number = np.zeros(self.tree.num_nodes, int)  # of rounds begun on the way
    for node in range(1, self.tree.num_nodes):
      number[node] = number[self.parent[node]] + self.begins[node]
    for wave in np.unique(number[starts]):
      here = starts[number[starts] == wave]
      yield from self._alike([self._search(int(node)) for node in here])

  def _search(self, root: int) -> Search:
    top = subtree(self.game, self.tree, root, depth="stage")
    places = self.placer.places(top, root)
    if not top.depth_limited:
      return Search(root, Extended(top, np.arange(top.num_nodes), top.num_infostates), places)
    wanted = np.searchsorted(self.leaves, places[np.asarray(top.leaf_nodes)])
    return Search(root, with_continuations(top, self.tables[wanted]), places)

  def _alike(self, searches: Iterable[Search]) -> Iterable[list[Search]]:
    """Groups searches by the shape of their trees."""
    groups: dict = {}
    for search in searches:
      tree = search.extended.tree
      key = tree.structure, np.asarray(tree.action).tobytes(), tree.possible is None
      groups.setdefault(key, []).append(search)
    return list(groups.values())

  def solve(self, searches: Sequence[Search], locks: Lock | None = None) -> np.ndarray:
    """Returns the policies of searches of the same shape: `[B, N', H']`."""
    beliefs = np.asarray(posteriors(self.tree, self.policy))
    solved = solve_batch(
      stack_trees([search.extended.tree for search in searches]),
      algorithm=self.algorithm,
      num_iterations=self.num_iterations,
      beliefs=np.stack([search.extended.pad(beliefs[search.root]) for search in searches]),
      locked=locks,
    )
    return np.asarray(solved.average_policy)

  def _take(self, search: Search, solved: np.ndarray, decision: int, hands: np.ndarray) -> None:
    """Writes a search's policy at a decision into the whole policy."""
    rows = search.extended.of_top(solved)
    for child in self.children[decision]:
      self.policy[child, hands] = rows[np.flatnonzero(search.places == child)[0], hands]

  def _decisions(self, search: Search) -> list[int]:
    """Returns the decisions of a search's round, nodes of the whole tree."""
    inside = [int(node) for node in search.places if self.kind[node] < CHANCE]
    return [node for node in inside if node == search.root or not self.begins[node]]

  def _past(self, search: Search, decision: int) -> list[int]:
    """Returns the same player's earlier decisions in the round, on the path to a decision."""
    found, node = [], decision
    while node != search.root:
      node = int(self.parent[node])
      if self.kind[node] == self.kind[decision]:
        found.append(node)
    return found

  def locks(self, asked: Sequence[Frozen]) -> Lock:
    """Returns the locked policy of each search's player: `[B, N', H']` each."""
    kept = []
    for frozen in asked:
      mask = np.zeros(self.policy.shape, self.policy.dtype)
      for node in frozen.past:
        mask[np.ix_(self.children[node], frozen.hands)] = 1
      extended, places = frozen.search.extended, frozen.search.places
      held = extended.to_whole(mask[places], fill=0.0)
      kept.append((held * extended.to_whole(self.policy[places]), 1 - held))
    least, free = (np.stack(rows) for rows in zip(*kept))
    return Lock(least, free)
