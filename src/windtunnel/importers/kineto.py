"""Read a PyTorch profiler trace (Kineto, Chrome trace JSON): what the device did in one step, class by class.

The format is public: `traceEvents` of complete events (`ph` X, microseconds) with category `kernel`, `gpu_memcpy` or
`gpu_memset` on the device, `cuda_runtime` for their launches, joined by `correlation`, and `ProfilerStep#n` ranges from
`torch.profiler.profile(schedule=…).step()`. Events are read one by one: memory grows with kernels, not with the file.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, shown
from windtunnel.files import reading
from windtunnel.importers.kernel_names import COLLECTIVES, COMPUTE, COPIES, OTHER, copy_class, kernel_class

_CHUNK = 1 << 22
_KERNEL = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_LAUNCH = frozenset({"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "privateuse1_runtime"})
_RANGE = frozenset({"user_annotation", "cpu_op", "gpu_user_annotation", "operator"})
_BETWEEN = re.compile(r"[\s,]*")
_STEP = re.compile(r"^ProfilerStep#(\d+)$")


@dataclass(frozen=True, slots=True)
class TraceClass:
    """One class of time in one step. Seconds."""

    busy_s: float
    """Sum of its kernels, hidden or not."""
    exposed_s: float
    """Part of the step's wall time: compute kernels while they run, transfers while no compute kernel runs."""
    kernels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTrace:
    """The step of median length of a trace."""

    path: str
    step_time_s: float
    """From the first kernel of the step to the first of the next one (to its last kernel, for the last step)."""
    classes: dict[str, TraceClass]
    idle_s: float
    """No kernel and no copy runs: the host is late, or waits."""
    steps_s: tuple[float, ...]
    num_kernels: int
    rank: int | None
    world_size: int | None
    device: str
    """Name of the device as the driver gives it, empty where the trace has none."""
    unknown: tuple[tuple[str, float], ...] = ()
    """Kernels that no rule knows, with their seconds in the step, largest first."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "path": self.path,
            "step_time_s": self.step_time_s,
            "steps_s": list(self.steps_s),
            "idle_s": self.idle_s,
            "num_kernels": self.num_kernels,
            "rank": self.rank,
            "world_size": self.world_size,
            "device": self.device,
            "classes": {
                name: {"busy_s": c.busy_s, "exposed_s": c.exposed_s, "kernels": c.kernels}
                for name, c in self.classes.items()
            },
            "unknown_kernels": [{"name": name, "busy_s": s} for name, s in self.unknown],
            "notes": list(self.notes),
        }


@dataclass(slots=True, kw_only=True)
class _Events:
    """Columns of what matters in a trace. Microseconds."""

    start: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    """Class of time."""
    name: list[str] = field(default_factory=list)
    device: list[Any] = field(default_factory=list)
    correlation: list[int] = field(default_factory=list)
    launched: dict[int, float] = field(default_factory=dict)
    """Correlation → start of the runtime call."""
    host_steps: dict[int, tuple[float, float]] = field(default_factory=dict)
    device_steps: dict[int, tuple[float, float]] = field(default_factory=dict)
    operations: dict[int, str] = field(default_factory=dict)
    """External id of a host operator → collective that it started."""
    unsure: dict[int, int] = field(default_factory=dict)
    """Row of a communication kernel that names no operation → external id of its host operator."""
    seen: int = 0


def read_kineto(path: str | Path) -> KernelTrace:
    """Classify the kernels of a trace and reduce its steps to the one of median length.

    Args:
        path: `.json` or `.json.gz` as `torch.profiler` exports it, of one rank.

    Raises:
        BadInput: unreadable, truncated, not a trace, no steps, no device events, several devices.
    """
    events = _Events()
    info: dict[str, Any] = {}
    try:
        with _open(path) as stream:
            for event in _stream(stream, str(path), info):
                _take(events, event)
    except RecursionError:
        raise BadInput(f"{path}: not a trace: too many levels of lists and mappings") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as a trace: {_reason(error)}") from None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        told = f"an event has no {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(f"{path}: not a trace: {told}") from None
    if not events.seen:
        raise BadInput(f"{path}: holds no trace events")
    if not events.start:
        why = "record with ProfilerActivity.CUDA on the accelerator; on a CPU, `windtunnel calibrate` measures instead"
        raise BadInput(f"{path}: holds no device kernels (a CPU-only trace): {why}")
    devices = Counter(events.device)
    if len(devices) > 1:
        raise BadInput(f"{path}: holds kernels of {len(devices)} devices: give the trace of one rank")
    if not events.host_steps and not events.device_steps:
        raise BadInput(
            f"{path}: holds no ProfilerStep ranges: call profiler.step() once per optimizer step while recording"
        )
    return _reduce(str(path), events, info)


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is truncated"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _open(path: str | Path) -> IO[str]:
    with reading.open_bytes(path) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return reading.open_text(path, packed=packed)


def _stream(stream: IO[str], path: str, info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Events one by one; `info` receives `distributedInfo` and the device's name where they precede them."""
    decoder: Any = json.JSONDecoder()
    scan, skip = decoder.scan_once, _BETWEEN.match  # raw_decode without its wrapper
    text, at = stream.read(_CHUNK), 0
    begin = _first(text)
    while begin is None:  # a long preamble (device properties, metadata)
        more = stream.read(_CHUNK)
        if not more or len(text) > 64 * _CHUNK:
            raise BadInput(f"{path}: not a trace: no list `traceEvents`")
        text += more
        begin = _first(text)
    preamble = re.search(r'"distributedInfo"\s*:\s*(?=\{)', text[:begin])
    if preamble:
        info.update(decoder.raw_decode(text, preamble.end())[0])
    device = re.search(r'"deviceProperties"\s*:\s*\[\s*\{[^{}]*?"name"\s*:\s*"([^"]*)"', text[:begin])
    if device:
        info["device"] = device[1]
    at = begin
    while True:
        between = skip(text, at)
        at = between.end() if between else at
        try:
            event, at = scan(text, at)
        except (ValueError, StopIteration):
            if text.startswith("]", at):
                return
            more = stream.read(_CHUNK)
            if not more:
                if at >= len(text):
                    raise BadInput(f"{path}: the trace is truncated: its list of events does not end") from None
                left = "is truncated inside an event" if len(text) - at < _CHUNK else "is not JSON"
                raise BadInput(f"{path}: the trace {left}") from None
            if len(text) - at > 16 * _CHUNK:
                raise BadInput(f"{path}: not a trace: an event of more than {16 * _CHUNK >> 20} MiB") from None
            text, at = text[at:] + more, 0
            continue
        if isinstance(event, dict):
            yield event


