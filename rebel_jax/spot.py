"""The command `python -m rebel_jax.spot`: solves a spot of hold'em and shows what to do there.

Exit codes: 0 solved or loaded; 2 a wrong argument; 128 and a signal's number, after the strategy so
far is kept or printed.
"""

import contextlib
import dataclasses
import importlib.util
import math
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from games.poker.betting import MAX_CHIPS
from rebel_jax import devices, flags
from rebel_jax.agents import range_grids
from rebel_jax.checkpoints import files
from rebel_jax.config import allowed
from rebel_jax.runs.display import Display, Signals
from rebel_jax.spots import report as board_report
from rebel_jax.spots.solved import SolvedSpot, check_output, load, prepare, solve
from rebel_jax.spots.spot import PLAYERS, STREETS, TEXT, Spot, check_fits, read_history
from rebel_jax.spots.study import HandTable, Study, check_acts, check_table, export, hand_table
from solvers.xla import num_cores

__all__ = ["HandTable", "SolvedSpot", "Spot", "hand_table", "load", "main", "solve"]


@dataclasses.dataclass(frozen=True)
class Options(Spot):
  """Solve a spot of no-limit hold'em between two players, and show the strategy.

  The player out of position (OOP) acts first on every street.

  Attributes:
    boards: Boards instead of one, such as "Td9d6h,AsKd2c:0.5", or a file of one a line: prints EV,
      equity and the first moves on each, and means by texture, in which the second counts half.
    history: File of a hand (PHH, PokerStars) that board, pot and stack are taken from; its moves
      are printed.
    street: That the hand is taken from: flop, turn or river; None for the last that is bet on.
    board: The board, three to five cards such as Td9d6hQc.
    oop: Range of the player out of position, such as QQ+,AKs,A5s-A2s,T9o:0.5.
    ip: Range of the player in position.
    pot: Chips in the pot; where chips have decimals, big blinds say, a hundredth is the least.
    stack: Chips that each player has left.
    target: Stop when the strategy can be exploited by no more than this percentage of the pot; None
      for 0.5.
    max_iterations: Stop after so many updates of one player in any case.
    max_seconds: Stop at the first look after so many seconds, too.
    half_tables: Keep sums of flops and turns in 16 bits: less memory.
    memory: GB that the solve may take; None for three quarters of the machine's.
    node: Show the strategy after these moves and cards, such as "bet 66, call, 2c".
    hands: Print every hand of the player to move too.
    picture: File to draw the range grid to.
    output: File to keep the solution in.
    table: File to write the strategy from the node on to, a row for each hand and move: CSV, or
      JSON lines if it ends in .jsonl.
    load: File that --output wrote, shown without solving; with --target, --max-iterations or
      --max-seconds the solve goes on.
    open: Look at the solution on the screen: range grids, hands, kinds of hands and next cards at
      every node, other sizes, a hand against it.
  """

  board: Annotated[Any, allowed.optional(TEXT)] = None
  oop: Annotated[Any, allowed.optional(TEXT)] = None
  ip: Annotated[Any, allowed.optional(TEXT)] = None
  pot: Annotated[Any, allowed.optional(allowed.chips(0.02, MAX_CHIPS))] = None
  stack: Annotated[Any, allowed.optional(allowed.chips(0.01, MAX_CHIPS))] = None
  boards: Annotated[str | None, allowed.optional(TEXT)] = None
  history: Annotated[str | None, allowed.optional(allowed.path("file"))] = None
  street: Annotated[str | None, allowed.optional(allowed.one_of(STREETS))] = None
  target: Annotated[float | None, allowed.optional(allowed.number(100))] = None
  max_iterations: Annotated[int, allowed.iterations()] = 10_000
  max_seconds: Annotated[float | None, allowed.optional(allowed.number())] = None
  half_tables: bool = False
  memory: Annotated[float | None, allowed.optional(allowed.number())] = None
  node: Annotated[str, allowed.text("MOVES")] = ""
  hands: bool = False
  picture: Annotated[str | None, allowed.optional(allowed.path("picture"))] = None
  output: Annotated[str | None, allowed.optional(allowed.path("file"))] = None
  table: Annotated[str | None, allowed.optional(allowed.path("file"))] = None
  load: Annotated[str | None, allowed.optional(allowed.path("file"))] = None
  open: bool = False


