"""Poker: showdowns against sums over pairs, a rake against enumeration, closed forms."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.pairs import compatible_mass
from games.poker import CALL, FIRST_BET, FOLD, BetSizes, Deck, betting, in_units
from games.poker.cards import strengths_on
from games.poker.lines import Follower, make_lines
from solvers.sweeps import showdowns
from tests.hand_pairs import pairs_on, small_spot

pytestmark = pytest.mark.usefixtures("strictly")

DECK = Deck()
BOARDS = ["3s7hTdKs2c", "2s2h2d2c3s", "AsKsQsJsTs", "4s8hTc9h2s"]  # the third always splits
DECKS = {"whole": (DECK, BOARDS), "small": (Deck("9TJQKA", "sh"), ["9sTsJsQsKs", "9h9sTsThAs"])}


@pytest.fixture(scope="module", params=DECKS)
def case(request):
  """Strengths `[K, H]`, random reach, values of folds and showdowns by pairs, and live hands."""
  deck, names = DECKS[request.param]
  rng = np.random.default_rng(5)
  hands, found = deck.hole_cards(), []
  for board in map(deck.parse, names):
    strengths = strengths_on(deck, hands, np.array(board))
    alive, size = strengths >= 0, (3, len(hands))
    reach = rng.exponential(size=size) * alive * (rng.random(size) < 0.7)
    truth = np.stack([reach @ table.T for table in pairs_on(deck, hands, board)])
    found.append((strengths, reach, truth, alive))
  strengths, reach, truth, live = zip(*found)
  return np.stack(strengths), np.stack(reach), np.stack(truth, axis=1), np.stack(live)[:, None]


@functools.partial(jax.jit, static_argnames="dense")
def values_of(strengths, reach, dense):
  tables = showdowns.make_showdowns(strengths, reach.dtype, dense=dense)
  return showdowns.showdown_values(tables, reach)


@pytest.mark.parametrize("form", ["dense", "sorted"])
def test_showdowns_equal_sums_over_pairs(case, form):
  strengths, reach, truth, live = case
  dtype = np.float64 if len(live) == 2 else np.float32
  with jax.enable_x64(dtype == np.float64):
    values = np.asarray(values_of(strengths, reach.astype(dtype), dense=form == "dense"))
  assert values.dtype == dtype
  tolerance = 1e-4 if dtype == np.float32 else 1e-12
  np.testing.assert_allclose(values * live, truth[1], atol=tolerance * reach.sum(axis=2).max())


def test_an_accelerator_sorts_where_matrices_of_all_lanes_are_too_large(case, accelerator):
  strengths, reach, truth, live = case
  reach = np.tile(reach, (1, 7, 1)).astype(np.float32)
  make = functools.partial(showdowns.make_showdowns, dtype=jnp.float32)
  tables = [jax.jit(functools.partial(make, lanes=lanes))(strengths) for lanes in (1, 2**14)]
  dense, many = (np.asarray(jax.jit(showdowns.showdown_values)(x, reach)) * live for x in tables)
  assert [isinstance(x, showdowns.SortedShowdowns) for x in tables] == [False, True]
  for values in (dense, many):  # all 21 nodes of all boards at once
    np.testing.assert_allclose(values, np.tile(truth[1], (1, 7, 1)), atol=3e-4 * reach.max())


def test_folds_equal_sums_over_pairs(case):
  _, reach, truth, live = case
  values = np.asarray(jax.jit(compatible_mass)(reach.astype(np.float32)))
  np.testing.assert_allclose(values * live, truth[0], atol=1e-4 * reach.sum(axis=2).max())


def test_forgetting_blockers_is_found_out(case):
  strengths, reach, truth, live = case

  @jax.jit
  def without_cards(strengths, reach):
    tables = showdowns.make_showdowns(strengths, reach.dtype, dense=False)
    nothing = jnp.zeros_like(tables.card_bounds)  # as if no hand held a card
    return showdowns.showdown_values(tables._replace(card_bounds=nothing), reach)

  values = np.asarray(without_cards(strengths, reach.astype(np.float32)))
  assert np.abs(values * live - truth[1]).max() > 0.05 * reach.max()
  assert np.abs(reach.sum(axis=2, keepdims=True) * live - truth[0]).max() > 0.5


GAME = {"ranks": "JQKA", "suits": "shd", "stack": 250, "bets": (1.0,)}


def test_beliefs_on_hands_that_a_dealt_card_blocks_are_refused():
  game = games.make("small_holdem", **GAME)
  tree = games.build_public_tree(game, root=(1, 1, game.burn, game.first_deal))
  blocked = int(np.flatnonzero(~tree.possible[0, 0])[0])
  beliefs = np.array(tree.prior)
  beliefs[0] = 0
  beliefs[0, blocked] = 1
  with pytest.raises(ValueError, match=f"player 0's infostate {blocked} weight, which the rules"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=beliefs)


def test_held_hands_play_as_in_the_whole_game(x64):
  """Control: other weights of hands."""
  whole, texts = small_spot("TsJhQsKhQd"), ("AA,KQs,JTs", "TT,AJs:0.5,KK")
  beliefs = whole.beliefs(texts)
  algorithm = solvers.linear_cfr(alternating=False)

  def worth(game, beliefs=None):
    tree = games.build_public_tree(game)
    found = solvers.solve(tree, algorithm=algorithm, num_iterations=4, beliefs=beliefs)
    return np.asarray(found.root_values)

  game = whole.only(beliefs)
  held, wanted = beliefs[:, game.kept] > 0, worth(whole, beliefs)[:, game.kept]
  np.testing.assert_allclose(worth(game)[held], wanted[held], atol=1e-9)
  other = whole.beliefs(("AA:0.2,KQs,JTs", texts[1]))[:, game.kept]
  assert np.abs(worth(game, other) - wanted)[held].max() > 0.1


@pytest.mark.parametrize("fraction", [0.5, 2.0])
def test_polar_range_against_bluff_catcher(fraction):
  """Bluffs are bet / (pot + 2 bet) of the bets; pot / (pot + bet) of the bets are called.

  Nuts or nothing against one hand that beats nothing only; none of the cards overlap.
  """
  bets = BetSizes((((fraction,), ()),), all_in=False, max_raises=1)
  board = dict(board="AsKhQd9c9s", ranks="9TJQKA", pot=1_000)
  game = games.make("river_endgame_holdem", bets=bets, **board)
  strength = game.strengths()[0]
  hands = [set(hand) for hand in game.hole_cards.tolist()]
  order = np.argsort(strength, kind="stable")
  catcher = int(order[len(order) // 2])
  others = [h for h in order if not hands[h] & hands[catcher]]
  beliefs = np.zeros((2, game.num_infostates))
  air, nuts = others[:3], others[-3:]
  assert strength[air].max() < strength[catcher] < strength[nuts].min()
  beliefs[0, air] = beliefs[0, nuts] = 1 / 6
  beliefs[1, catcher] = 1
  tree = games.build_public_tree(game)
  solution = solvers.solve(
    tree, algorithm=solvers.linear_cfr(), num_iterations=4_000, beliefs=beliefs
  )
  policy = np.asarray(solution.average_policy)
  history = {tree.history(node): node for node in range(tree.num_nodes)}
  bet, call = history[(FIRST_BET,)], history[(FIRST_BET, CALL)]
  bluffs, value_bets = policy[bet, air].sum(), policy[bet, nuts].sum()
  assert value_bets > 2.99
  assert bluffs / (bluffs + value_bets) == pytest.approx(fraction / (1 + 2 * fraction), abs=0.01)
  assert policy[call, catcher] == pytest.approx(1 / (1 + fraction), abs=0.01)
  # The polar player wins the pot as often as it bets, half of which it put in itself.
  bets = (bluffs + value_bets) / 6
  expected = bets * 500 - (1 - bets) * 500
  assert (beliefs[0] * np.asarray(solution.root_values[0])).sum() == pytest.approx(expected, abs=5)
  units = in_units(game, solvers.exploitability(tree, policy, beliefs=beliefs))
  assert 0 <= units.pot < 0.002
  # Folding always is exploited: by a bet of every hand that cannot win the pot otherwise.
  folding = policy.copy()
  folding[history[(FIRST_BET, FOLD)]], folding[call] = 1.0, 0.0
  worse = in_units(game, solvers.exploitability(tree, folding, beliefs=beliefs))
  assert worse.pot > 0.05


RAKE, CAP = 0.1, 3  # the cap is 15 chips of the pot of 20, less than that of 60


def raked(board, rake=RAKE):
  return small_spot(board, ("AA,KQs,JTs", "TT,AJs:0.5,KK"), rake=rake, rake_cap=CAP)


def won(game, state, player):
  """Returns what `player` wins with each hand from each of the other's: `[H, H]`."""
  paid = state[[betting.PAID_0, betting.PAID_1]].min()
  pot = 2 * paid - min(RAKE * 2 * paid, CAP)
  board, folded = game.on_board(state[None])[0], game.rules.at(state).folded
  meet, wins = pairs_on(game.deck, game.hole_cards, board[board >= 0])
  share = (wins + 1) / 2 if folded is None else float(folded != player)
  return (pot * share - paid) * meet


