"""The load of a benchmark in a launch script, as traffic: `vllm bench serve`, SGLang's benchmark, `aiperf profile`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.files.parsing import MOST_DIGITS, json_of
from windtunnel.importers.launch import Launch
from windtunnel.importers.named_files import beside
from windtunnel.importers.server_command import Command, Starts, commands

VLLM = re.compile(r"(^|/| )vllm bench serve\b|benchmark_serving\.py\b")
SGLANG = re.compile(r"-m sglang\.(bench_serving|benchmark\.serving)\b")
AIPERF = re.compile(r"(^|/| )aiperf profile\b")
TRTLLM = re.compile(r"(^|[/\s])trtllm-bench\b", re.MULTILINE)
GUIDELLM = re.compile(r"(^|[/\s])guidellm benchmark\b( run\b)?", re.MULTILINE)
GENAI_PERF = re.compile(r"(^|[/\s])genai-perf( profile)?\b", re.MULTILINE)
STAND_IN_INPUT, STAND_IN_OUTPUT = 1024, 128
"""Tokens of prompts and answers where a data set that is not here has them."""
TRACES = {"timed_trace", "mooncake_trace"}
"""Data sets that are lines in Mooncake's format, times in milliseconds."""


def read(launch: Launch, text: str, env: Mapping[str, str]) -> None:
    """Fill in `serving.traffic` from the first load in a script; nothing when there is none.

    A load that replays requests of a file next to the script comes before one that draws lengths.
    """
    loads = []
    short = {"-m": "--model", "-u": "--url", "-c": "--concurrency"}
    for program, own in ((GUIDELLM, _guidellm), (GENAI_PERF, _genai_perf), (TRTLLM, _trtllm_bench)):
        notes = Launch(format=launch.format, title=launch.title, file=launch.file)
        for command in commands(text, Starts(patterns=(program,), short=short), notes, env)[:1]:
            own(_Options(launch, command))
            return
    for program, is_range in ((VLLM, _around), (SGLANG, _below), (AIPERF, _around)):
        found = commands(
            text, Starts(patterns=(program,)), Launch(format=launch.format, title=launch.title, file=launch.file), env
        )
        loads += [(command, is_range, _replayed(launch, command)) for command in found[:1]]
    for command, is_range, trace in sorted(loads, key=lambda one: one[2] is None)[:1]:
        _fields(launch, command, is_range, trace)


def _replayed(launch: Launch, command: Command) -> tuple[Path, str] | None:
    """The file of requests that a load sends, where it lies next to the script, and the option that names it."""
    kinds = {command.values.get("dataset-name"), command.values.get("custom-dataset-type")}
    for name in ("dataset-path", "input-file"):
        if isinstance(text := command.values.get(name), str) and kinds & TRACES:
            path = beside(launch.file, Path(text).name)
            if path is not None:
                return path, name
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


def place(text: str) -> int | None:
    """Where a text sends a load first; None when it does not."""
    found = [m.start() for program in (VLLM, SGLANG, AIPERF, GUIDELLM, GENAI_PERF) if (m := program.search(text))]
    return min(found, default=None)


def _spread(mean: int, deviation: Any) -> Any:
    """A fixed length, or a normal law."""
    if not isinstance(deviation, int | float) or not deviation:
        return mean
    return {"distribution": "normal", "mean": float(mean), "cv": round(float(deviation) / mean, 6), "min": 1}


def _guidellm(options: _Options) -> None:
    """`guidellm benchmark`: a profile with its rate, and lengths of synthetic data."""
    given = options.command.values
    kind, said = options.first("profile", "rate-type")
    rate, rate_said = options.first("rate")
    if isinstance(rate, str) and (first := re.match(r"\d+(?:\.\d+)?", rate)):
        options.launch.leave("rate", rate, options.command.lines.get("rate"), "the first of several rates is read")
        rate = float(first.group())
    if kind in ("synchronous", "throughput"):
        options.put("concurrency" if kind == "synchronous" else "offline", 1 if kind == "synchronous" else True, said)
    elif kind == "concurrent" and isinstance(rate, int | float):
        options.put("concurrency", int(rate), rate_said)
    elif isinstance(rate, int | float) and kind != "sweep":
        options.put("rate_per_s", float(rate), rate_said)
        if kind == "constant":
            options.put("process", "constant", said)
    else:
        options.launch.assume("serving.traffic.rate_per_s", 1.0, "a sweep looks for the rate: a stand-in")
    count, count_said = options.first("max-requests")
    seconds, seconds_said = options.first("max-seconds")
    closed = any(f"serving.traffic.{name}" in options.launch.fields for name in ("concurrency", "offline"))
    if isinstance(count, int):
        options.put("num_requests", count, count_said)
    elif isinstance(seconds, int | float) and not closed:
        options.put("duration_s", float(seconds), seconds_said)
    else:
        options.launch.assume("serving.traffic.num_requests", 500, "not in the command: a stand-in")
    inner = {key[5:].replace("-", "_"): value for key, value in given.items() if key.startswith("data.")}
    data = inner or _key_values(str(given.get("data", "")))
    said = next((key for key in given if key.split(".")[0] == "data"), "data")
    data = {key: value for key, value in data.items() if _is_length(value)}
    prefix = int(data.get("prefix_tokens", 0))
    for field, name, stand_in in (
        ("input_tokens", "prompt_tokens", STAND_IN_INPUT),
        ("output_tokens", "output_tokens", STAND_IN_OUTPUT),
    ):
        if name not in data:
            options.launch.assume(f"serving.traffic.{field}", stand_in, "lengths come from a data set: a stand-in")
            continue
        mean = int(data[name]) + (prefix if field == "input_tokens" else 0)
        options.put(field, _spread(mean, data.get(f"{name}_stdev")), said)
    if prefix:
        options.put("shared_prefix_tokens", prefix, said)
    if data.get("turns", 1) > 1:
        options.put("sessions", {"turns": {"mean": float(data["turns"])}}, said)


