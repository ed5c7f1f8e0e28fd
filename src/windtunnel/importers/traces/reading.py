"""What readers of traces share: opening, detection by the head, bad lines gathered, times in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.files import reading as files
from windtunnel.files.parsing import json_of
from windtunnel.importers.traces.record import RequestTrace

MAX_BAD_LINES = 20
MAX_TOKENS = 10**9
HEAD_CHARACTERS = 1 << 16
CHARACTERS_PER_TOKEN = 4.0
UNITS_S = {"s": 1.0, "ms": 1e-3}
BUSIEST_PER_S, CALMEST_PER_S = 1000.0, 1e-3
"""Mean request rates outside of which a time unit is asked for: a trace read in the wrong one is off by 1000."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user says about a trace. Absent: what its format says."""

    time_unit: Literal["s", "ms"] | None = None
    block_size: int | None = None
    characters_per_token: float | None = None
    asks: str = "serving.traffic.trace_{}"
    """How a message names an option; `--{}` on the command line."""

    def name(self, option: str) -> str:
        """An option as the user writes it."""
        name = self.asks.format(option)
        return name.replace("_", "-") if name.startswith("--") else name


@dataclass(frozen=True)
class Head:
    """The beginning of a file, for telling formats apart."""

    text: str

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names in the first line, read as CSV, in small letters."""
        return frozenset(name.strip().strip('"').casefold() for name in self.text.partition("\n")[0].split(","))

    @cached_property
    def record(self) -> dict[str, Any]:
        """The first line where it is a JSON object; else empty."""
        for line in self.text.splitlines():
            if line.strip():
                try:
                    data = json_of(line)
                except ValueError:
                    return {}
                return data if isinstance(data, dict) else {}
        return {}

    def opens(self, bracket: str, *keys: str) -> bool:
        """Whether it starts as a JSON object or array and names all these keys."""
        return self.text.lstrip().startswith(bracket) and all(f'"{key}"' in self.text for key in keys)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One format: how it is recognised and read."""

    title: str
    detect: Callable[[Head], bool]
    read: Callable[[Source], RequestTrace]