class Enumerated:
  """Values by enumeration of every deal and line under a policy."""

  def __init__(self, game, lines, columns, policy):
    self.game, self.policy = game, policy
    self.follower = Follower(lines, columns)

  def row(self, place, child, player):
    columns = self.follower.columns(place, player)
    row = np.asarray(self.policy[child.level])[child.row]
    return np.where(columns < 0, 0, row[np.maximum(columns, 0)])

  def values(self, history, place, reach, player, best):
    """Returns a player's counterfactual values of hands, the other's `reach` given."""
    game = self.game
    state = game.state_after(history)
    actor = int(game.actor(state[None])[0])
    if actor == games.TERMINAL:
      return won(game, state, player) @ reach
    moves = np.flatnonzero(game.legal_actions(state[None])[0]).tolist()
    found = []
    for move in moves:
      child, below = self.follower.step(place, move), reach
      if actor == 1 - player:
        below = reach * self.row(place, child, actor)
      if actor == games.CHANCE and move >= game.first_deal:
        card = move - game.first_deal
        live = ~(game.hole_cards == card).any(axis=1)
        shown = (game.on_board(state[None])[0] >= 0).sum()
        below = reach * live / (game.deck.num_cards - shown - 4)
        found.append(self.values((*history, move), child, below, player, best) * live)
        continue
      found.append(self.values((*history, move), child, below, player, best))
    if actor != player:
      return np.sum(found, axis=0)
    if best:
      return np.max(found, axis=0)
    rows = [self.row(place, self.follower.step(place, move), player) for move in moves]
    return np.sum([x * y for x, y in zip(rows, found)], axis=0)

  def gap(self):
    """Returns the mean of what both players would gain by best responses."""
    beliefs, total = self.game.prior(), 0.0
    meet, _ = pairs_on(self.game.deck, self.game.hole_cards, self.game.board)
    pairs = beliefs[0] @ meet @ beliefs[1]
    for p, best in itertools.product((0, 1), (True, False)):
      values = self.values((), self.follower.start(), beliefs[1 - p], p, best)
      total += (1 if best else -1) * (beliefs[p] @ values) / pairs
    return total / 2


@pytest.mark.parametrize("board", ["TsJhQsKhQd", pytest.param("TsJhQsKh", marks=pytest.mark.slow)])
def test_a_raked_spot_is_as_exploitable_as_by_enumeration(board):
  game = raked(board)
  with jax.enable_x64(True):
    lines, columns = make_lines(game)
    settings = {"algorithm": solvers.linear_cfr(), "target": 0, "num_iterations": 10}
    solved = solvers.solve(lines, **settings)
    exact = Enumerated(game, lines, columns, solved.average_policy).gap()
    assert solved.exploitability == pytest.approx(exact, abs=1e-9)
    lines, _ = make_lines(raked(board, rake=0.0))
    without = solvers.solve(lines, **settings)
    assert abs(without.exploitability - exact) > 1e-3
