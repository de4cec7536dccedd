"""XLA's compiler options on a CPU, chosen by what a program spends its time on."""

import enum
from collections.abc import Callable
from typing import Any

import jax

from games.public_tree import PublicTree
from solvers import validation


class Work(enum.Enum):
  """Kind of work that a program spends its time on."""

  PLAIN = "anything else, or compiled for no CPU or inside another program"
  TREES = "large trees"
  NETWORKS = "a network at the leaves"


_OPTIONS: dict[Work, dict[str, Any] | None] = {
  Work.PLAIN: None,
  # The older emitters compile a tree in half the time and a fifth of the memory, and what they make
  # of it is as fast or faster; only where every array fits a core's innermost cache are the newer
  # ones ahead (Liar's Dice 1x4f: 2,044 entries of a table, by a quarter). For a network's
  # activations they take twice as long.
  Work.TREES: {"xla_cpu_use_fusion_emitters": False},
  # Normalisation and activations use whole registers where they are of 512 bits; XLA's own choice
  # is half of one. CPUs with narrower ones compile to the same as without.
  Work.NETWORKS: {"xla_cpu_prefer_vector_width": 512},
}
_LARGE = 2560  # entries of a table


def jit_for_each(function: Callable, **arguments: Any) -> dict[Work, Callable]:
  """Returns `jax.jit(function, **arguments)` with the options for each kind of work.

  XLA takes options for a whole program only: inside another `jit`, call that of `Work.PLAIN`.
  """
  return {
    work: jax.jit(function, compiler_options=options, **arguments)
    for work, options in _OPTIONS.items()
  }


def work_on_trees() -> Work:
  """Returns what a program that is all sweeps of trees or lines consists of, outside any `jit`.

  Those of searches that grow, whatever their size, the older emitters compile in two thirds of the
  time.
  """
  return Work.TREES if jax.default_backend() == "cpu" else Work.PLAIN


def work_of_solving(tree: PublicTree, leaf_values: Any, *arguments: Any) -> Work:
  """Returns what solving a tree, or each of a stack, consists of.

  Args:
    tree: the tree or the stack.
    leaf_values: what values its leaves, if it has any.
    *arguments: whatever else is traced where the caller is inside a `jit` of its own.
  """
  if jax.default_backend() != "cpu" or not validation.is_concrete(tree, *arguments):
    return Work.PLAIN
  asks = tree.depth_limited and leaf_values is not None
  if asks and not getattr(leaf_values, "solves_trees", False):
    return Work.NETWORKS
  return Work.TREES if tree.num_nodes * tree.num_infostates >= _LARGE else Work.PLAIN
