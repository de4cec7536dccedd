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


def refused(source, reason):
  with pytest.warns(UserWarning, match=f"seven.cc is not used.*{reason}"):
    assert native.target(source, "seven") is None
  with warnings.catch_warnings():
    warnings.simplefilter("error")  # it is said once
    assert native.target(source, "seven") is None
  return True


def test_without_a_compiler(source, monkeypatch):
  monkeypatch.setenv("PATH", "")
  monkeypatch.delenv("CXX", raising=False)
  assert refused(source, "there is no C")


def test_a_compiler_that_fails(source, monkeypatch):
  monkeypatch.setenv("CXX", "false")
  assert refused(source, "returned non-zero exit status 1")
  assert not list(source.parent.glob("cache/**/*.so"))


def test_a_folder_that_takes_no_files(source):
  (source.parent / "cache").write_text("")
  assert refused(source, "Not a directory")


def test_a_file_that_is_no_library(source):
  source.write_text("int seven();")
  assert refused(source, "undefined symbol")


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
