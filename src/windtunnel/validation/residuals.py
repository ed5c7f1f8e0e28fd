"""From out-of-fold residuals to bands: per class of rows, the spread that covers 80 % of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np


def bands(residuals: list[dict[str, Any]], level: float = 0.8) -> dict[str, dict[str, Any]]:
    """Class → {low, high, n, families, median_abs}: relative error quantiles (predicted/measured − 1).

    Classes go from (software, device, dense or mixture) to everything; small classes are widened by the finite-sample
    quantile (n + 1) level.
    """
    from windtunnel import catalog

    classes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for r in residuals:
        kind = "moe" if r["moe"] else "dense"
        try:
            generation = catalog.device(r["device"]).generation
        except Exception:  # a device the catalogue does not know still counts in the widest class
            generation = "unknown"
        for key in (
            f"{r['software']}|{r['device']}|{kind}", f"{r['software']}|{generation}|{kind}", f"*|{generation}|{kind}", f"*|*|{kind}"
        ):  # fmt: skip
            classes[key].append(r)
    out = {}
    for key, members in classes.items():
        n = len(members)
        if n < 5 and not key.startswith("*|*"):
            continue
        e = np.expm1([m["log_residual"] for m in members])
        share = min(1.0, level * (n + 1) / n)
        out[key] = {
            "low": round(float(np.quantile(e, (1 - share) / 2)), 5), "high": round(float(np.quantile(e, (1 + share) / 2)), 5), "n": n,
            "families": ", ".join(sorted({m["family"] for m in members})), "median_abs": round(float(np.median(np.abs(e))), 5),
        }  # fmt: skip
    return out
