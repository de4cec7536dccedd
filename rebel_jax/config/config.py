"""Everything that can be set about the training of a run, and what is allowed."""

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import games
from games import Game
from games.poker import Holdem
from rebel_jax.config import allowed
from rebel_jax.config.allowed import ConfigError, in_config_errors, unknown
from rebel_jax.networks.names import ACTIVATIONS, NETWORKS, PRECISIONS
from rebel_jax.networks.optimizers import OPTIMIZERS


class SearchKind:
  """Settings that some kinds of search lack, with the values that stand for none."""

  kind: ClassVar[str]
  # Options of commands that are about searches of this kind, and those of them that agents take.
  options: ClassVar[tuple[str, ...]] = ()
  agent_options: ClassVar[tuple[str, ...]] = ()
  examples_per_solve: ClassVar[int] = 2  # in the buffer, of each subgame solved
  late_iterations: int = 0
  vary: tuple[tuple[str, Any], ...] = ()

  def check(self, game: str, rules: Game) -> None:
    """Checks the settings against each other and the `rules` of the game named `game`."""
    if not rules.written:
      raise ConfigError(
        f"game={game!r} has no tree that is made beforehand, which {self.kind} need; searches that "
        "grow trees need none"
      )


@dataclasses.dataclass(frozen=True)
class ReBeLSearch(SearchKind):
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
    eval_algorithm: Algorithm of the searches of evaluations.
    eval_playthroughs: Playthroughs that an evaluation during training averages; or, of games too
      large for exploitability, hands played against each of several simple players.
    eval_iterations: Iterations of each search of those evaluations.
    final_playthroughs: Playthroughs that the evaluation at the end averages.
    final_iterations: Iterations of each search of the evaluation at the end.
  """

  depth: Annotated[int | str, allowed.DEPTH] = 2
  algorithm: Annotated[str, allowed.ALGORITHM] = "linear_cfr"
  iterations: Annotated[int, allowed.iterations()] = 128
  late_iterations: Annotated[int, allowed.iterations(0)] = 0
  level_values: bool = False
  rows_fraction: Annotated[float, allowed.number(1.0)] = 0.7
  share_start: bool = False
  play_on: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  vary: Annotated[tuple[tuple[str, int | float | str], ...], allowed.pairs(int, float)] = ()
  policy_network: bool = False
  eval_algorithm: Annotated[str, allowed.ALGORITHM] = "linear_cfr"
  eval_playthroughs: Annotated[int, allowed.integer(1)] = 64
  eval_iterations: Annotated[int, allowed.iterations()] = 256
  final_playthroughs: Annotated[int, allowed.integer(1)] = 64
  final_iterations: Annotated[int, allowed.iterations()] = 1_024

  kind: ClassVar[str] = "ReBeL's searches"
  options: ClassVar[tuple[str, ...]] = (
    "playthroughs", "iterations", "algorithm", "depth", "keep", "unsafe", "trajectories",
    "lbr_hands", "ladder", "against",
  )  # fmt: skip
  agent_options: ClassVar[tuple[str, ...]] = ("iterations", "algorithm", "depth")
  solves_per_lane: ClassVar[float] = 1.0  # subgames in a step

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the roots of searches, `number` of them, and their length, in words."""
    later = f", {self.late_iterations} at the end" if self.late_iterations else ""
    subgames = "subgames" if number is None else f"{number} subgames"
    return f"{subgames} of depth {self.depth}", f"{self.iterations} iterations a search{later}"


