"""Text to SQL by agents: schema linking, candidates, revisions, unit tests and evaluation of each question.

Without a file a question goes through the usual stages, with generated tokens and revisions drawn about their means;
with one, each problem follows one trace: calls in order, of which the candidates and the evaluations run side by side,
and each other stage waits for the one before.

Source: HexGen-Flow (Peng et al. 2025, arXiv 2505.05286), section 2 (CHESS's stages, which run side by side), and the
stages' mean tokens of its published trace 1 (github Relaxed-System-Lab/Hexgen-Flow). Whether the SQL is right is not
known: accuracy is not stated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

STAGE_DRAWS = 47
"""Stream of random numbers."""
Trace = list[tuple[str, int, int]]
SIDE_BY_SIDE = ("generate_candidate_llama-agent", "evaluate")
"""Stages whose calls run at once."""
RETRIEVE, KEYWORDS, REVISE = "Information Retriever", "extract_keywords", "revise"
TESTER, TESTS = "unit_tester", "generate_unit_test"
STAGES: tuple[tuple[str, int, int, int], ...] = (
    (RETRIEVE, 1, 306, 7),
    (KEYWORDS, 1, 669, 44),
    (RETRIEVE, 3, 306, 7),
    (SIDE_BY_SIDE[0], 2, 10_000, 680),
    (REVISE, 4, 5954, 82),
    (TESTER, 1, 275, 5),
    (TESTS, 1, 1110, 102),
    (TESTER, 1, 275, 5),
    (SIDE_BY_SIDE[1], 5, 960, 30),
    (TESTER, 1, 275, 5),
)
"""Stage, calls, mean prompt and mean generated tokens of a usual question."""


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Each problem follows one trace, the file's in turn."""
    known = read(work.folder / knobs["file"], knobs["trace"]) if knobs["file"] else usual(work, knobs["cv"])
    of = np.arange(len(work.problems)) % len(known)
    ends = np.full(len(of), NONE, np.int64)
    longest = max(len(groups(one)) for one in known)
    divided = [groups(one) for one in known]
    before = np.full((len(of), 1), NONE, np.int64)
    for s in range(longest):
        wide = max(len(one[s]) for one in divided if len(one) > s)
        now = np.full((len(of), wide), NONE, np.int64)
        for k in range(wide):
            on = np.flatnonzero([len(divided[t]) > s and len(divided[t][s]) > k for t in of])
            calls = [divided[of[q]][s][k] for q in on]
            now[on, k] = graph.call(
                work.problems[on],
                new=np.array([c[1] for c in calls], np.int64),
                output=np.array([c[2] for c in calls], np.int64),
                after=before[on] if s else None,
            )
        going = (now >= 0).any(1)
        ends[going] = graph.join(work.problems[going], after=now[going]) if wide > 1 else now[going, 0]
        before = now
    return Built(ends=ends)


def usual(work: Workload, cv: float) -> list[Trace]:
    """A trace of each problem: stages with generated tokens about their means, and as many revisions as drawn."""
    random, spread = work.random(STAGE_DRAWS), np.sqrt(np.log1p(cv**2))
    out = []
    for _ in work.problems:
        trace: Trace = []
        for name, calls, prompt, made in STAGES:
            count = int(random.poisson(calls)) if name == REVISE else calls
            tokens = made * np.exp(random.normal(-(spread**2) / 2, spread, count)) if cv else np.full(count, made)
            trace += [(name, prompt, max(round(t), 1)) for t in tokens.tolist()]
        out.append(trace)
    return out


def groups(trace: Trace) -> list[Trace]:
    """Calls that run at once, in order: all of a side-by-side stage in a row, each other call by itself."""
    out: list[Trace] = []
    for call in trace:
        if out and call[0] in SIDE_BY_SIDE and out[-1][0][0] == call[0]:
            out[-1].append(call)
        else:
            out.append([call])
    return out


def read(path: Path, name: str) -> list[Trace]:
    """Traces of a JSON file: a list of records with `name` and `traces`, or one of them.

    `traces[q]` is a list of [stage, prompt tokens, generated tokens].

    Raises:
        BadInput: the file cannot be read, has no such record, or holds something else.
    """
    field = "programs.strategy.text_to_sql.file"
    try:
        loaded: Any = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInput(Problem(field, f"cannot be read: {error}", str(path))) from None
    records = loaded if isinstance(loaded, list) else [loaded]
    known = [r for r in records if isinstance(r, dict) and "traces" in r]
    own = [r for r in known if not name or r.get("name") == name]
    if not own:
        names = ", ".join(str(r.get("name", "")) for r in known) or "none"
        raise BadInput(Problem("programs.strategy.text_to_sql.trace", f"must be one of {names}", name))
    try:
        found = [[(str(s), int(i), int(o)) for s, i, o in one] for r in own for one in r["traces"]]
    except (TypeError, ValueError):
        raise BadInput(Problem(field, "traces must be lists of [stage, prompt tokens, generated tokens]")) from None
    if not found or not all(found) or any(i < 1 or o < 1 for one in found for _, i, o in one):
        raise BadInput(Problem(field, "must hold traces of at least one call, each of at least one token"))
    return found


def check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    """A trace is of a file."""
    if knobs["trace"] and not knobs["file"]:
        problems.add(f"{field}.trace", knobs["trace"], "goes with file")


STRATEGIES.add(
    "text_to_sql",
    Strategy(
        id="text_to_sql",
        summary="agents that link schemas, write, revise and test SQL, by a trace file or usual stages",
        build=build,
        knobs={
            "file": Knob("", doc="JSON file of traces; absent: the usual stages"),
            "cv": Knob(0.5, 0.0, 10.0, doc="without a file: standard deviation over mean of generated tokens"),
            "trace": Knob("", doc="name of one of the file's traces; absent: all"),
        },
        check=check,
        samples=lambda _: 1,
        source="Peng et al. 2025, HexGen-Flow (arXiv 2505.05286)",
    ),
)
