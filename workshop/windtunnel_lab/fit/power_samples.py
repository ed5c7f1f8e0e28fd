"""Measured power rows with what a device does in them: what shares of the board's power are fitted to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.cost.serving_power import PowerCoefficients, Use, watts
from windtunnel.serving.results.power import phases
from windtunnel.specs.device import DeviceSpec
from windtunnel.validation.predict.power import Served, itl_of, served, steady
from windtunnel.validation.rows.parsing.loose_values import number
from windtunnel.validation.rows.parsing.power import PowerCase, is_power_row, read_power


@dataclass(frozen=True, slots=True)
class Run:
    """What a device does in a full batch's mean iteration, and how fast tokens come."""

    uses: tuple[tuple[float, Use], ...]
    """(share of the time, use)."""
    seconds_per_token: float
    """Seconds between tokens of the whole instance, all sequences together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row: runs at the time between tokens that it gives and at our own, and what was measured."""

    model: str
    """Its architecture."""
    name: str
    """The row's own: formats and releases of one architecture differ."""
    device: DeviceSpec
    devices: int
    given: Run
    own: Run
    watts: float
    """Measured, of one device."""
    joules: float
    """Measured, per token; NaN where it is not stated."""
    active_parameters: float
    batch: float
    itl_s: float

    def predicted(self, c: PowerCoefficients, run: Run | None = None) -> float:
        """Watts of one device."""
        return sum(share * watts(self.device, c, use) for share, use in (run or self.given).uses)


def samples(rows: Sequence[dict[str, Any]]) -> list[Sample]:
    """Rows that can be read and state power and time between tokens."""
    out = []
    for row in rows:
        case = read_power(row) if is_power_row(row) else ""
        measured, itl = number(row.get("avg_power_W_reported")), itl_of(row)
        if isinstance(case, str) or not measured or not itl:
            continue
        x = served(case)
        gpus = case.plan.num_devices
        out.append(
            Sample(
                model=case.model.name,
                name=str(row["model"]),
                device=x.cluster.device,
                devices=gpus,
                given=_run(case, x, itl),
                own=_run(case, x, None),
                watts=measured / gpus,
                joules=number(row.get("energy_per_token_J")) or math.nan,
                active_parameters=1e9 * (number(row.get("active_b")) or math.nan),
                batch=case.batch,
                itl_s=itl,
            )
        )
    return out


def _run(case: PowerCase, x: Served, itl_s: float | None) -> Run:
    totals = steady(case, x.iteration, itl_s)
    parts = [p for p in phases(totals, x.iteration) if p.iterations]
    whole = float(totals["busy_s"][0])
    uses = tuple((p.iterations * p.seconds / whole, p.use(x.work, x.iteration, x.cluster.device)) for p in parts)
    return Run(uses, whole / float(totals["decode_tokens"][0]))
