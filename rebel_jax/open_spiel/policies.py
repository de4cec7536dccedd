"""Policies to and from OpenSpiel, whose games are compared with ours by turns, moves, payoffs."""

import dataclasses
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyspiel

from games import CHANCE, TERMINAL, Array, Game, PublicTree
from games.arrays import checked, integers
from games.game import check_is_game
from games.rules.leduc_poker import FIRST_CARD
from games.tabulate import check_tree_of, children_of
from rebel_jax.open_spiel import histories
from rebel_jax.open_spiel.factored_game import OpenSpielGame
from solvers import validation
from solvers.search import posteriors

_LINES, _STEPS = 100, 400  # of play at random, and public actions in all
_DEALS = 2**17  # of private information, all of which are compared
_TURNS = {CHANCE: pyspiel.PlayerId.CHANCE, TERMINAL: pyspiel.PlayerId.TERMINAL}
Held = tuple[tuple[int, ...], ...]  # each player's infostates that OpenSpiel takes to be one


class Comparison:
  """A game of ours beside OpenSpiel's, some lines of which are played at once."""

  def __init__(self, game: Game, spiel_game: pyspiel.Game, correspondence: Any):
    self._game, self._spiel_game, self._to = game, spiel_game, correspondence
    self._pairs, self._rules_at = game.pairs(), functools.cache(self._rules)
    self.deals: list[tuple[tuple[int, ...], pyspiel.State, Held]] = []
    first, second = np.asarray(game.prior(), float)
    here = game.initial_state()
    joint = first[:, None] * second * self._pairs.weight_table(game.pair_index(here[None])[0])
    chances, waiting = defaultdict[Held, float](float), [(spiel_game.new_initial_state(), 1.0)]
    while waiting:
      state, reach = waiting.pop()
      if state.is_chance_node():
        waiting += [(state.child(a), reach * p) for a, p in state.chance_outcomes()[::-1] if p > 0]
        continue
      deal, most = tuple(state.history()), game.num_infostates - 1
      found = [correspondence.infostates(game, deal, player) for player in (0, 1)]
      held = tuple(tuple(integers("infostates", x, 0, most, ndim=1).tolist()) for x in found)
      self.deals.append((deal, state, held))
      chances[held] += reach
      if len(self.deals) > _DEALS:
        raise self._mismatch(f"more than {_DEALS} private deals are too many to compare")
    for held, reach in chances.items():
      if abs(joint[np.ix_(*held)].sum() / joint.sum() - reach) > 1e-6:
        raise self._mismatch(f"how likely infostates {held} are dealt")
    rng, steps = np.random.default_rng(0), 0
    for number in rng.integers(len(self.deals), size=_LINES):
      _, state, held = self.deals[number]
      state, ours = state.clone(), here
      while steps < _STEPS and (moves := self.moves(ours, state, held)):
        likely = (
          [a for a, p in state.chance_outcomes() if p] if state.is_chance_node() else [*moves]
        )
        action = int(rng.choice(likely))
        ours = game.next_states(ours[None], np.array([moves[action]]))[0]
        state.apply_action(action)
        steps += 1

  def _rules(self, state: tuple[int, ...]) -> tuple[int, Any, Any]:
    """Returns who moves, and actions and their chances; or the table and the scale of payoffs."""
    game, states = self._game, np.array(state)[None]
    actor = int(game.actor(states)[0])
    if actor == TERMINAL:
      return actor, int(game.payoff_index(states)[0]), float(game.payoff_scale(states)[0])
    legal = np.flatnonzero(game.legal_actions(states)[0])
    chance = game.chance(np.repeat(states, len(legal), axis=0), legal) if actor == CHANCE else None
    return actor, legal.tolist(), chance

  def moves(self, state: np.ndarray, theirs: pyspiel.State, held: Held) -> dict[int, int]:
    """Returns our action for each of OpenSpiel's at a public state of ours, a state of theirs."""
    actor, legal, more = self._rules_at(tuple(state.tolist()))
    if theirs.current_player() != _TURNS.get(actor, actor):
      raise self._mismatch("whose turn it is", theirs)
    if actor == TERMINAL:
      first, second = np.ix_(*held)
      won, paid = self._pairs.payoff(legal, (first, second)) * more, theirs.returns()[0]
      if not np.min(won) - 1e-6 <= paid <= np.max(won) + 1e-6:
        raise self._mismatch(f"player 0 wins {np.mean(won):g} and {paid:g}", theirs)
      return {}
    spiel_actions = theirs.legal_actions()
    ours = {x: int(self._to.action(self._game, x, actor == CHANCE)) for x in spiel_actions}
    if actor < CHANCE and sorted(ours.values()) != legal:
      raise self._mismatch(f"actions are {legal} and {sorted(ours.values())}", theirs)
    if actor == CHANCE:
      found = dict.fromkeys(legal, 0.0)
      for action, probability in theirs.chance_outcomes():
        found[ours[action]] = found.get(ours[action], 0.0) + probability
      probability, possible = more
      there = [possible[:, player, list(held[player])].any(axis=1) for player in (0, 1)]
      expected = probability * there[0] * there[1]
      if found.keys() != set(legal) or np.abs([*found.values()] - expected).max() > 1e-6:
        raise self._mismatch("how likely chance's outcomes are", theirs)
    return ours

  def _mismatch(self, what: str, state: pyspiel.State | None = None) -> ValueError:
    after = "" if state is None else f" after {state.history()}"
    return ValueError(
      f"game={self._game!r} and OpenSpiel's {self._spiel_game} differ: {what}{after}"
    )


