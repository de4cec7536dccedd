"""Checks of arguments: static mistakes always, contents of arrays where they are concrete."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import pairs
from games.arrays import (  # noqa: F401
  MAX_COUNT,
  Player,
  Positive,
  Share,
  Weight,
  check_fields,
  check_integer,
  check_shape,
  checked,
  integers,
  is_whole,
  short,
)
from games.game import CHANCE
from games.public_tree import PADDING, PublicTree, check_is_tree, payoff_bound
from solvers.sweeps.problem import Alternatives, Lock, make_lock

TOLERANCE = 1e-3


def is_concrete(*arrays) -> bool:
  """Says whether none of the arrays (or pytrees of them) is traced."""
  return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(arrays))


check_unstacked = functools.partial(check_is_tree, one=True)


def check_algorithm(algorithm) -> None:
  """Checks that `algorithm` has what `solvers.Algorithm` asks for."""
  if isinstance(algorithm, type) or not hasattr(algorithm, "current_policy"):
    raise TypeError(
      f"algorithm={short(algorithm)} must be an algorithm, such as solvers.linear_cfr() or "
      "solvers.make_algorithm('linear_cfr')"
    )


def check_gadget(gadget, searcher: int | None = None) -> None:
  """Checks that `gadget` has what a `Gadget` has, and is for `searcher` if given."""
  if isinstance(gadget, type) or not hasattr(gadget, "entry"):
    raise TypeError(
      f"gadget={short(gadget)} must be a gadget, such as solvers.Maxmargin(searcher=1)"
    )
  if searcher is not None and gadget.searcher != searcher:
    raise ValueError(f"searcher={searcher}, but gadget is for player {gadget.searcher}")


def check_places(name: str, places, size: int) -> np.ndarray:
  """Returns `places`, integers from 0 to below `size`, as an array `[n]`."""
  return np.asarray(integers(name, places, 0, size - 1, ndim=1)).astype(int)


def check_num_iterations(num_iterations: int, alternating: bool) -> int:
  """Returns `num_iterations` if it is a positive integer, even where updates come in pairs."""
  if isinstance(num_iterations, jax.Array) and is_concrete(num_iterations):
    num_iterations = np.asarray(num_iterations)[()]
  number = check_integer("num_iterations", num_iterations)
  if not alternating and number % 2:
    raise ValueError(
      f"num_iterations={number} must be even under simultaneous updates: an iteration is one "
      "player's update"
    )
  return number


def check_even(name: str, value, *, least: int = 2, most: int = MAX_COUNT) -> int:
  """Returns `value` if it is an even integer from `least` to `most`."""
  number = check_integer(name, value, least=least, most=most)
  if number % 2:
    raise ValueError(f"{name}={number} must be even")
  return number


def check_player(player: Any, name: str = "player") -> None:
  """Checks that `player` is 0 or 1."""
  if not is_whole(player, 0, 1):
    raise ValueError(f"{name}={short(player)} must be 0 or 1")


def tolerance(array: Any) -> float:
  """Returns how far sums of probabilities may be off in an array's type."""
  real = jax.dtypes.issubdtype(array.dtype, np.floating)
  return max(TOLERANCE, float(jnp.finfo(array.dtype).eps) if real else 0.0)


def check_beliefs(tree: PublicTree, beliefs) -> None:
  """Checks root beliefs `[P, H]`: shape always, contents where concrete."""
  check_shape("beliefs", beliefs, (2, tree.num_infostates), "(P, H)")
  if is_concrete(beliefs, tree):
    possible = None if tree.possible is None else np.asarray(tree.possible)[0]
    check_distributions(beliefs, possible, pairs.of_tree(tree), int(tree.root_pair_index))


