"""Where each coefficient of a (software, device) pair comes from: value, confidence, standard error, rows, prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from windtunnel.cost.coefficients import Coefficients, grade_of, resolve
from windtunnel.cost.sites import Where, applied_sections, where_of
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec

GRADES = ("measured", "fitted", "analytic", "assumed")
"""From the firmest to the weakest."""
_WIDTH = {"measured": 0.03, "fitted": 0.05, "analytic": 0.15, "assumed": 0.3}
"""Relative width by grade where no fit states one: a new device or release moves a fitted fraction by 5 to 16 %."""
_CONSTANTS = ("attention_backward", "attention_ramp", "optimizer_fraction")
"""Ratios and shapes that differ little between kernels; their fits and those of the fractions go together."""
_KERNELS = ("gemm_k0", "gemm_tile_c", "gemm_wave", "gemm_bytes_fraction", "unaligned_fraction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """One coefficient and what set it."""

    name: str
    """Dotted for entries of a table: `gemm_fraction.bf16`."""
    value: float
    grade: str
    relative_error: float | None
    """One standard error over the value, None where no fit states it."""
    source: str
    prior: float | None
    level: str
    """default, a generation or a device."""

    @property
    def width(self) -> float:
        """Relative standard error, or what is usual for the confidence."""
        if self.relative_error is not None:
            return self.relative_error
        if self.name in _CONSTANTS:
            return 0.1
        return 0.5 if self.name.endswith("_s") and self.grade != "fitted" else _WIDTH[self.grade]


def _entries(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, entry in section.items():
        if isinstance(entry, dict) and "value" not in entry:
            yield from _entries(entry, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", entry


def _defaults() -> Iterator[Provenance]:
    plain = Coefficients()
    for f in fields(Coefficients):
        value = getattr(plain, f.name)
        if f.name in ("grades", "pooled") or not isinstance(value, (dict, float)):
            continue
        fitted = f.name in _KERNELS
        source = "1,953 measured matrix products" if fitted else "default of the model"
        grade = "fitted" if fitted else "assumed"
        for key, one in value.items() if isinstance(value, dict) else [("", value)]:
            name = f"{f.name}.{key}" if key else f.name
            yield Provenance(
                name=name,
                value=float(one),
                grade=grade,
                relative_error=None,
                source=source,
                prior=None,
                level="default",
            )


@cache
def _provenance(framework: str, device_id: str, generation: str, kind: str, where: Where) -> dict[str, Provenance]:
    found = {entry.name: entry for entry in _defaults()}
    for applied in applied_sections(framework, (kind, generation, device_id), where):
        for name, entry in _entries(applied.entries):
            record = entry if isinstance(entry, dict) else {"value": entry}
            error, prior = None if applied.inherited else record.get("relative_error"), record.get("prior")
            found[name] = Provenance(
                name=name,
                value=float(record["value"]),
                grade=grade_of(str(record.get("grade", "analytic")), applied),
                relative_error=None if error is None else float(error),
                source=str(record.get("source") or f"{applied.file} ({applied.level}), starting value").strip(),
                prior=None if prior is None else float(prior),
                level=applied.level,
            )
    base = resolve(framework, device_id, generation, kind, where=where)
    for name in base.pooled:  # a pair without rows: scaled as measured software is
        key, _, part = name.partition(".")
        value = getattr(base, key)[part] if part else getattr(base, key)
        source = "value without a fit, scaled as the fits of like software are (fitted/pooled.yaml)"
        found[name] = Provenance(
            name=name,
            value=float(value),
            grade="analytic",
            relative_error=None,
            source=source,
            prior=found[name].value,
            level="pooled",
        )
    return found


def provenance(framework: str, device: DeviceSpec, cluster: ClusterSpec | None = None) -> dict[str, Provenance]:
    """Every coefficient of a framework on a device by dotted name, found the way `coefficients` finds its value."""
    found = _provenance(framework, device.id, device.generation, device.kind, where_of(framework, cluster))
    if device.profile is None:
        return found
    own = {
        name: Provenance(
            name=name,
            value=e.value,
            grade=e.grade,
            relative_error=e.relative_error,
            source=e.source or "profile",
            prior=None,
            level="profile",
        )
        for name, e in device.profile.coefficients.items()
    }
    return {**found, **own}


def weakest(grades: list[str]) -> str:
    """The confidence of a number that was made from others."""
    return max(grades, key=GRADES.index, default="analytic")
