"""Files of results: what is opened, replaced and read, and what is refused."""

import errno
import os
import zipfile

import numpy as np
import pytest

from rebel_jax.checkpoints import files
from rebel_jax.config.config import ConfigError

ARRAYS = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "n": np.array(7)}
SHAPES = {"a": ((3, 4), "f"), "n": ((), "iu")}
NAME, WHAT, KEY = "keep='x'", "numbers", "of"


def read(path):
  return files.read_arrays(path, NAME, WHAT, files.read_about(path, NAME, WHAT, KEY), SHAPES)


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "folder"])
@pytest.mark.parametrize("mode", ["rb", "ab", "r+b"])
def test_only_plain_files_are_opened(kind, mode, tmp_path):
  path, other = tmp_path / "file", tmp_path / "other"
  other.write_bytes(b"precious")
  make = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to(other),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": os.mkdir,
  }
  make[kind](path)
  with pytest.raises(OSError, match="file|symbolic|directory|device"):
    files.open_file(path.resolve() if kind == "device" else path, mode).close()
  with pytest.raises(OSError, match="no plain file"), files.replacing(path):
    pass
  assert other.read_bytes() == b"precious"
  assert {x.name for x in tmp_path.iterdir()} == {"file", "other"}


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
  path, others = tmp_path / "kept", tmp_path / "kept.partial"
  others.write_text("somebody's")
  files.save_arrays(path, ARRAYS, {"of": 1})
  path.chmod(0o600)
  before = path.read_bytes()

  def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  with monkeypatch.context() as patch:
    patch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
      files.save_arrays(path, ARRAYS, {"of": 2})
  files.check_replaceable(path, NAME, WHAT, KEY)
  with pytest.raises(ConfigError, match="is there and cannot be read as numbers"):
    files.check_replaceable(others, NAME, WHAT, KEY)
  assert path.read_bytes() == before
  files.save_arrays(path, ARRAYS, {"of": 3})
  assert files.read_about(path, NAME, WHAT, KEY)["of"] == 3
  assert path.stat().st_mode & 0o777 == 0o600
  assert sorted(x.name for x in tmp_path.iterdir()) == ["kept", "kept.partial"]
  assert others.read_text() == "somebody's"


def test_flipped_bits_are_refused_or_change_nothing(tmp_path):
  path, rng = tmp_path / "kept", np.random.default_rng(0)
  files.save_arrays(path, ARRAYS, {"of": "this", "more": [1, 2.5, None]})
  good, refused = path.read_bytes(), 0
  for place in rng.integers(8 * len(good), size=200):
    flipped = bytearray(good)
    flipped[place // 8] ^= 1 << (place % 8)
    path.write_bytes(flipped)
    try:
      found = read(path)
    except ConfigError as error:
      refused += 1
      assert str(error).startswith(NAME)
    else:
      assert all((found[name] == ARRAYS[name]).all() for name in ARRAYS)
  assert refused > 50


def repacked(path, change):
  """Writes the file again with some members changed, in numpy's own way."""
  with np.load(path) as archive:
    members = {name: archive[name] for name in archive.files}
  members |= change(members)
  np.savez_compressed(path.open("wb"), **{k: v for k, v in members.items() if v is not None})


@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    (lambda _: {"a": -ARRAYS["a"]}, "was altered, and its checksum"),
    (lambda x: {"about": np.array(str(x["about"]).replace('"of": 1', '"of": 2'))}, "was altered"),
    (lambda _: {"a": np.full((3, 4), np.nan, np.float32)}, "not finite"),
    (lambda _: {"a": np.zeros((4, 3), np.float32)}, "other arrays"),
    (lambda _: {"a": np.zeros((3, 4), int)}, "other arrays"),
    (lambda _: {"a": None}, "other arrays"),
    (lambda _: {"b": np.zeros(3)}, "other arrays"),
    (lambda _: {"a": np.zeros(10**7)}, "cannot be read as numbers"),
    (lambda _: {"about": np.array("[1]")}, "cannot be read as numbers"),
    (lambda _: {"about": np.array("[" * 10**6)}, "cannot be read as numbers"),
  ],
)
def test_altered_files_are_refused(change, sentence, tmp_path):
  files.save_arrays(tmp_path / "kept", ARRAYS, {"of": 1})
  repacked(tmp_path / "kept", change)
  with pytest.raises(ConfigError, match=sentence):
    read(tmp_path / "kept")


def test_sizes_are_counted_before_anything_is_loaded(tmp_path, monkeypatch):
  files.save_arrays(tmp_path / "kept", ARRAYS, {"of": 1})
  repacked(tmp_path / "kept", lambda _: {"a": np.zeros(10**7)})
  about = files.read_about(tmp_path / "kept", NAME, WHAT, KEY)
  monkeypatch.setattr(zipfile.ZipFile, "open", None)
  with pytest.raises(ConfigError, match="'a' is larger than it says"):
    files.read_arrays(tmp_path / "kept", NAME, WHAT, about, SHAPES)


def test_pictures_replace_pictures_of_their_kind(tmp_path):
  pytest.importorskip("matplotlib")
  (tmp_path / "notes.png").write_text("precious")
  refused = {
    tmp_path / "notes.png": "no picture of the kind 'png'",
    tmp_path / "grid.xyz": "not supported",
    tmp_path / "missing" / "grid.png": "No such file",
  }
  for path, sentence in refused.items():
    with pytest.raises(ConfigError, match=sentence):
      files.check_picture("picture", path)
  for _ in range(2):
    files.check_picture("picture", tmp_path / "grid.svg")
    assert not (tmp_path / "grid.svg").exists()
  assert (tmp_path / "notes.png").read_text() == "precious"
