"""Spots as lines of betting against the tree of all hands and cards, and sums over all pairs."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.poker import BetSizes, RiverEndgame, TurnEndgame, evaluate
from games.poker.lines import boards, expand_policy, make_lines, round_up, shape_of, share_shapes
from games.poker.lines.boards import find_alike, suit_permutations
from games.poker.lines.rounding import bucket
from solvers import solve_boards, tuning
from solvers.half import from_half, to_half
from solvers.solve import default_batch_size
from solvers.solve_boards import ByBoards
from solvers.sweeps.lines import ends, parts
from solvers.sweeps.lines.problem import largest_table
from solvers.sweeps.problem import Lock
from solvers.xla import Programs
from tests import harness
from tests.hand_pairs import pairs_on, small_spot
from tests.sentences import sentence_of
from tests.tiny import python

ALIKE = ("AA,KQ,J9s:0.3,99", "TT,AJ,K9s,QJo:0.7")
CARDS = ("AA,KQ,99,JJ:0.4", "TT,AJ,QJ:0.7")  # as many hands, so that trees share programs
APART = ("AA,KQ,J9s:0.3,99,KcQc:0.5", "TT,AJ,K9s,QJo:0.7")
TURNS = {"alike": (ALIKE, "linear_cfr"), "apart": (APART, "predictive_cfr_plus")}
UNTIL = {"algorithm": solvers.discounted_cfr(), "target": 0.08}

# Suits without cards on the board may be alike.
make = functools.partial(small_spot, ranks="9TJQKA", suits="shdc")


def solve(game, iterations, algorithm="linear_cfr", shape=None):
  """Returns the exploitability on lines, the policy on the tree, and the tree; in float64."""
  lines, columns = make_lines(game)
  wide, places = round_up(lines, shape=shape) if shape else (lines, itertools.repeat(slice(None)))
  algorithm = solvers.make_algorithm(algorithm)
  found = solvers.solve(wide, algorithm=algorithm, target=0, num_iterations=iterations)
  assert (found.sums is None) == (algorithm == solvers.predictive_cfr_plus())
  rows = [x[:, at] for x, at in zip(found.average_policy, places)]
  tree = games.build_public_tree(game)
  return found.exploitability, expand_policy(lines, columns, rows, tree), tree


@functools.cache
def turn(name):
  ranges, algorithm = TURNS[name]
  game = make("TsJh9hAs", ranges)
  with jax.enable_x64(True):
    return game, *solve(game, 4, algorithm), algorithm


def assert_solved_as_on_the_tree(game, gap, policy, tree, algorithm="linear_cfr"):
  """Checks that the policy is as exploitable there, and what as many iterations give there."""
  with jax.enable_x64(True):
    assert gap == pytest.approx(float(solvers.exploitability(tree, policy)), abs=1e-9)
    whole = solvers.solve(tree, algorithm=solvers.make_algorithm(algorithm), num_iterations=4)
    ours, theirs = (solvers.expected_values(tree, x) for x in (policy, whole.average_policy))
  np.testing.assert_allclose(ours[game.prior() > 0], theirs[game.prior() > 0], atol=1e-9)


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_is_solved_as_on_the_tree(name):
  assert_solved_as_on_the_tree(*turn(name))


@pytest.mark.parametrize("name", TURNS)
def test_suits_are_found_alike_or_not(name, monkeypatch):
  game = turn(name)[0]
  found = suit_permutations(game, game.prior())
  assert len(found) == (2 if name == "alike" else 1)
  said = make_lines(game)[1].sentence()
  assert said.startswith("Suits d and c may" if name == "alike" else "No suits are alike")
  if name == "alike":
    return
  # Merged all the same, they would be told from what they are.
  alike = make("TsJh9hAs", ALIKE)
  permutations = suit_permutations(alike, alike.prior())
  assert np.array_equal(alike.hole_cards, game.hole_cards)
  monkeypatch.setattr(boards, "suit_permutations", lambda *_: permutations)
  with jax.enable_x64(True):
    gap, policy, tree = solve(game, 4)
    assert abs(gap - float(solvers.exploitability(tree, policy))) > 1e-3


@pytest.mark.parametrize("board", harness.slow(["TsJh9hAs", "TsJh9dAc"], "TsJh9dAc"))
def test_cards_of_a_rank_are_merged_on_a_turn(board, monkeypatch):
  game = make(board, CARDS)
  with jax.enable_x64(True):
    lines, columns = make_lines(game)
    gap, policy, tree = solve(game, 4, shape=shape_of(lines))
  with monkeypatch.context() as patched:
    patched.setattr(boards, "alike_hands", lambda *_: None)
    suits, _ = make_lines(game)
  assert lines.streets[1].width(0) < suits.streets[1].width(0)
  assert columns.sentence().startswith("Cards of a rank in suits without a flush are alike")
  assert_solved_as_on_the_tree(game, gap, policy, tree)
  if board == "TsJh9hAs":  # merged all the same, cards that may flush would be found
    monkeypatch.setattr(boards, "card_groups", lambda game: np.arange(24) // 4 * 4)
    with jax.enable_x64(True):
      gap, policy, tree = solve(game, 4, shape=shape_of(lines))
      assert abs(gap - float(solvers.exploitability(tree, policy))) > 1e-3


def test_fictitious_play_takes_lines():
  game, algorithm = make("TsJh9hAs", CARDS), solvers.linear_fictitious_play()
  with jax.enable_x64(True):
    lines, columns = make_lines(game)
    tree = games.build_public_tree(game)
    found, whole = (solvers.solve(x, algorithm=algorithm, num_iterations=6) for x in (lines, tree))
    policies = expand_policy(lines, columns, found.average_policy, tree), whole.average_policy
    gap, other = (float(solvers.exploitability(tree, x)) for x in policies)
  assert found.exploitability == pytest.approx(gap, abs=1e-9)
  assert found.exploitability == pytest.approx(other, rel=1e-3)


@pytest.mark.slow
def test_a_flop_is_solved_as_on_the_tree(cpu, monkeypatch):
  """With few cards, the last round a few boards at a time; control: an update not counted."""
  game = small_spot("TsJsKs", ("AA,KQ", "TT,AJ:0.5,QTs"))
  monkeypatch.setattr(tuning, "ON_CPU", dataclasses.replace(tuning.ON_CPU, cells=800))
  with jax.enable_x64(True):
    gap, policy, tree = solve(game, 4)
    problem = parts.make_parted_problem(make_lines(game)[0])
  boards = [(part.boards, part.num_chunks, part.group.boards) for part in problem.parts]
  assert len(boards) > 1  # some boards leave suits alike
  assert any(number < chunks * size for number, chunks, size in boards)  # filled up
  assert any(size > 1 for _, _, size in boards)
  assert_solved_as_on_the_tree(game, gap, policy, tree)
  monkeypatch.setattr(ByBoards, "_count_first", lambda self, problem, state: state)
  jax.clear_caches()
  with jax.enable_x64(True):
    assert abs(solve(game, 4)[0] - gap) > 1e-3
  jax.clear_caches()


@pytest.mark.parametrize("board", harness.slow(["TsJh9hAs", "TsJh9hAsKd"], "TsJh9hAsKd"))
def test_a_solve_goes_on_as_if_it_had_not_stopped(board, cpu, monkeypatch):
  monkeypatch.setattr(tuning, "ON_CPU", dataclasses.replace(tuning.ON_CPU, cells=900))
  cut = Programs(parts.make_parted_problem, static_argnames="shares")  # by what was just set
  monkeypatch.setattr(solve_boards, "_part_boards", cut)
  with jax.enable_x64(True):
    lines, _ = make_lines(make(board, APART))
    if len(lines.streets) > 1:
      (part,) = cut(lines, 1).parts
      # There are several chunks of several boards, and the last is filled up.
      assert part.num_chunks > 1
      assert 1 < part.group.boards < part.boards < part.num_chunks * part.group.boards

    def find(number, algorithm="discounted_cfr", **more):
      algorithm = solvers.make_algorithm(algorithm)
      return solvers.solve(lines, algorithm=algorithm, target=0, num_iterations=number, **more)

    before, whole = find(4), find(8)
    again = find(8, start=before)
    assert again.iterations == 8
    assert again.exploitability == pytest.approx(whole.exploitability, rel=2e-4)  # by 16 bits
    for ours, theirs in zip(again.average_policy, whole.average_policy, strict=True):
      np.testing.assert_allclose(ours, theirs, atol=2e-3)
    assert "num_iterations=4 must be more than start's 4" in sentence_of(find, 4, start=before)
    fewer = before._replace(sums=[rows[1:] for rows in before.sums])
    assert "must be of the same lines" in sentence_of(find, 8, start=fewer)
    for start, *other in ((before._replace(sums=None),), ("",), (before, "predictive_cfr_plus")):
      said = sentence_of(find, 8, *other, start=start)
      assert "must be a solution with sums, of lines by CFR" in said
    for k in (0, 1):  # both are needed
      sums = list(before.sums)
      sums[k] = jax.tree.map(lambda x: 0 * x, sums[k])
      worse = find(8, start=before._replace(sums=sums))
      assert abs(worse.exploitability / whole.exploitability - 1) > 0.01


def test_a_lock_of_lines_may_leave_out_which_moves_are_open(rivers):
  with jax.enable_x64(True):
    lines, _ = round_up(rivers[1][0][0], lambda n: 120)

    def gap(lock):
      how = {"algorithm": solvers.discounted_cfr(), "target": 0, "num_iterations": 8}
      return solvers.solve(lines, **how, locked=lock).exploitability

    every = np.ones((lines.num_nodes, 1))
    assert gap(Lock(0 * every, every)) == gap(None)
    wide = np.ones((1, max(lines.streets[0].width(p) for p in (0, 1))))
    assert gap(Lock(0 * every * wide, every * wide)) == gap(None)
    with pytest.raises(ValueError, match=r"one for each line, or, of columns of the first round"):
      gap(Lock(0 * every, every * wide))


@pytest.mark.parametrize("made", [jnp.asarray, np.asarray])
def test_packed_rows_lose_no_more_than_half_says(made):
  rng = np.random.default_rng(0)
  rows = rng.normal(size=(3, 2, 50)) * 10.0 ** rng.uniform(-7, 2, (3, 2, 50))
  rows[1, 0] = 0
  rows[2, 1] = np.arange(1999, 2049)
  rows = rows.astype(np.float32)
  found, most = from_half(to_half(made(rows))), np.abs(rows).max(axis=2, keepdims=True)
  assert (np.abs(found - rows) <= 2**-11 * np.abs(rows) + 2**-24 * most).all()
  np.testing.assert_array_equal(found[2, 1], rows[2, 1])
  assert np.abs(found - rows).max() > 0  # 16 bits are not enough for all


@pytest.mark.slow
def test_tables_of_16_bits_solve_to_a_thousandth_of_the_pot(monkeypatch):
  """Control: a wrong scale."""
  lines, _ = make_lines(make("TsJh9hAs", ALIKE))

  def packing(kind):
    how = {"algorithm": solvers.discounted_cfr(), "target": 0, "num_iterations": 600}
    return solvers.solve(lines, tables=kind, **how).exploitability / 20

  assert packing(None) < 1e-3
  assert packing("float16") < 1e-3
  wrong = lambda x: from_half(x._replace(scale=x.scale**0.9))  # noqa: E731
  monkeypatch.setattr(solve_boards, "from_half", wrong)
  jax.clear_caches()
  assert packing("float16") > 3e-3
  jax.clear_caches()


@pytest.fixture(scope="module")
def rivers():
  """Rivers of all hands equally often, on which hands are alike, and what was found at once."""
  made = [make(board) for board in ("TsJh9hAs9d", "TdJd9dQsKs", "TsTh9s9hQd")]
  with jax.enable_x64(True):
    lines = [make_lines(game) for game in made]
    rounded = [round_up(x, lambda n: 120) for x, _ in lines]
    found = solvers.solve_batch([x for x, _ in rounded], num_iterations=100, **UNTIL)
  return made, lines, [places for _, places in rounded], found


def test_an_accelerator_takes_as_many_rivers_as_its_memory(rivers, cpu, monkeypatch):
  lines = rivers[1][0][0]
  assert default_batch_size(lines) == tuning.ON_CPU.spots
  monkeypatch.setattr(tuning, "platform", lambda: "gpu")
  size, table = default_batch_size(lines), largest_table(lines)
  assert table >= lines.streets[0].belief[0].nbytes * sum(level.size for level in lines.levels)
  assert size * table <= tuning.ON_ACCELERATOR.table_bytes < (size + 1) * table


def test_rivers_at_once_are_as_exploitable_on_their_trees(rivers):
  made, lines, places, found = rivers
  for k, game in enumerate(made):
    own, columns = lines[k]
    assert own.streets[0].width(0) < game.num_infostates
    assert columns.sentence().startswith("Cards of a rank in suits without a flush are alike")
    policy = [
      np.asarray(x[k])[:, at] for x, at in zip(found.average_policy, places[k], strict=True)
    ]
    with jax.enable_x64(True):
      tree = games.build_public_tree(game)
      exact = solvers.exploitability(tree, expand_policy(own, columns, policy, tree))
    assert float(found.exploitability[k]) == pytest.approx(float(exact), abs=1e-9)


def test_exploitability_in_single_precision(rivers):
  game = rivers[0][0]
  lines, columns = make_lines(game)
  gaps = []
  for number in (64, 66):
    found = solvers.solve_batch([lines], algorithm=solvers.discounted_cfr(), num_iterations=number)
    policy = [np.asarray(x[0], np.float64) for x in found.average_policy]
    with jax.enable_x64(True):
      tree = games.build_public_tree(game)
      exact = float(solvers.exploitability(tree, expand_policy(lines, columns, policy, tree)))
    gaps.append((float(found.exploitability[0]), exact))
  for single, double in gaps:
    assert single == pytest.approx(double, rel=0.01)
  assert gaps[0][0] != pytest.approx(gaps[1][1], rel=0.01)  # the control: two iterations later


def test_values_that_are_not_numbers_do_not_look_solved(rivers):
  lines, _ = round_up(rivers[1][0][0], lambda n: 120)
  lines = dataclasses.replace(lines, stakes=jax.tree.map(lambda x: x * np.nan, lines.stakes))
  how = {"algorithm": solvers.discounted_cfr(), "target": 1.0, "num_iterations": 2}
  with jax.enable_x64(True):
    assert np.isnan(solvers.solve(lines, **how).exploitability)


def test_ranges_that_tell_cards_apart_are_not_merged(rivers):
  game = rivers[0][0]
  beliefs = game.prior().copy()
  assert find_alike(game, beliefs).hands is not None
  beliefs[0, game.infostate("KdKc")] *= 1.01
  assert find_alike(game, beliefs / beliefs.sum(axis=1, keepdims=True)).hands is None


def test_spots_at_once_have_one_shape(rivers):
  with pytest.raises(ValueError, match="trees=3 lines of 2 shapes must be of one"):
    solvers.solve_batch([x for x, _ in rivers[1]], algorithm=solvers.linear_cfr(), num_iterations=2)


def sums_over_pairs(columns, reach, player, board):
  """Returns fold and showdown values of each of a player's columns, pair by pair of hands."""
  game, own = columns.game, columns.classes[0]
  places = own[1 - player].column[0]
  of_hands = np.where(places >= 0, reach[places], 0)
  tables = pairs_on(game.deck, game.hole_cards, board)
  return np.stack([(table @ of_hands)[own[player].hand] for table in tables])


