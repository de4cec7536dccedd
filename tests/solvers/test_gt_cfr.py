"""Growing searches, judged by a search in plain loops that consumes the same random numbers."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

import games
import solvers
from games.public_tree import largest_payoff
from solvers import GTCFR, StateAnswer
from tests.gt_cfr_referee import Referee

KEY = jax.random.key(5)
SEARCHES = (
  GTCFR(simulations=24, per_update=2, children=1),
  GTCFR(simulations=36, per_update=1 / 3),  # whose numbers are drawn in two parts
)


def judged_setting(name, parameters):
  """Returns a tree, its nodes' numbers as features, a network of tables, and those tables."""
  game = games.make(name, **parameters)
  tree = games.build_public_tree(game).astype(np.float64)
  info = solvers.node_info(game, tree)
  numbers = np.arange(tree.num_nodes)[:, None] * np.ones(info.features.shape[1:])
  rng = np.random.default_rng(0)
  values = rng.normal(size=(tree.num_nodes, 2, tree.num_infostates))
  logits = 4 * rng.normal(size=(tree.num_nodes, game.num_actions))

  def network(params, query):
    node = query.features[:, 0].astype(int)
    first = jax.numpy.asarray(tree.kind)[node] == 1
    rows = jax.numpy.asarray(values)[node]
    rows = jax.numpy.where(first[:, None, None], rows[:, ::-1], rows)
    likes = jax.numpy.asarray(logits)[node][:, :, None]
    return StateAnswer(rows, likes + jax.numpy.zeros(tree.num_infostates))

  info = info._replace(features=np.stack([numbers, numbers]))
  return tree, info, network, lambda node: (values[node], logits[node])


def difference(grown, referee):
  """Returns the largest difference of what two searches found; infinite if of other nodes."""
  if set(np.flatnonzero(grown.present).tolist()) != referee.present:
    return np.inf
  kind = np.asarray(referee.tree.kind)[np.maximum(referee.tree.parent, 0)]
  pairs = [(grown.root_values, referee.root)]
  for node, kids in enumerate(referee.kids):
    if kids and referee.kind[node] < games.CHANCE:
      moves = referee.tree.action[kids]
      pairs.append((np.asarray(grown.visits)[node, moves], referee.visits[kids]))
  for player in (0, 1):
    moved = (kind == player) & (np.arange(len(kind)) > 0)
    pairs.append(
      (np.asarray(grown.average_policy)[moved], referee.matched(referee.average[player])[moved])
    )
  return max(np.abs(np.asarray(x) - y).max() for x, y in pairs)


GAMES = (("kuhn_poker", {}), ("liars_dice", {"num_dice": 1, "num_faces": 3}))
# By default each pair of a game, a search and a kind of leaves, and not all three together.
CASES = [
  pytest.param(*GAMES[i], SEARCHES[j], bool(k), marks=[pytest.mark.slow] * ((i + j + k) % 2))
  for i, j, k in itertools.product((0, 1), repeat=3)
]


@pytest.mark.parametrize(("name", "parameters", "search", "asks"), CASES)
def test_searches_are_those_of_plain_loops(name, parameters, search, asks, x64):
  """Digit by digit; controls: another key, another weight of priors."""
  tree, info, network, judged = judged_setting(name, parameters)
  grown = solvers.gt_cfr(tree, info, search=search, key=KEY, network=network if asks else None)

  def by_loops(key, search=search):
    referee = Referee(tree, info, search, judged if asks else None)
    return referee.run(key, float(largest_payoff(tree)), jax.random.fold_in)

  assert difference(grown, by_loops(KEY)) < 1e-12
  assert difference(grown, by_loops(jax.random.key(6))) > 1e-6
  if name == "kuhn_poker":  # the other game's tree is soon whole
    other = dataclasses.replace(search, puct=50.0)
    assert difference(grown, by_loops(KEY, other)) > 1e-6
