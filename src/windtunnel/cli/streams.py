"""Standard streams and signals of the command: what cannot be printed ends in one line, and a signal as Ctrl-C does."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Problem

if TYPE_CHECKING:
    from types import FrameType

CLOSED_PIPE = 128 + 13
"""Exit code where nobody reads standard output any more: that of a tool that SIGPIPE ends."""
INTERRUPTED = 128 + signal.SIGINT
_received: list[int] = []


class _Output(io.FileIO):
    """A standard stream, whose first failure ends the command; nothing is written afterwards."""

    def __init__(self, handle: int, *, matters: bool, closed_before: bool = False) -> None:
        super().__init__(handle, "wb", closefd=False)
        self._matters, self._ended, self._closed_before = matters, False, closed_before

    def write(self, content: Any) -> int:
        """Write some of the bytes.

        Raises:
            BadInput: it cannot be written.
            SystemExit: nobody reads it.
        """
        size = memoryview(content).nbytes
        if self._ended:
            return size
        try:
            if self._closed_before:
                raise OSError("it is closed")
            return super().write(content) or 0
        except BrokenPipeError:
            self._ended = True
            raise SystemExit(CLOSED_PIPE) from None
        except OSError as error:
            self._ended = True
            if not self._matters:
                return size
            rule = f"cannot be written: {error.strerror or error}"
            raise BadInput(Problem("", rule, file="standard output")) from None


def guard_streams() -> None:
    """Have every command end in one line where standard output fails, and do without streams that are closed."""
    closed = [stream is None for stream in (sys.stdin, sys.stdout, sys.stderr)]
    for number in range(3):  # files that are opened later must not take the number of a standard stream
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if closed[0]:
        sys.stdin = open(os.devnull, encoding="utf-8")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8")  # as files are, whatever the locale
    sys.stdout = _guarded(sys.stdout, 1, matters=True, closed_before=closed[1])
    sys.stderr = _guarded(sys.stderr, 2, matters=False, closed_before=closed[2])


def typed_words() -> list[str]:
    """The arguments of the command line: values of fields in UTF-8 where they can be, whatever the locale.

    Names of files stay as the system gives and takes them.
    """
    words = sys.argv[1:]
    if sys.getfilesystemencoding() == "utf-8":
        return words
    return [_as_utf8(word) if _SETTING.match(word) else word for word in words]


_SETTING = re.compile(r"(--(set|vary|zip)=)?[^-=\s/][^=\s/]*=")


def _as_utf8(word: str) -> str:
    try:
        return os.fsencode(word).decode()
    except UnicodeDecodeError:
        return word


def _guarded(stream: Any, number: int, *, matters: bool, closed_before: bool) -> Any:
    if stream is not None:
        try:
            if stream.fileno() != number:
                return stream
        except (OSError, ValueError, AttributeError):  # a stream of a test or a notebook
            return stream
    raw = _Output(number, matters=matters, closed_before=closed_before)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    lines = bool(getattr(stream, "line_buffering", False)) or not matters
    # names in files may hold what a terminal cannot show
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=lines)


def end_as_interrupted() -> None:
    """Have SIGTERM and SIGHUP end a command as Ctrl-C does: it keeps what is computed and leaves no process behind."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_end_at_once)


def exit_code(code: int) -> int:
    """The exit code of a command that a signal ended: 128 and its number, as shells say it."""
    return 128 + _received[0] if code == INTERRUPTED and _received else code


def _interrupt(number: int, _: FrameType | None) -> None:
    _received.append(number)
    _end_at_once()  # who asks twice does not wait
    raise KeyboardInterrupt


def _end_at_once() -> None:
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