@dataclasses.dataclass(frozen=True)
class Correspondence:
  """The OpenSpiel game equal to a game of ours; see `register_open_spiel`."""

  load: Callable[[Any], str]
  infostates: Callable[[Any, Sequence[int], int], Sequence[int]] = lambda game, deal, player: [0]
  action: Callable[[Any, int, bool], int] = lambda game, action, chance: action


_FEW = 2**16  # nodes by private deals: below it every end is compared of every deal


def _liars_dice_infostates(game: Any, deal: Sequence[int], player: int) -> list[int]:
  place = {roll: i for i, roll in enumerate(map(tuple, game.dice().tolist()))}
  # OpenSpiel sorts a player's dice: every order of them is one information state.
  own = deal[player * game.num_dice : (player + 1) * game.num_dice]
  return sorted({place[roll] for roll in itertools.permutations(own)})


_REGISTRY: dict[str, Correspondence] = {
  "kuhn_poker": Correspondence(
    load=lambda game: "kuhn_poker", infostates=lambda game, deal, player: [deal[player]]
  ),
  "leduc_poker": Correspondence(
    load=lambda game: "leduc_poker",
    infostates=lambda game, deal, player: [deal[player]],
    action=lambda game, action, chance: action + FIRST_CARD if chance else action,
  ),
  "liars_dice": Correspondence(
    load=lambda game: f"liars_dice(numdice={game.num_dice},dice_sides={game.num_faces})",
    infostates=_liars_dice_infostates,
  ),
  # Games of perfect information, whose actions have the numbers that OpenSpiel gives them.
  "tic_tac_toe": Correspondence(load=lambda game: "tic_tac_toe"),
  "connect_four": Correspondence(
    load=lambda game: (
      f"connect_four(rows={game.height},columns={game.width},x_in_row={game.in_a_row})"
    )
  ),
  "go": Correspondence(
    load=lambda game: (
      f"go(board_size={game.size},komi={float(game.komi)},max_game_length={game.max_moves})"
    )
  ),
}


