"""Text to SQL by agents: schema linking, candidates, revisions, unit tests and evaluation of each question.

Without a file a question goes through the usual stages, with generated tokens, schemas and revisions drawn as the
published traces have them; with one, each problem follows one trace: calls in order, of which the candidates and the
evaluations run side by side, and each other stage waits for the one before.

Prompts of a stage begin with its template, which is the same for all questions, so that an engine with prefix caching
computes it once an instance. Behind it stands the schema, whose tables and columns are shuffled anew for each candidate
and each revision, so that those share nothing more; evaluations of a question share schema, question and candidates,
and differ in the unit test alone. A question that is asked again (`repeats`) has the same prompts, word for word.

Source: HexGen-Flow (Peng et al. 2025, arXiv 2505.05286), section 2 (CHESS's stages, which run side by side), templates
and traces of its code (github Relaxed-System-Lab/Hexgen-Flow); what prompts share: CHESS (github ShayanTalaei/CHESS,
`generate_schema_string` shuffles, `evaluate` builds one schema for all tests). Whether the SQL is right is not known:
accuracy is not stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Ints
from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.files import reading
from windtunnel.files.parsing import json_of
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.techniques.base import Knob

STAGE_DRAWS = 47
"""Stream of random numbers."""
Trace = list[tuple[str, int, int]]
CANDIDATE, EVALUATE = "generate_candidate_llama-agent", "evaluate"
SIDE_BY_SIDE = (CANDIDATE, EVALUATE)
"""Stages whose calls run at once."""
RETRIEVE, KEYWORDS, REVISE = "Information Retriever", "extract_keywords", "revise"
TESTER, TESTS = "unit_tester", "generate_unit_test"
SHORT = CANDIDATE + " 2"
"""Candidates of the second template: the later half of a question's."""
TEMPLATES = {
    RETRIEVE: 300,
    KEYWORDS: 583,
    CANDIDATE: 9099,
    SHORT: 5243,
    REVISE: 2859,
    TESTER: 270,
    TESTS: 364,
    EVALUATE: 202,
}
"""Tokens of each stage's prompt up to the first that differs between questions: the code's `TEMPLATE_TOKENS` by the
template's characters in front of schema or question; of both agents, whose prompts name no question, all but the last
token of the shortest in the traces."""
_TEMPLATE_ENDS = {CANDIDATE: 59, SHORT: 49, REVISE: 200}
"""Tokens of a template behind the schema and around what is filled in."""
_AFTER_THE_TEST = 25
"""Tokens of the template of evaluations behind the unit test."""
CANDIDATE_TOKENS = (825.5, 533.7)
"""Mean generated tokens of both candidates."""
STAGES: tuple[tuple[str, int, int, int], ...] = (
    (RETRIEVE, 1, 301, 7),
    (KEYWORDS, 1, 669, 44),
    (RETRIEVE, 3, 308, 7),
    (CANDIDATE, 2, 0, 0),
    (REVISE, 0, 0, 82),
    (TESTER, 1, 271, 5),
    (TESTS, 1, 1110, 102),
    (TESTER, 1, 275, 5),
    (EVALUATE, 5, 960, 30),
    (TESTER, 1, 278, 5),
)
"""Stage, calls, mean prompt and mean generated tokens of a usual question (trace 1). Prompts of candidates and
revisions are their template and the schema; how often a question is revised is drawn."""
_REVISED_QUERY = 125
"""Tokens of the query and its result that a revision reads (trace 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a call's prompt is made of, in tokens."""

    template: str
    """Stage whose template it begins with; empty: none."""
    shared: int = 0
    """Behind it, what all such calls of the question have in common."""
    own: int
    """Behind both."""
    output: int


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """Each problem follows one trace: the file's in turn, or one of those drawn."""
    of, known = followed(work, knobs)
    ends = np.full(len(of), NONE, np.int64)
    divided = [prompts(one, templates=knobs["templates"]) for one in known]
    longest = max(len(one) for one in divided)
    texts = _Texts(graph, of if knobs["repeats"] else None, templates=knobs["templates"])
    before = np.full((len(of), 1), NONE, np.int64)
    for s in range(longest):
        wide = max(len(one[s]) for one in divided if len(one) > s)
        now = np.full((len(of), wide), NONE, np.int64)
        for k in range(wide):
            on = np.flatnonzero([len(divided[t]) > s and len(divided[t][s]) > k for t in of])
            parts = [divided[of[q]][s][k] for q in on]
            found = [texts.before(int(q), (s, k), part) for q, part in zip(on, parts, strict=True)]
            now[on, k] = graph.call(
                work.problems[on],
                context=np.array([context for context, _ in found], np.int64),
                new=np.array([new for _, new in found], np.int64),
                output=np.array([part.output for part in parts], np.int64),
                after=before[on] if s else None,
            )
        going = (now >= 0).any(1)
        ends[going] = graph.join(work.problems[going], after=now[going]) if wide > 1 else now[going, 0]
        before = now
    return Built(ends=ends)


def followed(work: Workload, knobs: Knobs) -> tuple[Ints, list[Trace]]:
    """(P,) which trace each problem follows, and the traces, no two of them equal where questions repeat."""
    if not knobs["file"]:
        drawn = knobs["distinct"] or len(work.problems)
        known, random = usual(work, knobs, drawn), work.random(STAGE_DRAWS)
        return random.integers(0, drawn, len(work.problems)) if knobs["distinct"] else np.arange(drawn), known
    known = read(work.folder / knobs["file"], knobs["trace"])
    of = np.arange(len(work.problems)) % len(known)
    if knobs["repeats"]:
        places = {tuple(one): at for at, one in reversed(list(enumerate(known)))}
        of = np.array([places[tuple(known[t])] for t in of], np.int64)
    return of, known


