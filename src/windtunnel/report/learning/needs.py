"""What link each algorithm needs, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from windtunnel.quantities import percent, seconds

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


def needs_table(needs: LinkNeeds) -> Table:
    """Algorithms down, shares of the time computing across."""
    t = needs.target
    title = f"{needs.workers:,} workers, a local step of {seconds(t['step_s'])}, {t['parameters']:,} parameters"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("algorithm", no_wrap=True)
    owned = any(one.utilisation is not None for one in needs.algorithms)
    if owned:
        table.add_column("computing now", justify="right")
    for share in needs.shares:
        table.add_column(f"for {percent(share)}", justify="right")
    for one in needs.algorithms:
        own = [percent(one.utilisation)] if one.utilisation is not None else [""] * owned
        table.add_row(one.algorithm, *own, *(rate_text(rate) for rate in one.bytes_per_s))
    return table
