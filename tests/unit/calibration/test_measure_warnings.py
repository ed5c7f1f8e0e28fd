"""What `measure` says of a profile that did not measure the step it is used for."""

from __future__ import annotations

from typing import Any

import pytest

import windtunnel as wt
from windtunnel.calibration import measure
from windtunnel.calibration.measure import doubts
from windtunnel.scenarios.load import load
from windtunnel.specs.model import ModelSpec


def _scenario(ranks: int, *formats: str) -> dict[str, Any]:
    device = {"peak_flop_per_s": dict.fromkeys(formats, 1e12), "profile": {"conditions": {"ranks": ranks}}}
    return {"cluster": {"device": device}}


@pytest.mark.parametrize(("made", "ran", "told"), [(1, 2, "with 1 process, this ran 2"), (2, 1, "with 2 processes")])
def test_another_number_of_processes_is_told(made: int, ran: int, told: str) -> None:
    (line,) = doubts(_scenario(made, "fp32"), ran, "fp32")
    assert told in line and f"calibrate --ranks {ran}" in line


def test_a_format_that_was_not_measured_is_told() -> None:
    (line,) = doubts(_scenario(2, "fp32"), 2, "bf16")
    assert "no products in bf16: predicted at the rate of fp32" in line


def test_a_fitting_profile_and_a_device_of_the_catalogue_raise_none() -> None:
    assert doubts(_scenario(2, "fp32", "bf16"), 2, "bf16") == ()
    assert doubts({"cluster": {"device": "h100-sxm-80gb"}}, 2, "bf16") == ()


def test_a_plain_loop_moves_more_bytes_a_prompt_than_a_server() -> None:
    """Norms, rotation, activations and additions operator by operator: their passes, and nothing else, differ."""
    from windtunnel import catalog
    from windtunnel.graph import STYLES
    from windtunnel.serving.simulate import simulate_serving
    from windtunnel.specs.device import MeasuredValue, Profile

    width, inner, layers, prompt, batch = 1024, 4096, 4, 512, 2
    model = {
        "name": "m",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "vocab_size": 4096,
        "intermediate_size": inner,
        "norm": "rmsnorm",
    }
    sheet = catalog.device("cpu-generic")
    ttft = []
    for written_out in (0.0, 1.0):
        values = {"written_out": written_out, "memory_fraction": 1.0, "prompt_layer_s": 0.0, "launch_layer_s": 0.0}
        profile = Profile(serving={name: MeasuredValue(value=v) for name, v in values.items()})
        device = sheet.model_copy(update={"profile": profile}).model_dump(mode="json")
        traffic = {"concurrency": batch, "num_requests": batch, "input_tokens": prompt, "output_tokens": 2}
        pools = [{"limits": {"cuda_graphs": False, "max_num_batched_tokens": prompt * batch}}]
        found = simulate_serving(
            {
                "model": model,
                "cluster": {"device": device, "nodes": 1, "devices_per_node": 1},
                "serving": {"engine": "generic", "pools": pools, "traffic": traffic},
            }
        )
        ttft.append(found.ttft_s.mean)
    fused, eager = STYLES["fused"], STYLES["eager"]
    hidden = [2 * s.norm_passes("rmsnorm")[0] + 2 * s.residual[0] + 2 * s.rope[0] for s in (fused, eager)]
    passes = width * (hidden[1] - hidden[0]) + inner * (eager.activation_gated[0] - fused.activation_gated[0])
    expected = 2.0 * passes * layers * prompt * batch / sheet.memory_bytes_per_s
    assert ttft[1] - ttft[0] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("way", ["single", "ddp", "fsdp2", "tp", "pp"])
def test_the_step_that_is_predicted_recomputes_nothing_as_the_loop_that_runs(way: Any) -> None:
    """`calibration.real` keeps every activation; torchtitan by itself would recompute operators."""
    model = {
        "name": "small",
        "hidden_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "intermediate_size": 1408,
        "vocab_size": 8192,
        "norm": "rmsnorm",
    }
    asked = {
        "model": model,
        "cluster": {"device": "cpu-generic", "nodes": 1, "devices_per_node": 2},
        "training": {"seq_len": 256, "global_batch": 4, "precision": "fp32"},
        "plan": {"mbs": 2},
    }
    scenario, _, _ = load(asked)
    small, _ = measure._scaled(scenario, ModelSpec.model_validate(model), way, 2, 1, full_size=False)
    small["cluster"] = asked["cluster"] if way != "single" else {**asked["cluster"], "devices_per_node": 1}
    memory = wt.simulate_training(small).to_dict()["memory"]
    layers = 4 if way != "pp" else 2
    activations = memory["at_peak"]["activations"]
    rows, width = 512, 4.0
    kept = layers * rows * width * (9 * 512 + 4 * 1408) / (2 if way == "tp" else 1)
    assert activations >= 0.95 * kept
