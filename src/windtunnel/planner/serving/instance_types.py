"""Kinds of instances: every legal cut of the model on every device type, engine and precision, priced once each.

A kind's iteration model covers all batch limits of the search; its limits and cache at given batch limits are resolved
when a candidate is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Mask
from windtunnel.cost.serving import ServingCoefficients, serving_coefficients
from windtunnel.errors import BadInput, Infeasible, Problem, ProblemList
from windtunnel.planner.deadline import GRACE_S, Deadline
from windtunnel.planner.serving.question import Place, Question
from windtunnel.serving import engine_defaults
from windtunnel.serving.deployment import lane_limits
from windtunnel.serving.engine_defaults import Instance
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.iteration.iteration_model import IterationModel, iteration_model
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.speculation import with_drafts
from windtunnel.specs.serving import PoolSpec, ServingPlan, ServingSpec

SEQUENCES = (8, 16, 32, 64, 128, 256, 512, 1024)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384)
"""Batch limits that are tried where the scenario says none, next to the engine's own."""


@dataclass(slots=True, eq=False, kw_only=True)
class InstanceType:
    """One cut of the model on one device type under one engine and precision."""

    place: Place
    serving: ServingSpec
    """With its engine and precision."""
    plan: ServingPlan
    instance: Instance
    """At the smallest batch limits of the search: no other limits leave more cache."""
    iteration: IterationModel
    coefficients: ServingCoefficients
    sequences: tuple[int, ...]
    tokens: tuple[int, ...]
    """Batch limits to choose from."""
    legal: Mask
    """(S, T): pairs of them that the engine's release starts with."""
    default: tuple[int, int]
    """The engine's own."""
    model: Any
    _table: Floats | None = None
    _token_s: Floats | None = None
    _resolved: dict[tuple[int, int], Instance | None] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """Devices of one instance."""
        return self.plan.num_devices

    @property
    def lanes(self) -> int:
        """Instances of the loop for each instance."""
        return self.plan.pp

    @property
    def ranks(self) -> int:
        """Ranks that have batch limits of their own."""
        return self.plan.dp if self.instance.defaults.per_rank else 1

    def lane_sequences(self) -> Floats:
        """(S,) sequences of one lane, of all its ranks together."""
        return np.array([float(max(s * self.ranks // self.lanes, 1)) for s in self.sequences])

    def lane_tokens(self) -> Floats:
        """(T,) tokens of an iteration."""
        return np.array([float(t * self.ranks) for t in self.tokens])

    def pool(self, base: PoolSpec, sequences: int, tokens: int, replicas: int) -> PoolSpec:
        """The pool of a candidate, as a scenario writes it."""
        limits = base.limits.model_copy(update={"max_num_seqs": sequences, "max_num_batched_tokens": tokens})
        update = {"plan": self.plan, "limits": limits, "replicas": replicas}
        return base.model_copy(update=update if self.place.group is None else update | {"group": self.place.group})

    def resolved(self, base: PoolSpec, sequences: int, tokens: int) -> Instance | None:
        """An instance at batch limits; None where the engine does not start."""
        key = sequences, tokens
        if key not in self._resolved:
            problems, pool = ProblemList(None), self.pool(base, sequences, tokens, 1)
            try:
                found = engine_defaults.resolve(self.serving, pool, self.model, self.place.cluster, problems)
            except Infeasible:
                self._resolved[key] = None
            else:
                self._resolved[key] = None if problems else found
        return self._resolved[key]

    def limits(self, base: PoolSpec, sequences: int, tokens: int) -> Limits | None:
        """What the loop reads of one lane at batch limits; None where the engine does not start."""
        found = self.resolved(base, sequences, tokens)
        return None if found is None else lane_limits(self.iteration, found, seed=self.serving.traffic.seed)

    def tables(self, most: int) -> Floats:
        """Seconds of iterations up to so many tokens, as `loop.serve` takes them."""
        if self._table is None or self._table.shape[1] <= most:
            self._table = self.iteration.tables(max(most, int(self.iteration.linear.tokens[-1])))
        return self._table[:, : most + 1]

    def token_s(self, most: int) -> Floats:
        """Least seconds a token of any iteration of up to 1, 2, … tokens, at least `most` entries."""
        if self._token_s is None or len(self._token_s) < most:
            table = self.tables(max(most, int(self.iteration.linear.tokens[-1])))[0]
            rising = np.minimum.accumulate(table[::-1])[::-1]  # the largest series below that never falls
            self._token_s = np.minimum.accumulate(rising[1:] / np.arange(1, len(rising)))
        return self._token_s

    @property
    def step_s(self) -> float:
        """Least seconds of an iteration, its table alone."""
        return float(self.iteration.linear.seconds.min() + self.iteration.base_s)

    def usual(self) -> tuple[float, float]:
        """Sequences of one lane and tokens of an iteration at the engine's own limits, or those of the scenario."""
        s, t = self.usual_places()
        return float(self.lane_sequences()[s]), float(self.lane_tokens()[t])

    def usual_places(self) -> tuple[int, int]:
        """Their places among the limits to choose from."""
        own = self.default
        s = self.sequences.index(own[0]) if own[0] in self.sequences else len(self.sequences) - 1
        t = self.tokens.index(own[1]) if own[1] in self.tokens else len(self.tokens) - 1
        return s, t

    def sequences_with(self, tokens: int) -> int:
        """Place of the most sequences, up to the usual ones, that the engine starts with at a place of tokens."""
        usual = self.usual_places()[0]
        able = np.flatnonzero(self.legal[: usual + 1, tokens])
        return int(able[-1]) if len(able) else usual

    def tokens_with(self, sequences: int) -> int:
        """Place of the tokens, the usual ones or the next larger, that the engine starts with at some sequences."""
        usual = self.usual_places()[1]
        able = np.flatnonzero(self.legal[sequences, usual:])
        return usual + (int(able[0]) if len(able) else 0)

    def axes(self) -> dict[str, Any]:
        """What tells it from other kinds."""
        p, s = self.plan, self.serving
        return {
            "device": self.place.cluster.device.id,
            "engine": s.engine,
            "weights": s.precision.weights or "bf16",
            "kv_cache": s.precision.kv_cache,
            "tp": p.tp,
            "pp": p.pp,
            "dp": p.dp,
            "ep": p.ep,
        }


@dataclass(frozen=True)
class Kinds:
    """All kinds of a search, and what was left out."""

    kinds: list[InstanceType]
    excluded: dict[str, int]
    nearest: str
    """The kind that lacks least memory, in words, where none fits."""
    unbuilt: bool = False
    """Whether time was up before every kind was priced."""


def kinds_of(question: Question, longest: int = 0, until: Deadline | None = None) -> Kinds:
    """Every legal kind that leaves room for a cache.

    Args:
        question: what is asked.
        longest: tokens of the longest prompt and answer, which policies that do not cut prompts compute at once.
        until: `GRACE_S` later no further kind is priced, once there is one.

    Raises:
        BadInput: a scenario that no engine can serve.
    """
    excluded: dict[str, int] = {}
    kinds: list[InstanceType] = []
    nearest, refused = "", list[Problem]()
    space = question.wanted.space
    most = question.wanted.limits.devices or 10**9
    late = False
    for place, engine, weights, cache in product(
        question.places,
        space.engine or (question.serving.engine,),
        space.weights or (question.serving.precision.weights,),
        space.kv_cache or (question.serving.precision.kv_cache,),
    ):
        precision = question.serving.precision.model_copy(update={"weights": weights, "kv_cache": cache})
        update: dict[str, Any] = {"engine": engine, "precision": precision, "pools": (question.pool,)}
        if engine != question.serving.engine:
            update["engine_version"] = ""
        serving = question.serving.model_copy(update=update)
        for plan in _plans(question, place, min(most, place.cluster.num_devices)):
            if late := bool(kinds) and until is not None and until.left_s < -GRACE_S:
                break
            problems = ProblemList(question.lines)
            try:
                kinds.append(_kind(question, place, serving, plan, longest, problems))
            except Infeasible as error:
                excluded["does not fit in memory"] = excluded.get("does not fit in memory", 0) + 1
                nearest = nearest or f"{error} ({_words(plan)})"
            except BadInput as error:
                refused = refused or list(error.problems)
                rule = error.problems[0].rule if error.problems else str(error)
                excluded[rule] = excluded.get(rule, 0) + 1
    if not kinds and refused and not nearest:
        raise BadInput(refused)
    return Kinds(kinds, excluded, nearest, late)


def _words(plan: ServingPlan) -> str:
    return " ".join(f"{n} {getattr(plan, n)}" for n in ("tp", "pp", "dp", "ep"))


def _plans(question: Question, place: Place, most: int) -> Iterator[ServingPlan]:
    """Legal cuts on a cluster."""
    space, own, model = question.wanted.space, question.pool.plan, question.model
    domain = place.cluster.scale_up_domain

    def values(axis: str, default: list[int]) -> list[int]:
        listed = getattr(space, axis)
        if listed:
            return sorted({*listed})
        return [getattr(own, axis)] if axis in question.pinned else default

    powers = [1 << k for k in range(11)]
    heads, depth = model.num_attention_heads, len(model.layer_kinds())
    mixture = bool(model.num_experts)
    for tp in values("tp", [p for p in powers if p <= domain and heads % p == 0]):
        for pp in values("pp", [p for p in powers if p <= min(depth, 8)]):
            for dp in values("dp", [p for p in powers if p <= 64] if mixture else [1]):
                if tp * pp * dp > most:
                    continue
                both = [e for e in powers if e == 1 or (e == tp * dp and model.num_experts % e == 0)]
                for ep in values("ep", both if mixture else [1]):
                    if dp == 1 or mixture or space.dp or "dp" in question.pinned:
                        yield ServingPlan(tp=tp, pp=pp, dp=dp, ep=ep)


def _kind(
    question: Question, place: Place, serving: ServingSpec, plan: ServingPlan, longest: int, problems: ProblemList
) -> InstanceType:
    space, told = question.wanted.space, question.pool.limits
    model, cluster = question.model, place.cluster
    default = engine_defaults.resolve(
        serving, question.pool.model_copy(update={"plan": plan}), model, cluster, problems
    )
    problems.raise_if_any()
    ranks = plan.dp if default.defaults.per_rank else 1
    own = default.limits.max_seqs // ranks, default.limits.budget // ranks
    open_batch = (
        () if question.free and question.load == "concurrency" else SEQUENCES
    )  # what is in flight bounds the batch
    sequences = space.max_num_seqs or ((told.max_num_seqs,) if told.max_num_seqs else (*open_batch, own[0]))
    tokens = space.max_num_batched_tokens or (
        (told.max_num_batched_tokens,) if told.max_num_batched_tokens else (*TOKENS, own[1])
    )
    sequences, tokens, legal = _legal_limits(serving, default, sorted({*sequences}), sorted({*tokens}))
    first = int(np.argmax(legal[0])) if len(legal) else 0
    least = question.pool.limits.model_copy(
        update={"max_num_seqs": sequences[0], "max_num_batched_tokens": tokens[first]}
    )
    instance = engine_defaults.resolve(
        serving, question.pool.model_copy(update={"plan": plan, "limits": least}), model, cluster, problems
    )
    problems.raise_if_any()
    coefficients = serving_coefficients(
        serving.engine, serving.engine_version, cluster.device, streamed=serving.streams
    )
    step = instance.limits.step_tokens
    most = (max(tokens[-1], 0 if instance.limits.chunked else longest) + sequences[-1] * step) * ranks
    layers = Layers(model, cluster, instance.shape, coefficients, serving.expert_skew)
    if cluster.power_cap_w is not None or cluster.clock_share is not None:
        from windtunnel.serving.iteration.power_cap import with_power_cap

        iteration = with_power_cap(layers, most_tokens=most, cuda_graphs=instance.cuda_graphs).iteration
    else:
        iteration = iteration_model(layers, most_tokens=most, cuda_graphs=instance.cuda_graphs, engine=False)
    iteration = with_drafts(
        iteration,
        instance.drafting,
        model,
        cluster,
        instance.shape,
        coefficients,
        skew=serving.expert_skew,
        engine=False,
    )
    return InstanceType(
        place=place,
        serving=serving,
        plan=plan,
        instance=instance,
        iteration=iteration,
        coefficients=coefficients,
        sequences=sequences,
        tokens=tokens,
        legal=legal,
        default=own,
        model=model,
    )


def _legal_limits(
    serving: ServingSpec, instance: Instance, sequences: list[int], tokens: list[int]
) -> tuple[tuple[int, ...], tuple[int, ...], Mask]:
    """Batch limits that the engine's release starts with together with another, and (S, T) which of them do."""
    version = engine_defaults.version_of(serving.engine_version)
    able = engine_defaults.legal_limits(serving.engine, version, instance.facts, sequences, tokens)
    rows, columns = np.flatnonzero(able.any(axis=1)), np.flatnonzero(able.any(axis=0))
    if not len(rows):  # `resolve` says why
        rows, columns = np.arange(len(sequences)), np.arange(len(tokens))
    return tuple(sequences[i] for i in rows), tuple(tokens[j] for j in columns), able[np.ix_(rows, columns)]
