"""Hands of hold'em that self-play drew, each as a game of its own: the referee of templates."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from games import PADDING
from games.build import build_from_state
from games.poker import betting
from games.poker.streets import FIXED


def own_game(game, state):
  """Returns the game that a hand at public `state` `[S]` plays, with nothing new in any hand."""
  state = np.asarray(state)
  rules, bets, board = game.rules, game.bets, game.board
  if game.fresh.stack is not None:
    rules = dataclasses.replace(rules, stacks=(int(state[betting.STACK]),) * 2)
  if game.fresh.board:
    first = betting.NUM_COLUMNS
    board = tuple(state[first : first + len(board)].tolist())
  if game.fresh.bets is not None:
    table = state[game.size_columns].reshape(bets.kinds.shape)[0]
    fractions = tuple(
      tuple(tuple(size / 1000 for size in sizes.tolist() if size) for sizes in counts)
      for counts in table
    )
    bets = dataclasses.replace(bets, fractions=fractions)
  return game.replace(
    rules=rules, bets=bets, board=board, fresh=FIXED, flops=None, every_hand=game.every_hand
  )


def own_state(game, state):
  """Returns `state` `[S]` as `own_game` writes it: without what is new in the hand."""
  state = np.asarray(state)
  first = betting.NUM_COLUMNS
  dealt = first + len(game.board) * game.fresh.board
  return np.concatenate([state[:first], state[dealt : dealt + sum(game.deals)]])


def own_tree(game, state, own=None):
  """Returns the subgame at `state` as the builder of trees makes it, chance's burns included."""
  own = own_game(game, state) if own is None else own
  row = own_state(game, state)
  possible = np.asarray(game.templates().possible(np.asarray(state)[None])[0])
  rules = game.templates()
  template = rules.templates[int(rules.number_of(np.asarray(state)[None])[0])]
  all_in = not template.decides and not template.structure.num_leaves
  return build_from_state(own, row, depth=None if all_in else "stage", possible=possible)


def by_path(tree, burn):
  """Returns the nodes of a tree by the actions that lead to them, burnt cards skipped."""
  tree = jax.tree.map(np.asarray, tree)
  nodes = {tree.history(n): n for n in range(tree.num_nodes) if tree.kind[n] != PADDING}
  for path in [path for path in nodes if path and path[-1] == burn]:
    nodes[path[:-1]] = nodes.pop(path)
  return nodes


@dataclasses.dataclass(frozen=True)
class Hedge:
  """Weights exp(rate * sum of regrets): between moves that are worth the same nothing jumps."""

  rate: float

  def init(self, zeros):
    return {"sum": zeros}

  def update(self, state, regret, k):
    return {"sum": state["sum"] + regret}

  def match(self, state, siblings, k):
    scaled = self.rate / jnp.sqrt(jnp.maximum(k, 1.0)) * state["sum"]
    return siblings.normalise(jnp.exp(scaled - siblings.largest(scaled)))


def some_leaf_values(params, query):
  """Some values that depend on all that a network sees."""
  own, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
  slopes = np.random.default_rng(1).normal(size=(2, own.shape[1], own.shape[1]))
  public = query.features @ np.random.default_rng(2).normal(size=query.features.shape[1])
  return 10 * jnp.sin(public)[:, None] + own @ slopes[0] + jnp.cos(other @ slopes[1])
