"""Agents whose subgames are made where play leads; bets that trees lack, searched or translated."""

import functools
import re

import jax
import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import nested
from games import CHANCE
from games.poker import CALL, FIRST_BET, BetSizes, betting
from games.poker.streets import size_columns_at
from rebel_jax import play
from rebel_jax.agents.agent import Searcher
from rebel_jax.agents.belief_agent import SearchPace, StreetSearcher
from rebel_jax.agents.match import AgentStrategy
from rebel_jax.checkpoints import checkpoint
from rebel_jax.tables.chips import RaiseTo
from rebel_jax.tables.players import TreePlayer
from solvers import Maxmargin, Resolve
from solvers.contrib.off_tree import translate
from solvers.search import posteriors
from tests import harness
from tests.own_games import own_tree
from tests.sentences import sentence_of
from tests.tiny import untrained

# Two rounds from blinds of 50 and 100, the pot or all-in; the big blind acts first in the second.
GAME = dict(ranks="TJQK", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=1_000)
AVERAGES = {"iterations": 2, "average": True}  # nothing is drawn


@functools.cache
def policy():
  return untrained("small_holdem", tuple((GAME | dict(bets=(1.0,))).items()), depth="stage")


@functools.cache
def searcher():
  return StreetSearcher(policy(), **AVERAGES, seconds=1e-5)  # no search could be shorter anyway


def walk(searcher, seed):
  """Plays a hand by chance alone; returns the policies at its decisions, beliefs and rounds."""
  game, rng = searcher.game, np.random.default_rng(seed)
  agent, state, found = searcher.agent(seed=0), searcher.game.initial_state(), []
  agent.start(0, int(np.argmax(game.prior()[0] > 0)))
  held = (0, game.num_infostates - 1)  # of the lowest cards and of the highest
  while (actor := int(game.actor(state[None])[0])) <= CHANCE:
    if actor < CHANCE:
      search, node = agent.node()
      children = np.flatnonzero(search.tree.parent == node)
      rows = {int(search.tree.action[c]): search.policy[c] for c in children}
      found.append((rows, agent.beliefs, int(state[betting.ROUND])))
      action = int(rng.choice(sorted(rows)))
    else:
      action = game.sample_chance(state, held, rng)
    agent.observe(action)
    state = game.next_states(state[None], np.array([action]))[0]
  return found


@pytest.mark.parametrize("average", harness.slow([True, False], False))
def test_searches_are_those_of_tables(average):
  how = AVERAGES | {"average": average}  # the stop can only be 0
  ours = searcher() if average else StreetSearcher(policy(), **how)
  theirs = Searcher(policy(), **how)
  rounds = set()
  for seed in (1, 6):
    for one, other in zip(walk(ours, seed), walk(theirs, seed), strict=True):
      (rows, beliefs, number), (others, known, _) = one, other
      assert rows.keys() == others.keys()
      for action, row in rows.items():
        live = known[0] > 0
        np.testing.assert_allclose(row[live], others[action][live], atol=1e-6)
      np.testing.assert_allclose(beliefs, known, atol=1e-6)
      rounds.add(number)
  assert rounds == {0, 1}


def test_local_best_response_plays_an_agent():
  agent = searcher().agent(seed=0)
  strategy = AgentStrategy(agent, searcher().agent(seed=1))
  strategy.start()
  rows = strategy.rows()
  np.testing.assert_allclose(rows.sum(axis=0), 1.0, atol=1e-5)
  found = solvers.contrib.local_best_response(agent.searcher.game, strategy, num_hands=8, seed=1)
  assert np.isfinite(found.mean)
  assert found.num_hands == 8


def test_a_time_limits_iterations(monkeypatch):
  timed = searcher()
  monkeypatch.setattr(timed, "num_iterations", 2**16)
  limits = [timed.limit(number) for number in range(len(timed._paces))]
  assert min(limits) < 2**16
  assert all(limit >= 2 and limit % 2 == 0 for limit in limits)
  assert timed._starts  # the first search of a hand is made already
  monkeypatch.setattr(timed, "_paces", [SearchPace(seconds=10.0, fixed=0.0, each=0.5)])
  assert timed.limit(0) == 18


