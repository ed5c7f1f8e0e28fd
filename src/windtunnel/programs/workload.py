"""Problems as a simulation draws them: their tokens, how hard they are, and which attempts are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.programs.attempt_lengths import AttemptLengths
from windtunnel.programs.quality import Quality
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.programs import ProgramsSpec, VerifierSpec

DIFFICULTY, RIGHT, TOKENS, SCORES, TOOLS, TEXTS = 31, 32, 33, 34, 35, 36
"""Streams of random numbers next to a seed; strategies draw theirs from 40 on."""
ANSWERS, VERIFIER = 0, 1
"""Groups of instances: those of the model that answers, and those of the verifier."""


@dataclass(slots=True, kw_only=True)
class Workload:
    """P problems. Draws do not depend on the strategy: two strategies see the same problems, in the same order."""

    spec: ProgramsSpec
    p: Floats
    """(P,) chance that one attempt at each problem is right."""
    prompt_tokens: Ints
    """(P,) tokens of each problem."""
    lengths: AttemptLengths
    quality: Quality
    seed: int
    folder: Path = Path()
    """That files of knobs are relative to."""
    verifier_pool: int = ANSWERS
    """Group of instances that scores: `VERIFIER`, or `ANSWERS` where the model scores itself."""
    roles: Mapping[str, int] = field(default_factory=dict)
    """Groups of instances of further models, by name."""
    _drawn: dict[int, int] = field(default_factory=dict)

    @property
    def problems(self) -> Ints:
        """(P,) numbers of all problems."""
        return np.arange(len(self.p))

    @property
    def verifier(self) -> VerifierSpec:
        """What scores; as assumed where the scenario says nothing."""
        return self.spec.verifier or VerifierSpec()

    def random(self, which: int) -> Generator:
        """Random numbers of one use, the next ones each time."""
        self._drawn[which] = self._drawn.get(which, 0) + 1
        return np.random.default_rng((self.seed, which, self._drawn[which]))

    def questions(self, graph: ProgramGraph) -> Ints:
        """(P,) texts: the system prompt that all share and each problem."""
        system = graph.shared_text(self.spec.system_tokens) if self.spec.system_tokens else NONE
        return graph.text(self.problems, self.prompt_tokens, context=system)

    def attempts(self, problem: Ints) -> Mask:
        """(B,) whether each attempt at a problem is right, independently given the problem."""
        return self.random(RIGHT).random(len(problem)) < self.p[problem]

    def answer_tokens(self, right: Mask, share: float = 1.0) -> Ints:
        """(B,) tokens of attempts that are right or wrong, times a share (of a step in a whole answer)."""
        return self.lengths.draw(right, self.random(TOKENS), share)

    def new_tokens(self, spec: int | Lengths, count: int) -> Ints:
        """(count,) tokens of a text that callers add, 0 included."""
        if isinstance(spec, int):
            return np.full(count, spec, np.int64)
        self._drawn[TEXTS] = self._drawn.get(TEXTS, 0) + 1
        return lengths.draw(spec, count, self.seed * 1009 + self._drawn[TEXTS], lengths.INPUT).astype(np.int64)

    def score(self, graph: ProgramGraph, problem: Ints, questions: Ints, answers: Ints) -> Ints:
        """(B,) calls of the verifier, each of which reads a problem and one answer.

        Args:
            graph: of the programs.
            problem: (B,) problems.
            questions: (B,) texts of theirs.
            answers: (B,) calls that are scored.
        """
        own = self.verifier
        output = self.new_tokens(own.output_tokens, len(problem))
        return graph.call(
            problem,
            context=questions,
            joined=answers,
            new=self.new_tokens(own.input_tokens, len(problem)),
            output=np.maximum(output, 1),
            pool=self.verifier_pool,
        )

    def score_steps(self, graph: ProgramGraph, problem: Ints, steps: Ints) -> Ints:
        """(B,) calls of the verifier that go on from (B,) steps: what it has read of their beginnings stays cached."""
        own = self.verifier
        return graph.call(
            problem,
            context=steps,
            new=self.new_tokens(own.input_tokens, len(problem)),
            output=np.maximum(self.new_tokens(own.output_tokens, len(problem)), 1),
            pool=self.verifier_pool,
        )

    def verdicts(self, right: Mask, rates: tuple[float, float]) -> Mask:
        """(B,) whether the verifier accepts each of (B,) attempts, by its rates for right and for wrong ones."""
        return self.random(SCORES).random(right.shape) < np.where(right, *rates)

    def tool_seconds(self, name: str, count: int) -> Floats:
        """(count,) seconds of service of a tool."""
        own = self.spec.tools[name]
        drawn = self.random(TOOLS).standard_exponential(count) if own.distribution == "exponential" else np.ones(count)
        return np.asarray(own.seconds * drawn, np.float64)

    def tool_rates(self, name: str) -> tuple[float, float]:
        """Shares of right and of wrong attempts that a tool accepts; without any it makes no error."""
        own = self.spec.tools[name]
        return (
            1.0 if own.true_accept is None else own.true_accept,
            0.0 if own.false_accept is None else own.false_accept,
        )

    def pool_of(self, name: str) -> int:
        """Group of instances that serves a model: `answers`, `verifier`, or one of `programs.roles`."""
        return self.verifier_pool if name == "verifier" else self.roles.get(name, ANSWERS)

    def tool_class(self, name: str) -> int:
        """Number of a tool's class of servers; −1 where there is always room."""
        limited = [n for n, own in self.spec.tools.items() if own.concurrency is not None]
        return limited.index(name) if name in limited else NONE


def drawn_difficulty(points: Floats, count: int, seed: int) -> Floats:
    """(count,) success probabilities spread evenly over a population's points, in random order."""
    even = points[((np.arange(count) + 0.5) * len(points) / count).astype(np.int64)]
    return stream(seed, DIFFICULTY).permutation(even)
