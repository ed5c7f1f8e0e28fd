"""Engines' start-up lines beside what is predicted for the same server: `docs/accuracy/serving-memory.md`.

`python -m windtunnel_lab.accuracy.serving_memory > docs/accuracy/serving-memory.md`
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from windtunnel.errors import Infeasible
from windtunnel.serving.deployment import Pool, prepare
from windtunnel.serving.results.engine_log import engine_log
from windtunnel_lab.accuracy.tables import markdown, percent

LINES = Path(__file__).parent / "start_up/lines.yaml"
GIB = float(1 << 30)
_KNOBS = {"vllm": "gpu_memory_utilization", "sglang": "mem_fraction_static"}
_LIMITS = {"longest": "max_model_len", "sequences": "max_num_seqs", "batched": "max_num_batched_tokens"}
FIGURES = ("weights", "cache", "tokens", "concurrency")


@dataclass(frozen=True, slots=True)
class Start:
    """One server: what its engine logged, and what is predicted; figures that a thread does not state are absent."""

    source: str
    of: Mapping[str, Any]
    logged: Mapping[str, Any]
    predicted: Mapping[str, Any]
    note: str
    apart: bool

    def error(self, figure: str) -> float | None:
        """Relative error of a figure that both sides have."""
        logged, predicted = self.logged.get(figure), self.predicted.get(figure)
        if logged is None or predicted is None or logged <= 0:
            return None
        return float(predicted / logged - 1.0)

    @property
    def cached(self) -> float | None:
        """Relative error of the cache: its tokens, else its bytes; its bytes where the tokens follow from them."""
        if "cache" in self.of:
            return self.error("cache")
        return self.error("tokens") if self.error("tokens") is not None else self.error("cache")

    @property
    def wrongly_starts(self) -> bool:
        """Whether the engine refused and the prediction starts."""
        return self.logged.get("starts") is False and bool(self.predicted["starts"])


def scenario_of(of: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a server as its thread states it."""
    engine, tp = of.get("engine", "vllm"), of.get("tp", 1)
    limits = {name: of[key] for key, name in _LIMITS.items() if key in of}
    if "utilization" in of:
        limits[_KNOBS[engine]] = of["utilization"]
    precision = {name: of[key] for key, name in (("weights", "weights"), ("kv", "kv_cache")) if key in of}
    speculation = {"speculation": {"method": "mtp", "tokens": of["drafts"]}} if "drafts" in of else {}
    return {
        "model": of["model"],
        "cluster": {"device": of["device"], "nodes": max(tp // 8, 1), "devices_per_node": min(tp, 8)},
        "serving": {
            "engine": engine,
            "engine_version": str(of["version"]),
            "precision": precision,
            **speculation,
            "pools": [
                {
                    "plan": {"tp": tp},
                    "limits": limits,
                    "kv": {"prefix_caching": True} if of.get("caching") else {},
                }
            ],
            "traffic": {"rate_per_s": 1, "input_tokens": 10, "output_tokens": 2, "num_requests": 1},
        },
    }


def predicted(of: Mapping[str, Any]) -> dict[str, Any]:
    """What is predicted for a server; with `cache` what the engine makes of that much memory."""
    try:
        pool: Pool = prepare(scenario_of(of)).pools[0]
    except Infeasible as refused:
        return {"starts": False, "why": str(refused)}
    log = engine_log(pool)
    out: dict[str, Any] = {"weights": log.weights_gib, "cache": log.available_kv_gib, "starts": log.starts}
    if (gib := of.get("cache")) is not None:
        own = pool.instance
        block = own.capacity.bytes_per_token * own.capacity.block_size
        blocks = int(gib * GIB // block) if block else own.capacity.blocks
        capacity = replace(own.capacity, cache_bytes=gib * GIB, blocks=blocks, tokens=blocks * own.capacity.block_size)
        log = engine_log(replace(pool, instance=replace(own, capacity=capacity)))
        out["starts"] = log.starts
    return out | {"tokens": log.kv_tokens, "concurrency": log.max_concurrency}


@cache
def starts() -> tuple[Start, ...]:
    """Every server of the table with its prediction."""
    data = yaml.safe_load(LINES.read_text("utf-8"))
    return tuple(
        Start(x["source"], x["of"], x["logged"], predicted(x["of"]), x.get("note", ""), bool(x.get("apart")))
        for x in data["lines"]
    )


def median(of: Sequence[Start], name: str) -> float:
    """Median absolute error of a figure (`cached`: of the cache)."""
    errors = [x.cached if name == "cached" else x.error(name) for x in of]
    return statistics.median(abs(e) for e in errors if e is not None)


# -- the page ----------------------------------------------------------------------------------------------------------
_HEADS = ["server", "weights, GiB", "cache, GiB", "tokens", "requests of the longest", "starts", "remark"]


def _pair(x: Start, figure: str) -> str:
    logged, own = x.logged.get(figure), x.predicted.get(figure)
    if logged is None:
        return "–"
    text = f"{logged:,}" if figure == "tokens" else f"{logged:g}"
    if own is None:
        return f"{text} / –"
    said = f"{own:,}" if figure == "tokens" else f"{own:.2f}"
    error = x.error(figure)
    return f"{text} / {said}" + ("" if error is None else f" ({percent(error)})")


def _starts(x: Start) -> str:
    words = {True: "yes", False: "no", None: "–"}
    return f"{words[x.logged.get('starts')]} / {words[bool(x.predicted['starts'])]}"


def _server(x: Start) -> str:
    of = x.of
    said = [f"{of.get('engine', 'vllm')} {of['version']}", f"{of.get('tp', 1)} × {of['device']}"]
    said += [f"{word} {of[key]}" for key, word in (("longest", "longest"), ("utilization", "share")) if key in of]
    return f"{of['model']}: {', '.join(said)} ({x.source})"


def table(of: Sequence[Start]) -> str:
    """One line a server, logged and predicted figures side by side."""
    rows = [[_server(x), *(_pair(x, f) for f in FIGURES), _starts(x), x.note] for x in of]
    return markdown(_HEADS, rows)


def threads(of: Sequence[Start]) -> int:
    """Number of public threads and documents."""
    return len({x.source.split(",")[0] for x in of})


def page() -> str:
    """The page of `docs/accuracy/serving-memory.md`."""
    seen, apart = [x for x in starts() if not x.apart], [x for x in starts() if x.apart]
    refused = sum(x.logged.get("starts") is False for x in starts())
    wrong = sum(x.wrongly_starts for x in starts())
    parts = [
        "# Memory of a server at its start",
        "Generated by `python -m windtunnel_lab.accuracy.serving_memory`; do not edit. Facts of "
        f"{threads(starts())} public threads and documents\n(`workshop/windtunnel_lab/accuracy/start_up/lines.yaml`): "
        "logged figures before the stroke, predicted ones behind it. Where a thread states the memory for the cache,\n"
        "its tokens and requests are predicted from that; the bytes of the cache are always predicted.",
        f"Median error: weights {median(starts(), 'weights'):.1%}, cached tokens (or bytes) "
        f"{median(starts(), 'cached'):.1%}, bytes of the cache "
        f"{median(starts(), 'cache'):.1%}. Of {refused} servers that refused to start {wrong} start in the prediction.",
        table(seen),
    ]
    if apart:
        parts += [
            "## Drawn afterwards",
            f"Median error: cached tokens (or bytes) {median(apart, 'cached'):.1%}; nothing was changed after these "
            "were predicted.",
            table(apart),
        ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(page())
