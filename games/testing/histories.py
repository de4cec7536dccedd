"""Every history of a game, one state at a time, and what its rules must be like on the way."""

import dataclasses
from typing import Any

import numpy as np

from games.arrays import checked
from games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL, Game

TOLERANCE = 1e-6


@dataclasses.dataclass
class PublicHistory:
  """All histories that share their public actions."""

  history: tuple[int, ...]  # the public actions from the start of the game
  state: np.ndarray  # [S]
  actor: int  # 0, 1, CHANCE or TERMINAL
  probability: float  # of the chance outcome that led here, else 1
  infostate_parent: np.ndarray  # [P, H] where infostates come from, -1 where impossible
  possible: np.ndarray  # [P, H] whether a player's infostate is possible, the other's left aside
  prior: np.ndarray  # [P, H] the game's, hidden moves taken to be equally likely; not normalised
  weights: np.ndarray  # [H, H] of the pairs of infostates
  features: np.ndarray  # [P, F]
  payoffs: Any  # [H, H] to player 0 if the game ends here, else None
  children: list[int]  # the legal actions


def require(condition, message: str) -> None:
  """Raises an `AssertionError` with `message` unless `condition` holds."""
  if not condition:
    raise AssertionError(message)


@checked
def enumerate_histories(
  game: Game, max_histories: int = 300_000
) -> dict[tuple[int, ...], PublicHistory]:
  """Returns every public history of `game`, the start first, checking the rules on the way.

  Raises:
    AssertionError: the rules contradict themselves or the interface; the message says where.
    ValueError: there are more than `max_histories` histories, pairs of infostates counted.
  """
  _check_tables(game)
  state = np.asarray(game.initial_state())
  require(
    state.ndim == 1 and np.issubdtype(state.dtype, np.integer),
    f"initial_state() must be a row of integers; it is {state!r}",
  )
  prior = np.asarray(game.prior(), float)
  weights = _pair_weights(game, state, ())
  joint = prior[0][:, None] * prior[1] * weights
  require(joint.sum() > 0, "the prior and the pair weights leave no pair of infostates possible")
  seen = prior > 0
  # An infostate that excludes all of the other's is not possible either.
  possible = seen & np.stack([weights @ seen[1] > 0, seen[0] @ weights > 0])
  joint /= joint.sum()
  same = np.tile(np.arange(game.num_infostates), (2, 1))
  about = {"probability": 1.0, "infostate_parent": same, "possible": possible, "prior": prior}
  pending = [(_describe(game, joint, history=(), state=state, **about), joint)]
  histories, count, total = {}, 0, 0.0
  while pending:
    node, worlds = pending.pop()
    histories[node.history] = node
    count += int(np.count_nonzero(worlds))
    if count > max_histories:
      raise ValueError(
        f"max_histories={max_histories}: {game!r} has more histories than that; check a smaller "
        "instance or allow more"
      )
    if node.actor == TERMINAL:
      total += worlds.sum()
    else:
      pending += _follow(game, node, worlds)
  require(abs(total - 1) < TOLERANCE, f"all ways to play together have probability {total}, not 1")
  return histories


def _check_tables(game: Game) -> None:
  """Checks what does not depend on the state."""
  h = game.num_infostates
  require(
    isinstance(game.name, str) and h >= 1 and game.num_actions >= 1,
    f"name={game.name!r}, num_infostates={h!r} and num_actions={game.num_actions!r} must be a "
    "name and positive numbers",
  )
  prior = asked("prior", game.prior(), (2, h))
  sums = prior.sum(axis=1)
  distributions = (prior >= 0).all() and np.allclose(sums, 1, atol=TOLERANCE)
  require(distributions, f"prior() has rows that sum to {sums}, or is negative: no distributions")
  for name, value in (("pair_weights", game.pair_weights()), ("payoffs", game.payoffs())):
    asked(name, value, (max(len(value), 1), h, h))
  require((np.asarray(game.pair_weights()) >= 0).all(), "pair_weights() is negative somewhere")


def asked(
  name: str, value: Any, shape: tuple[int, ...], history: Any = (), kind: type = np.generic
) -> np.ndarray:
  """Returns the answer of the method `name`, checked to be finite, of a shape and of a kind."""
  value = np.asarray(value)
  right = value.shape == shape and np.issubdtype(value.dtype, kind) and np.isfinite(value).all()
  require(
    right,
    f"{name}() is {value.dtype} of shape {value.shape} after {history}, or not finite; it must be "
    f"{kind.__name__} of shape {shape}",
  )
  return value


def _pair_weights(game: Game, state: np.ndarray, history) -> np.ndarray:
  tables = np.asarray(game.pair_weights(), float)
  index = asked("pair_index", game.pair_index(state[None]), (1,), history)[0]
  require(
    0 <= index < len(tables),
    f"pair_index() is {index} after {history}; pair_weights() has {len(tables)} tables",
  )
  return tables[index]


