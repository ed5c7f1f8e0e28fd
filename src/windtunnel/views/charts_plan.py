"""Charts of a search: time against memory, the chosen objectives, tp × pp, stability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.charts.chart import Axis, Chart, Layer, layer
from windtunnel.charts.colours import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PAPER, RED, shade
from windtunnel.charts.forms import Bar, Bars, Cell, Grid, dots, shaded, vertical
from windtunnel.quantities import gib, quantity, seconds
from windtunnel.views.plan_labels import (
    RESOURCES,
    best_row,
    best_words,
    cell_words,
    metric_words,
    nodes_words,
    plan_words,
    scale_text,
)

if TYPE_CHECKING:
    from windtunnel.planner.analysis.explain_best import Why
    from windtunnel.planner.analysis.stability import Edge, Resource, Stability
    from windtunnel.planner.result import PlanResult, Ranked

BEST, TAKEN, OTHER, BAD = BLUE, GREEN, ORANGE, RED
_TICKS = [k * 2**n for n in range(-4, 16) for k in (1.0, 1.5)]
"""Sizes in GiB that a memory axis may name."""
_WORST = 2.5
"""Times of the best beyond which a cell has the last colour."""
_MARK: dict[str, Any] = {"size": 190, "stroke": PAPER, "strokeWidth": 1.5, "opacity": 1.0}
_STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z"


def memory(result: PlanResult) -> Chart:
    """Step time against reserved memory: simulated plans, and the line below which no plan can be."""
    best, why = result.best, result.why
    capacity, rows = best.memory.capacity_bytes, _rows_of_best_cluster(result)
    named = _named(result)
    times = [best.step_time_s, *(r.step_time_s for r in rows), *(one[4] for one in named)]
    sizes = [best.peak_memory_reserved_bytes, capacity, *(r.reserved_bytes or 0.0 for r in rows)]
    sizes += [one[3] for one in named]
    low, high = _window(why, times, best.step_time_s)
    ends = 0.85 * min(*sizes, *(() if why is None else _inside(why, high))) / 2**30, 1.6 * max(sizes) / 2**30
    layers, series = [], {}
    if why is not None and why.bound_front.time_s:
        layers += _floor_layers(why, ends, (low, high))
        series["bound"] = GREY
    for name, fits, shape, tone in (("simulated", True, "circle", OTHER), ("breaks a limit", False, "cross", BAD)):
        part = [r for r in rows if (bool(r.fits) and not r.missed) is fits]
        if part:
            x, y = [(r.reserved_bytes or 0.0) / 2**30 for r in part], [r.step_time_s for r in part]
            layers.append(dots(x, y, [_hover(r) for r in part], series=name, shape=shape, opacity=0.85))
            series[name] = tone
    for name, symbol, tone, size, time_s, words in named:
        told = f"{name} {seconds(time_s)}, {gib(size)}\n{words}"
        shape = _STAR if symbol == "star" else symbol
        size_of = {"size": 420} if symbol == "star" else {}
        layers.append(dots([size / 2**30], [time_s], [told], series=name, shape=shape, **(_MARK | size_of)))
        series[name] = tone
    near_end = capacity / 2**30 > (ends[0] * ends[1] ** 2) ** (1 / 3)
    layers += vertical(capacity / 2**30, f"device memory {gib(capacity)}", left=near_end)
    ticks = [t for t in _TICKS if ends[0] <= t <= ends[1]]
    if len(ticks) > 8:
        ticks = ticks[::2]
    return Chart(
        title="Step time against reserved memory",
        layers=tuple(layers),
        x=Axis(
            title="reserved memory of a device, GiB",
            kind="log",
            low=ends[0],
            high=ends[1],
            ticks=tuple(ticks),
            words=tuple(f"{t:g}" for t in ticks),
        ),
        y=Axis(title=f"step, seconds{'' if low == 0 else f' (from {low:.3g} s)'}", low=low, high=high),
        series=series,
        height=320,
    )


def _floor_layers(why: Why, ends: tuple[float, float], window: tuple[float, float]) -> list[Layer]:
    """The line below which no plan can be, with the area under it, inside the axes."""
    x, y, text = _floor_line(why)
    points = [(a, b, words) for a, b, words in zip(x, y, text, strict=True) if ends[0] <= a]
    if not points:
        return []
    shown = [(min(a, ends[1]), min(b, window[1])) for a, b, _ in points]
    rows = [{"x": a, "y": b, "y2": window[0], "series": "bound"} for a, b in shown]
    layers = [layer("area", rows, interpolate="step-after", opacity=0.16, clip=True)]
    lines = [{"x": a, "y": b, "series": "bound"} for a, b in shown]
    layers.append(layer("line", lines, interpolate="step-after", strokeWidth=2, clip=True))
    inside = [(a, b, words) for a, b, words in points if a <= ends[1] and b <= window[1]]
    if inside:
        a, b, words = zip(*inside, strict=True)
        layers.append(dots(a, b, words, series="bound", opacity=0.0, size=160))
    return layers


def _rows_of_best_cluster(result: PlanResult) -> list[Ranked]:
    """Simulated plans whose memory is known, on the best plan's cluster and precision."""
    own = best_row(result)
    return [
        r
        for r in (*result.frontier, *result.front)
        if r.reserved_bytes is not None and (own is None or (r.cluster, r.precision) == (own.cluster, own.precision))
    ]


