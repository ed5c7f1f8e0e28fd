"""Settings of load generators become traffic."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.cli.import_launch import _checked
from windtunnel.errors import BadInput
from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.specs.traffic import TrafficSpec


def traffic(text: str, file: str = "load.sh") -> dict[str, Any]:
    assert formats.detect(text, file) == "load"
    launch = formats.read("load", text, file, Wanted())
    assert launch.problems == []
    found: dict[str, Any] = launch.scenario()["serving"]["traffic"]
    TrafficSpec.model_validate(found)
    return found


PERF = "load:\n  type: {}\n  stages:\n  - {}\napi: {{type: completion}}\ndata:\n  type: {}\n"


def test_shared_prefixes_of_inference_perf() -> None:
    text = PERF.format("poisson", "{rate: 4, duration: 30}", "shared_prefix") + (
        "  shared_prefix: {num_groups: 8, num_prompts_per_group: 3, system_prompt_len: 1000, question_len: 50, "
        "output_len: 20}\n"
    )
    found = traffic(text, "config.yml")
    assert (found["rate_per_s"], found["duration_s"], found["input_tokens"]) == (4.0, 30.0, 1050)
    assert found["tenants"] == [{"name": "shared", "shared_prefix_tokens": 1000, "prefixes": 8}]
    turns = traffic(text.replace("num_groups", "enable_multi_turn_chat: true, num_groups"), "config.yml")
    assert turns["rate_per_s"] == 0.8 and len(turns["agents"]) == 8  # 120 requests of 24 users
    first, rest = turns["agents"][0]["calls"]
    assert (first["input_tokens"], rest["repeat"], turns["agents"][0]["system_tokens"]) == (50, 4, 1000)


def test_distributions_and_concurrency_of_inference_perf() -> None:
    text = PERF.format("concurrent", "{concurrency_level: 3, num_requests: 40}", "random") + (
        "  input_distribution: {min: 10, max: 100, mean: 50, std_dev: 10}\n"
        "  output_distribution: {type: uniform, min: 5, max: 9}\n"
    )
    found = traffic(text, "config.yml")
    assert (found["concurrency"], found["num_requests"]) == (3, 40)
    assert found["input_tokens"] == {"distribution": "normal", "mean": 50.0, "cv": 0.2, "min": 10, "max": 100}
    assert found["output_tokens"] == {"distribution": "uniform", "min": 5, "max": 9}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "guidellm benchmark --target http://x --rate-type constant --rate 10 --max-seconds 30 "
            '--data "prompt_tokens=256,output_tokens=128,prefix_tokens=64"',
            {"rate_per_s": 10.0, "process": "constant", "duration_s": 30.0, "input_tokens": 320, "output_tokens": 128}
            | {"shared_prefix_tokens": 64},
        ),
        (
            "guidellm benchmark run --profile concurrent --rate 16 --max-requests 100 "
            '--data \'{"prompt_tokens": 256, "output_tokens": 128, "turns": 3}\'',
            {"concurrency": 16, "num_requests": 100, "input_tokens": 256, "output_tokens": 128}
            | {"sessions": {"turns": {"mean": 3.0}}},
        ),
        (
            "genai-perf profile -m x --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 20 "
            "--output-tokens-mean 100 --concurrency 10 --request-count 50",
            {"concurrency": 10, "num_requests": 50, "output_tokens": 100}
            | {"input_tokens": {"distribution": "normal", "mean": 200.0, "cv": 0.1, "min": 1}},
        ),
        (
            "genai-perf profile -m x --request-rate 2 --num-sessions 10 --session-turns-mean 4 "
            "--session-turn-delay-mean 500 --isl 300 --osl 60",
            {"rate_per_s": 2.0, "num_requests": 40, "input_tokens": 300, "output_tokens": 60}
            | {"sessions": {"turns": {"mean": 4.0}, "think_time_s": 0.5}},
        ),
    ],
)
def test_commands(text: str, expected: dict[str, Any]) -> None:
    assert traffic(text) == expected


def test_a_load_beside_its_server_is_read_with_it() -> None:
    text = (
        "vllm serve Qwen/Qwen3-8B &\nguidellm benchmark --rate-type poisson --rate 3 --max-requests 9 "
        "--data prompt_tokens=5,output_tokens=6"
    )
    launch = formats.read(formats.detect(text, "x.sh"), text, "x.sh", Wanted(device="h100-sxm-80gb"))
    assert launch.scenario()["serving"]["traffic"] == {
        "rate_per_s": 3.0,
        "num_requests": 9,
        "input_tokens": 5,
        "output_tokens": 6,
    }


def test_lengths_of_inference_perf_may_be_distributions_in_place() -> None:
    text = PERF.format("poisson", "{rate: 4, duration: 30}", "shared_prefix") + (
        "  shared_prefix: {num_unique_system_prompts: 2, system_prompt_len: 100, output_len: 20, "
        "question_len: {type: lognormal, mean: 100, std_dev: 50, min: 10, max: 300}}\n"
    )
    assert traffic(text, "config.yml")["input_tokens"] == {
        "distribution": "lognormal",
        "mean": 200.0,
        "cv": 0.25,
        "min": 110,
        "max": 400,
    }


def test_a_script_in_which_no_load_can_be_read_is_refused_in_words() -> None:
    with pytest.raises(BadInput, match="no requests, lengths or rate"):
        _checked(Launch(format="load", title="a load", file="load.sh"), Wanted())
