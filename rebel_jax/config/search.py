"""The kinds of search that a run trains with: ReBeL's, two in trees that grow, and Deep CFR."""

import dataclasses
from typing import Annotated, Any, ClassVar

from games import Game
from rebel_jax.config import allowed
from rebel_jax.config.allowed import ConfigError


@dataclasses.dataclass(frozen=True)
class ReBeLSearch:
  """ReBeL's searches: depth-limited subgames, solved by a form of CFR or fictitious play.

  Attributes:
    depth: Public actions, chance included, from a subgame's root to its leaves, fewer than the
      whole game has; or stage: to the end of a betting round or of a deal.
    algorithm: Algorithm that solves subgames, with its parameters if others than the usual ones:
      "discounted_cfr(alpha=1.5, beta=0.5, gamma=4)".
    iterations: Iterations of each search; one player's update is one.
    late_iterations: Iterations of each search in the last quarter of training, whose targets are
      better and cost more; 0 for as many as before.
    level_values: Shift each player's values by one number for all infostates, so that both players'
      are worth what the average policies make the public belief state; this costs one more
      evaluation of the leaves.
    rows_fraction: Share of lanes times the largest subgame's leaves that one evaluation of the
      network has room for; lanes that find no room wait for the next step.
    share_start: Search the start of the game once a step for all lanes that begin a game; examples
      of the start, which is never a leaf, are then not trained on.
    play_on: Probability that a game which would end within a subgame goes on at one of its leaves
      instead, so that late rounds have as many examples as early ones; the paper's games end.
    vary: Changes to every hand of hold'em that self-play plays: stack LOW-HIGH (chips of each
      player before the hand), pot LOW-HIGH (chips in it at the start), bets SPREAD (each bet size
      moves by up to that much of the pot), board random (other cards). Evaluations measure the game
      that game_params name.
    policy_network: Train a policy network too and start every search from it, in training and in
      evaluation; this needs a form of CFR and a game without hidden moves.
    fused_network: Compute all layers in one kernel where searches run on an NVIDIA GPU.
    eval_algorithm: Algorithm of the searches of evaluations.
    eval_playthroughs: Playthroughs that an evaluation during training averages; or, of games too
      large for exploitability, hands played against each of several simple players.
    eval_iterations: Iterations of each search of those evaluations.
    final_playthroughs: Playthroughs that the evaluation at the end averages.
    final_iterations: Iterations of each search of the evaluation at the end.
  """

  depth: Annotated[int | str, allowed.depth()] = 2
  algorithm: Annotated[str, allowed.algorithm()] = "linear_cfr"
  iterations: Annotated[int, allowed.iterations()] = 128
  late_iterations: Annotated[int, allowed.iterations(0)] = 0
  level_values: bool = False
  rows_fraction: Annotated[float, allowed.number(1.0)] = 0.7
  share_start: bool = False
  play_on: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  vary: Annotated[tuple[tuple[str, int | float | str], ...], allowed.pairs(int, float)] = ()
  policy_network: bool = False
  fused_network: bool = False
  eval_algorithm: Annotated[str, allowed.algorithm()] = "linear_cfr"
  eval_playthroughs: Annotated[int, allowed.integer(1)] = 64
  eval_iterations: Annotated[int, allowed.iterations()] = 256
  final_playthroughs: Annotated[int, allowed.integer(1)] = 64
  final_iterations: Annotated[int, allowed.iterations()] = 1_024

  kind: ClassVar[str] = "ReBeL's searches"
  # Options of commands that are about searches of this kind, and those of them that agents take.
  options: ClassVar[tuple[str, ...]] = (
    "playthroughs", "iterations", "algorithm", "depth", "keep", "unsafe",
  )  # fmt: skip
  agent_options: ClassVar[tuple[str, ...]] = ("iterations", "algorithm", "depth")
  # Subgames solved in a step, and examples of each in the buffer.
  solves_per_lane: ClassVar[float] = 1.0
  examples_per_solve: ClassVar[int] = 2

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the roots of searches, of which there are so many, and their length, in words."""
    later = f", {self.late_iterations} at the end" if self.late_iterations else ""
    subgames = "subgames" if number is None else f"{number} subgames"
    return f"{subgames} of depth {self.depth}", f"{self.iterations} iterations a search{later}"

  def check(self, game: str, rules: Game) -> None:
    """Checks that the search fits the `rules` of the game named `game`."""
    if not rules.written:
      raise ConfigError(
        f"game={game!r} cannot be searched by ReBeL, for no tree of it is made beforehand; "
        "searches that grow trees can"
      )


@dataclasses.dataclass(frozen=True)
class GrowingSearch:
  """Searches in trees that grow, as in Player of Games.

  Attributes:
    simulations: Simulations of each search of training.
    per_update: Simulations for each update of both players in training; below one, one over the
      updates for each simulation.
    mix: How far the opponent may change its range when a decision is searched again, from 0, not at
      all and unsafe, to 1.
    alternating: Let player 1 of a search respond in each update to what player 0 has just learned,
      and not both to what they played before.
    query_share: Of the searches that play, how many leave a question to the network to be solved.
    eval_playthroughs: Agents of different seeds, each playing one policy, that an evaluation during
      training measures.
    eval_iterations: Iterations of each search of evaluations, two for each simulation; one player's
      update is one.
    final_playthroughs: Agents of different seeds that the evaluation at the end measures.
  """

  simulations: Annotated[int, allowed.integer(1, 2**20)] = 100
  per_update: Annotated[float, allowed.number()] = 1.0
  mix: Annotated[float, allowed.number(1.0, zero=True)] = 0.2
  alternating: bool = False
  query_share: Annotated[float, allowed.number(1.0, zero=True)] = 0.9
  eval_playthroughs: Annotated[int, allowed.integer(1, 2**16)] = 2
  eval_iterations: Annotated[int, allowed.iterations()] = 200
  final_playthroughs: Annotated[int, allowed.integer(1, 2**16)] = 10

  kind: ClassVar[str] = "growing searches"
  options: ClassVar[tuple[str, ...]] = ("simulations", "per_update", "mix", "at_once", "seeds")
  agent_options: ClassVar[tuple[str, ...]] = ("simulations", "per_update")
  examples_per_solve: ClassVar[int] = 1  # it is about both players
  fused_network: ClassVar[bool] = False
  late_iterations: ClassVar[int] = 0
  vary: ClassVar[tuple[tuple[str, Any], ...]] = ()
  # As for poker in Player of Games: all moves at once, and no flattened prior.
  children: ClassVar[int] = 0
  temperature: ClassVar[float] = 1.0
  # Of the searches that solve questions, how many leave another; uniform moves in self-play; weight
  # of policies in the loss, where values weigh one.
  recursive_share: ClassVar[float] = 0.2
  exploration: ClassVar[float] = 0.1
  policy_weight: ClassVar[float] = 0.05

  @property
  def questions_per_lane(self) -> float:
    """Questions solved for each search of play, on average."""
    return self.query_share / (1.0 - self.recursive_share)

  @property
  def solves_per_lane(self) -> float:
    """States learned for each search of play, without resignation."""
    return self.questions_per_lane

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the roots of searches, of which there are so many, and their length, in words."""
    roots = f"searches from {number} decisions" if number else "searches that make their trees"
    return roots, f"{self.simulations} simulations a search"

  def check(self, game: str, rules: Game) -> None:
    """Checks the settings against each other and the `rules` of the game named `game`."""
    if not self.solves_per_lane:
      raise ConfigError(f"query_share={self.query_share} must be above 0: nothing would be learned")
    perfect = rules.num_infostates == 1
    if perfect != isinstance(self, PerfectSearch):
      raise ConfigError(
        f"game={game!r} {'is' if perfect else 'is not'} one of perfect information, and "
        f"cannot have {self.kind}"
      )


