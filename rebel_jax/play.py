"""`python -m rebel_jax.play`: a person plays the agent in a terminal."""

import contextlib
import dataclasses
import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np

import games
import solvers
from games.poker import CALL, FOLD, Holdem, betting, category, evaluate
from rebel_jax import flags
from rebel_jax.agents.dealer import Dealer, Move, NestedAgent, Seat
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import REBEL, allowed
from rebel_jax.tables import chips

_SILENCE = 2.0  # seconds
_DIE = "⚀⚁⚂⚃⚄⚅"
_PLAIN = str.maketrans("♠♥♦♣" + _DIE, "shdc123456")  # for terminals without these
_SUITS = str.maketrans({"s": "♠", "h": "♥", "d": "♦", "c": "♣"})


@dataclasses.dataclass(frozen=True)
class Options(flags.SearchOptions):
  """Play against the agent in the terminal.

  Attributes:
    checkpoint: Folder of a run (its newest checkpoint counts), a folder in its checkpoints/, the
      name of a network that comes with the package, or a hold'em game, which is then solved: that
      agent answers bets of any size.
    game_params: Parameters of the game to change, such as stack 9000: the agent then plays a spot
      that it was not trained for.
    seat: Your seat, 0 or 1; None to change seats every game.
    games: How many games to play; None for as many as you like.
    seed: Seed of deals and of the agent; None for another one each time.
  """

  checkpoint: Annotated[str, allowed.Positional, allowed.text("CHECKPOINT")]
  game_params: Annotated[tuple[tuple[str, int | str], ...], allowed.pairs(int)] = ()
  seat: Annotated[int | None, allowed.optional(allowed.integer(0, 1))] = None
  games: Annotated[int | None, allowed.optional(allowed.integer(1))] = None
  seed: Annotated[int | None, allowed.optional(allowed.integer(0))] = None


class ChipSeat(Seat):
  """An agent that searches rounds of hold'em from the blinds, at a table of bets of any size."""

  def __init__(self, searcher: Any, seed: int):
    from rebel_jax.tables.players import TreePlayer

    super().__init__(seed)
    self.game = searcher.game
    self.agent: Any = searcher.agent(seed=seed)
    # The agent's hand in chips, in whose searches the table's bets are.
    self.seat = TreePlayer(searcher.with_sizes, self.agent, off_tree="add", seed=seed)

  def _begin(self) -> None:
    self.seat.start(self.player, tuple(self.game.hole_cards[self.infostate].tolist()))

  def _follow(self, action: int) -> None:
    game, (*before, _) = self.dealer.game, self.dealer.history
    state = game.state_after(before)
    if action >= game.first_deal:
      cards = game.dealing.sets[int(state[betting.ROUND])][action - game.first_deal]
      self.seat.observe(chips.Deal(tuple(cards.tolist())))
    elif action != game.burn:
      moves: dict[int, chips.Move] = {FOLD: chips.Fold(), CALL: chips.Call()}
      self.seat.observe(moves.get(action) or chips.RaiseTo(game.bets_at(state)[action]))

  def _move(self, move: chips.Move) -> Move:
    """Returns a move in chips as one of the dealer's game, to which its bet may be added."""
    dealer, action = self.dealer, FOLD if isinstance(move, chips.Fold) else CALL
    if isinstance(move, chips.RaiseTo):
      bets = {to: action for action, to in dealer.game.bets_at(dealer.state).items()}
      if move.chips not in bets:
        return dealer.widen(move.chips)
      action = bets[move.chips]
    return Move(action, dealer.infostates[self.player])

  def act(self) -> Move:
    return self._move(self.seat.act())

  def choices(self) -> dict[Move, float]:
    if self.seat.lost or self.seat.table.turn.actor != self.player:
      return {}
    found = self.agent.choices()
    return {self._move(self.seat.at_table(move.action)): p for move, p in found.items()}


