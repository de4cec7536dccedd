"""How hands stand on the cards shown, against one pair of hands at a time."""

import jax.numpy as jnp
import numpy as np
import pytest

from games.poker import Deck
from games.poker.hands import evaluate
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.presets import get_preset
from rebel_jax.networks.poker import order_hands, standing
from rebel_jax.training.setup import make_network, make_policy_network
from solvers.sweeps.showdowns import dense_showdowns, sorted_showdowns

DECK = Deck("9TJQKA", "shd")
HANDS = DECK.hole_cards(())


def pairwise(board, other, *, blockers=True):
  """Returns the shares and masses of one board, pair by pair."""
  free = [i for i, hand in enumerate(HANDS.tolist()) if not set(hand) & set(board)]
  strength = {i: int(evaluate(DECK, np.array([[*HANDS[i], *board]], int))[0]) for i in free}
  found = np.zeros((2, len(HANDS)))
  for own in free:
    won = mass = 0.0
    for theirs in free:
      if blockers and set(HANDS[own]) & set(HANDS[theirs]):
        continue
      mass += other[theirs]
      won += other[theirs] * np.sign(strength[own] - strength[theirs])
    found[:, own] = won / mass if mass else 0.0, mass
  return found


@pytest.mark.parametrize(
  ("make", "size"), [(dense_showdowns, 3), (sorted_showdowns, 0), (sorted_showdowns, 5)]
)
def test_it_is_what_pairs_of_hands_come_to(size, make, x64):
  rng = np.random.default_rng(size)
  boards = [sorted(rng.choice(DECK.num_cards, size, replace=False)) for _ in range(4)]
  shown = np.zeros((4, DECK.num_cards))
  for row, board in zip(shown, boards):
    row[board] = 1
  # A range of a few hands, among them some that the board blocks.
  other = rng.dirichlet(np.full(len(HANDS), 0.1), 4)
  hands = order_hands(DECK, HANDS, jnp.asarray(shown))
  arguments = (jnp.float64,) if make is dense_showdowns else ()
  showdowns = make(hands.strength, *arguments)
  found = np.asarray(standing(showdowns, hands.live, jnp.asarray(other)))
  expected = np.stack([pairwise(*each) for each in zip(boards, other)])
  np.testing.assert_allclose(found, expected, atol=1e-9)
  assert size == 0 or np.abs(expected[:, 0]).max() > 0.1
  # Control: hands that share a card counted too.
  wrong = np.stack([pairwise(*each, blockers=False) for each in zip(boards, other)])
  assert np.abs(found - wrong).max() > 0.01


def test_all_networks_of_holdem_see_it_and_no_others():
  config = get_preset("small_holdem_4_rounds").replace(policy_network=True)
  game = config.make_game()
  for on in (True, False):
    chosen = config.replace(showdown_inputs=on)
    value, policy = make_network(chosen, game), make_policy_network(chosen, game)
    assert (value.showdown_inputs, policy.trunk.showdown_inputs) == (on, on)
  with pytest.raises(ConfigError, match=r"showdown_inputs=True needs .* game='liars_dice'"):
    Config().replace(showdown_inputs=True).validate()
