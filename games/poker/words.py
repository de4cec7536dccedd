"""Hold'em in words: names of actions, and what lies on the table."""

from collections.abc import Sequence
from typing import Any

from games.poker import betting
from games.poker.betting import FIRST_BET, FOLD
from games.poker.dealing import NO_CARD

EXPLAINED = (
  "Hold'em between two: each has two cards of their own, shares those on the board, and the "
  "best five of the seven win the pot. Bets are named by the chips that a player will have "
  "put in; what is won or lost is counted with what was in the pot at the start."
)


def action_name(game: Any, action: int) -> str:
  """Returns the name of an action of hold'em wherever it is taken, such as `bet 2`."""
  if action >= game.first_deal:
    number = action - game.first_deal
    names = {game.deck.names(sets[number]) for sets in game.dealing.sets if number < len(sets)}
    return "deal " + " or ".join(sorted(names))
  if action == game.burn:
    return "burn"
  if action < FIRST_BET:
    return ("fold", "call")[action]
  slot = action - FIRST_BET
  if slot == game.bets.num_slots:
    return "all-in"
  return f"bet {slot + 1}" if slot < game.bets.num_slots else "added bet"


def describe(game: Any, history: Sequence[int], action: int) -> str:
  """Returns what `action` is after `history`, in chips: such as `bet to 2000`."""
  state = game.state_after(history)[None]
  if action >= game.first_deal:
    sets = game.dealing.sets[int(state[0, betting.ROUND])]
    return "deal " + game.deck.names(sets[action - game.first_deal])
  if action == game.burn:
    return "burn"
  facing = bool(game.rules.may_fold(state)[0])
  if action < FIRST_BET:
    return "fold" if action == FOLD else ("call" if facing else "check")
  to = int(game.amounts(state)[0, action - FIRST_BET])
  all_in = " (all-in)" if to == state[0, betting.STACK] else ""
  return f"{'raise' if facing else 'bet'} to {to}{all_in}"


def situation(game: Any, history: Sequence[int]) -> str:
  """Returns the board, the pot and what is left of the stacks, in chips."""
  state = game.state_after(history)
  shown = [card for card in game.on_board(state[None])[0] if card != NO_CARD]
  paid = [int(state[betting.PAID_0]), int(state[betting.PAID_1])]
  behind = [int(state[betting.STACK]) - chips for chips in paid]
  board = f"board {game.deck.names(shown)}, " if shown else ""
  return f"{board}pot {sum(paid) + game.rules.dead}, stacks {behind[0]} and {behind[1]}"
