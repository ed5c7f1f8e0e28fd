"""`8k` in lengths and in counts, and other ways in which people write numbers and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.scenarios.explain import path_of
from windtunnel.scenarios.large_numbers import number_of
from windtunnel.scenarios.load import load_scenario

TRAINING: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1},
    "training": {"seq_len": "8k", "global_batch": "1k"},
}


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("training.seq_len", "8k", 8192),
        ("training.seq_len", "1M", 1024**2),
        ("training.seq_len", "1.5K", 1536),
        ("serving.traffic.input_tokens", "3k", 3072),
        ("serving.traffic.input_tokens.max", "4k", 4096),
        ("serving.pools.0.limits.max_num_batched_tokens", "8k", 8192),
        ("training.global_batch", "1k", 1000),
        ("serving.traffic.num_requests", "2M", 2_000_000),
        ("run.tokens", "15T", 15 * 10**12),
    ],
)
def test_k_is_1024_in_lengths_and_a_thousand_in_counts(path: str, text: str, value: int) -> None:
    assert number_of(path, text) == value


@pytest.mark.parametrize("value", ["8 GiB", "k", "8kk", "-8k", "8q", 8, None, "", "1e3k"])
def test_other_values_are_left_alone(value: Any) -> None:
    assert number_of("training.seq_len", value) is None


def test_a_length_is_no_trillion() -> None:
    assert number_of("training.seq_len", "1T") is None


def test_a_scenario_takes_them_in_files_lists_and_settings() -> None:
    serving = {
        "traffic": {
            "rate_per_s": 2,
            "num_requests": "1k",
            "input_tokens": {"distribution": "lognormal", "mean": "2k", "max": "8k"},
            "output_tokens": "1k",
        }
    }
    found = load_scenario(TRAINING | {"serving": serving}, ["training.global_batch=2k", "search.space.mbs=[1,2]"])
    assert found.training is not None
    assert found.serving is not None
    assert (found.training.seq_len, found.training.global_batch) == (8192, 2000)
    traffic = found.serving.traffic
    assert (traffic.num_requests, traffic.output_tokens) == (1000, 1024)
    assert traffic.input_tokens.model_dump()["max"] == 8192  # type: ignore[union-attr]


def test_what_is_no_number_is_still_refused_with_the_others() -> None:
    with pytest.raises(BadInput) as error:
        load_scenario(TRAINING | {"training": {"seq_len": "8k", "global_batch": "many", "precison": "bf16"}})
    assert [problem.field for problem in error.value.problems] == ["training.global_batch", "training.precison"]


@pytest.mark.parametrize("device", [4090, "4090"])
def test_a_name_of_digits_is_a_name(device: int | str) -> None:
    assert load_scenario(TRAINING | {"cluster": {"device": device}}).cluster.device == "4090"  # type: ignore[union-attr]


@pytest.mark.parametrize("device", [True, 4090.5])
def test_other_numbers_are_none(device: Any) -> None:
    with pytest.raises(BadInput, match="must be a name or a mapping"):
        load_scenario(TRAINING | {"cluster": {"device": device}})


@pytest.mark.parametrize(
    ("setting", "meant"), [("tp=8", "plan.tp"), ("seq_len=4k", "training.seq_len"), ("nodes=2", "cluster.nodes")]
)
def test_a_field_without_its_section_is_answered_with_its_path(setting: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean '{meant}'"):
        load_scenario(TRAINING, [setting])


def test_paths_by_names_of_other_programs() -> None:
    assert path_of("tensor_parallel_size") == "plan.tp"
    assert path_of("no_such_field") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: a\ncluster:\n\tdevice: h100\n", "a tab stands here; indent with spaces (FILE:3)"),
        ('model: "a\ncluster: {device: h100}\n', 'the quote " is never closed (FILE:1)'),
        ("model: a\nname: 'b\n", "the quote ' is never closed (FILE:2)"),
    ],
)
def test_tabs_and_open_quotes_are_named_at_their_line(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as error:
        load_scenario(str(file))
    assert str(error.value) == f"not valid YAML: {says}".replace("FILE", str(file))
