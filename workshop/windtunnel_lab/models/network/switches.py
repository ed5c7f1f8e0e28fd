"""Switches that a non-blocking fat tree takes."""

from __future__ import annotations

from math import ceil


def fat_tree_switches(ports: int, radix: int) -> int:
    """Switches of the smallest non-blocking folded Clos of one, two or three layers.

    Every switch below the top has half of its ports down and half up, a switch of the top all of them down.

    Args:
        ports: that hang on the lowest layer.
        radix: ports of one switch.

    Raises:
        ValueError: three layers are too few.

    Source: Al-Fares, Loukissas and Vahdat, A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008.
    """
    half = radix // 2
    if ports <= radix:
        return 1
    leaves = ceil(ports / half)
    if leaves <= radix:
        return leaves + ceil(leaves * half / radix)
    if ports > radix * half * half:
        raise ValueError(f"ports = {ports}: three layers of {radix} ports take at most {radix * half * half}")
    return 2 * leaves + ceil(leaves * half / radix)
