"""Serving rows whose first tokens depend on the size of a cache, or that do not fit: with the reason.

`python -m windtunnel_lab.accuracy.serving_not_predicted ROWS.json > docs/generated/serving-not-predicted.md`
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from windtunnel.errors import WindtunnelError
from windtunnel.serving.engine_defaults import Instance
from windtunnel.serving.results.measured_residuals import FULL_CACHE
from windtunnel.validation.predict.serving_run import ready, run
from windtunnel.validation.rows.read_row import RowCase, read
from windtunnel.validation.rows.row_files import load_rows
from windtunnel_lab.accuracy.tables import markdown

HEAD = """# Serving rows that their own configuration limits

Rows of fixed concurrency whose simulated cache is full, so that waiting depends on its size rather than on speed,
and rows that do not fit their devices or do not say how they were laid out. Decided by the configuration alone, never
by what was measured; all are predicted where they fit, and `validate` counts them. Written by
`python -m windtunnel_lab.accuracy.serving_not_predicted ROWS.json`.
"""


def limited(rows: Iterable[dict[str, Any]], folder: Path) -> list[list[str]]:
    """(id, set, what, reason) of every such row."""
    out = []
    for row in rows:
        case = read(row)
        if case.row_kind != "serving":
            continue
        reason = case.reason or _reason(case, folder)
        if reason:
            out.append([case.id, case.family, _what(case, row), reason])
    return out


def _reason(case: RowCase, folder: Path) -> str:
    assert case.scenario is not None
    try:
        own = ready(case.scenario, folder)
        if not own.serving.traffic.concurrency:
            return ""
        served = run(own)
    except WindtunnelError as error:
        return " ".join(str(error).split())[:160]
    if served.cache_used < FULL_CACHE:
        return ""
    return f"cache full ({served.cache_used:.0%} of {_size(own.pools[-1].instance)}), {served.preemptions} preemptions"


def _size(instance: Instance) -> str:
    return f"{instance.capacity.tokens:,} tokens"


def _what(case: RowCase, row: dict[str, Any]) -> str:
    if case.scenario is None or case.scenario.serving is None:
        return f"{row.get('model')} on {row.get('hardware')}"
    serving = case.scenario.serving
    plan, traffic = serving.pools[-1].plan, serving.traffic
    axes = " ".join(f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "dp", "ep") if getattr(plan, name) > 1)
    slots = f", {traffic.concurrency} in flight" if traffic.concurrency else ""
    lengths = f"{row.get('isl')}/{row.get('osl')} tokens"
    name = getattr(case.scenario.model, "name", str(case.scenario.model))
    return f"{serving.engine} {name} on {case.device}, {axes or 'one device'}, {lengths}{slots}"


if __name__ == "__main__":
    source = Path(sys.argv[1])
    lines = limited(load_rows(source), source.parent)
    print(HEAD + "\n" + markdown(["row", "set", "run", "reason"], lines, 4))
