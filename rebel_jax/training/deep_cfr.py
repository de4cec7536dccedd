"""Deep CFR (Brown, Lerer, Gross and Sandholm 2019; thesis, section 4.1), an iteration a step.

In an iteration each player in turn adds the advantages of sampled traversals to its memory, weighed
by the iteration, and learns its network from scratch. A traversal is of external sampling for all
deals at once: it draws one move for each of the opponent's infostates, and visits all moves of the
player and of chance; an infostate weighs the mass of the opponent's that it meets. The player's own
policy goes into the memory of the average's network wherever moves drawn of it lead, so as often
as it gets there.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import Array, Game, PublicTree, build_public_tree
from games.public_tree import largest_payoff
from rebel_jax.networks.value import answers
from rebel_jax.training import replay as replays
from rebel_jax.training.loop import DEVICES, Report, Trainer, TrainState, learn_once, nothing
from rebel_jax.training.targets.moves import MoveExamples, Samples
from rebel_jax.training.targets.target import LearnerStats, Target, with_decay_steps
from solvers import node_info
from solvers.sweeps import make_problem, per_unit_of_mass
from solvers.xla import Work

_ROUNDING = 1e-6


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Decisions:
  """The decision nodes of a tree, player 0's first; an infostate's number is `d * H + h`.

  Attributes:
    tree: of the whole game.
    node: `[D]` their places in the tree.
    features: `[D, F]` the public state as its mover sees it.
    history: `[D, L]` public actions that led there, -1 to fill up.
    place: `[D, H]` each infostate's place in the game's order of them, if it has one.
    possible: `[D, H]` 1 where the rules allow the mover's infostate, else 0.
    pair_index: `[D]` which pair weights hold.
    edge: `[D, M, H]` the entry of a policy `[N * H]` that a move is, -1 where there is none.
    row: `[N, H]` the entry of numbers `[D * M * H]` that a policy's is; `D * M * H` for others.
    unit: `[]` the largest payoff, unit of advantages.
    first: how many decisions are player 0's.
  """

  tree: PublicTree
  node: Array
  features: Array
  history: Array
  place: Array
  possible: Array
  pair_index: Array
  edge: Array
  row: Array
  unit: Array
  first: int = dataclasses.field(metadata={"static": True})

  @property
  def num_subgames(self) -> int:
    """How many decision nodes there are."""
    return len(self.node)

  @property
  def legal(self) -> jax.Array:
    """`[D, M, H]` which moves there are."""
    return jnp.asarray(self.edge) >= 0

  def of(self, player: int) -> slice:
    """Returns which decisions are the player's."""
    return slice(0, self.first) if player == 0 else slice(self.first, None)

  def policy(self, probabilities: jax.Array) -> jax.Array:
    """Returns the tree's policy `[N, H]` of probabilities of moves `[D, M, H]`."""
    return jnp.append(probabilities, 1.0)[self.row]


