"""Pictures of play: a solved range as poker players read it, and one game as an agent sees it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from games import Array, PublicTree
from games.arrays import checked
from games.poker import Holdem
from games.poker.notation import cells
from rebel_jax.checkpoints import files
from solvers import validation

_FOLD, _PASSIVE = "#4878a8", "#7fb77e"  # fold; check or call
_BETS = ("#f2c14e", "#e8853d", "#d1495b", "#8c2f51", "#5b1e4a", "#2f0f2e")  # small to all-in


@dataclasses.dataclass(frozen=True)
class RangeGrid:
  """A player's policy at one public state, by cell of the grid.

  Letters: `A` moves there are, `R` ranks of the deck.

  Attributes:
    moves: what the moves are called, such as `bet to 2000`.
    reach: `[R, R]` the probability of each cell's hands in the player's range there; sums to one.
    frequency: `[A, R, R]` how often the cell's hands make each move; zero where none is held.
    summary: `[A]` how often the whole range makes each move.
    labels: `R` rows of `R` names of cells: `AA`, `AKs` for suited, `AKo` for offsuit hands.
  """

  moves: tuple[str, ...]
  reach: np.ndarray
  frequency: np.ndarray
  summary: np.ndarray
  labels: tuple[tuple[str, ...], ...]

  def text(self) -> str:
    """Returns the summary in lines of text, most frequent move first."""
    order = np.argsort(-self.summary, kind="stable")
    width = max(map(len, self.moves))
    return "\n".join(f"{self.moves[i]:<{width}} {self.summary[i]:6.1%}" for i in order)


def played_to(
  tree: PublicTree, policy: np.ndarray, player: int, node: int, root: int = 0
) -> np.ndarray:
  """Returns the product of the policy of `player`'s moves from `root` to `node`: `[H]`."""
  played = np.ones(policy.shape[1])
  while node != root:
    parent = int(tree.parent[node])
    if tree.kind[parent] == player:
      played = played * policy[node]
    node = parent
  return played


@checked
def range_grid(
  game: Holdem,
  tree: PublicTree,
  policy: Array,
  node: int = 0,
  *,
  beliefs: Array | None = None,
  root: tuple[int, ...] = (),
) -> RangeGrid:
  """Summarises what the player to move at `node` does.

  Args:
    game: the game of the tree.
    tree: unstacked.
    policy: `[N, H]`, as `solvers.solve` returns it.
    node: a node where a player moves.
    beliefs: `[P, H]` at the root; None for the tree's prior.
    root: what the tree was built with.

  Returns:
    The grid.

  Raises:
    ValueError: no player moves at `node`, or the player never comes there.
  """
  beliefs = np.asarray(tree.prior if beliefs is None else beliefs)
  validation.check_unstacked(tree)
  validation.check_policy("policy", tree, policy)
  validation.check_beliefs(tree, beliefs)
  if not 0 <= node < tree.num_nodes or tree.kind[node] not in (0, 1):
    raise ValueError(f"node={node} must be one where a player moves")
  player = int(tree.kind[node])
  # What the other's hands block is left out.
  reach = beliefs[player] * played_to(tree, np.asarray(policy, float), player, node)
  if tree.possible is not None:
    reach *= np.asarray(tree.possible)[node, player]
  if reach.sum() <= 0:
    raise ValueError(f"node={node} is never reached by player {player}; it has no range there")
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  history = (*root, *tree.history(node))
  actions = np.asarray(tree.action)[children].tolist()
  # Bets by size, after folding and calling.
  size = game.amounts(game.state_after(history)[None])[0]
  order = sorted(range(len(actions)), key=lambda i: size[actions[i] - 2] if actions[i] > 1 else -1)
  rows = np.asarray(policy, float)[children[order]]
  names = tuple(game.describe(history, actions[i]) for i in order)
  return make_range_grid(game, reach / reach.sum(), rows, names)


@checked
def make_range_grid(
  game: Holdem, weights: np.ndarray, rows: np.ndarray, moves: tuple[str, ...]
) -> RangeGrid:
  """Returns the grid of a player's range `[H]`, which sums to one, and its policy `[A, H]`."""
  row, column = cells(game.deck, game.hole_cards)
  ranks = list(enumerate(game.deck.ranks[::-1]))

  def by_cell(values: np.ndarray) -> np.ndarray:
    total = np.zeros((len(ranks),) * 2)
    np.add.at(total, (row, column), values)
    return total

  reach = by_cell(weights)
  played = weights * np.asarray(rows, float)
  return RangeGrid(
    moves=moves,
    reach=reach,
    frequency=np.stack([by_cell(x) / np.where(reach > 0, reach, 1) for x in played]),
    summary=played.sum(axis=1),
    labels=tuple(
      tuple(x + y + "s" if c > r else y + x + "o" * (c < r) for c, y in ranks) for r, x in ranks
    ),
  )


