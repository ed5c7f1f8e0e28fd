"""Out-of-fold residuals as data: what `training.interval` computes its bands from."""

from __future__ import annotations

from typing import Any


def table(residuals: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the residual file, one entry per predicted row, sorted so that the file is reproducible.

    `error` is predicted / measured − 1 of a row whose (model, cluster) group took no part in the fit.
    """
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    names = ("software", "device", "generation", "moe", "signature", "family", "error")
    rows = []
    for r in residuals:
        try:
            generation = catalog.device(r["device"]).generation
        except BadInput:  # a device the catalogue does not know still counts in the widest class
            generation = "unknown"
        rows.append(
            [r["software"], r["device"], generation, r["moe"], r["signature"], r["family"], round(r["error"], 5)]
        )
    rows.sort(key=str)
    return {"columns": list(names), "rows": rows}