class Terminal:
  """A person and an agent at one table; `ask` reads a line and `say` prints one."""

  def __init__(self, agent: Any, ask: Callable[[str], str], say: Callable[[str], None], rng):
    self.agent, self.ask, self.say, self.rng = agent, ask, say, rng
    self._any_bet = isinstance(agent, NestedAgent | ChipSeat)
    self._spot: games.Game = agent.game
    self.dealer = Dealer(self._spot)
    agent.dealer = self.dealer
    self.score, self.seat = 0.0, 0
    self.record: list[str] = []

  @property
  def game(self) -> games.Game:
    """The rules, with the bets that were added in this hand."""
    return self.dealer.game

  def play(self, seat: int) -> float:
    """Plays one game with the person in `seat` and returns what the person won."""
    dealer, agent, self.seat = self.dealer, self.agent, seat
    dealer.game = self._spot
    dealer.deal(self.rng)
    with self.patience():
      agent.start(1 - seat, dealer.infostates[1 - seat])
    self.record = []
    self.say(f"You {'begin' if seat == 0 else 'go second'}.")
    if isinstance(self.game, Holdem) and not self.game.board:
      blinds = self.game.rules.paid
      self.say(f"The blinds: you put in {blinds[seat]}, the agent {blinds[1 - seat]}.")
    held = dealer.infostates[seat]
    if self.game.num_infostates > 1:
      self.say(f"You hold {self.holding(seat, held)}.")
    while not dealer.is_over():
      if dealer.actor == seat:
        self.show_table()
        if dealer.infostates[seat] != held:
          held = dealer.infostates[seat]
          self.say(f"  You hold {self.holding(seat, held)} now.")
        move = self.choose(seat)
      elif dealer.actor == 1 - seat:
        with self.patience():
          self.note()
          move = agent.act()
        self.say(f"The agent: {self.describe(move.action)}")
      else:
        move = Move(dealer.sample_chance(self.rng), -1)
        if (said := self.describe(move.action)) != "burn":  # which nobody sees
          self.say(f"Chance: {said}")
      dealer.apply(move, self.rng)
      with self.patience():
        agent.observe(move.action, dealer.infostates[1 - seat])
    won = dealer.payoff() * (1 - 2 * seat) + 0.0
    self.score += won
    if self.game.num_infostates > 1:
      self.say(f"The agent held {self.holding(1 - seat, dealer.infostates[1 - seat])}.")
    if self.game.num_infostates == 1 or isinstance(self.game, Holdem):
      self.show_table()
      self.show_hands()
    self.say(f"You {'win' if won > 0 else 'lose' if won < 0 else 'draw'} ({won:+g}).")
    return won

  def describe(self, action: int) -> str:
    """Returns an action, here, as a person reads it."""
    return self.in_suits(self.game.describe(self.dealer.history, action))

  def show_table(self) -> None:
    """Prints the public state, where the moves so far do not imply it."""
    if situation := self.game.situation(self.dealer.history):
      whose = rf"your stack \{1 + self.seat}, the agent's \{2 - self.seat}"
      self.say(f"  {self.in_suits(re.sub(r'stacks ([0-9]+) and ([0-9]+)', whose, situation))}")

  def show_hands(self) -> None:
    """Prints the categories of both hands at a showdown of hold'em."""
    game, state = self.game, self.dealer.state
    if not isinstance(game, Holdem) or state[betting.STATUS] in (
      betting.FOLDED_0,
      betting.FOLDED_1,
    ):
      return
    board = game.on_board(state[None])[0]
    if (board >= 0).all():
      cards = [[*game.hole_cards[held], *board] for held in self.dealer.infostates]
      names = [category(int(x)) for x in evaluate(game.deck, np.array(cards))]
      self.say(f"  You have {names[self.seat]}, the agent {names[1 - self.seat]}.")

  @contextlib.contextmanager
  def patience(self) -> Iterator[None]:
    """Says what the agent does in the block, if that takes a while."""
    words = "The agent thinks; where it compiles a search that takes up to two minutes, once."
    timer = threading.Timer(_SILENCE, self.say, [words])
    timer.start()
    try:
      yield
    finally:
      timer.cancel()

  def in_suits(self, text: str) -> str:
    """Returns a text with the cards in it, such as `Ks`, in symbols: `K♠`."""
    if not isinstance(self.game, Holdem):
      return text
    ranks = self.game.deck.ranks
    text = re.sub(f"([{ranks}])([shdc])", lambda m: m[1] + m[2].translate(_SUITS), text)
    return re.sub(f"([♠♥♦♣])(?=[{ranks}])", r"\1 ", text)

  def holding(self, player: int, infostate: int) -> str:
    """Returns an infostate as a person reads it."""
    name = self.game.infostate_name(player, infostate)
    if isinstance(self.game, games.LiarsDice) and self.game.num_faces <= len(_DIE):
      dice = [int(face) for face in self.game.dice()[infostate]]
      return f"{' '.join(_DIE[face] for face in dice)}  ({', '.join(str(f + 1) for f in dice)})"
    return self.in_suits(name)

  def answer(self, prompt: str) -> str:
    """Returns the line typed; raises EOFError for quit too, as at the end of the input."""
    typed = self.ask(prompt).strip().lower()
    if typed in ("quit", "q"):
      raise EOFError
    return typed

  def choose(self, seat: int) -> Move:
    """Asks the person for a move until it is legal."""
    moves = {self.move_name(seat, move): move for move in self.dealer.legal_moves()}
    while True:
      answer = self.answer(f"Your move [{' '.join(moves)}, help, quit]: ")
      answer = next((name for name in moves if name.endswith(f"-to-{answer}")), answer)
      if answer in ("help", "h", "?"):
        self.explain()
      elif answer == "why":
        self.say("That is for after the game: it would tell what the agent holds.")
      elif answer in moves:
        return moves[answer]
      elif self._any_bet and re.fullmatch(r"[1-9][0-9]{0,11}", answer):
        try:
          return self.dealer.widen(int(answer))
        except ValueError as error:
          self.say(f"{error}.")
      else:
        self.say(f"{answer!r} is not a move here; type one of: {' '.join(moves)}")

  def move_name(self, seat: int, move: Move) -> str:
    """Returns the text to type for a move."""
    name = self.game.describe(self.dealer.history, move.action).split(" (")[0]
    if move.infostate != self.dealer.infostates[seat]:
      name = self.game.hidden_move_name(seat, move.action, move.infostate)
    return name.lower().replace(" ", "-")

  def explain(self) -> None:
    """Says what can be typed and what the game is about."""
    self.say(self.game.text or f"The moves of {self.game!r} are not explained anywhere.")
    if self._any_bet:
      self.say("A number bets or raises until so many of your chips are in the pot, be it any.")
    self.say("After a game you can see what the agent thought and how it chose: type why.")

  def note(self) -> None:
    """Keeps what the agent believes and wants to do, to be shown after the game."""
    from rebel_jax.agents.agent import Agent, ChainAgent

    agent, thinks = self.agent, ""
    if isinstance(believes := getattr(agent, "agent", agent), Agent):
      person = 1 - agent.player
      belief = believes.beliefs[person]
      likely = [int(h) for h in np.argsort(-belief)[:6] if belief[h] > belief.max() / 20]
      hands = (f"{self.game.infostate_name(person, h)} {100 * belief[h]:.2g}%" for h in likely)
      thinks = f"you hold {self.in_suits(', '.join(hands))}; "
    elif isinstance(agent, ChainAgent):
      thinks = f"it expects {agent.value:+.2f}; "
    moves = sorted(agent.choices().items(), key=lambda item: -item[1])
    wants = ", ".join(
      f"{self.move_name(agent.player, move)} {p:.0%}" for move, p in moves if p > 0.005
    )
    history = self.dealer.history
    said = [self.in_suits(self.game.describe(history[:i], a)) for i, a in enumerate(history)]
    after = ", ".join(text for text in said if text != "burn") or "nothing yet"
    self.record.append(f"after {after}: {thinks}its policy: {wants}")


