"""Outcomes as a page of Markdown: what it adds up to, what did not work, every group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from windtunnel_lab.accuracy.tables import markdown
from windtunnel_lab.planner_vs_published.caveats import FULL, remarks
from windtunnel_lab.planner_vs_published.compare import Outcome, RowPlan

LARGE = 0.20
"""Gains above this are listed apart."""
_LEAST = 0.005
_HEAD = """# The planner against measured plans

Written by `python -m windtunnel_lab.planner_vs_published ROWS --out FILE`. A group is all measured rows
that share model, cluster, sequence length, batch, precision and software; they differ in their plan. Its space is what
that software can run (`windtunnel_lab/planner_vs_published/space.py`), the
rows' own plans among it. *Gain* is the
share of the step of the group's fastest row plan, **both as simulated**, that the planner's plan saves; *from* is
where the time went, in the
same unit.
**Bold** gains are told apart by the paired bands of the two step times (80 %), the others may be noise of the model.
*Memory* is reserved GiB of the row's plan and of the planner's, of what the device has. What to make of it:
[planner.md](../guide/plan-training.md#against-plans-that-were-measured).
"""
_COLUMNS = [
    "model",
    "devices",
    "seq, batch, precision",
    "rows",
    "fastest row plan",
    "measured s",
    "simulated s",
    "the planner changes",
    "simulated s",
    "gain",
    "from",
    "memory",
    "plans",
    "simulated",
]

_COUNTS: tuple[Callable[[Outcome], int], ...] = (
    lambda o: 1,
    lambda o: o.rows,
    lambda o: o.verdict == "same",
    lambda o: o.verdict == "faster",
    lambda o: o.told_apart,
    lambda o: o.verdict in ("memory", "slower"),
)


def page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    parts = [_HEAD, "## Summary\n", summary(outcomes), _misses(outcomes), _refused(outcomes), _large(outcomes)]
    families = dict.fromkeys(name for o in outcomes for name in o.families)
    for family in families:
        members = [o for o in outcomes if o.families[0] == family and o.plan]
        if members:
            software = ", ".join(sorted({o.framework for o in members}))
            lines = [_line(o) for o in sorted(members, key=lambda o: (o.model, o.device, o.devices, o.global_batch))]
            parts += [f"## {family}\n\nSoftware: {software}.\n", markdown(_COLUMNS, lines, 3) + "\n"]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Counts, gains, reasons: one table by family and one for all."""
    planned = [o for o in outcomes if o.plan]
    if not planned:
        return "No group was planned.\n"
    lines = []
    families = dict.fromkeys(o.families[0] for o in planned)
    for name, members in [("all", planned), *((f, [o for o in planned if o.families[0] == f]) for f in families)]:
        gains = np.array([o.gain for o in members])
        lines.append(
            [
                name,
                *(str(sum(count(o) for o in members)) for count in _COUNTS),
                f"{np.median(gains):.1%}",
                f"{np.percentile(gains, 90):.1%}",
                f"{gains.max():.1%}",
                str(sum(o.gain > LARGE for o in members)),
                f"{sum(o.candidates for o in members):,}",
                f"{sum(o.simulated for o in members):,}",
                f"{sum(o.searched_s for o in members):.0f}",
            ]
        )
    head = [
        "family",
        "groups",
        "rows",
        "same plan",
        "faster",
        "told apart",
        "row faster",
        "median gain",
        "p90",
        "largest",
        f"> {LARGE:.0%}",
        "plans",
        "simulated",
        "seconds",
    ]
    first = Counter(o.parts[0][0] for o in planned if o.gain > _LEAST and o.parts)
    why = "; ".join(f"{name} in {count}" for name, count in first.most_common())
    text = f"Largest part of the gain, of {sum(first.values())} groups that gain more than {_LEAST:.1%}: {why}.\n"
    full = sum(o.reserved_gib > FULL * o.capacity_gib and o.verdict == "faster" for o in planned)
    text += f"\nWhere it is faster, its plan reserves more than {FULL:.0%} of the memory in {full} groups.\n"
    return markdown(head, lines, 1) + "\n\n" + text + _choices(planned)


def _choices(planned: Sequence[Outcome]) -> str:
    """How well the simulator chooses among plans that were all measured: the check that measurements allow."""
    regrets = [
        o.best_row.measured_s / o.measured_best.measured_s - 1.0
        for o in planned
        if o.rows > 1
        and o.measured_best
        and o.measured_best.measured_s
        and o.best_row.measured_s
        and (o.best_row.plan != o.measured_best.plan or o.choices > 1)
    ]
    if not regrets:
        return ""
    wrong = [r for r in regrets if r > 0.0]
    text = (
        f"\nOf {len(regrets)} groups with several measured plans, the one that is fastest as simulated was measured "
        f"fastest in {len(regrets) - len(wrong)}"
    )
    if wrong:
        text += f"; in the others it is slower by {np.median(wrong):.1%} (median), {max(wrong):.1%} at most"
    return text + ".\n"


def _misses(outcomes: Sequence[Outcome]) -> str:
    members = [o for o in outcomes if o.verdict in ("memory", "slower")]
    if not members:
        return "No row plan is faster than the planner's.\n"
    lines = [
        [
            o.model,
            f"{o.devices} {o.device}",
            o.families[0],
            o.best_row.plan,
            _gib(o.best_row.reserved_gib),
            _gib(o.capacity_gib),
            "does not fit as simulated" if o.verdict == "memory" else "**not found**",
            _percent(o.gain) if o.plan else "nothing fits",
            o.note,
        ]
        for o in members
    ]
    head = ["model", "devices", "family", "row plan", "its GiB", "of", "why", "gain", "note"]
    text = "Rows that ran although they do not fit as simulated, and are faster there: misses of the memory model.\n"
    return "## Row plans that the planner does not reach\n\n" + text + "\n" + markdown(head, lines, 4) + "\n"


def _refused(outcomes: Sequence[Outcome]) -> str:
    members = [o for o in outcomes if o.verdict == "failed"]
    if not members:
        return ""
    lines = [[o.model, f"{o.devices} {o.device}", o.families[0], o.note] for o in members]
    return "## Rows that the simulator refuses\n\n" + markdown(["model", "devices", "family", "why"], lines, 4)


def _large(outcomes: Sequence[Outcome]) -> str:
    """Gains that are too large to take on trust, largest first."""
    members = sorted((o for o in outcomes if o.plan and o.gain > LARGE), key=lambda o: -o.gain)
    if not members:
        return ""
    lines = [
        [
            f"{_model(o)}, {o.devices} {o.device}, batch {o.global_batch}",
            o.families[0],
            o.changes,
            _percent(o.gain),
            _percent(1.0 - 1.0 / o.low),
            "; ".join(remarks(o)),
        ]
        for o in members
    ]
    counts = Counter(remark for o in members for remark in {_kind(r) for r in remarks(o)})
    why = "; ".join(f"{name}: {count}" for name, count in counts.most_common())
    head = ["group", "family", "the planner changes", "gain", "at least", "what to think of it"]
    text = f"{len(members)} groups. *At least*: the edge of the paired band. Remarks, and groups with them: {why}."
    return f"## Gains above {LARGE:.0%}\n\n{text}\n\n" + markdown(head, lines, 3) + "\n"


def _kind(remark: str) -> str:
    """A remark without its figures."""
    for start, kind in (("fills", "fills the memory"), ("the row itself", "the row itself is predicted badly")):
        if remark.startswith(start):
            return kind
    return "many virtual stages" if remark.endswith("virtual stages") else remark


def reason(o: Outcome) -> str:
    """What the gain is made of: the classes that carry it, and the one that grew most where it costs much."""
    if o.verdict == "same":
        return ""
    carry = [(n, v) for n, v in o.parts if v > max(_LEAST, 0.25 * max(o.gain, 0.0))][:3]
    cost = min(o.parts, key=lambda x: x[1], default=("", 0.0))
    if cost[1] < -max(_LEAST, 0.25 * abs(o.gain)):
        carry.append(cost)
    return ", ".join(f"{name} {_percent(-share, plus=True)}" for name, share in carry)


def _line(o: Outcome) -> list[str]:
    gain = _percent(o.gain)
    return [
        _model(o),
        f"{o.devices} {o.device}",
        f"{o.seq_len}, {o.global_batch}, {o.precision}",
        str(o.rows),
        o.best_row.plan + _also(o),
        _seconds(o.best_row.measured_s),
        _seconds(o.best_row.simulated_s),
        "same plan" if o.verdict == "same" else o.changes,
        _seconds(o.plan_s),
        f"**{gain}**" if o.told_apart else gain,
        reason(o),
        f"{_gib(o.best_row.reserved_gib)} → {_gib(o.reserved_gib)} / {_gib(o.capacity_gib)}",
        f"{o.candidates:,}",
        str(o.simulated),
    ]


def _model(o: Outcome) -> str:
    return o.model if o.phase == "pretrain" else f"{o.model} ({o.phase})"


def _also(o: Outcome) -> str:
    """The plan that was measured fastest, where it is another."""
    other: RowPlan | None = o.measured_best
    if other is None or other.plan == o.best_row.plan:
        return ""
    times = f"{_seconds(other.measured_s)} s, simulated {_seconds(other.simulated_s)} s"
    return f"; measured fastest: {other.plan}, {times}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _percent(share: float, *, plus: bool = False) -> str:
    return f"{share:{'+' if plus else ''}.1%}".replace("-", "−")


def _gib(value: float) -> str:
    return f"{value:.0f}"
