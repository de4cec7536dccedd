"""Training on variants of a game: how they are drawn, their tables, where lanes start, resuming."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.search.variants import first_entries, join_subgames, stack_variants

import games
import games.registry
import rebel_jax
import solvers
from games.game import Variation
from games.testing import check_game
from rebel_jax import train as cli
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.presets import get_preset
from rebel_jax.evaluation.spots import at_spot
from rebel_jax.networks.poker import PokerValueNetwork, Table
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.runs.run import train
from rebel_jax.training import setup as training_setup
from rebel_jax.training.self_play import Searched, init_lanes, sample_new_games, self_play_step
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets.value import make_examples
from solvers.search.batch import search_batch
from solvers.search.find import find_subgames
from solvers.search.tables import stack_groups
from solvers.sweeps.levels import join_levels, split_levels
from solvers.sweeps.problem import make_problem
from tests.rebel_jax.test_poker_learning import GAME
from tests.rebel_jax.test_poker_learning import TINY as TINY_POKER
from tests.tiny import TINY, rows, tiny

VARY = {"stack": "250-600", "pot": "100-300", "bets": 0.1, "board": "random"}
FIXED_BOARD = {name: value for name, value in VARY.items() if name != "board"}


@functools.cache
def base_game():
  return games.make("turn_endgame_holdem", **GAME)


def draw(how, number, seed=0):
  rng = np.random.default_rng(seed)
  variation = base_game().vary(**how)
  return [variation.draw(rng) for _ in range(number)]


# Hold'em's variants.


def test_variants_are_games():
  for game in (*draw(VARY, 1), base_game().vary(**VARY).base):
    check_game(game)


def test_variants_are_drawn_from_what_was_asked_for():
  found = draw(VARY, 60)
  assert [repr(game) for game in found] == [repr(game) for game in draw(VARY, 60)]
  assert [repr(game) for game in found[:9]] == [repr(game) for game in draw(VARY, 9)]
  assert [repr(game) for game in found] != [repr(game) for game in draw(VARY, 60, seed=1)]
  stacks = [game.rules.stack for game in found]
  pots = [sum(game.rules.paid) for game in found]
  assert 250 <= min(stacks) < 290
  assert 560 < max(stacks) <= 600
  assert 100 <= min(pots) < 140
  assert 260 < max(pots) <= 300
  assert len({game.board for game in found}) > 30
  for game in found:
    for size, own in zip((0.5, 1.0), game.bets.fractions[0][0], strict=True):
      assert 0 < abs(size - own) <= 0.1
    assert game.rules.big_blind == 100
    # A stack is worth the same in all of them.
    assert game.chip * game.rules.stack == pytest.approx(GAME["stack"])
  assert {game.board for game in draw(FIXED_BOARD, 5)} == {base_game().board}


def test_a_hand_is_the_same_infostate_on_all_boards():
  found = [*draw(VARY, 5), base_game().vary(**VARY).base]
  names = [[game.infostate_name(0, h) for h in range(game.num_infostates)] for game in found]
  assert all(own == names[0] for own in names)
  for game in found:
    blocked = np.isin(game.hole_cards, game.board).any(axis=1)
    np.testing.assert_array_equal(game.prior() == 0, [blocked, blocked])
    with pytest.raises(ValueError, match="is blocked by the board"):
      game.infostate(game.infostate_name(0, int(np.flatnonzero(blocked)[0])))
  own = [base_game().infostate_name(0, h) for h in range(base_game().num_infostates)]
  assert own != names[0]
  # Of the game as it is, infostates are what its board leaves, so they differ from board to board.
  other = base_game().replace(board=found[0].board)
  assert own != [other.infostate_name(0, h) for h in range(other.num_infostates)]


@pytest.mark.slow
def test_infostates_that_the_board_blocks_change_nothing():
  """On a river, the game in the layout of its variants is worth the same, and as exploitable."""
  gains, worth = [], []
  game, wide = base_game(), base_game().vary(**VARY).base
  for one in (game, wide):
    card = next(c for c in range(9) if c not in one.board)
    tree = games.build_public_tree(one, root=(1, 1, one.burn, one.first_deal + card))
    rng = np.random.default_rng(0)
    weights = 1.0 + jnp.asarray(rng.random((tree.num_nodes, 1))) * jnp.ones(tree.num_infostates)
    problem = make_problem(tree, tree.prior)
    levels = problem.normalise(split_levels(tree, weights))
    policy = join_levels(levels)
    gains.append(float(solvers.exploitability(tree, policy)))
    worth.append(np.asarray(solvers.expected_values(tree, policy)))
    if one is wide:
      some = rng.random(tree.prior.shape) * (np.asarray(tree.prior) > 0)
      some /= some.sum(axis=1, keepdims=True)
      otherwise = float(solvers.exploitability(tree, policy, beliefs=some))
      everyone = np.full(tree.prior.shape, 1 / tree.num_infostates)
      with pytest.raises(ValueError, match="which the rules make impossible at the root"):
        solvers.exploitability(tree, policy, beliefs=everyone)
  live = [wide.infostate(game.infostate_name(0, h)) for h in range(game.num_infostates)]
  np.testing.assert_allclose(worth[1][:, live], worth[0], atol=1e-3)
  assert gains[1] == pytest.approx(gains[0], rel=1e-4)
  assert gains[0] > 1
  assert otherwise != pytest.approx(gains[0], rel=1e-4)


def test_the_same_spot_in_other_chips_is_worth_the_same():
  """Payoffs of a variant are counted in stacks of the base game, exactly."""
  twice = base_game().vary(stack="600-600", pot="400-400").draw(np.random.default_rng(0))
  twice = twice.replace(rules=dataclasses.replace(twice.rules, big_blind=200))
  one, other = (games.build_public_tree(game) for game in (base_game(), twice))
  np.testing.assert_allclose(other.payoff_scale, one.payoff_scale)
  np.testing.assert_allclose(other.root_features, one.root_features)
  plain = games.build_public_tree(twice.replace(chip=1.0))
  assert not np.allclose(plain.payoff_scale, one.payoff_scale)


# Their tables.


def unstack(table, row):
  """Returns the nodes that one tree of a table has: state, kind, action and possible."""
  trees = table.trees
  real = np.asarray(trees.kind)[row] != games.PADDING
  leaves = np.asarray(trees.leaf_actor)[row] != games.PADDING
  terminals = real[np.asarray(trees.terminal_nodes)[row]]
  return {
    "state": np.asarray(trees.state)[row][real],
    "kind": np.asarray(trees.kind)[row][real],
    "action": np.asarray(trees.action)[row][real],
    "prior": np.asarray(trees.prior)[row],
    "root_features": np.asarray(trees.root_features)[row],
    "leaf_features": np.asarray(trees.leaf_features)[row][:, leaves],
    "payoff_scale": np.asarray(trees.payoff_scale)[row][terminals],
    "successor": np.asarray(table.successor)[row][leaves],
  }


def place_of(tables, root):
  """Returns the table and the row of a root."""
  (stage,) = (stage for stage in tables.stages if stage.row_of[root] >= 0)
  return stage, stage.row_of[root]


def check_variants(tables, variants, parts):
  """Follows every start and compares what is met with the variant's own subgames."""
  assert tables.num_starts == len(variants)
  for start, game, part in zip(np.asarray(tables.start_roots), variants, parts, strict=True):
    np.testing.assert_array_equal(part.states[0], game.initial_state())
    entry_of = {0: int(start)}  # by number within the variant
    queue = [0]
    while queue:
      number = queue.pop()
      entry = entry_of[number]
      tree = part.trees[number]
      found = unstack(*place_of(tables, entry))
      successor = found.pop("successor")
      for name, value in found.items():
        np.testing.assert_array_equal(value, getattr(tree, name), err_msg=name)
      assert len(successor) == tree.num_leaves
      for below, expected in zip(successor.tolist(), part.successors[number].tolist()):
        if expected not in entry_of:
          entry_of[expected] = below
          queue.append(expected)
        assert entry_of[expected] == below
    assert len(entry_of) == len(part.trees)


