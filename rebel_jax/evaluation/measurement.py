"""Measures of an agent, a row of numbers and in words."""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.config import ConfigError
from rebel_jax.evaluation.opponents import LADDER

# Called with what is measured, how much of it is done and in all, the unit, and more to say.
Show = Callable[[str, int, int, str, str], None]


class Measurement(NamedTuple):
  """Measures of an agent."""

  row: dict[str, Any]  # by name, as metrics and JSON hold them
  # playthroughs and the exploitability of their average, or a number for each seed
  course: Sequence[Any] = ()

  @property
  def exploitability(self) -> float | None:
    """Exploitability, the mean of several seeds; None where it was not measured."""
    return self.row.get("exploitability", self.row.get("exploitability_mean"))

  @property
  def won(self) -> list[str]:
    """Winnings from each simple opponent, in words."""
    return [
      f"{self.row[mbb]:,.0f} ± {self.row[f'{mbb}_interval']:,.0f} mbb from {x}"
      for x in LADDER
      if (mbb := f"won_mbb_{x}") in self.row
    ]

  @property
  def conditions(self) -> str:
    """Number and length of the searches in words, or that there are none."""
    row = self.row
    for name in ("exploitability", "score"):
      if f"{name}_mean" in row:
        low, high = row[f"{name}_min"], row[f"{name}_max"]
        return (
          f"{low:.4f} to {high:.4f} for {row['seeds']} seeds, {row['simulations']:,} simulations, "
          f"{row['per_update']:g} an update"
        )
    if "hands" in row:
      return f"{row['hands']:,} hands against each, {row['iterations']:,} iterations"
    if "playthroughs" in row:
      return f"{row['playthroughs']} playthroughs, {row['iterations']:,} iterations"
    return "of the average policy, exact" if "exploitability" in row else ""

  @property
  def sentence(self) -> str:
    """The result in words."""
    row = self.row
    if "score_mean" in row:
      return f"score {row['score_mean']:.4f} against the same search without a network"
    if "hands" in row:
      return "won a hand: " + ", ".join(self.won)
    if self.exploitability is None:
      return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in row.items())
    kept = f", {row['not_lost_mean']:.2%} of games not lost" if "not_lost_mean" in row else ""
    return f"exploitability {self.exploitability:.4f}{kept}"


class Measures:
  """An agent's evaluator; `about` has its searches' settings that are no part of a row."""

  about: dict[str, Any]

  def measured(self, params: Any, seed: int, final: bool, show: Show) -> Iterator[Measurement]:
    """Yields the measures so far now and then; raises ConfigError for NaN."""
    raise NotImplementedError

  def measure(
    self, params: Any, seed: int, *, final: bool = True, show: Show = lambda *_: None
  ) -> Measurement:
    """Measures the agent, as much as at the end of a run if `final`."""
    # Where Ctrl-C ends it, `KeyboardInterrupt` holds the measures so far.
    last = deque[Measurement](maxlen=1)
    try:
      last.extend(self.measured(params, seed, final, show))
    except KeyboardInterrupt:
      raise KeyboardInterrupt(*last) from None
    return last[0]


def check_finite(ask: Any, params: Any, query: Any) -> None:
  """Checks that a network's parameters and its answer to a query are finite."""
  # Where values are NaN, searches play uniformly and nothing looks amiss.
  finite = _finite(ask, params, query)
  for name, good in zip(("parameters", "values"), finite):
    if not good:
      raise ConfigError(f"the network's {name} are not finite, so nothing can be searched with it")


@functools.partial(jax.jit, static_argnames="ask")
def _finite(ask: Any, params: Any, query: Any) -> list[jax.Array]:
  """Says whether all parameters are finite, and all of the answer."""
  both = params, ask(params, query)
  return [jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(y)]).all() for y in both]
