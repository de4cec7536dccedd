"""Maps of Scotland Yard as data: stations, what connects them, where everyone starts.

Player of Games measures on a map, "glasses" (section 4.1), whose edges only a picture shows (Figure
14): those here are ours, chosen so that neither side simply wins. So the paper's numbers cannot be
compared with those of this map. "london" is the map of the board game.
"""

import dataclasses

from games.arrays import check_integer, is_whole, short

# A station, then those with a larger number that it is connected to.
_CONNECTIONS = {
  "taxi": """
    1 8 9, 2 10 20, 3 4 11 12, 4 13, 5 15 16, 6 7 29, 7 17, 8 18 19, 9 19 20, 10 11 21 34, 11
    22, 12 23, 13 14 23 24, 14 15 25, 15 16 26 28, 16 28 29, 17 29 30, 18 31 43, 19 32, 20 33,
    21 33, 22 23 34 35, 23 37, 24 37 38, 25 38 39, 26 27 39, 27 28 40, 28 41, 29 41 42, 30 42,
    31 43 44, 32 33 44 45, 33 46, 34 47 48, 35 36 48 65, 36 37 49, 37 50, 38 50 51, 39 51 52, 40
    41 52 53, 41 54, 42 56 72, 43 57, 44 58, 45 46 58 59 60, 46 47 61, 47 62, 48 62 63, 49 50
    66, 51 52 67 68, 52 69, 53 54 69, 54 55 70, 55 71, 56 91, 57 58 73, 58 59 74 75, 59 75 76,
    60 61 76, 61 62 76 78, 62 79, 63 64 79 80, 64 65 81, 65 66 82, 66 67 82, 67 68 84, 68 69 85,
    69 86, 70 71 87, 71 72 89, 72 90 91, 73 74 92, 74 75 92, 75 94, 76 77, 77 78 95 96, 78 79
    97, 79 98, 80 99 100, 81 82 100, 82 101, 83 101 102, 84 85, 85 103, 86 103 104, 87 88, 88 89
    117, 89 105, 90 91 105, 91 105 107, 92 93, 93 94, 94 95, 95 122, 96 97 109, 97 98 109, 98 99
    110, 99 110 112, 100 101 112 113, 101 114, 102 103 115, 104 116, 105 106 108, 106 107, 107
    119, 108 117 119, 109 110 124, 110 111, 111 112 124, 112 125, 113 114 125, 114 115 126 131
    132, 115 126 127, 116 117 118 127, 117 129, 118 129 134 142, 119 136, 120 121 144, 121 122
    145, 122 123 146, 123 124 137 148 149, 124 130 138, 125 131, 126 127 140, 127 133 134, 128
    142 143 160 172 188, 129 135 142 143, 130 131 139, 132 140, 133 140 141, 134 141 142, 135
    136 143 161, 136 162, 137 147, 138 150 152, 139 140 153 154, 140 154 156, 141 142 158, 142
    143 158, 143 160, 144 145 177, 145 146, 146 147 163, 147 164, 148 149 164, 149 150 165, 150
    151, 151 152 165 166, 152 153, 153 154 166 167, 154 155, 155 156 167 168, 156 157 169, 157
    158 170, 158 159, 159 170 172 186 198, 160 161 173, 161 174, 162 175, 163 177, 164 178 179,
    165 179 180, 166 181 183, 167 168 183, 168 184, 169 184, 170 185, 171 173 175 199, 172 187,
    173 174 188, 174 175, 176 177 189, 178 189 191, 179 191, 180 181 193, 181 182 193, 182 183
    195, 183 196, 184 185 196 197, 185 186, 186 198, 187 188 198, 188 199, 189 190, 190 191 192,
    191 192, 192 194, 193 194, 194 195, 195 197, 196 197, 198 199
  """,
  "bus": """
    1 46 58, 3 22 23, 7 42, 13 14 23 52, 14 15, 15 29 41, 22 23 34 65, 23 67, 29 41 42 55, 34 46
    63, 41 52 87, 42 72, 46 58 78, 52 67 86, 55 89, 58 74 77, 63 65 79 100, 65 67 82, 67 82 102,
    72 105 107, 74 94, 77 78 94 124, 78 79, 82 100 140, 86 87 102 116, 87 105, 89 105, 93 94,
    100 111, 102 127, 105 107 108, 107 161, 108 116 135, 111 124, 116 127 142, 122 123 144, 123
    124 144 165, 124 153, 127 133, 128 135 142 161 187 199, 133 140 157, 135 161, 140 154 156,
    142 157, 144 163, 153 154 180 184, 154 156, 156 157 184, 157 185, 161 199, 163 176 191, 165
    180 191, 176 190, 180 184 190, 184 185, 185 187, 190 191
  """,
  "underground": """
    1 46, 13 46 67 89, 46 74 79, 67 79 89 111, 79 93 111, 89 128 140, 111 153 163, 128 140 185,
    140 153, 153 163 185
  """,
  "water": """
    108 115, 115 157, 157 194
  """,
}

CONNECTIONS: tuple[tuple[int, int, str], ...] = tuple(
  (int(station), int(other), kind)
  for kind, text in _CONNECTIONS.items()
  for station, *others in (group.split() for group in text.split(","))
  for other in others
)


Edge = tuple[int, int, str]


@dataclasses.dataclass(frozen=True)
class Map:
  """A map, and what the players have at the start."""

  name: str  # for people
  # two stations, numbered from 1, and the transport between them, both ways
  edges: tuple[Edge, ...]
  mister_x: int  # the station where Mr. X starts
  detectives: tuple[int, ...]  # where each starts, in the order in which they move
  cards: tuple[tuple[str, int], ...]  # of each kind, of Mr. X and every detective
  mister_x_cards: tuple[tuple[str, int], ...] | None = None  # Mr. X's, if it has others
  used_go_to_mister_x: bool = False  # whether a card that a detective has used is Mr. X's then
  doubles: int = 0  # how often Mr. X may move twice in a row

  def __post_init__(self):
    named = {station for a, b, _ in self.edges for station in (a, b)}
    kinds, listed = {kind for *_, kind in self.edges}, [kind for kind, _ in self.cards]
    own = self.cards if self.mister_x_cards is None else self.mister_x_cards
    pairs = [(x, y) for (_, x), (_, y) in zip(self.cards, own)]
    starts = (self.mister_x, *self.detectives)
    for right, what in (
      (
        named == set(range(1, 1 + max(len(named), 1))),
        f"edges={short(self.edges)} must connect stations 1, 2, 3, ... and leave out none",
      ),
      (
        all(a != b for a, b, _ in self.edges) and len(set(self.edges)) == len(self.edges),
        f"edges={short(self.edges)} must be different and join two stations each",
      ),
      (
        set(listed) == kinds and len(kinds) == len(listed),
        f"cards={short(self.cards)} must give a number for each kind of edge: {kinds}",
      ),
      (
        [kind for kind, _ in own] == listed,
        f"mister_x_cards={short(own)} must be of the kinds of cards={short(self.cards)}",
      ),
      (
        all(is_whole(n, 0) for pair in pairs for n in pair) and (0, 0) not in pairs,
        f"cards={short(self.cards)} must be positive numbers, or of Mr. X alone",
      ),
      (
        len(set(starts)) == len(starts) > 1 and set(starts) <= named,
        f"mister_x={short(self.mister_x)} and detectives={short(self.detectives)} must be "
        "different stations of the map, and at least one detective",
      ),
    ):
      if not right:
        raise ValueError(what)
    check_integer("doubles", self.doubles, least=0)

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
