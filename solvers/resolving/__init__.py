"""Re-solving of subgames: beliefs, alternative payoffs, and the refined policies."""

from solvers.resolving.graft import Placer, graft
from solvers.resolving.refine import BlueprintValues, Widened

__all__ = ["BlueprintValues", "Placer", "Widened", "graft"]
