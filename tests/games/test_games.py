"""Games against the checks, on arrays of numpy and JAX, against rules by hand, and broken."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.poker import PRESETS, BetSizes, Betting, Deck, Holdem, Times
from games.rules.leduc_poker import LeducPoker
from games.testing import check_game, check_rules, rules
from tests import harness
from tests.hand_pairs import small_spot
from tests.random_game import RandomGame
from tests.sentences import refused

pytestmark = pytest.mark.usefixtures("strictly")

# Checked in files of their own too: of poker, templates and Scotland Yard.
LONG = ("small_holdem", "small_holdem_4_rounds", "turn_endgame_holdem", "scotland_yard")
LONG += ("two_deals", "of_ranges", *(f"random_{seed}" for seed in range(20) if seed not in (2, 5)))
SMALL = {
  "kuhn": lambda: games.make("kuhn_poker"),
  "rock_paper_scissors": lambda: games.make("rock_paper_scissors"),
  "scotland_yard": lambda: games.make("scotland_yard", rounds=2),
  "coin_toss": lambda: games.make("coin_toss", num_subgames=3),
  "matrix_game": lambda: games.make("matrix_game", payoffs=((1, -2), (0, 3), (-1, 5))),
  "leduc": lambda: games.make("leduc_poker"),
  "leduc_sizes": lambda: games.make("leduc_poker", bets=((1.5, 2), (0.25,))),
  "liars_dice_1x1f": lambda: games.make("liars_dice", num_dice=1, num_faces=1),
  "liars_dice_1x3f": lambda: games.make("liars_dice", num_dice=1, num_faces=3),
  "liars_dice_1x4f": lambda: games.make("liars_dice", num_dice=1, num_faces=4),
  "liars_dice_2x2f": lambda: games.make("liars_dice", num_dice=2, num_faces=2),
  "no_card_dealt": lambda: games.make(
    "small_holdem", ranks="TJQKA", suits="s", deals=(), bets=(0.5, 1.0), stack=700
  ),
  "blinds": lambda: games.make(
    "small_holdem", ranks="KA", suits="shd", blinds=(100, 50), first_to_act=(1, 0)
  ),
  "two_deals": lambda: games.make("small_holdem", ranks="KA", suits="shd", deals=(1, 1), stack=200),
  "two_cards_at_once": lambda: games.make(
    "small_holdem", ranks="KA", suits="shdc", deals=(2,), stack=200
  ),
  "of_ranges": lambda: small_spot("TsJhQsKh", ("AA,KQs", "TT,AJs:0.5")),
  "leduc_in_tables": lambda: games.tabulate(games.make("leduc_poker")),
  "random_in_tables": lambda: games.tabulate(RandomGame(5)),
  **{f"random_{seed}": functools.partial(RandomGame, seed) for seed in range(20)},
  "small_holdem": lambda: games.make("small_holdem", ranks="QKA", suits="sh", stack=300),
  "small_holdem_4_rounds": lambda: games.make("small_holdem_4_rounds", ranks="TJQK", stack=300),
  "turn_endgame_holdem": lambda: games.make(
    "turn_endgame_holdem", board="9sTsJsQs", ranks="89TJQ", suits="sh", stack=3_000
  ),
  "connect_four": lambda: games.make("connect_four", width=3, height=2, in_a_row=2),
  "go": lambda: games.make("go", size=2, komi=0.5, max_moves=4),
  "most_chips": lambda: games.make(
    "river_endgame_holdem",
    board="9sTsJsQsQh",
    ranks="89TJQ",
    suits="sh",
    bets="20%,900% / 50%",
    pot=2**29,
    stack=2**30 - 1,
  ),
}

# In the sizes that are played.
RIVER = "river_endgame_holdem"
PLAYED = {
  "scotland_yard": lambda: games.make("scotland_yard"),
  "leduc_5": lambda: games.make("leduc_poker", bets=((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))),
  "liars_dice": lambda: games.make("liars_dice", num_dice=2, num_faces=4),
  "river_endgame_holdem": lambda: games.make(RIVER, bets="hunl", stack=(18_000, 20_000)),
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
  "every hand", "small_holdem_4_rounds", "connect_four", "go", "leduc_5", "turn_endgame_holdem",
)  # fmt: skip


# Too large for a tree, or to be looked at one by one; rules of the former are the small ones'.
LARGE = {"flop_holdem", "no_limit_holdem", "tic_tac_toe"}


# JAX is asked about the same rules in the sizes that are played; about these, in the slow tier.
ALIKE = ("blinds", "most_chips", "no_card_dealt", "leduc_sizes", "liars_dice_1x3f")


@pytest.mark.parametrize("name", harness.slow(SMALL, *LONG))
def test_small_games_pass(name, monkeypatch):
  if name in ALIKE:
    monkeypatch.setattr(rules, "check_rules", lambda *_: None)
  check_game(SMALL[name]())


def test_every_registered_game_is_checked_here():
  """A new game must be added in a size that can be enumerated, and in the size that is played."""
  whole, played = ({make().name for make in made.values()} for made in (SMALL, PLAYED))
  assert whole - {"random_game", "holdem"} == set(games.registered_games()) - LARGE
  default = {SMALL[x]().name for x in ("kuhn", "coin_toss", "matrix_game", "leduc")}
  every_flop = {"flop_holdem", "no_limit_holdem"}
  assert played | default | {"rock_paper_scissors"} >= set(games.registered_games()) - every_flop


def broken(game, method, change):
  """Returns a game whose `method` gives what `change` makes of it and of its arguments."""

  def changed(self, *arguments):
    return change(getattr(game, method)(self, *arguments), *arguments)

  return type("Broken", (game,), {method: changed})


def put(where, value):
  """Returns a change of the entries `where`, which may depend on the method's arguments."""

  def change(found, *arguments):
    found = np.array(found)
    found[where(*arguments) if callable(where) else where] = value
    return found

  return change


