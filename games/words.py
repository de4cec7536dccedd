"""What a person at the table reads of a game, and what is said where nobody wrote it."""

from collections.abc import Sequence


class Words:
  """Names and sentences of one game; every game has them, and says better what it can."""

  def action_name(self, action: int) -> str:
    """Returns a short name of a public action for people to read."""
    return str(action)

  def describe(self, history: Sequence[int], action: int) -> str:
    """Returns what `action` is after `history`, for people to read; its name if that says all."""
    del history
    return self.action_name(action)

  def situation(self, history: Sequence[int]) -> str:
    """Returns what lies on the table after `history`; empty if the actions so far say it all."""
    del history
    return ""

  def explain(self) -> str:
    """Returns what the moves mean and who wins, for people who play; empty if nobody wrote it."""
    return ""

  def infostate_name(self, player: int, infostate: int) -> str:
    """Returns a short name of an infostate for people to read."""
    del player
    return str(infostate)

  def hidden_move_name(self, player: int, action: int, infostate: int) -> str:
    """Returns a short name of a move of which the other sees `action`, by what is held then."""
    del action
    return self.infostate_name(player, infostate)
