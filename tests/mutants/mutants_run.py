"""Damage the product, one mutant at a time, and run the tests that execute the damaged line: which mutants live?

    python tests/mutants/mutants_run.py --mutants 300 --seed 29 --minutes 60

Sites are drawn by the seed among the lines that tests execute, then one operator a line. For each mutant the tests that
execute its line run, those of the mirroring folder first, fastest first, until one fails or the seconds for a mutant
are spent. A test that fails although nothing is damaged does not count. A time-out counts as alive. Outcomes are kept
in `out/mutants/SEED.jsonl`; a run that was stopped goes on where it was, and mutants that lived are tried again
with new tests.

Exit code: 0 at most `--bar` of the mutants live, 1 more live, 2 there is no index of executed lines yet.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mutant_child
import mutant_index
import yaml
from mutant_import import PACKAGE
from mutant_index import ROOT, Index
from mutant_sites import Site, apply, sites

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
WORKSHOP = ("papers/", "reproduce/", "validation/fit/", "validation/accuracy/", "validation/planner_vs_published/")
"""Folders below the package that serve the project's own pages and no command of a user."""
NUMBERS = "tests/golden/test_defaults_golden.py::test_numbers_of_the_source_are_the_stored_ones"
"""Reads constants and defaults in a process of its own, where no line that it executes is recorded."""
FIRST = 10
"""Tests of a mutant that run before the files of any others are collected."""
FEW = 40
"""Mutants with fewer executing tests get tests of the same file as well: results are cached between tests."""


@dataclass
class Mutant:
    """A drawn site, its tests, and what came of it.

    Attributes:
        site: what is damaged.
        before, after: the statement's text.
        tests: node ids, first ones first.
        seconds: what the tests take undamaged.
        digest: hash of the tests and their files.
        outcome: `killed`, `alive`, `timeout`, `equivalent` or `untested`.
        by: the test that failed.
    """

    site: Site
    before: str
    after: str
    tests: list[str] = field(default_factory=list)
    seconds: float = 0.0
    digest: str = ""
    outcome: str = ""
    by: str = ""

    @property
    def key(self) -> str:
        """What tells it apart from others, lines aside."""
        site = self.site
        return f"{site.file}|{site.unit}|{site.operator}|{site.node}|{site.variant}|{self.before}"


# -- drawing


class Drawing:
    """Sites of the current tree that tests execute, and the tests of each."""

    def __init__(self, index: Path, budget_s: float) -> None:
        self._budget_s = budget_s
        self._patterns = mutant_index.jitted_patterns()
        self._indexes = {jit: Index(index, jit) for jit in (True, False)}
        self.executed = any(index.tests for index in self._indexes.values())
        self._hashes: dict[str, dict[str, str]] = {}

    def _index(self, file: str) -> Index:
        return self._indexes[not mutant_index.is_jitted(file, self._patterns)]

    def _units(self, file: str) -> dict[str, str]:
        if file not in self._hashes:
            self._hashes[file] = mutant_index.unit_hashes((PACKAGE / file).read_text("utf-8"))
        return self._hashes[file]

    def is_executed(self, site: Site) -> bool:
        """Whether a test executes a site's line; a line at module level: anything of its file."""
        index, units = self._index(site.file), self._units(site.file)
        if site.unit:
            return bool(index.of_segment(site.file, site.unit, units[site.unit], site.segment))
        return bool(index.of_file(site.file, units))

    def draw(self, count: int, seed: int, only: str = "") -> list[Mutant]:
        """Mutants on lines drawn by a seed, each with one operator of its line."""
        generator = random.Random(seed)
        found: dict[tuple[str, int], list[Site]] = defaultdict(list)
        for path in sorted(PACKAGE.rglob("*.py")):
            file = str(path.relative_to(PACKAGE))
            if not file.startswith(WORKSHOP) and file.startswith(tuple(only.split(","))):
                for site in sites(file, path.read_text("utf-8")):
                    found[file, site.line].append(site)
        lines = sorted(found)
        generator.shuffle(lines)
        drawn: list[Mutant] = []
        for line in lines:
            by_operator = defaultdict(list)
            for site in found[line]:
                by_operator[site.operator].append(site)
            site = generator.choice(by_operator[generator.choice(sorted(by_operator))])
            if self.is_executed(site):
                drawn.append(self.mutant(site))
            if len(drawn) == count:
                break
        return drawn

    def mutant(self, site: Site) -> Mutant:
        """A site with its texts and its tests within the budget."""
        before, after = apply(ast.parse((PACKAGE / site.file).read_bytes()), site)
        mutant = Mutant(site, before, after)
        index, units = self._index(site.file), self._units(site.file)
        own = index.of_segment(site.file, site.unit, units[site.unit], site.segment) if site.unit else set()
        others = index.of_file(site.file, units) - own if len(own) < FEW else set()
        files: set[str] = set()
        for test in [*_ordered(index, own, site.file), *_ordered(index, others, site.file)]:
            cost = test.seconds + (0.1 if test.file not in files else 0.0)
            if mutant.seconds + cost <= self._budget_s or not mutant.tests:
                files.add(test.file)
                mutant.tests.append(test.id)
                mutant.seconds += cost
        if site.segment < 0 or site.file.startswith("techniques/"):
            mutant.tests.append(NUMBERS)
            mutant.seconds += 10.0
        mutant.digest = _digest(mutant.tests)
        return mutant


