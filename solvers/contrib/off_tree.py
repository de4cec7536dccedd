"""Action translation: a policy of a tree with few bet sizes, played where there are more."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from games.poker.abstraction import map_bet
from games.poker.holdem import CALL, FIRST_BET, Holdem
from games.public_tree import CHANCE, Array, PublicTree


class _Bets:
  """The moves of a tree of hold'em, and the fractions of the pot that its bets are."""

  def __init__(self, game: Holdem, tree: PublicTree):
    self.game, self.kind = game, np.asarray(tree.kind)
    self.children: dict[int, dict[int, int]] = defaultdict(dict)
    for node, (parent, action) in enumerate(zip(tree.parent.tolist(), tree.action.tolist())):
      self.children[parent][action] = node
    states = np.asarray(tree.state)
    highest = game.rules.highest(states)[:, None]
    self._fractions = (game.amounts(states) - highest) / (2 * highest + game.rules.dead)

  def sizes(self, node: int) -> dict[int, float]:
    """Returns the bets that `node` has, by action, smallest first."""
    bets = [a for a in self.children[node] if FIRST_BET <= a < self.game.burn]
    found = {action: float(self._fractions[node, action - FIRST_BET]) for action in bets}
    return dict(sorted(found.items(), key=lambda bet: bet[1]))

  def dealt(self, node: int) -> dict[int, int]:
    """Returns the nodes after a deal by the number of its outcome, which all abstractions share."""
    # There is none where cards are burned, or the game is over.
    return {a - self.game.burn: n for a, n in self.children[node].items() if a > self.game.burn}

  def next_deal(self, node: int) -> int:
    """Returns the next deal without further bets, or the end of the game."""
    while self.children[node] and not self.dealt(node):
      moves = self.children[node]
      node = moves[self.game.burn] if self.game.burn in moves else moves[CALL]
    return node


def translate(
  game: Holdem, tree: PublicTree, policy: Array, played: Holdem, whole: PublicTree, *, player: int
) -> np.ndarray:
  """Plays a policy of a coarse tree on a finer one, as agents without search do."""
  # The other's bets that the coarse tree lacks are taken for those around them at random, once and
  # for good, by the pseudo-harmonic mapping (`map_bet`). Own bets are the same fractions of what is
  # in the pot, or the nearest. Beyond the end of the coarse game the player checks and calls.
  coarse, fine = _Bets(game, tree), _Bets(played, whole)
  policy, result = np.asarray(policy, float), np.zeros((whole.num_nodes, whole.num_infostates))
  result[0] = 1.0
  # Where the player may think it is: coarse nodes, with the probability of each times own reach.
  waiting: list[tuple[int, dict[int, Any]]] = [(0, {0: np.ones(whole.num_infostates)})]
  while waiting:
    node, places = waiting.pop()
    moves = fine.children[node]
    reached: dict[int, dict[int, Any]] = {child: defaultdict(float) for child in moves.values()}
    for place, weight in places.items():
      if fine.kind[node] == CHANCE:
        for here, there in _dealt(coarse, place, fine, node):
          reached[there][here] += weight
        continue
      if coarse.kind[place] != fine.kind[node]:
        reached[moves[CALL]][place] += weight
        continue
      own = fine.kind[node] == player
      for here, there, share in _matches(coarse, place, fine, node, own):
        reached[there][here] += weight * (policy[here] if own else share)
    if fine.kind[node] < CHANCE:
      nothing = np.zeros(whole.num_infostates)
      rows = {child: nothing + sum(found.values()) for child, found in reached.items()}
      total = nothing + sum(rows.values()) * (fine.kind[node] == player)
      for child, row in rows.items():
        result[child] = np.where(total > 0, row / np.where(total > 0, total, 1), 1 / len(rows))
    elif fine.kind[node] == CHANCE:
      result[list(moves.values())] = 1.0
    waiting += [(child, found) for child, found in reached.items() if fine.children.get(child)]
  return result


def _dealt(coarse: _Bets, place: int, fine: _Bets, node: int):
  """Yields (coarse place, fine child) for the outcomes of chance in the finer tree."""
  # Who bets or calls last may differ between the trees, and so whether a card is burned.
  there = fine.dealt(node)
  if not there:  # a burn
    yield from ((place, child) for child in fine.children[node].values())
    return
  place = coarse.next_deal(place)
  here = coarse.dealt(place)
  yield from ((here.get(number, place), child) for number, child in there.items())


def _matches(coarse: _Bets, place: int, fine: _Bets, node: int, own: bool):
  """Yields (coarse child, fine child, share of it) for the moves at a node that both trees have."""
  here, there = coarse.children[place], fine.children[node]
  for action in there if not own else here:
    if action < FIRST_BET and (action in here if not own else action in there):
      yield here[action], there[action], 1.0
  sizes, known = fine.sizes(node), coarse.sizes(place)
  if own:
    bets, fractions = list(sizes), np.array(list(sizes.values()))
    for action, size in known.items():
      nearest = bets[np.abs(fractions - size).argmin()] if bets else CALL
      yield here[action], there[nearest], 1.0
    return
  for action, size in sizes.items():
    if not known:
      yield here[CALL], there[action], 1.0
      continue
    for taken, share in zip(known, map_bet(size, list(known.values()))):
      if share:
        yield here[taken], there[action], float(share)


def midpoint(low: float, high: float) -> float:
  """Returns the bet that the pseudo-harmonic mapping takes for either neighbour equally often."""
  return (low + high + 2 * low * high) / (low + high + 2)


def widest_gap(bets: Iterable[float], sizes: Sequence[float]) -> tuple[float, float]:
  """Returns the neighbours in `sizes` between which the other's bets are furthest from both."""
  # Each bet x between A and B scores `min(x - A, B - x)`; the highest sum wins, the lowest of
  # equals.
  known, played = np.asarray(sizes, float), np.asarray(list(bets), float)
  if known.size < 2 or (np.diff(known) <= 0).any():
    raise ValueError(f"sizes={list(sizes)!r} must be at least two fractions, increasing")
  low, high = known[:-1, None], known[1:, None]
  scores = np.maximum(np.minimum(played - low, high - played), 0.0).sum(axis=1)
  best = int(scores.argmax())
  return float(known[best]), float(known[best + 1])
