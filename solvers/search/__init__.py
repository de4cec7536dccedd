"""Depth-limited search: subgames, batches of searches, and the play that they lead to."""

from solvers.search.batch import (
  SearchResult,
  iterations_to,
  posteriors,
  rows_at_a_time,
  sample_stop,
  search_batch,
  spread_stops,
)  # fmt: skip
from solvers.search.playthroughs import (
  Room,
  Sampled,
  SearchingAgent,
  average_policy,
  make_searching_agent,
  no_playthroughs,
  sample_playthroughs,
  search_together,
)
from solvers.search.starts import (
  PolicyQuery,
  SearchPolicy,
  explore,
  first_policy,
  leaf_probabilities,
  policy_targets,
  sample_leaf,
  sample_starts,
  search_starts,
  searched_starts,
)
from solvers.search.subgames import (
  FoundSubgames,
  Roots,
  Stage,
  Subgames,
  TemplateStage,
  TemplateSubgames,
  after,
  find_subgames,
  stack_stages,
  stages_fit,
)

__all__ = [
  "FoundSubgames", "PolicyQuery", "Room", "Roots", "Sampled", "SearchPolicy", "SearchResult",
  "SearchingAgent", "Stage", "Subgames", "TemplateStage", "TemplateSubgames", "after",
  "average_policy", "explore", "find_subgames", "first_policy", "iterations_to",
  "leaf_probabilities", "make_searching_agent", "no_playthroughs", "policy_targets", "posteriors",
  "rows_at_a_time", "sample_leaf", "sample_playthroughs", "sample_starts", "sample_stop",
  "search_batch", "search_starts", "search_together", "searched_starts", "spread_stops",
  "stack_stages", "stages_fit",
]  # fmt: skip
