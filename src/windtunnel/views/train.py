"""What `windtunnel train` shows: time, throughput, MFU, memory, and where each of them comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.charts.colours import IDLE
from windtunnel.quantities import assumed_text, count, gib, percent, seconds, signed_percent, three, value_text
from windtunnel.training.results.charts import memory_chart, ordered_breakdown
from windtunnel.training.results.colours import colour, memory_colour
from windtunnel.training.results.grades import grade_line
from windtunnel.training.results.one_line import (
    band_text,
    fit_line,
    fit_tone,
    next_lines,
    plan_line,
    power_line,
    workload_line,
)
from windtunnel.views.timeline import timeline
from windtunnel.views.view import (
    Band,
    Code,
    Column,
    Fact,
    Gauge,
    Part,
    Section,
    Table,
    Text,
    Tile,
    Tone,
    View,
    Words,
    chart,
    pairs,
    sections,
    table,
)

if TYPE_CHECKING:
    from windtunnel.training.results.records import NextMeasurement, TimeToTrain
    from windtunnel.training.results.training_result import TrainingResult

PHASES = "shares of its steps and of its time; figures above are means over the run, memory that of the fullest phase"
_STAGES_PRINTED = 12
_SEEN = 5e-4
"""Share of the step from which a class of time has a line: less is 0.0 %."""
_HALF = 0.5
"""Share of the interval's width down to which a measurement has to narrow it to be proposed on the first screen."""


@dataclass(frozen=True, slots=True)
class Published:
    """A step time that somebody else measured, or a range of them. Seconds."""

    low_s: float
    high_s: float

    @property
    def middle_s(self) -> float:
        """Middle of the range."""
        return 0.5 * (self.low_s + self.high_s)

    def __str__(self) -> str:
        if self.low_s == self.high_s:
            return f"{self.low_s:g} s"
        return f"{self.low_s:g} to {self.high_s:g} s"


def view(result: TrainingResult, *, published: Published | None = None, interval: bool = True) -> View:
    """One prediction; with a trace, pages have its timeline.

    Args:
        result: the prediction.
        published: a measured step time to compare with.
        interval: whether to show the interval.
    """
    m = result.num_micro_batches
    return View(
        title=result.scenario_name or "Training step",
        aside=f"windtunnel {result.version}, simulated in {seconds(result.simulated_in_s)}",
        lead=(
            workload_line(result),
            f"{plan_line(result.plan)} · {m:,} micro-batch{'' if m == 1 else 'es'} per replica",
        ),
        tiles=_tiles(result, published, interval=interval),
        facts=(*_facts(result), *(next_facts(result.measure_next) if interval else ())),
        sections=sections(
            timeline(result),
            _breakdown(result),
            _sensitivities(result),
            _phases(result),
            Section("Documents", (pairs(documents(result.lengths)),), "of the simulated batch"),
            _groups(result),
            _memory(result),
            _memory_curve(result),
            _stages(result),
            _plan(result.plan),
            scenario_section(result.scenario, "Scenario"),
        ),
        warnings=tuple(result.warnings),
        assumed=tuple((a.field, assumed_text(a.field, a.value), a.why) for a in result.assumed),
        citations=tuple(result.citations),
        origin=origin(result),
    )


def origin(result: TrainingResult) -> tuple[str, ...]:
    """What identifies a training result."""
    return (
        f"windtunnel {result.version}",
        f"input hash {result.input_hash}",
        f"interval from {result.interval.basis}",
    )


def interval_text(result: TrainingResult) -> str:
    """The interval of the step time with how well it is known."""
    band = result.interval
    return f"{100 * band.level:.0f} % interval {seconds(band.low)} to {seconds(band.high)} ({band.grade})"


def next_facts(found: NextMeasurement | None) -> tuple[Fact, ...]:
    """What to measure next, with its command; nothing where that would not halve the interval."""
    halves = found is not None and found.half_width_after <= _HALF * found.half_width
    told = next_lines(found) if halves else None
    return () if told is None else (Fact("Measure next", f"{told[0]}: {told[1]}"),)


def memory_tile(result: TrainingResult) -> Tile:
    """Reserved memory with the kinds of tensors at the peak."""
    capacity = result.memory.capacity_bytes
    whole = max(capacity, result.peak_memory_reserved_bytes)
    kinds = [(kind, size, memory_colour(kind)) for kind, size in _by_size(result.memory.at_peak)]
    rest = max(result.peak_memory_reserved_bytes - sum(result.memory.at_peak.values()), 0.0)
    kinds.append(("reserved, not allocated", rest, IDLE))
    parts = tuple(Part(size / whole, tone, f"{kind} {gib(size)}") for kind, size, tone in kinds)
    fit = Text(fit_line(result), fit_tone(result.memory.fit_probability, fits=result.memory_fits))
    value = Text(gib(result.peak_memory_reserved_bytes), path="peak_memory_reserved_bytes")
    return Tile("Memory, reserved", value, (fit,), f"of {gib(capacity)}", Gauge(parts, capacity / whole))


