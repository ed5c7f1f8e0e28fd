"""A view on the terminal, as something `rich` prints; at 80 columns it drops columns before it breaks words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Styled

from windtunnel.views import view as v

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

STYLES = {"": "", "good": "green", "bad": "bold red", "warn": "yellow", "dim": "dim", "accent": "cyan"}
_BAR, _INDENT = 28, 2
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASSUMED, _DETAIL = "Assumed  ", "; -v says why"
_LONGEST_WORD = 24
"""Characters of a word beyond which a column may break it: an address, a path."""


def render(view: v.View, *, everything: bool = True) -> RenderableType:
    """What the view says.

    Args:
        view: what to print.
        everything: assumptions and sources a line each, and columns beyond the width as tables of their own; else
            assumptions and sources in one line, and tables without the columns that the width has no room for.
    """
    head = Styled(view.title, style="bold")
    if view.aside:
        head.append(f"   {view.aside}", style="dim not bold")
    parts: list[RenderableType] = [head, *(styled(line) for line in view.lead)]
    if view.verdict is not None:
        parts += [Styled(), styled(view.verdict)]
    if view.warnings:
        parts += [Styled(), *(Styled(f"warning: {line}", style="yellow") for line in view.warnings)]
    if view.tiles or view.facts:
        parts += [Styled(), _figures(view)]
    closing = [section for section in view.sections if section.closing]
    others = (section for section in view.sections if not section.closing)
    for section in (*others, *((view.assumptions, view.methods) if everything else ())):
        if section is not None and not section.pages_only:
            parts += _section(section, everything=everything)
    if not everything and (view.assumed or view.citations):
        parts += [Styled(), _InOneLine(view)]
    for section in closing:
        parts += _section(section, everything=everything)
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _InOneLine:
    """What was assumed, as many values as a line holds, and how many sources there are."""

    view: v.View

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line."""
        values = [f"{field.rsplit('.', 1)[-1]} {value}" for field, value, _ in self.view.assumed]
        sources = len(self.view.citations)
        cited = f"{sources} source{'' if sources == 1 else 's'}" if sources else ""
        for shown in range(len(values), -1, -1):
            left = f"{len(values) - shown} more" if shown and shown < len(values) else ""
            left = left or (f"{len(values)} values" if values and not shown else "")
            told = ", ".join([*values[:shown], *filter(None, (left, cited))])
            if len(told) + len(_ASSUMED) + len(_DETAIL) <= options.max_width:
                break
        yield Styled.assemble((_ASSUMED, "bold"), told, (_DETAIL, "dim"), no_wrap=True, overflow="ellipsis")


def styled(words: v.Words, style: str = "") -> Styled:
    """A text with its tone, its bar or small line before it."""
    if isinstance(words, str):
        return Styled(words, style=style)
    own = STYLES[words.tone] or style
    out = Styled(style="bold" if words.strong else "")
    if words.share is not None:
        out.append(" " * round(words.start * _BAR) + bar(words.share), style=words.colour or own)
    if words.spark:
        out.append(spark(words.spark), style=words.colour or own)
    drawn = len(out) and words.text
    out.append(f"  {words.text}" if drawn else words.text, style="dim" if words.spark else own)
    return out


