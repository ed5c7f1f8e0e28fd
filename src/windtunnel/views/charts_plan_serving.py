"""Charts of a search for a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.charts.chart import Axis, Chart, Layer, layer
from windtunnel.charts.colours import INK, MUTED, PAPER
from windtunnel.charts.forms import dots, vertical
from windtunnel.views.plan_serving_labels import cut_words, limits_words, load_words, milli

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan_deployment import Deployment, ServingPlan

_CUTS = 7
"""Cuts with a colour of their own; the rest are grey."""
COLOURS = ("#1565c0", "#d97706", "#059669", "#c0392b", "#8e44ad", "#0891b2", "#d81b7a")


def pareto(plan: ServingPlan) -> Chart:
    """Tokens a second and device against tokens a second and user, of simulated deployments that keep the objective."""
    cuts: dict[str, list[Deployment]] = {}
    for d in plan.tried:
        cuts.setdefault(_cut(d), []).append(d)
    order = sorted(cuts, key=lambda c: -max(d.values["tokens_per_s_per_device"] for d in cuts[c]))
    layers: list[Layer] = []
    series: dict[str, str] = {}
    front = [{"x": x, "y": y} for x, y in map(_place, _front(list(plan.tried)))]
    layers.append(layer("line", front, {"order": {"value": 0}}, interpolate="step-before", color=INK, strokeWidth=1.5))
    for i, cut in enumerate(order):
        name, colour = (cut, COLOURS[i]) if i < _CUTS else ("others", "#9ca3af")
        series[name] = colour
        for sure in (True, False):
            rows = [d for d in cuts[cut] if _sure(d, plan) is sure]
            x, y = [_place(d)[0] for d in rows], [_place(d)[1] for d in rows]
            looks: dict[str, Any] = {"filled": sure, "size": 60, "opacity": 0.85, "strokeWidth": 1.5}
            layers.append(dots(x, y, [_hover(d, plan) for d in rows], series=name, **looks))
    at_x, at_y = _place(plan.best)
    looks = {"shape": "diamond", "size": 230, "stroke": PAPER, "strokeWidth": 1.5}
    layers.append(dots([at_x], [at_y], [f"best: {_hover(plan.best, plan)}"], colour=INK, **looks))
    layers.append(layer("text", [{"x": at_x, "y": at_y, "text": "best"}], dy=-15, fontWeight=600))
    limit = plan.slo.get("tpot_s")
    if limit:
        layers += vertical(1.0 / limit, f"TPOT {milli(limit)}", colour=MUTED)
    return Chart(
        title="Throughput of a device against speed for a user",
        layers=tuple(layers),
        x=Axis(title="tokens/s a user (1 / median TPOT)"),
        y=Axis(title="tokens/s a device"),
        series=series,
        height=360,
    )


def _place(d: Deployment) -> tuple[float, float]:
    """Tokens a second of a user and of a device."""
    return float(d.values["tokens_per_s_per_user"]), float(d.values["tokens_per_s_per_device"])


def _sure(d: Deployment, plan: ServingPlan) -> bool:
    """Whether it keeps the objective as surely as was asked for."""
    return d.share_upper >= plan.slo["percentile"] or not plan.upper


def _cut(d: Deployment) -> str:
    parts = [part.split(" × ")[1] for part in cut_words(d).split(" → ")]
    return f"{' → '.join(parts)}, {d.plan['device']}, {d.plan['engine']}"


def _hover(d: Deployment, plan: ServingPlan) -> str:
    lines = [cut_words(d), limits_words(d), load_words(d, plan)]
    lines += [f"TTFT {milli(d.quantiles['ttft_s'])}, TPOT {milli(d.quantiles['tpot_s'])}"]
    return "\n".join(lines)


def _front(rows: list[Deployment]) -> list[Deployment]:
    """Those that none beats in both, by rising speed."""
    out: list[Deployment] = []
    most = -1.0
    for d in sorted(rows, key=lambda d: (-d.values["tokens_per_s_per_user"], -d.values["tokens_per_s_per_device"])):
        if d.values["tokens_per_s_per_device"] > most:
            out.append(d)
            most = d.values["tokens_per_s_per_device"]
    return out[::-1]
