"""Profiles from other tools' output, made up here from known coefficients: they come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kineto_traces as traces
import numpy as np
import pytest
import yaml

from windtunnel import catalog
from windtunnel.calibration.aiconfigurator import calibrate_from_tables
from windtunnel.calibration.kineto import calibrate_from_kineto
from windtunnel.calibration.nccl_tests import calibrate_from_nccl_tests
from windtunnel.cli.main import run
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.errors import BadInput
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.device import MeasuredValue, Profile

SIZES = [1 << p for p in range(12, 31, 2)]
TRUTH = {"efficiency": 0.6, "hop_scale": 2.0, "base_scale": 1.5}


def _cluster(nodes: int = 1) -> ClusterSpec:
    return catalog.resolve_cluster(ClusterRef(device="a100-sxm-80gb", nodes=nodes, devices_per_node=8))


def _seconds(operation: str, sizes: list[int], ranks: int) -> list[float]:
    cluster = _cluster()
    profile = Profile(network={k: MeasuredValue(value=v) for k, v in TRUTH.items()})
    network = NetworkModel(cluster, NetworkCoefficients.for_cluster(cluster).measured(profile))
    times = network.collective(operation, np.array(sizes, float), placement(ranks, domain=8)).alone_s
    return [float(t) for t in times]


def _printed(folder: Path, operation: str, ranks: int = 8, *, test: str = "", hosts: int = 1) -> Path:
    """As nccl-tests prints it."""
    lines = ["# nThread 1 nGpus 1 minBytes 4096 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20", "#"]
    lines += [f"# Collective test starting: {test}"] if test else []
    lines += [
        f"#  Rank {r:2d} Group  0 Pid  {100 + r} on node-{r % hosts} device {r:2d} [0x07] NVIDIA A100-SXM4-80GB"
        for r in range(ranks)
    ]
    lines.append(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw"
        "   busbw #wrong"
    )
    lines.append("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)")
    factor = 2 * (ranks - 1) / ranks if operation == "all_reduce" else (ranks - 1) / ranks
    for size, s in zip(SIZES, _seconds(operation, SIZES, ranks), strict=True):
        rate = size / s / 1e9
        one = f"{s * 1e6:.2f} {rate:.2f} {rate * factor:.2f} 0"
        lines.append(f"{size:12d} {size // 4:12d} float sum -1 {one} {one}")
    path = folder / f"{operation}.txt"
    path.write_text("\n".join([*lines, "# Out of bounds values : 0 OK", ""]))
    return path


def test_a_network_comes_back_from_what_nccl_tests_printed(tmp_path: Path) -> None:
    files = [_printed(tmp_path, "all_reduce"), _printed(tmp_path, "all_gather")]
    found = calibrate_from_nccl_tests(files)
    assert found.device.id == "a100-sxm-80gb" and found.device.profile is not None
    network = found.device.profile.network
    assert network["efficiency"].value == pytest.approx(TRUTH["efficiency"], rel=0.03)
    for name, value in TRUTH.items():  # starts and hops are told apart by few ranks only as far as their errors say
        entry = network[name]
        assert entry.relative_error is not None and abs(np.log(entry.value / value)) < entry.relative_error, name
    assert network["hop_scale"].value > 1.3 and network["base_scale"].value > 1.2
    assert found.errors()["collective"] < 0.03 and not found.device.profile.coefficients


def test_the_test_is_known_by_its_name_its_line_or_its_rates(tmp_path: Path) -> None:
    plain = _printed(tmp_path, "all_reduce").rename(tmp_path / "one.txt")
    assert calibrate_from_nccl_tests([plain]).points[0].label.startswith("all_reduce")
    gather = _printed(tmp_path, "all_gather").rename(tmp_path / "two.txt")
    with pytest.raises(BadInput, match="name the file after it"):
        calibrate_from_nccl_tests([gather])
    named = _printed(tmp_path, "all_gather", test="all_gather_perf").rename(tmp_path / "three.txt")
    assert calibrate_from_nccl_tests([named]).points[0].label.startswith("all_gather")


def test_a_network_between_nodes_is_scaled_beside_the_one_inside(tmp_path: Path) -> None:
    file = _printed(tmp_path, "all_reduce", hosts=2)
    with pytest.raises(BadInput, match="ran on 2 hosts"):
        calibrate_from_nccl_tests([file])
    nodes = _cluster(2).model_copy(update={"devices_per_node": 4, "scale_up_domain": 4})
    found = calibrate_from_nccl_tests([file], cluster=nodes).device.profile
    assert found is not None and "scale_out_scale" in found.coefficients


def test_what_is_no_output_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("")
    bare = tmp_path / "all_reduce_bare.txt"
    bare.write_text("# size count type redop root time algbw busbw #wrong\n1024 256 float sum -1 10.0 0.1 0.1 0\n")
    broken = tmp_path / "broken.txt"
    broken.write_text("# size count type redop root time algbw busbw #wrong\n1024 256 float sum -1 fast\n")
    files = [str(f) for f in (tmp_path / "empty.txt", bare, broken, tmp_path / "absent.txt")]
    assert run(["calibrate", "--from", "nccl-tests", *files, "-o", str(tmp_path / "x.yaml")]) == 2
    told = capsys.readouterr().err
    for part in ("empty.txt", "--ranks: is required", "broken.txt:2", "No such file"):
        assert part in told, told
    for wrong, part in (
        (["--from", "nccl"], "did you mean 'nccl-tests'"),
        (["--from", "nccl-tests"], "FILES"),
        (["--from", "kineto", "x"], "--scenario"),
        (["--system", "h200_sxm"], "--from aiconfigurator"),
        (["--from", "nccl-tests", str(bare), "--ranks", "8"], "--device: is required"),
    ):
        assert run(["calibrate", *wrong, "-o", str(tmp_path / "x.yaml")]) == 2
        assert part in capsys.readouterr().err
    assert not (tmp_path / "x.yaml").exists()


def _package(folder: Path, fraction: float) -> Path:
    """Tables of products as the package lays them out, of a device that reaches `fraction` of its peak."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="the tables are parquet files")
    device = catalog.device("h200-sxm-141gb")
    m, n, k = (
        a.ravel().astype(float)
        for a in np.meshgrid([1, 8, 16, 256, 1024, 4096, 16384], [2048, 4096, 8192], [2048, 4096, 8192])
    )
    seconds = gemm_time_s(
        device,
        Coefficients(gemm_fraction={"bf16": fraction}),
        Products(
            m=m,
            n=n,
            k=k,
            peak_flop_per_s=np.full(len(m), 9.89e14),
            fraction=np.full(len(m), fraction),
            operand_bytes=np.full(len(m), 2.0),
            output_bytes=np.full(len(m), 2.0),
            extra_bytes=np.zeros(len(m)),
            groups=np.ones(len(m)),
        ),
    )
    table = pandas.DataFrame({"gemm_dtype": "bfloat16", "m": m, "n": n, "k": k, "latency": 1e3 * seconds})
    for version, factor in (("0.9.0", 2.0), ("0.10.0", 1.0)):  # the newer counts
        where = folder / "systems" / "data" / "h200_sxm" / "gemm" / "vllm" / version
        where.mkdir(parents=True)
        table.assign(latency=factor * table["latency"]).to_parquet(where / "gemm_perf.parquet")
    return folder


