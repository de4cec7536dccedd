"""Beliefs and policies along a line of play, and their picture."""

import jax
import numpy as np
import pytest

from rebel_jax.agents import hand_pictures
from rebel_jax.agents.agent import Searcher
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.presets import get_preset
from rebel_jax.training.setup import make_network

LINES = [("kuhn_poker", (1, 0)), ("rock_paper_scissors", ())]  # which has a hidden move


def make_searcher(preset: str) -> Searcher:
  config = get_preset(preset).replace(width=16)
  game = config.make_game()
  network = make_network(config, game)
  features = game.features(game.initial_state()[None], 0)
  params = network.init(jax.random.key(0), features, np.ones((1, 2 * game.num_infostates)))
  return Searcher(Policy(config, {"value": params}, {}), iterations=16)


@pytest.mark.parametrize(("preset", "line"), LINES)
def test_a_line_of_play(preset, line, tmp_path):
  searcher = make_searcher(preset)
  game = searcher.game

  decisions = hand_pictures.follow(searcher, line)
  movers = [int(game.actor(game.state_after(line[:n])[None])[0]) for n in range(len(line) + 1)]
  assert [d.mover for d in decisions] == [m for m in movers if m < 2]
  for decision in decisions:
    np.testing.assert_allclose(decision.beliefs.sum(axis=-1), 1, atol=1e-5)
    held = decision.beliefs[decision.mover] > 0
    assert held.any()
    np.testing.assert_allclose(decision.policy.sum(axis=0)[held], 1, atol=1e-5)
  hand_pictures.draw(decisions, tmp_path / "hand.png", title="a line")
  assert (tmp_path / "hand.png").stat().st_size > 10_000


def test_beliefs_follow_from_the_policy():
  decisions = hand_pictures.follow(make_searcher("liars_dice_1x4f"), (2,))
  first, second = decisions
  likely = first.policy[first.moves.index("1x3")] * first.beliefs[0]
  np.testing.assert_allclose(second.beliefs[0], likely / likely.sum(), atol=1e-5)
  np.testing.assert_allclose(second.beliefs[1], first.beliefs[1], atol=1e-6)
