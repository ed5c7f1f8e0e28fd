"""A fitted failure profile as a file, on the terminal and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.calibration.text import table
from windtunnel.errors import comment
from windtunnel.files.writing import write_text
from windtunnel.quantities import duration, seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.calibration.incidents_fit import Estimate, FittedCause, IncidentFit

_SHOWN = 40


def write_profile(found: IncidentFit, out: Path) -> None:
    """Write the profile as YAML, for `run.failures: FILE`."""
    import yaml

    fields = found.profile.model_dump(mode="json", exclude_defaults=True)
    causes = fields.pop("causes")
    lines = [comment(f"Fitted by windtunnel calibrate --from incidents. {line}") for line in found.notes[:1]]
    lines += map(comment, found.notes[1:])
    lines.append(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000).rstrip())
    lines.append("causes:")
    for row in causes:
        flat = yaml.safe_dump(row, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10_000)
        lines.append(f"  - {flat.strip()}")
    write_text(out, "\n".join(lines) + "\n", "--out")


def incidents_dict(found: IncidentFit) -> dict[str, Any]:
    """Plain data for `--json`."""
    return {
        "file": found.log.name,
        "columns": found.log.columns,
        "incidents": found.log.total,
        "nodes": found.nodes,
        "days": found.days,
        "causes": [asdict(c) | {"assumed": c.what.why, "detect_assumed": c.detect_s is None} for c in found.causes],
        "repair_s": None if found.repair_s is None else asdict(found.repair_s),
        "weibull_shape": None if found.shape is None else asdict(found.shape) | {"kept": found.kept_shape},
        "node_variation": None if found.variation is None else asdict(found.variation) | {"kept": found.kept_variation},
        "notes": list(found.notes),
        "profile": found.profile.model_dump(mode="json", exclude_defaults=True),
    }


def incidents_summary(found: IncidentFit) -> RenderableType:
    """Causes with their rates and times, and what the log says of nodes."""
    from rich.console import Group
    from rich.text import Text

    rows = table("cause", "count", "rate", "80 % interval", "of", "takes down (assumed)", "detection")
    for cause in found.causes[:_SHOWN]:
        rows.add_row(*_cells(cause, found.nodes is not None))
    parts: list[RenderableType] = [Text(found.profile.source, style="bold"), rows]
    if len(found.causes) > _SHOWN:
        parts.append(Text(f"and {len(found.causes) - _SHOWN} more (--json has all)", style="dim"))
    if found.repair_s is not None:
        e = found.repair_s
        text = (
            f"repair of a node {duration(e.value)} (80 %: {duration(e.low)} to {duration(e.high)}), repairs: {e.count}"
        )
        parts.append(Text(text))
    parts += [Text(line) for line in _of_nodes(found)]
    parts += [Text(f"! {note}", style="yellow") for note in found.notes]
    return Group(*parts)


def _cells(cause: FittedCause, by_node: bool) -> tuple[str, ...]:
    over = {"node": "1,000 nodes a day", "rack": "1,000 racks a day", "job": "the job a day"}
    rate = cause.rate
    detect = "assumed " + seconds(cause.what.detect_s) if cause.detect_s is None else seconds(cause.detect_s.value)
    return (
        cause.name,
        f"{rate.count:,}",
        f"{rate.value:.4g}",
        f"{rate.low:.3g} to {rate.high:.3g}",
        over[cause.what.per if by_node else "job"],
        cause.what.radius + (", silent" if cause.what.silent else ", saves first" if cause.what.drains else ""),
        detect,
    )


def _of_nodes(found: IncidentFit) -> list[str]:
    """Lines on gaps and on differences between nodes."""

    def said(e: Estimate) -> str:
        return f"{e.value:.2f} ({e.low:.2f} to {e.high:.2f}) from {e.count} failures of named nodes"

    out = []
    if found.shape is not None:
        kept = "" if found.kept_shape else "; not distinguishable from 1: exponential"
        out.append(f"Weibull shape of a node's gaps {said(found.shape)}{kept}")
    if found.variation is not None:
        kept = "" if found.kept_variation else "; not distinguishable from 0: all nodes alike"
        out.append(f"variation of rates between nodes {said(found.variation)}{kept}")
    return out
