"""Defaults of frameworks by release: which row a release picks, where it stands, and what a step does with it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from windtunnel import api
from windtunnel.cost.coefficient_files import coefficient_file
from windtunnel.cost.framework_defaults import Behaviour, behaviour, dated_defaults
from windtunnel.stacks.defaults import Setting, holds, release_note
from windtunnel.stacks.releases import NEWEST, release_date
from windtunnel.stacks.stack_files import FRAMEWORKS, stack_file
from windtunnel.training.predict import prepare

DECIDED = ("attention", "grad_bytes", "overlap_grad_reduce", "overlap_param_gather", "overlap_tp", "cuda_graphs")


@pytest.mark.parametrize(
    ("framework", "version", "date"),
    [
        ("nemo", "", NEWEST),
        ("nemo", "24.07", (2024, 7, 31)),
        ("megatron_bridge", "26.02.01", (2026, 2, 31)),
        ("nemo", "1.22.3", (2024, 1, 31)),
        ("transformers", "v4.37.2", (2023, 12, 31)),
        ("megatron_deepspeed", "0.12.6", (2023, 11, 31)),
        ("generic", "1.13.1a0", (2022, 10, 31)),
        ("megatron_core", "2023", (2023, 6, 31)),
        ("megatron_core", "2023-11", (2023, 11, 31)),
        ("megatron_core", "2023-11-05", (2023, 11, 5)),
        ("fsdp1", "0.17", None),
        ("torchtitan", "0.1.0", (2025, 6, 31)),
        ("torchtune", "0.4", None),
        ("rocm_megatron", "26.3", (2026, 6, 31)),
        ("nemo", "main", None),
    ],
)
def test_releases_are_dated(framework: str, version: str, date: tuple[int, int, int] | None) -> None:
    assert release_date(framework, version) == date


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_states_its_overlap_kernels_and_formats_with_a_source(framework: str) -> None:
    known = dated_defaults(framework)
    assert not set(DECIDED) - known.keys()
    assert all(len(entry.source) > 10 for entry in known.values())


def test_rows_are_fields_in_order_of_their_dates_and_stand_in_one_place() -> None:
    names = {f.name for f in fields(Behaviour)}
    for framework in FRAMEWORKS:
        defaults = stack_file(framework).get("defaults", {})
        assert defaults.keys() <= names
        assert not defaults.keys() & coefficient_file(framework).get("behaviour", {}).keys()
        for rows in defaults.values():
            dates = [str(row["since"]) for row in rows if "since" in row]
            assert dates == sorted(dates)
            assert all(row.keys() <= {"since", "value", "source", "when"} for row in rows)


def test_a_release_picks_its_row() -> None:
    assert not behaviour("nemo", "23.04").overlap_tp and behaviour("nemo", "24.01").overlap_tp
    assert not behaviour("megatron_core", "0.5").overlap_grad_reduce and behaviour("megatron_core").overlap_grad_reduce
    assert [behaviour("deepspeed", d).grad_bytes for d in ("2022", "2023-04-10", "2023-05")] == [2.0, 4.0, 2.0]
    assert [behaviour("transformers", v).attention for v in ("4.34.1", "4.36.0", "")] == ["unfused", "sdpa", "sdpa"]
    assert behaviour("nemo", "main") == behaviour("nemo")


def test_transformer_engine_takes_the_kernel_of_the_device() -> None:
    kernels = {
        g: behaviour("nemo", "24.07", Setting(generation=g)).attention
        for g in ("volta", "ampere", "hopper", "blackwell")
    }
    assert kernels == {"volta": "unfused", "ampere": "flash2", "hopper": "cudnn", "blackwell": "cudnn"}
    assert behaviour("nemo", "23.04", Setting(generation="hopper")).attention == "flash1"


def test_unknown_software_overlaps_little() -> None:
    found = behaviour("generic")
    assert found.overlap_grad_reduce
    assert not (found.overlap_param_gather or found.overlap_tp or found.overlap_p2p or found.overlap_moe_a2a)


def step(**training: Any) -> Any:
    source = {
        "model": "llama-3.1-8b",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
        "training": {"seq_len": 16384, "global_batch": 32, "precision": "bf16", "framework": "nemo", **training},
        "plan": {"tp": 8, "pp": 1, "zero": 1, "recompute": "full"},
    }
    return api.simulate_training(source, sensitivities=False)


def test_the_default_and_its_source_stand_among_the_assumptions() -> None:
    found = {a.field: a for a in step(framework_version="23.04").assumed}
    assert found["plan.overlap.grad_reduce"].value == "off"
    assert "overlap_grad_sync: False" in found["plan.overlap.grad_reduce"].why
    newest = {a.field: a for a in step().assumed}
    assert newest["plan.overlap.grad_reduce"].value == "on"
    assert "since 2023-05" in newest["plan.overlap.grad_reduce"].why


def test_long_sequences_show_the_generation_of_the_attention_kernel() -> None:
    first, second = step(framework_version="23.04", attention="auto"), step(framework_version="23.08")
    assert first.step_time_s > 1.05 * second.step_time_s


def test_a_release_that_changes_nothing_is_named() -> None:
    assert release_note("nemo", "24.07") is None
    assert "no default of torchtitan" in str(release_note("torchtitan", "0.1.0"))
    assert any(
        "training.framework_version" in text and "newest" in text for text in step(framework_version="main").warnings
    )


def mixture(name: str, device: str, **training: Any) -> dict[str, Any]:
    return {
        "model": name,
        "cluster": {"device": device, "nodes": 16, "devices_per_node": 4},
        "training": {"seq_len": 4096, "global_batch": 512, "framework": "megatron_bridge", **training},
        "plan": {"pp": 4, "ep": 16, "vpp": 3},
    }


@pytest.mark.parametrize(
    ("name", "device", "training", "wanted"),
    [
        ("Qwen/Qwen3-235B-A22B", "gb200", {"precision": "mxfp8"}, ("hybridep", True, "full", True)),
        ("Qwen/Qwen3-235B-A22B", "gb200", {"precision": "bf16"}, ("hybridep", False, "layer", False)),
        (
            "Qwen/Qwen3-235B-A22B",
            "gb200",
            {"precision": "mxfp8", "framework_version": "26.04"},
            ("hybridep", False, "layer", False),
        ),
        ("Qwen/Qwen3-235B-A22B", "h100-sxm-80gb", {}, ("alltoall", True, "none", False)),
        ("mistralai/Mixtral-8x22B-v0.1", "gb200", {}, ("hybridep", False, "layer", False)),
        ("mistralai/Mixtral-8x22B-v0.1", "gb200", {"framework_version": "25.09"}, ("alltoall", False, "none", False)),
        (
            "Qwen/Qwen3-235B-A22B",
            "gb200",
            {"precision": "mxfp8", "moe_dispatcher": "alltoall", "cuda_graphs": "none"},
            ("alltoall", True, "none", True),
        ),
    ],
)
def test_mixtures_get_the_switches_of_their_release_on_their_device(
    name: str, device: str, training: dict[str, Any], wanted: tuple[Any, ...]
) -> None:
    scenario = mixture(name, device, **training)
    if "Mixtral" in name:
        scenario["plan"] = {"pp": 4, "ep": 8, "vpp": 2}
    plan = prepare(scenario)[0].plan
    assert (plan.dispatcher, plan.overlap_moe_a2a, plan.cuda_graphs, plan.fused_experts) == wanted


def test_conditions_that_are_not_known_do_not_hold() -> None:
    assert not holds({"device": ["gb200"]}, Setting(generation="blackwell"))
    assert holds({"device": ["gb2"], "model": ["mla", "qwen3-235b"]}, Setting(device="gb200", name="qwenqwen3235ba22b"))
    assert not holds({"precision": ["mxfp8"], "phase": ["lora"]}, Setting(precision="mxfp8", phase="pretrain"))


def test_a_row_holds_from_its_first_day() -> None:
    """`megatron_core` overlaps reductions since 2024-06: launch scripts of that month."""
    assert not behaviour("megatron_core", "2024-05-31").overlap_grad_reduce
    assert behaviour("megatron_core", "2024-06-01").overlap_grad_reduce
