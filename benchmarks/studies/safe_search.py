"""Safe and unsafe search in modified rock-paper-scissors (ReBeL, section 6), with exact values.

`python -m benchmarks.studies.safe_search` prints one JSON line for each number of playthroughs, and
one for unsafe search. Player 0's hidden move is one subgame, player 1's answer the next; the value
of the leaf between them is the second subgame solved at the leaf's beliefs. `docs/safe_search.md`
explains what is seen.
"""

import jax
import numpy as np

import games
import solvers
from benchmarks import timing
from solvers.leaf_values import LeafQuery
from solvers.search.playthroughs import searching_policy
from solvers.search.searching_agent import SearchingAgent, make_searching_agent
from solvers.search.subgames import find_subgames

GAME = games.make("rock_paper_scissors")
PLAYTHROUGHS = (1, 16, 256, 4096)
_ITERATIONS_BELOW = 512
_BELOW = games.build_public_tree(GAME, root=(3,))  # 3 is the hidden move


def leaf_values(params: None, query: LeafQuery) -> jax.Array:
  """Returns the traverser's values `[L, H]` after the hidden move, by solving what follows."""
  del params

  def solve(beliefs: jax.Array) -> jax.Array:
    solution = solvers.solve(
      _BELOW, algorithm=solvers.linear_cfr(), num_iterations=_ITERATIONS_BELOW, beliefs=beliefs
    )
    return solution.root_values[query.traverser]

  return jax.vmap(solve)(query.beliefs)


def make_agent() -> SearchingAgent:
  """Returns an agent that looks one public action ahead."""
  subgames = find_subgames(GAME, depth=1)
  return make_searching_agent(
    GAME, subgames, algorithm=solvers.linear_cfr(), leaf_values=leaf_values
  )


def play(
  agent: SearchingAgent, playthroughs: int, iterations: int, *, seed: int = 0, unsafe: bool
) -> np.ndarray:
  """Returns what the agent plays in expectation: a policy `[N, H]`."""
  return searching_policy(
    agent,
    params=None,
    num_playthroughs=playthroughs,
    num_iterations=iterations,
    key=jax.random.key(seed),
    unsafe=unsafe,
  )


def measure(agent: SearchingAgent, playthroughs: int, iterations: int, *, unsafe: bool) -> dict:
  """Returns what the agent plays in expectation, and how exploitable that is."""
  policy = play(agent, playthroughs, iterations, unsafe=unsafe)
  tree = agent.tree
  answers = policy[2:, 0]  # rock, paper, scissors, in the order of the tree
  return {
    "player_0": np.round(policy[1].astype(float), 3).tolist(),
    "player_1": np.round(answers.astype(float), 3).tolist(),
    "exploitability": round(float(solvers.exploitability(tree, policy)), 4),
  }


def main(iterations: int = 4096) -> None:
  """Measures safe search by the number of playthroughs, and unsafe search.

  Args:
    iterations: of each search.
  """
  agent = make_agent()
  for unsafe, playthroughs in [(False, n) for n in PLAYTHROUGHS] + [(True, 1)]:
    record = {
      "benchmark": "safe_search",
      **timing.environment(),
      "search": "unsafe" if unsafe else "safe",
      "playthroughs": playthroughs,
      "iterations": iterations,
    }
    timing.say(record | measure(agent, playthroughs, iterations, unsafe=unsafe))


if __name__ == "__main__":
  timing.command(main)
