"""Winnings of the agent of whole hold'em from simple players, where nothing exact is measured.

Both players' reach is kept for all hands; only the end at which play goes on, and the cards on the
board, are sampled. That is the conditional mean of a match, so it is unbiased and scatters less.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PublicTree
from games.poker.dealing import draw_cards
from games.poker.streets import Streets
from rebel_jax.config import Config
from rebel_jax.evaluation.measurement import Measurement, Measures, Show
from rebel_jax.evaluation.opponents import OPPONENTS, likes
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy
from solvers import Algorithm, LeafValues, tuning
from solvers.leaf_values import normalise_beliefs
from solvers.search import (
  SearchPolicy,
  TemplateStage,
  TemplateSubgames,
  leaf_probabilities,
  sample_stop,
  search_batch,
)
from solvers.sweeps import Levels, TreeProblem, choose, make_problem, split_levels
from solvers.xla import run_ahead

# How much each of several players likes the moves of a tree, whoever would make them: `[K, N]`.
Likes = Callable[[PublicTree], jax.Array]


class Tables(NamedTuple):
  """The states of `B` games between the agent and another."""

  roots: jax.Array  # `[B, S]` public states
  beliefs: jax.Array  # `[B, P, H]` PBS that the agent searches from, as if both played as it does
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


def sit_down(rules: Streets, roots: jax.Array) -> Tables:
  """Returns games that start at `roots` `[B, S]`, the agent in seat 0 of the first half of them."""
  number, prior = len(roots), TemplateSubgames(rules).prior(roots)
  seat = (jnp.arange(number) >= number // 2).astype(jnp.int32)
  nothing = jnp.zeros(number, prior.dtype)
  return Tables(roots, prior, prior, nothing + 1, nothing, seat)


@functools.partial(jax.jit, static_argnames=("search", "likes"))
def play_round(
  stage: TemplateStage,
  search: HandsSearch,
  likes: Likes,
  tables: Tables,
  opponent: jax.Array,
  params: Any,
  key: jax.Array,
) -> Tables:
  """Plays the games at a stage to its end against the `opponent` `[]` of those in `likes`."""
  # A stage that chance alone decides has no leaf; games at other stages stay as they are.
  number = len(tables.seat)
  stop_key, leaf_key = jax.random.split(key)
  here = stage.holds(tables.roots) & (tables.weight > 0)
  trees = stage.trees_at(tables.roots)
  features = stage.features_at(tables.roots, trees)
  algorithm, initial = search.algorithm, None
  if stage.decides and search.network is not None:
    initial = search.network.start(trees, features, tables.beliefs, params)
  stops = sample_stop(
    stop_key, (number,), search.num_iterations, algorithm.averaging, algorithm.head_start
  )
  found = search_batch(
    trees, tables.beliefs, stops, search.num_iterations,
    algorithm=algorithm if stage.decides else None,
    leaf_values=search.leaf_values, params=params, num_rows=max(number * stage.num_leaves, 1),
    active=here, initial_policy=initial,
  )  # fmt: skip

  def settle(tree, reach, policy, seat):
    problem = make_problem(tree, reach, lanes=number)
    other = favourites(tree, likes(tree)[opponent])
    played = [policy[0]]
    for i in range(1, len(policy)):
      rows = choose(problem.moves_at(i, 0), jnp.where(seat == 0, policy[i], other[i]), policy[i])
      played.append(choose(problem.moves_at(i, 1), jnp.where(seat == 1, policy[i], other[i]), rows))
    won = ended_value(problem, tuple(played), seat)
    shares = leaf_probabilities(problem, tuple(played), reach)
    own = problem.both_reach(tuple(played))
    below = jnp.stack([problem.leaf_reach(own[p], p) for p in (0, 1)], axis=1)
    return won, shares, normalise_beliefs(below, problem.leaf_possible())

  won, shares, below = jax.vmap(settle)(trees, tables.reach, found.policy, tables.seat)
  won = tables.won + jnp.where(here, tables.weight * won, 0.0)
  if not stage.num_leaves:
    return tables._replace(won=won, weight=jnp.where(here, 0.0, tables.weight))
  tiny = jnp.finfo(shares.dtype).tiny
  leaf = jax.vmap(jax.random.categorical)(
    jax.random.split(leaf_key, number), jnp.log(shares + tiny)
  )
  row = jnp.arange(number)
  following = stage.successors(tables.roots, trees)[row, leaf]
  wide = here[:, None, None]
  return tables._replace(
    roots=jnp.where(here[:, None], following, tables.roots),
    beliefs=jnp.where(wide, found.leaf_beliefs[row, leaf], tables.beliefs),
    reach=jnp.where(wide, below[row, leaf], tables.reach),
    weight=jnp.where(here, tables.weight * shares.sum(axis=1), tables.weight),
    won=won,
  )


@functools.partial(jax.jit, static_argnames="rules")
def play_chance(rules: Streets, tables: Tables, key: jax.Array) -> Tables:
  """Moves the games where chance moves on by one outcome each; others stay as they are."""
  here = rules.game.actor(tables.roots) == CHANCE
  dealt = draw_cards(rules.game, key, tables.roots, tables.reach)
  roots = jnp.where(here[:, None], dealt, tables.roots)
  possible = rules.possible(roots)
  return tables._replace(
    roots=roots,
    beliefs=normalise_beliefs(jnp.where(possible, tables.beliefs, 0.0), possible),
    reach=normalise_beliefs(jnp.where(possible, tables.reach, 0.0), possible),
  )


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


MEASURED = ("always_call", "uniform", "pot_maniac")
_INTERVAL = 1.96  # standard errors, 95 %


class HandsEvaluator(Measures):
  """Measures the agent's winnings a hand, in thousandths of a big blind."""

  def __init__(self, config: Config, game: Any = None):
    """Prepares the programs; hands start as the game itself does, without what training varies."""
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

  def measured(
    self,
    params: Any,
    seed: int,
    final: bool,
    show: Show,
    *,
    opponents: Sequence[str] = MEASURED,
    **options: Any,
  ) -> Iterator[Measurement]:
    """Measures against each of `opponents`, of those in `OPPONENTS` that look at no cards."""
    # The row has `won_mbb_OPPONENT`, half the width of its 95 % interval, and `hands`, those
    # against its last opponent.
    search = self._config.rebel
    hands = search.final_playthroughs if final else search.eval_playthroughs
    size = tuning.pieces().hands
    row: dict[str, float] = {"iterations": search.final_iterations}

    def play(job: tuple[str, int]) -> np.ndarray:
      key = jax.random.fold_in(jax.random.key(seed), job[1])  # the same hands for every opponent
      opponent = jnp.asarray(list(OPPONENTS).index(job[0]))
      here = jax.device_put(params, tuning.chosen_device())
      return np.asarray(self._play(here, opponent, key, size))

    won: dict[str, list[np.ndarray]] = {name: [] for name in opponents}
    jobs = [(name, batch) for name in opponents for batch in range(-(-hands // size))]
    for done, ((name, _), found) in enumerate(run_ahead(play, jobs, kind=type, cores=False), 1):
      won[name].append(found)
      mbb = 1000 * np.concatenate(won[name]) / self.game.rules.big_blind
      row[f"won_mbb_{name}"] = float(mbb.mean())
      row[f"won_mbb_{name}_interval"] = float(_INTERVAL * mbb.std(ddof=1) / np.sqrt(len(mbb)))
      row["hands"] = len(mbb)
      yield Measurement(row)
      show("playing", done * size, len(jobs) * size, "hands", "")

  def _play(self, params: Any, opponent: jax.Array, key: jax.Array, number: int) -> jax.Array:
    """Returns the agent's payoff in each of a batch of hands, in chips: `[number]`."""
    keys = iter(jax.random.split(key, 2 * len(self.game.deals) + 2))
    roots = jnp.tile(jnp.asarray(self.game.initial_state(), jnp.int32), (number, 1))
    if self.game.flops is not None:  # others in every hand
      draw = jax.random.randint(next(keys), (number,), 0, np.iinfo(np.int32).max)
      roots = roots.at[:, -1].set(draw)
    tables: Tables = sit_down(self._rules, roots)
    play = functools.partial(play_round, search=self._search, likes=likes)
    for street in range(len(self.game.deals) + 1):
      stage = self._stages[self._rules.stage_template(street)]
      tables = play(stage, tables=tables, opponent=opponent, params=params, key=next(keys))
      if street < len(self.game.deals):
        if (runout := self._rules.runout_template(street)) is not None:
          stage = self._stages[runout]
          tables = play(stage, tables=tables, opponent=opponent, params=params, key=key)
        tables = play_chance(self._rules, tables, next(keys))
    return tables.won
