"""Damaged input over every verb: no internal error, bounded memory, no silence. `make fuzz`, or see `--help`.

Each case follows from its seed alone. Results are appended to a file as they come; a run that is started again goes on
from them. `--replay SEED` shows one case, with its files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fixtures")]
GRACE_S = 15.0
"""Between a case's limit and the end of a process that does not notice it."""
CASES_A_PROCESS = 400
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
        self._process.stdout.readline()  # it has made what cases start from

    def run(self, seed: int, limit_s: float) -> dict[str, Any] | None:
        """The result of a case, or None where the process ended or had to be ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{seed} {limit_s}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([self._process.stdout], [], [], limit_s + GRACE_S)
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


def results(seeds: list[int], limit_s: float) -> Iterator[dict[str, Any]]:
    """Results of cases, in order."""
    import fuzz_cases

    worker = Worker()
    try:
        for seed in seeds:
            begin = time.monotonic()
            found = worker.run(seed, limit_s)
            if found is None:
                code = worker.end()
                case = fuzz_cases.case(seed)
                fault = f"ended the process: status {code}" if code is not None else "did not end, nor notice its limit"
                found = {
                    "seed": seed,
                    "arguments": list(case.arguments),
                    "told": case.told,
                    "code": None,
                    "seconds": round(time.monotonic() - begin, 1),
                    "fault": fault,
                }
                worker = Worker()
            elif worker.done >= CASES_A_PROCESS:
                worker.end()
                worker = Worker()
            yield found
    finally:
        worker.end()


def replay(seed: int, folder: Path | None) -> None:
    """Run one case here, with what it prints; keep its files in a folder."""
    import fuzz_cases
    import fuzz_worker

    case = fuzz_cases.case(seed)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        case.write(folder)
        print(f"files in {folder}")
    print("windtunnel", " ".join(case.arguments), " #", case.told)
    os.environ["WINDTUNNEL_DEBUG"] = "1"
    found = fuzz_worker.run_case(seed, 120.0)
    print(f"exit {found['code']} after {found['seconds']} s; {found['fault'] or 'nothing wrong'}")


def seeds_of(first: int, count: int, verb: str | None) -> list[int]:
    """So many seeds from the first on, of all cases or of those of one verb."""
    import fuzz_cases

    if verb is None:
        return list(range(first, first + count))
    own = (seed for seed in itertools.count(first) if fuzz_cases.case(seed).arguments[0] == verb)
    return list(itertools.islice(own, count))


def last_line(text: str, most: int) -> str:
    """The last line of a text, cut to a length."""
    return text.strip().splitlines()[-1][:most]


def main() -> int:
    """Run the cases that are asked for; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--verb", help="only cases of this verb")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a case")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz.jsonl"), help="results; a run goes on from them")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one case, with what it prints")
    parser.add_argument("--folder", type=Path, help="with --replay: keep its files here")
    given = parser.parse_args()
    if given.replay is not None:
        replay(given.replay, given.folder)
        return 0
    given.out.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    wanted = seeds_of(given.first, given.cases, given.verb)
    known = [one for one in known if one["seed"] in wanted]
    had = {one["seed"] for one in known}
    warm = "from windtunnel.cli.main import run; raise SystemExit(run(['doctor', '--warm', '--json']))"
    subprocess.run([sys.executable, "-c", warm], check=True, stdout=subprocess.DEVNULL)
    begin = last = time.monotonic()
    with given.out.open("a", encoding="utf-8") as file:
        for count, one in enumerate(results([s for s in wanted if s not in had], given.limit), 1):
            file.write(json.dumps(one) + "\n")
            file.flush()
            known.append(one)
            if one["fault"]:
                print(f"seed {one['seed']}: windtunnel {' '.join(one['arguments'])}  # {one['told'][:200]}")
                print(f"  {last_line(one['fault'], 300)}", flush=True)
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(
                    f"{count + len(had):,} of {given.cases:,}, {count / (last - begin):.1f} a second",
                    file=sys.stderr,
                    flush=True,
                )
    codes = dict(sorted(Counter(one["code"] for one in known).items(), key=str))
    faults = [one for one in known if one["fault"]]
    slowest = max((one["seconds"] for one in known), default=0.0)
    print(f"{len(known):,} cases, {len(faults)} faults; exit codes {codes}; slowest {slowest:.0f} s")
    for one in faults:
        print(f"  fuzz_run.py --replay {one['seed']}  # {one['arguments'][0]}: {last_line(one['fault'], 160)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
