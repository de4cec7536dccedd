"""The same rules on numpy's arrays and on JAX's, in the sizes that are played."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.poker import PRESETS, BetSizes, Betting, Deck, Holdem, Times
from games.testing import check_rules
from tests import harness
from tests.games.test_games import broken

RIVER = "river_endgame_holdem"
PLAYED = {
  "scotland_yard": lambda: games.make("scotland_yard"),
  "kuhn_poker": lambda: games.make("kuhn_poker"),
  "coin_toss": lambda: games.make("coin_toss"),
  "matrix_game": lambda: games.make("matrix_game"),
  "leduc_poker": lambda: games.make("leduc_poker"),
  "leduc_5": lambda: games.make("leduc_poker", bets=((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))),
  "liars_dice": lambda: games.make("liars_dice", num_dice=2, num_faces=4),
  "river_endgame_holdem": lambda: games.make(RIVER, bets="hunl", stack=(18_000, 20_000)),
  "rock_paper_scissors": lambda: games.make("rock_paper_scissors"),
  "small_holdem": lambda: games.make("small_holdem", blinds=(100, 50), first_to_act=(1, 0)),
  "small_holdem_4_rounds": lambda: games.make("small_holdem_4_rounds"),
  "turn_endgame_holdem": lambda: games.make("turn_endgame_holdem"),
  "two rounds to come": lambda: Holdem(
    deck=Deck("9TJQKA", "shdc"),
    board=(0, 5, 10),
    deals=(1, 1),
    rules=Betting((3_000, 3_000), (150, 150), 100),
    bets=BetSizes((((0.33, 1.0), (0.7,)), ((0.75,), ())), max_raises=2),
  ),
  "a billion chips": lambda: games.make(
    RIVER, stack=1_000_000_000, pot=20, big_blind=1, bets=(0.001, 3.3, 1000.0)
  ),
  "a bet added": lambda: games.make("turn_endgame_holdem").with_bet((1,), 1_700),
  "every hand": lambda: games.make("turn_endgame_holdem").replace(every_hand=True),
  "an odd pot, sizes of all kinds": lambda: games.make(
    "turn_endgame_holdem",
    pot=201,
    stack=1_077,
    big_blind=2,
    bets=("33%,e,a / 2.5x|75%", "2e/3.3x,a"),
  ),
  "nearly all chips": lambda: games.make(
    RIVER,
    bets=BetSizes((((0.4, 1.5), (Times(2.2),)),), all_in=False, near_all_in=0.67),
    stack=9_000,
  ),
  "tic_tac_toe": games.TicTacToe,
  "connect_four": games.ConnectFour,
  "go": lambda: games.make("go", size=3),
  "stations": lambda: games.make("scotland_yard", remembers=False),
}


# Those left to the slow tier are of classes that others here are of, or `check_game` plays whole.
REPEATED = (
  "two rounds to come", "a bet added", "nearly all chips", "small_holdem", "river_endgame_holdem",
  "every hand", "small_holdem_4_rounds", "kuhn_poker", "coin_toss", "matrix_game", "leduc_poker",
  "rock_paper_scissors", "connect_four", "go",
)  # fmt: skip


@pytest.mark.parametrize("name", harness.slow(PLAYED, *REPEATED))
def test_rules_of_games_as_played(name):
  check_rules(PLAYED[name](), num_playouts=16)


def test_every_registered_game_is_checked_here():
  """A new game must be added above, in the size that is played."""
  large = {"flop_holdem", "no_limit_holdem"}  # every flop would be asked about
  assert {make().name for make in PLAYED.values()} >= set(games.registered_games()) - large


@pytest.mark.parametrize(
  "name", ["leduc_poker", pytest.param("two rounds to come", marks=pytest.mark.slow)]
)
def test_rules_in_float64(name, x64):
  check_rules(PLAYED[name](), num_playouts=16)


@pytest.mark.parametrize("name", ["kuhn_poker", "matrix_game", "coin_toss"])
def test_features_of_a_traced_player(name):
  game = PLAYED[name]()
  states = jnp.asarray(game.initial_state()[None])
  features = jax.jit(game.features)
  for player in (0, 1):
    np.testing.assert_array_equal(features(states, player), game.features(states, player))


def test_bets_are_what_the_float_formula_gives():
  highest = np.arange(1, 100_001)
  fractions = {f for sizes in PRESETS.values() for r in sizes.fractions for c in r for f in c}
  rules = Betting((2**29, 2**29), (1, 1), 1)
  states = np.repeat(rules.start()[None], len(highest), axis=0)
  states[:, 2:4] = highest[:, None]
  for fraction in fractions:
    found = BetSizes((((fraction,),),)).amounts(rules, states)[:, 0]
    np.testing.assert_array_equal(found, np.floor(highest * (1 + 2 * fraction) + 0.5))


def is_numpy(found):
  return isinstance(found, np.ndarray)


def assign(found, states):
  found[states[:, 0] == 0, 0] = False
  return found


KUHN, LEDUC = games.KuhnPoker, games.LeducPoker
MISTAKES = [
  # A tracer has no value, and JAX's arrays do not change.
  (KUHN, "payoff_scale", lambda x, states: x * (2 if (states > 2).all() else 1), "fails under"),
  (games.LiarsDice, "legal_actions", assign, "fails under jax.jit"),
  (LEDUC, "stages", lambda x, states: x + (len(x) == 1), "is 1 at .* under jax.vmap over single"),
  (
    LEDUC,
    "pair_index",
    lambda x, _: x + (not is_numpy(x)),
    "is 1 at .* under jax.jit, and 0 with n",
  ),
  (KUHN, "features", lambda x, _, p: x + 1e-5 * p * (not is_numpy(x)), r"is .* at \(0, 0\)"),
  (KUHN, "payoff_scale", lambda x, _: x * (1 if is_numpy(x) else np.nan), "is nan"),
  # The product needs more than 32 bits.
  (LEDUC, "payoff_index", lambda x, _: x * 2**30 // 2**30, "is .* under jax.jit"),
  (KUHN, "legal_actions", lambda x, _: x if is_numpy(x) else x.astype(int), "is int32 .* and bool"),
  (KUHN, "next_states", lambda x, *_: x.astype(int), "turns states of int32 into int64"),
]


@pytest.mark.parametrize(("game", "method", "change", "message"), MISTAKES)
def test_control_rules_that_differ_are_refused(game, method, change, message):
  with pytest.raises(AssertionError, match=rf"{method}\(\) {message}") as error:
    check_rules(broken(game, method, change)())
  assert "\n" not in str(error.value)


def test_control_states_that_do_not_fit_are_refused():
  game = games.make(RIVER)
  states = game.initial_state()[None].astype(np.int64)
  check_rules(game, states=states)
  states[0, 2] += 2**40
  with pytest.raises(AssertionError, match="must fit into 32 bits"):
    check_rules(game, states=states)