def check_distributions(
  beliefs: Any, possible: np.ndarray | None, weights: pairs.Pairs, pair_index: int
) -> None:
  """Checks concrete beliefs `[P, H]` at a state, of its possible infostates and pair weights."""
  beliefs = beliefs if hasattr(beliefs, "dtype") else np.asarray(beliefs)
  values = np.asarray(beliefs, float)
  if not np.isfinite(values).all():
    raise ValueError("beliefs hold NaN or infinite entries; each row must be a distribution")
  if (values < 0).any():
    raise ValueError(f"beliefs hold {values.min():g}; each row must be a distribution, >= 0")
  sums = values.sum(axis=1)
  if (np.abs(sums - 1) > tolerance(beliefs)).any():
    raise ValueError(f"beliefs rows sum to {sums.tolist()}; each row must sum to one")
  if possible is not None:
    impossible = (values > 0) & ~possible
    if impossible.any():
      player, infostate = np.argwhere(impossible)[0].tolist()
      raise ValueError(
        f"beliefs give player {player}'s infostate {infostate} weight, which the rules make "
        "impossible at the root; its belief must be 0"
      )
  if weights.joint_mass(values, pair_index) <= 0:
    raise ValueError("beliefs leave no compatible pair of infostates; some pair must be possible")


def check_policy(name: str, tree: PublicTree, policy) -> None:
  """Checks a policy `[N, H]`: shape always, that it is a distribution where concrete."""
  check_shape(name, policy, (tree.num_nodes, tree.num_infostates), "(N, H)")
  if not is_concrete(policy, tree):
    return
  values = np.asarray(policy)
  most = tolerance(values)
  if values.dtype not in (np.float32, np.float64):
    values = values.astype(float)
  least = values.min(axis=1)  # NaN where the row holds one
  if not (np.isfinite(least).all() and np.isfinite(values.max())):
    raise ValueError(f"{name} holds NaN or infinite entries; it must be a distribution")
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  least = least[(parent >= 0) & (kind[np.maximum(parent, 0)] < CHANCE)]
  if (least < -most).any():
    raise ValueError(f"{name} holds {least.min():g}; probabilities must be >= 0")
  sums = sum_choices(tree, values)
  off = np.abs(sums - 1)
  wrong = (off > most) & (kind < CHANCE)[:, None]
  if wrong.any():  # an infostate without a move at a node needs no distribution there
    wrong &= sum_choices(tree, np.ones_like(values)) > 0
  for node, infostate in np.argwhere(wrong).tolist():
    raise ValueError(
      f"{name} is not a distribution: at node {node}, infostate {infostate}, it sums to "
      f"{sums[node, infostate]:g}, not one"
    )


def check_lock(tree: PublicTree, policy: Any, locked: Any) -> Lock | None:
  """Returns the locked policy, from a `Lock` or a mask of the kept parts of `policy`."""
  shape = (tree.num_nodes, tree.num_infostates)
  if locked is None:
    return None
  if isinstance(locked, Lock):
    for name, rows in zip(Lock._fields, locked):
      if rows is not None:
        check_shape(f"locked.{name}", rows, shape, "(N, H)")
  else:
    if policy is None:
      raise ValueError("locked needs initial_policy [N, H], which holds what is kept to")
    locked = locked if hasattr(locked, "dtype") else np.asarray(locked)
    if np.shape(locked) != shape[:1]:
      check_shape("locked", locked, shape, "(N, H), or (N,)")
    if is_concrete(locked) and not np.isin(locked, (0, 1)).all():
      raise ValueError("locked must hold true and false; solvers.lock makes bounds of frequencies")
  lock = make_lock(locked, policy, tree.dtype)
  if lock is not None and is_concrete(lock, tree):
    _check_shares(lock, *choices(tree))
  return lock


def _check_shares(lock: Lock, edges: Any, nodes: Any, infostates: Any, real: Any = True) -> None:
  """Checks that what is held and what is free add up to one in every choice, as of `choices`."""
  least, free = (np.asarray(x, float)[edges] for x in (lock.least, lock.free))
  choice = nodes[:, None] * least.shape[1] + infostates
  held = np.bincount(choice.ravel(), (least * real).ravel())[choice]
  wrong = ~(np.abs(held + free - 1) <= TOLERANCE) | (np.minimum(least, free + TOLERANCE) < 0)
  for number in choice[wrong & real][:1].tolist():
    node, infostate = divmod(number, least.shape[1])
    raise ValueError(
      f"locked does not hold a whole choice at node {node}, infostate {infostate}: what is held "
      "and what is free must be at least 0 and add up to one, and moves of one infostate are "
      "locked together"
    )


