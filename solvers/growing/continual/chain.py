"""Chains of searches, each of which goes on from the same player's last one, and play by them."""

import functools
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from games import CHANCE, TERMINAL, Game
from games.arrays import one
from solvers import tuning
from solvers.algorithms.wrappers import Promises
from solvers.growing.gt_cfr import Asked
from solvers.growing.simulate import sample_index, sample_pair
from solvers.growing.states import GTCFR, StateFunction, only_wanted
from solvers.leaf_values import normalise_beliefs


class PublicState(NamedTuple):
  """A public state, `[S]`, and which infostates the rules allow there, `[P, H]` bool."""

  state: Any
  possible: Any


class Left(NamedTuple):
  """Results of a search that the same player's next one starts from, by place of its store.

  Attributes:
    current: `[]` the place of the decision searched for; -1 before the first search.
    here: that decision; before the first search, where the game begins.
    child: `[C, A]` the places after each action, -1 for none; None where all searches share them.
    values: `[P, C, H]` mean expected payoffs at its inner nodes.
    reach: `[P, C, H]` players' ranges.
    known: `[P, C]` bool, places where a player's `values` are defined.
  """

  current: jax.Array
  here: PublicState
  child: jax.Array | None
  values: jax.Array
  reach: jax.Array
  known: jax.Array


class ChainSearch(NamedTuple):
  """The start of a search: its root, beliefs and promises, and the decision that it is for."""

  root: PublicState  # the public state there
  path: jax.Array  # `[D]` public actions from there to the decision; -1 for none
  beliefs: jax.Array  # `[P, H]` at the root
  promises: Promises | None  # there; None in games of perfect information
  here: PublicState  # the decision


def beginning(rules: Game) -> PublicState:
  """Returns the start of a game; infostates of no prior are not possible."""
  return PublicState(jnp.asarray(rules.initial_state()), jnp.asarray(rules.prior()) > 0)


def longest_wait(rules: Game) -> int:
  """Returns D: public actions from one decision of a player to its next at most, both counted once.

  Zero with one infostate a player, where a search owes nothing to earlier ones.
  """
  return 0 if rules.num_infostates == 1 else rules.longest_wait


def follow_action(rules: Game, here: PublicState, action: Any) -> PublicState:
  """Returns the public state after an action, and what is possible there."""
  state = one(rules.next_states, here.state, action)
  return PublicState(state, one(rules.possible_after, here.state, action, here.possible))


def alone(rules: Game, here: PublicState, beliefs: jax.Array) -> ChainSearch:
  """Returns a search from a public belief state itself, without promises."""
  hides = rules.num_infostates > 1
  promises = Promises.none(beliefs.shape[-1], beliefs.dtype) if hides else None
  return ChainSearch(here, jnp.full(longest_wait(rules), -1, jnp.int32), beliefs, promises, here)


def decision_key(key: jax.Array, state: jax.Array) -> jax.Array:
  """Returns the key of the search for a decision, another for every public state `[S]`.

  So an agent of one key has one policy, in a game or where all its decisions are searched.
  """
  return lax.scan(lambda key, x: (jax.random.fold_in(key, x), None), key, state)[0]