@functools.cache
def varied_tables(number=3, by_stage=True):
  variants = draw(VARY, number)
  parts = [find_subgames(game, depth="stage" if by_stage else 2) for game in variants]
  return variants, parts, stack_variants(variants, parts, by_stage=by_stage, node_features=True)


@pytest.mark.parametrize("by_stage", [True, False])
def test_tables_hold_each_variant_and_play_stays_in_it(by_stage):
  variants, parts, tables = varied_tables(by_stage=by_stage)
  assert len(tables.stages) == (3 if by_stage else 1)
  check_variants(tables, variants, parts)


def test_successors_of_another_variant_are_found_out():
  variants, parts, tables = varied_tables()
  table = tables.stages[0]
  successor = np.array(table.successor)
  successor[1] = np.where(successor[1] >= 0, successor[0, 0], -1)
  broken = dataclasses.replace(table, successor=successor)
  broken = dataclasses.replace(tables, stages=(broken, *tables.stages[1:]))
  with pytest.raises(AssertionError):
    check_variants(broken, variants, parts)
  with pytest.raises(AssertionError):
    check_variants(tables, variants, parts[::-1])


def test_features_inside_subgames_are_those_of_the_variant():
  variants, parts, tables = varied_tables()
  for game, part, first in zip(variants, parts, first_entries(parts)):
    for number in range(len(part.trees)):
      table, row = place_of(tables, first + number)
      kind = np.asarray(table.trees.kind)[row]
      for player in (0, 1):
        states = np.asarray(table.trees.state)[row][kind == player]
        shown = np.asarray(table.node_features)[row][kind == player]
        np.testing.assert_allclose(shown, game.features(states, player), rtol=1e-6)


