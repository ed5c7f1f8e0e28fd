"""Writing what a user names: whole or not at all; in a scope below a writable folder, and never through a link."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from windtunnel.errors import BadInput, Problem
from windtunnel.files.reading import FOLDER, NO_LINK, walked
from windtunnel.files.scope import below, current


def place_to_write(path: str | Path, field: str) -> Path:
    """The path of a file or folder that may be written; what lies on the way to it may be missing, and is no link.

    Raises:
        BadInput: it lies outside what may be written, or a link leads to it.
    """
    scope = current()
    if scope is None:
        return Path(path)
    found = below(Path(path), scope.writable)
    if not scope.writable:
        raise BadInput(Problem(field, "files are not written: start with --allow-write", str(path)))
    rule = f"must lie below the folder of {scope.option}, and no link may lead to it"
    if found is None:
        raise BadInput(Problem(field, rule, str(path)))
    folder, parts = found
    try:
        no_path = b"\0" in os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair
        no_path = True
    if no_path or any(os.path.islink(folder.joinpath(*parts[:count])) for count in range(1, len(parts) + 1)):
        raise BadInput(Problem(field, rule, str(path)))
    return folder.joinpath(*parts)


def write_text(path: str | Path, text: str, field: str = "") -> None:
    """Write a text file in UTF-8, whole or not at all: beside the older one, which it then replaces.

    Raises:
        BadInput: it may not be written or cannot be; the older file stays as it was.
    """
    write_bytes(path, text.encode("utf-8", "surrogatepass"), field)


def write_bytes(path: str | Path, content: bytes, field: str = "") -> None:
    """Write a file, whole or not at all: beside the older one, which it then replaces.

    Raises:
        BadInput: it may not be written or cannot be; the older file stays as it was.
    """
    with open_bytes(path, field) as stream:
        stream.write(content)


@contextlib.contextmanager
def open_text(path: str | Path, field: str = "") -> Iterator[IO[str]]:
    """A text file in UTF-8 to write, as `open_bytes`; gzip packs it where its name ends in `.gz`.

    Raises:
        BadInput: it may not be written or cannot be; the older file stays as it was.
    """
    with open_bytes(path, field) as stream, contextlib.ExitStack() as both:
        raw = both.enter_context(gzip.open(stream, "wb")) if Path(path).suffix == ".gz" else stream
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace")
        yield text
        text.flush()
        text.detach()


@contextlib.contextmanager
def open_bytes(path: str | Path, field: str = "") -> Iterator[BinaryIO]:
    """A file to write: beside the older one, which it replaces when the block ends well.

    A device such as `/dev/null` or a pipe is written to as it is.

    Raises:
        BadInput: it may not be written or cannot be; the older file stays as it was.
    """
    place = place_to_write(path, field)
    try:
        if current() is None and place.exists() and not place.is_file():
            with place.open("wb") as stream:
                yield stream
            return
        target = place if current() is not None else Path(os.path.realpath(place))
        with _folder_of(target) as folder, whole_file(target, folder) as stream:
            yield stream
    except (OSError, ValueError) as error:
        raise not_written(path, field, error) from None


@contextlib.contextmanager
def whole_file(path: Path, folder: int | None = None) -> Iterator[BinaryIO]:
    """A file that is there whole or not at all: written beside the older one, which it replaces as the block ends.

    Args:
        path: the file.
        folder: a handle of its folder, through which it is opened; None: by its path.

    Raises:
        OSError: it cannot be written.
    """
    beside = f".{secrets.token_hex(8)}.tmp"  # names may be as long as a folder allows
    name, temporary = (path.name, beside) if folder is not None else (str(path), str(path.with_name(beside)))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
    handle = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o7777
            os.chmod(temporary, mode, dir_fd=folder)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


@contextlib.contextmanager
def _folder_of(place: Path) -> Iterator[int | None]:
    """In a scope a handle of the folder of a file, reached without following links; else None."""
    scope = current()
    found = below(place, scope.writable) if scope is not None and os.open in os.supports_dir_fd else None
    if found is None:
        yield None
        return
    handle = walked(found[0], found[1][:-1], FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


def not_written(path: str | Path, field: str, error: Exception) -> BadInput:
    """The line that says why a file or folder cannot be written."""
    rule = f"cannot be written: {getattr(error, 'strerror', None) or str(error).splitlines()[0]}"
    file = "".join(c if c.isprintable() else "�" for c in str(path))
    return BadInput(Problem(field, rule, file) if field else Problem("", rule, file=file))
