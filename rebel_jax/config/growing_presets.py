"""Named configurations of runs whose searches grow trees, as in Player of Games."""

from typing import Any

from rebel_jax.config.config import Config
from rebel_jax.config.search import GrowingSearch, PerfectSearch

# An optimizer that learns several times more of each step and pays for it with time, and inputs
# that tell small beliefs apart (docs/results/recipe.md).
MUON: dict[str, Any] = {
  "belief_roots": 2,
  "optimizer": "muon",
  "learning_rate": 0.02,
  "batch_size": 512,
}

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
# leave a third less to exploit on Leduc poker than the paper's (docs/results/growing.md).
_HIDDEN = GrowingSearch(alternating=True, mix=0.5, query_share=0.8)

_PERFECT: dict[str, Any] = {"search": PerfectSearch(final_playthroughs=8), "batch_size": 512}


def _growing(preset: str, game: str, **settings) -> Config:
  defaults: dict[str, Any] = _GROWING | {"game_params": ()}
  return Config().replace(preset=preset, game=game, **(defaults | settings))


GROWING = (
  _growing(
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
  _growing(
    "pog_leduc",
    "leduc_poker",
    search=_HIDDEN,
    examples=60_000,
    evaluate_every=20_000,
    max_seconds=900.0,
  ),
  _growing(
    "pog_liars_dice_1x4f",
    "liars_dice",
    search=_HIDDEN,
    game_params=(("num_dice", 1), ("num_faces", 4)),
    examples=60_000,
    evaluate_every=20_000,
    max_seconds=900.0,
  ),
  _growing(
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
  _growing(
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
  _growing(
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
