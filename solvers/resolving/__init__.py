"""Re-solving of subgames: beliefs, alternative payoffs, and the refined policies."""

from solvers.resolving.blueprint_values import BlueprintValues
from solvers.resolving.graft import Placer, graft
from solvers.resolving.off_tree import Widened

__all__ = ["BlueprintValues", "Placer", "Widened", "graft"]