class _Texts:
    """Texts that prompts go on from, each added once."""

    def __init__(self, graph: ProgramGraph, of: Ints | None, *, templates: bool) -> None:
        self.graph, self.of = graph, of
        self.known: dict[tuple[Any, ...], int] = {}
        self.templates = {name: graph.shared_text(tokens) for name, tokens in TEMPLATES.items() if templates}

    def before(self, program: int, place: tuple[int, int], part: Prompt) -> tuple[int, int]:
        """Node of the text that a prompt goes on from, and the tokens behind it.

        Args:
            program: that asks.
            place: of the call in its trace.
            part: what the prompt is made of.
        """
        question = program if self.of is None else int(self.of[program])
        context = self.templates.get(part.template, NONE)
        if part.shared:
            context = self._text(program, (question, part.template), part.shared, context)
        if self.of is None or part.own < 2:
            return context, part.own
        return self._text(program, (question, *place), part.own - 1, context), 1

    def _text(self, program: int, key: tuple[Any, ...], tokens: int, context: int) -> int:
        if key not in self.known:
            self.known[key] = int(self.graph.text(np.array([program]), tokens, context=context)[0])
        return self.known[key]


def prompts(trace: Trace, *, templates: bool) -> list[list[Prompt]]:
    """Calls of a trace, those that run at once together, divided into what they share and what they do not.

    Args:
        trace: of one question.
        templates: whether prompts of a stage begin alike; else every token is a call's own.
    """
    divided = groups(trace)
    tests = [made for name, _, made in trace if name == TESTS]
    out = []
    for calls in divided:
        shortest = min(size for _, size, _ in calls)
        part = []
        for k, (name, size, made) in enumerate(calls):
            stage = SHORT if name == CANDIDATE and 2 * k >= len(calls) > 1 else name
            begin = TEMPLATES.get(stage, 0) if templates else 0
            if not 0 < begin < size:
                part.append(Prompt(template="", own=size, output=made))
                continue
            shared = 0
            if name == EVALUATE:
                test = tests[-1] // len(calls) if tests else 0
                shared = max(shortest - begin - test - _AFTER_THE_TEST, 0)
            part.append(Prompt(template=stage, shared=shared, own=size - begin - shared, output=made))
        out.append(part)
    return out


def usual(work: Workload, knobs: Knobs, count: int) -> list[Trace]:
    """So many traces: stages with tokens about their means, and as many revisions as drawn."""
    random = work.random(STAGE_DRAWS)
    out = []
    for _ in range(count):
        schema = max(round(knobs["schema_tokens"] * _about_one(random, knobs["schema_cv"])), 1)
        trace: Trace = []
        for name, calls, prompt, made in STAGES:
            for k in range(int(random.integers(0, 2 * knobs["revisions"] + 1)) if name == REVISE else calls):
                size, mean = prompt, float(made)
                if name == CANDIDATE:
                    stage = SHORT if k else CANDIDATE
                    size, mean = TEMPLATES[stage] + _TEMPLATE_ENDS[stage] + schema, CANDIDATE_TOKENS[k]
                elif name == REVISE:
                    size = TEMPLATES[REVISE] + _TEMPLATE_ENDS[REVISE] + schema + _REVISED_QUERY
                trace.append((name, size, max(round(mean * _about_one(random, knobs["cv"])), 1)))
        out.append(trace)
    return out


def _about_one(random: Generator, cv: float) -> float:
    """A lognormal draw of mean 1."""
    spread = float(np.sqrt(np.log1p(cv**2)))
    return float(np.exp(random.normal(-(spread**2) / 2, spread))) if cv else 1.0


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
        loaded: Any = json_of(reading.read_text(path, field))
    except ValueError as error:
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
    """A trace is of a file, and a file says itself how many questions differ."""
    if knobs["trace"] and not knobs["file"]:
        problems.add(f"{field}.trace", knobs["trace"], "goes with file")
    if knobs["distinct"] and knobs["file"]:
        problems.add(f"{field}.distinct", knobs["distinct"], "goes without file")


STRATEGIES.add(
    "text_to_sql",
    Strategy(
        id="text_to_sql",
        summary="agents that link schemas, write, revise and test SQL, by a trace file or usual stages",
        build=build,
        knobs={
            "file": Knob("", doc="JSON file of traces; absent: the usual stages"),
            "cv": Knob(0.5, 0.0, 10.0, doc="without a file: standard deviation over mean of generated tokens"),
            "distinct": Knob(0, 0, 10_000_000, doc="without a file: how many questions differ; 0: all"),
            "repeats": Knob(False, doc="whether problems of equal traces ask the same, word for word"),
            "revisions": Knob(4, 0, 1000, doc="without a file: mean revisions; drawn evenly from 0 to twice as many"),
            "schema_tokens": Knob(2775, 1, 10_000_000, doc="without a file: mean tokens of schema and question"),
            "schema_cv": Knob(0.06, 0.0, 10.0, doc="without a file: their standard deviation over their mean"),
            "templates": Knob(True, doc="whether prompts of a stage begin with the same template"),
            "trace": Knob("", doc="name of one of the file's traces; absent: all"),
        },
        check=check,
        samples=lambda _: 1,
        source="Peng et al. 2025, HexGen-Flow (arXiv 2505.05286)",
    ),
)
