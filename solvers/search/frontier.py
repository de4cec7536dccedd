"""The frontier of playthroughs: the subgames to be searched next, cut into compiled calls."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from solvers.search.batch import sample_stop
from solvers.search.searching_agent import SearchingAgent


class Frontier(NamedTuple):
  """Subgames to be searched, sorted by node.

  Attributes:
    node: `[M]` place of the subgame's root in the whole tree.
    root: `[M]` which subgame it is.
    beliefs: `[M, P, H]`.
    reach: `[M, P, H]` each player's own reach in this playthrough.
  """

  node: np.ndarray
  root: np.ndarray
  beliefs: np.ndarray
  reach: np.ndarray

  def take(self, index: np.ndarray) -> "Frontier":
    return Frontier(*(x[index] for x in self))


def draw_stops(
  agent: SearchingAgent, frontier: Frontier, num_iterations: int, key: jax.Array
) -> np.ndarray:
  """Returns where each subgame's search stops, `[M]`, independently."""
  count = len(frontier.node)
  # Frontiers are of any length, and each length would be compiled.
  shape = (1 << max(count - 1, 0).bit_length(),)
  warm = agent.algorithm.head_start
  return np.asarray(sample_stop(key, shape, num_iterations, agent.stop_exponent, warm))[:count]


def cut_into_calls(
  agent: SearchingAgent, frontier: Frontier, stops: np.ndarray
) -> Iterator[tuple[Frontier, np.ndarray]]:
  """Cuts a frontier into pieces that one call can search, each sorted by node, with their stops.

  Searches that stop early share a call, so that it need not go on.
  """
  stage_of = agent.stage_of(frontier.root)
  for number, (stage, room) in enumerate(zip(agent.tables.stages, agent.rooms)):
    members = np.flatnonzero(stage_of == number)
    members = members[np.argsort(stops[members], kind="stable")]
    rows = np.asarray(stage.row_of)[frontier.root[members]]
    for part in room.calls(np.asarray(stage.num_live)[rows]):
      chunk = np.sort(members[part])
      yield frontier.take(chunk), stops[chunk]


def concatenate(frontiers: list[Frontier]) -> Frontier:
  """Joins frontiers into one, sorted by node."""
  joined = Frontier(*map(np.concatenate, zip(*frontiers)))
  return joined.take(np.argsort(joined.node, kind="stable"))
