"""Random extensive-form games of perfect recall, in Gambit's format, to try the bridge on."""

import random

_CHANCE = 2


def random_efg(
  seed: int, *, depth: int = 5, actors=(0, 1, _CHANCE), blind: float = 0.3, ties: bool = True
) -> str:
  """Returns a game that ends after at most `depth` actions."""
  rng = random.Random(seed)
  infosets: tuple[dict, dict] = ({}, {})
  lines = ['EFG 2 R "random" { "0" "1" } ""']
  outcomes = 0

  def size(player, seen):
    # The same for all histories of an infoset.
    return random.Random(f"{seed} {player} {seen}").choice((1, 2, 2, 3))

  def grow(level, seen):
    nonlocal outcomes
    if level == depth or (level > 1 and rng.random() < 0.25):
      outcomes += 1
      payoff = float(rng.randint(-4, 4)) if ties else round(rng.uniform(-4, 4), 6)
      lines.append(f't "" {outcomes} "" {{ {payoff:.6f} {-payoff:.6f} }}')
      return
    actor = rng.choice(actors)
    if actor == _CHANCE:
      weights = [rng.randint(1, 4) for _ in range(rng.choice((2, 2, 3)))]
      listed = " ".join(f'"c{i}" {w}/{sum(weights)}' for i, w in enumerate(weights))
      lines.append(f'c "" 1 "" {{ {listed} }} 0')
      count = len(weights)
    else:
      count = size(actor, seen[actor])
      number = infosets[actor].setdefault(seen[actor], len(infosets[actor]) + 1)
      listed = " ".join(f'"p{actor}a{i}"' for i in range(count))
      lines.append(f'p "" {actor + 1} {number} "" {{ {listed} }} 0')
    sees = [rng.random() for _ in (0, 1)]
    for action in range(count):
      after = []
      for player in (0, 1):
        if player == actor:
          after.append((*seen[player], ("own", action)))
        elif sees[player] < blind:
          after.append(seen[player])
        elif sees[player] < 0.5:
          after.append((*seen[player], ("something",)))
        elif sees[player] < 0.7:
          after.append((*seen[player], ("parity", action % 2)))
        else:
          after.append((*seen[player], (actor, action)))
      grow(level + 1, tuple(after))

  grow(0, ((), ()))
  return "\n".join(lines) + "\n"
