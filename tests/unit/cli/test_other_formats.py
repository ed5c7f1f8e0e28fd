"""Launch files and configs where a scenario belongs: one line that names `import`."""

from __future__ import annotations

from pathlib import Path

import pytest

import windtunnel as wt
from windtunnel.cli.main import run

AXOLOTL = """
base_model: Qwen/Qwen3-8B
adapter: lora
lora_r: 16
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 4
optimizer: adamw_torch
"""
CONFIG = '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2}'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ft.yaml", AXOLOTL, "axolotl"),
        ("serve.sh", "vllm serve Qwen/Qwen3-8B -tp 2\n", "vllm"),
        ("config.json", CONFIG, "config.json"),
    ],
)
@pytest.mark.parametrize("verb", ["train", "serve", "fit", "plan"])
def test_a_file_of_another_program_gets_one_line(
    verb: str, name: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert run([verb, str(path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and said in lines[0] and f"windtunnel import {path}" in lines[0]


def test_a_draft_without_work_is_predicted_as_init_writes_it() -> None:
    draft = wt.scenario(model="meta-llama/Llama-3.1-8B", device="h100-sxm-80gb", nodes=1, tp=4)
    result = draft.predict()
    assert {a.field: a.value for a in result.assumed if a.why == "as `init` writes"} == {
        "training.seq_len": "8192",
        "training.global_batch": "8",
    }
    assert result.step_time_s == draft.with_(seq_len=8192, global_batch=8).predict().step_time_s