def bar(share: float, width: int = _BAR) -> str:
    """A bar of eighths of a character. `share` of the width, 0 to 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def spark(values: Sequence[float]) -> str:
    """Values as bars of eight heights, from zero to the largest.

    Example:
        >>> spark((0.0, 1.0, 4.0))
        '▁▂█'
    """
    most = max(values, default=0.0)
    if most <= 0:
        return _HEIGHTS[0] * len(values)
    return "".join(_HEIGHTS[min(int(value / most * 7.999), 7)] for value in values)


def _figures(view: v.View) -> RenderableType:
    """Tiles, then facts, in one grid: name, value, notes."""
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    rows: list[tuple[Styled, Styled, Styled]] = []
    for tile in view.tiles:
        value = styled(tile.value, "cyan")
        value.stylize("bold")
        value.append(f" {tile.unit}" if tile.unit else "", style="bold cyan")
        rows.append((Styled(tile.name, style="bold"), value, Styled("\n").join(styled(note) for note in tile.notes)))
    rows += [(Styled(fact.name, style="bold"), styled(fact.value), styled(fact.note)) for fact in view.facts]
    grid.add_column(no_wrap=True)
    three = any(note.plain for _, _, note in rows)
    short = [value for _, value, note in rows if note.plain]
    if not three:
        grid.add_column(overflow="fold")
        for name, value, _ in rows:
            grid.add_row(name, value)
        return grid
    wide = max(len(line) for value in short for line in value.plain.split("\n"))
    return _Facts(tuple(rows), wide)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Names, values and notes; a value longer than the others takes the room of the notes too."""

    rows: tuple[tuple[Styled, Styled, Styled], ...]
    wide: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rows of three cells, or of two where there is no note."""
        first = max(len(name.plain) for name, _, _ in self.rows) + 2
        for name, value, note in self.rows:
            grid = Grid(box=None, show_header=False, padding=0, pad_edge=False)
            grid.add_column(width=first)
            if note.plain:
                grid.add_column(width=min(self.wide, max(options.max_width - first - 20, 10)) + 2, overflow="fold")
                grid.add_column(overflow="fold")
                grid.add_row(name, value, note)
            else:
                grid.add_column(overflow="fold")
                grid.add_row(name, value)
            yield grid


def _section(section: v.Section, *, everything: bool) -> list[RenderableType]:
    blocks = [drawn for block in section.blocks if (drawn := _block(block, everything=everything)) is not None]
    if not blocks:
        return []
    title = Styled(f"\n{section.title}" if section.title else "", style="bold")
    if section.hint:
        title.append(f"  {section.hint}", style="dim not bold")
    indent = _INDENT if section.title else 0
    return [title, *(Padding(block, (0, 0, 0, indent), expand=False) for block in blocks)]


def _block(block: v.Block, *, everything: bool) -> RenderableType | None:
    match block:
        case v.Table():
            return _Rows(block, everything) if block.rows else None
        case v.Lines():
            return _lines(block) if block.lines else None
        case v.Code():
            return Styled(block.text, no_wrap=True)
    return None


def _lines(block: v.Lines) -> RenderableType:
    if not block.marked:
        return Group(*map(styled, block.lines))
    items = Grid(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for line in block.lines:
        items.add_row("•", styled(line))
    return items


def table_of(table: v.Table) -> RenderableType:
    """A table outside of a view, of a command that lists entries."""
    return _Rows(table, everything=False, more="a wider terminal")


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table that fits its room: it drops columns, or with `everything` splits, then breaks texts between words."""

    table: v.Table
    everything: bool = True
    more: str = "-v, or a wider terminal"
    """Where columns are that have no room."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One grid, or several below each other, each with the first column in front."""
        own = _shortened(self.table)
        cells = [
            [styled(row[at], STYLES[c.tone]) if at < len(row) else Styled() for row in own.rows]
            for at, c in enumerate(own.columns)
        ]
        least = [_least(own, at, texts) for at, texts in enumerate(cells)]
        wish = [max((_longest(text.plain) for text in texts), default=0) for texts in cells]
        wish = [max(size, len(column.name)) for size, column in zip(wish, own.columns, strict=True)]
        gap = 3 if own.headed or own.totals else 2
        kept = self._kept(least, gap, options.max_width)
        groups = list(_groups(kept, least, gap, options.max_width))
        shown = {at for group in (groups if self.everything else groups[:1]) for at in group}
        left = [column.name for at, column in enumerate(own.columns) if at not in shown and column.name]
        if not left and len(groups) > 1:  # what has no name to be left out by
            shown = {at for group in groups for at in group}
        for group in (group for group in groups if shown.issuperset(group)):
            widths = _shared(
                [least[at] for at in group], [wish[at] for at in group], options.max_width - gap * (len(group) - 1)
            )
            yield _grid(own, group, widths, cells)
        if left:
            yield Styled(f"no room for {', '.join(left)}: {self.more}", style="dim")

    def _kept(self, least: Sequence[int], gap: int, room: int) -> list[int]:
        """Columns that a terminal of this width shows."""
        columns = self.table.columns
        kept, dropped = list(range(len(least))), []

        def fits(places: Sequence[int]) -> bool:
            return sum(least[at] + gap for at in places) - gap <= room

        while not fits(kept):
            droppable = [at for at in kept if columns[at].drop and not (self.everything and columns[at].name)]
            if not droppable:
                break
            dropped.append(max(droppable, key=lambda at: columns[at].drop))
            kept.remove(dropped[-1])
        for at in reversed(dropped):  # a wide column went, and narrow ones before it have room again
            if fits([*kept, at]):
                kept = sorted([*kept, at])
        return kept


