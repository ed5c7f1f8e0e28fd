"""BurstGPT: CSV with Timestamp (whole seconds), Model, Request tokens, Response tokens, Log Type.

Releases from 2.0 add Session ID (conversations) and Elapsed time (seconds from request to the whole answer). Failures
have no response tokens.

Source: github.com/HPMLL/BurstGPT, README.
"""

from __future__ import annotations

import numpy as np

from windtunnel.extras import extra
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.csv_table import Table
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def _detect(head: Head) -> bool:
    return {name.casefold() for name in _COLUMNS} <= head.columns


def _read(source: Source) -> RequestTrace:
    table = Table(source, _COLUMNS, ("Session ID", "Elapsed time"))
    times = table.numbers("Timestamp")
    inputs, outputs = table.counts("Request tokens"), table.counts("Response tokens")
    elapsed = table.numbers("Elapsed time", needed=False) if "Elapsed time" in table else None
    source.check()
    served = (inputs > 0) & (outputs > 0)
    source.drop(len(served) - served.sum(), "failed: no response tokens, or an empty request")
    session = None
    if "Session ID" in table:
        codes, _ = extra("pandas").factorize(table.columns["Session ID"])
        alone = codes < 0
        codes = np.where(alone, codes.max(initial=-1) + 1 + np.cumsum(alone), codes)
        session = codes.astype(np.int64)[served]
    if len(times):
        times = source.seconds(times, "s", "Timestamp")
    return by_arrival(
        source,
        times[served],
        inputs[served],
        outputs[served],
        session=session,
        e2e_s=None if elapsed is None else elapsed[served],
    )


TRACES.add("burstgpt", TraceFormat("BurstGPT trace (CSV)", _detect, _read))