def _tiles(result: TrainingResult, published: Published | None, *, interval: bool) -> tuple[Tile, ...]:
    notes: tuple[Words, ...] = (interval_text(result),) if interval else ()
    notes += () if published is None else (_against(result, published),)
    band = result.interval
    drawn = Band(
        band.low,
        result.step_time_s,
        band.high,
        None if published is None else (published.low_s, published.high_s),
        "" if published is None else f"published {published}",
    )
    each = f"{count(result.tokens_per_s)} tokens/s on {result.num_devices:,} devices"
    hardware = f"HFU {percent(result.hfu)}, {result.hardware_tflops_per_device:,.0f} TFLOP/s as run"
    name = "Mean step" if result.run else "Step time"
    rate = Text(count(result.tokens_per_s_per_device), path="tokens_per_s_per_device")
    return (
        Tile(name, Text(seconds(result.step_time_s), path="step_time_s"), notes, drawing=drawn if interval else None),
        Tile("Throughput", rate, (each,), "tokens/s a device"),
        Tile(
            "MFU",
            Text(percent(result.mfu), path="mfu"),
            (f"{result.model_tflops_per_device:,.0f} TFLOP/s per device", hardware),
        ),
        memory_tile(result),
        *_time_to_train(result.time_to_train),
    )


def _time_to_train(found: TimeToTrain | None) -> tuple[Tile, ...]:
    """Minutes until the target, where the steps to it are stated."""
    if found is None:
        return ()
    ends = f"{100 * found.level:.0f} % interval {three(found.low)} to {three(found.high)} min"
    return (Tile("Time to train", f"{three(found.minutes)} min", (f"{found.steps:,.0f} steps; {ends}", found.basis)),)


def _against(result: TrainingResult, published: Published) -> Text:
    """A measured step time next to the predicted one."""
    if published.low_s <= result.step_time_s <= published.high_s:
        return Text(f"published {published}: inside the published range", "good")
    error = result.step_time_s / published.middle_s - 1
    inside = result.interval.low <= published.middle_s <= result.interval.high
    where = "inside our interval" if inside else "outside our interval"
    direction = "longer" if error > 0 else "shorter"
    words = f"published {published}: predicted {100 * abs(error):.1f} % {direction}, {where}"
    return Text(words, "good" if inside else "warn")


def _facts(result: TrainingResult) -> tuple[Fact, ...]:
    rows = []
    if power := power_line(result):
        rows.append(Fact("Power", f"{result.mean_power_w:,.0f} W per device; {power}"))
    rows.append(Fact("Bound by", Text(result.bound_by, path="bound_by")))
    if result.grades:
        rows.append(Fact("Confidence", Text(grade_line(result.grades), "dim")))
    return tuple(rows)


_SHARES = (Column(), Column(numeric=True), Column(numeric=True), Column(drop=1))


def _breakdown(result: TrainingResult) -> Section:
    least = _SEEN * result.step_time_s
    items = [(name, value) for name, value in ordered_breakdown(result) if abs(value) >= least]
    widest = max((value for _, value in items), default=1.0)
    rows: list[tuple[Words, ...]] = [
        (
            name,
            Text(seconds(value), path=f"breakdown.{name}"),
            percent(value / result.step_time_s),
            Text("", share=value / widest, colour=colour(name)),
        )
        for name, value in items
    ]
    total = sum(result.breakdown.values())
    rows.append(
        (Text("step", strong=True), Text(seconds(total), strong=True), percent(total / result.step_time_s), Text(""))
    )
    return Section("Where the time goes", (Table(_SHARES, tuple(rows), totals=1),), "the device that finishes last")


def _sensitivities(result: TrainingResult) -> Section | None:
    if not result.sensitivities:
        return None
    most = max(abs(v) for v in result.sensitivities.values()) or 1.0
    rows = []
    for name, change in sorted(result.sensitivities.items(), key=lambda item: item[1]):
        tone: Tone = "good" if change < 0 else "bad" if change > 0 else "dim"
        drawn = {"good": "#2e8b57", "bad": "#c0392b"}.get(tone, IDLE)
        text = signed_percent(change, 2) if abs(change) >= 5e-5 else "none"
        rows.append((name, Text(text, tone), Text("", share=abs(change) / most, colour=drawn)))
    columns = (Column(), Column(numeric=True), Column(drop=1))
    return Section("What 10 % more would buy", (Table(columns, tuple(rows)),), "change of step time", beside=True)


def _phases(result: TrainingResult) -> Section:
    """Phases of a run whose steps differ."""
    rows = [
        (
            p["name"],
            percent(p["share"]),
            percent(p["share_of_time"]),
            seconds(p["step_time_s"]),
            count(p["tokens_per_s"]),
            gib(p["peak_memory_reserved_bytes"]),
            ", ".join(
                [
                    *(f"{field.removeprefix('training.')} {value}" for field, value in p["set"].items()),
                    *(f"without {name}" for name in p["without"]),
                ]
            ),
        )
        for p in result.run
    ]
    heads = ("phase", "steps", "time", "step", "tokens/s", "reserved", "what differs")
    return Section("Phases of the run", (table(heads, rows, numeric=range(1, 6)),), PHASES)