def test_operator_tables_become_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _package(tmp_path, 0.7)
    found = calibrate_from_tables("h200_sxm", folder=folder).device.profile
    assert found is not None and found.coefficients["gemm_fraction.bf16"].value == pytest.approx(0.7, rel=0.03)
    assert found.conditions["software"] == "vllm 0.10.0" and not found.network
    out = tmp_path / "h200.yaml"
    assert run(["calibrate", "--from", "aiconfigurator", str(folder), "--system", "h200_sxm", "-o", str(out)]) == 0
    assert yaml.safe_load(out.read_text())["profile"]["coefficients"]["gemm_fraction.bf16"]["grade"] == "measured"
    capsys.readouterr()
    for wrong, part in (
        (["--system", "h200"], "did you mean 'h200_sxm'"),
        (["--system", "h200_sxm", "--software", "trtllm"], "vllm"),
    ):
        assert run(["calibrate", "--from", "aiconfigurator", str(folder), *wrong, "-o", str(out)]) == 2
        assert part in capsys.readouterr().err
    with pytest.raises(BadInput, match="no folder systems/data"):
        calibrate_from_tables("h200_sxm", folder=tmp_path / "systems" / "data" / "h200_sxm")


def test_an_absent_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windtunnel.calibration.aiconfigurator.find_spec", lambda name: None)
    with pytest.raises(BadInput, match="pip install aiconfigurator-core"):
        calibrate_from_tables("h200_sxm")


SCENARIO: dict[str, Any] = {
    "model": {
        "name": "small",
        "hidden_size": 2048,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "intermediate_size": 5632,
        "vocab_size": 32000,
    },
    "cluster": {"device": "h100-sxm", "nodes": 1, "devices_per_node": 1},
    "training": {"seq_len": 4096, "global_batch": 2, "framework": "torchtitan"},
    "plan": {"mbs": 2},
}


def _trace(folder: Path, gemm_s: float, memory_s: float) -> Path:
    events: list[traces.Event] = []
    period = 1e6 * (gemm_s + memory_s) + 1000
    for n in range(4):
        at = 1e4 + n * period
        events.append(traces.step_range(n, at - 50, at + period - 60))
        events += traces.kernel(traces.NVJET, at, 1e6 * gemm_s)
        events += traces.kernel("void at::native::vectorized_elementwise_kernel<4>", at + 1e6 * gemm_s, 1e6 * memory_s)
    return traces.write(folder / "trace.json", events)


def test_a_traces_kernels_set_the_fractions(tmp_path: Path) -> None:
    from windtunnel.training.explain.build_chain import build_chain
    from windtunnel.training.explain.trace_gap import predicted_kernels
    from windtunnel.training.predict import prepare

    scenario = tmp_path / "s.json"
    scenario.write_text(json.dumps(SCENARIO))
    prepared, loaded = prepare(scenario)
    busy = {name: b for name, (_, b, _) in predicted_kernels(build_chain(prepared, loaded)).items()}
    slower = _trace(tmp_path, 1.25 * busy["gemm"], busy["memory bound"])
    found = calibrate_from_kineto(slower, str(scenario)).device.profile
    assert found is not None
    before = prepared.coefficients
    assert found.coefficients["gemm_fraction.bf16"].value < 0.85 * before.gemm_fraction["bf16"]
    assert found.coefficients["memory_fraction"].value == pytest.approx(before.memory_fraction, rel=0.02)
    other = _trace(tmp_path, 0.1 * busy["gemm"], busy["memory bound"])  # faster than the data sheet
    far = calibrate_from_kineto(other, str(scenario))
    assert any("another amount of work" in line for line in far.warnings) and far.device.profile is not None
    assert "gemm_fraction.bf16" not in far.device.profile.coefficients
