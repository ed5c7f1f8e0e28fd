"""Launch files of serving engines: names are in the release's list, numbers and loads are the deployment's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import deployment_cases as cases
import pytest
import yaml

from windtunnel.errors import BadInput
from windtunnel.exporters.launch import export, list_server_targets
from windtunnel.exporters.target import options, versions
from windtunnel.importers.settings import flatten

pytestmark = pytest.mark.conformance
TARGETS = list_server_targets()
ALL = [(target, version) for target in TARGETS for version in versions(target)]
BASH = shutil.which("bash")


def servers(folder: Path, target: str) -> dict[str, Path]:
    """Pool → its script."""
    found = {path.stem.removeprefix(f"{target}-"): path for path in folder.glob(f"{target}-*.sh")}
    found.pop("entry", None)
    return found


@pytest.mark.parametrize(("target", "version"), ALL)
def test_every_option_is_in_the_releases_list(target: str, version: str, tmp_path: Path) -> None:
    known = options(target, version)
    for i, (name, scenario) in enumerate(cases.deployments(target).items()):
        if (target, name) == ("trtllm", "dp and tp"):
            continue  # refused: see REFUSED
        export(scenario, target, version, tmp_path / str(i))
        found = servers(tmp_path / str(i), target)
        assert len(found) == len(scenario["serving"]["pools"]), name
        for script in found.values():
            for rank in ("0", "1"):
                command = cases.words(script, NODE_RANK=rank, INSTANCE="0", LEADER="node0", HERE=str(script.parent))
                taken = {option: values for option, values in cases.given(command).items() if option.startswith("--")}
                assert taken, name
                refused = [known.refuses(option, *values) for option, values in taken.items()]
                for path in (values[0] for option, values in taken.items() if option == "--config"):
                    settings = flatten(yaml.safe_load(Path(path).read_text("utf-8")) or {})
                    refused += [known.refuses(key, value) for key, value in settings.items()]
                assert [item for item in refused if item] == [], name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wrapper", ["none", "slurm", "kubernetes"])
def test_bash_takes_every_script_and_each_device_is_used_once(target: str, wrapper: Any, tmp_path: Path) -> None:
    if BASH is None:
        pytest.skip("no bash")
    for i, name in enumerate(("base", "replicas", "split", "two nodes, tp", "two nodes, dp")):
        done = export(cases.deployments(target)[name], target, None, tmp_path / str(i), wrapper)
        for path in done.files:
            if path.suffix in (".sh", ".sbatch"):
                ran = subprocess.run([BASH, "-n", path], capture_output=True, text=True, check=False)
                assert (ran.returncode, ran.stderr) == (0, ""), (name, path.name)
        text = (tmp_path / str(i) / "serve.sh").read_text("utf-8")
        for block in text.split(";;"):
            used = [
                d
                for line in block.splitlines()
                if "VISIBLE_DEVICES=" in line
                for d in line.split("VISIBLE_DEVICES=")[1].split()[0].split(",")
            ]
            assert len(used) == len(set(used)), name


@pytest.mark.parametrize("target", TARGETS)
def test_kubernetes_starts_every_pool_and_asks_for_its_devices(target: str, tmp_path: Path) -> None:
    for i, (name, kind) in enumerate(
        {"base": "Deployment", "replicas": "StatefulSet", "two nodes, tp": "LeaderWorkerSet"}.items()
    ):
        scenario = cases.deployments(target)[name]
        done = export(scenario, target, None, tmp_path / str(i), "kubernetes")
        objects = list(yaml.safe_load_all(done.files[0].read_text("utf-8")))
        own = [item for item in objects if item["metadata"]["name"].endswith("-server")]
        (work,) = [item for item in own if item["kind"] != "Service"]
        assert work["kind"] == kind
        spec, (pool,) = work["spec"], scenario["serving"]["pools"]
        assert spec["replicas"] == pool.get("replicas", 1)
        group = spec.get("leaderWorkerTemplate")
        pods = [group["leaderTemplate"], group["workerTemplate"]] if group else [spec["template"]]
        held = sum(int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) for pod in pods)
        plan = pool.get("plan", {})
        assert held == plan.get("tp", 1) * plan.get("pp", 1) * plan.get("dp", 1)
        if group:
            assert group["size"] == 2
        probes = [sorted(key for key in pod["spec"]["containers"][0] if key.endswith("Probe")) for pod in pods]
        assert probes[0] == ["livenessProbe", "readinessProbe", "startupProbe"] and probes[1:] == [[]] * (len(pods) - 1)
        names = {item["metadata"]["name"] for item in objects if item["kind"] == "ConfigMap"}
        volumes = {v["configMap"]["name"] for pod in pods for v in pod["spec"]["volumes"] if "configMap" in v}
        assert volumes == names
        (config,) = [item for item in objects if item["kind"] == "ConfigMap"]
        for pod in pods:
            script = pod["spec"]["containers"][0]["command"][-1].split("/launch/")[1]
            assert script in config["data"]


BATCHED = "serving.pools[0].limits.max_num_batched_tokens"
REFUSED = [
    *(
        (target, pool, field)
        for target in TARGETS
        for pool, field in (
            ({"plan": {"tp": 3}}, "serving.pools[0].plan.tp"),
            ({"plan": {"tp": 4, "ep": 3}}, "serving.pools[0].plan.ep"),
            ({"plan": {"tp": 12}}, "serving.pools[0].plan.tp"),
            ({"role": "prefill"}, "serving.pools"),
            ({"limits": {"max_model_len": 1 << 24}}, "serving.pools[0].limits.max_model_len"),
        )
    ),
    ("vllm", {"limits": {"max_num_seqs": 4096, "max_num_batched_tokens": 1024}}, BATCHED),
    ("vllm", {"limits": {"chunked_prefill": False, "max_num_batched_tokens": 2048}}, BATCHED),
    ("vllm", {"kv": {"block_size": 24}}, "serving.pools[0].kv.block_size"),
    ("sglang", {"kv": {"block_size": 64}, "limits": {"max_num_batched_tokens": 1000}}, BATCHED),
    ("trtllm", {"plan": {"tp": 2, "dp": 4}}, "serving.pools[0].plan.tp"),
    ("trtllm", {"kv": {"block_size": 48}}, "serving.pools[0].kv.block_size"),
]


@pytest.mark.parametrize(("target", "pool", "field"), REFUSED)
def test_numbers_that_engines_refuse_are_refused_here(
    target: str, pool: dict[str, Any], field: str, tmp_path: Path
) -> None:
    scenario = cases.deployments(target)["base"]
    scenario["serving"]["engine"] = "generic" if "max_model_len" in str(pool) else target
    scenario["serving"]["pools"] = [pool]
    with pytest.raises(BadInput) as caught:
        export(scenario, target, None, tmp_path)
    assert field in [problem.field for problem in caught.value.problems]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", TARGETS)
def test_what_cannot_be_said_stands_in_the_file(target: str, tmp_path: Path) -> None:
    scenario = cases.deployments(target)["least requests" if target != "trtllm" else "prefix aware"]
    done = export(scenario, target, None, tmp_path)
    assert any(item.startswith("router ") for item in done.unsupported)
    for script in servers(tmp_path, target).values():
        assert all(item in script.read_text("utf-8") for item in done.unsupported)


def test_vllm_spells_negatives_as_the_release_does(tmp_path: Path) -> None:
    scenario = cases.deployments("vllm")["no prefix caching"]
    for version, word in (("0.33.0", "--disable-prefix-caching"), ("0.10.2", "--no-enable-prefix-caching")):
        export(scenario, "vllm", version, tmp_path / version)
        assert word in cases.words(tmp_path / version / "vllm-server.sh")


def test_the_load_repeats_the_traffic(tmp_path: Path) -> None:
    base = cases.deployments("vllm")["base"]
    for i, (name, traffic) in enumerate(cases.loads().items()):
        base["serving"]["traffic"] = traffic
        folder = tmp_path / str(i)
        export(base, "vllm", "0.33.0", folder)
        bench = cases.given(cases.words(folder / "load.sh"))
        known = options("vllm_bench", "0.33.0")
        assert [item for item in (known.refuses(o, *v) for o, v in bench.items()) if item] == [], name
        other = cases.given(cases.words(folder / "load-aiperf.sh"))
        known = options("aiperf")
        assert [item for item in (known.refuses(o, *v) for o, v in other.items()) if item] == [], name
        count = traffic.get("num_requests", 40)
        if bench["--dataset-name"] == ["random"]:
            assert abs(int(bench["--num-prompts"][0]) - count) <= (0 if "num_requests" in traffic else 20), name
            lengths = int(bench["--random-input-len"][0]) + int(bench.get("--random-prefix-len", ["0"])[0])
            assert lengths == {"even": 200, "even, unlike": 200}.get(name, 512), name
        else:
            lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
            assert len(lines) == count and all(
                len(line["hash_ids"]) == -(-line["input_length"] // 16) for line in lines
            ), name
        if "concurrency" in traffic:
            assert bench["--max-concurrency"] == other["--concurrency"] == [str(traffic["concurrency"])]


def test_a_written_file_shares_what_the_traffic_shares(tmp_path: Path) -> None:
    base = cases.deployments("vllm")["base"]
    base["serving"]["traffic"] = cases.loads()["prefix, spread"]
    export(base, "vllm", None, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text("utf-8").splitlines()]
    heads = {tuple(line["hash_ids"][:4]) for line in lines}
    assert len(heads) == 1
    rest = [hash for line in lines for hash in set(line["hash_ids"][4:])]
    assert len(rest) == len(set(rest))


def test_samples_are_sent_with_their_prompt_in_common_and_searches_say_what_is_lost(tmp_path: Path) -> None:
    base = cases.deployments("vllm")["base"]
    base["serving"]["traffic"] = {
        "rate_per_s": 2,
        "num_requests": 5,
        "input_tokens": 160,
        "output_tokens": 20,
        "trajectories": {"method": "samples", "width": 4},
    }
    export(base, "vllm", None, tmp_path / "a")
    lines = [json.loads(line) for line in (tmp_path / "a" / "requests.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 20
    assert len({tuple(line["hash_ids"]) for line in lines}) == len({line["timestamp"] for line in lines}) == 5
    del base["serving"]["traffic"]["rate_per_s"]
    base["serving"]["traffic"] |= {"concurrency": 2, "trajectories": {"method": "beam", "width": 4, "steps": 2}}
    for target in TARGETS:
        if target == "trtllm":
            continue
        base["serving"]["engine"] = target
        done = export(base, target, None, tmp_path / target)
        assert any("wait for others" in item for item in done.unsupported), done.unsupported
        assert cases.given(cases.words(tmp_path / target / "load.sh"))["--max-concurrency"] == ["8"]


def test_orders_of_drafting_that_engines_do_not_know_are_said(tmp_path: Path) -> None:
    base = cases.deployments("vllm")["base"]
    base["serving"]["speculation"] = {
        "method": "draft",
        "draft": "meta-llama/Llama-3.2-1B",
        "tokens": 3,
        "order": "dsi",
        "verifiers": 2,
    }
    done = export(base, "vllm", None, tmp_path)
    lost = [item for item in done.unsupported if "speculation" in item]
    assert [item.split(":")[0] for item in lost] == ["serving.speculation.order", "serving.speculation.verifiers"]


@pytest.mark.parametrize(("target", "option"), [("vllm", "--enable-dbo"), ("sglang", "--enable-two-batch-overlap")])
def test_techniques_are_switched_on_or_said(target: str, option: str, tmp_path: Path) -> None:
    scenario = cases.deployments(target)["dp and tp"] | {"techniques": ["dual-batch-overlap"]}
    done = export(scenario, target, None, tmp_path)
    (script,) = servers(tmp_path, target).values()
    assert option in cases.words(script) and not any("technique" in item for item in done.unsupported)
    done = export(scenario | {"techniques": ["tokenweave"]}, target, None, tmp_path)
    assert [item for item in done.unsupported if "technique" in item] == [
        f"technique tokenweave: {'vLLM' if target == 'vllm' else 'SGLang'} has no switch for it"
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_pools_on_groups_of_unlike_devices_lie_on_their_nodes(target: str, tmp_path: Path) -> None:
    scenario = cases.deployments(target)["split"]
    scenario["cluster"] = {
        "groups": [
            {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            {"device": "mi300x", "nodes": 1, "devices_per_node": 8},
        ]
    }
    for pool, group in zip(scenario["serving"]["pools"], ("h100-sxm-80gb", "mi300x"), strict=True):
        pool["group"] = group
    export(scenario, target, None, tmp_path, "kubernetes")
    first, second = (tmp_path / "serve.sh").read_text("utf-8").split(";;")[:2]
    assert f"{target}-prefill.sh" in first and f"{target}-decode.sh" not in first
    assert f"{target}-decode.sh" in second and "HIP_VISIBLE_DEVICES=0,1 " in second and "CUDA" not in second
    objects = list(yaml.safe_load_all((tmp_path / "serve.yaml").read_text("utf-8")))
    asked = [
        str(item["spec"]["template"]["spec"]["containers"][0].get("resources"))
        for item in objects
        if item["kind"] == "StatefulSet"
    ]
    assert ["nvidia" in text for text in asked] == [True, False] and "amd.com/gpu" in asked[1]


def test_mpi_is_told_the_nodes_of_an_instance(tmp_path: Path) -> None:
    export(cases.deployments("trtllm")["two nodes, tp"], "trtllm", None, tmp_path)
    text = (tmp_path / "serve.sh").read_text("utf-8")
    assert 'MPI_HOSTS="${HOSTS[0]}:8,${HOSTS[1]}:8"' in text
    command = cases.words(tmp_path / "trtllm-server.sh", MPI_HOSTS="a:8,b:8", NODE_RANK="0")
    assert command[:5] == ["mpirun", "--allow-run-as-root", "-n", "16", "-H"] and command[5] == "a:8,b:8"
