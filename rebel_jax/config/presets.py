"""Named configurations: where the defaults of a run come from.

Liar's Dice `NxFf` is N dice a player with F faces. Names with `_paper` hold what section 7 and
appendix E of the ReBeL paper say: a value network of two layers of 256 with GELU and LayerNorm,
Adam at 3e-4 halved every 400 epochs of 25,600 examples in batches of 512, 1,000 epochs, Linear CFR
of 1,024 iterations, exploration 0.25. What it leaves open is set here so:

- Each example is used about four times, as in the paper's program, so 25.6 million uses take
  6.4 million examples.
- The one buffer whose size is given holds 12 million examples: more than are ever generated, so
  a buffer for all of them is the same. Half of the data is not removed after 20 epochs, which the
  paper says of poker.
- No gradient clipping; the stopping iteration is drawn as in algorithm 2, by linear weights.
- Lanes, rows and chunks are how this program runs and have no part in the paper.
"""

import re
from typing import Any

from games import LiarsDice
from games.arrays import checked
from rebel_jax.config.allowed import unknown
from rebel_jax.config.config import Config, DeepCFR, GrowingSearch, PerfectSearch
from solvers import tuning

# An optimizer that learns several times more of each step and pays for it with time, and inputs
# that tell small beliefs apart (docs/results/training.md).
MUON: dict[str, Any] = {
  "belief_roots": 2,
  "optimizer": "muon",
  "learning_rate": 0.02,
  "batch_size": 512,
}


def _preset(
  base: dict[str, Any], preset: str, game: str, game_params: Any = (), **settings: Any
) -> Config:
  """Returns a configuration with the settings of `base` but for those that it has itself."""
  return Config().replace(preset=preset, game=game, game_params=game_params, **base | settings)


def _dice(num_dice: int, num_faces: int) -> tuple[tuple[str, int], ...]:
  return (("num_dice", num_dice), ("num_faces", num_faces))


# Player of Games (docs/resolving.md). Of its training on Leduc poker the paper says PoG(100, 1) and
# no more; the rest is ours.
_GROWING: dict[str, Any] = MUON | {
  "batch_size": 256,
  "hidden_layers": 4,
  "width": 96,
  "activation": "relu",
  "simulations": 100,
  "lanes": 32,
  "uses_per_example": 24.0,
  "buffer_size": 131_072,
  "report_every": 20,
}

# Where infostates are hidden: updates in turn, and a gadget that trusts earlier searches by half,
# leave a third less to exploit on Leduc poker than PoG's own (docs/results/growing.md).
_HIDDEN = GrowingSearch(alternating=True, mix=0.5, query_share=0.8)

_PERFECT: dict[str, Any] = {"search": PerfectSearch(final_playthroughs=8), "batch_size": 512}


GROWING = (
  _preset(
    _GROWING,
    "pog_kuhn",
    "kuhn_poker",
    search=_HIDDEN,
    hidden_layers=2,
    width=64,
    simulations=30,
    buffer_size=16_384,
    examples=20_000,
    evaluate_every=10_000,
    eval_iterations=60,
    eval_playthroughs=10,
    final_playthroughs=50,
  ),
  _preset(
    _GROWING,
    "pog_leduc",
    "leduc_poker",
    search=_HIDDEN,
    examples=60_000,
    evaluate_every=20_000,
    max_seconds=900.0,
  ),
  _preset(
    _GROWING,
    "pog_liars_dice_1x4f",
    "liars_dice",
    search=_HIDDEN,
    game_params=_dice(1, 4),
    examples=60_000,
    evaluate_every=20_000,
    max_seconds=900.0,
  ),
  _preset(
    _GROWING,
    "pog_tic_tac_toe",
    "tic_tac_toe",
    **_PERFECT,
    hidden_layers=3,
    width=128,
    simulations=50,
    lanes=64,
    td1_share=0.2,
    query_share=0.5,
    greedy_after=6,
    uses_per_example=16.0,
    buffer_size=65_536,
    examples=50_000,
    evaluate_every=10_000,
  ),
  _preset(
    _GROWING,
    "pog_connect_four",
    "connect_four",
    **_PERFECT,
    width=256,
    simulations=100,
    lanes=128,
    td1_share=0.5,
    query_share=0.3,
    greedy_after=16,
    resign_below=0.9,
    uses_per_example=4.0,
    buffer_size=262_144,
    examples=1_000_000,
    evaluate_every=100_000,
  ),
  _preset(
    _GROWING,
    "pog_glasses",
    "scotland_yard",
    search=_HIDDEN,
    simulations=16,
    lanes=16,
    uses_per_example=48.0,
    examples=20_000,
    evaluate_every=10_000,
    max_seconds=900.0,
    eval_iterations=64,
    eval_playthroughs=1,
    final_playthroughs=2,
  ),
)


