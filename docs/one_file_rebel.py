"""ReBeL on Liar's Dice in one file: self-play, search, learning and evaluation.

`python docs/one_file_rebel.py` trains a value network for three minutes of two CPU cores and prints
the exploitability of the agent that searches with it: below 0.05. It is algorithm 2 of the paper
(https://arxiv.org/abs/2007.13544) from the library's parts: rules and public trees of `games`, a
batch of searches of `solvers`, a network of Flax, an optimizer of optax. `docs/rebel.md` explains
it; `rebel_jax` is the same with more games, devices, checkpoints and commands.

Letters: B lanes, games side by side; L leaves of a subgame; H infostates of a player; P = 2.
"""

import argparse
import dataclasses
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

import games
import solvers
from solvers import search
from solvers.sweeps import make_problem


@dataclasses.dataclass(frozen=True)
class Settings:
  """Settings of the run; iterations are updates of one player."""

  depth: int = 2  # public actions from a subgame's root to its leaves
  iterations: int = 128  # of each search
  exploration: float = 0.25  # how often the exploring player moves at random
  lanes: int = 64  # B, subgames solved side by side
  width: int = 256  # of the network's two hidden layers
  capacity: int = 65_536  # examples in the buffer
  batch_size: int = 256
  updates: int = 4  # gradient steps after each step of self-play
  learning_rate: float = 1e-3  # at the start; it falls to zero as a cosine


# The value network: what a public belief state (PBS) is worth to a player, for each infostate.


class ValueNetwork(nn.Module):
  """An MLP from public features `[R, F]` and beliefs `[R, 2 * H]` to values `[R, H]`."""

  num_infostates: int
  width: int

  @nn.compact
  def __call__(self, features: jax.Array, beliefs: jax.Array) -> jax.Array:
    """Returns the values of the player whose beliefs come first."""
    x = jnp.concatenate([features, beliefs], axis=-1)
    for _ in range(2):
      x = nn.gelu(nn.LayerNorm()(nn.Dense(self.width)(x)))
    return nn.Dense(self.num_infostates)(x)


@dataclasses.dataclass(frozen=True)
class LeafValues:
  """The network as the solvers ask it: v(s, PBS) at the leaves, from the traverser's seat."""

  network: ValueNetwork

  def __call__(self, params: Any, query: solvers.LeafQuery) -> jax.Array:
    """Returns `[L, H]` for a query about L leaves."""
    own, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
    return self.network.apply(params, query.features, jnp.concatenate([own, other], axis=-1))


# Self-play (algorithm 2): solve the subgame that a game stands in, go on at a leaf.


class Lanes(NamedTuple):
  """The public belief states in which B games stand."""

  roots: jax.Array  # [B] numbers of subgames
  beliefs: jax.Array  # [B, P, H]


class Examples(NamedTuple):
  """Training examples: one for each subgame and seat."""

  features: jax.Array  # [E, F] the public state
  beliefs: jax.Array  # [E, 2 * H] own beliefs, then the other's
  values: jax.Array  # [E, H] of the search
  mask: jax.Array  # [E, H] 1 where the rules allow the infostate


def play(
  settings: Settings, subgames: Any, leaf_values: LeafValues, params: Any, lanes: Lanes, key: Any
) -> tuple[Lanes, Examples]:
  """Searches the subgames of all lanes; returns where the lanes go on, and examples."""
  stage, algorithm = subgames.stages[0], solvers.linear_cfr()
  stop_key, explorer_key, leaf_key = jax.random.split(key, 3)
  trees = stage.trees_at(lanes.roots)  # every array with a leading axis [B]
  # A random iteration's policy is played and sets beliefs: linear weights, as the average's.
  stop = search.sample_stop(stop_key, (settings.lanes,), settings.iterations, algorithm.averaging)
  result = search.search_batch(
    trees,
    lanes.beliefs,
    stop,
    settings.iterations,
    algorithm=algorithm,
    leaf_values=leaf_values,
    params=params,
    num_rows=settings.lanes * stage.most_live,
  )

  def sample(key, tree, beliefs, policy, explorer):
    """Draws the leaf at which a game goes on; L for its end."""
    problem = make_problem(tree, beliefs)
    mixed = search.explore(problem, policy, explorer, settings.exploration)
    return search.sample_leaf(key, search.leaf_probabilities(problem, mixed, beliefs))

  keys = jax.random.split(leaf_key, settings.lanes)
  explorer = jax.random.bernoulli(explorer_key, shape=(settings.lanes,)).astype(jnp.int32)
  leaf = jax.vmap(sample)(keys, trees, lanes.beliefs, result.policy, explorer)
  over, leaf = leaf == stage.num_leaves, jnp.minimum(leaf, stage.num_leaves - 1)
  roots = search.after(stage, lanes.roots, trees, leaf)
  beliefs = result.leaf_beliefs[jnp.arange(settings.lanes), leaf]  # exploration is left out
  new = start(settings, subgames)
  following = Lanes(
    jnp.where(over, new.roots, roots), jnp.where(over[:, None, None], new.beliefs, beliefs)
  )
  return following, make_examples(trees, lanes.beliefs, result.root_values)


def start(settings: Settings, subgames: Any) -> Lanes:
  """Returns lanes that begin a game."""
  roots = jnp.zeros(settings.lanes, jnp.int32)
  return Lanes(roots, subgames.prior(roots))


