"""Everything that can be set about a training run, and what is allowed."""

import dataclasses
import math
from typing import Annotated, Any

import games
from games.poker import Holdem
from rebel_jax.config import allowed, groups
from rebel_jax.config.allowed import ConfigError
from rebel_jax.config.growing import REBEL, GrowingSettings
from rebel_jax.networks.fused_layers import MAX_WIDTH
from rebel_jax.networks.optimizers import OPTIMIZERS
from rebel_jax.networks.value import ACTIVATIONS, PRECISIONS

_MAX_COUNT = 2**31 - 1
# The last quarter of the examples comes from searches of `late_iterations`.
_LATE_SHARE = 0.25
# Settings that searches in trees that grow know nothing of, and that would be missed.
_OF_REBEL = (
  "vary", "late_iterations", "level_values", "share_start", "play_on", "random_beliefs",
  "policy_network", "fused_network",
)  # fmt: skip
# Learning starts with as many batches in the buffer.
_MIN_BATCHES = 4


@dataclasses.dataclass(frozen=True)
class SearchSettings:
  """How self-play solves each subgame.

  Attributes:
    depth: Public actions, chance included, from a subgame's root to its leaves, fewer than the
      whole game has; or stage: to the end of a betting round or of a deal.
    algorithm: What solves subgames, with its parameters if others than the usual ones:
      "discounted_cfr(alpha=1.5, beta=0.5, gamma=4)".
    iterations: Iterations of each search; one player's update is one.
    late_iterations: Iterations of each search in the last quarter of training, whose targets are
      better and cost more; 0 for as many as before.
    level_values: Shift each player's values by one number for all infostates, so that both players'
      are worth what the average policies make the public belief state; this costs one more
      evaluation of the leaves.
  """

  depth: Annotated[int | str, allowed.depth()] = 2
  algorithm: Annotated[str, allowed.algorithm()] = "linear_cfr"
  iterations: Annotated[int, allowed.iterations()] = 128
  late_iterations: Annotated[int, allowed.iterations(0)] = 0
  level_values: bool = False


@dataclasses.dataclass(frozen=True)
class SelfPlaySettings:
  """How games of self-play go on from one search to the next.

  Attributes:
    examples: Training examples to generate, two for each subgame solved; with depth stage a lane
      solves several subgames in a step, and there are more.
    lanes: Games of self-play side by side, all devices together; a multiple of the devices.
    rows_fraction: Share of lanes times the largest subgame's leaves that one evaluation of the
      network has room for; lanes that find no room wait for the next step.
    share_start: Search the start of the game once a step for all lanes that begin a game; examples
      of the start, which is never a leaf, are then not trained on.
    stop_sampling: How the iteration is drawn whose policy play goes on with: weighted (by the
      algorithm's averaging weights, as in the paper's algorithm 2) or uniform.
    play_on: Probability that a game which would end within a subgame goes on at one of its leaves
      instead, so that late rounds have as many examples as early ones; the paper's games end.
    random_beliefs: Solve subgames at random beliefs instead of those that play leads to; a control
      that trains worse, as in the paper's figure 2.
  """

  examples: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 60_000
  lanes: Annotated[int, allowed.integer(1, 2**24)] = 64
  rows_fraction: Annotated[float, allowed.number(1.0)] = 0.7
  share_start: bool = False
  stop_sampling: Annotated[str, allowed.one_of(("weighted", "uniform"))] = "weighted"
  play_on: Annotated[float, allowed.number(1.0, zero=True)] = 0.0
  random_beliefs: bool = False


