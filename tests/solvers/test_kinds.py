"""Every public function, with another kind of object for each of its arguments in turn."""

import jax
import numpy as np
import pytest

import games
import rebel_jax
import solvers
from games.size import MAX_BYTES
from solvers import contrib

JUNK = [None, "a string", 3.5, [], {}, object(), 10**19, -1]
GAME = games.make("kuhn_poker")
TREE = games.build_public_tree(GAME)
CUT = games.build_public_tree(GAME, depth=1)
STACK = games.stack_trees([TREE, TREE])
POLICY = np.asarray(
  solvers.solve(TREE, algorithm=solvers.linear_cfr(), num_iterations=4).average_policy
)
CFR = solvers.linear_cfr()
MAXMARGIN = solvers.Maxmargin(searcher=0)
SOLVE = dict(algorithm=CFR, num_iterations=2, beliefs=TREE.prior, leaf_values=None, params=None,
             initial_policy=POLICY, locked=None, alternatives=None)  # fmt: skip
HOLDEM = games.make("river_endgame_holdem", ranks="QKA", suits="shd", board="QsKsAsAhAd")
BET_TREE = games.build_public_tree(HOLDEM)
BET_POLICY = np.asarray(solvers.solve(BET_TREE, algorithm=CFR, num_iterations=2).average_policy)
FAMILY = contrib.affine_trees(lambda x: TREE, (1.0,))
SEARCH = solvers.GTCFR(simulations=2)
TABLES = contrib.leaf_tables(TREE, CUT.leaf_nodes, [POLICY], [POLICY])
RECORDER = solvers.HandRecorder(GAME, solvers.zero_values(TREE))
END = TREE.history(TREE.num_nodes - 1)
ROWS = {TREE.history(node): POLICY[node] for node in range(TREE.num_nodes)}
CARRIED = contrib.solve_affine(FAMILY, (1.0,), num_iterations=2)

