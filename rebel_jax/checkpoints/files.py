"""Files of results, opened without waiting or following links, replaced whole or not at all.

Arrays lie in NumPy archives, and what is said of them is JSON with a checksum over both.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from rebel_jax.config import in_config_errors

# Neither a FIFO without a writer nor a link to elsewhere is opened; systems without these have 0.
_SAFE = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC"))
_HEADER_BYTES = 2**14
_SAID = ("about", "what")  # the latter in files of earlier versions
Expected = Mapping[str, tuple[tuple[int, ...], str]]  # shapes, and kinds of numpy's dtypes


def check_file(path: str | Path) -> None:
  """Checks that what lies at a path, if anything does, is a plain file."""
  if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
    raise OSError(f"{os.path.basename(path)!r} is no plain file")


def open_file(path: str | Path, mode: str = "rb") -> IO[Any]:
  """Returns an open plain file."""
  check_file(path)
  return open(path, mode, opener=lambda name, flags: os.open(name, flags | _SAFE, 0o666))


def read_bytes(path: Path) -> bytes:
  """Returns the contents of a plain file."""
  with open_file(path) as file:
    return file.read()


@contextlib.contextmanager
def replacing(path: Path, *, rehearse: bool = False) -> Iterator[IO[bytes]]:
  """Yields a new file that takes the place of `path` at the end, unless that fails or rehearses."""
  check_file(path)
  beside = path.parent / f".{os.urandom(8).hex()}.new"  # nobody's file is opened or removed
  try:
    with open_file(beside, "xb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    if path.exists():
      shutil.copymode(path, beside)
    if not rehearse:
      os.replace(beside, path)
  finally:
    beside.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
  """Replaces a file, whole or not at all."""
  with replacing(path) as file:
    file.write(text.encode())


def sealed(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a description of arrays as JSON holds it, with a checksum over it and over them."""
  said = json.loads(json.dumps({name: about[name] for name in about if name != "checksum"}))
  found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
  for name, array in sorted(arrays.items()):
    found.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
  return said | {"checksum": found.hexdigest()}


def save_arrays(
  path: Path, arrays: Mapping[str, Any], about: Mapping[str, Any] | None = None, *, pack: Any = None
) -> None:
  """Replaces a file of arrays and what is said of them, sealed, whole or not at all."""
  said: dict[str, Any] = (
    {} if about is None else {_SAID[0]: np.array(json.dumps(sealed(about, arrays)))}
  )
  with replacing(path) as file:
    (pack or np.savez_compressed)(file, **said, **arrays)


def reading(name: str, what: str) -> contextlib.AbstractContextManager[None]:
  """Raises a ConfigError about `name` where it cannot be read as `what`; damage is any error."""
  return in_config_errors(f"{name} cannot be read as {what}", Exception)


def read_about(path: Path, name: str, what: str, key: str) -> dict[str, Any]:
  """Returns the description of arrays in their file, if it has a `key` of that kind of file."""
  with reading(name, what), open_file(path) as file, zipfile.ZipFile(file) as archive:
    member = next((x for x in _SAID if f"{x}.npy" in archive.namelist()), _SAID[0])
    about = json.loads(str(_member(archive, member, 2**24)))
    if not isinstance(about, dict) or key not in about:
      raise ValueError("it is of another kind")
    return about


def check_replaceable(path: Path, name: str, what: str, key: str) -> dict[str, Any]:
  """Returns the description in a file that can be written, of its kind; empty without a file."""
  with (
    in_config_errors(f"{name} must be a file that can be written", OSError),
    replacing(path, rehearse=True),
  ):
    pass
  return read_about(path, f"{name} is there and", what, key) if path.exists() else {}


def read_arrays(
  path: Path, name: str, what: str, about: Mapping[str, Any], expected: Expected
) -> dict[str, np.ndarray]:
  """Returns the arrays of a file, whose sizes are compared before any is loaded."""
  with reading(name, what), open_file(path) as file, zipfile.ZipFile(file) as archive:
    if {x.removesuffix(".npy") for x in archive.namelist()}.difference(_SAID) != expected.keys():
      raise ValueError("it holds other arrays")
    found = {key: _member(archive, key, 8 * int(np.prod(x[0]))) for key, x in expected.items()}
    for (shape, kinds), array in zip(expected.values(), found.values()):
      if array.shape != shape or array.dtype.kind not in kinds or array.itemsize not in (2, 4, 8):
        raise ValueError("it holds other arrays")
      if not np.isfinite(array).all():
        raise ValueError("it holds numbers that are not finite")
    if "checksum" in about and sealed(about, found) != about:
      raise ValueError("it was altered, and its checksum is of other contents")
  return found


def _member(archive: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
  """Returns an array of an archive, whose bytes are counted first."""
  info = archive.getinfo(f"{name}.npy")
  if info.file_size > most + _HEADER_BYTES:
    raise ValueError(f"{name!r} is larger than it says")
  with archive.open(info) as member:
    return np.lib.format.read_array(member, allow_pickle=False)


def save_picture(figure: Any, path: str | Path, *, rehearse: bool = False, **settings: Any) -> None:
  """Replaces a picture of the kind that its suffix says, `.png` by default, by a figure's."""
  path = Path(os.path.realpath(path if Path(path).suffix else f"{path}.png"))
  drawn = io.BytesIO()
  figure.savefig(drawn, format=path.suffix[1:], **settings)
  with replacing(path, rehearse=rehearse) as file:
    if path.exists() and read_bytes(path)[:4] not in (b"", drawn.getvalue()[:4]):
      raise ValueError(f"the file before is no picture of the kind {path.suffix[1:]!r}")
    file.write(drawn.getvalue())


def check_picture(path: str | Path, field: str = "picture") -> None:
  """Checks, before the work, that `save_picture` can draw to a file."""
  with in_config_errors(
    f"{field}={str(path)!r} cannot be drawn", (OSError, ValueError, ImportError)
  ):
    from matplotlib.figure import Figure

    save_picture(Figure((1, 1)), path, rehearse=True)
