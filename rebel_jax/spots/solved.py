"""A solved spot: found by solving or in a file, and asked for any node of its tree."""

import dataclasses
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import games
import solvers
from games import CHANCE, PublicTree
from games.poker import Holdem, betting
from games.poker.holdem import CALL, FIRST_BET, FOLD
from games.poker.lines import expand_policy, make_lines
from rebel_jax.config.allowed import ConfigError
from rebel_jax.spots.spot import Spot

_FORMAT = 1
_PAYS = 0.9  # of a tree's table: an entry of lines of betting costs a little more


@dataclasses.dataclass(frozen=True)
class SolvedSpot:
  """A spot and the policy that was found for it.

  Attributes:
    spot: what was solved.
    game, tree: its rules and its whole tree.
    beliefs: `[P, H]` both ranges at the start.
    policy: `[N, H]`, as `solvers.solve` returns it.
    iterations: how many there were; one player's update is one.
    exploitability: in chips.
    symmetry: a sentence that says which suits were found to be alike.
  """

  spot: Spot
  game: Holdem
  tree: PublicTree
  beliefs: np.ndarray
  policy: np.ndarray
  iterations: int
  exploitability: float
  symmetry: str = ""

  @property
  def percent(self) -> float:
    """The exploitability in percent of the pot."""
    return 100 * self.exploitability / self.spot.pot

  def children(self, node: int) -> dict[str, int]:
    """Returns the nodes below one, by the names of the moves or cards that lead there.

    Moves are `fold`, `check`, `call`, `bet 66` and `raise 165`; chips are those that the player has
    put in since the round began. Bets come by size, after the others.
    """
    tree = self.tree
    below = np.flatnonzero(np.asarray(tree.parent) == node)
    state = np.asarray(tree.state)[node]
    amounts = self.game.amounts(state[None])[0]
    named = {}
    for child in below.tolist():
      action = int(tree.action[child])
      bet = FIRST_BET <= action < self.game.burn
      to = int(amounts[action - FIRST_BET]) if bet else -1
      named[self._name(state, action, to)] = (to, action, child)
    return {name: found[2] for name, found in sorted(named.items(), key=lambda item: item[1])}

  def _name(self, state: np.ndarray, action: int, to: int) -> str:
    facing = bool(self.game.rules.may_fold(state[None])[0])
    if action == FOLD:
      return "fold"
    if action == CALL:
      return "call" if facing else "check"
    if to < 0:
      return self.game.action_name(action).removeprefix("deal ")
    return f"{'raise' if facing else 'bet'} {to - int(state[betting.START])}"

  def find(self, line: str) -> int:
    """Returns the node after a line of play, such as `bet 66, call, 2c, check`.

    Args:
      line: moves and cards, separated by commas; empty for the start. `all-in` is the largest bet.

    Raises:
      ConfigError: a move or card is not there.
    """
    node = self._past_burn(0)
    for word in filter(None, (part.strip() for part in line.split(","))):
      below = self.children(node)
      wanted = re.sub(r"\s+", " ", word.lower().replace(" to ", " "))
      names = {name.lower(): name for name in below}
      if wanted in ("all-in", "allin", "a") and np.asarray(self.tree.kind)[node] < CHANCE:
        wanted = list(names)[-1]  # the largest
      if wanted not in names:
        there = ", ".join(below) if len(below) else "nothing, as the hand is over"
        raise ConfigError(f"node={line!r} holds {word!r}, and possible there is: {there}")
      node = self._past_burn(below[names[wanted]])
    return node

  def _past_burn(self, node: int) -> int:
    """Returns the node after a burned card, which no one sees, if that is next."""
    below = self.children(node)
    return below["burn"] if list(below) == ["burn"] else node

  def line(self, node: int) -> str:
    """Returns the moves and cards that lead to a node."""
    words: list[str] = []
    while node > 0:
      parent = int(self.tree.parent[node])
      words += [name for name, child in self.children(parent).items() if child == node]
      node = parent
    return ", ".join(word for word in reversed(words) if word != "burn")

  def save(self, path: str | Path) -> None:
    """Writes the spot and the policy to a file that `load` reads.

    It is a NumPy archive: `policy` `[N, H]`, and `about`, JSON text of the spot's fields,
    `iterations` and `exploitability`. Nodes are those of `games.build_public_tree(spot.game())`.

    Raises:
      ConfigError: it cannot be written.
    """
    about = {
      "format": _FORMAT,
      "spot": dataclasses.asdict(self.spot),
      "iterations": self.iterations,
      "exploitability": self.exploitability,
      "symmetry": self.symmetry,
    }
    try:
      with open(path, "wb") as file:
        np.savez_compressed(file, policy=self.policy, about=np.array(json.dumps(about)))
    except OSError as error:
      raise ConfigError(f"output={str(path)!r} cannot be written: {error.strerror}") from None


