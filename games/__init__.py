"""Two-player zero-sum games as rules and as public-tree tensors."""

import importlib
import pkgutil

from games import rules
from games.build import build_public_tree, stack_trees, take
from games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL, Game, make, register, registered_games
from games.poker.endgames import RiverEndgame, SmallHoldem, TurnEndgame
from games.public_tree import LEAF, PADDING, Array, Level, PublicTree, TreeStructure
from games.rules.coin_toss import CoinToss
from games.rules.connect_four import ConnectFour
from games.rules.go import Go
from games.rules.kuhn_poker import KuhnPoker
from games.rules.leduc_poker import LeducPoker
from games.rules.liars_dice import LiarsDice
from games.rules.matrix_game import MatrixGame
from games.rules.rock_paper_scissors import RockPaperScissors
from games.rules.scotland_yard import ScotlandYard
from games.rules.tic_tac_toe import TicTacToe
from games.tabulate import Tabulated, tabulate

# A game registers itself, so a new one is a new file and nothing else.
for _module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
  importlib.import_module(_module.name)

__all__ = [
  "CHANCE", "LEAF", "PADDING", "PLAYER_0", "PLAYER_1", "TERMINAL", "Array", "CoinToss",
  "ConnectFour", "Game", "Go", "KuhnPoker", "LeducPoker", "Level", "LiarsDice", "MatrixGame",
  "PublicTree", "RiverEndgame", "RockPaperScissors", "ScotlandYard", "SmallHoldem", "Tabulated",
  "TicTacToe", "TreeStructure", "TurnEndgame", "build_public_tree", "make", "register",
  "registered_games", "stack_trees", "tabulate", "take",
]  # fmt: skip
