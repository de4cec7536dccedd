"""A hand of two-player no-limit hold'em in chips and cards, event by event, without a tree."""

import abc
import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from games.arrays import Player, checked, is_whole, short
from games.poker import NUM_HOLE_CARDS, RANKS, SUITS, Holdem, SmallHoldem, evaluate
from games.poker.betting import BettingTurn, Stack
from solvers import validation

Cards = tuple[int, ...]

# Answers to bets that a tree lacks: `add` puts the bet in the place of the closest of the tree as a
# share of the pot, and searches the round again, if rounds are made where play leads; `nearest`
# takes it for the closest, `map` for one of both neighbours at random (`games.poker.map_bet`).
OFF_TREE = ("add", "nearest", "map")


@dataclasses.dataclass(frozen=True)
class Fold:
  """The player to act gives up the pot; only where there is a bet to call."""


@dataclasses.dataclass(frozen=True)
class Call:
  """The player to act calls, or checks."""


class RaiseTo(NamedTuple):
  """The player to act bets or raises."""

  chips: int  # that the player then has put in since the hand began, blinds included


class Deal(NamedTuple):
  """The cards of one round are dealt."""

  cards: Cards  # numbers of the deck's cards, in the order in which they lie


Move = Fold | Call | RaiseTo
Event = Move | Deal


@checked
def from_blinds(game: Holdem) -> Holdem:
  """Returns a game of hold'em whose hands begin with the blinds alone: what tables play."""
  if game.board:
    names = game.deck.names(game.board)
    raise ValueError(f"board={names!r} must be empty: a hand begins with the blinds")
  if game.rules.dead:
    raise ValueError(f"dead={game.rules.dead} must be 0: a hand begins with the blinds alone")
  return game


@checked
def seat_of(rules: Holdem, position: Player) -> int:
  """Returns the seat at a position of ACPC and Slumbot, or back: 0 has the big blind."""
  small, big = rules.rules.paid
  return 1 - position if big > small else position


@checked
def make_rules(
  *,
  stack: int = 20_000,
  small_blind: Stack = 50,
  big_blind: Stack = 100,
  deals: int | Sequence[int] = (3, 1, 1),
  ranks: str | int = RANKS,
  suits: str = SUITS,
) -> Holdem:
  """Returns the rules of hold'em from the blinds; seat 0 has the button and the small blind.

  Args:
    stack: chips of each player before the hand.
    small_blind, big_blind: what they put in before the first action; seat 0 acts first then, and
      seat 1 after every deal.
    deals: cards dealt before each later round; digits in one number will do, such as 311.
    ranks, suits: the deck.

  Raises:
    ValueError: one is not allowed.
  """
  if small_blind > big_blind:
    raise ValueError(f"small_blind={small_blind} must be at most big_blind={big_blind}")
  if isinstance(deals, int):
    deals = [int(digit) for digit in str(validation.check_integer("deals", deals))]
  blinds, bets = (small_blind, big_blind), "a"  # of trees; tables take any bet
  return SmallHoldem(str(ranks), suits, tuple(deals), blinds, stack, big_blind, (0, 1), bets)