def _digest(tests: list[str]) -> str:
    """Hash of tests and the content of their files."""
    files = sorted({test.split("::")[0] for test in tests})
    content = [*tests, *(mutant_index.file_hash(ROOT / file) for file in files)]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def _ordered(index: Index, tests: set[int], file: str) -> list[mutant_index.Recorded]:
    """Tests of the mirroring folder first, then fastest first."""
    mirror = "tests/unit/" + file.split("/", maxsplit=1)[0].removesuffix(".py")

    def rank(test: mutant_index.Recorded) -> tuple[float, str]:
        return (test.seconds * (0.2 if test.file.startswith(mirror) else 1.0), test.id)

    return sorted((index.tests[each] for each in tests), key=rank)


def _equivalents() -> list[dict[str, str]]:
    return yaml.safe_load(EQUIVALENT.read_text("utf-8")) or []


def is_equivalent(mutant: Mutant, listed: list[dict[str, str]]) -> bool:
    """Whether the committed list has a mutant."""
    return any(
        mutant.site.file == each["file"]
        and mutant.site.unit == each["unit"]
        and mutant.before.startswith(each["before"])
        and mutant.after.startswith(each["after"])
        for each in listed
    )


# -- running


@dataclass
class _Running:
    mutant: Mutant
    kind: str
    """`mutant`, or `check`: the test that failed, undamaged."""
    test: str
    out: Path
    temporary: Path
    deadline: float


class Pool:
    """Tries mutants in forked processes, several at a time."""

    def __init__(self, jobs: int, patterns: tuple[str, ...]) -> None:
        self._jobs = jobs
        self._patterns = patterns
        self._running: dict[int, _Running] = {}
        self._passes: dict[tuple[str, bool], bool] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._count = 0

    def outcomes(self, mutants: list[Mutant], stop_at: float) -> Iterator[Mutant]:
        """Mutants as their outcomes are known; none are begun after a time."""
        waiting = list(reversed(mutants))
        try:
            while self._running or (waiting and time.monotonic() < stop_at):
                while waiting and len(self._running) < self._jobs and time.monotonic() < stop_at:
                    mutant = waiting.pop()
                    if mutant.tests:
                        self._start(mutant, "mutant", mutant.tests)
                    else:
                        mutant.outcome = "untested"
                        yield mutant
                yield from self._finished()
        finally:
            for pid in self._running:
                _kill(pid)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _jit(self, mutant: Mutant) -> bool:
        return not mutant_index.is_jitted(mutant.site.file, self._patterns)

    def _start(self, mutant: Mutant, kind: str, tests: list[str]) -> None:
        self._count += 1
        temporary = self._folder / str(self._count)
        temporary.mkdir(parents=True)
        out = self._folder / f"{self._count}.json"
        seconds = mutant.seconds if kind == "mutant" else 20.0
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            mutant_child.run_in_child(
                mutant.site if kind == "mutant" else None, batches(tests), self._jit(mutant), out, temporary
            )
        self._running[pid] = _Running(mutant, kind, tests[0], out, temporary, time.monotonic() + 40 + 4 * seconds)

    def _finished(self) -> Iterator[Mutant]:
        time.sleep(0.05)
        for pid, job in list(self._running.items()):
            done, _ = os.waitpid(pid, os.WNOHANG)
            late = time.monotonic() > job.deadline
            if done or late:
                _kill(pid)
                if not done:
                    os.waitpid(pid, 0)
                del self._running[pid]
                shutil.rmtree(job.temporary, ignore_errors=True)
                status = _read(job.out) if done else {"failed": "", "code": -1, "ran": 0}
                yield from self._take(job, status, late and not done)

    def _take(self, job: _Running, status: dict[str, Any], late: bool) -> Iterator[Mutant]:
        mutant = job.mutant
        if job.kind == "check":
            passes = not late and not status["failed"] and status["code"] == 0
            self._passes[job.test, self._jit(mutant)] = passes
            yield from self._judge_kill(mutant, job.test)
        elif late:
            mutant.outcome = "timeout"
            yield mutant
        elif status["failed"] or status["code"] not in (0, 5):
            yield from self._judge_kill(mutant, status["failed"] or f"exit code {status['code']}")
        else:
            mutant.outcome = "alive" if status["code"] == 0 else "untested"
            yield mutant

    def _judge_kill(self, mutant: Mutant, by: str) -> Iterator[Mutant]:
        """A kill counts when the test that failed passes undamaged; otherwise the other tests go on."""
        known = [id for id in mutant.tests if id == by or id.startswith(by + "::")]
        if not known:  # the process ended or nothing could be imported: the first test tells whether it is the damage
            known = mutant.tests
        passes = self._passes.get((known[0], self._jit(mutant)))
        if passes is None:
            self._start(mutant, "check", known[:1])
        elif passes:
            mutant.outcome, mutant.by = "killed", by
            yield mutant
        else:
            mutant.tests = [id for id in mutant.tests if id != known[0]]
            if mutant.tests:
                self._start(mutant, "mutant", mutant.tests)
            else:
                mutant.outcome = "untested"
                yield mutant


