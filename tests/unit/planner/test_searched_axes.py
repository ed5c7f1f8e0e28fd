"""Plans that the framework's release can run, and which axes a search varied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.planner.plan_one_cluster import case_of
from windtunnel.planner.space.candidates import V_SHAPED, Candidates, enumerate_candidates
from windtunnel.planner.space.searched_axes import not_searched, searched
from windtunnel.scenarios.load import load_scenario


def mixture(framework: str, **search: Any) -> dict[str, Any]:
    return {
        "model": {
            "name": "small-mixture",
            "hidden_size": 512,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "intermediate_size": 1024,
            "vocab_size": 32000,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 512,
        },
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"framework": framework, "seq_len": 2048, "global_batch": 16},
        "search": search,
    }


def candidates(framework: str, **search: Any) -> tuple[Any, Candidates]:
    scenario = load_scenario(mixture(framework, **search))
    case, wanted = case_of(scenario)
    own = (case.model, case.cluster, case.training, scenario.plan, wanted, case.behaviour, case.can)
    return case, enumerate_candidates(*own)


def schedules_of(x: Candidates) -> set[str | None]:
    return {x.policies[j].schedule for j in np.flatnonzero(x.legal.any(axis=0)).tolist()}


@pytest.mark.parametrize(("framework", "has"), [("megatron_core", False), ("nemo", False), ("torchtitan", True)])
def test_the_default_space_has_the_v_shaped_schedule_where_the_framework_runs_it(framework: str, has: bool) -> None:
    _, x = candidates(framework)
    assert (V_SHAPED in schedules_of(x)) is has


def test_what_a_space_lists_stays_in_it() -> None:
    _, x = candidates("megatron_core", space={"schedule": [V_SHAPED], "vpp": [2], "pp": [2]})
    assert schedules_of(x) == {V_SHAPED}


def test_software_without_a_pipeline_has_none_in_its_space() -> None:
    _, x = candidates("fsdp1")
    assert set(x.pp.tolist()) == {1}  # no pipeline of its own


def test_every_axis_is_searched_or_says_why_not() -> None:
    case, x = candidates("megatron_core")
    varied = searched([(case, x)])
    still = not_searched([(case, x)], varied)
    assert varied["tp"] == [1, 2, 4, 8] and varied["pp"] == [1, 2, 4, 8]
    assert "moe_act" in " ".join(varied["recompute"])
    assert {"zero", "cp_kind", "moe_dispatcher", "cuda_graphs", "fused_experts"} <= set(still)
    assert still["cp_kind"].startswith("ring: the default; megatron_core also runs all_gather")
    assert "deepep" in still["moe_dispatcher"]


def test_the_result_has_both_beside_the_proof() -> None:
    found = api.plan(mixture("megatron_core", space={"tp": [1, 2], "pp": [1], "ep": [1], "cp": [1], "mbs": [1]}))
    data = found.to_dict()
    assert data["searched"]["tp"] == [1, 2] and "zero" in data["not_searched"] and "proof" in data


def test_a_stated_plan_that_cannot_run_is_told_in_one_line() -> None:
    plan = {"pp": 2, "vpp": 2, "schedule": V_SHAPED, "mbs": 1}
    found = api.simulate_training({**mixture("megatron_core"), "plan": plan}, sensitivities=False)
    lines = [line for line in found.warnings if "cannot run" in line]
    assert len(lines) == 1 and lines[0].startswith("plan.schedule: megatron_core cannot run dualpipev")


def test_fit_proposes_nothing_that_the_release_cannot_run() -> None:
    scenario = mixture("megatron_core") | {
        "model": "meta-llama/Llama-3.1-70B",
        "plan": {"tp": 8, "mbs": 1},
    }
    old = scenario | {"training": {**scenario["training"], "framework_version": "0.8"}}
    changes = [setting for one in api.fit(old).changes for setting in one.settings]
    assert changes and "plan.zero=3" not in changes
