"""A device profile: what `cluster.device` reads, with every measured number graded and its conditions next to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from windtunnel import catalog
from windtunnel.calibration.fit import Fitted, Point, fit
from windtunnel.calibration.store import Measurement, Store
from windtunnel.errors import BadInput
from windtunnel.files.writing import write_text
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.device import DeviceSpec, LinkSpec, Profile

NOISY = 0.15
"""Median distance of quartiles over the median from which on a machine counts as noisy."""
UNKNOWN = 0.5
"""Relative standard error above which the measurements do not tell a coefficient."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What came of a calibration."""

    device: DeviceSpec
    link: LinkSpec | None
    """Between the ranks, where there are several."""
    ranks: int
    points: tuple[Point, ...]
    noise: float
    """Median over cases."""
    warnings: tuple[str, ...]

    def errors(self) -> dict[str, float]:
        """Kind of work → median distance of the model from the measurement."""
        kinds = dict.fromkeys(p.kind for p in self.points)
        return {
            kind: float(np.median([abs(p.model_s / p.measured_s - 1.0) for p in self.points if p.kind == kind]))
            for kind in kinds
        }

    def with_profile(self, profile: Profile) -> Calibration:
        """This calibration with another profile for its device."""
        return replace(self, device=self.device.model_copy(update={"profile": profile}))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "device": self.device.model_dump(mode="json", exclude_none=True),
            "link": self.link.model_dump(mode="json") if self.link else None,
            "ranks": self.ranks,
            "errors": self.errors(),
            "noise": self.noise,
            "warnings": list(self.warnings),
            "points": [asdict(p) for p in self.points],
        }


def _best(found: list[Measurement], number_format: str) -> float:
    rates = [
        2.0 * m.case.shape["m"] * m.case.shape["n"] * m.case.shape["k"] / m.median_s
        for m in found
        if m.case.shape["format"] == number_format
    ]
    return max(rates, default=0.0)


def device_of(store: Store, sheet: DeviceSpec | None, facts: dict[str, Any]) -> DeviceSpec:
    """The device that the fits refer to: a data sheet where the catalogue has one, else the best that was measured.

    Args:
        store: measurements.
        sheet: of a known accelerator.
        facts: of the machine: id, name, memory_bytes, cache_bytes, units.

    Raises:
        BadInput: nothing was measured that says how fast a CPU is.
    """
    if sheet is not None:
        return sheet
    products, streams = store.of("gemm"), store.of("pointwise")
    if not products or not streams:
        raise BadInput("no products or no additions were measured: run again with more --seconds")
    formats = dict.fromkeys(str(m.case.shape["format"]) for m in products)
    peaks = {f: _best(products, f) for f in formats}
    cache = float(facts["cache_bytes"])
    far = [m for m in streams if m.case.shape["bytes"] >= 4 * cache] or streams
    rate = max(m.case.shape["bytes"] / m.median_s for m in far)
    return DeviceSpec.model_validate(
        {
            "id": facts["id"],
            "name": facts["name"],
            "vendor": "generic",
            "kind": "cpu",
            "generation": "cpu",
            "peak_flop_per_s": peaks,
            "memory_bytes": facts["memory_bytes"],
            "memory_bytes_per_s": rate,
            "l2_bytes": cache,
            "num_sms": facts["units"],
            "gemm_tiles": [[32, 32]],
            "sources": {"peak_flop_per_s": "best measured product", "memory_bytes_per_s": "best measured addition"},
            "notes": "Peaks are the best that was measured, so that fractions are of what the machine does at best.",
        }
    )


def calibrated(store: Store, sheet: DeviceSpec | None, facts: dict[str, Any], ranks: int) -> Calibration:
    """Fit everything that was measured."""
    device = device_of(store, sheet, facts)
    link = _link(store, device) if ranks > 1 else None
    cluster = None
    if link is not None:
        out = ScaleOut(nics_per_node=1, nic_bytes_per_s=link.bytes_per_s, family="ethernet")
        cluster = ClusterSpec(
            name="this machine",
            device=device,
            nodes=1,
            devices_per_node=ranks,
            scale_up=link,
            scale_out=out,
            scale_up_domain=ranks,
        )
    fitted = fit(store, device, cluster)
    noise = float(np.median([m.noise for m in store.found.values()])) if store.found else 0.0
    if device.kind == "cpu":
        fitted = _host_in_line(fitted)
    told = {"noise": round(noise, 4)}
    return _calibration(store, device, fitted, link, ranks, noise, told, _warnings(noise, fitted))


