"""An OpenSpiel game as a `games.Game`: its public states in tables."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyspiel
from scipy import sparse

from games import CHANCE, PublicTree, build_public_tree
from games.arrays import Positive, checked
from games.build import MAX_BYTES, Bytes
from games.tabulate import Listed
from rebel_jax.open_spiel import histories
from rebel_jax.open_spiel.public_nodes import PASS, InfostatesMerge, PublicNodes, SpielNode

_MAX_TABLE_ENTRIES = 2**26
_MAX_ONE_HOT = 512
Table = tuple[int, np.ndarray]  # numbered


class OpenSpielGame(Listed):
  """A game made by `open_spiel.from_game`.

  A public state is the number of a node of the whole public tree: `[n, 1]`, 0 at the root.
  Private chance before the first public event is in the prior. A public action has OpenSpiel's
  own number where all histories of the public state have one name for it; larger numbers are
  moves that the other player does not see, and outcomes that only the players' infostates
  together decide. `action_name` tells them apart.

  Infostates are numbered in the order of OpenSpiel's information state strings at the root;
  `information_state` translates. Methods of states run on numpy's arrays only; `games.tabulate`
  serves them to JAX.

  Attributes:
    open_spiel_game: the `pyspiel.Game` it was made from, sequential.
  """

  def __init__(self, game: pyspiel.Game, public: PublicNodes):
    nodes = public.nodes
    self.open_spiel_game = game
    self.name = f"open_spiel:{game}"
    self.num_infostates = 1 + max(n for node in nodes for p in (0, 1) for n in _numbers(node, p))
    self.num_actions = 1 + max(node.label for node in nodes)
    h = self.num_infostates
    _check_size(game, "public states and infostates", 2 * len(nodes) * h)

    self._names = public.names
    self._decisions = [node.decisions for node in nodes]
    self._own_action = [node.own_action for node in nodes]
    self._root_strings = [
      {n: string for key, n in own.items() if (string := public.string_of(p, key))}
      for p, own in enumerate(nodes[0].numbers)
    ]
    self._prior = np.zeros((2, h))
    for p in (0, 1):
      self._prior[p, list(_numbers(nodes[0], p))] = public.prior[p]

    self.movers, self._parent, action, self._chance = (
      np.array([getattr(node, field) for node in nodes])
      for field in ("actor", "parent", "label", "chance")
    )
    self._children = sparse.csr_array(
      (np.arange(1, len(nodes)), (self._parent[1:], action[1:])), (len(nodes), self.num_actions)
    )

    self._above = np.full((len(nodes), 2, h), -1)
    # Public actions on the way + 1, 0 after the last.
    self._path = np.zeros((len(nodes), max(node.depth for node in nodes)), np.int32)
    for i, node in enumerate(nodes):
      self._path[i] = self._path[node.parent]
      self._path[i, node.depth - 1 : node.depth] = node.label + 1
      for p in (0, 1):
        self._above[i, p, list(_numbers(node, p))] = node.above[p]
    self._infostates_change = public.infostates_change
    self._fill_tables(game, nodes)

  def _fill_tables(self, game: pyspiel.Game, nodes: list[SpielNode]) -> None:
    h, weights, payoffs = self.num_infostates, dict[bytes, Table](), dict[bytes, Table]()

    def add(tables: dict[bytes, Table], node: SpielNode, values: Any, fill: float) -> int:
      """Returns the number of a table `[H, H]` of pairs at a node, kept once."""
      table = np.full((h, h), fill)
      table[np.ix_(*(list(_numbers(node, p)) for p in (0, 1)))] = values
      table += 0.0  # no negative zeros
      if (key := table.tobytes()) not in tables:
        tables[key] = len(tables), table
        _check_size(game, "tables of pairs of infostates", len(tables) * h**2)
      return tables[key][0]

    self._pair_index = np.zeros(len(nodes), np.int32)
    self.payoff_indices = np.zeros(len(nodes), np.int32)
    self.scales = np.zeros(len(nodes))
    for i, node in enumerate(nodes):
      if node.shares_weights:
        self._pair_index[i] = self._pair_index[node.parent]
      else:
        # Weights that are one wherever it matters are one everywhere: `PublicTree.compatible`.
        self._pair_index[i] = add(weights, node, node.weights, float((node.weights == 1).all()))
      if node.payoff is not None:
        real = node.payoff[node.weights > 0]
        self.scales[i] = scale = real[np.argmax(np.abs(real))] if real.size else 0.0
        same = (real == scale).all()  # for every pair, as after a fold
        table = (1.0, 1.0) if same else (node.payoff / scale, 0.0)
        self.payoff_indices[i] = add(payoffs, node, *table)
    self._pair_weights, self._payoffs = (
      np.stack([table for _, table in tables.values()]) for tables in (weights, payoffs)
    )

  # Public states.

  def legal_actions(self, states):
    return (self._children[states[:, 0]] > 0).toarray()

  def _after(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return self._children[states[:, 0], actions] if len(actions) else actions

  def next_states(self, states, actions):
    return self._after(states, actions)[:, None]

  # Private information.

  def prior(self):
    return self._prior

  def pair_weights(self):
    return self._pair_weights

  def pair_index(self, states):
    return self._pair_index[states[:, 0]]

  def chance(self, states, actions):
    after = self._after(states, actions)
    return self._chance[after], self._above[after] >= 0

  def infostate_parents(self, states, actions):
    return self._above[self._after(states, actions)] if self._infostates_change else None

  # Payoffs.

  def payoffs(self):
    return self._payoffs

  # What a network sees, and what a person reads.

  def features(self, states, player):
    """Returns seat, turn and the public actions so far, one-hot where that stays small."""
    actor = self.movers[states[:, 0]]
    turn = np.stack([np.full(len(states), player), actor == player, actor == CHANCE], axis=1)
    path = self._path[states[:, 0]]
    if path.shape[1] * self.num_actions <= _MAX_ONE_HOT:
      shown = path[:, :, None] == np.arange(1, self.num_actions + 1)
    else:
      digits = int(self.num_actions).bit_length()
      shown = path[:, :, None] >> np.arange(digits) & 1
    shown = shown.reshape(len(states), path.shape[1] * shown.shape[2])
    return np.concatenate([turn, shown], axis=1).astype(float)

  def action_name(self, action):
    return " or ".join(self._names[int(action)])

  def infostate_name(self, player, infostate):
    """Returns OpenSpiel's information state string at the root; the number below it."""
    return self._root_strings[player].get(infostate, str(infostate))

  # Back to OpenSpiel.

  def information_state(self, node: int, infostate: int) -> str | None:
    """Returns the acting player's information state string at a public state.

    Args:
      node: the public state.
      infostate: the number of the infostate there.

    Returns:
      The string, or None where that infostate has nothing to decide.
    """
    return self._decisions[node].get(infostate)

  def own_moves(self, node: int) -> Iterator[tuple[int, str, int]]:
    """Yields the moves to a public state: infostate after, information state before, action.

    The last two are OpenSpiel's.
    """
    parent = self._parent[node]
    for infostate, action in self._own_action[node].items():
      above = int(self._above[node, self.movers[parent], infostate])
      if action != PASS and (string := self.information_state(parent, above)) is not None:
        yield infostate, string, action

  def __repr__(self):
    return f"open_spiel.from_game({str(self.open_spiel_game)!r})"