def _first(text: str) -> int | None:
    """Position behind the bracket that opens the list of events."""
    if text.lstrip()[:1] == "[":  # Chrome's array form
        return text.index("[") + 1
    found = re.search(r'"traceEvents"\s*:\s*\[', text)
    return found.end() if found else None


@cache
def _known(category: str) -> str:
    """A category as we treat it; older versions write `Kernel`, `Memcpy`."""
    lowered = category.lower()
    return lowered if lowered in _KERNEL or lowered in _LAUNCH or lowered in _RANGE else ""


def _args(event: dict[str, Any]) -> dict[str, Any]:
    """What an event says of itself.

    Raises:
        TypeError: not a mapping.
    """
    args = event.get("args") or {}
    if not isinstance(args, dict):
        raise TypeError(f"the args of an event are no mapping: {shown(args)}")
    return args


def _time(event: dict[str, Any], name: str, default: float | None = None) -> float:
    """A time of an event, microseconds.

    Raises:
        KeyError: it is missing and has no default.
        ValueError: it is no finite number.
    """
    value = float(event[name] if default is None else event.get(name, default))
    if not math.isfinite(value):
        raise ValueError(f"the {name} of an event is no finite number")
    return value


def _take(events: _Events, event: dict[str, Any]) -> None:
    events.seen += 1
    category = _known(str(event.get("cat")))
    if not category or event.get("ph") != "X":
        return
    if category in _KERNEL:
        args = _args(event)
        name = str(event.get("name", ""))
        events.start.append(_time(event, "ts"))
        events.length.append(max(_time(event, "dur", 0.0), 0.0))
        collective = str(args.get("Collective name", "")) if category == "kernel" else ""
        events.kind.append(kernel_class(name, collective) if category == "kernel" else copy_class(name))
        if category == "kernel" and not collective and events.kind[-1] in COLLECTIVES and "External id" in args:
            events.unsure[len(events.kind) - 1] = int(args["External id"])
        events.name.append(name)
        device = args.get("device", event.get("pid"))
        events.device.append(device if isinstance(device, int | str | None) else shown(device))
        events.correlation.append(int(args.get("correlation", -1)))
    elif category in _LAUNCH:
        correlation = _args(event).get("correlation")
        if correlation is not None:
            events.launched[int(correlation)] = _time(event, "ts")
    elif category in _RANGE:
        args = _args(event)
        if "Collective name" in args and "External id" in args:
            events.operations[int(args["External id"])] = str(args["Collective name"])
        found = _STEP.match(str(event.get("name", "")))
        if found:
            steps = events.device_steps if category == "gpu_user_annotation" else events.host_steps
            begin = _time(event, "ts")
            steps[int(found[1])] = (begin, begin + _time(event, "dur", 0.0))