@dataclasses.dataclass(frozen=True)
class NetworkSettings:
  """The value network, and the policy network if there is one; hold'em has its own kind of both.

  Attributes:
    hidden_layers: Hidden layers.
    width: Units of each hidden layer.
    activation: Activation of the hidden layers; gelu in its tanh form.
    belief_roots: Successive square roots of the beliefs that are inputs beside them; networks for
      hold'em start from a root, not from the beliefs.
    showdown_inputs: Networks for hold'em also see what each hand wins of the opponent's range on
      the cards shown, and how much of that range it leaves possible.
    precision: What the factors of products are rounded to: default is the device's own (float32 on
      CPUs, TensorFloat-32 on NVIDIA's GPUs, bfloat16 on TPUs); bfloat16_activations also keeps in
      bfloat16 what hidden layers pass on. Sums are float32.
    fused_network: Compute all layers in one kernel where searches run on an NVIDIA GPU.
    policy_network: Train a policy network too and start every search from it, in training and in
      evaluation; this needs a form of CFR and a game without hidden moves.
  """

  hidden_layers: Annotated[int, allowed.integer(1, 1_000)] = 2
  width: Annotated[int, allowed.integer(1, 2**16)] = 256
  activation: Annotated[str, allowed.one_of(ACTIVATIONS)] = "gelu"
  belief_roots: Annotated[int, allowed.integer(0, 8)] = 0
  showdown_inputs: bool = False
  precision: Annotated[str, allowed.one_of(PRECISIONS)] = "default"
  fused_network: bool = False
  policy_network: bool = False


@dataclasses.dataclass(frozen=True)
class LearningSettings:
  """How the networks learn from examples.

  Attributes:
    optimizer: adam, or muon: momentum made orthogonal for matrices, Adam for the rest.
    learning_rate: Learning rate at the start.
    halve_every: Gradient steps after which the learning rate halves; 0 for a cosine decay to zero
      over the run.
    batch_size: Examples of a gradient step, all devices together; a multiple of the devices.
    uses_per_example: How often each example is trained on, on average.
    buffer_size: Examples kept in the circular replay buffer, all devices together; at least two a
      lane, and a multiple of the devices.
    max_gradient_norm: Global norm that gradients are clipped to; 0 for no clipping.
  """

  optimizer: Annotated[str, allowed.one_of(OPTIMIZERS)] = "adam"
  learning_rate: Annotated[float, allowed.number()] = 1e-3
  halve_every: Annotated[int, allowed.integer(0, _MAX_COUNT)] = 0
  batch_size: Annotated[int, allowed.integer(1, 2**24)] = 256
  uses_per_example: Annotated[float, allowed.number()] = 8.0
  buffer_size: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 65_536
  max_gradient_norm: Annotated[float, allowed.number(zero=True)] = 1.0

  @property
  def min_examples(self) -> int:
    """Examples in the buffer before learning starts, all devices together."""
    return min(_MIN_BATCHES * self.batch_size, self.buffer_size)


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
  """How exploitability is measured, during training and at its end.

  Attributes:
    evaluate_every: Examples between evaluations; 0 for an evaluation at the end only.
    eval_algorithm: What the evaluated agent searches with.
    eval_playthroughs: Playthroughs that an evaluation during training averages; or, of games too
      large for exploitability, hands played against each of several simple players.
    eval_iterations: Iterations of each search of those evaluations.
    final_playthroughs: Playthroughs that the evaluation at the end averages.
    final_iterations: Iterations of each search of the evaluation at the end.
  """

  evaluate_every: Annotated[int, allowed.integer(0)] = 10_000
  eval_algorithm: Annotated[str, allowed.algorithm()] = "linear_cfr"
  eval_playthroughs: Annotated[int, allowed.integer(1)] = 64
  eval_iterations: Annotated[int, allowed.iterations()] = 256
  final_playthroughs: Annotated[int, allowed.integer(1)] = 64
  final_iterations: Annotated[int, allowed.iterations()] = 1_024