@dataclass(slots=True, kw_only=True)
class Source:
    """A trace file that is being read, and what is wrong with it."""

    path: Path
    format: str
    options: Options = field(default_factory=Options)
    problems: list[Problem] = field(default_factory=list)
    more: int = 0
    assumed: list[tuple[str, Any, str]] = field(default_factory=list)
    left_out: list[tuple[int, str]] = field(default_factory=list)

    # -- what is wrong -------------------------------------------------------------------------------------------------
    def bad(self, line: int | None, field: str, rule: str, value: Any = UNSET) -> None:
        """Note a line that cannot be used; those beyond a screenful are counted."""
        if len(self.problems) < MAX_BAD_LINES:
            self.problems.append(Problem(field, rule, value, file=str(self.path), line=line))
        else:
            self.more += 1

    def check(self) -> None:
        """Stop when lines are bad.

        Raises:
            BadInput: all of them.
        """
        if self.more:
            self.problems.append(Problem("", f"and {self.more} more like these", file=str(self.path)))
        if self.problems:
            raise BadInput(self.problems)

    def ask(self, option: str, rule: str, value: Any = UNSET) -> BadInput:
        """The one line that asks for what the file does not say, after the lines that are bad anyway."""
        asked = Problem(self.options.name(option), rule, value, file=str(self.path))
        return BadInput([*self.problems, asked])

    # -- fields --------------------------------------------------------------------------------------------------------
    def count(self, line: int | None, field: str, value: Any, least: int = 0) -> int:
        """A whole number of tokens; `least` where it is none, with the line noted."""
        whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if whole and value == int(value) and least <= value <= MAX_TOKENS:
            return int(value)
        self.bad(line, field, *_wrong(value, f"must be a whole number from {least} to {MAX_TOKENS}"))
        return least

    def number(self, line: int | None, field: str, value: Any) -> float:
        """A finite number; 0 where it is none, with the line noted."""
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        self.bad(line, field, *_wrong(value, "must be a number"))
        return 0.0

    def name(self, line: int | None, field: str, value: Any) -> str | int | None:
        """A name or number that tells things apart; None where there is none, wrong ones noted."""
        if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
            return value
        self.bad(line, field, "must be a name or a whole number", value)
        return None

    def tokens(self, text: str) -> int:
        """Tokens of a text without a tokeniser, at least one."""
        each = self.options.characters_per_token or CHARACTERS_PER_TOKEN
        return max(1, math.ceil(len(text) / each))

    def assume_characters(self) -> None:
        """Say what texts were divided by."""
        each = self.options.characters_per_token
        why = "the trace holds text; counted by characters, not by a tokeniser"
        if each is None:
            why += " (about 4 in English; other languages and code differ)"
        self.assumed.append((self.options.name("characters_per_token"), each or CHARACTERS_PER_TOKEN, why))

    def drop(self, count: int, why: str) -> None:
        """Requests that are not in the result."""
        if count:
            self.left_out.append((int(count), why))

    # -- reading -------------------------------------------------------------------------------------------------------
    def open(self) -> IO[str]:
        """The file as text."""
        return opened(self.path)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """JSON objects, one a line, with their lines; what is none is noted."""
        with self.open() as stream:
            for line, text in enumerate(stream, 1):
                if not text.strip():
                    continue
                try:
                    data = json_of(text)
                except ValueError as error:
                    self.bad(line, "", f"is not valid JSON: {error}", text.strip())
                    continue
                if isinstance(data, dict):
                    yield line, data
                else:
                    self.bad(line, "", "must be a JSON object", data)

    def document(self) -> Any:
        """The whole file as JSON."""
        with self.open() as stream:
            try:
                return json_of(stream.read())
            except ValueError as error:
                rule = f"is not valid JSON: {getattr(error, 'msg', error)}"
                line = getattr(error, "lineno", None)
                raise BadInput(Problem("", rule, file=str(self.path), line=line)) from None

    # -- times ---------------------------------------------------------------------------------------------------------
    def seconds(self, times: Floats, own: Literal["s", "ms"] | None, column: str, *, sure: bool = False) -> Floats:
        """Times as recorded → seconds since the first.

        Args:
            times: (R,) as in the file.
            own: unit of the format; None where it has none.
            column: name of the times, for messages.
            sure: the file itself names the unit, so that odd rates are no doubt.

        Raises:
            BadInput: the unit cannot be determined; asks for it in one line.
        """
        unit = self.options.time_unit or own
        if self.options.time_unit is None and not sure:
            doubt = self._doubt(times, own, column)
            if doubt:
                raise self.ask("time_unit", f"is required, s or ms: {doubt}")
        assert unit is not None
        first = times.min(initial=np.inf)
        since: Floats = (times - (first if len(times) else 0.0)) * UNITS_S[unit]
        self._coarse(since)
        return since

    def _doubt(self, times: Floats, own: Literal["s", "ms"] | None, column: str) -> str:
        if own is None:
            return f"{column} holds plain numbers"
        if own == "ms" and (fraction := times[times != np.floor(times)]).size:
            return f"{column} holds {fraction[0]:g}, and whole milliseconds are this format's"
        span = float(np.ptp(times)) if len(times) >= 10 else 0.0
        if span == 0:
            return ""
        rates = {unit: (len(times) - 1) / (span * UNITS_S[unit]) for unit in ("ms", "s")}
        if CALMEST_PER_S <= rates[own] <= BUSIEST_PER_S:
            return ""
        return f"{column} gives {rates['s']:.3g} requests/s in s and {rates['ms']:.3g} in ms, this format's {own}"

    def _coarse(self, since: Floats) -> None:
        """Say so when many requests share a time."""
        distinct = np.unique(since)
        if len(since) >= 10 and len(distinct) < 0.8 * len(since):
            step = float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0
            why = f"times have steps of {step:g} s; requests of one step arrive together, as in the file"
            self.assumed.append(("arrival_s", "as recorded", why))


def opened(path: Path) -> IO[str]:
    """A text file, or one compressed by gzip.

    Raises:
        BadInput: it cannot be opened.
    """
    try:
        return files.open_text(path)
    except OSError as error:
        raise BadInput(Problem("", f"cannot be read: {error.strerror or error}", file=str(path))) from None


def head_of(path: Path) -> Head:
    """The first characters of a file."""
    with opened(path) as stream:
        try:
            return Head(stream.read(HEAD_CHARACTERS))
        except (UnicodeDecodeError, EOFError, OSError):
            raise BadInput(Problem("", "must be UTF-8 text", file=str(path))) from None


def _wrong(value: Any, rule: str) -> tuple[str, Any]:
    return (f"is missing; {rule}", UNSET) if value is None else (rule, value)