class ChipTable:
  """One hand: checks each event and lists the legal next ones."""

  @checked
  def __init__(self, rules: Holdem, hole_cards: Sequence[Cards | None] = (None, None)):
    """Begins a hand."""
    self.rules = from_blinds(rules)
    self.events: list[Event] = []
    self.board: Cards = ()
    self.hole_cards: list[Cards | None] = [None, None]  # None where unknown
    self.state = rules.rules.start()  # `[NUM_COLUMNS]`
    self.turns = [rules.rules.at(self.state)]  # before each event, and the one that stands
    for seat in (0, 1):
      self.show(seat, hole_cards[seat])

  @checked
  def show(self, seat: int, cards: Cards | None) -> None:
    """Takes note of a seat's hole cards."""
    if cards is None:
      return
    named = self._check_cards("hole_cards", cards, NUM_HOLE_CARDS, but=seat)
    held = self.hole_cards[seat]
    if held is not None and set(held) != set(cards):
      raise ValueError(f"{named} of seat {seat} were {self.rules.deck.names(held)!r} before")
    self.hole_cards[seat] = tuple(cards)

  # What may come next.

  @property
  def turn(self) -> BettingTurn:
    """The betting, by seats; its actor is None where cards are due or the hand is over."""
    return self.turns[-1]

  @property
  def due(self) -> tuple[int, ...]:
    """The cards of the next deal, round by round: of all further rounds once betting is over."""
    if self.turn.actor is not None or self.turn.folded is not None:
      return ()
    left = self.rules.deals[self.turn.round :]
    return left if self.turn.highest == self.rules.rules.stack else left[:1]

  @property
  def is_over(self) -> bool:
    """Whether the hand has ended."""
    return self.turn.actor is None and not self.due

  # What comes.

  @checked
  def apply(self, event: Event) -> None:
    """Takes an event."""
    rules, states = self.rules.rules, self.state[None]
    if isinstance(event, Deal):
      self._check_cards("cards", event.cards, self.due[0] if self.due else None)
      self.board = (*self.board, *(int(card) for card in event.cards))
      states = rules.next_round(states)
    elif not isinstance(event, Fold | Call | RaiseTo):
      raise ValueError(f"event={event!r} must be a Fold, Call, RaiseTo or Deal")
    elif self.turn.actor is None:
      why = "the hand is over" if self.is_over else f"{self.due[0]} cards are due"
      raise ValueError(f"move={event!r} comes where nobody acts: {why}")
    elif isinstance(event, RaiseTo):
      states = rules.raise_to(states, np.array([rules.check_raise(self.state, event.chips)]))
    elif isinstance(event, Call):
      states = rules.call(states)
    elif self.turn.may_fold:
      states = rules.fold(states)
    else:
      raise ValueError(f"move={event!r} is not legal where there is nothing to call; check")
    self.state = states[0]
    self.turns.append(rules.at(self.state))
    self.events.append(event)

  def _check_cards(
    self, field: str, cards: Cards, number: int | None, but: int | None = None
  ) -> str:
    """Checks that cards are of the deck, and not elsewhere than with seat `but`; names them."""
    size = self.rules.deck.num_cards
    if not all(is_whole(card, 0, size - 1) for card in cards):
      raise ValueError(f"cards={short(cards)} must be numbers from 0 to {size - 1}")
    named = f"{field}={self.rules.deck.names(cards)!r}"
    if number is None:
      raise ValueError(f"{named} are dealt where none are due")
    if not len(set(cards)) == len(cards) == number:
      raise ValueError(f"{named} must be {number} cards that differ")
    others = [hand for seat, hand in enumerate(self.hole_cards) if seat != but and hand]
    for card in cards:
      if any(card in known for known in (self.board, *others)):
        raise ValueError(f"{named} has {self.rules.deck.name(card)}, which lies elsewhere already")
    return named

  def payoffs(self) -> tuple[int, int]:
    """Returns the chips that each seat has won, after the hand."""
    if not self.is_over:
      raise ValueError(f"events={len(self.events)} have not ended the hand; payoffs come after it")
    lost, loser = min(self.turn.paid), self.turn.folded
    if loser is None:
      if None in self.hole_cards:
        raise ValueError(
          f"hole_cards of seat {self.hole_cards.index(None)} decide, and are unknown"
        )
      hands = [(*hand, *self.board) for hand in self.hole_cards if hand is not None]
      first, second = evaluate(self.rules.deck, np.array(hands))
      loser = None if first == second else int(first > second)
    return (0, 0) if loser is None else (-lost, lost) if loser == 0 else (lost, -lost)


class Dialect(NamedTuple):
  """Text of moves: `f` folds, and `/` stands between rounds.

  Attributes:
    check, call: the text of these; they may be the same.
    bet: what stands before the chips of a bet or raise.
    of_round: whether these are chips of the round, else of the whole hand.
  """

  check: str
  call: str
  bet: str
  of_round: bool

  def write(self, turn: BettingTurn, move: Move) -> str:
    """Returns a move as text."""
    if isinstance(move, RaiseTo):
      return f"{self.bet}{move.chips - self.of_round * turn.began_at}"
    return "f" if isinstance(move, Fold) else self._passive(turn)

  def read(self, turn: BettingTurn, text: str) -> Move:
    """Returns the move that a text is; raises a ValueError if it is none."""
    # Where nobody acts, the table refuses either.
    passive = f"{self.check}|{self.call}" if turn.actor is None else self._passive(turn)
    found = re.fullmatch(rf"(f)|{passive}|{self.bet}(\d{{1,10}})", text, re.ASCII)
    if found is None:
      raise ValueError(
        f"action={short(text)} must be f, {passive} or {self.bet}N with N chips of the "
        f"{'round' if self.of_round else 'whole hand'}"
      )
    fold, chips = found.groups()
    return (
      RaiseTo(int(chips) + self.of_round * turn.began_at) if chips else Fold() if fold else Call()
    )

  def write_betting(self, table: ChipTable) -> str:
    """Returns the betting of a hand as text."""
    steps = zip(table.turns, table.events)
    return "".join("/" if isinstance(x, Deal) else self.write(turn, x) for turn, x in steps)

  def read_betting(self, table: ChipTable, field: str, text: str, board: Cards) -> None:
    """Applies moves and deals of `board` to a table at the start of its hand."""
    moves = dict.fromkeys((self.check, self.call, "f"))
    tokens = re.findall(rf"{'|'.join(moves)}|{self.bet}\d{{1,10}}|/", text, re.ASCII)
    if "".join(tokens) != text:
      raise ValueError(f"{field}={short(text)} must be of {', '.join(moves)}, {self.bet}N and /")
    for token in tokens:
      if token == "/" and not table.due:
        raise ValueError(f"{field}={short(text)} has a / where a round is not over")
      table.apply(next_deal(table, board) if token == "/" else self.read(table.turn, token))
    # Where nobody can bet any more, / may be missing.
    while len(table.board) < len(board) and table.due:
      table.apply(next_deal(table, board))
    shown = table.rules.deck.names(board)
    if table.due:
      raise ValueError(f"board={shown!r} lacks cards that are due after {field}={short(text)}")
    if len(table.board) < len(board):
      raise ValueError(f"board={shown!r} has more cards than {field}={short(text)} has rounds")

  def _passive(self, turn: BettingTurn) -> str:
    return self.call if turn.may_fold else self.check