def test_starts_must_be_in_the_first_table():
  joined = join_subgames([find_subgames(games.make("kuhn_poker"), depth=1)] * 2)
  assert joined.starts == (0, len(joined.trees) // 2)
  with pytest.raises(ValueError, match=f"entries \\[{joined.starts[1]}\\] start a game"):
    stack_groups(joined, [[0], list(range(1, len(joined.trees)))])


def values_of(tables, parts, variants, stage, leaf_values, params):
  """Returns values of one subgame of each variant, and what a table for it alone would give."""
  rng = np.random.default_rng(stage)
  first = first_entries(parts)
  numbers = [
    next(i for i, s in enumerate(part.states) if game.stages(s[None])[0] == stage)
    for game, part in zip(variants, parts)
  ]
  table = tables.stages[stage]
  roots = np.array([f + n for f, n in zip(first, numbers)])
  at, trees = table.row_of[roots], table.trees_at(roots)
  possible = np.asarray(table.trees.prior)[at] > 0
  weights = rng.exponential(size=possible.shape) * possible
  beliefs = jnp.asarray(weights / weights.sum(axis=-1, keepdims=True), jnp.float32)
  settings = dict(algorithm=solvers.linear_cfr(), leaf_values=leaf_values, params=params)
  together = search_batch(
    trees, beliefs, jnp.zeros(len(at), int), 8,
    num_rows=max(int(np.asarray(table.num_live)[at].sum()), 1), **settings,
  )  # fmt: skip
  active = jnp.ones(len(at), bool)
  searched = Searched(trees, None, beliefs, active, together.average_policy, together)
  examples, _ = make_examples(None, searched)
  alone = []
  for part, number, own in zip(parts, numbers, beliefs):
    tree = part.trees[number]
    search = dict(settings) if tree.depth_limited else {"algorithm": settings["algorithm"]}
    alone.append(solvers.solve(tree, num_iterations=8, beliefs=own, **search).root_values)
  mask = np.asarray(examples.mask).reshape(2, len(parts), -1).swapaxes(0, 1)
  seen = np.asarray(examples.features).reshape(2, len(parts), -1)[0]
  for row, game, part, number in zip(seen, variants, parts, numbers):
    np.testing.assert_allclose(row, game.features(part.states[number][None], 0)[0], rtol=1e-6)
  return np.asarray(together.root_values) * mask, np.stack(alone) * mask


@functools.cache
def wide_network():
  game = base_game().vary(**VARY).base
  network = PokerValueNetwork(
    num_infostates=game.num_infostates,
    hidden_layers=1,
    width=16,
    table=Table.of(game),
    embedding=4,
  )
  features = jnp.asarray(game.features(game.initial_state()[None], 0), jnp.float32)
  params = network.init(jax.random.key(0), features, jnp.zeros((1, 2 * game.num_infostates)))
  return network, {"value": params}


@pytest.mark.parametrize("stage", [*(pytest.param(s, marks=pytest.mark.slow) for s in (0, 2)), 1])
def test_targets_are_those_of_the_variant_alone(stage):
  variants, parts, tables = varied_tables()
  network, params = wide_network()
  arguments = (stage, NetworkLeafValues(network), params)
  ours, theirs = values_of(tables, parts, variants, *arguments)
  np.testing.assert_allclose(ours, theirs, atol=0.02)
  assert np.abs(ours - theirs[[1, 2, 0]]).max() > 1  # another variant's


def test_a_network_values_the_pot_of_each_variant_in_its_own_chips():
  network, _ = wide_network()
  for game in draw(VARY, 4):
    unit = network.unit(jnp.asarray(game.features(game.initial_state()[None], 0)))
    assert float(unit[0, 0]) == pytest.approx(sum(game.rules.paid) * game.chip)


# A game with variants that compiles in seconds: Kuhn poker for other stakes.


class Stakes(games.KuhnPoker):
  """Kuhn poker for `stakes` chips; both players see how many."""

  def __init__(self, stakes: int = 1):
    super().__init__()
    self.name = "kuhn_for_stakes"
    self.stakes = stakes

  def vary(self, **how):
    if set(how) != {"most"}:
      raise ValueError(f"vary={', '.join(how)} is unknown; known: most")
    most = int(how["most"])
    return Variation(self, lambda rng: Stakes(int(rng.integers(2, most + 1))))

  def payoff_scale(self, states):
    return super().payoff_scale(states) * self.stakes

  def features(self, states, player):
    shown = super().features(states, player)
    return np.concatenate([shown, np.full((len(states), 1), self.stakes)], axis=1)


VARIED = {"game": "kuhn_for_stakes", "variants": 4, "vary": (("most", 9),)}


@pytest.fixture
def stakes(monkeypatch):
  known = dict(games.registry._REGISTRY) | {"kuhn_for_stakes": Stakes}
  monkeypatch.setattr(games.registry, "_REGISTRY", known)
  monkeypatch.setattr(training_setup, "_NUM_STARTS", 2)


@pytest.mark.parametrize("share_start", [True, False])
def test_new_games_start_in_all_variants_alike(share_start, stakes):
  setup = make_setup(TINY.replace(**VARIED, share_start=share_start, num_devices=1))
  settings = setup.trainer.self_play
  assert (settings.num_starts, setup.table.num_starts) == (2, 4)
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  starts = jax.jit(lambda key: sample_new_games(setup.table, settings, params, key).roots)
  size = setup.table.num_subgames // 4
  roots = np.stack([starts(jax.random.key(i)) for i in range(300)])  # [300, B]
  counts = np.bincount((roots // size).reshape(-1), minlength=4) / roots.size
  np.testing.assert_allclose(counts, 0.25, atol=0.05)
  beyond = (roots % size > 0).mean()  # shared starts are played already
  assert beyond == share_start
  assert len(np.unique(roots // size, axis=0)) > 8
  lanes = init_lanes(setup.table, 4_000, jax.random.key(0))
  assert set(np.asarray(lanes.roots)) == set(setup.table.start_roots.tolist())
  counts = np.bincount(np.asarray(lanes.roots) // size) / 4_000
  np.testing.assert_allclose(counts, 0.25, atol=0.05)


def test_lanes_stay_in_their_variant_until_the_game_ends(stakes):
  setup = make_setup(TINY.replace(**VARIED, num_devices=1))
  params = setup.trainer.init(setup.table, 0, setup.mesh).params

  @jax.jit
  def step(lanes, key):
    played = self_play_step(setup.table, setup.trainer.self_play, lanes, params, key)
    (target,) = setup.trainer.targets
    return played.lanes, target.examples_of(played.searched)[0].features

  size = setup.table.num_subgames // 4
  lanes = init_lanes(setup.table, TINY.self_play.lanes, jax.random.key(0))
  went_on = 0
  for i in range(40):
    before = np.asarray(lanes.roots)
    lanes, features = step(lanes, jax.random.key(i))
    after = np.asarray(lanes.roots)
    begins = np.isin(after, setup.table.start_roots)
    np.testing.assert_array_equal((after // size)[~begins], (before // size)[~begins])
    went_on += int((~begins).sum())
    stakes_seen = np.asarray(features)[: TINY.self_play.lanes, -1]
    expected = [g.stakes for g in setup.config.make_variants()]
    np.testing.assert_array_equal(stakes_seen, np.array(expected)[before // size])
  assert went_on > 20


@pytest.mark.slow
def test_a_run_with_variants_goes_on_as_if_never_stopped(stakes, tmp_path):
  changes = VARIED | {"seed": 5, "evaluate_every": 0}
  train(tiny(tmp_path / "whole", **changes))
  train(tiny(tmp_path / "parts", **changes), stop=lambda step: step >= 4)
  train(tiny(tmp_path / "parts", **changes, resume=True))
  assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
  whole, parts = (rebel_jax.load(tmp_path / name) for name in ("whole", "parts"))
  jax.tree.map(np.testing.assert_array_equal, whole.params, parts.params)
  again = Config.from_dict(json.loads(json.dumps(whole.config.to_dict())))
  assert again == whole.config
  stakes_of = [game.stakes for game in again.make_variants()]
  assert stakes_of == [game.stakes for game in whole.config.make_variants()]
  assert stakes_of != [g.stakes for g in again.replace(seed=6).make_variants()]
  # The game that is evaluated and played is the configured one.
  assert again.make_game().stakes == 1
  with pytest.raises(ConfigError, match=r"^variants=3 cannot resume the run"):
    train(tiny(tmp_path / "parts", **(changes | {"variants": 3}), resume=True))


def test_what_is_not_allowed(capsys):
  holdem = {"game": "turn_endgame_holdem", "game_params": tuple(GAME.items())}
  for changes, message in [
    (dict(variants=-1), "^variants=-1 must be at least 0"),
    (dict(variants=2), "^variants=2 must be 0 where vary is empty"),
    (dict(variants=2, vary="stack"), "^vary='stack' must be pairs of a name"),
    (dict(vary=(("stack", "1-2"),)), "^vary=stack is not allowed: kuhn_poker has no variants"),
    (holdem | dict(vary=(("stacks", "1-2"),)), "^vary='stacks' is unknown for turn_endgame_hold"),
    (holdem | dict(vary=(("stack", "2-1"),)), "^vary stack='2-1' must be LOW-HIGH"),
    (holdem | dict(vary=(("stack", 300),)), "^vary stack=300 must be LOW-HIGH"),
    (holdem | dict(vary=(("stack", "100-300"),)), "^vary stack='100-300' may leave nothing to bet"),
    (holdem | dict(vary=(("pot", "200-600"),)), "^vary pot='200-600' may leave nothing to bet"),
    (holdem | dict(vary=(("pot", "101-200"),)), "^vary pot='101-200' must be from an even number"),
    (holdem | dict(vary=(("bets", "0.1-"),)), "^vary bets='0.1-' must be a part of the pot"),
    (holdem | dict(vary=(("bets", 1.5),)), "^vary bets=1.5 must be a part of the pot"),
    (holdem | dict(vary=(("board", "all"),)), "^vary board='all' must be 'random'"),
    (
      dict(game="small_holdem", game_params=(), vary=(("board", "random"),)),
      "^vary board='random' must be 'random', in a game that starts with cards",
    ),
  ]:
    with pytest.raises(ConfigError, match=message):
      TINY.replace(**changes).validate()
  line = ["--preset", "leduc_poker", "--variants", "2", "--vary", "bets", "0.1"]
  assert cli.main(line) == 2
  said = capsys.readouterr().err
  assert said == "error: vary=bets is not allowed: leduc_poker has no variants\n"


def test_another_game_takes_no_variation_over():
  line = ["--preset", "small_turn_endgame_holdem_varied", "--game", "leduc_poker"]
  config = cli.parse(line).config
  assert (config.variants, config.vary) == (0, ())
  config = cli.parse([*line[:2], "--vary", "board", "random", "bets", "0.2"]).config
  assert config.vary == (("board", "random"), ("bets", 0.2))


# Other spots.


def test_a_network_at_another_spot():
  policy = rebel_jax.load_pretrained("small_turn_endgame_holdem")
  assert at_spot(policy, ()) is policy
  moved = at_spot(policy, (("stack", 9_000),))
  assert moved.config.make_game().rules.stack == 9_000
  assert dict(moved.config.game_params)["board"] == dict(policy.config.game_params)["board"]
  assert moved.params is policy.params
  for changes in ((("board", "9sJhKdQs"),), (("ranks", "8TJQKA"), ("board", "8sJhKdAs"))):
    with pytest.raises(ConfigError, match="would number infostates or actions otherwise"):
      at_spot(policy, changes)
  with pytest.raises(ConfigError, match="has no parameter 'stacks'"):
    at_spot(policy, (("stacks", 9_000),))


def test_a_network_of_many_boards_plays_other_boards():
  config = get_preset("small_turn_endgame_holdem").replace(variants=2, vary=(("board", "random"),))
  shapes = checkpoint.abstract_params(config)
  policy = checkpoint.Policy(config, shapes, {"checkpoint": "run"})
  moved = at_spot(policy, (("board", "9sJhKdQs"),))
  assert moved.config.make_game().num_infostates == 153


@pytest.mark.slow
@pytest.mark.parametrize("policy_network", [False, True])
def test_training_on_variants_of_holdem_learns_and_repeats(policy_network):
  config = TINY_POKER.replace(
    variants=3,
    vary=tuple(VARY.items()),
    policy_network=policy_network,
    num_devices=1,
  )
  setup = make_setup(config)
  assert setup.table.stages[0].num_subgames == 3
  ends = []
  for _ in range(2):
    state = setup.trainer.init(setup.table, 1, setup.mesh)
    before = jax.device_get(state.params)
    for _ in range(3):
      state, report = setup.trainer.run(setup.table, state, config.run.report_every, setup.mesh)
    ends.append(jax.device_get(state.params))
  jax.tree.map(np.testing.assert_array_equal, *ends)
  moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), before, ends[0])
  assert min(jax.tree.leaves(moved)) > 0
  assert np.isfinite(report.learned["value"].loss).all()
  # Examples come from all variants: of each, the pot and the cards shown.
  replay = state.replay["value"]
  examples = np.asarray(replay.examples.features)[0, : int(replay.added[0])]
  seen = {tuple(row[8:]) for row in examples}
  boards = {tuple(game.features(game.initial_state()[None], 0)[0, 8:]) for game in
            config.make_variants()}  # fmt: skip
  assert boards <= seen
