"""The load of a benchmark in a launch script, as traffic: `vllm bench serve`, SGLang's benchmark, `aiperf profile`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.importers.launch import Launch
from windtunnel.importers.server_command import Command, Starts, commands

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
        found = commands(
            text, Starts(patterns=(program,)), Launch(format=launch.format, title=launch.title, file=launch.file), env
        )
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


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of one benchmark command, and the traffic that they fill in."""

    launch: Launch
    command: Command

    def first(self, *names: str) -> tuple[Any, str]:
        """Value and name of the first of these options that is given."""
        given = self.command.values
        return next(((given[name], name) for name in names if name in given), (None, names[0]))

    def put(self, field: str, value: Any, name: str) -> None:
        """Set a field of `serving.traffic` from the option `name`."""
        self.launch.set(f"serving.traffic.{field}", value, name, self.command.lines.get(name))


def _fields(launch: Launch, command: Command, is_range: Any, trace: tuple[Path, str] | None) -> None:
    """Fill in `serving.traffic`: how many requests, when they are sent, and which or how long they are."""
    options = _Options(launch, command)
    count, said = options.first("num-prompts", "request-count", "num-requests")
    if isinstance(count, int):
        options.put("num_requests", count, said)
    _put_arrivals(options, replayed=trace is not None)
    if trace is not None:
        _put_trace(options, *trace)
        return
    _put_lengths(options, is_range)
    if isinstance(seed := command.values.get("seed"), int):
        options.put("seed", seed, "seed")
    if not isinstance(count, int):
        launch.assume("serving.traffic.num_requests", 1000, "the benchmark's default")


def _put_arrivals(options: _Options, *, replayed: bool) -> None:
    """A number of requests at a time, a rate with its process, or all at once."""
    slots, said = options.first("max-concurrency", "concurrency")
    rate, rate_said = options.first("request-rate")
    if isinstance(slots, int):
        options.put("concurrency", slots, said)
    elif isinstance(rate, int | float):
        options.put("rate_per_s", float(rate), rate_said)
        shape, said = options.first("burstiness", "arrival-smoothness")
        if isinstance(shape, int | float) and shape != 1:
            options.put("process", "constant" if shape >= 1000 else "gamma", said)
            if shape < 1000:
                options.put("burstiness", float(shape), said)
        if options.command.values.get("arrival-pattern") == "constant":
            options.put("process", "constant", "arrival-pattern")
    elif not replayed:
        options.put("offline", True, rate_said)


def _put_trace(options: _Options, path: Path, said: str) -> None:
    """Requests of a file in Mooncake's format."""
    options.put("trace", str(path), said)
    options.put("trace_format", "mooncake", said)
    options.put("trace_time_unit", "ms", said)
    block, block_said = options.first("timed-trace-chunk-hash-size", "isl-block-size")
    if isinstance(block, int):
        options.put("trace_block_size", block, block_said)


def _put_lengths(options: _Options, is_range: Any) -> None:
    """Tokens of prompts and answers, and of the prefix that all prompts share."""
    ratio = options.command.values.get("random-range-ratio")
    prefix, prefix_said = options.first("random-prefix-len", "shared-system-prompt-length")
    for field, names in (
        ("input_tokens", ("random-input-len", "input-len", "isl")),
        ("output_tokens", ("random-output-len", "output-len", "osl")),
    ):
        length, said = options.first(*names)
        if not isinstance(length, int):
            options.launch.assume(
                f"serving.traffic.{field}",
                1024 if field == "input_tokens" else 128,
                "lengths come from a data set that is not here: a stand-in",
            )
            continue
        least, most = is_range(length, ratio)
        more = prefix if field == "input_tokens" and isinstance(prefix, int) else 0
        even = {"distribution": "uniform", "min": least + more, "max": most + more}
        options.put(field, length + more if least == most else even, said)
    if isinstance(prefix, int) and prefix:
        options.put("shared_prefix_tokens", prefix, prefix_said)


def _around(length: int, ratio: Any) -> tuple[int, int]:
    """vLLM: even over length · (1 ± ratio)."""
    share = float(ratio) if isinstance(ratio, int | float) else 0.0
    return max(round(length * (1 - share)), 1), round(length * (1 + share))


def _below(length: int, ratio: Any) -> tuple[int, int]:
    """SGLang: even from ratio · length to length; its default ratio is 0."""
    share = float(ratio) if isinstance(ratio, int | float) else 0.0
    return max(int(length * share), 1), length
