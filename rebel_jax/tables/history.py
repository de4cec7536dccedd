"""Hands written in the Poker Hand History (PHH) format, which pokerkit and others read."""

from collections.abc import Sequence

from games.arguments import checked
from games.poker.cards import RANKS, SUITS
from rebel_jax.tables.chips import ChipTable, Deal, Fold, RaiseTo, TableRules


@checked
def check_writable(rules: TableRules) -> None:
  """Checks that PHH has a name for what is played.

  Raises:
    ValueError: it is not no-limit Texas hold'em with different blinds, the small blind first.
  """
  deck = rules.deck
  whole = set(deck.ranks) == set(RANKS) and set(deck.suits) == set(SUITS)
  if not whole or rules.deals != (3, 1, 1):
    raise ValueError(
      f"deals={rules.deals} from {deck.num_cards} cards must be (3, 1, 1) from 52: hand histories "
      "are of Texas hold'em"
    )
  small, big = sorted(rules.rules.paid)
  order = rules.rules.first_to_act
  wanted = [1 - rules.big_blind_seat, *[rules.big_blind_seat] * len(rules.deals)]
  orders = [order[min(index, len(order) - 1)] for index in range(len(wanted))]
  if small == big or orders != wanted:
    raise ValueError(
      f"paid={rules.rules.paid} with first_to_act={order} must be different blinds, the smaller "
      "first before the flop and the larger after it"
    )


@checked
def write_history(table: ChipTable, *, names: Sequence[str] | None = None, hand: int | None = None):
  """Returns a hand that has ended as the text of a `.phh` file.

  Player p1 has the big blind, p2 the button.

  Args:
    table: the hand; all cards known.
    names: of seats 0 and 1.
    hand: its number.

  Raises:
    ValueError: PHH has no name for what is played, the hand goes on, or hole cards are unknown.
  """
  rules = table.rules
  check_writable(rules)
  if None in table.hole_cards:
    raise ValueError(f"hole_cards of seat {table.hole_cards.index(None)} must be known")
  payoffs = table.payoffs()
  seats = [rules.seat_of(place) for place in (0, 1)]
  stacks = [rules.rules.stacks[seat] for seat in seats]
  lines = [
    "variant = 'NT'",
    "antes = [0, 0]",
    f"blinds_or_straddles = {sorted(rules.rules.paid)}",
    f"min_bet = {rules.rules.big_blind}",
    f"starting_stacks = {stacks}",
    f"actions = {_actions(table)}",
  ]
  if hand is not None:
    lines.append(f"hand = {hand}")
  if names is not None:
    lines.append(f"players = [{', '.join(_quoted(names[seat]) for seat in seats)}]")
  finishing = [stack + payoffs[seat] for stack, seat in zip(stacks, seats)]
  lines.append(f"finishing_stacks = {finishing}")
  return "\n".join(lines) + "\n"


def _actions(table: ChipTable) -> list[str]:
  """Returns the actions of a hand, played again from its start."""
  rules, names, again = table.rules, table.rules.deck.names, ChipTable(table.rules)
  seats = [rules.seat_of(place) for place in (0, 1)]
  hands = [names(table.hole_cards[seat] or ()) for seat in seats]
  shows = [f"p{place + 1} sm {hands[place]}" for place in (0, 1)]
  actions, shown = [f"d dh p{place + 1} {hands[place]}" for place in (0, 1)], False
  for event in table.events:
    if isinstance(event, Deal):
      # Where nobody can bet any more, hands are shown before the other cards come.
      if not shown and again.highest == rules.rules.stack:
        actions, shown = actions + shows, True
      actions.append(f"d db {names(event.cards)}")
    else:
      assert again.actor is not None
      player = f"p{rules.seat_of(again.actor) + 1}"
      if isinstance(event, RaiseTo):
        actions.append(f"{player} cbr {event.chips - again.round_began_at}")  # of the round alone
      else:
        actions.append(f"{player} {'f' if isinstance(event, Fold) else 'cc'}")
    again.apply(event)
  return actions if shown or table.folded is not None else actions + shows


def _quoted(text: str) -> str:
  """Returns a text as TOML writes it."""
  if not text.isprintable():
    raise ValueError(f"names={text!r} must be of characters that can be printed")
  return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
