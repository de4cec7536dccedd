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
  """Checks a tree of `game` against its histories, in what it holds and in its order.

  Args:
    game: the rules.
    tree: from `build_public_tree(game, root=root, depth=depth)`, or one of a stack that holds it.
    histories: `enumerate_histories(game)`.
    root, depth: what the tree was built with.

  Raises:
    AssertionError: they differ; the message says in what and where.
  """
  nodes = _nodes_of(histories, root, depth)
  truths = [histories[history] for *_, history in nodes]
  action, parent, kind = (np.array(column) for column in list(zip(*nodes))[1:4])
  kinds, start = np.asarray(tree.kind), truths[0]
  real = np.flatnonzero(kinds != PADDING)
  _same("kind", kinds[real], kind, truths)
  _same("action", np.asarray(tree.action)[real], action, truths)
  _same("parent", np.asarray(tree.parent)[real[1:]], real[parent[1:]], truths[1:])
  _check_shape(tree, real)

  def column(name: str, default: Any) -> np.ndarray:
    rows = getattr(tree, name)
    return np.stack([default] * len(real)) if rows is None else np.asarray(rows)[real]

  def of_truth(name: str) -> np.ndarray:
    return np.stack([getattr(truth, name) for truth in truths])

  _same("state", tree.state[real], of_truth("state"), truths)
  _same("possible", column("possible", np.ones_like(start.possible)), of_truth("possible"), truths)
  # What led to the root is no part of the tree.
  chance = column("chance_probability", 1.0)
  _same("chance_probability", chance[1:], of_truth("probability")[1:], truths[1:])
  own = column("infostate_parent", np.tile(np.arange(tree.num_infostates), (2, 1)))
  origins = np.where(of_truth("possible"), of_truth("infostate_parent"), own)
  _same("infostate_parent", own[1:], origins[1:], truths[1:])
  known, prior = pairs.of_tree(tree), np.where(start.possible, start.prior, 0)
  _same("prior", [tree.prior], [prior / prior.sum(axis=1, keepdims=True)], truths)
  _same("root_features", [tree.root_features], [start.features], truths)
  _same("pair_weights", [known.weight_table(int(tree.root_pair_index))], [start.weights], truths)
  at = dict(zip(real.tolist(), truths))
  for row, truth in ((i, at[n]) for i, n in enumerate(tree.leaf_nodes.tolist()) if n in at):
    _same("leaf_actor", [tree.leaf_actor[row]], [truth.actor], [truth])
    _same("leaf_features", [tree.leaf_features[:, row]], [truth.features], [truth])
    weights = known.weight_table(int(tree.leaf_pair_index[row]))
    _same("pair_weights", [weights], [truth.weights], [truth])
  for row, truth in ((i, at[n]) for i, n in enumerate(tree.terminal_nodes.tolist()) if n in at):
    table = known.payoff_table(int(tree.payoff_index[row])) * tree.payoff_scale[row]
    _same("payoff times pair weight", [table], [truth.payoffs * truth.weights], [truth])


def _nodes_of(histories, root: tuple[int, ...], depth: int | None) -> list[Any]:
  """Returns each node's group, action, parent, kind and history, in the order of a public tree."""

  def node(history: tuple[int, ...], action: int = -1, parent: int = -1) -> Any:
    kind = histories[history].actor
    if kind != TERMINAL and depth is not None and len(history) == len(root) + depth:
      kind = LEAF
    return int(group_of(np.array(kind))), action, parent, kind, history

  nodes, level = list[Any](), [node(root)]
  while level:
    first, level = len(nodes), sorted(level)
    nodes += level
    level = [
      node((*history, action), action, first + place)
      for place, (*_, kind, history) in enumerate(level)
      if kind <= CHANCE
      for action in histories[history].children
    ]
  return nodes


def _same(name: str, value: Any, expected: Any, truths: list[PublicHistory]) -> None:
  """Checks that rows of the tree are as the rules have them at `truths`."""
  value, expected = np.asarray(value, float), np.asarray(expected, float)
  require(value.shape[1:] == expected.shape[1:], f"{name} of the tree has shape {value.shape}")
  for own, other, truth in zip(value, expected, truths):
    require(
      np.allclose(own, other, rtol=_TOLERANCE, atol=1e-6),
      f"{name} of the tree is {own.tolist()} after {truth.history}; the rules, asked about this "
      f"state alone, say {other.tolist()}",
    )
  require(len(value) == len(expected), f"the tree has {len(value)} nodes, not {len(expected)}")


