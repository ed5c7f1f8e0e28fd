"""Nodes of a graph that a scenario draws by itself: `programs.strategy: {graph: {nodes: [...]}}`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Seconds, Spec
from windtunnel.specs.lengths import Lengths

NodeKind = Literal["call", "tool", "retrieve", "score", "join", "branch", "loop"]
CALLS, TOOLS = ("call", "score"), ("tool", "retrieve")
JUDGES = ("score", *TOOLS)
Chance = Annotated[float, Field(ge=0, le=1)]
Choice = Literal["", "accepted", "checker", "majority", "score", "random"]

_READ_BY: dict[str, tuple[str, ...]] = {
    "context": CALLS,
    "input_tokens": CALLS,
    "output_tokens": CALLS,
    "model": ("call",),
    "keep_s": CALLS,
    "reuse": CALLS,
    "delay_s": CALLS,
    "delay_distribution": CALLS,
    "tool": TOOLS,
    "seconds": TOOLS,
    "result_tokens": TOOLS,
    "repeat": (*CALLS, *TOOLS),
    "off_peak": ("call",),
    "attempt": ("call",),
    "worth": ("call",),
    "of": JUDGES,
    "probability": ("branch",),
    "otherwise": ("branch",),
    "accepted": ("branch",),
    "rejected": ("branch", "loop"),
    "times": ("loop",),
    "nodes": ("loop",),
    "needs": (*TOOLS, "join"),
    "cancels": ("join",),
    "choose": ("join",),
    "early": ("join",),
}
"""Field → kinds of nodes that read it."""


class GraphNode(Spec):
    """One node of every program. Nodes may be listed in any order."""

    id: str = Field(min_length=1)
    """Name of the node, which others refer to."""
    kind: NodeKind = "call"
    """What the node does."""
    after: tuple[str, ...] = ()
    """Nodes that it waits for; absent: it begins with the program. It is left out of a program where a branch that it
    names is not taken, or where everything that it names is left out."""
    context: Literal["history", "fresh", "joined"] = "history"
    """What a call's prompt begins with. `history`: all that the first of `after` has seen and said, then the answers of
    the others; `fresh`: the problem, then the answers of `after`; `joined`: what the first of `after` itself went on
    from, then the answers of all of `after`, as a parent goes on with what its children found."""
    input_tokens: int | Lengths = 0
    """Tokens that the caller adds behind that."""
    output_tokens: Count | Lengths | None = None
    """Tokens of the answer; absent: as those of an attempt (`programs.output_tokens`), of a score as the verifier's."""
    model: str = "answers"
    """Whose instances serve a call: `answers`, `verifier`, or an entry of `programs.roles`; a score goes to the
    verifier."""
    off_peak: bool = False
    """Whether a call is made beforehand, while devices are idle: its answer stands in front of the problem in every
    prompt, and nothing waits for it."""
    attempt: bool = False
    """Whether the answer is an attempt at the problem: right as often as the population says."""
    worth: float = Field(default=1.0, ge=0, le=1000)
    """Of an attempt: fresh attempts that it is worth (above 1 behind feedback, 0: it is never right)."""
    of: str = ""
    """Attempt that a score or a tool judges; absent: for a score the first attempt of `after`, for a tool none. A score
    accepts by the verifier's rates, a tool by those of `programs.tools` (without any it makes no error)."""
    delay_s: Seconds = 0.0
    """Mean seconds between the end of `after` and the call: tools of which nothing else is known."""
    delay_distribution: Literal["fixed", "exponential"] = "exponential"
    """How its delay is distributed."""
    keep_s: Seconds | None = None
    """How long the KV blocks of a call are held for the next one; absent: as `programs.pause` says."""
    reuse: bool = False
    """Whether the KV of joined answers is taken over instead of computed again."""
    tool: str = ""
    """Entry of `programs.tools` that gives seconds, concurrency and tokens of a result."""
    seconds: Seconds | None = None
    """Seconds of a tool that `programs.tools` does not have."""
    result_tokens: int | Lengths | None = None
    """Tokens that a tool's result adds to the next prompt; absent: as the tool says."""
    repeat: int = Field(default=1, gt=0, le=1000)
    """Such nodes in a row, each going on from the one before."""
    probability: Chance = 1.0
    """Share of programs in which a branch is taken."""
    otherwise: str = ""
    """Another branch: this one is taken where that one is not."""
    accepted: tuple[str, ...] = ()
    """Judges of `after`: a branch is taken where one of them accepts."""
    rejected: tuple[str, ...] = ()
    """Judges: a branch is taken where all of `after` that it names reject; a loop goes round again where all of its own
    nodes that it names do."""
    times: int = Field(default=1, gt=0, le=1000)
    """How often a loop goes round at most."""
    nodes: tuple[GraphNode, ...] = ()
    """What a loop goes round: nodes that name each other, or what was before the loop. Those that wait for nothing
    begin when the loop does, and then when the round before is over."""
    needs: int = Field(default=0, ge=0)
    """How many of `after` must be over; 0: all."""
    cancels: tuple[str, ...] = ()
    """Nodes that are stopped when a join is over; in the graph's order they must follow each other."""
    choose: Choice = ""
    """Which of `after` (attempts, or judges of attempts) a join hands on: one that was `accepted`, one that is right
    (`checker`), the most frequent answer (`majority`), the highest score, or one at `random`. Absent: all of them."""
    early: bool = False
    """Whether a join is over as soon as its choice is settled: one accepted, one right, or more than half of all votes.
    What comes goes on from where the attempts began."""

    @model_validator(mode="after")
    def _fits(self) -> GraphNode:
        problems = []
        for name, kinds in _READ_BY.items():
            if name in self.model_fields_set and self.kind not in kinds:
                rule = f"is read by kind {' and '.join(kinds)} alone; this is kind {self.kind}"
                problems.append(Problem(name, rule, getattr(self, name)))
        if self.kind in ("join", "score") and not self.after:
            what = "a join" if self.kind == "join" else "a score"
            problems.append(Problem("after", f"is required: {what} waits for at least one node"))
        if self.kind in TOOLS and bool(self.tool) == (self.seconds is not None):
            problems.append(Problem("tool", "or seconds is required, and not both"))
        if self.needs > len(self.after):
            problems.append(Problem("needs", f"must be at most {len(self.after)}, the nodes of after", self.needs))
        if len(set(self.after)) < len(self.after):
            problems.append(Problem("after", "names a node twice", list(self.after)))
        ways = [n for n in ("probability", "otherwise", "accepted", "rejected") if n in self.model_fields_set]
        if self.kind == "branch" and len(ways) > 1:
            problems.append(Problem(ways[0], f"and {ways[1]} exclude each other"))
        problems += self._of_outcomes()
        for name in ("input_tokens", "result_tokens"):
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                problems.append(Problem(name, "must not be negative", value))
        if problems:
            raise Inconsistent(problems)
        return self

    def _of_outcomes(self) -> list[Problem]:
        """What is wrong with attempts, judges, choices and rounds."""
        problems = []
        for name in ("accepted", "rejected"):
            for judge in getattr(self, name):
                if self.kind == "branch" and judge not in self.after:
                    problems.append(Problem(name, "must be among after: a branch waits for what it asks", judge))
        if self.kind == "loop" and not self.nodes:
            problems.append(Problem("nodes", "is required: a loop goes round at least one node"))
        if self.kind == "loop" and self.times > 1 and not self.rejected:
            problems.append(Problem("rejected", "is required by times: which judges send a loop round again"))
        if self.worth != 1.0 and not self.attempt:
            problems.append(Problem("worth", "goes with attempt: true", self.worth))
        if self.off_peak:
            unread = [n for n in ("after", "attempt", "repeat", "model") if n in self.model_fields_set]
            problems += [Problem(n, "does not go with off_peak", getattr(self, n)) for n in unread]
        if self.of and self.of not in self.after:
            problems.append(Problem("of", "must be among after: a judge waits for what it judges", self.of))
        if self.early and self.choose not in ("accepted", "checker", "majority"):
            problems.append(Problem("early", "goes with choose: accepted, checker or majority", self.early))
        if self.early and self.needs:
            problems.append(Problem("needs", "and early exclude each other", self.needs))
        return problems
