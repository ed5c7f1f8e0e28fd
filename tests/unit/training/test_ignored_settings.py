"""Settings without effect are named; settings with effect are not."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import simulate_training

SCENARIO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 2048, "global_batch": 4},
}


@pytest.mark.parametrize(
    "setting",
    [
        "training.dropout=true",
        "training.expert_load.imbalance=2",
        "training.moe_dispatcher=deepep",
        "plan.cp_kind=all_to_all",
        "plan.etp=2",
        "plan.overlap.p2p=false",
        "plan.recompute.modules=[mlp]",
        "plan.recompute.num_layers=1",
        "plan.offload.tier=nvme",
        "plan.sp=true",
        "cluster.host_memory_bytes=1 GB",
        "training.gradient_accumulation_sync=false",
    ],
)
def test_a_setting_without_effect_is_named_and_has_none(setting: str) -> None:
    plain = simulate_training(SCENARIO, sensitivities=False)
    result = simulate_training(SCENARIO, overrides=[setting], sensitivities=False)
    block, field = setting.split("=", maxsplit=1)[0].split(".")[:2]
    assert any(w.startswith(f"{block}.{field}") and "no effect" in w for w in result.warnings), result.warnings
    assert result.step_time_s == plain.step_time_s
    assert result.memory.peak_reserved_bytes == plain.memory.peak_reserved_bytes


def test_settings_with_effect_are_not_named() -> None:
    settings = ["plan.zero=3", "plan.overlap.fsdp_prefetch=false", "plan.recompute=full", "training.attention=flash2"]
    assert not simulate_training(SCENARIO, overrides=settings, sensitivities=False).warnings


def test_a_format_the_device_lacks_is_named() -> None:
    other = SCENARIO | {"cluster": {"device": "v100-sxm-32gb", "nodes": 1, "devices_per_node": 2}}
    asked, right = (
        simulate_training(other, overrides=[f"training.precision={name}"], sensitivities=False)
        for name in ("bf16", "fp16")
    )
    said = [line for line in asked.warnings if "bf16 is no format of v100-sxm-32gb" in line]
    assert len(said) == 1 and "priced as fp16, so write precision: fp16" in said[0]
    assert asked.step_time_s == pytest.approx(right.step_time_s, rel=0.01)
    assert not any("no format" in line for line in right.warnings)


@pytest.mark.parametrize(
    ("changes", "targets"),
    [([], "128"), (["training.seq_len=2048"], "512"), (["training.phase=sft"], "512")],
)
def test_targets_of_an_encoder_decoder_follow_its_task(changes: list[str], targets: str) -> None:
    """Span corruption makes 0.2 targets for 0.9 inputs (T5), in blocks of 128; fine-tuning is as long as the inputs."""
    source = SCENARIO | {"model": "google/t5-v1_1-large", "training": SCENARIO["training"] | {"seq_len": 512}}
    result = simulate_training(source, overrides=changes, sensitivities=False)
    assert {a.value for a in result.assumed if a.field == "training.decoder_seq_len"} == {targets}
    stated = [*changes, f"training.decoder_seq_len={targets}"]
    same = simulate_training(source, overrides=stated, sensitivities=False)
    assert same.step_time_s == result.step_time_s
    assert "training.decoder_seq_len" not in {a.field for a in same.assumed}
