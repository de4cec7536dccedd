"""The spot command: against the root's own values, subtrees of the same policy, and its errors."""

import numpy as np
import pytest

import games
import solvers
from games.poker.lines import make_lines
from rebel_jax import spot
from rebel_jax.config.allowed import ConfigError
from rebel_jax.spots import size

SMALL = ["--board", "TdJdQhKc2s", "--oop", "QQ+,A2s,32", "--ip", "JJ,KQ,QT:0.5"]
SMALL += ["--pot", "201", "--stack", "900", "--bets", "33%,a / 2.5x"]


@pytest.fixture(scope="module")
def solved():
  return spot.solve(
    spot.Spot("TdJdQhKc2s", "QQ+,A2s,32", "JJ,KQ,QT:0.5", 201, 900, "33%,a / 2.5x"), target=2.0
  )


def test_tables_agree_with_expected_values(solved):
  table = spot.hand_table(solved)
  values = solvers.expected_values(*solved.on_tree())
  held = solved.beliefs > 0
  assert np.isfinite(table.ev[held]).all()
  np.testing.assert_allclose(table.ev[held] - 100.5, values[held], atol=0.1)
  own = (table.frequency * table.move_ev).sum(axis=0)  # a hand's value is the mean of its moves'
  held = table.reach[0] > 0
  np.testing.assert_allclose(own[held], table.ev[0, held], rtol=1e-3, atol=0.1)


def test_a_table_below_is_that_of_the_game_below(solved):
  """Both start from what the players hold after a bet."""
  check_below(solved, "bet 66", (166.5, 100.5))


def check_below(solved, line, paid):
  """Compares the table after a line with what that subtree is worth under the same policy."""
  node = solved.find(line)
  table = spot.hand_table(solved, node)
  tree, whole = solved.on_tree()
  below = games.build_public_tree(solved.game, root=node)
  found = {tree.history(n): n for n in range(tree.num_nodes)}
  policy = whole[[found[(*node, *below.history(n))] for n in range(below.num_nodes)]].copy()
  policy[0] = 1
  values = solvers.expected_values(below, policy, beliefs=table.reach)
  there = (table.mass > 1e-9) & (table.reach > 0)  # others are impossible below
  np.testing.assert_allclose(
    np.where(there, table.ev, 0),
    np.where(there, values + np.array(paid)[:, None], 0),
    rtol=1e-3,
    atol=0.3,
  )
  assert there.any()


@pytest.mark.parametrize(
  ("board", "line", "paid"),
  [
    ("TdJdQh", "check, check", (50, 50)),
    ("TdJdQh", "check, check, Kc", (50, 50)),
    ("TdJdQh", "bet 66, call, 9c, check, check, Ah, check", (116, 116)),
    ("TdJdQhAs", "check, check, 9h", (50, 50)),
  ],
)
def test_tables_on_later_boards(board, line, paid):
  """Suits may change places, so that a board is not always the one that was solved."""
  made = spot.solve(
    spot.Spot(board, "AA,KQ", "TT,AJ:0.5", 100, 200, "66% / -", ranks="9TJQKA"),
    target=20.0,
    max_iterations=32,
  )
  check_below(made, line, paid)


def test_the_policy_is_as_exploitable_as_it_says(solved):
  assert solved.percent <= 2.0
  exact = solvers.exploitability(*solved.on_tree())
  assert solved.exploitability == pytest.approx(float(exact), rel=1e-3)


def test_equity_by_hand():
  """A set of queens against kings and a broadway straight on the river."""
  made = spot.solve(
    spot.Spot("QhJs7d4c2s", "QdQc,3d3c", "KsKh,AhAs:0.5", 10, 5, "a"),
    target=50.0,
    max_iterations=32,
  )
  table = spot.hand_table(made)
  assert table.equity[0, made.game.infostate("QdQc")] == pytest.approx(1)
  assert table.equity[0, made.game.infostate("3d3c")] == 0
  assert table.equity[1, made.game.infostate("KsKh")] == pytest.approx(0.5)
  assert spot.hand_table(made, made.find("all-in")).reach.sum() == pytest.approx(2)


def test_a_spot_is_measured_without_building_it():
  for board in ("TdJdQh", "TdJdQhKc"):
    game = spot.Spot(board, "AA,QTs", "99,KQ", 201, 900, ranks="9TJQKA").game()
    found, (lines, columns) = size.measure(game), make_lines(game)
    assert found.lines == lines.num_nodes
    assert found.boards == len(columns.boards[-1].cards)
    widths = [
      level.size * lines.streets[level.street].width(level.mover)
      for level in lines.levels
      if level.mover is not None
    ]
    assert found.edges == sum(widths)


def test_a_saved_spot_loads_without_solving(solved, tmp_path, monkeypatch):
  solved.save(tmp_path / "kept")
  monkeypatch.setattr(solvers, "solve_to", None)
  again = spot.load(tmp_path / "kept")
  assert again.spot == solved.spot
  for ours, theirs in zip(again.policy, solved.policy, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  assert spot.report(again) == spot.report(solved)


def test_the_command(tmp_path, capsys):
  files = [tmp_path / "spot.npz", tmp_path / "grid.png"]
  kept = ["--output", str(files[0]), "--picture", str(files[1])]
  assert spot.main([*SMALL, "--target", "5", "--node", "bet 66", "--hands", *kept]) == 0
  printed = capsys.readouterr().out
  assert "IP to act" in printed
  assert "raise 165" in printed
  assert "QcTc" in printed
  assert all(file.stat().st_size > 100 for file in files)
  assert spot.main(["--load", str(files[0])]) == 0
  assert "OOP to act" in capsys.readouterr().out


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (["--board", "TdJd"], "board='TdJd' holds 2 cards; a spot has 3, 4 or 5"),
    (["--oop", "QQ+,XX"], "oop holds 'XX', which is not understood"),
    (["--ip-bets", "33%,7"], "ip_bets='33%,7' holds '7'"),
    (["--oop", "KdKh", "--ip", "KdQd"], "cannot both be held"),
    (["--board", "Td9d6h", "--oop", "random"], "of 3 cards with these bets and ranges makes"),
    (["--stack", "None"], "stack=None must be given"),
    (["--load", "nothing.npz"], "load='nothing.npz' cannot be read"),
    (["--target", "0"], "target=0.0 must be a finite number above 0"),
  ],
)
def test_what_is_refused_writes_nothing(changes, message, tmp_path, capsys):
  output = tmp_path / "spot.npz"
  given = [*SMALL, "--memory", "1", "--output", str(output), *changes]
  assert spot.main(given) == 2
  said = capsys.readouterr().err
  assert message in said
  assert said.count("\n") == 1
  assert not output.exists()


def test_moves_that_are_not_there(solved, tmp_path):
  with pytest.raises(ConfigError, match="holds 'bet 70', and possible there is: check, bet 66"):
    solved.find("bet 70")
  (tmp_path / "no").write_text("not an archive")
  with pytest.raises(ConfigError, match="is not a file of a solved spot"):
    spot.load(tmp_path / "no")
