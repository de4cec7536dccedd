"""Scotland Yard in plain Python, which shares nothing with the rules but the map."""

from collections import defaultdict


class PlainScotlandYard:
  """A game, and the stations where Mr. X may be."""

  def __init__(self, city, rounds, reveals=(), *, ghost=False):
    self.city, self.rounds, self.reveals = city, rounds, reveals
    self.ghost = ghost  # whether Mr. X may enter detectives' stations, which is wrong
    self.near = defaultdict(set)
    for a, b, kind in city.edges:
      self.near[a].add((kind, b))
      self.near[b].add((kind, a))
    self.detectives = list(city.detectives)
    own = city.mister_x_cards or city.cards
    self.cards = [dict(own), *(dict(city.cards) for _ in city.detectives)]
    self.maybe, self.moved, self.turn, self.looks = {city.mister_x}, 0, 0, False
    self.doubles, self.chooses, self.second = city.doubles, False, False

  def over(self):
    return self.turn == 0 and self.moved == self.rounds

  def moves(self, station):
    return {
      (kind, end)
      for kind, end in self.near[station]
      if self.cards[self.turn][kind]
      and (end not in self.detectives or (self.ghost and self.turn == 0))
    }

  def options(self):
    """Returns what all can see that happens next, by name."""
    if self.looks:
      return {"caught"} | ({"not there"} if len(self.maybe) > 1 else set())
    if self.chooses:
      return {"moves again", "does not move again"}
    if self.turn:
      moves = self.moves(self.detectives[self.turn - 1])
      return {f"{kind} to {end}" for kind, end in moves} or {"no move"}
    moves = {x: self.moves(x) for x in self.maybe}
    shows = self.moved + 1 in self.reveals
    names = {
      f"{kind} to {end}" if shows else f"{kind} hidden" for x in moves for kind, end in moves[x]
    }
    return names | ({"no move"} if not all(moves.values()) else set())

  def take(self, name):
    station = self.detectives[self.turn - 1] if self.turn else None
    kind, *_, last = name.split()
    if self.chooses:
      self.chooses, self.second = False, name == "moves again"
      self.doubles -= self.second
      self.turn += not self.second
      return
    if self.looks:
      self.looks, self.maybe = False, self.maybe - {station}
    elif not self.turn:
      ends = {(k, end) for x in self.maybe for k, end in self.moves(x) if k == kind}
      self.maybe = {end for _, end in ends if last in ("hidden", str(end))}
      self.cards[0][kind] -= 1
      self.moved += 1
      self.chooses = not self.second and self.doubles > 0 and self.moved < self.rounds
      self.second = False
      if self.chooses:
        return
    elif name != "no move":
      self.cards[self.turn][kind] -= 1
      self.cards[0][kind] += self.city.used_go_to_mister_x
      self.detectives[self.turn - 1] = int(last)
      self.looks = int(last) in self.maybe
    if not self.looks:
      self.turn = (self.turn + 1) % len(self.cards)
