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

from games.poker import Holdem
from games.poker.betting import CALL, FIRST_BET, FOLD
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


def preference(game: Holdem, opponent: str) -> np.ndarray:
  """Returns how much an opponent likes each of a player's actions: `[A]`."""
  likes = np.zeros(game.num_player_actions)
  sizes = game.bets.thousandths.reshape(-1, game.bets.num_slots)
  pot = FIRST_BET + int(np.abs(sizes.max(axis=0) - 1000).argmin())
  order = {
    "always_call": (FOLD, CALL),
    "always_fold": (CALL, FOLD),
    "pot_maniac": (FOLD, CALL, FIRST_BET + game.bets.num_slots, pot),
    "uniform": (),
  }[opponent]
  for rank, action in enumerate(order, start=1):
    likes[action] = rank
  return likes


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
    self._rounds = [jax.jit(functools.partial(play_round, s, search)) for s in self._stages]
    deal = functools.partial(draw_cards, self.game)
    self._deal = jax.jit(functools.partial(play_chance, rules, deal))
    self._play_out = jax.jit(functools.partial(play_out, self._stages[-1]))

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
      `won_mbb_OPPONENT` and `won_mbb_OPPONENT_interval`, thousandths of a big blind a hand.
    """
    found: dict[str, float] = {}
    batches = -(-hands // _AT_ONCE)
    for place, name in enumerate(opponents):
      likes = jnp.asarray(preference(self.game, name))
      won: list[np.ndarray] = []
      for batch in range(batches):
        key = jax.random.fold_in(jax.random.key(seed), batch)  # the same hands for every opponent
        won.append(np.asarray(self._play(params, likes, key)))
        if progress is not None:
          progress((place * batches + batch + 1) * _AT_ONCE, len(opponents) * batches * _AT_ONCE)
      mbb = 1000 * np.concatenate(won) / self.game.rules.big_blind
      found[f"won_mbb_{name}"] = float(mbb.mean())
      found[f"won_mbb_{name}_interval"] = float(_INTERVAL * mbb.std(ddof=1) / np.sqrt(len(mbb)))
    return found

  def _play(self, params: Any, likes: jax.Array, key: jax.Array) -> jax.Array:
    """Returns what the agent won in each of a batch of hands, in chips."""
    keys = iter(jax.random.split(key, 2 * len(self.game.deals) + 2))
    roots = jnp.tile(jnp.asarray(self.game.initial_state(), jnp.int32), (_AT_ONCE, 1))
    if self.game.flops is not None:  # others in every hand
      draw = jax.random.randint(next(keys), (_AT_ONCE,), 0, np.iinfo(np.int32).max)
      roots = roots.at[:, -1].set(draw)
    tables: Tables = sit_down(self._rules, roots)
    for number in range(len(self.game.deals) + 1):
      stage = self._rules.stage_template(number)
      tables = self._rounds[stage](tables, likes, params, next(keys))
      if number < len(self.game.deals):
        if number == len(self.game.deals) - 1:
          tables = self._play_out(tables)
        tables = self._deal(tables, next(keys))
    return tables.won
