"""What `windtunnel explain` shows of serving: each kind of iteration with the rates and coefficients behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.quantities import seconds
from windtunnel.views.serve_words import deployment_line, limits_of, short, traffic_line
from windtunnel.views.view import Lines, Section, Table, Text, Tile, View, Words, table

if TYPE_CHECKING:
    from windtunnel.serving.explanation import Input, IterationChain, ServingExplanation

_MEANING = "An exponent of -0.6: 1 % more of the input makes the iteration 0.6 % shorter."


def view(explanation: ServingExplanation) -> View:
    """Iterations of a run."""
    result = explanation.result
    parts = tuple(
        Section(f"{one.kind}: {seconds(one.seconds)}", (_classes(one), _inputs(one)), "at the mean batch")
        for one in explanation.iterations
    )
    lead: tuple[Words, ...] = (deployment_line(result), traffic_line(result), "; ".join(limits_of(result.bound_by)))
    known = (("TTFT", result.ttft_s), ("TPOT", result.tpot_s), ("E2E", result.e2e_s))
    return View(
        title=result.scenario_name or "Serving",
        lead=tuple(line for line in lead if line),
        tiles=tuple(Tile(name, short(d.p50), (f"p99 {short(d.p99)}",), "median") for name, d in known),
        sections=(*parts, Section("", (Lines((Text(_MEANING, "dim"),)),))) if parts else (),
        warnings=result.warnings,
    )


def _classes(one: IterationChain) -> Lines:
    return Lines((", ".join(f"{name} {100 * s / one.seconds:.1f} %" for name, s in one.classes.items()),))


def _inputs(one: IterationChain) -> Table:
    rows = [
        (x.name, _value(x), f"{x.exponent:+.3f}", ", ".join(x.classes), x.grade, Text(x.source, "dim"))
        for x in one.inputs
    ]
    return table(("input", "value", "exponent", "acts on", "confidence", "source"), rows, numeric=(1, 2))


def _value(x: Input) -> str:
    error = f" ± {100 * x.relative_error:.0f} %" if x.relative_error is not None else ""
    return f"{x.value:.4g} {x.unit}".strip() + error
