"""Hold'em's subgames as templates, and the stacks, pots, bets and boards of each new hand.

ReBeL trains hold'em on random stacks and bet sizes, turn endgames on random boards too, and
measures one spot (appendices C.1, C.2 and D): a hand's first public state holds all of these.
"""

import dataclasses
import functools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import as_share, short, with_columns
from games.game import CHANCE
from games.pairs import HoleCards
from games.poker import betting
from games.poker.betting import CALL, FIRST_BET, FOLD
from games.poker.cards import strengths_on
from games.poker.dealing import draw_flops
from games.public_tree import LEAF, TERMINAL
from games.template import Node, Template, make_template

NAMES = ("stack", "pot", "bets", "board")


@dataclasses.dataclass(frozen=True)
class Fresh:
  """What every hand is drawn from; None leaves the game's own."""

  stack: tuple[int, int] | None = None  # least and most chips of each player before the hand
  pot: tuple[int, int] | None = None  # least and most chips at the start, half from each player
  bets: float | None = None  # by how much of the pot each bet size moves at most
  board: bool = False  # whether other cards lie at the start


FIXED = Fresh()


def read_fresh(game: Any, how: dict[str, Any]) -> Fresh:
  """Returns arguments of `Holdem.vary`: `stack` and `pot` `LOW-HIGH`, `bets`, `board="random"`."""
  for name in how:
    if name not in NAMES:
      raise ValueError(f"vary={name!r} is unknown for {game.name}; known: {', '.join(NAMES)}")
  paid, stack = game.rules.paid, game.rules.stack
  pot = _range("pot", how["pot"]) if "pot" in how else None
  if pot is not None and (pot[0] % 2 or pot[1] % 2 or pot[0] < 2 or paid[0] != paid[1]):
    raise ValueError(
      f"vary pot={short(how['pot'])} must be from an even number of chips, at least 2, to "
      "another, and of a game that both players have paid the same for"
    )
  stacks = _range("stack", how["stack"]) if "stack" in how else None
  most = max(paid) if pot is None else pot[1] // 2
  least = stack if stacks is None else stacks[0]
  if least <= most:
    named = [f"{name}={short(how[name])}" for name in ("stack", "pot") if name in how]
    raise ValueError(
      f"vary {' and '.join(named) or 'without stack'} may leave nothing to bet: stacks must be "
      f"above what each player has put into the pot, at most {most} of at least {least}"
    )
  if "board" in how and (how["board"] != "random" or not game.board):
    raise ValueError(
      f"vary board={short(how['board'])} must be 'random', in a game that starts with cards "
      "on the board"
    )
  bets = as_share(how["bets"]) if "bets" in how else None
  if bets is not None and math.isnan(bets):
    raise ValueError(
      f"vary bets={short(how['bets'])} must be a part of the pot, a number from 0 to 1"
    )
  if bets is not None and not game.bets.thousandths.any():
    raise ValueError(f"vary bets={short(how['bets'])} needs bets that are fractions of the pot")
  return Fresh(stacks, pot, bets, "board" in how)


def size_columns_at(game: Any, state: np.ndarray) -> dict[int, int]:
  """Returns the columns of `state` `[S]` with the fresh bet sizes of its decision, by slot."""
  row = int(game.bets.row(*state[[betting.ACTOR, betting.ROUND, betting.RAISES]]))
  first = game.size_columns.start + row * game.bets.num_slots
  return {slot: first + slot for slot in np.flatnonzero(game.bets.thousandths[row]).tolist()}


def _range(name: str, value: Any) -> tuple[int, int]:
  found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", value) if isinstance(value, str) else None
  low, high = (int(found[1]), int(found[2])) if found else (1, 0)
  if low > high:
    raise ValueError(
      f"vary {name}={short(value)} must be LOW-HIGH, two whole numbers of chips, such as "
      "'3000-12000'"
    )
  return low, high


