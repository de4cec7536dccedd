"""Bad input: one sentence that names the field, the value and what is allowed."""

import dataclasses
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from games import poker
from games.poker.lines import make_lines
from games.testing import check_rules
from rebel_jax.agents import dealer, match
from rebel_jax.spots import report, solved
from rebel_jax.spots.spot import measure
from solvers import contrib, metrics
from solvers.contrib.sampling import make_sampler
from solvers.growing.continual.grounds import tree_ground
from solvers.solve_boards import ByBoards
from solvers.sweeps.problem import Lock
from tests.sentences import refused, sentence_of

JUNK = ("a string", object())
GAME = games.make("kuhn_poker")
TREE = games.build_public_tree(GAME)
CUT = games.build_public_tree(GAME, depth=1)
CFR = solvers.linear_cfr()
POLICY = np.asarray(solvers.solve(TREE, algorithm=CFR, num_iterations=4).average_policy)
HOLDEM = games.make("river_endgame_holdem", ranks="QKA", suits="shd", board="QsKsAsAhAd")
BET_TREE = games.build_public_tree(HOLDEM)
BET_POLICY = np.asarray(solvers.solve(BET_TREE, algorithm=CFR, num_iterations=2).average_policy)
FAMILY = contrib.affine_trees(lambda x: TREE, (1.0,))
RECORDER = metrics.HandRecorder(GAME, metrics.zero_values(TREE))
END = TREE.history(TREE.num_nodes - 1)
ROWS = {TREE.history(node): POLICY[node] for node in range(TREE.num_nodes)}

# What is right for an argument of a name; its default, where it is in neither of the two.
RIGHT = dict(
  algorithm=CFR, chooser=0, count=2, cut=1, field="algorithm", game=GAME, history=(),
  key=jax.random.key(0), max_runouts=10, name="kuhn_poker", num_hands=4, num_iterations=2,
  num_steps=1, part=TREE, parts=[], player=0, policy=POLICY, probe=2, root=0,
  search=solvers.GTCFR(simulations=2), searcher=0, text="linear_cfr", theta=(1.0,), top=CUT,
  tree=TREE, trees=FAMILY, whole=TREE,
)  # fmt: skip
BETS = dict(game=HOLDEM, tree=BET_TREE, policy=BET_POLICY, chips=1500, whole_decision=True)
OWN = {
  games.build_public_tree: dict(root=()),
  games.stack_trees: dict(trees=[TREE]),
  games.take: dict(stack=games.stack_trees([TREE, TREE]), which=0),
  contrib.with_continuations: dict(
    tables=contrib.leaf_tables(TREE, CUT.leaf_nodes, [POLICY], [POLICY])
  ),
  solvers.solve_batch: dict(trees=games.stack_trees([TREE, TREE])),
  solvers.solve: dict(target=0.1),
  solvers.exact_leaf_values: dict(tree=CUT),
  solvers.root_marginals: dict(beliefs=TREE.prior),
  solvers.lock: dict(frequencies={0: 0.5}),
  solvers.answer_bet: BETS,
  contrib.local_response: dict(strategy=contrib.TreeStrategy(TREE, POLICY), close=len, num_plays=4),
  contrib.infostate_values: dict(value=lambda beliefs: beliefs.sum(), beliefs=TREE.prior),
  contrib.TreeStrategy: BETS,
  contrib.local_best_response: BETS | dict(strategy=contrib.TreeStrategy(BET_TREE, BET_POLICY)),
  contrib.local_best_response_value: BETS,
  metrics.aivat: dict(record=RECORDER.record(END, (None, 0), ROWS)),
  metrics.HandRecorder: dict(values=metrics.zero_values(TREE)),
  metrics.PotShares: dict(game=HOLDEM),
  RECORDER.record: dict(history=END, infostates=(None, 0), policy=ROWS),
  metrics.half_the_difference: dict(values=np.zeros((TREE.num_nodes, 2, 3))),
  solvers.gt_cfr: dict(rules=TREE, nodes=solvers.node_info(GAME, TREE), searcher=None),
  solvers.GTCFR: dict(whole=False),
  solvers.with_gadget: dict(gadget=solvers.Maxmargin(searcher=0)),
  solvers.blueprint_values(GAME, TREE, POLICY, searcher=0).alternatives: dict(nodes=1),
  contrib.affine_trees: dict(build=lambda x: TREE, start=(1.0,)),
  contrib.optimise: dict(bounds=[(0.0, 2.0)], start=(1.0,)),
  contrib.solve_affine: dict(parameters=(1.0,)),
  contrib.transfer_weight: dict(
    parameters=(1.0,), start=contrib.solve_affine(FAMILY, (1.0,), num_iterations=2)
  ),
  contrib.biased_policy: dict(factors={0: 2.0}),
  contrib.leaf_tables: dict(nodes=[1], first=[POLICY], second=[POLICY]),
  contrib.search_rounds: dict(first=[POLICY], second=[POLICY]),
}
# Classes that check what they are made of; others only hold it, or are results.
CLASSES = (
  games.CoinToss, games.ConnectFour, games.Go, games.LeducPoker, games.LiarsDice, games.MatrixGame,
  games.RiverEndgame, games.SmallHoldem, games.TurnEndgame, solvers.ContinualResolve,
  contrib.Distributional, solvers.GTCFR, metrics.HandRecorder, contrib.LBRRules, solvers.Maxmargin,
  solvers.Placer, metrics.PotShares, solvers.Resolve, contrib.TreeStrategy,
)  # fmt: skip
METHODS = (FAMILY.at, solvers.Placer(TREE).follow, solvers.Placer(TREE).places)