class ChipPlayer(Protocol):
  """Player of hands in chips and cards; it observes all events, its own moves too."""

  def start(self, seat: int, hole_cards: Cards) -> None:
    """Begins a hand in `seat`, 0 or 1."""

  def observe(self, event: Event) -> None:
    """Takes note of an event."""

  def act(self) -> Move:
    """Returns a move; called when it is the player's turn."""


class Seated(abc.ABC):
  """A player who follows the hand at a table of its own."""

  @checked
  def __init__(self, rules: Holdem, *, seed: int = 0):
    self.rules, self.seat = rules, 0
    self.table = ChipTable(rules)
    self.rng = np.random.default_rng(seed)

  def warm_up(self) -> None:  # noqa: B027 - most have nothing to compile
    """Lets a player that searches compile before anyone waits for it, by two hands of its own."""

  @checked
  def start(self, seat: Player, hole_cards: Cards) -> None:
    self.seat = seat
    self.table = ChipTable(self.rules, (hole_cards, None) if seat == 0 else (None, hole_cards))

  def observe(self, event: Event) -> None:
    self.table.apply(event)

  @abc.abstractmethod
  def act(self) -> Move:
    """See `ChipPlayer`."""


class Hand(NamedTuple):
  """What a hand is dealt."""

  number: int  # from 0
  first_seat: int  # of the match's first player
  hole_cards: tuple[Cards, Cards]  # of seats 0 and 1
  board: Cards  # all cards that can be dealt


class ChipMatchResult(NamedTuple):
  """Winnings of the first player.

  Attributes:
    chips: `[hands]` in each hand.
    mean: thousandths of a big blind (mbb) a hand.
    half_width: of the 95 % confidence interval around the mean; infinite for one sample.
    pairs: ", in pairs" where hands 2 k and 2 k + 1 had the same cards, seats exchanged, and are one
      sample together.
  """

  chips: tuple[int, ...]
  mean: float
  half_width: float
  pairs: str

  def __str__(self) -> str:
    interval = f"{self.mean:+.1f} ± {self.half_width:.1f} mbb a hand"
    return f"{interval} over {len(self.chips):,} hands{self.pairs}"


def summarise_chips(chips: Sequence[int], rules: Holdem, duplicate: bool) -> ChipMatchResult:
  """Returns the result of a match from the chips that the first player won in each hand."""
  samples = 1000 * np.array(chips, float).reshape(-1, 1 + duplicate) / rules.rules.big_blind
  each = samples.mean(axis=1)
  error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.inf
  pairs = ", in pairs" if duplicate else ""
  return ChipMatchResult(tuple(chips), float(each.mean()), float(1.96 * error), pairs)