def colours(moves: tuple[str, ...]) -> list[str]:
  """Returns a colour for each move: one for folds, one for checks and calls, bets by size."""
  bets = [m for m in moves if m.startswith(("bet", "raise"))]
  shades = _BETS[-len(bets) :] if len(bets) > len(_BETS) - 2 else _BETS
  found = {move: shades[min(i, len(shades) - 1)] for i, move in enumerate(bets)}
  return [found.get(m, _FOLD if m == "fold" else _PASSIVE) for m in moves]


def plot_range_grid(grid: RangeGrid, path: str | Path, *, title: str = "") -> None:
  """Draws the grid, each cell filled as high as its hands are likely, and the summary beside it."""
  from matplotlib.figure import Figure

  figure = Figure(figsize=(10, 7.2), layout="constrained")
  axes, bars = figure.subplots(1, 2, width_ratios=[4, 1])
  row, column = (x.ravel() for x in np.indices(grid.reach.shape))
  height, left, bottom = grid.reach.ravel() / grid.reach.max(), column.astype(float), 0.0
  axes.bar(column, 1, 1, row, align="edge", color="#eeeeee")
  for move, share, played, colour in zip(
    grid.moves, grid.summary, grid.frequency, colours(grid.moves)
  ):
    axes.bar(left, height, played.ravel(), row + 1 - height, align="edge", color=colour)
    bars.bar([0], [share], bottom=bottom, color=colour, label=f"{move}  {share:.1%}")
    left, bottom = left + played.ravel(), bottom + share
  axes.bar(column, 1, 1, row, align="edge", color="none", edgecolor="white")
  for (i, j), label in np.ndenumerate(np.array(grid.labels)):
    axes.text(j + 0.06, i + 0.28, label, fontsize=7)
  ranks = len(grid.labels)
  axes.set(xlim=(0, ranks), ylim=(ranks, 0), xticks=[], yticks=[], aspect="equal")
  figure.suptitle(title)
  bars.set(xlim=(-0.6, 0.6), ylim=(0, 1), xticks=[], ylabel="share of the range")
  bars.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
  files.save_picture(figure, path, dpi=100)


@dataclasses.dataclass(frozen=True)
class Decision:
  """One decision as the agent sees it."""

  history: tuple[str, ...]  # names of the public actions so far
  mover: int  # who decides, 0 or 1
  beliefs: np.ndarray  # `[P, H]` of the PBS
  moves: tuple[str, ...]  # their names
  policy: np.ndarray  # `[A, H]`
  infostates: tuple[tuple[str, ...], ...]  # for each player `H` names


@checked
def draw(decisions: Sequence[Decision], path: str | Path, *, title: str = "") -> None:
  """Draws a row for each decision: both players' beliefs, and the mover's policy."""
  from matplotlib.figure import Figure

  count = len(decisions)
  figure = Figure(figsize=(10, 0.8 + 2.2 * count), layout="constrained")
  axes = figure.subplots(count, 3, squeeze=False, width_ratios=(1, 1, 2.2))
  for (*row, chart), decision in zip(axes, decisions):
    for player in (0, 1):
      names = decision.infostates[player]
      row[player].bar(range(len(names)), decision.beliefs[player], color=f"C{player}")
      row[player].set_xticks(range(len(names)), names)
      row[player].set_ylim(0, 1)
      row[player].set_title(f"belief about player {player}", fontsize=9)
    row[0].set_ylabel(", ".join(decision.history) or "the start", fontsize=9)
    chart.imshow(decision.policy.T, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    chart.set_xticks(range(len(decision.moves)), decision.moves, fontsize=8, rotation=20)
    names = decision.infostates[decision.mover]
    chart.set_yticks(range(len(names)), names)
    chart.set_title(f"player {decision.mover} to move, holding (down): probability", fontsize=9)
    for (move, h), probability in np.ndenumerate(decision.policy):
      if probability >= 0.005:
        color = "white" if probability > 0.6 else "black"
        chart.text(move, h, f"{probability:.2f}", ha="center", va="center", fontsize=7, color=color)
  figure.suptitle(title)
  files.save_picture(figure, path, dpi=110)