def right_of(call):
  """Returns right arguments by name."""
  found = {}
  for name, parameter in inspect.signature(call).parameters.items():
    if parameter.kind is not parameter.VAR_KEYWORD:
      found[name] = OWN.get(call, {}).get(name, RIGHT.get(name, parameter.default))
  return found


public = [getattr(x, name) for x in (games, solvers, contrib, rebel_jax) for name in x.__all__]
functions = [x for x in public if inspect.isfunction(x) and "register" not in x.__name__]
CALLS = {call: right_of(call) for call in (*functions, *CLASSES, *METHODS, *OWN)}
# Arguments that may be anything, or are looked at where they are used.
FREE = {"params", "progress", "devices", "field", "softmax"}
# What Python and numpy say of an object that nobody expected.
FOREIGN = ("object is not", "unhashable", "unsupported operand", "literal", "unexpected", "has no")


def assert_refused(call, right, name, junk):
  """Checks that a call with `junk` in place of one argument raises one sentence."""
  said = sentence_of(call, **(right | {name: junk}))
  assert not any(words in said for words in FOREIGN), said


@pytest.mark.parametrize("call", CALLS, ids=lambda call: getattr(call, "__qualname__", str(call)))
def test_another_kind_of_object_gets_a_sentence(call):
  assert all(x is not inspect.Parameter.empty for x in CALLS[call].values())
  for name, junk in itertools.product(CALLS[call].keys() - FREE, JUNK):
    assert_refused(call, CALLS[call], name, junk)


# Poker and spots: for each the arguments that are replaced in turn.
DECK = poker.Deck()
SPOT = solved.Spot("9s9h9dTsTh", "AA", "QQ", 20, 60, "a")
MADE = solved.prepare(SPOT)
# Every move is held to 1, and what is then too much is taken off again: they add up to one.
MOVES = [np.bincount(x.level.parents)[x.level.parents] for x in MADE.lines.levels[1:]]
NUMBER = np.concatenate([[1.0], *MOVES])[:, None]
EXCESS = Lock(NUMBER**0, 1 - NUMBER, NUMBER**0)
OTHERS = {
  poker.map_bet: dict(fraction=0.7, sizes=[0.5, 1.0]),
  poker.parse_range: dict(text="AA", deck=DECK),
  poker.format_range: dict(weights=np.zeros(1326), deck=DECK),
  poker.evaluate: dict(deck=DECK, cards=np.arange(5)),
  poker.strengths: dict(suit_masks=np.array([[1, 2, 4, 8]])),
  poker.in_units: dict(game=HOLDEM),
  poker.BetSizes.parse: dict(text="a", second="a", rounds=1, donk=None),
  poker.BetSizes: dict(fractions=(((0.5,),),), all_in=True, max_raises=1, near_all_in=0.5),
  poker.Betting: dict(stacks=(200, 200), paid=(1, 1), rake=0.1, first_to_act=(0,)),
  poker.Times: dict(factor=2.0),
  poker.Plus: dict(number=100),
  poker.Geometric: dict(bets=2, most=0.5),
  poker.Deck: dict(ranks="QK", suits="s"),
  DECK.hole_cards: dict(dead=(1,)),
  DECK.names: dict(cards=(1,)),
  DECK.name: dict(card=1),
  HOLDEM.beliefs: dict(ranges=("AA", "QQ")),
  HOLDEM.with_bet: dict(history=(), chips=1500),
  HOLDEM.state_after: dict(history=()),
  make_lines: dict(game=SPOT.game()),
  solved.prepare: dict(spot=SPOT),
  measure: dict(spot=SPOT),
  MADE.find: dict(line=""),
  MADE.children: dict(node=()),
  report.solve_boards: dict(spot=SPOT, boards=["9s9h9dTsTh"], target=5.0, max_iterations=2),
}


