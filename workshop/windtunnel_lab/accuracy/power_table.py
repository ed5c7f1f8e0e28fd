"""Errors of serving power by generation, from the residuals that ship (`catalog/residuals/serving_power.json`)."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from windtunnel_lab.accuracy.tables import markdown

_FILE = "catalog/residuals/serving_power.json"


def power_errors() -> list[dict[str, Any]]:
    """One entry a (generation, way, measure); errors in percent, every model left out of its own fit."""
    path = resources.files("windtunnel") / _FILE
    data: list[dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.is_file() else []
    return data


def power_table() -> str:
    """Markdown, our form first, then constants and other tools' forms."""
    lines = [
        [
            x["generation"],
            x["way"],
            x["measure"],
            x["left_out"],
            f"{x['rows']} ({x['models']})",
            f"{x['mean']:.1f}",
            f"{x['median']:.1f}",
            f"{x['p90']:.1f}",
            f"{x['bias']:.1f}",
            "–" if x["in_band"] is None else f"{x['in_band']:.0f}",
        ]
        for x in sorted(power_errors(), key=lambda x: (x["measure"], x["generation"], x["way"] != "this form"))
    ]
    header = ["generation", "way", "measure", "left out", "rows (groups)", "mean", "median", "p90", "bias", "in band"]
    return markdown(header, lines, 4)
