"""Simple opponents of hold'em: one table of their play, in chips and in compiled matches."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import PublicTree
from games.arrays import unknown_name
from games.poker import Holdem, betting, evaluate

Wish = str | int  # "fold", "call" (or check), or the chips that a raise is to
_BET_ABOVE = 0.65  # share of the pot


class HoldemDecision(NamedTuple):
  """A decision of hold'em."""

  game: Holdem
  turn: betting.BettingTurn  # the betting
  held: tuple[int, ...]  # the two cards of the player to act
  board: tuple[int, ...]  # cards on the board


def equity(here: HoldemDecision, rng: np.random.Generator, *, samples: int = 200) -> float:
  """Estimates what the hand wins, ties as half, against a random hand on random boards."""
  deck, total = here.game.deck, len(here.game.board) + sum(here.game.deals)
  unseen = np.setdiff1d(np.arange(deck.num_cards), [*here.held, *here.board])
  shuffled = rng.permuted(np.tile(unseen, (samples, 1)), axis=1)
  known = np.tile(here.board, (samples, 1)).astype(int)
  shown = np.concatenate([known, shuffled[:, 2 : 2 + total - len(here.board)]], axis=1)
  own = np.concatenate([np.tile(here.held, (samples, 1)), shown], axis=1)
  other = np.concatenate([shuffled[:, :2], shown], axis=1)
  wins = np.sign(evaluate(deck, own).astype(int) - evaluate(deck, other))
  return float((1 + wins.mean()) / 2)


def _pot_raise(here: HoldemDecision, rng: np.random.Generator) -> Wish:
  """Raises by the pot, to the nearest legal size; calls where no raise is legal."""
  pot = 3 * here.turn.highest + here.game.rules.dead
  return np.clip(pot, *here.turn.raises).item() if here.turn.raises else "call"


def _uniform(here: HoldemDecision, rng: np.random.Generator) -> Wish:
  """Folds, calls or raises, each that is legal as likely; every size of a raise as likely."""
  raises = here.turn.raises
  kinds = ["fold"] * here.turn.may_fold + ["call"] + ["raise"] * (raises is not None)
  kind = kinds[rng.integers(len(kinds))]
  return int(rng.integers(raises[0], raises[1] + 1)) if raises and kind == "raise" else kind


def _by_equity(here: HoldemDecision, rng: np.random.Generator) -> Wish:
  """Bets the pot with much equity, calls where equity pays for it, folds else."""
  share, highest = equity(here, rng), here.turn.highest
  if share > _BET_ABOVE:
    return _pot_raise(here, rng)
  # A call of c chips wins back its share of a pot of twice the highest bet.
  pays = share * (2 * highest + here.game.rules.dead) >= highest - min(here.turn.paid)
  return "call" if pays else "fold"


class Opponent(NamedTuple):
  """A simple opponent."""

  wish: Callable[[HoldemDecision, np.random.Generator], Wish]  # its move at a decision
  # how much it likes moves, whatever it holds, from whether they are calls `[N]`, folds `[N]`, and
  # how far the chips after them are from a pot raise's, `[N]` shares of the stack, at most 2; it
  # makes those that it likes most, all alike. None for one that looks at its cards
  likes: Callable[[jax.Array, jax.Array, jax.Array], jax.Array] | None


OPPONENTS: dict[str, Opponent] = {
  "always_call": Opponent(lambda here, rng: "call", lambda calls, folds, off: calls),
  "uniform": Opponent(_uniform, lambda calls, folds, off: jnp.zeros(len(calls))),
  "pot_maniac": Opponent(
    _pot_raise, lambda calls, folds, off: (1.0 - calls - folds) * (3.0 - off) - folds
  ),
  "always_fold": Opponent(
    lambda here, rng: "fold" if here.turn.may_fold else "call",
    lambda calls, folds, off: 2.0 * folds + calls,
  ),
  "equity_threshold": Opponent(_by_equity, None),
}


# Searches as the agent does, without a network: as if hands were shown after the round.
SHOWN = "shown_now"
AGAINST = "against"  # another network
MEASURED = ("always_call", "uniform", "pot_maniac")
LADDER = ("always_fold", *MEASURED, SHOWN)


def opponent(name: str) -> Opponent:
  """Returns one of `OPPONENTS` by name."""
  if name not in OPPONENTS:
    raise ValueError(unknown_name("name", name, OPPONENTS))
  return OPPONENTS[name]


def likes(tree: PublicTree) -> jax.Array:
  """Returns how much each of `OPPONENTS` that ignores its cards likes a tree's moves: `[K, N]`."""
  states, action = jnp.asarray(tree.state), jnp.asarray(tree.action)
  paid = states[:, betting.PAID_0 : betting.PAID_1 + 1].max(axis=1)
  before = paid[jnp.maximum(jnp.asarray(tree.parent), 0)]
  off_pot = jnp.abs(paid - 3 * before).astype(float) / states[:, betting.STACK].astype(float)
  calls, folds = ((action == move).astype(float) for move in (betting.CALL, betting.FOLD))
  return jnp.stack([x.likes(calls, folds, off_pot) for x in OPPONENTS.values() if x.likes])