def find(options: Options, display: Display, signals: Signals) -> SolvedSpot:
  """Returns the spot that the options name, loaded or solved; a signal ends the solve early."""
  checks: Any = {"output": check_output, "picture": files.check_picture, "table": check_table}
  written = {x: getattr(options, x) for x in checks if getattr(options, x) is not None}
  if len({Path(x).absolute() for x in written.values()}) < len(written):
    raise allowed.ConfigError("output, picture and table must be different files")
  for name, path in written.items():
    checks[name](path)
  if options.open:
    if not (sys.stdout.isatty() or "TEXTUAL_DRIVER" in os.environ):  # as `textual serve` sets it
      raise allowed.ConfigError("open=True needs a terminal; --node and --hands print to a pipe")
    if importlib.util.find_spec("textual") is None:
      raise allowed.ConfigError("open=True needs Textual: pip install 'rebel-jax[explorer]'")
  if options.load is not None:
    flags.refuse(
      options,
      (
        *(*Spot.__dataclass_fields__, "history", "street"),
        *(() if options.open or goes_on(options) else ("half_tables",)),
      ),
      f"is not for load={options.load!r}, a solved spot",
    )
    solved = load(options.load, options.memory)
    return go_on(solved, options, display, signals) if goes_on(options) else solved
  return go_on(spot_of(options), options, display, signals)


def goes_on(options: Options) -> bool:
  """Says whether a solved spot that is loaded is to be solved further."""
  return any(
    getattr(options, x) != getattr(Options, x) for x in ("target", "max_iterations", "max_seconds")
  )


def go_on(
  spot: Spot | SolvedSpot, options: Options, display: Display, signals: Signals
) -> SolvedSpot:
  """Returns a spot solved as the options say, from where it is; a signal ends the solve early.

  Raises:
    ConfigError: the node or the lock is not of the spot, or it has its iterations.
  """
  began, first = time.monotonic(), list[float]()
  how = how_of(options)
  least = max(how["target"], 1e-3)

  def progress(iterations: int, percent: float) -> bool:
    first.append(max(percent, least))
    span = math.log(first[0] / least)
    done = 1 - math.log(first[-1] / least) / span if span else 1.0
    said = f"{iterations:,} iterations, exploitable by {percent:.2f}% of the pot"
    display.show("solving", done, said)
    return signals.received != 0 or is_late(options, began)

  # Before the first look there is nothing to keep.
  nothing = signals.raising(lambda: flags.complain("\ninterrupted"), lambda: not first)
  with display, nothing:
    display.show("counting lines of betting", 0.0)
    named = spot if isinstance(spot, Spot) else spot.spot
    words = check_fits(named, options.memory, options.half_tables, named is not spot)
    made = prepare(spot) if isinstance(spot, Spot) else spot
    made.lock()
    node = made.find(options.node)
    if options.picture is not None:
      check_acts(Study(made, node))
    display.show("compiling", 0.0, words)
    return made if made.percent <= how["target"] else solve(made, progress=progress, **how)


def how_of(options: Options) -> dict[str, Any]:
  """Returns those options that `solve` takes; by iterations and seconds alone a file is gone on."""
  goal = 0.0 if options.load is not None and goes_on(options) else 0.5
  return {
    "target": goal if options.target is None else options.target,
    "max_iterations": options.max_iterations,
    "half_tables": options.half_tables,
  }


def is_late(options: Options, began: float) -> bool:
  """Says whether more than `max_seconds` went by since a moment of the monotonic clock."""
  return time.monotonic() - began > (options.max_seconds or math.inf)


def spot_of(options: Options) -> Spot:
  """Returns the spot that the options name."""
  if options.history is None:
    flags.refuse(options, ["street"], "is for --history")
  else:
    hand = read_history(options.history, options.street)
    said = f"is not for history={options.history!r}, a hand that says it"
    flags.refuse(options, ("board", "pot", "stack"), said)
    options = dataclasses.replace(options, board=hand.board, pot=hand.pot, stack=hand.stack)
    print(f"played: {hand.line or 'nothing'}")
  for name in ("board", "oop", "ip", "pot", "stack"):
    if getattr(options, name) is None:
      raise allowed.ConfigError(f"{name}=None must be given, unless --load or --history does")
  fields = {f.name for f in dataclasses.fields(Spot)}
  return Spot(**{k: v for k, v in vars(options).items() if k in fields})


