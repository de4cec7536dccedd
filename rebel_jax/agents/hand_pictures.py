"""One game as a trained agent sees it: at every decision both players' beliefs and the policy.

`follow` walks an agent down a line of public actions and notes what it believes and would do
there, for all infostates of the player to move; `draw` makes a picture of it.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from games import CHANCE, Game
from games.arguments import checked
from rebel_jax.agents.belief_agent import Agent, Searcher
from rebel_jax.checkpoints import files


@dataclasses.dataclass(frozen=True)
class Decision:
  """One decision as the agent sees it.

  Letters: `A` moves there are, `H` infostates.

  Attributes:
    history: names of the public actions so far.
    mover: who decides, 0 or 1.
    beliefs: `[P, H]` the PBS: what somebody who knows both policies thinks either player holds.
    moves: what the moves are called.
    policy: `[A, H]` how likely the mover, holding each infostate, is to make each move.
    infostates: for each player `H` names.
  """

  history: tuple[str, ...]
  mover: int
  beliefs: np.ndarray
  moves: tuple[str, ...]
  policy: np.ndarray
  infostates: tuple[tuple[str, ...], ...]


@checked
def follow(searcher: Searcher, actions: Sequence[int], *, seed: int = 0) -> list[Decision]:
  """Returns an agent's beliefs and policy at every decision along a line of play.

  Args:
    searcher: what the agent searches with.
    actions: public actions from the start of the game, chance's included.
    seed: of the agent: which iteration of each search it keeps to.

  Raises:
    ValueError: an action is not legal where it is taken, or the game is over before.
  """
  game = searcher.game
  agent = Agent(searcher, seed=seed)
  agent.start(0, int(np.argmax(np.asarray(game.prior())[0] > 0)))
  game.state_after(actions)  # refuses what is not legal, before any search
  found: list[Decision] = []
  history: list[str] = []
  names = tuple(
    tuple(game.infostate_name(player, h) for h in range(game.num_infostates)) for player in (0, 1)
  )
  for count in range(len(actions) + 1):
    mover = _actor(game, actions[:count])
    if mover < CHANCE:
      rows: dict[int, np.ndarray] = {}
      for agent.player, agent.infostate in ((mover, h) for h in range(game.num_infostates)):
        for move, share in agent.choices().items():  # hidden choices are summed
          rows.setdefault(move.action, np.zeros(game.num_infostates))[agent.infostate] += share
      moves = tuple(game.action_name(action) for action in sorted(rows))
      policy = np.stack([rows[action] for action in sorted(rows)])
      found.append(Decision(tuple(history), mover, agent.beliefs, moves, policy, names))
    if count < len(actions):
      history.append(game.action_name(actions[count]))
      if _actor(game, actions[: count + 1]) <= CHANCE:  # else the game is over
        agent.observe(actions[count])
  return found


def _actor(game: Game, actions: Sequence[int]) -> int:
  return int(game.actor(game.state_after(actions)[None])[0])


@checked
def draw(decisions: Sequence[Decision], path: str | Path, *, title: str = "") -> None:
  """Draws a row for each decision: both players' beliefs, and the mover's policy.

  Raises:
    ImportError: matplotlib is not installed.
  """
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  count = len(decisions)
  figure = Figure(figsize=(10, 0.8 + 2.2 * count), layout="constrained")
  FigureCanvasAgg(figure)
  axes = figure.subplots(count, 3, squeeze=False, width_ratios=(1, 1, 2.2))
  for row, decision in zip(axes, decisions):
    for player in (0, 1):
      names = decision.infostates[player]
      row[player].bar(range(len(names)), decision.beliefs[player], color=f"C{player}")
      row[player].set_xticks(range(len(names)), names)
      row[player].set_ylim(0, 1)
      row[player].set_title(f"belief about player {player}", fontsize=9)
    row[0].set_ylabel(", ".join(decision.history) or "the start", fontsize=9)
    chart = row[2]
    chart.imshow(decision.policy.T, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    chart.set_xticks(range(len(decision.moves)), decision.moves, fontsize=8, rotation=20)
    names = decision.infostates[decision.mover]
    chart.set_yticks(range(len(names)), names)
    chart.set_title(f"player {decision.mover} to move, holding (down): probability", fontsize=9)
    for (move, h), probability in np.ndenumerate(decision.policy):
      if probability >= 0.005:
        color = "white" if probability > 0.6 else "black"
        chart.text(move, h, f"{probability:.2f}", ha="center", va="center", fontsize=7, color=color)
  if title:
    figure.suptitle(title)
  files.save_picture(figure, path, dpi=110)