def batches(tests: list[str]) -> list[list[str]]:
    """Tests in runs of their own: most mutants die of the first few, and files of the others need no collection."""
    return [batch for batch in (tests[:FIRST], tests[FIRST : 5 * FIRST], tests[5 * FIRST :]) if batch]


def _kill(pid: int) -> None:
    for send in (os.killpg, os.kill):
        try:
            send(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {"failed": "", "code": -9, "ran": 0}


# -- the command


def main() -> int:
    """Draw, run, tell."""
    options = _options()
    drawing = Drawing(options.index, options.seconds)
    if not drawing.executed:
        print("There is no index of executed lines yet: make mutants-index", file=sys.stderr)
        return 2
    mutants = drawing.draw(options.mutants, options.seed, options.only)
    patterns = mutant_index.jitted_patterns()
    state = options.index.parent / f"{'-'.join(filter(None, [str(options.seed), *_folders(options.only)]))}.jsonl"
    if options.fresh:
        state.unlink(missing_ok=True)
    _restore(mutants, state)
    mutant_child.preload()
    todo = [mutant for mutant in mutants if not mutant.outcome]
    start = time.monotonic()
    for mutant in Pool(options.jobs, patterns).outcomes(todo, start + 60 * options.minutes):
        with state.open("a", encoding="utf-8") as file:
            kept = {"key": mutant.key, "outcome": mutant.outcome, "by": mutant.by, "tests": mutant.digest}
            file.write(json.dumps(kept) + "\n")
        done = sum(bool(each.outcome) for each in mutants)
        alive = sum(each.outcome in ("alive", "timeout") for each in mutants)
        where = f"{mutant.site.file}:{mutant.site.line}"
        minutes = (time.monotonic() - start) / 60
        print(f"{done}/{len(mutants)} {minutes:5.1f} min, {alive} live: {mutant.outcome} {where}", flush=True)
    return report(mutants, options.bar)


def report(mutants: list[Mutant], bar: float) -> int:
    """Print survivors and their share; 1 when more than a share of the mutants live."""
    counts = Counter(mutant.outcome or "not run" for mutant in mutants)
    live = [mutant for mutant in mutants if mutant.outcome in ("alive", "timeout", "untested")]
    for mutant in sorted(live, key=lambda mutant: (mutant.site.file, mutant.site.line)):
        site = mutant.site
        print(f"\n{mutant.outcome} · src/windtunnel/{site.file}:{site.line} · {site.unit} · {site.operator} · "
              f"{len(mutant.tests)} tests")  # fmt: skip
        print(f"  - {_short(mutant.before)}\n  + {_short(mutant.after)}")
    tried = len(live) + counts["killed"]
    share = len(live) / tried if tried else 0.0
    listed = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    print(f"\n{len(live)} of {tried} mutants live: {share:.1%} ({listed}; the bar is {bar:.0%})")
    return int(share > bar)


def _short(text: str, length: int = 400) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + " …"


def _folders(only: str) -> list[str]:
    return [each.strip("/").replace("/", "_") for each in only.split(",")]


def _restore(mutants: list[Mutant], state: Path) -> None:
    """Take outcomes of an earlier run; a mutant that lived is tried again when its tests are others now."""
    kept = {}
    if state.exists():
        for line in state.read_text("utf-8").splitlines():
            found = json.loads(line)
            kept[found["key"]] = found
    listed = _equivalents()
    for mutant in mutants:
        if is_equivalent(mutant, listed):
            mutant.outcome = "equivalent"
        elif (found := kept.get(mutant.key)) and (found["outcome"] == "killed" or found["tests"] == mutant.digest):
            mutant.outcome, mutant.by = found["outcome"], found["by"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300, help="how many to draw")
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--minutes", type=float, default=55.0, help="no mutant is begun after so long")
    parser.add_argument("--seconds", type=float, default=25.0, help="what a mutant's tests may take undamaged")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--bar", type=float, default=0.10, help="the share that may live")
    parser.add_argument("--only", default="", help="draw below folders of the package alone, such as network/,cost/")
    parser.add_argument("--index", type=Path, default=mutant_index.DATABASE, help="the database of executed lines")
    parser.add_argument("--fresh", action="store_true", help="forget outcomes of earlier runs with this seed")
    return parser.parse_args()


if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.exit(main())
