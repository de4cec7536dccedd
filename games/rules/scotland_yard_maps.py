"""Maps of Scotland Yard as data: stations, what connects them, where everyone starts.

Player of Games, appendix C.2, measures on a small map, "glasses": Mr. X starts at station 6, two
detectives at 1 and 11, all have five taxi cards, and all edges are of one kind. The paper shows the
edges in a picture only (Figure 14), so those here are ours, chosen for a game in which neither
side simply wins; numbers of the paper cannot be compared with any of this map. "london" is the map
of the board game.
"""

import dataclasses

from games.rules.scotland_yard_connections import CONNECTIONS

Edge = tuple[int, int, str]


@dataclasses.dataclass(frozen=True)
class Map:
  """A map, and what the players have at the start.

  Attributes:
    name: for people.
    edges: two stations and the kind of transport between them, which runs both ways. Stations
      are numbered from 1.
    mister_x: the station where Mr. X starts.
    detectives: the station of each detective, in the order in which they move.
    cards: how many cards of each kind Mr. X and every detective have.
    mister_x_cards: Mr. X's, if it has others; of the same kinds in the same order.
    used_go_to_mister_x: whether a card that a detective has used is Mr. X's then.
    doubles: how often Mr. X may move twice in a row.
  """

  name: str
  edges: tuple[Edge, ...]
  mister_x: int
  detectives: tuple[int, ...]
  cards: tuple[tuple[str, int], ...]
  mister_x_cards: tuple[tuple[str, int], ...] | None = None
  used_go_to_mister_x: bool = False
  doubles: int = 0

  def __post_init__(self):
    named = {station for a, b, _ in self.edges for station in (a, b)}
    if not named or named != set(range(1, len(named) + 1)):
      raise ValueError(
        f"edges={self.edges!r} must connect stations 1, 2, 3, ... and leave out none"
      )
    if any(a == b for a, b, _ in self.edges) or len(set(self.edges)) < len(self.edges):
      raise ValueError(f"edges={self.edges!r} must be different and join two stations each")
    kinds = {kind for *_, kind in self.edges}
    if kinds != {kind for kind, _ in self.cards} or len(kinds) < len(self.cards):
      raise ValueError(f"cards={self.cards!r} must give a number for each kind of edge: {kinds}")
    own = self.cards if self.mister_x_cards is None else self.mister_x_cards
    if [kind for kind, _ in own] != [kind for kind, _ in self.cards]:
      raise ValueError(f"mister_x_cards={own!r} must be of the kinds of cards={self.cards!r}")
    pairs = [(x, y) for (_, x), (_, y) in zip(self.cards, own)]
    if any(not isinstance(n, int) or n < 0 for pair in pairs for n in pair) or (0, 0) in pairs:
      raise ValueError(f"cards={self.cards!r} must be positive numbers, or of Mr. X alone")
    if isinstance(self.doubles, bool) or not isinstance(self.doubles, int) or self.doubles < 0:
      raise ValueError(f"doubles={self.doubles!r} must be an integer, at least 0")
    starts = (self.mister_x, *self.detectives)
    if not self.detectives or len(set(starts)) < len(starts) or not set(starts) <= named:
      raise ValueError(
        f"mister_x={self.mister_x!r} and detectives={self.detectives!r} must be different stations "
        "of the map, and at least one detective"
      )

  @property
  def num_stations(self) -> int:
    return max(max(a, b) for a, b, _ in self.edges)

  @property
  def kinds(self) -> tuple[str, ...]:
    """The kinds of transport, in the order of `cards`."""
    return tuple(kind for kind, _ in self.cards)

  @property
  def cards_of(self) -> tuple[tuple[int, ...], ...]:
    """How many cards of each kind Mr. X and then every detective have."""
    own = self.cards if self.mister_x_cards is None else self.mister_x_cards
    hands = (own, *(self.cards for _ in self.detectives))
    return tuple(tuple(number for _, number in hand) for hand in hands)


def _glasses(name: str, left: tuple[tuple[int, int], ...]) -> Map:
  """Returns a map of two lenses that share station 6, the right one the left one's mirror image."""
  right = tuple((12 - a, 12 - b) for a, b in left)
  edges = tuple((a, b, "taxi") for a, b in left + right)
  return Map(name, edges, mister_x=6, detectives=(1, 11), cards=(("taxi", 5),))


# Two pentagons, either with an edge both of whose ends are joined to the bridge, station 6.
GLASSES = _glasses("glasses", ((1, 2), (1, 3), (2, 4), (3, 5), (4, 5), (4, 6), (5, 6)))
# Two hexagons that share station 6. Its stations are of two colours, so nobody is ever landed on.
GLASSES_HEXAGONS = _glasses("glasses_hexagons", ((1, 2), (2, 4), (4, 6), (6, 5), (5, 3), (3, 1)))

# With a black card Mr. X takes any connection, and alone that over water, so that a fourth kind of
# card joins all stations that are connected. Who starts where is drawn in the game; this is ours.
LONDON = Map(
  "london",
  edges=tuple(edge for edge in CONNECTIONS if edge[2] != "water")
  + tuple((a, b, "black") for a, b in sorted({edge[:2] for edge in CONNECTIONS})),
  mister_x=106,
  detectives=(13, 53, 94, 138, 174),
  cards=(("taxi", 10), ("bus", 8), ("underground", 4), ("black", 0)),
  mister_x_cards=(("taxi", 4), ("bus", 3), ("underground", 3), ("black", 5)),
  used_go_to_mister_x=True,
  doubles=2,
)

MAPS: dict[str, Map] = {city.name: city for city in (GLASSES, GLASSES_HEXAGONS, LONDON)}