def _check_shape(tree: PublicTree, real: np.ndarray) -> None:
  """Checks that the static shape is that of the nodes `real`, padding left out."""
  structure, kinds = tree.structure, np.asarray(tree.kind)
  require(structure.num_nodes == len(kinds), "the static shape has another number of nodes")
  for depth, level in enumerate(structure.levels):
    start, stop = structure.offsets[depth : depth + 2]
    here = real[(real >= start) & (real < stop)]
    group = np.repeat([0, 1, 2], [level.num_inner, level.num_leaves, level.num_terminals])
    same = np.array_equal(group_of(kinds[here]), group[here - start])
    require(same, f"level {depth} mixes inner nodes, leaves and terminal nodes")
    index = tree.payoff_index[structure.terminal_offsets[depth] :][: level.num_terminals]
    runs = level.payoff_runs
    named = index if runs is None else np.repeat([r[0] for r in runs], [r[2] - r[1] for r in runs])
    require(np.array_equal(named, index), f"payoff_runs of level {depth} are not its tables")
    if depth:
      parents, above = np.asarray(tree.parent)[here], structure.offsets[depth - 1] + level.parents
      right = len(above) == stop - start and (above[here - start] == parents).all()
      require(right, f"the runs of level {depth} are not the parents of its nodes")
      movers, one = set(kinds[parents].tolist()), level.parent_actor
      require(
        movers <= set(level.movers) & ({one} if one is not None else movers),
        f"parent_actor={one} and movers={level.movers} at level {depth}, whose movers are {movers}",
      )
  for name in ("leaf_nodes", "terminal_nodes"):
    same = np.array_equal(getattr(tree, name), getattr(structure, name))
    require(same, f"{name} are not those of the static shape in order")


_WAYS = "under jax.jit", "under jax.vmap over single states"
_MAX_MOVES = 1000  # of a random game
_ENTRIES = 2**20  # of tables of pairs of infostates that are asked about
# XLA divides by constants by multiplying with their inverse, and fuses products with sums.
_ROUNDING = 4 * np.finfo(np.float32).eps


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

  Each is asked about all `states` and their legal actions: by numpy, and by JAX compiled, and
  compiled over single states. Shapes, integers and truth values must be equal, numbers as float32
  but for rounding. All are traced under `jax.enable_x64` too; states of `int32` must stay so.

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
  for way, found in zip(_WAYS, _answers(_WAYS, questions)):
    for question, ours, theirs in zip(questions, expected, found):
      _compare(question, way, ours, theirs)
  with jax.enable_x64(True):
    jax.eval_shape(lambda: _answers(("under jax.enable_x64",), questions))
    dtype = jax.eval_shape(game.next_states, np.int32(states[:1]), np.zeros(1, int)).dtype
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


def _answers(ways: tuple[str, ...], questions: list[_Question]) -> list[list[Any]]:
  """Returns JAX's compiled answers by way: to all rows of each question, or to each of its own."""

  def answer(way: str, question: _Question, rows: tuple[jax.Array, ...]) -> Any:
    single = jax.vmap(functools.partial(one, question.ask))
    try:
      return (single if way == _WAYS[1] else question.ask)(*rows)
    except Exception as error:
      reason = str(error).partition("\n")[0]
      raise AssertionError(
        f"{question.name}() fails {way}, where numpy answers: {type(error).__name__}: {reason} "
        "Write it over games.arrays.xp, with where and games.arrays.lookup, or use "
        "games.tabulate."
      ) from error

  # XLA compiles once what the ways have in common.
  every = jax.jit(lambda rows: [[answer(x, *row) for row in zip(questions, rows)] for x in ways])
  kinds: dict[str, Any] = {"i": jnp.int32, "f": float, "b": jnp.bool_}
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
    same = x == y
    if x.dtype.kind == "f":  # NaN differs
      same = np.isclose(x.astype(np.float32), y.astype(np.float32), rtol=_ROUNDING, atol=0)
    wrong = np.argwhere(~same)
    if len(wrong):
      place = tuple(wrong[0].tolist())
      about = [row[place[0]].tolist() for row in question.rows]
      require(
        False,
        f"{question.name}() is {y[place]} at {place} {way}, and {x[place]} with numpy, for the "
        "state " + " and the action ".join(map(str, about)),
      )


_NUM_ROOTS = 6
_DEPTHS = (1, 2, None)


@checked
def check_game(game: Game, *, max_histories: int = 300_000) -> None:
  """Checks an implementation of `Game` against an enumeration of its histories.

  It walks over every history in plain Python, one state at a time, and checks that

  - priors and the probabilities of chance sum to one, for every pair of infostates at every chance
    state, and no move loses a pair of infostates or makes one up;
  - actors, actions, states, tables and their indices are what the interface asks for, and no method
    changes its arguments;
  - every infostate has a legal move where its player acts, and comes from one infostate above
    (perfect recall);
  - payoffs and features are finite, features of one length;
  - public trees of several roots and depths, and stacks of them, hold what the histories hold, in
    the order that solvers rely on;
  - JAX answers as numpy does, for all public states (`check_rules`).

  Args:
    game: the game, in a size small enough to enumerate; a larger one has the same code.
    max_histories: the most histories, pairs of infostates counted, that the game may have.

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
