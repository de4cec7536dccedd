"""Trees of a game against its histories, and its rules on JAX's arrays against numpy's."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import pairs
from games.arrays import as_array, check_shape, checked, one
from games.build import build_public_tree, stack_trees, take
from games.game import CHANCE, TERMINAL, Game
from games.public_tree import LEAF, PADDING, PublicTree, group_of
from games.tabulate import children_of
from games.testing.histories import PublicHistory, enumerate_histories, require

_TOLERANCE = 1e-5  # trees hold float32


@checked
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
  for depth, level in enumerate(structure.levels):
    start, stop = structure.offsets[depth : depth + 2]
    group = np.repeat([0, 1, 2], [level.num_inner, level.num_leaves, level.num_terminals])
    real = start + np.flatnonzero(kinds[start:stop] != PADDING)
    own = group_of(kinds[real])
    same = np.array_equal(own, group[real - start])
    require(same, f"level {depth} mixes inner nodes, leaves and terminal nodes")
    order = list(zip(own.tolist(), tree.action[real].tolist(), tree.parent[real].tolist()))
    require(order == sorted(set(order)), f"level {depth} is not in order: by action, then parent")
    if depth == 0:
      continue
    parents = np.asarray(tree.parent)[real]
    above = structure.offsets[depth - 1] + level.parents
    require(
      len(above) == stop - start and (above[real - start] == parents).all(),
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
  for name in ("leaf_nodes", "terminal_nodes"):
    same = np.array_equal(getattr(tree, name), getattr(structure, name))
    require(same, f"{name} are not those of the static shape in order")


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
  child = children_of(tree)
  for node, truth in places.items():
    found = np.flatnonzero(child[node] >= 0).tolist()
    require(
      found == truth.children or tree.kind[node] >= TERMINAL,
      f"the tree has actions {found} after {truth.history}; legal are {truth.children}",
    )


_ONE_BY_ONE = "under jax.vmap over single states"
_MAX_MOVES = 1000  # of a random game
_ENTRIES = 2**20  # of tables of pairs of infostates that are asked about
# XLA divides by constants by multiplying with their inverse, and fuses products with sums.
_UNITS_IN_THE_LAST_PLACE = 4


class _Question(NamedTuple):
  """A method and the rows that it is asked about: states `[n, S]`, perhaps with actions `[n]`."""

  name: str
  ask: Callable[..., Any]
  rows: tuple[np.ndarray, ...]


@checked
def check_rules(
  game: Game,
  states: np.ndarray | None = None,
  *,
  num_playouts: Annotated[int, (1, 10**6)] = 32,
  seed: int = 0,
) -> None:
  """Checks that the methods of `game` answer alike on numpy's arrays and on JAX's.

  Each is asked about all `states` and their legal actions, as far as they concern it: by numpy, and
  by JAX compiled, and compiled over single states. Shapes, integers and truth values must be equal,
  numbers as float32 up to four units in the last place; states of `int32` must stay so, also under
  `jax.enable_x64`.

  Args:
    game: the game, of any size.
    states: `[n, S]` public states; None for all that are met in games played at random.
    num_playouts: how many games are played at random.
    seed: of these.

  Raises:
    AssertionError: a method cannot be traced or answers otherwise; the message says which.
    ValueError: `states` are of another shape, or `num_playouts` is not from 1 to a million.
  """
  states = _play_at_random(game, num_playouts, seed) if states is None else as_array(states)
  check_shape("states", states, (len(states), *np.shape(game.initial_state())), "(n, S)")
  require(
    (states == states.astype(np.int32)).all(),
    f"public states hold numbers up to {np.abs(states).max()}; they must fit into 32 bits",
  )
  questions = _questions(game, states)
  expected = [question.ask(*question.rows) for question in questions]
  for way in ("under jax.jit", _ONE_BY_ONE):
    for question, ours, theirs in zip(questions, expected, _answers(way, questions)):
      _compare(question, way, ours, theirs)
  with jax.enable_x64(True):
    row = jax.ShapeDtypeStruct((1, states.shape[1]), np.int32)
    dtype = jax.eval_shape(game.next_states, row, jax.ShapeDtypeStruct((1,), np.int32)).dtype
  require(
    dtype == np.int32,
    f"next_states() turns states of int32 into {dtype} under jax.enable_x64; it must keep their "
    "dtype",
  )


def _play_at_random(game: Game, num_playouts: int, seed: int) -> np.ndarray:
  """Returns the public states met in random games: `[n, S]`, each once."""
  rng = np.random.default_rng(seed)
  states = np.repeat(np.asarray(game.initial_state())[None], num_playouts, axis=0)
  met = [states]
  for _ in range(_MAX_MOVES):
    states = states[game.actor(states) != TERMINAL]
    if len(states) == 0:
      break
    legal = game.legal_actions(states)
    actions = np.where(legal, rng.random(legal.shape), -1.0).argmax(axis=1)
    states = game.next_states(states, actions)
    met.append(states)
  return np.unique(np.concatenate(met), axis=0)


def _questions(game: Game, states: np.ndarray) -> list[_Question]:
  actor = game.actor(states)
  inner, ends = states[actor != TERMINAL], states[actor == TERMINAL]
  places, actions = np.nonzero(game.legal_actions(inner))
  moves = inner[places], actions
  movers = actor[actor != TERMINAL]
  deals = tuple(x[movers[places] == CHANCE] for x in moves)
  h = game.num_infostates
  every = np.ones((len(places), 2, h), bool)
  some = ends[: 1 + _ENTRIES // h**2]
  reach = np.eye(h)[np.arange(len(some)) % h]
  questions = [
    _Question("actor", game.actor, (states,)),
    _Question("legal_actions", game.legal_actions, (inner,)),
    _Question("next_states", game.next_states, moves),
    _Question("infostate_parents", game.infostate_parents, moves),
    _Question("possible_after", game.possible_after, (*moves, every)),
    _Question("dealt_cards", game.dealt_cards, moves),
    _Question("chance", game.chance, deals),
    _Question("pair_index", game.pair_index, (states,)),
    _Question("stages", game.stages, (states,)),
    _Question("payoff_index", game.payoff_index, (ends,)),
    _Question("payoff_scale", game.payoff_scale, (ends,)),
    _Question("features", lambda states: game.features(states, 0), (states,)),
    _Question("features", lambda states: game.features(states, 1), (states,)),
  ]
  for player in (0, 1):
    for rule in (game.compatible_mass, game.terminal_values):
      ask = functools.partial(rule, player=player)
      questions.append(_Question(rule.__name__, ask, (some, reach)))
  if game.num_hidden > 1:
    questions.append(_Question("moves_of", game.moves_of, (inner[movers < CHANCE],)))
  return [question for question in questions if len(question.rows[0])]


def _answers(way: str, questions: list[_Question]) -> list[Any]:
  """Returns JAX's compiled answers: to all rows of each question, or to each row of its own."""

  def answer(question: _Question, rows: tuple[jax.Array, ...]) -> Any:
    single = jax.vmap(functools.partial(one, question.ask))
    try:
      return (single if way == _ONE_BY_ONE else question.ask)(*rows)
    except Exception as error:
      reason = str(error).partition("\n")[0]
      raise AssertionError(
        f"{question.name}() fails {way}, where numpy answers: {type(error).__name__}: {reason} "
        "Write it over states.__array_namespace__(), with where and games.arrays.lookup, or use "
        "games.tabulate."
      ) from error

  every = jax.jit(lambda rows: [answer(*row) for row in zip(questions, rows)])
  kinds = {"i": jnp.int32, "f": jnp.float32, "b": jnp.bool_}
  return every([tuple(jnp.asarray(x, kinds[x.dtype.kind]) for x in q.rows) for q in questions])


