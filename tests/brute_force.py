"""CFR, values and best responses over histories in plain Python: the tests' referee."""

import collections
import dataclasses
from collections import defaultdict
from typing import NamedTuple

import numpy as np

import games
from tests import sequence_form


class Step(NamedTuple):
  """What CFR holds after one player's update."""

  policy: dict  # the current one
  average: dict
  root_values: np.ndarray  # [2, H] means over the updates so far


@dataclasses.dataclass
class Node:
  """A public node: what the rules say after `history`, root included."""

  history: tuple[int, ...]
  actor: int
  probability: float  # of the chance outcome that led here, else 1
  weights: list[list[float]]  # nature's weight of each pair of infostates
  successors: list[dict[int, list[int]]]  # for each player: infostate above -> infostates here
  payoffs: list[list[float]] | None  # to player 0, at the end of the game
  children: dict[int, "Node"] = dataclasses.field(default_factory=dict)


def enumerate_public(game) -> Node:
  """Returns the start of the game with every public node below it."""
  stay = [{i: [i] for i in range(game.num_infostates)} for _ in range(2)]
  return _enumerate(game, game.initial_state(), (), 1.0, stay)


def _enumerate(game, state, history, probability, successors) -> Node:
  states = np.asarray(state)[None]
  actor = int(game.actor(states)[0])
  payoffs = None
  if actor == games.TERMINAL:
    scale = float(game.payoff_scale(states)[0])
    payoffs = (np.asarray(game.payoffs(), float)[game.payoff_index(states)[0]] * scale).tolist()
  weights = np.asarray(game.pair_weights(), float)[game.pair_index(states)[0]].tolist()
  node = Node(history, actor, probability, weights, successors, payoffs)
  if actor == games.TERMINAL:
    return node
  for action in np.flatnonzero(game.legal_actions(states)[0]).tolist():
    actions = np.array([action])
    parents = game.infostate_parents(states, actions)
    h = game.num_infostates
    parents = np.tile(np.arange(h), (2, 1)) if parents is None else np.asarray(parents[0])
    chance, mask = 1.0, np.ones((2, h), bool)
    if actor == games.CHANCE:
      chances, masks = game.chance(states, actions)
      chance, mask = float(chances[0]), np.asarray(masks[0], bool)
    below = [defaultdict(list) for _ in range(2)]
    for player in (0, 1):
      for infostate in range(h):
        if parents[player, infostate] >= 0 and mask[player, infostate]:
          below[player][int(parents[player, infostate])].append(infostate)
    child = game.next_states(states, actions)[0]
    node.children[action] = _enumerate(
      game, child, (*history, action), chance, [dict(b) for b in below]
    )
  return node


def next_hands(node, child, hands):
  """Yields the pairs of infostates at `child` and nature's probability of each."""
  above = node.weights[hands[0]][hands[1]]
  for i in child.successors[0].get(hands[0], ()):
    for j in child.successors[1].get(hands[1], ()):
      weight = child.weights[i][j]
      if weight > 0:
        yield (i, j), child.probability * weight / above