@dataclasses.dataclass(frozen=True)
class GrowingSearch(SearchKind):
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
  # As for poker in Player of Games (table 3): all children at once, and the prior as it is.
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
    return self.questions_per_lane + getattr(self, "td1_share", 0.0)

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the roots of searches, `number` of them, and their length, in words."""
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
  # As for chess in Player of Games (section 3.2.2, table 3): one child at a time, a flatter prior.
  children: ClassVar[int] = 1
  temperature: ClassVar[float] = 1.5
  policy_weight: ClassVar[float] = 1.0
  never_resign: ClassVar[float] = 0.2  # of games in which players may


@dataclasses.dataclass(frozen=True)
class DeepCFR(SearchKind):
  """Deep CFR: networks learn regrets of sampled traversals of the whole game; nothing is searched.

  A lane is a traversal for each player in an iteration, which is a step; examples are traversals.

  Attributes:
    alternating: Let player 1 of an iteration respond to what player 0 has just learned, and not
      both to what they played before.
  """

  alternating: bool = False

  kind: ClassVar[str] = "the networks of Deep CFR"
  solves_per_lane: ClassVar[float] = 1.0

  def describe(self, number: int | None) -> tuple[str, str]:
    """Returns the decisions, `number` of them, and the kind of traversal, in words."""
    return (
      "rules that are walked" if number is None else f"{number} public decisions",
      "external sampling",
    )


REBEL = ReBeLSearch()
Search = ReBeLSearch | GrowingSearch | DeepCFR
KINDS = (ReBeLSearch, GrowingSearch, PerfectSearch, DeepCFR)


def check_kind(name: str, search: Search, preset: str) -> None:
  """Checks that a setting does not belong to other kinds of search alone."""
  kinds = [kind.kind for kind in KINDS if name in kind.__dataclass_fields__]
  if kinds and name not in vars(search):
    raise ConfigError(
      f"{name} is no setting of {search.kind}, which preset={preset!r} has; it is one of "
      f"{' and of '.join(kinds)}"
    )


_MAX_COUNT = 2**31 - 1
# The last quarter of the examples comes from searches of `late_iterations`.
_LATE_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class SelfPlaySettings:
  """Amount of self-play.

  Attributes:
    examples: Training examples to generate, two for each subgame solved; with depth stage a lane
      solves several subgames in a step, and there are more.
    lanes: Games of self-play side by side, all devices together; a multiple of the devices.
  """

  examples: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 60_000
  lanes: Annotated[int, allowed.integer(1, 2**24)] = 64


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
  """The networks; hold'em has its own kind.

  Attributes:
    hidden_layers: Hidden layers.
    width: Units of each hidden layer.
    activation: Activation of the hidden layers; gelu in its tanh form.
    belief_roots: Successive square roots of the beliefs that are inputs beside them; networks for
      hold'em start from a root, not from the beliefs.
    architecture: mlp; showdowns, an MLP for hold'em that also sees what each hand wins of the
      opponent's range on the cards shown, and how much of that range it leaves possible; or one
      that was registered.
    precision: What the factors of products are rounded to: default is the device's own (float32 on
      CPUs, TensorFloat-32 on NVIDIA's GPUs, bfloat16 on TPUs); bfloat16_activations also keeps in
      bfloat16 what hidden layers pass on. Sums are float32.
  """

  hidden_layers: Annotated[int, allowed.integer(1, 1_000)] = 2
  width: Annotated[int, allowed.integer(1, 2**16)] = 256
  activation: Annotated[str, allowed.one_of(ACTIVATIONS)] = "gelu"
  belief_roots: Annotated[int, allowed.integer(0, 8)] = 0
  architecture: Annotated[str, allowed.one_of(NETWORKS)] = "mlp"
  precision: Annotated[str, allowed.one_of(PRECISIONS)] = "default"


@dataclasses.dataclass(frozen=True)
class LearningSettings:
  """How the networks learn from examples.

  Attributes:
    optimizer: adam; muon, momentum made orthogonal for matrices, Adam for the rest; or one that was
      registered.
    learning_rate: Learning rate at the start.
    halve_every: Gradient steps after which the learning rate halves, as in the ReBeL paper, with
      gradients as they are; 0 for a cosine decay to zero over the run, with gradients clipped to a
      global norm of 1.
    batch_size: Examples of a gradient step, all devices together; a multiple of the devices.
    uses_per_example: How often each example is trained on, on average.
    buffer_size: Examples kept in the circular replay buffer, all devices together; at least two a
      lane, and a multiple of the devices.
  """

  optimizer: Annotated[str, allowed.one_of(OPTIMIZERS)] = "adam"
  learning_rate: Annotated[float, allowed.number()] = 1e-3
  halve_every: Annotated[int, allowed.integer(0, _MAX_COUNT)] = 0
  batch_size: Annotated[int, allowed.integer(1, 2**24)] = 256
  uses_per_example: Annotated[float, allowed.number(1e9)] = 8.0
  buffer_size: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 65_536

  @property
  def max_gradient_norm(self) -> float:
    """Global norm that gradients are clipped to; 0 for no clipping."""
    return 0.0 if self.halve_every else 1.0


@dataclasses.dataclass(frozen=True)
class ScheduleSettings:
  """Course of a run.

  Attributes:
    evaluate_every: Examples between evaluations; 0 for an evaluation at the end only.
    report_every: Steps of self-play in one compiled chunk, between reports.
    max_seconds: Seconds after the start of the command, compilation included, when training stops
      and the run is evaluated and saved; a run that would be cut off is made shorter in time, so
      that its learning rate falls to zero.
  """

  evaluate_every: Annotated[int, allowed.integer(0)] = 10_000
  report_every: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 10
  max_seconds: Annotated[float | None, allowed.optional(allowed.number())] = None


@dataclasses.dataclass(frozen=True)
class Config:
  """The settings of a training run; `search` is of one of four kinds, each with its own settings.

  Attributes:
    preset: Preset that the defaults of all other settings come from.
    game: Name of the game.
    game_params: Parameters of the game that differ from its usual ones, such as num_dice 2.
    seed: Seed of all randomness; on one kind of device it decides the run, on GPUs to rounding.
  """

  preset: Annotated[str, allowed.NAME] = "liars_dice_1x4f"
  game: Annotated[str, allowed.text("GAME")] = "liars_dice"
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = (
    ("num_dice", 1),
    ("num_faces", 4),
  )
  seed: Annotated[int, allowed.integer(0, 2**32 - 1)] = 0
  search: ReBeLSearch | GrowingSearch | PerfectSearch | DeepCFR = REBEL
  self_play: SelfPlaySettings = SelfPlaySettings()
  network: NetworkSettings = NetworkSettings()
  learning: LearningSettings = LearningSettings()
  schedule: ScheduleSettings = ScheduleSettings()

  @property
  def rebel(self) -> ReBeLSearch:
    """The search, where it is ReBeL's; ConfigError where it is another kind."""
    if isinstance(self.search, ReBeLSearch):
      return self.search
    raise ConfigError(f"{self.search.kind} of preset={self.preset!r} are not ReBeL's searches")

  @property
  def growing(self) -> GrowingSearch:
    """The search, where it grows trees; ConfigError where it does not."""
    if isinstance(self.search, GrowingSearch):
      return self.search
    raise ConfigError(f"{self.search.kind} of preset={self.preset!r} do not grow trees")

  @property
  def grows(self) -> bool:
    """Whether searches are in trees that grow."""
    return isinstance(self.search, GrowingSearch)

  @property
  def solves_per_step(self) -> int:
    """Subgames solved in a step of self-play, at most, all devices together.

    Where trees grow it is as many states as are learned on average.
    """
    return math.ceil(round(self.self_play.lanes * self.search.solves_per_lane, 6))

  @property
  def num_steps(self) -> int:
    """Steps of self-play in the run: each makes two examples of what it solves."""
    play = self.self_play
    return math.ceil(play.examples / (2 * (play.lanes * self.search.solves_per_lane)))

  @property
  def late_step(self) -> int:
    """The step after which searches have `late_iterations`; `num_steps` if they never do."""
    return round(self.num_steps * (1 - _LATE_SHARE * (self.search.late_iterations > 0)))

  @property
  def learn_steps(self) -> int:
    """Gradient steps after each step of self-play."""
    made = self.solves_per_step * self.search.examples_per_solve
    return max(1, round(self.learning.uses_per_example * made / self.learning.batch_size))

  @property
  def gradient_steps(self) -> int:
    """Gradient steps of the whole run."""
    if not self.grows:
      return self.num_steps * self.learn_steps
    uses = self.self_play.examples / 2 * self.learning.uses_per_example
    return round(uses / self.learning.batch_size)

  def replace(self, **changes: Any) -> "Config":
    """Returns the configuration with some settings changed, each named without its group.

    Raises:
      ConfigError: there is no setting of a name, or only in searches of another kind.
    """
    for name in changes:
      check_kind(name, changes.get("search", self.search), changes.get("preset", self.preset))
    return allowed.replace(self, **changes)

  def to_dict(self) -> dict[str, Any]:
    """Returns the settings as JSON can hold them: groups and pairs as dicts."""
    return dataclasses.asdict(
      self,
      dict_factory=lambda pairs: {k: dict(v) if isinstance(v, tuple) else v for k, v in pairs},
    )

  @classmethod
  def from_dict(cls, fields: dict[str, Any]) -> "Config":
    """Returns the configuration that `to_dict` gave, of an earlier version too.

    Args:
      fields: by group; settings that are missing take their defaults; those that are gone, and
        those of other searches, are ignored at theirs.

    Raises:
      ConfigError: there is a setting or group that is not one, or one that is gone with another
        value.
    """
    settings = _ungrouped(fields, "config")
    if "showdown_inputs" in settings:  # of earlier versions
      settings["architecture"] = "showdowns" if settings.pop("showdown_inputs") else "mlp"
    kind: Any = ReBeLSearch
    if settings.get("simulations"):
      # Earlier versions saved settings of all kinds, at zero where they had no part.
      perfect = settings.get("td1_share") if "growing" in fields else "td1_share" in settings
      kind = PerfectSearch if perfect else GrowingSearch
    elif set(fields.get("search", ())) == {"alternating"}:
      kind = DeepCFR
    for before, now, factor in _RENAMED:
      value = settings.pop(before, None)
      if value is not None and kind is not ReBeLSearch:
        settings[now] = factor * value
    config = allowed.replace(cls(), search=kind())
    known = allowed.flat(config)
    config = allowed.replace(config, **{k: v for k, v in settings.items() if k in known})
    others = {k: v for other in KINDS for k, v in vars(other()).items()} | _GONE
    for name in sorted(settings.keys() - known.keys() - _IGNORED):
      if name not in others:
        raise unknown("field", name, known)
      now = getattr(config.search, name, getattr(config.learning, name, others[name]))
      if settings[name] != now and (settings[name] != others[name] or name in _PLAYED):
        raise ConfigError(
          f"{name}={settings[name]!r} is no setting of {kind.kind} any more; allowed is {now!r}"
        )
    return config

  @in_config_errors()
  def make_game(self) -> games.Game:
    """Returns the game, with the search's changes to every hand and to what infostates remember.

    Raises:
      ConfigError: there is no such game, or it does not take these parameters.
    """
    game, vary = games.make(self.game, **dict(self.game_params)), self.search.vary
    game = game.vary(**dict(vary)) if vary else game
    game = game.forgetful() if self.grows else game
    game.prior()  # infostates may be too many
    return game

  def validate(self) -> None:
    """Checks every setting by itself and against the others; devices are checked elsewhere.

    Raises:
      ConfigError: a value is not allowed.
    """
    allowed.check(self)
    lanes, learning = self.self_play.lanes, self.learning
    rules = self.make_game()
    refused = {
      f"batch_size={learning.batch_size} must be at most buffer_size={learning.buffer_size}": (
        learning.batch_size > learning.buffer_size
      ),
      f"buffer_size={learning.buffer_size} must be at least {2 * lanes}, two examples for each of "
      f"lanes={lanes}": 2 * lanes > learning.buffer_size,
      f"uses_per_example={learning.uses_per_example} makes {self.gradient_steps} gradient steps; "
      f"{_MAX_COUNT} are the most": max(self.learn_steps, self.gradient_steps) > _MAX_COUNT,
      f"architecture='showdowns' needs a game of hold'em, not game={self.game!r}: others have no "
      "showdowns": self.network.architecture == "showdowns" and not isinstance(rules, Holdem),
    }
    for sentence, holds in refused.items():
      if holds:
        raise ConfigError(sentence)
    self.search.check(self.game, rules)


