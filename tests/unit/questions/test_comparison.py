"""Sides of a comparison of unlike numbers of devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from windtunnel.questions.ask import _measure, _of_one_batch
from windtunnel.questions.comparison import sides
from windtunnel.questions.reading import read
from windtunnel.questions.to_scenario import asked

OUTPUT, TRAINED = "cost_per_million_output_tokens", "cost_per_million_tokens"


def clusters(words: str) -> list[tuple[int | None, str]]:
    """(devices, device) of each side."""
    found = [asked(side) for side in sides(read(words))]
    return [(one.devices, one.scenario["cluster"]["device"]) for one in found]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("llama3-8b on 8 h100 vs 4 h200", [(8, "h100-sxm-80gb"), (4, "h200-sxm-141gb")]),
        ("is 64 H100 or 128 A100 faster to train Llama 3 70B?", [(64, "h100-sxm-80gb"), (128, "a100-sxm-80gb")]),
        ("llama3-70b training: 128 vs 256 H200s", [(128, "h200-sxm-141gb"), (256, "h200-sxm-141gb")]),
        ("compare 1 h100 and 2 l40s to serve llama3-8b", [(1, "h100-sxm-80gb"), (2, "l40s-48gb")]),
    ],
)
def test_each_side_has_its_own_number_of_devices(words: str, wanted: list[tuple[int, str]]) -> None:
    assert clusters(words) == wanted


@pytest.mark.parametrize("words", ["llama3-8b on 8 h100", "llama3-8b on 8 h100 vs h200", "8 h100 vs 8 h200, llama3-8b"])
def test_equal_numbers_of_devices_are_a_choice_of_one_search(words: str) -> None:
    assert sides(read(words)) == []


def test_what_both_sides_share_is_kept() -> None:
    both = [asked(side) for side in sides(read("1 4090 or 2 3090 for qlora of qwen2.5 7b at 4k"))]
    assert [one.task for one in both] == ["finetune", "finetune"]
    assert [one.scenario["training"]["seq_len"] for one in both] == [4096, 4096]


def test_sides_of_unlike_clusters_have_one_batch() -> None:
    parts = _of_one_batch(sides(read("compare 64 h100 with 128 a100 for llama3-70b")))
    assert [asked(part).scenario["training"]["global_batch"] for part in parts] == [128, 128]
    said = sides(read("compare 64 h100 with 128 a100 for llama3-70b, batch 256"))
    assert _of_one_batch(said) == said


@pytest.mark.parametrize(
    ("words", "by", "better"),
    [
        (
            "is it cheaper to serve llama3-8b on 1 h100 or 4 l40s at 5 rps",
            "price",
            {"cost_per_million_output_tokens": 1},
        ),
        ("serve llama3-8b on 1 h100 vs 4 l40s", "requests/s", {"throughput_requests_per_s": 9}),
        ("serve llama3-8b on 1 h100 vs 4 l40s at 5 rps", "TPOT", {"tpot_s": SimpleNamespace(p50=0.01)}),
        ("train llama3-8b on 8 h100 vs 4 h200", "tokens/s", {"tokens_per_s": 9, "step_time_s": 1}),
        (
            "is it cheaper to train llama3-8b on 8 h100 or 4 h200",
            "price",
            {"cost_per_million_tokens": 1, "step_time_s": 1},
        ),
    ],
)
def test_a_comparison_is_decided_by_what_was_asked(words: str, by: str, better: dict[str, Any]) -> None:
    usual = {OUTPUT: 2, "throughput_requests_per_s": 3, "tpot_s": SimpleNamespace(p50=0.02)}
    trained = {TRAINED: 2, "tokens_per_s": 3, "step_time_s": 1}
    other = SimpleNamespace(**(trained if "step_time_s" in better else usual))
    best = SimpleNamespace(**vars(other) | better)
    name, worth = _measure(asked(sides(read(words))[0]), [other, best])
    assert name == by and worth(best) > worth(other)


def test_three_settings_on_two_clusters_are_no_pairs() -> None:
    assert sides(read("serve llama3-8b with tp 1 or tp 2 or tp 4 on 8 h100 or 4 h200")) == []
