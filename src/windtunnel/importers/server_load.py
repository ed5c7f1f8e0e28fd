"""The load of a benchmark in a launch script, as traffic: `vllm bench serve`, SGLang's benchmark, `aiperf profile`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windtunnel.importers.launch import Launch
from windtunnel.importers.server_command import Command, commands

VLLM = re.compile(r"(^|/| )vllm bench serve\b|benchmark_serving\.py\b")
SGLANG = re.compile(r"-m sglang\.(bench_serving|benchmark\.serving)\b")
AIPERF = re.compile(r"(^|/| )aiperf profile\b")
TRACES = {"timed_trace", "mooncake_trace"}
"""Data sets that are lines in Mooncake's format, times in milliseconds."""


def read(launch: Launch, text: str, env: Mapping[str, str]) -> None:
    """Fill in `serving.traffic` from the first load in a script; nothing when there is none.

    A load that replays requests of a file beside the script comes before one that draws lengths.
    """
    loads = []
    for program, is_range in ((VLLM, _around), (SGLANG, _below), (AIPERF, _around)):
        found = commands(text, (program,), {}, Launch(format=launch.format, title=launch.title, file=launch.file), env)
        loads += [(command, is_range, _replayed(launch, command)) for command in found[:1]]
    for command, is_range, trace in sorted(loads, key=lambda one: one[2] is None)[:1]:
        _fields(launch, command, is_range, trace)


def _replayed(launch: Launch, command: Command) -> tuple[Path, str] | None:
    """The file of requests that a load sends, where it lies beside the script, and the option that names it."""
    kinds = {command.values.get("dataset-name"), command.values.get("custom-dataset-type")}
    here = Path(launch.file)
    for name in ("dataset-path", "input-file"):
        if isinstance(text := command.values.get(name), str) and kinds & TRACES:
            path = (here if here.is_dir() else here.parent) / Path(text).name
            if path.is_file():
                return path.resolve(), name
    return None


def _fields(launch: Launch, command: Command, is_range: Any, trace: tuple[Path, str] | None) -> None:
    given, lines = command.values, command.lines

    def first(*names: str) -> tuple[Any, str]:
        return next(((given[name], name) for name in names if name in given), (None, names[0]))

    def put(field: str, value: Any, name: str) -> None:
        launch.set(f"serving.traffic.{field}", value, name, lines.get(name))

    count, said = first("num-prompts", "request-count", "num-requests")
    if isinstance(count, int):
        put("num_requests", count, said)
    slots, said = first("max-concurrency", "concurrency")
    rate, rate_said = first("request-rate")
    if isinstance(slots, int):
        put("concurrency", slots, said)
    elif isinstance(rate, int | float):
        put("rate_per_s", float(rate), rate_said)
        shape, said = first("burstiness", "arrival-smoothness")
        if isinstance(shape, int | float) and shape != 1:
            put("process", "constant" if shape >= 1000 else "gamma", said)
            if shape < 1000:
                put("burstiness", float(shape), said)
        if given.get("arrival-pattern") == "constant":
            put("process", "constant", "arrival-pattern")
    elif trace is None:
        put("offline", True, rate_said)
    if trace is not None:
        put("trace", str(trace[0]), trace[1])
        put("trace_format", "mooncake", trace[1])
        put("trace_time_unit", "ms", trace[1])
        block, said = first("timed-trace-chunk-hash-size", "isl-block-size")
        if isinstance(block, int):
            put("trace_block_size", block, said)
        return
    ratio = given.get("random-range-ratio")
    prefix, prefix_said = first("random-prefix-len", "shared-system-prompt-length")
    for field, names in (
        ("input_tokens", ("random-input-len", "input-len", "isl")),
        ("output_tokens", ("random-output-len", "output-len", "osl")),
    ):
        length, said = first(*names)
        if not isinstance(length, int):
            launch.assume(
                f"serving.traffic.{field}",
                1024 if field == "input_tokens" else 128,
                "lengths come from a data set that is not here: a stand-in",
            )
            continue
        least, most = is_range(length, ratio)
        more = prefix if field == "input_tokens" and isinstance(prefix, int) else 0
        even = {"distribution": "uniform", "min": least + more, "max": most + more}
        put(field, length + more if least == most else even, said)
    if isinstance(prefix, int) and prefix:
        put("shared_prefix_tokens", prefix, prefix_said)
    if isinstance(given.get("seed"), int):
        put("seed", given["seed"], "seed")
    if not isinstance(count, int):
        launch.assume("serving.traffic.num_requests", 1000, "the benchmark's default")


def _around(length: int, ratio: Any) -> tuple[int, int]:
    """vLLM: even over length · (1 ± ratio)."""
    share = float(ratio) if isinstance(ratio, int | float) else 0.0
    return max(round(length * (1 - share)), 1), round(length * (1 + share))


def _below(length: int, ratio: Any) -> tuple[int, int]:
    """SGLang: even from ratio · length to length; its default ratio is 0."""
    share = float(ratio) if isinstance(ratio, int | float) else 0.0
    return max(int(length * share), 1), length