@pytest.mark.parametrize("call", OTHERS, ids=lambda call: getattr(call, "__qualname__", str(call)))
def test_poker_and_play_say_what_they_take(call):
  right = OTHERS[call]
  inspect.signature(call).bind_partial(**right)
  for name, junk in itertools.product(right, (*JUNK, float("nan"), {1: 2})):
    assert_refused(lambda **x: listed(call(**x)), right, name, junk)


def listed(found):
  """Runs what is a generator."""
  return list(found) if inspect.isgenerator(found) else found


def at_chance(action):
  """Makes a move of chance at a board card of Leduc poker, where player 0 holds the first."""
  table = dealer.Dealer(games.make("leduc_poker"))
  table.state, table.infostates = table.game.state_after((1, 1)), [0, 3]
  table.apply(dealer.Move(action, 0), np.random.default_rng(0))


def amounts(states, fractions=None):
  return HOLDEM.bets.amounts(HOLDEM.rules, states, fractions)


STACK = games.stack_trees([TREE, TREE])
STRATEGY = contrib.TreeStrategy(TREE, POLICY)
LONG, LINES = "x" * 9999, np.arange(999.0)
ONE_ROW = HOLDEM.initial_state()[None]
# What is of the right kind and not allowed, or of no end: the field, the value and what is allowed.
REFUSED = [
  *(
    (lambda x=x: match.summarise([], duplicate=x), f"duplicate={x!r} must be True or False")
    for x in ("False", 0, None, 1.0)
  ),
  *(
    (lambda x=x: games.register(*x), "must be a (string|function)")
    for x in ((None, games.KuhnPoker), ([], games.KuhnPoker), ("another", None))
  ),
  (lambda: amounts([[1, 2]]), r"states of shape \(1, 2\) must have shape \(1, \d+\)"),
  (lambda: amounts(ONE_ROW[0]), "states=.* must be a list of lists of integers"),
  (lambda: amounts(ONE_ROW + 0.5), "states=.* must be a list of lists of integers"),
  (lambda: amounts(ONE_ROW, np.zeros(3)), r"fractions of shape \(3,\) must have shape \(1, \d+\)"),
  (lambda: amounts(ONE_ROW, [[1, 2]]), "fractions of shape .* must have shape"),
  (lambda: HOLDEM.bets.apart(10**9), r"rounds=1000000000, each of \d+ .* 1 to 100000"),
  (lambda: HOLDEM.bets.apart(-1), "rounds=-1, .* must make 1 to 100000"),
  (lambda: poker.BetSizes((), max_raises=10**9).apart(1), "each of 1000000000 .* 1 to 100000"),
  (lambda: GAME.state_after((), start=[0.5]), r"start=\[0.5\] must be a list of integers"),
  (lambda: GAME.state_after((0,), start=np.array(3)), "start=.* must be a list of integers"),
  (lambda: GAME.state_after((0,), start=[3] * 99), r"start of shape \(99,\) must have shape"),
  (lambda: GAME.next_states([None], np.array([0])), r"states=\[None\] must be an array \[n, S = 1"),
  (lambda: GAME.legal_actions(np.array([[99]])), "states=.* must be what play of kuhn_poker comes"),
  (lambda: GAME.state_after(None), "history=None must be a list"),
  (lambda: poker.in_units(HOLDEM, [1.0, 2.0]), r"chips=\[1.0, 2.0\] must be a number"),
  (lambda: poker.in_units(HOLDEM, "3"), "chips='3' must be a number"),
  (lambda: poker.in_units(HOLDEM, None), "chips=None must be a number"),
  (lambda: tree_ground(GAME, TREE, share="all"), "share='all' must be a number"),
  (
    lambda: check_rules(GAME, num_playouts=-32),
    "playouts=-32 must be an integer from 1 to 1000000",
  ),
  (lambda: check_rules(GAME, [[1, 2, 3, 4, 5]]), r"states of shape \(1, 5\) must have shape"),
  (
    lambda: contrib.search_rounds(GAME, TREE, POLICY, [POLICY]),
    r"first of shape \(9, 3\) must have shape \(9, 9, 3\) \(k, N, H\)",
  ),
  (
    lambda: contrib.search_rounds(GAME, TREE, [POLICY], [POLICY[:2]]),
    r"second of shape \(1, 2, 3\) must have shape \(1, 9, 3\)",
  ),
  (lambda: contrib.search_rounds(GAME, CUT, [POLICY], [POLICY]), "first of shape .* must have"),
  (lambda: contrib.search_rounds(GAME, TREE, [], [], start=LONG), "start='xxx.* 'decision'"),
  (lambda: contrib.affine_trees(lambda x: TREE, (1.0, 2.0)), r"start=\(1.0, 2.0\) .* argument"),
  (lambda: games.build_public_tree(GAME, max_bytes=LONG), "max_bytes='xxx.* must be a number"),
  (lambda: games.build_public_tree(GAME, max_bytes=LINES), "max_bytes=array.* must be a number"),
  (
    lambda: solvers.solve(TREE, algorithm=CFR, num_iterations=2, tables=LINES),
    "tables=array.* are",
  ),
  (lambda: ByBoards(CFR, LINES), "tables=array.* must be 'float16' or None"),
  (lambda: ByBoards(CFR, "int8"), "tables='int8' must be 'float16' or None"),
  (
    lambda: solvers.solve(MADE.lines, algorithm=CFR, num_iterations=2, tables="float16"),
    "tables='float16' are for CFR with turns on lines",
  ),
  (lambda: MADE.line((99,)), r"node=\(99,\) takes action 99 where .* allows"),
  (lambda: MADE.children((99,)), r"node=\(99,\) takes action 99 where .* allows"),
  (lambda: at_chance(99), "action=99 is not legal; legal here: "),
  (lambda: at_chance(6), r"action=6 is not possible where players hold \[0, 3\]"),
  (lambda: dealer.Dealer(GAME).payoff(), r"history=\[\] has no payoff: the game goes on"),
  (lambda: MADE.follower.follow((99,)), r"history=\(99,\) takes action 99 where .* allows"),
  (lambda: solvers.Placer(STACK), "whole is stacked"),
  (lambda: games.tabulate(GAME, STACK), "tree is stacked"),
  (lambda: games.take(STACK, 2), "which=2 must hold integers from -2 to 1"),
  (lambda: match.UniformPlayer(GAME, seed=10**400), "seed=1000.* must be at least 0 and below"),
  (
    lambda: match.play_match(HOLDEM, *[lambda seed: match.UniformPlayer(GAME)] * 2, num_games=4),
    "the agent plays .*kuhn.*, and the match is of .*river",
  ),
  (
    lambda: match.play_match(GAME, *[lambda seed: None] * 2, num_games=4),
    "first=None must be a Seat",
  ),
  (
    lambda: contrib.biased_policy(TREE, POLICY, {0: None}),
    r"factors=\{0: None\} must be a mapping from an integer to a number",
  ),
  (lambda: solvers.lock(TREE, (), {0: "often"}), "frequencies=.* must be a mapping from"),
  (
    lambda: contrib.warm_start_length(TREE, np.stack([POLICY] * 2), algorithm=CFR),
    r"policy of shape \(2, 9, 3\) must have shape \(9, 3\)",
  ),
  (lambda: poker.evaluate(DECK, np.array(list("01234"))), "cards=.* must be an array of real num"),
  (lambda: solvers.node_info(GAME, STACK), "tree is stacked"),
  (lambda: dataclasses.replace(SPOT, near_all_in=-(10**400)).game(), "near_all_in=.* above 0"),
  (lambda: report.read_boards("AhKd," * 99 + "As"), "boards='AhKd.* must be boards"),
  (
    lambda: solvers.GTCFR(temperature=0),
    "temperature=0 must be a number that is finite, of",
  ),
  (lambda: solvers.GTCFR(temperature=np.float32("inf")), "temperature=np.float32.inf. must be"),
  (lambda: games.CoinToss((np.float16("inf"), 0)), "sell=.*inf.* must be a list of a number that"),
  (lambda: poker.BetSizes((((1.0,),),), add_all_in=np.inf), "add_all_in=inf must be a number from"),
  (lambda: make_sampler(GAME, rows=0, width=3), "rows=0 must be an integer from 1 to 2147483647"),
  (lambda: make_sampler(TREE, rows=9), "game must be a whole tree without rows"),
  (lambda: contrib.local_response(GAME, STRATEGY, len, depth=0), "depth=0 must be an integer from"),
  (
    lambda: contrib.local_response(games.make("scotland_yard"), STRATEGY, len),
    "game=scotland_yard hides moves",
  ),
  (
    lambda: solvers.solve(
      MADE.lines,
      algorithm=CFR,
      num_iterations=2,
      locked=Lock(*np.full((3, MADE.lines.num_nodes, 1), 0.7)),
    ),
    "locked does not hold a whole choice at node 0, infostate 0: ",
  ),
  (
    lambda: solvers.exploitability(TREE, POLICY, locked=Lock(POLICY * 0 + 1, POLICY * 0 - 1)),
    "locked does not hold a whole choice at node 0",
  ),
  (
    lambda: solvers.solve(MADE.lines, algorithm=CFR, num_iterations=2, locked=EXCESS),
    "locked does not hold a whole choice at node 0, infostate .* add up to one",
  ),
  (lambda: solvers.GTCFR(selection="best"), "selection='best' must be 'current' or 'average'"),
  (lambda: solvers.Maxmargin(True), "searcher=True must be 0 or 1"),
  (lambda: match.play_match(GAME, len, len, num_games=10**9), "num_games=.* at most 1000000"),
]