def make_decisions(game: Game) -> Decisions:
  """Returns the decisions of a game.

  Raises:
    ValueError: its tree is too large to be written out.
  """
  tree = build_public_tree(game)
  info, kind = node_info(game, tree), np.asarray(tree.kind)
  node = np.concatenate([np.flatnonzero(kind == player) for player in (0, 1)])
  mover, h = kind[node], tree.num_infostates
  features = np.asarray(info.features)[mover, node]
  place = np.broadcast_to(np.arange(h), (len(node), h))
  if game.orders_infostates:
    place, features = np.argsort(features[:, -h:], axis=1), features[:, :-h]
  possible = np.ones((len(node), h))
  if tree.possible is not None:
    possible = np.asarray(tree.possible)[node, mover].astype(float)
  seen = np.asarray(info.by_action)[node]
  after = np.asarray(info.leads_to)[node]
  if not after.shape[1]:  # all moves are seen
    seen = np.broadcast_to(seen, (*seen.shape[:2], h))
    after = np.broadcast_to(np.arange(h), seen.shape)
  child = np.asarray(info.child)[node[:, None, None], np.maximum(seen, 0)]
  edge = np.where(seen >= 0, child * h + after, -1)
  row = np.full(len(kind) * h, edge.size)
  row[edge[edge >= 0]] = np.flatnonzero(edge.reshape(-1) >= 0)
  paths = [tree.history(int(x)) for x in node]
  history = np.full((len(node), game.max_moves), -1, np.int32)
  for line, path in zip(history, paths):
    line[: len(path)] = path
  return Decisions(
    tree=tree,
    node=node,
    features=features,
    history=history,
    place=place.astype(np.int32),
    possible=possible,
    pair_index=np.asarray(info.pair_index)[node],
    edge=edge.astype(np.int32),
    row=row.reshape(-1, h).astype(np.int32),
    unit=largest_payoff(tree),
    first=int((mover == 0).sum()),
  )


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
  """Settings of an iteration's traversals on one device; static.

  Attributes:
    number: B, of each player.
  """

  number: int

  def init(self, table: Decisions, key: jax.Array) -> Any:
    """Returns nothing: a traversal is over within its step."""
    return ()

  def work(self, table: Decisions) -> Work:
    """Returns networks: their learning takes nearly all of a step."""
    return Work.NETWORKS

  def draw(self, key: jax.Array, policy: jax.Array) -> jax.Array:
    """Draws a move for each infostate: `[D, M, H]` of ones and zeros."""
    chosen = jax.random.categorical(key, jnp.log(policy), axis=1)
    return jax.nn.one_hot(chosen, policy.shape[1], axis=1, dtype=policy.dtype)

  def samples(
    self, table: Decisions, policy: jax.Array, player: int, key: jax.Array
  ) -> tuple[Samples, Samples]:
    """Returns the player's advantages and its policy where traversals visit it, `[E]` each.

    Args:
      table: of the game.
      policy: `[D, M, H]` both players'.
      player: who learns.
      key: of what is drawn.
    """
    tree = jax.tree.map(jnp.asarray, table.tree)
    problem = make_problem(tree, tree.prior.astype(policy.dtype))
    own, opponent = table.of(player), 1 - player
    node, legal = jnp.asarray(table.node)[own], table.legal[own]
    edge, possible = jnp.asarray(table.edge)[own], jnp.asarray(table.possible)[own]
    pair_index = jnp.asarray(table.pair_index)[own]

    def traverse(key: jax.Array) -> tuple[jax.Array, ...]:
      drawn = problem.split(table.policy(self.draw(key, policy)))
      mixed = problem.split(table.policy(policy))
      reach = problem.own_reach(drawn, opponent)
      there = problem.join(problem.full_reach(reach, opponent))[node]
      mass = problem.pairs.pairs.mass(pair_index, there, player) * possible
      # Sums over hands that cancel leave rounding, by which nothing is divided.
      mass = jnp.where(mass > _ROUNDING * there.sum(axis=1, keepdims=True), mass, 0.0)
      sweep = problem.values_up(mixed, reach, None, player)
      regrets = [problem.advantages(sweep, i, player) for i in range(1, len(mixed))]
      filled = (jnp.zeros_like(y) if x is None else x for x, y in zip([None, *regrets], mixed))
      found = problem.join(tuple(filled)).reshape(-1)[edge] / table.unit
      advantages = per_unit_of_mass(jnp.where(legal, found, 0.0), mass[:, None])
      return advantages, mass, problem.join(problem.own_reach(drawn, player))[node] * possible

    advantages, mass, reach = jax.vmap(traverse)(jax.random.split(key, self.number))
    first, size = own.start * mass.shape[2], mass[0].size
    number = jnp.broadcast_to(first + jnp.arange(size, dtype=jnp.int32), (self.number, size))

    def as_samples(numbers: jax.Array, weight: jax.Array) -> Samples:
      rows = jnp.broadcast_to(numbers, (self.number, *numbers.shape[-3:])).swapaxes(2, 3)
      return Samples(number.reshape(-1), weight.reshape(-1), rows.reshape(-1, rows.shape[3]))

    return as_samples(advantages, mass), as_samples(policy[own], reach)