def _trtllm_bench(options: _Options) -> None:
    """`trtllm-bench`: all requests at once, or so many at a time; lengths are those of a data set."""
    count, said = options.first("num-requests")
    slots, slots_said = options.first("concurrency")
    if isinstance(slots, int) and slots > 0:
        options.put("concurrency", slots, slots_said)
    else:
        options.put("offline", True, slots_said)
    if isinstance(count, int) and count > 0:
        options.put("num_requests", count, said)
    else:
        options.launch.assume("serving.traffic.num_requests", 500, "those of a data set: a stand-in")
    named = re.search(r"isl[_=-]*(\d{1,15})[_-]*osl[_=-]*(\d{1,15})", str(options.first("dataset")[0]))
    sizes = (int(named[1]), int(named[2])) if named else (None, None)
    for field, name, stand_in, size in (
        ("input_tokens", "target-input-len", STAND_IN_INPUT, sizes[0]),
        ("output_tokens", "target-output-len", STAND_IN_OUTPUT, sizes[1]),
    ):
        length, own = options.first(name)
        if isinstance(length, int):
            options.put(field, length, own)
        elif size:
            options.put(field, size, "dataset")
        else:
            options.launch.assume(f"serving.traffic.{field}", stand_in, "lengths come from a data set: a stand-in")


def _genai_perf(options: _Options) -> None:
    """`genai-perf profile`: concurrency or rate, lengths with deviations, prefixes, sessions."""
    slots, said = options.first("concurrency")
    rate, rate_said = options.first("request-rate", "session-concurrency")
    if isinstance(slots, int):
        options.put("concurrency", slots, said)
    elif isinstance(rate, int | float):
        options.put("rate_per_s", float(rate), rate_said)
    else:
        options.launch.assume("serving.traffic.concurrency", 1, "the generator's default")
    _genai_perf_requests(options)
    _genai_perf_lengths(options)


def _genai_perf_requests(options: _Options) -> None:
    """Number of requests, or of sessions with their turns."""
    sessions, sessions_said = options.first("num-sessions")
    turns, turns_said = options.first("session-turns-mean")
    count, said = options.first("request-count", "num-requests", "num-prompts", "num-dataset-entries")
    if isinstance(sessions, int):
        mean = float(turns) if isinstance(turns, int | float) else 1.0
        delay, _ = options.first("session-turn-delay-mean")
        pause = {"think_time_s": delay / 1e3} if isinstance(delay, int | float) and delay else {}
        options.put("sessions", {"turns": {"mean": mean}, **pause}, turns_said)
        options.put("num_requests", int(sessions * mean), sessions_said)
    elif isinstance(count, int):
        options.put("num_requests", count, said)
    else:
        options.launch.assume("serving.traffic.num_requests", 500, "not in the command: a stand-in")


def _genai_perf_lengths(options: _Options) -> None:
    """Lengths of prompts and answers, and of the prefixes that prompts share."""
    prefix, prefix_said = options.first("prefix-prompt-length", "shared-system-prompt-length")
    more = prefix if isinstance(prefix, int) else 0
    for field, names, deviation, stand_in, own in (
        ("input_tokens", ("synthetic-input-tokens-mean", "isl"), "synthetic-input-tokens-stddev", 550, more),
        ("output_tokens", ("output-tokens-mean", "osl"), "output-tokens-stddev", STAND_IN_OUTPUT, 0),
    ):
        length, said = options.first(*names)
        if isinstance(length, int):
            options.put(field, _spread(length + own, options.first(deviation)[0]), said)
        else:
            options.launch.assume(f"serving.traffic.{field}", stand_in + own, "not in the command: a stand-in")
    kinds, _ = options.first("num-prefix-prompts")
    if more and isinstance(kinds, int) and kinds > 1:
        options.put("tenants", [{"name": "prefixes", "shared_prefix_tokens": more, "prefixes": kinds}], prefix_said)
    elif more:
        options.put("shared_prefix_tokens", more, prefix_said)


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


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 10**MOST_DIGITS


def _key_values(text: str) -> dict[str, Any]:
    """The table in guidellm's `--data`: a JSON object, or `prompt_tokens=256,output_tokens=128`."""
    if text.lstrip().startswith("{"):
        try:
            found = json_of(text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
    pairs = re.findall(r"(?<!\w)(\w+)[ \t]*=[ \t]*(-?\d{1,15}(?:\.\d{1,15})?)(?![\d.])", text)
    return {key: float(value) if "." in value else int(value) for key, value in pairs}
