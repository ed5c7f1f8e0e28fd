"""Collective times against measured sweeps, and the speed of the model.

Run: `python benchmarks/bench_network.py ROWS.json` (rows with op, device, n, nodes, bytes, time_us, busbw_GBps,
source).
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np
from three_term_fit import fit_three_term, predict_three_term

from windtunnel.network import NetworkModel, placement
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.device import DeviceSpec, LinkSpec
from windtunnel.validation.predict.kernels_and_collectives import as_measured

# Device prefix → generation, link family, bytes/s one direction, in-switch reduction.
DEVICES = (
    ("V100-PCIE", ("volta", "pcie3", 15.75e9, False)),
    ("V100", ("volta", "nvlink2", 150e9, False)),
    ("A100-80GB PCIe", ("ampere", "pcie4", 31.5e9, False)),
    ("A100", ("ampere", "nvlink3", 300e9, False)),
    ("unstated (probably A100", ("ampere", "nvlink3", 300e9, False)),
    ("H100 pairwise", ("hopper", "pcie5", 63e9, False)),
    ("H100", ("hopper", "nvlink4", 450e9, True)),
    ("H200", ("hopper", "nvlink4", 450e9, True)),
    ("B200", ("blackwell", "nvlink5", 900e9, True)),
)
SWEEPS = {"A100x8": "A100-SXM-80GB", "H200x8": "H200", "B200x8": "B200", "B200 4x8": "B200"}


def cluster_of(row: dict[str, Any]) -> ClusterSpec | None:
    """Cluster of a row, from its device and network words; None when they say too little."""
    known = [facts for prefix, facts in DEVICES if row["device"].startswith(prefix)]
    if not known:
        return None
    generation, family, rate, switch = known[0]
    if "pairwise" in row["device"] and row.get("n") == 2:
        family, rate = "nvlink3" if generation == "ampere" else "nvlink4", 300e9  # the bridge between two cards
        switch = False
    nodes = row["nodes"] or 1
    inter = row.get("inter_node") or ""
    if nodes > 1 and "EFA" in inter:
        out = ScaleOut(nics_per_node=8, nic_bytes_per_s=50e9, family="efa")
    elif nodes > 1 and "Omni-Path" in inter:
        out = ScaleOut(nics_per_node=4, nic_bytes_per_s=12.5e9, family="omnipath")
    elif nodes > 1 and row["device"].startswith("unstated"):
        out = ScaleOut(nics_per_node=8, nic_bytes_per_s=12.5e9, family="infiniband")  # 98 GB/s of bus: 800 Gb/s
    elif nodes > 1:
        return None
    else:
        out = ScaleOut(nics_per_node=8, nic_bytes_per_s=50e9)
    per_node = max(row.get("per_node") or 8, 1)
    device = DeviceSpec(
        id=row["device"],
        name=row["device"],
        vendor="",
        generation=generation,
        peak_flop_per_s={"bf16": 1e15},
        memory_bytes=80e9,
        memory_bytes_per_s=2e12,
    )
    link = LinkSpec(id=family, family=family, bytes_per_s=rate, in_network_reduction=switch)
    full = max(per_node, 8)
    return ClusterSpec(
        name="row",
        device=device,
        nodes=nodes,
        devices_per_node=full,
        scale_up=link,
        scale_out=out,
        scale_up_domain=full,
    )


def key(row: dict[str, Any]) -> str:
    """Set that a row belongs to."""
    source = row["source"]
    name = source["repo"].split("/")[1]
    sub = "/".join(source["path"].split("/")[-2:-1])
    return f"{name}/{sub} {row['device'][:16]} {row['op']} n{row['n']} x{row['nodes']}"


def sweep_of(row: dict[str, Any]) -> str | None:
    """One of the four published sweeps, else None."""
    section = str(row["source"].get("section", ""))
    if not row["source"]["repo"].endswith("ml-engineering"):
        return None
    if "line 1254" in section:
        return "H200x8"
    if "P6-B200" in section:
        return "B200x8" if row["nodes"] == 1 else "B200 4x8"
    return "A100x8" if "nccl-tests sweep" in section else None


def predict(row: dict[str, Any]) -> tuple[float, str] | None:
    """(seconds, algorithm) of a row."""
    cluster = cluster_of(row)
    if cluster is None or not row.get("bytes") or not row.get("time_us"):
        return None
    per_node = row.get("per_node") or row["n"]
    place = placement(row["n"], 1, cluster.scale_up_domain, active_per_domain=per_node)
    if (row["nodes"] or 1) > 1 and per_node < cluster.scale_up_domain:
        place = placement(
            row["n"], cluster.scale_up_domain // per_node, cluster.scale_up_domain, active_per_domain=per_node
        )
    words = str(row.get("algorithm") or "")
    algorithm = "ring" if "Ring" in words else "nvls" if words == "NVLS" else None
    got = NetworkModel(cluster).collective(row["op"], float(row["bytes"]), place, algorithm=algorithm)
    return float(got.alone_s), str(got.algorithm)


def main(path: str) -> None:
    """Print errors by set, the four sweeps, the five-point calibration and the speed."""
    with open(path, encoding="utf-8") as file:
        rows = [r for r in json.load(file) if r.get("kind") == "measured"]
    sets: dict[str, list[tuple[float, float, float, str, float]]] = defaultdict(list)
    for row in rows:
        got = predict(row)
        if got is not None:
            read = as_measured(got[0], str(row.get("tool") or ""))
            sets[sweep_of(row) or key(row)].append((row["bytes"], row["time_us"] * 1e-6, got[0], got[1], read))
    print(f"{'set':58s} rows  MAPE% <=1M  2-128M >=256M  bias%")
    for name, points in sorted(sets.items(), key=lambda item: (item[0] not in SWEEPS, item[0])):
        size, true, mine = (np.array([p[i] for p in points], dtype=float) for i in range(3))
        error = (mine / true - 1) * 100

        def mean(mask: Any, values: Any) -> str:
            return f"{np.abs(values[mask]).mean():6.1f}" if mask.any() else "     -"

        mib = size / 2**20
        bands = (mib > 0, mib <= 1, (mib > 1) & (mib < 256), mib >= 256)
        print(f"{name:58s} {len(points):4d} " + " ".join(mean(band, error) for band in bands) + f" {error.mean():6.1f}")
        if name in SWEEPS and "-v" in sys.argv:
            for p in sorted(points):
                print(f"      {p[0] / 2**20:10.3f} MiB measured {p[1] * 1e6:10.1f} us, ours {p[2] * 1e6:10.1f} {p[3]}")
    for label, i in (("of the device alone", 2), ("as the harness reads it", 4)):
        errors = [np.mean([abs(p[i] / p[1] - 1) for p in sets[name]]) * 100 for name in SWEEPS]
        text = ", ".join(f"{name} {error:.1f}" for name, error in zip(SWEEPS, errors, strict=True))
        print(f"four sweeps, uncalibrated, {label}: mean {np.mean(errors):.1f} % ({text})")
    for name in SWEEPS:
        points = sorted(sets[name])
        pick = np.unique(np.round(np.linspace(0, len(points) - 1, 5)).astype(int))
        size, true = np.array([p[0] for p in points]), np.array([p[1] for p in points])
        rest = np.setdiff1d(np.arange(len(points)), pick)
        error = np.abs(predict_three_term(fit_three_term(size[pick], true[pick]), size[rest]) / true[rest] - 1) * 100
        print(f"{name}: calibrated on 5, held out {len(rest)}: {error.mean():.1f} % mean, {error.max():.1f} % max")
    cluster = cluster_of({"device": "H100", "nodes": 1, "per_node": 8})
    assert cluster is not None
    model, place = NetworkModel(cluster), placement(16384, 1, 8)
    model.collective("all_reduce", 64e6, place)
    start = time.perf_counter()
    for i in range(200):
        model.collective("all_reduce", 64e6 + i, place)  # distinct sizes, so that nothing is remembered
    print(f"one 64 MB all-reduce on 16,384 ranks: {(time.perf_counter() - start) / 200 * 1e3:.3f} ms")
    many = placement(2 ** np.random.default_rng(0).integers(1, 15, 1_000_000), 1, 8)
    start = time.perf_counter()
    model.collective("all_reduce", 64e6, many)
    print(f"a million placements: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
