"""Random games that use everything the interface allows, for tests of the general path."""

import numpy as np

from games import CHANCE, TERMINAL
from games.arrays import lookup, one_hot
from games.tabulate import Listed

_MAX_ACTIONS = 3


class RandomGame(Listed):
  """A game drawn from a seed, a public state being the index of a public node."""

  name = "random_game"
  num_actions = _MAX_ACTIONS

  def __init__(self, seed: int, *, depth: int = 4, num_infostates: int = 3):
    self.num_infostates = num_infostates
    self._rng = np.random.default_rng(seed)
    self.movers, self.after, self._weights = [], [], []
    self._parents, self._probability, self._payoffs = [], [], []
    h = num_infostates
    prior = self._rng.exponential(size=(2, h))
    prior[self._rng.integers(2), self._rng.integers(h)] = 0.0
    self._prior = prior / prior.sum(axis=1, keepdims=True)
    weights = self._rng.exponential(size=(h, h)) * (self._rng.random((h, h)) < 0.8)
    weights[np.argmax(prior[0]), np.argmax(prior[1])] = 1.0
    reachable = [{i for i in range(h) if prior[p, i] > 0} for p in (0, 1)]
    self._grow(weights, reachable, np.tile(np.arange(h), (2, 1)), 1.0, depth)
    self.payoff_indices, self.scales = np.arange(len(self.movers)), np.ones(len(self.movers))

  def _grow(self, weights, reachable, parents, probability, depth) -> int:
    rng, node = self._rng, len(self.movers)
    ends = depth == 0 or (node > 0 and rng.random() < 0.15)
    self.movers.append(TERMINAL if ends else int(rng.integers(3)))
    self.after.append([-1] * _MAX_ACTIONS)
    self._weights.append(weights)
    self._parents.append(parents)
    self._probability.append(probability)
    self._payoffs.append(rng.normal(size=weights.shape))
    if ends:
      return node
    actor = self.movers[node]
    num_actions = int(rng.integers(1, _MAX_ACTIONS + 1))
    if actor == CHANCE:
      chances = rng.dirichlet(np.ones(num_actions))
      drafts = [self._draft_chance(weights, reachable) for _ in range(num_actions)]
      total = sum(c * self._pull(w, p) for c, (w, p) in zip(chances, drafts))
      steps = []
      for chance, (raw, parents) in zip(chances, drafts):
        i, j = np.maximum(parents, 0)
        scale = (weights / np.where(total > 0, total, 1.0))[i[:, None], j]
        steps.append((raw * scale, parents, float(chance)))
    else:
      steps = [(*self._draft_move(weights, reachable, actor), 1.0) for _ in range(num_actions)]
      # The first action is legal for all infostates, so nobody is without a move.
      steps[0] = (*self._draft_move(weights, reachable, actor, all_legal=True), 1.0)
    actions = np.sort(rng.permutation(_MAX_ACTIONS)[:num_actions])
    for action, (new, parents, chance) in zip(actions.tolist(), steps):
      if not new.any():
        continue  # legal for no pair of infostates that can meet
      after = [
        {i for i, above in enumerate(row.tolist()) if above in held}
        for row, held in zip(parents, reachable)
      ]
      self.after[node][action] = self._grow(new, after, parents, chance, depth - 1)
    return node

  def _pull(self, weights, parents):
    """Sums `[H, H]` weights over the infostates that come from the same pair above."""
    h = self.num_infostates
    from_above = [(row[:, None] == np.arange(h)).astype(float) for row in parents]
    return from_above[0].T @ weights @ from_above[1]

  def _cover(self, needed, allowed):
    """Returns parents `[H]`: every infostate of `needed` once, others of `allowed` at random."""
    h = self.num_infostates
    row = self._rng.choice([*sorted(allowed), -1], size=h)
    places = self._rng.permutation(h)[: len(needed)]
    row[places] = sorted(needed)
    return row

  def _draft_chance(self, weights, reachable):
    rng, h = self._rng, self.num_infostates
    parents = np.stack([self._cover(r, r) for r in reachable])
    raw = rng.exponential(size=(h, h)) + 0.1
    i, j = np.maximum(parents, 0)
    possible = (parents[0] >= 0)[:, None] & (parents[1] >= 0) & (weights[i[:, None], j] > 0)
    return raw * possible, parents

  def _draft_move(self, weights, reachable, actor, *, all_legal=False):
    rng, h = self._rng, self.num_infostates
    parents = np.zeros((2, h), int)
    needed = reachable[actor] if all_legal else set(sorted(reachable[actor])[:1])
    parents[actor] = self._cover(needed, reachable[actor])
    parents[1 - actor] = self._cover(reachable[1 - actor], reachable[1 - actor])
    i, j = np.maximum(parents, 0)
    above = weights[i[:, None], j] * (parents[0] >= 0)[:, None] * (parents[1] >= 0)
    raw = (rng.exponential(size=(h, h)) + 0.1) * (above > 0)
    # What the other player sees of the move is nature's: shares of one infostate sum to one.
    axis = 1 - actor  # the other's
    same = (parents[axis][:, None] == parents[axis]).astype(float)
    total = raw @ same if axis == 1 else same @ raw
    return above * raw / np.where(total > 0, total, 1.0), parents

  def prior(self):
    return self._prior

  def pair_weights(self):
    return np.stack(self._weights)

  def pair_index(self, states):
    return states[:, 0]

  def chance(self, states, actions):
    child = self.next_states(states, actions)[:, 0]
    return lookup(self._probability, child), lookup(self._parents, child) >= 0

  def infostate_parents(self, states, actions):
    return lookup(self._parents, self.next_states(states, actions)[:, 0])

  def payoffs(self):
    return np.stack(self._payoffs)

  def features(self, states, player):
    return one_hot(states[:, 0], len(self.movers)).astype(float) + player