def _floor_line(why: Why) -> tuple[list[float], list[float], list[str]]:
    """The Pareto front of the bounds from little memory to much, and what stands for it."""
    bound_front = why.bound_front
    rows = sorted(
        zip(bound_front.memory_bytes, bound_front.time_s, bound_front.plans, strict=True), key=lambda row: row[0]
    )
    text = [f"bound {seconds(t)}, {gib(m)}\n{plan_words(p)}" for m, t, p in rows]
    x, y = [m / 2**30 for m, _, _ in rows], [t for _, t, _ in rows]
    return [*x, 1e6], [*y, y[-1]], [*text, text[-1]]


def _window(why: Why | None, times: list[float], best_s: float) -> tuple[float, float]:
    bound_front = () if why is None else why.bound_front.time_s
    low = min([*times, *bound_front[:1]])
    high = max([*times, best_s * 1.35])
    room = 0.06 * (high - low)
    return max(0.0, low - 2 * room), high + room


def _inside(why: Why, high_s: float) -> tuple[float, ...]:
    """Memory of the floors that a window up to `high_s` shows."""
    return tuple(m for m, t in zip(why.bound_front.memory_bytes, why.bound_front.time_s, strict=True) if t <= high_s)


def _named(result: PlanResult) -> list[tuple[str, str, str, float, float, str]]:
    """(name, symbol, colour, bytes, seconds, words) of the plans that have names."""
    best, choice, why = result.best, result.choice, result.why
    out = []
    if result.written is not None:
        own = result.written
        words = plan_words(own.plan)
        out.append(("scenario's own plan", "square", MUTED, own.peak_memory_reserved_bytes, own.step_time_s, words))
    if why is not None and why.runner_up is not None:
        other = why.runner_up
        words = plan_words(other.plan)
        out.append(("next layout", "diamond", OTHER, other.peak_memory_reserved_bytes, other.step_time_s, words))
    if choice is not None and not choice.same and choice.reserved_bytes is not None:
        out.append(("recommended", "star", TAKEN, choice.reserved_bytes, choice.step_time_s, plan_words(choice.plan)))
    name = "fastest" if result.objectives[0] == "step_time" else "best"
    out.append((name, "star", BEST, best.peak_memory_reserved_bytes, best.step_time_s, best_words(result)))
    return out


def _hover(r: Ranked) -> str:
    memory = "" if r.reserved_bytes is None else f", {gib(r.reserved_bytes)}"
    missed = f"\nbreaks {', '.join(r.missed)}" if r.missed else ""
    return f"{seconds(r.step_time_s)}{memory}\n{plan_words(r.plan)}{missed}"


def front(result: PlanResult) -> Chart:
    """The Pareto front over two objectives; a third one is the colour."""
    from windtunnel.planner.objectives import METRICS

    names = result.objectives
    x, y = names[0], names[1]
    rows = sorted((r for r in result.front if all(n in r.values for n in names)), key=lambda r: r.values[x])
    told = [
        "\n".join([*(f"{metric_words(n)} {quantity(r.values[n], METRICS[n].unit)}" for n in names), _where(r)])
        for r in rows
    ]
    scales = {n: _scale(METRICS[n].unit, [r.values[n] for r in rows]) for n in names}
    values = {n: [r.values[n] / scales[n][0] for r in rows] for n in names}
    titles = {n: f"{metric_words(n)}{', ' if scales[n][1] else ''}{scales[n][1]}" for n in names}
    layers = []
    if len(names) == 2:
        line = [{"x": a, "y": b} for a, b in zip(values[x], values[y], strict=True)]
        layers.append(layer("line", line, color="#90b8e0", strokeWidth=2))
    points = [{"x": a, "y": b, "told": words} for a, b, words in zip(values[x], values[y], told, strict=True)]
    encoding: dict[str, Any] = {}
    if len(names) > 2:
        points = [{**point, "third": third} for point, third in zip(points, values[names[2]], strict=True)]
        encoding = shaded("third", titles[names[2]], scheme="cividis", zero=False)
    looks = {} if encoding else {"color": BEST}
    layers.append(layer("point", points, encoding, filled=True, size=90, stroke=PAPER, strokeWidth=1, **looks))
    better = {n: "more is better" if METRICS[n].maximise else "less is better" for n in (x, y)}
    across = Axis(title=f"{titles[x]} ({better[x]})", from_zero=False)
    up = Axis(title=f"{titles[y]} ({better[y]})")
    title = f"Pareto front over {', '.join(names)}".replace("_", " ")
    return Chart(title=title, layers=tuple(layers), height=320, x=across, y=up)