# What is right; every argument is then replaced in turn.
CALLS = {
  games.build_public_tree: dict(game=GAME, root=(), depth=None, max_bytes=MAX_BYTES),
  games.make: dict(name="kuhn_poker"),
  games.stack_trees: dict(trees=[TREE]),
  games.tabulate: dict(game=GAME, tree=None, max_states=100),
  games.ConnectFour: dict(width=4, height=4, in_a_row=3),
  games.Go: dict(size=3, komi=0.5, max_moves=4),
  games.CoinToss: dict(sell=(0.5, -0.5), num_subgames=1),
  games.LeducPoker: dict(bets=((2,), (4,))),
  games.LiarsDice: dict(num_dice=1, num_faces=2),
  games.MatrixGame: dict(payoffs=((1, -1), (-1, 1))),
  games.RiverEndgame: dict(
    board="QsKsAsAhAd", pot=20, stack=100, big_blind=2, bets="teh", ranks="QKA", suits="shd"
  ),
  games.TurnEndgame: dict(
    board="QsKsAsAh", pot=20, stack=100, big_blind=2, bets="teh", ranks="QKA", suits="shd"
  ),
  games.SmallHoldem: dict(
    ranks="QKA",
    suits="sh",
    deals=(1,),
    blinds=(1, 2),
    stack=20,
    big_blind=2,
    first_to_act=(0,),
    bets=(1.0,),
  ),
  solvers.solve: dict(tree=TREE, **SOLVE, target=0.1, progress=None, tables=None),
  solvers.solve_batch: dict(
    trees=STACK, **{**SOLVE, "beliefs": STACK.prior, "initial_policy": None}, batch_size=1
  ),
  solvers.default_batch_size: dict(tree=TREE),
  solvers.exact_leaf_values: dict(game=GAME, tree=CUT, algorithm=CFR, num_iterations=2),
  solvers.best_response: dict(tree=TREE, policy=POLICY, player=0, beliefs=None, locked=None),
  solvers.best_response_values: dict(tree=TREE, policy=POLICY, beliefs=None, locked=None),
  solvers.expected_values: dict(tree=TREE, policy=POLICY, beliefs=None),
  solvers.exploitability: dict(tree=TREE, policy=POLICY),
  solvers.root_marginals: dict(tree=TREE, beliefs=TREE.prior),
  solvers.lock: dict(tree=TREE, history=(), frequencies={0: 0.5}, infostates=None, also=None),
  solvers.blueprint_values: dict(
    game=GAME, tree=TREE, policy=POLICY, searcher=0, beliefs=None, gift_actions="terminal"
  ),
  solvers.graft: dict(whole=TREE, policy=POLICY, parts=[], player=None),
  solvers.Placer: dict(whole=TREE, by_state=False),
  solvers.Placer(TREE).follow: dict(history=(0,)),
  solvers.Placer(TREE).places: dict(part=TREE, root=0),
  solvers.blueprint_values(GAME, TREE, POLICY, searcher=0).alternatives: dict(nodes=1, gifts=0.0),
  solvers.refine: dict(
    game=GAME,
    tree=TREE,
    policy=POLICY,
    searcher=0,
    beliefs=None,
    cut=1,
    gadget=None,
    gifts=0.0,
    known=None,
    algorithm=CFR,
    num_iterations=2,
  ),
  solvers.answer_bet: dict(
    game=HOLDEM,
    tree=BET_TREE,
    policy=BET_POLICY,
    history=(),
    chips=1500,
    gadget=None,
    beliefs=None,
    whole_decision=True,
    algorithm=CFR,
    num_iterations=2,
  ),
  contrib.affine_trees: dict(build=lambda x: TREE, start=(1.0,)),
  FAMILY.at: dict(theta=(1.0,)),
  contrib.optimise: dict(
    trees=FAMILY,
    player=0,
    bounds=[(0.0, 2.0)],
    start=(1.0,),
    algorithm=CFR,
    num_iterations=2,
    num_steps=1,
  ),
  contrib.solve_affine: dict(
    trees=FAMILY, parameters=(1.0,), num_iterations=2, start=None, weight="bound", algorithm=CFR
  ),
  contrib.transfer_weight: dict(trees=FAMILY, parameters=(1.0,), start=CARRIED),
  contrib.warm_start_length: dict(tree=TREE, policy=POLICY, algorithm=CFR, probe=2),
  contrib.with_continuations: dict(top=CUT, tables=TABLES),
  contrib.pair_values: dict(tree=TREE, policy=POLICY, nodes=None),
  contrib.biased_policy: dict(tree=TREE, policy=POLICY, factors={0: 2.0}),
  contrib.leaf_tables: dict(tree=TREE, nodes=[1], first=[POLICY], second=[POLICY]),
  contrib.grown_continuations: dict(
    tree=TREE, top=CUT, policy=POLICY, chooser=0, count=2, algorithm=CFR, num_iterations=2
  ),
  contrib.search_rounds: dict(
    game=GAME,
    tree=TREE,
    first=[POLICY],
    second=[POLICY],
    start="round",
    frozen="hand",
    algorithm=CFR,
    num_iterations=2,
  ),
  solvers.infostate_values: dict(
    tree=TREE, value=lambda beliefs: beliefs.sum(), beliefs=TREE.prior, player=0
  ),
  solvers.LBRRules: dict(rounds=("C", "FCPA")),
  solvers.TreeStrategy: dict(tree=BET_TREE, policy=BET_POLICY),
  solvers.local_best_response: dict(
    game=HOLDEM,
    strategy=solvers.TreeStrategy(BET_TREE, BET_POLICY),
    rules=None,
    num_hands=4,
    seed=0,
    max_runouts=10,
  ),
  solvers.local_best_response_value: dict(
    game=HOLDEM,
    tree=BET_TREE,
    policy=BET_POLICY,
    rules=None,
    beliefs=None,
    max_runouts=10,
    seed=0,
  ),
  solvers.aivat: dict(record=RECORDER.record(END, (None, 0), ROWS)),
  solvers.HandRecorder: dict(game=GAME, values=solvers.zero_values(TREE)),
  solvers.PotShares: dict(game=HOLDEM, max_runouts=10),
  RECORDER.record: dict(history=END, infostates=(None, 0), policy=ROWS),
  solvers.zero_values: dict(tree=TREE),
  solvers.half_the_difference: dict(tree=TREE, values=np.zeros((TREE.num_nodes, 2, 3))),
  solvers.node_values: dict(tree=TREE, policy=POLICY),
  solvers.node_info: dict(game=GAME, tree=TREE),
  solvers.GTCFR: dict(
    simulations=4,
    per_update=1.0,
    updates=None,
    whole=False,
    children=None,
    puct=1.0,
    selection="current",
    mix=0.2,
  ),
  solvers.gt_cfr: dict(
    rules=TREE,
    nodes=solvers.node_info(GAME, TREE),
    search=SEARCH,
    key=jax.random.key(0),
    leaf_values=None,
    root=0,
    current=None,
    beliefs=None,
    alternatives=None,
    searcher=None,
  ),
  solvers.resolved_policies: dict(
    game=GAME,
    tree=TREE,
    search=SEARCH,
    seeds=(0,),
    network=None,
    chain="own",
    batch_size=8,
  ),
  solvers.ContinualResolve: dict(searcher=0),
  solvers.make_algorithm: dict(text="linear_cfr"),
  solvers.vanilla_cfr: dict(averaging=0.0, alternating=True),
  solvers.cfr_plus: dict(averaging=0.0, alternating=True),
  solvers.linear_cfr: dict(averaging=0.0, alternating=True),
  solvers.predictive_cfr_plus: dict(averaging=0.0, alternating=True),
  solvers.discounted_cfr: dict(alpha=1.5, beta=0.0, gamma=2.0, alternating=True),
  solvers.fictitious_play: dict(averaging=0.0, alternating=True),
  solvers.linear_fictitious_play: dict(averaging=0.0, alternating=True),
  solvers.linear_optimistic_fictitious_play: dict(averaging=0.0, alternating=True),
  solvers.cfr_avg: dict(algorithm=CFR, sound=False),
  solvers.warm_started: dict(algorithm=CFR, num_iterations=3),
  contrib.substitute_started: dict(algorithm=CFR, num_iterations=3),
  solvers.with_gadget: dict(algorithm=CFR, gadget=MAXMARGIN),
  solvers.Maxmargin: dict(searcher=0),
  solvers.Resolve: dict(searcher=0),
  solvers.Distributional: dict(searcher=0),
  rebel_jax.get_preset: dict(name="kuhn_poker"),
  rebel_jax.load: dict(name="nowhere"),
  rebel_jax.load_pretrained: dict(name="nowhere"),
}