DICE = games.build_public_tree(games.make("liars_dice"))
INF = float("inf")
AT_ONCE = solvers.linear_cfr(alternating=False)


def solve(tree=TREE, algorithm=CFR, num_iterations=2, **options):
  return solvers.solve(tree, algorithm=algorithm, num_iterations=num_iterations, **options)


def solve_batch(trees):
  return solvers.solve_batch(trees, algorithm=CFR, num_iterations=2)


def one_a_leaf(params, query):
  return query.beliefs.sum(axis=(1, 2))


def beliefs(*rows):
  return np.array(rows, np.float32)


def with_entry(value):
  policy = POLICY.copy()
  policy[1, 0] = value
  return policy


def after_a_king(beliefs):
  """Solves what follows a king on the board, which nobody may hold then."""
  solve(games.build_public_tree(games.make("leduc_poker"), root=(1, 1, 8)), beliefs=beliefs)


NODES = solvers.node_info(GAME, TREE)
GROWING = {
  "tree": lambda **given: grow(TREE, nodes=NODES, **given),
  "rules": lambda **given: grow(GAME, **given),
}


def grow(rules, **given):
  return solvers.gt_cfr(rules, search=solvers.GTCFR(simulations=8), key=jax.random.key(0), **given)


def promised(value, **fields):
  return dict(searcher=0, alternatives=solvers.Alternatives(np.array(value), **fields))