@checked
def register_open_spiel(
  name: str,
  *,
  load: Callable[[Game], str],
  infostates: Callable[[Game, Sequence[int], int], Sequence[int]],
  action: Callable[[Game, int, bool], int] | None = None,
) -> None:
  """Declares the OpenSpiel game equal to games whose `name` is `name`.

  Where a game is used, both are played side by side: turns, moves, chance and payoffs must agree.
  It is for games whose private information is dealt before the first public action and never
  changes; whatever OpenSpiel deals before that is taken to be private.

  Args:
    name: the `name` of the game class.
    load: from the game to what `pyspiel.load_game` takes.
    infostates: from the game, the outcomes of OpenSpiel's private deals in order and a player to
      the infostates of ours that OpenSpiel takes to be one; usually a single one.
    action: from the game, OpenSpiel's action and whether it is a chance outcome to our public
      action; None where they are equal.

  Raises:
    ValueError: the name is taken.
  """
  if name in _REGISTRY:
    raise ValueError(f"name={name!r} already has a counterpart in OpenSpiel; choose another")
  _REGISTRY[name] = Correspondence(load, infostates, action or Correspondence.action)


def load_game(game: Game) -> pyspiel.Game:
  """Returns the OpenSpiel game equal to `game`.

  Raises:
    TypeError: `game` is not a game of ours.
    ValueError: it has no counterpart in OpenSpiel, or their rules differ.
  """
  return _compared(game)[0]


def _compared(game: Game) -> tuple[pyspiel.Game, Comparison | None]:
  """Returns the OpenSpiel game, and its comparison with `game` unless that is made from it."""
  check_is_game(game)
  if isinstance(game, OpenSpielGame):
    return game.open_spiel_game, None
  if game.name not in _REGISTRY:
    raise ValueError(
      f"game={game.name!r} has no counterpart in OpenSpiel; known: {', '.join(sorted(_REGISTRY))}, "
      "and games made by open_spiel.from_game (open_spiel.register_open_spiel adds others)"
    )
  correspondence = _REGISTRY[game.name]
  spiel_game = histories.load(correspondence.load(game))
  return spiel_game, Comparison(game, spiel_game, correspondence)


class SpielMove(NamedTuple):
  """An action in an information state, and where a policy array holds its probability."""

  information_state: str
  action: int
  node: int  # the tree's, that the action leads to
  infostates: tuple[int, ...]  # ours there, of the mover, that OpenSpiel takes to be one


def find_moves(game: Game, tree: PublicTree) -> Iterator[SpielMove]:
  """Yields every action of every information state of the OpenSpiel game equal to `game`."""
  spiel_game, comparison = _compared(game)
  check_tree_of(game, tree)
  state = np.asarray(tree.state)
  whole = state.ndim == 2 and not tree.depth_limited
  if not whole or not np.array_equal(state[0], game.initial_state()):
    raise ValueError(
      f"tree must be the whole public tree of {game!r}, as games.build_public_tree(game) returns it"
    )
  if not spiel_game.get_type().provides_information_state_string:
    raise ValueError(f"game={spiel_game} has no information states in OpenSpiel")
  if comparison is not None:
    return _corresponding_moves(game, tree, comparison)
  own: Any = game
  return (
    SpielMove(string, action, node, (infostate,))
    for node in range(1, tree.num_nodes)
    for infostate, string, action in own.own_moves(int(state[node, 0]))
  )


def _corresponding_moves(
  game: Game, tree: PublicTree, comparison: Comparison
) -> Iterator[SpielMove]:
  """Yields the moves of a walk over the tree and the OpenSpiel game side by side."""
  if tree.infostate_parent is not None:
    raise ValueError(f"game={game.name!r} has hidden moves, which only from_game's games map")
  kind, children = np.asarray(tree.kind).tolist(), children_of(tree)
  # Where nothing is dealt later, a few deals suffice: each player holds each infostate in one.
  every = CHANCE in kind or len(comparison.deals) * tree.num_nodes <= _FEW
  stack, chosen = list[tuple[int, pyspiel.State, Held]](), list[Held]()
  for _, first, own in comparison.deals:
    if every or any(own[p] not in {x[p] for x in chosen} for p in (0, 1)):
      chosen.append(own)
      stack.append((0, first, own))
  public, seen = np.asarray(tree.state), set[str]()
  while stack:
    node, state, held = stack.pop()
    mover = kind[node]
    string = state.information_state_string(mover) if mover < CHANCE else ""
    for spiel_action, ours in comparison.moves(public[node], state, held).items():
      child = int(children[node, ours])
      if mover < CHANCE and string not in seen:
        yield SpielMove(string, spiel_action, child, held[mover])
      stack.append((child, state.child(spiel_action), held))
    seen.add(string)


