"""Modified rock-paper-scissors (ReBeL, Figure 1): the smallest game with a hidden move."""

from games.game import register
from games.rules.matrix_game import MatrixGame

_NAMES = ("rock", "paper", "scissors")


class RockPaperScissors(MatrixGame):
  """Rock-paper-scissors, one player after the other, for double stakes if either plays scissors.

  A matrix game: player 0 moves unseen, player 1 then answers. The winner gets 1, or 2 if either
  played scissors; a tie pays 0. In the only equilibrium both play (0.4, 0.4, 0.2); the value is 0.
  """

  name = "rock_paper_scissors"
  text = (
    "Who begins picks rock, paper or scissors unseen, and then the other does. The winner gets "
    "1, or 2 if one of them picked scissors."
  )

  def __init__(self):
    super().__init__(((0, -1, 2), (1, 0, -2), (-2, 2, 0)))

  def action_name(self, action):
    return (*_NAMES, "hidden move")[action]

  def infostate_name(self, player, infostate):
    return _NAMES[infostate] if player == 0 else "-"


register("rock_paper_scissors", RockPaperScissors)