def check_alternatives(tree: PublicTree, algorithm, alternatives) -> None:
  """Checks what an algorithm's gadget promises in one tree."""
  gadget = getattr(algorithm, "gadget", None)
  if (gadget is None) != (alternatives is None):
    raise ValueError(
      "alternatives belong to a gadget: give both, or neither (solvers.with_gadget)"
      if gadget is None
      else f"alternatives=None, but {gadget} needs what the opponent is promised, [H]"
    )
  if gadget is None:
    return
  most = None
  if not isinstance(alternatives, Alternatives) and not tree.depth_limited and is_concrete(tree):
    most = float(payoff_bound(tree))
  check_promises(alternatives, gadget.searcher, tree.num_infostates, most)


def check_promises(
  alternatives: Any, searcher: Any, num_infostates: int, most: float | None
) -> Alternatives:
  """Returns the promises to the opponent of `searcher`, `[H]`, checked."""
  if not isinstance(alternatives, Alternatives):
    alternatives = Alternatives(alternatives)
  if is_concrete(searcher) and alternatives.player == searcher:
    raise ValueError(
      f"alternatives are player {alternatives.player}'s, who searches; give those of player "
      f"{1 - searcher}, the opponent"
    )
  for name in ("value", "spread", "beliefs"):
    row = getattr(alternatives, name)
    if row is None:
      continue
    check_shape(f"alternatives.{name}", row, (num_infostates,), "(H,)")
    if is_concrete(row) and not np.isfinite(np.asarray(row)).all():
      raise ValueError(f"alternatives.{name} holds NaN or infinite entries")
    if name != "value" and is_concrete(row) and (np.asarray(row) < 0).any():
      raise ValueError(f"alternatives.{name} holds {np.min(row):g}; it must be >= 0")
  if most is not None and is_concrete(alternatives):
    largest = float(np.abs(np.asarray(alternatives.value, float)).max(initial=0.0))
    if largest > most * (1 + TOLERANCE):  # values of another unit often are
      raise ValueError(
        f"alternatives hold {largest:g}, but the subgame pays {most:g} at most: give expected "
        "payoffs, or solvers.Alternatives to solvers.solve for promises beyond them"
      )
  return alternatives


def check_given(tree: PublicTree, algorithm, beliefs, policy, locked, alternatives) -> None:
  """Checks the arguments of a solve of one tree; None for those that are left out."""
  if beliefs is not None:
    check_beliefs(tree, beliefs)
  if policy is not None:
    check_policy("initial_policy", tree, policy)
  check_lock(tree, policy, locked)
  check_alternatives(tree, algorithm, alternatives)


def check_rows(
  check: Callable[..., None],
  arguments: tuple[Any, ...],
  axes: tuple[int | None, ...],
  rows: Iterable[int],
  what: str,
) -> None:
  """Calls `check` with rows of arguments `[B, ...]`, those whose axis is 0; once where traced."""
  if not is_concrete(arguments):
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)), arguments)
    jax.eval_shape(jax.vmap(check, axes), *like)
    return
  arrays = jax.tree.map(np.asarray, arguments)
  for i in rows:
    try:
      row = [
        jax.tree.map(lambda x, i=i: x[i], x) if axis == 0 else x for x, axis in zip(arrays, axes)
      ]
      check(*row)
    except (ValueError, IndexError) as error:
      raise ValueError(f"{what} {i}: {error}") from None