def documents(lengths: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, value) of documents of different lengths; empty where all sequences are alike.

    Args:
        lengths: as `TrainingResult.lengths` has it.
    """
    if not lengths:
        return []
    shares = lengths["ranks_of_a_sequence"]
    ranks = ", ".join(f"{width}: {percent(share)}" for width, share in shares.items())
    padding = f"{count(lengths['tokens'])}; padding is {percent(lengths['padding'])} of what is computed"
    drawn = f"{lengths['step_low']:.3g} to {lengths['step_high']:.3g} x this one"
    rows = [
        ("tokens of documents", padding),
        ("documents that a token sees", f"{count(lengths['mean_squared_over_mean'])} tokens long on average"),
        ("slowest replica", f"{lengths['slowest_over_mean']:.3g} x the mean of all"),
        (f"steps of {lengths['batches']} drawn batches", drawn),
        ("ranks that share a document", f"{ranks} of tokens" if len(shares) > 1 else next(iter(shares))),
    ]
    if lengths["lanes_that_meet"] > 1:
        rows.append(("waiting", f"{lengths['lanes_that_meet']} meet in every micro-batch"))
    return rows


def _groups(result: TrainingResult) -> Section:
    """Device groups of a heterogeneous cluster: what each runs, how long, and its memory."""
    rows = [
        (
            group["cluster"],
            f"{group['replicas']:,}",
            f"{group['micro_batches']:,}",
            f"{group['stages']:,}",
            seconds(group["busy_s"]),
            Text(gib(group["peak_memory_reserved_bytes"]), "" if group["memory_fits"] else "bad"),
            gib(group["memory_capacity_bytes"]),
        )
        for group in result.groups
    ]
    heads = ("group", "replicas", "micro-batches each", "stages", "busy", "reserved", "of")
    found = table(heads, rows, numeric=range(1, 7))
    return Section("Groups", (found,), "busy: until the last pass of a group ends")


def _memory(result: TrainingResult) -> Section | None:
    memory = result.memory
    if not memory.at_peak:
        return None
    capacity = memory.capacity_bytes
    rows: list[tuple[Words, ...]] = [
        (kind, gib(size), percent(size / capacity), Text("", share=size / capacity, colour=memory_colour(kind)))
        for kind, size in _by_size(memory.at_peak)
    ]
    shown = len(rows)
    for name, size, band in (
        ("allocated", memory.peak_allocated_bytes, memory.allocated_interval),
        ("reserved", memory.peak_reserved_bytes, memory.reserved_interval),
    ):
        rows.append((name, gib(size), percent(size / capacity), band_text(band)))
    rows += [(name, gib(size), percent(size / room), "") for name, size, room in memory.elsewhere]
    rows.append((Text("capacity", strong=True), Text(gib(capacity), strong=True), "", ""))
    found = Table(
        (Column(), Column(numeric=True), Column(numeric=True), Column()), tuple(rows), totals=len(rows) - shown
    )
    return Section("Memory at the peak", (found,), f"stage {memory.stage}, allocated", anchor="memory")


def _memory_curve(result: TrainingResult) -> Section | None:
    if not len(result.memory.curve_time_s):
        return None
    hint = f"stage {result.memory.stage}, which peaks highest"
    return chart("Memory over the step", partial(memory_chart, result), hint, "half", beside=True)


def _stages(result: TrainingResult) -> Section | None:
    if len(result.stages) < 2:
        return None
    names = list(dict.fromkeys(key for stage in result.stages for key in stage))
    rows = [tuple(_cell(name, stage.get(name)) for name in names) for stage in result.stages]
    heads = tuple(Column(_heading(name), numeric=True) for name in names)
    return Section("Stages", (Table(heads, tuple(rows), most=_STAGES_PRINTED),))


def _heading(name: str) -> str:
    return name.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("_s"):
        return seconds(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return gib(value) if "bytes" in name or "memory" in name else count(value)
    if isinstance(value, (list, tuple)):
        return "+".join(str(v) for v in value)
    return "" if value is None else str(value)


def _plan(plan: dict[str, Any]) -> Section:
    rows = [(name.replace("_", " "), value_text(value, name)) for name, value in plan.items()]
    return Section("Plan as resolved", (pairs(rows),), pages_only=True)


def scenario_section(*scenarios: object | str) -> Section:
    """Scenarios as YAML, each before the words that open it."""
    import yaml

    from windtunnel.training.results.serialise import plain

    blocks = []
    for fields, words in zip(scenarios[::2], scenarios[1::2], strict=True):
        text = yaml.safe_dump(plain(fields), sort_keys=False, allow_unicode=True, default_flow_style=None)
        blocks.append(Code(text, str(words)))
    return Section("", tuple(blocks), pages_only=True)


def _by_size(sizes: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(((kind, size) for kind, size in sizes.items() if size > 0), key=lambda item: -item[1])
