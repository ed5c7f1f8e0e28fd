"""YAML of clusters: parts of a split deployment, copies, groups of nodes, charts and graphs, tables of servers."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.manifests import container_text


def imported(text: str, **wanted: Any) -> Launch:
    format = formats.detect(text, "deploy.yaml")
    return formats.read(format, text, "deploy.yaml", Wanted(device="h100-sxm-80gb", **wanted))


def pools(launch: Launch) -> list[dict[str, Any]]:
    assert not launch.problems, launch.problems
    found: list[dict[str, Any]] = launch.scenario()["serving"]["pools"]
    return found


ROLES = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: split}
spec:
  template:
    spec:
      roles:
        - name: prefill
          replicas: 3
          template: {spec: {containers: [{name: server, command: [sh, -c],
            args: ["vllm serve Qwen/Qwen3-8B -tp 2"], resources: {limits: {nvidia.com/gpu: 2}}}]}}
        - name: decode
          replicas: 2
          template: {spec: {containers: [{name: server, command: [sh, -c],
            args: ["vllm serve Qwen/Qwen3-8B -tp 2"], resources: {limits: {nvidia.com/gpu: 2}}}]}}
"""
GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: big}
spec:
  replicas: 3
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: leader
            image: vllm/vllm-openai:latest
            command: [sh, -c, "ray start --head; vllm serve meta-llama/Llama-3.1-405B -tp 4 -pp 2"]
            resources: {limits: {nvidia.com/gpu: "4"}}
    workerTemplate:
      spec:
        containers:
          - name: worker
            image: vllm/vllm-openai:latest
            command: [sh, -c, "ray start --address=$(LWS_LEADER_ADDRESS)"]
            resources: {limits: {nvidia.com/gpu: "4"}}
"""
GRAPH = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: graph}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      extraPodSpec: {mainContainer: {image: some/runtime}}
    VllmPrefillWorker:
      replicas: 2
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: some/runtime
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-8B, --is-prefill-worker]
    VllmDecodeWorker:
      replicas: 4
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: some/runtime
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-8B]
"""
KSERVE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  predictor:
    minReplicas: 2
    model:
      modelFormat: {name: huggingface}
      args: ["--model_name=llama", "--model_id=meta-llama/Llama-3.1-8B-Instruct", "--max-model-len=4096"]
      resources: {limits: {nvidia.com/gpu: "1"}}
"""
CHART = """\
modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B}
decode:
  replicas: 1
  parallelism: {tensor: 4}
  containers:
    - {name: vllm, image: some/vllm, modelCommand: vllmServe, args: ["--max-num-seqs", "64"]}
prefill:
  replicas: 2
  parallelism: {tensor: 2}
  containers:
    - {name: vllm, image: some/vllm, modelCommand: vllmServe, args: ["--max-num-seqs", "8"]}
"""
RAY = """\
applications:
  - name: llm
    import_path: ray.serve.llm:build_openai_app
    args:
      llm_configs:
        - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-32B}
          accelerator_type: H100
          deployment_config: {autoscaling_config: {min_replicas: 2, max_replicas: 4}}
          engine_kwargs: {tensor_parallel_size: 4, max_model_len: 8192, enforce_eager: true}
"""
SRT = """\
name: mine
model: {path: Qwen/Qwen3-32B, precision: bf16}
resources: {gpu_type: h100, gpus_per_node: 8, prefill_nodes: 1, prefill_workers: 2, decode_nodes: 2, decode_workers: 1}
backend:
  sglang_config:
    prefill: {mem-fraction-static: 0.8, tp-size: 4}
    decode: {mem-fraction-static: 0.9, tp-size: 16}
