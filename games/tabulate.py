"""Marks that tie trees to games, and games whose rules a device reads from tables.

Tables are of every node of a tree, or of every state of rules that only numpy can run.
"""

import dataclasses
import zlib
from typing import Any, NamedTuple

import jax
import numpy as np

from games.arrays import Positive, checked, lookup
from games.game import CHANCE, TERMINAL, Game, MoverMoves
from games.pairs import Pairs
from games.public_tree import PADDING, Array, PublicTree, check_is_tree, walk

_PARTS = ("parameters", "prior", "payoffs or pair weights")


def origin_of(game: Game, pairs: Pairs | None = None) -> np.ndarray:
  """Returns the mark of a game, a checksum of each of what `_PARTS` names: `[3]`."""
  pairs = game.pairs() if pairs is None else pairs
  tables = [getattr(pairs, field.name) for field in dataclasses.fields(pairs)]
  # Sizes of bets are in no table, and in few games' names.
  about = (
    " ".join(map(repr, (game, *map(vars(game).get, ("bets", "rules")), game.num_infostates)))
    + f" {game.num_actions} {game.initial_state().tolist()}"
  )
  parts = [about.encode(), _bytes(game.prior()), b"".join(_bytes(table) for table in tables)]
  return np.array([zlib.crc32(part) for part in parts], np.uint32)


def _bytes(table: np.ndarray) -> bytes:
  array = np.ascontiguousarray(table)
  return str(array.shape).encode() + array.tobytes()


@checked
def check_tree_of(game: Game, tree: PublicTree) -> None:
  """Refuses a tree or stack of another game, by its mark or the rules at its nodes."""
  different = None
  if tree.state.shape[-1] != len(game.initial_state()):
    different = "public states"
  elif tree.num_infostates != game.num_infostates:
    different = "infostates"
  elif tree.origin is not None:
    same = np.asarray(tree.origin).reshape(-1, len(_PARTS)) == origin_of(game)
    different = next((part for part, x in zip(_PARTS[::-1], same.all(0)[::-1]) if not x), None)
  if different := different or _different_rules(game, tree):
    raise ValueError(f"tree is not of {game!r}: its {different} differ from that game's")


def check_same_game(name: str, mark: Any, tree: PublicTree, *, first: int = 0) -> None:
  """Refuses data made from a tree of another mark `[3]`; parts from `first` on are compared."""
  if mark is None or tree.origin is None:
    return
  different = np.flatnonzero(np.asarray(mark) != np.asarray(tree.origin))
  if (different >= first).any():
    raise ValueError(f"{name} is of another game than tree: {_PARTS[different[-1]]} differ")


def _different_rules(game: Game, tree: PublicTree) -> str | None:
  """Returns how a tree differs from the rules at its nodes, or None; a stack is one batch."""
  n = tree.num_nodes
  state = np.asarray(tree.state).reshape(-1, n, tree.state.shape[-1])
  columns = tree.kind, tree.parent, tree.action
  kind, parent, action = (np.asarray(x).reshape(-1, n) for x in columns)
  inner = kind <= CHANCE
  if (game.actor(state[inner]) != kind[inner]).any():
    return "turns"
  row, node = np.nonzero(parent >= 0)
  before, taken = state[row, parent[row, node]], action[row, node]
  legal = game.legal_actions(before)[np.arange(len(taken)), taken]
  if not legal.all() or game.legal_actions(state[inner]).sum() != len(taken):
    return "legal actions"
  if (game.next_states(before, taken) != state[row, node]).any():
    return "public states"
  ends = np.asarray(tree.terminal_nodes).reshape(len(kind), -1)
  row, end = np.nonzero(np.take_along_axis(kind, ends, axis=1) == TERMINAL)
  scale = np.asarray(tree.payoff_scale).reshape(len(kind), -1)[row, end]
  if not np.allclose(scale, game.payoff_scale(state[row, ends[row, end]]), rtol=1e-5):
    return "payoffs"
  return None


class NodeInfo(NamedTuple):
  """The rules' answers at every node, some of which a tree keeps for its leaves alone."""

  # A move has a number below M, by the infostate from which it is made: that of its public action
  # where all moves are seen, else its place among the infostate's moves by action and infostate.

  features: Array  # [P, N, F] the public state of every node as each player sees it
  pair_index: Array  # [N] which of the pair weights holds there
  child: Array  # [N, A] the node after each action, -1 where there is none
  # [N, M, H] the public action of each move, -1 for none; [N, M, 1] if all are seen
  by_action: Array
  leads_to: Array  # [N, M, H] the infostate after each move; [N, 0, H] where all moves are seen