def test_a_slower_search_counts_at_once_and_faster_ones_little_by_little():
  pace = SearchPace(seconds=2.0, fixed=0.3, each=0.01)
  assert pace.iterations(1_000) == 150  # nine tenths of the time, less what no iteration takes
  assert pace.iterations(64) == 64
  slower = pace.after(2.3, 100)
  assert slower.each == pytest.approx(0.02)
  assert slower.iterations(1_000) == 74
  assert slower.after(1.3, 100).each == pytest.approx(0.019)
  assert SearchPace(0.1, 0.3, 0.01).iterations(1_000) == 2  # there is no shorter search


def seat(number, *, seed=0):
  agent = searcher().agent(seed=seed)
  player = TreePlayer(searcher().with_sizes, agent, off_tree="add")
  player.start(number, player.game.deck.parse("KsQh"))
  return player


@pytest.mark.parametrize("chips", [210, 880])
def test_the_bet_is_in_the_tree_that_is_searched(chips):
  player = seat(1)
  player.observe(RaiseTo(chips))
  state, agent = player._state, player.player
  assert state[betting.PAID_0] == chips
  search, node = agent.node()
  assert search.tree.state[node][betting.PAID_0] == chips
  np.testing.assert_array_equal(search.tree.state[node], state)
  # The tree is the builder's of a game that has this size at this decision and nowhere else.
  game, root = player.game, np.asarray(agent._root)
  changed = root != searcher().first_root
  assert changed.sum() == 1
  assert changed[list(size_columns_at(game, root).values())].sum() == 1
  referee = own_tree(game, root)
  paths = {referee.history(n) for n in range(referee.num_nodes)}
  live = [n for n in range(search.tree.num_nodes) if n == 0 or search.tree.parent[n] >= 0]
  burnt = {path for path in paths if path[-1:] == (game.burn,)}
  assert {search.tree.history(n) for n in live} == paths - burnt
  assert player.act() is not None


def test_own_moves_keep_the_probabilities_they_were_made_with():
  player = seat(0)
  agent = player.player
  search, _ = agent.node()
  bet = next(n for n in range(search.tree.num_nodes) if search.tree.history(n) == (FIRST_BET,))
  played = search.policy[bet].copy()
  agent.observe(FIRST_BET)
  player._state = player.game.next_states(player._state[None], np.array([FIRST_BET]))[0]
  player.table.apply(RaiseTo(300))
  player.observe(RaiseTo(777))  # the other raises
  found, node = agent.node()
  assert found is not search
  assert found.tree.state[node][betting.PAID_1] == 777
  expected = agent._root_beliefs[0] * played
  np.testing.assert_allclose(agent.beliefs[0], expected / expected.sum(), rtol=1e-4, atol=1e-6)
  # Control: by the new search they would be others.
  root = agent._root_beliefs.astype(np.float32)
  by_search = np.asarray(posteriors(found.tree, found.policy, root))[node]
  assert np.abs(by_search[0] - agent.beliefs[0]).max() > 1e-4
  # They hold where play goes on.
  before = agent.beliefs[0]
  agent.observe(CALL)
  below = np.flatnonzero((found.tree.parent == node) & (found.tree.action == CALL))
  expected = before * found.policy[below[0]]

  np.testing.assert_allclose(agent._root_beliefs[0], expected / expected.sum(), atol=1e-5)


