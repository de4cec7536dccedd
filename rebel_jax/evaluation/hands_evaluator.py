"""What the agent of whole hold'em wins from simple players, where nothing can be measured exactly.

Winning from them says little about how far a strategy is from an equilibrium; losing to them says
that it is bad. `solvers.local_best_response` looks for what an opponent can win.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import PublicTree
from games.poker import Holdem, betting
from games.poker.betting import CALL, FOLD
from games.poker.dealing import draw_cards
from rebel_jax.config.config import Config
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy
from solvers.search.open_play import Search, Tables, play_chance, play_out, play_round, sit_down
from solvers.search.templates import TemplateSubgames

Progress = Callable[[int, int], None]  # (hands done, hands in all)
OPPONENTS = ("always_call", "uniform", "pot_maniac", "always_fold")
_AT_ONCE = 64  # hands
_INTERVAL = 1.96  # standard errors, 95 %


def likes(tree: PublicTree) -> jax.Array:
  """Returns how much each of `OPPONENTS` likes the moves of a tree of hold'em: `[K, N]`.

  The pot is raised by the bet nearest to that, all-in among them.
  """
  states, action = jnp.asarray(tree.state), jnp.asarray(tree.action)
  paid = states[:, betting.PAID_0 : betting.PAID_1 + 1].max(axis=1)
  before = paid[jnp.maximum(jnp.asarray(tree.parent), 0)]
  off_pot = jnp.abs(paid - 3 * before).astype(float)
  off_pot = off_pot / states[:, betting.STACK].astype(float)  # at most 2
  calls, folds = action == CALL, action == FOLD
  raises = ~calls & ~folds
  of = {
    "always_call": calls,
    "uniform": jnp.zeros(len(action)),
    "pot_maniac": jnp.where(raises, 3.0 - off_pot, -folds.astype(off_pot.dtype)),
    "always_fold": jnp.where(folds, 2.0, calls.astype(off_pot.dtype)),
  }
  return jnp.stack([of[name].astype(float) for name in OPPONENTS])


class HandsEvaluator:
  """Measures what an agent wins a hand, in thousandths of a big blind.

  Attributes:
    game: the rules; hands start as the game itself does, whatever is new in training's.
    unit: what progress counts.
  """

  unit = "hands"

  def __init__(self, config: Config, game: Holdem | None = None, *, iterations: int | None = None):
    """Prepares the programs; they are compiled as they are needed.

    Args:
      config: of the run.
      game: its game, if that is made already.
      iterations: of each search; None for the configuration's `final_iterations`.
    """
    self.game: Any = config.make_game() if game is None else game
    evaluation = config.evaluation
    self.iterations = evaluation.final_iterations if iterations is None else iterations
    leaf_values = NetworkLeafValues(make_network(config, self.game))
    algorithm = make_algorithm(config, evaluation.eval_algorithm)
    search = Search(algorithm, leaf_values, make_search_policy(config, self.game), self.iterations)
    rules: Any = self.game.templates()
    subgames = TemplateSubgames(rules, search.network is not None)
    self._rules, self._stages = rules, subgames.stages
    self._rounds = [jax.jit(functools.partial(play_round, s, search, likes)) for s in self._stages]
    deal = functools.partial(draw_cards, self.game)
    self._deal = jax.jit(functools.partial(play_chance, rules, deal))
    self._play_out = [jax.jit(functools.partial(play_out, s)) for s in self._stages]

  def measure(
    self,
    params: Any,
    *,
    hands: int,
    seed: int = 0,
    opponents: Sequence[str] = OPPONENTS[:3],
    progress: Progress | None = None,
  ) -> dict[str, float]:
    """Returns for each opponent what the agent wins, and half the width of its 95 % interval.

    Args:
      params: the networks'.
      hands: against each, in batches of 64.
      seed: of cards and of the agent.
      opponents: of `OPPONENTS`.
      progress: called with hands done and in all.

    Returns:
      `won_mbb_OPPONENT` and `won_mbb_OPPONENT_interval`, thousandths of a big blind a hand; and
      `hands`, how many were played.
    """
    batches = -(-hands // _AT_ONCE)
    found: dict[str, float] = {"hands": batches * _AT_ONCE}
    for place, name in enumerate(opponents):
      opponent = jnp.asarray(OPPONENTS.index(name))
      won: list[np.ndarray] = []
      for batch in range(batches):
        key = jax.random.fold_in(jax.random.key(seed), batch)  # the same hands for every opponent
        won.append(np.asarray(self._play(params, opponent, key)))
        if progress is not None:
          progress((place * batches + batch + 1) * _AT_ONCE, len(opponents) * batches * _AT_ONCE)
      mbb = 1000 * np.concatenate(won) / self.game.rules.big_blind
      found[f"won_mbb_{name}"] = float(mbb.mean())
      found[f"won_mbb_{name}_interval"] = float(_INTERVAL * mbb.std(ddof=1) / np.sqrt(len(mbb)))
    return found

  def _play(self, params: Any, opponent: jax.Array, key: jax.Array) -> jax.Array:
    """Returns what the agent won in each of a batch of hands, in chips."""
    keys = iter(jax.random.split(key, 2 * len(self.game.deals) + 2))
    roots = jnp.tile(jnp.asarray(self.game.initial_state(), jnp.int32), (_AT_ONCE, 1))
    if self.game.flops is not None:  # others in every hand
      draw = jax.random.randint(next(keys), (_AT_ONCE,), 0, np.iinfo(np.int32).max)
      roots = roots.at[:, -1].set(draw)
    tables: Tables = sit_down(self._rules, roots)
    for number in range(len(self.game.deals) + 1):
      stage = self._rules.stage_template(number)
      tables = self._rounds[stage](tables, opponent, params, next(keys))
      if number < len(self.game.deals):
        if (runout := self._rules.runout_template(number)) is not None:
          tables = self._play_out[runout](tables)
        tables = self._deal(tables, next(keys))
    return tables.won
