"""Two-player zero-sum games as rules and as public-tree tensors."""

from games.build import build_public_tree
from games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL, Game, Variation
from games.kuhn_poker import KuhnPoker
from games.leduc_poker import LeducPoker
from games.liars_dice import LiarsDice
from games.poker.endgames import RiverEndgame, SmallHoldem, TurnEndgame
from games.public_tree import LEAF, PADDING, Level, PublicTree, TreeStructure
from games.registry import make, register, registered_games
from games.rock_paper_scissors import RockPaperScissors
from games.stack import stack_trees

register("kuhn_poker", KuhnPoker)
register("leduc_poker", LeducPoker)
register("liars_dice", LiarsDice)
register("river_endgame_holdem", RiverEndgame)
register("rock_paper_scissors", RockPaperScissors)
register("small_holdem", SmallHoldem)
register("turn_endgame_holdem", TurnEndgame)

__all__ = [
  "CHANCE",
  "LEAF",
  "PADDING",
  "PLAYER_0",
  "PLAYER_1",
  "TERMINAL",
  "Game",
  "KuhnPoker",
  "LeducPoker",
  "Level",
  "LiarsDice",
  "PublicTree",
  "RiverEndgame",
  "RockPaperScissors",
  "SmallHoldem",
  "TreeStructure",
  "TurnEndgame",
  "Variation",
  "build_public_tree",
  "make",
  "register",
  "registered_games",
  "stack_trees",
]
