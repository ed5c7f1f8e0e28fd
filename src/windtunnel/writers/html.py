"""A view as one HTML file that needs nothing else: all inside, nothing fetched. Every text is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from windtunnel.charts import page
from windtunnel.charts.colours import css_variable
from windtunnel.files.writing import write_text
from windtunnel.views import view as v

_LONG = 60
"""Characters of a cell from which a table of many columns stands cell below cell on a phone."""
_MANY = 4
_PAIRS = 12


def write(view: v.View, path: str | Path) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    write_text(target, render(view))
    return target


def render(view: v.View) -> str:
    """The whole document, light or dark as the reader's system."""
    body = [_head(view), _warnings(view.warnings), _tiles(view.tiles), _facts(view.facts)]
    body += _rows(v.sections(*view.sections, view.assumptions, view.methods))
    if view.origin:
        body.append(f"<footer>{' · '.join(map(escape, view.origin))}</footer>")
    timed = any(isinstance(block, v.Timeline) for section in view.sections for block in section.blocks)
    return page.document(view.title, body, style=_asset("report.css"), script=_asset("timeline.js") if timed else "")


def texted(words: v.Words) -> str:
    """A text as HTML, with its bar, swatch or small line before it."""
    if isinstance(words, str):
        return _lined(words)
    tag = "code" if words.code else "b" if words.strong else ""
    text = f"<{tag}>{_lined(words.text)}</{tag}>" if tag else _lined(words.text)
    if words.tone:
        text = f'<span class="t-{words.tone}">{text}</span>'
    if words.share is not None:
        tint = f";background:{css_variable(words.colour)}" if words.colour else ""
        place = f"left:{100 * words.start:.1f}%;width:{100 * min(max(words.share, 0.0), 1.0):.1f}%"
        return f'<div class="minibar"><i style="{place}{tint}"></i></div>{text}'
    if words.spark:
        return f"{_spark(words)}{text}"
    if words.colour:
        return f'<span class="swatch" style="background:{css_variable(words.colour)}"></span>{text}'
    return text