# Deep CFR (docs/results/growing.md): networks, memories and traversals are a small machine's. Each
# traversal is used so often that an iteration takes 300 gradient steps for each network.
_DEEP: dict[str, Any] = {
  "search": DeepCFR(alternating=True),
  "lanes": 32,
  "hidden_layers": 3,
  "width": 64,
  "activation": "relu",
  "learning_rate": 3e-3,
  "batch_size": 1_024,
  "uses_per_example": 4_800.0,
  "buffer_size": 2**19,
  "examples": 25_600,
  "report_every": 5,
  "evaluate_every": 3_200,
  "max_seconds": 600.0,
}


DEEP = (
  _preset(
    _DEEP,
    "deep_cfr_kuhn",
    "kuhn_poker",
    hidden_layers=2,
    batch_size=256,
    lanes=64,
    uses_per_example=200.0,
    buffer_size=2**15,
    examples=6_400,
    evaluate_every=1_280,
  ),
  _preset(_DEEP, "deep_cfr_leduc", "leduc_poker"),
  _preset(_DEEP, "deep_cfr_liars_dice_1x4f", "liars_dice", _dice(1, 4)),
  _preset(_DEEP, "deep_cfr_liars_dice_1x5f", "liars_dice", _dice(1, 5)),
)


_EPOCH = 25_600


_PAPER: dict[str, Any] = {
  "depth": 2,
  "algorithm": "linear_cfr",
  "iterations": 1_024,
  "level_values": False,
  "share_start": False,
  "lanes": 64,
  "rows_fraction": 0.5,
  "hidden_layers": 2,
  "width": 256,
  "activation": "gelu",
  "learning_rate": 3e-4,
  "halve_every": 400 * _EPOCH // 512,
  "batch_size": 512,
  "uses_per_example": 4.0,
  "buffer_size": 256 * _EPOCH,
  "examples": 1_000 * _EPOCH // 4,
  "report_every": 2,
  "evaluate_every": 10 * _EPOCH,
}


# Found by measuring, see docs/results/training.md: short searches whose start is shared, and whose
# values are levelled; a deep, narrow network, which learns more than the paper's with two fifths of
# the multiplications; and a buffer that forgets slowly.
_RECIPE: dict[str, Any] = MUON | {
  "algorithm": "discounted_cfr",
  "iterations": 64,
  "level_values": True,
  "share_start": True,
  "rows_fraction": 0.3,
  "hidden_layers": 4,
  "width": 96,
  "activation": "relu",
  "uses_per_example": 4.0,
  "buffer_size": 2**19,
  "report_every": 20,
  # Good with networks that are trained to their end and with those that are not. With one of the
  # latter beta=0.5, gamma=4 leaves seven times more to exploit (docs/results/training.md).
  "eval_algorithm": "discounted_cfr",
}


# Runs of a minute that show a game being learned.
_SMALL: dict[str, Any] = _RECIPE | {
  "lanes": 32,
  "rows_fraction": 1.0,
  "batch_size": 256,
  "buffer_size": 131_072,
}


# Larger games: their playthroughs take longer, and what short searches say of single infostates is
# too wrong for them, so the last quarter of the examples comes of longer ones. Gradient steps are a
# tenth of their time at most, so more uses are nearly free; longer searches are worth the examples
# that they cost.
_LARGER: dict[str, Any] = _RECIPE | {
  "iterations": 128,
  "late_iterations": 512,
  "uses_per_example": 12.0,
  "evaluate_every": 800_000,
  "eval_playthroughs": 16,
}

# Turn endgame hold'em with a deck of 18 cards: 14 may come on the river, 91 hands.
_SMALL_TEH = (
  ("ranks", "9TJQKA"),
  ("suits", "shd"),
  ("board", "9sJhKdAs"),
  ("pot", 2_000),
  ("stack", 6_000),
)

_SMALL_TEH_RUN = Config().replace(
  preset="small_turn_endgame_holdem",
  game="turn_endgame_holdem",
  game_params=_SMALL_TEH,
  depth="stage",
  algorithm="discounted_cfr",
  iterations=128,
  share_start=True,
  lanes=64,
  rows_fraction=1.0,
  **MUON | {"belief_roots": 1},
  uses_per_example=8.0,
  buffer_size=131_072,
  examples=200_000,
  report_every=20,
  evaluate_every=100_000,
  eval_playthroughs=64,
  eval_iterations=128,
  # As in training: a network knows the beliefs that those iterations come to, and no others.
  eval_algorithm="discounted_cfr",
  final_playthroughs=128,
  final_iterations=256,
)

