"""What `serve` refuses, in words, and combinations that have to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.cli.main import run as cli
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario
from windtunnel.serving.simulate import simulate_serving

TRAFFIC = {"rate_per_s": 20, "num_requests": 60, "input_tokens": 200, "output_tokens": 20}
SPLIT = [{"role": "prefill"}, {"role": "decode"}]
CALLS = [
    {"id": "a", "input_tokens": 100, "output_tokens": 20},
    {"id": "b", "after": ["a"], "input_tokens": 50, "output_tokens": 20, "repeat": 2},
]


def run(**serving: Any) -> Any:
    return simulate_serving(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
            "serving": {"engine": "vllm", "engine_version": "0.11.0", "traffic": TRAFFIC} | serving,
        }
    )


def test_a_scenario_in_python_reports_a_trace_that_is_absent(tmp_path: Path) -> None:
    scenario = load_scenario(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
            "serving": {"traffic": {"trace": str(tmp_path / "absent.jsonl")}},
        }
    )
    with pytest.raises(BadInput, match=r"absent\.jsonl"):
        simulate_serving(scenario)


@pytest.mark.parametrize("variation", ["request", "step"])
def test_acceptance_varies_over_split_pools(variation: str) -> None:
    drafted = {"method": "eagle", "tokens": 3, "acceptance": 0.7, "variation": variation, "acceptance_std": 0.05}
    mean = run(pools=SPLIT, speculation=drafted | {"variation": "none"})
    result = run(pools=SPLIT, speculation=drafted)
    assert result.completed == 60
    assert result.tpot_s.mean == pytest.approx(mean.tpot_s.mean, rel=0.1)


def test_agents_over_split_pools() -> None:
    traffic = {"rate_per_s": 5, "num_requests": 12, "agents": [{"name": "pair", "calls": CALLS}]}
    result = run(pools=SPLIT, traffic=traffic)
    assert result.completed == 36, "every call of every task, though answers end on other instances"


def test_trajectories_over_split_pools() -> None:
    width = {"method": "rebase", "width": 4, "steps": 3}
    result = run(pools=SPLIT, traffic=TRAFFIC | {"num_requests": 8, "trajectories": width})
    assert result.completed == result.requests > 8


def test_a_rate_beside_a_closed_loop() -> None:
    tenants = [{"name": "loop", "concurrency": 4, "num_requests": 20}, {"name": "open", "rate_per_s": 10}]
    result = run(traffic=TRAFFIC | {"tenants": tenants})
    assert result.completed == 60, "the open tenant takes what is left of num_requests"


def test_refused_requests_are_no_load() -> None:
    result = run(pools=[{"limits": {"max_model_len": 10}}])
    assert result.rejected == 60 and not result.saturated
    assert not any("lower rate" in text for text in result.warnings)


@pytest.mark.parametrize(
    ("serving", "said"),
    [
        ({"expert_load": {"popularity": 0.3}}, "expert_load: is not read: meta-llama/Llama-3.1-8B has no experts"),
        ({"engine_version": 1.0}, 'serving.engine_version = 1.0: must be text; a number in quotes: "0.10"'),
        ({"traffic": TRAFFIC | {"tenants": [{"name": ""}]}}, "serving.traffic.tenants.0.name = '': must not be empty"),
        (
            {"traffic": TRAFFIC | {"priorities": [float("nan"), 1]}},
            "traffic.priorities.0 = NaN: must be a finite number",
        ),
        (
            {"traffic": TRAFFIC | {"priorities": [float("inf"), 1]}},
            "traffic.priorities.0 = Infinity: must be a finite number",
        ),
        ({"traffic": TRAFFIC | {"rate_per_s": float("inf")}}, "traffic.rate_per_s = Infinity: must be a finite number"),
        ({"traffic": TRAFFIC | {"rate_per_s": 1e-300}}, "serving.traffic.rate_per_s = 1e-300: must be at least"),
        ({"autoscale": {"max": 2, "target": 3, "interval_s": 1e-9}}, "serving.autoscale.interval_s = 1e-09: must be"),
        (
            {
                "traffic": {
                    "rate_per_s": 1,
                    "num_requests": 2,
                    "agents": [
                        {"name": "a", "calls": [{"id": "x", "input_tokens": 1, "output_tokens": 1, "repeat": 10**6}]}
                    ],
                }
            },
            "agents.0.calls.0.repeat = 1000000: must be at most 1000",
        ),
        ({"pools": [{"plan": {"pp": 2}, "sm_split": {}}]}, "serving.pools[0].sm_split: stands with pp 1, not 2"),
        (
            {"pools": [{"sm_split": {}, "kv": {"swap": {}, "swap_space_bytes": 1e9}}]},
            "serving.pools[0].kv.swap: is not read with sm_split",
        ),
        (
            {"pools": [{"sm_split": {}, "kv": {"lending": True}}]},
            "serving.pools[0].kv.lending: is not read with sm_split",
        ),
        ({"mesh": {}, "pools": [{"queue": "vtc"}]}, "serving.pools[0].queue: is not read with serving.mesh"),
        ({"mesh": {}, "router": "random"}, "serving.router: is not read with serving.mesh"),
        ({"pools": [{"sm_split": {"period_s": 0}}]}, "sm_split.period_s = 0: must be greater than 0"),
        ({"mesh": {}}, "serving.mesh: needs traffic.tenants"),
    ],
)
def test_refused(serving: dict[str, Any], said: str) -> None:
    with np.errstate(all="raise"), pytest.raises(BadInput) as error:
        run(**serving)
    assert said in str(error.value)


def test_a_technique_names_its_own_field() -> None:
    with pytest.raises(BadInput, match=r"techniques\.lamina\.device = foo: not in the catalogue"):
        simulate_serving(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
                "serving": {"traffic": TRAFFIC},
                "techniques": [{"lamina": {"device": "foo"}}],
            }
        )


@pytest.mark.parametrize("kv", [{}, {"swap_space_bytes": "1 GB"}])
@pytest.mark.parametrize("queue", ["fcfs", "srtf"])
def test_the_wait_of_a_preempted_request_is_a_time_between_tokens(kv: dict[str, Any], queue: str) -> None:
    """Answers of one length: the mean over gaps is the mean over requests, in the jitted loop and in its twin."""
    pools = [{"kv": {"num_blocks": 300, "prefix_caching": False} | kv, "queue": queue}]
    result = run(pools=pools, traffic=TRAFFIC | {"output_tokens": 400})
    assert result.preemptions > 10
    assert result.itl_s.mean == pytest.approx(result.tpot_s.mean, rel=0.02)
    assert result.itl_s.count == 60 * 399


def test_an_override_begins_a_list_that_the_file_leaves_out() -> None:
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "serving": {"traffic": TRAFFIC},
    }
    changes = ["serving.pools.0.plan.tp=2", "serving.pools[0].limits.max_num_seqs=16", "techniques.0=nanoflow"]
    result = simulate_serving(scenario, overrides=changes)
    assert result.num_devices == 2 and result.limits["max_num_seqs"] == 16
    with pytest.raises(BadInput, match=r"serving\.pools"):
        simulate_serving(scenario, overrides=["serving.pools.1.plan.tp=2"])


@pytest.mark.parametrize("part", ["ttft_s", "tpot_s", "e2e_s"])
def test_an_objective_of_no_time_is_refused(part: str) -> None:
    with pytest.raises(BadInput, match=f"serving.slo.{part} = 0: must be greater than 0"):
        run(slo={part: 0})


@pytest.mark.parametrize(("verb", "said"), [("plan", "search.target: serving"), ("train", "`serve` is the command")])
def test_verbs_of_training_name_what_serving_needs(
    verb: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "served.yaml"
    cluster = {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4}
    served = {"model": "meta-llama/Llama-3.1-8B", "cluster": cluster, "serving": {"traffic": TRAFFIC}}
    file.write_text(json.dumps(served), encoding="utf-8")
    assert cli([verb, str(file)]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_paper_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from windtunnel_lab import reproduce as papers

    monkeypatch.setattr(papers, "run_paper", lambda _: pytest.fail("ran"))
    assert cli(["reproduce", "kvshare", "nonsense"]) == 2
