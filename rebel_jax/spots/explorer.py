"""A solved spot on a screen of text: `rebel-spot ... --open`, with Textual.

All that is shown is a `Study`'s or a `Trial`'s; this module lays it out and takes keys.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, OptionList, Static, TabbedContent, TabPane

from rebel_jax.agents import range_grids
from rebel_jax.config.allowed import ConfigError
from rebel_jax.spots.solved import PLAYERS, Spot
from rebel_jax.spots.study import Row, Study
from rebel_jax.spots.trial import Trial

_CELL = 6  # characters, of which 13 fit into 80 columns
_EMPTY, _HELD, _INK = "#303030", "#5c7fa3", "#101010"
Solve = Callable[[Spot, Callable[[int, float], bool]], Study]


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


class Explorer(App[None]):
  """The screen.

  Args:
    study: where it begins.
    solve: solves a spot and returns its start; called in a thread, with what to call after each
      look at the exploitability, which says whether to stop.
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
    Binding("t", "other", "other player"),
    Binding("v", "view", "view"),
    Binding("s", "sizes", "sizes"),
    Binding("p", "play", "play"),
    Binding("q", "quit", "quit"),
  ]

  def __init__(self, study: Study, solve: Solve):
    super().__init__()
    self.study, self.solve = study, solve
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
    yield Input(id="sizes", placeholder="bet sizes, such as 33%,75%,a / 2.5x,a")
    yield Footer()

  def on_mount(self) -> None:
    """Shows the first node."""
    self.show(self.study)

  def show(self, study: Study) -> None:
    """Shows a node, from the side of the player to move."""
    self.study = study
    self.player = study.mover if study.acts else self.player
    if self.trial is not None:
      self.player = self.trial.seat
    self.refresh_all()

  def refresh_all(self) -> None:
    """Fills every part of the screen."""
    study, player = self.study, self.player
    title = f"{study.situation}\n{study.line or 'start'} | {PLAYERS[player]}'s range"
    self.query_one("#title", Static).update(title)
    hidden = self.trial is not None and not self.trial.dealer.is_over()
    played = Text("\n".join(self.trial.record)) if self.trial else grid_text(study, player)
    self.query_one("#range", Static).update(played)
    moves = self.query_one("#moves", OptionList)
    moves.clear_options()
    moves.add_options([self.label(name) for name in study.moves])
    moves.highlighted = 0 if study.moves else None
    moves.focus()
    rows = [study.row(name, p) for p, name in enumerate(PLAYERS)]
    worth = " | ".join(f"{row.name} EV {row.ev:.1f}, {row.equity:.1%} equity" for row in rows)
    self.query_one("#said", Static).update("" if hidden else worth)
    self.fill_tables(hidden)

  def label(self, move: str) -> Text:
    """Returns a move with its colour, its frequency and its value to the player's range."""
    study = self.study
    if not study.acts or self.trial is not None:
      return Text(move)
    place, table = list(study.moves).index(move), study.table
    joint = table.reach[study.mover] * table.mass[study.mover] * table.frequency[place]
    played = study.row("", study.mover).frequency[place]
    worth = np.where(joint > 0, joint * table.move_ev[place], 0).sum() / (joint.sum() or 1)
    colour = range_grids.colours(tuple(study.moves))[place]
    return Text.assemble(("  ", f"on {colour}"), f" {move:<14}{played:7.1%}   EV {worth:.1f}")

  def fill_tables(self, hidden: bool) -> None:
    """Fills the tables of hands, of kinds of hands and of next cards."""
    study = self.study
    self.fill("hands", [] if hidden else study.hands(self.player))
    self.fill("kinds", [] if hidden else study.kinds(self.player))
    self.query_one("#cards", DataTable).clear(columns=True)
    if self.query_one("#tabs", TabbedContent).active == "of-cards" and not hidden:
      self.fill_cards()

  def fill(self, name: str, rows: Sequence[Row], moves: Sequence[str] | None = None) -> None:
    """Fills a table with rows."""
    table = self.query_one(f"#{name}", DataTable)
    table.clear(columns=True)
    played = [] if moves is None else list(moves)
    if moves is None and self.player == self.study.mover:
      played = list(self.study.moves)
    table.add_columns(name, "share", "EV", "equity", *played)
    for row in rows:
      numbers = (f"{row.share:.2%}", f"{row.ev:.1f}", f"{row.equity:.1%}")
      table.add_row(row.name, *numbers, *(f"{x:.0%}" for x in row.frequency))

  def fill_cards(self) -> None:
    """Fills the report of next cards, which takes a sweep for each."""
    if self.study.moves and self.study.mover not in (0, 1):
      first = self.study.go(next(iter(self.study.moves)))
      self.fill("cards", self.study.cards(), list(first.moves) if first.acts else [])

  def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
    """Makes the report of next cards when somebody looks."""
    if event.pane.id == "of-cards":
      self.fill_tables(self.trial is not None)

  def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
    """Follows the move or the card that was chosen."""
    self.action_go(list(self.study.moves)[event.option_index])

  def action_go(self, word: str) -> None:
    """Goes to a node below or, for `back`, above; in a hand that is played makes the move."""
    if self.trial is None or self.trial.dealer.is_over():
      self.trial = None
      self.show(self.study.go(word))
    elif word != "back":
      self.trial.play(word)
      self.show(self.trial.study)

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
    self.trial = Trial(self.study, self.player, np.random.default_rng()) if not self.trial else None
    self.show(self.study if self.trial is None else self.trial.study)

  def action_sizes(self) -> None:
    """Asks for other bet sizes."""
    box = self.query_one("#sizes", Input)
    box.value = self.study.solved.spot.bets
    box.add_class("shown").focus()

  def on_input_submitted(self, event: Input.Submitted) -> None:
    """Solves the spot with the sizes that were typed."""
    event.input.remove_class("shown")
    spot = dataclasses.replace(
      self.study.solved.spot, bets=event.value, oop_bets=None, ip_bets=None
    )
    self.solve_other(spot)

  @work(thread=True, exclusive=True)
  def solve_other(self, spot: Spot) -> None:
    """Solves another spot beside the screen, and shows it where the line is still possible."""
    said = self.query_one("#said", Static)

    def progress(iterations: int, percent: float) -> bool:
      words = f"{iterations:,} iterations, exploitable by {percent:.2f}% of the pot"
      self.call_from_thread(said.update, words)
      return not self.is_running

    self.call_from_thread(said.update, "compiling")
    try:
      study = self.solve(spot, progress)
    except ConfigError as error:
      self.call_from_thread(said.update, str(error))
      return
    try:
      study = study.at(self.study.line)
    except ConfigError:
      study = study.at("")
    self.trial = None
    self.call_from_thread(self.show, study)