# What `solve` refuses too, in searches that grow trees: by a tree, and by rules.
GROWN = [
  (dict(beliefs=beliefs(3 * [np.nan], 3 * [1 / 3])), "beliefs hold NaN"),
  (dict(beliefs=beliefs([1, 0, 0], [1, 0, 0])), "beliefs leave no compatible pair"),
  (dict(beliefs=np.ones((2, 4)) / 4), r"beliefs of shape \(2, 4\)"),
  (promised([np.nan, 0, 0]), "alternatives.value holds NaN"),
  (promised([0, 0, 0], player=0), "alternatives are player 0's, who searches"),
  (promised([100.0, 0, 0]), "alternatives hold 100, but the subgame pays 2 at most"),
  (promised([0.0, 0, 0, 0]), r"alternatives.value of shape \(4,\)"),
  (promised([0, 0, 0], beliefs=[-1, 1, 1]), "alternatives.beliefs holds -1"),
  (dict(alternatives="x", searcher=0), "alternatives='x' must be an Alternatives or an array"),
  (promised([0, 0, 0]) | dict(searcher=np.int64(2)), "searcher=.*2.* must be 0 or 1"),
]


STARTS = [
  ("tree", dict(root=99), "root=99 must be an integer from 0 to 8"),
  ("tree", dict(root=1, current=2), "current=2 must be a node where .* root=1 or below"),
  ("tree", dict(root=TREE.num_nodes - 1), "current=8 must be a node where the game goes on"),
  ("rules", dict(path=(10**9,)), r"path=\(1000000000,\) takes action .* allows \[0, 1\]"),
  ("rules", dict(path=(10**30,)), "path=.* must be a list of integers"),
  ("rules", dict(path=(0, 0)), "lead to where the game is over"),
  ("rules", dict(path=(0, 0, 0)), "path=.* goes on after the game has ended"),
  *((kind, given, message) for kind in GROWING for given, message in GROWN),
]
test_growing_searches_refuse_what_solve_does_and_other_starts = refused(
  *((lambda kind=kind, given=given: GROWING[kind](**given), message)
    for kind, given, message in STARTS)
)  # fmt: skip


