"""Files of results: opened without waiting or following links, replaced whole, read whole or not.

Arrays lie in NumPy archives, and what is said of them is JSON with a checksum over both.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from rebel_jax.config.allowed import ConfigError, in_config_errors

# Neither a FIFO without a writer nor a link to elsewhere is opened; systems without these have 0.
_SAFE = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC"))
_ABOUT_BYTES = 2**24
_HEADER_BYTES = 2**14
_WORD_BYTES = 8
_SAID = ("about", "what")  # the latter in files of earlier versions


def open_file(path: str | Path, mode: str = "rb") -> IO[Any]:
  """Returns an open plain file.

  Raises:
    OSError: it cannot be opened, or is a link, a FIFO or a device.
  """

  def opener(name: str, flags: int) -> int:
    handle = os.open(name, flags | _SAFE, 0o666)
    if stat.S_ISREG(os.fstat(handle).st_mode):
      return handle
    os.close(handle)
    raise _not_plain(path)

  return open(path, mode, opener=opener)


def _not_plain(path: str | Path) -> OSError:
  return OSError(errno.EINVAL, f"{os.path.basename(path)!r} is no plain file", str(path))


def check_plain(folder: Path) -> None:
  """Checks that a folder holds plain files and folders alone.

  Raises:
    OSError: it holds a link, a FIFO or a device, at any depth.
  """
  for root, folders, names in os.walk(folder):
    for path in (os.path.join(root, name) for name in (*folders, *names)):
      mode = os.lstat(path).st_mode
      if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise _not_plain(path)


def read_json(path: Path) -> Any:
  """Returns what a plain file of JSON holds.

  Raises:
    OSError, ValueError: it cannot be read, or holds none.
  """
  with open_file(path) as file:
    return _parsed(file.read())


def _parsed(text: bytes | str) -> Any:
  try:
    return json.loads(text)
  except RecursionError:
    raise ValueError("it is nested too deeply") from None


@contextlib.contextmanager
def replacing(path: Path, *, rehearse: bool = False) -> Iterator[IO[bytes]]:
  """Yields a new file that takes the place of `path` at the end of the block.

  Where the block fails, or the disk is full, what was there stays as it was.

  Args:
    path: the file.
    rehearse: remove the new file instead, which shows whether there can be one.

  Raises:
    OSError: it cannot be written, or is a link, a FIFO, a device or a folder.
  """
  before = os.lstat(path).st_mode if os.path.lexists(path) else None
  if before is not None and not stat.S_ISREG(before):
    raise _not_plain(path)
  # A name of its own: nobody's file is opened or removed.
  beside = path.parent / f".{secrets.token_hex(8)}.new"
  try:
    with open_file(beside, "xb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
      if before is not None:
        os.chmod(beside, stat.S_IMODE(before))
    if not rehearse:
      os.replace(beside, path)
  finally:
    beside.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
  """Checks, before the work, that a file can be replaced.

  Raises:
    OSError: as `replacing`.
  """
  with replacing(path, rehearse=True):
    pass


def replace_text(path: Path, text: str) -> None:
  """Replaces a file, whole or not at all.

  Raises:
    OSError: as `replacing`.
  """
  with replacing(path) as file:
    file.write(text.encode())


def sealed(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what is said of arrays as JSON holds it, with a checksum over it and over them."""
  said = _parsed(json.dumps({name: about[name] for name in about if name != "checksum"}))
  found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
  for name in sorted(arrays):
    array = np.asarray(arrays[name])
    found.update(f"{name} {array.dtype.str} {array.shape}".encode())
    found.update(array.tobytes())
  return said | {"checksum": found.hexdigest()}


def save_arrays(
  path: Path, arrays: Mapping[str, Any], about: Mapping[str, Any] | None = None, *, pack: Any = None
) -> None:
  """Replaces a file of arrays, whole or not at all.

  Args:
    path: the file.
    arrays: by name.
    about: what is said of them in the file, sealed; None for nothing.
    pack: numpy's function that packs them; None for the one that compresses.

  Raises:
    OSError: as `replacing`.
  """
  more = {} if about is None else {_SAID[0]: np.array(json.dumps(sealed(about, arrays)))}
  with replacing(path) as file:
    (pack or np.savez_compressed)(file, **more, **arrays)