def _reduce(path: str, events: _Events, info: dict[str, Any]) -> KernelTrace:
    """Seconds of each kernel class in the median whole step."""
    for row, external in events.unsure.items():
        if external in events.operations:
            events.kind[row] = kernel_class(events.name[row], events.operations[external])
    start, length = np.array(events.start), np.array(events.length)
    step = _step_of(events, start)
    order = np.argsort(start, kind="stable")
    start, end, step = start[order], (start + length)[order], step[order]
    windows = _windows(start, end, step)
    if not windows:
        raise BadInput(f"{path}: no device kernel belongs to a ProfilerStep range")
    whole = list(windows)[:-1] if len(windows) > 1 else list(windows)  # the last ends with its kernels
    ranked = sorted(whole, key=lambda n: windows[n][1] - windows[n][0])
    begin, stop = windows[ranked[(len(ranked) - 1) // 2]]
    if not stop > begin:
        raise BadInput(f"{path}: a step takes no time: time stamps lie beyond what microseconds resolve")
    # kernels of the step before may still run next to its first ones: what lies in the window counts
    inside = (end > begin) & (start < stop)
    since, until = np.maximum(start[inside], begin), np.minimum(end[inside], stop)
    kind = np.array(events.kind, dtype=object)[order][inside]
    classes, idle = _partition(since, until, kind, stop - begin)
    names = np.array(events.name, dtype=object)[order][inside]
    few = f"{len(whole)} whole {'step' if len(whole) == 1 else 'steps'}: record at least three"
    return KernelTrace(
        path=path,
        step_time_s=(stop - begin) * 1e-6,
        classes=classes,
        idle_s=idle,
        steps_s=tuple((last - first) * 1e-6 for first, last in windows.values()),
        num_kernels=int(inside.sum()),
        rank=_int(info.get("rank")),
        world_size=_int(info.get("world_size")),
        device=str(info.get("device", "")),
        unknown=_longest_unknown(names, kind, until - since),
        notes=(few,) if len(whole) < 3 else (),
    )


def _windows(start: Floats, end: Floats, step: Ints) -> dict[int, tuple[float, float]]:
    """Step → its first kernel's start and the next step's, in microseconds; the last step ends with its kernels."""
    numbers = [int(n) for n in np.unique(step) if n >= 0]
    windows = {}
    for i, n in enumerate(numbers):
        mine = step == n
        begin, stop = float(start[mine].min()), float(end[mine].max())
        if i + 1 < len(numbers) and numbers[i + 1] == n + 1:
            stop = float(start[step == numbers[i + 1]].min())
        windows[n] = (begin, max(stop, begin))
    return windows


def _longest_unknown(names: Any, kind: Any, length_us: Floats) -> tuple[tuple[str, float], ...]:
    """The eight kernels of no known class that take most, with their seconds."""
    unknown: defaultdict[str, float] = defaultdict(float)
    for k in np.flatnonzero(kind == OTHER):
        unknown[str(names[k])] += float(length_us[k]) * 1e-6
    return tuple(sorted(unknown.items(), key=lambda item: -item[1])[:8])


def _int(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _step_of(events: _Events, start: Floats) -> Ints:
    """Number of the step that launched each kernel, −1 for none."""
    host = events.host_steps or events.device_steps
    numbers = sorted(host, key=lambda n: host[n][0])
    begins = np.array([host[n][0] for n in numbers])
    ends = np.array([host[n][1] for n in numbers])
    when = start.copy()
    if events.host_steps and events.launched:
        launched = np.array([events.launched.get(c, np.nan) for c in events.correlation])
        when = np.where(np.isnan(launched), start, launched)
    index = np.searchsorted(begins, when, side="right") - 1
    safe = np.maximum(index, 0)
    ok = (index >= 0) & (when <= ends[safe])
    return np.where(ok, np.array(numbers, np.int64)[safe], -1)


def _partition(start: Floats, end: Floats, kind: Any, window_us: float) -> tuple[dict[str, TraceClass], float]:
    """Busy and exposed time by class. Compute goes first, then communication, then copies; idle is the rest."""
    busy: dict[str, TraceClass] = {}
    covered_at, covered = np.zeros(1), np.zeros(1)
    for group in (COMPUTE, COLLECTIVES, (COPIES,)):
        mine = np.flatnonzero(np.isin(kind.astype(str), group))
        if not len(mine):
            continue
        a, b = start[mine], end[mine]
        before = np.concatenate([[-np.inf], np.maximum.accumulate(b)[:-1]])
        own_begin = np.minimum(np.maximum(a, before), b)  # time inside an earlier kernel of the group is that kernel's
        alone = (b - own_begin) - (_cover(b, covered_at, covered) - _cover(own_begin, covered_at, covered))
        for name in np.unique(kind[mine].astype(str)):
            these = kind[mine] == name
            busy[str(name)] = TraceClass(
                float((b - a)[these].sum()) * 1e-6, float(alone[these].sum()) * 1e-6, int(these.sum())
            )
        everything = np.isin(kind.astype(str), [*COMPUTE, *COLLECTIVES]) if group is not COMPUTE else None
        chosen = mine if everything is None else np.flatnonzero(everything)
        covered_at, covered = _union(start[chosen], end[chosen])
    exposed = sum(c.exposed_s for c in busy.values())
    return dict(sorted(busy.items(), key=lambda item: -item[1].exposed_s)), max(window_us * 1e-6 - exposed, 0.0)


def _union(start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Times and covered length up to them, for intervals sorted by start."""
    reach = np.maximum.accumulate(end)
    new = np.concatenate([[True], start[1:] > reach[:-1]])
    begins = start[new]
    ends = reach[np.concatenate([np.flatnonzero(new)[1:] - 1, [len(start) - 1]])]
    at = np.empty(2 * len(begins))
    at[0::2], at[1::2] = begins, ends
    total = np.empty_like(at)
    total[1::2] = np.cumsum(ends - begins)
    total[0::2] = np.concatenate([[0.0], total[1::2][:-1]])
    return at, total


def _cover(when: Floats, at: Floats, covered: Floats) -> Floats:
    """Covered length up to `when`."""
    return np.interp(when, at, covered)