def test_promises_and_beliefs_may_be_lists_and_searchers_numpys():
  start = dict(beliefs=TREE.prior, alternatives=solvers.Alternatives(np.zeros(3)), searcher=0)
  given = dict(beliefs=TREE.prior.tolist(), alternatives=[0.0, 0, 0], searcher=np.int64(0))
  found, again = (grow(TREE, nodes=NODES, **x).root_values for x in (start, given))
  np.testing.assert_array_equal(found, again)
  less = grow(TREE, nodes=NODES, **(start | promised([-2.0, -2, -2]))).root_values
  assert np.abs(less - found).max() > 1e-3  # promises count


THIRD = [1 / 3, 1 / 3, 1 / 3]
BAD = [
  (lambda: games.make("lairs_dice"), "game='lairs_dice'.*liars_dice"),
  (lambda: games.ConnectFour(width=3, height=3), "in_a_row=4 must fit"),
  (lambda: games.Go(komi=float("nan")), "komi=nan"),
  (lambda: games.make("liars_dice", num_dice=1.5), "num_dice=1.5 .*integer"),
  (lambda: games.make("liars_dice", num_dice=8, num_faces=8), "num_dice=8 .*at most"),
  (lambda: games.build_public_tree(GAME, depth=0), "depth=0 .*positive"),
  (lambda: games.build_public_tree(GAME, root=(7,)), r"root=\(7,\) .*\[0, 1\]"),
  (lambda: games.build_public_tree(GAME, root=(0, 0)), "root=.*ends the game"),
  (lambda: games.stack_trees([TREE, DICE]), "different games"),
  (lambda: solvers.cfr_avg(solvers.fictitious_play()), "algorithm=FictitiousPlay.* CFR family"),
  (lambda: solve(num_iterations=0), "num_iterations=0 must be an integer, at least 1"),
  (lambda: solve(algorithm=AT_ONCE, num_iterations=3), "num_iterations=3 .*even"),
  (lambda: solve(tree=CUT), "leaf_values=None.*leaves"),
  (lambda: solve_batch(CUT), "leaf_values=None"),
  (lambda: solve(tree=CUT, leaf_values=one_a_leaf), r"leaf_values.*\(2,\).*\(2, 3\)"),
  (lambda: solve(tree=games.stack_trees([TREE, TREE])), "stacked"),
  (lambda: solve(beliefs=np.ones((2, 4)) / 4), r"beliefs of shape \(2, 4\).*\(2, 3\)"),
  (lambda: solve(beliefs=beliefs(THIRD, [np.nan, 0.5, 0.5])), "beliefs hold NaN"),
  (lambda: solve(beliefs=beliefs(THIRD, [-0.5, 1, 0.5])), "beliefs hold -0.5"),
  (lambda: solve(beliefs=beliefs(THIRD, [0.5, 1, 0.5])), "beliefs.*sum to"),
  (lambda: solve(beliefs=beliefs([1, 0, 0], [1, 0, 0])), "beliefs.*compatible"),
  (lambda: after_a_king(np.full((2, 6), 1 / 6)), "infostate 5 .*impossible"),
  (lambda: solve(initial_policy=POLICY[:-1]), "initial_policy of shape"),
  (lambda: solve(initial_policy=with_entry(0.9)), "initial_policy is not a distribution"),
  (lambda: solve(initial_policy=with_entry(np.inf)), "initial_policy holds NaN or infinite"),
  (lambda: solvers.discounted_cfr(alpha=float("nan")), "alpha=nan .*number"),
  (lambda: solvers.discounted_cfr(gamma=INF), "gamma=inf must be a number that is finite"),
  (lambda: solvers.warm_started(CFR, num_iterations=0), "num_iterations=0"),
  (lambda: solvers.make_algorithm("linear"), r"algorithm='linear' is unknown \(did you mean"),
  (lambda: solvers.make_algorithm("cfr_plus(gamma=1)", "rule"), "rule=.*'gamma=1'.*averaging, alt"),
  (lambda: solvers.make_algorithm("discounted_cfr(1.5)"), "has '1.5' where NAME=VALUE"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=1,beta=2)"), "'beta=2' where .* once"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=half)"), "beta=half, which must be a num"),
  (lambda: solvers.make_algorithm("linear_cfr(alternating=0)"), "alternating=0, which must be T"),
  (lambda: solvers.exploitability(TREE, POLICY[:, :2]), "policy of shape"),
  (lambda: solvers.exploitability(TREE, with_entry(0.9)), "policy is not a distribution"),
  (lambda: solvers.exploitability(CUT, POLICY[: CUT.num_nodes]), "leaves"),
  (lambda: solvers.expected_values(TREE, -POLICY), "policy holds -0"),
  (lambda: solvers.best_response(TREE, POLICY, 2), "player=2 .*0 or 1"),
  # Other kinds of objects, with the remedy.
  (lambda: solve(algorithm=solvers.linear_cfr), r"algorithm=<function .* such as .*linear_cfr\(\)"),
  (lambda: solve(algorithm="linear_cfr"), r"algorithm='linear_cfr' .*make_algorithm"),
  (lambda: solve_batch([TREE, TREE]), "trees=list .*stack_trees"),
  (lambda: games.make("liars_dice", num_die=2), "num_die.*num_dice"),
  (lambda: FAMILY.at((np.nan,)), r"theta=\(nan,\) must be a list of finite numbers"),
  (lambda: FAMILY.at((1.0, 2.0)), r"theta of shape \(2,\) must have shape \(1,\)"),
  (lambda: contrib.solve_affine(FAMILY, (np.nan,), num_iterations=2), "parameters=.*nan"),
  # What is shown of a value is short.
  (lambda: solve(algorithm="x" * 9999), r"^.{,300}$"),
  (lambda: solve(algorithm=DICE), r"^algorithm=PublicTree.{,300}$"),
  (lambda: solvers.make_algorithm(list(range(9999))), r"^algorithm=\[0, 1, .{,700}$"),
]
test_one_sentence = refused(*BAD)
test_what_is_not_allowed_gets_one_short_sentence = refused(*REFUSED, most=400)


