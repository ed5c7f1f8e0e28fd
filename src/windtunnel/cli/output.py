"""What every command prints through: data on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from windtunnel.files.writing import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rich.console import Console

    from windtunnel.commands.base import Listener
    from windtunnel.views.view import View

PRINTED: list[bool] = []
"""An entry for each JSON document that this command has printed."""
DETAIL: list[bool] = []
"""An entry where this command is to print all that it knows."""
_PATIENCE_S, _LINES_S = 1.0, 10.0
"""Seconds before anything is said, and between lines where standard error is no terminal."""
_THREAD = "windtunnel progress"
"""Name of the thread that draws; a process may be copied next to it (`planner.bounds.forked_screen.BYSTANDER`)."""


def print_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    _write_json(value, 2)


def print_json_line(value: Any) -> None:
    """Write a JSON document on one line, at once."""
    _write_json(value, None)
    sys.stdout.flush()


def _write_json(value: Any, indent: int | None) -> None:
    import json
    import re

    from windtunnel.training.results.serialise import plain

    escaped = "utf" not in str(sys.stdout.encoding).lower()
    text = json.dumps(plain(value), indent=indent, ensure_ascii=escaped, allow_nan=False)
    text = text if escaped else re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(text + "\n")
    PRINTED.append(True)


def console() -> Console:
    """Rich console on standard output. Piped output has the columns that `COLUMNS` says, else 120."""
    import os

    from windtunnel.cli.plain_console import PlainConsole

    told = os.environ.get("COLUMNS", "")
    width = max(int(told), 40) if told.isascii() and told.isdigit() and int(told[:5]) > 0 else 120
    return PlainConsole(None if sys.stdout.isatty() else min(width, 99_999))


def print_line(line: str) -> None:
    """One line on standard output, whatever names are in it."""
    from windtunnel.errors import printable

    sys.stdout.write(printable(line) + "\n")


def draw(view: View, report: Path | None = None, *, terminal: bool = True, everything: bool | None = None) -> None:
    """Draw what a command found: as a report where a file is named, and on the terminal.

    Args:
        view: what to draw.
        report: file of `--report`.
        terminal: whether to print.
        everything: whether to print also what `--verbose` asks for; None: where it was given.
    """
    if report is not None:
        from windtunnel.writers import html

        note(f"report  {html.write(view, report)}")
    if terminal:
        from windtunnel.writers.terminal import render

        console().print(render(view, everything=bool(DETAIL) if everything is None else everything))


def note(message: str) -> None:
    """One line on standard error."""
    from windtunnel.errors import printable

    sys.stderr.write(printable(message) + "\n")


def check_targets(*targets: Path | None, inputs: Sequence[str | Path | None] = ()) -> None:
    """Refuse to write over what is read, over a folder, or twice to one file. An older output may be replaced.

    Raises:
        BadInput: with every clash.
    """
    import os
    from pathlib import Path

    from windtunnel.errors import BadInput

    taken = {Path(os.path.realpath(name)): "is read here" for name in inputs if name is not None and str(name) != "-"}
    clashes = []
    for target in targets:
        if target is not None:
            where = Path(os.path.realpath(target))
            if where.is_dir():
                clashes.append(f"{target}: is a folder; name a file")
            elif where in taken:
                clashes.append(f"{target}: {taken[where]} and must not be overwritten; write to another file")
            taken[where] = "is written already"
    if clashes:
        raise BadInput("\n".join(clashes))


def check_new(output: Path | None, *, force: bool) -> None:
    """Refuse an output file that is there already, unless it may be overwritten, and a link.

    Raises:
        BadInput: with the reason.
    """
    from windtunnel.errors import BadInput

    if output is None or (output.exists() and not output.is_file()):  # a device, a pipe
        return
    if output.is_symlink():
        raise BadInput(f"{output}: is a link; name the file that it leads to")
    if output.exists() and not force:
        raise BadInput(f"{output}: exists already; --force overwrites it")


def write_references(target: Path, techniques: Sequence[str], lines: Sequence[str]) -> None:
    """BibTeX of what a run used, for `--cite`."""
    from windtunnel.techniques.described import bibtex

    write_text(target, bibtex(techniques, lines))
    note(f"references  {target}")


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a spinner with the elapsed time on standard error once the work has taken a second.

    Short work draws nothing and imports nothing. When standard error is not a terminal, a line every ten seconds.
    Ctrl-C leaves a line that says how far the work was.

    Yields:
        A function that long work may call with (done, total).
    """
    with _interruptible(what) as state:
        yield state.advance