def from_tables(store: Store, device: DeviceSpec, cluster: ClusterSpec | None, warnings: list[str]) -> Calibration:
    """Fit what others measured on a device of the catalogue: seconds without their scatter."""
    fitted = fit(store, device, cluster)
    return _calibration(store, device, fitted, None, 1, 0.0, {}, [*warnings, *_warnings(0.0, fitted)])


def _calibration(
    store: Store,
    device: DeviceSpec,
    fitted: Fitted,
    link: LinkSpec | None,
    ranks: int,
    noise: float,
    told: dict[str, Any],
    warnings: list[str],
) -> Calibration:
    profile = Profile(
        coefficients=fitted.coefficients,
        network=fitted.network,
        serving=fitted.serving,
        conditions={**store.conditions, **told, "cases": len(store.found)},
    )
    measured = device.model_copy(update={"profile": profile})
    return Calibration(measured, link, ranks, tuple(fitted.points), noise, tuple(warnings))


def _host_in_line(fitted: Fitted) -> Fitted:
    """A CPU dispatches and computes on the same cores: host time adds to device time instead of hiding behind it."""
    from windtunnel.specs.device import MeasuredValue

    source = "the host is the device"
    one = MeasuredValue(value=1.0, relative_error=0.0, source=source)
    none = MeasuredValue(value=0.0, relative_error=0.0, source=source)
    fitted.coefficients.update(
        host_power=one,
        host_drained_power=one,
        collective_skew_s=none,
        step_overhead_s=none,
    )
    return fitted


def _warnings(noise: float, fitted: Fitted) -> list[str]:
    out = []
    if noise > NOISY:
        out.append(
            f"the machine was noisy: quartiles of a case lie {noise:.0%} of its median apart (usual: below "
            f"{NOISY:.0%}); close other programs and calibrate again"
        )
    every = fitted.coefficients | fitted.network
    if unknown := [n for n, e in every.items() if e.relative_error is not None and e.relative_error > UNKNOWN]:
        out.append(
            f"the measured cases do not tell {', '.join(unknown)} (standard errors above half the value): "
            "more --seconds, or fewer other programs"
        )
    return out


def _link(store: Store, device: DeviceSpec) -> LinkSpec | None:
    """Between the ranks: a GPU's own link; of processes of a CPU, loopback at the best rate of any collective.

    None where no collective was measured.
    """
    rates = [m.case.shape["bytes"] / m.median_s for m in (*store.of("collective"), *store.of("p2p"))]
    if not rates:
        return None
    if device.kind != "cpu":
        return catalog.link(device.scale_up or "pcie4")
    return LinkSpec(
        id="gloo",
        name="processes of one host",
        bytes_per_s=max(rates),
        latency_s=0.0,
        topology="host",
        family="gloo",
        sources={"bytes_per_s": "best measured collective"},
    )


def write(found: Calibration, path: Path) -> None:
    """The profile as a file that `cluster.device` accepts; what it says of the cluster is filled in as well."""
    cluster = None
    if found.link is not None:
        cluster = {
            "scale_up": found.link.model_dump(mode="json", exclude_defaults=True),
            "devices_per_node": found.ranks,
            "nodes": 1,
            "host_memory_bytes": found.device.memory_bytes * found.ranks,
        }
    write_device(found.device, path, cluster)


def write_device(device: DeviceSpec, path: Path, cluster: dict[str, Any] | None = None) -> None:
    """A device with its profile, and what goes with it in `cluster`, as a file that `cluster.device` accepts.

    Raises:
        BadInput: the file cannot be written.
    """
    data = {"id": device.id, **device.model_dump(mode="json", exclude_none=True, exclude_defaults=True)}
    for table in ("coefficients", "network", "serving"):  # the grade of every number, also where it is the usual one
        for name, entry in (data.get("profile") or {}).get(table, {}).items():
            data["profile"][table][name] = {"value": entry["value"], "grade": entry.get("grade", "measured"), **entry}
    if cluster is not None:
        data["cluster"] = cluster
    text = yaml.safe_dump(data, sort_keys=False, width=118, default_flow_style=None, allow_unicode=True)
    head = f"# Device profile by `windtunnel calibrate`; in a scenario: cluster.device: {path.name}\n"
    write_text(path, head + text, "--out")