@checked
def hands_of(
  rules: Holdem, *, num_hands: int, seed: int = 0, duplicate: bool = False
) -> Iterator[Hand]:
  """Yields the deals of a match's hands; a seed's are the same however many hands there are."""
  check = validation.check_even if duplicate else validation.check_integer
  for number in range(check("num_hands", num_hands)):
    rng = np.random.default_rng([seed, number // 2 if duplicate else number])
    size = 2 * NUM_HOLE_CARDS + sum(rules.deals)
    cards = rng.choice(rules.deck.num_cards, size, replace=False).tolist()
    yield Hand(number, number % 2, (tuple(cards[:2]), tuple(cards[2:4])), tuple(cards[4:]))


@checked
def next_deal(table: ChipTable, board: Cards) -> Deal:
  """Returns the cards that come next of all those of a hand's board."""
  start = len(table.board)
  return Deal(tuple(board[start : start + sum(table.due[:1])]))


@checked
def play_hand(players: tuple[ChipPlayer, ChipPlayer], rules: Holdem, hand: Hand) -> ChipTable:
  """Plays one hand between the players of seats 0 and 1, and returns it."""
  table = ChipTable(rules, hand.hole_cards)
  for seat in (0, 1):
    players[seat].start(seat, hand.hole_cards[seat])
  while not table.is_over:
    actor = table.turn.actor
    event: Event = next_deal(table, hand.board) if actor is None else players[actor].act()
    table.apply(event)
    for player in players:
      player.observe(event)
  return table


@checked
def play_chip_match(
  players: tuple[ChipPlayer, ChipPlayer],
  rules: Holdem,
  *,
  num_hands: int,
  seed: int = 0,
  duplicate: bool = True,
) -> ChipMatchResult:
  """Plays a match of two players, and returns what the first of them won.

  Args:
    players: two; they change seats after every hand.
    rules: what is played; stacks are the same before every hand.
    num_hands: how many hands; even with `duplicate`.
    seed: of the cards; players have seeds of their own.
    duplicate: deals every hand twice, seats exchanged, which takes out much of the luck.

  Raises:
    ValueError: `num_hands` is not allowed, or a player's move is not legal.
  """
  chips = []
  for hand in hands_of(rules, num_hands=num_hands, seed=seed, duplicate=duplicate):
    seated = players if hand.first_seat == 0 else players[::-1]
    chips.append(play_hand(seated, rules, hand).payoffs()[hand.first_seat])
  return summarise_chips(chips, rules, duplicate)


_PHH = Dialect("cc", "cc", "cbr ", of_round=True)


@checked
def write_history(table: ChipTable, *, names: Sequence[str] | None = None, hand: int | None = None):
  """Returns a hand that has ended as the text of a `.phh` file, in which p1 has the big blind.

  Args:
    table: the hand; all cards known.
    names: of seats 0 and 1.
    hand: its number.

  Raises:
    ValueError: PHH has no name for what is played, the hand goes on, hole cards are unknown, or a
      name cannot be printed.
  """
  rules, deck = table.rules, table.rules.deck
  whole = set(deck.ranks) == set(RANKS) and set(deck.suits) == set(SUITS)
  if not whole or rules.deals != (3, 1, 1):
    raise ValueError(
      f"deals={rules.deals} from {deck.num_cards} cards must be (3, 1, 1) from 52: hand histories "
      "are of Texas hold'em"
    )
  small, big = sorted(rules.rules.paid)
  order = rules.rules.first_to_act
  wanted = [seat_of(rules, 1), *[seat_of(rules, 0)] * len(rules.deals)]
  orders = [order[min(index, len(order) - 1)] for index in range(len(wanted))]
  if small == big or orders != wanted:
    raise ValueError(
      f"paid={rules.rules.paid} with first_to_act={order} must be different blinds, the smaller "
      "first before the flop and the larger after it"
    )
  if None in table.hole_cards:
    raise ValueError(f"hole_cards of seat {table.hole_cards.index(None)} must be known")
  if not "".join(names or ()).isprintable():  # JSON has escapes that TOML lacks
    raise ValueError(f"names={names!r} must be of characters that can be printed")
  payoffs = table.payoffs()
  seats = [seat_of(rules, place) for place in (0, 1)]
  stacks = [rules.rules.stacks[seat] for seat in seats]
  fields = {
    "variant": "NT",
    "antes": [0, 0],
    "blinds_or_straddles": sorted(rules.rules.paid),
    "min_bet": rules.rules.big_blind,
    "starting_stacks": stacks,
    "actions": _actions(table),
    "hand": hand,
    "players": names and [names[seat] for seat in seats],
    "finishing_stacks": [stack + payoffs[seat] for stack, seat in zip(stacks, seats)],
  }
  texts = {name: json.dumps(x, ensure_ascii=False) for name, x in fields.items() if x is not None}
  return "".join(f"{name} = {text}\n" for name, text in texts.items())  # which is TOML too


def _actions(table: ChipTable) -> list[str]:
  """Returns the actions of a hand as a `.phh` file lists them."""
  rules, names = table.rules, table.rules.deck.names
  hands = [names(table.hole_cards[seat_of(rules, place)] or ()) for place in (0, 1)]
  shows = [f"p{place + 1} sm {hands[place]}" for place in (0, 1)]
  actions, shown = [f"d dh p{place + 1} {hands[place]}" for place in (0, 1)], False
  for turn, event in zip(table.turns, table.events):
    if not isinstance(event, Deal):
      actions.append(f"p{seat_of(rules, turn.actor or 0) + 1} {_PHH.write(turn, event)}")
      continue
    # Where nobody can bet any more, hands are shown before the other cards come.
    if not shown and turn.highest == rules.rules.stack:
      actions, shown = actions + shows, True
    actions.append(f"d db {names(event.cards)}")
  return actions if shown or table.turn.folded is not None else actions + shows
