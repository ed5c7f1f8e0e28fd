"""Terminal tables of an explanation: the chain, its operators, and what accounts for a gap."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.quantities import count, percent, seconds
from windtunnel.report.training.explain import Explanation

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from windtunnel.report.training.trace_gap import TraceComparison
    from windtunnel.training.explain.time_chain import Chain, OperatorLine, Term

_SMALL = 5e-4
"""Share of the step below which a term is not worth a line in the overview."""
_MOST = 40
_FACTOR = 5.0
"""A class that would have to be off by more is no explanation."""
_CAUSES = 5
NO_CHAIN = "--class and --term need the scenario: this result was made by another version"
_NARROW = 110
"""Columns below which the product of a term goes below its name."""


def explanation_summary(
    explanation: Explanation, *, time_class: str | None = None, term: str | None = None
) -> RenderableType:
    """The explanation as something `rich` prints.

    Args:
        explanation: what to show.
        time_class: only this class of time, with its operators.
        term: only terms whose name holds this text, every factor with its source.

    Raises:
        BadInput: no such class or term.
    """
    from rich.console import Group

    if time_class is not None or term is not None:
        if explanation.chain is None:
            raise BadInput(NO_CHAIN)
        if term is not None:
            return Group(*_terms(explanation.chain, find_terms(explanation.chain, term, time_class)))
        return Group(*_one_class(explanation.chain, find_class(explanation.chain, time_class or "")))
    parts: list[Any] = [_title(explanation.result.scenario_name or "training step")]
    lines = _table("", "…", header=False)
    for line in explanation.statements:
        lines.add_row("•", line)
    parts.append(_indented(lines))
    if explanation.trace is not None:
        parts += _trace(explanation.trace, explanation.chain)
    if explanation.against_s is not None:
        parts += _gap(explanation)
    elif explanation.chain is not None:
        parts += _chain(explanation.chain)
    return Group(*parts)


def find_class(chain: Chain, name: str) -> str:
    """The class of time that a name stands for.

    Raises:
        BadInput: none; the nearest is named.
    """
    wanted = name.strip().lower().replace("_", " ").replace("-", " ")
    known = {key.lower(): key for key in chain.exposed}
    for given in (wanted, f"exposed {wanted}"):
        if given in known:
            return known[given]
    nearest = difflib.get_close_matches(wanted, [*known, *(k.removeprefix("exposed ") for k in known)], 1, 0.5)
    hint = f" (did you mean {nearest[0]}?)" if nearest else ""
    raise BadInput(f"--class = {name}: must be one of {', '.join(chain.exposed)}{hint}")


def find_terms(chain: Chain, name: str, time_class: str | None = None) -> list[Term]:
    """Terms whose name, class or coefficients hold a text.

    Raises:
        BadInput: none does.
    """
    wanted = name.strip().lower()
    inside = None if time_class is None else find_class(chain, time_class)
    found = [
        t
        for t in chain.terms
        if wanted
        and (inside is None or t.time_class == inside)
        and (wanted in t.name.lower() or any(wanted in c.name.lower() for c in t.coefficients))
    ]
    if not found:
        names = dict.fromkeys(t.name for t in chain.terms)
        raise BadInput(f"--term = {name}: must be part of one of {', '.join(names)}")
    return found


def _title(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="bold")


def _indented(item: Any) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(item) if isinstance(item, str) else item, (0, 0, 0, 2))


def _table(*heads: str, header: bool = True) -> Table:
    """Columns; a head that ends with `>` is right-aligned, with `…` may wrap."""
    from rich.table import Table

    table = Table(box=None, show_header=header, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in heads:
        right, wraps = head.endswith(">"), head.endswith("…")
        table.add_column(head.rstrip(">…"), justify="right" if right else "left", no_wrap=not wraps)
    return table


def rate_text(value: float, unit: str) -> str:
    """A rate with the prefix that suits: `989.4 TFLOP/s`, `3.35 TB/s`, `166,667 launches/s`."""
    per = unit if unit.endswith("/s") else f"{unit}/s"
    if per in ("FLOP/s", "B/s"):
        for limit, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
            if value >= limit * (10 if prefix == "P" else 1):
                return f"{value / limit:.4g} {prefix}{per}"
        return f"{value:.4g} {per}"
    return f"{count(value)} {per}"


def work_text(value: float, unit: str) -> str:
    """An amount of work: `7.14 PFLOP`, `1.51 TB`, `38,784 starts`."""
    if unit in ("FLOP", "B"):
        for limit, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= limit:
                return f"{value / limit:.3g} {prefix}{unit}"
    return f"{count(value)} {unit}"


def _plain(value: float, name: str) -> str:
    return seconds(value) if name.endswith("_s") else f"{value:.3g}"


def factors(term: Term) -> str:
    """Work over sheet rate, coefficients and rest: `7.14 PFLOP / (989.4 × 0.649 × 0.961) TFLOP/s`."""
    numbers = [_plain(c.value, c.name) for c in term.coefficients]
    if abs(term.rest - 1) > 5e-4:
        numbers.append(f"{term.rest:.3g}")
    work = work_text(term.work, term.unit)
    if term.sheet is None:
        return " × ".join([work, *numbers])
    value, _, unit = rate_text(term.sheet.value, term.sheet.unit).rpartition(" ")
    return f"{work} / ({' × '.join([value, *numbers])}) {unit}" if numbers else f"{work} / {value} {unit}"


# -- the chain ---------------------------------------------------------------------------------------------------------
class _TermTable:
    """Terms as one line each, or on narrow terminals with the product below the name."""

    def __init__(self, rows: Sequence[tuple[str, Term | None, str, str, str, str]]) -> None:
        self.rows = rows
        """(name, term or None for a class, busy, exposed, share, grade)."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        narrow = options.max_width < _NARROW
        head = "work / (sheet × coefficients × rest)"
        table = (
            _table("…", "busy>", "exposed>", "share>")
            if narrow
            else _table("", f"{head}…", "busy>", "exposed>", "share>", "grade")
        )
        for name, term, busy, exposed, share, grade in self.rows:
            title = Text(name) if term else Text(name, style="bold")
            product = factors(term) if term else ""
            if not narrow:
                table.add_row(title, Text(product, style="dim"), busy, exposed, share, grade)
                continue
            if term:
                title.append(f"\n    {product}, {grade}", style="dim")
            table.add_row(title, busy, exposed, share)
        yield table