def test_spots_at_once_stop_where_each_would_alone(rivers):
  with jax.enable_x64(True):
    lines = [round_up(x, lambda n: 120)[0] for x, _ in rivers[1]]
    alone = [solvers.solve(x, num_iterations=100, **UNTIL) for x in lines]
  found = rivers[3]
  iterations = [x.iterations for x in alone]
  assert found.iterations.tolist() == iterations
  assert len(set(iterations)) > 1  # or the first to stop would not be told from the last
  for k, one in enumerate(alone):
    assert float(found.exploitability[k]) == pytest.approx(one.exploitability, abs=1e-9)
    for rows, own in zip(found.average_policy, one.average_policy, strict=True):
      np.testing.assert_allclose(rows[k], own, atol=1e-9)
  with pytest.raises(ValueError, match="num_iterations=3 must be even, and target=0.1"):
    solvers.solve_batch(lines, num_iterations=3, **UNTIL | {"target": 0.1})


def test_shapes_that_spots_share():
  boards = ("TsJh9hAs", "TsJh9hKs", "TsJsQsAs", "TsTh9s9h")
  spots = [make_lines(make(board, ALIKE))[0] for board in boards]
  own = [shape_of(lines) for lines in spots]
  assert share_shapes(own, 1.0) == own
  shared = share_shapes(own, 2.0)
  assert len(set(shared)) < len(set(own))
  for lines, alone, shape in zip(spots, own, shared):
    assert alone.cells <= shape.cells <= 2 * alone.cells
    wide, _ = round_up(lines, shape=shape)
    assert shape_of(wide) == shape
  first = [k for k, shape in enumerate(shared) if shape == shared[0]]
  made = [round_up(spots[k], shape=shared[0])[0] for k in first]
  assert len({str(jax.tree.map(np.shape, lines)) for lines in made}) == 1