def _numbers(node: SpielNode, player: int):
  return node.numbers[player].values()


def _check_size(game: pyspiel.Game, what: str, entries: int) -> None:
  if entries > _MAX_TABLE_ENTRIES:
    raise ValueError(
      f"game={game} hides too much to be written out: its {what} need {entries} entries, and at "
      f"most {_MAX_TABLE_ENTRIES} are allowed"
    )


@checked
def from_game(
  game: str | pyspiel.Game, *, max_histories: Positive = 2_000_000, max_bytes: Bytes = MAX_BYTES
) -> tuple[OpenSpielGame, PublicTree]:
  """Turns a two-player zero-sum OpenSpiel game of perfect recall into a public tree.

  A public state is what is common knowledge: histories share one if a chain of histories leads
  from one to the other, each of which some player cannot tell from the next by its information
  state string. Private chance before the first public event becomes the root's prior. Later
  chance may be public, private or both; moves may be seen, hidden, or seen in part; players may
  move at the same time (`pyspiel.convert_to_turn_based` is applied). All of it is exact.

  Args:
    game: the game, or its name with parameters as `pyspiel.load_game` takes it.
    max_histories: how many histories, all that lead somewhere included, the game may have.
    max_bytes: how much memory its histories and public states may take, and then its tree, about;
      4 GiB by default.

  Returns:
    The game, which `games.build_public_tree` also takes with a root and a depth, and its whole
    public tree.

  Raises:
    ValueError: the game cannot be represented, and why: OpenSpiel cannot load it, it has not two
      players, is not zero-sum, samples its chance outcomes, lacks information states or perfect
      recall, has no order in time that its information states respect, or is too large.
  """
  collects = gc.isenabled()
  gc.disable()  # looking for cycles among millions of small objects takes half of the time
  try:
    made = _import(histories.load(game), max_histories, max_bytes)
  finally:
    if collects:
      gc.enable()
  return made, build_public_tree(made, max_bytes=max_bytes)


def _import(game: pyspiel.Game, max_histories: int, max_bytes: float) -> OpenSpielGame:
  budget = histories.Budget(game, max_bytes)
  walked = histories.walk(game, max_histories=max_histories, budget=budget)
  left = budget.left
  try:
    return OpenSpielGame(game, PublicNodes(game, walked, budget, eager=True))
  except InfostatesMerge:
    budget.left = left
    return OpenSpielGame(game, PublicNodes(game, walked, budget, eager=False))
