"""What `windtunnel learn` shows of the link that each algorithm needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.quantities import percent, seconds
from windtunnel.views.view import Section, View, table

if TYPE_CHECKING:
    from windtunnel.learning.link_needs import LinkNeeds


def rate_text(bytes_per_s: float | None) -> str:
    """A link's rate in bits, as links are sold.

    Example:
        >>> rate_text(125e6), rate_text(None)
        ('1 Gb/s', 'none is enough')
    """
    if bytes_per_s is None:
        return "none is enough"
    bits = 8.0 * bytes_per_s
    for unit, name in ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")):
        if bits >= unit:
            return f"{bits / unit:,.3g} {name}" if bits < 1000 * unit else f"{bits / unit:,.0f} {name}"
    return f"{bits:.3g} b/s"


def view(needs: LinkNeeds) -> View:
    """Algorithms down, shares of the time computing across."""
    t = needs.target
    title = f"{needs.workers:,} workers, a local step of {seconds(t['step_s'])}, {t['parameters']:,} parameters"
    known = any(one.utilisation is not None for one in needs.algorithms)
    heads = ["algorithm", *(["computing now"] if known else []), *(f"for {percent(share)}" for share in needs.shares)]
    rows = []
    for one in needs.algorithms:
        now = [percent(one.utilisation)] if one.utilisation is not None else [""] * known
        rows.append([one.algorithm, *now, *(rate_text(rate) for rate in one.bytes_per_s)])
    found = table(heads, rows, numeric=range(1, len(heads)))
    return View(title=title, sections=(Section("Rate of the link", (found,), "for shares of the time computing"),))
