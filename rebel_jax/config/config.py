"""Everything that can be set about the training of a run, and what is allowed."""

import dataclasses
import math
from typing import Annotated, Any

import games
from games.poker import Holdem
from rebel_jax.config import allowed, groups
from rebel_jax.config.allowed import ConfigError, in_config_errors, unknown
from rebel_jax.config.search import (
  KINDS,
  REBEL,
  DeepCFR,
  GrowingSearch,
  PerfectSearch,
  ReBeLSearch,
  check_kind,
)
from rebel_jax.networks.fused_layers import MAX_WIDTH
from rebel_jax.networks.optimizers import OPTIMIZERS
from rebel_jax.networks.registry import NETWORKS
from rebel_jax.networks.value import ACTIVATIONS, PRECISIONS

_MAX_COUNT = 2**31 - 1
# The last quarter of the examples comes from searches of `late_iterations`.
_LATE_SHARE = 0.25
# Learning starts with as many batches in the buffer.
_MIN_BATCHES = 4


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

  @property
  def min_examples(self) -> int:
    """Examples in the buffer before learning starts, all devices together."""
    return min(_MIN_BATCHES * self.batch_size, self.buffer_size)


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

  preset: Annotated[str, allowed.name()] = "liars_dice_1x4f"
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
    raise ConfigError(f"preset={self.preset!r} has {self.search.kind}, and no searches of ReBeL")

  @property
  def growing(self) -> GrowingSearch:
    """The search, where it grows trees; ConfigError where it does not."""
    if isinstance(self.search, GrowingSearch):
      return self.search
    raise ConfigError(f"preset={self.preset!r} has {self.search.kind}, which do not grow trees")

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
    return groups.replace(self, **changes)

  def to_dict(self) -> dict[str, Any]:
    """Returns the settings as JSON can hold them: groups and pairs as dicts."""
    return groups.to_dict(self)

  @classmethod
  def from_dict(cls, fields: dict[str, Any]) -> "Config":
    """Returns the configuration that `to_dict` gave, of an earlier version too.

    Missing settings take their defaults; those that are gone are ignored at theirs.

    Raises:
      ConfigError: there is a setting or group that is not one, or one that is gone with another
        value.
    """
    return _read(cls(), fields)

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
    groups.check(self)
    lanes, learning, width = self.self_play.lanes, self.learning, self.network.width
    rules = self.make_game()
    refused = {
      f"batch_size={learning.batch_size} must be at most buffer_size={learning.buffer_size}": (
        learning.batch_size > learning.buffer_size
      ),
      f"buffer_size={learning.buffer_size} must be at least {2 * lanes}, two examples for each of "
      f"lanes={lanes}": 2 * lanes > learning.buffer_size,
      f"uses_per_example={learning.uses_per_example} makes {self.gradient_steps} gradient steps; "
      f"{_MAX_COUNT} are the most": max(self.learn_steps, self.gradient_steps) > _MAX_COUNT,
      f"width={width} must be at most {MAX_WIDTH} where fused_network is on: wider layers do not "
      "fit one kernel": self.search.fused_network and width > MAX_WIDTH,
      f"architecture='showdowns' needs a game of hold'em, not game={self.game!r}: others have no "
      "showdowns": self.network.architecture == "showdowns" and not isinstance(rules, Holdem),
    }
    for sentence, holds in refused.items():
      if holds:
        raise ConfigError(sentence)
    self.search.check(self.game, rules)

  def check_devices(self, num_devices: int) -> None:
    """Checks that lanes, batches and the buffer divide evenly over `num_devices`.

    Raises:
      ConfigError: one does not.
    """
    sizes = groups.flat(self)
    for field in ("lanes", "batch_size", "buffer_size"):
      if sizes[field] % num_devices:
        raise ConfigError(f"{field}={sizes[field]} must be a multiple of the {num_devices} devices")


# Groups of settings, with those that are gone, and settings whose value is pairs.
_GROUPS = (
  "search", "self_play", "growing", "network", "learning", "evaluation", "schedule", "run",
)  # fmt: skip
# Settings that belong to a command, not to what is trained.
_OF_COMMANDS = {"output_dir", "resume", "num_devices", "checkpoint_every", "tensorboard"}
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


def _read(default: Any, fields: Any) -> Any:
  """Returns the configuration that `groups.to_dict` made `fields` of.

  Args:
    default: a `Config` whose settings those that are missing take.
    fields: by group; settings that are gone, and those of other searches, are ignored at their
      defaults.

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
  config = groups.replace(default, search=kind())
  known = groups.flat(config)
  config = groups.replace(config, **{k: v for k, v in settings.items() if k in known})
  others = {k: v for other in KINDS for k, v in vars(other()).items()} | _GONE
  for name in sorted(settings.keys() - known.keys() - _OF_COMMANDS):
    if name not in others:
      raise unknown("field", name, known)
    now = getattr(config.search, name, getattr(config.learning, name, others[name]))
    if settings[name] != now and (settings[name] != others[name] or name in _PLAYED):
      raise ConfigError(
        f"{name}={settings[name]!r} is no setting of {kind.kind} any more; allowed is {now!r}"
      )
  return config


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