@pytest.mark.parametrize(
  ("exponents", "same_as"),
  [
    ((INF, INF, 0), "vanilla_cfr"),
    ((INF, -INF, 2), "cfr_plus"),
    ((1, 1, 1), "linear_cfr"),
    ((np.float32(1.5), 0, np.int64(2)), "discounted_cfr"),
  ],
)
def test_legal_exponents(exponents, same_as):
  assert solvers.discounted_cfr(*exponents) == getattr(solvers, same_as)()


def test_numpys_integers_are_integers():
  three = np.int64(3)
  start = solvers.warm_started
  assert start(AT_ONCE, num_iterations=three) == start(AT_ONCE, num_iterations=3)
  for name, field in (("go", "size"), ("liars_dice", "num_faces"), ("coin_toss", "num_subgames")):
    assert repr(games.make(name, **{field: three})) == repr(games.make(name, **{field: 3}))


def test_algorithms_by_name_take_their_parameters():
  named = solvers.make_algorithm
  assert named("discounted_cfr") == solvers.discounted_cfr()
  assert named("discounted_cfr( beta=-inf, gamma = 4 )") == solvers.discounted_cfr(1.5, -INF, 4.0)
  # A number of numpy's would make arrays of its own type.
  assert type(solvers.discounted_cfr(np.float64(1.5)).rule.alpha) is float
  assert named("linear_cfr(alternating=False)") == solvers.linear_cfr(alternating=False)
  assert named("linear_cfr_avg(averaging=2)") == solvers.cfr_avg(solvers.linear_cfr(averaging=2.0))
  assert named("fictitious_play()") == solvers.fictitious_play()
  assert named("discounted_cfr(beta=0.5)") != solvers.discounted_cfr()


