"""Whatever is written into a scenario, the answer is a prediction or a list of problems, never another error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario

pytestmark = pytest.mark.property

EXAMPLES = [
    yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    if "405b" not in path.name
]
JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    64,
    10**6,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "8",
    "auto",
    "none",
    "full",
    "80 GB",
    "-3 TB/s",
    "0 GB",
    "zzz",
    "a.b",
    "\x00",
    "é" * 300,
    [],
    {},
    [1],
    ["full"],
    {"a": 1},
    [[]],
    {"config": "nowhere.json"},
    {"id": {}},
    [1, 2, 3, 4],
]
NAMES = ["tp", "dp", "model", "nodes", "mbs", "zerro", "0", "", "stage_layers", "recompute", "config", "loads"]
KNOWN = (
    [
        ("plan", name)
        for name in (
            "tp",
            "pp",
            "vpp",
            "cp",
            "ep",
            "etp",
            "dp",
            "zero",
            "mbs",
            "schedule",
            "shard_group",
            "stage_layers",
            "order",
            "recompute",
            "overlap",
            "offload",
            "cp_kind",
            "cp_all_to_all",
            "embedding_as_layer",
        )
    ]
    + [
        ("training", name)
        for name in (
            "seq_len",
            "global_batch",
            "precision",
            "framework",
            "optimizer",
            "attention",
            "expert_load",
            "lora",
            "phase",
            "mean_document_length",
            "master_weights",
            "decoder_seq_len",
            "cuda_graphs",
        )
    ]
    + [
        ("cluster", name)
        for name in (
            "device",
            "nodes",
            "devices_per_node",
            "scale_up",
            "scale_out",
            "scale_up_domain",
            "memory_bytes",
            "memory_bytes_per_s",
            "power_cap_w",
            "host_memory_bytes",
        )
    ]
    + [(name,) for name in ("model", "cluster", "training", "plan", "techniques", "serving", "name")]
)


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """An example with up to three fields replaced, removed or added."""
    import copy

    data = copy.deepcopy(draw(st.sampled_from(EXAMPLES)))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(KNOWN))
        target = data
        for name in parents:
            target = target.setdefault(name, {}) if isinstance(target, dict) else {}
        if not isinstance(target, dict):
            continue
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                target[last] = draw(st.sampled_from(JUNK))
            case "remove":
                target.pop(last, None)
            case _:
                target[draw(st.sampled_from(NAMES))] = draw(st.sampled_from(JUNK))
    return data


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(data=spoilt())
def test_a_spoilt_scenario_is_predicted_or_refused(data: dict[str, Any]) -> None:
    try:
        result = api.simulate_training(data, sensitivities=False)
    except BadInput as error:
        assert error.problems and all(problem.rule for problem in error.problems)
        assert "\n" not in "".join(str(problem) for problem in error.problems)
    else:
        assert 0 < result.step_time_s < float("inf")


@settings(max_examples=200)
@given(text=st.text(alphabet="abc: {}[]&*!#|>-\n\t\"'1.,?%@`", max_size=60))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(BadInput):
        load_scenario(file)
