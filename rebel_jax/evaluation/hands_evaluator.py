"""Winnings of the agent of whole hold'em from other players, where nothing exact is measured.

Both players' reach is kept for all hands; only the end at which play goes on, and the cards on the
board, are sampled. This conditional mean of a match is unbiased and has less variance. As in AIVAT
(Burch et al., 2018) the network's values correct for the end drawn: their mean over all ends less
that of this end is added. Cards are not corrected: over all hands they contribute little variance.
Every hand is played twice with seats changed, by the same random numbers (duplicates).
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PublicTree
from games.pairs import compatible_mass, holds, per_pair_mass
from games.poker.dealing import draw_cards
from games.poker.streets import Streets
from games.template import fill
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config import Config
from rebel_jax.evaluation.measurement import Measurement, Measures, Show
from rebel_jax.evaluation.opponents import AGAINST, MEASURED, OPPONENTS, SHOWN, likes
from rebel_jax.networks.poker import ShownValues, Table
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy
from solvers import Algorithm, LeafValues, tuning
from solvers.leaf_values import LeafQuery, normalise_beliefs
from solvers.search import (
  SearchPolicy,
  TemplateStage,
  TemplateSubgames,
  first_policy,
  leaf_probabilities,
  search_batch,
  spread_stops,
)
from solvers.search.batch import beliefs_at_leaves, beliefs_below, packed_leaf_values
from solvers.sweeps import Levels, TreeProblem, make_problem, split_levels
from solvers.xla import run_ahead


class Tables(NamedTuple):
  """The states of `B` games between the agent and another."""

  roots: jax.Array  # `[B, S]` public states
  beliefs: jax.Array  # `[B, P, H]` PBS that the agent searches from, as if both played as it does
  # `[B, P, H]` PBS that another player who searches does so from, as if both played as it does
  theirs: jax.Array
  reach: jax.Array  # `[B, P, H]` distributions of both players' hands, as they really play
  # `[B]` probability that the game has gone on so far, given the ends that were drawn
  weight: jax.Array
  won: jax.Array  # `[B]` the agent's payoff in games that have ended by now
  seat: jax.Array  # `[B]` the agent's


class HandsSearch(NamedTuple):
  """Settings of a player's searches, see `search_batch`; static."""

  algorithm: Algorithm
  leaf_values: LeafValues
  network: SearchPolicy | None
  num_iterations: int
  averages: bool = False  # whether it plays average policies, not random iterations'


