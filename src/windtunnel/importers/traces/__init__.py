"""Request traces of production systems and of benchmarks: one file a format, found by the registry.

A new format is one new file that adds a `TraceFormat` to `TRACES`; `trace_format: auto` then recognises it.
"""

from __future__ import annotations

from pathlib import Path

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces.reading import Options, Source, TraceFormat, head_of
from windtunnel.importers.traces.record import PrefixBlocks, RequestTrace
from windtunnel.registry import Registry

__all__ = ["TRACES", "Options", "PrefixBlocks", "RequestTrace", "claims", "read_trace"]

TRACES: Registry[TraceFormat] = Registry("trace_formats", package="windtunnel.importers.traces", noun="trace format")


def claims(path: Path) -> list[str]:
    """Formats that recognise a file by its beginning."""
    head = head_of(path)
    return [id for id, entry in TRACES.items() if entry.detect(head)]


def read_trace(path: Path, format: str = "auto", options: Options | None = None) -> RequestTrace:
    """Read a trace of requests.

    Args:
        path: of the file; `.gz` is unpacked.
        format: an id of `TRACES`, or `auto`.
        options: what the user says about units.

    Raises:
        BadInput: lists every line that cannot be used, or asks for what the file does not say.
    """
    options = options or Options()
    if format == "auto":
        found = claims(path)
        if len(found) != 1:
            which = f"looks like {' and '.join(found)}" if found else "is in no format that is recognised"
            rule = f"{which}; say which of {', '.join(TRACES.list())} it is"
            raise BadInput(Problem(options.name("format"), rule, file=str(path)))
        format = found[0]
    entry = TRACES.get(format, options.name("format"))
    source = Source(path=path, format=format, options=options)
    try:
        trace = entry.read(source)
    except (UnicodeDecodeError, EOFError):
        raise BadInput(Problem("", "must be UTF-8 text", file=str(path))) from None
    if len(trace) == 0:
        why = "; ".join(f"{count} {reason}" for count, reason in trace.left_out)
        raise BadInput(Problem("", f"holds no request{f': {why}' if why else ''}", file=str(path)))
    return trace
