"""What a simulated gain rests on: what a reader should check before believing it."""

from __future__ import annotations

import math

from windtunnel_lab.planner_vs_published.compare import Outcome

FULL = 0.95
"""Share of device memory above which fragmentation may decide."""
AMPLE = 0.6
"""Share below which no error of the memory model matters."""
OFF = 0.15
"""Error of the row's own prediction above which its group says little."""
MANY_CHUNKS = 8


def remarks(o: Outcome) -> list[str]:
    """Short remarks on one group, those that matter most first."""
    row, best, parts = _plan(o.best_row.plan), _plan(o.plan), dict(o.parts)
    out: list[str] = []
    rests = ": rests on the memory model" if o.reserved_gib > AMPLE * o.capacity_gib else ", with memory to spare"
    if row.get("recompute") != best.get("recompute") and parts.get("recomputation", 0.0) > 0.5 * o.gain:
        out.append("recomputes less" + rests)
    if _cut(best) < _cut(row):
        out.append("cuts the model less" + rests)
    elif parts.get("pipeline bubble", 0.0) > 0.5 * o.gain:
        out.append("smaller bubble")
    if int(row.get("zero", "1")) == 0 and int(best.get("zero", "0")) > 0:
        out.append("shards the optimizer, which the row does not say it did")
    if int(best.get("vpp", "1")) > max(MANY_CHUNKS, int(row.get("vpp", "1"))):
        out.append(f"{best['vpp']} virtual stages")
    if o.reserved_gib > FULL * o.capacity_gib:
        out.append(f"fills {o.reserved_gib / o.capacity_gib:.0%} of the memory")
    measured = o.best_row.measured_s
    if measured and abs(math.log(o.best_row.simulated_s / measured)) > math.log(1.0 + OFF):
        out.append(f"the row itself is predicted {o.best_row.simulated_s / measured - 1.0:+.0%}".replace("-", "−"))
    if not o.told_apart:
        out.append("not told apart")
    return out


def _plan(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _cut(plan: dict[str, str]) -> int:
    """Devices that one copy of the model's layers is cut over."""
    return math.prod(int(plan.get(axis, "1")) for axis in ("tp", "pp", "cp"))