def _compare(question: _Question, way: str, expected: Any, found: Any) -> None:
  ours, theirs = jax.tree.leaves(expected), jax.tree.leaves(found)
  require(
    len(ours) == len(theirs),
    f"{question.name}() returns {len(theirs)} arrays {way}, and {len(ours)} with numpy",
  )
  for x, y in zip(ours, theirs):
    x, y = np.asarray(x), np.asarray(y)
    kinds = {np.dtype(z.dtype).kind.replace("u", "i") for z in (x, y)}
    require(
      x.shape == y.shape and len(kinds) == 1,
      f"{question.name}() is {y.dtype} of shape {y.shape} {way}, and {x.dtype} of shape {x.shape} "
      "with numpy",
    )
    wrong = np.argwhere(_differ(x, y))
    if len(wrong):
      place = tuple(wrong[0].tolist())
      about = [row[place[0]].tolist() for row in question.rows]
      require(
        False,
        f"{question.name}() is {y[place]} at {place} {way}, and {x[place]} with numpy, for the "
        "state " + " and the action ".join(map(str, about)),
      )


def _differ(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  if x.dtype.kind != "f":
    return x != y
  x, y = x.astype(np.float32), y.astype(np.float32)
  unit = np.spacing(np.maximum(np.abs(x), np.abs(y)))
  return ~(np.abs(x - y) <= _UNITS_IN_THE_LAST_PLACE * unit)  # so that NaN differs


_NUM_ROOTS = 6
_DEPTHS = (1, 2, None)


@checked
def check_game(game: Game, *, max_histories: int = 300_000) -> None:
  """Checks an implementation of `Game` against an enumeration of its histories.

  It walks over every history in plain Python, one state at a time, and checks that

  - priors, their joint and the probabilities of chance sum to one, for every pair of infostates
    at every chance state, and no move loses a pair of infostates or makes one up;
  - actors, actions, states, tables and their indices are what the interface asks for, and no
    method changes its arguments;
  - every infostate has a legal move where its player acts, and comes from one infostate above,
    so that players remember what they knew and did (perfect recall);
  - payoffs are finite: they are player 0's, and the other's are their negatives (zero sum);
  - features are finite and of one length;
  - the public tree, built from batches of states, holds what the histories hold (public states,
    actors, actions, chance, infostates and where they come from, payoffs to each pair of
    infostates, features), in the order that solvers rely on;
  - so do trees of other roots and depths, and the same trees stacked;
  - JAX answers as numpy does, for all public states: `check_rules`, which is there for games too
    large to enumerate, too.

  Args:
    game: the game, in a size small enough to enumerate; a larger one has the same code.
    max_histories: how many histories, pairs of infostates counted, are too many.

  Raises:
    AssertionError: a check fails; the message says what is wrong and where.
    ValueError: the game has more than `max_histories` histories.
  """
  histories = enumerate_histories(game, max_histories)
  inner = [history for history, node in histories.items() if node.actor != TERMINAL]
  places = np.linspace(0, len(inner) - 1, num=min(_NUM_ROOTS, len(inner)), dtype=int)
  roots = [inner[i] for i in places]  # the start of the game is the first
  for depth in _DEPTHS:
    trees = [build_public_tree(game, root=root, depth=depth) for root in roots]
    stacked = stack_trees(trees)
    for i, (root, tree) in enumerate(zip(roots, trees)):
      check_public_tree(game, tree, histories, root=root, depth=depth)
      check_public_tree(game, take(stacked, i), histories, root=root, depth=depth)
  check_rules(game, np.unique([node.state for node in histories.values()], axis=0))
