"""Azure LLM inference traces (2023, 2024): CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

Source: github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md: dates with fractions of a second, prompt
tokens, generated tokens; no prompts, no sessions.
"""

from __future__ import annotations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.extras import extra
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.csv_table import Table
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _detect(head: Head) -> bool:
    return {name.casefold() for name in _COLUMNS} <= head.columns


def _read(source: Source) -> RequestTrace:
    table = Table(source, _COLUMNS)
    inputs, outputs = table.counts("ContextTokens"), table.counts("GeneratedTokens")
    times = _times(table)
    source.check()
    served = (inputs > 0) & (outputs > 0)
    source.drop(len(served) - served.sum(), "without prompt or answer tokens")
    return by_arrival(source, times[served], inputs[served], outputs[served])


def _times(table: Table) -> Floats:
    """Seconds since the first request: dates, or numbers whose unit the user has to say."""
    pd = extra("pandas")
    values = table.columns["TIMESTAMP"]
    if pd.api.types.is_numeric_dtype(values) and len(values):
        return table.source.seconds(table.numbers("TIMESTAMP"), None, "TIMESTAMP")
    dates = pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601")
    table.wrong("TIMESTAMP", dates.isna().to_numpy(), "must be a date and time such as 2023-11-16 18:17:03.9799600")
    since = (dates - dates.min()).dt.total_seconds().to_numpy(np.float64) if len(dates) else np.zeros(0)
    return np.nan_to_num(since)


TRACES.add("azure", TraceFormat("Azure LLM inference trace (CSV)", _detect, _read))