@pytest.mark.parametrize(
  "name",
  ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow), "rock_paper_scissors"],
)
def test_a_policy_wrong_in_one_place_is_found_there(name):
  tree = games.build_public_tree(games.make(name))
  policy = np.array(solve(tree=tree).average_policy)
  solvers.exploitability(tree, policy)
  node = int(np.flatnonzero(tree.kind[np.maximum(tree.parent, 0)] <= games.PLAYER_1)[-1])
  policy[node, 0] += 0.01
  with pytest.raises(ValueError, match=f"at node {tree.parent[node]}, infostate .*sums to 1.01"):
    solvers.exploitability(tree, policy)


def test_types_of_few_digits_may_sum_to_nearly_one():
  """In half of the digits beliefs cannot sum to one; traced ones were always taken."""
  short = jnp.asarray([[0.334, 0.333, 0.333], [0.3, 0.4, 0.302]], jnp.bfloat16)
  assert float(short.astype(float).sum(axis=1).max()) > 1.002
  outside = solve(beliefs=short).root_values
  np.testing.assert_allclose(outside, jax.jit(lambda x: solve(beliefs=x).root_values)(short))
  many = solvers.solve_batch(TREE, algorithm=CFR, num_iterations=2, beliefs=short[None])
  np.testing.assert_allclose(many.root_values[0], outside, atol=1e-6)
  with pytest.raises(ValueError, match="beliefs rows sum to"):
    solve(beliefs=short.astype(np.float32))


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "liars_dice", "tic_tac_toe", "go"])
def test_states_that_no_play_comes_to_get_one_sentence(game):
  game, rng = games.make(game), np.random.default_rng(0)
  state = game.initial_state()[None]
  for rule, *others in (("actor",), ("legal_actions",), ("payoff_index",), ("features", 0)):
    for far in (99, 2**20):
      states = np.where(rng.random(state.shape) < 0.5, far, state)
      try:
        getattr(game, rule)(states, *others)
      except ValueError as error:
        assert f"must be what play of {game.name} comes to ({rule}: " in str(error)


def test_a_player_may_be_a_number_that_was_computed():
  states = GAME.initial_state()[None]
  found = [GAME.features(states, kind(1)) for kind in (int, np.int64, np.array, jnp.int32)]
  assert all((x == found[0]).all() for x in found)


OTHERS_STATES = games.make("leduc_poker").initial_state()[None]


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker", "liars_dice", "tic_tac_toe"])
def test_rules_say_what_they_take(game):
  game = games.make(game, **({"bets": ((1, 2), (2,))} if game == "leduc_poker" else {}))
  state, held = game.initial_state(), game.num_infostates
  right = dict(
    states=state[None], actions=np.array([0]), possible=np.ones((1, 2, held), bool), player=0,
    reach=np.ones((1, held)), state=state, infostate=0, action=0,
  )  # fmt: skip
  junk = (*JUNK, None, (0.5, "x"), np.zeros((2, 7)), jnp.zeros(3), jax.random.key(0), -1, 1e9)
  for rule in ("actor", "next_states", "possible_after", "compatible_mass", "terminal_values",
               "features", "moves", "infostate_name", "action_name"):  # fmt: skip
    call = getattr(game, rule)
    names = [name for name in inspect.signature(call).parameters if name in right]
    for name, wrong in itertools.product(names, junk):
      assert_refused(call, {x: right[x] for x in names}, name, wrong)
  if len(state) != OTHERS_STATES.shape[1]:
    for states in (OTHERS_STATES, jnp.asarray(OTHERS_STATES)):
      with pytest.raises(
        ValueError, match=rf"states=.* array \[n = 1, S = {len(state)}\] of integer"
      ):
        game.actor(states)


def test_control_a_function_that_checks_nothing():
  with pytest.raises(AttributeError):
    assert_refused(lambda tree: tree.num_nodes, {"tree": TREE}, "tree", object())


def test_the_front_door_says_which_names_stand_in_contrib():
  assert solvers.contrib is contrib
  for name in contrib.__all__:
    with pytest.raises(AttributeError, match=rf"{name}'; it stands in solvers.contrib"):
      getattr(solvers, name)
  with pytest.raises(AttributeError, match="no attribute 'solve_afine'$"):
    solvers.solve_afine  # noqa: B018
