"""Reading what a user names: regular files of known size, in a scope without following links.

Every refusal is one `BadInput` line with the field that named the file. Within a scope, a file that lies outside, one
that is not there and one that may not be opened give the same line, so that nothing can be learned from it.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import IO, Any, BinaryIO

from windtunnel.errors import MAX_SHOWN_VALUE, BadInput, Problem
from windtunnel.files.scope import Scope, below, current

MOST_TEXT_BYTES = 64_000_000
"""Bytes of a text file that is read whole, where its reader states no smaller limit."""
BINARY = getattr(os, "O_BINARY", 0)
"""Windows reads and writes other bytes without it."""
_FLAGS = os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_LINK = _NO_LINK | BINARY | getattr(os, "O_NONBLOCK", 0)
"""For files of our own: no link, and no pipe that would be waited for; nothing of the two on Windows."""
_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where a shell puts the output of a command that it substitutes for a file; a command line alone may read them."""


_opened = 0


def opened() -> int:
    """How many files this process has opened here."""
    return _opened


def read_text(path: str | Path, field: str = "", *, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The text of a file in UTF-8, without a byte order mark.

    Raises:
        BadInput: the file cannot be read, is larger than `most_bytes`, is no regular file or is not UTF-8.
    """
    try:
        return read_bytes(path, field, most_bytes=most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(path, field, "must be UTF-8 text") from None


def read_bytes(path: str | Path, field: str = "", *, most_bytes: int = MOST_TEXT_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        BadInput: the file cannot be read, is larger than `most_bytes` or is no regular file.
    """
    with open_bytes(path, field) as stream:
        if os.fstat(stream.fileno()).st_size > most_bytes:
            raise _refused(path, field, _at_most(most_bytes))
        try:
            raw = stream.read(most_bytes + 1)
        except OSError as error:
            raise _refused(path, field, f"cannot be read: {error.strerror or error}") from None
    if len(raw) > most_bytes:
        raise _refused(path, field, _at_most(most_bytes))
    return raw


def open_bytes(path: str | Path, field: str = "") -> BinaryIO:
    """A regular file, open for reading.

    Raises:
        BadInput: the file cannot be opened or is no regular file.
    """
    global _opened
    _opened += 1
    scope = current()
    try:
        handle = os.open(path, _FLAGS) if scope is None else _open_below(Path(path), scope)
    except (OSError, ValueError) as error:
        raise _refused(path, field, _why(error, scope)) from None
    try:
        _check_kind(os.fstat(handle).st_mode, path, field, scope)
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def open_text(
    path: str | Path, field: str = "", *, newline: str | None = None, errors: str = "strict", packed: bool | None = None
) -> IO[str]:
    """A regular text file in UTF-8, open for reading; a packed one (gzip) is unpacked as it is read.

    Args:
        path: the file.
        field: what names it, for the message.
        newline: as `open` takes it.
        errors: as `open` takes it.
        packed: whether gzip packed it; None: where its name ends in `.gz`.

    Raises:
        BadInput: the file cannot be opened or is no regular file.
    """
    stream = open_bytes(path, field)
    if packed or (packed is None and Path(path).suffix == ".gz"):
        return io.TextIOWrapper(_Unpacked(fileobj=stream), encoding="utf-8-sig", newline=newline, errors=errors)
    return io.TextIOWrapper(stream, encoding="utf-8-sig", newline=newline, errors=errors)


class _Unpacked(gzip.GzipFile):
    """A packed file as its content; closes the file itself too. Any damage is an `OSError` or an `EOFError`."""

    def read1(self, size: int = -1) -> bytes:
        """Some of the content."""
        try:
            return super().read1(size)
        except zlib.error as error:
            raise gzip.BadGzipFile(str(error)) from None

    def close(self) -> None:
        """Close both."""
        stream: Any = self.fileobj
        super().close()
        if stream is not None:
            stream.close()


def is_file(path: str | Path) -> bool:
    """Whether a regular file is there that may be read."""
    try:
        open_bytes(path).close()
    except BadInput:
        return False
    return True


def folder_in_scope(path: str | Path, field: str = "") -> Path:
    """A folder that may be read, as an absolute path without links.

    Raises:
        BadInput: it lies outside the scope, is reached through a link or is no folder.
    """
    scope = current()
    if scope is None:
        return Path(path)
    found = below(Path(path), scope.readable)
    try:
        if found is None:
            raise PermissionError(errno.EACCES, "outside")
        os.close(walked(*found, FOLDER))
    except (OSError, ValueError) as error:
        raise _refused(path, field, _why(error, scope)) from None
    return found[0].joinpath(*found[1])


def _open_below(path: Path, scope: Scope) -> int:
    """A handle of a file below a readable folder of the scope, opened part by part without following links."""
    found = below(path, scope.readable)
    if found is None or not found[1]:
        raise PermissionError(errno.EACCES, "outside")
    return walked(*found, _FLAGS)


def walked(folder: Path, parts: tuple[str, ...], flags: int) -> int:
    """A handle of what lies at parts below a folder."""
    if os.open not in os.supports_dir_fd:  # Windows: by name, and links are looked for first
        whole = folder.joinpath(*parts)
        if Path(os.path.realpath(whole)) != whole:
            raise PermissionError(errno.EACCES, "a link")
        return os.open(whole, flags)
    at = os.open(folder, FOLDER)
    for number, part in enumerate(parts, 1):
        wanted = flags if number == len(parts) else FOLDER
        try:
            inner = os.open(part, wanted | _NO_LINK, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def _check_kind(mode: int, path: str | Path, field: str, scope: Scope | None) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISFIFO(mode) and scope is None and str(path).startswith(_PIPES):
        return
    if stat.S_ISDIR(mode):
        raise _refused(path, field, "cannot be read: Is a directory")
    raise _refused(path, field, "must be a regular file, not a pipe, a device or a socket")


def _why(error: OSError | ValueError, scope: Scope | None) -> str:
    if scope is None:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if not scope.readable:
        return f"files are not read: start with {scope.option} FOLDER"
    return f"no file that may be read: it must lie below the folder of {scope.option}, and no link may lead to it"


def _refused(path: str | Path, field: str, rule: str) -> BadInput:
    file = "".join(c if c.isprintable() else "�" for c in str(path))
    end = file if len(file) <= MAX_SHOWN_VALUE else f"…{file[1 - MAX_SHOWN_VALUE :]}"
    return BadInput(Problem(field, rule, end) if field else Problem("", rule, file=file))


def _at_most(count: int) -> str:
    size = f" ({count >> 20} MiB)" if count % (1 << 20) == 0 else ""
    return f"must be at most {count} bytes{size}"