def next_start(
  rules: Game,
  left: Left,
  child: jax.Array,
  decision: PublicState,
  since: jax.Array,
  searcher: jax.Array,
) -> ChainSearch:
  """Returns the search for a decision after another of the same player, or after none."""
  # It starts at the last state on the path where the earlier search has values to promise the
  # opponent, which it lacks for a state that has just joined. The opponent's own row of the beliefs
  # is uniform, since the gadget weighs its infostates. All arguments may be traced.
  dtype = left.reach.dtype
  place = jnp.maximum(left.current, 0)

  def follow(carry, action):
    root, place, known = carry
    moved = jnp.maximum(action, 0)
    below = child[place, moved]
    known = known & (action >= 0) & (below >= 0) & left.known[1 - searcher, below]
    after = follow_action(rules, root, moved)
    root = jax.tree.map(lambda x, y: jnp.where(known, y.astype(x.dtype), x), root, after)
    return (root, jnp.where(known, below, place), known), jnp.where(known, -1, action)

  here = jax.tree.map(jnp.asarray, left.here)
  (root, place, _), path = lax.scan(
    follow, (here, place.astype(child.dtype), left.current >= 0), since
  )
  reach = left.reach[:, place]
  ranges, uniform = (normalise_beliefs(x, root.possible) for x in (reach, jnp.zeros_like(reach)))
  searcher = jnp.asarray(searcher, jnp.int32)
  is_opponent = jnp.arange(2, dtype=jnp.int32)[:, None] == 1 - searcher
  worth = left.values[1 - searcher, place]
  promises = Promises.to_opponent(searcher, worth, ranges[1 - searcher])
  first = jnp.asarray(rules.prior(), dtype), Promises.none(rules.num_infostates, dtype)
  later = jnp.where(is_opponent, uniform, ranges), promises
  beliefs, promises = jax.tree.map(lambda x, y: jnp.where(left.current < 0, x, y), first, later)
  return ChainSearch(root, path, beliefs, promises, decision)


class Found(NamedTuple):
  """The result of a search.

  Attributes:
    policy: `[M, H]` the average policy at the decision, as `moves_of` numbers moves.
    values: `[P, H]` expected payoffs there.
    root_values, root_mass: `[P, H]`, see `Grown`.
    left, asked: for the next search, and one of its questions.
  """

  policy: jax.Array
  values: jax.Array
  root_values: jax.Array
  root_mass: jax.Array
  left: Left
  asked: Asked


class How(NamedTuple):
  """Settings and network of searches; static.

  Attributes:
    search: settings, of any length.
    network: value-and-policy network; see `gt_cfr`.
  """

  search: GTCFR
  network: StateFunction | None = None


class Ground(Protocol):
  """A game in which chains of searches run, and the kind of store that they grow.

  Attributes:
    rules: the game's.
    child: `[C, A]` places after each action that all searches have in common; None if there are
      none.
  """

  rules: Any
  child: Any = None

  def nothing(self) -> Left:
    """Returns the empty result, before the first search of a game."""

  def kinds(self, roots: jax.Array) -> list[tuple[Any, jax.Array]]:
    """Returns the forms of `search`, each with the roots `[B]` of `[B, S]` that it is for."""
    return [(self.search, jnp.ones(len(roots), bool))]

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    """Makes one search."""


def search_each(
  ground: Ground,
  about: ChainSearch,
  keys: jax.Array,
  active: jax.Array,
  *,
  how: How,
  rounds: int | jax.Array,
  params: Any = None,
) -> Found:
  """Runs those of `B` searches that `active` marks; the results of the others are meaningless.

  Args:
    ground: of the game.
    about, keys, active: `[B, ...]` decisions, a key for each, and whether it is searched.
    how: settings and network; `rounds` of each search, and the network's `params`.
  """

  def of_kind(search: Any, here: jax.Array) -> Found:
    """Returns the results of the searches that are `here`, zeros elsewhere."""
    each = jax.vmap(functools.partial(search, how=how, rounds=rounds, params=params))
    wanted, pieces = active & here, tuning.pieces().searches
    return only_wanted(lambda rows: each(*rows), (about, keys), wanted, pieces, len(active))

  found = [of_kind(*x) for x in ground.kinds(about.root.state)]
  return jax.tree.map(lambda *x: functools.reduce(jnp.add, x), *found)


def next_starts(
  ground: Ground, left: Left | None, here: PublicState, since: Any, searcher: jax.Array
) -> ChainSearch:
  """Returns `B` searches for `here`, which start from what others left; see `next_start`.

  In games of perfect information they start from the states themselves.
  """
  rules = ground.rules
  if rules.num_infostates == 1:
    beliefs = jnp.ones((len(searcher), 2, 1))
    return jax.vmap(functools.partial(alone, rules))(here, beliefs)

  def start(left, *where):
    child = left.child if ground.child is None else ground.child
    return next_start(rules, left, child, *where)

  return jax.vmap(start)(left, here, since, searcher)


