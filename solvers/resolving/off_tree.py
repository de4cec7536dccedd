"""Answers a bet that a tree lacks by solving what follows it: nested search."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from games import PublicTree, build_public_tree
from games.node_info import children_of
from games.origin import check_tree_of
from games.poker.holdem import Holdem
from games.public_tree import Array
from solvers import validation
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.gadgets import Gadget
from solvers.metrics.expected_values import check_whole
from solvers.resolving.graft import Placer, graft
from solvers.resolving.refine import entered, subtree
from solvers.solve import solve


class Widened(NamedTuple):
  """A game with one more bet, its whole tree, and a policy `[N, H]` with a response to that bet."""

  game: Holdem
  tree: PublicTree
  policy: np.ndarray


def answer_bet(
  game: Holdem,
  tree: PublicTree,
  policy: Array,
  history: Sequence[int],
  chips: int,
  *,
  gadget: Gadget | None = None,
  beliefs: Array | None = None,
  whole_decision: bool = False,
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> Widened:
  """Adds a bet to a game and solves what comes after it (thesis, section 5.1.7).

  What comes out is a blueprint of the wider game, so further bets are answered in the same way.
  The inexpensive method solves the subgame after the bet; the bettor is promised what its best
  response to the blueprint gets at that decision without the bet, an estimate that is good where
  the tree has enough other bets. The expensive method, `whole_decision`, solves from the decision
  on, the bet added.

  Args:
    game: the rules.
    tree: whole, from the start of that game.
    policy: `[N, H]` the blueprint.
    history: public actions to where the bet is made; who bets there is the opponent.
    chips: what the bet brings the bettor's chips in the pot to.
    gadget: whose searcher is the other player. None for unsafe search, which trusts the
      blueprint's beliefs about both and can only be had by the expensive method: of a bet that
      nobody makes it knows nothing.
    beliefs: `[P, H]` at the start, the players' ranges; None for the game's own prior.
    whole_decision: see above.
    algorithm: of the CFR family; None for CFR+.
    num_iterations: one player's update is one.

  Returns:
    The wider game, its tree and both players' policy on it; the blueprint never makes the new bet.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: as `Holdem.with_bet`; `tree` is of another game; the gadget is the bettor's;
      there is none and `whole_decision` is false.
  """
  check_tree_of(game, tree)
  if not isinstance(game, Holdem):
    raise TypeError(f"game={game!r} must be hold'em: no other game has bets to add")
  history = validation.check_history(history)
  beliefs = check_whole(tree, policy, beliefs)
  whole_decision = validation.check_bool("whole_decision", whole_decision)
  wider = game.with_bet(history, chips)
  bettor = int(game.actor(game.state_after(history)[None])[0])
  searcher = 1 - bettor
  if gadget is not None:
    validation.check_gadget(gadget)
  if gadget is not None and gadget.searcher != searcher:
    raise ValueError(
      f"gadget={validation.short(gadget)} is player {bettor}'s, who bets; it must be the other's"
    )
  if gadget is None and not whole_decision:
    raise ValueError("gadget=None needs whole_decision=True: the blueprint never makes this bet")
  whole = build_public_tree(wider).astype(tree.dtype)
  node = Placer(tree).follow(history)
  places = Placer(whole, by_state=True).places(tree)
  # The bet's own row stays zero: the blueprint does not make it.
  widened = np.zeros((whole.num_nodes, whole.num_infostates), tree.dtype)
  widened[places] = policy
  root = int(places[node])
  if not whole_decision:
    root = int(children_of(whole)[root, game.burn])
  below = subtree(wider, whole, root)
  algorithm, beliefs_there, alternatives = entered(
    game, tree, policy, beliefs, node, algorithm, gadget, searcher=searcher
  )
  solved = solve(
    below,
    algorithm=algorithm,
    num_iterations=num_iterations,
    beliefs=beliefs_there,
    alternatives=alternatives,
  )
  part = (Placer(whole).places(below, root), solved.average_policy)
  return Widened(wider, whole, graft(whole, widened, [part]))
