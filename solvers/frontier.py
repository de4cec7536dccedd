"""Subgames that playthroughs are about to search, and how they are cut into calls."""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from solvers.batch_search import sample_stop
from solvers.searching_agent import SearchingAgent
from solvers.warm_start import warm_start


@dataclasses.dataclass
class Frontier:
  """Subgames to be searched, sorted by node.

  Attributes:
    node: `[M]` place of the subgame's root in the whole tree.
    entry: `[M]` which subgame it is.
    beliefs: `[M, P, H]`.
    reach: `[M, P, H]` each player's own reach in this playthrough.
  """

  node: np.ndarray
  entry: np.ndarray
  beliefs: np.ndarray
  reach: np.ndarray

  def take(self, index: np.ndarray) -> "Frontier":
    return Frontier(self.node[index], self.entry[index], self.beliefs[index], self.reach[index])


def draw_stops(
  agent: SearchingAgent, frontier: Frontier, num_iterations: int, key: jax.Array
) -> np.ndarray:
  """Returns where each subgame's search stops, `[M]`, independently."""
  count = len(frontier.node)
  # Frontiers are of any length, and each length would be compiled.
  shape = (1 << max(count - 1, 0).bit_length(),)
  warm = warm_start(agent.algorithm)
  return np.asarray(sample_stop(key, shape, num_iterations, agent.stop_exponent, warm))[:count]


def cut_into_calls(
  agent: SearchingAgent, frontier: Frontier, stops: np.ndarray
) -> Iterator[tuple[Frontier, np.ndarray]]:
  """Cuts a frontier into pieces that one call can search, each sorted by node, with their stops.

  Searches that stop early share a call, so that it need not go on.
  """
  for number, bucket in enumerate(agent.buckets):
    members = np.flatnonzero(agent.bucket_of[frontier.entry] == number)
    members = members[np.argsort(stops[members], kind="stable")]
    for part in bucket.calls(agent.row_of[frontier.entry[members]]):
      chunk = np.sort(members[part])
      yield frontier.take(chunk), stops[chunk]


def concatenate(frontiers: list[Frontier]) -> Frontier:
  """Joins frontiers into one, sorted by node."""
  fields = [f.name for f in dataclasses.fields(Frontier)]
  joined = Frontier(**{n: np.concatenate([getattr(f, n) for f in frontiers]) for n in fields})
  return joined.take(np.argsort(joined.node, kind="stable"))
