"""No-limit hold'em for two, from any point between rounds: whole games and endgames."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsFloat

import jax
import numpy as np

from games.arrays import Rows, check_shape, checked, short, with_columns, xp
from games.game import CHANCE, TERMINAL, Game
from games.pairs import HoleCards, compatible_mass, holds
from games.poker import betting
from games.poker.abstraction import BetSizes
from games.poker.betting import CALL, FIRST_BET, FOLD, Betting
from games.poker.cards import NUM_HOLE_CARDS, Deck, shares_card, strengths_on
from games.poker.dealing import NO_CARD, Dealing, check_flops
from games.poker.notation import parse_range
from games.poker.streets import FIXED, Fresh, Streets, read_fresh

# Columns of the features: numbers about the betting, both players' chips in the pot among them as
# fractions of the stack, and last a column for each card of the deck, 1 if it is shown.
PAID = slice(6, 8)


class Holdem(Game):
  """No-limit hold'em between two players, hole cards dealt, some board cards perhaps too.

  Infostates are the pairs of hole cards that the starting board leaves, `hole_cards` `[H, 2]`, in
  the order of `Deck.hole_cards` (all pairs with `every_hand`); hands that share a card exclude each
  other. Payoffs are chips won or lost since the hand began, those in the pot at the start included;
  of a hand with another stack they are scaled as if its stack were `rules.stack`.

  Actions: 0 folds (only to a bet), 1 checks or calls, 2 and up bet or raise by the sizes of the
  abstraction in turn, the last of them all-in, then those that `with_bet` added; `burn`, and from
  `first_deal` on the cards that chance deals, card by card where one is dealt, else set by set.
  Chance burns a card, which no one sees and nothing depends on, where the turn to act would
  otherwise come to the wrong player: so all nodes at one depth of a tree have the same mover, and
  a player's update leaves alone half of the levels. A deal's public state is the pot.

  A public state is the betting state (`games.poker.betting`), the cards dealt since the start, -1
  for those to come, and what is `fresh` in every hand: before those cards the ones that lie at the
  start, after them the sizes of bets and a number that decides which flops searches look at.

  Attributes:
    deck: the cards there are.
    board: cards that lie at the start.
    deals: how many cards are dealt before each later round of betting.
    dealing: the sets of cards that these may be.
    rules: stacks, pot and minimum bets.
    bets: the abstraction.
    fresh: what is drawn anew for every hand of self-play (`vary`); trees are of the game itself.
    flops: how many outcomes of a deal of several cards a search looks at, drawn for every hand;
      None for all.
    every_hand: whether hands that the board blocks are infostates too, of probability zero.
    ranges: what players may hold, if that is not every hand; see `only`.
    kept: `[H]` which of all hands, in their order, are infostates.
  """

  name = "holdem"
  text = (
    "Hold'em between two: each has two cards of their own, shares those on the board, and the "
    "best five of the seven win the pot. Bets are named by the chips that a player will have "
    "put in; what is won or lost is counted with what was in the pot at the start."
  )

  @checked
  def __init__(
    self,
    *,
    deck: Deck | None = None,
    board: Sequence[int] = (),
    deals: Sequence[int] = (),
    rules: Betting | None = None,
    bets: BetSizes,
    added_bets: tuple[tuple[tuple[int, ...], int], ...] = (),
    fresh: Fresh = FIXED,
    flops: int | None = None,
    every_hand: bool = False,
    ranges: np.ndarray | None = None,
  ):
    self.deck = Deck() if deck is None else deck
    self.board = tuple(int(x) for x in board)
    self.deals = tuple(int(x) for x in deals)
    rules = Betting() if rules is None else rules
    self.rules = dataclasses.replace(rules, tells_bettor=bets.donk is not None)
    self.bets = bets
    self._added_bets = added_bets
    self.fresh = fresh
    self.flops = flops
    self.every_hand = every_hand or fresh.board
    self.dealing = Dealing(self.deck, self.board, self.deals)
    check_flops(self.dealing, flops)
    every = self.deck.hole_cards(() if self.every_hand else self.board)
    self.ranges, self.kept = ranges, np.arange(len(every))
    if ranges is not None:
      self.kept = np.flatnonzero(ranges.any(axis=0))
    self.hole_cards = every[self.kept]
    self.num_infostates = len(self.hole_cards)
    self.burn = self.num_player_actions = FIRST_BET + bets.num_slots + 1 + len(added_bets)
    self.first_deal = self.burn + 1
    self.num_actions = self.first_deal + self.dealing.num_deals
    # Columns of a state.
    self._first_dealt = betting.NUM_COLUMNS + len(self.board) * fresh.board
    self._first_size = self._first_dealt + sum(self.deals)
    # The sizes of bets, where these are fresh.
    self.size_columns = slice(self._first_size, self._first_size + bets.thousandths.size)

  # Public states.

  def initial_state(self):
    dealt = np.full(sum(self.deals), NO_CARD)
    board = self.board if self.fresh.board else ()
    sizes = self.bets.thousandths.reshape(-1) if self.fresh.bets is not None else ()
    draw = () if self.flops is None else (0,)
    parts = (self.rules.start(), board, dealt, sizes, draw)
    return np.concatenate([np.asarray(part, np.int64) for part in parts])

  def actor(self, states):
    status, later = states[:, betting.STATUS], states[:, betting.ROUND] < len(self.deals)
    over = xp.where((status == betting.CLOSED) & later, CHANCE, TERMINAL)
    return xp.where(status == betting.GOING_ON, states[:, betting.ACTOR], over)

  def stages(self, states):
    closed = (states[:, betting.STATUS] == betting.CLOSED) & ~self.burns(states)
    return 2 * states[:, betting.ROUND] + closed.astype(states.dtype)

  def burns(self, states: Rows) -> Rows:
    """Says where the round is closed and a card must be burned before the deal: `[n]`."""
    following = self.rules.next_round(states)
    same = following[:, betting.ACTOR] == states[:, betting.ACTOR]
    betting_goes_on = following[:, betting.STATUS] == betting.GOING_ON
    return same & betting_goes_on & (self.actor(states) == CHANCE)

  def amounts(self, states: Rows) -> Rows:
    """Returns the amount of each betting action, -1 where it is not legal: `[n, bets]` chips."""
    sizes = states[:, self.size_columns] if self.fresh.bets is not None else None
    added: list[Any] = [
      xp.where((states == np.array(row, states.dtype)[None]).all(axis=1), chips, -1)[:, None]
      for row, chips in self._added_bets
    ]
    return xp.concat([self.bets.amounts(self.rules, states, sizes), *added], axis=1)

  def bets_at(self, state: np.ndarray) -> dict[int, int]:
    """Returns the chips that each bet in one public `state` is to, by action, smallest first."""
    amounts = self.amounts(state[None])[0].tolist()
    bets = sorted((to, action) for action, to in enumerate(amounts, FIRST_BET) if to >= 0)
    return {action: to for to, action in bets}

  def legal_actions(self, states):
    burns, left = (
      self.burns(states),
      self.dealing.left(states[:, betting.ROUND], self.on_board(states)),
    )
    deals = left & ((self.actor(states) == CHANCE) & ~burns)[:, None]
    return xp.concat([self.legal_moves(states), burns[:, None], deals], axis=1)

  def legal_moves(self, states: Rows) -> Rows:
    """Returns which moves players have: `[n, burn]`."""
    fold, call = self.rules.may_fold(states), states[:, betting.STATUS] == betting.GOING_ON
    return xp.concat([xp.stack([fold, call], axis=1), self.amounts(states) >= 0], axis=1)

  def next_states(self, states, actions, players: bool | None = None):
    """Returns the states after `actions` `[n]`; `players` says if all are players' or chance's."""
    new = with_columns(states, {betting.ACTOR: 1 - states[:, betting.ACTOR]})  # after a burn
    for of_players, rows, move in (
      (True, actions == FOLD, self.rules.fold),
      (True, actions == CALL, self.rules.call),
      (
        True,
        (actions >= FIRST_BET) & (actions < self.burn),
        functools.partial(self._raise, actions),
      ),
      (False, actions >= self.first_deal, functools.partial(self._deal, actions)),
    ):
      if players in (None, of_players) and (isinstance(rows, jax.Array) or rows.any()):
        new = xp.where(rows[:, None], move(states), new)
    return new

  def _raise(self, actions: Rows, states: Rows) -> Rows:
    """Returns the states after `actions` bet or raise."""
    amounts = self.amounts(states)
    slot = xp.clip(actions - FIRST_BET, 0, amounts.shape[1] - 1)
    return self.rules.raise_to(states, xp.take_along_axis(amounts, slot[:, None], axis=1)[:, 0])

  def _deal(self, actions: Rows, states: Rows) -> Rows:
    """Returns the states after `actions` deal cards."""
    cards = self.dealt_cards(states, actions)
    columns: dict[int, Any] = {}
    for index, number in enumerate(self.deals):
      here = states[:, betting.ROUND] == index
      for k in range(number):
        column = self._first_dealt + len(columns)
        columns[column] = xp.where(here, cards[:, k], states[:, column])
    return with_columns(self.rules.next_round(states), columns)

  @checked
  def with_bet(self, history: Sequence[int], chips: int) -> "Holdem":
    """Returns this game with one more bet after `history`: a bet off the tree, added to it.

    The new action, numbered `burn` of this game, is legal there only; chance's move up by one.

    Args:
      history: public actions that lead to the state where the bet is made.
      chips: what the bet brings the player's chips in the pot to.

    Raises:
      ValueError: the bet is below the minimum, above the stack, or the abstraction has it.
    """
    state = self.state_after(history)
    if self.actor(state[None])[0] >= CHANCE:
      raise ValueError(f"history={tuple(history)} leads to where no player moves")
    chips = self.rules.check_raise(state, chips)
    if (self.amounts(state[None]) == chips).any():
      raise ValueError(f"bet={chips} is in the abstraction already after {tuple(history)}")
    added = (*self._added_bets, (tuple(state.tolist()), chips))
    return self.replace(added_bets=added)

  def replace(self, **changes: Any) -> "Holdem":
    """Returns the game with some parameters of `Holdem` changed."""
    return Holdem(**(self.parameters() | changes))

  def parameters(self) -> dict[str, Any]:
    """Returns the arguments of `Holdem`."""
    names = ("deck", "board", "deals", "rules", "bets", "fresh", "flops", "every_hand", "ranges")
    return {name: getattr(self, name) for name in names} | {"added_bets": self._added_bets}

  @checked
  def only(self, beliefs: np.ndarray) -> "Holdem":
    """Returns the game in which players are dealt the hands of their ranges and no others.

    Infostates are the hands that either holds with some belief, without those that meet none of
    the other's. States, actions, policies and values of hands that are held stay what they are; a
    hand outside a player's range is impossible, and the prior are the ranges.

    Args:
      beliefs: `[P, H]` at the start, each row a distribution.

    Raises:
      ValueError: hands are chosen already, or `beliefs` are no distributions or leave no pair.
    """
    rows = np.asarray(beliefs, float)
    check_shape("beliefs", rows, (2, self.num_infostates), "(P, H)")
    if self.ranges is not None or not np.allclose(rows.sum(axis=1), 1, atol=1e-3) or rows.min() < 0:
      raise ValueError(f"beliefs must be distributions over all hands of {self!r}, rows sum to one")
    held = (rows > 0) & (self.prior() > 0)
    cards = holds(self.hole_cards, self.deck.num_cards)
    held &= compatible_mass(held[::-1].astype(float), cards) > 0.5
    if not held.any():
      raise ValueError("beliefs leave no compatible pair of hands; some pair must be possible")
    rows = np.where(held, rows, 0.0)
    return self.replace(ranges=rows / rows.sum(axis=1, keepdims=True))

  def vary(self, **how):
    if self.ranges is not None:
      return super().vary(**how)
    return self.replace(fresh=read_fresh(self, how))

  @property
  def unlisted(self):
    return not self.dealing.listable

  def templates(self):
    return self._streets if self.ranges is None else None  # they are of all hands

  @functools.cached_property
  def _streets(self) -> Streets:  # one, so that programs which know it are compiled once
    return Streets(self)

  # Private information.

  def prior(self):
    if self.ranges is not None:
      return self.ranges[:, self.kept]
    live = ~np.isin(self.hole_cards, self.board).any(axis=1)
    return np.tile(live / live.sum(), (2, 1))

  def hands(self):
    return self.hole_cards

  @checked
  def infostate(self, hand: str) -> int:
    """Returns the infostate of a hand such as `AsKd`, cards in either order.

    Raises:
      ValueError: it is not two different cards of the deck, or the board blocks it.
    """
    cards = sorted(self.deck.parse(hand, field="hand"))
    if len(cards) != NUM_HOLE_CARDS:
      raise ValueError(f"hand={short(hand)} must be {NUM_HOLE_CARDS} cards")
    found = np.flatnonzero((self.hole_cards == cards).all(axis=1))
    if not self.prior()[:, found].any():
      reason = f"blocked by the board {self.deck.names(self.board)!r}, or in neither range"
      raise ValueError(f"hand={short(hand)} is {reason}")
    return int(found[0])

  @checked
  def beliefs(self, ranges: np.ndarray | Sequence[str]) -> np.ndarray:
    """Turns two ranges into beliefs at the start `[P, H]`, whose rows sum to one.

    Args:
      ranges: player 0's and player 1's: two strings for `parse_range`, or `[P, C(n, 2)]` weights,
        not negative, in the order of `deck.hole_cards()`; hands that the board blocks are left out.

    Raises:
      ValueError: the shape is wrong, a string is not understood, a weight is negative or not
        finite, or the board leaves a player no hand.
    """
    every = self.deck.hole_cards()
    if not isinstance(ranges, str) and all(isinstance(x, str) for x in ranges):
      named = [parse_range(str(x), self.deck, field=f"ranges[{p}]") for p, x in enumerate(ranges)]
      ranges = np.array(named)
    weights = np.asarray(ranges, float)
    check_shape("ranges", weights, (2, len(every)), "(P, C(n, 2))")
    if not np.isfinite(weights).all() or (weights < 0).any():
      raise ValueError("ranges hold negative or infinite weights; each must be at least 0")
    free = ~np.isin(every, self.board).any(axis=1)
    live = weights * free if self.every_hand else weights[:, free]
    totals = live.sum(axis=1, keepdims=True)
    if (totals == 0).any():
      raise ValueError(
        f"ranges give player {int(totals.argmin())} no hand that the board "
        f"{self.deck.names(self.board)!r} leaves; some must have weight"
      )
    return (live / totals)[:, self.kept]

  def dealt_cards(self, states, actions):
    deals = (actions >= self.first_deal) & (self.actor(states) == CHANCE)
    cards = self.dealing.cards(states[:, betting.ROUND], actions - self.first_deal)
    return xp.where(deals[:, None], cards, NO_CARD)

  def chance(self, states, actions):
    cards = self.dealt_cards(states, actions)
    held = np.asarray(self.hole_cards, dtype=cards.dtype)[None, :, :, None]
    blocked = (held == cards[:, None, None, :]).any(axis=(2, 3))
    probability = self.dealing.probability(states[:, betting.ROUND])
    probability = xp.where(actions >= self.first_deal, probability, 1.0)
    return probability, xp.repeat(~blocked[:, None], 2, axis=1)

  # Payoffs.

  def pair_weights(self):
    return (~shares_card(self.hole_cards, self.hole_cards))[None].astype(float)

  def strengths(self):
    return self._strengths

  @functools.cached_property
  def _strengths(self) -> np.ndarray:
    return self.dealing.strengths_on(self.hole_cards, self.dealing.final)

  def pairs(self):
    if not self.unlisted:
      return super().pairs()
    return HoleCards(self.hole_cards, np.zeros((0, self.num_infostates), np.int32))

  def payoff(self, state, infostates):
    won: Any = 1.0
    if state[betting.STATUS] == betting.CLOSED:
      strengths = strengths_on(self.deck, self.hole_cards, self.on_board(state[None])[0])
      won = np.sign(np.subtract(*(strengths[x].astype(float) for x in infostates)))
    return won * float(self.payoff_scale(state[None])[0])

  def sample_chance(self, state, infostates, rng):
    number = int(state[betting.ROUND])
    if not self.unlisted or self.burns(state[None])[0]:
      return super().sample_chance(state, infostates, rng)
    taken = [*self.on_board(state[None])[0], *self.hole_cards[list(infostates)].reshape(-1)]
    free = np.setdiff1d(np.arange(self.deck.num_cards), taken)
    cards = np.sort(rng.choice(free, self.deals[number], replace=False))
    return self.first_deal + int(self.dealing.number(cards[None])[0])

  def payoffs(self):
    strengths = self.strengths()
    showdowns = np.sign(strengths[:, :, None] - strengths[:, None]).astype(float)
    return np.concatenate([np.ones((1, *showdowns.shape[1:])), showdowns])

  def payoff_index(self, states):
    board = self.dealing.final_index(self.dealt(states))
    return xp.where(states[:, betting.STATUS] == betting.CLOSED, 1 + board, 0)

  def payoff_scale(self, states):
    if self.rules.rake:
      raise ValueError(
        f"rake={self.rules.rake} makes a game that is not of zero sum, which trees must be; solve "
        "it as lines of betting (games.poker.lines.make_lines)"
      )
    return self.rules.stakes(states)

  def dealt(self, states: Rows) -> Rows:
    """Returns the cards dealt since the start, -1 for those to come: `[n, k]`."""
    return states[:, self._first_dealt : self._first_size]

  def on_board(self, states: Rows) -> Rows:
    """Returns all cards on the board, -1 for those to come: `[n, k]`."""
    if self.fresh.board:
      return states[:, betting.NUM_COLUMNS : self._first_size]
    board = xp.broadcast_to(
      np.asarray(self.board, dtype=states.dtype), (len(states), len(self.board))
    )
    return xp.concat([board, self.dealt(states)], axis=1)

  # What a network sees, and what a person reads.

  def features(self, states, player):
    stack, actor = states[:, betting.STACK, None].astype(float), self.actor(states)[:, None]
    paid = states[:, betting.PAID_0 : betting.PAID_1 + 1].astype(float)
    columns = [
      xp.full((len(states), 1), player),
      actor == player,
      actor == CHANCE,
      states[:, betting.ROUND, None],
      states[:, betting.ACTED, None] > 0,
      states[:, betting.LAST_RAISE, None].astype(float) / stack,
      paid[:, :: 1 if player == 0 else -1] / stack,
      self.dealing.shown(self.on_board(states)),
    ]
    if self.fresh.stack is not None:  # elsewhere it is always the same
      columns.insert(-1, self.rules.big_blind / stack)
    return xp.concat([column.astype(float) for column in columns], axis=1)

  def action_name(self, action):
    if action >= self.first_deal:
      number = action - self.first_deal
      names = {self.deck.names(sets[number]) for sets in self.dealing.sets if number < len(sets)}
      return "deal " + " or ".join(sorted(names))
    bets = [f"bet {1 + slot}" for slot in range(self.bets.num_slots)]
    added = ["added bet"] * len(self._added_bets)
    return ["fold", "call", *bets, "all-in", *added, "burn"][action]

  def describe(self, history, action):
    state = self.state_after(history)
    turn, bets = self.rules.at(state), self.bets_at(state)
    if action >= self.first_deal:
      return "deal " + self.deck.names(self.dealing.sets[turn.round][action - self.first_deal])
    if action in bets:
      all_in = " (all-in)" if bets[action] == state[betting.STACK] else ""
      return f"{'raise' if turn.may_fold else 'bet'} to {bets[action]}{all_in}"
    return "check" if action == CALL and not turn.may_fold else self.action_name(action)

  def situation(self, history, show=str):
    state = self.state_after(history)
    shown = [card for card in self.on_board(state[None])[0] if card != NO_CARD]
    paid = self.rules.at(state).paid
    behind = [int(state[betting.STACK]) - chips for chips in paid]
    board = f"board {self.deck.names(shown)}, " if shown else ""
    return f"{board}pot {show(sum(paid) + self.rules.dead)}, stacks " + " and ".join(
      map(show, behind)
    )

  def infostate_name(self, player, infostate):
    return self.deck.hand_name(self.hole_cards[infostate])

  def __repr__(self) -> str:
    board = self.deck.names(self.board)
    held = "" if self.ranges is None else f", {self.num_infostates} hands held"
    about = f"board {board!r}, paid {self.rules.paid}, stacks {self.rules.stacks}{held}"
    return f"<{self.name}: {about}>"


class Chips(NamedTuple):
  """A number of chips.

  Attributes:
    chips: the number.
    pot: as a fraction of the pot at the start of the game; NaN if nothing is in it.
    mbb: in thousandths of a big blind.
  """

  chips: float
  pot: float
  mbb: float


@checked
def in_units(game: Holdem, chips: SupportsFloat) -> Chips:
  """Returns payoffs of `game`, chips of a hand with its own stack, in all units."""
  value = float(chips)
  pot = game.rules.pot
  share = value / pot if pot else math.nan
  return Chips(value, share, 1000 * value / game.rules.big_blind)