@contextlib.contextmanager
def reading(name: str, what: str) -> Iterator[None]:
  """Raises a ConfigError about `name`, which is to be a file of `what`, if it cannot be read."""
  try:
    with in_config_errors(f"{name} cannot be read", OSError):
      yield
  except ConfigError:
    raise
  except Exception:  # damage looks like anything
    raise ConfigError(f"{name} is no file of {what}, or it was damaged or altered") from None


def read_about(path: Path, name: str, what: str) -> dict[str, Any]:
  """Returns what a file of arrays says of them.

  Args:
    path: the file.
    name: what errors call it, such as `load='kept.npz'`.
    what: what it is to hold, such as `a solved spot`.

  Raises:
    ConfigError: it cannot be read, or is another file.
  """
  with reading(name, what), open_file(path) as file, zipfile.ZipFile(file) as archive:
    member = next(x for x in _SAID if f"{x}.npy" in archive.namelist())
    about = _parsed(str(_member(archive, member, _ABOUT_BYTES)))
    if not isinstance(about, dict):
      raise ValueError
    return about


def read_arrays(
  path: Path,
  name: str,
  what: str,
  about: Mapping[str, Any],
  expected: Mapping[str, tuple[tuple[int, ...], str]],
) -> dict[str, np.ndarray]:
  """Returns the arrays of a file, whose sizes are compared before any is loaded.

  Args:
    path, name, what: as for `read_about`.
    about: what is said of them; its `checksum`, if there is one, must be theirs.
    expected: by name the shape and the kinds of numbers, as of numpy's dtypes; of 4 or 8 bytes.

  Raises:
    ConfigError: it cannot be read, holds other arrays, or was changed since it was written.
  """
  with reading(name, what), open_file(path) as file, zipfile.ZipFile(file) as archive:
    names = {x.removesuffix(".npy") for x in archive.namelist()}.difference(_SAID)
    if names != expected.keys():
      raise ConfigError(f"{name} holds other arrays than those of {what}")
    found = {
      key: _member(archive, key, _WORD_BYTES * math.prod(shape))
      for key, (shape, _) in expected.items()
    }
  for key, (shape, kinds) in expected.items():
    array = found[key]
    if array.shape != shape or array.dtype.kind not in kinds or array.itemsize not in (4, 8):
      raise ConfigError(f"{name} holds other arrays than those of {what}")
    if not np.isfinite(array).all():
      raise ConfigError(f"{name} holds numbers that are not finite")
  if "checksum" in about and sealed(about, found)["checksum"] != about["checksum"]:
    raise ConfigError(f"{name} was altered: its checksum is of other contents")
  return found


def _member(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
  """Returns an array of an archive, whose bytes are counted first."""
  info = archive.getinfo(f"{name}.npy")
  if info.file_size > most + _HEADER_BYTES:
    raise ValueError(f"{name!r} is too large")
  with archive.open(info) as member:
    return np.lib.format.read_array(member, allow_pickle=False)


def save_picture(figure: Any, path: str | Path, *, rehearse: bool = False, **settings: Any) -> None:
  """Replaces a picture, whole or not at all, by a figure of matplotlib's.

  Args:
    figure: the figure.
    path: the file; its suffix is the picture's kind, `.png` if it has none.
    rehearse: only show that there can be one.
    settings: of `savefig`.

  Raises:
    OSError: as `replacing`.
    ValueError: matplotlib does not draw that kind, or the file that is there is of another.
  """
  path = Path(path)
  path = path if path.suffix else path.with_name(f"{path.name}.png")
  path, kind = Path(os.path.realpath(path)), path.suffix[1:]
  drawn = io.BytesIO()
  figure.savefig(drawn, format=kind, **settings)
  with replacing(path, rehearse=rehearse) as file:
    if path.exists():
      with open_file(path) as before:
        if before.read(4) not in (b"", drawn.getvalue()[:4]):
          raise ValueError(f"the file that is there is no picture of the kind {kind!r}")
    file.write(drawn.getvalue())


def check_picture(field: str, path: str | Path) -> None:
  """Checks, before the work, that `save_picture` can draw to a file.

  Raises:
    ConfigError: it cannot, or matplotlib is not installed.
  """
  kinds = OSError, ValueError, ImportError
  with in_config_errors(f"{field}={str(path)!r} cannot be drawn", kinds):
    from matplotlib.figure import Figure

    save_picture(Figure((1, 1)), path, rehearse=True)