class Standing(NamedTuple):
  """The state of a game in progress, as arrays.

  Attributes:
    here: the public state, a decision or the end.
    hands: `[P]` the players' infostates.
    since: `[P, D]` public actions since each player's last decision, or since the game began, then
      -1; None in games of perfect information.
  """

  here: PublicState
  hands: jax.Array
  since: jax.Array | None


def deal(rules: Game, key: jax.Array) -> Standing:
  """Begins a game: returns its first decision."""
  pair_key, chance_key = jax.random.split(key)
  numbers, here = jax.random.uniform(pair_key, (2,)), beginning(rules)
  prior = jnp.asarray(rules.prior()) * jnp.ones(())
  met = functools.partial(rules.compatible_mass, here.state[None])
  hands = sample_pair(prior, met, numbers)
  since = jnp.full((2, longest), -1, jnp.int32) if (longest := longest_wait(rules)) else None
  return _past_chance(rules, Standing(here, hands, since), chance_key)


def play_on(
  rules: Game,
  standing: Standing,
  policy: jax.Array,
  key: jax.Array,
  *,
  exploration: Any,
) -> tuple[Standing, jax.Array]:
  """Makes one move and deals after it; returns where the game stands, and whether it is over.

  Args:
    rules: of the game.
    standing: at a decision.
    policy: `[M, H]` the mover's, as `moves_of` numbers moves.
    key: a random key.
    exploration: `[]` how likely the move is uniform instead.
  """
  move_key, chance_key = jax.random.split(key)
  numbers, here = jax.random.uniform(move_key, (2,)), standing.here
  player = one(rules.actor, here.state)
  held = standing.hands[player]
  moves = one(rules.moves_of, here.state, here.possible)
  options = moves.action[:, held] >= 0
  by_policy = jnp.where(options, policy[:, held], 0.0)
  uniform = options.astype(policy.dtype)
  by_policy = jnp.where(by_policy.sum() > 0, by_policy, uniform)
  explores = numbers[0] < exploration
  weights = jnp.where(explores, uniform, by_policy)
  chosen = sample_index(numbers[1], weights)
  mover = jnp.arange(2, dtype=jnp.int32) == player.astype(jnp.int32)
  moved = mover, moves.leads_to[chosen, held].astype(jnp.int32)
  if standing.since is not None:  # what a player did itself is the first action since
    standing = standing._replace(since=standing.since.at[player].set(-1))
  after = _past_chance(rules, _take(rules, standing, moves.action[chosen, held], moved), chance_key)
  return after, one(rules.actor, after.here.state) == TERMINAL


def _take(
  rules: Game,
  standing: Standing,
  action: jax.Array,
  moved: tuple[jax.Array, jax.Array] | None = None,
) -> Standing:
  """Returns the state of a game after a public action."""
  here, hands, since = standing
  if since is not None:
    number = (since >= 0).sum(axis=1)
    since = since.at[jnp.arange(2), number].set(action.astype(jnp.int32), mode="drop")
  hands = one(rules.held_after, here.state, action, hands)
  if moved is not None:
    hands = jnp.where(moved[0], moved[1], hands)
  return Standing(follow_action(rules, here, action), hands, since)


def _past_chance(rules: Game, standing: Standing, key: jax.Array) -> Standing:
  if not rules.has_chance:
    return standing

  def step(carry):
    standing, key = carry
    key, now = jax.random.split(key)
    actions = jnp.arange(rules.num_actions, dtype=jnp.int32)
    state, possible, hands = (
      jnp.broadcast_to(x, (len(actions), *x.shape)) for x in (*standing.here, standing.hands)
    )
    after = rules.possible_after(state, actions, possible)
    hands = rules.held_after(state, actions, hands)
    both = jnp.take_along_axis(after, hands[..., None], axis=2).all(axis=(1, 2))
    fits = both & one(rules.legal_actions, standing.here.state)
    chosen = sample_index(
      jax.random.uniform(now), jnp.where(fits, rules.chance(state, actions)[0], 0.0)
    )
    return _take(rules, standing, chosen), key

  return lax.while_loop(
    lambda carry: one(rules.actor, carry[0].here.state) == CHANCE, step, (standing, key)
  )[0]
