"""A solved spot on a screen of text: `rebel-spot ... --open`, with Textual.

All that is shown is a `Study`'s or a `Trial`'s; this module lays it out and takes keys.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, OptionList, Static, TabbedContent, TabPane
from textual.worker import get_current_worker

from rebel_jax.agents import range_grids
from rebel_jax.config import ConfigError
from rebel_jax.spots.solved import SolvedSpot, path_for
from rebel_jax.spots.spot import PLAYERS, Spot
from rebel_jax.spots.study import Row, Study, Trial

_CELL = 6  # characters, of which 13 fit into 80 columns
_EMPTY, _HELD, _INK = "#303030", "#5c7fa3", "#101010"
Solve = Callable[[Spot | SolvedSpot, Callable[[int, float], bool]], Study]


def grid_text(study: Study, player: int) -> Text:
  """Returns a player's range grid; a cell's background is coloured by how often it makes moves."""
  try:
    grid = study.grid(player)
  except ConfigError as error:
    return Text(str(error))
  own = player == study.mover
  palette = range_grids.colours(grid.moves) if own else [_HELD]
  text = Text()
  for row, names in enumerate(grid.labels):
    for column, name in enumerate(names):
      label = f"{name:<{_CELL - 1}} "
      if not grid.reach[row, column]:
        text.append(label, f"#808080 on {_EMPTY}")
        continue
      stops = np.cumsum(grid.frequency[:, row, column]) * _CELL
      for place, letter in enumerate(label):
        move = min(int((stops <= place + 0.5).sum()), len(palette) - 1)
        text.append(letter, f"{_INK} on {palette[move]}")
    text.append("\n")
  return text


def shown(value: float, form: str) -> str:
  """Returns a number as text, `-` for NaN."""
  return "-" if np.isnan(value) else format(value, form)


class Explorer(App[None]):
  """The screen, from a study on; `solve` solves a spot, or a solved one on, in a thread.

  `file` is the path that the key `w` saves the solution to, another spot's beside it.
  """

  CSS = """
  Screen { overflow: hidden; }
  #title { background: $primary; color: $text; }
  #tabs { height: 1fr; }
  TabPane { padding: 0; }
  DataTable { height: 1fr; }
  #moves { height: auto; max-height: 5; border: none; padding: 0; }
  #sizes { display: none; }
  #sizes.shown { display: block; }
  """
  BINDINGS: ClassVar[list[BindingType]] = [
    Binding("backspace", "go('back')", "back"),
    Binding("t", "other", "other"),
    Binding("v", "view", "view"),
    Binding("s", "ask('bets')", "sizes"),
    Binding("l", "ask('lock')", "lock"),
    Binding("f", "solve_on", "finer"),
    Binding("w", "save", "save"),
    Binding("p", "play", "play"),
    Binding("q", "quit", "quit"),
    Binding("escape", "leave_sizes", show=False),
  ]

  def __init__(self, study: Study, solve: Solve, file: str | None = None):
    super().__init__()
    self.study, self.solve, self.file = study, solve, file
    self.player = 0
    self.trial: Trial | None = None

  def compose(self) -> ComposeResult:
    """Yields the parts of the screen, from the top."""
    yield Static(id="title")
    with TabbedContent(id="tabs"):
      with TabPane("Range", id="of-range"):
        yield Static(id="range")
      for name in ("hands", "kinds", "cards"):
        with TabPane(name.capitalize(), id=f"of-{name}"):
          yield DataTable(id=name, cursor_type="row")
    yield OptionList(id="moves")
    yield Static(id="said")
    yield Input(id="sizes", placeholder="33%,75%,a / 2.5x,a or bet 66: fold 0.6")
    yield Footer()

  def on_mount(self) -> None:
    """Shows the first node."""
    self.show(self.study)

  def show(self, study: Study, trial: Trial | None = None) -> None:
    """Shows a node from the side of the player to move, or of the person in a hand."""
    self.study, self.trial = study, trial
    self.player = trial.seat if trial else study.mover if study.acts else self.player
    self.refresh_all()

  def refresh_all(self) -> None:
    """Fills every part of the screen."""
    study, player = self.study, self.player
    title = f"{study.situation}\n{study.line or 'start'} | {PLAYERS[player]}'s range"
    self.query_one("#title", Static).update(title)
    played = Text("\n".join(self.trial.record)) if self.trial else grid_text(study, player)
    self.query_one("#range", Static).update(played)
    moves = self.query_one("#moves", OptionList)
    moves.clear_options()
    moves.add_options(self.labels())
    moves.highlighted = 0 if study.moves else None
    moves.focus()
    rows = [study.row(name, p) for p, name in enumerate(PLAYERS)]
    worth = (
      f"{x.name} EV {shown(x.ev, study.solved.spot.form)}, {shown(x.equity, '.1%')} equity"
      for x in rows
    )
    self.query_one("#said", Static).update("" if self.hidden else " | ".join(worth))
    own = list(study.moves) if player == study.mover else []
    self.fill("hands", [] if self.hidden else study.hands(player), own)
    self.fill("kinds", [] if self.hidden else study.kinds(player), own)
    self.on_tabbed_content_tab_activated()

  @property
  def hidden(self) -> bool:
    """Whether a hand is played, in which ranges would tell too much."""
    return self.trial is not None and not self.trial.dealer.is_over()

  def labels(self) -> list[Text]:
    """Returns moves with their colours, frequencies and values to the player's range."""
    study, names = self.study, tuple(self.study.moves)
    if not study.acts or self.trial is not None:
      return [Text(name) for name in names]
    found = []
    played, palette = study.row("", study.mover).frequency, range_grids.colours(names)
    for name, share, colour, place in zip(names, played, palette, range(len(names))):
      means = study.table.mean(study.table.move_ev[place], study.table.frequency[place])
      text = f" {name:<14}{share:7.1%}   EV {shown(means[study.mover], study.solved.spot.form)}"
      found.append(Text.assemble(("  ", f"on {colour}"), text))
    return found

  def fill(self, name: str, rows: Sequence[Row], moves: Sequence[str]) -> None:
    """Fills a table with rows."""
    table = self.query_one(f"#{name}", DataTable)
    table.clear(columns=True)
    table.add_columns(name, "share", "EV", "equity", *moves)
    for row in rows:
      numbers = (
        f"{row.share:.2%}",
        shown(row.ev, self.study.solved.spot.form),
        shown(row.equity, ".1%"),
      )
      table.add_row(row.name, *numbers, *(f"{x:.0%}" for x in row.frequency))

  def on_tabbed_content_tab_activated(self) -> None:
    """Fills the report of next cards, which takes a sweep for each, where it is looked at."""
    self.query_one("#cards", DataTable).clear(columns=True)
    looked_at = self.query_one("#tabs", TabbedContent).active == "of-cards" and not self.hidden
    if looked_at and self.study.moves and not self.study.acts:
      first = self.study.go(next(iter(self.study.moves)))
      self.fill("cards", self.study.cards(), list(first.moves) if first.acts else [])

  def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
    """Follows the move or the card that was chosen."""
    self.action_go(list(self.study.moves)[event.option_index])

  def action_go(self, word: str) -> None:
    """Goes to a node below or, for `back`, above; in a hand that is played makes the move."""
    if self.trial is None or not self.hidden:
      self.show(self.study.go(word))
    elif word != "back":
      self.trial.play(word)
      self.show(self.trial.study, self.trial)

  def action_other(self) -> None:
    """Shows the other player's range."""
    self.player = 1 - self.player
    self.refresh_all()

  def action_view(self) -> None:
    """Shows the next of range, hands, kinds of hands and cards."""
    tabs, panes = self.query_one("#tabs", TabbedContent), [str(x.id) for x in self.query(TabPane)]
    tabs.active = panes[(panes.index(tabs.active) + 1) % len(panes)]

  def action_play(self) -> None:
    """Deals a hand against the solution, or ends it."""
    trial = None if self.trial else Trial(self.study, self.player, np.random.default_rng())
    self.query_one("#tabs", TabbedContent).active = "of-range"
    self.show(trial.study if trial else self.study, trial)

  def action_ask(self, field: str) -> None:
    """Asks for other bet sizes, or for a lock of the node."""
    box = self.query_one("#sizes", Input)
    box.value = getattr(self.study.solved.spot, field) or (
      re.sub(r"\b[2-9TJQKA][shdc]\b", "*", self.study.line) + ": "
    )
    box.add_class("shown").focus()

  def action_solve_on(self) -> None:
    """Solves the spot to half its exploitability."""
    self.solve_other(self.study.solved)

  @work(thread=True)
  def action_save(self) -> None:
    """Saves the solution in a thread, as that of a turn takes seconds."""
    solved = self.study.solved
    try:
      file = path_for(solved.spot, self.file or "")
      solved.save(file)
      said = f"kept in {file}"
    except ConfigError as error:
      said = f"not kept: {error}"
    self.call_from_thread(self.query_one("#said", Static).update, said)

  def action_leave_sizes(self) -> None:
    """Takes the box of sizes away."""
    self.query_one("#sizes", Input).remove_class("shown")
    self.query_one("#moves", OptionList).focus()

  def on_input_submitted(self, event: Input.Submitted) -> None:
    """Solves the spot with the sizes or the lock that was typed; `:` alone locks nothing."""
    self.action_leave_sizes()
    changes: dict[str, Any] = {"bets": event.value, "oop_bets": None, "ip_bets": None}
    if ":" in event.value:
      changes = {"lock": event.value if event.value.strip(" :") else None}
    self.solve_other(dataclasses.replace(self.study.solved.spot, **changes))

  @work(thread=True, exclusive=True)
  def solve_other(self, spot: Spot | SolvedSpot) -> None:
    """Solves a spot beside the screen, and shows it where the line is still possible."""
    worker, line = get_current_worker(), self.study.line

    def ended() -> bool:
      return worker.is_cancelled or not self.is_running

    def say(words: str) -> None:
      if not ended():
        self.call_from_thread(self.query_one("#said", Static).update, words)

    def progress(iterations: int, percent: float) -> bool:
      say(f"{iterations:,} iterations, exploitable by {percent:.2f}% of the pot")
      return ended()

    say("compiling")
    try:
      study = self.solve(spot, progress)
    except Exception as error:  # the solution on the screen stays
      say(f"not solved: {error}")
      return
    with contextlib.suppress(ConfigError):
      study = study.at(line)
    if not ended():
      self.call_from_thread(self.show, study)
