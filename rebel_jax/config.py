"""Everything that can be set about a training run, and what is allowed."""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

import games
from rebel_jax.checks import (
  ConfigError,
  check_algorithm,
  check_depth,
  check_integer,
  check_number,
  is_path,
  unknown,
)
from rebel_jax.fused_layers import MAX_WIDTH
from rebel_jax.learner import OPTIMIZERS
from rebel_jax.networks import ACTIVATIONS, PRECISIONS

STOP_SAMPLING = ("weighted", "uniform")
NETWORKS = ("mlp", "cards")
_MAX_COUNT = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Config:
  """Train ReBeL by self-play. Without flags: Liar's Dice with one die of four faces each.

  Attributes:
    preset: Where the defaults of all other flags come from: liars_dice_1x4f, liars_dice_1x5f,
      liars_dice_1x6f, liars_dice_2x3f (this project's recipes), the same names with _paper (the
      settings of the ReBeL paper, appendix E), kuhn_poker, leduc_poker, rock_paper_scissors,
      small_turn_endgame_holdem (18 cards), small_turn_endgame_holdem_varied (other stacks and bets
      in every game) or turn_endgame_holdem_paper (for accelerators).
    game: Name of a registered game: kuhn_poker, leduc_poker, liars_dice, rock_paper_scissors,
      turn_endgame_holdem or small_holdem.
    game_params: Parameters of the game, as pairs of a name and an integer or text; liars_dice takes
      num_dice (dice a player) and num_faces, each at least 1, turn_endgame_holdem board, pot,
      stack, big_blind, bets, ranks and suits, small_holdem ranks, suits, stack, big_blind and bets,
      other games none.
    variants: How many games, drawn at random by vary and seed, self-play plays instead of the one
      that game_params name, which is what evaluations measure; 0 for that one alone.
    vary: What a variant may change, as pairs of a name and text, for games of hold'em: stack
      LOW-HIGH (chips of each player before the hand), pot LOW-HIGH (chips in it at the start), bets
      SPREAD (each bet size moves by up to that much of the pot), board random (other cards).
    starts_per_step: Variants whose starts are searched in a step for all lanes, drawn anew every
      step, where share_start is set; at least 1.
    depth: Public actions, chance included, from the root of a subgame to its leaves, at least 1
      and less than the whole game's; or stage: to the end of a round of betting, or of a deal.
    algorithm: What solves subgames in training: vanilla_cfr, cfr_plus, linear_cfr, discounted_cfr,
      predictive_cfr_plus, fictitious_play, linear_fictitious_play,
      linear_optimistic_fictitious_play, or CFR-AVG as vanilla_cfr_avg, cfr_plus_avg,
      linear_cfr_avg, discounted_cfr_avg or predictive_cfr_plus_avg. With parameters of its own:
      "discounted_cfr(alpha=1.5, beta=0.5, gamma=4)".
    iterations: Iterations of each search in training; one player's update is one, so the number is
      even, at least 2.
    late_iterations: Iterations of each search in the last part of training, whose targets are
      better and cost more; even, 0 for as many as before.
    late_share: How much of the examples that part makes, from 0 to 1.
    stop_sampling: How the iteration is drawn whose policy play goes on with: weighted (by the
      algorithm's averaging weights, as in the paper's algorithm 2) or uniform.
    values_of_average: Train on the values of the average policies rather than on the mean over
      iterations.
    level_values: Shift each player's values, by one number for all infostates, so that the public
      belief state is worth what the average policies make it, and to the other player the opposite.
      Costs one more evaluation of the leaves a search.
    inner_rows: Public states inside each solved subgame, drawn by how often its average policy goes
      there, that examples are made of too, beside those that examples and uses_per_example count;
      0 for none, more need a depth of at least 2.
    share_start: Search the start of the game once a step for all lanes that begin a new game,
      rather than once for each of them. Examples of the start, which is never a leaf, are then not
      trained on.
    exploration: Probability, from 0 to 1, of a uniform move by the one player that explores.
    random_beliefs: Control, as in the paper's Figure 2: solve subgames at random beliefs instead
      of those that play leads to. Trains worse.
    lanes: Games of self-play side by side, all devices together; at least 1, a multiple of the
      number of devices.
    rows_fraction: Share, above 0 and at most 1, of lanes times the largest subgame's leaves that
      one evaluation of the network has room for; lanes that find no room wait for the next step.
    hidden_layers: Hidden layers of the value network; at least 1.
    width: Units of each hidden layer; at least 1.
    activation: Activation of the hidden layers: gelu (its tanh form), relu or silu.
    layer_norm: Normalise hidden layers before their activation.
    belief_roots: Successive square roots of the beliefs that the networks see beside them; at
      least 0: with 2 they see the beliefs, their square roots and their fourth roots.
    precision: What the factors of the network's products are rounded to: default (the device's
      own: float32 on CPUs, TensorFloat-32 on NVIDIA's GPUs, bfloat16 on TPUs), float32,
      tensorfloat32 or bfloat16; bfloat16_activations also keeps what hidden layers pass on in
      bfloat16, half the bytes. Sums are float32.
    fused_network: Compute all layers of the value network in one kernel where searches run on an
      NVIDIA GPU; width must then be at most 256. No effect elsewhere.
    network: How the networks see public states: mlp (numbers as they are), or cards for hold'em
      (embeddings of the cards shown, values learned in pots).
    card_embedding: Numbers that stand for a card, where network is cards; at least 1.
    policy_network: Train a policy network too, of the same size, and start every search from it, in
      training and in evaluation (needs a form of CFR, and a game without hidden moves).
    warm_start: Iterations of each player that the policy network's policy counts as in a search; at
      least 1, 15 in the paper.
    optimizer: adam, or muon: momentum made orthogonal for matrices, Adam for the rest. It learns
      more from each step, at a larger learning rate, and takes longer for it.
    learning_rate: The optimizer's learning rate at the start; a positive number.
    halve_every: Gradient steps after which the learning rate halves; 0 for a cosine decay to zero
      over the run.
    batch_size: Examples a gradient step, all devices together; at least 1, at most buffer_size, a
      multiple of the number of devices.
    uses_per_example: How often each example is trained on, on average; a positive number. Sets the
      gradient steps after each step of self-play, at least 1.
    buffer_size: Examples kept in the circular replay buffer, all devices together; at least two a
      lane, a multiple of the number of devices.
    min_examples: Examples in the buffer before learning starts; at least 1, at most buffer_size.
    max_gradient_norm: Gradients are clipped to this global norm; 0 for no clipping.
    examples: Training examples to generate, two for each subgame solved; the run ends after the
      steps that make that many if no lane waits and each plays one subgame a step (with depth
      stage a lane plays several, and there are more). At least 1.
    max_seconds: Stop training after this many seconds since the command started, compilation
      included, then evaluate and save; a positive number, or None for no limit. A run that would
      be cut off is made shorter in time, so that its learning rate falls to zero.
    report_every: Steps of self-play in one compiled chunk, between reports; at least 1.
    evaluate_every: Examples between evaluations during training; 0 for an evaluation at the end
      only.
    eval_playthroughs: Playthroughs that an evaluation during training averages; at least 1.
    eval_iterations: Iterations of each search in those evaluations; one player's update is one, so
      the number is even, at least 2.
    eval_algorithm: What the evaluated agent searches with; the same names as algorithm.
    final_playthroughs: Playthroughs that the evaluation at the end averages; at least 1.
    final_iterations: Iterations of each search in the evaluation at the end; even, at least 2.
    num_devices: Devices to train on, from 1 to those there are; None for all. Each core of a CPU
      counts as one, as long as it has 16 lanes to serve.
    distributed: Train together with the other processes of the job, as SLURM, Open MPI, Kubernetes
      or a TPU pod start them; elsewhere JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
      JAX_PROCESS_ID name them. Needs output_dir, on a file system that all share.
    seed: Seed of all randomness, from 0 to 4,294,967,295; on one kind of device it decides the run.
    output_dir: Folder for configuration, metrics, checkpoints and figure; None for a new
      runs/PRESET-N.
    resume: Go on with the run in output_dir, or in the newest folder of runs/. Settings are the
      run's own; what would change training cannot be changed, but for iterations of its searches.
    checkpoint_every: Seconds between checkpoints, beside those after evaluations; positive.
    keep_checkpoints: Newest checkpoints to keep, beside that of lowest exploitability; at least 1.
    tensorboard: Write the metrics also as TensorBoard event files, to the run's folder; needs the
      extra rebel-jax[tensorboard].
  """

  preset: str = "liars_dice_1x4f"
  game: str = "liars_dice"
  game_params: tuple[tuple[str, int | str], ...] = (("num_dice", 1), ("num_faces", 4))
  variants: int = 0
  vary: tuple[tuple[str, int | float | str], ...] = ()
  starts_per_step: int = 4

  depth: int | str = 2
  algorithm: str = "linear_cfr"
  iterations: int = 128
  late_iterations: int = 0
  late_share: float = 0.25
  stop_sampling: str = "weighted"
  values_of_average: bool = False
  level_values: bool = False
  inner_rows: int = 0
  share_start: bool = False
  exploration: float = 0.25
  random_beliefs: bool = False
  lanes: int = 64
  rows_fraction: float = 0.7

  hidden_layers: int = 2
  width: int = 256
  activation: str = "gelu"
  layer_norm: bool = True
  belief_roots: int = 0
  precision: str = "default"
  fused_network: bool = False
  network: str = "mlp"
  card_embedding: int = 64
  policy_network: bool = False
  warm_start: int = 15

  optimizer: str = "adam"
  learning_rate: float = 1e-3
  halve_every: int = 0
  batch_size: int = 256
  uses_per_example: float = 8.0
  buffer_size: int = 65_536
  min_examples: int = 1_024
  max_gradient_norm: float = 1.0

  examples: int = 60_000
  max_seconds: float | None = None

  report_every: int = 10
  evaluate_every: int = 10_000
  eval_playthroughs: int = 64
  eval_iterations: int = 256
  eval_algorithm: str = "linear_cfr"
  final_playthroughs: int = 64
  final_iterations: int = 1_024

  num_devices: int | None = None
  distributed: bool = False
  seed: int = 0
  output_dir: str | None = None
  resume: bool = False
  checkpoint_every: float = 60.0
  keep_checkpoints: int = 3
  tensorboard: bool = False

  @property
  def num_steps(self) -> int:
    """Steps of self-play in the run: each makes at most two examples a lane."""
    return math.ceil(self.examples / (2 * self.lanes))

  @property
  def late_step(self) -> int:
    """The step after which searches have `late_iterations`; `num_steps` if they never do."""
    return round(self.num_steps * (1 - self.late_share * (self.late_iterations > 0)))

  @property
  def last_iterations(self) -> int:
    """Iterations of the searches that training ends with."""
    return self.iterations if self.late_step == self.num_steps else self.late_iterations

  @property
  def learn_steps(self) -> int:
    """Gradient steps after each step of self-play."""
    return max(1, round(self.uses_per_example * 2 * self.lanes / self.batch_size))

  def to_dict(self) -> dict[str, Any]:
    """Returns the fields as JSON can hold them; pairs as a dict."""
    return dataclasses.asdict(self) | {name: dict(getattr(self, name)) for name in _PAIRS}

  @classmethod
  def from_dict(cls, fields: dict[str, Any]) -> "Config":
    """Returns the configuration that `to_dict` gave; missing fields take their defaults.

    Raises:
      ConfigError: there is a field that is not one.
    """
    names = [field.name for field in dataclasses.fields(cls)]
    for name in fields:
      if name not in names:
        raise unknown("field", name, names)
    pairs = {name: fields[name] for name in _PAIRS if isinstance(fields.get(name), dict)}
    return cls(**fields | {name: tuple(value.items()) for name, value in pairs.items()})

  def make_game(self) -> games.Game:
    """Returns the game, its infostates numbered as in all its variants.

    Raises:
      ConfigError: there is no such game, or it does not take these parameters.
    """
    game, variation = self._games()
    return game if variation is None else variation.base

  def make_variants(self) -> list[games.Game]:
    """Returns the games that self-play plays instead of the game itself, none if that is played.

    The seed decides which they are; more of them begin with the same ones.
    """
    _, variation = self._games()
    rng = np.random.default_rng(self.seed)
    return [] if variation is None else [variation.draw(rng) for _ in range(self.variants)]

  def _games(self) -> tuple[games.Game, games.Variation | None]:
    for name in _PAIRS:
      pairs = getattr(self, name)
      if not isinstance(pairs, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
      ):
        raise ConfigError(f"{name}={pairs!r} must be pairs of a name and a number or text")
    try:
      game = games.make(self.game, **dict(self.game_params))
      return game, game.vary(**dict(self.vary)) if self.vary else None
    except (ValueError, TypeError) as error:
      raise ConfigError(str(error)) from None

  def validate(self) -> None:
    """Checks every field by itself and against the others; devices are checked elsewhere.

    Raises:
      ConfigError: a value is not allowed.
    """
    if not isinstance(self.preset, str) or not re.fullmatch(r"[\w.-]+", self.preset):
      raise ConfigError(f"preset={self.preset!r} must be a name of letters, digits, '_', '-', '.'")
    for field, low, high in _INTEGERS:
      check_integer(field, getattr(self, field), low, high)
    for field, greatest, zero in _NUMBERS:
      check_number(field, getattr(self, field), greatest, zero=zero)
    for field in _FLAGS:
      if not isinstance(getattr(self, field), bool):
        raise ConfigError(f"{field}={getattr(self, field)!r} must be True or False")
    check_depth(self.depth)
    for field, known in _NAMES.items():
      value = getattr(self, field)
      if not isinstance(value, str) or value not in known:
        raise unknown(field, value, known)
    for field in ("algorithm", "eval_algorithm"):
      check_algorithm(field, getattr(self, field))
    for field in ("iterations", "late_iterations", "eval_iterations", "final_iterations"):
      if getattr(self, field) % 2:
        raise ConfigError(
          f"{field}={getattr(self, field)} must be even: one player's update is one iteration"
        )
    if self.max_seconds is not None:
      check_number("max_seconds", self.max_seconds, None, zero=False)
    if self.num_devices is not None:
      check_integer("num_devices", self.num_devices, 1, None)
    for field in ("batch_size", "min_examples"):
      if getattr(self, field) > self.buffer_size:
        raise ConfigError(
          f"{field}={getattr(self, field)} must be at most buffer_size={self.buffer_size}"
        )
    if 2 * self.lanes > self.buffer_size:
      raise ConfigError(
        f"buffer_size={self.buffer_size} must be at least {2 * self.lanes}, two examples for each "
        f"of lanes={self.lanes}"
      )
    if self.output_dir is not None and not is_path(self.output_dir):
      raise ConfigError(f"output_dir={self.output_dir!r} must be the path of a folder")
    if self.fused_network and self.width > MAX_WIDTH:
      raise ConfigError(
        f"width={self.width} must be at most {MAX_WIDTH} where fused_network is on: wider layers "
        "do not fit one kernel"
      )
    if self.variants and not self.vary:
      raise ConfigError(
        f"variants={self.variants} must be 0 where vary is empty: then all would be the same game"
      )
    self.make_game()

  def check_devices(self, num_devices: int) -> None:
    """Checks that lanes, batches and the buffer divide evenly over `num_devices`.

    Raises:
      ConfigError: one does not.
    """
    for field in ("lanes", "batch_size", "buffer_size"):
      if getattr(self, field) % num_devices:
        raise ConfigError(
          f"{field}={getattr(self, field)} must be a multiple of the {num_devices} devices"
        )