def _term_row(term: Term, step_s: float) -> tuple[str, Term | None, str, str, str, str]:
    share = percent(term.exposed_s / step_s)
    return f"  {term.name}", term, seconds(term.busy_s), seconds(term.exposed_s), share, term.grade


def _chain(chain: Chain) -> list[RenderableType]:
    from rich.text import Text

    rows: list[tuple[str, Term | None, str, str, str, str]] = []
    for name, exposed in chain.exposed.items():
        terms = chain.by_class.get(name, [])
        busy = chain.busy_s(name)
        if exposed < _SMALL * chain.step_time_s and busy < 0.01 * chain.step_time_s:
            continue
        share = percent(exposed / chain.step_time_s)
        rows.append((name, None, seconds(busy) if terms else "", seconds(exposed), share, "" if terms else "analytic"))
        rows += [_term_row(t, chain.step_time_s) for t in terms if t.busy_s > _SMALL * chain.step_time_s]
    rows.append(("step", None, "", seconds(sum(chain.exposed.values())), "100.0 %", ""))
    note = Text(
        "busy = work / achieved, and achieved = data sheet × coefficients × rest (tiles, ramps, message starts). "
        "exposed is the part on the critical path, slowdown by concurrent work included. --class NAME lists operators, "
        "--term NAME shows the sources.",
        style="dim",
    )
    return [_title("\nFrom data sheet to seconds"), _indented(_TermTable(rows)), _indented(note)]


def _terms(chain: Chain, terms: Sequence[Term]) -> list[RenderableType]:
    """Each term as a product, then the source of every factor once."""
    from rich.text import Text

    parts: list[RenderableType] = []
    sources: dict[str, tuple[str, str, str, str]] = {}
    for term in terms:
        parts.append(_title(f"{term.time_class} / {term.name}"))
        table = _table("", ">", "", "…", header=False)
        sheet = term.sheet
        if sheet:
            value = rate_text(sheet.value, sheet.unit)
            table.add_row(sheet.name, value, sheet.grade, "")
            sources[sheet.name] = (sheet.name, value, sheet.grade, sheet.source)
        for c in term.coefficients:
            error = "" if c.relative_error is None else f" ± {percent(c.relative_error)}"
            prior = "" if c.prior is None else f"; prior {c.prior:g}"
            level = f"; {c.level}" if c.level else ""
            value = _plain(c.value, c.name) + error
            table.add_row(f"{'× ' if sheet else ''}{c.name}", value, c.grade, "")
            sources[f"{c.name} {value}"] = (c.name, value, c.grade, f"{c.source}{prior}{level}")
        if abs(term.rest - 1) > 5e-4:
            table.add_row(f"× {term.rest_name or 'several effects'}", f"{term.rest:.4g}", "analytic", term.note)
        if sheet:
            table.add_row("= achieved", rate_text(term.rate, term.unit), term.grade, f"{count(term.count)} launches")
        table.add_row("work", work_text(term.work, term.unit), "analytic", "")
        table.add_row("busy", seconds(term.busy_s), "", "")
        share = percent(term.exposed_s / chain.step_time_s)
        table.add_row("exposed", seconds(term.exposed_s), "", f"{share} of the step")
        parts.append(_indented(table))
    table = _table("", ">", "", "…", header=False)
    for name, value, grade, source in sources.values():
        table.add_row(name, value, grade, Text(source, style="dim"))
    parts += [_title("Where the factors come from"), _indented(table)]
    return parts


