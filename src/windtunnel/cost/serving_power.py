"""Watts of a device that serves: which kernels run for what share of the time, and what they ask of the board.

    demand = idle + span · (f · (awake · (1 − w) + kernel · k + attention · a) + matrix · √(f · m)) + 31 pJ · bytes/s
    watts = min((demand^−q + board^−q)^(−1/q), cap),  span = board − idle

`k` and `a` are shares of time in kernels over weights and prompts and in decode attention, `m` the share of the time
that the products would take at peak. The root: the first rows of a tile wake the whole matrix unit, further rows fill
it. `w` is the share of the time in which nothing is on the device because its host is not ready: at light load a third
of an iteration. A board holds its mean below its power; iterations are unlike, so the mean bends before it gets there.
`f` is the clock over the one that the board runs without a cap: what switches with the clock costs in proportion to it
(the voltage hardly moves, see `cost.clock`), bytes from memory do not.

Source: docs/serving/overview.md, "Power, energy, money"; coefficients in `catalog/coefficients/serving/power.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from math import sqrt
from typing import Any

from windtunnel.cost.clock import HBM_J_PER_BYTE, LEAST_CLOCK, idle_w
from windtunnel.cost.serving import ServingCoefficients
from windtunnel.specs.device import DeviceSpec

_FILE = "catalog/coefficients/serving/power.yaml"
BEND = 8.0
"""Exponent `q` of the limit: demand at the limit gives 92 % of it. Assumed; 4 to 8 fit alike."""
_HALVINGS = 30
FITTED = ("awake", "kernel", "attention", "matrix")


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCoefficients:
    """Shares of (board power − idle). See the module docstring."""

    awake: float
    """An iteration on the device, whatever runs in it: clocks up, schedulers and collectives spinning."""
    kernel: float
    """Kernels over weights and prompts all the time, beyond the energy of the bytes they move."""
    attention: float
    """Decode attention all the time, beyond the energy of the bytes it reads."""
    matrix: float
    """Products at peak."""
    spread: float
    """Standard deviation of log(predicted / measured) watts of models that no coefficient has seen, times given."""
    energy_spread: float
    """Standard deviation of log(predicted / measured) joules per token of such models, times predicted."""
    grade: str
    level: str
    """default, a generation or a device."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one device does over a stretch of time. Shares of the time; bytes a second."""

    kernel: float
    attention: float
    matrix: float
    hbm_bytes_per_s: float
    waits: float = 0.0
    """Share of the time that the device waits for its host."""


@cache
def _levels() -> dict[str, dict[str, Any]]:
    import yaml

    path = resources.files("windtunnel") / _FILE
    return dict(yaml.safe_load(path.read_text())["coefficients"])


@cache
def _resolved(device_id: str, generation: str) -> PowerCoefficients:
    values: dict[str, float] = {}
    grade, at = "assumed", "default"
    for level in ("default", generation, device_id):
        for name, entry in (_levels().get(level) or {}).items():
            values[name] = float(entry["value"])
            if name in FITTED:
                grade, at = str(entry["grade"]), level
    return PowerCoefficients(**values, grade=grade, level=at)


def power_coefficients(device: DeviceSpec) -> PowerCoefficients:
    """Coefficients of a device: its own, its generation's, or the default's.

    Source: `catalog/coefficients/serving/power.yaml`. Valid for: accelerators with a board power.
    """
    return _resolved(device.id, device.generation)


def limit_w(device: DeviceSpec, cap_w: float | None) -> float:
    """Watts that the board may draw: its power of the data sheet, or a cap below it; 0 where neither is known.

    Source: data sheets. Valid for: caps that the board accepts.
    """
    board = device.tdp_w or 0.0
    return min(board, cap_w) if cap_w else board


def demand_w(device: DeviceSpec, coefficients: PowerCoefficients, use: Use, clock: float = 1.0) -> float:
    """Watts that a device would draw without a limit.

    Source: module docstring. Valid for: devices with a board power; 0 without one. Error: see `spread`.
    """
    if not device.tdp_w:
        return 0.0
    idle, c = idle_w(device), coefficients
    running = c.awake * (1.0 - use.waits) + c.kernel * use.kernel + c.attention * use.attention
    share = clock * running + c.matrix * sqrt(clock * use.matrix)
    return idle + (device.tdp_w - idle) * share + HBM_J_PER_BYTE * use.hbm_bytes_per_s


def watts(
    device: DeviceSpec, coefficients: PowerCoefficients, use: Use, cap_w: float | None = None, clock: float = 1.0
) -> float:
    """Mean watts of a device while it serves, never above its limit.

    Source: module docstring. Valid for: stretches of more than a second (what power meters of boards average over).
    """
    demand, board = demand_w(device, coefficients, use, clock), device.tdp_w or 0.0
    if demand <= 0.0 or board <= 0.0:
        return 0.0
    low, high = min(demand, board), max(demand, board)
    bent = low * (1.0 + (low / high) ** BEND) ** (-1.0 / BEND)
    return min(float(bent), limit_w(device, cap_w))


def held_clock(device: DeviceSpec, coefficients: PowerCoefficients, use: Use) -> float:
    """Clock at which a device draws what its board lets it, over the clock that the same use would run at without.

    The mean of a board bends before its limit: for a part of the time the demand is above it and the clock gives way.

    Source: module docstring; the clock is the one at which demand is what is drawn. Valid for: devices with a board
    power; 1 without one. Error: on eight H100 products run 1.00, 0.97 and 0.94 as fast where all-reduces between them
    are left out (1,024, 2,048 and 8,192 tokens of Llama-3.3-70B; github.com/microsoft/tokenweave, artifacts_results,
    figures 2, 7 and 11); this gives 0.96 to 0.97 in all three.
    """
    drawn = watts(device, coefficients, use)
    if drawn <= 0.0:
        return 1.0
    low, high = LEAST_CLOCK, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if demand_w(device, coefficients, use, middle) < drawn else (low, middle)
    return 0.5 * (low + high)


def slowed(coefficients: ServingCoefficients, clock: float) -> ServingCoefficients:
    """How an engine uses a device whose matrix units run at `clock` of their own rate; memory and links keep theirs.

    Source: `cost.clock`: under a cap the rate of products follows the clock. Valid for: clocks of 0.3 to 1.
    """
    if clock == 1.0:
        return coefficients
    return replace(
        coefficients,
        matrix_fraction={k: v * clock for k, v in coefficients.matrix_fraction.items()},
        prefill_attention_fraction=coefficients.prefill_attention_fraction * clock,
        scan_fraction=coefficients.scan_fraction * clock,
    )