benchmark: {type: sa-bench, isl: 1024, osl: 256, concurrencies: "32x64"}
"""


def test_roles_become_pools() -> None:
    launch = imported(ROLES)
    assert [(pool["role"], pool["replicas"], pool["plan"]["tp"]) for pool in pools(launch)] == [
        ("prefill", 3, 2),
        ("decode", 2, 2),
    ]


def test_a_name_alone_splits_nothing() -> None:
    [pool] = pools(imported(ROLES.replace("name: prefill", "name: first").replace("name: decode", "name: decode")))
    assert "role" not in pool
    assert pool["replicas"] == 5


def test_groups_of_leaders_and_workers_keep_their_copies() -> None:
    launch = imported(GROUP)
    [pool] = pools(launch)
    assert pool["replicas"] == 3
    assert launch.fields["cluster.devices_per_node"] == 4
    assert launch.fields["cluster.nodes"] == 6


def test_a_workload_that_is_switched_off_starts_nothing() -> None:
    [pool] = pools(imported(ROLES.replace("replicas: 3", "replicas: 0")))
    assert pool["replicas"] == 2


def test_graphs_of_dynamo() -> None:
    found = pools(imported(GRAPH))
    assert [(pool["role"], pool["replicas"]) for pool in found] == [("prefill", 2), ("decode", 4)]


def test_kserve_predictors() -> None:
    launch = imported(KSERVE)
    [pool] = pools(launch)
    assert launch.fields["model"] == "meta-llama/Llama-3.1-8B"
    assert pool["replicas"] == 2
    assert pool["limits"]["max_model_len"] == 4096


def test_charts_with_parts() -> None:
    found = pools(imported(CHART))
    assert [(pool["role"], pool.get("replicas", 1), pool["plan"]["tp"]) for pool in found] == [
        ("decode", 1, 4),
        ("prefill", 2, 2),
    ]


def test_ray_serve() -> None:
    launch = imported(RAY)
    [pool] = pools(launch)
    assert (launch.fields["model"], pool["replicas"], pool["plan"]["tp"]) == ("Qwen/Qwen3-32B", 2, 4)
    assert pool["limits"]["cuda_graphs"] is False
    inside = "apiVersion: ray.io/v1\nkind: RayService\nspec:\n  serveConfigV2: |\n"
    inside += "".join(f"    {line}\n" for line in RAY.splitlines())
    assert pools(imported(inside)) == [pool]


def test_srt_slurm() -> None:
    launch = imported(SRT)
    found = pools(launch)
    assert launch.fields["serving.engine"] == "sglang"
    assert [(pool["role"], pool.get("replicas", 1), pool["plan"]["tp"]) for pool in found] == [
        ("prefill", 2, 4),
        ("decode", 1, 16),
    ]
    assert launch.fields["cluster.devices_per_node"] == 8
    assert launch.fields["serving.traffic.concurrency"] == 32
    assert launch.fields["serving.traffic.input_tokens"] == 1024


def test_workers_of_aiconfigurator() -> None:
    text = "backend: trtllm\nmodel_path: Qwen/Qwen3-32B\nworkers: {prefill_workers: 2, decode_workers: 1}\n"
    text += "prefill_worker_config: {tensor_parallel_size: 2}\ndecode_worker_config: {tp: 4, bs: 32}\n"
    found = pools(imported(text))
    assert [(pool["role"], pool.get("replicas", 1), pool["plan"]["tp"]) for pool in found] == [
        ("prefill", 2, 2),
        ("decode", 1, 4),
    ]


def test_templates_of_helm_are_values_that_are_not_known() -> None:
    text = "spec:\n  {{- if .Values.on }}\n  replicas: 2\n  {{- end }}\n  containers:\n    - name: {{ .Values.name }}\n"
    text += (
        '      image: vllm/vllm-openai:v0.9\n      args: [--model, {{ .Values.model }}, --tensor-parallel-size, "2"]\n'
    )
    assert "--tensor-parallel-size 2" in container_text(text)
    [problem] = imported(text).problems
    assert problem.field == "--model"
    [pool] = pools(imported(text, model="llama3-8b"))
    assert pool["replicas"] == 2


@pytest.mark.parametrize(
    "text", ["backend: trtllm\nmodel_path: a/b\n", "llm_configs: 3\n", "resources: 3\nbackend: 2\n"]
)
def test_other_tables_start_nothing(text: str) -> None:
    assert container_text(text) == ""


def test_lmdeploy() -> None:
    text = "lmdeploy serve api_server Qwen/Qwen3-32B --tp 2 --cache-max-entry-count 0.5 --quant-policy 8"
    launch = imported(text + " --session-len 4096 --server-port 23333")
    [pool] = pools(launch)
    assert launch.fields["serving.engine"] == "lmdeploy"
    assert launch.fields["serving.precision.kv_cache"] == "int8"
    assert (pool["plan"]["tp"], pool["limits"]["max_model_len"]) == (2, 4096)
    assert pool["limits"]["free_gpu_memory_fraction"] == 0.5


def test_text_generation_inference() -> None:
    image = "docker run --gpus all -p 8080:80 ghcr.io/huggingface/text-generation-inference:3.3 "
    options = "--model-id Qwen/Qwen3-32B --num-shard 4 --quantize fp8 --max-total-tokens 8192"
    for text in (image + options, "text-generation-launcher " + options):
        launch = imported(text)
        [pool] = pools(launch)
        assert launch.fields["serving.engine"] == "generic"
        assert launch.fields["serving.precision.weights"] == "fp8"
        assert pool["plan"]["tp"] == 4
    [problem] = imported("text-generation-launcher --model-id Qwen/Qwen3-8B --sharded true").problems
    assert problem.field == "--num-shard"
    [problem] = imported("text-generation-launcher --model-id Qwen/Qwen3-8B --quantize new").problems
    assert "decides the precision" in problem.rule


def test_trtllm_bench_is_a_server_and_its_load() -> None:
    text = (
        "trtllm-bench --model Qwen/Qwen3-32B throughput --tp 4 --max_batch_size 64 --concurrency 16 --num_requests 128"
    )
    launch = imported(text + " --dataset ds_isl_1024_osl_256.txt")
    [pool] = pools(launch)
    assert (pool["plan"]["tp"], pool["limits"]["max_num_seqs"]) == (4, 64)
    traffic = launch.scenario()["serving"]["traffic"]
    assert (traffic["concurrency"], traffic["input_tokens"], traffic["output_tokens"]) == (16, 1024, 256)


def test_a_list_of_words_is_a_command() -> None:
    words = ["vllm", "serve", "--model", "Qwen/Qwen3-8B", "--max-num-seqs", "'32'"]
    text = "kind: Deployment\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n        - name: a\n"
    text += "          command:\n" + "".join(f"            - {word}\n" for word in words)
    launch = imported(text)
    [pool] = pools(launch)
    assert launch.fields["model"] == "Qwen/Qwen3-8B"
    assert (pool["replicas"], pool["limits"]["max_num_seqs"]) == (2, 32)


def test_an_image_of_an_engine_that_runs_something_else_serves_nothing() -> None:
    text = "kind: Pod\nspec: {containers: [{name: a, image: 'vllm/vllm-openai:v1', command: [sleep, '5']}]}\n# vllm\n"
    launch = formats.read("vllm", text, "x", Wanted(device="h100-sxm-80gb"))
    assert "nowhere that can be read" in launch.problems[0].rule


def test_slices_of_tpus_in_a_manifest() -> None:
    text = "kind: Job\nspec:\n  template:\n    spec:\n      nodeSelector:\n"
    text += (
        "        cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice\n        cloud.google.com/gke-tpu-topology: 4x4\n"
    )
    text += "      containers:\n        - name: a\n          image: b\n          command:\n            - bash\n"
    text += "            - -c\n            - |\n              (set -e && export A=1 && python3 -m MaxText.train c.yml "
    text += "model_name=llama3.1-8b per_device_batch_size=2)\n"
    fields = formats.read(formats.detect(text, "x"), text, "x", Wanted()).fields
    assert fields["cluster.nodes"] * fields["cluster.devices_per_node"] == 16
    assert fields["training.global_batch"] == 32


def test_pools_have_the_names_of_their_containers() -> None:
    assert "# pool server: 3 of 2 devices, prefill\n" in container_text(ROLES)
    assert "# pool leader: 3 of 4 devices, 2 nodes\n" in container_text(GROUP)


RAY_SERVE = """\
applications:
  - args:
      llm_configs:
        - model_loading_config: {model_id: small, model_source: Qwen/Qwen3-8B}
          deployment_config: {num_replicas: REPLICAS}
          engine_kwargs: {tensor_parallel_size: 2}
"""


@pytest.mark.parametrize(("replicas", "copies"), [("3", 3), ("auto", 1), ("-2", 1)])
def test_copies_of_ray_serve(replicas: str, copies: int) -> None:
    assert f": {copies} of" in container_text(RAY_SERVE.replace("REPLICAS", replicas))


SLURM = """\
model: {path: Qwen/Qwen3-8B}
resources: {gpus_per_node: PER_NODE, agg_workers: 2, agg_nodes: NODES}
backend: {sglang_config: {agg: {mem-fraction-static: 0.8}}}
"""


@pytest.mark.parametrize(
    ("per_node", "nodes", "size"), [("8", "2", 8), ("4", "1", 2), ("0", "2", 1), ("few", "2", 1), ("8", "some", 1)]
)
def test_devices_of_a_worker_of_srt_slurm(per_node: str, nodes: str, size: int) -> None:
    text = container_text(SLURM.replace("PER_NODE", per_node).replace("NODES", nodes))
    assert f"2 of {size} devices" in text and f"--tp-size {size}" in text