@dataclasses.dataclass(frozen=True)
class RunSettings:
  """Where a run lives, how long it may take and what it leaves.

  Attributes:
    output_dir: Folder for configuration, metrics, checkpoints and figure; None for a new
      runs/PRESET-N.
    resume: Go on with the run in output_dir, or in the newest folder of runs/, with its settings;
      those that change what is trained must stay, but for the iterations of searches.
    max_seconds: Seconds after the start of the command, compilation included, when training stops
      and the run is evaluated and saved; a run that would be cut off is made shorter in time, so
      that its learning rate falls to zero.
    report_every: Steps of self-play in one compiled chunk, between reports.
    checkpoint_every: Seconds between checkpoints, beside those after evaluations.
    num_devices: Devices to train on, None for all; each core of a CPU counts as one, as long as it
      has 16 lanes to serve.
    tensorboard: Write the metrics as TensorBoard event files too; this needs the extra
      rebel-jax[tensorboard].
  """

  output_dir: Annotated[str | None, allowed.optional(allowed.path("folder"))] = None
  resume: bool = False
  max_seconds: Annotated[float | None, allowed.optional(allowed.number())] = None
  report_every: Annotated[int, allowed.integer(1, _MAX_COUNT)] = 10
  checkpoint_every: Annotated[float, allowed.number()] = 60.0
  num_devices: Annotated[int | None, allowed.optional(allowed.integer(1))] = None
  tensorboard: bool = False


