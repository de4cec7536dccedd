"""The mapping between this package's games and OpenSpiel's."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyspiel

from games import Game, LiarsDice
from games.game import check_is_game
from games.on_device.one_play import OnePlay
from games.rules.leduc_poker import FIRST_CARD
from rebel_jax.open_spiel import histories
from rebel_jax.open_spiel.factored_game import OpenSpielGame


@dataclasses.dataclass(frozen=True)
class Correspondence:
  """The OpenSpiel game equal to a game of ours; see `register_open_spiel`."""

  load: Callable[[Game], str]
  infostates: Callable[[Game, Sequence[int], int], Sequence[int]]
  action: Callable[[Game, int, bool], int]


_REGISTRY: dict[str, Correspondence] = {}


def register_open_spiel(
  name: str,
  *,
  load: Callable[[Game], str],
  infostates: Callable[[Game, Sequence[int], int], Sequence[int]],
  action: Callable[[Game, int, bool], int] | None = None,
) -> None:
  """Declares the OpenSpiel game equal to games whose `name` is `name`.

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
  _REGISTRY[name] = Correspondence(
    load, infostates, action or (lambda game, action, chance: action)
  )


def find_correspondence(game: Game) -> Correspondence:
  """Returns how `game` maps to OpenSpiel.

  Raises:
    ValueError: no counterpart is known.
  """
  if game.name not in _REGISTRY:
    known = ", ".join(sorted(_REGISTRY))
    raise ValueError(
      f"game={game.name!r} has no counterpart in OpenSpiel; known: {known}, and games made by "
      "open_spiel.from_game (open_spiel.register_open_spiel adds others)"
    )
  return _REGISTRY[game.name]


def load_game(game: Game | OnePlay) -> pyspiel.Game:
  """Returns the OpenSpiel game equal to `game`.

  In games of perfect information, which are `OnePlay`, its actions are ours.

  Raises:
    TypeError: `game` is not a game of ours.
    ValueError: it has no counterpart in OpenSpiel.
  """
  if isinstance(game, OnePlay):
    if game.name not in _BOARDS:
      raise ValueError(
        f"game={game.name!r} has no counterpart in OpenSpiel; known: {', '.join(sorted(_BOARDS))}"
      )
    return pyspiel.load_game(_BOARDS[game.name](game.rules))
  check_is_game(game)
  if isinstance(game, OpenSpielGame):
    return game.open_spiel_game
  return histories.load(find_correspondence(game).load(game))


# Games of perfect information, by name, whose actions have the numbers that OpenSpiel gives them.
_BOARDS: dict[str, Callable[[Any], str]] = {
  "tic_tac_toe": lambda rules: "tic_tac_toe",
  "connect_four": lambda rules: (
    f"connect_four(rows={rules.height},columns={rules.width},x_in_row={rules.in_a_row})"
  ),
  "go": lambda rules: (
    f"go(board_size={rules.size},komi={float(rules.komi)},max_game_length={rules.max_moves})"
  ),
}


def private_deals(game: pyspiel.Game) -> Iterator[tuple[tuple[int, ...], pyspiel.State]]:
  """Yields the outcomes of chance before the first move, and the state that they lead to."""
  stack = [game.new_initial_state()]
  while stack:
    state = stack.pop()
    if state.is_chance_node():
      stack += [state.child(a) for a, p in reversed(state.chance_outcomes()) if p > 0]
    else:
      yield tuple(state.history()), state


def _liars_dice_infostates(game: Game, deal: Sequence[int], player: int) -> list[int]:
  assert isinstance(game, LiarsDice)
  place = {roll: i for i, roll in enumerate(map(tuple, game.dice().tolist()))}
  # OpenSpiel sorts a player's dice: every order of them is one information state.
  own = deal[player * game.num_dice : (player + 1) * game.num_dice]
  return sorted({place[roll] for roll in itertools.permutations(own)})


def _load_liars_dice(game: Game) -> str:
  assert isinstance(game, LiarsDice)
  return f"liars_dice(numdice={game.num_dice},dice_sides={game.num_faces})"


register_open_spiel(
  "kuhn_poker", load=lambda game: "kuhn_poker", infostates=lambda game, deal, player: [deal[player]]
)
register_open_spiel(
  "leduc_poker",
  load=lambda game: "leduc_poker",
  infostates=lambda game, deal, player: [deal[player]],
  action=lambda game, action, chance: action + FIRST_CARD if chance else action,
)
register_open_spiel("liars_dice", load=_load_liars_dice, infostates=_liars_dice_infostates)
