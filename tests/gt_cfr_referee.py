"""Growing-tree CFR+ in plain loops on a whole tree, with the random numbers of `gt_cfr`."""

import numpy as np

from games import CHANCE, TERMINAL
from solvers.growing.simulate import Numbers


def sampled(number, weights):
  """Returns the first index whose cumulated weight is above `number` of the total."""
  above = np.flatnonzero(np.cumsum(weights) > number * np.sum(weights))
  return int(above[0]) if len(above) else 0


class Referee:
  """A search from the root of `tree`; `judged` is None or says a node's values and logits."""

  def __init__(self, tree, info, search, judged=None):
    self.tree, self.info, self.search, self.judged = tree, info, search, judged
    self.kind, number = tree.kind.tolist(), tree.num_nodes
    self.kids = [[] for _ in range(number)]
    self.chance, dealt = np.ones(number), tree.chance_probability
    for node in sorted(range(1, number), key=lambda n: tree.action[n]):
      self.kids[tree.parent[node]].append(node)
    for node in range(1, number):
      self.chance[node] = self.chance[tree.parent[node]] * (1.0 if dealt is None else dealt[node])
    allowed = 1.0 if tree.possible is None else tree.possible
    self.allowed = allowed * np.ones((number, *tree.prior.shape))
    self.nature = tree.prior * self.chance[:, None, None] * self.allowed  # [N, P, H]
    payoffs = tree.payoffs[tree.payoff_index] * tree.payoff_scale[:, None, None]
    self.payoffs = dict(zip(tree.structure.terminal_nodes.tolist(), payoffs))
    self.present = {0, *self.kids[0]}
    self.regret, self.visits = np.zeros((2, number, tree.num_infostates))
    self.asked = set(self.present)
    self.policy = self.matched(self.regret)
    self.average = [self.reach(p) for p in (0, 1)]
    self.root, self.weight = np.zeros_like(tree.prior), 0.0

  def there(self, node):
    return [kid for kid in self.kids[node] if kid in self.present]

  def matched(self, weights):
    """Returns the policy that positive weights match, by child: `[N, H]`."""
    policy = np.zeros_like(weights)
    for node in self.present:
      kids = self.there(node)
      for held in range(policy.shape[1]) if kids else ():
        own = np.maximum(weights[kids, held], 0.0)
        policy[kids, held] = own / own.sum() if own.any() else 1.0 / len(kids)
    return policy

  def reach(self, player):
    reach = np.zeros_like(self.regret)
    reach[0] = 1.0
    for node in sorted(self.present - {0}):
      above = self.tree.parent[node]
      reach[node] = reach[above] * (self.policy[node] if self.kind[above] == player else 1.0)
    return reach

  def met(self, node, player, reach):
    """Returns the mass of the other's `reach` `[H]` that each infostate may meet."""
    weights = self.tree.pair_weights[self.info.pair_index[node]]
    return (weights if player == 0 else weights.T) @ reach

  def worth(self, player):
    """Returns counterfactual values and the other's mass, `[N, H]` each."""
    values, mass = np.zeros((2, *self.regret.shape))
    other = self.reach(1 - player) * self.nature[:, 1 - player]
    for node in sorted(self.present, reverse=True):
      if self.kind[node] == TERMINAL:
        table = self.payoffs[node] if player == 0 else -self.payoffs[node].T
        values[node] = table @ other[node]
      else:
        mass[node] = self.met(node, player, other[node])
        if not self.there(node) and self.judged is not None:
          values[node] = self.judged(node)[0][player] * mass[node]
        for kid in self.there(node):
          values[node] += (self.policy[kid] if self.kind[node] == player else 1.0) * values[kid]
      values[node] *= self.allowed[node, player]
    return values, mass

  def update(self, k):
    """Makes the k-th update of both players, each against what the other played before."""
    found, kind = [self.worth(player) for player in (0, 1)], self.kind
    for kid in (kid for kid in self.present - {0} if kind[self.tree.parent[kid]] < CHANCE):
      above, values = self.tree.parent[kid], found[kind[self.tree.parent[kid]]][0]
      self.regret[kid] = np.maximum(self.regret[kid], 0.0) + values[kid] - values[above]
    self.policy = self.matched(self.regret)
    self.average = [x * k / (k + 1) + self.reach(p) for p, x in enumerate(self.average)]
    self.root = self.root * (k - 1) / k + np.stack([values[0] for values, _ in found])
    self.weight = self.weight * (k - 1) / k + 1.0
    self.asked |= {node for node in self.present if not self.there(node)}
    return found

  def prior(self, node):
    likes = np.zeros(len(self.kids[node]))
    if self.judged is not None and node in self.asked:
      likes = self.judged(node)[1][self.tree.action[self.kids[node]]]
    return np.exp(likes) / np.exp(likes).sum()

  def chosen(self, node, held, found, numbers, recent):
    kids, (values, mass), scores = self.kids[node], found[self.kind[node]], []
    total = sum(self.visits[kid, held] for kid in kids)
    for kid, prior in zip(kids, self.prior(node)):
      at = kid if kid in self.present else node
      met = self.scale * mass[node if self.kind[at] == TERMINAL else at, held]
      value = values[at, held] / met if met > 0 else 0.0
      seen, new = self.visits[kid, held], recent[kid, held]
      value = (seen * value - new) / (seen + new) if new else value
      scores.append(value + self.search.puct * prior * np.sqrt(total) / (1 + seen))
    if numbers[1] < 0.5:
      return kids[[score >= max(scores) - 1e-6 for score in scores].index(True)]
    return kids[sampled(numbers[0], self.policy[kids, held])]

  def simulate(self, hands, found, numbers, recent):
    node, path, steps = 0, [], iter(numbers)
    while node in self.present and self.there(node):
      drawn, mover, kids = next(steps), self.kind[node], self.kids[node]
      if mover < CHANCE:
        node = self.chosen(node, hands[mover], found, drawn, recent)
        path.append((node, hands[mover]))
      else:
        fits = self.allowed[kids, 0, hands[0]] * self.allowed[kids, 1, hands[1]]
        node = kids[sampled(drawn[2], self.chance[kids] / self.chance[node] * fits)]
    if node in self.present:
      kids = self.kids[node]
      if kids and self.kind[node] < CHANCE:
        best = np.argsort(-self.prior(node), kind="stable")[: self.search.children]
        kids = [kids[i] for i in best]
      self.present.update(kids)
    self.present.add(node)
    for row, held in path:
      self.visits[row, held], recent[row, held] = self.visits[row, held] + 1, recent[row, held] + 1

  def run(self, key, scale, fold):
    """Searches with the numbers of `key`, payoffs of `scale`; `fold` makes a round's key."""
    self.scale, first, updates = scale, self.nature[0], self.search.updates_per_round
    for i in range(self.search.rounds):
      numbers = Numbers.draw(fold(key, i), self.search, self.tree.structure.depth)
      pairs, walks = np.asarray(numbers.pairs), np.asarray(numbers.walks)
      for k in range(updates * i, updates * (i + 1)):
        found = self.update(k + 1)
      recent = np.zeros_like(self.visits)
      for j in range(self.search.per_round):
        own = sampled(pairs[j, 0], first[0] * self.met(0, 0, first[1]))
        met = self.met(0, 1, np.eye(len(first[0]))[own])
        self.simulate((own, sampled(pairs[j, 1], first[1] * met)), found, walks[:, j], recent)
      self.policy = self.matched(self.regret)
    self.root /= self.weight * np.stack([self.met(0, p, first[1 - p]) for p in (0, 1)])
    return self