def node_info(game: Game, tree: PublicTree) -> NodeInfo:
  """Returns the rules' answers at all nodes of `tree`, one tree of `game`; see `NodeInfo`."""
  check_tree_of(game, tree)
  check_is_tree(tree, one=True)
  kind = np.asarray(tree.kind)
  nodes = 1 + np.flatnonzero(kind[1:] != PADDING)
  origins = None
  if tree.infostate_parent is not None:
    origins = np.asarray(tree.infostate_parent)[nodes]
    if tree.possible is not None:
      origins = np.where(np.asarray(tree.possible)[nodes], origins, -1)
  moves = np.asarray(tree.parent)[nodes], np.asarray(tree.action)[nodes], nodes
  return info_of(game, np.asarray(tree.state), kind, moves, origins, tree.dtype)


def info_of(
  game: Game,
  states: np.ndarray,
  kind: np.ndarray,
  moves: tuple[np.ndarray, np.ndarray, np.ndarray],
  origins: np.ndarray | None,
  dtype: Any,
) -> NodeInfo:
  """Returns the `NodeInfo` of states `[N, S]` of a `kind` `[N]`, with features in `dtype`."""
  # `moves`: the state before, action and state after, [E] each. `origins`: [E, P, H] infostates
  # before the move, -1 where impossible; None if they never change.
  there = kind != PADDING
  seen = [np.asarray(game.features(states[there], player), dtype) for player in (0, 1)]
  features = np.zeros((2, len(kind), seen[0].shape[1]), dtype)
  pair_index = np.zeros(len(kind), np.int32)
  features[:, there], pair_index[there] = seen, game.pair_index(states[there])
  child = _child(len(kind), game.num_actions, *moves)
  moves_seen = (child[:, : game.num_player_actions] >= 0) & (kind < CHANCE)[:, None]
  by_action = np.where(moves_seen, np.arange(moves_seen.shape[1]), -1)[:, :, None].astype(np.int32)
  leads_to = np.zeros((len(kind), 0, game.num_infostates), np.int32)
  if origins is not None:
    by_action, leads_to = _hidden(kind, *moves[:2], origins)
  return NodeInfo(features, pair_index, child, by_action, leads_to)


def children_of(tree: PublicTree, num_actions: int | None = None) -> np.ndarray:
  """Returns the node after each action, -1 for none: `[N, A]`; None for the tree's own actions."""
  nodes = 1 + np.flatnonzero(np.asarray(tree.kind)[1:] != PADDING)
  parent, action = (np.asarray(x)[nodes] for x in (tree.parent, tree.action))
  number = 1 + action.max(initial=0) if num_actions is None else num_actions
  return _child(len(tree.kind), number, parent, action, nodes)


def by_edge(rules: "Tabulated", nodes: np.ndarray, rows: Any) -> np.ndarray:
  """Returns a policy `[n, M, H]` at a tree's `nodes` `[n]` by its edges: `[N, H]`, 1 elsewhere."""
  leads_to, action = map(np.asarray, rules.moves_of(nodes[:, None]))
  move = np.nonzero(action >= 0)
  child = np.asarray(rules.tables.info.child)[nodes[move[0]], action[move]]
  policy = np.ones((len(rules.tables.actor), rules.num_infostates), rows.dtype)
  policy[child, leads_to[move]] = np.asarray(rows)[move]
  return policy


def _child(number: int, num_actions: int, parent: Any, action: Any, after: Any) -> np.ndarray:
  child = np.full((number, num_actions), -1, np.int32)
  child[parent, action] = after
  return child


