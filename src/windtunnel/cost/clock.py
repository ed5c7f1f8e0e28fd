"""Power and clock: how fast the matrix units of a board may run, and what the board draws.

A large product keeps a board at its power limit; the clock then settles where the limit allows. Between 0.7 and 1.2 of
the data-sheet power the voltage hardly moves, so the energy of one operation is a property of the generation:
`rate = limit / (energy · peak)` of the peak, never above what kernels reach when power is no matter. The fractions of a
generation are those of its reference board; other boards and capped ones follow from the ratio of their limits.

Sources: 500 W against 700 W boards of one generation reach 0.72–0.77 of the matrix rate (docs/internals/cost-model.md,
section
12), B200 (1000 W) and GB200 (1200 W) the same rate a watt. 31 pJ per HBM byte (3.9 pJ/bit, O'Connor et al. 2017, MICRO,
fine-grained DRAM, table 1), 10 pJ per NVLink byte (1.3 pJ/bit, NVIDIA NVLink-C2C and NVLink 4 briefs, as of 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.device import DeviceSpec

HBM_J_PER_BYTE = 31e-12
LINK_J_PER_BYTE = 10e-12
IDLE_SHARE = 0.12
"""Idle watts over TDP where the sheet gives none (75–140 W of 700–1000 W on H100 and B200)."""
KERNEL_LIMIT = 0.80
"""Share of peak that products reach before power matters (largest cold rates: 0.73–0.87, see
docs/internals/cost-model.md)."""
_SAME_BOARD = 1e-3
"""Difference of limits that is rounding of the stated energy."""
LEAST_CLOCK = 0.3
"""Below this share of the nominal rate a cap is not followed further."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one device does in one step."""

    flop: float
    hbm_bytes: float
    link_bytes: float
    flop_format: str


def idle_w(device: DeviceSpec) -> float:
    """Watts with nothing running."""
    return device.idle_w or IDLE_SHARE * (device.tdp_w or 0.0)


def board_j_per_flop(device: DeviceSpec, coefficients: Coefficients) -> float:
    """Energy of the whole board over 16-bit operations in sustained products; 0 where nothing is known.

    Source: fitted per generation (`catalog/coefficients/generic.yaml`); otherwise the data-sheet power at the sustained
    rate (assumed). Valid for: large products.
    """
    if coefficients.board_j_per_flop:
        return coefficients.board_j_per_flop
    return (device.tdp_w or 0.0) / (device.peak("bf16") * coefficients.gemm_fraction["bf16"])


def power_limit(device: DeviceSpec, coefficients: Coefficients, watts: float) -> float:
    """Share of the 16-bit peak that `watts` allow, at most `KERNEL_LIMIT`.

    Source: module docstring. Valid for: 0.3 to 1.2 of the reference board's power.
    """
    energy = board_j_per_flop(device, coefficients)
    return min(KERNEL_LIMIT, watts / (energy * device.peak("bf16"))) if energy else KERNEL_LIMIT


def capped_clock(device: DeviceSpec, coefficients: Coefficients, cap_w: float | None) -> float:
    """Matrix rate under a power cap over the rate at the board's own power.

    Source: module docstring. Valid for: caps above 0.3 of the board's power.
    """
    if not device.tdp_w or cap_w is None or cap_w >= device.tdp_w:
        return 1.0
    nominal = power_limit(device, coefficients, device.tdp_w)
    return max(power_limit(device, coefficients, cap_w) / nominal, LEAST_CLOCK)


def cap_of_lock(device: DeviceSpec, coefficients: Coefficients, lock: float) -> float:
    """Watts whose cap leaves the matrix rate that a locked clock allows; the board's own where it does not bind.

    A lock is a share of the highest clock, at which products reach `KERNEL_LIMIT`; a board that its power holds below
    that does not notice a lock above the clock where it settles anyway.

    Source: module docstring. Valid for: locks of 0.3 to 1; boards with a TDP.
    """
    board_w = device.tdp_w or 0.0
    allowed = min(power_limit(device, coefficients, board_w), KERNEL_LIMIT * lock)
    energy = board_j_per_flop(device, coefficients)
    return min(allowed * energy * device.peak("bf16"), board_w) if energy else board_w


def at_clock(device: DeviceSpec, coefficients: Coefficients, clock: float) -> Coefficients:
    """Coefficients of this board at `clock`, a share of its own sustained rate.

    A fraction that stands for the generation is scaled from the reference board; one of the device itself only by the
    clock. More power than the reference's raises 16-bit products alone: narrower ones have not been seen to gain.
    Attention kernels slow down only where they are faster than the limit.

    Source: module docstring. Valid for: boards whose generation has a measured energy; others only under a cap.
    """
    reference = coefficients.reference_limit
    nominal = power_limit(device, coefficients, device.tdp_w) if device.tdp_w else reference
    generation = nominal / reference if reference else 1.0
    generation = 1.0 if abs(generation - 1.0) < _SAME_BOARD else generation
    if clock == 1.0 and generation == 1.0:
        return coefficients

    def scale(key: str) -> float:
        if f"gemm_fraction.{key}" in coefficients.device_level:
            return clock
        return clock * (generation if key in ("bf16", "fp16") else min(generation, 1.0))

    def slowed(key: str, value: float) -> float:
        own = f"attention_fraction.{key}" in coefficients.device_level
        before = nominal if own or not reference else reference
        return min(value, max(value, before) * clock * nominal / before)

    gemm = {k: v * scale(k) for k, v in coefficients.gemm_fraction.items()}
    attention = {k: slowed(k, v) for k, v in coefficients.attention_fraction.items()}
    return replace(coefficients, gemm_fraction=gemm, attention_fraction=attention)


def joules_per_flop(device: DeviceSpec, coefficients: Coefficients, number_format: str) -> float:
    """Energy of one operation beyond what the board draws idle and its memory draws while products run.

    Source: `board_j_per_flop`; formats of fewer bits take as much less as their peak is higher (a product of either
    draws the same). Valid for: devices with a TDP; 0 without one.
    """
    if not device.tdp_w:
        return 0.0
    rate = device.peak("bf16") * power_limit(device, coefficients, device.tdp_w)
    memory_w = 0.3 * device.memory_bytes_per_s * HBM_J_PER_BYTE  # a large GEMM streams about a third of the bandwidth
    board_w = board_j_per_flop(device, coefficients) * rate
    dynamic = max(board_w - idle_w(device) - memory_w, 0.0) / rate
    return dynamic * min(1.0, device.peak("bf16") / device.peak(number_format))


def mean_power_w(device: DeviceSpec, coefficients: Coefficients, work: StepWork, step_time_s: float) -> float:
    """Average watts of one device over a step.

    Source: module docstring. Valid for: training steps of more than a millisecond.
    """
    joules = joules_per_flop(device, coefficients, work.flop_format) * work.flop
    joules += HBM_J_PER_BYTE * work.hbm_bytes + LINK_J_PER_BYTE * work.link_bytes
    return idle_w(device) + joules / step_time_s