def make_examples(trees: games.PublicTree, beliefs: jax.Array, values: jax.Array) -> Examples:
  """Returns examples of B searched subgames, those of player 0 first: `[2 * B, ...]`."""
  other_first = beliefs[:, ::-1]
  both = jnp.stack([beliefs, other_first], axis=1).reshape(*beliefs.shape[:2], -1)  # [B, P, 2 * H]
  mask = (trees.prior > 0).astype(values.dtype)
  arrays = jnp.asarray(trees.root_features), both, values, mask  # [B, P, ...]
  return Examples(*(x.swapaxes(0, 1).reshape(-1, x.shape[-1]) for x in arrays))


# Learning: a circular buffer, Huber loss, Adam.


class Buffer(NamedTuple):
  """A circular buffer of examples."""

  examples: Examples
  added: jax.Array  # [] examples ever added


def add(buffer: Buffer, examples: Examples) -> Buffer:
  """Writes `examples` over the oldest ones."""
  number, capacity = len(examples.mask), len(buffer.examples.mask)
  places = (buffer.added + jnp.arange(number)) % capacity
  stored = jax.tree.map(lambda x, y: x.at[places].set(y), buffer.examples, examples)
  return Buffer(Examples(*stored), buffer.added + number)


def loss(params: Any, network: ValueNetwork, batch: Examples) -> jax.Array:
  """Returns the mean Huber loss of the values of possible infostates."""
  errors = optax.huber_loss(network.apply(params, batch.features, batch.beliefs), batch.values)
  return (errors * batch.mask).sum() / batch.mask.sum()


class State(NamedTuple):
  """All that changes in a run."""

  lanes: Lanes
  params: Any
  optimizer: Any
  buffer: Buffer
  key: jax.Array


class ReBeL:
  """The parts of a run, and its compiled step."""

  def __init__(self, game: games.Game, settings: Settings, steps: int):
    """Enumerates the subgames and makes network and optimizer."""
    self.game, self.settings = game, settings
    self.found = search.find_subgames(game, depth=settings.depth)
    self.subgames = search.stack_stages(game, self.found, by_stage=False)
    self.network = ValueNetwork(game.num_infostates, settings.width)
    self.leaf_values = LeafValues(self.network)
    rate = optax.cosine_decay_schedule(settings.learning_rate, steps * settings.updates)
    self.optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    self.step = jax.jit(self._step, donate_argnums=0)

  def init(self, seed: int) -> State:
    """Returns the state before the first step."""
    key, network_key = jax.random.split(jax.random.key(seed))
    lanes, settings = start(self.settings, self.subgames), self.settings
    trees = self.subgames.stages[0].trees_at(lanes.roots)
    example = make_examples(trees, lanes.beliefs, jnp.zeros_like(lanes.beliefs))
    params = self.network.init(network_key, example.features, example.beliefs)
    empty = jax.tree.map(lambda x: jnp.zeros((settings.capacity, x.shape[-1]), x.dtype), example)
    return State(
      lanes, params, self.optimizer.init(params), Buffer(empty, jnp.zeros((), jnp.int32)), key
    )

  def _step(self, state: State) -> tuple[State, jax.Array]:
    """Returns the state after one step of self-play and learning, and the mean loss."""
    settings = self.settings
    key, play_key, learn_key = jax.random.split(state.key, 3)
    lanes, examples = play(
      settings, self.subgames, self.leaf_values, state.params, state.lanes, play_key
    )
    buffer = add(state.buffer, examples)
    size = jnp.minimum(buffer.added, settings.capacity)

    def update(carry, key):
      params, optimizer = carry
      batch = jax.tree.map(
        lambda x: x[jax.random.randint(key, (settings.batch_size,), 0, size)], buffer.examples
      )
      error, gradient = jax.value_and_grad(loss)(params, self.network, batch)
      change, optimizer = self.optimizer.update(gradient, optimizer, params)
      return (optax.apply_updates(params, change), optimizer), error

    keys = jax.random.split(learn_key, settings.updates)
    (params, optimizer), errors = jax.lax.scan(update, (state.params, state.optimizer), keys)
    return State(lanes, params, optimizer, buffer, key), errors.mean()

  def exploitability(self, params: Any, playthroughs: int = 64, iterations: int = 512) -> float:
    """Returns that of the searching agent: the average of as many playthroughs (section 7)."""
    agent = search.make_searching_agent(
      self.game, self.found, algorithm=solvers.linear_cfr(), leaf_values=self.leaf_values
    )
    *_, sampled = search.sample_playthroughs(
      agent,
      params=params,
      num_playthroughs=playthroughs,
      num_iterations=iterations,
      start=search.no_playthroughs(agent, jax.random.key(0)),
    )
    policy = search.average_policy(agent, sampled)
    return float(solvers.exploitability(agent.tree, policy))


def train(steps: int, seed: int = 0, settings: Settings | None = None) -> tuple[ReBeL, State, list]:
  """Trains on Liar's Dice with one die of four faces each; returns losses too."""
  rebel = ReBeL(games.make("liars_dice", num_dice=1, num_faces=4), settings or Settings(), steps)
  state, losses, began = rebel.init(seed), [], time.monotonic()
  for number in range(1, steps + 1):
    state, error = rebel.step(state)
    losses.append(float(error))
    if number % 50 == 0 or number == steps:
      recent = sum(losses[-50:]) / len(losses[-50:])
      print(f"step {number}, loss {recent:.4f}, {time.monotonic() - began:.0f} s", flush=True)
  return rebel, state, losses


def main() -> None:
  """Trains, then measures the agent."""
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--steps", type=int, default=500)
  parser.add_argument("--seed", type=int, default=0)
  options = parser.parse_args()
  rebel, state, _ = train(options.steps, options.seed)
  print(f"exploitability {rebel.exploitability(state.params):.4f}")


if __name__ == "__main__":
  main()
