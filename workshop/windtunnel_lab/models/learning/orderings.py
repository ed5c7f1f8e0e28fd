"""Published orders of algorithms, run on the small Markov language: which of them the proxy shows.

Settings stand here and were written before the first run: AdamW at a constant learning rate of 2e-3, eight workers with
batches of eight, 1,500 local steps, rounds of 25, seeds 1 and 2, unless a contender says otherwise. Every contender
also runs at twice its learning rate, one worker alone and data parallelism run next to it, and the validity gate has
its say. What was changed after a first run is a row of its own that says so (`changed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.curves import CurveKey, job_of, task_of
from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.drivers.lock_step import Curve
from windtunnel.learning.prepare_learning import prepare_learning
from windtunnel.learning.simulate import Report, learn_all
from windtunnel.learning.validity import Comparison, FinalLosses, Verdict, compare, judge, noise_width, outer_rounds

SEEDS = (1, 2)
LR = 2e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One run of an ordering, by what differs from the common setting."""

    label: str
    algorithm: str = "diloco"
    knobs: dict[str, Any] = field(default_factory=dict)
    workers: int = 8
    batch: int = 8
    lr: float = LR
    changes: dict[str, Any] = field(default_factory=dict)
    """Other fields of `learning`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What is published of two contenders."""

    better: str
    worse: str
    close: float | None = None
    """None: the first is better. Else: the second's excess loss is at most (1 + close) times the first's."""
    perplexity: tuple[float, float] | None = None
    """Where it stands: shares by which the second's perplexity is above the first's, at least and at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """A published order and its contenders."""

    id: str
    published: str
    source: str
    contenders: tuple[Contender, ...]
    relations: tuple[Relation, ...]
    resolved_before: bool
    """Whether the prototype, on a task of its own, showed it."""
    steps: int = 1500
    relative: bool = False
    """Whether gaps are shares of data parallelism's loss at the same size, not excess loss."""
    cosine: bool = False
    """Whether the learning rate falls along a cosine to a tenth, after 50 steps of warm-up; else it is constant."""
    changed: str = ""
    """What was changed after a first run of the row, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the proxy shows of a relation."""

    relation: Relation
    comparison: Comparison
    outcome: str
    """as published, contrary, or tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An ordering after its runs."""

    ordering: Ordering
    losses: dict[str, Floats]
    """Label → excess loss over the floor by seed (a share of data parallelism's loss where `relative`)."""
    doubled: dict[str, Floats]
    one_worker: Floats
    data_parallel: Floats
    findings: tuple[Finding, ...]
    verdicts: dict[str, Verdict]

    @property
    def direction(self) -> str:
        """As published: every relation is; contrary: one is; tie: what is left."""
        outcomes = {f.outcome for f in self.findings}
        if outcomes == {"as published"}:
            return "as published"
        return "contrary" if "contrary" in outcomes else "tie"

    @property
    def resolved(self) -> bool:
        """Whether the gate lets every contender pass and no relation is a tie."""
        return self.direction != "tie" and all(v.resolved for v in self.verdicts.values())

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the gate does not let contenders pass, each once."""
        return tuple(dict.fromkeys(f"{k}: {r}" for k, v in self.verdicts.items() for r in v.reasons))


def chain(*labels: str) -> tuple[Relation, ...]:
    """Each better than the next."""
    return tuple(Relation(better=a, worse=b) for a, b in pairwise(labels))


def _periods(*periods: int) -> tuple[Contender, ...]:
    return tuple(Contender(label=f"H {h}", knobs={"period": h}) for h in periods)


_H25 = {"period": 25}
_SGD = {"inner": {"sgd": {"momentum": 0.9}}}
_SIZES = {"1.3k": (8, 16), "6.8k": (16, 64), "43k": (46, 190)}
_SLOW = {"speeds": {"factors": [1.0, 1.0, 2.0, 4.0]}, "step_s": 1.0}

_FIRST: tuple[Ordering, ...] = (
    Ordering(
        id="outer-momentum",
        published="Nesterov's momentum outside beats plain averaging",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=(
            Contender(label="Nesterov", knobs=_H25),
            Contender(label="average", algorithm="local_sgd", knobs=_H25),
        ),
        relations=chain("Nesterov", "average"),
        resolved_before=True,
    ),
    Ordering(
        id="period",
        published="loss rises slowly with the local steps of a round",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=_periods(10, 25, 100, 250),
        relations=chain("H 10", "H 25", "H 100", "H 250"),
        resolved_before=True,
    ),
    Ordering(
        id="period-fifty-rounds",
        published="the same, with 50 rounds of the longest",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=_periods(10, 25, 100, 250),
        relations=chain("H 10", "H 25", "H 100", "H 250"),
        resolved_before=True,
        steps=12_500,
    ),
    Ordering(
        id="replicas",
        published="more replicas with the same steps each are better",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=tuple(Contender(label=f"M {m}", knobs=_H25, workers=m) for m in (16, 8, 4, 2)),
        relations=chain("M 16", "M 8", "M 4", "M 2"),
        resolved_before=True,
    ),
    Ordering(
        id="fixed-tokens",
        published="with tokens fixed, one replica is as good as data parallelism, and loss rises with replicas",
        source="Charles et al. 2025 (arXiv 2503.09799)",
        contenders=(
            Contender(label="data parallel", algorithm="data_parallel"),
            *(Contender(label=f"M {m}", knobs=_H25, workers=m, batch=64 // m) for m in (1, 2, 4, 8)),
        ),
        relations=(
            Relation(better="data parallel", worse="M 1", close=0.0),
            *chain("M 1", "M 2", "M 4", "M 8"),
        ),
        resolved_before=True,
    ),
    Ordering(
        id="lost-gradients",
        published="half of the outer gradients lost costs little (below 5 % of the excess)",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=(
            Contender(label="none lost", knobs=_H25),
            Contender(label="half lost", knobs={**_H25, "drop": 0.5}),
        ),
        relations=(Relation(better="none lost", worse="half lost", close=0.05),),
        resolved_before=True,
    ),
    Ordering(
        id="overlap",
        published="no overlap is best, then eager, then delayed with half the outer rate, then delayed",
        source="Kale, Douillard and Donchev 2025 (arXiv 2502.12996)",
        contenders=(
            Contender(label="none", knobs=_H25, workers=2),
            Contender(label="eager", algorithm="eager-diloco", knobs=_H25, workers=2),
            Contender(
                label="delayed, half the outer rate",
                algorithm="eager-diloco",
                knobs={**_H25, "mode": "delayed", "outer_lr": 0.35},
                workers=2,
            ),
            Contender(label="delayed", algorithm="eager-diloco", knobs={**_H25, "mode": "delayed"}, workers=2),
        ),
        relations=chain("none", "eager", "delayed, half the outer rate", "delayed"),
        resolved_before=True,
    ),
    Ordering(
        id="four-bits",
        published="four bits are free, a quarter kept at random is not",
        source="Douillard et al. 2025 (arXiv 2501.18512)",
        contenders=(
            Contender(label="32 bits", knobs=_H25),
            Contender(label="4 bits", knobs={**_H25, "compressor": "float4"}),
            Contender(
                label="random quarter",
                knobs={**_H25, "compressor": {"randk": {"fraction": 0.25, "shared": False}}, "may_stall": True},
            ),
        ),
        relations=(
            Relation(better="32 bits", worse="4 bits", close=0.02),
            Relation(better="4 bits", worse="random quarter"),
        ),
        resolved_before=True,
        changed="the largest quarter, which the prototype found free, is a row of its own since the first run",
    ),
    Ordering(
        id="largest-quarter",
        published="the largest quarter is free, as in the prototype",
        source="none; the prototype's",
        contenders=(
            Contender(label="32 bits", knobs=_H25),
            Contender(
                label="largest quarter",
                knobs={**_H25, "compressor": {"topk": {"fraction": 0.25}}, "may_stall": True},
            ),
        ),
        relations=(Relation(better="32 bits", worse="largest quarter", close=0.02),),
        resolved_before=True,
        changed="was part of the row before; same runs",
    ),
    Ordering(
        id="feedback",
        published="strong compression of gradients needs error feedback",
        source="Karimireddy et al. 2019 (arXiv 1901.09847)",
        contenders=tuple(
            Contender(
                label=f"{what}, {'with' if feedback else 'without'}",
                algorithm="data_parallel",
                knobs={"compressor": compressor, "feedback": feedback, "may_stall": True},
                lr=0.1,
                changes=_SGD,
            )
            for what, compressor in (("top 1 %", {"topk": {"fraction": 0.01}}), ("sign", "sign"))
            for feedback in (1.0, 0.0)
        ),
        relations=(
            Relation(better="top 1 %, with", worse="top 1 %, without"),
            Relation(better="sign, with", worse="sign, without"),
        ),
        resolved_before=True,
    ),
    Ordering(
        id="sparseloco",
        published="three per cent in two bits are as good as dense DiLoCo",
        source="Sarfi et al. 2025 (arXiv 2508.15706)",
        contenders=(
            Contender(label="dense", knobs={"period": 15}),
            Contender(
                label="3 %, 2 bits",
                algorithm="sparseloco",
                knobs={"period": 15, "compressor": {"chain": {"fraction": 0.03, "bits": 2}}},
            ),
        ),
        relations=(Relation(better="dense", worse="3 %, 2 bits", close=0.0),),
        resolved_before=False,
        steps=3000,
    ),
    Ordering(
        id="non-iid",
        published="shards of unlike data cost nothing",
        source="Douillard et al. 2023 (arXiv 2311.08105)",
        contenders=(
            Contender(label="iid", knobs=_H25),
            Contender(label="one topic a worker", knobs=_H25, changes={"split": {"labels": 1}}),
        ),
        relations=(Relation(better="iid", worse="one topic a worker", close=0.0),),
        resolved_before=False,
    ),
    Ordering(
        id="asynchronous",
        published="asynchronous Nesterov is worse than synchronous; delayed Nesterov with dynamic steps is not",
        source="Liu et al. 2024 (arXiv 2401.09135)",
        contenders=(
            Contender(label="synchronous", knobs=_H25, workers=4),
            Contender(label="asynchronous", algorithm="async-diloco", knobs=_H25, workers=4, changes=_SLOW),
            Contender(label="delayed Nesterov", algorithm="delayed-nesterov", knobs=_H25, workers=4, changes=_SLOW),
        ),
        relations=(
            Relation(better="synchronous", worse="asynchronous"),
            Relation(better="synchronous", worse="delayed Nesterov", close=0.0),
        ),
        resolved_before=False,
    ),
    Ordering(
        id="size",
        published="the gap of eight replicas to data parallelism shrinks with the model",
        source="Charles et al. 2025 (arXiv 2503.09799)",
        contenders=tuple(
            Contender(
                label=size,
                knobs=_H25,
                changes={"task": {"markov-lm": {"embedding": embedding, "hidden": hidden}}},
            )
            for size, (embedding, hidden) in _SIZES.items()
        ),
        relations=chain("43k", "6.8k", "1.3k"),
        resolved_before=False,
        relative=True,
    ),
)


_COSINE = "the papers' schedule in place of a constant rate, since the row did not hold in the first run"

ORDERINGS: tuple[Ordering, ...] = (
    *_FIRST,
    replace(
        next(o for o in _FIRST if o.id == "lost-gradients"),
        id="lost-gradients-perplexity",
        published="half of the outer gradients lost costs 2.1 % of perplexity: sign and order of magnitude",
        relations=(Relation(better="none lost", worse="half lost", perplexity=(0.0021, 0.21)),),
        changed="the published unit in place of a share of the excess loss; same runs",
    ),
    *(
        replace(o, id=f"{o.id}-cosine", cosine=True, changed=_COSINE)
        for o in _FIRST
        if o.id in ("period", "fixed-tokens", "lost-gradients")
    ),
    replace(
        next(o for o in _FIRST if o.id == "period"),
        id="period-fifty-rounds-cosine",
        published="loss rises with the local steps of a round: those periods that have 50 rounds",
        contenders=_periods(10, 25),
        relations=chain("H 10", "H 25"),
        cosine=True,
        changed=f"{_COSINE}; same runs as those of the row of four periods",
    ),
)


def run_ordering(ordering: Ordering, *, cache: bool = True, report: Report | None = None) -> Judged:
    """Train every contender for real at its learning rate and at twice that, and judge.

    Args:
        ordering: Of `ORDERINGS`, or one's own.
        cache: Whether curves that were learned before are taken, and new ones kept.
        report: Called as curves are learned.
    """
    keys = {(c.label, times): _keys(c, ordering, times) for c in ordering.contenders for times in (1, 2)}
    first = ordering.contenders[0]
    alone = replace(first, algorithm="data_parallel", knobs={})
    keys["one", 1] = _keys(replace(alone, workers=1, batch=8), ordering, 1)
    keys["parallel", 1] = _keys(replace(alone, workers=8, batch=8), ordering, 1)
    if ordering.relative:
        for c in ordering.contenders:
            for times in (1, 2):
                parallel_keys = _keys(replace(c, algorithm="data_parallel", knobs={}), ordering, times)
                keys[f"parallel {c.label}", times] = parallel_keys
    learned = learn_all([key for several in keys.values() for key in several], cache=cache, report=report)

    def ends(name: str, times: int = 1) -> Floats:
        out = []
        for key in keys[name, times]:
            found = learned.of(key)
            assert found is not None
            floor = 0.0 if ordering.relative else task_of(key).floor or 0.0
            out.append(float(found.curve.loss[-1]) - floor if _finished(found.curve) else np.inf)
        return np.array(out)

    def of(c: Contender, times: int) -> Floats:
        return (
            ends(c.label, times) / ends(f"parallel {c.label}", times) - 1 if ordering.relative else ends(c.label, times)
        )

    losses = {c.label: of(c, 1) for c in ordering.contenders}
    doubled = {c.label: of(c, 2) for c in ordering.contenders}
    one, parallel = ends("one"), ends("parallel")
    if ordering.relative:
        one, parallel = one / parallel - 1, np.zeros_like(parallel)
    rounds = {c.label: _rounds(keys[c.label, 1][0]) for c in ordering.contenders}
    final = [
        FinalLosses(label=name, loss=losses[name], doubled=doubled[name], outer_rounds=rounds[name]) for name in losses
    ]
    noise = noise_width([one, parallel, *losses.values()])
    return Judged(
        ordering=ordering,
        losses=losses,
        doubled=doubled,
        one_worker=one,
        data_parallel=parallel,
        findings=tuple(_finding(r, losses, noise) for r in ordering.relations),
        verdicts=judge(final, one_worker=one, data_parallel=parallel),
    )


def _finished(curve: Curve | ArrivalCurve) -> bool:
    """Whether a run did not diverge."""
    return curve.ended != "diverged" if isinstance(curve, ArrivalCurve) else curve.diverged_at is None


def _finding(relation: Relation, losses: dict[str, Floats], noise: float) -> Finding:
    """Whether a relation is as published, contrary, or a tie within the noise."""
    better, worse = losses[relation.better], losses[relation.worse]
    if relation.perplexity is not None:
        low, high = (float(np.log1p(share)) for share in relation.perplexity)
        found = compare(better, worse, noise)
        return Finding(
            relation=relation, comparison=found, outcome="as published" if low <= found.gap <= high else "contrary"
        )
    if relation.close is None:
        found = compare(better, worse, noise)
        return Finding(relation=relation, comparison=found, outcome=_OUTCOMES[found.direction])
    allowed = (1.0 + relation.close) * better
    found = compare(allowed, worse, noise)
    return Finding(relation=relation, comparison=found, outcome="contrary" if found.direction > 0 else "as published")


_OUTCOMES = {1: "as published", -1: "contrary", 0: "tie"}


def _keys(contender: Contender, ordering: Ordering, times: int) -> list[CurveKey]:
    """One key a seed, as a scenario of `learn` would have it."""
    c, steps = contender, ordering.steps
    falling = {"peak": c.lr * times, "warmup_steps": 50, "decay": "cosine"}
    section = {
        "task": "markov-lm",
        "workers": c.workers,
        "batch": c.batch,
        "steps": steps,
        "evaluate_every": steps,
        "lr": falling if ordering.cosine else c.lr * times,
        "seed": SEEDS[0],
        "seeds": len(SEEDS),
        "algorithms": [{c.algorithm: c.knobs}],
        **c.changes,
    }
    prepared = prepare_learning({"learning": section})
    return [prepared.key(prepared.algorithms[0], seed) for seed in prepared.seeds]


def _rounds(key: CurveKey) -> int:
    """Outer rounds of a run; those of arrival-driven algorithms are arrivals of a worker."""
    kind = ALGORITHMS.get(key.algorithm)
    if kind.driver == "arrivals":
        return key.steps // int(key.algorithm_knobs.get("period", 1))
    workers = max(2, key.workers)  # one worker alone sends nothing, but its rounds end all the same
    job = job_of(replace(key, workers=workers), task_of(key).shapes)
    return outer_rounds(kind.build(job, dict(key.algorithm_knobs)), key.steps)


def every(ids: Sequence[str] = ()) -> tuple[Ordering, ...]:
    """Orderings by id, all where none is named."""
    return tuple(o for o in ORDERINGS if not ids or o.id in ids)