class Referee:
  """One (sub)game with root beliefs `[2, H]`; a policy is `{infoset: {move: probability}}`.

  An infoset is (player, public history, infostate), a move (public action, own infostate after).
  """

  def __init__(self, game, root=(), beliefs=None):
    assert beliefs is not None or not root, "a root that is not the start needs beliefs"
    self.game, self.h = game, game.num_infostates
    self.beliefs = np.asarray(game.prior() if beliefs is None else beliefs, float).tolist()
    self.root = enumerate_public(game)
    joint = np.multiply.outer(*np.asarray(game.prior(), float)) * self.root.weights
    allowed = set(map(tuple, np.argwhere(joint > 0).tolist()))
    for action in root:
      child = self.root.children[action]
      allowed = {new for hands in allowed for new, _ in next_hands(self.root, child, hands)}
      self.root = child
    # Pairs of infostates that the rules allow at the root, and their weights.
    self.pairs = [(hands, self.root.weights[hands[0]][hands[1]]) for hands in sorted(allowed)]
    self.infosets = {}
    for node, hands in self.histories():
      if node.actor < games.CHANCE:
        held = hands[node.actor]
        infoset = node.actor, node.history, held
        own = {a: child.successors[node.actor].get(held, ()) for a, child in node.children.items()}
        self.infosets[infoset] = [(action, after) for action in own for after in own[action]]

  def histories(self):
    """Yields every history at or below the root: a node and a pair of infostates."""

    def below(node, hands):
      yield node, hands
      for child in node.children.values():
        for new, _ in next_hands(node, child, hands):
          yield from below(child, new)

    for hands, _ in self.pairs:
      yield from below(self.root, hands)

  def uniform(self):
    return {i: {m: 1.0 / len(moves) for m in moves} for i, moves in self.infosets.items()}

  def random(self, rng, zeros=0.0):
    """Returns a random policy in which about `zeros` of the moves are never played."""
    policy = {}
    for infoset, moves in self.infosets.items():
      weights = rng.exponential(size=len(moves)) * (rng.random(len(moves)) >= zeros)
      if weights.sum() == 0:
        weights[rng.integers(len(moves))] = 1.0
      policy[infoset] = dict(zip(moves, weights / weights.sum()))
    return policy

  # Values.

  def value(self, policy, node, hands, player, reach=1.0, regrets=None):
    """Returns `player`'s expected payoff from a history; adds to `regrets` if given."""
    if node.actor == games.TERMINAL:
      payoff = node.payoffs[hands[0]][hands[1]]
      return payoff if player == 0 else -payoff
    chosen = policy.get((node.actor, node.history, hands[node.actor])) if node.actor < 2 else None
    worth = defaultdict(float)  # of each move, or of chance as a whole
    for action, child in node.children.items():
      for new, nature in next_hands(node, child, hands):
        move = (action, new[node.actor]) if node.actor < 2 else None
        played = nature
        if node.actor == 1 - player:
          played *= chosen[move]
        if played == 0:
          continue
        below = self.value(policy, child, new, player, reach * played, regrets)
        worth[move] += played * below
    if node.actor != player:
      return sum(worth.values())
    value = sum(chosen[move] * worth[move] for move in chosen)
    if regrets is not None:
      for move in chosen:
        regrets[player, node.history, hands[player]][move] += reach * (worth[move] - value)
    return value

  def root_values(self, policy, player, regrets=None):
    """Returns `player`'s expected payoff given each root infostate: list of `H`."""
    total, mass = [0.0] * self.h, [0.0] * self.h
    for hands, weight in self.pairs:
      reach = weight * self.beliefs[1 - player][hands[1 - player]]
      if reach > 0:
        total[hands[player]] += reach * self.value(policy, self.root, hands, player, reach, regrets)
        mass[hands[player]] += reach
    return [t / m if m > 0 else 0.0 for t, m in zip(total, mass)]

  def expected_values(self, policy):
    return np.array([self.root_values(policy, p) for p in (0, 1)])

  def joint(self):
    """Returns the joint prior of pairs of infostates, normalised: dict."""
    joint = {
      hands: weight * self.beliefs[0][hands[0]] * self.beliefs[1][hands[1]]
      for hands, weight in self.pairs
    }
    total = sum(joint.values())
    return {hands: p / total for hands, p in joint.items()}

  def game_value(self, policy):
    """Returns what player 0 expects before infostates are drawn."""
    return sum(p * self.value(policy, self.root, hands, 0) for hands, p in self.joint().items())

  def best_response_values(self, policy, player):
    """Returns what a best response expects given each root infostate: list of `H`."""
    values = []
    for own in range(self.h):
      worlds = {}
      for hands, weight in self.pairs:
        if hands[player] == own:
          worlds[hands] = weight * self.beliefs[1 - player][hands[1 - player]]
      mass = sum(worlds.values())
      values.append(self._respond(policy, self.root, worlds, player) / mass if mass > 0 else 0.0)
    return values

  def _respond(self, policy, node, worlds, player):
    """Returns the best response's payoff summed over `worlds` `{hands: reach}`."""
    worlds = {hands: reach for hands, reach in worlds.items() if reach > 0}
    if not worlds:
      return 0.0
    if node.actor == games.TERMINAL:
      sign = 1 if player == 0 else -1
      return sum(sign * reach * node.payoffs[i][j] for (i, j), reach in worlds.items())
    options = []
    for action, child in node.children.items():
      after = defaultdict(dict)  # own infostate after the action -> worlds
      for hands, reach in worlds.items():
        for new, nature in next_hands(node, child, hands):
          if node.actor == 1 - player:
            nature *= policy[node.actor, node.history, hands[node.actor]][action, new[node.actor]]
          group = after[new[player]]
          group[new] = group.get(new, 0.0) + reach * nature
      options += [self._respond(policy, child, group, player) for group in after.values()]
    return max(options) if node.actor == player else sum(options)

  def best_response_value(self, policy, player):
    """Returns what a best response expects before infostates are drawn."""
    values = self.best_response_values(policy, player)
    return sum(p * values[hands[player]] for hands, p in self.joint().items())

  def exploitability(self, policy):
    return sum(self.best_response_value(policy, p) for p in (0, 1)) / 2

  def equilibrium_value(self, locked=()):
    """Returns what player 0 expects in equilibrium.

    `locked` gives infosets a mix of moves, and its share: how often it takes the place of a choice.
    """

    def look(state):
      if isinstance(state, list):
        return state
      node, hands, *free = state
      if node.actor == games.TERMINAL:
        return node.payoffs[hands[0]][hands[1]]
      below = defaultdict(list)
      for action, child in node.children.items():
        for new, nature in next_hands(node, child, hands):
          move = (action, new[node.actor]) if node.actor < 2 else None
          below[move].append((nature, (child, new)))
      if node.actor == games.CHANCE:
        return below[None]
      infoset = node.actor, node.history, hands[node.actor]
      if infoset in locked and not free:
        share, mix = locked[infoset]
        held = [(share * often, below[move]) for move, often in mix.items()]
        return [*held, (1 - share, (node, hands, "free"))]
      return node.actor, infoset, [below[move] for move in self.infosets[infoset]]

    start = [(p, (self.root, hands)) for hands, p in self.joint().items() if p > 0]
    return sequence_form.game_value(start, look)

  # CFR.

  def own_reach(self, policy, player):
    """Returns the probability that `player`'s own moves lead to each of its infosets."""
    reach = {}

    def walk(node, own, probability):
      if node.actor == player and (player, node.history, own) in self.infosets:
        reach[player, node.history, own] = probability
      for action, child in node.children.items():
        for after in child.successors[player].get(own, ()):
          factor = 1.0
          if node.actor == player:
            factor = policy.get((player, node.history, own), {}).get((action, after), 0.0)
          walk(child, after, probability * factor)

    for own in sorted({hands[player] for hands, _ in self.pairs}):
      walk(self.root, own, 1.0)
    return reach

  def regrets_of(self, policy, player):
    """Returns each infoset's instantaneous regrets under `policy`, and root values."""
    regrets = {i: dict.fromkeys(m, 0.0) for i, m in self.infosets.items() if i[0] == player}
    return regrets, self.root_values(policy, player, regrets)

  def cfr(self, num_iterations, *, linear, start=None):
    """Yields a `Step` at first and after each player's update, player 0 first.

    `start` is a policy, how many iterations it stands for, and instantaneous regrets of each.
    """
    power = 1 if linear else 0
    total_policy = {i: dict.fromkeys(moves, 0.0) for i, moves in self.infosets.items()}
    start, done, regrets = start or (self.uniform(), 0, total_policy)

    def count(played, player, weight):
      reach = self.own_reach(played, player)
      for infoset, moves in total_policy.items():
        for move in moves if infoset[0] == player else ():
          moves[move] += weight * reach[infoset] * played[infoset][move]

    def step():
      total = {i: sum(moves.values()) for i, moves in total_policy.items()}
      average = {i: {m: x / total[i] for m, x in mv.items()} for i, mv in total_policy.items()}
      return Step(policy, average, values / np.maximum(weights, 1)[:, None])

    known = sum(k**power for k in range(1, done + 1))
    total_regret = {i: {m: known * r for m, r in moves.items()} for i, moves in regrets.items()}
    policy = {infoset: matched(sums) for infoset, sums in total_regret.items()}
    for player in (0, 1):
      count(start, player, known)
      count(policy, player, (done + 1) ** power)
    values, weights = np.zeros((2, self.h)), np.zeros(2)
    yield step()
    for t in range(num_iterations):
      player, k = t % 2, done + t // 2 + 1
      regrets, root = self.regrets_of(policy, player)
      for infoset, instantaneous in regrets.items():
        for move, regret in instantaneous.items():
          total_regret[infoset][move] += k**power * regret
      policy = policy | {infoset: matched(total_regret[infoset]) for infoset in regrets}
      count(policy, player, (k + 1) ** power)
      values[player] += k**power * np.array(root)
      weights[player] += k**power
      yield step()


