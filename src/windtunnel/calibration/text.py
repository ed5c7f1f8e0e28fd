"""A calibration and a measured step as text and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.charts.chart import Axis, Chart, Layer, layer
from windtunnel.charts.colours import GREY, SERIES
from windtunnel.charts.forms import dots, time_ticks
from windtunnel.quantities import gib, percent, seconds, signed_percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from windtunnel.calibration.measure import Decoded, Measured
    from windtunnel.calibration.profile import Calibration

_MEANINGS = {
    "gemm_fraction": "share of the peak that products reach",
    "gemm_k0": "inner dimension that half of a short product costs",
    "gemm_floor_s": "least time of a product",
    "attention_fraction": "share of the peak that attention reaches",
    "attention_ramp": "length at which it reaches half of that",
    "attention_backward": "its backward rate over its forward rate",
    "memory_fraction": "share of memory bandwidth that element-wise kernels reach",
    "softmax_fraction": "softmax against plain element-wise kernels",
    "optimizer_fraction": "share of memory bandwidth of fused AdamW",
    "grouped_fraction": "loops over products against one",
    "host_kernel_s": "host time of an operator",
    "scale_up_scale": "collectives inside the node against the link family's",
    "scale_out_scale": "collectives between nodes against the link family's",
    "efficiency": "share of the link's rate that collectives reach",
    "hop_s": "latency of a message between ranks",
    "tau_s": "ramp of long messages",
    "base_s": "start of a collective",
    "hop_scale": "latency of a message against the library's own",
    "base_scale": "start of a collective against the library's own",
    "all_to_all_efficiency": "all-to-all against rings",
    "switch_efficiency": "share of the link's rate that reductions in the switch reach",
    "p2p_base_s": "start of a message",
    "weight_bytes_fraction": "weights read for few rows, of memory bandwidth",
    "decode_kv_fraction": "caches read by decoding attention, of memory bandwidth",
    "launch_layer_s": "host time of a layer, forward",
    "layer_s": "least times of a layer's products",
    "host_s": "host time of an iteration",
    "sequence_s": "host time of an iteration for each sequence",
    "front_end": "work of the server's process against its release's",
    "request_s": "front end: HTTP and tokeniser of a request",
    "stream_s": "host time of an iteration for each streamed answer",
    "prompt_layer_s": "launches of a layer with prompts",
    "quantise_layer_s": "casts of a layer with 8-bit weights",
    "matrix_fraction": "share of the peak that linear layers reach",
    "prefill_attention_fraction": "share of the peak that attention of prompts reaches",
    "expert_bytes_fraction": "weights of experts read, of memory bandwidth",
    "expert_matrix_fraction": "experts' products against those of linear layers",
    "all_reduce_s": "latency of an all-reduce",
    "all_reduce_fraction": "share of the link's rate that all-reduces reach",
    "all_to_all_s": "latency of an exchange between experts' ranks",
    "all_to_all_fraction": "share of the link's rate that these exchanges reach",
}
"""What a coefficient is, in a few words."""


def meaning(name: str) -> str:
    """What a coefficient is, in a few words; empty where nothing short says it."""
    return _MEANINGS.get(name.removeprefix("network.").partition(".")[0], "")


def table(*titles: str) -> Table:
    """A plain table: the first column to the left, numbers to the right."""
    from rich import box
    from rich.table import Table

    out = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for at, title in enumerate(titles):
        out.add_column(title, justify="left" if at == 0 else "right", overflow="fold")
    return out


def calibration_summary(found: Calibration) -> RenderableType:
    """What was measured, how well the model follows it, and what to be careful with."""
    from rich.console import Group
    from rich.text import Text

    device, profile = found.device, found.device.profile
    assert profile is not None
    peaks = ", ".join(f"{name} {rate / 1e12:.3g} TFLOP/s" for name, rate in device.peak_flop_per_s.items())
    head = f"{device.name}: {peaks}; memory {device.memory_bytes_per_s / 1e9:.3g} GB/s; {len(found.points)} cases"
    rows = table("coefficient", "value", "standard error", "what it is")
    for name, entry in (profile.coefficients | profile.network | profile.serving).items():
        key = name.partition(".")[0]
        if key not in _MEANINGS:
            continue
        value = seconds(entry.value) if name.endswith("_s") else f"{entry.value:.4g}"
        error = entry.relative_error or 0.0
        rows.add_row(name, value, percent(error) if error < 1 else "not told apart", _MEANINGS[key])
    errors = ", ".join(f"{kind} {percent(error)}" for kind, error in found.errors().items())
    parts: list[RenderableType] = [Text(head, style="bold"), rows]
    parts.append(Text(f"median distance of the model from what was measured: {errors}"))
    if found.noise:
        parts.append(Text(f"noise: quartiles of a case lie {percent(found.noise)} of its median apart"))
    parts += [Text(f"warning: {line}", style="yellow") for line in found.warnings]
    return Group(*parts)


def calibration_figure(found: Calibration) -> Chart:
    """Every case measured against the model, both in seconds, a colour a kind."""
    kinds = list(dict.fromkeys(p.kind for p in found.points))
    layers = [equal_line([p.measured_s for p in found.points], [p.model_s for p in found.points])]
    noise = [
        {
            "x": p.measured_s * (1 - p.noise / 2),
            "x2": p.measured_s * (1 + p.noise / 2),
            "y": p.model_s,
            "series": p.kind,
        }
        for p in found.points
    ]
    layers.append(layer("rule", noise, strokeWidth=1))
    for kind in kinds:
        own = [p for p in found.points if p.kind == kind]
        told = [f"{p.label}: {signed_percent(p.model_s / p.measured_s - 1, 0)}" for p in own]
        layers.append(dots([p.measured_s for p in own], [p.model_s for p in own], told, series=kind))
    return Chart(
        title=f"{found.device.name}: measured against the fitted model",
        layers=tuple(layers),
        x=seconds_axis("measured", [p.measured_s for p in found.points]),
        y=seconds_axis("model", [p.model_s for p in found.points]),
        series={kind: SERIES[i % len(SERIES)] for i, kind in enumerate(kinds)},
        height=480,
        heading=True,
    )


def equal_line(x: Sequence[float], y: Sequence[float]) -> Layer:
    """The line on which both axes say the same."""
    ends = (min(*x, *y), max(*x, *y))
    return layer("line", [{"x": end, "y": end} for end in ends], color=GREY, strokeDash=[2, 3], strokeWidth=1.5)


def seconds_axis(name: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis of times."""
    low, high = min(values) / 1.2, max(values) * 1.2
    ticks, words = time_ticks(low, high)
    return Axis(title=f"{name}, log scale", kind="log", low=low, high=high, ticks=ticks, words=words)


