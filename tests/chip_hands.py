"""For tests of tables: hands of hold'em played at random, and simple opponents by short names."""

import functools

from rebel_jax.tables.chips import Call, ChipTable, Deal, Fold, RaiseTo, make_rules
from rebel_jax.tables.players import SimpleSeat

STACKS = (120, 300, 500, 1_000, 3_000, 20_000)
AlwaysCall, AlwaysFold, PotManiac, Uniform = (
  functools.partial(SimpleSeat, name)
  for name in ("always_call", "always_fold", "pot_maniac", "uniform")
)


def random_rules(rng, **changes):
  """Returns rules with one of several stacks."""
  return make_rules(**({"stack": int(rng.choice(STACKS))} | changes))


def random_move(rng, table):
  """Returns a legal move; small raises, large ones, calls and folds all occur."""
  kinds = ["call", "fold", "least", "most", "any"]
  kind = rng.choice(kinds, p=[0.4, 0.1, 0.2, 0.1, 0.2])
  if kind == "fold" and table.turn.may_fold:
    return Fold()
  if kind in ("call", "fold") or table.turn.raises is None:
    return Call()
  least, most = table.turn.raises
  return RaiseTo({"least": least, "most": most}.get(kind, int(rng.integers(least, most + 1))))


def random_events(rng, table):
  """Yields the events of a hand at `table`, which applies them, from where it is to the end."""
  deck = table.rules.deck
  while not table.is_over:
    if table.due:
      lie = [*table.board, *(card for hand in table.hole_cards for card in hand)]
      left = [card for card in range(deck.num_cards) if card not in lie]
      event = Deal(tuple(rng.choice(left, table.due[0], replace=False).tolist()))
    else:
      event = random_move(rng, table)
    yield event
    table.apply(event)


def random_hand(rng, rules):
  """Returns a hand played to its end."""
  cards = rng.choice(rules.deck.num_cards, 4, replace=False).tolist()
  table = ChipTable(rules, (tuple(cards[:2]), tuple(cards[2:])))
  for _ in random_events(rng, table):
    pass
  return table