@pytest.mark.parametrize("dense", [True, False])
def test_ends_are_sums_over_all_pairs(dense):
  game = make("TsJs9hAhQs", ALIKE)
  lines, columns = make_lines(game)
  assert len(columns.alike.permutations) == 2
  with jax.enable_x64(True):
    (group,) = lines.streets[0].groups

    @jax.jit
    def prepare(group):
      prepared = ends.make_ends(group, jnp.float64, "dense" if dense else "sorted")
      return prepared._replace(folds=ends.make_folds(group, jnp.float64, table=dense))

    prepared = prepare(group)
    for player in (0, 1):
      width = lines.streets[0].width(1 - player)
      reach = np.random.default_rng(player).random(width)
      wanted = sums_over_pairs(columns, reach, player, game.board)
      for values, row in zip((ends.fold_values, ends.showdown_values), wanted):
        found = jax.jit(values, static_argnums=2)(prepared, reach[None, None], player)[0, 0]
        np.testing.assert_allclose(found, row, atol=1e-12)
      assert np.abs(wanted[0] - wanted[1]).max() > 0.1


@pytest.mark.parametrize(
  ("board", "ranges"),
  [
    ("TsJs9hAhQs", ALIKE),
    ("TsJh9hAs", APART),
    ("TsJh9hAs", ("AA,KQ,J9s,99", "AA,KQ,AJ,K9s")),  # hands that both hold
    ("TsJh9dAc", CARDS),
  ],
)
def test_ends_in_cpp_are_those_of_xla(board, ranges, cpu):
  lines, _ = make_lines(make(board, ranges))
  group = lines.streets[-1].groups[0]
  assert ends.form_of(group, lines.dtype) == "walked"  # or there is no compiler
  forms = ("walked", "dense", "sorted")
  prepare = jax.jit(lambda group: [ends.make_ends(group, lines.dtype, form) for form in forms])
  walked, dense, ordered = prepare(group)
  # Hands that tie, and hands of a class that hold other cards, are told from others.
  order = [x._replace(strength=np.minimum(x.strength, 90_000)) for x in walked.showdowns]
  held = [x._replace(number=np.minimum(x.number, 1)) for x in walked.cards]
  broken = walked._replace(showdowns=tuple(order)), walked._replace(cards=tuple(held))
  random = np.random.default_rng(0)
  shows, folds = random.normal(size=(2, 2, 21)).astype(np.float32)
  none = shows[:, :0]
  for player in (0, 1):
    reach = random.random((2, 21, group.boards, group.width(1 - player)), np.float32)
    reach *= group.strength[1 - player] >= 0
    live = group.strength[player] >= 0

    def values(form, given, player=player, reach=reach):
      one = lambda row, *worth: ends.end_values(form, row, player, *worth)  # noqa: E731
      return [jax.vmap(one)(reach, *own) for own in given]

    every = [(shows, folds), (shows[:, :4], folds[:, :17]), (shows, none), (none, folds)]
    rows = [(form, every[2:3]) for form in broken]
    asked = (dense, every), (walked, every), (ordered, every[:1]), *rows
    wanted, *found = jax.jit(lambda *x, values=values: [values(*own) for own in x])(*asked)
    same, other, *wrong = (
      [np.abs((x - y) * live).max() for x, y in zip(own, wanted[at:])]
      for own, at in zip(found, (0, 0, 2, 2), strict=True)
    )
    assert max(*same, *other) < 1e-4
    assert wrong[0][0] > 0.1
    assert (wrong[1][0] > 0.1) == (not group.plain)


