"""Where each coefficient of a serving engine on a device comes from: value, confidence, standard error, rows, prior."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from windtunnel.cost.coefficient_files import coefficient_file
from windtunnel.cost.provenance import Provenance
from windtunnel.cost.serving import ServingCoefficients, prior_of, release_of, serving_coefficients
from windtunnel.specs.device import DeviceSpec

_GRADES = {"pooled": "analytic"}
"""Fitted to rows of other sets: an estimate for these."""


def serving_provenance(
    engine: str, version: str, device: DeviceSpec, *, streamed: bool = True
) -> dict[str, Provenance]:
    """Every coefficient that is not zero by dotted name, found the way `serving_coefficients` finds its value.

    Args:
        engine: as in `serving.engine`.
        version: as in `serving.engine_version`.
        device: whose coefficients are asked for.
        streamed: whether answers are streamed.

    Source: the coefficient files of the catalogue, each entry with its own.
    Valid for: engines, releases and devices that `serving_coefficients` answers.
    """
    base = serving_coefficients(engine, version, device, streamed=streamed)
    prior = prior_of(release_of(engine, version), device.generation)
    said = _said(release_of(engine, version), device)
    out = {}
    for name, value in flat(base).items():
        if not value:
            continue
        entry = said.get(name) or said.get(name.partition(".")[0]) or {}
        grade = base.grades.get(name.partition(".")[0], "assumed")
        started = flat(prior).get(name)
        out[name] = Provenance(
            name=name,
            value=value,
            grade=_GRADES.get(grade, grade),
            relative_error=entry.get("relative_error"),
            source=entry.get("source", "default of the model"),
            prior=None if started == value else started,
            level=entry.get("level", "default"),
        )
    return out


def flat(c: ServingCoefficients) -> dict[str, float]:
    """Coefficients by dotted name: `host_s`, `matrix_fraction.bf16`.

    Source: the fields of `ServingCoefficients`.
    Valid for: every set of them.
    """
    out: dict[str, float] = {}
    for f in fields(ServingCoefficients):
        value = getattr(c, f.name)
        if f.name == "grades":
            continue
        out |= {f"{f.name}.{k}": float(v) for k, v in value.items()} if isinstance(value, dict) else {f.name: value}
    return out


def _said(release: str, device: DeviceSpec) -> dict[str, dict[str, Any]]:
    """Coefficient → source, level and relative error of the last entry that set it."""
    chain, name = [], release
    while name:
        data = coefficient_file(f"serving/{name}")
        chain.append((name, data))
        name = data.get("inherits") or ("generic" if name != "generic" else "")
    out: dict[str, dict[str, Any]] = {}
    for level in ("default", device.generation, device.id):
        for file, data in reversed(chain):
            for key, entry in ((data.get("coefficients") or {}).get(level) or {}).items():
                stated = entry if isinstance(entry, dict) and "value" in entry else {"value": entry}
                source = stated.get("source") or f"starting value of {file} servers (serving/{file}.yaml, {level})"
                values = stated["value"]
                names = [f"{key}.{part}" for part in values] if isinstance(values, dict) else [key]
                out |= {one: {"source": source, "level": level} for one in names}
    fitted = coefficient_file(f"serving/fitted/{release}").get("coefficients") or {}
    level = device.generation if device.generation in fitted else "default"
    for key, entry in (fitted.get(level) or {}).items():
        for part in entry["value"] if isinstance(entry["value"], dict) else [""]:
            error = entry.get("relative_error")
            out[f"{key}.{part}" if part else key] = {
                "source": _rows(entry), "level": level, "relative_error": error[part] if part and error else error,
            }  # fmt: skip
    if device.profile is not None:
        out |= {
            name: {"source": e.source or "profile", "level": "profile", "relative_error": e.relative_error}
            for name, e in device.profile.serving.items()
        }
    return out


def _rows(entry: dict[str, Any]) -> str:
    rows = entry.get("rows")
    return f"{rows:,} rows of {entry.get('source', '')}" if isinstance(rows, int) else str(entry.get("source", ""))
