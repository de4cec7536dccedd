"""The gadgets of safe subgame solving in order, on a coarse blueprint (thesis, Tables 5.1 and 5.2).

Exploitability of Leduc poker's blueprint once both players' subgames are solved anew where the card
is dealt. Estimates are the opponent's values when both play the blueprint; their spread is how far
its best response gets beyond that.
"""

import jax
import numpy as np

import games
import solvers
from benchmarks import timing
from games import CHANCE, Game, PublicTree
from solvers import Maxmargin, Resolve
from solvers.contrib import Distributional

METHODS = (
  "unsafe",
  "resolve",
  "maxmargin",
  "reach resolve",
  "reach maxmargin",
  "estimate resolve",
  "estimate maxmargin",
  "estimate distributional",
  "reach estimate maxmargin",
  "reach estimate distributional",
)
_GADGETS: dict[str, type[Resolve | Maxmargin | Distributional]] = {
  "resolve": Resolve,
  "maxmargin": Maxmargin,
  "distributional": Distributional,
}


def estimated(
  game: Game, tree: PublicTree, policy: np.ndarray, searcher: int, nodes: np.ndarray
) -> solvers.resolving.BlueprintValues:
  """Returns the opponent's values at `nodes` when both play on by `policy`, as promises."""
  # Elsewhere they are those of its best response. The spread is how far that gets beyond these.
  known = solvers.blueprint_values(game, tree, policy, searcher=searcher)
  placer, value = solvers.Placer(tree), np.array(known.value)
  for node in nodes.tolist():
    below = games.build_public_tree(game, root=tree.history(node)).astype(tree.dtype)
    played = policy[placer.places(below, node)]
    played[0] = 1.0  # the move that led here has been made
    found = solvers.expected_values(below, played, beliefs=known.beliefs[node])
    value[node] = found[1 - searcher]
  return known._replace(value=value, spread=np.abs(known.value - value))


def refine_both(
  game: Game, tree: PublicTree, policy: np.ndarray, method: str, num_iterations: int
) -> np.ndarray:
  """Returns both players' refined policies, each solved against the other's blueprint."""
  *data, last = method.split()
  nodes, refined = np.flatnonzero(np.asarray(tree.kind) == CHANCE), policy
  for searcher in (0, 1):
    known = estimated(game, tree, policy, searcher, nodes) if "estimate" in data else None
    new = solvers.refine(
      game,
      tree,
      policy,
      searcher=searcher,
      cut=nodes.tolist(),
      gadget=None if last == "unsafe" else _GADGETS[last](searcher),
      gifts=float("reach" in data),
      known=known,
      num_iterations=num_iterations,
    )
    refined = solvers.resolving.graft(tree, refined, [(np.arange(len(new)), new)], player=searcher)
  return refined


def main(blueprint: int = 60, iterations: int = 2048) -> None:
  """Measures the blueprint of Leduc poker and each gadget's refinement of it.

  Args:
    blueprint: updates of vanilla CFR.
    iterations: of each solve.
  """
  with jax.enable_x64(True):
    game = games.make("leduc_poker")
    tree = games.build_public_tree(game)
    policy = timing.average_policy(tree, solvers.vanilla_cfr(), blueprint)
    for method in ("blueprint", *METHODS):
      refined = policy
      if method != "blueprint":
        refined = refine_both(game, tree, policy, method, iterations)
      timing.say(
        "gadgets",
        blueprint_updates=blueprint,
        iterations=iterations,
        method=method,
        exploitability=round(float(solvers.exploitability(tree, refined)), 4),
      )


if __name__ == "__main__":
  timing.command(main)