_FOLD_TABLE, _SHOWDOWN_TABLE = 0, 1
_MOST_NODES = 20_000  # of a template: a program of more takes minutes to compile
_MOST_BOARDS = 2_000  # that all-in hands are shown on, unless the next card is the last


class Streets:
  """The subgames of hold'em as templates, and what fills them; methods run on JAX's arrays.

  Rounds of one shape share a template, such as flop and turn; so do deals of as many cards. The
  first is that of the first round alone, in which hands start. All-in hands have templates of all
  remaining deals: the next one as in other templates and, where flops are drawn, one drawn card for
  each later one. Where these make too many boards, hands go on from deal to deal instead.
  """

  def __init__(self, game: Any):
    self.game = game
    self._check()
    # Whether all games start in the same public state.
    self.one_start = game.fresh == FIXED and game.flops is None
    rounds = len(game.deals)
    templates: list[Template] = []
    of_stage: list[int] = []
    for number in range(rounds + 1):
      first = game.rules.first_to_act
      shapes = [self._decision(number, first[min(number, len(first) - 1)])]
      if number < rounds:
        dealt = [(action, Node(LEAF)) for action in self._outcomes(number)]
        shapes.append(Node(CHANCE, children=dealt))
      for template in map(make_template, shapes):
        if template not in templates[1:]:
          templates.append(template)
        of_stage.append(max(i for i, known in enumerate(templates) if known == template))
    self._all_in = np.array(of_stage)
    for number in range(rounds):
      if (root := self._runout(number)) is not None:
        self._all_in[2 * number + 1] = len(templates)
        templates.append(make_template(root))
    self.templates = tuple(templates)
    self._of_stage = np.array(of_stage)

  def starts(self, key: jax.Array, number: int) -> jax.Array:
    """Draws hands' first public states, by `Holdem.fresh`: `[number, S]`; `key` is consumed."""
    game, fresh, keys = self.game, self.game.fresh, jax.random.split(key, 5)
    drawn: list[tuple[Any, jax.Array]] = []  # columns, and what is new in them
    if fresh.pot is not None:
      half = jax.random.randint(keys[0], (number, 1), fresh.pot[0] // 2, fresh.pot[1] // 2 + 1)
      drawn.append((np.array([betting.PAID_0, betting.PAID_1, betting.START]), half))
    if fresh.stack is not None:
      least, most = fresh.stack
      drawn.append((betting.STACK, jax.random.randint(keys[1], (number,), least, most + 1)))
    if fresh.board:
      order = jax.vmap(lambda k: jax.random.permutation(k, game.deck.num_cards))
      board = jnp.sort(order(jax.random.split(keys[2], number))[:, : len(game.board)], axis=1)
      drawn.append((betting.NUM_COLUMNS + np.arange(len(game.board)), board))
    if fresh.bets is not None:
      sizes = np.asarray(game.bets.thousandths.reshape(1, -1), int)
      most = round(1000 * fresh.bets)
      moved = sizes + jax.random.randint(keys[3], (number, sizes.size), -most, most + 1)
      drawn.append((game.size_columns, jnp.where(sizes > 0, jnp.maximum(moved, 10), 0)))
    if game.flops is not None:
      drawn.append((-1, jax.random.randint(keys[4], (number,), 0, np.iinfo(np.int32).max)))
    states = jnp.tile(jnp.asarray(game.initial_state(), jnp.int32), (number, 1))
    for columns, rows in drawn:
      states = states.at[:, columns].set(rows.astype(states.dtype))
    return states

  def stage_template(self, number: int) -> int:
    """Returns which template the betting of a round has."""
    return int(self._of_stage[2 * number])

  def runout_template(self, number: int) -> int | None:
    """Returns which template has all deals from `number` on to all-in hands, None if none has."""
    found = int(self._all_in[2 * number + 1])
    return found if found != self._of_stage[2 * number + 1] else None

  def number_of(self, states: jax.Array) -> jax.Array:
    """Returns which template subgames at `states` `[n, S]` have: `[n]`."""
    stage = self.game.stages(states)
    all_in = self.game.rules.highest(states) == states[:, betting.STACK]
    return jnp.where(all_in, jnp.asarray(self._all_in)[stage], jnp.asarray(self._of_stage)[stage])

  def is_legal(self, states: jax.Array, actions: jax.Array, players: bool) -> jax.Array:
    """Says which of `actions` `[n]`, all of players or all of chance, are legal: `[n]`."""
    game = self.game
    if players:
      moves = game.legal_moves(states)
      return jnp.take_along_axis(moves, actions[:, None], axis=1)[:, 0]
    cards = game.dealt_cards(states, actions)
    on_board = (cards[:, :, None] == game.on_board(states)[:, None]) & (cards >= 0)[:, :, None]
    return (game.actor(states) == CHANCE) & ~on_board.any(axis=(1, 2))

  def next_states(self, states: jax.Array, actions: jax.Array, players: bool) -> jax.Array:
    """Returns the states after `actions` `[n]`, and after the card that may have to be burned."""
    # A burn gives whole trees levels of one mover, which single rounds have without it.
    after = self.game.next_states(states, actions, players)
    if not players:  # nothing is burned after a deal
      return after
    turned = with_columns(after, {betting.ACTOR: 1 - after[:, betting.ACTOR]})
    return jnp.where(self.game.burns(after)[:, None], turned, after)

  def outcomes(self, level: int, above: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws outcomes of chance at `above` `[n, S]`, and how many each stands for: `[n]` both."""
    # Where a template does not name them: flops below the root, then single cards.
    game, draw = self.game, above[0, -1]
    if level == 1:
      sets, stand_for = draw_flops(game.dealing, game.flops, draw)
      return game.first_deal + sets, stand_for
    free = ~game.dealing.shown(game.on_board(above))
    likes = jax.random.uniform(jax.random.fold_in(jax.random.key(draw), level), free.shape)
    card = jnp.argmax(jnp.where(free, likes, -1.0), axis=1)
    return game.first_deal + card, free.sum(axis=1).astype(float)

  def possible(self, states: jax.Array) -> jax.Array:
    """Returns which infostates the rules allow in `states`: `[n, P, H]`."""
    game = self.game
    shown = game.dealing.shown(game.on_board(states))
    hands = np.asarray(game.hole_cards)
    free = ~(shown[:, hands[:, 0]] | shown[:, hands[:, 1]])
    return jnp.repeat(free[:, None], 2, axis=1)

  def pair_columns(self, template: int, ends: jax.Array, dealt: jax.Array) -> dict[str, Any]:
    """Returns `Pairs.columns` of a template's ends `[T, S]`, with cards `dealt` `[N, k]`."""
    game, tables = self.game, np.array(self.templates[template].payoff_index, int)
    boards = [np.flatnonzero(tables == table)[0] for table in np.unique(tables[tables > 0])]
    hands = jnp.asarray(game.hole_cards, jnp.int32)
    strengths = jnp.zeros((0, game.num_infostates), jnp.int32)
    if boards:
      shown = game.on_board(ends[np.array(boards)])
      strengths = jax.vmap(lambda board: strengths_on(game.deck, hands, board))(shown)
    return HoleCards(game.hole_cards, strengths).columns(dealt)

  # Shapes.

  def _outcomes(self, number: int) -> list[int]:
    """Returns the actions of a deal, -1 for those that are drawn."""
    game = self.game
    if game.deals[number] > 1 and game.flops is not None:
      return [-1] * game.flops
    return [game.first_deal + outcome for outcome in range(len(game.dealing.sets[number]))]

  def _runout(self, number: int) -> Node | None:
    """Returns the deals from `number` on and showdowns after them, None if they are too many."""
    last = len(self.game.deals) - 1
    later = [
      self._outcomes(k) if self.game.flops is None else [-1] for k in range(number + 1, last + 1)
    ]
    outcomes = [self._outcomes(number), *later]
    if later and math.prod(map(len, outcomes)) > _MOST_BOARDS:
      return None

    def node(depth: int, place: int) -> Node:
      if depth == len(outcomes):
        return Node(TERMINAL, _SHOWDOWN_TABLE + place)
      first = place * len(outcomes[depth])
      below = enumerate(outcomes[depth], first)
      return Node(CHANCE, children=[(action, node(depth + 1, at)) for at, action in below])

    return node(0, 0)

  def _decision(
    self, number: int, actor: int, raises: int = 0, acted: bool = False, all_in: bool = False
  ) -> Node:
    """Returns the tree below a decision of round `number`."""
    node, paid = Node(actor), self.game.rules.paid
    if raises or (number == 0 and not acted and paid[0] != paid[1]):
      node.children.append((FOLD, Node(TERMINAL, _FOLD_TABLE)))
    called = Node(LEAF)  # after the end of the round
    if not (acted or all_in):
      called = self._decision(number, 1 - actor, raises, acted=True)
    elif number == len(self.game.deals):
      called = Node(TERMINAL, _SHOWDOWN_TABLE)
    node.children.append((CALL, called))
    if all_in:
      return node
    bets = self.game.bets
    go_on = functools.partial(self._decision, number, 1 - actor, raises + 1, acted=True)
    if raises < self.sized_raises:
      for slot in self._slots(number, actor, raises):
        node.children.append((FIRST_BET + slot, go_on()))
    if bets.max_raises is None or raises < bets.max_raises:
      node.children.append((FIRST_BET + bets.num_slots, go_on(all_in=True)))
    return node

  def _slots(self, number: int, actor: int, raises: int) -> list[int]:
    """Returns which sizes a decision has."""
    bets = self.game.bets
    return np.flatnonzero(bets.thousandths[bets.row(actor, number, raises)]).tolist()

  @functools.cached_property
  def sized_raises(self) -> int:
    """How many raises of a size, not all-in, a round has at most."""
    bets, rules, fresh = self.game.bets, self.game.rules, self.game.fresh
    limits = [x for x in (bets.max_raises, bets.all_in_after) if x is not None]
    sizes = bets.thousandths[bets.thousandths > 0]
    if not len(sizes):
      return 0
    smallest = sizes.min() / 1000
    if fresh.bets is not None:
      smallest = max(smallest - fresh.bets, 0.01)
    stack = rules.stack if fresh.stack is None else fresh.stack[1]
    paid = max(rules.paid) if fresh.pot is None else fresh.pot[0] // 2
    count, chips = 0, max(paid, 1)
    while chips < stack and count <= min(limits, default=_MOST_NODES):
      grown = chips + max((2 * chips + rules.dead) * smallest, rules.big_blind)
      chips, count = math.floor(grown), count + 1
    return min([count - 1, *limits])

  def _check(self) -> None:
    """Refuses bets whose rounds have a shape that depends on chips."""
    game = self.game
    kinds = np.unique(game.bets.kinds)
    more = game.bets.near_all_in, game.bets.merge
    if not game.bets.all_in or len(kinds[kinds > 1]) or more != (None, None):
      raise ValueError(
        "bets must be fractions of the pot, with all-in as a move of its own, for subgames that "
        "are made on the device"
      )
    if len(game.parameters()["added_bets"]):
      raise ValueError("bets added to one spot cannot be in subgames that are made on the device")
    if game.bets.donk is not None:
      raise ValueError(
        f"donk={game.bets.donk!r} must be None for subgames that are made on the device, whose "
        "shape depends on the round alone"
      )
    decisions, most = 2, self.sized_raises
    for raises in reversed(range(most)):
      rounds = range(len(game.deals) + 1)
      slots = max(len(self._slots(r, player, raises)) for r in rounds for player in (0, 1))
      decisions = 2 + slots * decisions
      if decisions > _MOST_NODES:
        raise ValueError(
          f"bets allow {most} raises of a size in a round, more than a program holds; give them "
          "all_in_after, such as 4"
        )