def _describe(game: Game, worlds: np.ndarray, *, history, state, **known) -> PublicHistory:
  """Asks the rules about the public state after `history`, where pairs are likely as `worlds`."""
  states = state[None].copy()
  actor = asked("actor", game.actor(states), (1,), history)[0]
  require(
    actor in (PLAYER_0, PLAYER_1, CHANCE, TERMINAL),
    f"actor() is {actor!r} after {history}; it must be 0, 1, CHANCE or TERMINAL",
  )
  payoffs = None
  if actor == TERMINAL:
    tables = np.asarray(game.payoffs(), float)
    index = asked("payoff_index", game.payoff_index(states), (1,), history)[0]
    require(
      0 <= index < len(tables),
      f"payoff_index() is {index} after {history}; payoffs() has {len(tables)} tables",
    )
    payoffs = tables[index] * asked("payoff_scale", game.payoff_scale(states), (1,), history)[0]
  shape = np.shape(game.features(np.asarray(game.initial_state())[None], 0))
  seen = [asked("features", game.features(states, p), shape, history) for p in (0, 1)]
  features = np.concatenate(seen).astype(float)
  if game.orders_infostates:
    places = np.arange(game.num_infostates)
    orders = np.sort(features[:, -game.num_infostates :], axis=1)
    require(
      orders.shape == (2, len(places)) and (orders == places).all(),
      f"the last {len(places)} features after {history} are not all infostates in some order, as "
      "orders_infostates=True says",
    )
  require((states[0] == state).all(), f"a method changed the states it was given, after {history}")
  weights = _pair_weights(game, state, history)
  meet = (weights > 0) & known["possible"][0][:, None] & known["possible"][1]
  strangers = list(map(tuple, np.argwhere(meet & (worlds == 0)).tolist()))
  require(
    not strangers,
    f"pair_weights() after {history} allows the infostates {strangers} (player 0's, player 1's), "
    "which cannot meet there",
  )
  return PublicHistory(
    history=history,
    state=state,
    actor=int(actor),
    weights=weights,
    features=features,
    payoffs=payoffs,
    children=[],
    **known,
  )


def _follow(
  game: Game, node: PublicHistory, worlds: np.ndarray
) -> list[tuple[PublicHistory, np.ndarray]]:
  """Returns the children of `node` and how likely pairs of infostates are there: `[H, H]`."""
  legal = game.legal_actions(node.state[None].copy())
  legal = asked("legal_actions", legal, (1, game.num_actions), node.history, np.bool_)
  node.children = np.flatnonzero(legal[0]).tolist()
  beyond = [a for a in node.children if a >= game.num_player_actions]
  require(
    not (beyond and node.actor in (0, 1)),
    f"player {node.actor} may take actions {beyond} after {node.history}, but num_player_actions="
    f"{game.num_player_actions} says that players' actions are below it",
  )
  require(node.children, f"no action is legal after {node.history}, yet it is not TERMINAL")
  steps = [_step(game, node, action) for action in node.children]
  reach, together = worlds / np.where(node.weights > 0, node.weights, 1), "the outcomes of chance"
  if node.actor != CHANCE:
    origins = np.concatenate([step["infostate_parent"][node.actor] for step in steps])
    moves = np.bincount(origins[origins >= 0], minlength=game.num_infostates)
    stuck = np.flatnonzero(worlds.any(axis=1 - node.actor) & (moves == 0)).tolist()
    require(
      not stuck,
      f"player {node.actor} has no move after {node.history} with infostate {stuck}: "
      "infostate_parents() lets no infostate come from it",
    )
    share = 1 / np.maximum(moves, 1)
    reach, together = reach * (share if node.actor else share[:, None]), "moves equally likely"
  left, arrived = np.zeros_like(worlds), []
  for step in steps:
    above = step["infostate_parent"][0][:, None], step["infostate_parent"][1][None]
    nature = step["probability"] * _pair_weights(game, step["state"], step["history"])
    arrived.append(np.where((above[0] >= 0) & (above[1] >= 0), reach[above] * nature, 0.0))
    np.add.at(left, above, arrived[-1])
    require(
      arrived[-1].any(),
      f"action {step['history'][-1]} is legal after {node.history} for no pair of infostates that "
      "can meet there; legal_actions() should leave it out",
    )
  # Every pair of infostates goes on, with its whole probability and no more.
  shares = left[worlds > 0] / worlds[worlds > 0]
  for pair, gone in zip(np.argwhere(worlds > 0).tolist(), shares):
    require(
      abs(gone - 1) < TOLERANCE,
      f"after {node.history} with infostates {pair} (player 0's, player 1's) {together} together "
      f"have probability {gone:g}, not 1",
    )
  return [(_describe(game, after, **step), after) for step, after in zip(steps, arrived)]


def _step(game: Game, node: PublicHistory, action: int) -> dict[str, Any]:
  """Asks the rules about one public action: fields of the `PublicHistory` after it."""
  history = (*node.history, action)
  h, after = game.num_infostates, f"after {history}"
  states, actions = node.state[None].copy(), np.array([action])
  state = game.next_states(states, actions)
  state = asked("next_states", state, states.shape, history, np.integer)[0]
  parents = game.infostate_parents(states, actions)
  if parents is None:
    parents = np.tile(np.arange(h), (1, 2, 1))
  parents = asked("infostate_parents", parents, (1, 2, h), history)
  require(
    (parents >= -1).all() and (parents < h).all(),
    f"infostate_parents() is {parents.tolist()} {after}; it must hold -1 or infostates below {h}",
  )
  likely, mask = 1.0, np.ones((1, 2, h), bool)
  if node.actor == CHANCE:
    chance, mask = game.chance(states, actions)
    likely = float(asked("chance", chance, (1,), history)[0])
    mask = asked("chance", mask, (1, 2, h), history)
    require(
      0 < likely <= 1 + TOLERANCE,
      f"chance() has probability {likely} {after}; it must be in (0, 1]",
    )
  require((states[0] == node.state).all(), f"a method changed the states it was given, {after}")
  origin = np.where(np.asarray(mask, bool)[0], parents[0], -1)  # [P, H]
  possible, prior = (
    np.where(origin >= 0, np.take_along_axis(rows, np.maximum(origin, 0), axis=1), 0)
    for rows in (node.possible, node.prior)
  )
  return {
    "history": history,
    "state": state,
    "probability": likely,
    "infostate_parent": origin,
    "possible": possible.astype(bool),
    "prior": prior,
  }