# Turn endgame hold'em on the board that the paper measures on, by appendices C.2 and E: six layers
# of 1,536, Adam at 4e-4 halved every 100 epochs of 2,560,000 examples in batches of 1,024, 300
# epochs; section 7 and appendix I: modified Linear CFR-AVG, policy network, warm start of 15.
# Ours: 256 iterations, the lanes, four uses of each example, and a buffer of a million examples of
# the paper's twelve, which is what one accelerator holds. Boards, stacks and bet sizes are new in
# every hand, as in appendix C.2.
_TEH_EPOCH = 2_560_000
_TEH_PAPER = Config().replace(
  preset="turn_endgame_holdem_paper",
  game="turn_endgame_holdem",
  game_params=(),
  vary=(("stack", "5000-50000"), ("bets", "0.1"), ("board", "random")),
  depth="stage",
  algorithm="linear_cfr_avg",
  iterations=256,
  share_start=True,
  lanes=512,
  rows_fraction=1.0,
  policy_network=True,
  hidden_layers=6,
  width=1_536,
  activation="gelu",
  learning_rate=4e-4,
  halve_every=100 * _TEH_EPOCH // 1_024,
  batch_size=1_024,
  uses_per_example=4.0,
  buffer_size=2**20,
  examples=300 * _TEH_EPOCH // 4,
  report_every=10,
  evaluate_every=10 * _TEH_EPOCH,
  eval_algorithm="linear_cfr",
  eval_playthroughs=16,
  eval_iterations=128,
  final_playthroughs=64,
  final_iterations=1_024,
)

# Whole hold'em from the blinds. Four rounds with a deck of ten cards are few enough to measure
# exactly; with the whole deck nothing can be, and what is small is the choice of bets.
_HOLDEM: dict[str, Any] = MUON | {
  "belief_roots": 1,
  "depth": "stage",
  "algorithm": "discounted_cfr",
  "iterations": 64,
  "share_start": True,
  "lanes": 64,
  "rows_fraction": 1.0,
  "uses_per_example": 4.0,
  "report_every": 5,
  "eval_algorithm": "discounted_cfr",
}
_SMALL_HOLDEM_4_ROUNDS = Config().replace(
  preset="small_holdem_4_rounds",
  game="small_holdem_4_rounds",
  game_params=(),
  **_HOLDEM | {"uses_per_example": 6.0},
  # Few games that end as they may come to a river, and all values rest on those of rivers.
  play_on=1.0,
  late_iterations=128,
  architecture="showdowns",
  hidden_layers=4,
  width=192,
  buffer_size=524_288,
  examples=1_100_000,
  max_seconds=3_000.0,
  evaluate_every=0,
  final_playthroughs=16,
  final_iterations=128,
)
_HUNL_SMALL = Config().replace(
  preset="hunl_small",
  game="no_limit_holdem",
  game_params=(("bets", "hunl_small"), ("flops", 64)),
  vary=(("stack", "5000-25000"), ("bets", "0.1")),
  # Examples are dear here, and few: each is used often. After few iterations DCFR's agents still go
  # all-in with many hands, as stacks are deep; what HS-DCFR trains plays worse.
  **_HOLDEM
  | {"eval_algorithm": "scheduled_discounted_cfr"}
  | {"uses_per_example": 8.0, "batch_size": 256, "report_every": 2, "lanes": 128}
  | {"iterations": 32, "belief_roots": 0, "rows_fraction": 0.5},
  hidden_layers=4,
  width=256,
  buffer_size=65_536,
  examples=400_000,
  max_seconds=3_600.0,
  evaluate_every=0,
  final_playthroughs=512,
  final_iterations=64,
)

# Whole hold'em by appendices C to E: stacks of 5,000 to 25,000 chips, blinds of 50 and 100, sizes
# moved by up to a tenth of the pot; value and policy networks of six layers of 1,536 with GELU and
# LayerNorm, Adam at 3e-4 halved every 800 epochs of 2,560,000 examples in batches of 1,024, 1,750
# epochs; section 7 and appendix I: modified Linear CFR-AVG, warm start of 15. What is not printed
# is ours: bet sizes (`games.poker.HUNL`, at most eight moves), 256 iterations, a flop of each suit
# class, lanes, four uses of each example, and a buffer of a million examples of the paper's twelve.
_HUNL_PAPER = _TEH_PAPER.replace(
  preset="hunl_paper",
  game="no_limit_holdem",
  vary=(("stack", "5000-25000"), ("bets", "0.1")),
  lanes=256,
  rows_fraction=0.5,
  learning_rate=3e-4,
  halve_every=800 * _TEH_EPOCH // 1_024,
  examples=1_750 * _TEH_EPOCH // 4,
  evaluate_every=0,
  final_playthroughs=4_096,
  final_iterations=256,
)

