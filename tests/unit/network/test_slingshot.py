"""NCCL on Slingshot against what it logs and measures on two nodes of four A100.

Rows: github.com/NERSC/nccl-ofi-plugin, logs-regression: expected times of NCCL 2.23.4 (slurm-test-2.23-918503),
measured ones of 2.22.3 (slurm-test-2.22-918494) and of a container of October 2024, means of in and out of place.
"""

from __future__ import annotations

import pytest

from windtunnel import catalog
from windtunnel.network import nccl
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef

TWO = catalog.resolve_cluster(
    ClusterRef.model_validate(
        {
            "device": "a100-sxm-40gb",
            "nodes": 2,
            "devices_per_node": 4,
            "scale_out": {"nics_per_node": 4, "nic_bytes_per_s": 25e9, "family": "slingshot"},
        }
    )
)
EIGHT = placement(8, 1, 4)


@pytest.mark.parametrize(
    ("size", "algorithm", "protocol", "expected_us", "error"),
    [
        (1 << 17, "tree", "ll", 43.70, 0.001),
        (1 << 18, "ring", "ll", 56.39, 0.001),
        (1 << 19, "ring", "ll", 76.78, 0.001),
        (1 << 20, "tree", "simple", 104.83, 0.06),
        (1 << 21, "tree", "simple", 134.45, 0.06),
        (1 << 23, "tree", "simple", 282.56, 0.06),
        (1 << 24, "ring", "simple", 457.59, 0.001),
        (1 << 30, "ring", "simple", 19725.18, 0.001),
    ],
)
def test_nccl_chooses_as_it_logs(size: int, algorithm: str, protocol: str, expected_us: float, error: float) -> None:
    chosen = nccl.explain("all_reduce", float(size), EIGHT, TWO, NetworkCoefficients.for_cluster(TWO))[0]
    assert chosen[:2] == (algorithm, protocol)
    assert chosen[2] * 1e6 == pytest.approx(expected_us, rel=error)


MEASURED_US = {8: 31.4, 32: 32.4, 64: 39.8, 16 << 10: 553.4, 64 << 10: 1762.2, 256 << 10: 6644.7, 1 << 20: 25836.0}
"""By KiB."""


@pytest.mark.parametrize("kib", MEASURED_US)
def test_small_and_large_sums_take_what_was_measured(kib: int) -> None:
    found = float(NetworkModel(TWO).collective("all_reduce", 1024.0 * kib, EIGHT).alone_s)
    assert found * 1e6 == pytest.approx(MEASURED_US[kib], rel=0.08)
