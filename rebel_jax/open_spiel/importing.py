"""Imports OpenSpiel games as public trees."""

import contextlib
import gc
from collections.abc import Iterator

import pyspiel

from games import PublicTree, build_public_tree
from games.size import MAX_BYTES, check_max_bytes
from rebel_jax.open_spiel import histories, infostates
from rebel_jax.open_spiel.factored_game import OpenSpielGame
from rebel_jax.open_spiel.histories import Budget, Histories
from rebel_jax.open_spiel.public_nodes import InfostatesMerge, PublicNodes
from rebel_jax.open_spiel.public_states import find_public_states
from rebel_jax.open_spiel.steps import Timeline


def from_game(
  game: str | pyspiel.Game, *, max_histories: int = 2_000_000, max_bytes: float = MAX_BYTES
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
  if isinstance(max_histories, bool) or not isinstance(max_histories, int) or max_histories < 1:
    raise ValueError(f"max_histories={max_histories!r} must be a positive integer")
  check_max_bytes(max_bytes)
  with _no_garbage_collection():
    made = _import(histories.load(game), max_histories, max_bytes)
  return made, build_public_tree(made, max_bytes=max_bytes)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
  """Keeps Python from looking for cycles among millions of small objects: half of the time."""
  enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if enabled:
      gc.enable()


def _import(game: pyspiel.Game, max_histories: int, max_bytes: float) -> OpenSpielGame:
  budget = Budget(game, max_bytes)
  walked = histories.walk(game, max_histories=max_histories, budget=budget)
  left = budget.left
  try:
    return _factor(game, walked, budget, eager=True)
  except InfostatesMerge:
    budget.left = left
    return _factor(game, walked, budget, eager=False)


def _factor(game: pyspiel.Game, walked: Histories, budget: Budget, *, eager: bool) -> OpenSpielGame:
  known = (
    infostates.find_infostates(game, walked, 0, eager=eager),
    infostates.find_infostates(game, walked, 1, eager=eager),
  )
  time = infostates.find_times(game, walked, known)
  timeline = Timeline(walked, known, time, find_public_states(walked, known, time))
  return OpenSpielGame(game, PublicNodes(timeline, walked.action_names, budget), timeline)
