"""Results that keep totals only: the load that was sent, as requests of the stated lengths, and what was measured.

A result of a benchmark mostly holds how many requests were sent, how long they were on average (some: quantiles too),
at which rate or concurrency, and means and percentiles of latencies. That is a load, and something to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Int32s
from windtunnel.importers.traces.reading import MAX_TOKENS, Source
from windtunnel.importers.traces.record import RequestTrace

MOST_REQUESTS = 1_000_000
_GOLDEN = ((math.sqrt(5) - 1) / 2, math.sqrt(2) - 1)
"""Steps that visit quantiles evenly and, for prompts and answers, without following each other."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of prompts or of answers: a mean, and quantiles by share (0 … 1) where the file has them."""

    mean: float
    quantiles: Mapping[float, float] | None = None


def of_totals(
    source: Source,
    requests: int,
    inputs: Lengths,
    outputs: Lengths,
    *,
    stated: dict[str, Any] | None = None,
    measured: dict[str, float] | None = None,
    drawn: str = "",
) -> RequestTrace:
    """Requests whose lengths have the mean (and the quantiles) of a result.

    Args:
        source: the file.
        requests: how many were answered.
        inputs: tokens of their prompts.
        outputs: tokens of their answers.
        stated: how they were sent, in the words of `traffic`.
        measured: what the run measured, by name, SI units.
        drawn: what the file says about how lengths were drawn.
    """
    found = []
    for name, lengths, step in zip(("input_tokens", "output_tokens"), (inputs, outputs), _GOLDEN, strict=True):
        if not (math.isfinite(lengths.mean) and 1 <= lengths.mean <= MAX_TOKENS):
            source.bad(None, name, f"must be from 1 to {MAX_TOKENS} on average", lengths.mean)
            continue
        found.append(_spread(lengths, requests, step))
        if lengths.quantiles:
            why = "the file holds quantiles, not requests: lengths follow them, prompts and answers independently"
            source.assumed.append((name, f"mean {lengths.mean:.6g}", why))
        else:
            why = f"the file holds totals only: every request has the mean length{drawn}"
            source.assumed.append((name, float(f"{lengths.mean:.6g}"), why))
    source.check()
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=found[0],
        output_tokens=found[1],
        stated=stated or {},
        measured={name: value for name, value in (measured or {}).items() if math.isfinite(value)},
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


def number(value: Any) -> float:
    """A finite number above 0, or nan."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
        return float(value)
    return math.nan


def requests_of(source: Source, field: str, value: Any) -> int:
    """How many requests a result counts.

    Raises:
        BadInput: none, or more than a replay takes.
    """
    least = source.count(None, field, value, 1)
    if least > MOST_REQUESTS:
        source.bad(None, field, f"must be at most {MOST_REQUESTS}", value)
    source.check()
    return least


def _spread(lengths: Lengths, requests: int, step: float) -> Int32s:
    if not lengths.quantiles:
        edges = np.floor(np.arange(requests + 1) * lengths.mean + 0.5)
        even: Int32s = np.maximum(np.diff(edges), 1).astype(np.int32)
        return even
    shares = sorted(lengths.quantiles)
    at = ((np.arange(requests) + 0.5) * step) % 1.0
    drawn = np.interp(at, shares, [lengths.quantiles[share] for share in shares])
    found: Int32s = np.clip(np.rint(drawn), 1, MAX_TOKENS).astype(np.int32)
    return found
