"""What pages show of the simulated step over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.training.results.colours import colour
from windtunnel.training.results.packed_trace import pack
from windtunnel.views.view import Section, Timeline, View, sections

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult


def view(result: TrainingResult) -> View:
    """The timeline alone."""
    return View(title=result.scenario_name or "Training step", sections=sections(timeline(result)))


def timeline(result: TrainingResult) -> Section | None:
    """The pipeline's timeline for pages; None without a trace."""
    if result.trace is None:
        return None
    meta, data = pack(result)
    used = sorted({int(tag) for tag in result.trace.tag})
    hint = (
        "Drag pans, hover follows a micro-batch. Once clicked or focused: the wheel, + and − zoom, arrows pan, Home "
        "shows all."
    )
    if meta["chunks"] > 1:
        hint += " Lighter shades are later model chunks."
    if meta["dropped"]:
        hint += f" {meta['dropped']:,} events are not shown."
    kinds = tuple((result.trace.tags[tag], colour(result.trace.tags[tag])) for tag in used)
    block = Timeline(meta, data, kinds, len({lane[0] for lane in meta["lanes"]}))
    return Section("Pipeline timeline", (block,), hint, pages_only=True)
