"""Hold'em with interchangeable cards merged: the same game with fewer hands (suit isomorphism).

No flush can be completed any more in a *dead* suit. There only ranks matter: cards of one rank in
dead suits can change places, and nothing else about the game changes. Hands that such exchanges
take to each other form a class; beliefs that do not tell them apart lead to policies that need not.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from games.arrays import Rows, check_rows, lookup
from games.game import CHANCE, Game
from games.pairs import holds
from games.poker import betting
from games.poker.cards import HAND_SIZE, NUM_HOLE_CARDS, Deck, evaluate, shares_card
from games.poker.dealing import place_among
from games.poker.holdem import Holdem
from games.public_tree import PublicTree

_TOLERANCE = 1e-5  # of a hand's belief


def dead_suits(deck: Deck, board: Sequence[int], to_come: int) -> np.ndarray:
  """Says in which suits no flush can be made any more: `[suits]`.

  A hand sees the cards of the board, those to come and two of its own.
  """
  of_suit = np.bincount(deck.suit_of[np.array(board, int)], minlength=len(deck.suits))
  return np.minimum(of_suit + to_come + 2, len(deck.ranks)) < HAND_SIZE


def card_groups(game: Holdem) -> np.ndarray:
  """Returns for each card the lowest that it can change places with: `[num_cards]`.

  Cards of the board stay where they are, and so do cards after whose deal a bet was added.
  """
  deck = game.deck
  dead = dead_suits(deck, game.board, sum(game.deals))[deck.suit_of]
  fixed = np.isin(np.arange(deck.num_cards), [*game.board, *game.named_cards])
  group = np.arange(deck.num_cards)
  for rank in np.unique(deck.rank_of):
    cards = np.flatnonzero((deck.rank_of == rank) & dead & ~fixed)
    group[cards] = cards.min(initial=deck.num_cards)
  return group


def _of_whole(name: str) -> Any:
  return lambda self, *arguments: getattr(self.whole, name)(*arguments)


class MergedSuits(Game):
  """A hold'em endgame whose infostates are classes of hands that suits cannot tell apart.

  Every solver runs on its trees, and finds what it would find on the trees of `whole`, as long as
  beliefs are the same for all hands of a class:

  - A player's reach of a class is the probability with which each of its hands plays so, and its
    belief the sum over them.
  - The weight of two classes is the share of their pairs of hands that exclude neither each other
    nor the cards dealt, over the share of all pairs: there is a table for every set of cards.
  - Of the cards that can change places chance deals the lowest, as often as any of them comes. The
    hands of a class that do not hold it can still change places, so a class stays one infostate.

  States and actions are those of `whole`, only fewer.

  Args:
    game: hold'em whose cards to come are dealt one by one; a turn or a river, most often.

  Attributes:
    whole: the game itself.
    card_group: `[num_cards]` the lowest card that a card can change places with.
    class_of: `[H of whole]` each hand's class: `values[..., class_of]` gives values of classes to
      hands.
    class_sizes: `[H]` hands of each class.

  Raises:
    ValueError: the game is not hold'em, has every hand of the deck for an infostate, or deals
      several cards at once.
  """

  def __init__(self, game: Holdem):
    if not isinstance(game, Holdem):
      raise ValueError(f"game={game!r} must be hold'em; only cards have suits")
    if game.every_hand:
      raise ValueError(
        "every_hand=True numbers hands alike on all boards, and suits are merged on one board"
      )
    if any(number > 1 for number in game.deals):
      raise ValueError(
        f"deals={game.deals} deal several cards at once; suits are merged where cards come one by "
        "one"
      )
    if game.ranges is not None:
      raise ValueError(f"game={game!r} must have all hands; suits are merged among all of them")
    self.whole = game
    self.num_actions, self.num_player_actions = game.num_actions, game.num_player_actions
    self.name = f"{game.name}_merged_suits"
    self.card_group = card_groups(game)
    self._same_group = self.card_group[:, None] == self.card_group
    pairs = np.sort(self.card_group[game.hole_cards], axis=1)
    self._group_pairs, class_of = np.unique(pairs, axis=0, return_inverse=True)
    self.class_of = class_of.reshape(-1)
    self.class_sizes = np.bincount(self.class_of)
    self.num_infostates = len(self.class_sizes)
    self._dealt_sets = self._enumerate_deals()
    self._final = (self._dealt_sets >= 0).all(axis=1)

  def _enumerate_deals(self) -> np.ndarray:
    """Returns the sets of cards that can lie dealt, in order: `[D, cards in all]`, -1 first."""
    total = sum(self.whole.deals)
    live = [int(card) for card in np.unique(self.whole.hole_cards)]
    sets: set[tuple[int, ...]] = {()}
    newest = sets
    for _ in range(total):
      newest = {
        tuple(sorted((*cards, card)))
        for cards in newest
        for card in live
        if card not in cards and set(live[: live.index(card)]) & self._group(card) <= set(cards)
      }
      sets = sets | newest
    rows = sorted((*[-1] * (total - len(cards)), *cards) for cards in sets)
    return np.array(rows, int).reshape(len(rows), total)

  def _group(self, card: int) -> set[int]:
    return set(np.flatnonzero(self._same_group[card]).tolist())

  # Public states.

  initial_state, actor, next_states, stages, payoff_scale = map(
    _of_whole, ("initial_state", "actor", "next_states", "stages", "payoff_scale")
  )

  def legal_actions(self, states):
    xp = states.__array_namespace__()
    legal = self.whole.legal_actions(states)
    if not self.whole.deals:
      return legal
    deals = lowest = legal[:, self._deals]
    cards = np.arange(deals.shape[1])
    for down in range(1, len(cards)):
      below = self._same_group[cards, cards - down] & (cards >= down)
      if below.any():
        lowest = lowest & ~(xp.roll(deals, down, axis=1) & xp.asarray(below))
    return xp.concat([legal[:, : self._deals.start], lowest], axis=1)

  @property
  def _deals(self) -> slice:
    """The actions that deal a card."""
    return slice(self.whole.first_deal, self.whole.first_deal + self.whole.deck.num_cards)

  # Private information.

  def prior(self):
    return self._sum_classes(self.whole.prior())

  def _sum_classes(self, hands: np.ndarray) -> np.ndarray:
    """Sums over the hands of each class: `[P, H of whole]` to `[P, H]`."""
    count = self.num_infostates
    return np.stack([np.bincount(self.class_of, row, minlength=count) for row in hands])

  @functools.cached_property
  def _live_hands(self) -> np.ndarray:
    """`[D, H of whole]` whether a hand holds none of the cards dealt."""
    return ~shares_card(self._dealt_sets, self.whole.hole_cards)

  @functools.cached_property
  def _possible(self) -> np.ndarray:
    """`[D, H]` whether some hand of the class holds none of the cards dealt."""
    return self._sum_classes(self._live_hands) > 0

  def pair_weights(self):
    return self._pair_weights

  @functools.cached_property
  def _pair_weights(self) -> np.ndarray:
    held = holds(self.whole.hole_cards, self.whole.deck.num_cards)  # [H of whole, cards]
    cards = len(np.unique(self.whole.hole_cards))
    tables = np.empty((len(self._dealt_sets), self.num_infostates, self.num_infostates))
    for table, dealt, live in zip(tables, self._dealt_sets, self._live_hands):
      # Of all pairs of live hands: not those that share a card, counted card by card, but a hand
      # paired with itself was then taken out twice.
      number = np.bincount(self.class_of, live, minlength=self.num_infostates)
      holding = np.stack(
        [np.bincount(self.class_of, live * column, self.num_infostates) for column in held.T]
      )
      table[:] = np.outer(number, number) - holding.T @ holding + np.diag(number)
      # Any card may be dealt, says `chance`; two hands that stand by it leave fewer.
      for gone in range((dealt >= 0).sum()):
        table *= (cards - gone) / (cards - gone - 2 * NUM_HOLE_CARDS)
    return tables / np.outer(self.class_sizes, self.class_sizes)

  def pair_index(self, states):
    return self._find(self._dealt_sets, states)

  def _find(self, sets: np.ndarray, states: Rows) -> Rows:
    """Returns which of `sets` is the set of cards dealt in each state: `[n]`."""
    xp: Any = states.__array_namespace__()
    return place_among(sets + 1, xp.sort(self.whole.dealt(states), axis=1) + 1)

  def chance(self, states, actions):
    xp = states.__array_namespace__()
    following = self.whole.next_states(states, actions)
    mask = xp.repeat(lookup(self._possible, self.pair_index(following))[:, None], 2, axis=1)
    deals = actions >= self.whole.first_deal  # else a card is burned
    left = self.whole.legal_deals(states)
    alike = left & lookup(self._same_group, xp.where(deals, actions - self.whole.first_deal, 0))
    share = alike.sum(axis=1) / xp.maximum(left.sum(axis=1), 1)
    return xp.where(deals, share, 1.0), mask

  def infostate(self, hand: str) -> int:
    """Returns the class of a hand such as `AsKd`.

    Raises:
      ValueError: as `Holdem.infostate`.
    """
    return int(self.class_of[self.whole.infostate(hand)])

  def merge_beliefs(self, beliefs: np.ndarray) -> np.ndarray:
    """Turns beliefs over hands into beliefs over classes.

    Args:
      beliefs: `[P, H of whole]`, equal for all hands of a class.

    Returns:
      `[P, H]`, each class the sum over its hands.

    Raises:
      ValueError: the shape is wrong, or hands of one class differ.
    """
    hands = np.asarray(beliefs, float)
    if hands.shape != (2, self.whole.num_infostates):
      raise ValueError(
        f"beliefs of shape {hands.shape} must have shape {(2, self.whole.num_infostates)} (P, H), "
        "hands of the game before its suits were merged"
      )
    merged = self._sum_classes(hands)
    mean = (merged / self.class_sizes)[:, self.class_of]
    wrong = np.argwhere(np.abs(hands - mean) > _TOLERANCE * np.abs(mean))
    if len(wrong):
      player, hand = wrong[0].tolist()
      others = np.flatnonzero(self.class_of == self.class_of[hand])
      other = others[np.abs(hands[player, others] - hands[player, hand]).argmax()]
      name = self.whole.infostate_name
      raise ValueError(
        f"beliefs of player {player} are {hands[player, hand]:g} for {name(player, hand)} and "
        f"{hands[player, other]:g} for {name(player, int(other))}, whose suits are merged; such "
        "hands must be equally likely"
      )
    return merged

  def expand_policy(
    self, tree: PublicTree, policy: np.ndarray, whole_tree: PublicTree
  ) -> np.ndarray:
    """Gives every hand the policy of its class, after every card that may be dealt.

    Args:
      tree: a tree of this game.
      policy: `[N, H]` on it, as `solve` returns it.
      whole_tree: the tree of `whole` with the same root and depth.

    Returns:
      `[N of whole_tree, H of whole]`.

    Raises:
      ValueError: a shape is wrong, or the trees do not belong together.
    """
    check_rows("policy", policy, (tree.num_nodes, self.num_infostates), "(N, H)")
    nodes = self._counterparts(tree, whole_tree)
    return np.asarray(policy)[np.ix_(nodes, self.class_of)]

  def _counterparts(self, tree: PublicTree, whole_tree: PublicTree) -> np.ndarray:
    """Returns the node of `tree` that stands for each of `whole_tree`: `[N of whole_tree]`."""
    parent, action = np.asarray(tree.parent, np.int64), np.asarray(tree.action)
    key = parent * self.num_actions + action
    order = np.argsort(key)
    nodes = np.zeros(whole_tree.num_nodes, int)
    offsets = whole_tree.structure.offsets
    for start, stop in itertools.pairwise(offsets[1:]):
      above = nodes[np.asarray(whole_tree.parent)[start:stop]]
      actions = self._lowest_deals(tree, above, np.asarray(whole_tree.action)[start:stop])
      wanted = above * self.num_actions + actions
      found = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(order) - 1)]
      if (key[found] != wanted).any():
        history = whole_tree.history(start + int(np.flatnonzero(key[found] != wanted)[0]))
        raise ValueError(
          f"tree holds nothing that stands for the history {history} of whole_tree; build both "
          "with the same root and depth"
        )
      nodes[start:stop] = found
    return nodes

  def _lowest_deals(self, tree: PublicTree, nodes: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Replaces deals below `nodes` of `tree` by those of the lowest card of the same group."""
    states = np.asarray(tree.state)[nodes]
    deals = (self.actor(states) == CHANCE) & (actions >= self.whole.first_deal)
    if not deals.any():
      return actions
    cards = actions[deals] - self.whole.first_deal
    lowest = self.legal_actions(states[deals])[:, self._deals] & self._same_group[cards]
    replaced = actions.copy()
    replaced[deals] = self.whole.first_deal + lowest.argmax(axis=1)
    return replaced

  # Payoffs.

  def payoffs(self):
    whole, final = self.whole, self._dealt_sets[self._final]
    tables = np.ones((1 + len(final), self.num_infostates, self.num_infostates))
    for table, cards, live in zip(tables[1:], final, self._live_hands[self._final]):
      hands = whole.hole_cards[live]
      board = np.array([*whole.board, *cards], int)
      seen = np.concatenate([hands, np.broadcast_to(board, (len(hands), len(board)))], axis=1)
      strength = np.zeros(self.num_infostates, np.int64)
      strength[self.class_of[live]] = evaluate(whole.deck, seen)  # the same for a class's hands
      table[:] = np.sign(strength[:, None] - strength)
    return tables

  def payoff_index(self, states):
    xp = states.__array_namespace__()
    showdown = states[:, betting.STATUS] == betting.CLOSED
    board = self._find(self._dealt_sets[self._final], states)
    return xp.where(showdown, 1 + board, 0)

  # What a network sees, and what a person reads.

  features, action_name, situation, explain = map(
    _of_whole, ("features", "action_name", "situation", "explain")
  )

  def describe(self, history: Sequence[int], action: int) -> str:
    """Returns a description of `action` after `history`; of a deal, all the cards of its class."""
    if action < self.whole.first_deal:
      return self.whole.describe(history, action)
    state = self.state_after(history)[None]
    left = self.whole.legal_deals(state)[0]
    cards = np.flatnonzero(left & self._same_group[action - self.whole.first_deal])
    return "deal " + " or ".join(self.whole.deck.name(card) for card in cards.tolist())

  def infostate_name(self, player, infostate):
    """Returns a class's name, higher card first; x is a suit that was merged, as in `AxKs`."""
    deck, live = self.whole.deck, np.unique(self.whole.hole_cards)
    names = []
    for card in reversed(self._group_pairs[infostate].tolist()):
      merged = (self.card_group[live] == card).sum() > 1
      names.append(deck.name(card)[0] + "x" if merged else deck.name(card))
    return "".join(names)

  def __repr__(self) -> str:
    return f"<{self.name}: {self.num_infostates} classes of {len(self.class_of)} hands>"