@dataclasses.dataclass(frozen=True)
class PerfectSearch(GrowingSearch):
  """Searches in trees that grow, of games of perfect information.

  Attributes:
    td1_share: Of the states that a game came to, how many are learned with its outcome and the
      policy that was searched there.
    greedy_after: Moves after which the likeliest are made, without exploration; 0 for never.
    resign_below: Share of the largest payoff; who expects to lose more resigns, in four games of
      five, and the game has no outcome to learn; 0 for never.
  """

  td1_share: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  greedy_after: Annotated[int, allowed.integer(0, 2**20)] = 0
  resign_below: Annotated[float, allowed.number(1.0, zero=True)] = 0.0

  kind: ClassVar[str] = "growing searches of perfect information"
  # As for chess in table 3: a state gets one move at once, and priors are flattened.
  children: ClassVar[int] = 1
  temperature: ClassVar[float] = 1.5
  policy_weight: ClassVar[float] = 1.0
  never_resign: ClassVar[float] = 0.2  # of games in which players may

  @property
  def solves_per_lane(self) -> float:
    """States learned for each search of play, without resignation."""
    return self.questions_per_lane + self.td1_share


@dataclasses.dataclass(frozen=True)
class DeepCFR:
  """Deep CFR: networks learn regrets of sampled traversals of the whole game; nothing is searched.

  A lane is a traversal for each player in an iteration, which is a step; examples are traversals.

  Attributes:
    alternating: Let player 1 of an iteration respond to what player 0 has just learned, and not
      both to what they played before.
  """

  alternating: bool = True

  kind: ClassVar[str] = "the networks of Deep CFR"
  options: ClassVar[tuple[str, ...]] = ()
  agent_options: ClassVar[tuple[str, ...]] = ()
  solves_per_lane: ClassVar[float] = 1.0
  examples_per_solve: ClassVar[int] = 2
  fused_network: ClassVar[bool] = False
  late_iterations: ClassVar[int] = 0
  vary: ClassVar[tuple[tuple[str, Any], ...]] = ()

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the decisions, of which there are so many, and the kind of traversal, in words."""
    return f"{number} public decisions", "external sampling"

  def check(self, game: str, rules: Game) -> None:
    """Checks that a tree of the `rules` of the game named `game` can be written out."""
    if not rules.written:
      raise ConfigError(f"game={game!r} has no tree that is made beforehand, which Deep CFR needs")


REBEL = ReBeLSearch()
Search = ReBeLSearch | GrowingSearch | DeepCFR
KINDS = (ReBeLSearch, GrowingSearch, PerfectSearch, DeepCFR)


def check_kind(name: str, search: Search, preset: str) -> None:
  """Checks that a setting is none that only searches of another kind have."""
  kinds = [kind.kind for kind in KINDS if name in kind.__dataclass_fields__]
  if kinds and name not in vars(search):
    raise ConfigError(
      f"{name} is no setting of {search.kind}, which preset={preset!r} has; it is one of "
      f"{' and of '.join(kinds)}"
    )