@dataclasses.dataclass(frozen=True)
class DeepTrainer(Trainer):
  """Settings of Deep CFR, all static; targets are both players' advantages and the average.

  Attributes:
    self_play: `Traversals`.
    alternating: whether player 1 answers what player 0 has just learned.
  """

  self_play: Any
  alternating: bool = True

  def examples(self, table: Decisions, samples: Samples) -> MoveExamples:
    """Returns samples with the inputs of networks."""
    decision, infostate = jnp.divmod(samples.infostate, table.place.shape[1])
    return MoveExamples(
      jnp.asarray(table.features)[decision].astype(samples.numbers.dtype),
      jnp.asarray(table.history)[decision],
      jnp.asarray(table.place)[decision, infostate],
      table.legal[decision, :, infostate],
      samples.weight,
      samples.numbers,
    )

  def answers(self, target: Target, params: Any, table: Decisions, which: slice) -> jax.Array:
    """Returns a network's numbers at some decisions, `[D, M, H]`."""
    return answers(target.network, params, table, which)

  def learn(
    self, target: Target, table: Decisions, learned: Any, replay: replays.Replay, key: jax.Array
  ) -> tuple[Any, Any, LearnerStats]:
    """Takes an iteration's gradient steps from parameters, optimizer state and zero statistics."""

    def step(i: jax.Array, learned: Any) -> Any:
      some = replays.sample(replay, jax.random.fold_in(key, i), self.share(target))
      return learn_once(self, target, self.examples(table, some), *learned)

    return jax.lax.fori_loop(0, self.learn_steps, step, learned)

  def step(self, table: Decisions, state: TrainState) -> tuple[TrainState, Report]:
    """Takes an iteration of both players."""
    key, *keys = jax.random.split(state.keys, 4)
    targets = {target.name: target for target in self.targets}
    params, optimizer, replay = (
      dict(x) for x in (state.params, state.optimizer_state, state.replay)
    )
    means, policy = dict[str, LearnerStats](), jnp.zeros(())
    # Networks begin the same on all devices.
    shared = jax.random.wrap_key_data(jax.lax.pmax(jax.random.key_data(key), DEVICES))
    for player in (0, 1):
      sample_key, first_key, second_key, learn_key = jax.random.split(keys[player], 4)
      target = targets[f"advantage_{player}"]
      if player == 0 or self.alternating:
        policy = self.policy(table, params, (state.step + player, state.step))
      found = self.self_play.samples(table, policy, player, sample_key)
      memories = (target.name, first_key), ("average", second_key)
      for samples, (name, add_key) in zip(found, memories):
        there = samples.weight > 0
        samples = samples._replace(weight=samples.weight * (state.step + 1))
        replay[name] = replays.add_evenly(replay[name], add_key, samples, there)
      fresh = target.init(jax.random.fold_in(shared, player))
      start = with_decay_steps(target.optimizer().init(fresh), self.learn_steps)
      learned = self.learn(target, table, (fresh, start, nothing()), replay[target.name], learn_key)
      params[target.name], optimizer[target.name], means[target.name] = learned
    learned = (params["average"], optimizer["average"], nothing())
    learned = self.learn(targets["average"], table, learned, replay["average"], keys[2])
    params["average"], optimizer["average"], means["average"] = learned
    solves = jax.lax.psum(self.self_play.number, DEVICES)
    rows = jnp.asarray(table.place.size, policy.dtype)
    state = state._replace(
      params=params,
      optimizer_state=optimizer,
      replay=replay,
      keys=key,
      step=state.step + 1,
      solves=state.solves + solves,
    )
    return state, Report(means, {}, solves, rows)

  def policy(self, table: Decisions, params: Any, learned: Any) -> jax.Array:
    """Returns both players' policies by their advantages, `[D, M, H]`.

    A player's is uniform before its first iteration; each has `learned` as often as it says.
    """
    found = [
      self.answers(x, params[x.name], table, table.of(player)) * (learned[player] > 0)
      for player, x in enumerate(self.targets[:2])
    ]
    return matched(jnp.concatenate(found), table.legal)