def load(path: str | Path) -> SolvedSpot:
  """Returns a spot that `SolvedSpot.save` wrote; nothing is solved.

  Raises:
    ConfigError: the file is not there, or is not such a file.
  """
  try:
    with np.load(path, allow_pickle=False) as file:
      policy, about = file["policy"], json.loads(str(file["about"]))
    if about["format"] != _FORMAT:
      raise ValueError
    spot = Spot(**about["spot"])
    numbers = int(about["iterations"]), float(about["exploitability"])
    symmetry = str(about.get("symmetry", ""))
  except OSError as error:
    raise ConfigError(f"load={str(path)!r} cannot be read: {error.strerror or error}") from None
  except (ValueError, KeyError, TypeError, AttributeError, IndexError, zipfile.BadZipFile):
    raise ConfigError(f"load={str(path)!r} is not a file of a solved spot") from None
  game = spot.game()
  tree = games.build_public_tree(game)
  if policy.shape != (tree.num_nodes, tree.num_infostates):
    raise ConfigError(f"load={str(path)!r} holds a policy of another tree than its spot's")
  return SolvedSpot(spot, game, tree, spot.beliefs(game), policy, *numbers, symmetry)


def solve(
  spot: Spot,
  *,
  target: float = 0.5,
  max_iterations: int = 10_000,
  progress: Callable[[int, float], None] | None = None,
) -> SolvedSpot:
  """Solves a spot by discounted CFR until its exploitability is small enough.

  Each player has a list of its own hands, and of hands and cards that suits take to each other
  there is one (`games.poker.lines.make_lines`); the result is in the numbering of all. Where both
  hold nearly all hands and no suits are alike, the tree of all hands is faster.

  Args:
    spot: what to solve.
    target: exploitability to stop at, in percent of the pot.
    max_iterations: to stop at in any case, an even number; one player's update is one.
    progress: called with the iterations and the exploitability in percent of the pot.

  Raises:
    ConfigError: a setting of the spot is not allowed.
  """
  game = spot.game()
  beliefs, tree = spot.beliefs(game), games.build_public_tree(game)
  lines, columns = make_lines(game)
  pays = lines.num_cells < _PAYS * 2 * tree.num_nodes * tree.num_infostates

  def look(found: solvers.SolvedTo) -> None:
    if progress is not None:
      progress(found.iterations, 100 * found.exploitability / spot.pot)

  found = solvers.solve_to(
    lines if pays else tree,
    algorithm=solvers.discounted_cfr(),
    target=target / 100 * spot.pot,
    max_iterations=max_iterations,
    beliefs=None if pays else beliefs,
    progress=look,
  )
  policy = found.average_policy
  policy = expand_policy(lines, columns, policy, tree) if pays else np.asarray(policy)
  result = found.iterations, found.exploitability, columns.sentence()
  return SolvedSpot(spot, game, tree, beliefs, policy, *result)
