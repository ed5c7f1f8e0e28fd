"""Memory of real small steps on this CPU, counted by the allocator, so busy cores do no harm. Needs PyTorch."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="real steps need PyTorch: pip install 'windtunnel[torch]'")

from windtunnel import catalog
from windtunnel.calibration import measure as real
from windtunnel.calibration.machine import cores

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cores() < 2, reason="two processes need two cores"),
    pytest.mark.filterwarnings("ignore"),
]

MODEL = {
    "name": "small",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 1408,
    "vocab_size": 8192,
    "norm": "rmsnorm",
}
LIMIT = 0.07


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("device") / "cpu.yaml"  # memory does not depend on rates
    path.write_text(json.dumps(catalog.device("cpu-generic").model_dump(mode="json")))
    return str(path)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("way", ["single", "ddp", "fsdp2", "tp", "pp"])
def test_memory_of_a_step(device: str, way: str, precision: str) -> None:
    scenario = {
        "model": MODEL,
        "cluster": {"device": "cpu-generic", "nodes": 1, "devices_per_node": 2},
        "training": {"seq_len": 256, "global_batch": 4, "precision": precision},
        "plan": {"mbs": 2},
    }
    found = real.measure(scenario, profile=device, way=way, steps=1)
    print(f"{way} {precision}: memory {found.memory_error:+.1%} of {found.run.peak_bytes / 2**20:.2f} MiB")
    assert abs(found.memory_error) < LIMIT
