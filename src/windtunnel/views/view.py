"""The record that every writer draws: texts with their tone, tables, charts as functions. It knows no medium."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from windtunnel.charts.chart import Chart, Panels

Tone = Literal["", "good", "bad", "warn", "dim", "accent"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is more than its characters. A plain `str` stands wherever nothing of this is needed."""

    text: str
    tone: Tone = ""
    strong: bool = False
    code: bool = False
    """Whether it is something to type."""
    share: float | None = None
    """Length of a bar that stands before the text, from 0 to 1."""
    start: float = 0.0
    """Where the bar begins, from 0 to 1: bars of a column share one scale."""
    colour: str = ""
    """Colour of the bar, or of a swatch before the text, as on a light page (`#rrggbb`)."""
    spark: tuple[float, ...] = ()
    """Values over time that are drawn as a small line before the text."""
    path: str = ""
    """Dotted path of the value in the result's JSON: the studio explains it from there."""


Words = str | Text


def plain(words: Words) -> str:
    """The characters alone.

    Example:
        >>> plain("fits"), plain(Text("fits", "good"))
        ('fits', 'fits')
    """
    return words if isinstance(words, str) else words.text


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a gauge."""

    share: float
    """Of the gauge's whole length."""
    colour: str
    words: str


@dataclass(frozen=True, slots=True)
class Gauge:
    """Parts of a whole as one bar, with a limit."""

    parts: tuple[Part, ...]
    limit: float
    """Share of the length at which a line stands."""


@dataclass(frozen=True, slots=True)
class Band:
    """A value inside its interval, and where somebody measured it, that range."""

    low: float
    value: float
    high: float
    measured: tuple[float, float] | None = None
    words: str = ""
    """What the measured range is."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the figures that a reader wants first: a large box on a page, a line on the terminal."""

    name: str
    value: Words
    notes: tuple[Words, ...] = ()
    """Lines below the value, or after it on the terminal."""
    unit: str = ""
    """Small words after the value: `mean`, `of 80.00 GiB`."""
    drawing: Gauge | Band | None = None
    """On pages, between value and notes."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that does not need a tile: its name, its value and what to know about it."""

    name: str
    value: Words
    note: Words = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str = ""
    numeric: bool = False
    """Whether it stands to the right and never breaks inside a cell."""
    drop: int = 0
    """Which columns a narrow terminal leaves out: the highest number first, 0 never."""
    tone: Tone = ""
    whole: bool = False
    """Whether a cell never breaks, as those of numbers: an id, a name."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts. A narrow terminal drops columns, then shows several tables, before it breaks a word."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Words, ...], ...]
    totals: int = 0
    """How many of the last rows stand below a line."""
    most: int = 0
    """How many rows the terminal prints, the first two thirds and the last; 0: all."""

    @property
    def headed(self) -> bool:
        """Whether any column has a name."""
        return any(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, each on a line of its own."""

    lines: tuple[Words, ...]
    marked: bool = False
    """Whether they are items of a list."""


@dataclass(frozen=True, slots=True)
class Code:
    """Text whose lines stay as they are: a scenario, a command, characters that draw."""

    text: str
    summary: str = ""
    """On a page the text opens behind these words; without them it stands open."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart, built only by writers that draw charts."""

    draw: Callable[[], Chart | Panels]
    size: str = "full"
    """Place on the page, a key of `windtunnel.charts.chart.SIZES`."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Tasks of a step on their devices, for the canvas of a page."""

    meta: dict[str, Any]
    data: str
    """Times of the tasks, packed as the page's script reads them."""
    colours: tuple[tuple[str, str], ...]
    """Kind of task → colour."""
    stages: int


Block = Table | Lines | Code | Drawing | Timeline


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part."""

    title: str
    blocks: tuple[Block, ...]
    hint: str = ""
    """What the title cannot say: of what, in which unit."""
    pages_only: bool = False
    """Whether the terminal leaves it out."""
    beside: bool = False
    """Whether a wide page shows it to the right of the section before."""
    anchor: str = ""
    """Name by which a page's address points at it."""
    closing: bool = False
    """Whether it ends what the terminal prints, after the assumptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a result shows, in the order in which it is read."""

    title: str
    aside: str = ""
    """After the title: how long it took, with which release."""
    lead: tuple[Words, ...] = ()
    """What was computed: model, cluster, traffic, plan."""
    verdict: Text | None = None
    """The answer, where the command gives one: whether it fits, whether a queue grows without end."""
    tiles: tuple[Tile, ...] = ()
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
    assumed: tuple[tuple[str, str, str], ...] = ()
    """What the scenario leaves open: field, value, why."""
    citations: tuple[str, ...] = ()
    """Sources of the methods that were used."""
    origin: tuple[str, ...] = ()
    """What identifies the result at the foot of a page: release, hash of the input, basis of the interval."""

    @property
    def assumptions(self) -> Section | None:
        """What was assumed, as a section; None where nothing was."""
        if not self.assumed:
            return None
        rows = [(Text(field, code=True), Text(value, "accent"), Text(why, "dim")) for field, value, why in self.assumed]
        return Section("Assumed", (table(("", "", ""), rows),), "what the scenario leaves open")

    @property
    def methods(self) -> Section | None:
        """The sources as a section; None without any."""
        if not self.citations:
            return None
        return Section("Methods used", (Lines(tuple(Text(line, "dim") for line in self.citations)),))


def columns(*names: str, numeric: Iterable[int] = (), drop: Sequence[int] = ()) -> tuple[Column, ...]:
    """Columns by their names.

    Args:
        names: in order; empty for a column without a head.
        numeric: places of those that hold numbers; negative places count from the end.
        drop: places of those that a narrow terminal may leave out, the first one first.
    """
    numbers = {place % len(names) for place in numeric}
    order = {place % len(names): len(drop) - at for at, place in enumerate(drop)}
    return tuple(Column(name, at in numbers, order.get(at, 0)) for at, name in enumerate(names))


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Words]], *, numeric: Iterable[int] = (), drop: Sequence[int] = ()
) -> Table:
    """A table from its heads and rows; `numeric` and `drop` as in `columns`."""
    return Table(columns(*heads, numeric=numeric, drop=drop), tuple(tuple(row) for row in rows))


def pairs(rows: Iterable[tuple[Words, ...]]) -> Table:
    """Names and values without heads."""
    kept = tuple(tuple(row) for row in rows)
    most = max((len(row) for row in kept), default=2)
    return Table((Column(tone="dim"), *(Column() for _ in range(most - 1))), kept)


def sections(*found: Section | None) -> tuple[Section, ...]:
    """The sections that have something to show."""
    return tuple(one for one in found if one is not None and any(map(_shows, one.blocks)))


def _shows(block: Block) -> bool:
    match block:
        case Table():
            return bool(block.rows)
        case Lines():
            return bool(block.lines)
        case Code():
            return bool(block.text)
    return True


def chart(
    title: str, draw: Callable[[], Chart | Panels], hint: str = "", size: str = "full", *, beside: bool = False
) -> Section:
    """A chart for pages, alone in its section."""
    return Section(title, (Drawing(draw, size),), hint, pages_only=True, beside=beside)


def sources(lines: Iterable[str], title: str = "Sources") -> Section:
    """A list of where things come from, for pages."""
    return Section(title, (Lines(tuple(lines), marked=True),), pages_only=True)


def dim(*lines: str) -> Lines:
    """Sentences beside the figures."""
    return Lines(tuple(Text(line, "dim") for line in lines))
