"""Public trees against the histories that they stand for."""

import numpy as np

from games import pairs
from games.game import Game
from games.kinds import LEAF, PADDING, TERMINAL
from games.public_tree import PublicTree
from games.testing.histories import PublicHistory, require

_TOLERANCE = 1e-5  # trees hold float32


def check_public_tree(
  game: Game,
  tree: PublicTree,
  histories: dict[tuple[int, ...], PublicHistory],
  *,
  root: tuple[int, ...] = (),
  depth: int | None = None,
) -> None:
  """Checks a tree of `game`, perhaps one of a stack, against its histories.

  Args:
    game: the rules.
    tree: a tree as `build_public_tree(game, root=root, depth=depth)` returns it, or one of a
      stack that holds it.
    histories: `enumerate_histories(game)`.
    root, depth: what the tree was built with.

  Raises:
    AssertionError: they differ; the message says in what and where.
  """
  _check_layout(tree)
  prior = histories[root].prior
  prior = np.where(histories[root].possible, prior, 0)
  _same(tree.prior, prior / prior.sum(axis=1, keepdims=True), "prior", root)
  _same(tree.root_features, histories[root].features, "root_features", root)
  known = pairs.of_tree(tree)
  weights = known.weight_table(int(tree.root_pair_index))
  _same(weights, histories[root].weights, "pair_weights", root)
  leaf_of = {int(node): i for i, node in enumerate(tree.leaf_nodes)}
  terminal_of = {int(node): i for i, node in enumerate(tree.terminal_nodes)}
  places: dict[int, PublicHistory] = {}
  for node, parent in enumerate(np.asarray(tree.parent).tolist()):
    kind = int(tree.kind[node])
    if kind == PADDING:
      continue
    history = root if node == 0 else (*places[parent].history, int(tree.action[node]))
    require(history in histories, f"node {node} of the tree stands for {history}, which cannot be")
    truth = places[node] = histories[history]
    at_limit = depth is not None and len(history) == len(root) + depth
    expected = LEAF if at_limit and truth.actor != TERMINAL else truth.actor
    require(kind == expected, f"kind is {kind}, not {expected}, at node {node} after {history}")
    _same(tree.state[node], truth.state, "state", history)
    _check_infostates(tree, node, truth)
    if kind == TERMINAL:
      table = known.payoff_table(int(tree.payoff_index[terminal_of[node]]))
      assert truth.payoffs is not None
      table = table * tree.payoff_scale[terminal_of[node]]
      _same(table, truth.payoffs * truth.weights, "payoff times pair weight", history)
    elif kind == LEAF:
      leaf = leaf_of[node]
      require(tree.leaf_actor[leaf] == truth.actor, f"leaf_actor is wrong after {history}")
      _same(tree.leaf_features[:, leaf], truth.features, "leaf_features", history)
      weights = known.weight_table(int(tree.leaf_pair_index[leaf]))
      _same(weights, truth.weights, "pair_weights", history)
  _check_complete(tree, places)


def _same(value, expected, name: str, history) -> None:
  value, expected = np.asarray(value, float), np.asarray(expected, float)
  require(
    value.shape == expected.shape and np.allclose(value, expected, rtol=_TOLERANCE, atol=1e-6),
    f"{name} of the tree is {value.tolist()} after {history}; the rules, asked about this state "
    f"alone, say {expected.tolist()}",
  )


def _check_layout(tree: PublicTree) -> None:
  """Checks that nodes lie by level, by group, by action, by parent, as the static shape says."""
  structure = tree.structure
  require(structure.num_nodes == len(tree.parent), "the static shape has another number of nodes")
  kinds = np.asarray(tree.kind)
  terminals: list[int] = []
  leaves: list[int] = []
  for depth, level in enumerate(structure.levels):
    start, stop = structure.offsets[depth : depth + 2]
    cuts = np.cumsum([start, level.num_inner, level.num_leaves, level.num_terminals])
    for low, high, allowed in zip(cuts, cuts[1:], (lambda k: k < TERMINAL, LEAF, TERMINAL)):
      kind = kinds[low:high][kinds[low:high] != PADDING]
      fits = allowed(kind) if callable(allowed) else kind == allowed
      require(fits.all(), f"level {depth} mixes inner nodes, leaves and terminal nodes")
      real = np.arange(low, high)[kinds[low:high] != PADDING]
      order = list(zip(tree.action[real].tolist(), tree.parent[real].tolist()))
      require(order == sorted(order), f"level {depth} is not ordered by action, then parent")
    leaves += range(cuts[1], cuts[2])
    terminals += range(cuts[2], cuts[3])
    if depth == 0:
      continue
    real = np.flatnonzero(kinds[start:stop] != PADDING)
    parents = np.asarray(tree.parent[start:stop])[real]
    require(
      len(level.parents) == stop - start
      and (level.parents[real] + structure.offsets[depth - 1] == parents).all(),
      f"the runs of level {depth} are not the parents of its nodes",
    )
    movers = set(kinds[parents].tolist())
    require(
      level.parent_actor is None or movers <= {level.parent_actor},
      f"parent_actor={level.parent_actor} at level {depth}, whose parents' actors are {movers}",
    )
    require(
      movers <= set(level.movers), f"movers={level.movers} at level {depth} lack some of {movers}"
    )
    index = tree.payoff_index[structure.terminal_offsets[depth] :][: level.num_terminals]
    runs = level.payoff_runs
    named = index if runs is None else np.repeat([r[0] for r in runs], [r[2] - r[1] for r in runs])
    require(np.array_equal(named, index), f"payoff_runs of level {depth} are not its tables")
  require(list(tree.leaf_nodes) == leaves, "leaf_nodes are not the leaves in order")
  require(list(tree.terminal_nodes) == terminals, "terminal_nodes are not those in order")


def _check_infostates(tree: PublicTree, node: int, truth: PublicHistory) -> None:
  possible = np.ones_like(truth.possible) if tree.possible is None else tree.possible[node]
  _same(possible, truth.possible, "possible", truth.history)
  for player in (0, 1):
    met = sorted({pair[player] for pair in truth.worlds})
    require(
      possible[player][met].all(),
      f"player {player} can hold infostates {met} after {truth.history}; possible denies one",
    )
  if tree.parent[node] < 0:
    return
  probability = 1.0 if tree.chance_probability is None else tree.chance_probability[node]
  _same(probability, truth.probability, "chance_probability", truth.history)
  parents = np.tile(np.arange(tree.num_infostates), (2, 1))
  if tree.infostate_parent is not None:
    parents = np.asarray(tree.infostate_parent[node])
  expected = np.where(truth.possible, truth.infostate_parent, parents)
  _same(parents, expected, "infostate_parent", truth.history)


def _check_complete(tree: PublicTree, places: dict[int, PublicHistory]) -> None:
  """Checks that every legal action of every inner node leads somewhere, once."""
  children: dict[int, list[int]] = {node: [] for node in places}
  for node in places:
    if tree.parent[node] >= 0:
      children[int(tree.parent[node])].append(int(tree.action[node]))
  for node, truth in places.items():
    if tree.kind[node] >= TERMINAL:
      continue
    require(
      sorted(children[node]) == truth.children,
      f"the tree has actions {sorted(children[node])} after {truth.history}; legal are "
      f"{truth.children}",
    )
