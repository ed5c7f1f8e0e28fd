"""Nodes of a graph that a scenario draws by itself: `programs.strategy: {graph: {nodes: [...]}}`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Seconds, Spec
from windtunnel.specs.lengths import Lengths

NodeKind = Literal["call", "tool", "retrieve", "score", "join", "branch"]
CALLS, TOOLS = ("call", "score"), ("tool", "retrieve")
Chance = Annotated[float, Field(ge=0, le=1)]

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
    "probability": ("branch",),
    "otherwise": ("branch",),
    "needs": (*TOOLS, "join"),
    "cancels": ("join",),
}
"""Field → kinds of nodes that read it."""


class GraphNode(Spec):
    """One node of every program. Nodes may be listed in any order."""

    id: str = Field(min_length=1)
    kind: NodeKind = "call"
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
    model: Literal["answers", "verifier"] = "answers"
    """Whose instances serve a call; a score goes to the verifier."""
    delay_s: Seconds = 0.0
    """Mean seconds between the end of `after` and the call: tools of which nothing else is known."""
    delay_distribution: Literal["fixed", "exponential"] = "exponential"
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
    needs: int = Field(default=0, ge=0)
    """How many of `after` must be over; 0: all."""
    cancels: tuple[str, ...] = ()
    """Nodes that are stopped when a join is over; in the graph's order they must follow each other."""

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
        if self.otherwise and "probability" in self.model_fields_set:
            problems.append(Problem("probability", "and otherwise exclude each other", self.probability))
        for name in ("input_tokens", "result_tokens"):
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                problems.append(Problem(name, "must not be negative", value))
        if problems:
            raise Inconsistent(problems)
        return self
