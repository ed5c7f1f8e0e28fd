"""Power and clock: one clock per device and step, the fastest whose mean power stays under the cap.

`P(f) = P0 + (E_flop·FLOP·f² + E_hbm·bytes + E_link·bytes) / T(f)`: work on the SMs slows with 1/f and costs f² per
operation (voltage follows frequency); memory and links keep their rate and their energy.

Sources: 31 pJ per HBM byte (3.9 pJ/bit, O'Connor et al. 2017, MICRO, fine-grained DRAM, table 1), 10 pJ per NVLink
byte (1.3 pJ/bit, NVIDIA NVLink-C2C and NVLink 4 briefs, as of 2022); energy per operation from the data sheet: at the
sustained matrix rate the device draws its TDP (assumed). Valid for: caps between about half of the TDP and the TDP.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.device import DeviceSpec

HBM_J_PER_BYTE = 31e-12
LINK_J_PER_BYTE = 10e-12
IDLE_SHARE = 0.12
"""Idle watts over TDP where the sheet gives none (75–140 W of 700–1000 W on H100 and B200)."""


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


def joules_per_flop(device: DeviceSpec, coefficients: Coefficients, number_format: str) -> float:
    """Energy of one operation at the nominal clock, so that sustained matrix work draws the TDP.

    Source: data sheet (module docstring). Valid for: devices with a TDP; 0 without one.
    """
    if not device.tdp_w:
        return 0.0
    key = "bf16" if number_format in ("fp32", "tf32", "fp16", "bf16") else number_format
    fraction = coefficients.gemm_fraction.get(key, coefficients.gemm_fraction["bf16"])
    memory_w = 0.3 * device.memory_bytes_per_s * HBM_J_PER_BYTE  # a large GEMM streams about a third of the bandwidth
    return max(device.tdp_w - idle_w(device) - memory_w, 0.0) / (device.peak(number_format) * fraction)


def mean_power_w(
    device: DeviceSpec, coefficients: Coefficients, work: StepWork, step_time_s: float, clock: float = 1.0
) -> float:
    """Average watts of one device over a step at clock `clock` (1 = nominal).

    Source: module docstring. Valid for: training steps of more than a millisecond.
    """
    per = joules_per_flop(device, coefficients, work.flop_format) * clock * clock
    joules = per * work.flop + HBM_J_PER_BYTE * work.hbm_bytes + LINK_J_PER_BYTE * work.link_bytes
    return idle_w(device) + joules / step_time_s
