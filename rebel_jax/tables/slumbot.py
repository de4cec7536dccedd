"""The dialect of Slumbot's public interface, and a player of it over HTTP."""

import http.client
import json
import re
import urllib.error
import urllib.request
from typing import Any

from games.arrays import Player, check_kinds, checked, short
from games.poker.holdem import Holdem
from rebel_jax.config import in_config_errors
from rebel_jax.tables.acpc import HandFollower, TableError, within
from rebel_jax.tables.chips import ChipPlayer, ChipTable, Dialect, make_rules, seat_of

_MAX_REPLY = 1_000_000  # bytes
DIALECT = Dialect("k", "c", "b", of_round=True)
_FIELDS: dict[str, Any] = {
  "client_pos": Player,
  "hole_cards": list[str],
  "bot_hole_cards": list[str] | None,
  "board": list[str],
  "action": str,
}


@checked
def read_reply(reply: dict[str, Any], rules: Holdem) -> tuple[int, ChipTable]:
  """Returns the player's seat and the hand that a reply of the server's is of."""
  check_kinds({name: reply.get(name) for name in _FIELDS}, _FIELDS)
  seat, table = seat_of(rules, reply["client_pos"]), ChipTable(rules)
  cards = {
    name: rules.deck.parse("".join(reply.get(name) or ()), field=name)
    for name in ("hole_cards", "bot_hole_cards", "board")
  }
  table.show(seat, cards["hole_cards"])
  table.show(1 - seat, cards["bot_hole_cards"] or None)
  DIALECT.read_betting(table, "action", reply["action"], cards["board"])
  return seat, table


@checked
def check_winnings(table: ChipTable, seat: Player, winnings: Any) -> int:
  """Returns the server's winnings of `seat`, if the hand can have ended so."""
  lost = min(table.turn.paid)
  possible = {-lost, 0, lost}
  if table.turn.folded is not None or None not in table.hole_cards:
    possible = {table.payoffs()[seat]}
  if isinstance(winnings, bool) or not isinstance(winnings, int) or winnings not in possible:
    raise ValueError(
      f"winnings={short(winnings)} must be one of {sorted(possible)} after this hand"
    )
  return winnings


class SlumbotClient:
  """Plays hands with a server that speaks Slumbot's interface.

  Attributes:
    host: such as `http://127.0.0.1:8080`.
    token: of the session; the server gives one, and later ones replace it.
  """

  @checked
  def __init__(
    self,
    host: str,
    player: ChipPlayer,
    *,
    rules: Holdem | None = None,
    token: str | None = None,
    timeout: float = 60.0,
  ):
    if not re.fullmatch(r"https?://[^/\s]+(/[^\s]*)?", host):
      raise ValueError(f"host={host!r} must begin with http:// or https://")
    self.host, self.player, self.token = host.rstrip("/"), player, token
    self.rules = make_rules() if rules is None else rules
    self._timeout = timeout

  @checked
  def play(self, num_hands: int) -> list[int]:
    """Plays hands, and returns the chips won in each."""
    return [self.play_hand() for _ in range(num_hands)]

  def play_hand(self) -> int:
    """Plays one hand, and returns the chips won.

    Raises:
      TableError: the server cannot be reached, is too slow, refuses, or sends what cannot be.
    """
    follower = HandFollower(self.player, self.rules)
    reply = self._post("/api/new_hand", {} if self.token is None else {"token": self.token})
    while True:
      with in_config_errors(f"the server sent {short(reply)}", raises=TableError):
        seat, table = read_reply(reply, self.rules)
        turn = follower.follow(0, seat, table)  # of one hand alone
        if table.is_over:
          return check_winnings(table, seat, reply.get("winnings"))
        if not turn:
          raise ValueError(f"action={short(reply['action'])} leaves the move to the server")
      incr = DIALECT.write(table.turn, follower.act())
      reply = self._post("/api/act", {"token": self.token, "incr": incr})

  def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
      self.host + path,
      data=json.dumps(body).encode(),
      headers={"Content-Type": "application/json"},
      method="POST",
    )

    def exchange() -> bytes:
      with urllib.request.urlopen(request, timeout=self._timeout) as response:
        return response.read(_MAX_REPLY)

    try:
      text = within(self._timeout, exchange)
    except urllib.error.HTTPError as error:
      raise TableError(f"{self.host}{path} answered with status {error.code}") from None
    except TimeoutError:
      raise TableError(
        f"{self.host}{path} gave no answer in timeout={self._timeout:g} seconds"
      ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
      reason = getattr(error, "reason", error)
      raise TableError(f"{self.host}{path} cannot be reached: {reason}") from None
    try:
      reply = json.loads(text)
    except (ValueError, RecursionError):
      reply = None
    if not isinstance(reply, dict):
      raise TableError(f"{self.host}{path} sent no JSON object: {short(text)}")
    if reply.get("error_msg"):
      raise TableError(f"{self.host}{path} refused: {short(reply['error_msg'])}")
    if isinstance(reply.get("token"), str):
      self.token = reply["token"]
    return reply
