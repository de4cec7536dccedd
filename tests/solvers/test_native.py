"""C++ is compiled once, beside where it belongs; without it, for any reason, XLA's form is used."""

import ctypes
import shutil
import threading
import warnings

import pytest

from solvers import native
from solvers.sweeps.lines import ends

SOURCE = 'extern "C" int seven() { return 7; }'


@pytest.fixture
def source(tmp_path, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  path = tmp_path / "seven.cc"
  path.write_text(SOURCE)
  return path


WRONG = {
  "there is no C": {"PATH": "", "CXX": None},
  "returned non-zero exit status 1": {"CXX": "false"},
  "Not a directory": lambda source: (source.parent / "cache").write_text(""),
  "undefined symbol": lambda source: source.write_text("int seven();"),
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_cannot_be_compiled_is_said_once(source, monkeypatch, reason):
  """No compiler, one that fails, a folder that takes no files, and a file that is no library."""
  if callable(WRONG[reason]):
    WRONG[reason](source)
  else:
    for name, value in WRONG[reason].items():
      monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
  with pytest.warns(UserWarning, match=f"seven.cc is not used.*{reason}"):
    assert native.target(source, "seven") is None
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert native.target(source, "seven") is None
  if reason == "returned non-zero exit status 1":
    assert not list(source.parent.glob("cache/**/*.so"))


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")
def test_several_compile_at_once(source):
  path = source.parent / "cache" / "seven.so"
  threads = [threading.Thread(target=native._compile, args=(source, path)) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert list(path.parent.iterdir()) == [path]
  assert ctypes.CDLL(str(path)).seven() == 7


def test_the_source_is_in_the_package():
  assert ends._SOURCE.exists()