def measured_summary(found: Measured) -> RenderableType:
    """Predicted against measured, class by class."""
    from rich.console import Group
    from rich.text import Text

    times = table("", "predicted", "measured", "error")
    p, run = found.predicted, found.run
    times.add_row("step time", seconds(p.step_time_s), seconds(found.seconds), signed_percent(found.error))
    memory = p.peak_memory_allocated_bytes
    times.add_row("memory allocated", gib(memory), gib(run.peak_bytes), signed_percent(found.memory_error))
    classes = table("class of time, busiest rank", "predicted", "measured", "difference")
    for name, (expected, measured) in sorted(found.classes().items(), key=lambda x: -abs(x[1][1] - x[1][0])):
        change = f"{'+' if measured >= expected else '−'}{seconds(abs(measured - expected))}"
        classes.add_row(name, seconds(expected), seconds(measured), change)
    spread = f"steps {seconds(min(run.seconds))} to {seconds(max(run.seconds))}, median of {len(run.seconds)}"
    head = Text(f"{p.scenario_name}: {spread}", style="bold")
    parts: list[RenderableType] = [head, *_changes(found.changes), *_doubts(run.noise, found.doubts), times]
    parts += [
        Text(""),
        classes,
        Text(
            "waiting: communication, its peers, pipeline bubbles and the host; measured classes are of one more step "
            "under the profiler, which slows the host",
            style="dim",
        ),
    ]
    return Group(*parts)


def decoded_summary(found: Decoded) -> RenderableType:
    """Predicted against measured decoding."""
    from rich.console import Group
    from rich.text import Text

    times = table("", "predicted", "measured", "error")
    times.add_row("time per token", seconds(found.predicted_tpot_s), seconds(found.tpot_s), signed_percent(found.error))
    times.add_row(
        "time of the prompts",
        seconds(found.predicted_ttft_s),
        seconds(found.run.prompt_s),
        signed_percent(found.ttft_error),
    )
    head = Text("decoding, a plain loop of forward passes", style="bold")
    return Group(head, *_changes(found.changes), *_doubts(found.run.noise, found.doubts), times)


def _changes(changes: Sequence[str]) -> list[RenderableType]:
    from rich.text import Text

    return [Text(f"scaled down: {', '.join(changes)}", style="dim")] if changes else []


def _doubts(noise: float, doubts: Sequence[str]) -> list[RenderableType]:
    from rich.text import Text

    from windtunnel.calibration.profile import NOISY

    lines = list(doubts)
    if noise > NOISY:
        lines.append(f"noisy machine: quartiles of the steps lie {noise:.0%} of their median apart; measure again")
    return [Text(line, style="yellow") for line in lines]
