"""Charts of a search for a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windtunnel.report.plan_serving.text import cut_words, limits_words, load_words, milli

if TYPE_CHECKING:
    from windtunnel.planner.serving.plan import Deployment, ServingPlan

_CUTS = 7
"""Cuts with a colour of their own; the rest are grey."""
COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d")


def pareto(plan: ServingPlan) -> Any:
    """Tokens a second and device against tokens a second and user, of simulated deployments that keep the objective."""
    import plotly.graph_objects as go

    figure = go.Figure()
    cuts: dict[str, list[Deployment]] = {}
    for d in plan.tried:
        cuts.setdefault(_cut(d), []).append(d)
    order = sorted(cuts, key=lambda c: -max(d.values["tokens_per_s_per_device"] for d in cuts[c]))
    for i, name in enumerate(order):
        rows = cuts[name]
        figure.add_scatter(
            x=[d.values["tokens_per_s_per_user"] for d in rows],
            y=[d.values["tokens_per_s_per_device"] for d in rows],
            mode="markers",
            name=name if i < _CUTS else "others",
            legendgroup=name if i < _CUTS else "others",
            showlegend=i <= _CUTS,
            marker={
                "size": 8,
                "color": COLOURS[i] if i < _CUTS else "#9ca3af",
                "opacity": 0.8,
                "symbol": ["circle" if _sure(d, plan) else "circle-open" for d in rows],
            },
            text=[_hover(d, plan) for d in rows],
            hoverinfo="text",
        )
    front = _front(list(plan.tried))
    figure.add_scatter(
        x=[d.values["tokens_per_s_per_user"] for d in front],
        y=[d.values["tokens_per_s_per_device"] for d in front],
        mode="lines",
        name="front",
        line={"color": "#111827", "width": 1.5, "shape": "vh"},
        hoverinfo="skip",
    )
    best = plan.best
    figure.add_scatter(
        x=[best.values["tokens_per_s_per_user"]],
        y=[best.values["tokens_per_s_per_device"]],
        mode="markers",
        name="best",
        text=[_hover(best, plan)],
        hoverinfo="text",
        marker={"size": 16, "symbol": "star", "color": "#111827"},
    )
    limit = plan.slo.get("tpot_s")
    if limit:
        text = f"TPOT {milli(limit)}"
        figure.add_vline(x=1.0 / limit, line={"dash": "dot", "color": "#6b7280"}, annotation_text=text)
    figure.update_layout(
        xaxis_title="tokens/s a user (1 / median TPOT)",
        yaxis_title="tokens/s a device",
        height=460,
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        template="plotly_white",
        yaxis_rangemode="tozero",
        legend={"orientation": "h", "y": -0.2},
    )
    return figure


def _sure(d: Deployment, plan: ServingPlan) -> bool:
    """Whether it keeps the objective as surely as was asked for."""
    return d.share_upper >= plan.slo["percentile"] or not plan.upper


def _cut(d: Deployment) -> str:
    parts = [part.split(" × ")[1] for part in cut_words(d).split(" → ")]
    return f"{' → '.join(parts)}, {d.plan['device']}, {d.plan['engine']}"


def _hover(d: Deployment, plan: ServingPlan) -> str:
    lines = [cut_words(d), limits_words(d), load_words(d, plan)]
    lines += [f"TTFT {milli(d.quantiles['ttft_s'])}, TPOT {milli(d.quantiles['tpot_s'])}"]
    return "<br>".join(lines)


def _front(rows: list[Deployment]) -> list[Deployment]:
    """Those that none beats in both, by rising speed."""
    out: list[Deployment] = []
    most = -1.0
    for d in sorted(rows, key=lambda d: (-d.values["tokens_per_s_per_user"], -d.values["tokens_per_s_per_device"])):
        if d.values["tokens_per_s_per_device"] > most:
            out.append(d)
            most = d.values["tokens_per_s_per_device"]
    return out[::-1]