def run(table: Terminal, options: Options) -> None:
  """Plays games until a request to quit, or `options.games` of them."""
  played = 0
  try:
    while True:
      seat = options.seat if options.seat is not None else played % 2
      table.say(f"\nGame {played + 1}")
      table.play(seat)
      played += 1
      table.say(f"Score after {played} game{'s' * (played > 1)}: you {table.score:+g}")
      if played == options.games:
        break
      while answer := table.answer("Enter for another game, why, or quit: "):
        lines = table.record or ["The agent made no decision in this game."]
        for line in lines if answer == "why" else [f"{answer!r} is not understood"]:
          table.say(f"  {line}")
  except EOFError:
    table.say(f"\n{played} game{'s' * (played != 1)} played, you {table.score:+g}. Goodbye.")


def solve_spot(options: Options, seed: int, say: Callable[[str], None]) -> NestedAgent:
  """Solves the hold'em game that `options.checkpoint` names, and returns who plays it."""
  if os.path.isdir(options.checkpoint):
    raise allowed.ConfigError(
      f"checkpoint={options.checkpoint!r} is a game and a folder here; give "
      f"{os.path.join(os.curdir, options.checkpoint)!r} for the folder, or start elsewhere for the "
      "game"
    )
  make = allowed.in_config_errors("game_params")(games.make)
  game = make(options.checkpoint, **dict(options.game_params))
  if not isinstance(game, Holdem):
    raise allowed.ConfigError(
      f"checkpoint={options.checkpoint!r} is a game; of those only hold'em is solved to be played"
    )
  flags.refuse(options, ["depth"], f"is for networks; {options.checkpoint!r} is solved whole")
  say("The game is solved, which takes some seconds; so does the answer to every new bet.")
  tree = games.build_public_tree(game)
  algorithm = solvers.make_algorithm(options.algorithm or "discounted_cfr")
  solved = solvers.solve(tree, algorithm=algorithm, num_iterations=options.iterations)
  return NestedAgent(
    game, tree, solved.average_policy, num_iterations=options.iterations, seed=seed
  )