def _one_class(chain: Chain, name: str) -> list[RenderableType]:
    from rich.text import Text

    exposed, busy = chain.exposed[name], chain.busy_s(name)
    head = f"{name}: exposed {seconds(exposed)}, {percent(exposed / chain.step_time_s)} of the step"
    parts: list[RenderableType] = [_title(head + (f"; busy {seconds(busy)}" if busy else ""))]
    terms = chain.by_class.get(name, [])
    if not terms:
        parts.append(_indented("Follows from the simulated schedule; no operator of its own."))
        return parts
    parts.append(_indented(_TermTable([_term_row(term, chain.step_time_s) for term in terms])))
    lines = [o for o in chain.operators if o.time_class == name]
    if lines:
        each = _Operators(lines[:_MOST])
        parts += [_title("\nOperators of the stage that finishes last"), _indented(each)]
        if len(lines) > _MOST:
            parts.append(_indented(Text(f"and {len(lines) - _MOST} smaller ones (--json has all)", style="dim")))
    return parts


_PHASES = {"F": "forward", "D": "data grad", "W": "weight grad", "R": "recompute", "B": "backward"}
_SHORT = {"F": "fwd", "D": "dgrad", "W": "wgrad", "R": "recomp", "B": "bwd"}


def shape_text(line: OperatorLine, *, narrow: bool = False) -> str:
    """`8192·28672·8192 bf16` for products, with the groups behind; `narrow` leaves the format out."""
    if line.kind in ("gemm", "grouped gemm") and line.shape:
        m, n, k, groups = line.shape
        text = f"{m:g}·{n:g}·{k:g}" if max(m, n, k) < 1e6 else "·".join(f"{x:.0f}" for x in (m, n, k))
        return text + ("" if narrow else f" {line.number_format}") + (f" × {groups:g}" if groups != 1 else "")
    if line.kind == "attention" and line.shape:
        pairs, heads, d_qk, _ = line.shape
        return f"{heads:g} heads of {d_qk:g}" + ("" if narrow else f", {count(pairs)} pairs")
    return line.kind.replace("_", "-") if line.kind not in ("memory_bound", "softmax") else ""


