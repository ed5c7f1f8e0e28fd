"""A process that runs cases, one line of JSON in and out a case; a case that ends the process names itself first."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]

MEMORY_BYTES = 5 << 30
"""What the process may take for its data: asking for more ends in MemoryError, as on a machine of that size."""
PATIENCE_S = 20.0
"""After so long without a figure for how long it takes, work has been silent for too long."""
_TOLD = re.compile(r"about [\d.]+ (s|min|h|days?)\b|\d[\d,]* (of [\d,]+|screened|simulated|runs)")
"""A line that says how far or how long."""


class Late(BaseException):
    """The case took longer than its limit."""


def _late(*_: Any) -> None:
    raise Late


def run_case(seed: int, limit_s: float) -> dict[str, Any]:
    """Run the case of a seed in a folder of its own and judge how it ended.

    Returns:
        Seed, arguments, what was damaged, exit code, seconds, and `fault`: empty, or what is wrong with how it ended.
    """
    import fuzz_cases

    from windtunnel.cli.main import run

    case = fuzz_cases.case(seed)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    err.reconfigure(errors="backslashreplace")
    code: int | None = None
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="windtunnel-fuzz-") as folder:
        case.write(Path(folder))
        os.chdir(folder)
        begin = time.monotonic()
        signal.signal(signal.SIGALRM, _late)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(case.arguments)
        except Late:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.chdir(before)
        seconds = time.monotonic() - begin
    return {
        "seed": seed,
        "arguments": list(case.arguments),
        "told": case.told,
        "code": code,
        "seconds": round(seconds, 2),
        "fault": fault(code, *(stream.buffer.getvalue().decode() for stream in (out, err)), seconds),
    }


def fault(code: int | None, out: str, err: str, seconds: float) -> str:
    """What is wrong with how a run ended; empty where nothing is.

    Args:
        code: exit code; None where it was stopped.
        out: standard output.
        err: standard error.
        seconds: how long it took.
    """
    if code is None:
        return "" if _TOLD.search(err) else f"silent for {seconds:.0f} s and not ended"
    if seconds > PATIENCE_S and not _TOLD.search(err):
        return f"silent for {seconds:.0f} s"
    if code not in (0, 2, 3, 4):
        return f"exit {code}: {err[-4000:]}"
    if "Warning:" in err:
        return f"warning: {err[-1500:]}"
    if code == 0:
        try:
            json.loads(out, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
        except ValueError as error:
            return f"no JSON: {error}: {out[:200]}"
    elif not err.strip() and not out.strip():
        return "no word of what is wrong"
    return ""


def main() -> None:
    """Read `seed limit` from standard input until it ends."""
    import windtunnel.cli.main  # noqa: F401 imported before memory is limited

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    os.environ["WINDTUNNEL_DEBUG"] = "1"
    import warnings

    warnings.simplefilter("always")
    import fuzz_cases

    fuzz_cases.prepare()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        seed, limit = line.split()
        answers.write(json.dumps(run_case(int(seed), float(limit))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
