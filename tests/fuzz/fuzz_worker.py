"""A process that runs cases: one line of JSON in, one line out; a case that ends the process is known to its parent."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]
MEMORY_BYTES = 5 << 30
"""What the process may take for its data: asking for more ends in MemoryError, as on a machine of that size."""


_told: list[str] = []
"""Signals that the case has had."""


class Late(BaseException):
    """The case took longer than its limit; how far its work is stands in it."""


def _late(*_: Any) -> None:
    from windtunnel.progress import MOST_S, counted

    found = counted()
    _told.append("a signal")
    told = found is not None and found.left_s is not None and found.left_s < MOST_S
    planner = any("/planner/" in frame.filename for frame in traceback.extract_stack(limit=200))
    raise Late("" if told or planner else "without a word of how long")  # the planner counts candidates


def fault_of(case: dict[str, Any], limit_s: float) -> str:
    """What is wrong with how a case ends; empty where nothing is."""
    import fuzz_entries

    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    _told.clear()
    try:
        found = fuzz_entries.judged(case)
        return "" if _told and "SystemError" in found else found  # machine code turns the signal into that
    except Late as late:
        return f"took longer than {limit_s:.0f} s {late}" if str(late) else ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.chdir(HERE)


def smaller(case: dict[str, Any], wanted: str, limit_s: float, tries: int = 250) -> dict[str, Any]:
    """The smallest case found that fails in the same way: parts are left out, and values made simple, one at a time."""
    import copy

    import fuzz_entries

    left, begun = tries, time.monotonic()

    def fails(candidate: dict[str, Any]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fuzz_entries.signature(fault_of(candidate, limit_s)) == wanted

    changed = True
    while changed and left > 0 and time.monotonic() - begun < 120:
        changed = False
        for path in sorted(_places(case), key=len):
            if path[0] in ("entry", "command", "tool", "method", "path", "as"):
                continue
            candidate = copy.deepcopy(case)
            parent = candidate
            try:
                for part in path[:-1]:
                    parent = parent[part]
                value = parent[path[-1]]
                if (isinstance(value, str) and path[0] in ("files", "lines")) or path == ("body",):
                    simple = _shorter(value)
                    if simple is None:
                        continue
                    parent[path[-1]] = simple
                else:
                    del parent[path[-1]]
            except (KeyError, IndexError, TypeError):
                continue
            if left > 0 and fails(candidate):
                case, changed = candidate, True
    return case


def _shorter(text: str) -> str | None:
    """JSON text with less in it, or text with its longer half; None where nothing can be left out."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 2]) if len(lines) > 1 else None


def _places(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = []
    for key, inner in entries:
        found.append((*above, key))
        found += _places(inner, (*above, key))
    return found


def main() -> None:
    """Read `{"seed", "number", "limit_s"}` or `{"case", "limit_s", "smaller": signature}` until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    import fuzz_cases
    import fuzz_entries

    fuzz_entries.prepare()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        begun = time.monotonic()
        case = asked.get("case") or fuzz_cases.case(asked["seed"], asked["number"])
        if wanted := asked.get("smaller"):
            found = {"case": smaller(case, wanted, asked["limit_s"])}
        else:
            fault = fault_of(case, asked["limit_s"])
            found = {"fault": fault, "signature": fuzz_entries.signature(fault), "case": case if fault else None}
        answers.write(
            json.dumps({**found, "entry": case["entry"], "seconds": round(time.monotonic() - begun, 2)}) + "\n"
        )
        answers.flush()


if __name__ == "__main__":
    main()