class _Operators:
    """One line an operator; narrow terminals lose the columns that follow from others."""

    def __init__(self, lines: Sequence[OperatorLine]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.max_width < _NARROW
        heads = ["operator", "pass", "shape", "count>", "each>", "busy>", "exposed>", "rate>", "limit"]
        kept = [i for i, head in enumerate(heads) if not (narrow and head in ("each>", "exposed>", "count>"))]
        table = _table(*(heads[i] for i in kept))
        phases = _SHORT if narrow else _PHASES
        for line in self.lines:
            row = (
                line.name,
                phases.get(line.phase, line.phase),
                shape_text(line, narrow=narrow),
                count(line.count),
                seconds(line.each_s),
                seconds(line.busy_s),
                seconds(line.exposed_s),
                _rate(line),
                line.limit,
            )
            table.add_row(*(row[i] for i in kept))
        yield table


def _rate(line: OperatorLine) -> str:
    if line.flop and line.limit != "memory":
        return rate_text(line.flop / line.each_s, "FLOP")
    return rate_text(line.moved_bytes / line.each_s, "B") if line.moved_bytes else ""


# -- a gap -------------------------------------------------------------------------------------------------------------
def _gap(explanation: Explanation) -> list[RenderableType]:
    from rich.text import Text

    gap = explanation.gap_s or 0.0
    parts: list[RenderableType] = []
    if explanation.causes:
        table = _table(">", "…", header=False)
        for cause in explanation.causes[:_CAUSES]:
            table.add_row(percent(cause.probability, 0), cause.sentence)
        parts += [_title("\nLikely causes, one difference at a time"), _indented(table)]
    settings = [c for c in explanation.candidates if c.kind == "assumption"]
    numbers = [c for c in explanation.candidates if c.kind == "coefficient"]
    if settings:
        table = _table("open setting", "predicted with", "alternative", "step>", "of the gap>", "…")
        for c in settings[:8]:
            table.add_row(c.name, c.value, c.alternative, seconds(c.step_time_s), _share(c.change_s, gap), c.note)
        parts += [_title("\nSettings that the scenario leaves open, simulated one by one"), _indented(table)]
    if numbers:
        table = _table("coefficient", "value>", "at>", "σ>", "step>", "of the gap>", "grade")
        for c in numbers[:6]:
            value, other = (_plain(float(x), c.name) for x in (c.value, c.alternative))
            share = _share(c.change_s, gap)
            table.add_row(c.name, value, other, f"{c.sigmas:+.1f}", seconds(c.step_time_s), share, c.grade)
        parts += [_title("\nCoefficients, moved by at most two standard errors"), _indented(table)]
        together = math.sqrt(sum(u.step_change_s**2 for u in explanation.uncertain))
        share = percent(together / explanation.result.step_time_s)
        parts.append(
            _indented(Text(f"all coefficients together: ± {share} of the step, one standard error", style="dim"))
        )
    if explanation.chain is not None and not explanation.candidates:
        parts.append(
            _indented("\nNo setting left open and no coefficient within its error moves the step in that direction.")
        )
    classes = [c for c in explanation.classes if 1 / _FACTOR <= c.factor <= _FACTOR]
    if classes and explanation.trace is None:
        table = _table("class of time", "predicted>", "±>", "needed>", "factor>")
        for one in classes[:8]:
            error = seconds(one.error_s) if one.error_s else ""
            table.add_row(one.time_class, seconds(one.predicted_s), error, seconds(one.needed_s), f"× {one.factor:.2f}")
        parts += [_title("\nWhat would account for the gap by itself"), _indented(table)]
    if explanation.resources and explanation.trace is None:
        table = _table("", "", header=False)
        for name, change in explanation.resources.items():
            table.add_row(name, f"{percent(abs(change))} {'less' if change < 0 else 'more'} than assumed")
        parts += [_title("\nResources that would account for the gap, to first order"), _indented(table)]
    if explanation.assumptions and explanation.chain is None:
        table = _table("", "", "…", header=False)
        for row in explanation.assumptions:
            table.add_row(*row)
        parts += [_title("\nAssumptions to check first"), _indented(table)]
    return parts


def _share(part: float, gap: float) -> str:
    """Share of the gap without decimals; nothing where there is no gap."""
    return f"{round(100 * part / gap):d} %" if gap else ""


def _trace(comparison: TraceComparison, chain: Chain | None) -> list[RenderableType]:
    from rich.text import Text

    trace = comparison.trace
    predicted = chain.step_time_s if chain is not None else sum(r.predicted_s for r in comparison.rows)
    gap = trace.step_time_s - predicted
    table = _table("kernels", "predicted>", "measured>", "difference>", "of the gap>", "what it would take…")
    for row in comparison.rows:
        if max(abs(row.predicted_s), row.measured_s) < _SMALL * trace.step_time_s:
            continue
        name = f"{row.kernel}, waiting" if row.kernel == "send-receive" else row.kernel
        sign = "+" if row.difference_s >= 0 else "−"
        table.add_row(
            name,
            seconds(row.predicted_s),
            seconds(row.measured_s),
            f"{sign}{seconds(abs(row.difference_s))}",
            _share(row.difference_s, gap) if abs(gap) > 1e-3 * predicted else "",
            Text(row.reason, style="dim"),
        )
    table.add_row(
        Text("step", style="bold"),
        seconds(predicted),
        seconds(trace.step_time_s),
        f"{'+' if gap >= 0 else '−'}{seconds(abs(gap))}",
        "",
        "",
    )
    low, high = min(trace.steps_s), max(trace.steps_s)
    rank = "" if trace.rank is None else f" of rank {trace.rank}"
    about = f"{len(trace.steps_s)} steps{rank}, {seconds(low)} to {seconds(high)}; the one of median length is shown"
    parts = [_title("\nAgainst the trace, exposed time by kind of kernel"), _indented(table)]
    for line in (f"{about}. {count(trace.num_kernels)} kernels and copies.", *trace.notes, *comparison.hints):
        parts.append(_indented(Text(line, style="dim")))
    if comparison.better:
        better = _table("open setting", "predicted with", "alternative", "closer to the trace>", "")
        for candidate, share in comparison.better[:5]:
            better.add_row(candidate.name, candidate.value, candidate.alternative, percent(share, 0), candidate.note)
        parts += [_title("\nSettings that bring the classes closer"), _indented(better)]
    return parts