def of_the_first_row(found, *_):
  """Right for one state at a time, wrong for a batch."""
  return np.repeat(found[:1], len(found), axis=0)


def assigned(states, actions):
  states[:] = 0


KUHN, LEDUC, DICE = games.KuhnPoker, games.LeducPoker, games.LiarsDice
ONCE_MOVED = broken(KUHN, "pair_index", lambda found, states: (states[:, 0] > 0).astype(int))
MISTAKES = [
  (KUHN, "prior", lambda _: np.full((2, 3), 0.5), "prior"),
  (KUHN, "prior", lambda _: np.eye(3)[[0, 0]], "no pair of infostates"),  # both hold the jack
  (KUHN, "legal_actions", put(lambda states: states[:, 0] == 4, False), "no action is legal"),
  (DICE, "legal_actions", of_the_first_row, "tree"),
  (KUHN, "actor", put(lambda states: states[:, 0] == 1, 4), "actor"),
  (KUHN, "actor", of_the_first_row, "kind"),
  (LEDUC, "chance", lambda x, *_: (x[0] * 4 / 6, x[1]), "together have probability 0.6"),
  (
    LEDUC,
    "chance",
    lambda x, *_: (x[0], x[1] | [[[False], [True]]]),
    "outcomes of chance together",
  ),
  # After the first move players no longer know which card they had before; a king is lost.
  (
    KUHN,
    "infostate_parents",
    lambda _, states, actions: np.where(states[:, None] == 0, 0, np.full((1, 2, 3), range(3))),
    "infostate",
  ),
  (
    KUHN,
    "infostate_parents",
    lambda _, states, actions: np.where(
      (actions == 1)[:, None, None] & (np.arange(3) == 2), -1, np.full((1, 2, 3), range(3))
    ),
    "infostate",
  ),
  (games.RockPaperScissors, "infostate_parents", lambda x, *_: x + 3, "infostate_parents"),
  (games.RockPaperScissors, "infostate_parents", put(np.s_[:, 1, 1], 0), "have probability"),
  (ONCE_MOVED, "pair_weights", lambda _: np.stack([1 - np.eye(3), np.ones((3, 3))]), "cannot meet"),
  (ONCE_MOVED, "pair_weights", lambda x: np.stack([x[0], 2 * x[0]]), "have probability 2"),
  (KUHN, "payoffs", put(np.s_[0, 0], np.nan), "payoffs"),
  (DICE, "payoffs", lambda x: np.moveaxis(x, 0, -1), "payoffs"),
  (KUHN, "payoff_index", lambda x, states: x + 1, "payoff_index"),
  (KUHN, "payoff_scale", of_the_first_row, "payoff"),
  (KUHN, "features", lambda x, states, player: x[:, player:], "features"),
  (KUHN, "features", put(0, np.nan), "features"),
  (LEDUC, "next_states", lambda x, *at: assigned(*at) or x, "changed the states"),
  (KUHN, "next_states", lambda x, *_: x / 1.0, "next_states"),
  (LEDUC, "features", lambda x, *_: x[:, :-1], "orders_infostates=True says"),
]