# Groups of settings, with those that are gone, and settings whose value is pairs.
_GROUPS = (
  "search", "self_play", "growing", "network", "learning", "evaluation", "schedule", "run",
)  # fmt: skip
# Settings of commands, and one that is gone and changed numbers by rounding alone: with any value
# the run is the same.
_IGNORED = {
  "output_dir", "resume", "num_devices", "checkpoint_every", "tensorboard", "fused_network",
}  # fmt: skip
# Settings that have another name, and the factor between their values.
_RENAMED = (
  ("eval_simulations", "eval_iterations", 2),
  ("eval_seeds", "eval_playthroughs", 1),
  ("final_seeds", "final_playthroughs", 1),
)
# Settings that are gone, at their defaults; where one is a constant of the search, that value is
# allowed too, and no other where it decides how agents play.
_GONE: dict[str, Any] = {
  "simulations": 0,
  "random_beliefs": False,
  "stop_sampling": "weighted",
  "max_gradient_norm": 1.0,
  "eval_per_update": 1.0,
  "puct": 1.25,
  "children": 0,
  "temperature": 1.0,
  "recursive_share": 0.1,
  "exploration": 0.1,
  "policy_weight": 0.05,
  "never_resign": 0.0,
}
_PLAYED = ("children", "temperature")


def _ungrouped(fields: Any, group: str) -> dict[str, Any]:
  """Returns settings by name, pairs as tuples."""
  if not isinstance(fields, dict):
    raise ConfigError(f"{group}={fields!r} must be a group of settings by name")
  settings: dict[str, Any] = {}
  for name, value in fields.items():
    if name in _GROUPS:
      settings |= _ungrouped(value, name)
    else:
      settings[name] = tuple(value.items()) if isinstance(value, dict) else value
  return settings
