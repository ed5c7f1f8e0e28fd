"""Numbers as people read them: seconds, bytes, counts, shares."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Three or four significant digits with the unit that suits.

    Example:
        >>> seconds(14.6237), seconds(0.01234), seconds(8.2e-6)
        ('14.62 s', '12.34 ms', '8.20 µs')
    """
    size = abs(value)
    if size >= 100 or size == 0:
        return f"{value:,.1f} s"
    if size >= 1:
        return f"{value:.2f} s"
    if size >= 1e-3:
        return f"{value * 1e3:.2f} ms"
    return f"{value * 1e6:.2f} µs"


def gib(value: float) -> str:
    """Bytes in GiB (MiB when small).

    Example:
        >>> gib(80 * 2**30), gib(5 * 2**20)
        ('80.00 GiB', '5.0 MiB')
    """
    if abs(value) >= 2**30 / 10 or value == 0:
        return f"{value / 2**30:,.2f} GiB"
    return f"{value / 2**20:,.1f} MiB"


def count(value: float) -> str:
    """A count with thousands separators, or with M, B, T when large.

    Example:
        >>> count(71234), count(70.55e9)
        ('71,234', '70.55 B')
    """
    for limit, letter in ((1e12, "T"), (1e9, "B"), (1e7, "M")):
        if abs(value) >= limit:
            return f"{value / limit:.2f} {letter}" if limit > 1e7 else f"{value / 1e6:.1f} M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.4g}"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent.

    Example:
        >>> percent(0.5432)
        '54.3 %'
    """
    return f"{100 * share:.{digits}f} %"