@contextmanager
def listener(
    what: str,
    *,
    planned: Callable[[Any, tuple[str, ...]], None] = lambda *_: None,
    stops: bool = True,
) -> Iterator[Listener]:
    """Show how far a command is, as `progress` does, and a line for each decision that it takes.

    Args:
        what: the work.
        planned: called with the scenario and the settings that are predicted, once the plan stands.
        stops: say how far the work was where Ctrl-C ends it; a caller that says so itself does without.

    Yields:
        What the command reports to.
    """
    from windtunnel.cli.plan_progress import words
    from windtunnel.commands.base import Listener

    with (_interruptible if stops else _watched)(what) as state:

        def begin(source: Any, settings: tuple[str, ...]) -> None:
            state.clear()
            planned(source, settings)

        yield Listener(
            note=note,
            say=state.say,
            count=state.advance,
            searching=lambda progress: state.say(words(progress)),
            planned=begin,
        )


@contextmanager
def _interruptible(what: str) -> Iterator[_State]:
    from windtunnel.progress import stopped

    stopped()  # of earlier work whose interruption was dealt with
    try:
        with _watched(what) as state:
            yield state
    except KeyboardInterrupt as stop:
        if type(stop) is not KeyboardInterrupt:  # it says itself what stands
            raise
        far = stopped()
        words = f" after {far.done:,.0f} of {far.total:,.0f} {far.what}" if far else ""
        note(f"stopped while {what}{words}: figures stand only at the end, so there are none to show")
        raise


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Show how far work is, for work that says so in words.

    Yields:
        A function that long work may call with a few words.
    """
    with _watched(what) as state:
        yield state.say


@contextmanager
def _watched(what: str) -> Iterator[_State]:
    from windtunnel.progress import listening

    done, state = threading.Event(), _State()
    worker = threading.Thread(target=_watch, args=(what, done, state), daemon=True, name=_THREAD)
    worker.start()
    try:
        with listening(note):
            yield state
    finally:
        done.set()
        worker.join(timeout=2.0)


class _State:
    """How far the work is, as text."""

    text = ""
    begun: float | None = None
    """When the first count was noted, compiling left out."""
    counts: tuple[int, int] | None = None
    """Done, and how many there are."""
    ends: float | None = None
    """When all is done, as estimated at the last count."""

    def say(self, text: str) -> None:
        """Note how far the work is, in words."""
        self.text = f": {text}"

    def clear(self) -> None:
        """Forget what was noted: the next part of the work begins."""
        self.text, self.begun, self.counts, self.ends = "", None, None, None

    def advance(self, count: int, total: int) -> None:
        """Note that `count` of `total` is done."""
        from windtunnel.kernel_cache import compile_seconds

        now = time.monotonic()
        working = now - compile_seconds()
        self.begun = working if self.begun is None else self.begun
        self.counts = count, total
        self.ends = now + (working - self.begun) * (total - count) / count if count > 1 else None

    def words(self) -> str:
        """How far the work is, as it says itself or as what it calls does; the time that is left runs down."""
        from windtunnel.kernel_cache import compiling
        from windtunnel.progress import counted

        text = self.text
        if self.counts is not None:
            left = None if self.ends is None else self.ends - time.monotonic()
            text += f", {_how_far(*self.counts, left)}"
        if compiling():
            return f"{text}, compiling machine code, once on this machine"
        if (inner := counted()) is not None:
            text += f", {_how_far(inner.done, inner.total, inner.left_s, inner.what)}"
        return text


def _how_far(count: float, total: float, left_s: float | None, what: str = "") -> str:
    """Done, total and, once it can be estimated, the time that is left."""
    from windtunnel.progress import duration

    left = "" if left_s is None or left_s < 1 else f", about {duration(left_s)} left"
    return f"{count:,.0f} of {total:,.0f}{what and ' '}{what}{left}"


def _watch(what: str, done: threading.Event, state: _State) -> None:
    begin = time.monotonic()
    if done.wait(_PATIENCE_S):
        return
    if not sys.stderr.isatty():
        _watch_lines(what, begin, done, state)
        return
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    from windtunnel.cli.plain_console import PlainConsole

    spinner = Spinner("dots", text=what)
    with Live(spinner, console=PlainConsole(stderr=True), auto_refresh=False, transient=True) as live:
        while not done.wait(0.2):
            text = Text(f"{what}{state.words()}", no_wrap=True, overflow="ellipsis")
            spinner.update(text=text.append(f"  {time.monotonic() - begin:.0f} s", style="dim"))
            live.refresh()


def _watch_lines(what: str, begin: float, done: threading.Event, state: _State) -> None:
    """A line every ten seconds that has something new to say; one that says the same comes half as often each time."""
    told, silent = "", 0.0
    while not done.wait(_LINES_S):
        words, passed = state.words(), time.monotonic() - begin
        if words == told and passed < 2.0 * silent:
            continue
        told, silent = words, passed
        note(f"{what}{words}: {passed:.0f} s")
