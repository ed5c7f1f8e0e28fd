"""One prediction as one HTML file that needs nothing else: no network, no folder beside it."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.charts.colours import IDLE, css_variable
from windtunnel.quantities import assumed_text, count, gib, percent, seconds, signed_percent, value_text
from windtunnel.report.html_shell import asset, card, document, fill, plot, table
from windtunnel.report.training.one_line import (
    band_text,
    fit_line,
    next_lines,
    power_line,
    recompute_text,
    workload_line,
)
from windtunnel.report.training.phases import COLUMNS, NOTE, phase_rows
from windtunnel.report.training.timeline_data import pack
from windtunnel.training.results.colours import colour, memory_colour
from windtunnel.training.results.figures import breakdown_figure, memory_figure, sensitivity_figure
from windtunnel.training.results.grades import grade_line
from windtunnel.training.results.serialise import plain

if TYPE_CHECKING:
    from windtunnel.report.training.terminal import Published
    from windtunnel.training.results.training_result import TrainingResult


_CHIPS = {"tp", "sp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero", "mbs", "schedule", "recompute", "offload"}


def write(result: TrainingResult, path: str | Path, *, published: Published | None = None) -> Path:
    """Write the report and return its path."""
    target = Path(path)
    target.write_text(render(result, published=published), encoding="utf-8")
    return target


def write_timeline(result: TrainingResult, path: str | Path) -> Path:
    """Write the timeline alone, of a result with a trace, and return its path."""
    target = Path(path)
    page = document(result.scenario_name or "training step", [_timeline(result)], script=asset("timeline.js"))
    target.write_text(page, encoding="utf-8")
    return target


def render(result: TrainingResult, *, published: Published | None = None) -> str:
    """The whole document. Every text that comes from the scenario is escaped.

    Args:
        result: the prediction; with a trace, the report has a timeline.
        published: a measured step time to mark beside ours.
    """
    title = result.scenario_name or "training step"
    body = [
        _header(result),
        _tiles(result, published),
        _bound(result),
        _warnings(result),
        _timeline(result),
        _time_and_sensitivity(result),
        _phases(result),
        _memory(result),
        _stages(result),
        _plan_and_assumptions(result),
        _citations(result),
        _provenance(result),
    ]
    return document(title, body, script=asset("timeline.js") if result.trace is not None else "")


def _header(result: TrainingResult) -> str:
    chips = []
    for key, value in result.plan.items():
        shown = _chip_value(key, value)
        if shown:
            chips.append(f'<span class="chip">{escape(key)} <b>{escape(shown)}</b></span>')
    return (
        f"<header><h1>{escape(result.scenario_name or 'Training step')}</h1>"
        f'<p class="sub">{escape(workload_line(result))} · {_micro_batches(result)} per replica</p>'
        f'<div class="chips">{"".join(chips)}</div></header>'
    )


def _micro_batches(result: TrainingResult) -> str:
    m = result.num_micro_batches
    return f"{m:,} micro-batch" + ("" if m == 1 else "es")


def _chip_value(key: str, value: Any) -> str:
    """Short text of a plan field, empty for what says nothing (an axis of one) or is a detail of the whole plan."""
    if key not in _CHIPS:
        return ""
    if key == "recompute":
        return recompute_text(value)
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, (int, float)):
        return f"{value:g}" if value != 1 or key in ("tp", "pp", "dp", "mbs", "zero") else ""
    return value if isinstance(value, str) and value != "auto" else ""


def _tiles(result: TrainingResult, published: Published | None) -> str:
    band = result.interval
    note = f"{100 * band.level:.0f} % interval {seconds(band.low)} to {seconds(band.high)} · {escape(band.grade)}"
    if published is not None:
        error = result.step_time_s / published.middle_s - 1
        note += f"<br>published {escape(str(published))}: predicted {signed_percent(error)}"
    if (told := next_lines(result.measure_next)) is not None:
        note += f"<br>measure next: {escape(told[0])}: <code>{escape(told[1])}</code>"
    style = "good" if result.memory_fits else "bad"
    capacity = result.memory.capacity_bytes
    scale = 100 / max(capacity, result.peak_memory_reserved_bytes)
    parts = [
        f'<i {fill(memory_colour(kind), size * scale)} title="{escape(kind)} {gib(size)}"></i>'
        for kind, size in _by_size(result.memory.at_peak)
    ]
    rest = max(result.peak_memory_reserved_bytes - sum(result.memory.at_peak.values()), 0.0)
    parts.append(f'<i {fill(IDLE, rest * scale)} title="reserved, not allocated {gib(rest)}"></i>')
    limit = f'<span class="limit" style="left:calc({min(capacity * scale, 100):.2f}% - 2px)"></span>'
    return (
        '<div class="tiles">'
        f'<div class="tile"><div class="label">Step time</div><div class="value">{seconds(result.step_time_s)}</div>'
        f'{_band(result, published)}<div class="note">{note}</div></div>'
        f'<div class="tile"><div class="label">Throughput</div>'
        f'<div class="value">{count(result.tokens_per_s_per_device)}'
        f'<small> tokens/s per device</small></div><div class="note">{count(result.tokens_per_s)} tokens/s on '
        f"{result.num_devices:,} devices</div></div>"
        f'<div class="tile"><div class="label">MFU</div><div class="value">{percent(result.mfu)}</div>'
        f'<div class="note">{result.model_tflops_per_device:,.0f} TFLOP/s per device<br>HFU {percent(result.hfu)}, '
        f"{result.hardware_tflops_per_device:,.0f} TFLOP/s as run</div></div>"
        f'<div class="tile"><div class="label">Memory, reserved</div>'
        f'<div class="value">{gib(result.peak_memory_reserved_bytes)}<small> of {gib(capacity)}</small></div>'
        f'<div class="gauge">{"".join(parts)}{limit}</div>'
        f'<div class="note {style}">{escape(fit_line(result))}</div></div>'
        "</div>"
    )


def _band(result: TrainingResult, published: Published | None) -> str:
    """The interval as a line, our value as a dot, the published value (or range) above it."""
    band = result.interval
    points = [band.low, band.high, result.step_time_s]
    if published is not None:
        points += [published.low_s, published.high_s]
    low, high = min(points), max(points)
    pad = 0.08 * (high - low) or 1.0

    def x(value: float) -> float:
        return round(10 + 380 * (value - low + pad) / (high - low + 2 * pad), 1)

    mark = ""
    if published is not None:
        a, b = x(published.low_s), x(published.high_s)
        mark = (
            f'<rect x="{a - 1.5}" y="4" width="{max(b - a, 0) + 3}" height="24" fill="#e0a100" opacity=".85" rx="1.5">'
            f"<title>published {escape(str(published))}</title></rect>"
        )
    return (
        '<svg viewBox="0 0 400 34" preserveAspectRatio="none" role="img" aria-label="the prediction in its interval">'
        '<line x1="0" x2="400" y1="16" y2="16" stroke="var(--line)" stroke-width="2"/>'
        f'<rect x="{x(band.low)}" y="11" width="{x(band.high) - x(band.low):.1f}" height="10" rx="5" '
        f'fill="{css_variable("#90b8e0")}"/>'
        f'{mark}<rect x="{x(result.step_time_s) - 2}" y="7" width="4" height="18" rx="2" fill="var(--accent)"/></svg>'
    )


def _bound(result: TrainingResult) -> str:
    if not result.bound_by:
        return ""
    power = power_line(result)
    energy = (
        f'<span class="aside"><b>{result.mean_power_w:,.0f} W</b> per device; {escape(power)}</span>' if power else ""
    )
    return f'<div class="card bound"><span><b>Bound by</b> {escape(result.bound_by)}</span>{energy}</div>'


def _warnings(result: TrainingResult) -> str:
    if not result.warnings:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in result.warnings)
    return f'<div class="card warn"><b>Warnings</b><ul>{items}</ul></div>'


def _timeline(result: TrainingResult) -> str:
    if result.trace is None:
        return ""
    meta, data = pack(result)
    used = sorted({int(tag) for tag in result.trace.tag})
    legend = "".join(
        f"<span><i {fill(colour(result.trace.tags[tag]))}></i>{escape(result.trace.tags[tag])}</span>" for tag in used
    )
    stages = sorted({lane[0] for lane in meta["lanes"]})
    hint = (
        "Drag pans, hover follows a micro-batch. Once clicked or focused: the wheel, + and − zoom, arrows pan, Home "
        "shows all."
    )
    if meta["chunks"] > 1:
        hint += " Lighter shades are later model chunks."
    if meta["dropped"]:
        hint += f" {meta['dropped']:,} events are not shown."
    return (
        '<div class="card"><div class="head"><h2>Pipeline timeline</h2>'
        f'<p class="hint">{hint}</p><span class="buttons">'
        '<button data-view="[0,1]">whole step</button><button data-view="[0,0.06]">start</button>'
        '<button data-view="[0.47,0.53]">middle</button><button data-view="[0.94,1]">end</button></span></div>'
        f'<div id="timeline"><canvas class="strip" role="img" aria-label="timeline of {len(stages)} stages"></canvas>'
        '<canvas class="window" tabindex="0" role="img" aria-label="window of the timeline; arrow keys pan, plus and '
        'minus zoom"></canvas>'
        '<div class="tip"></div></div>'
        f'<div class="legend">{legend}<span><i style="background:var(--soft)"></i>idle</span></div>'
        f'<script type="application/json" id="timeline-meta">{_json(meta)}</script>'
        f'<script type="text/plain" id="timeline-data">{data}</script></div>'
    )


def _time_and_sensitivity(result: TrainingResult) -> str:
    chart = plot(breakdown_figure(result), "half" if result.sensitivities else "full")
    left = card("Where the time goes", "on the device that finishes last; sums to the step", chart)
    if not result.sensitivities:
        return left
    right = card("What 10 % more would buy", "change of step time", plot(sensitivity_figure(result), "half"))
    return f'<div class="row two">{left}{right}</div>'


def _phases(result: TrainingResult) -> str:
    if not result.run:
        return ""
    head = "".join(f"<th{_side(at)}>{escape(name)}</th>" for at, name in enumerate(COLUMNS))
    rows = "".join(
        "<tr>" + "".join(f"<td{_side(at)}>{escape(cell)}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in phase_rows(result)
    )
    return card("Phases of the run", NOTE, table(f"<tr>{head}</tr>", rows))


def _side(column: int) -> str:
    return "" if column in (0, len(COLUMNS) - 1) else ' class="n"'


def _memory(result: TrainingResult) -> str:
    memory = result.memory
    rows = [
        f'<tr><td><span class="swatch" {fill(memory_colour(kind))}></span>{escape(kind)}</td>'
        f'<td class="n">{gib(size)}</td><td class="n">{percent(size / memory.capacity_bytes)}</td></tr>'
        for kind, size in _by_size(memory.at_peak)
    ]
    bands = (memory.allocated_interval, memory.reserved_interval)
    sizes = (("allocated", memory.peak_allocated_bytes), ("reserved", memory.peak_reserved_bytes))
    for (name, size), band in zip(sizes, bands, strict=True):
        rows.append(
            f'<tr><td class="total">{name}<small> {escape(band_text(band))}</small></td>'
            f'<td class="n total">{gib(size)}</td>'
            f'<td class="n total">{percent(size / memory.capacity_bytes)}</td></tr>'
        )
    rows.append(f'<tr><td>capacity</td><td class="n">{gib(memory.capacity_bytes)}</td><td></td></tr>')
    head = '<tr><th>kind</th><th class="n">size</th><th class="n">of capacity</th></tr>'
    peak = card("At the peak", f"stage {memory.stage}", table(head, "".join(rows)))
    if not len(memory.curve_time_s):
        return f'<div id="memory">{peak}</div>'
    curve = card(
        "Memory over the step", f"stage {memory.stage}, which peaks highest", plot(memory_figure(result), "main")
    )
    return f'<div class="row mem" id="memory">{curve}{peak}</div>'


def _stages(result: TrainingResult) -> str:
    if len(result.stages) < 2:
        return ""
    names = list(dict.fromkeys(key for stage in result.stages for key in stage))
    most = {
        name: max((abs(s[name]) for s in result.stages if isinstance(s.get(name), (int, float))), default=0) or 1
        for name in names
    }
    head = "".join(f'<th class="n">{escape(_heading(name))}</th>' for name in names)
    rows = []
    for stage in result.stages:
        cells = []
        for name in names:
            value = stage.get(name)
            bar = ""
            if isinstance(value, float) and name.endswith(("_s", "_bytes")):
                bar = f'<div class="minibar"><i style="width:{100 * abs(value) / most[name]:.1f}%"></i></div>'
            cells.append(f'<td class="n">{escape(_cell(name, value))}{bar}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return card("Stages", "", table(f"<tr>{head}</tr>", "".join(rows)))


def _plan_and_assumptions(result: TrainingResult) -> str:
    items = "".join(
        f"<div><dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(value_text(value, key))}</dd></div>"
        for key, value in result.plan.items()
    )
    plan = card("Plan as resolved", "", f'<dl class="plan">{items}</dl>')
    if not result.assumed:
        return plan
    assumed = "".join(
        f"<tr><td><code>{escape(a.field)}</code></td><td>{escape(assumed_text(a.field, a.value))}</td>"
        f"<td>{escape(a.why)}</td></tr>"
        for a in result.assumed
    )
    head = "<tr><th>field</th><th>value</th><th>why</th></tr>"
    return card("Assumed", "what the scenario leaves open", table(head, assumed)) + plan


def _citations(result: TrainingResult) -> str:
    if not result.citations:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in result.citations)
    return card("Methods used", "", f"<ul>{items}</ul>")


def _provenance(result: TrainingResult) -> str:
    import yaml

    scenario = yaml.safe_dump(plain(result.scenario), sort_keys=False, allow_unicode=True, default_flow_style=None)
    return (
        f'<div class="card"><details><summary>Scenario</summary><pre>{escape(scenario)}</pre></details></div>'
        f"<footer>windtunnel <code>{escape(result.version)}</code> · "
        f"input hash <code>{escape(result.input_hash)}</code> · "
        f"simulated in {seconds(result.simulated_in_s)} · interval from {escape(result.interval.basis)}"
        f" · grades: {escape(grade_line(result.grades))}</footer>"
    )


def _by_size(sizes: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(((k, v) for k, v in sizes.items() if v > 0), key=lambda item: -item[1])


def _json(value: Any) -> str:
    return json.dumps(plain(value)).replace("<", "\\u003c")


def _heading(name: str) -> str:
    for ending in ("_s", "_bytes"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("_s"):
        return seconds(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return gib(value) if "bytes" in name else count(value)
    return value_text(value)