def _shortened(table: v.Table) -> v.Table:
    """The table with its first and its last rows, where the terminal prints only so many."""
    if not table.most or len(table.rows) <= table.most:
        return table
    last = table.most // 3
    gap = tuple("…" for _ in table.columns)
    return replace(table, rows=(*table.rows[: table.most - last], gap, *table.rows[len(table.rows) - last :]))


def _grid(own: v.Table, group: Sequence[int], widths: Sequence[int], cells: Sequence[Sequence[Styled]]) -> Grid:
    lines = box.SIMPLE if own.totals else box.SIMPLE_HEAD if own.headed else None
    grid = Grid(
        box=lines, show_header=own.headed, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim"
    )
    for at, width in zip(group, widths, strict=True):
        side: Literal["left", "right"] = "right" if own.columns[at].numeric else "left"
        grid.add_column(own.columns[at].name, justify=side, width=max(width, 1), overflow="fold")
    for row in range(len(own.rows)):
        if own.totals and row == len(own.rows) - own.totals:
            grid.add_section()
        grid.add_row(*(cells[at][row] for at in group))
    return grid


def _longest(text: str) -> int:
    return max(map(len, text.split("\n")))


def _least(table: v.Table, at: int, texts: Sequence[Styled]) -> int:
    """Narrowest width of a column that breaks nothing: numbers and bars stay whole, other texts break between words."""
    column, cells = table.columns[at], [row[at] for row in table.rows if at < len(row)]
    whole = column.numeric or column.whole or any(isinstance(cell, v.Text) and cell.share is not None for cell in cells)
    split = r"\n" if whole else r"\s+"
    longest = max((len(word) for text in texts for word in re.split(split, text.plain)), default=0)
    head = max(map(len, column.name.split()), default=0)
    return max(head, longest if whole else min(longest, _LONGEST_WORD))


def _groups(kept: Sequence[int], least: Sequence[int], gap: int, room: int) -> Iterator[list[int]]:
    """Columns of each table; more than one where the room is too narrow for whole words."""
    group = list(kept[:1])
    for at in kept[1:]:
        if len(group) > 1 and sum(least[i] + gap for i in [*group, at]) - gap > room:
            yield group
            group = list(kept[:1])
        group.append(at)
    yield group


def _shared(least: Sequence[int], wish: Sequence[int], room: int) -> list[int]:
    """Widths between least and wish that fill the room: names in front first, up to half of it, then small wishes."""
    out = list(least)
    if len(wish) > 1 and sum(wish) > room:
        wish = [max(min(wish[0], room // 2), least[0]), *wish[1:]]
    spare = max(room - sum(out), 0)
    order = sorted(range(len(out)), key=lambda at: (at > 0, wish[at] - least[at]))
    for place, at in enumerate(order):
        more = min(wish[at] - out[at], spare // (len(order) - place) if place else spare)
        out[at] += max(more, 0)
        spare -= max(more, 0)
    return out