def check_leaves(tree: PublicTree, leaf_values, target: float | None = None) -> None:
  """Checks that a depth-limited tree comes with a function for its leaves, and without a target."""
  if tree.depth_limited and target is not None:
    raise ValueError(
      f"target={short(target)} needs a whole tree, whose policies have an exploitability; "
      "build the tree without a depth"
    )
  if tree.depth_limited and leaf_values is None:
    raise ValueError(
      f"leaf_values=None, but the tree is cut off at {tree.num_leaves} leaves; give a function "
      "of (params, query), or build the tree without a depth"
    )
  if leaf_values is not None and not callable(leaf_values):
    raise ValueError(
      f"leaf_values={short(leaf_values)} must be a function of (params, query) or None"
    )


def check_leaf_answer(num_leaves: int, num_infostates: int, values) -> None:
  """Checks the shape of what a leaf function returned; other shapes might broadcast unnoticed."""
  expected = (num_leaves, num_infostates)
  if np.shape(values) != expected:
    raise ValueError(
      f"leaf_values returned an array of shape {np.shape(values)}; it must return shape "
      f"{expected} (L, H), the traverser's expected values"
    )


def choices(tree: PublicTree):
  """Returns players' moves: nodes to and from `[E]`, infostates there `[E, H]`, which are real."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  mover = np.where(parent >= 0, kind[np.maximum(parent, 0)], PADDING)
  edges = np.flatnonzero(mover < CHANCE)
  shape = (len(edges), tree.num_infostates)
  real = np.ones(shape, bool)
  infostates = np.broadcast_to(np.arange(shape[1]), shape)
  if tree.infostate_parent is not None:
    infostates = np.asarray(tree.infostate_parent)[edges, mover[edges]]
    if tree.possible is not None:
      real = np.asarray(tree.possible)[edges, mover[edges]]
  return edges, parent[edges], infostates, real


def sum_choices(tree: PublicTree, rows: np.ndarray) -> np.ndarray:
  """Sums rows `[N, H]` over the moves of each choice, at the nodes moved from: `[N, H]`."""
  # Of no meaning where no player moves. Impossible moves are left out where infostates change.
  if tree.infostate_parent is not None:
    edges, nodes, infostates, real = choices(tree)
    places = nodes[:, None] * rows.shape[1] + infostates
    sums = np.bincount(places.ravel(), (rows[edges] * real).ravel(), minlength=rows.size)
    return sums.astype(rows.dtype).reshape(rows.shape)
  if tree.padded:  # nodes that are not there are nobody's children
    rows = rows * (np.asarray(tree.parent) >= 0)[:, None]
  sums = np.zeros_like(rows)
  offsets = tree.structure.offsets
  for above, start, level in zip(offsets, offsets[1:], tree.structure.levels[1:]):
    for first, last in level.runs:
      sums[above + first : above + last] += rows[start : start + last - first]
      start += last - first
  return sums


def check_lines_alone(lines: Any, leaf_values, beliefs, policy, locked, rest) -> Any:
  """Returns the lock of lines, or None; other arguments of a solve beside them are refused."""
  held = lines is not None and isinstance(locked, Lock)
  if held:
    width = max(lines.streets[0].width(p) for p in (0, 1))
    sizes = {np.shape(x) for x in locked if x is not None}
    if sizes not in [{(lines.num_nodes, number)} for number in (1, width)]:
      raise ValueError(
        f"locked must hold rows of shape ({lines.num_nodes}, 1), one for each line, or, of columns "
        f"of the first round, ({lines.num_nodes}, {width})"
      )
  if held and is_concrete(*locked):
    starts = np.cumsum([0, *(level.size for level in lines.levels)])
    moves = [(i, x.level.parents) for i, x in enumerate(lines.levels) if x.mover is not None]
    edges = np.concatenate([starts[i] + np.arange(len(above)) for i, above in moves])
    nodes = np.concatenate([starts[i - 1] + above for i, above in moves])
    _check_shares(locked, edges, nodes, np.arange(np.shape(locked.least)[1]))
  others = {
    "leaf_values": leaf_values, "beliefs": beliefs, "initial_policy": policy,
    "locked": None if held else locked, "alternatives": rest,
  }  # fmt: skip
  for name in [x for x, value in others.items() if value is not None]:
    raise ValueError(f"{name} must be None for lines of betting, which hold their own beliefs")
  return locked
