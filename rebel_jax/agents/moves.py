"""What players at a table have in common: seats, moves in a tree, and one move drawn of several."""

import numpy as np

from games import CHANCE, TERMINAL, PublicTree
from rebel_jax.agents.dealer import Move


def check_seat(prior: np.ndarray, player: int, infostate: int) -> None:
  """Checks that `player` can be dealt `infostate` by `prior` `[P, H]`.

  Raises:
    ValueError: there is no such seat or infostate.
  """
  if player not in (0, 1):
    raise ValueError(f"player={player!r} must be 0 or 1")
  if not 0 <= infostate < prior.shape[1] or prior[player, infostate] == 0:
    raise ValueError(f"infostate={infostate!r} must be one that player {player} can be dealt")


def check_turn(player: int, mover: int) -> None:
  """Checks that `player` is the one who moves.

  Raises:
    ValueError: it is another, or chance, or nobody.
  """
  if mover != player:
    name = {CHANCE: "chance", TERMINAL: "nobody"}.get(mover, f"player {mover}")
    raise ValueError(f"player={player} is not to move here, {name} is")


def moves_at(tree: PublicTree, node: int, player: int, infostate: int) -> list[tuple[Move, int]]:
  """Returns the moves of `player`, who holds `infostate` at `node`, and the child of each."""
  found = []
  for child in np.flatnonzero(np.asarray(tree.parent) == node).tolist():
    after = [infostate]
    if tree.infostate_parent is not None:
      comes_from_here = np.asarray(tree.infostate_parent[child, player] == infostate)
      if tree.possible is not None:
        comes_from_here &= np.asarray(tree.possible[child, player])
      after = np.flatnonzero(comes_from_here).tolist()
    found += [(Move(int(tree.action[child]), held), child) for held in after]
  return found


def child_after(tree: PublicTree, node: int, action: int) -> int:
  """Returns the child of `node` that a public action leads to.

  Raises:
    ValueError: the action is not legal.
  """
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  actions = np.asarray(tree.action)[children].tolist()
  if action not in actions:
    raise ValueError(f"action={action!r} is not legal here; legal: {sorted(actions)}")
  return int(children[actions.index(action)])


def draw_move(choices: dict[Move, float], rng: np.random.Generator) -> Move:
  """Returns one of the moves, each as likely as its number says."""
  weights = np.array(list(choices.values()))
  return list(choices)[rng.choice(len(weights), p=weights / weights.sum())]