@checked
def to_tabular_policy(game: Game, tree: PublicTree, policy: Array) -> pyspiel.TabularPolicy:
  """Turns a policy of ours into one of the same game in OpenSpiel.

  Where OpenSpiel takes several infostates of ours to be one (Liar's Dice: it sorts dice), their
  policies are averaged, weighted by prior and own reach, which plays the same.

  Args:
    game: from `games.make` or `open_spiel.from_game`.
    tree: its whole public tree.
    policy: `[N, H]` on the tree, as `solvers.solve` returns it.

  Returns:
    A policy for both players, of every information state.

  Raises:
    ValueError: the game has no counterpart in OpenSpiel, `tree` is not its whole public tree, or
      `policy` has the wrong shape or is not a distribution.
  """
  moves = find_moves(game, tree)
  validation.check_policy("policy", tree, policy)
  policy = np.asarray(policy, float)
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  weights = None
  table: dict[str, dict[int, float]] = defaultdict(dict)
  for string, action, node, infostates in moves:
    weight = np.ones(len(infostates))
    if len(infostates) > 1:
      if weights is None:
        weights = np.asarray(posteriors(tree, policy), float)
      own = weights[parent[node], kind[parent[node]], list(infostates)]
      weight = own if own.sum() > 0 else weight
    table[string][action] = float(policy[node, list(infostates)] @ weight / weight.sum())
  totals = {string: sum(row.values()) for string, row in table.items()}
  # Chance may have outcomes of probability zero, below which OpenSpiel wants rows as well.
  return pyspiel.TabularPolicy(
    pyspiel.UniformRandomPolicy(load_game(game)).policy_table()
    | {string: [(a, p / totals[string]) for a, p in row.items()] for string, row in table.items()}
  )


@checked
def from_tabular_policy(game: Game, tree: PublicTree, policy: Any) -> np.ndarray:
  """Turns a policy of OpenSpiel into one of ours: the inverse of `to_tabular_policy`.

  Args:
    game: from `games.make` or `open_spiel.from_game`.
    tree: its whole public tree.
    policy: of the same game: a `pyspiel.Policy` that knows information state strings, as
      tabular policies and the averages of OpenSpiel's solvers do, or a
      `open_spiel.python.policy.TabularPolicy`.

  Returns:
    `[N, H]` on the tree, float64.

  Raises:
    ValueError: as `to_tabular_policy`; or `policy` lacks an information state or an action.
  """
  if hasattr(policy, "to_dict"):  # OpenSpiel's Python policies
    policy = pyspiel.TabularPolicy(policy.to_dict())
  moves = find_moves(game, tree)
  array = _default_policy(tree)
  for string, action, node, infostates in moves:
    try:
      probabilities = policy.action_probabilities(string)
    except (AttributeError, TypeError):
      raise ValueError(
        f"policy={type(policy).__name__} must know information state strings, as a tabular policy "
        "does; OpenSpiel's Python policies have to_tabular()"
      ) from None
    if not probabilities:
      raise ValueError(f"policy has nothing for OpenSpiel's information state {string!r}")
    array[node, list(infostates)] = probabilities.get(action, 0.0)
  validation.check_policy("policy", tree, array)
  return array


def _default_policy(tree: PublicTree) -> np.ndarray:
  """Returns probabilities `[N, H]` for infostates without a row of OpenSpiel's."""
  # Where infostates never change these are the impossible ones (a card that lies on the board),
  # which move at random. Where they do, impossible ones come from nowhere, and the others have one
  # move.
  policy = np.ones((tree.num_nodes, tree.num_infostates))
  if tree.infostate_parent is None:
    parent, kind = np.asarray(tree.parent)[1:], np.asarray(tree.kind)
    siblings = np.bincount(parent, minlength=tree.num_nodes)[parent]
    policy[1:] = np.where(kind[parent] < CHANCE, 1 / siblings, 1.0)[:, None]
  return policy