def _scale(unit: str, values: list[float]) -> tuple[float, str]:
    """What to divide values by, and the unit that they then have."""
    most = max(map(abs, values), default=0.0)
    steps = {
        "s": ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours")),
        "bytes": ((0.0, 2.0**30, "GiB"),),
        "J": ((1e6, 1e6, "MJ"), (1e3, 1e3, "kJ")),
        "money": ((0.0, 1.0, "US dollars"),),
        "W": ((1e6, 1e6, "MW"), (1e3, 1e3, "kW")),
    }
    for least, size, name in steps.get(unit, ()):
        if most >= least:
            return size, name
    return 1.0, {"1/s": "per second"}.get(unit, unit)


def _where(r: Ranked) -> str:
    device = f"{nodes_words(r.cluster['nodes'], r.cluster['device'])}, " if r.cluster else ""
    return f"{plan_words(r.plan)}\n{device}{r.precision}"


def heat(why: Why) -> Chart:
    """Best step of every tp and pp; a bound where nothing was simulated."""
    best = min(c.shown_s for c in why.cells)
    tps, pps = sorted({c.tp for c in why.cells}), sorted({c.pp for c in why.cells})
    by = {(c.tp, c.pp): c for c in why.cells}
    grid = []
    for p in pps:
        for t in tps:
            if (t, p) not in by:
                continue
            cell = by[t, p]
            colour, text_colour = shade((min(cell.shown_s / best, _WORST) - 1.0) / (_WORST - 1.0))
            size = seconds(cell.shown_s).removesuffix(" s") if cell.shown_s >= 1 else seconds(cell.shown_s)
            simulated = cell.simulated_s is not None
            frame = "" if not simulated else TAKEN if cell.shown_s == best else INK
            grid.append(
                Cell(
                    x=str(t),
                    y=str(p),
                    colour=colour,
                    text_colour=text_colour,
                    text=size if simulated else f"≥ {size}",
                    told=f"tp {t}, pp {p}: {cell.shown_s / best:.2f} times the best\n{cell_words(cell)}",
                    frame=frame,
                    bold=simulated,
                )
            )
    return Grid.of("Best step of every tp and pp", grid, x="tp", y="pp", across=map(str, tps), down=map(str, pps))


def stability(told: Stability) -> Chart:
    """For every resource the range of scales in which the layout stays the best."""
    bars, edges = [], []
    for r in told.resources:
        name = f"{RESOURCES[r.name]}, {quantity(r.amount, r.unit)}"
        low, high = r.below.holds_at, r.above.holds_at
        amounts = [
            quantity(r.amount * edge.holds_at, r.unit) for edge in (r.below, r.above) if edge.lost_at is not None
        ]
        words = f"{scale_text(low)} to {scale_text(high)}"
        text = f"{words}: {' to '.join(amounts)}" if amounts else words
        lost = [_lost(edge, r) for edge in (r.below, r.above) if edge.lost_at is not None]
        bars.append(
            Bar(
                name=name, start=low, end=high, colour="#90b8e0", text=text, told="\n".join([f"{name}: {words}", *lost])
            )
        )
        edges += [{"y": name, "x": edge.holds_at} for edge in (r.below, r.above) if edge.lost_at is not None]
    return Bars(
        title="Scales of each resource in which the layout stays the best",
        bars=tuple(bars),
        layers=(layer("tick", edges, color=BAD, thickness=3, orient="vertical"),),
        x=Axis(
            title="scale of the resource; red: there another layout is better",
            kind="log",
            low=0.1,
            high=10.0,
            ticks=(0.125, 0.25, 0.5, 1, 2, 4, 8),
            words=("⅛", "¼", "½", "as is", "2 ×", "4 ×", "8 ×"),
        ),
        y=Axis(kind="band"),
        mark=1.0,
        row=36,
    )


def _lost(edge: Edge, r: Resource) -> str:
    what = "nothing fits" if edge.winner is None else plan_words(edge.winner)
    at = edge.lost_at or 0.0
    return f"at {scale_text(at)}, {quantity(r.amount * at, r.unit)}:\n{what}"
