"""Sound self-play by growing searches, and the lanes that solve what they asked (section 3.3).

Half of the lanes play: at each decision they search from what the same player's last search left.
Some of the questions that their searches asked the network enter a queue, and the other lanes solve
those, without a gadget, for the network to learn from (Player of Games, algorithm 2).
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.training import questions
from rebel_jax.training import replay as replays
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Played, SelfPlayStats
from solvers import GTCFR, StateFunction
from solvers.growing.continual.next_start import Left, next_start
from solvers.growing.continual.play_on import Table, deal, play_on
from solvers.growing.continual.search_each import How, Search, search_each
from solvers.growing.resolving import Promises
from solvers.growing.states import seat_of
from solvers.xla.compiler_options import Work


class Question(NamedTuple):
  """A public belief state that a search asked about: its node and `[P, H]` beliefs."""

  node: jax.Array
  beliefs: jax.Array


class GrowingLanes(NamedTuple):
  """The states of `B` games of self-play, and what waits to be solved.

  Attributes:
    nodes: `[B]` the decisions that the games stand at.
    hands: `[B, P]` the players' infostates there.
    moves: `[B]` how many were made in each game.
    left: `[B, P, ...]` by each player's last search of the game.
    waiting: questions, of which `taken` `[]` were taken out.
    taken: see `waiting`.
  """

  nodes: jax.Array
  hands: jax.Array
  moves: jax.Array
  left: Left
  waiting: Replay
  taken: jax.Array


class Solved(NamedTuple):
  """Public belief states and what searches made of them, as training targets see them.

  Attributes:
    features: `[E, F]` as the mover sees them.
    beliefs: `[E, P, H]` the mover's first, as are all that follow.
    values: `[E, P, H]` mean expected payoffs.
    value_weight: `[E, P, H]` 1 where there is a value.
    policy: `[E, A, H]` of the mover: by action and the infostate that it leads to.
    comes_from: `[E, A, H]` the infostate that a move is made from; -1 where there is none.
    policy_weight: `[E, H]` 1 where the mover has a policy.
    active: `[E]` bool; other rows are meaningless.
  """

  features: jax.Array
  beliefs: jax.Array
  values: jax.Array
  value_weight: jax.Array
  policy: jax.Array
  comes_from: jax.Array
  policy_weight: jax.Array
  active: jax.Array


@dataclasses.dataclass(frozen=True)
class GrowingPlay:
  """Settings of self-play by growing searches, all static.

  Attributes:
    search: of both kinds of lanes.
    network: what searches ask.
    num_actions: A, of its answers.
    num_lanes: B, games side by side.
    num_solvers: questions solved in a step.
    query_share: of the searches of play, how many leave a question to solve, on average.
    recursive_share: the same of the searches that solve questions.
    exploration: probability of a uniform move.
  """

  search: GTCFR
  network: StateFunction
  num_actions: int
  num_lanes: int
  num_solvers: int
  query_share: float = 0.9
  recursive_share: float = 0.1
  exploration: float = 0.1

  @property
  def num_waiting(self) -> int:
    """Questions that the queue has room for; the newest overwrite the oldest."""
    return 8 * self.num_lanes

  def work(self, table: Any) -> Work:
    """Returns trees: the older emitters compile a search in two thirds of the time."""
    return Work.TREES

  def init(self, table: Any, key: jax.Array) -> Any:
    """Returns lanes that all begin a game."""
    tree = table.tree
    slots = Table.of(table.tree, table.nodes)
    nodes, hands = jax.vmap(functools.partial(deal, slots))(jax.random.split(key, self.num_lanes))
    left = jax.tree.map(
      lambda x: jnp.broadcast_to(x, (self.num_lanes, 2, *x.shape)), Left.nothing(tree)
    )
    nothing = jnp.zeros((2, tree.num_infostates), tree.dtype)
    one = Question(jnp.zeros((), jnp.int32), nothing)
    zeros = jnp.zeros(self.num_lanes, jnp.int32)
    waiting = replays.make_replay(one, self.num_waiting)
    return GrowingLanes(nodes, hands, zeros, left, waiting, jnp.zeros((), jnp.int32))

  def step(self, table: Any, lanes: Any, params: Any, key: jax.Array) -> Played:
    """Makes one move in each game, and solves as many questions as there are lanes for it."""
    search_key, play_key, ask_key = jax.random.split(key, 3)
    lanes, asked, active = self._take(table, lanes)
    keys = jax.random.split(search_key, self.num_lanes + self.num_solvers)
    playing = jnp.concatenate([jnp.ones(self.num_lanes, bool), active])
    found = self._search(table, lanes, asked, keys, playing, params)
    played, solved = (
      jax.tree.map(lambda x, s=s: x[s], found)
      for s in (slice(self.num_lanes), slice(self.num_lanes, None))
    )
    lanes = self._ask(lanes, found, active, ask_key)
    lanes = self._play(table, lanes, played, play_key)
    examples = self._examples(table, asked, solved, active)
    rows = found.asked.total.sum()
    in_each = rows / (self.search.rounds * self.search.updates_per_round)
    solves = active.sum(dtype=jnp.int32)
    stats = SelfPlayStats(solves, in_each.astype(jnp.int32), rows.astype(float))
    return Played(lanes, (examples,), stats)

  def _take(self, table: Any, lanes: Any) -> tuple[Any, Any, jax.Array]:
    """Takes questions out of the queue, the longest waiting first; and which there are `[S]`."""
    asked, active, taken = questions.take(lanes.waiting, lanes.taken, self.num_solvers)
    return lanes._replace(taken=taken), self._filled(table, asked, active), active

  def _ask(self, lanes: Any, found: Any, active: jax.Array, key: jax.Array) -> Any:
    """Puts some of what searches asked into the queue: as many as the shares say, if there are."""
    there = found.asked.total > 0  # where all that follows are ends, nothing is asked
    shares = self.query_share, self.recursive_share
    chosen = questions.choose(key, there, active, shares)
    return lanes._replace(waiting=replays.add(lanes.waiting, self._question(found.asked), chosen))

  # What depends on how trees are made.

  def _filled(self, table: Any, asked: Any, active: jax.Array) -> Any:
    """Returns questions `[S]`, of which those that are not active are replaced by harmless ones."""
    uniform = jnp.full_like(asked.beliefs, 1.0 / asked.beliefs.shape[-1])
    beliefs = jnp.where(active[:, None, None], asked.beliefs, uniform)
    return Question(asked.node, beliefs)

  def _question(self, asked: Any) -> Any:
    """Returns what searches asked, as the queue keeps it."""
    return Question(asked.node, asked.beliefs)

  def _search(
    self, table: Any, lanes: Any, asked: Any, keys: jax.Array, active: jax.Array, params: Any
  ) -> Any:
    """Searches for the games' decisions, then for the questions: those of `active` `[B + S]`."""
    tree = table.tree
    mover = jnp.asarray(tree.kind)[lanes.nodes]
    each = jnp.arange(self.num_lanes)
    before = jax.tree.map(lambda x: x[each, mover], lanes.left)
    starts = jax.vmap(functools.partial(next_start, tree))(before, lanes.nodes, mover)
    return search_each(
      table,
      _together(starts, lanes.nodes, asked),
      keys,
      active,
      how=How(self.search.of_any_length(), network=self.network),
      rounds=self.search.rounds,
      params=params,
    )

  def _play(self, table: Any, lanes: Any, played: Any, key: jax.Array) -> Any:
    """Makes the moves that searches found; games that end begin anew."""
    slots = Table.of(table.tree, table.nodes)
    move_key, new_key = jax.random.split(key)
    go = functools.partial(play_on, slots, exploration=self.exploration)
    keys = jax.random.split(move_key, self.num_lanes)
    nodes, hands, over = jax.vmap(go)(lanes.nodes, lanes.hands, played.policy, keys)
    news = jax.vmap(functools.partial(deal, slots))(jax.random.split(new_key, self.num_lanes))
    mover = jnp.asarray(slots.tree.kind)[lanes.nodes]
    each = jnp.arange(self.num_lanes)
    left = jax.tree.map(lambda x, y: x.at[each, mover].set(y), lanes.left, played.left)
    left = left._replace(root=jnp.where(over[:, None], -1, left.root))
    return lanes._replace(
      nodes=jnp.where(over, news[0], nodes),
      hands=jnp.where(over[:, None], news[1], hands),
      moves=jnp.where(over, 0, lanes.moves + 1),
      left=left,
    )

  def _examples(self, table: Any, asked: Any, solved: Any, active: jax.Array) -> Solved:
    """Returns what searches found about the questions, as examples."""
    tree = table.tree
    mover = jnp.asarray(tree.kind)[asked.node]
    seen = jnp.asarray(table.nodes.features)
    features = jnp.where((mover == 1)[:, None], seen[1, asked.node], seen[0, asked.node])
    weight = (solved.root_mass > 0).astype(tree.dtype)
    if tree.possible is not None:
      weight = jnp.where(jnp.asarray(tree.possible)[asked.node], weight, 0.0)
    slots = Table.of(tree, table.nodes)
    policy, comes_from = jax.vmap(functools.partial(slots.moves_from, self.num_actions))(
      asked.node, solved.policy
    )
    own_first = functools.partial(seat_of, mover)
    weight = own_first(weight)
    return Solved(
      features=features,
      beliefs=own_first(asked.beliefs),
      values=own_first(solved.root_values),
      value_weight=weight,
      policy=policy,
      comes_from=comes_from,
      policy_weight=jnp.where((mover < 2)[:, None], weight[:, 0], 0.0),
      active=active,
    )


def _together(starts: Any, nodes: jax.Array, asked: Question) -> Search:
  """Returns what both kinds of searches are about, play's first."""
  none = Promises.none(asked.beliefs.shape[-1], asked.beliefs.dtype)
  nobody = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(asked.node), *x.shape)), none)
  first = Search(starts.root, nodes, starts.beliefs, starts.promises)
  second = Search(asked.node, asked.node, asked.beliefs, nobody)
  return jax.tree.map(lambda x, y: jnp.concatenate([x.astype(y.dtype), y]), first, second)
