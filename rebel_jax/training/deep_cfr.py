"""Deep CFR (Brown, Lerer, Gross and Sandholm 2019; thesis, section 4.1), an iteration a step.

In an iteration each player in turn adds the advantages of sampled traversals to its memory, weighed
by the iteration, and learns its network from scratch. Traversals walk the rules, so that no tree
need fit (`solvers.contrib.sampling.ranges`). An infostate's sample weighs the opponent's compatible
mass. The memory of the average policy's network takes the opponent's policy at every infostate that
traversals visit, weighed by the opponent's own reach.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Array, Game, PublicTree, Tabulated, build_public_tree, tabulate
from games.build import check_size
from rebel_jax.networks.value import in_type_of
from rebel_jax.training import replay as replays
from rebel_jax.training.loop import DEVICES, Report, Trainer, TrainState, nothing
from rebel_jax.training.targets import LearnerStats, MoveExamples, with_decay_steps
from solvers.contrib.sampling.ranges import RangePolicy, RangeVisits, draw, traverse_ranges
from solvers.sweeps import per_unit_of_mass
from solvers.xla import Work

# Slots of a level for each traversal, and infostates of a public state that are remembered.
SLOTS, _HANDS = 64, 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Decisions:
  """A game as traversals walk it."""

  tree: PublicTree | None  # of the whole game; None where it is too large
  tables: Tabulated | None  # the rules at the tree's nodes, by number; None without one
  lines: Array | None  # `[N, L]` public actions before each node, -1 to fill up; None without one
  unit: Array  # `[]` the largest payoff, unit of advantages
  # The rules where there is no tree, else None.
  game: Game | None = dataclasses.field(metadata={"static": True})

  @property
  def rules(self) -> Any:
    """The rules that are walked."""
    return self.tables or self.game

  @property
  def num_subgames(self) -> int | None:
    """How many decision nodes there are; None without a tree."""
    return None if self.tree is None else int((np.asarray(self.tree.kind) < CHANCE).sum())

  def inputs(self, states: Any, history: Any) -> tuple[jax.Array, Any, jax.Array]:
    """Returns inputs of networks at public states: `[n, F]`, `[n, L]` and places `[n, H]`."""
    rules = self.rules
    seats = [jnp.asarray(rules.features(states, player)) for player in (0, 1)]
    features = jnp.where((rules.actor(states) == 1)[:, None], seats[1], seats[0])
    h = rules.num_infostates
    place = jnp.broadcast_to(jnp.arange(h), (len(states), h))
    if rules.orders_infostates:
      place, features = jnp.argsort(features[:, -h:], axis=1), features[:, :-h]
    return features, history, place.astype(jnp.int32)

  def numbers(self, network: Any, params: Any, states: Any, history: Any) -> jax.Array:
    """Returns a network's numbers for the moves of all infostates: `[n, M, H]`."""
    features, history, place = self.inputs(states, history)
    found = network.apply(params, in_type_of(params, features), history, place)
    return jnp.asarray(found).swapaxes(1, 2)

  def legal(self, states: Any) -> jax.Array:
    """Returns which moves there are, `[n, M, H]`."""
    return self.rules.moves_of(states).action >= 0


def make_decisions(game: Game) -> Decisions:
  """Returns a game as traversals walk it, in tables if its tree fits.

  Raises:
    ValueError: moves are hidden, and no tree fits.
  """
  unit = np.asarray(game.largest_payoff, float)
  try:
    check_size(game, game.initial_state())
  except ValueError:
    game.moves_of(game.initial_state()[None])
    return Decisions(None, None, None, unit, game)
  tree = build_public_tree(game)
  lines = np.full((tree.num_nodes, game.max_moves), -1, np.int32)
  for node, line in enumerate(lines):
    path = tree.history(node)
    line[: len(path)] = path
  return Decisions(tree, tabulate(game, tree), lines, unit, None)


def matched(advantages: jax.Array, legal: jax.Array) -> jax.Array:
  """Matches regrets to advantages `[D, M, H]`; where none is positive the highest moves are made.

  All of them equally where they are equal, as before the first iteration.
  """
  positive = jnp.where(legal, jnp.maximum(advantages, 0.0), 0.0)
  free = jnp.where(legal, advantages, -jnp.inf)
  highest = (legal & (free == free.max(axis=1, keepdims=True))).astype(positive.dtype)
  weights = jnp.where(positive.sum(axis=1, keepdims=True) > 0, positive, highest)
  return per_unit_of_mass(weights, weights.sum(axis=1, keepdims=True))


def probabilities(logits: jax.Array, legal: jax.Array) -> jax.Array:
  """Returns the probabilities of legal moves `[D, M, H]`, zero where there are none."""
  return jnp.where(legal, jax.nn.softmax(jnp.where(legal, logits, -1e9), axis=1), 0.0)


