"""Winnings of the agent of whole hold'em from simple players, where nothing exact is measured.

Both players' reach is kept for all hands; only the end at which play goes on, and the cards on the
board, are sampled. This conditional mean of a match is unbiased and has less variance. As in AIVAT
(Burch et al., 2018) the network's values correct for the end drawn: their mean over all ends less
that of this end is added. Cards are not corrected: over all hands they contribute little variance.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PublicTree
from games.pairs import compatible_mass, holds
from games.poker.dealing import draw_cards
from games.poker.streets import Streets
from games.template import fill
from rebel_jax.config import Config
from rebel_jax.evaluation.measurement import Measurement, Measures, Show
from rebel_jax.evaluation.opponents import MEASURED, OPPONENTS, SHOWN, likes
from rebel_jax.networks.poker import ShownValues, Table
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy
from solvers import Algorithm, LeafValues, tuning
from solvers.leaf_values import LeafQuery, normalise_beliefs
from solvers.search import (
  SearchPolicy,
  SearchResult,
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
  """Settings of the agent's searches, see `search_batch`; static."""

  algorithm: Algorithm
  leaf_values: LeafValues
  network: SearchPolicy | None
  num_iterations: int
  other: "HandsSearch | None" = None  # another player's, whose averages it plays; None for none


def sit_down(rules: Streets, roots: jax.Array) -> Tables:
  """Returns games that start at `roots` `[B, S]`, the agent in seat 0 of the first half of them."""
  number, prior = len(roots), TemplateSubgames(rules).prior(roots)
  seat = (jnp.arange(number) >= number // 2).astype(jnp.int32)
  nothing = jnp.zeros(number, prior.dtype)
  return Tables(roots, prior, prior, prior, nothing + 1, nothing, seat)


@functools.partial(jax.jit, static_argnames=("search", "likes"))
def play_round(
  stage: TemplateStage,
  search: HandsSearch,
  likes: Callable[[PublicTree], jax.Array],
  tables: Tables,
  opponent: jax.Array,
  params: Any,
  key: jax.Array,
) -> Tables:
  """Plays the games at a stage to its end against the `opponent` `[]` of those in `likes`.

  Games at other stages stay as they are. `likes(tree)` says how much each of `K` players likes each
  move of a tree, whoever would make it: `[K, N]`.
  """
  number = len(tables.seat)
  stop_key, leaf_key = jax.random.split(key)
  here = stage.holds(tables.roots) & (tables.weight > 0)
  trees = stage.trees_at(tables.roots)
  features = stage.features_at(tables.roots, trees)
  algorithm = search.algorithm
  stops = spread_stops(
    stop_key, number, search.num_iterations, algorithm.averaging, algorithm.head_start
  )
  found = _searched(stage, search, trees, features, tables.beliefs, stops, here, params)
  if search.other is None:
    theirs, other = found.leaf_beliefs, jax.vmap(lambda x: favourites(x, likes(x)[opponent]))(trees)
  else:
    answer = _searched(stage, search.other, trees, None, tables.theirs, stops, here, params)
    other = answer.average_policy
    theirs = jax.vmap(beliefs_below)(trees, tables.theirs, other)

  def settle(tree, reach, policy, other, seat):
    problem = make_problem(tree, reach, lanes=number)
    played = problem.where_moved(policy, lambda i, p: jnp.where(seat == p, policy[i], other[i]))
    won = ended_value(problem, played, seat)
    shares = leaf_probabilities(problem, played, reach)
    return won, shares, beliefs_at_leaves(problem, played)

  won, shares, below = jax.vmap(settle)(trees, tables.reach, found.policy, other, tables.seat)
  won = tables.won + jnp.where(here, tables.weight * won, 0.0)
  if not stage.num_leaves:
    return tables._replace(won=won, weight=jnp.where(here, 0.0, tables.weight))
  tiny, row = jnp.finfo(shares.dtype).tiny, jnp.arange(number)
  following = stage.successors(tables.roots, trees)
  leaf = jax.vmap(jax.random.categorical)(
    jax.random.split(leaf_key, number), jnp.log(shares + tiny)
  )
  weight = tables.weight * shares.sum(axis=1)
  live = here[:, None] & (shares > 0)
  evaluate = packed_leaf_values(trees, live, number * stage.num_leaves, search.leaf_values, params)
  seen = jnp.asarray(trees.leaf_features).swapaxes(0, 1)
  values = jnp.stack([evaluate(LeafQuery(seen[p], p, below)) for p in (0, 1)], axis=2)
  guess = jnp.where(live, guessed(stage.rules, values, below), 0.0) * (1 - 2 * tables.seat)[:, None]
  luck = tables.weight * (shares * guess).sum(axis=1) - weight * guess[row, leaf]
  wide = here[:, None, None]
  return tables._replace(
    roots=jnp.where(here[:, None], following[row, leaf], tables.roots),
    beliefs=jnp.where(wide, found.leaf_beliefs[row, leaf], tables.beliefs),
    theirs=jnp.where(wide, theirs[row, leaf], tables.theirs),
    reach=jnp.where(wide, below[row, leaf], tables.reach),
    weight=jnp.where(here, weight, tables.weight),
    won=won + jnp.where(here, luck, 0.0),
  )


@jax.jit
def show_down(stage: TemplateStage, tables: Tables) -> Tables:
  """Ends the games at a stage whose cards are all dealt to hands that are all-in."""
  # One game after another: after most rounds they are few.
  here = stage.holds(tables.roots) & (tables.weight > 0)

  def win(state, reach, seat):
    problem = make_problem(fill(stage.rules, stage.number, state), reach)
    return ended_value(problem, problem.uniform_policy(), seat)

  def win_if_here(game):
    here, *about = game
    return jax.lax.cond(here, win, lambda *_: jnp.zeros((), tables.won.dtype), *about)

  won = jax.lax.map(win_if_here, (here, tables.roots, tables.reach, tables.seat))
  return tables._replace(
    won=tables.won + tables.weight * won, weight=jnp.where(here, 0.0, tables.weight)
  )


def _searched(
  stage: TemplateStage,
  search: HandsSearch,
  trees: PublicTree,
  features: jax.Array | None,
  beliefs: jax.Array,
  stops: jax.Array,
  active: jax.Array,
  params: Any,
) -> SearchResult:
  """Searches the subgames of a stage; those of the first, in which all hands start, once."""
  initial = first_policy(search.network, stage, trees, features, beliefs, params)
  once = stage.number == 0
  asked = trees, beliefs, stops, active, initial
  if once:
    asked = jax.tree.map(lambda x: x[:1], asked)
  found = search_batch(
    *asked[:3], search.num_iterations, algorithm=search.algorithm,
    leaf_values=search.leaf_values, params=params, active=asked[3], initial_policy=asked[4],
    num_rows=max(len(asked[3]) * stage.num_leaves, 1), keep_iterates=int(once),
  )  # fmt: skip
  if found.iterates is None:
    return found
  kept = found.iterates
  averages = jnp.repeat(kept.average_policy, len(stops), axis=0)
  policy, known, average = (
    jax.vmap(split_levels)(trees, x)
    for x in (kept.policies[0, stops], kept.believed[0, stops], averages)
  )
  below = jax.vmap(beliefs_below)(trees, beliefs, known)
  return found._replace(policy=policy, average_policy=average, leaf_beliefs=below)


def guessed(rules: Streets, values: jax.Array, beliefs: jax.Array) -> jax.Array:
  """Returns player 0's payoff by `values` and `beliefs` `[..., P, H]`, both players' mean."""
  held = holds(jnp.asarray(rules.game.hole_cards), rules.game.deck.num_cards, beliefs.dtype)
  pairs = beliefs * compatible_mass(beliefs[..., ::-1, :], held)
  total = jnp.maximum(pairs.sum(axis=-1), jnp.finfo(pairs.dtype).tiny)
  each = (pairs * values).sum(axis=-1) / total
  return (each[..., 0] - each[..., 1]) / 2


@functools.partial(jax.jit, static_argnames="rules")
def play_chance(rules: Streets, tables: Tables, key: jax.Array) -> Tables:
  """Moves the games where chance moves on by one outcome each; others stay as they are."""
  here = rules.game.actor(tables.roots) == CHANCE
  dealt = draw_cards(rules.game, key, tables.roots, tables.reach)
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
  return jnp.where(player == 0, won, -won) / jnp.maximum(total, jnp.finfo(won.dtype).tiny)


_INTERVAL = 1.96  # standard errors, 95 %


class HandsEvaluator(Measures):
  """Measures the agent's winnings a hand, in thousandths of a big blind."""

  def __init__(self, config: Config, game: Any = None, opponents: Sequence[str] = MEASURED):
    """Prepares the programs; hands start as the game itself does, without what training varies."""
    self._opponents = opponents
    self.game: Any = config.make_game() if game is None else game
    self.about = {"algorithm": config.rebel.eval_algorithm}
    self._config = config
    self._search = HandsSearch(
      make_algorithm(config, config.rebel.eval_algorithm),
      NetworkLeafValues(make_network(config, self.game)),
      make_search_policy(config, self.game),
      config.rebel.final_iterations,
    )
    self._rules: Any = self.game.templates()
    self._stages = TemplateSubgames(self._rules, self._search.network is not None).stages

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    """Measures against each of the opponents, of those in `LADDER`."""
    # The row has `won_mbb_OPPONENT`, half the width of its 95 % interval, and `hands`, those
    # against its last opponent.
    search = self._config.rebel
    hands = search.final_playthroughs if final else search.eval_playthroughs
    size = tuning.pieces().hands
    row: dict[str, float] = {"iterations": search.final_iterations}

    def play(job: tuple[str, int]) -> np.ndarray:
      key = jax.random.fold_in(jax.random.key(seed), job[1])  # the same hands for every opponent
      name, how = job[0], self._search
      if name == SHOWN:
        values = ShownValues(Table.of(self.game))
        how = how._replace(other=how._replace(leaf_values=values, network=None))
      opponent = jnp.asarray(list(OPPONENTS).index(name) if name in OPPONENTS else 0)
      here = jax.device_put(params, tuning.chosen_device())
      return np.asarray(self._play(how, here, opponent, key, size))

    won: dict[str, list[np.ndarray]] = {name: [] for name in self._opponents}
    jobs = [(name, batch) for name in self._opponents for batch in range(-(-hands // size))]
    for done, ((name, _), found) in enumerate(run_ahead(play, jobs, kind=type, cores=False), 1):
      won[name].append(found)
      mbb = 1000 * np.concatenate(won[name]) / self.game.rules.big_blind
      row[f"won_mbb_{name}"] = float(mbb.mean())
      row[f"won_mbb_{name}_interval"] = float(_INTERVAL * mbb.std(ddof=1) / np.sqrt(len(mbb)))
      row["hands"] = len(mbb)
      yield Measurement(row)
      show("playing", done * size, len(jobs) * size, "hands", "")

  def _play(
    self, search: HandsSearch, params: Any, opponent: jax.Array, key: jax.Array, number: int
  ) -> jax.Array:
    """Returns the agent's payoff in each of a batch of hands, in chips: `[number]`."""
    keys = iter(jax.random.split(key, 2 * len(self.game.deals) + 2))
    roots = jnp.tile(jnp.asarray(self.game.initial_state(), jnp.int32), (number, 1))
    if self.game.flops is not None:  # others in every hand
      draw = jax.random.randint(next(keys), (number,), 0, np.iinfo(np.int32).max)
      roots = roots.at[:, -1].set(draw)
    tables: Tables = sit_down(self._rules, roots)
    for street in range(len(self.game.deals) + 1):
      stage = self._stages[self._rules.stage_template(street)]
      tables = play_round(stage, search, likes, tables, opponent, params, next(keys))
      if street < len(self.game.deals):
        if (runout := self._rules.runout_template(street)) is not None:
          tables = show_down(self._stages[runout], tables)
        tables = play_chance(self._rules, tables, next(keys))
    return tables.won