def _plain(text: str) -> str:
  """Returns a text with letters and digits for symbols that standard output lacks."""
  try:
    text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
  except UnicodeEncodeError:
    return text.translate(_PLAIN)
  return text


def _ask(prompt: str) -> str:
  if sys.stdin is None:
    raise EOFError
  return input(_plain(prompt))


def _say(text: str) -> None:
  width = shutil.get_terminal_size().columns
  for line in _plain(text).split("\n"):
    print(line if len(line) <= width else textwrap.fill(line, width))


def _run(
  options: Options, ask: Callable[[str], str] = _ask, say: Callable[[str], None] = _say
) -> None:
  seed = np.random.SeedSequence().entropy if options.seed is None else options.seed
  rng = np.random.default_rng(seed)
  own = int(rng.integers(2**31))
  agent: Any
  if options.checkpoint in games.registered_games():
    flags.check_kind(options, REBEL)
    agent = solve_spot(options, own, say)
  else:
    from rebel_jax.agents.agent import StreetSearcher, make_searcher

    policy = checkpoint.load(options.checkpoint).at_spot(options.game_params)
    flags.check_kind(options, policy.config.search)
    settings = flags.agent_settings(options, policy.config.search)
    searcher = make_searcher(policy, **settings, seed=own)
    any_bet = isinstance(searcher, StreetSearcher) and not searcher.game.board
    agent = ChipSeat(searcher, own) if any_bet else searcher.agent(seed=own)
  run(Terminal(agent, ask, say, rng), options)


main = flags.entry(
  "play",
  Options,
  _run,
  networks=checkpoint.pretrained,
  holdem=lambda: [name for name in games.registered_games() if "holdem" in name],
  algorithms=solvers.registered_algorithms,
)


if __name__ == "__main__":
  raise SystemExit(main())
