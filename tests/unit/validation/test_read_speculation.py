"""Where a published sweep drafted tokens: by release, day and entry, never by what was measured."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from windtunnel.validation.rows.parsing.serving import read_serving

BASE: dict[str, Any] = {
    "id": "x",
    "kind": "serving",
    "set": "sample",
    "engine": "trtllm",
    "engine_version": "1.2.0rc6.post3",
    "image": "",
    "provenance": "source_file=2026-02-10.csv; model=X; silicon_concurrency=16; measured=2026-02-05T00:00:00.000Z",
    "model": "deepseek-ai/DeepSeek-R1",
    "hardware": "b200_sxm",
    "precision": "fp8",
    "tp": 8,
    "pp": 1,
    "ep": 1,
    "isl": 1024,
    "osl": 1024,
    "config": {
        "mode": "agg",
        "gemm_quant": "fp8",
        "moe_quant": "fp8",
        "tp_size": 8,
        "pp_size": 1,
        "attention_dp_size": 1,
        "moe_tp_size": 8,
        "moe_ep_size": 1,
    },
    "load": {"concurrency": 16},
    "metrics": {"ttft_mean_ms": 100.0, "tpot_mean_ms": 10.0},
}
DP = {"tp_size": 1, "attention_dp_size": 8, "moe_tp_size": 1, "moe_ep_size": 8}


def drafted(config: dict[str, Any] | None = None, day: str = "2026-02-05", **changes: Any) -> int:
    """Tokens that the row's scenario drafts; 0 without speculation."""
    row = copy.deepcopy({**BASE, **changes})
    row["provenance"] = f"source_file=2026-02-10.csv; model=X; silicon_concurrency=16; measured={day}T00:00:00.000Z"
    row["config"] |= config or {}
    found = read_serving(row).scenario
    assert found is not None and found.serving is not None
    return found.serving.speculation.tokens if found.serving.speculation else 0


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 3),
        ({"config": DP}, 1),
        ({"engine_version": "1.2.0rc6.post2", "day": "2026-01-29"}, 0),
        ({"engine_version": "1.1.0rc2.post2", "day": "2025-12-15"}, 0),
        ({"engine_version": "1.1.0rc2.post2", "day": "2026-01-14"}, 3),
        ({"engine_version": "1.1.0rc2.post2", "day": "2026-01-14", "config": DP}, 1),
        (
            {
                "engine_version": "1.1.0rc2.post2",
                "day": "2026-01-28",
                "hardware": "h200_sxm",
                "config": DP,
                "load": {"concurrency": 256},
            },
            1,
        ),
        (
            {
                "engine_version": "1.1.0rc2.post2",
                "day": "2026-01-28",
                "hardware": "h200_sxm",
                "load": {"concurrency": 64},
            },
            0,
        ),
        ({"model": "openai/gpt-oss-120b"}, 0),
        ({"engine": "sglang", "engine_version": "0.5.9", "day": "2026-03-25"}, 2),
        ({"engine": "sglang", "engine_version": "0.5.9", "day": "2026-03-25", "hardware": "h200_sxm"}, 0),
    ],
)
def test_entries_that_ran(changes: dict[str, Any], tokens: int) -> None:
    assert drafted(**changes) == tokens


def test_drafting_is_named_and_ignores_outcomes() -> None:
    found = read_serving(BASE)
    why = {name: text for name, _, text in found.assumed}["serving.speculation"]
    assert "perf-changelog" in why
    slow = {**BASE, "metrics": {"ttft_mean_ms": 1e6, "tpot_mean_ms": 1e6}}
    assert read_serving(slow) == found