def test_a_person_bets_any_size_in_the_terminal(monkeypatch):
  monkeypatch.setattr(checkpoint, "load", lambda name: policy())
  monkeypatch.setattr("rebel_jax.agents.agent.make_searcher", lambda *_, **__: searcher())
  waiting, printed = iter(["333", "why", *["call", "check"] * 5, "why", "", "300", "fold"]), []

  def ask(prompt):
    return next(waiting, "quit")

  argv = ["mine", "--iterations", "8", "--seed", "1", "--seat", "0", "--games", "2"]
  assert play.main(argv, ask=ask, say=printed.append) == 0
  text = "\n".join(printed)
  assert "The blinds: you put in 50, the agent 100." in text
  assert re.search(r"after bet to 333|after raise to 333", text)
  assert re.search(r"you hold \w+.*%; its policy: .*%", text)
  assert "'333'" not in text
  assert "in the abstraction" not in text
  assert "added" not in text


RIVER = {"board": "9hTdQsKhKd", "ranks": "9TJQKA", "suits": "shd", "pot": 100, "big_blind": 2}


@pytest.fixture(scope="module")
def spot():
  with jax.enable_x64(True):
    yield nested.make_spot(
      sizes=(0.5, 0.75, 1.0), missing=0.75, num_iterations=2000, stack=1000, **RIVER
    )


@pytest.mark.parametrize("searcher", harness.slow([0, 1], 1))
def test_translation_loses_three_times_what_solving_loses(spot, searcher, x64):
  """Thesis, Table 5.4, in small; promises that mean nothing lose fifty times as much."""

  def loss(method):
    return nested.loss(spot, searcher, nested.answer_all(spot, searcher, method, 2000))

  solved = loss("resolve"), loss("maxmargin")
  assert loss("translation") > 3 * max(solved)
  assert loss("constant") > 50 * max(solved)


def test_translation_where_a_card_is_burned_in_one_tree_only():
  """A raise that the coarse tree takes for a call leaves the other player to act last."""
  deck = {"board": "9hTsQsKh", "ranks": "9TJQKA", "suits": "sh", "pot": 100, "big_blind": 2}

  def game(raises):
    bets = BetSizes((((0.5,),),), all_in=False, max_raises=raises)
    return games.make("turn_endgame_holdem", bets=bets, stack=1000, **deck)

  def rivers(game, tree, *moves):
    """Returns the first decisions of the river by the number of the card, and burns before it."""
    parent, action = np.asarray(tree.parent), np.asarray(tree.action)
    node, burned = 0, 0
    for move in moves:
      node = np.flatnonzero((parent == node) & (action == move)).item()
    if (action[parent == node] == game.burn).any():
      node, burned = np.flatnonzero(parent == node).item(), 1
    dealt = np.flatnonzero(parent == node)
    return {int(action[n] - game.first_deal): int(n) for n in dealt}, burned

  coarse, fine = game(1), game(2)
  tree, whole = games.build_public_tree(coarse), games.build_public_tree(fine)
  policy = np.random.default_rng(0).uniform(size=(tree.num_nodes, tree.num_infostates))
  found = translate(coarse, tree, policy, fine, whole, player=0)
  here, burned = rivers(coarse, tree, FIRST_BET, CALL)
  there, burned_there = rivers(fine, whole, FIRST_BET, FIRST_BET, CALL)
  assert burned != burned_there
  assert here.keys() == there.keys()
  others = [*here.values()][1:] + [*here.values()][:1]  # of another card: the control
  for (number, node), other in zip(here.items(), others):
    rows = found[np.asarray(whole.parent) == there[number]]
    for card in (node, other):
      expected = policy[np.asarray(tree.parent) == card]
      assert np.allclose(rows, expected / expected.sum(axis=0)) == (card == node)


def test_bets_that_cannot_be_answered_are_refused(spot):
  for chips, gadget, said in (
    (87, None, "gadget=None needs whole_decision=True"),
    (87, Resolve(0), "searcher=1, but gadget is for player 0"),
    (100, Maxmargin(1), "bet=100 is in the abstraction already"),
  ):
    given = spot.coarse, spot.tree, spot.policy, (), chips
    assert said in sentence_of(solvers.answer_bet, *given, gadget=gadget)
