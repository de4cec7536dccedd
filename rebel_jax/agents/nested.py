"""An agent with a blueprint that solves the answer to every bet which its tree lacks."""

import numpy as np

from games import Game, PublicTree
from games.arguments import checked
from games.poker.holdem import CALL, FIRST_BET, FOLD, Holdem
from games.public_tree import Array
from rebel_jax.agents.dealer import Move, Seat, child_after, moves_at
from solvers import Resolve, answer_bet
from solvers.resolving import Placer, Widened

Bets = tuple[tuple[tuple[int, ...], int], ...]  # histories, and chips that were bet after them
Answers = dict[tuple[Bets, int], Widened]  # for all bets that were added, and the agent's seat


class NestedAgent(Seat):
  """Plays a blueprint of a hold'em game with few bets against one who may bet anything.

  A bet off the tree is added to it, and what follows is solved so that the other gets no more than
  its best response to the blueprint gets at that decision (thesis, section 5.1.7); the solution
  becomes part of the blueprint, so further bets are answered in the same way. Its own bets are
  those of its tree. A `Seat` of matches, whose game may have other bets than the blueprint's.

  Attributes:
    game: as it was widened so far in this hand.
    player: the seat, 0 or 1.
    infostate: what the agent holds.
  """

  @checked
  def __init__(
    self,
    game: Holdem,
    tree: PublicTree,
    policy: Array,
    *,
    played: Holdem | None = None,
    num_iterations: int = 512,
    answers: Answers | None = None,
    seed: int = 0,
  ):
    """Sits down with a blueprint.

    Args:
      game, tree, policy: the blueprint's; `[N, H]` on the whole tree.
      played: the game of the match, if its actions are numbered otherwise than the blueprint's;
        the same but for its bets.
      num_iterations: as for `solvers.answer_bet`.
      answers: found before; agents that share a dictionary answer every bet once.
      seed: of the agent's moves.
    """
    self._blueprint = Widened(game, tree, np.asarray(policy, float))
    self._played = played
    self._num_iterations = num_iterations
    self._answers: Answers = {} if answers is None else answers
    super().__init__(seed)
    self._begin()

  def _begin(self) -> None:
    self._added: Bets = ()
    self._use(self._blueprint, 0)
    self._state = (self._played or self.game).initial_state()

  def _use(self, found: Widened, node: int) -> None:
    self.game, self._tree, self._policy = found
    self._node = node

  def widen_match(self, played: Game) -> None:
    """Takes note that the game of the match has bets more than before, such as one just made."""
    assert isinstance(played, Holdem)
    self._played = played

  def choices(self) -> dict[Move, float]:
    """See `Seat`; moves are numbered as in the match."""
    held = self.infostate
    return {
      Move(self._in_match(action), held): float(self._policy[child, held])
      for (action, _), child in moves_at(self._tree, self._node, self.player, held)
    }

  def _follow(self, action: int) -> None:
    """Takes note of a public action, numbered as in the match."""
    played = self.game if self._played is None else self._played
    if FIRST_BET <= action < played.burn:
      self.observe_bet(int(played.amounts(self._state[None])[0, action - FIRST_BET]))
    else:
      own = action if action < FIRST_BET else action - played.burn + self.game.burn
      self._node = child_after(self._tree, self._node, own)
    self._state = played.next_states(self._state[None], np.array([action]))[0]

  def observe_bet(self, chips: int) -> None:
    """Takes note of a bet by the chips that the bettor then has in the pot; solves if it must.

    Raises:
      ValueError: the bet is not legal, or it is the agent's own and not in its tree.
    """
    state = np.asarray(self._tree.state)[self._node][None]
    amounts = self.game.amounts(state)[0].tolist()
    if chips not in amounts:
      if int(self._tree.kind[self._node]) == self.player:
        raise ValueError(f"bet={chips} is not in the tree of the agent that makes it")
      self._widen(chips)
      amounts = self.game.amounts(state)[0].tolist()
    self._node = child_after(self._tree, self._node, FIRST_BET + amounts.index(chips))

  def _widen(self, chips: int) -> None:
    history = self._tree.history(self._node)
    self._added = (*self._added, (history, chips))
    key = self._added, self.player
    found = self._answers.get(key)
    if found is None:
      found = answer_bet(
        self.game, self._tree, self._policy, history, chips,
        gadget=Resolve(self.player), num_iterations=self._num_iterations,
      )  # fmt: skip
      self._answers[key] = found
    node = Placer(found.tree, by_state=True).places(self._tree)[self._node]
    self._use(found, int(node))

  def _in_match(self, action: int) -> int:
    """Returns an action of the agent's game as the match numbers it."""
    if self._played is None or action in (FOLD, CALL):
      return action
    chips = int(self.game.amounts(np.asarray(self._tree.state)[self._node][None])[0, action - 2])
    amounts = self._played.amounts(self._state[None])[0].tolist()
    if chips not in amounts:
      raise ValueError(f"bet={chips} of the agent's tree is not in the game of the match")
    return FIRST_BET + amounts.index(chips)