# Arguments that may be anything, or are looked at where they are used.
FREE = {"params"}
# What Python and numpy say of an object that nobody expected.
FOREIGN = ("object is not", "unhashable", "unsupported operand", "literal", "unexpected", "has no")


def arguments():
  for call, right in CALLS.items():
    for name in right:
      yield pytest.param(call, right, name, id=f"{getattr(call, '__qualname__', call)}-{name}")


@pytest.mark.parametrize(("call", "right", "name"), list(arguments()))
def test_another_kind_of_object_gets_a_sentence(call, right, name):
  """Or is taken, as None is where it is the default; most kinds never are."""
  taken = 0
  for junk in (x for x in JUNK if x is not right[name]):
    try:
      call(**(right | {name: junk}))
    except (TypeError, ValueError) as error:
      assert str(error).strip()
      assert "\n" not in str(error)
      assert not any(words in str(error) for words in FOREIGN), str(error)
    else:
      taken += 1
  assert taken <= 4 or name in FREE


def test_what_is_registered_is_a_function_by_name():
  for name, constructor in ((None, games.KuhnPoker), ([], games.KuhnPoker), ("another", None)):
    with pytest.raises(TypeError, match="must be a string, and constructor=.* a function"):
      games.register(name, constructor)


def test_control_a_function_that_checks_nothing():
  with pytest.raises(AttributeError):
    test_another_kind_of_object_gets_a_sentence(lambda tree: tree.num_nodes, {"tree": TREE}, "tree")


def test_every_public_function_is_called():
  """Those that only hold what they are given, and types, are not."""
  made_by_others = {
    "AffineTrees", "Algorithm", "Alternatives", "BestResponse", "BlueprintValues", "CFR",
    "Config", "ConfigError", "ExactLeafValues", "Extended", "FictitiousPlay",
    "Gadget", "Game", "Grown", "GrownByInsertion", "HandRecord", "InsertedTree",
    "KuhnPoker",
    "LBRResult", "LBRValue", "LeafQuery", "LeafValues", "Level", "Lock",
    "NodeInfo", "Optimum",
    "Policy", "pretrained", "PublicTree", "register",
    "registered_algorithms", "registered_games", "RockPaperScissors",
    "ScotlandYard",
    "Solution", "StateAnswer", "StateFunction", "StateQuery", "Strategy",
    "Tabulated",
    "TicTacToe", "Transferable", "TreeStructure", "ValueFunction", "Variation", "Widened",
  }  # fmt: skip
  for package in (games, solvers, contrib, rebel_jax):
    public = {name: getattr(package, name) for name in package.__all__}
    called = {name for name, value in public.items() if callable(value) and value in CALLS}
    others = {name for name, value in public.items() if callable(value)} - called
    assert others <= made_by_others, others - made_by_others


def test_the_front_door_says_which_names_stand_in_contrib():
  assert solvers.contrib is contrib
  for name in contrib.__all__:
    with pytest.raises(AttributeError, match=rf"{name}'; it stands in solvers.contrib"):
      getattr(solvers, name)
  with pytest.raises(AttributeError, match="no attribute 'solve_afine'$"):
    solvers.solve_afine  # noqa: B018
