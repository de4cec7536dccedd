"""Agents whose searches make their trees: what they play, at the table and in matches."""

import functools

import numpy as np
import pytest

import games
from games.arrays import one
from rebel_jax.agents.agent import make_searcher
from rebel_jax.agents.dealer import Dealer, Move
from rebel_jax.config.config import GrowingSearch
from rebel_jax.networks.value import NetworkStates
from rebel_jax.training.setup import make_state_network
from solvers.growing.continual.grounds import history_policies
from solvers.metrics.histories import public_histories
from tests import tiny

ROOM = 4


@pytest.fixture(autouse=True)
def kuhn_by_rules(monkeypatch):
  """Poker whose trees searches make."""
  monkeypatch.setattr(games.KuhnPoker, "written", False)


SEARCH = GrowingSearch(simulations=6, eval_iterations=12)
untrained = functools.cache(functools.partial(tiny.untrained, preset="pog_kuhn", search=SEARCH))


def all_choices(agent, histories, promises=1.0) -> np.ndarray:
  """Returns the agent's policy at all decisions, `[N, M, H]`, each come to in a game of its own."""
  game, policy = agent.searcher.game, np.zeros(histories.moves.shape)
  dealt = np.argmax(game.prior() > 0, axis=1)
  for node in np.flatnonzero(histories.kind < games.CHANCE).tolist():
    player = int(histories.kind[node])
    agent.start(player, int(dealt[player]))
    for action in histories.since(node, None):
      agent.observe(action)
      if int(agent._left.current) >= 0 and len(agent._since) == 1:
        agent._left = agent._left._replace(values=agent._left.values * promises)
    for infostate in np.flatnonzero(histories.possible[node, player]).tolist():
      agent.infostate = infostate
      chances = agent.choices()
      leads_to, action = (x[:, infostate] for x in one(game.moves_of, *agent._here))
      for number in np.flatnonzero(action >= 0):
        move = Move(int(action[number]), int(leads_to[number]))
        policy[node, number, infostate] = chances[move]
  return policy


@pytest.mark.slow
def test_an_agent_plays_the_policy_that_is_measured(x64):
  """At every decision, number for number; controls: another seed, a chain of wrong promises."""
  policy = untrained("kuhn_poker")
  shared = make_searcher(policy, num_games=1)
  histories = public_histories(games.make("kuhn_poker"))
  measured = history_policies(
    histories,
    search=shared.settings,
    seeds=(3, 4),
    network=NetworkStates(make_state_network(policy.config, games.make("kuhn_poker"))),
    params=policy.params,
    batch_size=ROOM,
  )
  played = all_choices(shared.agent(seed=3), histories)
  assert played.dtype == measured.dtype == float
  np.testing.assert_allclose(played, measured[0], atol=1e-12)
  assert np.abs(played - measured[1]).max() > 1e-2
  wrong = all_choices(shared.agent(seed=3), histories, promises=-1.0)
  first = [n for n in range(len(wrong)) if len(histories.since(n, None)) < 2]
  np.testing.assert_allclose(wrong[first], measured[0, first], atol=1e-12)
  assert np.abs(wrong - measured[0]).max() > 1e-2


def test_one_play_of_a_table_is_one_play_of_its_game():
  """Leduc poker in tables, move by move; deals are as often what they should be."""
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  table, rng = games.tabulate(game, tree), np.random.default_rng(0)
  dealt = np.zeros((2, game.num_infostates, game.num_infostates))
  for number in range(300):
    dealers = Dealer(table), Dealer(game)
    for count, dealer in zip(dealt, dealers):
      dealer.deal(rng)
      count[tuple(dealer.infostates)] += 1 / 300
    if number >= 6:
      continue
    dealers[0].infostates = list(dealers[1].infostates)
    while not dealers[1].is_over():
      assert dealers[0].actor == dealers[1].actor
      assert dealers[0].legal_actions() == dealers[1].legal_actions()
      if dealers[1].actor == games.CHANCE:
        move = Move(dealers[number % 2].sample_chance(rng), -1)
      else:
        assert dealers[0].legal_moves() == dealers[1].legal_moves()
        moves = dealers[1].legal_moves()
        move = moves[rng.integers(len(moves))]
      names = {x.game.describe(x.history, move.action) for x in dealers}
      assert len(names) == 1
      for dealer in dealers:
        dealer.apply(move, rng)
    assert dealers[0].payoff() == pytest.approx(dealers[1].payoff(), rel=1e-6)
  assert np.abs(dealt[0] - dealt[1]).max() < 0.09
  assert not np.diag(dealt[0]).any()  # the same card twice
  assert dealt[0].max() < 0.09
  with pytest.raises(ValueError, match="action=99 is not legal"):
    Dealer(table).apply(Move(99, 0), rng)