_ALL = (
  _preset(
    _RECIPE,
    "liars_dice_1x4f",
    "liars_dice",
    _dice(1, 4),
    # With 600,000 it is hardly better, and these a machine of little more than half the speed makes
    # in its time, too.
    examples=400_000,
    evaluate_every=100_000,
    max_seconds=300.0,
    final_playthroughs=256,  # with 64 the measure scatters by more than runs differ
  ),
  _preset(_LARGER, "liars_dice_1x5f", "liars_dice", _dice(1, 5), examples=2_200_000),
  # Two more layers learn more of the same examples, which shows in the agent if it searches well.
  _preset(
    _LARGER, "liars_dice_1x6f", "liars_dice", _dice(1, 6), hidden_layers=6, examples=2_000_000
  ),
  _preset(
    _LARGER, "liars_dice_2x3f", "liars_dice", _dice(2, 3), hidden_layers=6, examples=2_400_000
  ),
  *(
    _preset(_PAPER, f"liars_dice_{dice}x{faces}f_paper", "liars_dice", _dice(dice, faces))
    for dice, faces in ((1, 4), (1, 5), (1, 6), (2, 3))
  ),
  _preset(
    _SMALL,
    "kuhn_poker",
    "kuhn_poker",
    depth=1,
    late_iterations=256,
    examples=200_000,
    evaluate_every=50_000,
    final_playthroughs=1_024,
  ),
  # Rounds of betting: its card is where values of chips are hardest to learn, and nowhere else is
  # the network asked.
  _preset(
    _SMALL,
    "leduc_poker",
    "leduc_poker",
    depth="stage",
    level_values=False,
    lanes=64,
    batch_size=512,
    examples=800_000,
    evaluate_every=200_000,
    final_playthroughs=256,
  ),
  _preset(
    _SMALL,
    "rock_paper_scissors",
    "rock_paper_scissors",
    depth=1,
    late_iterations=256,
    examples=200_000,
    evaluate_every=50_000,
    final_playthroughs=1_024,
  ),
  _SMALL_TEH_RUN,
  # Half to twice the stack, and bet sizes as in the paper; not the game that is evaluated.
  _SMALL_TEH_RUN.replace(
    preset="small_turn_endgame_holdem_varied",
    vary=(("stack", "3000-12000"), ("bets", "0.1")),
  ),
  _TEH_PAPER,
  _SMALL_HOLDEM_4_ROUNDS,
  # As below, with two rounds.
  _HUNL_SMALL.replace(preset="flop_holdem", game="flop_holdem"),
  _HUNL_SMALL,
  _HUNL_PAPER,
  *GROWING,
  *DEEP,
)

PRESETS: dict[str, Config] = {config.preset: config for config in _ALL}

# Lanes on an accelerator, where an update of a CPU's 64 is nothing but launches: arithmetic, and
# what more lanes do to learning (docs/results/training.md#more-lanes). Others keep a CPU's.
ACCELERATOR_LANES: dict[str, int] = {
  **{f"liars_dice_{game}": 2_048 for game in ("1x4f", "1x5f", "1x6f", "2x3f")},
  **{f"liars_dice_{game}_paper": 4_096 for game in ("1x4f", "1x5f", "1x6f", "2x3f")},
  "turn_endgame_holdem_paper": 2_048,
}

# Exploitability of ReBeL with CFR-D by its paper (Table 2), by dice and faces of Liar's Dice.
PAPER_EXPLOITABILITY = {(1, 4): 0.017, (1, 5): 0.015, (1, 6): 0.024, (2, 3): 0.017}


@checked
def get_preset(name: str) -> Config:
  """Returns the preset called `name`.

  Raises:
    ConfigError: there is none.
  """
  if not isinstance(name, str) or name not in PRESETS:
    raise unknown("preset", name, PRESETS)
  return PRESETS[name]


def name_of(config: Config) -> str:
  """Returns the preset's name, or the game's where that is another than the preset's."""
  preset = PRESETS.get(config.preset, config)
  return config.preset if preset.game == config.game else re.sub(r"[^\w.-]", "_", config.game)


def on_this_device(config: Config) -> Config:
  """Returns the configuration with its preset's lanes for the kind of device at hand."""
  lanes = config.self_play.lanes if tuning.on_cpu() else ACCELERATOR_LANES.get(name_of(config))
  return config if lanes is None else config.replace(lanes=lanes)


def paper_exploitability(config: Config) -> float | None:
  """Returns the exploitability in ReBeL's Table 2 (CFR-D); None for games that it lacks."""
  game = config.make_game()
  if not isinstance(game, LiarsDice):
    return None
  return PAPER_EXPLOITABILITY.get((game.num_dice, game.num_faces))
