"""Several pools side by side, for the terminal and the HTML report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from rich.table import Table

from windtunnel.quantities import dollars, percent
from windtunnel.report.html_shell import card
from windtunnel.report.serving.text import short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.results.serving_result import ServingResult

NAMES = (
    "pool",
    "devices",
    "cut",
    "busy",
    "running",
    "queue time p50",
    "p99",
    "cache at most",
    "tokens/s",
    "W/device",
    "cost",
)


def plan_words(pool: dict[str, Any]) -> str:
    """Replicas and axes: `3 × tp 4`."""
    axes = " ".join(f"{axis} {size}" for axis, size in pool["plan"].items())
    return f"{pool['instances']} × {axes}"


def rows(result: ServingResult) -> list[tuple[str, ...]]:
    """Return one row for each pool, with the columns `NAMES`; tokens are those that the pool prefilled or decoded."""
    out: list[tuple[str, ...]] = []
    for p in result.pools:
        tokens = p["prompt_tokens_per_s"] + p["decode_tokens_per_s"]
        watts, cost = p["power"].get("mean_w_per_device"), p["cost_per_million_output_tokens"]
        out.append(
            (
                p["name"],
                f"{p['num_devices']} {p['device']}",
                plan_words(p),
                percent(p["busy_share"]),
                f"{p['running_mean']:,.1f}",
                short(p["queue_s"]["p50"]),
                short(p["queue_s"]["p99"]),
                percent(p["kv_cache_usage_max"]),
                f"{tokens:,.0f}",
                "–" if watts is None else f"{watts:,.0f}",
                "–" if cost is None else dollars(cost),
            )
        )
    return out


def transfer_text(result: ServingResult) -> str:
    """What moving caches took; empty where none moved."""
    t = result.transfer
    if not t:
        return ""
    wait, move = t["waiting_for_blocks_s"], t["moving_s"]
    return (
        f"{t['requests']:,} KV caches moved: {short(wait['p50'])} until the decode instance had blocks, "
        f"{short(move['p50'])} to move (p99 {short(wait['p99'])} and {short(move['p99'])})"
    )


def table(result: ServingResult) -> RenderableType:
    """For the terminal."""
    out = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    left = {"pool", "devices", "cut"}
    for name in NAMES:
        if name != "cut":
            out.add_column(name, justify="left" if name in left else "right", style="bold" if name == "pool" else "")
    for row in rows(result):
        out.add_row(*(cell for name, cell in zip(NAMES, row, strict=True) if name != "cut"))
    return out


def html(result: ServingResult) -> str:
    """A card; empty with one pool."""
    if not result.pools:
        return ""
    head = "".join(f'<th class="n">{name}</th>' if i > 2 else f"<th>{name}</th>" for i, name in enumerate(NAMES))
    body = "".join(
        "<tr>"
        + "".join(f'<td class="n">{escape(c)}</td>' if i > 2 else f"<td>{escape(c)}</td>" for i, c in enumerate(row))
        + "</tr>"
        for row in rows(result)
    )
    moved = transfer_text(result)
    note = f'<p class="sub">{escape(moved)}.</p>' if moved else ""
    content = f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>{note}'
    return card("Pools", "cost per million output tokens of all pools; they add up", content)