_ON_DEVICES = """
import sys
import jax
import numpy as np
from jax import lax

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)

import dataclasses
import solvers
from solvers import tuning
from solvers.sweeps.lines import parts
from tests.solvers.test_lines import APART, make
from games.poker.lines import make_lines

lines, _ = make_lines(make("TsJh9hAs", APART))
tuning.ON_CPU = dataclasses.replace(tuning.ON_CPU, cells=1_000)
(part,) = parts.make_parted_problem(lines, 2).parts
assert (part.boards, part.num_chunks, part.group.boards) == (20, 8, 3)  # filled up


def solve(devices):
  found = solvers.solve(
    lines, algorithm=solvers.discounted_cfr(), target=0, num_iterations=6, devices=devices
  )
  return np.concatenate([np.ravel(x) for x in (found.exploitability, *found.average_policy)])


whole, split = solve(jax.devices()[:1]), solve(None)
assert len(jax.devices()) == 2
np.testing.assert_allclose(split, whole, rtol=1e-9, atol=1e-12)
kept, here = parts.PartedProblem.collect, lambda: lax.axis_index(parts.AXIS) == 0
parts.PartedProblem.collect = lambda self, x, p: kept(self, [own * here() for own in x], p)
jax.clear_caches()
assert np.abs(solve(None) - whole).max() > 1e-3, "half of the boards are not missed"
"""