def matched(sums):
  """Returns the policy that sums of regret by move match."""
  norm = sum(max(r, 0.0) for r in sums.values())
  return {m: max(r, 0.0) / norm if norm > 0 else 1 / len(sums) for m, r in sums.items()}


def tree_edges(tree, root=()):
  """Returns (node, infostate there, infoset, move) of each edge of `tree` and infostate."""
  parents, kinds, actions = (np.asarray(x).tolist() for x in (tree.parent, tree.kind, tree.action))
  histories, found = [tuple(root)], []
  for node in range(1, tree.num_nodes):
    parent, action = parents[node], actions[node]
    histories.append((*histories[parent], action))
    mover = kinds[parent]
    if mover not in (0, 1):
      continue
    for infostate in range(tree.num_infostates):
      if tree.possible is not None and not tree.possible[node, mover, infostate]:
        continue
      above = infostate
      if tree.infostate_parent is not None:
        above = int(tree.infostate_parent[node, mover, infostate])
      found.append((node, infostate, (mover, histories[parent], above), (action, infostate)))
  return found


def to_array(tree, policy, root=()):
  """Returns a dict policy as an array `[N, H]` on `tree`, one where there is no choice."""
  array, edges = np.ones((tree.num_nodes, tree.num_infostates)), tree_edges(tree, root)
  num_moves = collections.Counter(infoset for _, _, infoset, _ in edges)
  for node, infostate, infoset, move in edges:
    known = policy.get(infoset)
    array[node, infostate] = known[move] if known else 1 / num_moves[infoset]
  return array


def from_array(edges, array):
  """Returns an array policy `[N, H]` as a dict, given its tree's `tree_edges`."""
  rows = np.asarray(array).tolist()
  policy = defaultdict(dict)
  for node, infostate, infoset, move in edges:
    policy[infoset][move] = rows[node][infostate]
  return dict(policy)


def worst_difference(edges, array, policy, infosets=None):
  """Returns the largest difference between an array policy and a dict policy."""
  infosets = policy.keys() if infosets is None else infosets
  theirs = from_array(edges, array)
  return max((abs(theirs[i][m] - p) for i in infosets for m, p in policy[i].items()), default=0.0)
