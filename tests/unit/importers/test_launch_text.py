"""Launch files as people have them: scripts with comments, containers, YAML of clusters, Markdown pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.cli.main import run
from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import fenced_blocks, tidy, written_files
from windtunnel.importers.manifests import container_text


def taken(text: str, file: str = "x.sh", **wanted: Any) -> Launch:
    launch = formats.read(formats.detect(text, file), text, file, Wanted(device="h100-sxm-80gb", **wanted))
    assert launch.problems == []
    return launch


def pools(text: str, **wanted: Any) -> list[dict[str, Any]]:
    return list(taken(text, **wanted).scenario()["serving"]["pools"])


def test_comments_and_exports_stand_first() -> None:
    text = """# one H100 node
    export VLLM_USE_V1=1
    MODEL="Qwen/Qwen3-32B"   # the dense one
    pip install -U vllm
    vllm serve $MODEL -tp 4 \\
      # --enforce-eager \\
      --max_num_seqs 64 \\   # enough for us
      --max-model-len=16k
    """
    (pool,) = pools(text)
    assert pool == {"plan": {"tp": 4}, "limits": {"max_num_seqs": 64, "max_model_len": 16000}}


def test_docker_starts_the_server_of_its_image() -> None:
    text = """docker pull vllm/vllm-openai:latest
    docker run --gpus all --rm -p 8000:8000 --ipc=host \\
      vllm/vllm-openai:latest --model Qwen/Qwen3-32B --tensor-parallel-size 2"""
    (pool,) = pools(text)
    assert pool["plan"] == {"tp": 2}
    text = """docker run --gpus all lmsysorg/sglang:latest bash -c "pip list && \\
      python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8" """
    assert pools(text)[0]["plan"] == {"tp": 8}
    assert formats.detect("docker run -it x trtllm-serve Qwen/Qwen3-32B --tp_size 2", "x.sh") == "trtllm"


def test_an_image_that_is_only_pulled_starts_nothing() -> None:
    with pytest.raises(Exception, match="no format that is recognised"):
        formats.detect("docker pull vllm/vllm-openai:latest\n", "x.sh")


def test_other_ways_and_other_models_are_left_out_and_said() -> None:
    text = """vllm serve Qwen/Qwen3-32B -tp 2
    vllm serve Qwen/Qwen3-32B -tp 4
    vllm serve Qwen/Qwen3-8B --port 8001
    vllm serve Qwen/Qwen3-32B --port 8002 --headless -tp 2
    """
    launch = taken(text)
    assert [pool["plan"] for pool in launch.scenario()["serving"]["pools"]] == [{"tp": 2}]
    said = [(left.line, left.why) for left in launch.unread if left.name == "vllm serve"]
    assert [line for line, _ in said] == [2, 3, 4]
    assert "another way" in said[0][1] and "another model" in said[1][1] and "further ranks" in said[2][1]


def test_a_file_that_the_script_writes_is_read() -> None:
    text = """cat >./extra.yml <<EOF
    enable_attention_dp: true
    kv_cache_config:
      free_gpu_memory_fraction: 0.8
    EOF
    trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --extra_llm_api_options ./extra.yml
    """
    assert written_files(text)["extra.yml"].startswith("enable_attention_dp")
    assert pools(text) == [{"plan": {"dp": 8}, "limits": {"free_gpu_memory_fraction": 0.8}}]


def test_kubernetes() -> None:
    text = """apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.10.0
        env:
        - name: MODEL
          value: Qwen/Qwen3-32B
        args:
        - --model
        - $(MODEL)
        - --tensor-parallel-size
        - "2"
        - --gpu-memory-utilization=0.85
---
kind: Service
"""
    launch = taken(text, "deploy.yaml")
    assert launch.scenario()["serving"]["pools"] == [
        {"plan": {"tp": 2}, "limits": {"gpu_memory_utilization": 0.85}, "replicas": 3}
    ]
    assert launch.where("serving.pools[0].limits.gpu_memory_utilization") == ("gpu-memory-utilization", 19)
    text = """spec:
  containers:
  - name: s
    image: any
    command: ["/bin/bash", "-c"]
    args:
    - |
      huggingface-cli login
      python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B \\
        --tp 4
"""
    assert pools(text) == [{"plan": {"tp": 4}}]


def test_compose_and_helm_values() -> None:
    text = """services:
  llm:
    image: vllm/vllm-openai:latest
    environment:
      HF_TOKEN: ${HF_TOKEN}
    command: >
      --model Qwen/Qwen3-32B
      --tensor-parallel-size ${TP:-2}
"""
    assert pools(text) == [{"plan": {"tp": 2}}]
    text = """servingEngineSpec:
  modelSpec:
  - name: one
    repository: vllm/vllm-openai
    modelURL: Qwen/Qwen3-32B
    replicaCount: 2
    vllmConfig: {tensorParallelSize: 2, enablePrefixCaching: false, extraArgs: ["--max-num-seqs", "8"]}
"""
    assert pools(text) == [
        {"plan": {"tp": 2}, "limits": {"max_num_seqs": 8}, "kv": {"prefix_caching": False}, "replicas": 2}
    ]
    assert container_text("model: x\nmax-num-seqs: 3\n") == "" and container_text("{{ .Values }}:\n  args: [") == ""


def test_a_continued_line_keeps_its_number() -> None:
    text = tidy("a \\  \n# b\n  c \\ # d\n e\n")
    assert text == "a \\\n\\\n  c \\\n e\n"


def test_pages_name_their_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "README.md"
    page.write_text(
        "# A model\n```bash\npip install vllm\n```\n## Small\n```bash\n$ vllm serve Qwen/Qwen3-8B\n```\n"
        "## Large\n```\nvllm serve Qwen/Qwen3-32B \\\n  -tp 4\n```\n```python\nprint('vllm serve x')\n```\n"
    )
    command = ["import", str(page), "--device", "h100-sxm-80gb"]
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "--block 1" in said and "--block 2" in said and "Large" in said and "Qwen3-32B" in said
    assert run([*command, "--block", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scenario"]["model"] == "Qwen/Qwen3-32B" and found["origin"]["model"]["line"] == 11
    assert run([*command, "--block", "3"]) == 2


def test_a_model_outside_the_catalogue_comes_from_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 1024,
        "num_hidden_layers": 10,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 3072,
        "vocab_size": 32000,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve some/model-of-ours -tp 2\n")
    command = ["import", str(script), "--device", "h100-sxm-80gb", "--json"]
    assert run(command) == 2
    assert "config.json" in capsys.readouterr().err
    assert run([*command, "--model", str(tmp_path / "config.json")]) == 0
    model = json.loads(capsys.readouterr().out)["scenario"]["model"]
    assert model["hidden_size"] == 1024 and model["num_hidden_layers"] == 10


def test_blocks_have_the_lines_of_their_page() -> None:
    page = "# One ##\n\n```bash\nrun a\n```\ntext\n## Two\n~~~python\nno\n~~~\n```\n$ run b\n```\n"
    blocks = list(fenced_blocks(page))
    assert [(block.line, block.heading, block.text.strip()) for block in blocks] == [
        (4, "One", "run a"),
        (12, "Two", "run b"),
    ]
    assert [block.text.count("\n", 0, block.text.index("run")) for block in blocks] == [3, 11]
