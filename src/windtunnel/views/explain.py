"""What `windtunnel explain` shows of a step: the chain from data sheet to second, and what a gap comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.errors import BadInput
from windtunnel.quantities import count, percent, seconds, signed_seconds
from windtunnel.training.explain.find_terms import NO_CHAIN, find_class, find_terms
from windtunnel.views.view import Column, Lines, Section, Table, Text, View, Words, columns, dim, pairs, sections, table

if TYPE_CHECKING:
    from windtunnel.training.explain.time_chain import Chain, OperatorLine, Term
    from windtunnel.training.explain.trace_gap import TraceComparison
    from windtunnel.training.explanation import Explanation

_SMALL = 5e-4
"""Share of the step below which a term is not worth a line in the overview."""
_MOST = 40
_FACTOR = 5.0
"""A class that would have to be off by more is no explanation."""
_CAUSES = 5
_PHASES = {"F": "forward", "D": "data grad", "W": "weight grad", "R": "recompute", "B": "backward"}
_CHAIN = (
    "busy = work / achieved, and achieved = data sheet × coefficients × rest (tiles, ramps, message starts). exposed "
    "is the part on the critical path, slowdown by concurrent work included. --class NAME lists operators, --term NAME "
    "shows the sources."
)


def view(explanation: Explanation, *, time_class: str | None = None, term: str | None = None) -> View:
    """The explanation of a step.

    Args:
        explanation: what to show.
        time_class: only this class of time, with its operators.
        term: only terms whose name holds this text, every factor with its source.

    Raises:
        BadInput: no such class or term.
    """
    chain, title = explanation.chain, explanation.result.scenario_name or "Training step"
    if time_class is not None or term is not None:
        if chain is None:
            raise BadInput(NO_CHAIN)
        if term is not None:
            return View(title=title, sections=_terms(chain, find_terms(chain, term, time_class)))
        return View(title=title, sections=_one_class(chain, find_class(chain, time_class or "")))
    gap = explanation.against_s is not None
    return View(
        title=title,
        sections=(
            Section("", (Lines(explanation.statements, marked=True),)),
            *(_trace(explanation.trace, chain) if explanation.trace is not None else ()),
            *(_gap(explanation) if gap else ()),
            *((_chain(chain),) if chain is not None and not gap else ()),
        ),
    )


def rate_text(value: float, unit: str) -> str:
    """A rate with the prefix that suits.

    Example:
        >>> rate_text(989.4e12, "FLOP"), rate_text(3.35e12, "B"), rate_text(166667.0, "launches")
        ('989.4 TFLOP/s', '3.35 TB/s', '166,667 launches/s')
    """
    per = unit if unit.endswith("/s") else f"{unit}/s"
    if per in ("FLOP/s", "B/s"):
        for limit, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
            if value >= limit * (10 if prefix == "P" else 1):
                return f"{value / limit:.4g} {prefix}{per}"
        return f"{value:.4g} {per}"
    return f"{count(value)} {per}"


def work_text(value: float, unit: str) -> str:
    """An amount of work.

    Example:
        >>> work_text(7.14e15, "FLOP"), work_text(38784.0, "starts")
        ('7.14 PFLOP', '38,784 starts')
    """
    if unit in ("FLOP", "B"):
        for limit, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= limit:
                return f"{value / limit:.3g} {prefix}{unit}"
    return f"{count(value)} {unit}"


def _value(value: float, name: str) -> str:
    return seconds(value) if name.endswith("_s") else f"{value:.3g}"


def factors(term: Term) -> str:
    """Work over sheet rate, coefficients and rest: `7.14 PFLOP / (989.4 × 0.649 × 0.961) TFLOP/s`."""
    numbers = [_value(c.value, c.name) for c in term.coefficients]
    if abs(term.rest - 1) > _SMALL:
        numbers.append(f"{term.rest:.3g}")
    work = work_text(term.work, term.unit)
    if term.sheet is None:
        return " × ".join([work, *numbers])
    value, _, unit = rate_text(term.sheet.value, term.sheet.unit).rpartition(" ")
    return f"{work} / ({' × '.join([value, *numbers])}) {unit}" if numbers else f"{work} / {value} {unit}"


# -- the chain ---------------------------------------------------------------------------------------------------------
_TERMS = columns(
    "", "work / (sheet × coefficients × rest)", "busy", "exposed", "share", "confidence", numeric=(2, 3, 4), drop=(5,)
)


def _term_row(term: Term, step_s: float) -> tuple[Words, ...]:
    share = percent(term.exposed_s / step_s)
    product = Text(factors(term), "dim")
    return f"  {term.name}", product, seconds(term.busy_s), seconds(term.exposed_s), share, term.grade


def _chain(chain: Chain) -> Section:
    rows: list[tuple[Words, ...]] = []
    for name, exposed in chain.exposed.items():
        terms, busy = chain.by_class.get(name, []), chain.busy_s(name)
        if exposed < _SMALL * chain.step_time_s and busy < 0.01 * chain.step_time_s:
            continue
        share, grade = percent(exposed / chain.step_time_s), "" if terms else "analytic"
        rows.append((Text(name, strong=True), "", seconds(busy) if terms else "", seconds(exposed), share, grade))
        rows += [_term_row(t, chain.step_time_s) for t in terms if t.busy_s > _SMALL * chain.step_time_s]
    rows.append((Text("step", strong=True), "", "", seconds(sum(chain.exposed.values())), "100.0 %", ""))
    return Section("From data sheet to seconds", (Table(_TERMS, tuple(rows)), dim(_CHAIN)))


def _terms(chain: Chain, terms: Sequence[Term]) -> tuple[Section, ...]:
    """Each term as a product, then the source of every factor once."""
    parts = []
    sources: dict[str, tuple[Words, ...]] = {}
    form = (Column(), Column(numeric=True), Column(), Column())
    for term in terms:
        rows: list[tuple[Words, ...]] = []
        if sheet := term.sheet:
            value = rate_text(sheet.value, sheet.unit)
            rows.append((sheet.name, value, sheet.grade, ""))
            sources[sheet.name] = (sheet.name, value, sheet.grade, Text(sheet.source, "dim"))
        for c in term.coefficients:
            error = "" if c.relative_error is None else f" ± {percent(c.relative_error)}"
            prior = "" if c.prior is None else f"; prior {c.prior:g}"
            level = f"; {c.level}" if c.level else ""
            value = _value(c.value, c.name) + error
            rows.append((f"{'× ' if sheet else ''}{c.name}", value, c.grade, ""))
            sources[f"{c.name} {value}"] = (c.name, value, c.grade, Text(f"{c.source}{prior}{level}", "dim"))
        if abs(term.rest - 1) > _SMALL:
            rows.append((f"× {term.rest_name or 'several effects'}", f"{term.rest:.4g}", "analytic", term.note))
        if sheet:
            rows.append(("= achieved", rate_text(term.rate, term.unit), term.grade, f"{count(term.count)} launches"))
        rows.append(("work", work_text(term.work, term.unit), "analytic", ""))
        rows.append(("busy", seconds(term.busy_s), "", ""))
        share = percent(term.exposed_s / chain.step_time_s)
        rows.append(("exposed", seconds(term.exposed_s), "", f"{share} of the step"))
        parts.append(Section(f"{term.time_class} / {term.name}", (Table(form, tuple(rows)),)))
    return (*parts, Section("Where the factors come from", (Table(form, tuple(sources.values())),)))


def _one_class(chain: Chain, name: str) -> tuple[Section, ...]:
    exposed, busy = chain.exposed[name], chain.busy_s(name)
    head = f"exposed {seconds(exposed)}, {percent(exposed / chain.step_time_s)} of the step"
    hint = head + (f"; busy {seconds(busy)}" if busy else "")
    terms = chain.by_class.get(name, [])
    if not terms:
        return (Section(name, (Lines(("Follows from the simulated schedule; no operator of its own.",)),), hint),)
    own = Section(name, (Table(_TERMS, tuple(_term_row(term, chain.step_time_s) for term in terms)),), hint)
    lines = [o for o in chain.operators if o.time_class == name]
    if not lines:
        return (own,)
    heads = ("operator", "pass", "shape", "count", "each", "busy", "exposed", "rate", "limit")
    rows = [
        (
            line.name,
            _PHASES.get(line.phase, line.phase),
            shape_text(line),
            count(line.count),
            seconds(line.each_s),
            seconds(line.busy_s),
            seconds(line.exposed_s),
            _rate(line),
            line.limit,
        )
        for line in lines[:_MOST]
    ]
    found = table(heads, rows, numeric=range(3, 8), drop=(4, 6, 3))
    more = f"and {len(lines) - _MOST} smaller ones (--json has all)"
    rest = (Lines((Text(more, "dim"),)),) if len(lines) > _MOST else ()
    return own, Section("Operators of the stage that finishes last", (found, *rest))


def shape_text(line: OperatorLine) -> str:
    """`8192·28672·8192 bf16` for products, with the groups behind."""
    if line.kind in ("gemm", "grouped gemm") and line.shape:
        m, n, k, groups = line.shape
        text = f"{m:g}·{n:g}·{k:g}" if max(m, n, k) < 1e6 else "·".join(f"{x:.0f}" for x in (m, n, k))
        return f"{text} {line.number_format}" + (f" × {groups:g}" if groups != 1 else "")
    if line.kind == "attention" and line.shape:
        tokens, heads, d_qk, _ = line.shape
        return f"{heads:g} heads of {d_qk:g}, {count(tokens)} pairs"
    return line.kind.replace("_", "-") if line.kind not in ("memory_bound", "softmax") else ""


def _rate(line: OperatorLine) -> str:
    if line.flop and line.limit != "memory":
        return rate_text(line.flop / line.each_s, "FLOP")
    return rate_text(line.moved_bytes / line.each_s, "B") if line.moved_bytes else ""


# -- a gap -------------------------------------------------------------------------------------------------------------
def _gap(explanation: Explanation) -> tuple[Section, ...]:
    gap, traced = explanation.gap_s or 0.0, explanation.trace is not None
    causes = [(percent(cause.probability, 0), cause.sentence) for cause in explanation.causes[:_CAUSES]]
    shares = Table((Column(numeric=True), Column()), tuple(causes))
    nothing = "No setting left open and no coefficient within its error moves the step in that direction."
    silent = explanation.chain is not None and not explanation.candidates
    resources = [
        (name, f"{percent(abs(change))} {'less' if change < 0 else 'more'} than assumed")
        for name, change in explanation.resources.items()
    ]
    return sections(
        Section("Likely causes, one difference at a time", (shares,)),
        _open_settings(explanation, gap),
        _coefficients(explanation, gap),
        Section("", (Lines((nothing,)),)) if silent else None,
        None if traced else _classes(explanation),
        Section("Resources that would account for the gap, to first order", (pairs(resources),))
        if resources and not traced
        else None,
        Section("Assumptions to check first", (pairs(explanation.assumptions),))
        if explanation.assumptions and explanation.chain is None
        else None,
    )


def _open_settings(explanation: Explanation, gap: float) -> Section:
    rows = [
        (c.name, c.value, c.alternative, seconds(c.step_time_s), _share(c.change_s, gap), c.note)
        for c in explanation.candidates
        if c.kind == "assumption"
    ]
    heads = ("open setting", "predicted with", "alternative", "step", "of the gap", "")
    found = table(heads, rows[:8], numeric=(3, 4))
    return Section("Settings that the scenario leaves open, simulated one by one", (found,))


def _coefficients(explanation: Explanation, gap: float) -> Section | None:
    rows = [
        (
            c.name,
            _value(float(c.value), c.name),
            _value(float(c.alternative), c.name),
            f"{c.sigmas:+.1f}",
            seconds(c.step_time_s),
            _share(c.change_s, gap),
            c.grade,
        )
        for c in explanation.candidates
        if c.kind == "coefficient"
    ]
    if not rows:
        return None
    together = math.sqrt(sum(u.step_change_s**2 for u in explanation.uncertain))
    share = percent(together / explanation.result.step_time_s)
    all_of_them = Text(f"all coefficients together: ± {share} of the step, one standard error", "dim")
    heads = ("coefficient", "value", "at", "σ", "step", "of the gap", "confidence")
    found = table(heads, rows[:6], numeric=range(1, 6), drop=(6,))
    return Section("Coefficients, moved by at most two standard errors", (found, Lines((all_of_them,))))


def _classes(explanation: Explanation) -> Section:
    rows = [
        (
            one.time_class,
            seconds(one.predicted_s),
            seconds(one.error_s) if one.error_s else "",
            seconds(one.needed_s),
            f"× {one.factor:.2f}",
        )
        for one in explanation.classes
        if 1 / _FACTOR <= one.factor <= _FACTOR
    ]
    found = table(("class of time", "predicted", "±", "needed", "factor"), rows[:8], numeric=range(1, 5))
    return Section("What would account for the gap by itself", (found,))


def _share(part: float, gap: float) -> str:
    """Share of the gap without decimals; nothing where there is no gap."""
    return f"{round(100 * part / gap):d} %" if gap else ""


def _trace(comparison: TraceComparison, chain: Chain | None) -> tuple[Section, ...]:
    trace = comparison.trace
    predicted = chain.step_time_s if chain is not None else sum(r.predicted_s for r in comparison.rows)
    gap = trace.step_time_s - predicted
    rows: list[tuple[Words, ...]] = [
        (
            f"{row.kernel}, waiting" if row.kernel == "send-receive" else row.kernel,
            seconds(row.predicted_s),
            seconds(row.measured_s),
            signed_seconds(row.difference_s),
            _share(row.difference_s, gap) if abs(gap) > 1e-3 * predicted else "",
            Text(row.reason, "dim"),
        )
        for row in comparison.rows
        if max(abs(row.predicted_s), row.measured_s) >= _SMALL * trace.step_time_s
    ]
    whole = Text("step", strong=True)
    rows.append((whole, seconds(predicted), seconds(trace.step_time_s), signed_seconds(gap), "", ""))
    low, high = min(trace.steps_s), max(trace.steps_s)
    rank = "" if trace.rank is None else f" of rank {trace.rank}"
    about = f"{len(trace.steps_s)} steps{rank}, {seconds(low)} to {seconds(high)}; the one of median length is shown"
    said = (f"{about}. {count(trace.num_kernels)} kernels and copies.", *trace.notes, *comparison.hints)
    heads = ("kernels", "predicted", "measured", "difference", "of the gap", "what it would take")
    blocks = (table(heads, rows, numeric=range(1, 5)), Lines(tuple(Text(line, "dim") for line in said)))
    better = [(c.name, c.value, c.alternative, percent(share, 0), c.note) for c, share in comparison.better[:5]]
    names = ("open setting", "predicted with", "alternative", "closer to the trace", "")
    return sections(
        Section("Against the trace, exposed time by kind of kernel", blocks),
        Section("Settings that bring the classes closer", (table(names, better, numeric=(3,)),)),
    )
