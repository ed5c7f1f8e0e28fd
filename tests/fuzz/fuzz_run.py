"""Damaged input at every entry point: no internal error, no answer that cannot be, no hours of work. `make fuzz`.

Every case follows from the seed and its number. Each kind of fault is printed once, made small, and written to a folder
as JSON; `--replay FILE` asks it again. A kind that is mended becomes a line of `found.jsonl`, which quick tests replay.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]
GRACE_S = 15.0
"""Between a case's limit and the end of a process that does not notice it."""
CASES_A_PROCESS = 1500
"""After so many the process is replaced, so that what it caches cannot grow without end."""


class Worker:
    """The process that runs cases."""

    def __init__(self) -> None:
        self.done = 0
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "fuzz_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the process of the cases does not start"

    def ask(self, wait_s: float, **asked: Any) -> dict[str, Any] | None:
        """The result of a case, or None where the process ended or had to be ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write((json.dumps(asked) + "\n").encode())
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], wait_s)
        line = self._process.stdout.readline() if ready else b""
        self.done += 1
        return json.loads(line) if line else None

    def end(self) -> int | None:
        """End the process and what it started; returns its exit status if it had ended by itself."""
        time.sleep(0.2)
        code = self._process.poll()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        return code


class Run:
    """Cases of one seed, one after the other."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.worker = given, Worker()
        self.seconds: list[tuple[float, int]] = []
        self.entries: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def one(self, number: int) -> None:
        """Run a case and keep what is wrong with it."""
        import fuzz_cases

        limit_s, seed = self.given.limit, self.given.seed
        if self.worker.done >= CASES_A_PROCESS:
            self.worker.end()
            self.worker = Worker()
        found = self.worker.ask(limit_s + GRACE_S, seed=seed, number=number, limit_s=limit_s)
        if found is None:
            code = self.worker.end()
            fault = f"ended the process: status {code}" if code is not None else "neither ended nor noticed its limit"
            case = fuzz_cases.case(seed, number)
            place = case.get("command") or case.get("tool") or case.get("path") or (case.get("arguments") or [""])[0]
            found = {"fault": fault, "signature": f"{fault}: {case['entry']} {place}", "case": case, "seconds": limit_s}
            self.worker = Worker()
        self.seconds.append((found["seconds"], number))
        self.entries[found.get("entry", "?")] += 1
        if found["fault"]:
            self.keep(number, found)

    def keep(self, number: int, found: dict[str, Any]) -> None:
        """Print a fault, and write its case to a file when it is the first of its kind."""
        kind = found["signature"]
        self.kinds[kind] += 1
        if self.kinds[kind] > 1:
            return
        case = found["case"]
        if self.given.smaller and "Traceback" in found["fault"]:
            small = self.worker.ask(200.0, case=case, smaller=kind, limit_s=self.given.limit)
            if small is None:
                self.worker.end()
                self.worker = Worker()
            else:
                case = small["case"]
        name = f"seed{self.given.seed}-{number}.json"
        (self.given.out / name).write_text(json.dumps({"kind": kind, "case": case, "fault": found["fault"]}, indent=1))
        print(f"{name}: {kind}\n  {json.dumps(case)[:700]}", flush=True)


def replay(file: Path, limit_s: float) -> int:
    """Ask a kept case again, with what is wrong."""
    import fuzz_worker

    case = json.loads(file.read_text())
    fault = fuzz_worker.fault_of(case.get("case", case), limit_s)
    print(fault or "nothing wrong")
    return 1 if fault else 0


def main() -> int:
    """Run the cases that are asked for; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after so long; 0: after the cases")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of a case")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder for cases that fail")
    parser.add_argument("--no-smaller", dest="smaller", action="store_false", help="keep failing cases as they are")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="one kept case, with what is wrong")
    given = parser.parse_args()
    if given.replay is not None:
        return replay(given.replay, given.limit)
    given.out.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}", flush=True)
    run, begun = Run(given), time.monotonic()
    numbers = range(given.first, given.first + (10**9 if given.minutes else given.cases))
    try:
        for number in numbers:
            if given.minutes and time.monotonic() - begun > 60 * given.minutes:
                break
            run.one(number)
            if len(run.seconds) % 500 == 0:
                rate = len(run.seconds) / (time.monotonic() - begun)
                print(f"{len(run.seconds):,} cases, {rate:.1f} a second", file=sys.stderr, flush=True)
    finally:
        run.worker.end()
    slowest = ", ".join(f"{number} ({seconds:.0f} s)" for seconds, number in sorted(run.seconds, reverse=True)[:5])
    entries = ", ".join(f"{name} {count:,}" for name, count in sorted(run.entries.items()))
    print(
        f"seed {given.seed}: {len(run.seconds):,} cases ({entries}), "
        f"{run.kinds.total()} faults of {len(run.kinds)} kinds; slowest: {slowest}"
    )
    for kind, count in run.kinds.most_common():
        print(f"  {count:>5} {kind}")
    return 1 if run.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