def report_boards(options: Options, display: Display) -> tuple[str, bool]:
  """Returns a table of the spot on boards as text, and whether it is of all or Ctrl-C came."""
  flags.refuse(
    options,
    ("board", "load", "output", "picture", "table", "history", "lock", "node", "hands", "open"),
    "is for one board, not for --boards",
  )
  boards, weights = board_report.read_boards(options.boards or "")
  spot = spot_of(dataclasses.replace(options, board=boards[0]))
  for board in boards:  # what is not allowed is refused before anything is solved
    other = dataclasses.replace(spot, board=board)
    if other.game().deals or board == boards[0]:  # rivers are about as large as each other
      check_fits(other, options.memory, options.half_tables)
  began = time.monotonic()

  def progress(number: int, board: str, percent: float) -> bool:
    said = f"{number} of {len(boards)} boards, {board} exploitable by {percent:.2f}% of the pot"
    display.show("solving", number / len(boards), said)
    return is_late(options, began)

  with display:
    display.show("compiling", 0.0, f"{len(boards)} boards")
    solved = board_report.solve_boards(spot, boards, progress=progress, **how_of(options))
    rows: list[board_report.BoardRow] = []
    with contextlib.suppress(KeyboardInterrupt):  # what there is counts
      for row in solved:
        rows.append(row)
        if is_late(options, began):
          break
  if not rows:
    raise KeyboardInterrupt
  worst = max(row.percent for row in rows)
  head = f"exploitable by {worst:.2f}% of the pot or less on each of {len(rows)} boards"
  whole = len(rows) == len(boards) or is_late(options, began)
  return f"{head}\n{board_report.summary(rows, spot.pot, weights, spot.form)}", whole


def open_explorer(study: Study, options: Options) -> None:
  """Shows a spot on the screen until it is left."""
  from rebel_jax.spots.explorer import Explorer

  def again(spot: Spot | SolvedSpot, progress) -> Study:
    began, how = time.monotonic(), how_of(options)
    named = spot if isinstance(spot, Spot) else spot.spot
    if isinstance(spot, SolvedSpot):
      how["target"] = spot.percent / 2
    check_fits(named, options.memory, options.half_tables, named is not spot)
    look = lambda *seen: progress(*seen) or is_late(options, began)  # noqa: E731
    return Study(solve(spot, progress=look, **how))

  Explorer(study, again, options.output or options.load).run()


def _run(options: Options) -> int | None:
  devices.make_devices(num_cores())
  if options.boards is not None:
    text, whole = report_boards(options, Display(stderr=True))
    print(text)
    return 0 if whole else flags.INTERRUPTED
  with Signals() as signals:
    solved = find(options, Display(stderr=True), signals)
  if options.output is not None:  # saved before anything else can go wrong
    solved.save(options.output)
    if signals.received:  # the report may have to compile first
      flags.complain(f"\ninterrupted; --load {options.output} shows the strategy so far")
      return 128 + signals.received
  study = Study(solved, solved.find(options.node))
  file = sys.stderr if options.open else sys.stdout  # which a screen in a browser is sent through
  print(study.summary(), file=file, flush=True)
  if options.hands and study.acts:
    print(study.listing(study.hands(study.mover)), file=file, flush=True)
  if options.table is not None:
    display = Display(stderr=True)
    with display:
      export(study, options.table, lambda n: display.show("writing", 0.0, f"{n:,} records"))
  if options.picture is not None:
    with allowed.in_config_errors(
      f"picture={options.picture!r} cannot be drawn", (OSError, ValueError)
    ):
      title = f"{study.situation}\n{study.line or 'start'}: {PLAYERS[study.mover]}"
      range_grids.plot_range_grid(study.grid(), options.picture, title=title)
  if options.open and not signals.received:
    open_explorer(study, options)
  return signals.received and 128 + signals.received


main = flags.entry("spot", Options, _run)


if __name__ == "__main__":
  raise SystemExit(main())
