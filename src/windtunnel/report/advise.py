"""Advice on the terminal: what bounds the scenario, then what to change, what it gains and what moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.report.compare import signed_gib
from windtunnel.report.quantities import count, gib, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from windtunnel.advice import Advice, Suggestion

SHOWN = 10
"""Suggestions of a kind that are listed unless all are asked for."""
_GROUPS = (
    ("settings", "Settings first: no technique needed"),
    ("suggestions", "Techniques"),
    ("pairs", "Two together, where that beats the better one"),
)


def figure_text(advice: Advice, value: float) -> str:
    """A value of the objective with its unit."""
    name = advice.objective.figure
    if name.endswith("_bytes"):
        return gib(value)
    if name == "step_time_s" or "_s." in name:
        return seconds(value)
    return f"{value:,.4g} J" if name.endswith("_j") else count(value) if value >= 1000 else f"{value:,.4g}"


def gain_text(one: Suggestion) -> str:
    """Gain with its band."""
    if not one.level:
        return f"{100 * one.gain:+.1f} %"
    return f"{100 * one.gain:+.1f} %  ({100 * one.low:+.0f} to {100 * one.high:+.0f})"


def moved_text(one: Suggestion) -> str:
    """What is otherwise, from before to after."""
    return ", ".join(f"{name} {_amount(name, a)} → {_amount(name, b)}" for name, a, b in one.moved[:3])


def _amount(name: str, value: float) -> str:
    if name.endswith(", s"):
        return seconds(value)
    if name == "prefix hits":
        return percent(value)
    return count(value) if name in ("output tokens/s", "preemptions", "devices") else seconds(value)


def head_lines(advice: Advice) -> list[str]:
    """What is, before what could be."""
    lines = [f"{advice.scenario_name}: {advice.objective.title} {figure_text(advice, advice.value)}"]
    if not advice.fits:
        lines[0] += ", but it does not fit in memory: what makes it fit, or comes closest, is first"
    if advice.shares:
        shown = [f"{name} {percent(share)}" for name, share in advice.shares.items() if share >= 0.01][:6]
        lines.append(f"time goes to {', '.join(shown)}")
    elif advice.bottleneck:
        lines.append(f"bound by {advice.bottleneck}")
    worth = sorted((v, n) for n, v in advice.sensitivities.items() if v < -5e-4)[:3]
    if worth:
        gains = ", ".join(f"{name} {100 * value:+.1f} %" for value, name in worth)
        lines.append(f"bound by {advice.bottleneck}; step time with 10 % more of a resource: {gains}")
    return lines


def notes(one: Suggestion) -> list[str]:
    """What a reader should know before switching it on."""
    out = [one.summary] if one.summary else []
    if one.where:
        out.append("in " + "; ".join(f"{name}: {option}" for name, option in one.where.items()))
    if one.quality:
        out.append(f"quality: {one.quality}")
    if one.missing:
        out.append(f"not modelled: {one.missing}")
    if one.conflicts:
        out.append(f"not together with {', '.join(one.conflicts)}")
    if not one.fits:
        out.append("does not fit in memory")
    return out


def summary(advice: Advice, *, everything: bool = False) -> RenderableType:
    """The advice as something `rich` prints."""
    from rich.console import Group
    from rich.text import Text

    head, *rest = head_lines(advice)
    parts: list[RenderableType] = [Text(head, style="bold"), *map(Text, rest)]
    for name, title in _GROUPS:
        found = getattr(advice, name)
        if not found:
            continue
        listed = found if everything else found[: SHOWN if name != "pairs" else 5]
        parts += [Text(f"\n{title}", style="bold"), _table(advice, listed), *_notes(listed)]
        if len(listed) < len(found):
            parts.append(Text(f"{len(found) - len(listed)} more: --all", style="dim"))
    if not (advice.suggestions or advice.settings or advice.pairs):
        parts.append(Text("\nnothing that was tried gains here"))
    elif any(not s.told_apart for s in (*advice.suggestions, *advice.settings, *advice.pairs)):
        parts.append(Text(
            "\n· gains whose band holds 0 cannot be told from none; bands are of measured pairs of plans, a technique "
            "counts as a setting", style="dim",
        ))  # fmt: skip
    if advice.lost:
        words = ", ".join(f"{name} ({why})" for name, why in advice.lost.items())
        parts.append(Text.assemble(("\nno gain here: ", "bold"), words))
    if advice.refused:
        words = "; ".join(f"{name}: {why}" for name, why in advice.refused.items())
        parts.append(Text.assemble(("could not be tried: ", "bold"), words))
    if everything and advice.unfit:
        words = "; ".join(f"{name}: {why}" for name, why in advice.unfit.items())
        parts.append(Text.assemble(("does not apply: ", "bold"), words))
    elif advice.unfit:
        parts.append(Text(f"{len(advice.unfit)} techniques do not apply here: --all says why", style="dim"))
    return Group(*parts)


def _table(advice: Advice, listed: Sequence[Suggestion]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("change", overflow="fold", ratio=3)
    table.add_column(advice.objective.title, justify="right", no_wrap=True)
    level = next((s.level for s in listed if s.level), 0.0)
    table.add_column(f"gain ({100 * level:.0f} % band)" if level else "gain", justify="right", no_wrap=True)
    memory = any(s.memory_change_bytes is not None for s in listed)
    if memory:
        table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("what moves", overflow="fold", ratio=4)
    for at, one in enumerate(listed, 1):
        change = one.memory_change_bytes
        cells = [str(at), one.words, figure_text(advice, one.value), gain_text(one)]
        cells += ([signed_gib(change) if change is not None else ""]) if memory else []
        table.add_row(*cells, moved_text(one))
    return table


def _notes(listed: Sequence[Suggestion]) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    return [
        Padding(Text(f"{at}: {'. '.join(said)}", style="dim"), (0, 0, 0, 2))
        for at, one in enumerate(listed, 1)
        if (said := notes(one))
    ]