@pytest.mark.parametrize(("game", "method", "change", "message"), MISTAKES)
def test_control_a_broken_game_is_refused(game, method, change, message):
  with pytest.raises(AssertionError, match=message):
    check_game(broken(game, method, change)())


def test_control_raises_beyond_the_players_and_a_game_without_end_or_payoffs_are_refused():
  few = LEDUC()
  few.num_player_actions = 2
  with pytest.raises(AssertionError, match="num_player_actions=2 says"):
    check_game(few)
  endless = broken(DICE, "legal_actions", put(np.s_[:, :-1], True))  # bids need not go up
  with pytest.raises(ValueError, match="max_histories=1000"):
    check_game(endless(num_dice=1, num_faces=2), max_histories=1000)
  for of, rule, message in (
    ("coin_toss", "payoffs", "must define payoffs, or payoff_scale alone"),
    ("kuhn", "payoffs", "must define payoffs, or payoff_scale alone"),  # it tells tables apart
    ("kuhn", "payoff_index", "defines payoffs and no payoff_index"),
  ):
    unpaid = type("Unpaid", (type(SMALL[of]()),), {rule: getattr(games.Game, rule)})
    with pytest.raises(NotImplementedError, match=f"Unpaid {message}"):
      games.build_public_tree(unpaid())


def test_games_that_take_any_parameter(monkeypatch):
  monkeypatch.setattr(games.game, "_REGISTRY", {})
  games.register("any", lambda faces=2, **others: games.LiarsDice(num_faces=faces, **others))
  assert games.make("any", faces=3, num_dice=1).num_faces == 3


NEW_FILE = """
from games.game import register
from games.rules.kuhn_poker import KuhnPoker

register("one_file_more", KuhnPoker)
"""


