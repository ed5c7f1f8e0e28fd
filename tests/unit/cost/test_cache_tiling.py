"""Operands that a product reads again where the last-level cache cannot keep them."""

from __future__ import annotations

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.cost.tiled import missed, operand_reads
from windtunnel.specs.device import DeviceSpec

MIB = float(1 << 20)


def device(cache_mib: float, **more: object) -> DeviceSpec:
    """An accelerator that counts what is read again."""
    return catalog.device("v100-sxm-32gb").model_copy(update={"l2_bytes": cache_mib * MIB, "rereads": True} | more)


def read(of: DeviceSpec, shape: tuple[int, int, int], *, cached: bool = True) -> float:
    """Bytes of both operands in 16 bits."""
    m, n, k = (np.array(float(x)) for x in shape)
    return float(operand_reads(of, m, n, k, np.array(2.0), np.array(2.0), output_cached=cached))


SHAPE = (8192, 4096, 2048)
ONCE = 2.0 * (8192 * 2048 + 2048 * 4096)


def test_a_cyclic_read_misses_nothing_that_fits_and_all_of_what_is_far_too_large() -> None:
    shares = missed(np.array([0.5, 1.0, 1.2, 2.0, 20.0]))
    assert list(shares[:2]) == [0.0, 0.0]
    assert list(shares) == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert shares[3] == pytest.approx(1.0 - np.exp(-2.0 * shares[3]))


def test_caches_decide_how_often_operands_are_read() -> None:
    found = [read(device(size), SHAPE) for size in (1, 8, 16, 24, 256)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 4.0 * ONCE
    assert found[-1] == ONCE
    assert read(device(1, rereads=False), SHAPE) == ONCE


def test_outputs_that_pass_the_cache_leave_it_to_operands() -> None:
    inside = device(20)
    assert ONCE <= read(inside, SHAPE, cached=False) < read(inside, SHAPE)


def test_products_take_longer_only_where_memory_binds() -> None:
    def seconds(of: DeviceSpec, k: float) -> float:
        return float(
            gemm_time_s(
                of,
                Coefficients(),
                Products(
                    m=np.array(8192.0),
                    n=np.array(4096.0),
                    k=np.array(k),
                    peak_flop_per_s=np.array(125e12),
                    fraction=np.array(0.8),
                    operand_bytes=np.array(2.0),
                    output_bytes=np.array(2.0),
                    extra_bytes=np.array(0.0),
                    groups=np.array(1.0),
                ),
            )
        )

    plain, small = device(4, rereads=False), device(4)
    assert seconds(small, 2048.0) >= seconds(plain, 2048.0)
    slow = {"memory_bytes_per_s": 50e9}
    assert seconds(device(4, **slow), 2048.0) > 1.5 * seconds(device(4, rereads=False, **slow), 2048.0)
    assert seconds(device(256), 2048.0) == seconds(plain, 2048.0)