@pytest.mark.slow
def test_devices_share_the_boards():
  python(_ON_DEVICES, JAX_PLATFORMS="cpu")


def test_rivers_of_a_spot_share_shapes():
  cards = np.random.default_rng(0)
  deck = [rank + suit for rank in "9TJQKA" for suit in "shdc"]
  shapes = set[str](), set[str](), set[str]()
  for _ in range(16):
    lines, _ = make_lines(make("".join(cards.choice(deck, 5, replace=False)), ALIKE))
    for found, to in zip(shapes, (lambda n: n, bucket, None)):
      wide, columns = round_up(lines, to)
      found.add(str(jax.tree.map(np.shape, wide)))
      # Its own columns stay in front (`rebel_jax.spots.study`).
      assert all((x == np.arange(len(x))).all() for x in columns)
  assert [len(found) for found in shapes] == [15, 12, 2]  # as they are, with four digits, coarse


# Cards that may change places, against all exchanges that leave every strength alone.

ONE_RAISE = BetSizes((((1.0,),),), all_in=False, max_raises=1)
RANKS = "9TJQKA"
SYMMETRIES = {
  "three suits": lambda: TurnEndgame("9sThKdAs", ranks=RANKS, suits="shd", bets=ONE_RAISE),
  "four suits": lambda: TurnEndgame("TsJhQdAs", ranks="TJQKA", bets=ONE_RAISE),
  "a pair on the board": lambda: TurnEndgame("9s9hKdAs", ranks=RANKS, suits="shd", bets=ONE_RAISE),
  "two suits alive": lambda: TurnEndgame("TsJhQsAh", ranks="TJQKA", bets=ONE_RAISE),
  "nothing to merge": lambda: TurnEndgame("9sThKsAh", ranks=RANKS, suits="sh", bets=ONE_RAISE),
  "one suit": lambda: TurnEndgame("9sTsKsAs", ranks=RANKS, suits="shd", bets=ONE_RAISE),
  "river": lambda: RiverEndgame("9sThKdAsJs", ranks=RANKS, suits="shdc", bets=ONE_RAISE),
}