def test_a_game_is_one_file(tmp_path):
  package = tmp_path / "games"
  shutil.copytree(Path(games.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
  make = "import games; print(games.make('one_file_more').name)"

  def run():
    paths = os.environ | {"PYTHONPATH": str(tmp_path)}
    return subprocess.run(
      [sys.executable, "-c", make], cwd=tmp_path, env=paths, capture_output=True, text=True
    )

  assert "game='one_file_more' is unknown" in run().stderr
  (package / "rules" / "one_file_more.py").write_text(NEW_FILE)
  assert run().stdout.strip() == "kuhn_poker"


LEDUC_5 = ((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))


@pytest.mark.parametrize(("bets", "number"), [(((2,), (4,)), 288), (LEDUC_5, 34_224)])
def test_numbers_of_infosets_are_those_of_the_thesis(bets, number):
  """Section 2.4.1 counts cards of a rank as one, private and public."""
  tree = games.build_public_tree(LeducPoker(bets=bets))
  decides, second = tree.kind <= games.PLAYER_1, tree.state[:, 0] == 1
  assert 3 * (decides & ~second).sum() + 3 * (decides & second).sum() / 2 == number


def stakes_after(game, history):
  """Returns what player 0 wins and loses at the end of a history, a number for each outcome."""
  state = game.state_after(history)[None]
  table = game.payoffs()[game.payoff_index(state)[0]] * game.payoff_scale(state)[0]
  return np.unique(table)


def test_chips_by_hand():
  game = LeducPoker(bets=((1.5, 2), (0.25,)))
  first, second, deal = 2, 3, 4
  assert game.num_actions == 10
  assert game.num_player_actions == 4
  # 1 + 1.5 from player 0, who folds to a raise by 2.
  np.testing.assert_allclose(stakes_after(game, (first, second, 0)), -2.5)
  np.testing.assert_allclose(stakes_after(game, (second, first, 0)), -3.0)
  line = (first, second, 1, deal, 1, 2, 2)
  assert game.legal_actions(game.state_after(line)[None])[0].tolist() == [True, True, *[False] * 8]
  np.testing.assert_allclose(stakes_after(game, (*line, 1)), [-5.0, 0.0, 5.0], atol=1e-6)
  np.testing.assert_allclose(stakes_after(game, (*line, 0)), 4.75)
  assert [game.describe((), second), game.describe((1, 1, deal), first)] == [
    "raise 2",
    "raise 0.25",
  ]
  assert [game.describe((), 1), LeducPoker().describe((), 2)] == ["call", "raise"]


test_bad_lists_are_refused = refused(
  *((lambda bets=bets: LeducPoker(bets=bets), said) for bets, said in (
    (((2,),), "must be two lists of"), (((2,), (-1.5,)), "of at least 1e-06"),
    (((2,), ("4",)), "must be a list, each a list, each a number"),
    (((2,), (4, 4.0)), "different sizes, one for each round"),
    (((2,), ()), "none of them empty"), (((2.5,), (2000,)), "too large"),
  ))
)  # fmt: skip


@pytest.mark.parametrize("name", harness.slow([*PLAYED, *ALIKE], *REPEATED, *ALIKE))
def test_rules_of_games_as_played(name):
  check_rules((SMALL | PLAYED)[name](), num_playouts=16)


@pytest.mark.parametrize(
  "name", ["leduc", pytest.param("two rounds to come", marks=pytest.mark.slow)]
)
def test_rules_in_float64(name, x64):
  check_rules((SMALL | PLAYED)[name](), num_playouts=16)


@pytest.mark.parametrize("name", ["kuhn", "matrix_game", "coin_toss"])
def test_features_of_a_traced_player(name):
  game = SMALL[name]()
  states = jnp.asarray(game.initial_state()[None])
  features = jax.jit(game.features)
  for player in (0, 1):
    np.testing.assert_array_equal(features(states, player), game.features(states, player))


def test_bets_are_what_the_float_formula_gives():
  highest = np.arange(1, 100_001)
  fractions = {f for sizes in PRESETS.values() for r in sizes.fractions for c in r for f in c}
  betting = Betting((2**29, 2**29), (1, 1), 1)
  states = np.repeat(betting.start()[None], len(highest), axis=0)
  states[:, 2:4] = highest[:, None]
  for fraction in fractions:
    found = BetSizes((((fraction,),),)).amounts(betting, states)[:, 0]
    np.testing.assert_array_equal(found, np.floor(highest * (1 + 2 * fraction) + 0.5))


def is_numpy(found):
  return isinstance(found, np.ndarray)


def assign(found, states):
  found[states[:, 0] == 0, 0] = False
  return found


MISTAKES_IN_ARRAYS = [
  # A tracer has no value, and JAX's arrays do not change.
  (KUHN, "payoff_scale", lambda x, states: x * (2 if (states > 2).all() else 1), "fails under"),
  (games.LiarsDice, "legal_actions", assign, "fails under jax.jit"),
  (LEDUC, "stages", lambda x, _: x + int(len(x) == 1), "is 1 at .* under jax.vmap over single"),
  (LEDUC, "pair_index", lambda x, _: x + int(not is_numpy(x)), "is 1 at .* under jax.jit, and 0 "),
  (KUHN, "features", lambda x, _, p: x + 1e-5 * p * (not is_numpy(x)), r"is .* at \(0, 0\)"),
  (KUHN, "payoff_scale", lambda x, _: x * (1 if is_numpy(x) else np.nan), "is nan"),
  # The product needs more than 32 bits.
  (LEDUC, "payoff_index", lambda x, _: x * 2**30 // 2**30, "is .* under jax.jit"),
  (KUHN, "legal_actions", lambda x, _: x if is_numpy(x) else x.astype(int), "is int32 .* and bool"),
  (KUHN, "payoff_index", lambda x, _: x * np.ones(1, int), "fails under jax.enable_x64"),
  (KUHN, "next_states", lambda x, *_: x.astype(int), "turns states of int32 into int64"),
]


@pytest.mark.parametrize(("game", "method", "change", "message"), MISTAKES_IN_ARRAYS)
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