def _hidden(
  kind: np.ndarray, parent: np.ndarray, action: np.ndarray, origins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `by_action` and `leads_to` of a `NodeInfo` whose infostates change."""
  size, mover = origins.shape[-1], kind[parent]
  own = origins[np.arange(len(parent)), np.minimum(mover, 1)]
  move, held = np.nonzero((own >= 0) & (mover < CHANCE)[:, None])
  place = parent[move] * size + own[move, held]
  order = np.lexsort((held, action[move], place))
  place, counts = place[order], np.bincount(place, minlength=1)
  number = np.arange(len(place)) - (np.cumsum(counts) - counts)[place]
  found = np.full((2, len(kind), max(int(counts.max()), 2), size), -1, np.int32)
  found[:, place // size, number, place % size] = action[move][order], held[order]
  return found[0], found[1]


class Listed(Game):
  """A game whose public states are numbers `[1]`, 0 at the start, and whose rules are in tables.

  Attributes:
    movers: `[N]` who moves in each state, or `TERMINAL`.
    after: `[N, A]` the state after each action, -1 where there is none.
    payoff_indices: `[N]` the payoff table of each terminal state.
    scales: `[N]` the factor of that table.
  """

  movers: Any
  after: Any
  payoff_indices: Any
  scales: Any

  def initial_state(self):
    return np.zeros(1, np.int32)

  def actor(self, states):
    return lookup(self.movers, states[:, 0])

  def legal_actions(self, states):
    return lookup(self.after, states[:, 0]) >= 0

  def next_states(self, states, actions):
    return lookup(self.after, states[:, 0], actions)[:, None].astype(states.dtype)

  def payoff_index(self, states):
    return lookup(self.payoff_indices, states[:, 0])

  def payoff_scale(self, states):
    return lookup(self.scales, states[:, 0])


# What a game in tables has of the game itself.
_SAME = (
  "name", "num_infostates", "num_actions", "num_player_actions", "orders_infostates", "prior",
  "pair_weights", "hands", "strengths", "pairs", "action_name", "describe", "situation", "text",
  "infostate_name", "hidden_move_name", "payoffs",
)  # fmt: skip


@checked
def tabulate(
  game: Game, tree: PublicTree | None = None, *, max_states: Positive = 100_000
) -> "Tabulated":
  """Returns `game` with its public states numbered and its rules read from tables.

  Args:
    game: rules for numpy's arrays.
    tree: its whole tree, whose nodes then are the public states and whose float type the tables
      have; None to number public states that differ.
    max_states: without a tree, the most public states that the game may have.

  Raises:
    TypeError: `game` or `tree` is something else.
    ValueError: `max_states` is not a positive integer, or the game has more public states; the tree
      is cut off, padded or of another game.
  """
  if tree is None:
    levels = walk(game, game.initial_state(), merge="game", most=max_states)
    rows = [(x.states, x.first + x.parent, x.action, x.child) for x in levels]
    states, parent, action, child = map(np.concatenate, zip(*rows))
    return _tabulated(game, states, (parent, action, child), None, float, {})
  check_is_tree(tree, one=True)
  check_tree_of(game, tree)
  if tree.depth_limited or tree.padded:
    raise ValueError(f"tree is cut off at {tree.num_leaves} leaves or padded; tables need it all")
  moves = np.asarray(tree.parent)[1:], np.asarray(tree.action)[1:], np.arange(1, tree.num_nodes)
  reached = None if tree.possible is None else np.asarray(tree.possible)[1:]
  settings = {"max_moves": tree.structure.depth}
  return _tabulated(game, np.asarray(tree.state), moves, reached, tree.dtype, settings)


class StateTables(NamedTuple):
  """The rules' answers for `N` public states and the `E` moves from them."""

  states: Array  # [N, S] the game's
  actor: Array  # [N], as are the next three
  stages: Array
  payoff_index: Array
  payoff_scale: Array
  info: NodeInfo
  edge: Array  # [N, A] the number of each move, -1 where there is none
  dealt_cards: Array  # [E, k]
  # [R, P, H] distinct rows, and which one a move has [E]; None for no changes
  parents: tuple[Array, Array] | None
  probability: Array | None  # [E] of chance; None where chance never moves
  mask: tuple[Array, Array] | None  # as `parents`, of chance


@jax.tree_util.register_pytree_node_class
class Tabulated(Listed):
  """A game made by `games.tabulate`: the same moves, infostates and payoffs, other public states.

  A public state is its number `[1]`, 0 at the start. Methods of states are gathers, so that JAX
  runs them whatever the rules are written in. It can be a static argument of a program, or, as a
  pytree of its tables, a traced one.

  Attributes:
    game: the rules.
    tables: what they say.
  """

  def __init__(self, tables: StateTables, named: "_Named"):
    self.game, self.tables, self._named = named.game, tables, named
    self.movers, self.after = tables.actor, tables.info.child
    self.payoff_indices, self.scales = tables.payoff_index, tables.payoff_scale
    vars(self).update({name: getattr(named.game, name) for name in _SAME} | named.settings)

  def tree_flatten(self):
    return (self.tables,), self._named

  @classmethod
  def tree_unflatten(cls, named, tables):
    return cls(tables[0], named)

  @property
  def states(self) -> np.ndarray:
    """The game's public states `[N, S]`."""
    return np.asarray(self.tables.states)

  @property
  def largest_payoff(self):
    return self.game.largest_payoff

  @property
  def has_chance(self):
    return self.tables.probability is not None

  def _edge(self, states, actions):
    return lookup(self.tables.edge, states[:, 0], actions)

  def stages(self, states):
    return lookup(self.tables.stages, states[:, 0])

  # Private information.

  def pair_index(self, states):
    return lookup(self.tables.info.pair_index, states[:, 0])

  def chance(self, states, actions):
    edge, mask = self._edge(states, actions), self.tables.mask
    assert mask is not None
    return lookup(self.tables.probability, edge), lookup(mask[0], lookup(mask[1], edge))

  def infostate_parents(self, states, actions):
    if self.tables.parents is None:
      return None
    parents, index = self.tables.parents
    return lookup(parents, lookup(index, self._edge(states, actions)))

  def hidden_moves(self, states):
    info = self.tables.info
    return MoverMoves(*(lookup(x, states[:, 0]) for x in (info.leads_to, info.by_action)))

  def dealt_cards(self, states, actions):
    return lookup(self.tables.dealt_cards, self._edge(states, actions))

  # What a network sees.

  def features(self, states, player):
    return lookup(self.tables.info.features[player], states[:, 0])

  def __repr__(self):
    return f"games.tabulate({self.game!r})"


@dataclasses.dataclass(frozen=True)
class _Named:
  """A game and settings of its tables, equal to those of a game of the same mark."""

  mark: tuple[Any, ...]  # the game's and the settings
  game: Game = dataclasses.field(compare=False)
  settings: dict[str, Any] = dataclasses.field(compare=False)


def _tabulated(
  game: Game,
  states: np.ndarray,
  moves: tuple[np.ndarray, np.ndarray, np.ndarray],
  reached: np.ndarray | None,
  dtype: Any,
  settings: dict[str, Any],
) -> Tabulated:
  """Asks the rules of all states `[N, S]` and moves; `reached` `[E, P, H]` are possible after."""
  parent, action, _ = moves
  actor, number = np.asarray(game.actor(states)), len(action)
  edge = _child(len(states), game.num_actions, parent, action, np.arange(number))
  made = states[parent], action
  origins, probability, mask, renumbers = game.infostate_parents(*made), None, None, False
  parents = None if origins is None else _distinct(origins)
  if origins is not None:
    origins = origins if reached is None else np.where(reached, origins, -1)
    changed = ((origins >= 0) & (origins != np.arange(game.num_infostates))).any(axis=2)
    renumbers = bool((changed & (actor[parent][:, None] != np.arange(2))).any())
  deals = np.flatnonzero(actor[parent] == CHANCE)
  if len(deals):
    chance, rows = game.chance(states[parent[deals]], action[deals])
    probability, index = np.zeros(number, dtype), np.zeros(number, int)
    masks, index[deals] = _distinct(rows)
    probability[deals], mask = chance, (masks, index)
  info = info_of(game, states, actor, moves, origins, dtype)
  ends = actor == TERMINAL
  payoff_index, payoff_scale = np.zeros(len(states), int), np.zeros(len(states), dtype)
  payoff_index[ends], payoff_scale[ends] = (
    rule(states[ends]) for rule in (game.payoff_index, game.payoff_scale)
  )
  tables = StateTables(
    states,
    actor,
    np.asarray(game.stages(states)),
    payoff_index,
    payoff_scale,
    info,
    edge,
    np.asarray(game.dealt_cards(*made)),
    parents,
    probability,
    mask,
  )
  hidden = info.by_action.shape[1] if info.leads_to.shape[1] else 1
  settings |= {"num_hidden": hidden, "renumbers": renumbers}
  return Tabulated(tables, _Named((*origin_of(game).tolist(), *settings.items()), game, settings))


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns different `rows`, each once, and which of them every row is: many are equal."""
  number: dict[bytes, int] = {}
  index = np.array([number.setdefault(row.tobytes(), len(number)) for row in rows])
  return rows[np.unique(index, return_index=True)[1]], index
