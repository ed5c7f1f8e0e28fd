"""The catalogue is sound, its lookups take every spelling, and references resolve to whole clusters."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.catalog import soundness, store
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput
from windtunnel.specs.cluster import ClusterRef, ScaleOut
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec


def test_catalogue_is_sound() -> None:
    assert [str(problem) for problem in catalog.check()] == []


def test_size() -> None:
    assert len(catalog.models()) >= 60
    assert len(catalog.devices()) >= 40
    counted = [n for n in catalog.models() if catalog.model(n).num_parameters_published]
    assert len(counted) >= 60


@pytest.mark.parametrize("name", catalog.models())
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    model = catalog.model(name)
    count = count_parameters(model)
    if model.num_parameters_published:
        assert count.total == pytest.approx(model.num_parameters_published, rel=0.01)
    layers = sum(count.per_kind[kind] * n for kind, n in count.num_layers.items())
    assert count.total == count.embedding + count.head + count.final_norm + layers
    assert count.active <= count.total
    assert (count.active < 0.8 * (count.total - count.embedding)) == bool(model.num_experts)


# Exact sums by hand: every term of one layer written out.
def test_count_by_hand() -> None:
    h, f, v = 4096, 14336, 128256
    layer = h * h + 2 * h * 1024 + h * h + 3 * h * f + 2 * h
    assert count_parameters(catalog.model("Llama-3.1-8B")).total == 32 * layer + 2 * v * h + h
    h = 768
    layer = 4 * (h * h + h) + (4 * h * h + 4 * h) + (4 * h * h + h) + 4 * h
    assert count_parameters(catalog.model("gpt2")).total == 12 * layer + (50257 + 1024) * h + 2 * h


SPELLINGS: list[tuple[Any, str, str]] = [
    (catalog.device, "H100", "h100-sxm-80gb"),
    (catalog.device, "H100-SXM-80GB", "h100-sxm-80gb"),
    (catalog.device, "h100_80g_nvl8", "h100-sxm-80gb"),
    (catalog.device, "h100-80gb-pcap", "h100-sxm-80gb"),
    (catalog.device, "NVIDIA H100 SXM", "h100-sxm-80gb"),
    (catalog.device, "H100 PCIe", "h100-pcie-80gb"),
    (catalog.device, "H100-SXM-96GB-HBM2e(500W cap)", "h100-sxm-96gb"),
    (catalog.device, "H800 SXM", "h800-sxm-80gb"),
    (catalog.device, "a100_80e", "a100-sxm-80gb"),
    (catalog.device, "A100-SXM4-80GB", "a100-sxm-80gb"),
    (catalog.device, "A100 40G", "a100-sxm-40gb"),
    (catalog.device, "A100-PCIE-80GB", "a100-pcie-80gb"),
    (catalog.device, "B200-SXM 8x single node (180/192GB HBM3e, NVLink5)", "b200-sxm-180gb"),
    (catalog.device, "B200 (power limited)", "b200-sxm-180gb"),
    (catalog.device, "b300_sxm", "b300-sxm-270gb"),
    (catalog.device, "GB300 SXM", "gb300"),
    (catalog.device, "RTX PRO 6000 Server", "rtx-pro-6000"),
    (catalog.device, "RTX4090", "rtx-4090"),
    (catalog.device, "AMD MI300X", "mi300x"),
    (catalog.device, "MI250X GCD", "mi250x"),
    (catalog.device, "TPU7x (Ironwood)", "tpu-v7x"),
    (catalog.device, "TPU v4 pod", "tpu-v4"),
    (catalog.device, "Ascend 910B (A2)", "ascend-910b"),
    (catalog.device, "V100 SXM2 32GB", "v100-sxm-32gb"),
    (catalog.device, "Intel Gaudi 2", "gaudi2"),
    (catalog.link, "interconnect:NVLink 4", "nvlink4"),
    (catalog.link, "IB HDR", "infiniband-hdr"),
    (catalog.link, "PCIe 5", "pcie5"),
    (catalog.cluster, "DGX H100 node", "dgx-h100"),
    (catalog.cluster, "GB200 NVL72 rack", "gb200-nvl72"),
    (catalog.cluster, "Selene", "selene"),
    (catalog.model, "llama2-70b", "meta-llama/Llama-2-70b-hf"),
    (catalog.model, "meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-70B"),
    (catalog.model, "nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B"),
    (catalog.model, "deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-V3"),
    (catalog.model, "nvidia/DeepSeek-V3.1-NVFP4", "deepseek-ai/DeepSeek-V3"),
    (catalog.model, "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "Qwen/Qwen3-235B-A22B"),
    (catalog.model, "google/gemma-3-27b-it", "google/gemma-3-27b-pt"),
    (catalog.model, "gpt3-175b", "openai/gpt3-175b"),
    (catalog.model, "OPT-1.3B", "facebook/opt-1.3b"),
    (catalog.model, "opt-13b", "facebook/opt-13b"),
    (catalog.model, "bloom-176b", "bigscience/bloom"),
]


@pytest.mark.parametrize(("lookup", "spelling", "wanted"), SPELLINGS, ids=[s for _, s, _ in SPELLINGS])
def test_spellings(lookup: Any, spelling: str, wanted: str) -> None:
    found = lookup(spelling)
    assert wanted in (getattr(found, "id", None), found.name)


@pytest.mark.parametrize(
    ("lookup", "wrong", "near"),
    [
        (catalog.device, "h101-sxm-80gb", "h100-sxm-80gb"),
        (catalog.model, "meta-llama/Llama-3.1-71B", "meta-llama/Llama-3.1-70B"),
        (catalog.link, "nvlink44", "nvlink4"),
        (catalog.cluster, "dgx-h1000", "dgx-h100"),
    ],
)
def test_unknown_names_say_the_nearest(lookup: Any, wrong: str, near: str) -> None:
    with pytest.raises(BadInput) as caught:
        lookup(wrong)
    assert len(str(caught.value).splitlines()) == 1
    assert wrong in str(caught.value)
    assert near in str(caught.value)


@pytest.mark.parametrize("text", ["8 x dgx-h100", "dgx-h100 x8", "dgx-h100:8", "DGX H100 × 8"])
def test_several_of_a_node_type(text: str) -> None:
    found = catalog.cluster(text)
    assert (found.nodes, found.num_devices, found.device.id) == (8, 64, "h100-sxm-80gb")


@pytest.mark.parametrize("text", ["0 x dgx-h100", "2 x selene", "8 x nothing-like-it"])
def test_counts_that_make_no_sense(text: str) -> None:
    with pytest.raises(BadInput):
        catalog.cluster(text)


def test_facts() -> None:
    a100 = catalog.device("a100-sxm-80gb")
    assert (a100.peak("bf16"), a100.memory_bytes_per_s, a100.num_sms) == (312e12, 2039e9, 108)
    assert catalog.device("h100-sxm-80gb").peak("fp8") == pytest.approx(2 * 989.4e12, rel=1e-3)
    assert catalog.device("b200-sxm-180gb").peak("fp4") == 9000e12
    assert catalog.device("mi250x").memory_bytes == 64 * 2**30
    assert catalog.link("nvlink4").bytes_per_s == 450e9
    assert catalog.link("infiniband-ndr").bytes_per_s == 50e9
    assert catalog.link("ici-v5p").torus_axes == 3
    frontier = catalog.cluster("frontier")
    assert (frontier.num_devices, frontier.scale_out.topology) == (9408 * 8, "dragonfly")
    assert frontier.nic_bytes_per_s_per_device == 12.5e9
    assert catalog.cluster("gb200-nvl72").scale_up_domain == 72


def test_reference_fills_in_and_says_so() -> None:
    got = catalog.resolve_cluster(ClusterRef(device="H100", nodes=8))
    assert (got.device.id, got.scale_up.id, got.num_devices, got.scale_up_domain) == ("h100-sxm-80gb", "nvlink4", 64, 8)
    assert got.scale_out.nics_per_node == 8
    assert got.nic_bytes_per_s_per_device == 50e9
    assert {field for field, _, _ in got.assumed} == {"cluster.scale_out", "cluster.host_memory_bytes"}


def test_reference_half_a_node_has_half_the_ports() -> None:
    assert catalog.resolve_cluster(ClusterRef(device="h100", nodes=2, devices_per_node=4)).scale_out.nics_per_node == 4


def test_reference_with_all_said_assumes_nothing() -> None:
    out = ScaleOut(nics_per_node=4, nic_bytes_per_s=25e9)
    ref = ClusterRef(
        device="a100-sxm-80gb",
        nodes=4,
        scale_up="nvlink3",
        scale_out=out,
        host_memory_bytes=1e12,
        scale_up_domain=8,
        memory_bytes="40 GiB",
        memory_bytes_per_s="1555 GB/s",
        power_cap_w=300.0,
        price_per_device_hour=2.0,
    )
    got = catalog.resolve_cluster(ref)
    assert got.assumed == ()
    assert got.scale_out == out
    assert (got.device.memory_bytes, got.device.memory_bytes_per_s) == (40 * 2**30, 1555e9)
    assert (got.power_cap_w, got.price_per_device_hour) == (300.0, 2.0)
    assert catalog.device("a100-sxm-80gb").memory_bytes == 80 * 2**30, "the catalogue's own record stays"


def test_ports_by_link_name() -> None:
    four = catalog.resolve_cluster(ClusterRef(device="a100-sxm-80gb", nodes=4, scale_out="4 x infiniband-hdr"))
    assert (four.scale_out.nics_per_node, four.scale_out.nic_bytes_per_s) == (4, 25e9)
    each = catalog.resolve_cluster(ClusterRef(device="a100-sxm-80gb", nodes=4, scale_out="infiniband-hdr"))
    assert each.scale_out.nics_per_node == 8
    assert "cluster.scale_out.nics_per_node" in {field for field, _, _ in each.assumed}


def test_rack_scale_domain() -> None:
    assert catalog.resolve_cluster(ClusterRef(device="gb200", nodes=32, devices_per_node=4)).scale_up_domain == 72
    assert catalog.resolve_cluster(ClusterRef(device="gb200", nodes=2, devices_per_node=4)).scale_up_domain == 8
    assert catalog.resolve_cluster(ClusterRef(device="tpu-v5p", nodes=16, devices_per_node=4)).scale_up_domain == 64


def test_device_written_out_in_the_scenario() -> None:
    mine = DeviceSpec(
        id="mine",
        name="Mine",
        vendor="me",
        generation="mine",
        peak_flop_per_s={"bf16": "100 TFLOP/s"},
        memory_bytes="32 GiB",
        memory_bytes_per_s="1 TB/s",
    )
    got = catalog.resolve_cluster(ClusterRef(device=mine, nodes=4, devices_per_node=4))
    assert got.device == mine
    assert {"cluster.scale_up", "cluster.scale_out", "cluster.host_memory_bytes"} == {f for f, _, _ in got.assumed}


def test_domain_of_part_nodes_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"cluster\.scale_up_domain = 12"):
        catalog.resolve_cluster(ClusterRef(device="gb200", nodes=4, devices_per_node=8, scale_up_domain=12))
    assert catalog.resolve_cluster(ClusterRef(device="gb200", nodes=40, devices_per_node=5)).scale_up_domain == 70


@pytest.mark.parametrize("device", catalog.devices())
def test_every_device_resolves(device: str) -> None:
    got = catalog.resolve_cluster(ClusterRef(device=device, nodes=2, devices_per_node=1))
    assert got.scale_out.nic_bytes_per_s > 0
    assert got.scale_up.bytes_per_s > 0


def test_all_problems_of_a_reference_at_once() -> None:
    ref = ClusterRef(device="h1000", scale_up="nvlnk", scale_out="infinband")
    with pytest.raises(BadInput) as caught:
        catalog.resolve_cluster(ref)
    assert {p.field for p in caught.value.problems} == {"cluster.device", "cluster.scale_up", "cluster.scale_out"}


def test_check_finds_what_is_wrong() -> None:
    data = {
        "memory_bytes": "80 GiB",
        "num_sms": 1,
        "as_of": "soon",
        "sources": [{"fields": ["num_sms", "clock_hz"], "source": "a sheet", "as_of": "once"}],
    }
    rules = [str(p) for p in soundness.check_sources(data, soundness.NUMBERS["devices"], "x.yaml")]
    assert any("memory_bytes" in rule and "must have a source" in rule for rule in rules)
    assert any("clock_hz" in rule and "does not have" in rule for rule in rules)
    assert sum("date" in rule for rule in rules) == 3
    wrong = catalog.model("gpt2").model_copy(update={"num_parameters_published": 130e6, "provenance": None})
    assert {p.field for p in soundness.check_model(wrong, "x.yaml")} == {"num_parameters_published", "provenance"}


def test_families_count() -> None:
    """Parts that no published total pins down alone."""
    base: dict[str, Any] = {
        "name": "m",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "vocab_size": 10,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    dense = count_parameters(ModelSpec(**base))
    assert count_parameters(ModelSpec(**base, tie_word_embeddings=True)).total == dense.total - 640
    assert count_parameters(ModelSpec(**base, num_key_value_heads=1)).total == dense.total - 2 * 2 * 64 * 48
    moe = ModelSpec(**base, family="moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
    count = count_parameters(moe)
    assert count.per_kind["E"] - count.active_per_kind["E"] == 6 * 3 * 64 * 32
    predicting = count_parameters(ModelSpec(**base, num_nextn_predict_layers=1))
    assert predicting.total == dense.total
    assert predicting.mtp > dense.per_kind["D"]


def test_lookups_are_fast_and_lazy() -> None:
    """One model and one device in under 30 ms each, without reading the other files."""
    code = (
        "import time, windtunnel.catalog as c; from windtunnel.catalog import store\n"
        "t = time.perf_counter(); c.model('meta-llama/Llama-3.1-70B'); c.device('h100-sxm-80gb')\n"
        "print(time.perf_counter() - t, store.headings.cache_info().currsize)"
    )
    best = 1.0
    for _ in range(3):
        took, scanned = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        assert scanned == "0"
        best = min(best, float(took))
    assert best < 0.060
    store.headings.cache_clear()
    store._spellings.cache_clear()
    start = time.perf_counter()
    catalog.model("llama2-70b")
    assert time.perf_counter() - start < 0.25, (
        "an alias scans text lines of all files, still without parsing them whole"
    )


@pytest.mark.parametrize("name", catalog.models())
def test_count_agrees_with_the_operator_graph(name: str) -> None:
    """The graph sums the weights of its operators; the two counts share no code."""
    from windtunnel.graph import Batch, build

    model = catalog.model(name)
    count = count_parameters(model)
    graph = build(model, Batch.train(1, 128))
    for kind, block in graph.blocks.items():
        own = count.mtp / model.num_nextn_predict_layers if kind == "mtp" else count.per_kind[kind]
        assert block.params == pytest.approx(own, rel=0.003), kind
    total = sum(graph.blocks[kind].params for kind in graph.depth) + graph.embedding.params + graph.head.params
    # the graph has no BERT pooler (0.5 %)
    assert total == pytest.approx(count.total, rel=0.006 if model.family == "encoder" else 0.003)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2-Instruct"),
        ("zai-org/GLM-4.7", "zai-org/GLM-4.5"),
        ("MiniMaxAI/MiniMax-M2.7", "MiniMaxAI/MiniMax-M2"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen/Qwen3-30B-A3B"),
        ("zai-org/GLM-4.7-Flash", "zai-org/GLM-4.7-Flash"),
        ("ByteDance-Seed/Seed-OSS-36B-Base", "ByteDance-Seed/Seed-OSS-36B-Instruct"),
        ("baidu/ERNIE-4.5-21B-A3B-PT", "baidu/ERNIE-4.5-21B-A3B-PT"),
        ("tencent/Hunyuan-A13B-Instruct-FP8", "tencent/Hunyuan-A13B-Instruct"),
    ],
)
def test_checkpoints_that_recipes_name_are_found(spelling: str, name: str) -> None:
    assert catalog.model(spelling).name == name


@pytest.mark.parametrize(
    "spelling",
    "l20 a5000 gtx-1080ti rtx-4080 rtx-4090d rtx-5090 k80 p100 jetson-agx-orin raspberry-pi phone".split(),
)
def test_older_smaller_and_desktop_devices_have_a_node(spelling: str) -> None:
    device = catalog.device(spelling)
    cluster = catalog.resolve_cluster(ClusterRef(device=device.id, nodes=1))
    assert cluster.devices_per_node >= 1 and device.tdp_w and device.clock_hz