def _lined(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _asset(name: str) -> str:
    return files("windtunnel.writers").joinpath("assets", name).read_text(encoding="utf-8")


def _head(view: v.View) -> str:
    aside = f'<p class="sub">{escape(view.aside)}</p>' if view.aside else ""
    lead = "<br>".join(texted(line) for line in view.lead)
    verdict = ""
    if view.verdict is not None:
        kind = {"bad": " stop", "warn": " warn"}.get(view.verdict.tone, "")
        verdict = f'<div class="card{kind}"><b>{texted(view.verdict)}</b></div>'
    return f'<header><h1>{escape(view.title)}</h1><p class="sub">{lead}</p>{aside}</header>{verdict}'


def _tiles(tiles: Sequence[v.Tile]) -> str:
    return f'<div class="tiles">{"".join(map(_tile, tiles))}</div>' if tiles else ""


def _tile(tile: v.Tile) -> str:
    unit = f"<small> {escape(tile.unit)}</small>" if tile.unit else ""
    notes = "<br>".join(texted(note) for note in tile.notes)
    drawing = ""
    if isinstance(tile.drawing, v.Gauge):
        drawing = _gauge(tile.drawing)
    elif tile.drawing is not None:
        drawing = _band(tile.drawing)
    value = f'<div class="value">{texted(tile.value)}{unit}</div>'
    name = f'<div class="label">{escape(tile.name)}</div>'
    return f'<div class="tile">{name}{value}{drawing}<div class="note">{notes}</div></div>'


def _gauge(gauge: v.Gauge) -> str:
    parts = "".join(
        f'<i style="width:{100 * part.share:.2f}%;background:{css_variable(part.colour)}" '
        f'title="{escape(part.words)}"></i>'
        for part in gauge.parts
    )
    limit = f'<span class="limit" style="left:calc({100 * min(gauge.limit, 1.0):.2f}% - 2px)"></span>'
    return f'<div class="gauge">{parts}{limit}</div>'


def _band(band: v.Band) -> str:
    """The interval as a line, the value as a mark on it, what was measured behind it."""
    points = [band.low, band.high, band.value, *(band.measured or ())]
    low, high = min(points), max(points)
    pad = 0.08 * (high - low) or 1.0

    def x(value: float) -> float:
        return float(round(10 + 380 * (value - low + pad) / (high - low + 2 * pad), 1))

    mark = ""
    if band.measured is not None:
        a, b = map(x, band.measured)
        mark = (
            f'<rect x="{a - 1.5}" y="4" width="{max(b - a, 0) + 3}" height="24" fill="#e0a100" opacity=".85" rx="1.5">'
            f"<title>{escape(band.words)}</title></rect>"
        )
    return (
        '<svg viewBox="0 0 400 34" preserveAspectRatio="none" role="img" aria-label="the prediction in its interval">'
        '<line x1="0" x2="400" y1="16" y2="16" stroke="var(--line)" stroke-width="2"/>'
        f'<rect x="{x(band.low)}" y="11" width="{x(band.high) - x(band.low):.1f}" height="10" rx="5" '
        f'fill="{css_variable("#90b8e0")}"/>'
        f'{mark}<rect x="{x(band.value) - 2}" y="7" width="4" height="18" rx="2" fill="var(--accent)"/></svg>'
    )


def _spark(words: v.Text) -> str:
    most = max(words.spark) or 1.0
    last = max(len(words.spark) - 1, 1)
    points = " ".join(f"{100 * at / last:.1f},{20 - 19 * value / most:.1f}" for at, value in enumerate(words.spark))
    stroke = css_variable(words.colour) if words.colour else "var(--accent)"
    looks = f'fill="none" stroke="{stroke}" stroke-width="1.5" vector-effect="non-scaling-stroke"'
    line = f'<polyline points="{points}" {looks}/>'
    return f'<svg class="spark" viewBox="0 0 100 21" preserveAspectRatio="none" aria-hidden="true">{line}</svg>'


def _facts(facts: Sequence[v.Fact]) -> str:
    rows = tuple((fact.name, fact.value, fact.note) if fact.note else (fact.name, fact.value) for fact in facts)
    return f'<div class="card">{_table(v.pairs(rows))}</div>' if rows else ""


def _warnings(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_lined(line)}</li>" for line in lines)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>' if items else ""


def _rows(sections: Sequence[v.Section]) -> list[str]:
    """Sections, those that stand side by side in a row together."""
    starts = [at for at, section in enumerate(sections) if not section.beside or at == 0]
    numbered = [(sum(start <= at for start in starts), section) for at, section in enumerate(sections)]
    out = []
    for _, found in groupby(numbered, key=lambda pair: pair[0]):
        cards = "".join(_section(section) for _, section in found)
        out.append(f'<div class="row two">{cards}</div>' if cards.count('<section class="card"') > 1 else cards)
    return out


def _section(section: v.Section) -> str:
    content = "".join(_block(block) for block in section.blocks)
    if not content:
        return ""
    hint = f'<p class="hint">{escape(section.hint)}</p>' if section.hint else ""
    head = f'<div class="head"><h2>{escape(section.title)}</h2>{hint}</div>' if section.title or hint else ""
    anchor = f' id="{escape(section.anchor)}"' if section.anchor else ""
    return f'<section class="card"{anchor}>{head}{content}</section>'


def _block(block: v.Block) -> str:
    match block:
        case v.Table():
            return _table(block) if block.rows else ""
        case v.Lines():
            tags = ("<ul>", "li", "</ul>") if block.marked else ("", "p", "")
            items = "".join(f"<{tags[1]}>{texted(line)}</{tags[1]}>" for line in block.lines)
            return f"{tags[0]}{items}{tags[2]}" if items else ""
        case v.Code():
            shown = f"<pre>{escape(block.text)}</pre>"
            return f"<details><summary>{escape(block.summary)}</summary>{shown}</details>" if block.summary else shown
        case v.Drawing():
            return block.draw().html(block.size)
        case v.Timeline():
            return _timeline(block)


def _table(table: v.Table) -> str:
    """A table that scrolls inside its card where the screen is narrower; many pairs stand in columns."""
    if not table.headed and len(table.columns) == 2 and len(table.rows) > _PAIRS:
        terms = "".join(f"<div><dt>{texted(name)}</dt><dd>{texted(value)}</dd></div>" for name, value in table.rows)
        return f'<dl class="plan">{terms}</dl>'
    first = len(table.rows) - table.totals
    names = [column.name for column in table.columns]
    kinds = [" n" if column.numeric else "" for column in table.columns]

    def row(at: int, cells: Sequence[v.Words]) -> str:
        above = " total" if at >= first else ""
        parts = []
        for place, cell in enumerate(cells):
            span = f' colspan="{len(names) - place}"' if place == len(cells) - 1 and len(cells) < len(names) else ""
            label = f' data-label="{escape(names[place])}: "' if names[place] else ""
            tone = f" t-{table.columns[place].tone}" if table.columns[place].tone else ""
            parts.append(f'<td class="{(kinds[place] + above + tone).strip()}"{span}{label}>{texted(cell)}</td>')
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(row(at, cells) for at, cells in enumerate(table.rows))
    heads = "".join(
        f'<th scope="col" class="{kind.strip()}">{escape(name)}</th>' for name, kind in zip(names, kinds, strict=True)
    )
    head = f"<thead><tr>{heads}</tr></thead>" if table.headed else ""
    long = any(len(v.plain(cell)) > _LONG for cells in table.rows for cell in cells)
    stacked = ' class="stacked"' if long and len(names) >= _MANY else ""
    return f'<div class="wide" tabindex="0"><table{stacked}>{head}<tbody>{body}</tbody></table></div>'


def _timeline(timeline: v.Timeline) -> str:
    views = (("whole step", "[0,1]"), ("start", "[0,0.06]"), ("middle", "[0.47,0.53]"), ("end", "[0.94,1]"))
    buttons = "".join(f'<button data-view="{ends}">{name}</button>' for name, ends in views)
    kinds = [*((name, css_variable(colour)) for name, colour in timeline.colours), ("idle", "var(--soft)")]
    legend = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in kinds)
    meta = json.dumps(timeline.meta).replace("<", "\\u003c")
    return (
        f'<span class="buttons">{buttons}</span>'
        f'<div id="timeline"><canvas class="strip" role="img" aria-label="timeline of {timeline.stages} stages">'
        "</canvas>"
        '<canvas class="window" tabindex="0" role="img" aria-label="window of the timeline; arrow keys pan, plus and '
        'minus zoom"></canvas><div class="tip"></div></div>'
        f'<div class="legend">{legend}</div>'
        f'<script type="application/json" id="timeline-meta">{meta}</script>'
        f'<script type="text/plain" id="timeline-data">{timeline.data}</script>'
    )