_NAMES: dict[str, Iterable[str]] = {
  "network": NETWORKS,
  "stop_sampling": STOP_SAMPLING,
  "activation": ACTIVATIONS,
  "precision": PRECISIONS,
  "optimizer": OPTIMIZERS,
}
_PAIRS = ("game_params", "vary")
_FLAGS = (
  "values_of_average", "level_values", "share_start", "random_beliefs", "layer_norm",
  "fused_network", "policy_network", "distributed", "resume", "tensorboard",
)  # fmt: skip
# Field, least and greatest value.
_INTEGERS = (
  ("variants", 0, 4_096),
  ("starts_per_step", 1, 4_096),
  ("iterations", 2, 2**24),
  ("late_iterations", 0, 2**24),
  ("inner_rows", 0, 1_000),
  ("lanes", 1, 2**24),
  ("hidden_layers", 1, 1_000),
  ("width", 1, 2**16),
  ("belief_roots", 0, 8),
  ("card_embedding", 1, 2**16),
  ("warm_start", 1, 1_000),
  ("halve_every", 0, _MAX_COUNT),
  ("batch_size", 1, 2**24),
  ("buffer_size", 1, _MAX_COUNT),
  ("min_examples", 1, None),
  ("examples", 1, _MAX_COUNT),
  ("report_every", 1, _MAX_COUNT),
  ("evaluate_every", 0, None),
  ("eval_playthroughs", 1, None),
  ("eval_iterations", 2, 2**24),
  ("final_iterations", 2, 2**24),
  ("final_playthroughs", 1, None),
  ("seed", 0, 2**32 - 1),
  ("keep_checkpoints", 1, None),
)
# Field, greatest value, and whether zero is allowed.
_NUMBERS: tuple[tuple[str, float | None, bool], ...] = (
  ("late_share", 1.0, True),
  ("exploration", 1.0, True),
  ("max_gradient_norm", None, True),
  ("rows_fraction", 1.0, False),
  ("learning_rate", None, False),
  ("uses_per_example", None, False),
  ("checkpoint_every", None, False),
)