def orbits(game):
  """Returns the orbits of hands under exchanges of two cards that leave all strengths alone."""
  live = [card for card in range(game.deck.num_cards) if card not in game.board]
  seen = np.array(list(itertools.combinations(live, 2 + sum(game.deals))))
  seen = np.concatenate([np.tile(game.board, (len(seen), 1)), seen], axis=1)
  strength = evaluate(game.deck, seen)
  orbit = {hand: {hand} for hand in itertools.combinations(live, 2)}
  for a, b in itertools.combinations(live, 2):
    exchange = np.arange(game.deck.num_cards)
    exchange[[a, b]] = b, a
    if (evaluate(game.deck, exchange[seen]) != strength).any():
      continue
    for hand in orbit:
      joined = orbit[hand] | orbit[tuple(sorted(exchange[list(hand)].tolist()))]
      for member in joined:
        orbit[member] = joined
  return {frozenset(found) for found in orbit.values()}


def classes(game):
  found = boards.alike_hands(game, game.prior(), boards.card_groups(game))
  hands = [tuple(hand) for hand in game.hole_cards.tolist()]
  return {frozenset(hands[h] for h in np.flatnonzero(found == c)) for c in set(found.tolist())}


@pytest.mark.parametrize("name", SYMMETRIES)
def test_classes_are_the_orbits_of_hands(name):
  game = SYMMETRIES[name]()
  assert classes(game) == orbits(game)
  assert (len(classes(game)) < len(game.hole_cards)) == (name != "nothing to merge")


def test_merging_a_suit_of_a_flush_is_found_out(monkeypatch):
  game = SYMMETRIES["river"]()
  monkeypatch.setattr(boards, "dead_suits", lambda deck, *_: np.ones(len(deck.suits), bool))
  assert classes(game) != orbits(game)


def test_a_turn_is_solved_in_one_piece_on_an_accelerator(request):
  game, gap, policy, _, algorithm = turn("apart")
  request.getfixturevalue("accelerator")  # which forgets all programs
  with jax.enable_x64(True):
    lines, _ = make_lines(game)
    problem = jax.eval_shape(parts.make_parted_problem, lines)
    assert [part.num_chunks for part in problem.parts] == [1]
    found, other, _ = solve(game, 4, algorithm)
  assert found == pytest.approx(float(gap), abs=1e-12)
  np.testing.assert_allclose(other, policy, atol=1e-9)
