"""Residuals of measured memory peaks: `python -m windtunnel_lab.fit.memory_residuals ROWS`.

Writes `catalog/residuals/memory.json`, from which `training.memory_interval` computes its intervals, and prints how
often the intervals hold and how wide they are. No coefficient is set by a memory peak, so a residual is one of an
unseen row.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import windtunnel
from windtunnel.errors import BadInput
from windtunnel.training.uncertainty import memory_interval
from windtunnel.training.uncertainty.comparable_runs import signature
from windtunnel.training.uncertainty.memory_interval import MemoryResidual

_TARGET = Path(windtunnel.__file__).parent / "catalog/residuals/memory.json"
_COLUMNS = ("software", "device", "metric", "signature", "family", "error")


def measured(rows: Iterable[dict[str, Any]]) -> list[MemoryResidual]:
    """Every measured peak that can be predicted."""
    from windtunnel.training.predict import prepare
    from windtunnel.training.predict import simulate_training as simulate
    from windtunnel.validation.rows.read_row import read

    out: list[MemoryResidual] = []
    for row in rows:
        case = read(row)
        targets = [t for t in case.metrics if t.metric.startswith("peak_memory")]
        if case.scenario is None or not targets:
            continue
        try:
            result = simulate(case.scenario, sensitivities=False)
            prepared, _ = prepare(case.scenario)
        except BadInput:
            continue
        for target in targets:
            error = target.convert(result) / target.measured - 1.0
            out.append(
                MemoryResidual(
                    prepared.training.framework,
                    case.device,
                    target.metric.removeprefix("peak_memory_"),
                    signature(prepared.model, prepared.cluster),
                    str(row.get("family")),
                    round(error, 4),
                )
            )
    return out


def table(found: Sequence[MemoryResidual]) -> dict[str, Any]:
    """The file's content, sorted so that it is reproducible."""
    return {"columns": list(_COLUMNS), "rows": sorted([[getattr(r, c) for c in _COLUMNS] for r in found], key=str)}


def main(arguments: Sequence[str]) -> None:
    """Predict, write, report."""
    rows = json.loads(Path(arguments[0]).read_text("utf-8"))
    found = measured(rows)
    lines = ",\n".join(json.dumps(row) for row in table(found)["rows"])
    _TARGET.write_text(f'{{"columns": {json.dumps(_COLUMNS)}, "rows": [\n{lines}\n]}}\n')
    memory_interval.residuals.cache_clear()
    for metric, (count, share, width) in memory_interval.coverage().items():
        print(f"{metric}: {count} peaks, {100 * share:.0f} % inside the 80 % band, mean width {100 * width:.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