@dataclasses.dataclass(frozen=True)
class Config:
  """The settings of a training run.

  Attributes:
    preset: Preset that the defaults of all other settings come from.
    game: Name of the game.
    game_params: Parameters of the game that differ from its usual ones, such as num_dice 2.
    vary: What is new in every hand of hold'em that self-play plays: stack LOW-HIGH (chips of each
      player before the hand), pot LOW-HIGH (chips in it at the start), bets SPREAD (each bet size
      moves by up to that much of the pot), board random (other cards). Evaluations measure the game
      that game_params name.
    seed: Seed of all randomness; on one kind of device it decides the run.
  """

  preset: Annotated[str, allowed.name()] = "liars_dice_1x4f"
  game: Annotated[str, allowed.text("GAME")] = "liars_dice"
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = (
    ("num_dice", 1),
    ("num_faces", 4),
  )
  vary: Annotated[tuple[tuple[str, int | float | str], ...], allowed.pairs(int, float)] = ()
  seed: Annotated[int, allowed.integer(0, 2**32 - 1)] = 0
  search: SearchSettings = SearchSettings()
  self_play: SelfPlaySettings = SelfPlaySettings()
  growing: GrowingSettings = REBEL
  network: NetworkSettings = NetworkSettings()
  learning: LearningSettings = LearningSettings()
  evaluation: EvaluationSettings = EvaluationSettings()
  run: RunSettings = RunSettings()

  @property
  def grows(self) -> bool:
    """Whether searches are in trees that grow."""
    return self.growing.simulations > 0

  @property
  def solves_per_step(self) -> int:
    """Subgames solved in a step of self-play, at most, all devices together.

    Where trees grow it is as many states as are learned on average.
    """
    if not self.grows:
      return self.self_play.lanes
    return math.ceil(round(self._solves_of_growing, 6))

  @property
  def questions_per_step(self) -> int:
    """Questions of growing searches solved in a step, at most, all devices together."""
    return math.ceil(round(self.self_play.lanes * self.growing.questions_per_lane, 6))

  @property
  def _solves_of_growing(self) -> float:
    return self.self_play.lanes * self.growing.examples_per_lane

  @property
  def num_steps(self) -> int:
    """Steps of self-play in the run: each makes two examples of what it solves."""
    solves = self._solves_of_growing if self.grows else self.self_play.lanes
    return math.ceil(self.self_play.examples / (2 * solves))

  @property
  def late_step(self) -> int:
    """The step after which searches have `late_iterations`; `num_steps` if they never do."""
    return round(self.num_steps * (1 - _LATE_SHARE * (self.search.late_iterations > 0)))

  @property
  def last_iterations(self) -> int:
    """Iterations of the searches that training ends with."""
    late = self.late_step < self.num_steps
    return self.search.late_iterations if late else self.search.iterations

  @property
  def learn_steps(self) -> int:
    """Gradient steps after each step of self-play."""
    # Where trees grow, one example of the buffer is about both players.
    made = self.solves_per_step * (1 if self.grows else 2)
    uses = self.learning.uses_per_example * made
    return max(1, round(uses / self.learning.batch_size))

  def replace(self, **changes: Any) -> "Config":
    """Returns the configuration with some settings changed, each named without its group.

    Raises:
      ConfigError: there is no setting of a name.
    """
    return groups.replace(self, **changes)

  def to_dict(self) -> dict[str, Any]:
    """Returns the settings as JSON can hold them: groups and pairs as dicts."""
    return groups.to_dict(self)

  @classmethod
  def from_dict(cls, fields: dict[str, Any]) -> "Config":
    """Returns the configuration that `to_dict` gave; missing settings take their defaults.

    Raises:
      ConfigError: there is a setting or group that is not one.
    """
    return groups.from_dict(cls, fields, "config")

  def make_game(self) -> games.Game:
    """Returns the game, with what `vary` says is new in every hand.

    Raises:
      ConfigError: there is no such game, no tree of it can be made beforehand, or it does not take
        these parameters.
    """
    if self.on_device:
      raise ConfigError(
        f"game={self.game!r} is played by searches that make their trees on the device, and cannot "
        "be used where a tree is made beforehand"
      )
    try:
      game = games.make(self.game, **dict(self.game_params))
      return game.vary(**dict(self.vary)) if self.vary else game
    except (ValueError, TypeError) as error:
      raise ConfigError(str(error)) from None

  @property
  def on_device(self) -> bool:
    """Whether searches make their trees on the device, of rules there, and none is beforehand."""
    known = self.game in games.registered_on_device()
    return known and (self.grows or self.game not in games.registered_games())

  def make_rules(self) -> games.Game | games.DeviceGame:
    """Returns what `make_game` does, or, where `on_device`, the rules.

    Raises:
      ConfigError: there is no such game, or it does not take these parameters.
    """
    if not self.on_device:
      return self.make_game()
    if self.vary:
      raise ConfigError(f"vary={self.vary} must be empty for game={self.game!r}")
    try:
      return games.make_on_device(self.game, **dict(self.game_params))
    except (ValueError, TypeError) as error:
      raise ConfigError(str(error)) from None

  def validate(self) -> None:
    """Checks every setting by itself and against the others; devices are checked elsewhere.

    Raises:
      ConfigError: a value is not allowed.
    """
    groups.check(self)
    lanes, learning = self.self_play.lanes, self.learning
    if learning.batch_size > learning.buffer_size:
      raise ConfigError(
        f"batch_size={learning.batch_size} must be at most buffer_size={learning.buffer_size}"
      )
    if 2 * lanes > learning.buffer_size:
      raise ConfigError(
        f"buffer_size={learning.buffer_size} must be at least {2 * lanes}, two examples for each "
        f"of lanes={lanes}"
      )
    if self.network.fused_network and self.network.width > MAX_WIDTH:
      raise ConfigError(
        f"width={self.network.width} must be at most {MAX_WIDTH} where fused_network is on: wider "
        "layers do not fit one kernel"
      )
    if self.grows:
      self._check_growing()
    rules = self.make_rules()
    if self.network.showdown_inputs and not isinstance(rules, Holdem):
      raise ConfigError(
        f"showdown_inputs=True needs a game of hold'em, not game={self.game!r}: others have no "
        "showdowns"
      )
    perfect = rules.num_infostates == 1
    self.growing.check(self.game, on_device=self.on_device, perfect=perfect)

  def _check_growing(self) -> None:
    sizes, defaults = groups.flat(self), groups.flat(Config())
    for name in _OF_REBEL:
      if sizes[name] != defaults[name]:
        raise ConfigError(
          f"{name}={sizes[name]!r} is about ReBeL's searches; with "
          f"simulations={self.growing.simulations}, whose trees grow, it must be "
          f"{defaults[name]!r}"
        )

  def check_devices(self, num_devices: int) -> None:
    """Checks that lanes, batches and the buffer divide evenly over `num_devices`.

    Raises:
      ConfigError: one does not.
    """
    sizes = groups.flat(self)
    for field in ("lanes", "batch_size", "buffer_size"):
      if sizes[field] % num_devices:
        raise ConfigError(f"{field}={sizes[field]} must be a multiple of the {num_devices} devices")