@functools.partial(jax.jit, static_argnames="rules")
def sit_down(rules: Streets, roots: jax.Array) -> Tables:
  """Returns games that start at `roots` `[B, S]`, the agent in seat 0 of the first half of them.

  The second half are the duplicates of the first, in order; B is even.
  """
  number, prior = len(roots), TemplateSubgames(rules).prior(roots)
  seat, won = (jnp.arange(number) >= number // 2).astype(jnp.int32), jnp.zeros(number, prior.dtype)
  return Tables(roots, prior, prior, prior, won + 1, won, seat)


def play_round(
  stage: TemplateStage,
  searches: tuple[HandsSearch, HandsSearch | None],
  likes: Callable[[PublicTree], jax.Array],
  tables: Tables,
  opponent: jax.Array,
  params: tuple[Any, Any],
  key: jax.Array,
) -> Tables:
  """Plays the games at a stage to its end against the `opponent` `[]` of those in `likes`.

  Games at other stages stay as they are. `likes(tree)` says how much each of `K` players likes each
  move of a tree, whoever would make it: `[K, N]`. Instead of them the second of `searches` plays,
  if there is one; `params` are of both.
  """
  # All opponents share the search, a program of its own: it takes longest to compile.
  (stop_key, leaf_key), trees = jax.random.split(key), _trees_at(stage, tables.roots)
  own = _searched(stage, searches[0], trees, tables, params[0], stop_key)
  if searches[1] is None:
    other = _favoured(trees, likes, opponent), own[1]
  else:
    turned = tables._replace(beliefs=tables.theirs, seat=1 - tables.seat)
    other = _searched(stage, searches[1], trees, turned, params[1], stop_key)
  return _settled(stage, searches[0].leaf_values, trees, tables, own, other, params[0], leaf_key)


_trees_at = jax.jit(lambda stage, roots: stage.trees_at(roots))


@functools.partial(jax.jit, static_argnames="likes")
def _favoured(trees: PublicTree, likes: Callable[..., jax.Array], number: jax.Array) -> Levels:
  """Returns the policy of one of those in `likes` in `B` trees, of all hands."""
  levels = jax.vmap(lambda tree: favourites(tree, likes(tree)[number]))(trees)
  return tuple(jnp.broadcast_to(x, (*x.shape[:-1], trees.num_infostates)) for x in levels)


@functools.partial(jax.jit, static_argnames="leaf_values")
def _settled(
  stage: TemplateStage, leaf_values: LeafValues, trees: PublicTree, tables: Tables,
  own: tuple[Levels, jax.Array], other: tuple[Levels, jax.Array], params: Any, key: jax.Array,
) -> Tables:  # fmt: skip
  """Returns the games at a stage after it, at ends that are drawn if it has any."""
  here = stage.holds(tables.roots) & (tables.weight > 0)
  number = len(here)

  def settle(tree, reach, policy, other, seat):
    problem = make_problem(tree, reach, lanes=number)
    played = problem.where_moved(policy, lambda i, p: jnp.where(seat == p, policy[i], other[i]))
    won = ended_value(problem, played, seat)
    shares = leaf_probabilities(problem, played, reach)
    return won, shares, beliefs_at_leaves(problem, played)

  won, shares, below = jax.vmap(settle)(trees, tables.reach, own[0], other[0], tables.seat)
  won = tables.won + tables.weight * won
  after = tables._replace(won=won, weight=jnp.zeros_like(won))
  if stage.num_leaves:
    likely = jnp.log(shares + jnp.finfo(shares.dtype).tiny)
    at = jnp.arange(number), jax.vmap(jax.random.categorical)(twice(key, number), likely)
    weight = tables.weight * shares.sum(axis=1)
    live = here[:, None] & (shares > 0)
    evaluate = packed_leaf_values(trees, live, number * stage.num_leaves, leaf_values, params)
    seen = jnp.asarray(trees.leaf_features).swapaxes(0, 1)
    values = jnp.stack([evaluate(LeafQuery(seen[p], p, below)) for p in (0, 1)], axis=2)
    signs = (1 - 2 * tables.seat)[:, None]
    guess = signs * jnp.where(live, guessed(stage.rules, values, below), 0.0)
    luck = tables.weight * (shares * guess).sum(axis=1) - weight * guess[at]
    ranges = own[1][at], other[1][at], below[at]
    roots = stage.successors(tables.roots, trees)[at]
    after = Tables(roots, *ranges, weight, won + luck, tables.seat)
  either = jax.vmap(lambda at, *x: jax.tree.map(functools.partial(jnp.where, at), *x))
  return either(here, after, tables)


def twice(key: jax.Array, number: int) -> jax.Array:
  """Returns keys `[number]` of hands, those of a half and again of their duplicates."""
  return jnp.tile(jax.random.split(key, number // 2), 2)


@jax.jit
def show_down(stage: TemplateStage, tables: Tables) -> Tables:
  """Ends the games at a stage whose cards are all dealt to hands that are all-in."""
  here = stage.holds(tables.roots) & (tables.weight > 0)

  def win(state, reach, seat):
    problem = make_problem(fill(stage.rules, stage.number, state), reach)
    return ended_value(problem, problem.uniform_policy(), seat)

  # One game after another: after most rounds they are few.
  won = jax.lax.map(
    lambda x: jax.lax.cond(x[0], win, lambda *_: jnp.zeros((), tables.won.dtype), *x[1:]),
    (here, tables.roots, tables.reach, tables.seat),
  )
  won, weight = tables.won + tables.weight * won, jnp.where(here, 0.0, tables.weight)
  return tables._replace(won=won, weight=weight)


@functools.partial(jax.jit, static_argnames="search")
def _searched(
  stage: TemplateStage, search: HandsSearch, trees: PublicTree, tables: Tables, params: Any,
  key: jax.Array,
) -> tuple[Levels, jax.Array]:  # fmt: skip
  """Returns the policy of who searches in `tables.seat`, and the PBSs at the leaves if both do."""
  beliefs = tables.beliefs
  about = search.num_iterations, search.algorithm.averaging, search.algorithm.head_start
  drawn = (spread_stops(x, len(beliefs) // 2, *about) for x in jax.random.split(key))
  stops = jnp.where(tables.seat == 0, *(jnp.tile(x, 2) for x in drawn))
  features = stage.features_at(tables.roots, trees)
  initial = first_policy(search.network, stage, trees, features, beliefs, params)
  # In the first stage all hands start alike, so that one search serves them all.
  lanes = len(beliefs) if stage.number else 1
  here = stage.holds(tables.roots) & (tables.weight > 0)
  first: Any = functools.partial(jax.tree.map, lambda x: x[:lanes])
  found = search_batch(
    first(trees), first(beliefs), first(stops), search.num_iterations, params=params,
    algorithm=search.algorithm, leaf_values=search.leaf_values, initial_policy=first(initial),
    num_rows=max(lanes * stage.num_leaves, 1), keep_iterates=int(lanes == 1), active=first(here),
  )  # fmt: skip
  kept = found.iterates
  if search.averages:
    played = known = jax.tree.map(
      lambda x: jnp.repeat(x, len(stops) // lanes, axis=0), found.average_policy
    )
  elif kept is None:
    return found.policy, found.leaf_beliefs
  else:
    played, known = (
      jax.vmap(split_levels)(trees, x[0, stops]) for x in (kept.policies, kept.believed)
    )
  return played, jax.vmap(beliefs_below)(trees, beliefs, known)


def guessed(rules: Streets, values: jax.Array, beliefs: jax.Array) -> jax.Array:
  """Returns player 0's payoff by `values` and `beliefs` `[..., P, H]`, both players' mean."""
  held = holds(jnp.asarray(rules.game.hole_cards), rules.game.deck.num_cards, beliefs.dtype)
  pairs = beliefs * compatible_mass(beliefs[..., ::-1, :], held)
  each = per_pair_mass((pairs * values).sum(axis=-1), pairs.sum(axis=-1))
  return (each[..., 0] - each[..., 1]) / 2


@functools.partial(jax.jit, static_argnames="rules")
def play_chance(rules: Streets, tables: Tables, key: jax.Array) -> Tables:
  """Moves the games where chance moves on by one outcome each; others stay as they are."""
  here = rules.game.actor(tables.roots) == CHANCE
  keys = twice(key, len(tables.roots))
  dealt = draw_cards(rules.game, keys, tables.roots, tables.reach)
  roots = jnp.where(here[:, None], dealt, tables.roots)
  possible = rules.possible(roots)
  beliefs, theirs, reach = (
    normalise_beliefs(jnp.where(possible, x, 0.0), possible)
    for x in (tables.beliefs, tables.theirs, tables.reach)
  )
  return tables._replace(roots=roots, beliefs=beliefs, theirs=theirs, reach=reach)


def favourites(tree: PublicTree, liked: jax.Array) -> Levels:
  """Returns the policy that makes the moves most `liked` `[N]`, by level `[n, 1]`."""
  parent, n = jnp.asarray(tree.parent), tree.num_nodes
  there = parent >= 0
  liked = jnp.where(there, liked, -jnp.inf)
  above = jnp.where(there, parent, n)
  best = jax.ops.segment_max(liked, above, n + 1)
  chosen = (there & (liked == best[above])).astype(tree.dtype)
  count = jax.ops.segment_sum(chosen, above, n + 1)
  return split_levels(tree, (chosen / jnp.maximum(count[above], 1))[:, None])


def ended_value(problem: TreeProblem, policy: Levels, player: jax.Array) -> jax.Array:
  """Returns `player`'s mean payoff at the terminal nodes, zero where they are not reached."""
  leaves = jnp.zeros((problem.tree.num_leaves, problem.tree.num_infostates), policy[0].dtype)
  values = problem.values_up(policy, problem.own_reach(policy, 1), leaves, 0).root
  won, total = ((problem.root_beliefs(0) * x).sum() for x in (values, problem.root_mass[0]))
  return per_pair_mass(jnp.where(player == 0, won, -won), total)


_INTERVAL = 1.96  # standard errors, 95 %


class HandsEvaluator(Measures):
  """Measures the agent's winnings a hand, in thousandths of a big blind."""

  def __init__(
    self,
    config: Config,
    game: Any = None,
    opponents: Sequence[str] = MEASURED,
    against: Policy | None = None,
  ):
    """Prepares the programs; hands start as the game itself does, without what training varies."""
    # `against`: another network, one more opponent.
    self._opponents = (*opponents, *[AGAINST] * (against is not None))
    self.game: Any = config.make_game() if game is None else game
    self.about = {"algorithm": config.rebel.eval_algorithm}
    self._config = config
    self._rules: Any = self.game.templates()
    self._search = self._search_of(config)
    shown = self._search._replace(
      leaf_values=ShownValues(Table.of(self._rules.game)), network=None, averages=True
    )
    # Searches of opponents that search, and their parameters.
    self._others: dict[str, tuple[HandsSearch, Any]] = {SHOWN: (shown, None)}
    if against is not None:
      self._others[AGAINST] = self._search_of(against.config), against.params
      self.about["against"] = against.about["checkpoint"]
    searches = [self._search, *(x for x, _ in self._others.values())]
    self._stages = TemplateSubgames(self._rules, any(x.network for x in searches)).stages

  def _search_of(self, config: Config) -> HandsSearch:
    return HandsSearch(
      make_algorithm(config, config.rebel.eval_algorithm),
      NetworkLeafValues(make_network(config, self.game)),
      make_search_policy(config, self.game),
      config.rebel.final_iterations,
    )

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    """Measures against each of the opponents."""
    # The row has `won_mbb_OPPONENT`, half the width of its 95 % interval, and `hands`, those
    # against its last opponent.
    search, size = self._config.rebel, tuning.pieces().hands
    hands = search.final_playthroughs if final else search.eval_playthroughs
    row: dict[str, float] = {"iterations": search.final_iterations}

    def play(job: tuple[str, int]) -> np.ndarray:
      key = jax.random.fold_in(jax.random.key(seed), job[1])  # the same hands for every opponent
      other, theirs = self._others.get(job[0], (None, None))
      opponent = jnp.asarray(list(OPPONENTS).index(job[0]) if job[0] in OPPONENTS else 0)
      both = jax.device_put((params, theirs), tuning.chosen_device())
      return np.asarray(self._play((self._search, other), both, opponent, key, size))

    won: dict[str, list[np.ndarray]] = {name: [] for name in self._opponents}
    jobs = [(name, batch) for name in self._opponents for batch in range(-(-hands // size))]
    for done, ((name, _), found) in enumerate(run_ahead(play, jobs, kind=type, cores=False), 1):
      won[name].append(found.reshape(2, -1).mean(axis=0))
      mbb = 1000 * np.concatenate(won[name]) / self.game.rules.big_blind
      row[f"won_mbb_{name}"] = float(mbb.mean())
      row[f"won_mbb_{name}_interval"] = float(_INTERVAL * mbb.std(ddof=1) / np.sqrt(len(mbb)))
      row["hands"] = 2 * len(mbb)
      yield Measurement(row)
      show("playing", done * size, len(jobs) * size, "hands", "")

  def _play(
    self,
    searches: tuple[HandsSearch, HandsSearch | None],
    params: tuple[Any, Any],
    opponent: jax.Array,
    key: jax.Array,
    number: int,
  ) -> jax.Array:
    """Returns the agent's payoff in each of a batch of hands, in chips: `[number]`."""
    keys = iter(jax.random.split(key, 2 * len(self.game.deals) + 2))
    roots = jnp.tile(jnp.asarray(self.game.initial_state(), jnp.int32), (number, 1))
    if self.game.flops is not None:  # others in every hand
      draw = jax.random.randint(next(keys), (number // 2,), 0, np.iinfo(np.int32).max)
      roots = roots.at[:, -1].set(jnp.tile(draw, 2))
    tables: Tables = sit_down(self._rules, roots)
    for street in range(len(self.game.deals) + 1):
      stage = self._stages[self._rules.stage_template(street)]
      tables = play_round(stage, searches, likes, tables, opponent, params, next(keys))
      if street < len(self.game.deals):
        if (runout := self._rules.runout_template(street)) is not None:
          tables = show_down(self._stages[runout], tables)
        tables = play_chance(self._rules, tables, next(keys))
    return tables.won