@dataclasses.dataclass(frozen=True)
class Traversals:
  """Settings of an iteration's traversals on one device; static."""

  number: int  # of each player, side by side
  slots: int  # C, of a level of all; of more states each is kept with one probability
  draws: int = 1  # actions of the opponent or of chance at a public state

  def init(self, table: Decisions, key: jax.Array) -> Any:
    """Returns nothing: a traversal is over within its step."""
    return ()

  def work(self, table: Decisions) -> Work:
    """Returns `Work.NETWORKS`: their learning takes nearly all of a step."""
    return Work.NETWORKS

  def traverse(self, *arguments: Any) -> RangeVisits:
    """Returns the visits of all traversals; arguments as for `traverse_ranges`."""
    choose = functools.partial(draw, number=self.draws)
    return traverse_ranges(*arguments, number=self.number, slots=self.slots, choose=choose)

  def samples(
    self, table: Decisions, policy: RangePolicy, player: int, key: jax.Array
  ) -> tuple[MoveExamples, MoveExamples]:
    """Returns the player's advantages and the opponent's policy where traversals visit them.

    Args:
      table: of the game.
      policy: both players'.
      player: who learns.
      key: of what is drawn.
    """
    key, hands_key = jax.random.split(key)
    visits = self.traverse(table.rules, policy, player, key)
    hands = jax.random.permutation(hands_key, table.rules.num_infostates)[:_HANDS]
    features, history, place = table.inputs(visits.state, visits.history)
    public = features.astype(visits.mass.dtype), history
    features, history = (jnp.repeat(x, len(hands), axis=0) for x in public)

    def samples(weight: jax.Array, numbers: jax.Array) -> MoveExamples:
      rows = (x[:, :, hands].swapaxes(1, 2) for x in (visits.legal, numbers))
      legal, numbers = (x.reshape(-1, x.shape[2]) for x in rows)
      own, weight = (x[:, hands].reshape(-1) for x in (place, weight))
      return MoveExamples(features, history, own, legal, weight, numbers)

    advantages = per_unit_of_mass(visits.regret, visits.mass[:, None])
    advantages /= table.unit.astype(advantages.dtype)
    return samples(visits.mass, advantages), samples(visits.reach, visits.policy)


@dataclasses.dataclass(frozen=True)
class DeepTrainer(Trainer):
  """Settings of Deep CFR, static; targets are both players' advantages and the average."""

  self_play: Any
  alternating: bool = True  # whether player 1 answers what player 0 has just learned

  def step(self, table: Decisions, state: TrainState) -> tuple[TrainState, Report]:
    """Takes an iteration of both players.

    Player 1 is first: if players alternate, it responds to what player 0 learned in the iteration
    before, and its advantages belong to that one.
    """
    key, *keys = jax.random.split(state.keys, 4)
    targets = {target.name: target for target in self.targets}
    params, optimizer, replay = (
      dict(x) for x in (state.params, state.optimizer_state, state.replay)
    )
    means = dict[str, LearnerStats]()
    # Networks begin the same on all devices.
    shared = jax.random.wrap_key_data(jax.lax.pmax(jax.random.key_data(key), DEVICES))
    for player in (1, 0):
      sample_key, first_key, second_key, learn_key = jax.random.split(keys[player], 4)
      target, late = targets[f"advantage_{player}"], player * self.alternating
      using = dict(params) if self.alternating else state.params
      policy = self.policy(table, using, (state.step, state.step - late))
      found = self.self_play.samples(table, policy, player, sample_key)
      memories = (target.name, first_key, late), ("average", second_key, 0)
      for samples, (name, add_key, before) in zip(found, memories):
        number = (state.step + 1 - before).astype(samples.weight.dtype)
        samples = samples._replace(weight=samples.weight * number)
        replay[name] = replays.add_evenly(replay[name], add_key, samples, samples.weight > 0)
      fresh = target.init(jax.random.fold_in(shared, player))
      start = fresh, with_decay_steps(target.optimizer().init(fresh), self.learn_steps), nothing()
      params[target.name], optimizer[target.name], means[target.name] = self.learn(
        target, start, replay[target.name], learn_key, self.learn_steps
      )
    start = params["average"], optimizer["average"], nothing()
    params["average"], optimizer["average"], means["average"] = self.learn(
      targets["average"], start, replay["average"], keys[2], self.learn_steps
    )
    solves = jax.lax.psum(self.self_play.number, DEVICES)
    rows = jnp.asarray(self.self_play.slots * table.rules.num_infostates, jnp.result_type(float))
    state = state._replace(
      params=params,
      optimizer_state=optimizer,
      replay=replay,
      keys=key,
      step=state.step + 1,
      solves=state.solves + solves,
    )
    return state, Report(means, {}, solves, rows)

  def policy(self, table: Decisions, params: Any, learned: Any) -> RangePolicy:
    """Returns both players' policies by their advantages.

    `learned` has each player's number of iterations; before its first a player plays uniformly.
    """

    def policy(states: Any, history: Any) -> jax.Array:
      first, second = (
        jnp.where(
          learned[player] > 0, table.numbers(x.network, params[x.name], states, history), 0.0
        )
        for player, x in enumerate(self.targets[:2])
      )
      advantages = jnp.where((table.rules.actor(states) == 1)[:, None, None], second, first)
      return matched(advantages, table.legal(states))

    # Of few public states the networks are asked once, and not wherever traversals come.
    few = self.self_play.slots * (table.rules.max_moves + 1)
    if table.lines is None or len(table.lines) > few:
      return policy
    rows = policy(jnp.arange(len(table.lines), dtype=jnp.int32)[:, None], jnp.asarray(table.lines))
    return lambda states, history: rows[states[:, 0]]
